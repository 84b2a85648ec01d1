//! Why a training run was refused or ended.

use std::path::PathBuf;

use dither_accounting::AccountingError;
use dither_core::{Audience, Explain, GateError};
use dither_ledger::LedgerError;
use dither_mechanisms::MechanismError;
use dither_noise::NoiseError;

/// Why a training run was refused or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A number of the job cannot be what it is.
    #[error("{field}: {problem}")]
    Field {
        /// Where it stands, such as `privacy.delta`.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
        /// What to write instead.
        hint: String,
    },
    /// The description of the job cannot be read.
    #[error("the job cannot be read: {0}")]
    Job(String),
    /// No noise reaches the goal, or the event has no price.
    #[error(transparent)]
    Accounting(#[from] AccountingError),
    /// The noise is out of range.
    #[error(transparent)]
    Mechanism(#[from] MechanismError),
    /// No randomness.
    #[error(transparent)]
    Noise(#[from] NoiseError),
    /// The ledger refused, or failed.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The charge is not for this run.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// The run ended after the charge. The text is constant on purpose; see [`TrainError::operator_detail`].
    #[error("the run ended; the charge stands")]
    Ended {
        /// What happened, for the operator.
        detail: String,
    },
    /// Whoever watched the run stopped it after a step.
    #[error("stopped after step {executed} of {planned}, which is kept in {}", checkpoint.display())]
    Stopped {
        /// How many steps were executed.
        executed: u64,
        /// How many are planned, and charged.
        planned: u64,
        /// Where they are kept.
        checkpoint: PathBuf,
    },
    /// A file of the run, other than the table, cannot be read or written.
    #[error("{} cannot be used: {problem}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A checkpoint is not one of this run.
    #[error("the checkpoint {} {problem}", path.display())]
    Checkpoint {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The table is not the one that the job began with.
    #[error("the table is not the one that this job began with")]
    TableChanged,
    /// The request is not the one that the job began with.
    #[error("files that this job names, or the program, changed since it was begun")]
    JobChanged,
    /// The table cannot be read.
    #[error("the table cannot be read")]
    Table {
        /// What failed, for the operator.
        detail: String,
    },
}

impl TrainError {
    /// What an operator may read beyond the message. It holds no values.
    pub fn operator_detail(&self) -> Option<&str> {
        match self {
            Self::Ended { detail } | Self::Table { detail } => Some(detail),
            _ => None,
        }
    }

    /// A field that cannot be what it is.
    pub(crate) fn field(field: &'static str, problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Field { field, problem: problem.into(), hint: hint.into() }
    }
}

impl Explain for TrainError {
    fn code(&self) -> &'static str {
        match self {
            Self::Field { .. } => "training-field",
            Self::Job(_) => "training-job-unreadable",
            Self::Accounting(error) => error.code(),
            Self::Mechanism(error) => error.code(),
            Self::Noise(error) => error.code(),
            Self::Ledger(error) => error.code(),
            Self::Gate(error) => error.code(),
            Self::Ended { .. } => "training-ended",
            Self::Stopped { .. } => "training-stopped",
            Self::File { .. } => "training-file",
            Self::Checkpoint { .. } => "checkpoint-unusable",
            Self::TableChanged => "training-table-changed",
            Self::JobChanged => "training-job-changed",
            Self::Table { .. } => "training-table-unreadable",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Field { hint, .. } => Some(hint.clone()),
            Self::Job(_) | Self::File { .. } => None,
            Self::Accounting(error) => error.hint(),
            Self::Mechanism(error) => error.hint(),
            Self::Noise(error) => error.hint(),
            Self::Ledger(error) => error.hint(),
            Self::Gate(error) => error.hint(),
            Self::Ended { .. } => Some("run the job again with --resume: what is charged is not charged again".into()),
            Self::Stopped { .. } => Some("run the job again with --resume: it goes on from there, for free".into()),
            Self::Checkpoint { .. } => Some(
                "remove the file and resume: the steps before it are executed again with the same noise, for free"
                    .into(),
            ),
            Self::JobChanged => {
                Some("restore weights and vocabulary, or give the job another `run` name, which is charged anew".into())
            }
            Self::TableChanged => {
                Some("restore the table, or give the job another `run` name, which is charged anew".into())
            }
            Self::Table { .. } => Some("check the path and the permissions of the table".into()),
        }
    }

    fn audience(&self) -> Audience {
        match self {
            Self::Accounting(error) => error.audience(),
            Self::Ledger(error) => error.audience(),
            Self::Field { .. }
            | Self::Job(_)
            | Self::Mechanism(_)
            | Self::Gate(_)
            | Self::Stopped { .. }
            | Self::Ended { .. } => Audience::Analyst,
            Self::Noise(_)
            | Self::File { .. }
            | Self::Checkpoint { .. }
            | Self::TableChanged
            | Self::JobChanged
            | Self::Table { .. } => Audience::Operator,
        }
    }
}
