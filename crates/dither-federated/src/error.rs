//! Why a plan was refused or a round has no result.

use dither_accounting::AccountingError;
use dither_core::{Audience, Explain};
use dither_noise::NoiseError;

use crate::secagg::ProtocolError;

/// Why parameters make no plan. Everything here follows from public parameters.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A parameter is out of range.
    #[error("{field} must be {problem}")]
    OutOfRange {
        /// The parameter.
        field: &'static str,
        /// What a valid value would be.
        problem: &'static str,
    },
    /// So many clients and so much noise do not fit 32 bits with a share of noise wide enough for its theorem.
    #[error("the sum of {clients} clients does not fit 32 bits with this noise")]
    RingTooSmall {
        /// How many clients add up.
        clients: u32,
    },
    /// The parameters of secure aggregation are inconsistent.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The event has no price.
    #[error(transparent)]
    Accounting(#[from] AccountingError),
    /// The noise cannot be drawn.
    #[error(transparent)]
    Noise(#[from] NoiseError),
}

impl Explain for PlanError {
    fn code(&self) -> &'static str {
        match self {
            Self::OutOfRange { .. } => "federated-parameter",
            Self::RingTooSmall { .. } => "federated-ring",
            Self::Protocol(error) => error.code(),
            Self::Accounting(error) => error.code(),
            Self::Noise(error) => error.code(),
        }
    }
    fn hint(&self) -> Option<String> {
        match self {
            Self::OutOfRange { field, problem } => Some(format!("give {field} a value that is {problem}")),
            Self::RingTooSmall { .. } => Some("aggregate fewer clients in one session, or use less noise".into()),
            Self::Protocol(error) => error.hint(),
            Self::Accounting(error) => error.hint(),
            Self::Noise(error) => error.hint(),
        }
    }
    fn audience(&self) -> Audience {
        Audience::Analyst
    }
}

/// Why a round has no result. The charge for it stands.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RoundError {
    /// The number of clients is not the one that was planned.
    #[error("the plan is for {planned} clients, not for {found}")]
    WrongCohort {
        /// How many the plan has.
        planned: u32,
        /// How many there are.
        found: usize,
    },
    /// The first model has another length than the plan says, or holds a number that is not finite.
    #[error("the first model must hold {dimension} finite numbers")]
    WrongModel {
        /// How many numbers the plan has.
        dimension: u32,
    },
    /// Secure aggregation was given up; nothing was unmasked.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// No noise could be drawn, so nothing was released.
    #[error(transparent)]
    Noise(#[from] NoiseError),
}

impl Explain for RoundError {
    fn code(&self) -> &'static str {
        match self {
            Self::WrongCohort { .. } => "federated-cohort",
            Self::WrongModel { .. } => "federated-model",
            Self::Protocol(error) => error.code(),
            Self::Noise(error) => error.code(),
        }
    }
    fn hint(&self) -> Option<String> {
        match self {
            Self::WrongCohort { planned, .. } => Some(format!("ask exactly {planned} clients")),
            Self::WrongModel { dimension } => Some(format!("start from {dimension} finite numbers")),
            Self::Protocol(error) => error.hint(),
            Self::Noise(error) => error.hint(),
        }
    }
    fn audience(&self) -> Audience {
        Audience::Operator
    }
}
