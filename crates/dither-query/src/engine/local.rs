//! The engine in this process.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};

use super::spills::Spills;
use super::{Counted, Counting, Engine, EngineError, Holding, held, portable};
use crate::bound::Bounding;
use crate::operator;
use crate::source::{Table, Tables};

/// DataFusion in this process.
#[derive(Clone)]
pub struct LocalEngine {
    pub(crate) context: SessionContext,
    /// What is tried where joins or sub-queries hold more than the memory of the context before.
    wider: Vec<SessionContext>,
    /// The bytes of memory for rows that wait for their bounding.
    pub(crate) waiting: usize,
    portable: bool,
    /// Where DataFusion puts rows that do not fit memory; it goes with the last engine that uses it.
    _spills: Option<Arc<Spills>>,
}

/// The bytes of memory for waiting rows of each thread, where nothing else is said; rows beyond go to disk. They are there or
/// in the cache of files anyway, but the cache is given back when somebody needs it.
const WAITING: usize = 4 << 20;

/// Of a limit so large a part is for rows that wait. What reads, sorts and bounds them takes more than twice as much again where
/// one unit owns half of 100 million rows, and a hundred megabytes whatever the limit is: measured, a process with a limit of
/// 256 MB takes 217 MB.
const WAITING_PART: usize = 8;

impl LocalEngine {
    /// An engine with so many threads of work.
    pub fn new(partitions: usize) -> Self {
        let context = session(partitions, Arc::default());
        Self { context, wider: Vec::new(), waiting: WAITING * partitions.max(1), portable: false, _spills: None }
    }

    /// An engine that takes so many bytes of memory, an eighth of them for rows that wait, and keeps the rest of them on disk.
    ///
    /// Whatever the limit and the rows are, the answer is that without a limit. These come on top: what a scan and its
    /// decompression take, some tens of megabytes for each thread; keys, different values of distinct counts, and totals of
    /// groups; and what joins and sub-queries hold, where sorting it on disk does not fit the limit either.
    ///
    /// # Errors
    /// A runtime that cannot be set up.
    pub fn with_memory(partitions: usize, bytes: usize) -> Result<Self, EngineError> {
        let pool = Arc::new(FairSpillPool::new(bytes));
        let limited = RuntimeEnvBuilder::new().with_memory_pool(pool);
        // What DataFusion writes to disk is not enciphered: only where a join needs it.
        let nothing = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
        let memory = limited.clone().with_disk_manager_builder(nothing.clone()).build_arc()?;
        // Without a folder the limit gives way, and not the answer.
        let spills = Spills::new().ok().map(Arc::new);
        let disk = spills.as_ref().map_or(nothing, |spills| {
            DiskManagerBuilder::default().with_mode(DiskManagerMode::Directories(vec![spills.path()]))
        });
        let limited = limited.with_disk_manager_builder(disk);
        let context = limited_session(partitions, memory, true);
        let wider = vec![limited_session(partitions, limited.build_arc()?, false), session(partitions, Arc::default())];
        Ok(Self { context, wider, waiting: bytes / WAITING_PART, portable: false, _spills: spills })
    }

    /// The same engine without the operator of our own: it runs the portable plan, which is the reference.
    pub fn portable(mut self) -> Self {
        self.portable = true;
        self
    }

    async fn run_portable(&self, bounding: &Bounding<'_>, tables: &Tables) -> Result<Vec<Counted>, EngineError> {
        // It sorts, on disk where memory is short.
        let context = self.wider.first().unwrap_or(&self.context);
        let run = async |plan| Ok(DataFrame::new(context.state(), plan).collect().await?);
        portable(bounding, tables, run).await
    }
}

/// A session of DataFusion.
fn session(partitions: usize, runtime: Arc<RuntimeEnv>) -> SessionContext {
    SessionContext::new_with_config_rt(settings(partitions), runtime)
}

/// A session with little memory. Joins are made by tables of hashes in memory, or else by sorting both sides.
fn limited_session(partitions: usize, runtime: Arc<RuntimeEnv>, hash_joins: bool) -> SessionContext {
    let mut config = settings(partitions);
    let options = config.options_mut();
    // Dealing out the rows of one file would keep them, and write them to disk where they are too many.
    options.optimizer.enable_round_robin_repartition = false;
    options.optimizer.prefer_hash_join = hash_joins;
    // By default each sort holds ten megabytes for its last step, which small limits do not have.
    options.execution.sort_spill_reservation_bytes = 64 << 10;
    SessionContext::new_with_config_rt(config, runtime)
}

fn settings(partitions: usize) -> SessionConfig {
    let mut config = SessionConfig::new().with_target_partitions(partitions.max(1));
    // Strings stay the type that the policy declares; views save little on bounded keys.
    config.options_mut().execution.parquet.schema_force_view_types = false;
    config
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
            let mut counted = operator::count(&self.context, self.waiting, bounding, tables).await;
            for context in &self.wider {
                match &counted {
                    Err(error) if matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)) => {
                        counted = operator::count(context, self.waiting, bounding, tables).await;
                    }
                    _ => break,
                }
            }
            Ok(counted?)
        })
    }

    fn hold<'a>(&'a self, table: &'a Table, columns: &'a BTreeSet<String>) -> Holding<'a> {
        Box::pin(held::read(&self.context, table, columns))
    }
}
