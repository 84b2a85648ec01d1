//! Federated rounds: secure aggregation, and differential privacy for each client as a whole.
//!
//! # Why it exists
//! Where data may not leave its owners, models travel instead. What an owner sends back still tells about their data, so
//! two questions have to be answered: who sees one client's update, and what does the sum of all say about one client.
//! [`secagg`] answers the first: the server learns the sum and nothing else. [`DistributedGaussian`] and [`Plan`] answer
//! the second: every update is clipped, the sum is noised, and a [`Guarantee`] says at which ε. Where two servers are at
//! hand that do not collude, the feature `homomorphic` has another answer to the first, without masks.
//!
//! # What this crate does not do
//! It opens no connection: messages are values that can be serialised, and [`simulate`](Plan::simulate) passes them on in
//! this process. It trains nothing: an update is a slice of `f32`. It keeps no ledger: charge [`Guarantee::charge`] before
//! the first round. It signs no keys: whose they are is for its caller to know; see [`secagg`].
//!
//! # Where to start
//! [`Plan::new`] and [`Plan::simulate`] for whole rounds, [`secagg::run`] for a sum of integers,
//! [`DistributedGaussian`] for noise that no single party adds.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod clip;
mod discrete;
mod error;
mod guarantee;
#[cfg(feature = "homomorphic")]
pub mod homomorphic;
mod rounds;
pub mod secagg;
#[cfg(test)]
mod tests;

pub use clip::clip_to_lattice;
pub use discrete::DistributedGaussian;
pub use error::{PlanError, RoundError};
pub use guarantee::Guarantee;
pub use rounds::{Client, Plan, Settings, Trust, secure_round};
