//! The ledger: one durable budget that cannot be overspent and can be audited.
//!
//! Every question about people is charged here before any row is read, and answered from here for ever after. A
//! [`Charge`](dither_core::Charge) exists only after its entry is on the disk; a [`Release`](dither_core::Release)
//! exists only after its bytes are. A crash in between burns budget, never privacy: asking again gets the same
//! charge or the same answer.
//!
//! The file is append-only, and each entry carries a hash of everything before it. [`Ledger::verify`] recomputes
//! all of it; with a receipt that was kept elsewhere it also detects a ledger that was rolled back.
//!
//! # What this crate does not do
//! It sees no rows and draws no noise. It prices nothing by itself: `dither-accounting` says what an event costs and
//! whether it fits. It does not keep anybody with write access to the file from replacing it by an older one; only
//! a receipt outside detects that. It does not work on network file systems.
//!
//! # Where to start
//! [`Ledger::open`], [`Ledger::declare`], [`Ledger::charge`], [`Ledger::publish`]. `docs/ledger.md` describes the
//! format and why a commit is durable.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod answer;
mod chain;
mod charge;
mod declare;
mod entry;
mod error;
mod failpoint;
mod ledger;
mod schema;
mod scope;
mod store;
mod verify;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

pub use answer::StoredAnswer;
pub use charge::{ChargeRequest, Outcome};
pub use entry::{ChargeRecord, Entry, Record};
pub use error::LedgerError;
pub use ledger::{Ledger, ScopeStatus};
pub use scope::{ScopeError, ScopeLimit, ScopePath};
pub use verify::Verified;
