//! Fixtures and statistical tests with stated false-alarm rates.
//!
//! # Why it exists
//! A test of noise is itself random. Here every verdict is a finite-sample bound with a false-alarm rate that the
//! caller states, [`FALSE_ALARM`] by default, and every such test is run once more against a seeded bug that it
//! must catch. Streams are seeded, so a verdict does not change from run to run.
//!
//! # What this crate does not do
//! It is a dev-dependency: no product code may use it, and it knows no privacy logic. Its streams are
//! predictable on purpose.
//!
//! # Where to start
//! [`SeededBytes`] for a stream, [`Random`] and [`questions`] for made-up tables and what is asked about them, [`fit`] for distributions, [`binomial`] for rates and [`neighbours`] for pairs
//! of tables.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod binomial;
pub mod cluster;
pub mod columnar;
pub mod fit;
pub mod lattice;
pub mod naive;
pub mod neighbours;
pub mod pmf;
pub mod postgres;
pub mod proxy;
pub mod questions;
pub mod random;
pub mod stream;
pub mod welch;

pub use cluster::Cluster;
pub use columnar::{Values, write_parquet};
pub use postgres::Postgres;
pub use random::Random;
pub use stream::{SeededBytes, StubBytes};

/// A number that the environment sets for a long run, and what it is otherwise.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The false-alarm rate of every statistical test: one in 10⁹ correct samplers is rejected.
pub const FALSE_ALARM: f64 = 1e-9;
