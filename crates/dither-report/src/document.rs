//! What a report and a certificate say, as plain data.

use dither_core::{
    Answer, Between, Budget, ContributionBounds, Neighbors, PrivacyEvent, PrivacyUnit, RankError, Receipt,
};
use serde::{Deserialize, Serialize};

use crate::language::Language;
use crate::postprocess::Label;

/// A published report: several answers that were planned and charged together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// The title of the report.
    pub title: String,
    /// The language of every word that is not given here.
    pub language: Language,
    /// The name of the data set.
    pub dataset: String,
    /// What the report is about, in a sentence or two; may be empty.
    #[serde(default)]
    pub summary: String,
    /// Who is protected, and how the questions compose.
    pub privacy: PrivacyStatement,
    /// What the report cost.
    pub budget: BudgetLine,
    /// The answers, in the order in which they are shown.
    pub sections: Vec<Section>,
    /// Where the charge of the report stands in the ledger.
    pub receipt: Receipt,
    /// When it was made, as it is to be printed.
    pub generated: String,
}

/// Who is protected, and from what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PrivacyStatement {
    /// What is protected in which tables: one entry for each unit and neighbour relation that the questions are about.
    pub protected: Vec<Protected>,
    /// How the questions were composed, in a sentence, in the language of the document.
    pub composition: String,
}

/// What is protected in some tables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Protected {
    /// The tables.
    pub tables: Vec<String>,
    /// What is protected in them as a whole.
    pub unit: PrivacyUnit,
    /// Which pairs of tables must be indistinguishable.
    pub neighbors: Neighbors,
    /// Where a unit is what a person has within a period: what everything together costs a whole person.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
}

/// What everything together costs a person who is in several units, as group privacy bounds it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// All rows of the person lie in so many days in a row …
    pub days: u32,
    /// … and so in this many units at most.
    pub units: u32,
    /// The loss, rounded up; `None` where nothing is guaranteed.
    pub loss: Option<Loss>,
}

/// An amount of privacy loss for display; may be zero.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Loss {
    /// The amount of ε.
    pub epsilon: f64,
    /// The amount of δ.
    #[serde(default)]
    pub delta: f64,
}

impl From<Budget> for Loss {
    fn from(budget: Budget) -> Self {
        Self { epsilon: budget.epsilon.as_f64(), delta: budget.delta.as_f64() }
    }
}

/// The budget of the data set and what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BudgetLine {
    /// The budget of the data set: the limit, for ever.
    pub total: Loss,
    /// What this report was charged.
    pub charged: Loss,
    /// What is left after it. `total` less both is what was charged before.
    pub remaining: Loss,
}

/// One question and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// A short name, unique in the report: the anchor, and the name of the exported file.
    pub id: String,
    /// The heading.
    pub title: String,
    /// A remark below the heading; may be empty.
    #[serde(default)]
    pub note: String,
    /// The SQL that was asked.
    pub question: String,
    /// The answer, after post-processing.
    pub answer: Answer,
    /// What the question cost and how it was noised.
    pub share: Share,
    /// The bounds that were found from the data for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<Between>,
    /// What was done to the answer after its release, in order.
    #[serde(default)]
    pub postprocessing: Vec<Label>,
    /// How the answer is drawn; the table is always there.
    #[serde(default)]
    pub plot: Option<Plot>,
}

/// The part of the budget that one question got, and what it bought.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The ε of this question.
    pub epsilon: f64,
    /// The δ of this question.
    #[serde(default)]
    pub delta: f64,
    /// Its share of what the report was charged, 0 to 100.
    pub percent: f64,
    /// How each value column was noised.
    pub noise: Vec<Noise>,
    /// The noisy number of units that a group needed to be shown; `None` where the keys are public.
    #[serde(default)]
    pub threshold: Option<f64>,
}

/// How one column was noised, in the unit that is shown; the other post-processing is not in these numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// The column as it is shown.
    pub column: String,
    /// The distribution of the noise.
    pub kind: NoiseKind,
    /// Its scale in the unit of the column: b for Laplace, σ for Gaussian. `None` for what follows from several noisy
    /// sums, and for a choice.
    #[serde(default)]
    pub scale: Option<f64>,
    /// How far the value was expected to be off, 95 times in 100, when the question was planned.
    #[serde(default)]
    pub expected_error: Option<f64>,
    /// For a quantile, which has no interval: how far its rank may be off, 95 times in 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<RankError>,
}

/// The distribution of noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NoiseKind {
    /// Discrete Laplace noise.
    Laplace,
    /// Discrete Gaussian noise.
    Gaussian,
    /// No noise: a choice by the exponential mechanism.
    Choice,
}

/// How an answer is drawn. Columns that are not named are chosen: all keys together, the first value.
///
/// ```
/// use dither_report::Plot;
/// let plot: Plot = toml::from_str("kind = 'heat-map'\nx = 'column'\ny = 'row'")?;
/// assert_eq!(plot, Plot::HeatMap { x: "column".into(), y: "row".into(), value: None });
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Plot {
    /// Bars from zero, with error bars: for counts and sums.
    Bars {
        /// The key column that labels a bar.
        key: Option<String>,
        /// The value column.
        value: Option<String>,
    },
    /// Points with error bars: for means, shares and time series, where zero means nothing special.
    Points {
        /// The key column that labels a point.
        key: Option<String>,
        /// The value column.
        value: Option<String>,
    },
    /// Coloured cells of a grid.
    HeatMap {
        /// The key column from left to right.
        x: String,
        /// The key column from bottom to top for numbers, from top to bottom for the rest.
        y: String,
        /// The value column.
        value: Option<String>,
    },
    /// A cross table of two keys.
    Table {
        /// The key column of the rows.
        rows: String,
        /// The key column of the columns.
        columns: String,
        /// The value column.
        value: Option<String>,
    },
}

/// What a steward signs: everything that was done to the data, and what it amounts to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// What is certified, as a heading.
    pub title: String,
    /// The language of every word that is not given here.
    pub language: Language,
    /// The name of the data set.
    pub dataset: String,
    /// Who is protected, and how the events compose.
    pub privacy: PrivacyStatement,
    /// The bounds that the policy enforces, per table.
    pub bounds: Vec<TableBounds>,
    /// Every event, in the order of the ledger.
    pub events: Vec<EventLine>,
    /// What the events amount to, under each accountant.
    pub guarantees: Vec<Guarantee>,
    /// The budget of the data set.
    pub total: Loss,
    /// What was charged for these events.
    pub charged: Loss,
    /// The last entry of the ledger when the certificate was made.
    pub head: Receipt,
    /// The entry that paid for these events.
    pub receipt: Receipt,
    /// The digest of the policy, in hexadecimal.
    pub policy: String,
    /// What computed it.
    pub versions: Vec<Version>,
    /// The day of the charge, as it is to be printed: that of the first one where the report is repeated.
    #[serde(default)]
    pub charged_on: String,
    /// When it was made, as it is to be printed.
    pub generated: String,
}

/// How much one unit of a table may contribute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableBounds {
    /// The table.
    pub table: String,
    /// What the policy calls its file, without the folder.
    #[serde(default)]
    pub file: String,
    /// How many groups and rows of one unit are kept.
    pub contribution: ContributionBounds,
    /// The columns with bounds.
    pub columns: Vec<ColumnBounds>,
}

/// The range that the values of one column are clamped to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnBounds {
    /// The column.
    pub column: String,
    /// The lower bound.
    pub lower: f64,
    /// The upper bound.
    pub upper: f64,
    /// The step that values are rounded to.
    pub step: f64,
}

/// One event and what it was for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EventLine {
    /// The question, or what else was done.
    pub purpose: String,
    /// Its SQL.
    #[serde(default)]
    pub question: String,
    /// What was done to the data.
    pub event: PrivacyEvent,
    /// The bounds that were found from the data, which are part of what was released.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub found: Vec<Between>,
}

/// What the events amount to under one accountant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Guarantee {
    /// The accountant, by its name in the field: `pure`, `zCDP`, `RDP`, `PLD`.
    pub accountant: String,
    /// The ε at this δ; `None` where the accountant gives no finite bound.
    pub epsilon: Option<f64>,
    /// The δ.
    pub delta: f64,
}

/// A component and its version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// The component.
    pub name: String,
    /// Its version.
    pub version: String,
}
