//! The exact answers to the questions of the examples, by plain SQL without noise and without bounds on contributions.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
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

/// One question of an example.
pub struct Question {
    /// Its id in the report.
    pub id: &'static str,
    /// SQL for the key columns and then the value columns, named as in the answer; values are clamped.
    pub sql: String,
    /// The expressions of the keys.
    pub keys: &'static [&'static str],
    /// Which rows count.
    pub filter: &'static str,
    /// Whether rows are counted or summed, so that the number of rows of a unit is bounded.
    pub rows: bool,
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

/// The cells of the heat map and what lies in them.
pub const GRID: &str = "floor(latitude * 200) BETWEEN 6231 AND 6268 AND floor(longitude * 200) BETWEEN 24280 AND 24328";

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
    let income = bounded("\"PINCP\"", 0.0, 75_000.0, 1.0);
    let incomes = format!("COUNT(\"PINCP\") AS people, SUM({income}) AS income, AVG({income}) AS mean_income");
    let amount = bounded("amount", 0.0, 1_500.0, 0.01);
    let per_head = bounded("CASE WHEN heads <> 0 THEN amount / heads END", 0.0, 500.0, 0.01);
    let question = |id, sql: String, keys, filter, rows| Question { id, sql, keys, filter, rows };
    let hospital = vec![
        question("mean-stay", "SELECT AVG(time_in_hospital) AS days FROM stays".into(), &[], "true", true),
        question(
            "stay-by-age",
            "SELECT age, COUNT(*) AS stays, AVG(time_in_hospital) AS days FROM stays GROUP BY age".into(),
            &["age"],
            "true",
            true,
        ),
        question(
            "patients-by-specialty",
            "SELECT medical_specialty, COUNT(DISTINCT patient_nbr) AS patients FROM stays \
             WHERE medical_specialty IS NOT NULL GROUP BY medical_specialty"
                .into(),
            &["medical_specialty"],
            "medical_specialty IS NOT NULL",
            false,
        ),
    ];
    let restaurant = vec![
        question("revenue", format!("SELECT SUM({amount}) AS revenue FROM bills"), &[], "true", true),
        question("spend-per-head", format!("SELECT AVG({per_head}) AS spend_per_head FROM bills"), &[], "true", true),
        question("satisfaction", "SELECT AVG(satisfaction) AS stars FROM bills".into(), &[], "true", true),
        question(
            "by-city",
            format!("SELECT city, COUNT(*) AS bills, SUM({amount}) AS revenue FROM bills GROUP BY city"),
            &["city"],
            "true",
            true,
        ),
    ];
    let people = vec![
        question(
            "by-state",
            format!("SELECT \"STATE\", {incomes} FROM people WHERE \"INDP_CAT\" IS NOT NULL GROUP BY \"STATE\""),
            &["\"STATE\""],
            "\"INDP_CAT\" IS NOT NULL",
            true,
        ),
        question(
            "by-state-and-industry",
            format!(
                "SELECT \"STATE\", \"INDP_CAT\", {incomes} FROM people WHERE \"INDP_CAT\" IS NOT NULL \
                 GROUP BY \"STATE\", \"INDP_CAT\""
            ),
            &["\"STATE\"", "\"INDP_CAT\""],
            "\"INDP_CAT\" IS NOT NULL",
            true,
        ),
    ];
    let cell = "CAST(floor(latitude * 200) AS BIGINT), CAST(floor(longitude * 200) AS BIGINT)";
    let cells = vec![question(
        "users-by-cell",
        format!("SELECT {cell}, COUNT(DISTINCT \"user\") AS users FROM checkins WHERE {GRID} GROUP BY {cell}"),
        &["floor(latitude * 200)", "floor(longitude * 200)"],
        GRID,
        false,
    )];
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
    unit: PrivacyUnit,
    bounds: dither_core::ContributionBounds,
    name: &'static str,
}

impl Table {
    /// Opens the table of a policy that lies in a folder.
    pub fn open(example: &Example, policy: &Policy, folder: &Path) -> Result<Self> {
        let table = &policy.tables[example.table];
        let context = SessionContext::new();
        context.register_table(example.table, source::open(table, folder, &Arc::default())?)?;
        let bounds = table.contribution_bounds().context("the example declares contribution bounds")?;
        Ok(Self { context, unit: table.privacy_unit.clone(), bounds, name: example.table })
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

    /// How many units have more rows in a group, or more groups, than count: none, and the bounded answer is the truth.
    pub async fn units_cut(&self, question: &Question) -> Result<f64> {
        let PrivacyUnit::Column(unit) = &self.unit else { return Ok(0.0) };
        let by: Vec<String> =
            std::iter::once(format!("\"{unit}\"")).chain(question.keys.iter().map(|k| (*k).into())).collect();
        let limit = if question.rows { u64::from(self.bounds.max_rows_per_group.get()) } else { u64::MAX >> 1 };
        // A null unit is nobody, and does not count.
        let sql = format!(
            "SELECT COUNT(*) AS cut FROM (SELECT u FROM (SELECT {} AS u, COUNT(*) AS n FROM {} WHERE \"{unit}\" IS NOT NULL \
             AND ({}) GROUP BY {}) GROUP BY u HAVING MAX(n) > {limit} OR COUNT(*) > {})",
            by[0],
            self.name,
            question.filter,
            by.join(", "),
            self.bounds.max_groups_per_unit,
        );
        let columns = self.columns(&sql, 0).await?;
        columns["cut"].get("").copied().context("a count is one row")
    }
}
