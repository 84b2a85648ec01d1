//! The vocabulary of Dither and its gate.
//!
//! Every other crate speaks in the types of this one: who is protected ([`Neighbors`], [`PrivacyUnit`]),
//! how much one of them can matter ([`ContributionBounds`], [`L1Sensitivity`], [`L2Sensitivity`]), what was
//! done to their data ([`PrivacyEvent`]) and what it may cost ([`Epsilon`], [`Delta`], [`Budget`]).
//!
//! The [`gate`] is the state machine that makes *charge, then look* a fact of the type system:
//!
//! ```text
//! Measurement ──authorize(Charge)──▶ Charged ──release(exact, noise)──▶ Sealed ──ledger──▶ Release
//!   planned, nothing drawn            may look            drawn, unreadable       durable, free forever
//! ```
//!
//! # What this crate does not do
//! It draws no noise, keeps no ledger, reads no clock and no file. It knows no SQL and no async runtime.
//!
//! # Where to start
//! [`gate`] for the flow, [`event`] for what can be charged, [`budget`] for exact amounts.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod answer;
pub mod bounds;
pub mod budget;
pub mod error;
pub mod event;
pub mod gate;
pub mod hazmat;
pub mod ratio;
pub mod receipt;
pub mod sensitive;
pub mod sensitivity;
pub mod unit;

pub use answer::{Answer, Between, Cell, Column, Estimate, Key, RankError, Role};
pub use bounds::{ContributionBounds, Lattice, ValueBounds};
pub use budget::{AmountError, Budget, Delta, Epsilon};
pub use error::{Audience, Explain};
pub use event::PrivacyEvent;
pub use gate::{Charge, Charged, GateError, Measurement, Mechanism, OpenGate, Release, RequestId, Sealed};
pub use ratio::Ratio;
pub use receipt::{NotAReceipt, Receipt};
pub use sensitive::Sensitive;
pub use sensitivity::{L1Sensitivity, L2Sensitivity};
pub use unit::{Neighbors, PrivacyUnit, UnitPeriod};
