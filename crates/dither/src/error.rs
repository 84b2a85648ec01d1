//! Everything that can go wrong on the way from a question to an answer.

use std::path::PathBuf;

use dither_core::{AmountError, Audience, Explain, GateError};
use dither_ledger::{LedgerError, ScopeError};
use dither_noise::NoiseError;
use dither_query::Refusal;
use dither_query::engine::EngineError;
use dither_query::policy::PolicyError;
use dither_query::source::SourceError;
use dither_report::StepError;

/// Why a request was not answered.
///
/// [`Explain::audience`] says who may read the message; for [`Audience::Operator`] the analyst gets one constant
/// text instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The policy is not one.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The file of a table is not as declared.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The question is refused; nothing was charged.
    #[error("{refusal}")]
    Refused {
        /// Why.
        refusal: Box<Refusal>,
        /// The question; of a file of questions the text in which its lines have the numbers of the file.
        sql: String,
    },
    /// The ledger refused or failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The scope is not one.
    #[error(transparent)]
    Scope(#[from] ScopeError),
    /// The gate stayed shut.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// Reading the data failed after the charge.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The operating system gave no randomness.
    #[error(transparent)]
    Noise(#[from] NoiseError),
    /// An amount is not one.
    #[error(transparent)]
    Amount(#[from] AmountError),
    /// The report file is not one.
    #[error("{}: {message}", path.display())]
    Report {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
        /// What to change.
        hint: Option<String>,
    },
    /// A step after the release cannot be done.
    #[error(transparent)]
    Step(#[from] StepError),
}

impl Error {
    pub(crate) fn refused(refusal: Refusal, sql: &str) -> Self {
        Self::Refused { refusal: Box::new(refusal), sql: sql.to_owned() }
    }

    /// The same error about the question of a file that begins on this line: places are those in the file.
    pub(crate) fn in_file(self, number: usize, line: usize) -> Self {
        let Self::Refused { mut refusal, sql } = self else { return self };
        let above = line.saturating_sub(1);
        refusal.message = format!("question {number}, line {line}: {}", refusal.message);
        if let Some(place) = &mut refusal.place {
            place.start.0 += above as u64;
            place.end.0 += above as u64;
        }
        Self::Refused { refusal, sql: "\n".repeat(above) + &sql }
    }

    fn inner(&self) -> Option<&dyn Explain> {
        Some(match self {
            Self::Policy(error) => error,
            Self::Source(error) => error,
            Self::Refused { refusal, .. } => refusal.as_ref(),
            Self::Ledger(error) => error,
            Self::Gate(error) => error,
            Self::Engine(error) => error,
            Self::Amount(error) => error,
            Self::Step(error) => error,
            Self::Scope(error) => error,
            Self::Noise(error) => error,
            Self::Report { .. } => return None,
        })
    }
}

impl Explain for Error {
    fn code(&self) -> &'static str {
        self.inner().map_or("report", Explain::code)
    }
    fn hint(&self) -> Option<String> {
        match self {
            Self::Report { hint, .. } => hint.clone(),
            other => other.inner().and_then(Explain::hint),
        }
    }
    fn audience(&self) -> Audience {
        self.inner().map_or(Audience::Analyst, Explain::audience)
    }
}
