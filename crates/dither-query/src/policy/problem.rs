//! What can be wrong with one value of a policy.

use std::path::PathBuf;

use dither_core::{Delta, Epsilon, Key};

use super::ColumnType;
use super::keys::{MAX_KEYS, grouped};

/// What is wrong with one value of a policy; reads as the rest of a sentence that begins with its name.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A place that the starter policy left open.
    #[error("is still to be decided")]
    Undecided,
    /// A name with characters that names may not have.
    #[error("is not a name")]
    Name,
    /// Nothing where something must be.
    #[error("is empty")]
    Empty,
    /// A cap on one question that the whole budget cannot pay.
    #[error("is {cap}, above the budget of {limit}")]
    EpsilonAboveLimit {
        /// The ε of the cap or scope.
        cap: Epsilon,
        /// The ε that contains it.
        limit: Epsilon,
    },
    /// A δ that the whole budget cannot pay.
    #[error("is {cap}, above the budget of {limit}")]
    DeltaAboveLimit {
        /// The δ of the question or scope.
        cap: Delta,
        /// The δ that contains it.
        limit: Delta,
    },
    /// A nested scope without the scope around it.
    #[error("lies in the scope `{parent}`, which is not declared")]
    NoParent {
        /// The missing scope.
        parent: String,
    },
    /// A privacy unit that is not a declared column.
    #[error("names the column `{column}`, which is not declared")]
    UnitUnknown {
        /// The column.
        column: String,
        /// The column that was probably meant.
        nearest: Option<String>,
    },
    /// A privacy unit that is neither `"row"` nor a column.
    #[error("is `{text}`, which is neither \"row\" nor a column")]
    UnitForm {
        /// What was written.
        text: String,
    },
    /// A privacy unit with a fraction: one person would fall apart over rounding.
    #[error("names the column `{column}` of numbers with a fraction, which cannot tell people apart")]
    UnitIsNumber {
        /// The column.
        column: String,
    },
    /// A time of a privacy unit that tells no period.
    #[error("takes the time from `{column}`, {why}")]
    UnitTime {
        /// The column.
        column: String,
        /// What is wrong with it.
        why: String,
    },
    /// The same people under two kinds of units.
    #[error("protects the same people as `{table}`, but not within the same period")]
    UnitPeriods {
        /// The other table.
        table: String,
    },
    /// A key of another table that is not declared.
    #[error("leads through `{through}`, which is no column of another table")]
    ThroughUnknown {
        /// Table and column as they were written.
        through: String,
        /// The column that was probably meant.
        nearest: Option<String>,
    },
    /// A key of another table through which no rows can be owned.
    #[error("leads through `{through}`, {why}")]
    Through {
        /// Table and column.
        through: String,
        /// What is wrong with them.
        why: String,
    },
    /// A table of people and a public one of one name.
    #[error("is declared twice: `{table}` is a table of people as well")]
    TwoTables {
        /// The name.
        table: String,
    },
    /// Bounds that would be read from the data.
    #[error("would come from the data, which must not be looked at")]
    BoundsFromData,
    /// Bounds that are not two.
    #[error("has {count} numbers, not a least and a greatest one")]
    BoundsCount {
        /// How many there are.
        count: usize,
    },
    /// Bounds that are no pair of finite numbers in ascending order, or too wide to count in.
    #[error("is [{lower}, {upper}], {why}")]
    Bounds {
        /// The lower bound.
        lower: f64,
        /// The upper bound.
        upper: f64,
        /// What is wrong with them.
        why: &'static str,
    },
    /// A number that does not fit the bounds of its column.
    #[error("is {value}, {why} the bounds [{lower}, {upper}]")]
    BesideBounds {
        /// The number.
        value: f64,
        /// Why it does not fit.
        why: &'static str,
        /// The lower bound.
        lower: f64,
        /// The upper bound.
        upper: f64,
    },
    /// A setting that has no meaning for this type of column.
    #[error("has no meaning for {what}")]
    NotFor {
        /// What the setting stands at.
        what: String,
    },
    /// A number that must be finite and, for a step, positive.
    #[error("is {value}, which is not a usable number")]
    Number {
        /// The number.
        value: f64,
    },
    /// A public key of another type than its column.
    #[error("has the key `{key}`, which is not {}", article(*r#type))]
    KeyType {
        /// The key.
        key: Key,
        /// The type of the column.
        r#type: ColumnType,
    },
    /// A public key that is listed twice.
    #[error("has the key `{key}` twice{}", others(*more))]
    KeyTwice {
        /// The first that comes again.
        key: Key,
        /// How many come again after it.
        more: usize,
    },
    /// A list of more public keys than an answer may have groups.
    #[error("has {} keys, more than {}", grouped(*count as i128), grouped(MAX_KEYS as i128))]
    KeyCount {
        /// How many.
        count: usize,
    },
    /// A range of public keys that is reversed, too long, or none.
    #[error("runs from {from} to {to}, {why}")]
    KeyRange {
        /// The first.
        from: String,
        /// The last.
        to: String,
        /// What is wrong with it.
        why: String,
    },
    /// Public keys that would stand where none can.
    #[error("would come from `{column}` of `{table}`, {why}")]
    KeyColumn {
        /// The table as it was written.
        table: String,
        /// The column as it was written.
        column: String,
        /// What is wrong with them.
        why: String,
    },
    /// A format that reads no date or time.
    #[error("is `{format}`, which does not read {}", article(*r#type))]
    Format {
        /// The format.
        format: String,
        /// The type of the column.
        r#type: ColumnType,
    },
    /// Two settings that exclude each other.
    #[error("excludes `{other}`")]
    Excludes {
        /// The other setting.
        other: &'static str,
    },
    /// A label that names no encoding.
    #[error("is `{label}`, which is no known encoding")]
    Encoding {
        /// The label.
        label: String,
    },
    /// An encoding in which one row decides how the rows behind it are read.
    #[error("is `{label}`, in which one broken row changes how the rows of others are read")]
    EncodingState {
        /// The label.
        label: String,
    },
    /// A delimiter, quote, or separator that cannot be one.
    #[error("is `{}`, which cannot be used here", character.escape_default())]
    Character {
        /// The character.
        character: char,
    },
    /// A source that is not a local file of a known kind.
    #[error("is {path}, which is not a local .csv, .tsv or .parquet file")]
    Source {
        /// The path as it was written.
        path: PathBuf,
    },
}

impl Problem {
    /// A short stable code in kebab case.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Undecided => "policy-undecided",
            Self::Name => "policy-name",
            Self::Empty => "policy-empty",
            Self::EpsilonAboveLimit { .. } | Self::DeltaAboveLimit { .. } => "policy-above-budget",
            Self::NoParent { .. } => "policy-scope-without-parent",
            Self::UnitUnknown { .. } | Self::UnitForm { .. } | Self::UnitIsNumber { .. } => "policy-privacy-unit",
            Self::UnitTime { .. } | Self::UnitPeriods { .. } => "policy-unit-period",
            Self::ThroughUnknown { .. } | Self::Through { .. } => "policy-through",
            Self::TwoTables { .. } => "policy-two-tables",
            Self::BoundsFromData => "policy-bounds-from-data",
            Self::Bounds { .. } | Self::BoundsCount { .. } | Self::BesideBounds { .. } => "policy-bounds",
            Self::NotFor { .. } | Self::Excludes { .. } => "policy-no-meaning",
            Self::Number { .. } => "policy-number",
            Self::KeyType { .. }
            | Self::KeyTwice { .. }
            | Self::KeyCount { .. }
            | Self::KeyRange { .. }
            | Self::KeyColumn { .. } => "policy-keys",
            Self::Format { .. } => "policy-format",
            Self::Encoding { .. } | Self::EncodingState { .. } => "policy-encoding",
            Self::Character { .. } => "policy-character",
            Self::Source { .. } => "policy-source",
        }
    }

    /// Which value to change, and to what.
    pub fn hint(&self) -> String {
        match self {
            Self::Undecided => "replace \"\" by your decision; the comment beside it says what there is".into(),
            Self::Name => "use letters, digits, `_` and `-`, and `/` only between nested scopes".into(),
            Self::Empty => "give it at least one entry or character".into(),
            Self::EpsilonAboveLimit { limit, .. } => format!("use at most {limit}, or raise the budget"),
            Self::DeltaAboveLimit { limit, .. } => format!("use at most {limit}, or raise the budget"),
            Self::NoParent { parent } => format!("declare `[scopes.\"{parent}\"]` with a budget of its own"),
            Self::UnitUnknown { nearest: Some(nearest), .. } => format!("did you mean `{nearest}`?"),
            Self::UnitUnknown { column, .. } => format!("add `{column}` to the columns of the table"),
            Self::UnitForm { text } => format!("write {{ column = {text:?} }}, or \"row\" if each row is one person"),
            Self::UnitIsNumber { .. } => "declare its type as integer or text".into(),
            Self::UnitTime { .. } => {
                "name a column of the file of type date or timestamp that says when a row happened".into()
            }
            Self::UnitPeriods { .. } => {
                "give both tables the same `per`, or keep them in policies and budgets of their own".into()
            }
            Self::ThroughUnknown { nearest: Some(nearest), .. } => format!("did you mean `{nearest}`?"),
            Self::ThroughUnknown { .. } => "write the table and the column of its key, such as \"visits.id\"".into(),
            Self::Through { .. } => {
                "name a column of the same type in a table with a unit column and the same `neighbors`".into()
            }
            Self::TwoTables { .. } => "rename one of them".into(),
            Self::BoundsFromData => "write two numbers that you know from the subject, such as [0, 120]".into(),
            Self::Bounds { .. } | Self::BoundsCount { .. } => {
                "write [lower, upper] with lower < upper, no wider than the subject needs".into()
            }
            Self::BesideBounds { .. } => {
                "correct it or `bounds`: a step is a small part of their range, and a typical value lies between them"
                    .into()
            }
            Self::NotFor { .. } => "remove it".into(),
            Self::Number { value } if value.is_finite() => "write a number above 0".into(),
            Self::Number { .. } => "write a finite number, or leave it out".into(),
            Self::KeyType { r#type, .. } => key_hint(*r#type).into(),
            Self::KeyTwice { key, .. } => format!("remove one `{key}`"),
            Self::KeyCount { .. } => "list fewer, or leave `keys` out and let them come from the data".into(),
            Self::KeyRange { from, .. } if from.parse::<i64>().is_err() => {
                "write { from = \"2026-01-01\", to = \"2026-12-31\" }, and every = \"month\" for fewer keys".into()
            }
            Self::KeyRange { .. } => "write { from = 1, to = 12 } with from <= to, and step = 5 for fewer keys".into(),
            Self::KeyColumn { .. } => "name a column of a table under [public] that has the type of this one".into(),
            Self::Format { r#type: ColumnType::Date, .. } => "write a format such as \"%d/%m/%Y\"".into(),
            Self::Format { .. } => "write a format such as \"%d/%m/%Y %H:%M\"".into(),
            Self::Excludes { other } => format!("keep one of it and `{other}`"),
            Self::Encoding { .. } => "write a WHATWG label such as utf-8, gbk, gb18030, big5, windows-1252".into(),
            Self::EncodingState { label } => convert_first(label),
            Self::Character { .. } => {
                "write one ASCII character, and different ones for different purposes; no letter, digit or line end"
                    .into()
            }
            Self::Source { .. } => {
                "write the path of a file that ends in .csv, .tsv, .parquet, .csv.gz, .tsv.gz, .csv.zst or .tsv.zst, \
                 or a relation as postgres:schema.table"
                    .into()
            }
        }
    }
}

/// How a file is brought into an encoding that can be read.
pub(crate) fn convert_first(label: &str) -> String {
    let name = label.trim().to_ascii_uppercase();
    let name = if name.starts_with("UTF-16") { "UTF-16".into() } else { name };
    format!("convert the file first, with `iconv -f {name} -t UTF-8`, and write encoding = \"utf-8\"")
}

/// Further keys that are there twice.
fn others(more: usize) -> String {
    if more == 0 { String::new() } else { format!(", and {} more", grouped(more as i128)) }
}

/// The type of a column with its article.
pub(super) fn article(r#type: ColumnType) -> &'static str {
    match r#type {
        ColumnType::Integer => "an integer",
        ColumnType::Number => "a number",
        ColumnType::Text => "a text",
        ColumnType::Boolean => "a boolean",
        ColumnType::Date => "a date",
        ColumnType::Timestamp => "a timestamp",
    }
}

/// How a key of a type is written.
fn key_hint(r#type: ColumnType) -> &'static str {
    match r#type {
        ColumnType::Integer => "write keys such as 1, or change the type of the column",
        ColumnType::Number => "write keys such as 0.5, or change the type of the column",
        ColumnType::Text => "write keys in quotes, such as \"1\", or change the type of the column",
        ColumnType::Boolean => "write true and false",
        ColumnType::Date => "write keys such as \"2026-11-30\"",
        ColumnType::Timestamp => "write keys such as \"2026-11-30T12:00:00\"",
    }
}
