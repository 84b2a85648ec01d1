//! PostgreSQL as an engine: the portable half of a question as one SQL statement, run where the tables lie.
//!
//! Rows stay in the server. The portable plan of `dither-query` is written as SQL, and the small table of exact
//! integers that it makes comes back; everything that needs trust (charging, choice of keys, noise) is done here as for
//! any other engine. The integers are those of the engine in this process, bit for bit.
//!
//! ```no_run
//! use dither_postgres::PostgresEngine;
//! let engine = PostgresEngine::new("postgres://steward@localhost/clinic")?;
//! // Session::open("policy.toml")?.with_engine(Box::new(engine)), with source = "postgres:public.visits" in the policy
//! # Ok::<(), dither_postgres::UrlError>(())
//! ```
//!
//! # Why the statement never fails on a row
//! A list of functions, casts and operators is known; of each, whether it can raise and whether it gives the same value
//! for every row follows from the expression and from how far columns reach. What is not on the list is refused before a
//! charge, and so is what evaluates differently on made-up rows in the very server. See `docs/engines.md`.
//!
//! # What this crate does not do
//! It charges nothing and adds no noise. It writes nothing into the database.
//!
//! # Where to start
//! [`PostgresEngine`]; `plan` and `expr` for the SQL.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod connection;
mod engine;
mod expr;
mod fact;
mod plan;
mod result;
mod server;
mod table;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "the helpers of tests may fail like tests")]
mod tests;

pub use engine::PostgresEngine;
pub use server::{Server, UrlError};
