//! Engines count. What they return is checked, turned into the integers that the mechanism measures, and sealed.

mod measured;

use std::collections::HashMap;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use datafusion::arrow::array::{Array, Decimal128Array, Int64Array, RecordBatch};
use datafusion::datasource::provider_as_source;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use datafusion::scalar::ScalarValue;
use dither_core::{Audience, Charged, Explain, Key, Mechanism, Sensitive};
use dither_mechanisms::{ExactRow, ExactTable, Histogram, KeyRule};
use dither_noise::Secret;

use crate::bound::{Bounding, COUNT, POINT, ROWS, UNITS, count_name, key_name, square_names, sum_name};
use crate::error::{Code, Refusal};
use crate::ir::Domain;
use crate::operator;
use crate::plan::{Measure, QueryPlan};
use crate::policy::{Policy, TablePolicy};
use crate::rehearsal;
use crate::source::{self, Progress, SourceError, Table, Tables};
use crate::sql::{key_literal, key_of};

use measured::measured;

/// A failure while the data was read. It may depend on the data, so an analyst sees one constant text.
#[derive(Debug, thiserror::Error)]
#[error("the question could not be answered; the charge stands")]
pub struct EngineError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

impl EngineError {
    /// What failed, for the operator's log: the kind of failure and the texts of ours, which carry no values.
    pub fn operator_detail(&self) -> String {
        let mut source: &(dyn std::error::Error + 'static) = self.0.as_ref();
        loop {
            if source.is::<crate::source::ReadError>() || source.is::<std::io::Error>() {
                return source.to_string();
            }
            match source.source() {
                Some(inner) => source = inner,
                None => break,
            }
        }
        // Texts of the engine may quote values.
        "the engine failed".into()
    }
}

impl Explain for EngineError {
    fn code(&self) -> &'static str {
        "engine-failed"
    }
    fn hint(&self) -> Option<String> {
        Some("the same request is not charged twice: ask again with more time or memory, or ask the operator".into())
    }
    fn audience(&self) -> Audience {
        Audience::Operator
    }
}

fn failed(reason: &'static str) -> EngineError {
    EngineError(reason.into())
}

impl From<DataFusionError> for EngineError {
    fn from(error: DataFusionError) -> Self {
        Self(Box::new(error))
    }
}

/// The exact integers of one group, before noise.
pub struct Counted {
    /// The key; empty where there are no groups.
    pub key: Vec<Key>,
    /// The number of units.
    pub units: i128,
    /// The number of rows kept.
    pub rows: i128,
    /// The sum of each summand in steps of its lattice, and the number of values in it.
    pub sums: Vec<(i128, i128)>,
    /// ΣA², ΣAB and ΣB² of each summand whose totals of units are squared, see [`Bounding::squared`].
    pub squares: Vec<[i128; 3]>,
    /// For each histogram the integers that occur and how often; of a distinct count the number of values as that of one.
    pub histograms: Vec<Vec<(i64, u64)>>,
}

/// The future of an engine's exact integers.
pub type Counting<'a> = Pin<Box<dyn Future<Output = Result<Vec<Counted>, EngineError>> + Send + 'a>>;

/// Counts and sums what a question asks for, with the contributions of each unit bounded.
pub trait Engine: Send + Sync {
    /// The exact integers of the groups that have rows, in any order, from the tables by their names.
    ///
    /// Engines differ in where and how fast they do it; the integers are those of [`Bounding::plan`], bit for bit.
    fn count<'a>(&'a self, bounding: &'a Bounding<'a>, tables: &'a Tables) -> Counting<'a>;

    /// Whether the engine reads tables of this kind, by the name of the source alone.
    ///
    /// # Errors
    /// What the engine would need instead.
    fn accepts(&self, _table: &TablePolicy) -> Result<(), SourceError> {
        Ok(())
    }

    /// Finds a table before anything is charged, by public things only: its file here, or what stands for it elsewhere.
    ///
    /// # Errors
    /// A table that is not as the policy declares it.
    fn open<'a>(&'a self, table: &'a TablePolicy, base_dir: &'a Path, progress: &'a Arc<Progress>) -> Opening<'a> {
        Box::pin(async move { source::open(table, base_dir, progress) })
    }

    /// Runs a plan over made-up rows, where plans are run elsewhere; `None` where they are run in this process.
    ///
    /// # Errors
    /// What the rehearsal of a question is refused for.
    fn rehearse(&self, _plan: LogicalPlan) -> Option<Rehearsing<'_>> {
        None
    }
}

/// The future of a table.
pub type Opening<'a> = Pin<Box<dyn Future<Output = Result<Table, SourceError>> + Send + 'a>>;

/// The future of the rows that a plan makes of made-up ones.
pub type Rehearsing<'a> = Pin<Box<dyn Future<Output = Result<Vec<RecordBatch>, EngineError>> + Send + 'a>>;

/// Why a question cannot be run. Nothing was charged.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    /// The question is refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The place where it would run cannot be reached.
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl RehearsalError {
    /// What an engine elsewhere says before the charge: its own refusal, that it cannot be reached, or that it failed.
    fn elsewhere(error: EngineError) -> Self {
        let error = match error.0.downcast::<Refusal>() {
            Ok(refusal) => return Self::Refused(*refusal),
            Err(error) => error,
        };
        match error.downcast::<SourceError>() {
            Ok(error) => Self::Source(*error),
            Err(_) => Self::Refused(
                Refusal::new(Code::Unsupported, "the engine fails on some values of this question")
                    .hint("ask without --engine, or write the expression in another way"),
            ),
        }
    }
}

/// DataFusion in this process.
pub struct LocalEngine {
    pub(crate) context: SessionContext,
    portable: bool,
}

impl LocalEngine {
    /// An engine with so many threads of work.
    pub fn new(partitions: usize) -> Self {
        Self::with_runtime(partitions, Arc::default())
    }

    /// An engine that keeps rows in so many bytes of memory and the rest of them on disk.
    ///
    /// What a scan and its decompression take comes on top, some tens of megabytes for each thread.
    ///
    /// # Errors
    /// A runtime that cannot be set up.
    pub fn with_memory(partitions: usize, bytes: usize) -> Result<Self, EngineError> {
        let pool = Arc::new(FairSpillPool::new(bytes));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
        Ok(Self::with_runtime(partitions, runtime))
    }

    fn with_runtime(partitions: usize, runtime: Arc<RuntimeEnv>) -> Self {
        let mut config = SessionConfig::new().with_target_partitions(partitions.max(1));
        // Strings stay the type that the policy declares; views save little on bounded keys.
        config.options_mut().execution.parquet.schema_force_view_types = false;
        Self { context: SessionContext::new_with_config_rt(config, runtime), portable: false }
    }

    /// The same engine without the operator of our own: it runs the portable plan, which is the reference.
    pub fn portable(mut self) -> Self {
        self.portable = true;
        self
    }

    async fn run_portable(&self, bounding: &Bounding<'_>, tables: &Tables) -> Result<Vec<Counted>, EngineError> {
        let run = async |plan| Ok(DataFrame::new(self.context.state(), plan).collect().await?);
        portable(bounding, tables, run).await
    }
}

impl Default for LocalEngine {
    fn default() -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, usize::from))
    }
}

impl Engine for LocalEngine {
    fn count<'a>(&'a self, bounding: &'a Bounding<'a>, tables: &'a Tables) -> Counting<'a> {
        Box::pin(async move {
            if self.portable {
                return self.run_portable(bounding, tables).await;
            }
            match operator::count(&self.context, bounding, tables).await {
                // What does not fit our operator may still fit sorts on disk.
                Err(error) if matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)) => {
                    self.run_portable(bounding, tables).await
                }
                counted => Ok(counted?),
            }
        })
    }
}

/// Looks at the data: counts what a question asks for and seals the exact answer.
///
/// The charged mechanism is the token that this is paid for.
///
/// # Errors
/// [`EngineError`] with the cause for the operator.
pub async fn measure<M: Mechanism>(
    _charged: &Charged<M>,
    plan: &QueryPlan,
    tables: &Tables,
    secret: &Secret,
    engine: &dyn Engine,
) -> Result<Sensitive<ExactTable>, EngineError> {
    let secret: String = secret.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    exact(plan, tables, &secret, engine).await.map(Sensitive::new)
}

/// Runs a question on made-up rows with nothing, the largest and the smallest of everything in every table, and every
/// part of its row-local expressions by itself, wherever in the relation they stand. What fails here could fail on
/// somebody's row, after the charge. An engine elsewhere must give the same values and integers of these rows.
///
/// # Errors
/// A [`Refusal`] for an expression that is not total after all, or that the engine evaluates in another way; a
/// [`SourceError`] for an engine that cannot be reached.
///
/// # Privacy
/// Reads no row of any table.
pub async fn rehearse(plan: &QueryPlan, policy: &Policy, engine: &dyn Engine) -> Result<(), RehearsalError> {
    let refused = |_| {
        Refusal::new(Code::Unsupported, "an expression of this question fails on some values")
            .hint("compare and cast values of the declared types only")
    };
    for name in plan.question.relation.tables() {
        if let Some(table) = policy.readable(name) {
            engine.accepts(&table)?;
        }
    }
    let one = LogicalPlanBuilder::empty(true).project([lit(1_i64)]).and_then(|one| one.build()).map_err(refused)?;
    let elsewhere = match engine.rehearse(one) {
        Some(reached) => {
            reached.await.map_err(RehearsalError::elsewhere)?;
            true
        }
        None => false,
    };
    let stages = rehearsal::stages(plan, policy).map_err(refused)?;
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    for (stage, parts) in rehearsal::parts(plan, policy).map_err(refused)? {
        let scan = LogicalPlanBuilder::scan("stage", provider_as_source(stage), None);
        let alone = scan.and_then(|scan| scan.project(parts)).and_then(|scan| scan.build()).map_err(refused)?;
        let here = DataFrame::new(context.state(), alone.clone()).collect().await.map_err(refused)?;
        if let Some(there) = engine.rehearse(alone) {
            let there = there.await.map_err(RehearsalError::elsewhere)?;
            if !rehearsal::same(&here, &there).map_err(refused)? {
                return Err(differs().into());
            }
        }
    }
    // A few of the public keys stand for all: what fails does not depend on how many there are.
    let mut brief = plan.clone();
    for key in &mut brief.shape.question.keys {
        if let Domain::Public(keys) = &mut key.domain {
            keys.truncate(2);
        }
    }
    // By the operator and by the portable plan, which may have to take its place after the charge.
    let mut here = None;
    for portable in [false, true] {
        let engine = LocalEngine { context: context.clone(), portable };
        let whole = exact(&brief, &stages, "rehearsal", &engine).await;
        here = Some(whole.map_err(|error| refused(DataFusionError::External(error.0)))?);
    }
    // An engine in this process is the one that has just run.
    if elsewhere {
        let there = exact(&brief, &stages, "rehearsal", engine).await.map_err(RehearsalError::elsewhere)?;
        if here != Some(there) {
            return Err(differs().into());
        }
        // All keys at once may be too much for it.
        exact(plan, &stages, "rehearsal", engine).await.map_err(RehearsalError::elsewhere)?;
    }
    Ok(())
}

fn differs() -> Refusal {
    Refusal::new(Code::Unsupported, "the engine evaluates this question in another way on made-up rows")
        .hint("ask without --engine, or write the expression in another way")
}

/// The exact answer. Private to the crate: outside, the gate comes first.
pub(crate) async fn exact(
    plan: &QueryPlan,
    tables: &Tables,
    secret: &str,
    engine: &dyn Engine,
) -> Result<ExactTable, EngineError> {
    let bounding = Bounding {
        question: &plan.question,
        unit: &plan.unit,
        unit_kind: &plan.unit_kind,
        bounds: plan.bounds,
        values: &plan.values,
        summands: &plan.summands,
        squared: &plan.squared(),
        histograms: &plan.histograms,
        needs_rows: plan.needs_rows(),
        secret,
    };
    let counted = engine.count(&bounding, tables).await?;
    let groups = counted.into_iter().map(|group| measured(plan, group)).collect::<Result<_, _>>()?;
    keyed(plan, groups)
}

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

/// Joins the groups to the public keys, or sorts them: the order depends on nothing but the keys.
fn keyed(plan: &QueryPlan, groups: Vec<ExactRow>) -> Result<ExactTable, EngineError> {
    let Some(lists) = plan.public_keys() else {
        let mut rows = groups;
        rows.sort_by(|a, b| compare_keys(&a.key, &b.key));
        return Ok(ExactTable { rows });
    };
    let mut found: HashMap<String, ExactRow> = groups.into_iter().map(|row| (name_of(&row.key), row)).collect();
    let width: usize = match &plan.mechanism.keys {
        KeyRule::Top(_) => 0,
        KeyRule::Public | KeyRule::Threshold(_) => plan.measures.iter().map(Measure::width).sum(),
    };
    let histograms = vec![Histogram::new(); plan.ranks.len() + plan.found.len()];
    let rows = product(&lists)
        .map(|key| match found.remove(&name_of(&key)) {
            Some(row) => row,
            None => ExactRow { key, values: vec![0; width], units: 0, histograms: histograms.clone() },
        })
        .collect();
    Ok(ExactTable { rows })
}

/// A text that is the same for equal keys and differs for different ones.
pub(crate) fn name_of(key: &[Key]) -> String {
    serde_json::to_string(key).unwrap_or_default()
}

fn compare_keys(a: &[Key], b: &[Key]) -> std::cmp::Ordering {
    a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal)
}

/// All combinations, the last list running fastest.
pub(crate) fn product<T: Clone>(lists: &[Vec<T>]) -> impl Iterator<Item = Vec<T>> {
    let total: usize = lists.iter().map(Vec::len).product();
    (0..total).map(move |mut index| {
        let mut key: Vec<T> = Vec::with_capacity(lists.len());
        for list in lists.iter().rev() {
            key.push(list[index % list.len()].clone());
            index /= list.len();
        }
        key.reverse();
        key
    })
}

impl QueryPlan {
    /// The public keys of each group column in canonical form, if all are public.
    fn public_keys(&self) -> Option<Vec<Vec<Key>>> {
        self.question
            .keys
            .iter()
            .map(|key| match &key.domain {
                Domain::Public(keys) => {
                    Some(keys.iter().filter_map(|value| key_of(&key_literal(value, &key.kind)?)).collect())
                }
                Domain::Private => None,
            })
            .collect()
    }
}
