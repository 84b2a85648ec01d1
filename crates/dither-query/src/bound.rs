//! The portable half: a relational plan of built-in functions whose result is a small table of exact integers.
//!
//! ```text
//! scan ─ filter ─ lattice ─▶ at most R rows per unit and group ─▶ per unit and group: counts and sums
//!                            ─▶ at most L0 groups per unit ─▶ per group: units, counts and sums
//! ```
//!
//! Quantiles need the values themselves: how many of the kept rows of a group lie on which point of a grid. That is a
//! second plan over the same table, which keeps the same rows and groups and counts them by value.
//!
//! Which rows and groups of a unit are kept is decided by a hash of their contents under a secret that is drawn for
//! the request: not by row order, so that one unit's rows cannot change which rows of another are kept, and not
//! predictably, so that nobody can arrange to be kept.
//!
//! # Privacy
//! One unit changes at most L0 rows of the result, and in each of them the number of units by at most 1, the number
//! of rows by at most R, a sum by at most R times the larger bound, and ΣA² + 2ΣAB + ΣB² of a summand that is squared by the
//! square of R times its range at most: A and B are not negative, and add up to the range for each of its rows. All sums are exact 128-bit decimals, so
//! order, threads, spilling and engine cannot change a bit.

use std::num::NonZeroU32;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, Result};
use datafusion::functions::crypto::expr_fn::sha256;
use datafusion::functions::math::expr_fn::{floor, isnan};
use datafusion::functions::string::expr_fn::{btrim, concat, lower, replace};
use datafusion::functions::unicode::expr_fn::character_length;
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::functions_window::expr_fn::{dense_rank, row_number};
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, ExprSchemable, LogicalPlan, LogicalPlanBuilder, cast, lit, try_cast, when,
};
use datafusion::scalar::ScalarValue;
use dither_bounding::Limits;
use dither_core::{ContributionBounds, Key, PrivacyUnit, ValueBounds};

use crate::ir::{Domain, Question};
use crate::relation::{self, Relation};
use crate::source::Tables;
use crate::sql::{clamped, key_literal};

/// What the portable plan measures for each group, besides units and rows: one sum for each of these.
#[derive(Debug, Clone, PartialEq)]
pub struct Summand {
    /// The row-local expression, a float, over the columns of the table and the values that were computed first.
    pub expr: Expr,
    /// What its values are clamped to, and their lattice.
    pub bounds: ValueBounds,
}

/// What a histogram counts for each group: how many of the kept rows have which value. NULL is not counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// The row-local expression.
    pub expr: Expr,
    /// The type of its values.
    pub kind: DataType,
    /// Whether the number of different values is all that is wanted.
    pub distinct: bool,
    /// Whether all rows of a unit have the same value, as the person has whose period the unit is.
    pub of_unit: bool,
}

/// The names of the columns of the result; keys are `k0`, `k1`, …
pub(crate) const UNITS: &str = "units";
/// The number of rows kept.
pub(crate) const ROWS: &str = "rows";
/// A value of a histogram, and the number of kept rows that have it.
pub(crate) const POINT: &str = "point";
/// How many rows have the value.
pub(crate) const COUNT: &str = "count";
const UNIT: &str = "unit";
const RANK: &str = "rank";
const GROUP_RANK: &str = "group_rank";

pub(crate) fn key_name(index: usize) -> String {
    format!("k{index}")
}

pub(crate) fn sum_name(index: usize) -> String {
    format!("s{index}")
}

pub(crate) fn count_name(index: usize) -> String {
    format!("n{index}")
}

/// The names of A² + …, of which there are three for each summand whose totals of units are squared.
pub(crate) fn square_names(index: usize) -> [String; 3] {
    ["aa", "ab", "bb"].map(|name| format!("{name}{index}"))
}

/// The name of a value that is computed first. No column of a table has one like it.
pub fn value_name(index: usize) -> String {
    format!("\u{1}x{index}")
}

pub(crate) fn column(name: impl Into<String>) -> Expr {
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
    /// What is computed first: a column of its own for each, see [`value_name`], with the number of lattice steps, clamped,
    /// as an integer. Summands that need a value several times refer to it.
    pub values: &'a [Summand],
    /// What is summed.
    pub summands: &'a [Summand],
    /// The summands of which the totals of units are squared: with A = Σ(upper − x) and B = Σ(x − lower) over the rows of one
    /// unit in a group, ΣA², ΣAB and ΣB² over its units. None where each row is a unit.
    pub squared: &'a [usize],
    /// What is counted by value.
    pub histograms: &'a [Histogram],
    /// Whether rows are counted or summed at all; counting units needs no choice of rows, and histograms make their own.
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
            PrivacyUnit::Column(_) | PrivacyUnit::Period { .. } => {
                let groups = self.to_be_squared(self.bounded_groups(self.unit_groups(rows)?)?)?;
                groups.aggregate(self.keys(), self.group_aggregates())?.build()
            }
        }
    }

    /// Builds the plan of one histogram over a table: keys, value, number of rows; keys and the number of different values
    /// where that is all that is wanted. It keeps the rows that the other plan keeps, since both choose by the same hashes
    /// of the same contents.
    ///
    /// # Errors
    /// As for [`Bounding::plan`].
    ///
    /// # Privacy
    /// One unit moves the counts of at most L0 groups, and in each of them by at most R together; so it does the numbers of
    /// different values.
    pub fn histogram(&self, index: usize, tables: &Tables) -> Result<LogicalPlan> {
        let rows = self.rows(tables)?;
        let kept = match self.unit {
            PrivacyUnit::Row => rows,
            PrivacyUnit::Column(_) | PrivacyUnit::Period { .. } => {
                self.rows_in_bounded_groups(self.bounded_rows(rows)?)?
            }
        };
        let value = column(format!("h{index}"));
        let by = [self.keys(), vec![value.clone().alias(POINT)]].concat();
        let counted = kept.filter(value.is_not_null())?.aggregate(by, vec![count(lit(1_i64)).alias(COUNT)])?;
        match self.histograms.get(index) {
            // In a second step: groups, unlike the values of a distinct count, can be put aside on disk.
            Some(Histogram { distinct: true, .. }) => {
                counted.aggregate(self.keys(), vec![count(column(POINT)).alias(COUNT)])?.build()
            }
            _ => counted.build(),
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

    /// The rows that may count, as they are: the unit if rows have one, keys, and the values to be summed as floats.
    ///
    /// # Errors
    /// Whatever the plan builder refuses.
    pub(crate) fn columns(&self, tables: &Tables) -> Result<LogicalPlan> {
        self.projected(tables, |summand| Ok(summand.expr.clone()))?.build()
    }

    /// How much a unit may contribute; `None` where there is nothing to choose.
    pub(crate) fn limits(&self) -> Limits {
        let ContributionBounds { max_groups_per_unit: groups, max_rows_per_group: rows } = self.bounds;
        let chosen = self.needs_rows || !self.histograms.is_empty();
        Limits {
            // Where only units are counted, one row shows that the unit is there.
            max_rows_per_group: Some(if chosen { rows } else { NonZeroU32::MIN }),
            max_groups_per_unit: (!self.few_groups()).then_some(groups),
        }
    }

    /// Whether there are no more groups than a unit may be in.
    fn few_groups(&self) -> bool {
        let limit = u64::from(self.bounds.max_groups_per_unit.get());
        self.question.public_groups().is_some_and(|count| count <= limit)
    }

    /// Unit, keys and values of the rows that pass the filters.
    fn projected(&self, tables: &Tables, value: impl Fn(&Summand) -> Result<Expr>) -> Result<LogicalPlanBuilder> {
        let (mut plan, unit, present) = match &self.question.relation {
            Relation::Table { name, unit: Some(unit), .. } => {
                (relation::scan(tables, name)?, Some(unit.value()?), Some(unit.is_present()?))
            }
            Relation::Table { name, unit: None, .. } => (relation::scan(tables, name)?, None, None),
            other => (other.build(tables)?, Some(column(relation::UNIT)), None),
        };
        if let Some(present) = present {
            plan = plan.filter(present)?;
        }
        for filter in &self.question.filters {
            plan = plan.filter(filter.clone())?;
        }
        if !self.values.is_empty() {
            let fields = plan.schema().columns().into_iter().map(Expr::Column);
            let values = self
                .values
                .iter()
                .enumerate()
                .map(|(index, value)| Ok(on_lattice(&value.expr, &value.bounds)?.alias(value_name(index))));
            let all = fields.map(Ok).chain(values).collect::<Result<Vec<_>>>()?;
            plan = plan.project(all)?;
        }
        let mut columns = Vec::new();
        if *self.unit != PrivacyUnit::Row {
            columns.extend(unit.map(|unit| unit.alias(UNIT)));
        }
        for (index, key) in self.question.keys.iter().enumerate() {
            columns.push(wide(key.expr.clone(), &key.kind).alias(key_name(index)));
        }
        for (index, summand) in self.summands.iter().enumerate() {
            columns.push(value(summand)?.alias(format!("v{index}")));
        }
        for (index, histogram) in self.histograms.iter().enumerate() {
            columns.push(wide(histogram.expr.clone(), &histogram.kind).alias(format!("h{index}")));
        }
        plan.project(if columns.is_empty() { vec![lit(1_i64).alias("one")] } else { columns })
    }

    /// The rows that count: unit, keys, and values as integers on their lattices.
    fn rows(&self, tables: &Tables) -> Result<LogicalPlanBuilder> {
        let mut plan = self.projected(tables, |summand| on_lattice(&summand.expr, &summand.bounds))?;
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
        self.bounded_rows(rows)?.aggregate(self.unit_and_keys(), self.row_aggregates())
    }

    /// At most R rows of each unit in each group.
    fn bounded_rows(&self, rows: LogicalPlanBuilder) -> Result<LogicalPlanBuilder> {
        let values = (0..self.summands.len()).map(|index| column(format!("v{index}")));
        let points = (0..self.histograms.len()).map(|index| column(format!("h{index}")));
        let order = self.keyed_hash(&rows, "row", self.unit_and_keys().into_iter().chain(values).chain(points))?;
        ranked(rows, self.unit_and_keys(), order, self.bounds.max_rows_per_group.get())
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
        if self.few_groups() {
            return Ok(groups);
        }
        let order = self.keyed_hash(&groups, "group", self.unit_and_keys())?;
        ranked(groups, vec![column(UNIT)], order, self.bounds.max_groups_per_unit.get())
    }

    /// A and B of each unit and group beside its totals, for each summand that is squared. Both are integers of at most
    /// [`Shape::MOST`](crate::plan::Shape::MOST), so that products and their sums are exact in decimals.
    fn to_be_squared(&self, groups: LogicalPlanBuilder) -> Result<LogicalPlanBuilder> {
        if self.squared.is_empty() {
            return Ok(groups);
        }
        let whole = |expr: Expr| cast(expr, DataType::Decimal128(20, 0));
        let ends = self.squared.iter().flat_map(|index| {
            let (sum, count) = (column(sum_name(*index)), whole(column(count_name(*index))));
            let times = |end: i64| count.clone() * lit(ScalarValue::Decimal128(Some(end.into()), 20, 0));
            let bounds = &self.summands[*index].bounds;
            let (a, b) = (times(bounds.upper()) - sum.clone(), sum - times(bounds.lower()));
            [("a", a), ("b", b)]
                .map(|(name, end)| cast(end, DataType::Decimal128(18, 0)).alias(format!("{name}{index}")))
        });
        groups.project([self.keys(), self.measures(), ends.collect()].concat())
    }

    /// The rows of at most L0 groups of each unit: the same groups.
    fn rows_in_bounded_groups(&self, rows: LogicalPlanBuilder) -> Result<LogicalPlanBuilder> {
        if self.few_groups() {
            return Ok(rows);
        }
        let order = self.keyed_hash(&rows, "group", self.unit_and_keys())?.sort(true, false);
        let rank = dense_rank().partition_by(vec![column(UNIT)]).order_by(vec![order]).build()?;
        let limit = u64::from(self.bounds.max_groups_per_unit.get());
        rows.window(vec![rank.alias(GROUP_RANK)])?.filter(column(GROUP_RANK).lt_eq(lit(limit)))
    }

    fn group_aggregates(&self) -> Vec<Expr> {
        let units = count(lit(1_i64)).alias(UNITS);
        let mut aggregates = vec![units, sum(column(ROWS)).alias(ROWS)];
        if self.needs_rows {
            for index in 0..self.summands.len() {
                aggregates.push(sum(column(sum_name(index))).alias(sum_name(index)));
                aggregates.push(sum(column(count_name(index))).alias(count_name(index)));
            }
            for index in self.squared {
                let [a, b] = ["a", "b"].map(|name| column(format!("{name}{index}")));
                let products = [a.clone() * a.clone(), a * b.clone(), b.clone() * b];
                aggregates
                    .extend(products.into_iter().zip(square_names(*index)).map(|(each, name)| sum(each).alias(name)));
            }
        }
        aggregates
    }

    /// SHA-256 over the secret, a purpose and some columns of the rows. Equal hashes mean equal contributions.
    fn keyed_hash(
        &self,
        rows: &LogicalPlanBuilder,
        purpose: &str,
        parts: impl IntoIterator<Item = Expr>,
    ) -> Result<Expr> {
        let secret = lit(format!("{} {purpose}", self.secret));
        let parts = parts.into_iter().map(|part| {
            let kind = part.get_type(rows.schema().as_ref())?;
            delimited(try_cast(part, DataType::LargeUtf8), &kind)
        });
        let text = std::iter::once(Ok(secret)).chain(parts).collect::<Result<Vec<_>>>()?;
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

/// The text of a value of some type: digits of an integer after a space, any other text after its length, and `N` for
/// NULL. Different lists of values of the same types never read the same.
fn delimited(text: Expr, kind: &DataType) -> Result<Expr> {
    let length = cast(character_length(text.clone()), DataType::LargeUtf8);
    let large = |text: &str| lit(ScalarValue::LargeUtf8(Some(text.into())));
    let parts = match kind {
        DataType::Int64 => vec![large(" "), text.clone()],
        _ => vec![large(" "), length, large(":"), text.clone()],
    };
    when(text.is_null(), large("N")).otherwise(concat(parts))
}

/// Texts that are grouped by are counted in 64 bits: how many bytes all groups have together depends on the rows.
pub(crate) fn wide(expr: Expr, kind: &DataType) -> Expr {
    if *kind == DataType::Utf8 { cast(expr, DataType::LargeUtf8) } else { expr }
}

/// One person under several spellings is one unit: texts count without surrounding spaces and in lower case. Taking
/// two people for one costs accuracy only; taking one for two would cost the guarantee.
///
/// Both small sigmas of Greek are one letter here, as they are one capital: with this, each letter is lowered without
/// a look at its neighbours, which every engine can do.
pub(crate) fn canonical(unit: Expr, kind: &DataType) -> Expr {
    if *kind == DataType::Utf8 { replace(lower(btrim(vec![unit])), lit("ς"), lit("σ")) } else { unit }
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
