//! Delimited text as a table of the query engine: read on threads of its own, in batches, as the plan takes them.
//!
//! A line break ends a row and is the same byte wherever it stands, so that a file can be cut at any of them and its parts
//! read side by side. Only where cells may hold line breaks, or the file is compressed, one thread reads it from its beginning.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use async_trait::async_trait;
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};

use super::cell::Reader;
use super::file::{self, Decoded};
use super::lexer::{Lexer, Row};
use super::{Compression, Kind, Progress, ReadError, SourceError, find, name_in_source, physical, schema};
use crate::policy::{ColumnPolicy, CsvPolicy, TablePolicy};

/// Rows in a batch.
const ROWS: usize = 8192;
/// Bytes of cells after which a batch ends early, so that long texts stay within bounds.
const BYTES: usize = 16 << 20;
/// Batches that wait for the plan at most.
const QUEUE: usize = 2;
/// The bytes of text that are worth a thread of their own.
const PART: u64 = 1 << 20;
/// All bytes of a file.
const WHOLE: Range<u64> = 0..u64::MAX;
/// The most columns of a file that are looked at.
const MAX_COLUMNS: usize = 100_000;

type Rows = Lexer<Decoded<Box<dyn BufRead + Send>>>;

/// Opens a text file and finds the declared columns in its header.
pub(super) fn open(
    table: &TablePolicy,
    path: PathBuf,
    progress: &Arc<Progress>,
) -> Result<Arc<dyn TableProvider>, SourceError> {
    // The header is looked at without moving the progress of the reading.
    let file = file::open(&path)?;
    let header = rows(&table.csv, &path, file, &WHOLE, Arc::default())
        .and_then(|mut rows| header(&mut rows))
        .map_err(|source| SourceError::Open { path: path.clone(), source: source.into() })?;
    if header.is_empty() || header.len() > MAX_COLUMNS {
        return Err(SourceError::NoHeader { path });
    }
    let columns = physical(table).map(|(name, column)| {
        let position = find(&header, name_in_source(name, column).trim(), &path)?;
        Ok(Column { position, policy: column.clone() })
    });
    let columns = columns.collect::<Result<_, SourceError>>()?;
    let (csv, progress) = (table.csv.clone(), Arc::clone(progress));
    Ok(Arc::new(Delimited { schema: schema(table), columns, csv, path, progress }))
}

/// The rows of a part of a file. In the first one the header stands before them.
fn rows(csv: &CsvPolicy, path: &Path, file: File, part: &Range<u64>, progress: Arc<Progress>) -> io::Result<Rows> {
    let unsupported = || io::Error::from(io::ErrorKind::Unsupported);
    let Some(Kind::Text { delimiter, compression }) = Kind::of(path) else { return Err(unsupported()) };
    let encoding = file::encoding(&csv.encoding).ok_or_else(unsupported)?;
    let byte = |character: char| u8::try_from(character).map_err(|_| unsupported());
    let bytes = match *part == WHOLE {
        true => file::decompress(file, compression, progress)?,
        false => file::lines(file, part, progress)?,
    };
    let text = match part.start {
        0 => Decoded::new(bytes, encoding),
        _ => Decoded::inside(bytes, encoding),
    };
    let rows = Lexer::new(text, byte(csv.delimiter.unwrap_or(delimiter))?, byte(csv.quote)?);
    Ok(if csv.multiline { rows } else { rows.single_lines() })
}

/// Reads the names of the columns; the rows follow.
fn header(rows: &mut Rows) -> io::Result<Vec<String>> {
    let mut row = Row::default();
    rows.read(&mut row, |index| index <= MAX_COLUMNS)?;
    Ok(row.cells().map(|name| name.unwrap_or_default().trim().to_owned()).collect())
}

/// A declared column and where it stands in the file.
#[derive(Debug, Clone)]
struct Column {
    position: usize,
    policy: ColumnPolicy,
}

/// A text file as a table.
#[derive(Debug)]
pub(super) struct Delimited {
    schema: SchemaRef,
    columns: Vec<Column>,
    csv: CsvPolicy,
    path: PathBuf,
    progress: Arc<Progress>,
}

impl Delimited {
    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The parts of the file that are read side by side, so many at most.
    fn parts(&self, most: usize) -> Vec<Range<u64>> {
        let plain = matches!(Kind::of(&self.path), Some(Kind::Text { compression: Compression::None, .. }));
        let length = match plain && !self.csv.multiline {
            true => std::fs::metadata(&self.path).map_or(0, |file| file.len()),
            false => 0,
        };
        let count = (length / PART).clamp(1, most.max(1) as u64);
        let cut = |part: u64| if part == count { WHOLE.end } else { part * (length / count) };
        (0..count).map(|part| cut(part)..cut(part + 1)).collect()
    }
}

#[async_trait]
impl TableProvider for Delimited {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = (0..self.columns.len()).collect();
        let chosen = projection.unwrap_or(&all);
        let schema = Arc::new(self.schema.project(chosen)?);
        let scan = |part: Range<u64>| -> Arc<dyn PartitionStream> {
            Arc::new(Scan {
                schema: Arc::clone(&schema),
                columns: chosen.iter().filter_map(|index| self.columns.get(*index).cloned()).collect(),
                csv: self.csv.clone(),
                path: self.path.clone(),
                part,
                progress: Arc::clone(&self.progress),
            })
        };
        let parts = self.parts(state.config().target_partitions()).into_iter().map(scan).collect();
        let plan = StreamingTableExec::try_new(Arc::clone(&schema), parts, None, [], false, limit)?;
        Ok(Arc::new(plan))
    }
}

/// One reading of some columns of a part of a file.
#[derive(Clone)]
struct Scan {
    schema: SchemaRef,
    columns: Vec<Column>,
    csv: CsvPolicy,
    path: PathBuf,
    part: Range<u64>,
    progress: Arc<Progress>,
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").field("path", &self.path).finish_non_exhaustive()
    }
}

impl PartitionStream for Scan {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&self.schema), QUEUE);
        let (scan, batches) = (self.clone(), builder.tx());
        builder.spawn_blocking(move || scan.run(|batch| batches.blocking_send(Ok(batch)).is_ok()));
        builder.build()
    }
}

impl Scan {
    /// Reads the part to its end, or until nobody takes the batches any more.
    fn run(&self, mut send: impl FnMut(RecordBatch) -> bool) -> Result<()> {
        let broken = |source| DataFusionError::from(ReadError { source });
        let file = file::open(&self.path).map_err(|error| broken(io::Error::other(error)))?;
        let rows = rows(&self.csv, &self.path, file, &self.part, Arc::clone(&self.progress));
        let mut rows = rows.map_err(broken)?;
        if self.part.start == 0 {
            header(&mut rows).map_err(broken)?;
        }

        // The lexer gives cells in the order of the file; the batch wants them in the order of the schema.
        let width = self.columns.iter().map(|column| column.position + 1).max().unwrap_or(0);
        let mut wanted = vec![false; width];
        self.columns.iter().for_each(|column| wanted[column.position] = true);
        let mut order: Vec<usize> = (0..self.columns.len()).collect();
        order.sort_by_key(|index| self.columns[*index].position);
        let null: Arc<[String]> = self.csv.null.clone().into();
        let reader = |column: &Column| Reader::new(&column.policy, Arc::clone(&null), self.csv.trim);
        let mut readers: Vec<Reader> = self.columns.iter().map(reader).collect();

        let mut row = Row::default();
        loop {
            let (mut count, mut bytes, mut more) = (0, 0, true);
            while count < ROWS && bytes < BYTES && more {
                more = rows.read(&mut row, |index| wanted.get(index) == Some(&true)).map_err(broken)?;
                if more {
                    bytes += self.fill(&mut readers, &order, &row);
                    count += 1;
                }
            }
            self.progress.rows.fetch_add(count as u64, Relaxed);
            let arrays = readers.iter_mut().map(Reader::finish).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(count));
            let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?;
            if (count > 0 && !send(batch)) || !more {
                return Ok(());
            }
        }
    }

    /// Appends one row to the readers and tells how many bytes it had.
    fn fill(&self, readers: &mut [Reader], order: &[usize], row: &Row) -> usize {
        let mut cells = row.cells();
        let (mut bytes, mut position, mut cell) = (0, None, None);
        for index in order {
            // Two declared columns may read the same cell.
            if position != Some(self.columns[*index].position) {
                position = Some(self.columns[*index].position);
                cell = cells.next().flatten();
            }
            bytes += cell.map_or(0, str::len);
            readers[*index].push(cell);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What decides about rows, marks, and what is the beginning of a letter only.
    const PIECES: [&[u8]; 12] =
        [b"a", b"7", b",", b"\"", b"\n", b"\r", b"\r\n", b"\xEF\xBB\xBF", b"\xD2", b"\x81\x30", b"\xFF", b"\xF0\x9F"];

    fn cells(csv: &CsvPolicy, path: &Path, part: &Range<u64>) -> Vec<Vec<String>> {
        let mut rows = rows(csv, path, file::open(path).unwrap(), part, Arc::default()).unwrap();
        let (mut row, mut all) = (Row::default(), Vec::new());
        while rows.read(&mut row, |_| true).unwrap() {
            all.push(row.cells().map(|cell| cell.unwrap().to_owned()).collect());
        }
        all
    }

    proptest! {
        #[test]
        fn sq_24_any_bytes_have_the_same_rows_in_any_parts(
            pieces in proptest::collection::vec(proptest::sample::select(PIECES.to_vec()), 0..60),
            mut cuts in proptest::collection::vec(0..100_u64, 0..5),
            label in proptest::sample::select(vec!["utf-8", "gbk", "gb18030", "big5", "shift_jis", "windows-1252"]),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("t.csv");
            std::fs::write(&path, pieces.concat()).unwrap();
            let csv = CsvPolicy { encoding: label.into(), ..CsvPolicy::default() };
            cuts.sort_unstable();
            let ends = cuts.iter().copied().chain([WHOLE.end]);
            let starts = [0].into_iter().chain(cuts.iter().copied());
            let parts = starts.zip(ends).flat_map(|(start, end)| cells(&csv, &path, &(start..end)));
            prop_assert_eq!(parts.collect::<Vec<_>>(), cells(&csv, &path, &WHOLE));
        }
    }
}
