//! The portable half: a relational plan of built-in functions whose result is a small table of exact integers.
//!
//! ```text
//! scan ─ filter ─ lattice ─▶ at most R rows per unit and group ─▶ per unit and group: counts and sums
//!                            ─▶ at most L0 groups per unit ─▶ per group: units, counts and sums
//! ```
//!
//! Which rows and groups of a unit are kept is decided by a hash of their contents under a secret that is drawn for
//! the request: not by row order, so that one unit's rows cannot change which rows of another are kept, and not
//! predictably, so that nobody can arrange to be kept.
//!
//! # Privacy
//! One unit changes at most L0 rows of the result, and in each of them the number of units by at most 1, the number
//! of rows by at most R, and a sum by at most R times the larger bound. All sums are exact 128-bit decimals, so
//! order, threads, spilling and engine cannot change a bit.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, Result};
use datafusion::functions::crypto::expr_fn::sha256;
use datafusion::functions::math::expr_fn::{floor, isnan};
use datafusion::functions::string::expr_fn::{btrim, concat, lower};
use datafusion::functions::unicode::expr_fn::character_length;
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, cast, lit, try_cast, when};
use datafusion::scalar::ScalarValue;
use dither_core::{ContributionBounds, Key, PrivacyUnit, ValueBounds};

use crate::ir::{Domain, Question};
use crate::relation::{self, Relation};
use crate::source::Tables;
use crate::sql::{clamped, key_literal};

/// What the portable plan measures for each group, besides units and rows: one sum for each of these.
#[derive(Debug, Clone, PartialEq)]
pub struct Summand {
    /// The row-local expression, a float.
    pub expr: Expr,
    /// What its values are clamped to, and their lattice.
    pub bounds: ValueBounds,
}

/// The names of the columns of the result; keys are `k0`, `k1`, …
pub(crate) const UNITS: &str = "units";
/// The number of rows kept.
pub(crate) const ROWS: &str = "rows";
const UNIT: &str = "unit";
const RANK: &str = "rank";

pub(crate) fn key_name(index: usize) -> String {
    format!("k{index}")
}

pub(crate) fn sum_name(index: usize) -> String {
    format!("s{index}")
}

pub(crate) fn count_name(index: usize) -> String {
    format!("n{index}")
}

fn column(name: impl Into<String>) -> Expr {
    Expr::Column(Column::from_name(name))
}

/// Everything that the portable plan depends on.
pub struct Bounding<'a> {
    /// The question.
    pub question: &'a Question,
    /// Who is protected.
    pub unit: &'a PrivacyUnit,
    /// The type of the unit column; irrelevant where a row is a unit.
    pub unit_kind: &'a DataType,
    /// How much one unit may contribute.
    pub bounds: ContributionBounds,
    /// What is summed.
    pub summands: &'a [Summand],
    /// Whether rows are counted or summed at all; counting units needs no choice of rows.
    pub needs_rows: bool,
    /// The secret of the request, as text.
    pub secret: &'a str,
}

impl Bounding<'_> {
    /// Builds the plan over the tables of the question, by their names.
    ///
    /// # Errors
    /// Whatever the plan builder refuses; a validated question gives it no cause.
    pub fn plan(&self, tables: &Tables) -> Result<LogicalPlan> {
        let rows = self.rows(tables)?;
        match self.unit {
            // A row that is its own unit is in one group, once.
            PrivacyUnit::Row => {
                let one = rows.aggregate(self.keys(), self.row_aggregates())?;
                one.project([self.keys(), vec![column(ROWS).alias(UNITS)], self.measures()].concat())?.build()
            }
            PrivacyUnit::Column(_) => {
                let groups = self.bounded_groups(self.unit_groups(rows)?)?;
                groups.aggregate(self.keys(), self.group_aggregates())?.build()
            }
        }
    }

    fn keys(&self) -> Vec<Expr> {
        (0..self.question.keys.len()).map(|index| column(key_name(index))).collect()
    }

    fn unit_and_keys(&self) -> Vec<Expr> {
        std::iter::once(column(UNIT)).chain(self.keys()).collect()
    }

    /// The columns of the result after the keys and the number of units.
    fn measures(&self) -> Vec<Expr> {
        let sums = (0..self.summands.len()).flat_map(|index| [column(sum_name(index)), column(count_name(index))]);
        std::iter::once(column(ROWS)).chain(sums).collect()
    }

    /// The rows that count: unit, keys, and values as integers on their lattices.
    fn rows(&self, tables: &Tables) -> Result<LogicalPlanBuilder> {
        let (mut plan, mut unit) = match &self.question.relation {
            Relation::Table { name, .. } => (relation::scan(tables, name)?, None),
            other => (other.build(tables)?, Some(column(relation::UNIT))),
        };
        for filter in &self.question.filters {
            plan = plan.filter(filter.clone())?;
        }
        let mut columns = Vec::new();
        if let PrivacyUnit::Column(name) = self.unit {
            if unit.is_none() {
                plan = plan.filter(column(name).is_not_null())?;
                unit = Some(canonical(wide(column(name), self.unit_kind), self.unit_kind));
            }
            columns.extend(unit.map(|unit| unit.alias(UNIT)));
        }
        for (index, key) in self.question.keys.iter().enumerate() {
            columns.push(wide(key.expr.clone(), &key.kind).alias(key_name(index)));
        }
        for (index, summand) in self.summands.iter().enumerate() {
            columns.push(on_lattice(&summand.expr, &summand.bounds)?.alias(format!("v{index}")));
        }
        let mut plan = plan.project(if columns.is_empty() { vec![lit(1_i64).alias("one")] } else { columns })?;
        for (index, key) in self.question.keys.iter().enumerate() {
            if let Domain::Public(keys) = &key.domain {
                let kind = plan.schema().field_with_unqualified_name(&key_name(index))?.data_type().clone();
                plan = plan.filter(column(key_name(index)).in_list(literals(keys, &kind), false))?;
            }
        }
        Ok(plan)
    }

    /// Per unit and group: at most R rows, counted and summed.
    fn unit_groups(&self, rows: LogicalPlanBuilder) -> Result<LogicalPlanBuilder> {
        if !self.needs_rows {
            return rows.aggregate(self.unit_and_keys(), vec![count(lit(1_i64)).alias(ROWS)]);
        }
        let values = (0..self.summands.len()).map(|index| column(format!("v{index}")));
        let order = self.keyed_hash("row", self.unit_and_keys().into_iter().chain(values))?;
        let limit = self.bounds.max_rows_per_group.get();
        ranked(rows, self.unit_and_keys(), order, limit)?.aggregate(self.unit_and_keys(), self.row_aggregates())
    }

    fn row_aggregates(&self) -> Vec<Expr> {
        let sums = (0..self.summands.len()).flat_map(|index| {
            let value = column(format!("v{index}"));
            [
                sum(cast(value.clone(), DataType::Decimal128(20, 0))).alias(sum_name(index)),
                count(value).alias(count_name(index)),
            ]
        });
        std::iter::once(count(lit(1_i64)).alias(ROWS)).chain(sums).collect()
    }

    /// At most L0 groups of each unit, unless there are no more than that anyway.
    fn bounded_groups(&self, groups: LogicalPlanBuilder) -> Result<LogicalPlanBuilder> {
        let limit = self.bounds.max_groups_per_unit.get();
        if self.question.public_groups().is_some_and(|count| count <= u64::from(limit)) {
            return Ok(groups);
        }
        let order = self.keyed_hash("group", self.unit_and_keys())?;
        ranked(groups, vec![column(UNIT)], order, limit)
    }

    fn group_aggregates(&self) -> Vec<Expr> {
        let units = count(lit(1_i64)).alias(UNITS);
        let mut aggregates = vec![units, sum(column(ROWS)).alias(ROWS)];
        if self.needs_rows {
            for index in 0..self.summands.len() {
                aggregates.push(sum(column(sum_name(index))).alias(sum_name(index)));
                aggregates.push(sum(column(count_name(index))).alias(count_name(index)));
            }
        }
        aggregates
    }

    /// SHA-256 over the secret, a purpose and the parts. Equal hashes mean equal contributions.
    fn keyed_hash(&self, purpose: &str, parts: impl IntoIterator<Item = Expr>) -> Result<Expr> {
        let mut text = vec![lit(format!("{} {purpose}", self.secret))];
        text.extend(
            parts.into_iter().map(|part| delimited(try_cast(part, DataType::LargeUtf8))).collect::<Result<Vec<_>>>()?,
        );
        Ok(sha256(concat(text)))
    }
}

impl Question {
    /// The number of groups, if all keys are public.
    pub fn public_groups(&self) -> Option<u64> {
        self.keys.iter().try_fold(1_u64, |product, key| match &key.domain {
            Domain::Public(keys) => product.checked_mul(keys.len() as u64),
            Domain::Private => None,
        })
    }
}

/// A text with its length in front, and `N` for NULL: different lists of parts never read the same.
fn delimited(text: Expr) -> Result<Expr> {
    let length = cast(character_length(text.clone()), DataType::LargeUtf8);
    let large = |text: &str| lit(ScalarValue::LargeUtf8(Some(text.into())));
    when(text.clone().is_null(), large("N")).otherwise(concat(vec![large(" "), length, large(":"), text]))
}

/// Texts that are grouped by are counted in 64 bits: how many bytes all groups have together depends on the rows.
pub(crate) fn wide(expr: Expr, kind: &DataType) -> Expr {
    if *kind == DataType::Utf8 { cast(expr, DataType::LargeUtf8) } else { expr }
}

/// One person under several spellings is one unit: texts count without surrounding spaces and in lower case. Taking
/// two people for one costs accuracy only; taking one for two would cost the guarantee.
pub(crate) fn canonical(unit: Expr, kind: &DataType) -> Expr {
    if *kind == DataType::Utf8 { lower(btrim(vec![unit])) } else { unit }
}

/// Keeps the first `limit` rows of each partition in the given order.
fn ranked(rows: LogicalPlanBuilder, by: Vec<Expr>, order: Expr, limit: u32) -> Result<LogicalPlanBuilder> {
    let rank = row_number().partition_by(by).order_by(vec![order.sort(true, false)]).build()?;
    rows.window(vec![rank.alias(RANK)])?.filter(column(RANK).lt_eq(lit(u64::from(limit))))
}

/// The number of lattice steps nearest to a value, clamped; NULL for NULL and NaN.
pub(crate) fn on_lattice(value: &Expr, bounds: &ValueBounds) -> Result<Expr> {
    let steps = floor(value.clone() / lit(bounds.lattice().step()) + lit(0.5));
    let missing = lit(ScalarValue::Float64(None));
    let steps = when(isnan(steps.clone()), missing).otherwise(steps)?;
    let clamped = clamped(steps, bounds.lower() as f64, bounds.upper() as f64);
    let clamped = clamped.map_err(|refusal| datafusion::common::plan_datafusion_err!("{refusal}"))?;
    Ok(try_cast(clamped, DataType::Int64))
}

fn literals(keys: &[Key], kind: &DataType) -> Vec<Expr> {
    keys.iter().filter_map(|key| key_literal(key, kind)).map(lit).collect()
}
