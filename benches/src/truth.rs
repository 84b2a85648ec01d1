//! The exact answers to the questions of the examples, by plain SQL and without noise.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use datafusion::arrow::array::{Array, Float64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;
use dither::Policy;
use dither_core::PrivacyUnit;
use dither_query::source;

/// The values of each column by the keys of the row, joined by `|`.
pub type Columns = BTreeMap<String, BTreeMap<String, f64>>;

/// What a column of an answer is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The number of units.
    Units,
    /// The number of rows.
    Rows,
    /// The number of values.
    Values,
    /// The sum of values.
    Sum,
    /// The mean of values: unknown where there are none, while all others are zero there.
    Mean,
}

/// One question of an example.
pub struct Question {
    /// Its id in the report.
    pub id: &'static str,
    /// The expressions of the keys.
    pub keys: &'static [&'static str],
    /// Which rows count.
    pub filter: &'static str,
    /// The columns of the answer: name, kind, and the clamped value.
    pub columns: Vec<(&'static str, Kind, String)>,
}

/// One example.
pub struct Example {
    /// Its folder.
    pub name: &'static str,
    /// Its table.
    pub table: &'static str,
    /// Its questions.
    pub questions: Vec<Question>,
}

/// Clamped to bounds and rounded to the lattice, as the policy declares it.
fn bounded(value: &str, lower: f64, upper: f64, step: f64) -> String {
    let steps = format!("floor(({value}) / CAST({step} AS DOUBLE) + 0.5)");
    let (low, high) = ((lower / step).round(), (upper / step).round());
    format!("(CASE WHEN {steps} < {low} THEN {low} WHEN {steps} > {high} THEN {high} ELSE {steps} END * {step})")
}

/// The public cells of the heat map.
const GRID: &str = "floor(latitude * 200) BETWEEN 6231 AND 6268 AND floor(longitude * 200) BETWEEN 24280 AND 24328";
const ROW: &str = "CAST(floor(latitude * 200) AS BIGINT)";
const COLUMN: &str = "CAST(floor(longitude * 200) AS BIGINT)";

/// The mean income of all people with an income and an industry, unbounded and bounded, by state and industry.
pub fn bias_of_bounds() -> String {
    let income = bounded("\"PINCP\"", 0.0, 75_000.0, 1.0);
    format!(
        "SELECT \"STATE\", \"INDP_CAT\", COUNT(\"PINCP\") AS people, AVG(\"PINCP\") AS unbounded, AVG({income}) AS \
         bounded FROM people WHERE \"INDP_CAT\" IS NOT NULL GROUP BY \"STATE\", \"INDP_CAT\""
    )
}

/// All examples.
pub fn examples() -> Vec<Example> {
    let value = |text: &str| text.to_owned();
    let question = |id, keys, filter, columns| Question { id, keys, filter, columns };
    let stay = || ("days", Kind::Mean, value("time_in_hospital"));
    let hospital = vec![
        question("mean-stay", &[] as &[_], "true", vec![stay()]),
        question("stay-by-age", &["age"], "true", vec![("stays", Kind::Rows, value("1")), stay()]),
        question(
            "patients-by-specialty",
            &["medical_specialty"],
            "medical_specialty IS NOT NULL",
            vec![("patients", Kind::Units, value("1"))],
        ),
    ];
    let revenue = || ("revenue", Kind::Sum, bounded("amount", 0.0, 1_500.0, 0.01));
    let per_head = bounded("CASE WHEN heads <> 0 THEN amount / heads END", 0.0, 500.0, 0.01);
    let restaurant = vec![
        question("revenue", &[], "true", vec![revenue()]),
        question("spend-per-head", &[], "true", vec![("spend_per_head", Kind::Mean, per_head)]),
        question("satisfaction", &[], "true", vec![("stars", Kind::Mean, value("satisfaction"))]),
        question("by-city", &["city"], "true", vec![("bills", Kind::Rows, value("1")), revenue()]),
    ];
    let income = bounded("\"PINCP\"", 0.0, 75_000.0, 1.0);
    let incomes = || {
        let people = ("people", Kind::Values, income.clone());
        vec![people, ("income", Kind::Sum, income.clone()), ("mean_income", Kind::Mean, income.clone())]
    };
    let industry = "\"INDP_CAT\" IS NOT NULL";
    let people = vec![
        question("by-state", &["\"STATE\""], industry, incomes()),
        question("by-state-and-industry", &["\"STATE\"", "\"INDP_CAT\""], industry, incomes()),
    ];
    let cells = vec![question("users-by-cell", &[ROW, COLUMN], GRID, vec![("users", Kind::Units, value("1"))])];
    vec![
        Example { name: "hospital", table: "stays", questions: hospital },
        Example { name: "restaurant", table: "bills", questions: restaurant },
        Example { name: "income", table: "people", questions: people },
        Example { name: "heatmap", table: "checkins", questions: cells },
    ]
}

/// The table of an example, without any protection.
pub struct Table {
    context: SessionContext,
    /// The column of the unit, where a row is not one by itself.
    unit: Option<String>,
    bounds: dither_core::ContributionBounds,
    name: &'static str,
}

impl Table {
    /// Opens a table of a policy that lies in a folder.
    pub fn open(policy: &Policy, name: &'static str, folder: &Path) -> Result<Self> {
        let table = &policy.tables[name];
        let context = SessionContext::new();
        context.register_table(name, source::open(table, folder, &Arc::default())?)?;
        let bounds = table.contribution_bounds().context("the table has contribution bounds")?;
        let unit = match policy.root(name).context("the rows of the table have owners")?.unit {
            PrivacyUnit::Row => None,
            PrivacyUnit::Column(column) => Some(column),
            PrivacyUnit::Period { .. } => bail!("units in time are not counted here"),
        };
        Ok(Self { context, unit, bounds, name })
    }

    /// Reads the columns after the first `keys` ones as numbers.
    pub async fn columns(&self, sql: &str, keys: usize) -> Result<Columns> {
        let mut columns = Columns::new();
        for batch in self.context.sql(sql).await?.collect().await? {
            for (index, field) in batch.schema().fields().iter().enumerate().skip(keys) {
                let values = cast(batch.column(index), &DataType::Float64)?;
                let values = values.as_any().downcast_ref::<Float64Array>().context("a column is of numbers")?;
                let column = columns.entry(field.name().clone()).or_default();
                for row in (0..batch.num_rows()).filter(|row| !values.is_null(*row)) {
                    let key = (0..keys).map(|key| Ok(ScalarValue::try_from_array(batch.column(key), row)?.to_string()));
                    column.insert(key.collect::<Result<Vec<_>>>()?.join("|"), values.value(row));
                }
            }
        }
        Ok(columns)
    }

    /// The answers without any bound on contributions.
    pub async fn unbounded(&self, question: &Question) -> Result<Columns> {
        self.columns(&self.weighted(question, "1.0"), question.keys.len()).await
    }

    /// The answers with contributions bounded, in expectation over which rows and groups of a unit are kept.
    pub async fn bounded(&self, question: &Question) -> Result<Columns> {
        let least = |most: u32, all: &str| format!("CASE WHEN {all} > {most} THEN {most}.0 / {all} ELSE 1.0 END");
        let (rows, groups) = (self.bounds.max_rows_per_group.get(), self.bounds.max_groups_per_unit.get());
        let weight = match self.unit {
            None => "1.0".to_owned(),
            Some(_) if question.counts_units() => least(groups, "g"),
            Some(_) => format!("({}) * ({})", least(rows, "n"), least(groups, "g")),
        };
        self.columns(&self.weighted(question, &weight), question.keys.len()).await
    }

    /// How many units have more rows in a group, or more groups, than count.
    pub async fn units_cut(&self, question: &Question) -> Result<f64> {
        if self.unit.is_none() {
            return Ok(0.0);
        }
        let (rows, groups) = (self.bounds.max_rows_per_group, self.bounds.max_groups_per_unit);
        let many_rows = if question.counts_units() { String::new() } else { format!(" OR n > {rows}") };
        let from = self.unit_groups(question);
        let sql = format!("SELECT COUNT(DISTINCT u) AS cut FROM ({from}) WHERE g > {groups}{many_rows}");
        self.columns(&sql, 0).await?["cut"].get("").copied().context("a count is one row")
    }

    /// One row per unit and group: its rows `n`, counts and sums of values, and the number of groups `g` of the unit.
    fn unit_groups(&self, question: &Question) -> String {
        let (unit, known) = match &self.unit {
            Some(unit) => (format!("\"{unit}\""), format!("\"{unit}\" IS NOT NULL")),
            None => ("1".to_owned(), "true".to_owned()),
        };
        let keys: String = question.keys.iter().enumerate().map(|(i, key)| format!(", {key} AS k{i}")).collect();
        let names: String = (0..question.keys.len()).map(|i| format!(", k{i}")).collect();
        let values = question.columns.iter().enumerate();
        let values: String = values.map(|(i, (_, _, value))| format!(", {value} AS v{i}")).collect();
        let sums: String =
            (0..question.columns.len()).map(|i| format!(", COUNT(v{i}) AS c{i}, SUM(v{i}) AS s{i}")).collect();
        format!(
            "SELECT *, COUNT(*) OVER (PARTITION BY u) AS g FROM (SELECT u{names}, COUNT(*) AS n{sums} FROM \
             (SELECT {unit} AS u{keys}{values} FROM {} WHERE {known} AND ({})) GROUP BY u{names})",
            self.name, question.filter
        )
    }

    fn weighted(&self, question: &Question, weight: &str) -> String {
        let keys: Vec<String> = (0..question.keys.len()).map(|i| format!("k{i}")).collect();
        let columns = question.columns.iter().enumerate().map(|(i, (name, kind, _))| match kind {
            Kind::Units => format!("SUM({weight}) AS {name}"),
            Kind::Rows => format!("SUM(n * {weight}) AS {name}"),
            Kind::Values => format!("SUM(c{i} * {weight}) AS {name}"),
            Kind::Sum => format!("SUM(s{i} * {weight}) AS {name}"),
            Kind::Mean => format!("SUM(s{i} * {weight}) / SUM(c{i} * {weight}) AS {name}"),
        });
        let outputs: Vec<String> = keys.iter().cloned().chain(columns).collect();
        let by = if keys.is_empty() { String::new() } else { format!(" GROUP BY {}", keys.join(", ")) };
        format!("SELECT {} FROM ({}){by}", outputs.join(", "), self.unit_groups(question))
    }
}

impl Question {
    fn counts_units(&self) -> bool {
        self.columns.iter().all(|(_, kind, _)| *kind == Kind::Units)
    }
}
