//! Why a policy was refused.

use std::path::PathBuf;

use dither_core::{Audience, Explain};

use super::nearest;
use super::place::Place;
use super::problem::Problem;
use crate::source::{SourceError, unreadable};

/// Why a policy was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The file could not be read.
    #[error("the policy {path} {}", unreadable(source.kind()))]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is not TOML, or a value has the wrong type.
    #[error("{message}{at}")]
    Syntax {
        /// What was expected.
        message: String,
        /// Where.
        at: Place,
    },
    /// A key that no policy has.
    #[error("unknown key `{key}`{at}")]
    UnknownKey {
        /// The key as it was written.
        key: String,
        /// The key that was probably meant.
        nearest: Option<String>,
        /// The keys that may stand here.
        expected: Vec<String>,
        /// Where.
        at: Place,
    },
    /// A key that every policy has.
    #[error("the key `{key}` is missing{at}")]
    MissingKey {
        /// The key.
        key: String,
        /// The table that lacks it.
        at: Place,
    },
    /// A value that makes no sense, or is unsafe.
    #[error("`{key}` {problem}{at}")]
    Refused {
        /// The path to the value: `tables.visits.columns.age.bounds`.
        key: String,
        /// What is wrong with it.
        problem: Problem,
        /// Where.
        at: Place,
    },
    /// A starter policy could not be written because the header or schema of the file could not be read.
    #[error("no policy can be started: {source}")]
    Start {
        /// Why.
        #[from]
        source: SourceError,
    },
}

impl Explain for PolicyError {
    fn code(&self) -> &'static str {
        match self {
            Self::Read { .. } => "policy-unreadable",
            Self::Syntax { .. } => "policy-syntax",
            Self::UnknownKey { .. } => "policy-unknown-key",
            Self::MissingKey { .. } => "policy-missing-key",
            Self::Refused { problem, .. } => problem.code(),
            Self::Start { source } => source.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Read { .. } => {
                Some("check the path, and that the file is UTF-8 text; `dither init` starts a policy".into())
            }
            Self::Syntax { message, .. } => instead_of(message),
            Self::UnknownKey { nearest: Some(nearest), .. } => Some(format!("did you mean `{nearest}`?")),
            Self::UnknownKey { expected, .. } => Some(format!("one of {} may stand here", expected.join(", "))),
            Self::MissingKey { key, .. } => Some(format!("add `{key} = …`")),
            Self::Refused { problem, .. } => Some(problem.hint()),
            Self::Start { source } => source.hint(),
        }
    }

    /// Policies are written and read by stewards; an analyst sees none of this.
    fn audience(&self) -> Audience {
        Audience::Operator
    }
}

/// What to write instead of a value of which the reader of TOML says this.
fn instead_of(message: &str) -> Option<String> {
    let (found, expected) = message.rsplit_once("expected ").unwrap_or((message, ""));
    if let Some((word, _)) = found.strip_prefix("unknown variant `").and_then(|rest| rest.split_once('`')) {
        let known: Vec<String> = expected.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        return Some(match nearest(word, &known) {
            Some(meant) => format!("did you mean \"{meant}\"?"),
            None => format!("write one of \"{}\"", known.join("\", \"")),
        });
    }
    Some(match expected {
        "one character in quotes" => "write one ASCII character such as \";\", or leave the key out".into(),
        "true or false" => "write true or false, without quotes".into(),
        "a string" => "write it in quotes".into(),
        number if number.starts_with("a number") || number.starts_with("a whole number") => {
            "write digits such as 5 or 0.5, without quotes".into()
        }
        _ if message.contains("`per`") => {
            "write { column = \"patient\", per = \"week\", time = \"admitted\" }, or none of `per` and `time`".into()
        }
        _ => return None,
    })
}
