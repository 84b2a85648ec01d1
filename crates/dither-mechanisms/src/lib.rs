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
//! [`TableMechanism`] is what a query becomes: [`Block`]s of columns with one [`Noise`] each, [`Quantiles`], [`FoundBounds`], and a
//! [`KeyRule`]. [`Laplace`], [`Gaussian`] and [`Threshold`], whose noise may be [`TruncatedGeometric`], are its parts.
//! [`Selection`] leads to the mechanisms that choose,
//! [`Training`] adds noise to the sums of a training run. [`SparseVector`] compares with a threshold, [`VectorNoise`] and [`Staircase`] add noise to numbers outside of a
//! table. [`RandomizedResponse`] and [`UnaryEncoding`] run on a user's own device. `docs/adding-a-mechanism.md` tells how to add one.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod error;
mod exponential;
mod found;
mod frequency;
mod gaussian;
mod laplace;
mod magnitudes;
#[cfg(doctest)]
pub mod misuse;
mod noisy_max;
mod permute_and_flip;
mod plan;
mod quantile;
mod randomized_response;
mod sampler;
mod saturate;
mod selection;
mod sparse_vector;
mod staircase;
mod table;
mod threshold;
mod top_k;
mod training;
mod truncated;
mod unary_encoding;
mod vector;

#[cfg(test)]
mod tests;

pub use error::MechanismError;
pub use exponential::ExponentialMechanism;
pub use found::{Bounds, FoundBounds, FoundSum};
pub use frequency::FrequencyEstimator;
pub use gaussian::Gaussian;
pub use laplace::Laplace;
pub use magnitudes::Magnitudes;
pub use noisy_max::{MaxNoise, NoisyMax};
pub use permute_and_flip::PermuteAndFlip;
pub use plan::PlanMechanism;
pub use quantile::{Fraction, Histogram, Quantiles};
pub use randomized_response::RandomizedResponse;
pub use selection::{ExactVector, MaxSensitivity, Selection};
pub use sparse_vector::SparseVector;
pub use staircase::Staircase;
pub use table::{Block, ExactRow, ExactTable, KeyRule, Noise, NoisyRow, NoisyTable, TableMechanism};
pub use threshold::{KeyNoise, Threshold};
pub use top_k::TopK;
pub use training::{Exact, Noisy, Steps, Training};
pub use truncated::TruncatedGeometric;
pub use unary_encoding::UnaryEncoding;
pub use vector::VectorNoise;
