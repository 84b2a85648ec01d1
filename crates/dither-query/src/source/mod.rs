//! From the file of a table to batches of declared types.
//!
//! Opening a table looks at its header or schema, which are public. Reading it is *total*: a cell that does not
//! read as its declared type is NULL, a row with too few cells has NULLs at its end, cells beyond the header are
//! ignored, broken characters become U+FFFD. No row is dropped and none raises. Blank lines are not rows.
//!
//! | type | what is read from text |
//! | --- | --- |
//! | all | surrounding spaces are ignored; the empty cell, the `null` words and cells beyond 8 KiB are NULL |
//! | integer | `-12`, `1.0`, `1e5`: whole numbers of 64 bits, beyond 2^53 only as plain digits |
//! | number | `-1.5`, `1e-3`, `inf`; NaN is NULL |
//! | text | the cell, without surrounding spaces unless `trim = false` |
//! | boolean | `true`, `false`, `1`, `0`, `yes`, `no` in any case |
//! | date | `2026-11-30`, also with a time, which is ignored; or the declared format |
//! | timestamp | `2026-11-30T12:00:00.5`, also with a space, without the time, or with `Z` or an offset, which is then moved to UTC; or the declared format |
//!
//! `folder/*.parquet` is all Parquet files of a folder, with the same types of the declared columns. Parquet columns keep their values where the types agree and follow the same rules otherwise. So do the columns of a
//! [`database`], with numbers that are moved to between -2^256 and 2^256, and to zero from within 2^-128 of it.

mod cell;
pub mod database;
mod delimited;
mod error;
pub(crate) mod file;
pub(crate) mod lexer;
mod parquet;
mod text;

use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::TableProvider;

use crate::policy::{ColumnPolicy, ColumnType, TablePolicy};

pub(crate) use cell::moment;
pub use database::{DatabaseRelation, relation_of};
pub(crate) use error::unreadable;
pub use error::{ReadError, SourceError};
pub use text::{text_columns, text_rows};

/// How far the reading of a text file has come. Parquet files are read by the engine and do not move it.
///
/// # Privacy
/// It counts rows that nobody was charged for: for the operator's progress bar, never for an analyst.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes of the file, compressed where it is, that were read so far.
    pub bytes_read: AtomicU64,
    /// The sizes in bytes of all files that were opened for reading, added up.
    pub total_bytes: AtomicU64,
    /// Rows that were read so far.
    pub rows: AtomicU64,
}

/// A table that can be scanned.
pub type Table = Arc<dyn TableProvider>;

/// The tables of a question, by their names in the policy.
pub type Tables = BTreeMap<String, Table>;

/// Opens a table as the policy declares it, with the schema that [`schema`] gives.
///
/// Reads the header or schema of the file and no row; rows are read when the provider is scanned, only the
/// columns that the scan asks for.
///
/// # Errors
/// A file that is not there, not regular or of an unknown kind; a declared column that the file lacks, repeats,
/// or holds with another type. All of it follows from the policy and the header alone.
pub fn open(table: &TablePolicy, base_dir: &Path, progress: &Arc<Progress>) -> Result<Table, SourceError> {
    let path = base_dir.join(&table.source);
    match Kind::of(&table.source) {
        None => Err(SourceError::Kind { path: table.source.clone() }),
        Some(Kind::Relation) => Err(SourceError::Elsewhere { source_name: table.source.clone() }),
        Some(Kind::Parquet) => parquet::open(table, &path),
        Some(Kind::Text { .. }) => delimited::open(table, path, progress),
    }
}

/// The columns of a table that come from its file, in the order of their names; all may be NULL.
///
/// Columns with an `expression` are not among them.
pub fn schema(table: &TablePolicy) -> SchemaRef {
    let fields = physical(table).map(|(name, column)| Field::new(name, arrow_type(column.r#type), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Whether a source is Parquet, by its name: one file, or with `folder/*.parquet` all files of a folder.
pub fn is_parquet(source: &Path) -> bool {
    Kind::of(source) == Some(Kind::Parquet)
}

/// The files that a source stands for, if they can be listed: itself, or those of a folder.
pub fn files_of(path: &Path) -> Vec<PathBuf> {
    parquet::files(path).unwrap_or_else(|_| vec![path.to_owned()])
}

/// The file of a table that is read from text, and so at a cost that grows with each reading.
pub(crate) fn text_file(table: &dyn std::any::Any) -> Option<&Path> {
    table.downcast_ref::<delimited::Delimited>().map(delimited::Delimited::path)
}

/// The Arrow type of a declared type.
pub fn arrow_type(r#type: ColumnType) -> DataType {
    match r#type {
        ColumnType::Integer => DataType::Int64,
        ColumnType::Number => DataType::Float64,
        ColumnType::Text => DataType::Utf8,
        ColumnType::Boolean => DataType::Boolean,
        ColumnType::Date => DataType::Date32,
        ColumnType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
    }
}

/// The columns of a Parquet file and the types that they read as; `None` for types that cannot be read.
pub(crate) fn parquet_columns(path: &Path) -> Result<Vec<(String, Option<ColumnType>)>, SourceError> {
    let schema = parquet::file_schema(path)?;
    Ok(schema.fields().iter().map(|field| (field.name().clone(), parquet::natural(field.data_type()))).collect())
}

/// The first line of a text file, decompressed and not decoded, at most one mebibyte of it.
pub(crate) fn first_line(path: &Path, compression: Compression) -> Result<Vec<u8>, SourceError> {
    let failed = |source: std::io::Error| SourceError::Open { path: path.to_owned(), source: source.into() };
    let mut line = Vec::new();
    let text = file::decompress(file::open(path)?, compression, Arc::default()).map_err(failed)?;
    text.take(1 << 20).read_until(b'\n', &mut line).map_err(failed)?;
    Ok(line)
}

/// The names in a header line.
pub(crate) fn split_header(line: &str, delimiter: char) -> Vec<String> {
    let mut row = lexer::Row::default();
    let delimiter = u8::try_from(delimiter).unwrap_or(b',');
    // Reading from memory does not fail.
    let _ = lexer::Lexer::new(line.as_bytes(), delimiter, b'"').read(&mut row, |_| true);
    row.cells().map(|name| name.unwrap_or_default().trim().to_owned()).collect()
}

/// The columns that come from the file.
fn physical(table: &TablePolicy) -> impl Iterator<Item = (&String, &ColumnPolicy)> {
    table.columns.iter().filter(|(_, column)| column.expression.is_none())
}

/// The name of a column in the file.
fn name_in_source<'a>(name: &'a str, column: &'a ColumnPolicy) -> &'a str {
    column.name_in_source.as_deref().unwrap_or(name)
}

/// The column of the file with this name, and only one.
fn find(names: &[String], name: &str, path: &Path) -> Result<usize, SourceError> {
    let mut found = names.iter().enumerate().filter(|(_, other)| *other == name).map(|(index, _)| index);
    let (column, path) = (name.to_owned(), PathBuf::from(path));
    match (found.next(), found.next()) {
        (Some(index), None) => Ok(index),
        (Some(_), Some(_)) => Err(SourceError::RepeatedColumn { column, path }),
        (None, _) => {
            let nearest = crate::policy::nearest(name, names);
            Err(SourceError::MissingColumn { column, nearest, path })
        }
    }
}

/// What kind of file a source is, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Delimited text.
    Text {
        /// The delimiter unless the policy says otherwise.
        delimiter: char,
        /// How the bytes are compressed.
        compression: Compression,
    },
    /// Apache Parquet.
    Parquet,
    /// A relation of a database.
    Relation,
}

/// How the bytes of a file are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Kind {
    /// The kind of a source, or `None` for URLs and unknown names.
    pub(crate) fn of(source: &Path) -> Option<Self> {
        if relation_of(source).is_some() {
            return Some(Self::Relation);
        }
        let name = source.to_str()?.to_ascii_lowercase();
        if name.contains("://") || name.contains('\0') {
            return None;
        }
        if name.ends_with(".parquet") {
            return Some(Self::Parquet);
        }
        let (name, compression) = match name.rsplit_once('.')? {
            (rest, "gz") => (rest, Compression::Gzip),
            (rest, "zst") => (rest, Compression::Zstd),
            _ => (name.as_str(), Compression::None),
        };
        match name.rsplit_once('.')?.1 {
            "csv" => Some(Self::Text { delimiter: ',', compression }),
            "tsv" => Some(Self::Text { delimiter: '\t', compression }),
            _ => None,
        }
    }

    /// The delimiter unless the policy says otherwise.
    pub(crate) fn delimiter(self) -> char {
        match self {
            Self::Text { delimiter, .. } => delimiter,
            Self::Parquet | Self::Relation => ',',
        }
    }
}
