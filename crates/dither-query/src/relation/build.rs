//! A relation as a plan of built-in relational operators. Nothing in it can fail on some rows only: joins compare,
//! sums are of clamped integers in 128 bits, quotients of nothing are NULL.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, JoinType, Result, plan_datafusion_err};
use datafusion::datasource::provider_as_source;
use datafusion::functions::core::expr_fn::nullif;
use datafusion::functions::math::expr_fn::isnan;
use datafusion::functions_aggregate::expr_fn::{count, max, min, sum};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{Expr, ExprFunctionExt, LogicalPlanBuilder, cast, lit, try_cast, when};
use datafusion::scalar::ScalarValue;
use dither_core::ValueBounds;

use super::{Field, Owner, Relation, UnitMeasure};
use crate::bound::{on_lattice, wide};
use crate::source::Tables;

/// The hidden column of the unit. No column of a policy or a question has this name: they must not contain its first
/// character.
pub(crate) const UNIT: &str = "\u{2063}unit";
/// The unit of the second relation of a join, until it was compared.
const OTHER_UNIT: &str = "\u{2063}other unit";
/// A key of the table through which rows are owned.
pub(crate) const KEY: &str = "\u{2063}key";
/// The rank of a public row among those with the same value in a unique column.
pub(crate) const RANK: &str = "\u{2063}rank";

/// Whether a row is the first with its value in a unique column.
pub(crate) fn is_first() -> Expr {
    column(RANK).eq(lit(1_u64))
}

fn column(name: impl Into<String>) -> Expr {
    Expr::Column(Column::from_name(name))
}

fn all(columns: &[Field]) -> impl Iterator<Item = Expr> {
    columns.iter().map(|(name, _)| column(name))
}

fn widened(columns: &[Field]) -> impl Iterator<Item = Expr> {
    columns.iter().map(|(name, kind)| wide(column(name), kind).alias(name))
}

/// Begins a plan with a scan of a table.
pub(crate) fn scan(tables: &Tables, name: &str) -> Result<LogicalPlanBuilder> {
    let table = tables.get(name).ok_or_else(|| plan_datafusion_err!("a table is missing"))?;
    LogicalPlanBuilder::scan("source", provider_as_source(Arc::clone(table)), None)
}

impl Relation {
    /// The plan: the hidden column of the unit, if rows belong to units, and the columns. Texts are `LargeUtf8`.
    pub(crate) fn build(&self, tables: &Tables) -> Result<LogicalPlanBuilder> {
        match self {
            Self::Table { name, unit: None, columns } => scan(tables, name)?.project(widened(columns)),
            Self::Table { name, unit: Some(unit), columns } => {
                let rows = scan(tables, name)?.filter(unit.is_present()?)?;
                rows.project(std::iter::once(unit.value()?.alias(UNIT)).chain(widened(columns)))
            }
            Self::Owned { name, column: holds, columns, parent, key } => {
                let rows = scan(tables, name)?.filter(column(holds).is_not_null())?.project(widened(columns))?;
                let owners = parent.build(tables)?.filter(column(key).is_not_null())?;
                let owners = owners.project([column(UNIT), column(key).alias(KEY)])?.distinct()?;
                let owned = rows.join_on(owners.build()?, JoinType::Inner, [column(holds).eq(column(KEY))])?;
                owned.project(self.output(columns))
            }
            Self::Public { name, columns, unique } => {
                let mut rows = scan(tables, name)?.project(widened(columns))?;
                for key in unique {
                    rows = once(rows, key, columns)?.project(all(columns))?;
                }
                Ok(rows)
            }
            Self::Filter { input, condition } => input.build(tables)?.filter(condition.clone()),
            Self::Project { input, columns } => {
                let exprs = columns.iter().map(|((name, kind), expr)| wide(expr.clone(), kind).alias(name));
                input.build(tables)?.project(self.unit().chain(exprs))
            }
            Self::Join { left, right, outer, on, same_unit, .. } => {
                let (first, mut second) = (left.build(tables)?, right.build(tables)?);
                if right.owner() == Owner::Unit && left.owner() == Owner::Unit {
                    let unit = column(UNIT).alias(OTHER_UNIT);
                    second = second.project(std::iter::once(unit).chain(all(&right.columns())))?;
                }
                let same = same_unit.then(|| column(UNIT).eq(column(OTHER_UNIT)));
                let kind = if *outer { JoinType::Left } else { JoinType::Inner };
                let pairs = first.join_on(second.build()?, kind, same.into_iter().chain(on.iter().cloned()))?;
                pairs.project(self.output(&self.columns()))
            }
            Self::PerUnit { input, keys, measures, .. } => per_unit(input.build(tables)?, keys, measures),
            Self::Union { inputs, columns } => {
                let mut parts = inputs.iter().map(|input| {
                    let names = input.columns().into_iter().zip(columns);
                    let renamed = names.map(|((from, _), (to, _))| column(from).alias(to));
                    input.build(tables)?.project(self.unit().chain(renamed.collect::<Vec<_>>()))
                });
                let first = parts.next().ok_or_else(|| plan_datafusion_err!("a union of nothing"))??;
                parts.try_fold(first, |rows, part| rows.union(part?.build()?))
            }
        }
    }

    /// The hidden column of the unit, if there is one.
    fn unit(&self) -> std::option::IntoIter<Expr> {
        (self.owner() == Owner::Unit).then(|| column(UNIT)).into_iter()
    }

    fn output(&self, columns: &[Field]) -> Vec<Expr> {
        self.unit().chain(all(columns)).collect()
    }
}

/// Keeps one row for each value of a public column: the least in the order of all columns, so that neither the order
/// of the rows nor the engine decides.
fn once(rows: LogicalPlanBuilder, key: &str, columns: &[Field]) -> Result<LogicalPlanBuilder> {
    let order = all(columns).map(|column| column.sort(true, false)).collect();
    let rank = row_number().partition_by(vec![column(key)]).order_by(order).build()?;
    rows.window(vec![rank.alias(RANK)])?.filter(is_first())
}

/// Groups the rows of each unit. Values lie on their lattice before they are added up, as integers.
fn per_unit(
    rows: LogicalPlanBuilder,
    keys: &[(Field, Option<Expr>)],
    measures: &[(Field, UnitMeasure)],
) -> Result<LogicalPlanBuilder> {
    let key_name = |index: usize| format!("\u{2063}k{index}");
    let value_name = |index: usize| format!("\u{2063}v{index}");
    let sum_name = |index: usize| format!("\u{2063}s{index}");
    let count_name = |index: usize| format!("\u{2063}n{index}");
    let mut inputs = vec![column(UNIT)];
    let mut groups = vec![column(UNIT)];
    let mut outputs = vec![column(UNIT)];
    for (index, ((name, kind), key)) in keys.iter().enumerate() {
        let Some(key) = key else {
            outputs.push(column(UNIT).alias(name));
            continue;
        };
        inputs.push(wide(key.clone(), kind).alias(key_name(index)));
        groups.push(column(key_name(index)));
        outputs.push(column(key_name(index)).alias(name));
    }
    let mut aggregates = Vec::new();
    for (index, ((name, kind), measure)) in measures.iter().enumerate() {
        let value = || column(value_name(index));
        let counted = || count(value()).alias(count_name(index));
        let added = || sum(cast(value(), DataType::Decimal128(20, 0))).alias(sum_name(index));
        if let Some(value) = input_of(measure, kind)? {
            inputs.push(value.alias(value_name(index)));
        }
        let output = match measure {
            UnitMeasure::Rows => {
                aggregates.push(count(lit(1_i64)).alias(count_name(index)));
                column(count_name(index))
            }
            UnitMeasure::Values(_) => {
                aggregates.push(counted());
                column(count_name(index))
            }
            UnitMeasure::Sum(_, bounds) => {
                aggregates.push(added());
                scaled_back(column(sum_name(index)), bounds, kind)
            }
            UnitMeasure::Mean(_, bounds) => {
                aggregates.extend([added(), counted()]);
                let number = cast(column(count_name(index)), DataType::Float64);
                scaled_back(column(sum_name(index)), bounds, &DataType::Float64) / nullif(number, lit(0.0))
            }
            UnitMeasure::Least(_) => {
                aggregates.push(min(value()).alias(sum_name(index)));
                column(sum_name(index))
            }
            UnitMeasure::Greatest(_) => {
                aggregates.push(max(value()).alias(sum_name(index)));
                column(sum_name(index))
            }
        };
        outputs.push(output.alias(name));
    }
    rows.project(inputs)?.aggregate(groups, aggregates)?.project(outputs)
}

/// What a measure is taken of: an integer on the lattice for sums, a value without NaN for extremes. Of two zeros that are
/// equal the first to arrive would stay, and rows of others decide who is first: adding zero leaves one zero.
fn input_of(measure: &UnitMeasure, kind: &DataType) -> Result<Option<Expr>> {
    Ok(Some(match measure {
        UnitMeasure::Rows => return Ok(None),
        UnitMeasure::Values(expr) => expr.clone(),
        UnitMeasure::Sum(expr, bounds) | UnitMeasure::Mean(expr, bounds) => on_lattice(expr, bounds)?,
        UnitMeasure::Least(expr) | UnitMeasure::Greatest(expr) if *kind == DataType::Float64 => {
            when(isnan(expr.clone()), lit(ScalarValue::Float64(None))).otherwise(expr.clone() + lit(0.0))?
        }
        UnitMeasure::Least(expr) | UnitMeasure::Greatest(expr) => wide(expr.clone(), kind),
    }))
}

/// An exact sum in steps as a number of the declared type. Beyond 64 bits a whole number is NULL.
fn scaled_back(steps: Expr, bounds: &ValueBounds, kind: &DataType) -> Expr {
    let step = bounds.lattice().step();
    if step == 1.0 && *kind == DataType::Int64 {
        return try_cast(steps, DataType::Int64);
    }
    let value = cast(steps, DataType::Float64) * lit(step);
    if *kind == DataType::Int64 { try_cast(value, DataType::Int64) } else { value }
}
