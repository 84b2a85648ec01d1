//! The report file.

use std::path::{Path, PathBuf};

use dither_core::Budget;
use dither_query::plan::MechanismChoice;
use dither_report::{Consistent, Language, Plot, Step};
use serde::{Deserialize, Deserializer};

use crate::error::Error;

/// The weights of a question: apart from the ends, no sum or quotient of them leaves the range of floats.
const WEIGHTS: std::ops::RangeInclusive<f64> = 1e-6..=1e6;

/// A report file: what to ask, under which budget, and how to show it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportSpec {
    /// The policy file, relative to the report file.
    pub policy: PathBuf,
    /// The title.
    pub title: String,
    /// The language of all words that are not given: `en` or `zh`.
    #[serde(default)]
    pub language: Language,
    /// What the report is about.
    #[serde(default)]
    pub summary: String,
    /// A scope of the policy to charge instead of the data set as a whole.
    #[serde(default)]
    pub scope: Option<String>,
    /// The budget of all questions together.
    pub budget: Budget,
    /// The questions.
    #[serde(rename = "question")]
    pub questions: Vec<Question>,
    /// Numbers of several questions that are made to agree, before the steps of each question.
    #[serde(default)]
    pub consistent: Vec<Consistent>,
}

/// One question of a report.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// A short name of letters, digits, `_` and `-`, unique in the report ignoring case. It names the file of the answer.
    pub id: String,
    /// The heading.
    pub title: String,
    /// The SQL.
    pub sql: String,
    /// A remark.
    #[serde(default)]
    pub note: String,
    /// Its part of the budget relative to the others; 1 by default.
    #[serde(default)]
    pub weight: Option<f64>,
    /// The error to aim at instead of a weight, as `0.3` or `2%`.
    #[serde(default, deserialize_with = "number_or_text")]
    pub target_error: Option<String>,
    /// Which noise.
    #[serde(default)]
    pub mechanism: MechanismChoice,
    /// Whether intervals for noise and sampling together are asked for, as columns of their own.
    #[serde(default)]
    pub sampling: bool,
    /// What is done with the answer, in order. All of it is free.
    #[serde(default)]
    pub then: Vec<Step>,
    /// How the answer is drawn.
    #[serde(default)]
    pub plot: Option<Plot>,
}

impl ReportSpec {
    /// Reads a report file. The policy's path is made relative to where the report lies.
    ///
    /// # Errors
    /// A file that cannot be read or is not a report.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let failed = |message: String, hint: Option<&str>| Error::Report {
            path: path.to_owned(),
            message,
            hint: hint.map(str::to_owned),
        };
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string(), Some("check the path")))?;
        let mut spec: Self =
            toml::from_str(&text).map_err(|error| failed(error.to_string().trim_end().into(), None))?;
        if spec.questions.is_empty() {
            return Err(failed("the report asks nothing".into(), Some("add a [[question]]")));
        }
        for (index, question) in spec.questions.iter().enumerate() {
            let id = &question.id;
            if !is_id(id) {
                return Err(failed(
                    format!("the id `{}` cannot name a file", id.escape_debug()),
                    Some("use letters, digits, `_` and `-`, at most 200 bytes of them"),
                ));
            }
            // On some disks `A.csv` and `a.csv` are one file.
            if spec.questions[..index].iter().any(|other| other.id.to_lowercase() == id.to_lowercase()) {
                return Err(failed(
                    format!("two questions have the id `{id}`"),
                    Some("rename one; case does not count"),
                ));
            }
            if question.weight.is_some_and(|weight| !WEIGHTS.contains(&weight)) {
                return Err(failed(
                    format!("the weight of `{id}` is not from 0.000001 to 1,000,000"),
                    Some("weight = 1"),
                ));
            }
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        spec.policy = folder.join(&spec.policy);
        Ok(spec)
    }
}

/// Whether a text can name a file: letters of any script, digits, `_` and `-`, as in the name of a data set.
fn is_id(text: &str) -> bool {
    let allowed = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    (1..=200).contains(&text.len()) && text.chars().all(allowed)
}

/// An error to aim at, written as `2`, `0.3` or `"2%"`.
fn number_or_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "an error to aim at is a number such as 0.3 or a text such as \"2%\"")]
    enum Written {
        Whole(i64),
        Number(f64),
        Text(String),
    }
    Ok(Some(match Written::deserialize(deserializer)? {
        Written::Whole(value) => value.to_string(),
        Written::Number(value) => value.to_string(),
        Written::Text(text) => text,
    }))
}
