//! Why a mechanism was refused, before anything was charged or read.

use dither_core::{Audience, Explain};

/// Why a mechanism was refused. It follows from public parameters alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MechanismError {
    /// A sensitivity of zero: the answer would be constant, and its noise zero.
    #[error("the answer does not depend on anybody: its sensitivity is zero")]
    NoSensitivity,
    /// A parameter that exact arithmetic cannot serve.
    #[error("the {what} is out of range")]
    OutOfRange {
        /// Which one.
        what: &'static str,
    },
    /// Keys from the data need a positive δ.
    #[error("keys that come from the data need a delta above zero")]
    NoDelta,
    /// The threshold is proved for adding or removing a unit only.
    #[error("keys that come from the data cannot be protected against replacing a unit")]
    ReplaceUnit,
}

impl Explain for MechanismError {
    fn code(&self) -> &'static str {
        match self {
            Self::NoSensitivity => "no-sensitivity",
            Self::OutOfRange { .. } => "mechanism-out-of-range",
            Self::NoDelta => "keys-need-delta",
            Self::ReplaceUnit => "keys-need-add-or-remove",
        }
    }
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoSensitivity => "ask for something that rows can change".into(),
            Self::OutOfRange { .. } => "use a larger epsilon or smaller bounds".into(),
            Self::NoDelta => "set delta, for example to 1e-6, or declare the keys as public".into(),
            Self::ReplaceUnit => "declare the keys as public, or use add-or-remove-unit neighbours".into(),
        })
    }
    fn audience(&self) -> Audience {
        Audience::Analyst
    }
}
