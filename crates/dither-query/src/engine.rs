//! Engines run the portable plan. What they return is checked, turned into exact integers, and sealed.

use std::future::Future;
use std::pin::Pin;

use datafusion::arrow::array::{Array, Decimal128Array, Int64Array, RecordBatch};
use datafusion::datasource::provider_as_source;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use datafusion::scalar::ScalarValue;
use dither_core::{Audience, Charged, Explain, Key, Mechanism, Sensitive};
use dither_mechanisms::{ExactRow, ExactTable};
use dither_noise::Secret;

use crate::bound::{Bounding, ROWS, UNITS, count_name, key_name, sum_name};
use crate::error::{Code, Refusal};
use crate::ir::Domain;
use crate::plan::{Measure, QueryPlan};
use crate::policy::Policy;
use crate::rehearsal;
use crate::source::Tables;
use crate::sql::{key_literal, key_of};

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
        Some("ask the operator; the same request is not charged twice".into())
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

/// The future of an engine's answer.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Vec<RecordBatch>, EngineError>> + Send + 'a>>;

/// Runs a plan of built-in relational operators.
pub trait Engine: Send + Sync {
    /// Runs the plan and returns its rows, in any order and any batches.
    fn run(&self, plan: LogicalPlan) -> Answering<'_>;
}

/// DataFusion in this process.
pub struct LocalEngine {
    context: SessionContext,
}

impl LocalEngine {
    /// An engine with so many threads of work.
    pub fn new(partitions: usize) -> Self {
        let mut config = SessionConfig::new().with_target_partitions(partitions.max(1));
        // Strings stay the type that the policy declares; views save little on bounded keys.
        config.options_mut().execution.parquet.schema_force_view_types = false;
        Self { context: SessionContext::new_with_config(config) }
    }
}

impl Default for LocalEngine {
    fn default() -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, usize::from))
    }
}

impl Engine for LocalEngine {
    fn run(&self, plan: LogicalPlan) -> Answering<'_> {
        Box::pin(async move { Ok(DataFrame::new(self.context.state(), plan).collect().await?) })
    }
}

/// Looks at the data: runs the portable plan of a question and seals the exact answer.
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
/// somebody's row, after the charge.
///
/// # Errors
/// A [`Refusal`] for an expression that is not total after all.
///
/// # Privacy
/// Reads no row of any table.
pub async fn rehearse(plan: &QueryPlan, policy: &Policy) -> Result<(), Refusal> {
    let refused = |_| {
        Refusal::new(Code::Unsupported, "an expression of this question fails on some values")
            .hint("compare and cast values of the declared types only")
    };
    let stages = rehearsal::stages(plan, policy).map_err(refused)?;
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    for (stage, parts) in rehearsal::parts(plan).map_err(refused)? {
        let scan = LogicalPlanBuilder::scan("stage", provider_as_source(stage), None);
        let alone = scan.and_then(|scan| scan.project(parts)).and_then(|scan| scan.build()).map_err(refused)?;
        DataFrame::new(context.state(), alone).collect().await.map_err(refused)?;
    }
    let whole = exact(plan, &stages, "rehearsal", &LocalEngine { context }).await;
    whole.map(drop).map_err(|error| refused(DataFusionError::External(error.0)))
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
        summands: &plan.summands,
        needs_rows: plan.needs_rows(),
        secret,
    };
    let portable = bounding.plan(tables)?;
    let batches = engine.run(portable).await?;
    let mut groups = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            groups.push(group(plan, batch, row)?);
        }
    }
    keyed(plan, groups)
}

/// One group of the portable result: its key and the exact integers that the blocks of the mechanism measure.
fn group(plan: &QueryPlan, batch: &RecordBatch, row: usize) -> Result<ExactRow, EngineError> {
    let key = (0..plan.question.keys.len())
        .map(|index| {
            let column = batch.column_by_name(&key_name(index)).ok_or_else(|| failed("a key column is missing"))?;
            // No key has another type, and if one had, that must not show.
            Ok(key_of(&ScalarValue::try_from_array(column, row)?).unwrap_or(Key::Null))
        })
        .collect::<Result<Vec<_>, EngineError>>()?;
    let units = integer(batch, UNITS, row)?;
    let mut values = Vec::new();
    for measure in &plan.measures {
        match measure {
            Measure::Units => values.push(units),
            Measure::Rows => values.push(integer(batch, ROWS, row)?),
            Measure::Sum(index) => values.push(integer(batch, &sum_name(*index), row)?),
            Measure::Pair(index) => {
                let bounds = &plan.summands[*index].bounds;
                let (sum, count) = (integer(batch, &sum_name(*index), row)?, integer(batch, &count_name(*index), row)?);
                let side = |bound: i64| count.checked_mul(i128::from(bound)).ok_or_else(|| failed("a sum overflows"));
                values.push(side(bounds.upper())? - sum);
                values.push(sum - side(bounds.lower())?);
            }
        }
    }
    Ok(ExactRow { key, values, units: i64::try_from(units).map_err(|_| failed("a count overflows"))? })
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
    let mut found: std::collections::HashMap<String, ExactRow> =
        groups.into_iter().map(|row| (name_of(&row.key), row)).collect();
    let width: usize = plan.measures.iter().map(Measure::width).sum();
    let rows = product(&lists)
        .map(|key| match found.remove(&name_of(&key)) {
            Some(row) => row,
            None => ExactRow { key, values: vec![0; width], units: 0 },
        })
        .collect();
    Ok(ExactTable { rows })
}

/// A text that is the same for equal keys and differs for different ones.
fn name_of(key: &[Key]) -> String {
    serde_json::to_string(key).unwrap_or_default()
}

fn compare_keys(a: &[Key], b: &[Key]) -> std::cmp::Ordering {
    a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal)
}

/// All combinations, the last list running fastest.
fn product(lists: &[Vec<Key>]) -> impl Iterator<Item = Vec<Key>> {
    let total: usize = lists.iter().map(Vec::len).product();
    (0..total).map(move |mut index| {
        let mut key: Vec<Key> = Vec::with_capacity(lists.len());
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
