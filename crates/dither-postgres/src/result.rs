//! The rows of a statement as a batch of the plan's types.

use std::str::FromStr;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array, LargeStringArray, RecordBatch,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use datafusion::error::{DataFusionError, Result};

use crate::connection::Row;
use crate::expr::{Family, family};

/// Reads texts as what the plan says they are.
pub(crate) fn batch(rows: &[Row], schema: &SchemaRef) -> Result<RecordBatch> {
    if rows.iter().any(|row| row.len() != schema.fields().len()) {
        return Err(odd());
    }
    let columns = schema.fields().iter().enumerate();
    let columns = columns.map(|(index, field)| column(rows, index, field.data_type())).collect::<Result<_>>()?;
    Ok(RecordBatch::try_new(all_nullable(schema), columns)?)
}

/// A server does not get to promise that values are present.
fn all_nullable(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(datafusion::arrow::datatypes::Schema::new(fields.collect::<Vec<_>>()))
}

fn odd() -> DataFusionError {
    DataFusionError::Execution("a cell is not what the plan says".into())
}

fn column(rows: &[Row], index: usize, kind: &DataType) -> Result<ArrayRef> {
    let cells = rows.iter().map(|row| row.get(index).map(Option::as_deref).ok_or_else(odd));
    let cells = cells.collect::<Result<Vec<Option<&str>>>>()?;
    let family = family(kind).map_err(|_| odd())?;
    let array: ArrayRef = match family {
        Family::Whole | Family::Date | Family::Moment => Arc::new(Int64Array::from(read::<i64>(&cells)?)),
        Family::Decimal => Arc::new(Decimal128Array::from(read::<i128>(&cells)?).with_precision_and_scale(38, 0)?),
        Family::Float => Arc::new(Float64Array::from(read::<f64>(&cells)?)),
        Family::Boolean => Arc::new(BooleanArray::from(read::<bool>(&cells)?)),
        Family::Text => Arc::new(LargeStringArray::from(cells)),
        Family::Bytes => return Err(odd()),
    };
    // Days and moments arrive as the integers that they are.
    Ok(match kind {
        DataType::Date32 => cast(&cast(&array, &DataType::Int32)?, kind)?,
        DataType::Timestamp(TimeUnit::Nanosecond, None) => {
            let micros = cast(&array, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
            cast(&micros, kind)?
        }
        kind => cast(&array, kind)?,
    })
}

fn read<T: FromStr>(cells: &[Option<&str>]) -> Result<Vec<Option<T>>> {
    cells.iter().map(|cell| cell.map(|text| text.parse().map_err(|_| odd())).transpose()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::{Field, Schema};

    #[test]
    fn cells_are_read_or_refused() {
        let kinds = [
            (DataType::Int64, "-9223372036854775808"),
            (DataType::Int32, "7"),
            (DataType::Decimal128(30, 0), "123456789012345678901234567890"),
            (DataType::Float64, "1e-05"),
            (DataType::Utf8, "ü"),
            (DataType::Boolean, "true"),
            (DataType::Date32, "-719162"),
            (DataType::Timestamp(TimeUnit::Microsecond, None), "-1"),
            (DataType::Timestamp(TimeUnit::Nanosecond, None), "-1"),
        ];
        for (kind, text) in kinds {
            let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("x", kind.clone(), false)]));
            let good = batch(&[vec![Some(text.into())], vec![None]], &schema).unwrap();
            assert_eq!((good.column(0).null_count(), good.column(0).data_type()), (1, &kind));
            for width in [0, 2] {
                assert!(batch(&[vec![None], vec![None; width]], &schema).is_err(), "{width}");
            }
            if kind != DataType::Utf8 {
                assert!(batch(&[vec![Some("x".into())]], &schema).is_err(), "{kind}");
            }
        }
    }
}
