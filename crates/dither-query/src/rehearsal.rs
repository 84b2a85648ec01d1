//! Made-up rows on which a question is rehearsed before it is charged.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, plan_datafusion_err};
use datafusion::datasource::MemTable;
use datafusion::logical_expr::Expr;
use datafusion::scalar::ScalarValue;

use crate::plan::QueryPlan;
use crate::policy::{ColumnType, Policy, TablePolicy};
use crate::relation::{self, Relation};
use crate::source::database::{DAYS, LARGEST, SMALLEST};
use crate::source::lexer::MAX_CELL;
use crate::source::{Table, Tables, relation_of, schema};

/// Tables with the columns of the policy's: nothing, and both ends of what each type can hold.
pub(crate) fn stages(plan: &QueryPlan, policy: &Policy) -> Result<Tables> {
    let names = plan.question.relation.tables();
    names
        .into_iter()
        .map(|name| {
            let table = policy.readable(name).ok_or_else(|| plan_datafusion_err!("a table is missing"))?;
            let (schema, ends) = (schema(&table), Ends::of([table.as_ref()]));
            let column = |field: &Arc<Field>| extremes(table.columns[field.name()].r#type, ends);
            let columns = schema.fields().iter().map(column).collect();
            Ok((name.to_owned(), stage(schema, columns)?))
        })
        .collect()
}

fn stage(schema: Arc<Schema>, columns: Vec<ArrayRef>) -> Result<Table> {
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
}

/// How far the values of a type reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// As cells of a file are read.
    File,
    /// As columns of a database are read: see [`crate::source`].
    Database,
}

impl Ends {
    /// Those of some tables together.
    fn of<'a>(tables: impl IntoIterator<Item = &'a TablePolicy>) -> Self {
        let database = tables.into_iter().any(|table| relation_of(&table.source).is_some());
        if database { Self::Database } else { Self::File }
    }
}

fn extremes(kind: ColumnType, ends: Ends) -> ArrayRef {
    // The first and the last day of the calendar that cells are read in: the years -262142 and 262141.
    const FILE: (i32, i32) = (-96_464_992, 95_025_892);
    const MICROS: i64 = 86_400_000_000;
    let long = "\u{10ffff}".repeat(MAX_CELL / 4);
    let days = if ends == Ends::File { FILE } else { DAYS };
    match kind {
        ColumnType::Integer => {
            Arc::new(Int64Array::from(vec![None, Some(i64::MAX), Some(i64::MIN), Some(0), Some(-1), Some(1)]))
        }
        ColumnType::Number if ends == Ends::Database => {
            let (most, least) = (LARGEST, SMALLEST);
            Arc::new(Float64Array::from(vec![None, Some(most), Some(-most), Some(0.0), Some(least), Some(-1.5)]))
        }
        ColumnType::Number => Arc::new(Float64Array::from(vec![
            None,
            Some(f64::INFINITY),
            Some(f64::NEG_INFINITY),
            Some(0.0),
            Some(f64::MIN_POSITIVE),
            Some(1e308),
        ])),
        ColumnType::Text => {
            // No text of a database holds a zero.
            let odd = if ends == Ends::File { "-1e999 \u{0}%_\\" } else { " -1e999 \u{1}%_\\ǅß" };
            let texts = [None, Some(long.as_str()), Some(""), Some("0"), Some("2026-11-30"), Some(odd)];
            Arc::new(StringArray::from(texts.to_vec()))
        }
        ColumnType::Boolean => {
            Arc::new(BooleanArray::from(vec![None, Some(true), Some(false), None, Some(true), Some(false)]))
        }
        ColumnType::Date => {
            let days = [None, Some(days.0), Some(days.1), Some(0), Some(-719_162), Some(2_932_896)];
            Arc::new(Date32Array::from(days.to_vec()))
        }
        ColumnType::Timestamp => {
            let days = [None, Some(days.0), Some(days.1), Some(0), Some(-719_162), Some(2_932_896)];
            let moments = days.map(|day| day.map(|day| i64::from(day) * MICROS));
            Arc::new(TimestampMicrosecondArray::from(moments.to_vec()))
        }
    }
}

/// Every part of every row-local expression of a question, so that each runs whatever stands before it, and made-up
/// rows with the columns that they are evaluated over: which rows a join leaves must not decide what is rehearsed.
pub(crate) fn parts(plan: &QueryPlan, policy: &Policy) -> Result<Vec<(Table, Vec<Expr>)>> {
    let tables: Vec<_> = plan.question.relation.tables().into_iter().filter_map(|name| policy.readable(name)).collect();
    let ends = Ends::of(tables.iter().map(AsRef::as_ref));
    let question = &plan.question;
    let mut levels: Vec<(Vec<relation::Field>, Vec<Expr>)> = Vec::new();
    question.relation.visit_expressions(&mut |columns, exprs| levels.push((columns, exprs)));
    let keys = question.keys.iter().map(|key| &key.expr);
    let counted = plan.histograms.iter().map(|histogram| &histogram.expr);
    // What is made of these values is arithmetic that is the same for every question.
    let values = plan.values.iter().map(|value| &value.expr).chain(counted);
    let arguments = question.aggregates.iter().flat_map(|aggregate| aggregate.argument.iter().chain(&aggregate.second));
    let arguments = arguments.map(|argument| &argument.expr).chain(values);
    let top = question.filters.iter().chain(keys).chain(arguments).cloned().collect();
    levels.push((question.relation.columns(), top));
    // A table alone keeps its texts as they are read.
    let alone = matches!(question.relation, Relation::Table { .. });
    let mut rehearsed = Vec::new();
    for (columns, exprs) in levels {
        let mut parts: Vec<Expr> = Vec::new();
        for expr in &exprs {
            let _ = expr.apply(|part| {
                if !matches!(part, Expr::Column(_) | Expr::Literal(..)) && !parts.contains(part) {
                    parts.push(part.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            });
        }
        if !parts.is_empty() {
            let named = parts.into_iter().enumerate().map(|(index, part)| part.alias(format!("p{index}")));
            rehearsed.push((stage_of(&columns, alone, ends)?, named.collect()));
        }
    }
    Ok(rehearsed)
}

/// Made-up rows with the columns of a relation.
fn stage_of(columns: &[relation::Field], alone: bool, ends: Ends) -> Result<Table> {
    let mut fields = Vec::new();
    let mut arrays = Vec::new();
    for (name, kind) in columns {
        let column = relation::column_type(kind).ok_or_else(|| plan_datafusion_err!("a column has no type"))?;
        let kind = match kind {
            DataType::Utf8 if !alone => &DataType::LargeUtf8,
            kind => kind,
        };
        fields.push(Field::new(name, kind.clone(), true));
        arrays.push(cast(&extremes(column, ends), kind)?);
    }
    stage(Arc::new(Schema::new(fields)), arrays)
}

/// Whether an engine elsewhere gives the values that this process gives, row by row.
pub(crate) fn same(here: &[RecordBatch], there: &[RecordBatch]) -> Result<bool> {
    let cells = |batches: &[RecordBatch]| {
        let rows = batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| (batch, row)));
        let row = |(batch, row): (&RecordBatch, usize)| {
            let cells = batch.columns().iter().map(|column| ScalarValue::try_from_array(column, row));
            cells.map(|cell| cell.map(plain)).collect::<Result<Vec<_>>>()
        };
        rows.map(row).collect::<Result<Vec<_>>>()
    };
    Ok(cells(here)? == cells(there)?)
}

/// A value without what no engine need keep: the sign of zero, and which of the types of texts it is.
fn plain(value: ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Float64(Some(number)) => ScalarValue::Float64(Some(number + 0.0)),
        ScalarValue::LargeUtf8(text) => ScalarValue::Utf8(text),
        other => other,
    }
}
