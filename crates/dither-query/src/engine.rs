//! Engines count. What they return is checked, turned into the integers that the mechanism measures, and sealed.

mod held;
mod local;
mod measured;
mod portable;
mod spills;

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::datasource::provider_as_source;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::prelude::DataFrame;
use dither_core::{Audience, Charged, Explain, Key, Mechanism, Sensitive};
use dither_mechanisms::{ExactRow, ExactTable, Histogram, KeyRule};
use dither_noise::Secret;

use crate::bound::Bounding;
use crate::error::{Code, Refusal};
use crate::ir::Domain;
use crate::plan::{Measure, QueryPlan};
use crate::policy::{Policy, TablePolicy};
use crate::rehearsal;
use crate::source::{self, Progress, SourceError, Table, Tables};
use crate::sql::{key_literal, key_of};

pub use held::hold;
pub use local::LocalEngine;
use measured::measured;
pub use portable::portable;

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

    /// A table with these columns of it in memory, where several questions look at it and that spares reading it again;
    /// `None` where it does not. Rows are read: it was charged.
    ///
    /// # Errors
    /// What reading the table fails with.
    fn hold<'a>(&'a self, _table: &'a Table, _columns: &'a BTreeSet<String>) -> Holding<'a> {
        Box::pin(async { Ok(None) })
    }

    /// Runs a plan over made-up rows, where plans are run elsewhere; `None` where they are run in this process.
    ///
    /// # Errors
    /// What the rehearsal of a question is refused for.
    fn rehearse(&self, _plan: LogicalPlan) -> Option<Rehearsing<'_>> {
        None
    }
}

/// The future of a table in memory.
pub type Holding<'a> = Pin<Box<dyn Future<Output = Result<Option<Table>, EngineError>> + Send + 'a>>;

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
                Refusal::new(Code::Unsupported, "the engine failed on made-up rows of this question; nothing was charged")
                    .hint("ask again if it was lost or stopped; else write the expression in another way, or ask without --engine"),
            ),
        }
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
    let local = LocalEngine::new(1);
    for (stage, parts) in rehearsal::parts(plan, policy).map_err(refused)? {
        let scan = LogicalPlanBuilder::scan("stage", provider_as_source(stage), None);
        let alone = scan.and_then(|scan| scan.project(parts)).and_then(|scan| scan.build()).map_err(refused)?;
        let here = DataFrame::new(local.context.state(), alone.clone()).collect().await.map_err(refused)?;
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
    // By the operator and by the portable plan, which is what engines elsewhere run.
    let mut here = None;
    for portable in [false, true] {
        let engine = if portable { local.clone().portable() } else { local.clone() };
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
