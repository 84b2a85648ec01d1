//! Parquet files as a table of the query engine: its own scan under a total cast to the declared types.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::{Column, ScalarValue};
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::functions::string::expr_fn::octet_length;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit, try_cast, when};
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::lexer::MAX_CELL;
use super::{SourceError, arrow_type, file, find, name_in_source, physical};
use crate::policy::{ColumnType, TablePolicy};

/// The name that stands for all Parquet files of a folder.
const ALL: &str = "*.parquet";

/// Opens a Parquet file, or all of a folder, and finds the declared columns in their schemas.
pub(super) fn open(table: &TablePolicy, path: &Path) -> Result<Arc<dyn TableProvider>, SourceError> {
    let paths = files(path)?;
    let mut schemas = paths.iter().map(|path| declared_fields(table, path));
    // There is at least one file.
    let first = schemas.next().transpose()?.unwrap_or_default();
    for (schema, path) in schemas.zip(&paths[1..]) {
        if let Some((field, other)) = first.iter().zip(&schema?).find(|(a, b)| a.data_type() != b.data_type()) {
            return Err(SourceError::FilesDiffer {
                column: field.name().clone(),
                found: other.data_type().to_string(),
                first: field.data_type().to_string(),
                path: path.clone(),
            });
        }
    }
    let mut columns = Vec::new();
    for ((name, column), field) in physical(table).zip(&first) {
        let wrong = || SourceError::ColumnType {
            column: field.name().clone(),
            declared: column.r#type.name(),
            found: field.data_type().to_string(),
            path: paths[0].clone(),
        };
        let value = Expr::Column(Column::new_unqualified(field.name()));
        columns.push(read_as(value, field.data_type(), column.r#type)?.ok_or_else(wrong)?.alias(name));
    }
    let scan = LogicalPlanBuilder::scan("source", provider_as_source(listing(&paths, first)?), None)?;
    let plan = scan.project(columns)?.build()?;
    Ok(Arc::new(ViewTable::new(plan, None)))
}

/// The files of a source, in the order of their names: itself, or those of the folder that `*.parquet` stands in.
/// Names that begin with a dot or an underscore are those of files that are being written.
pub(super) fn files(path: &Path) -> Result<Vec<PathBuf>, SourceError> {
    if path.file_name() != Some(ALL.as_ref()) {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |source: std::io::Error| SourceError::Open { path: path.to_owned(), source: source.into() };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.to_ascii_lowercase().ends_with(".parquet") && !name.starts_with(['.', '_']) {
            files.push(entry.path());
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(failed(std::io::Error::new(std::io::ErrorKind::NotFound, "the folder holds no Parquet file"))),
        false => Ok(files),
    }
}

/// The fields of a file that the policy declares, in the order of their names in the policy.
fn declared_fields(table: &TablePolicy, path: &Path) -> Result<Vec<FieldRef>, SourceError> {
    let found = file_schema(path)?;
    let names: Vec<String> = found.fields().iter().map(|field| field.name().clone()).collect();
    let place = physical(table).map(|(name, column)| find(&names, name_in_source(name, column), path));
    place.map(|place| Ok(Arc::clone(&found.fields()[place?]))).collect()
}

/// The schema in the footer of a Parquet file.
pub(super) fn file_schema(path: &Path) -> Result<SchemaRef, SourceError> {
    let footer = ParquetRecordBatchReaderBuilder::try_new(file::open(path)?);
    let footer = footer.map_err(|source| SourceError::Open { path: path.to_owned(), source: source.into() })?;
    Ok(Arc::clone(footer.schema()))
}

/// The engine's own scan of some files, without reading statistics of their values.
fn listing(paths: &[PathBuf], fields: Vec<FieldRef>) -> Result<Arc<dyn TableProvider>, SourceError> {
    let url = |path: &PathBuf| {
        let failed = |source: std::io::Error| SourceError::Open { path: path.clone(), source: source.into() };
        Ok(ListingTableUrl::parse(file_url(&std::fs::canonicalize(path).map_err(failed)?))?)
    };
    let urls = paths.iter().map(url).collect::<Result<Vec<_>, SourceError>>()?;
    let options = ListingOptions::new(Arc::new(ParquetFormat::default())).with_file_extension("");
    let config = ListingTableConfig::new_with_multi_paths(urls).with_listing_options(options);
    Ok(Arc::new(ListingTable::try_new(config.with_schema(all_nullable(fields)))?))
}

/// A path as a URL. A plain path would be searched for wildcards.
fn file_url(path: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte);
    let escape = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    let path: String = path.to_string_lossy().bytes().map(escape).collect();
    format!("file://{path}")
}

/// A file does not get to promise that values are present: nullability is declared by us, the same for all files. Two
/// columns of the policy may be one of the file.
fn all_nullable(fields: Vec<FieldRef>) -> SchemaRef {
    let mut declared: Vec<Field> = Vec::new();
    for field in fields {
        if declared.iter().all(|other| other.name() != field.name()) {
            declared.push(field.as_ref().clone().with_nullable(true));
        }
    }
    Arc::new(Schema::new(declared))
}

/// The value of a column as its declared type, NULL where it has none; `None` where the types do not fit.
fn read_as(value: Expr, found: &DataType, declared: ColumnType) -> Result<Option<Expr>, SourceError> {
    let whole = found.is_integer();
    let fractional = found.is_floating() || found.is_decimal();
    let textual = is_text(found);
    let timed = matches!(found, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..));
    let cast = || try_cast(value.clone(), arrow_type(declared));
    Ok(match declared {
        ColumnType::Integer if whole => Some(cast()),
        ColumnType::Integer if fractional => Some(whole_part(value)?),
        ColumnType::Number if whole => Some(cast()),
        ColumnType::Number if fractional => Some(finite_or_infinite(value)?),
        ColumnType::Text if textual || whole => Some(short(cast())?),
        ColumnType::Boolean if *found == DataType::Boolean => Some(cast()),
        ColumnType::Date | ColumnType::Timestamp if timed => Some(in_calendar(cast(), declared)?),
        _ => None,
    })
}

/// The declared type that a column of this type reads as without loss; `None` where there is none.
pub(super) fn natural(found: &DataType) -> Option<ColumnType> {
    Some(match found {
        DataType::Boolean => ColumnType::Boolean,
        DataType::Date32 | DataType::Date64 => ColumnType::Date,
        DataType::Timestamp(..) => ColumnType::Timestamp,
        found if found.is_integer() => ColumnType::Integer,
        found if found.is_floating() || found.is_decimal() => ColumnType::Number,
        found if is_text(found) => ColumnType::Text,
        _ => return None,
    })
}

fn is_text(found: &DataType) -> bool {
    match found {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// A text of at most the length that text files have; a longer one is NULL.
fn short(text: Expr) -> Result<Expr, SourceError> {
    let fits = octet_length(text.clone()).lt_eq(lit(MAX_CELL as i64));
    Ok(when(fits, text).otherwise(lit(ScalarValue::Utf8(None)))?)
}

/// A day or moment of the years 1 to 9999; another one is NULL, since not every function knows others.
fn in_calendar(value: Expr, declared: ColumnType) -> Result<Expr, SourceError> {
    const DAYS: (i32, i32) = (-719_162, 2_932_896);
    const MICROS: i64 = 86_400_000_000;
    let (first, last, none) = match declared {
        ColumnType::Date => {
            let day = |day| ScalarValue::Date32(Some(day));
            (day(DAYS.0), day(DAYS.1), ScalarValue::Date32(None))
        }
        _ => {
            let moment = |day: i32| ScalarValue::TimestampMicrosecond(Some(i64::from(day) * MICROS), None);
            (moment(DAYS.0), moment(DAYS.1 + 1), ScalarValue::TimestampMicrosecond(None, None))
        }
    };
    let inside = value.clone().gt_eq(lit(first)).and(value.clone().lt(lit(last)));
    Ok(when(inside, value).otherwise(lit(none))?)
}

/// A number that is not NaN, with -0 as 0.
///
/// The comparisons exclude NaN both under IEEE 754 and under the total order in which NaN is the largest.
fn finite_or_infinite(value: Expr) -> Result<Expr, SourceError> {
    let number = try_cast(value, DataType::Float64);
    let in_range = number.clone().gt_eq(lit(f64::NEG_INFINITY)).and(number.clone().lt_eq(lit(f64::INFINITY)));
    Ok(when(in_range, number + lit(0.0)).otherwise(lit(ScalarValue::Float64(None)))?)
}

/// A number without a fraction, as an integer; one with a fraction is NULL, as it is in text.
fn whole_part(value: Expr) -> Result<Expr, SourceError> {
    let integer = try_cast(value.clone(), DataType::Int64);
    let back = try_cast(integer.clone(), DataType::Float64);
    let same = back.eq(try_cast(value, DataType::Float64) + lit(0.0));
    Ok(when(same, integer).otherwise(lit(ScalarValue::Int64(None)))?)
}
