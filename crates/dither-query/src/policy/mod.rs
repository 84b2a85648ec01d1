//! The policy: what a steward declares once about a data set, and everything else follows from.
//!
//! A policy is a TOML file. It holds public facts only; nothing in it is computed from rows.
//!
//! Names of tables and columns are compared letter by letter: `Age` and `age` are two columns.

mod check;
mod error;
mod init;
pub(crate) mod keys;
mod load;
mod periods;
mod place;
mod problem;
mod schema;
mod suggest;
mod unit;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

use dither_accounting::Composition;
use dither_core::{Budget, ContributionBounds, Delta, Epsilon, Lattice, Neighbors, ValueBounds};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use error::PolicyError;
pub use init::starter;
pub use keys::{KeysPolicy, Period};
pub(crate) use load::nearest;
pub use place::Place;
pub use problem::Problem;
pub(crate) use problem::convert_first;
pub use schema::json_schema;
pub use suggest::{Released, day, fragment};
pub use unit::{Root, RowWord, UnitPolicy};

/// A data set: its tables, who is protected in them, and the budget that all questions share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The name of the data set. Its budget in the ledger is kept under this name.
    pub dataset: String,
    /// The ledger file, relative to the policy file.
    #[serde(default = "default_ledger")]
    pub ledger: PathBuf,
    /// The budget of the data set.
    pub budget: BudgetPolicy,
    /// Narrower budgets inside that of the data set, by path: `research`, `research/alice`.
    #[serde(default)]
    pub scopes: BTreeMap<String, ScopePolicy>,
    /// The tables, by the name that SQL uses.
    pub tables: BTreeMap<String, TablePolicy>,
    /// Tables about nobody, such as lists of codes and their names, to join the tables of people with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub public: BTreeMap<String, PublicTablePolicy>,
    /// The folder that paths are relative to: that of the policy file.
    #[serde(skip)]
    pub base_dir: PathBuf,
}

fn default_ledger() -> PathBuf {
    "ledger.db".into()
}

/// The limit on the privacy loss of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetPolicy {
    /// The limit on ε over all questions together.
    #[schemars(with = "f64")]
    pub epsilon: Epsilon,
    /// The limit on δ over all questions together.
    #[serde(default)]
    #[schemars(with = "f64")]
    pub delta: Delta,
    /// The largest ε of one question.
    #[serde(default)]
    #[schemars(with = "Option<f64>")]
    pub max_epsilon_per_query: Option<Epsilon>,
    /// The δ of a question that needs one and does not state it.
    #[serde(default)]
    #[schemars(with = "Option<f64>")]
    pub delta_per_query: Option<Delta>,
    /// How charges add up: `basic` sums ε and δ; `renyi` is tighter when there are many questions.
    #[serde(default = "default_composition")]
    #[schemars(with = "String")]
    pub composition: Composition,
}

fn default_composition() -> Composition {
    Composition::Basic
}

impl BudgetPolicy {
    /// The limit as a pair.
    pub fn limit(&self) -> Budget {
        Budget { epsilon: self.epsilon, delta: self.delta }
    }
}

/// The limit of a scope.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScopePolicy {
    /// The limit on ε.
    #[schemars(with = "f64")]
    pub epsilon: Epsilon,
    /// The limit on δ.
    #[serde(default)]
    #[schemars(with = "f64")]
    pub delta: Delta,
}

/// One table of people.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TablePolicy {
    /// The file, relative to the policy file: `.csv`, `.tsv`, `.parquet`, the first two also as `.gz` or `.zst`; or a
    /// relation of a database, `postgres:schema.table`.
    pub source: PathBuf,
    /// How a delimited text file is written.
    #[serde(default)]
    pub csv: CsvPolicy,
    /// Who is protected: `{ column = "patient" }`, or `"row"`; or the owner of the row of another table whose key this
    /// row holds: `{ column = "visit_id", through = "visits.id" }`. Or what one has within a calendar period, a day, a
    /// week or a month: `{ column = "patient", per = "week", time = "admitted" }`.
    #[schemars(with = "unit::UnitSchema")]
    pub privacy_unit: UnitPolicy,
    /// Which tables must be indistinguishable: `add-or-remove-unit` (the default) or `replace-unit`.
    #[serde(default)]
    #[schemars(with = "String")]
    pub neighbors: Neighbors,
    /// The number of groups of a question that one unit may appear in.
    #[serde(default, alias = "max_groups_contributed")]
    pub max_groups_per_unit: Option<NonZeroU32>,
    /// The number of rows that one unit may have in one group.
    #[serde(default, alias = "max_rows_contributed_per_group")]
    pub max_rows_per_group: Option<NonZeroU32>,
    /// How many units a group whose key comes from the data needs at least in order to be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_units: Option<NonZeroU32>,
    /// What anybody may know; used to predict errors, never to compute an answer.
    #[serde(default)]
    pub public: PublicFacts,
    /// The columns that may be used. A column that is not listed does not exist.
    pub columns: BTreeMap<String, ColumnPolicy>,
}

impl TablePolicy {
    /// The contribution bounds, where they are declared. A row that is its own unit needs none.
    pub fn contribution_bounds(&self) -> Option<ContributionBounds> {
        if self.privacy_unit == UnitPolicy::ROW {
            return Some(ContributionBounds::ONE);
        }
        Some(ContributionBounds {
            max_groups_per_unit: self.max_groups_per_unit?,
            max_rows_per_group: self.max_rows_per_group?,
        })
    }
}

/// One table about nobody. What stands in it is public: reading it is free and protects nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublicTablePolicy {
    /// The file, as that of a table of people.
    pub source: PathBuf,
    /// How a delimited text file is written.
    #[serde(default)]
    pub csv: CsvPolicy,
    /// The columns that may be used.
    pub columns: BTreeMap<String, ColumnPolicy>,
}

/// Public magnitudes, for the prediction of errors.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublicFacts {
    /// About how many rows the table has.
    pub rows: Option<u64>,
    /// About how many units the table has.
    pub units: Option<u64>,
    /// The size of a group, in rows, for which errors of grouped questions are predicted.
    pub rows_per_group: Option<u64>,
}

/// How a delimited text file is written. All of it is declared, nothing is guessed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CsvPolicy {
    /// The character between two cells. Tab for `.tsv` files.
    pub delimiter: Option<char>,
    /// The character around cells that contain delimiters.
    pub quote: char,
    /// Whether a quoted cell may contain line breaks. Only for files whose writer is known to close every quote: a
    /// quote that stays open takes in the rows of others. Without it, a line break in a cell makes further rows.
    pub multiline: bool,
    /// The encoding by its WHATWG label: `utf-8`, `gbk`, `windows-1252`, …
    pub encoding: String,
    /// The words that stand for a missing value, besides the empty cell.
    pub null: Vec<String>,
    /// Whether spaces around texts are removed, so that `bob` and `bob ` are one person. On by default.
    pub trim: bool,
}

impl Default for CsvPolicy {
    fn default() -> Self {
        Self { delimiter: None, quote: '"', multiline: false, encoding: "utf-8".into(), null: Vec::new(), trim: true }
    }
}

/// One column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ColumnPolicy {
    /// Its type. A cell that does not read as one becomes NULL.
    pub r#type: ColumnType,
    /// The name in the file, where it differs.
    #[serde(default)]
    pub name_in_source: Option<String>,
    /// A row-local SQL expression over other columns, instead of a column of the file.
    #[serde(default)]
    pub expression: Option<String>,
    /// The least and the greatest value; every value is clamped to them. From knowledge, never from the data.
    #[serde(default)]
    pub bounds: Option<[f64; 2]>,
    /// Where no bounds are declared: whether questions may find some from the data, for a share of their ε.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approx_bounds: bool,
    /// Values are rounded to multiples of this. By default 1 for integers and about range / 2^20 for numbers.
    #[serde(default)]
    pub step: Option<f64>,
    /// The public values to group by. Other values are dropped from grouped answers.
    #[serde(default)]
    pub keys: Option<KeysPolicy>,
    /// A public typical value, for errors in percent.
    #[serde(default)]
    pub typical: Option<f64>,
    /// The character between groups of digits, as in 1,234.5.
    #[serde(default)]
    pub thousands: Option<char>,
    /// The decimal character, `.` by default.
    #[serde(default)]
    pub decimal: Option<char>,
    /// The format of dates and times, as in `%Y-%m-%d %H:%M`. ISO 8601 by default.
    #[serde(default)]
    pub format: Option<String>,
    /// Of a public table: each value is read once at most, so that joining on it repeats no row.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unique: bool,
}

impl ColumnPolicy {
    /// A column of which nothing is declared but its type.
    pub(crate) fn plain(r#type: ColumnType) -> Self {
        Self {
            r#type,
            name_in_source: None,
            expression: None,
            bounds: None,
            approx_bounds: false,
            step: None,
            keys: None,
            typical: None,
            thousands: None,
            decimal: None,
            format: None,
            unique: false,
        }
    }

    /// The bounds on the lattice of the column; `None` where none are declared or the column has no numbers.
    pub fn value_bounds(&self) -> Option<ValueBounds> {
        let [lower, upper] = self.bounds?;
        let step = self.step.unwrap_or(match self.r#type {
            ColumnType::Integer => 1.0,
            // A power of two keeps every multiple exact; 2^20 steps leave an error of one in a million.
            _ => ((upper - lower).log2().floor() - 20.0).exp2(),
        });
        ValueBounds::new(lower, upper, Lattice::new(step)?)
    }
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnType {
    /// A whole number of at most 64 bits.
    Integer,
    /// A number with a fraction.
    Number,
    /// A text.
    Text,
    /// `true`, `false`, `1`, `0`, `yes`, `no`.
    Boolean,
    /// A day.
    Date,
    /// A moment, to the microsecond, without a time zone.
    Timestamp,
}

impl ColumnType {
    /// Its name in a policy.
    pub fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Text => "text",
            Self::Boolean => "boolean",
            Self::Date => "date",
            Self::Timestamp => "timestamp",
        }
    }
}

#[cfg(test)]
mod tests;
