//! Policy and SQL to a priced plan, to exact integers, to a measurement.
//!
//! ```text
//! policy ┐
//!        ├─▶ sql ─▶ Question ─▶ plan ─▶ QueryPlan ─▶ (charge) ─▶ bound ─▶ engine ─▶ exact integers
//! SQL ───┘   (own IR, deny by default)   priced                  portable plan       │ noise
//!                                                                   Answer ◀─ release ┘
//! ```
//!
//! The *portable half* ([`bound`], [`engine`]) is a relational plan of built-in functions whose result is a small
//! table of exact integers; in this process an operator of our own takes its place. The *trusted half* adds the noise in `dither-mechanisms`.
//!
//! # What this crate does not do
//! It charges nothing and draws no noise. Arrow and DataFusion stop here: nothing above sees their types.
//!
//! # Where to start
//! [`policy`] for what a steward declares, [`plan`] for what a question costs, [`sql`] for what may be asked.

#![deny(missing_docs)]

pub mod bound;
pub mod engine;
pub mod error;
pub mod explain;
pub mod export;
pub mod grid;
pub mod ir;
mod operator;
pub mod plan;
pub mod policy;
mod rehearsal;
pub mod relation;
pub mod release;
pub mod source;
pub mod sql;

#[cfg(test)]
mod differential;
#[cfg(test)]
mod testing;

pub use error::{Code, Refusal};
pub use plan::{QueryPlan, Request};
pub use policy::Policy;
