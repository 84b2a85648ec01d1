//! Delimited text as a table of the query engine: read on a thread of its own, in batches, as the plan takes them.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead};
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
use super::{Kind, Progress, ReadError, SourceError, find, name_in_source, physical, schema};
use crate::policy::{ColumnPolicy, CsvPolicy, TablePolicy};

/// Rows in a batch.
const ROWS: usize = 8192;
/// Bytes of cells after which a batch ends early, so that long texts stay within bounds.
const BYTES: usize = 16 << 20;
/// Batches that wait for the plan at most.
const QUEUE: usize = 2;
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
    let (_, header) = rows(&table.csv, &path, file, Arc::default())
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

/// Reads the header; the rows follow.
fn rows(csv: &CsvPolicy, path: &Path, file: File, progress: Arc<Progress>) -> io::Result<(Rows, Vec<String>)> {
    let unsupported = || io::Error::from(io::ErrorKind::Unsupported);
    let Some(Kind::Text { delimiter, compression }) = Kind::of(path) else { return Err(unsupported()) };
    let encoding = file::encoding(&csv.encoding).ok_or_else(unsupported)?;
    let byte = |character: char| u8::try_from(character).map_err(|_| unsupported());
    let text = Decoded::new(file::decompress(file, compression, progress)?, encoding);
    let rows = Lexer::new(text, byte(csv.delimiter.unwrap_or(delimiter))?, byte(csv.quote)?);
    let mut rows = if csv.multiline { rows } else { rows.single_lines() };
    let mut row = Row::default();
    rows.read(&mut row, |index| index <= MAX_COLUMNS)?;
    let names = row.cells().map(|name| name.unwrap_or_default().trim().to_owned()).collect();
    Ok((rows, names))
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
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = (0..self.columns.len()).collect();
        let chosen = projection.unwrap_or(&all);
        let schema = Arc::new(self.schema.project(chosen)?);
        let scan = Scan {
            schema: Arc::clone(&schema),
            columns: chosen.iter().filter_map(|index| self.columns.get(*index).cloned()).collect(),
            csv: self.csv.clone(),
            path: self.path.clone(),
            progress: Arc::clone(&self.progress),
        };
        let plan = StreamingTableExec::try_new(schema, vec![Arc::new(scan)], None, [], false, limit)?;
        Ok(Arc::new(plan))
    }
}

/// One reading of some columns of a file.
#[derive(Clone)]
struct Scan {
    schema: SchemaRef,
    columns: Vec<Column>,
    csv: CsvPolicy,
    path: PathBuf,
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
    /// Reads the file to its end, or until nobody takes the batches any more.
    fn run(&self, mut send: impl FnMut(RecordBatch) -> bool) -> Result<()> {
        let broken = |source| DataFusionError::from(ReadError { source });
        let file = file::open(&self.path).map_err(|error| broken(io::Error::other(error)))?;
        let (mut rows, header) = rows(&self.csv, &self.path, file, Arc::clone(&self.progress)).map_err(broken)?;

        // The lexer gives cells in the order of the file; the batch wants them in the order of the schema.
        let mut wanted = vec![false; header.len()];
        self.columns.iter().for_each(|column| wanted.iter_mut().skip(column.position).take(1).for_each(|w| *w = true));
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
