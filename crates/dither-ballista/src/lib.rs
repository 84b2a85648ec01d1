//! Apache DataFusion Ballista as an engine: the portable half of a question on a cluster, and the cluster's processes.
//!
//! The portable plan of `dither-query` is planned here, sent to a scheduler as one physical plan, cut into stages
//! there and run by executors; the small table of exact integers comes back. Everything that needs trust (charging, choice
//! of keys, noise) is done here as for any other engine. The integers are those of the engine in this process, bit for bit,
//! however the work is split and whatever is run twice.
//!
//! ```no_run
//! use dither_ballista::BallistaEngine;
//! let engine = BallistaEngine::new("ballista://127.0.0.1:50050")?;
//! // Session::open("policy.toml")?.with_engine(Box::new(engine)), with source = "visits/*.parquet" in the policy
//! # Ok::<(), dither_ballista::UrlError>(())
//! ```
//!
//! # Why the cluster may be anybody's
//! The portable plan has functions of DataFusion only, and tables are Parquet files that are read by its own scan under
//! expressions. So nothing of ours runs in an executor, and stock ones do. [`Scheduler`] and [`Executor`] are the same
//! processes with settings that fit.
//!
//! # What this crate does not do
//! It charges nothing and adds no noise. It neither encrypts nor authenticates: see `docs/engines.md`.
//!
//! # Where to start
//! [`BallistaEngine`]; [`Scheduler`] and [`Executor`] for the processes.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod engine;
mod message;
mod place;
mod process;
mod state;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "the helpers of tests may fail like tests")]
mod tests;

pub use engine::BallistaEngine;
pub use place::UrlError;
pub use process::{Executor, ProcessError, Scheduler};
