//! Rows that several questions of one charge look at, read once.
//!
//! A profile asks dozens of questions about one table, a report some. Reading a text file, and unpacking it, takes most of
//! the time of each; what a question then does with rows in memory takes little.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use dither_core::{Charged, Mechanism};
use futures::StreamExt;

use super::{Engine, EngineError};
use crate::plan::QueryPlan;
use crate::relation::Relation;
use crate::source::{self, Table, Tables};

/// The most bytes of rows that are held, and the longest file of which that is tried. Both are small beside the memory of a
/// machine, and beside what a question holds of larger tables.
const MOST: usize = 256 << 20;
const LONGEST: u64 = 64 << 20;
/// Where memory is limited, one part in so many of it is for rows that are held.
const PART: usize = 4;

/// Puts the rows that several plans look at into memory, where the engine finds that worth it and they fit; the others are
/// read by each plan as before.
///
/// The charged mechanism is the token that this is paid for. The integers are those of the tables as they were.
///
/// # Errors
/// [`EngineError`] with the cause for the operator.
pub async fn hold<M: Mechanism>(
    _charged: &Charged<M>,
    plans: &[QueryPlan],
    tables: &mut [Tables],
    engine: &dyn Engine,
) -> Result<(), EngineError> {
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for name in plans.iter().flat_map(|plan| plan.question.relation.tables()) {
        *uses.entry(name).or_default() += 1;
    }
    let columns: BTreeSet<String> = plans.iter().flat_map(columns).collect();
    for name in uses.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name) {
        let Some(table) = tables.iter().find_map(|tables| tables.get(name)) else { continue };
        let Some(held) = engine.hold(table, &columns).await? else { continue };
        for place in tables.iter_mut().filter_map(|tables| tables.get_mut(name)) {
            *place = Arc::clone(&held);
        }
    }
    Ok(())
}

/// The names of all columns that a plan may read. One that is missing would be read from the file.
fn columns(plan: &QueryPlan) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut add = |exprs: &mut dyn Iterator<Item = &Expr>| {
        names.extend(exprs.flat_map(|expr| expr.column_refs()).map(|column| column.name.clone()));
    };
    let question = &plan.question;
    question.relation.visit_expressions(&mut |_, exprs| add(&mut exprs.iter()));
    add(&mut question.filters.iter());
    add(&mut question.keys.iter().map(|key| &key.expr));
    add(&mut plan.values.iter().chain(&plan.summands).map(|summand| &summand.expr));
    add(&mut plan.histograms.iter().map(|histogram| &histogram.expr));
    named(&question.relation, &mut names);
    names
}

/// The columns that a relation names outside of expressions: of units and keys, and those that a union takes by their place.
fn named(relation: &Relation, names: &mut BTreeSet<String>) {
    match relation {
        Relation::Table { unit, .. } => {
            if let Some(unit) = unit {
                names.insert(unit.column.0.clone());
                names.extend(unit.period.iter().map(|(_, time)| time.0.clone()));
            }
        }
        Relation::Owned { column, parent, key, .. } => {
            names.extend([column.clone(), key.clone()]);
            named(parent, names);
        }
        Relation::Public { unique, .. } => names.extend(unique.iter().cloned()),
        Relation::Filter { input, .. } | Relation::Project { input, .. } | Relation::PerUnit { input, .. } => {
            named(input, names);
        }
        Relation::Join { left, right, .. } => [left, right].into_iter().for_each(|side| named(side, names)),
        Relation::Union { inputs, .. } => {
            for input in inputs {
                names.extend(input.columns().into_iter().map(|(name, _)| name));
                named(input, names);
            }
        }
    }
}

/// Reads some columns of a text file into memory; `None` for other tables and where they do not fit.
pub(super) async fn read(
    context: &SessionContext,
    table: &Table,
    columns: &BTreeSet<String>,
) -> Result<Option<Table>, EngineError> {
    let any: &dyn Any = table.as_ref();
    let Some(path) = source::text_file(any) else { return Ok(None) };
    if !std::fs::metadata(path).is_ok_and(|file| file.len() <= LONGEST) {
        return Ok(None);
    }
    let (state, environment) = (context.state(), context.task_ctx());
    let wanted = |(index, field): (usize, &Arc<_>)| columns.contains(name_of(field)).then_some(index);
    let places: Vec<usize> = table.schema().fields().iter().enumerate().filter_map(wanted).collect();
    let scan = table.scan(&state, Some(&places), &[], None).await?;
    let pool = environment.memory_pool();
    let room = match pool.memory_limit() {
        MemoryLimit::Finite(bytes) => MOST.min(bytes / PART),
        MemoryLimit::Infinite | MemoryLimit::Unknown => MOST,
    };
    let reservation = MemoryConsumer::new("held rows").register(pool);
    let mut batches = execute_stream(Arc::clone(&scan), Arc::clone(&environment))?;
    let mut parts: Vec<Vec<RecordBatch>> = vec![Vec::new(); state.config().target_partitions().max(1)];
    let (count, mut bytes) = (parts.len(), 0);
    let mut place = 0;
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        bytes += batch.get_array_memory_size();
        if bytes > room || reservation.try_resize(bytes).is_err() {
            return Ok(None);
        }
        parts[place % count].push(batch);
        place += 1;
    }
    let rows = MemTable::try_new(scan.schema(), parts)?;
    Ok(Some(Arc::new(Held { table: Arc::clone(table), places, rows, _reservation: reservation })))
}

fn name_of(field: &Arc<datafusion::arrow::datatypes::Field>) -> &str {
    field.name()
}

/// A table of which some columns are in memory.
#[derive(Debug)]
struct Held {
    table: Table,
    /// The columns that are held, by their places in the table.
    places: Vec<usize>,
    rows: MemTable,
    /// What the rows take of the memory of the engine, as long as they are there.
    _reservation: MemoryReservation,
}

#[async_trait]
impl TableProvider for Held {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all: Vec<usize> = (0..self.table.schema().fields().len()).collect();
        let chosen = projection.unwrap_or(&all);
        let held = chosen.iter().map(|column| self.places.iter().position(|place| place == column));
        match held.collect::<Option<Vec<usize>>>() {
            Some(held) => self.rows.scan(state, Some(&held), filters, limit).await,
            None => self.table.scan(state, projection, filters, limit).await,
        }
    }
}
