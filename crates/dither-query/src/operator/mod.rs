//! The bounding of contributions in this process, in one pass over the rows.
//!
//! It gives the integers of the portable plan of [`bound`](crate::bound), bit for bit, and is faster and smaller than
//! its two aggregations and two sorts: rows are numbered and collected by unit while they are read, and the kernel of
//! `dither-bounding` hashes only units that are over a limit. Rows that wait for more than a share of memory are pruned and
//! spilled; what grows with the number of keys, of different values and of owners is held in memory, whatever the limit.

mod keys;
mod owners;
mod reader;
mod rewrite;
mod unique;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::ArrayRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::{DataFrame, SessionContext};
use dither_bounding::{
    Buckets, Columns, Dictionary, KeyedHash, Layout, Limits, Mapping, Names, Rows, Rule, Scratch, Share, Square, Totals,
};
use dither_core::{Key, PrivacyUnit, ValueBounds};
use futures::StreamExt;
use futures::future::try_join_all;

use crate::bound::Bounding;
use crate::engine::Counted;
use crate::source::Tables;
use keys::{KeySpace, Numbers, texts};
use reader::{Contents, Reader};

/// Everything about a question that its readers share.
struct Task {
    keys: KeySpace,
    /// The texts of the public keys, made when they are asked for.
    public_texts: OnceLock<Dictionary>,
    units: UnitKind,
    bounds: Vec<ValueBounds>,
    /// Of which values the totals of units are squared.
    squares: Arc<[Square]>,
    /// For each histogram whether the number of different values is all that is wanted; such values are numbered.
    distinct: Vec<bool>,
    /// How the integers of a row are kept: bounds are public, and what is counted by value may be any integer.
    layout: Arc<Layout>,
    limits: Limits,
    group_hash: KeyedHash,
    row_hash: KeyedHash,
    /// Keys the cipher of spilled rows.
    spill_key: KeyedHash,
    /// The bytes of rows that each reader, and then each worker, holds in memory.
    share: usize,
}

/// What a unit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnitKind {
    /// Each row is one.
    Rows,
    /// An integer of 64 bits.
    Integers,
    /// Anything else, by its text.
    Texts,
}

impl Task {
    fn new(bounding: &Bounding<'_>, share: usize) -> Self {
        let integer = *bounding.unit_kind == datafusion::arrow::datatypes::DataType::Int64;
        let units = match bounding.unit {
            PrivacyUnit::Row => UnitKind::Rows,
            PrivacyUnit::Column(_) if integer => UnitKind::Integers,
            PrivacyUnit::Column(_) | PrivacyUnit::Period { .. } => UnitKind::Texts,
        };
        let bounds: Vec<ValueBounds> = bounding.summands.iter().map(|summand| summand.bounds).collect();
        let ranges = bounds.iter().map(|bounds| Some((bounds.lower(), bounds.upper())));
        let keys = KeySpace::new(bounding.question);
        let layout = Layout::new(keys.count(), ranges.chain(bounding.histograms.iter().map(|_| None)));
        let square = |column: &usize| {
            let bounds = &bounds[*column];
            Square { column: *column, lower: bounds.lower(), upper: bounds.upper() }
        };
        let squares = bounding.squared.iter().map(square).collect();
        Self {
            squares,
            keys,
            public_texts: OnceLock::new(),
            units,
            bounds,
            layout: Arc::new(layout),
            distinct: bounding.histograms.iter().map(|histogram| histogram.distinct).collect(),
            limits: bounding.limits(),
            group_hash: KeyedHash::new(bounding.secret, "group"),
            row_hash: KeyedHash::new(bounding.secret, "row"),
            spill_key: KeyedHash::new(bounding.secret, "spill"),
            share,
        }
    }

    /// The texts of the public keys, which number as they do.
    fn public_texts(&self) -> Result<&Dictionary, DataFusionError> {
        if let Some(texts) = self.public_texts.get() {
            return Ok(texts);
        }
        let texts = self.keys.dictionary()?;
        Ok(self.public_texts.get_or_init(|| texts))
    }

    fn columns(&self) -> Columns {
        Columns { summed: self.bounds.len(), tallied: self.distinct.len() }
    }

    /// Zeros for so many keys.
    fn totals(&self, keys: usize) -> Totals {
        Totals::new(self.columns(), Arc::clone(&self.squares), keys)
    }

    fn rule<'a>(&'a self, keys: &'a Dictionary, values: &'a [Names]) -> Rule<'a> {
        let Self { limits, group_hash, row_hash, layout, .. } = self;
        Rule { limits: *limits, group_hash, row_hash, keys, layout, values }
    }
}

/// Less would be less than a batch of rows takes while it is read.
const LEAST_SHARE: usize = 4 << 10;

/// Of rows in so many bytes 32 bits number even twice as many.
const LARGEST_SHARE: usize = 16 << 30;

/// The exact integers of each group, with so many bytes of memory for the rows that wait for their bounding.
///
/// # Errors
/// [`DataFusionError::ResourcesExhausted`] where what joins and sub-queries hold does not fit the pool of the context.
pub(crate) async fn count(
    context: &SessionContext,
    waiting: usize,
    bounding: &Bounding<'_>,
    tables: &Tables,
) -> Result<Vec<Counted>, DataFusionError> {
    let mut held = Vec::new();
    let plan = rewrite::rewritten(context, bounding.columns(tables)?, &mut held).await?;
    let plan = rewrite::with_unowned(plan)?;
    // The rows of readers are still there while workers bound theirs.
    let threads = context.state().config().target_partitions();
    let task = Arc::new(Task::new(bounding, (waiting / threads / 2).clamp(LEAST_SHARE, LARGEST_SHARE)));
    // Registered before the readers, so that the pool keeps them their share while rows fill the memory.
    let environment = context.task_ctx();
    let workers = (0..threads).map(|_| reservation(&environment)).collect();
    let read = read(context, plan, &task).await?;
    let Finished { totals, keys } = match task.units {
        UnitKind::Rows => add_up(&task, read)?,
        UnitKind::Integers | UnitKind::Texts => bound(workers, &task, read).await?,
    };
    Ok(counted(&task, &totals, &keys))
}

/// Totals, and the key of each of their numbers.
struct Finished {
    totals: Totals,
    keys: Vec<Vec<Key>>,
}

/// Runs the plan and collects each of its partitions in a task of its own.
async fn read(context: &SessionContext, plan: LogicalPlan, task: &Arc<Task>) -> Result<Vec<Contents>, DataFusionError> {
    let physical = DataFrame::new(context.state(), plan).create_physical_plan().await?;
    let environment = context.task_ctx();
    let readers = (0..datafusion::physical_plan::ExecutionPlanProperties::output_partitioning(&physical)
        .partition_count())
        .map(|partition| {
            let mut stream = physical.execute(partition, Arc::clone(&environment))?;
            let mut reader = Reader::new(Arc::clone(task), &physical.schema(), reservation(&environment))?;
            // Gone with the question, should nobody wait for it any more.
            Ok(SpawnedTask::spawn(async move {
                while let Some(batch) = stream.next().await {
                    reader.push(&batch?)?;
                    // A join makes many batches of one: so that it can be stopped among them.
                    tokio::task::coop::consume_budget().await;
                }
                reader.finish()
            }))
        })
        .collect::<Result<Vec<_>, DataFusionError>>()?;
    let read = try_join_all(readers).await.map_err(|error| DataFusionError::External(error.into()))?;
    read.into_iter().collect()
}

fn reservation(environment: &TaskContext) -> MemoryReservation {
    MemoryConsumer::new("bounding").with_can_spill(true).register(environment.memory_pool())
}

/// The keys of all readers under common numbers.
struct CommonKeys {
    /// For each reader the common number of each of its own.
    mappings: Vec<Vec<u32>>,
    keys: Vec<Vec<Key>>,
    texts: Dictionary,
}

/// For each number of a reader its common one; `None` where integers are themselves.
type Renaming<T> = Option<Vec<T>>;

/// Gives the keys of all readers common numbers.
fn common_keys(task: &Task, read: &mut [Contents]) -> Result<CommonKeys, DataFusionError> {
    if let Some(keys) = task.keys.public() {
        let identity: Vec<u32> = (0..keys.len() as u32).collect();
        return Ok(CommonKeys { mappings: vec![identity; read.len()], keys, texts: task.public_texts()?.clone() });
    }
    let mut numbers = Numbers::new(&task.keys)?;
    let mut mappings = Vec::new();
    for contents in read.iter_mut() {
        let mut mapping = Vec::new();
        numbers.number(&contents.keys, &mut mapping)?;
        for (number, dropped) in mapping.iter_mut().zip(&contents.dropped) {
            if *dropped {
                *number = dither_bounding::DROPPED;
            }
        }
        mappings.push(mapping);
    }
    let arrays = numbers.into_values()?;
    Ok(CommonKeys { mappings, keys: keys::tuples(&arrays)?, texts: texts(&arrays)? })
}

/// Where each row is a unit: the sum of what the readers added up.
fn add_up(task: &Task, mut read: Vec<Contents>) -> Result<Finished, DataFusionError> {
    let CommonKeys { mappings, keys, .. } = common_keys(task, &mut read)?;
    let CommonValues { mappings: values, .. } = common_values(task, &read)?;
    let mut totals = task.totals(keys.len());
    for ((contents, mapping), values) in read.iter().zip(&mappings).zip(&values) {
        totals.merge(&contents.totals, mapping, values);
    }
    Ok(Finished { totals, keys })
}

/// What all workers look at.
struct Shared {
    task: Arc<Task>,
    keys: Dictionary,
    values: Vec<Names>,
    parts: Vec<(Contents, Mapping)>,
    next: AtomicUsize,
}

/// Bounds the buckets of all readers.
async fn bound(
    workers: Vec<MemoryReservation>,
    task: &Arc<Task>,
    mut read: Vec<Contents>,
) -> Result<Finished, DataFusionError> {
    let CommonKeys { mappings, keys, texts } = common_keys(task, &mut read)?;
    let CommonValues { mappings: value_mappings, names: values } = common_values(task, &read)?;
    let mappings = mappings.into_iter().zip(value_mappings).map(|(keys, values)| Mapping::new(keys, values));
    let parts = read.into_iter().zip(mappings).collect();
    let shared = Arc::new(Shared { task: Arc::clone(task), keys: texts, values, parts, next: AtomicUsize::new(0) });
    let _stop = Stop(Arc::clone(&shared));
    let workers = workers.into_iter().map(|reservation| {
        let (shared, keys) = (Arc::clone(&shared), keys.len());
        tokio::task::spawn_blocking(move || shared.work(keys, &reservation))
    });
    let done = try_join_all(workers).await.map_err(|error| DataFusionError::External(error.into()))?;
    let mut totals = task.totals(keys.len());
    let identity: Vec<u32> = (0..keys.len() as u32).collect();
    for part in done {
        totals.merge(&part?, &identity, &[]);
    }
    Ok(Finished { totals, keys })
}

/// Lets workers find no more buckets once nobody waits for them.
struct Stop(Arc<Shared>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.next.store(Buckets::COUNT, Ordering::Relaxed);
    }
}

impl Shared {
    /// Bounds one bucket after another until all are taken.
    fn work(&self, keys: usize, reservation: &MemoryReservation) -> Result<Totals, DataFusionError> {
        let mut totals = self.task.totals(keys);
        let (mut rows, mut scratch) = (Rows::default(), Scratch::default());
        loop {
            let bucket = self.next.fetch_add(1, Ordering::Relaxed);
            if bucket >= Buckets::COUNT {
                return Ok(totals);
            }
            let of = self.shares(bucket, totals.size(), reservation);
            for number in 0..of {
                rows.clear();
                self.collect(bucket, Share { number, of }, &mut rows, &mut scratch)?;
                dither_bounding::bound(&rows, &self.rule(), &mut scratch, &mut totals);
            }
        }
    }

    /// In how many shares of its units a bucket fits the memory of a worker beside its totals.
    fn shares(&self, bucket: usize, totals: usize, reservation: &MemoryReservation) -> u64 {
        let bytes: usize = self.parts.iter().map(|(part, _)| part.buckets.bucket_size(bucket)).sum();
        let count: usize = self.parts.iter().map(|(part, _)| part.buckets.len(bucket)).sum();
        let bytes = bytes + Scratch::bytes(count);
        let share = self.task.share;
        let mut of = bytes.div_ceil(share).max(1);
        // Where other questions have the memory, an eighth of the share is there all the same.
        while bytes / of > share / 8 && reservation.try_resize(totals + bytes / of).is_err() {
            of *= 2;
        }
        reservation.resize(totals + bytes / of);
        of as u64
    }

    fn rule(&self) -> Rule<'_> {
        self.task.rule(&self.keys, &self.values)
    }

    /// Collects the rows of a share of the units of a bucket, pruned where one unit has too many of them.
    fn collect(
        &self,
        bucket: usize,
        share: Share,
        rows: &mut Rows,
        scratch: &mut Scratch,
    ) -> Result<(), DataFusionError> {
        let layout = self.task.layout.as_ref();
        let mut most = 2 * self.task.share;
        for (part, mapping) in &self.parts {
            let prune = |rows: &mut Rows| {
                if rows.size(layout) > most && u32::try_from(rows.len()).is_ok() {
                    dither_bounding::prune(rows, &self.rule(), scratch);
                    // What cannot be pruned is held: its units have no more rows than count.
                    most = most.max(2 * rows.size(layout));
                }
            };
            part.buckets.collect(bucket, mapping, share, rows, prune).map_err(DataFusionError::IoError)?;
        }
        match u32::try_from(rows.len()) {
            Ok(_) => Ok(()),
            Err(_) => Err(DataFusionError::External("units have more rows that count than 32 bits can number".into())),
        }
    }
}

/// The values of all readers under common numbers.
struct CommonValues {
    /// For each reader a renaming of each column.
    mappings: Vec<Vec<Renaming<i64>>>,
    names: Vec<Names>,
}

/// Gives the values of distinct counts common numbers in all readers; other values are themselves.
fn common_values(task: &Task, read: &[Contents]) -> Result<CommonValues, DataFusionError> {
    let summed = task.bounds.len();
    let mut mappings = vec![vec![None; summed]; read.len()];
    let mut names = vec![Names::Integers; summed];
    for column in 0..task.distinct.len() {
        let arrays: Vec<Option<&ArrayRef>> = read.iter().map(|contents| contents.values[column].as_ref()).collect();
        let Some(kind) = arrays.iter().flatten().next().map(|array| array.data_type()) else {
            mappings.iter_mut().for_each(|mapping| mapping.push(None));
            names.push(Names::Integers);
            continue;
        };
        let mut numbers = Numbers::of_type(kind)?;
        for (mapping, array) in mappings.iter_mut().zip(&arrays) {
            let mut numbered = Vec::new();
            numbers.number(&array.iter().map(|array| Arc::clone(array)).collect::<Vec<_>>(), &mut numbered)?;
            mapping.push(Some(numbered.into_iter().map(i64::from).collect()));
        }
        names.push(Names::Texts(texts(&numbers.into_values()?)?));
    }
    Ok(CommonValues { mappings, names })
}

/// The histograms of each key.
fn histograms(task: &Task, totals: &Totals) -> Vec<Vec<Vec<(i64, u64)>>> {
    let mut histograms = vec![vec![Vec::new(); task.distinct.len()]; totals.keys()];
    for (column, distinct) in task.distinct.iter().enumerate() {
        // The values are sorted where their order matters.
        #[allow(clippy::iter_over_hash_type)]
        for ((key, value), count) in totals.tally(column) {
            let histogram = &mut histograms[*key as usize][column];
            match (distinct, histogram.first_mut()) {
                (true, Some((_, different))) => *different += 1,
                (true, None) => histogram.push((0, 1)),
                (false, _) => histogram.push((*value, *count)),
            }
        }
    }
    histograms
}

/// The groups that have rows.
fn counted(task: &Task, totals: &Totals, keys: &[Vec<Key>]) -> Vec<Counted> {
    let groups = keys.iter().zip(histograms(task, totals)).enumerate();
    let groups = groups.filter(|(number, _)| totals.rows(*number) > 0);
    groups
        .map(|(number, (key, histograms))| {
            let rows = i128::from(totals.rows(number));
            let units = if task.units == UnitKind::Rows { rows } else { i128::from(totals.units(number)) };
            let sums = (0..task.bounds.len()).map(|column| totals.sum(number, column));
            let sums = sums.map(|(sum, count)| (sum, i128::from(count))).collect();
            let squares = (0..task.squares.len()).map(|square| totals.squares(number, square)).collect();
            Counted { key: key.clone(), units, rows, sums, squares, histograms }
        })
        .collect()
}
