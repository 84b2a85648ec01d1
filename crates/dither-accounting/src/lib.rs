//! Events to privacy loss: what a [`PrivacyEvent`](dither_core::PrivacyEvent) costs, whether it still fits a
//! budget, and how much noise a budget needs.
//!
//! A ledger stores events. This crate gives them a price: [`statement`] under each accountant, [`Cost`] as the
//! sums that a ledger keeps, [`Filter`] as the gate that stays valid when every question depends on all earlier
//! answers. [`calibrate`] goes the other way, from a budget to the smallest noise, and proves it by pricing.
//!
//! Amounts are integers, nano-units of ε and units of 10⁻¹⁸ of δ. Floats appear in between only, and are
//! rounded towards more loss.
//!
//! A training run or a plan is an [`Event`] with parameters that are real numbers. [`rdp::Curve`] prices every kind of it,
//! sampling included, [`zcdp::Concentrated`] and [`gdp::mu`] those that have a ρ or a μ; [`composition`] has the theorems
//! of the textbooks. [`EventDocument`] and [`dp_event`] write events down. An accountant that does not cover an event
//! says so; none guesses.
//!
//! # What this crate does not do
//! It sees no data, draws no noise, stores nothing. A ledger's own price is still that of [`Cost`], in integers: filters
//! know no sampling and no numerical composition. What a history costs exactly, [`Pld`] says afterwards.
//!
//! # Where to start
//! [`Cost::of`] for a price, [`Filter::admit`] for the gate, [`calibrate::gaussian_variance`] for noise;
//! [`Accountant::best_epsilon`] for training runs and mixed histories, [`calibrate::noise_multiplier`] for their noise.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod accountant;
pub mod calibrate;
pub mod composition;
pub mod cost;
pub mod document;
pub mod dp_event;
pub mod error;
pub mod event;
pub mod filter;
pub mod gaussian;
pub mod gdp;
pub mod group;
pub mod pld;
mod profile;
pub mod pure;
pub mod rdp;
mod recorded;
mod round;
mod training;
mod validate;
pub mod zcdp;

pub use accountant::Accountant;
pub use cost::{Cost, ORDER_COUNT, ORDERS, Statement, UNBOUNDED, statement};
pub use document::EventDocument;
pub use error::AccountingError;
pub use event::Event;
pub use filter::{Composition, ConcentratedFilter, ConcentratedLoss, Filter, Odometer, Refusal, Remaining, Spent};
pub use gaussian::GAUSSIAN_MIN_SIGMA;
pub use pld::{Interval, Pld};
pub use validate::MAX_DEPTH;
