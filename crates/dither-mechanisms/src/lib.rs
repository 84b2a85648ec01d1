//! The mechanisms: exact integers in, noisy integers out.
//!
//! # Why it exists
//! This is the only crate that reads a [`Sensitive`](dither_core::Sensitive) value, and it reads one only to add
//! noise. Each mechanism derives its noise and the event that is charged from the same fields, so they cannot
//! disagree.
//!
//! # What this crate does not do
//! It computes no aggregate and bounds no contribution (`dither-query` does), sums up no privacy loss
//! (`dither-accounting` does) and records nothing (`dither-ledger` does). Other code cannot apply a mechanism:
//! [`Mechanism::apply`](dither_core::Mechanism::apply) takes an open gate, and only a charge opens it.
//!
//! # Where to start
//! [`TableMechanism`] is what a query becomes: [`Block`]s of columns with one [`Noise`] each, and a [`KeyRule`].
//! [`Laplace`], [`Gaussian`] and [`Threshold`] are its parts. `docs/adding-a-mechanism.md` tells how to add one.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod error;
mod gaussian;
mod laplace;
#[cfg(doctest)]
pub mod misuse;
mod plan;
mod saturate;
mod table;
mod threshold;

#[cfg(test)]
mod tests;

pub use error::MechanismError;
pub use gaussian::Gaussian;
pub use laplace::Laplace;
pub use plan::PlanMechanism;
pub use table::{Block, ExactRow, ExactTable, KeyRule, Noise, NoisyRow, NoisyTable, TableMechanism};
pub use threshold::Threshold;
