//! Which rows of a unit count, and their exact sums.
//!
//! ```text
//! rows (unit, key, integers) ─▶ Buckets: by unit ─▶ select: at most R rows per unit and key, ─▶ Totals: per key
//!                               (spill, prune)              at most L0 keys per unit               units, rows, sums
//! ```
//!
//! All of a unit's rows meet in one bucket. There they are sorted by unit and key, and only where a unit is over a
//! limit are its keys or rows hashed: the ones with the smallest keyed hashes stay. The smallest of a whole are among
//! the smallest of its parts, so a bucket can be pruned at any time, and order, threads and spilling change nothing.
//!
//! # What this crate does not do
//! It knows neither SQL nor Arrow, and it is not where the limits come from. The hashes are those of the portable plan
//! in `dither-query::bound`, which is the reference.
//!
//! # Where to start
//! [`Buckets`] takes rows, [`bound`] turns buckets into [`Totals`].
//!
//! # Privacy
//! One unit changes at most L0 keys of the totals, in each of them the number of units by at most one, of rows by at
//! most R, a sum by at most R times the largest magnitude of its integers, and ΣA² + 2ΣAB + ΣB² of a [`Square`] by at most
//! the square of R times the range of its column. Which rows of one unit are kept is
//! independent of the rows of all others.

#![deny(missing_docs)]

mod buckets;
mod hash;
pub mod lattice;
mod names;
mod owners;
mod rows;
mod select;
mod spill;
mod text;
mod totals;

#[cfg(test)]
mod tests;

pub use buckets::Buckets;
pub use hash::KeyedHash;
pub use names::{Dictionary, Names, Part};
pub use owners::{Owners, Pairs};
pub use rows::{DROPPED, Layout, Mapping, NULL, Rows, Share, Units};
pub use select::{Limits, Rule, Scratch, bound, prune};
pub use totals::{Columns, Square, Totals};
