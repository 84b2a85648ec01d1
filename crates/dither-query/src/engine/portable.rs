//! Exact integers from the results of the portable plans, wherever they were run.

use std::collections::HashMap;

use datafusion::arrow::array::{Array, Decimal128Array, Int64Array, RecordBatch};
use datafusion::logical_expr::LogicalPlan;
use datafusion::scalar::ScalarValue;
use dither_core::Key;

use super::{Counted, EngineError, failed, name_of};
use crate::bound::{Bounding, COUNT, POINT, ROWS, UNITS, count_name, key_name, square_names, sum_name};
use crate::source::Tables;
use crate::sql::key_of;

/// Counts by the portable plans, wherever they are run: one for the sums, and one for each histogram.
///
/// # Errors
/// Those of the runs, and results that are none.
pub async fn portable<F>(
    bounding: &Bounding<'_>,
    tables: &Tables,
    run: impl Fn(LogicalPlan) -> F,
) -> Result<Vec<Counted>, EngineError>
where
    F: Future<Output = Result<Vec<RecordBatch>, EngineError>>,
{
    let batches = run(bounding.plan(tables)?).await?;
    let rows = batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| (batch, row)));
    let mut groups = rows.map(|(batch, row)| group(bounding, batch, row)).collect::<Result<Vec<_>, _>>()?;
    for (index, histogram) in bounding.histograms.iter().enumerate() {
        let batches = run(bounding.histogram(index, tables)?).await?;
        let mut counted = by_value(bounding, histogram.distinct, &batches)?;
        for group in &mut groups {
            group.histograms.push(counted.remove(&name_of(&group.key)).unwrap_or_default());
        }
    }
    Ok(groups)
}

/// One group of a portable result, still without histograms.
fn group(bounding: &Bounding<'_>, batch: &RecordBatch, row: usize) -> Result<Counted, EngineError> {
    let key = key(bounding, batch, row)?;
    let (units, rows) = (integer(batch, UNITS, row)?, integer(batch, ROWS, row)?);
    // Where only units are counted the plan has no sums.
    let summands = if bounding.needs_rows { bounding.summands.len() } else { 0 };
    let sums = (0..summands)
        .map(|index| Ok((integer(batch, &sum_name(index), row)?, integer(batch, &count_name(index), row)?)))
        .collect::<Result<_, EngineError>>()?;
    let square = |index: &usize| {
        let [aa, ab, bb] = square_names(*index).map(|name| integer(batch, &name, row));
        Ok([aa?, ab?, bb?])
    };
    let squares = bounding.squared.iter().map(square).collect::<Result<_, EngineError>>()?;
    Ok(Counted { key, units, rows, sums, squares, histograms: Vec::new() })
}

/// The values of one histogram and how many rows have each, by the name of the key; the number of different values as that
/// of one where nothing else is wanted.
fn by_value(
    bounding: &Bounding<'_>,
    distinct: bool,
    batches: &[RecordBatch],
) -> Result<HashMap<String, Vec<(i64, u64)>>, EngineError> {
    let mut groups: HashMap<String, Vec<(i64, u64)>> = HashMap::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let count = u64::try_from(integer(batch, COUNT, row)?).map_err(|_| failed("a count overflows"))?;
            let value = if distinct { 0 } else { integer(batch, POINT, row)? };
            let value = i64::try_from(value).map_err(|_| failed("a value is off its grid"))?;
            groups.entry(name_of(&key(bounding, batch, row)?)).or_default().push((value, count));
        }
    }
    Ok(groups)
}

/// The key of a row of a result.
fn key(bounding: &Bounding<'_>, batch: &RecordBatch, row: usize) -> Result<Vec<Key>, EngineError> {
    (0..bounding.question.keys.len())
        .map(|index| {
            let column = batch.column_by_name(&key_name(index)).ok_or_else(|| failed("a key column is missing"))?;
            // No key has another type, and if one had, that must not show.
            Ok(key_of(&ScalarValue::try_from_array(column, row)?).unwrap_or(Key::Null))
        })
        .collect()
}

/// An exact integer of the result; NULL, the sum of nothing, is zero.
fn integer(batch: &RecordBatch, name: &str, row: usize) -> Result<i128, EngineError> {
    let column = batch.column_by_name(name).ok_or_else(|| failed("a column is missing"))?;
    if column.is_null(row) {
        return Ok(0);
    }
    let any = column.as_any();
    if let Some(column) = any.downcast_ref::<Int64Array>() {
        return Ok(column.value(row).into());
    }
    match any.downcast_ref::<Decimal128Array>() {
        Some(column) if column.scale() == 0 => Ok(column.value(row)),
        _ => Err(failed("a column is not of exact integers")),
    }
}
