//! A Parquet file as rows of text, for whoever reads text by total rules of its own.

use std::fmt::Write;
use std::path::Path;

use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::parquet::arrow::ProjectionMask;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::{SourceError, file, parquet_columns};

/// The columns of a Parquet file that can be read as text: those of numbers, texts, booleans, dates and moments. Reads its
/// schema and no row.
///
/// # Errors
/// A file that is missing, no regular one, or without a schema.
pub fn text_columns(path: &Path) -> Result<Vec<String>, SourceError> {
    let columns = parquet_columns(path)?.into_iter();
    Ok(columns.filter_map(|(name, readable)| readable.map(|_| name)).collect())
}

/// Hands over the cells of these columns of a Parquet file, row by row in the order of the file.
///
/// A number is the shortest text that reads back as the same number, a day or moment is written as ISO 8601 has it, and
/// what is missing or cannot be written is the empty text: no cell fails, and none changes another.
///
/// # Errors
/// A file that cannot be read, or lacks a column; never what a cell holds.
///
/// # Privacy
/// Rows as they are: call it after the charge.
pub fn text_rows(path: &Path, columns: &[String], mut row: impl FnMut(&[String])) -> Result<(), SourceError> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| SourceError::Open { path: path.to_owned(), source };
    let reader = ParquetRecordBatchReaderBuilder::try_new(file::open(path)?).map_err(|error| failed(error.into()))?;
    let places = columns.iter().map(|name| reader.schema().index_of(name)).collect::<Result<Vec<_>, _>>();
    let mask = ProjectionMask::roots(reader.parquet_schema(), places.map_err(|error| failed(error.into()))?);
    let batches = reader.with_projection(mask).build().map_err(|error| failed(error.into()))?;
    let options = FormatOptions::new().with_display_error(false);
    let mut cells = vec![String::new(); columns.len()];
    for batch in batches {
        let batch = batch.map_err(|error| failed(error.into()))?;
        let missing = || failed("a column is missing".into());
        let texts = columns.iter().map(|name| {
            let array = batch.column_by_name(name).ok_or_else(missing)?;
            ArrayFormatter::try_new(array.as_ref(), &options).map_err(|error| failed(error.into()))
        });
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        for index in 0..batch.num_rows() {
            for (cell, text) in cells.iter_mut().zip(&texts) {
                cell.clear();
                if write!(cell, "{}", text.value(index)).is_err() {
                    cell.clear();
                }
            }
            row(&cells);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{
        ArrayRef, BooleanArray, Date32Array, DictionaryArray, Float32Array, Float64Array, Int64Array, ListArray,
        RecordBatch, StringArray,
    };
    use datafusion::arrow::datatypes::{Int32Type, Int64Type};
    use datafusion::parquet::arrow::ArrowWriter;

    use super::*;

    fn written(folder: &Path, columns: Vec<(&str, ArrayRef)>) -> std::path::PathBuf {
        let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        let path = folder.join("t.parquet");
        std::fs::write(&path, writer.into_inner().unwrap()).unwrap();
        path
    }

    fn rows(path: &Path, columns: &[&str]) -> Vec<Vec<String>> {
        let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
        let mut all = Vec::new();
        text_rows(path, &columns, |row| all.push(row.to_vec())).unwrap();
        all
    }

    #[test]
    fn cells_of_every_type_become_text_and_what_is_missing_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let words: DictionaryArray<Int32Type> = [Some("ja"), None, Some("\"a,\nb")].into_iter().collect();
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1)]), None, Some(vec![])]);
        let path = written(
            folder.path(),
            vec![
                ("whole", Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(7)])) as ArrayRef),
                ("number", Arc::new(Float64Array::from(vec![Some(0.1 + 0.2), Some(f64::NAN), Some(-1e300)]))),
                ("narrow", Arc::new(Float32Array::from(vec![Some(0.1), None, Some(-0.0)]))),
                ("text", Arc::new(StringArray::from(vec![Some(" Ä "), Some(""), None]))),
                ("word", Arc::new(words)),
                ("flag", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))),
                ("day", Arc::new(Date32Array::from(vec![Some(0), Some(i32::MAX), None]))),
                ("list", Arc::new(list)),
            ],
        );
        assert_eq!(text_columns(&path).unwrap(), ["whole", "number", "narrow", "text", "word", "flag", "day"]);
        let expected = [
            ["ja", "-9223372036854775808", "0.30000000000000004", "0.1", " Ä ", "true", "1970-01-01"],
            // A day that no calendar has is no text.
            ["", "", "NaN", "", "", "false", ""],
            ["\"a,\nb", "7", "-1e300", "-0.0", "", "", ""],
        ];
        assert_eq!(rows(&path, &["word", "whole", "number", "narrow", "text", "flag", "day"]), expected);
        assert_eq!(rows(&path, &["flag", "flag"])[0], ["true", "true"]);
        assert!(text_rows(&path, &["gone".to_owned()], |_| {}).is_err());
    }

    #[test]
    fn numbers_read_back_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let bits = (0..5000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let numbers: Vec<f64> = bits.map(f64::from_bits).chain([5e-324, f64::MAX, f64::INFINITY]).collect();
        let path = written(folder.path(), vec![("x", Arc::new(Float64Array::from(numbers.clone())))]);
        let read = rows(&path, &["x"]);
        for (number, cells) in numbers.iter().zip(&read) {
            let back: f64 = cells[0].parse().unwrap();
            assert!(back.to_bits() == number.to_bits() || back.is_nan() && number.is_nan(), "{number} {cells:?}");
        }
        assert_eq!(read.len(), numbers.len());
    }

    #[test]
    fn files_that_are_cut_off_or_edited_are_errors_and_no_rows_of_others() {
        let folder = tempfile::tempdir().unwrap();
        let numbers: Vec<i64> = (0..20_000).map(|i| i * 7919 % 10_007).collect();
        let path = written(folder.path(), vec![("x", Arc::new(Int64Array::from(numbers)))]);
        let whole = std::fs::read(&path).unwrap();
        for length in [0, 3, 100, whole.len() / 2, whole.len() - 1] {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(text_columns(&path).is_err(), "{length}");
        }
        // The schema is there, and the pages are not.
        let mut broken = whole.clone();
        broken[4..whole.len() / 2].fill(0xff);
        std::fs::write(&path, broken).unwrap();
        assert_eq!(text_columns(&path).unwrap(), ["x"]);
        assert!(text_rows(&path, &["x".to_owned()], |_| {}).is_err());
        assert!(text_columns(&folder.path().join("gone.parquet")).is_err());
        assert!(text_columns(folder.path()).is_err());
    }
}
