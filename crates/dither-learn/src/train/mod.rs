//! Training under differential privacy: one plan, one charge, noise on an integer lattice.
//!
//! The way of a run, file by file: [`session`] opens what [`job`] says is wanted, `files` reads what is public, `trainable` makes
//! the model, `rehearsal` tries it on made-up rows, [`forecast`] says what it would cost, [`plan`] fixes every number that the
//! guarantee depends on, [`key`] holds the one secret, [`data`] holds the rows after the charge, [`sampler`] draws who takes
//! part in a step, `sums` adds clipped gradients up on several threads, [`noise`] brings the sums onto the lattice,
//! [`adaptive`] lets the clipping norm follow them, [`optimizer`] makes weights of noisy sums, [`checkpoint`] keeps them, and
//! [`trainer`] does all that in the one order that is private; [`folder`] reads a model back with its card.
//! `docs/training.md` tells it with its guarantee.

pub mod adaptive;
pub mod card;
pub mod checkpoint;
pub mod data;
pub mod error;
pub mod evaluation;
mod files;
pub mod folder;
pub mod forecast;
pub mod guarded;
pub mod job;
pub mod key;
pub mod linear;
mod lines;
pub mod load;
pub mod memory;
mod mutant;
pub mod noise;
pub mod optimizer;
pub mod plan;
mod published;
pub mod reader;
mod rehearsal;
pub mod sampler;
pub mod session;
mod sums;
pub mod sweep;
mod tokens;
mod trainable;
pub mod trainer;
mod warning;

#[cfg(test)]
mod tests;
