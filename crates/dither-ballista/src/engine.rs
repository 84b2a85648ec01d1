//! The engine: each plan of a question is one job of the cluster.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ballista_core::config::BallistaConfig;
use ballista_core::execution_plans::execute_physical_plan;
use ballista_core::extension::SessionConfigExt;
use ballista_core::serde::BallistaPhysicalExtensionCodec;
use ballista_core::utils::default_session_builder;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, common};
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::PhysicalPlanNode;
use dither_query::bound::Bounding;
use dither_query::engine::{Counting, Engine, EngineError, Opening, Rehearsing, portable};
use dither_query::policy::TablePolicy;
use dither_query::source::{self, Progress, SourceError, Tables, is_parquet};
use tokio::time::timeout;

use crate::message;
use crate::place::{Place, UrlError};
use crate::state;

/// How long a cluster may take for made-up rows, which are a handful: it may be busy with the jobs of others.
const PATIENCE: Duration = Duration::from_secs(300);

/// How often a job is run whose result cannot be fetched. Executors keep it until it is fetched; one that is lost by then
/// takes it along, and only a new job makes it again. It has the same secret, and so the same integers.
const ATTEMPTS: usize = 2;

/// The settings that travel with every job. A fetch from an executor that was lost is given up soon, so that others do its
/// work again; a scheduler that no longer answers is noticed.
const SETTINGS: [(&str, &str); 6] = [
    ("ballista.client.io_retries_times", "2"),
    ("ballista.client.io_retry_wait_time_ms", "500"),
    ("ballista.client.grpc_connect_timeout_seconds", "5"),
    ("ballista.client.grpc_http2_keepalive_interval_seconds", "10"),
    ("ballista.scheduler.share_file_statistics_cache", "false"),
    // What stands for a question in lists of jobs. The question itself is in its plan.
    ("ballista.job.name", "dither"),
];

/// A Ballista cluster whose executors see the files of the policy under the same paths as this process.
///
/// # Privacy
/// Rows are read by executors and lie in their working folders while they are passed on; what comes here is the exact
/// integers of a question, before noise. Whoever reaches the ports of the cluster, or reads its network or its logs, sees
/// both, and the secret by which rows are chosen, which travels in the plan.
pub struct BallistaEngine {
    place: Place,
    state: SessionState,
}

/// What a plan is run for.
#[derive(Clone, Copy, PartialEq)]
enum Purpose {
    /// Made-up rows, before a charge.
    Rehearsal,
    /// The tables, after it.
    Measurement,
}

impl BallistaEngine {
    /// An engine on the cluster whose scheduler a URL names. Nothing is connected yet.
    ///
    /// # Errors
    /// A text that is no such URL; a scheduler on another machine without `?network=trusted`, since nothing that is sent
    /// is encrypted or authenticated.
    pub fn new(url: &str) -> Result<Self, UrlError> {
        let place = Place::parse(url)?;
        let mut config = SessionConfig::new_with_ballista().with_target_partitions(place.partitions);
        for (name, value) in SETTINGS {
            config = config.set_str(name, value);
        }
        let state = default_session_builder(config).map_err(|_| UrlError::no_session())?;
        Ok(Self { place, state })
    }

    /// Plans a question here, so that which files are read and how is decided in this process, and runs it there.
    async fn run(&self, plan: &LogicalPlan, purpose: Purpose) -> Result<Vec<RecordBatch>, EngineError> {
        let plan = self.state.create_physical_plan(plan).await?;
        let spare = if purpose == Purpose::Rehearsal { message::SPARE } else { 0 };
        message::check(&plan, spare).map_err(|refusal| EngineError(Box::new(refusal)))?;
        state::check(&self.place.authority).await.map_err(|error| match purpose {
            Purpose::Rehearsal => EngineError(Box::new(error)),
            Purpose::Measurement => failed(error.to_string()),
        })?;
        let rows = self.job(Arc::clone(&plan));
        let rows = match purpose {
            Purpose::Rehearsal => timeout(PATIENCE, rows).await.map_err(|_| EngineError(Box::new(slow())))??,
            Purpose::Measurement => rows.await?,
        };
        fits(&rows, &plan.schema())?;
        Ok(rows)
    }

    /// Runs a plan as a job. What the cluster says when it fails may hold values: of that nothing is kept.
    async fn job(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Vec<RecordBatch>, EngineError> {
        for _ in 0..ATTEMPTS {
            // In a task of its own: the client asserts what a scheduler may say, and that must not end this process.
            let done = SpawnedTask::spawn(attempt(self.place.clone(), self.state.clone(), Arc::clone(&plan)));
            match done.join().await {
                Ok(Ok(Some(rows))) => return Ok(rows),
                Ok(Ok(None)) => {}
                Ok(Err(_)) => return Err(failed("the cluster did not finish a job")),
                Err(_) => return Err(failed("the scheduler answered in another way than Ballista does")),
            }
        }
        Err(failed("the result of a job could not be fetched"))
    }
}

/// Runs a job once; `None` if it was done and its result was gone.
async fn attempt(
    place: Place,
    state: SessionState,
    plan: Arc<dyn ExecutionPlan>,
) -> Result<Option<Vec<RecordBatch>>, DataFusionError> {
    let config = state.config().ballista_config();
    let result = submitted(&place, &config, &state, plan).await?;
    Ok(common::collect(result).await.ok())
}

async fn submitted(
    place: &Place,
    config: &BallistaConfig,
    state: &SessionState,
    plan: Arc<dyn ExecutionPlan>,
) -> Result<datafusion::execution::SendableRecordBatchStream, DataFusionError> {
    let codec = BallistaPhysicalExtensionCodec::default();
    let (url, session) = (format!("http://{}", place.authority), state.session_id().to_owned());
    execute_physical_plan::<PhysicalPlanNode>(url, config, plan, &codec, session, state.config().clone()).await
}

/// A failure while rows are read. For the operator: its kind, which holds no values.
fn failed(kind: impl Into<String>) -> EngineError {
    EngineError(Box::new(io::Error::other(kind.into())))
}

/// A cluster that is busy, or whose executors do not take work.
fn slow() -> SourceError {
    let problem = format!("it did not answer a question about made-up rows within {} seconds", PATIENCE.as_secs());
    SourceError::Server { problem, hint: "check the executors, or ask again when the cluster is less busy".into() }
}

/// Whether rows have the columns of their plan: an executor may be of another version, or say anything.
fn fits(rows: &[RecordBatch], schema: &SchemaRef) -> Result<(), EngineError> {
    let like = |batch: &RecordBatch| {
        let (found, planned) = (batch.schema(), schema.fields());
        found.fields().len() == planned.len()
            && found.fields().iter().zip(planned).all(|(a, b)| a.name() == b.name() && a.data_type() == b.data_type())
    };
    match rows.iter().all(like) {
        true => Ok(()),
        false => Err(failed("the cluster answered with other columns than were asked for")),
    }
}

/// Whether tables are made up: those of files are never in memory.
fn made_up(tables: &Tables) -> bool {
    tables.values().all(|table| table.downcast_ref::<MemTable>().is_some())
}

impl Engine for BallistaEngine {
    fn count<'a>(&'a self, bounding: &'a Bounding<'a>, tables: &'a Tables) -> Counting<'a> {
        let purpose = if made_up(tables) { Purpose::Rehearsal } else { Purpose::Measurement };
        let run = move |plan: LogicalPlan| async move { self.run(&plan, purpose).await };
        Box::pin(portable(bounding, tables, run))
    }

    fn accepts(&self, table: &TablePolicy) -> Result<(), SourceError> {
        match is_parquet(&table.source) {
            true => Ok(()),
            false => Err(SourceError::NotOnCluster { path: table.source.clone() }),
        }
    }

    fn open<'a>(&'a self, table: &'a TablePolicy, base_dir: &'a Path, progress: &'a Arc<Progress>) -> Opening<'a> {
        Box::pin(async move {
            self.accepts(table)?;
            source::open(table, base_dir, progress)
        })
    }

    fn rehearse(&self, plan: LogicalPlan) -> Option<Rehearsing<'_>> {
        Some(Box::pin(async move { self.run(&plan, Purpose::Rehearsal).await }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};

    #[test]
    fn rows_have_the_columns_of_their_plan_or_are_a_failure_of_one_text() {
        let (text, whole, sum) = (DataType::Utf8, DataType::Int64, DataType::Decimal128(38, 0));
        let schema = |columns: &[(&str, &DataType)]| -> SchemaRef {
            let fields = columns.iter().map(|(name, kind)| Field::new(*name, (*kind).clone(), true));
            Arc::new(Schema::new(fields.collect::<Vec<_>>()))
        };
        let planned = schema(&[("k0", &text), ("units", &whole), ("s0", &sum)]);
        let good = RecordBatch::new_empty(Arc::clone(&planned));
        assert!(fits(&[], &planned).is_ok() && fits(&[good.clone(), good.clone()], &planned).is_ok());
        for other in [
            schema(&[]),
            schema(&[("k0", &text), ("units", &whole)]),
            schema(&[("k0", &text), ("units", &whole), ("s0", &sum), ("s1", &sum)]),
            schema(&[("k0", &text), ("rows", &whole), ("s0", &sum)]),
            schema(&[("units", &whole), ("k0", &text), ("s0", &sum)]),
            schema(&[("k0", &whole), ("units", &whole), ("s0", &sum)]),
            schema(&[("k0", &text), ("units", &whole), ("s0", &DataType::Decimal128(38, 2))]),
        ] {
            let rows = [good.clone(), RecordBatch::new_empty(other)];
            let error = fits(&rows, &planned).unwrap_err();
            assert_eq!(error.to_string(), "the question could not be answered; the charge stands");
            assert_eq!(error.operator_detail(), "the cluster answered with other columns than were asked for");
        }
    }
}
