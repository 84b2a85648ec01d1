//! Answers as Parquet.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::error::DataFusionError;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::scalar::ScalarValue;
use dither_core::{Answer, Cell, Key, Role};

/// An answer as a Parquet file: keys as they are, and `name`, `name_low`, `name_high` for each value.
///
/// # Errors
/// Whatever the writer refuses, such as two columns of one name.
pub fn parquet(answer: &Answer) -> Result<Vec<u8>, DataFusionError> {
    let (mut fields, mut arrays) = (Vec::new(), Vec::<ArrayRef>::new());
    for (index, column) in answer.columns.iter().enumerate() {
        let cells = answer.rows.iter().map(|row| &row[index]);
        match column.role {
            Role::Key => {
                let array = key_array(cells)?;
                fields.push(Field::new(&column.name, array.data_type().clone(), true));
                arrays.push(array);
            }
            Role::Value => {
                let parts = ["", "_low", "_high"];
                for (part, suffix) in parts.iter().enumerate() {
                    let values = cells.clone().map(|cell| match cell {
                        Cell::Value(estimate) => [estimate.value, estimate.low, estimate.high][part],
                        Cell::Key(_) => None,
                    });
                    fields.push(Field::new(format!("{}{suffix}", column.name), DataType::Float64, true));
                    arrays.push(Arc::new(values.collect::<Float64Array>()));
                }
            }
        }
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, None)?;
    writer.write(&batch)?;
    Ok(writer.into_inner()?)
}

/// Keys of one type keep it; mixed ones become text.
fn key_array<'a>(cells: impl Iterator<Item = &'a Cell> + Clone) -> Result<ArrayRef, DataFusionError> {
    let scalar = |key: &Key| match key {
        Key::Null => None,
        Key::Boolean(value) => Some(ScalarValue::Boolean(Some(*value))),
        Key::Integer(value) => Some(ScalarValue::Int64(Some(*value))),
        Key::Number(value) => Some(ScalarValue::Float64(Some(*value))),
        Key::Text(text) => Some(ScalarValue::Utf8(Some(text.clone()))),
    };
    let keys = cells.map(|cell| match cell {
        Cell::Key(key) => key.clone(),
        Cell::Value(_) => Key::Null,
    });
    let kind = keys.clone().find_map(|key| scalar(&key)).map(|value| value.data_type());
    let typed = kind.and_then(|kind| {
        let values = keys.clone().map(|key| match scalar(&key) {
            Some(value) => Ok(value),
            None => ScalarValue::try_from(&kind),
        });
        ScalarValue::iter_to_array(values.collect::<Result<Vec<_>, _>>().ok()?).ok()
    });
    Ok(typed.unwrap_or_else(|| {
        let texts = keys.map(|key| (key != Key::Null).then(|| key.to_string()));
        Arc::new(texts.collect::<StringArray>())
    }))
}
