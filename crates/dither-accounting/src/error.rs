//! Why an event has no price or a request no noise.

use dither_core::{Audience, Delta, Explain};

/// Why a price or a calibration was refused. Everything here follows from the request and the policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccountingError {
    /// The event contains a kind that this version cannot price.
    #[error("the event contains a kind that this version cannot price")]
    UnknownEvent,
    /// No finite ε holds at this δ: Gaussian noise needs a δ above zero and above that of the thresholds.
    #[error("no finite epsilon holds at delta {delta}")]
    DeltaTooSmall {
        /// The δ that was asked for.
        delta: Delta,
    },
    /// A loss left the range that can be counted.
    #[error("the privacy loss is too large to be counted")]
    LossTooLarge,
    /// No noise on the lattice reaches the request.
    #[error("no noise reaches epsilon {epsilon} and delta {delta} for this sensitivity")]
    Unreachable {
        /// The ε that was asked for.
        epsilon: String,
        /// The δ that was asked for.
        delta: Delta,
    },
    /// A parameter of an event is not one.
    #[error("{path} must be a value that {problem}")]
    InvalidEvent {
        /// Where it stands, from the root, such as `event.poisson-sampled.rate`.
        path: String,
        /// What a valid value would be.
        problem: &'static str,
    },
    /// A document is not what it should be.
    #[error("the event document cannot be read: {reason}")]
    Unreadable {
        /// What the parser says, with line and column where it knows them.
        reason: String,
    },
    /// A document of another version.
    #[error("the event document has version {version}; this program reads version 1")]
    UnknownVersion {
        /// The version.
        version: u64,
    },
    /// No theorem that this accountant knows covers the event under this neighbour relation.
    #[error("{accountant} does not cover {event}")]
    NotCovered {
        /// The accountant.
        accountant: &'static str,
        /// The kind of event, with the neighbour relation where it matters.
        event: &'static str,
    },
    /// A formula was asked for outside the range in which it was proven.
    #[error("{formula} holds for {range} only")]
    OutOfRange {
        /// The formula.
        formula: &'static str,
        /// The range, in words.
        range: &'static str,
    },
    /// A plan without parts, or with a part of no weight.
    #[error("a plan needs at least one part, and a positive weight for each")]
    EmptyPlan,
}

impl Explain for AccountingError {
    fn code(&self) -> &'static str {
        match self {
            Self::UnknownEvent => "event-unknown",
            Self::DeltaTooSmall { .. } => "delta-too-small",
            Self::LossTooLarge => "loss-too-large",
            Self::Unreachable { .. } => "noise-unreachable",
            Self::InvalidEvent { .. } => "event-invalid",
            Self::Unreadable { .. } => "document-unreadable",
            Self::UnknownVersion { .. } => "document-version",
            Self::NotCovered { .. } => "event-not-covered",
            Self::OutOfRange { .. } => "formula-out-of-range",
            Self::EmptyPlan => "plan-empty",
        }
    }
    fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownEvent => Some("upgrade to the version that wrote the event".into()),
            Self::DeltaTooSmall { .. } => Some("raise delta, for example to 1e-6, or use Laplace noise".into()),
            Self::LossTooLarge => Some("add more noise, or split the request".into()),
            Self::Unreachable { .. } => Some("raise epsilon or delta, or lower the contribution bounds".into()),
            Self::InvalidEvent { problem, .. } => Some(format!("give a value that {problem}")),
            Self::Unreadable { .. } => Some("write it with the program that reads it".into()),
            Self::UnknownVersion { .. } => Some("upgrade to the version that wrote the document".into()),
            Self::NotCovered { .. } => {
                Some("use an accountant that knows the kind, or another neighbour relation".into())
            }
            Self::OutOfRange { .. } => Some("use the exact calibration, which has no such range".into()),
            Self::EmptyPlan => Some("give every part a weight of at least 1".into()),
        }
    }
    fn audience(&self) -> Audience {
        Audience::Analyst
    }
}
