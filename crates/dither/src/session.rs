//! A session: one policy, its ledger, an engine, and the one order in which they are used.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dither_accounting::{Cost, Filter, Remaining, Spent};
use dither_core::{
    Answer, Between, Delta, Epsilon, Measurement, Mechanism, Neighbors, PrivacyUnit, Receipt, Release, RequestId,
    Sensitive,
};
use dither_ledger::{ChargeRequest, Ledger, LedgerError, Outcome, ScopeLimit, ScopePath};
use dither_mechanisms::{NoisyTable, PlanMechanism};
use dither_noise::{NoiseSource, Secret};
use dither_query::engine::{Engine, EngineError, LocalEngine, RehearsalError, measure};
use dither_query::explain::{Explanation, TargetError, solve};
use dither_query::plan::{QueryPlan, Request, plan, shape};
use dither_query::policy::{Policy, UnitPolicy};
use dither_query::source::{Progress, Tables, files_of, relation_of};
use futures::stream::{self, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// How many questions of one charge look at the data at the same time.
const AT_ONCE: usize = 4;

/// An amount of privacy loss, for display.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Amounts {
    /// ε.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
}

impl From<&Cost> for Amounts {
    fn from(cost: &Cost) -> Self {
        Self::of(cost.epsilon_nanos, cost.delta_attos)
    }
}

impl From<Remaining> for Amounts {
    fn from(remaining: Remaining) -> Self {
        Self::of(remaining.epsilon_nanos, remaining.delta_attos)
    }
}

impl Amounts {
    /// What several charges add up to under basic composition.
    pub(crate) fn sum(costs: &[Cost]) -> Self {
        let add = |part: fn(&Cost) -> u64| costs.iter().map(part).fold(0, u64::saturating_add);
        Self::of(add(|cost| cost.epsilon_nanos), add(|cost| cost.delta_attos))
    }

    fn of(nanos: u64, attos: u64) -> Self {
        Self { epsilon: nanos as f64 / Epsilon::NANOS as f64, delta: attos as f64 / Delta::ATTOS as f64 }
    }
}

/// A plan before anything is spent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Preview {
    /// The question.
    pub sql: String,
    /// What it costs and how well it will be answered.
    pub plan: Explanation,
    /// What is left now.
    pub remaining: Amounts,
    /// What is left afterwards; `None` if it does not fit.
    pub remaining_after: Option<Amounts>,
    /// Whether the same request was answered before, so that asking again is free.
    pub answered_before: bool,
}

/// An answer and what it cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// The answer.
    pub answer: Answer,
    /// The bounds that were found for columns without any; sums and means are of values between them.
    pub bounds: Vec<Between>,
    /// What the request was charged, when it was charged.
    pub charged: Amounts,
    /// What is left.
    pub remaining: Amounts,
    /// The charge in the ledger.
    pub receipt: Receipt,
    /// Whether this answer was given before, so that nothing was charged now.
    pub repeated: bool,
    /// When it was given first, in seconds since 1970, if it is repeated. Information only.
    pub first_answered: Option<i64>,
}

/// One policy with its ledger.
pub struct Session {
    pub(crate) policy: Policy,
    pub(crate) ledger_path: PathBuf,
    scope: ScopePath,
    engine: Box<dyn Engine>,
    timeout: Option<Duration>,
    progress: Arc<Progress>,
}

impl Session {
    /// Opens a policy. No table is opened, and no ledger is made before something is charged.
    ///
    /// # Errors
    /// A policy that is not one.
    pub fn open(policy: impl AsRef<Path>) -> Result<Self, Error> {
        Self::new(Policy::load(policy)?)
    }

    /// A session on a policy that is already read.
    ///
    /// # Errors
    /// A data set whose name is not that of a scope.
    pub fn new(policy: Policy) -> Result<Self, Error> {
        let ledger_path = policy.base_dir.join(&policy.ledger);
        let scope = policy.dataset.parse()?;
        let (engine, progress) = (Box::new(LocalEngine::default()), Arc::default());
        Ok(Self { policy, ledger_path, scope, engine, timeout: None, progress })
    }

    /// Charges a narrower scope of the policy, and all scopes above it: `research/alice`.
    ///
    /// # Errors
    /// A scope that the policy does not declare.
    pub fn in_scope(mut self, path: &str) -> Result<Self, Error> {
        let scope: ScopePath = format!("{}/{path}", self.policy.dataset).parse()?;
        if !self.policy.scopes.contains_key(path) {
            return Err(LedgerError::UnknownScope { scope }.into());
        }
        self.scope = scope;
        Ok(self)
    }

    /// Runs the portable half somewhere else.
    pub fn with_engine(mut self, engine: Box<dyn Engine>) -> Self {
        self.engine = engine;
        self
    }

    /// Gives up looking at the data after so long. The charge stands, nothing of an answer is shown, and asking again is free.
    ///
    /// # Privacy
    /// That a question takes longer than this depends on the data, as the time of every answer does: whoever sees the
    /// failure learns it. The text is that of every failure after the charge.
    pub fn with_timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The files that the session reads or keeps, and that nothing else may write: the ledger with what lies beside it
    /// while it is open, and the file of each table.
    pub fn files(&self) -> Vec<PathBuf> {
        let beside = |ending: &str| {
            let mut name = self.ledger_path.clone().into_os_string();
            name.push(ending);
            PathBuf::from(name)
        };
        let private = self.policy.tables.values().map(|table| &table.source);
        let sources = private.chain(self.policy.public.values().map(|table| &table.source));
        let files = sources.filter(|source| relation_of(source).is_none());
        let sources = files.flat_map(|source| files_of(&self.policy.base_dir.join(source)));
        ["", "-wal", "-shm", "-journal"].map(beside).into_iter().chain(sources).collect()
    }

    /// How far the reading of a table has come. For the operator only.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// The ledger if there is one already. [`Ledger::close`] it after use, so that everything is in the one file.
    ///
    /// # Errors
    /// A ledger that cannot be read.
    pub async fn existing_ledger(&self) -> Result<Option<Ledger>, Error> {
        if !self.ledger_path.exists() {
            return Ok(None);
        }
        Ok(Some(Ledger::open_existing(&self.ledger_path).await?))
    }

    /// The limits of the policy, the data set first.
    ///
    /// # Errors
    /// A scope with an impossible name.
    pub fn limits(&self) -> Result<Vec<ScopeLimit>, Error> {
        let budget = &self.policy.budget;
        let mut limits = vec![ScopeLimit {
            path: self.policy.dataset.parse()?,
            budget: budget.limit(),
            composition: budget.composition,
            protects: self.protects(),
        }];
        for (path, scope) in &self.policy.scopes {
            limits.push(ScopeLimit {
                path: format!("{}/{path}", self.policy.dataset).parse()?,
                budget: dither_core::Budget { epsilon: scope.epsilon, delta: scope.delta },
                composition: budget.composition,
                protects: Default::default(),
            });
        }
        Ok(limits)
    }

    /// Who is protected, by table, in words that the ledger holds on to. A public table protects nobody, and can never
    /// become one of people, nor the other way round. How rows are owned is part of it, one key of the chain for each
    /// table: through another key other rows would be those of a unit.
    fn protects(&self) -> BTreeMap<String, String> {
        let words = |name: &String| {
            let table = &self.policy.tables[name];
            let verb = match table.neighbors {
                Neighbors::AddOrRemoveUnit => "add or remove one",
                Neighbors::ReplaceUnit => "replace one",
            };
            let unit = self.policy.root(name).map_or(PrivacyUnit::Row, |root| root.unit);
            match &table.privacy_unit {
                UnitPolicy::Through { column, through } => {
                    format!("{verb} {} through `{column}` of `{through}`", in_words(&unit))
                }
                UnitPolicy::Period { time, .. } => format!("{verb} {} of `{time}`", in_words(&unit)),
                UnitPolicy::Column { .. } | UnitPolicy::Row(_) => format!("{verb} {}", in_words(&unit)),
            }
        };
        // Under another name of its table, what one person has within a week is no other amount than under the first.
        let people = self.policy.tables.keys().filter_map(|name| {
            let unit = self.policy.root(name)?.unit;
            Some((format!("tables of {}", unit.column()?), format!("one {}", in_words(&unit))))
        });
        let private = self.policy.tables.keys().map(|name| (name.clone(), words(name)));
        let public = self.policy.public.keys().map(|name| (name.clone(), "nobody".to_owned()));
        private.chain(public).chain(people).collect()
    }

    /// Plans a question. With a target error, the smallest ε that reaches it is found first.
    ///
    /// # Errors
    /// [`Error::Refused`] for a question that is not answered.
    ///
    /// # Privacy
    /// Charges nothing, reads no row.
    pub async fn plan(&self, request: &Request, target: Option<TargetError>) -> Result<Preview, Error> {
        let plan = self.plan_of(request, target).await?;
        self.rehearse(&plan, &request.sql).await?;
        let cost = plan.cost().map_err(|refusal| Error::refused(refusal, &request.sql))?;
        let explanation = plan.explain(self.reference_delta()).map_err(|r| Error::refused(r, &request.sql))?;
        let id = self.request_id(std::slice::from_ref(&plan), plan.delta);
        let (remaining, remaining_after, answered_before) = self.before_and_after(&[cost], Some(id)).await?;
        Ok(Preview { sql: request.sql.clone(), plan: explanation, remaining, remaining_after, answered_before })
    }

    /// The δ at which a plan that uses none is shown under the other accountants.
    pub(crate) fn reference_delta(&self) -> Delta {
        self.policy.budget.delta_per_query.unwrap_or(self.policy.budget.delta)
    }

    pub(crate) async fn plan_of(&self, request: &Request, target: Option<TargetError>) -> Result<QueryPlan, Error> {
        let refused = |refusal| Error::refused(refusal, &request.sql);
        let Some(target) = target else {
            return plan(request, &self.policy).await.map_err(refused);
        };
        let (shape, options) = shape(&request.sql, &self.policy).await.map_err(refused)?;
        let shape = if request.sampling { shape.with_sampling().map_err(refused)? } else { shape };
        let budget = &self.policy.budget;
        let delta = options.delta.or(request.delta).or(budget.delta_per_query).unwrap_or(Delta::ZERO);
        let cap = budget.max_epsilon_per_query.unwrap_or(budget.epsilon);
        solve(&shape, target, delta, request.mechanism, cap).map_err(refused)
    }

    /// Charges a question and answers it. The identical request gets the identical answer again, for free.
    ///
    /// # Errors
    /// [`Error::Refused`] and a refusing ledger cost nothing; whatever fails later leaves the charge, and asking
    /// again does not charge again.
    ///
    /// # Privacy
    /// The event of the plan, for the neighbours and the unit of the policy. Fully adaptive: the ledger's filter
    /// holds however questions depend on earlier answers.
    pub async fn query(&self, request: &Request) -> Result<Answered, Error> {
        self.query_with(request, None, None).await
    }

    /// [`Session::query`] with a target error instead of an ε, or under an idempotency key.
    ///
    /// # Errors
    /// As [`Session::query`]; a key that names another request is refused.
    pub async fn query_with(
        &self,
        request: &Request,
        target: Option<TargetError>,
        key: Option<String>,
    ) -> Result<Answered, Error> {
        let plan = self.plan_of(request, target).await?;
        let cost = plan.cost().map_err(|refusal| Error::refused(refusal, &request.sql))?;
        self.rehearse(&plan, &request.sql).await?;
        let delta = plan.delta;
        let plans = [plan];
        let tables = self.open_tables(&plans).await?;
        let ledger = Ledger::open(&self.ledger_path).await?;
        let asked = Asked { plans: &plans, tables, delta, key, label: request.sql.clone() };
        let released = self.release(&ledger, asked).await;
        let remaining = self.remaining(&ledger).await;
        ledger.close().await;
        let (release, first_answered) = released?;
        let [plan] = &plans;
        let noisy = release.value().first().ok_or(dither_core::GateError::Failed)?;
        let answer = dither_query::release::answer(plan, noisy).await.map_err(|r| Error::refused(r, &request.sql))?;
        let bounds = dither_query::release::found_bounds(plan, noisy);
        let receipt = release.receipt().clone();
        let (charged, remaining, repeated) = (Amounts::from(&cost), remaining?, first_answered.is_some());
        Ok(Answered { answer, bounds, charged, remaining, receipt, repeated, first_answered })
    }

    /// What is left before and after some charges, in the tightest scope, and whether a request was answered already.
    pub(crate) async fn before_and_after(
        &self,
        costs: &[Cost],
        request: Option<RequestId>,
    ) -> Result<(Amounts, Option<Amounts>, bool), Error> {
        let (known, answered) = match self.existing_ledger().await? {
            Some(ledger) => {
                let scopes = ledger.scopes().await;
                let answered = match request {
                    Some(request) => ledger.answer_bytes(request).await.map(|answer| answer.is_some()),
                    None => Ok(false),
                };
                ledger.close().await;
                (scopes?, answered?)
            }
            None => (Vec::new(), false),
        };
        let lineage: Vec<ScopePath> = self.scope.lineage().collect();
        let mut before: Option<Remaining> = None;
        let mut after: Option<Option<Remaining>> = None;
        for limit in self.limits()?.into_iter().filter(|limit| lineage.contains(&limit.path)) {
            let filter = Filter { budget: limit.budget, composition: limit.composition };
            let spent = known.iter().find(|status| status.limit.path == limit.path);
            let spent = spent.map_or_else(Spent::default, |status| status.spent);
            let here = filter.remaining(&spent);
            let then = costs.iter().try_fold(spent, |spent, cost| filter.admit(&spent, cost));
            let then = then.ok().map(|spent| filter.remaining(&spent));
            before = Some(before.map_or(here, |other| least(other, here)));
            after = Some(match (after, then) {
                (None, then) => then,
                (Some(Some(other)), Some(then)) => Some(least(other, then)),
                _ => None,
            });
        }
        let zero = Remaining { epsilon_nanos: 0, delta_attos: 0 };
        Ok((before.unwrap_or(zero).into(), after.flatten().map(Amounts::from), answered))
    }

    /// What is left in the scope of the session.
    pub(crate) async fn remaining(&self, ledger: &Ledger) -> Result<Amounts, Error> {
        Ok(ledger.remaining(&self.scope).await?.into())
    }

    /// The name of a request: everything that its answer depends on besides the data.
    pub(crate) fn request_id(&self, plans: &[QueryPlan], delta: Delta) -> RequestId {
        let mut parts = vec![
            b"dither request 1".to_vec(),
            self.scope.as_str().as_bytes().to_vec(),
            delta.attos().to_le_bytes().to_vec(),
        ];
        for plan in plans {
            parts.push(plan.fingerprint(&self.policy).into_bytes());
        }
        RequestId::digest(parts.iter().map(Vec::as_slice))
    }

    /// Runs a question on made-up rows, so that nothing in it can fail on somebody's row after the charge.
    pub(crate) async fn rehearse(&self, plan: &QueryPlan, sql: &str) -> Result<(), Error> {
        let refused = |refusal| Error::refused(refusal, sql);
        dither_query::release::columns(plan).await.map_err(refused)?;
        let rehearsed = dither_query::engine::rehearse(plan, &self.policy, self.engine.as_ref()).await;
        rehearsed.map_err(|error| match error {
            RehearsalError::Refused(refusal) => refused(refusal),
            RehearsalError::Source(error) => error.into(),
        })
    }

    /// Opens each plan's tables. Headers and columns are public, and they are checked before anything is charged.
    pub(crate) async fn open_tables(&self, plans: &[QueryPlan]) -> Result<Vec<Tables>, Error> {
        let mut opened = Vec::new();
        for plan in plans {
            let mut tables = Tables::new();
            for name in plan.question.relation.tables() {
                if let Some(table) = self.policy.readable(name) {
                    let table = self.engine.open(&table, &self.policy.base_dir, &self.progress).await?;
                    tables.insert(name.to_owned(), table);
                }
            }
            opened.push(tables);
        }
        Ok(opened)
    }

    /// What looks at the data, within the limit of time if there is one; when it is over the engine is dropped.
    async fn in_time<T>(&self, look: impl Future<Output = Result<T, EngineError>>) -> Result<T, EngineError> {
        let Some(limit) = self.timeout else { return look.await };
        let late = |_| EngineError(Box::new(io::Error::new(io::ErrorKind::TimedOut, "the limit of time was reached")));
        tokio::time::timeout(limit, look).await.map_err(late)?
    }

    /// Charge, look, add noise, store: the only way from a plan to released numbers. With a release that was stored before
    /// comes its time.
    pub(crate) async fn release(
        &self,
        ledger: &Ledger,
        asked: Asked<'_>,
    ) -> Result<(Release<Vec<NoisyTable>>, Option<i64>), Error> {
        let Asked { plans, tables, delta, key, label } = asked;
        let mechanism = PlanMechanism { tables: plans.iter().map(|plan| plan.mechanism.clone()).collect() };
        let (request, scope, event) = (self.request_id(plans, delta), self.scope.clone(), mechanism.event());
        let charge = ChargeRequest { request, key, scope, event, delta, label };
        let charge = match ledger.charge_within(&self.limits()?, &charge).await? {
            Outcome::Answered(answer) => {
                let time = answer.time();
                return Ok((answer.decode()?, Some(time)));
            }
            Outcome::Charged(charge) => charge,
        };
        let charged = Measurement::new(mechanism, request).authorize(charge)?;
        let mut noise = NoiseSource::from_os()?;
        let secrets: Vec<Secret> = plans.iter().map(|_| noise.secret()).collect();
        let looks = plans.iter().zip(&tables).zip(&secrets);
        let looks = looks.map(|((plan, tables), secret)| measure(&charged, plan, tables, secret, self.engine.as_ref()));
        let looks: Vec<_> = looks.collect();
        // A profile asks dozens of questions; each holds what it counts while it runs.
        let exact: Vec<_> = self.in_time(stream::iter(looks).buffered(AT_ONCE).try_collect()).await?;
        let sealed = charged.release(Sensitive::all(exact), &mut noise)?;
        Ok((ledger.publish(request, sealed).await?, None))
    }
}

/// A unit in the words that the ledger holds on to.
fn in_words(unit: &PrivacyUnit) -> String {
    match unit {
        PrivacyUnit::Column(column) => format!("`{column}`"),
        PrivacyUnit::Period { column, per } => format!("`{column}` per {}", per.name()),
        PrivacyUnit::Row => "row".into(),
    }
}

/// What is to be charged and answered together.
pub(crate) struct Asked<'a> {
    pub(crate) plans: &'a [QueryPlan],
    /// One for each plan.
    pub(crate) tables: Vec<Tables>,
    pub(crate) delta: Delta,
    pub(crate) key: Option<String>,
    pub(crate) label: String,
}

fn least(a: Remaining, b: Remaining) -> Remaining {
    Remaining { epsilon_nanos: a.epsilon_nanos.min(b.epsilon_nanos), delta_attos: a.delta_attos.min(b.delta_attos) }
}
