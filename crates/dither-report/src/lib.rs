//! Releases for people: tables, pages, files and the compliance certificate.
//!
//! Whatever is computed here is computed from released [`Answer`](dither_core::Answer)s and public facts, so
//! it is post-processing: free, and unable to weaken a guarantee (Dwork and Roth, *The Algorithmic
//! Foundations of Differential Privacy*, 2014, Proposition 2.1). It can still improve or spoil the *error*,
//! so every declared [`Step`] says what it does to it, and the intervals follow.
//!
//! # What this crate does not do
//! It never sees a row, draws no noise, prices nothing, reads no clock and no file. It does not decide what is
//! asked: the sections of a [`Document`] arrive answered and charged.
//!
//! # Where to start
//! [`table::render`] prints an answer on a terminal, [`json::rows_json`] and [`csv::write`] are the files,
//! [`postprocess::apply`] runs the declared steps, [`html::page`] is the report and [`certificate::page`] the
//! certificate. All words that people read, in English and Simplified Chinese, are in [`language`].

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod certificate;
pub mod csv;
pub mod curves;
pub mod document;
pub mod html;
pub mod json;
pub mod language;
pub mod postprocess;
pub mod table;

mod format;
mod heatmap;
mod plot;

pub use document::{
    BudgetLine, Certificate, ColumnBounds, Document, EventLine, Guarantee, Loss, Noise, NoiseKind, Plot,
    PrivacyStatement, Protected, Section, Share, TableBounds, Version, Window,
};
pub use format::{Decimals, grouped, visible};
pub use language::Language;
pub use postprocess::{Consistent, Label, Step, StepError};
