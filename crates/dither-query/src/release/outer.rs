//! The part of the question above its aggregation: HAVING, ORDER BY, LIMIT and arithmetic on released values.
//!
//! It runs on the released table in the engine's own way. Beside every output, two more are computed that carry the
//! interval through the arithmetic; if k released values take part, each enters with an interval of confidence
//! 1 − 0.05/k, so that the whole holds with 95 % by the union bound.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Float64Type, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column as DfColumn, DataFusionError};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::functions::core::expr_fn::{greatest, least, nullif};
use datafusion::logical_expr::expr::{Alias, Cast, ScalarFunction};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, lit, try_cast, when,
};
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use datafusion::scalar::ScalarValue;
use dither_core::{Answer, Cell, Column, Estimate, Key, Role};
use dither_mechanisms::{NoisyRow, NoisyTable};

use super::estimate::{CONFIDENCE, estimate};
use super::sampling;
use crate::error::{Code, Refusal};
use crate::explain::readable;
use crate::plan::QueryPlan;
use crate::sql::{key_literal, key_of};

fn refused(error: &DataFusionError) -> Refusal {
    if let DataFusionError::Plan(problem) = error {
        return Refusal::new(Code::Type, problem.clone());
    }
    Refusal::new(Code::Unsupported, format!("the question cannot be finished: {}", error.strip_backtrace()))
}

/// Runs the outer part on a noisy table.
pub(super) async fn run(plan: &QueryPlan, noisy: &NoisyTable) -> Result<Answer, Refusal> {
    finish(plan, noisy).await.map_err(|error| refused(&error))
}

async fn finish(plan: &QueryPlan, noisy: &NoisyTable) -> Result<Answer, DataFusionError> {
    let mut rebuild = Rebuild { plan, noisy, levels: levels(plan)? };
    let rebuilt = rebuild.node(&plan.question.outer.plan)?;
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    let batches = DataFrame::new(context.state(), rebuilt.plan).collect().await?;
    let kinds = Ends::of(plan);
    let shown = |column: &Column| {
        let name = readable(&column.name);
        match column.role {
            Role::Key => vec![Column { name, ..column.clone() }],
            Role::Value => kinds.iter().map(|kind| Column { name: kind.label(&name), ..column.clone() }).collect(),
        }
    };
    let mut answer = Answer { columns: rebuilt.columns.iter().flat_map(shown).collect(), rows: Vec::new() };
    for batch in &batches {
        answer.rows.extend(cells(&rebuilt.columns, kinds, batch)?);
    }
    Ok(answer)
}

/// What the ends of an interval cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ends {
    /// The exact bounded answer: noise alone.
    Noise,
    /// What the answer would be on average over samples: noise and sampling.
    Sampling,
}

impl Ends {
    /// The intervals that a plan has, each with a column of its own.
    fn of(plan: &QueryPlan) -> &'static [Self] {
        if plan.sampling.is_some() { &[Self::Noise, Self::Sampling] } else { &[Self::Noise] }
    }

    /// The column of a value with this interval.
    fn label(self, name: &str) -> String {
        match self {
            Self::Noise => name.to_owned(),
            Self::Sampling => format!("{name} (with sampling)"),
        }
    }

    /// The hidden columns of both ends at a level.
    fn names(self, name: &str, level: usize) -> [String; 2] {
        let kind = if self == Self::Noise { "" } else { "sampling " };
        ["low", "high"].map(|end| format!("{name}\u{1}{kind}{end}{level}"))
    }
}

/// The rows of a finished table: the columns of the question first, then two more for each interval of each value.
fn cells(columns: &[Column], kinds: &[Ends], batch: &RecordBatch) -> Result<Vec<Vec<Cell>>, DataFusionError> {
    let numbers = |index: usize| -> Result<Vec<Option<f64>>, DataFusionError> {
        let column = cast(batch.column(index), &DataType::Float64)?;
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        Ok(column.as_primitive::<Float64Type>().iter().map(finite).collect())
    };
    let mut rows = vec![Vec::new(); batch.num_rows()];
    let mut bound = columns.len();
    for (index, column) in columns.iter().enumerate() {
        if column.role == Role::Key {
            for (row, cells) in rows.iter_mut().enumerate() {
                let value = ScalarValue::try_from_array(batch.column(index), row)?;
                cells.push(Cell::Key(key_of(&value).unwrap_or(Key::Null)));
            }
            continue;
        }
        for _ in kinds {
            let (values, lows, highs) = (numbers(index)?, numbers(bound)?, numbers(bound + 1)?);
            bound += 2;
            for (((cells, value), low), high) in rows.iter_mut().zip(values).zip(lows).zip(highs) {
                cells.push(Cell::Value(Estimate { value, low, high }));
            }
        }
    }
    Ok(rows)
}

/// How many released values take part in each output: the confidence levels that are needed.
fn levels(plan: &QueryPlan) -> Result<BTreeSet<usize>, DataFusionError> {
    let mut levels = BTreeSet::from([1]);
    plan.question.outer.plan.apply(|node| {
        if let LogicalPlan::Projection(projection) = node {
            levels.extend(projection.expr.iter().map(|expr| operands(plan, expr).len().max(1)));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(levels)
}

/// The released values in an expression.
fn operands(plan: &QueryPlan, expr: &Expr) -> BTreeSet<String> {
    let names: BTreeSet<&str> = plan.question.aggregates.iter().map(|aggregate| aggregate.name.as_str()).collect();
    let mut found = BTreeSet::new();
    let _ = expr.apply(|node| {
        if let Expr::Column(column) = node
            && names.contains(column.name.as_str())
        {
            found.insert(column.name.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found
}

/// A rebuilt node: its plan, whose first columns are those of the question and whose others are interval ends.
struct Rebuilt {
    plan: LogicalPlan,
    columns: Vec<Column>,
}

struct Rebuild<'a> {
    plan: &'a QueryPlan,
    noisy: &'a NoisyTable,
    levels: BTreeSet<usize>,
}

impl Rebuild<'_> {
    fn node(&mut self, node: &LogicalPlan) -> Result<Rebuilt, DataFusionError> {
        match node {
            LogicalPlan::Aggregate(aggregate) => self.released(&aggregate.schema),
            LogicalPlan::Filter(filter) => {
                let Rebuilt { plan, columns } = self.node(&filter.input)?;
                let plan = LogicalPlanBuilder::from(plan).filter(total(filter.predicate.clone())?)?.build()?;
                Ok(Rebuilt { plan, columns })
            }
            LogicalPlan::Sort(sort) => {
                let Rebuilt { plan, columns } = self.node(&sort.input)?;
                let plan = LogicalPlanBuilder::from(plan).sort_with_limit(sort.expr.clone(), sort.fetch)?.build()?;
                Ok(Rebuilt { plan, columns })
            }
            LogicalPlan::Limit(limit) => {
                let Rebuilt { plan, columns } = self.node(&limit.input)?;
                let skip = limit.skip.as_deref().cloned();
                let fetch = limit.fetch.as_deref().cloned();
                let plan = LogicalPlanBuilder::from(plan).limit_by_expr(skip, fetch)?.build()?;
                Ok(Rebuilt { plan, columns })
            }
            LogicalPlan::Projection(projection) => {
                let below = self.node(&projection.input)?;
                self.project(&projection.expr, below)
            }
            other => Err(DataFusionError::NotImplemented(other.display().to_string())),
        }
    }

    /// The released table in place of the aggregation, under the names that the aggregation would give.
    fn released(&self, schema: &datafusion::common::DFSchema) -> Result<Rebuilt, DataFusionError> {
        let question = &self.plan.question;
        let (mut fields, mut arrays, mut columns) = (Vec::new(), Vec::<ArrayRef>::new(), Vec::new());
        for (index, key) in question.keys.iter().enumerate() {
            let values = self.noisy.rows.iter().map(|row| match &row.key[index] {
                Key::Null => ScalarValue::try_from(&key.kind),
                value => key_literal(value, &key.kind)
                    .ok_or_else(|| DataFusionError::Internal("a key has an unknown type".into())),
            });
            let values = values.collect::<Result<Vec<_>, _>>()?;
            fields.push(Field::new(format!("c{index}"), key.kind.clone(), true));
            arrays.push(if values.is_empty() {
                datafusion::arrow::array::new_empty_array(&key.kind)
            } else {
                ScalarValue::iter_to_array(values)?
            });
            columns.push(Column { name: schema.field(index).name().clone(), role: Role::Key });
        }
        let mut ends: Vec<(String, Vec<Option<f64>>)> = Vec::new();
        for (index, aggregate) in question.aggregates.iter().enumerate() {
            let mut values = Vec::new();
            for (kind, level) in
                Ends::of(self.plan).iter().flat_map(|kind| self.levels.iter().map(|level| (*kind, *level)))
            {
                let estimates = self.estimates(index, kind, level);
                if kind == Ends::Noise && level == 1 {
                    values = estimates.iter().map(|estimate| estimate.value).collect();
                }
                let [low, high] = kind.names(&aggregate.name, level);
                ends.push((low, estimates.iter().map(|estimate| estimate.low).collect()));
                ends.push((high, estimates.iter().map(|estimate| estimate.high).collect()));
            }
            fields.push(Field::new(format!("c{}", question.keys.len() + index), DataType::Float64, true));
            arrays.push(Arc::new(Float64Array::from(values)));
            columns.push(Column { name: aggregate.name.clone(), role: Role::Value });
        }
        let mut aliases: Vec<Expr> = schema
            .iter()
            .enumerate()
            .map(|(index, (qualifier, field))| {
                Expr::Column(DfColumn::from_name(format!("c{index}"))).alias_qualified(qualifier.cloned(), field.name())
            })
            .collect();
        for (name, values) in ends {
            fields.push(Field::new(&name, DataType::Float64, true));
            arrays.push(Arc::new(Float64Array::from(values)));
            aliases.push(Expr::Column(DfColumn::from_name(name)));
        }
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
        let table = MemTable::try_new(schema, vec![vec![batch]])?;
        let plan = LogicalPlanBuilder::scan("released", provider_as_source(Arc::new(table)), None)?
            .project(aliases)?
            .build()?;
        Ok(Rebuilt { plan, columns })
    }

    /// An aggregate in each row, with intervals that cover when so many of them are taken together.
    fn estimates(&self, aggregate: usize, kind: Ends, level: usize) -> Vec<Estimate> {
        let confidence = 1.0 - (1.0 - CONFIDENCE) / level as f64;
        let (derivation, bounds) = (self.plan.derivations[aggregate], &self.noisy.bounds);
        let of = |row: &NoisyRow| match kind {
            Ends::Noise => estimate(self.plan, derivation, bounds, &row.values, confidence),
            Ends::Sampling => sampling::interval(self.plan, aggregate, &row.values, confidence),
        };
        self.noisy.rows.iter().map(of).collect()
    }

    /// A projection, with the interval ends of its values behind its own columns.
    fn project(&self, exprs: &[Expr], below: Rebuilt) -> Result<Rebuilt, DataFusionError> {
        let mut projected = Vec::new();
        let mut ends = Vec::new();
        let mut columns = Vec::new();
        for expr in exprs {
            let (qualifier, name) = expr.qualified_name();
            // Nodes above refer to the column by the name it had before its arithmetic was made total.
            let role = if self.is_value(expr, &below.columns) { Role::Value } else { Role::Key };
            let mut value = total(expr.clone())?;
            if role == Role::Value {
                value = in_floats(value)?;
                let kind = value.get_type(below.plan.schema())?;
                if !(kind.is_numeric() || kind.is_null() || kind == DataType::Boolean) {
                    return Err(DataFusionError::Plan(format!("`{name}` is made of noisy numbers, and is no number")));
                }
                let level = operands(self.plan, expr).len().max(1);
                for kind in Ends::of(self.plan) {
                    let (low, high) = self.interval(expr, &below, *kind, level).unwrap_or_else(|| {
                        let unknown = lit(ScalarValue::Float64(None));
                        (unknown.clone(), unknown)
                    });
                    let names = kind.names(&name, 1);
                    ends.extend([low, high].into_iter().zip(names).map(|(end, name)| end.alias(name)));
                }
            }
            projected.push(value.alias_qualified(qualifier, &name));
            columns.push(Column { name, role });
        }
        projected.extend(ends);
        let plan = LogicalPlanBuilder::from(below.plan).project(projected)?.build()?;
        Ok(Rebuilt { plan, columns })
    }

    /// Whether an output depends on a released value.
    fn is_value(&self, expr: &Expr, below: &[Column]) -> bool {
        let mut found = false;
        let _ = expr.apply(|node| {
            if let Expr::Column(column) = node {
                found |= below.iter().any(|known| known.name == column.name && known.role == Role::Value);
            }
            Ok(TreeNodeRecursion::Continue)
        });
        found
    }

    /// The interval of an output by interval arithmetic; `None` where none is known.
    fn interval(&self, expr: &Expr, below: &Rebuilt, kind: Ends, level: usize) -> Option<(Expr, Expr)> {
        let of = |expr: &Expr| self.interval(expr, below, kind, level);
        match expr {
            Expr::Column(column) => {
                let known = |name: &str| below.plan.schema().fields().iter().any(|field| field.name() == name);
                let level = if known(&kind.names(&column.name, level)[0]) { level } else { 1 };
                let [low, high] = kind.names(&column.name, level);
                let end = |name: String| Expr::Column(DfColumn::from_name(name));
                known(&low).then(|| (end(low), end(high)))
            }
            Expr::Literal(value, _) => {
                let ScalarValue::Float64(Some(value)) = value.cast_to(&DataType::Float64).ok()? else {
                    return None;
                };
                Some((lit(value), lit(value)))
            }
            Expr::Alias(Alias { expr, .. }) => of(expr),
            Expr::Cast(Cast { expr, field }) if field.data_type().is_numeric() => {
                let (low, high) = of(expr)?;
                // Cut to a whole number as the value itself is; NULL where it does not fit.
                let cast = |end| try_cast(try_cast(end, field.data_type().clone()), DataType::Float64);
                Some((cast(low), cast(high)))
            }
            Expr::Negative(expr) => {
                let (low, high) = of(expr)?;
                Some((lit(0.0) - high, lit(0.0) - low))
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => combine(*op, of(left)?, of(right)?),
            Expr::ScalarFunction(ScalarFunction { func, args })
                if ["floor", "ceil", "round"].contains(&func.name()) =>
            {
                let (low, high) = of(args.first()?)?;
                let apply = |end: Expr| {
                    let args = std::iter::once(end).chain(args[1..].iter().cloned()).collect();
                    Expr::ScalarFunction(ScalarFunction { func: Arc::clone(func), args })
                };
                Some((apply(low), apply(high)))
            }
            _ => None,
        }
    }
}

/// Interval arithmetic for one operator.
fn combine(op: Operator, (a, b): (Expr, Expr), (c, d): (Expr, Expr)) -> Option<(Expr, Expr)> {
    let hull = |corners: Vec<Expr>| (least(corners.clone()), greatest(corners));
    match op {
        Operator::Plus => Some((a + c, b + d)),
        Operator::Minus => Some((a - d, b - c)),
        Operator::Multiply => Some(hull(vec![a.clone() * c.clone(), a * d.clone(), b.clone() * c, b * d])),
        Operator::Divide => {
            let over = |x: &Expr, y: &Expr| x.clone() / nullif(y.clone(), lit(0.0));
            let (low, high) = hull(vec![over(&a, &c), over(&a, &d), over(&b, &c), over(&b, &d)]);
            // A divisor that may be zero leaves no bounds.
            let apart = c.gt(lit(0.0)).or(d.lt(lit(0.0)));
            Some((when(apart.clone(), low).end().ok()?, when(apart, high).end().ok()?))
        }
        _ => None,
    }
}

/// Sums and products of floats: whole numbers would wrap around where they are too large.
fn in_floats(expr: Expr) -> Result<Expr, DataFusionError> {
    let float = |expr: Box<Expr>| Box::new(try_cast(*expr, DataType::Float64));
    let transformed = expr.transform_up(|node| {
        Ok(match node {
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply) =>
            {
                Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(float(left), op, float(right))))
            }
            Expr::Negative(inner) => Transformed::yes(lit(0.0) - *float(inner)),
            other => Transformed::no(other),
        })
    })?;
    Ok(transformed.data)
}

/// Arithmetic on released values neither raises nor divides by zero; it yields NULL.
fn total(expr: Expr) -> Result<Expr, DataFusionError> {
    expr.transform_up(|node| {
        Ok(match node {
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Divide | Operator::Modulo), right }) => {
                let right = nullif(try_cast(*right, DataType::Float64), lit(0.0));
                Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(left, op, Box::new(right))))
            }
            Expr::Cast(Cast { expr, field }) => Transformed::yes(try_cast(*expr, field.data_type().clone())),
            other => Transformed::no(other),
        })
    })
    .map(|transformed| transformed.data)
}
