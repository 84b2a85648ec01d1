//! From a charged plan to released numbers: the order that keeps answers private.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use dither_core::{Delta, Measurement, Mechanism, Receipt, Release, RequestId, Sensitive};
use dither_ledger::{ChargeRequest, Ledger, Outcome};
use dither_mechanisms::{NoisyTable, PlanMechanism};
use dither_noise::{NoiseSource, Secret};
use dither_query::engine::{EngineError, RehearsalError, hold, measure};
use dither_query::plan::QueryPlan;
use dither_query::source::Tables;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::{Amounts, Session};
use crate::error::Error;

/// How many questions of one charge look at the data at the same time.
const AT_ONCE: usize = 4;

/// What is to be charged and answered together.
pub(crate) struct Asked<'a> {
    pub(crate) plans: &'a [QueryPlan],
    pub(crate) delta: Delta,
    pub(crate) key: Option<String>,
    pub(crate) label: String,
}

/// Released numbers, and since when they cost nothing. Times are in seconds since 1970 and information only.
pub(crate) struct Released {
    pub(crate) release: Release<Vec<NoisyTable>>,
    /// When the request was charged, if that was before.
    pub(crate) charged: Option<i64>,
    /// When it was answered, if that was before.
    pub(crate) answered: Option<i64>,
}

/// Released numbers, with what the ledger says afterwards.
pub(crate) struct Settled {
    pub(crate) released: Released,
    /// What is left in the scope of the session.
    pub(crate) remaining: Amounts,
    /// The last entry.
    pub(crate) head: Receipt,
}

impl Session {
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

    /// Opens the tables, then the ledger, which is closed again whatever becomes of the request.
    pub(crate) async fn settle(&self, asked: Asked<'_>) -> Result<Settled, Error> {
        let tables = self.open_tables(asked.plans).await?;
        let ledger = Ledger::open(&self.ledger_path).await?;
        let released = self.release(&ledger, asked, tables).await;
        let (remaining, head) = (ledger.remaining(&self.scope).await, ledger.head().await);
        ledger.close().await;
        Ok(Settled { released: released?, remaining: remaining?.into(), head: head? })
    }

    /// Opens each plan's tables. Headers and columns are public, and they are checked before anything is charged.
    async fn open_tables(&self, plans: &[QueryPlan]) -> Result<Vec<Tables>, Error> {
        let mut known = Tables::new();
        for name in plans.iter().flat_map(|plan| plan.question.relation.tables()).collect::<BTreeSet<_>>() {
            if let Some(table) = self.policy.readable(name) {
                let table = self.engine.open(&table, &self.policy.base_dir, &self.progress).await?;
                known.insert(name.to_owned(), table);
            }
        }
        let of = |plan: &QueryPlan| -> Tables {
            let names = plan.question.relation.tables().into_iter();
            let found = names.filter_map(|name| known.get_key_value(name));
            found.map(|(name, table)| (name.clone(), Arc::clone(table))).collect()
        };
        Ok(plans.iter().map(of).collect())
    }

    /// What looks at the data, within the limit of time if there is one; when it is over the engine is dropped.
    async fn in_time<T>(&self, look: impl Future<Output = Result<T, EngineError>>) -> Result<T, EngineError> {
        let Some(limit) = self.timeout else { return look.await };
        let late = |_| EngineError(Box::new(io::Error::new(io::ErrorKind::TimedOut, "the limit of time was reached")));
        tokio::time::timeout(limit, look).await.map_err(late)?
    }

    /// Charge, look, add noise, store: the only way from a plan to released numbers.
    async fn release(&self, ledger: &Ledger, asked: Asked<'_>, mut tables: Vec<Tables>) -> Result<Released, Error> {
        let Asked { plans, delta, key, label } = asked;
        let mechanism = PlanMechanism { tables: plans.iter().map(|plan| plan.mechanism.clone()).collect() };
        let (request, scope, event) = (self.request_id(plans, delta), self.scope.clone(), mechanism.event());
        let charge = ChargeRequest { request, key, scope, event, delta, label };
        // Looked up before, for people to read: the charge itself decides.
        let before = ledger.charge_of(request).await?.map(|entry| entry.time);
        let charge = match ledger.charge_within(&self.limits()?, &charge).await? {
            Outcome::Answered(answer) => {
                let answered = Some(answer.time());
                return Ok(Released { release: answer.decode()?, charged: before, answered });
            }
            Outcome::Charged(charge) => charge,
        };
        let charged = Measurement::new(mechanism, request).authorize(charge)?;
        let mut noise = NoiseSource::from_os()?;
        let secrets: Vec<Secret> = plans.iter().map(|_| noise.secret()).collect();
        let engine = self.engine.as_ref();
        let look = async {
            hold(&charged, plans, &mut tables, engine).await?;
            let looks = plans.iter().zip(&tables).zip(&secrets);
            let looks = looks.map(|((plan, tables), secret)| measure(&charged, plan, tables, secret, engine));
            let looks: Vec<_> = looks.collect();
            // A profile asks dozens of questions; each holds what it counts while it runs.
            stream::iter(looks).buffered(AT_ONCE).try_collect::<Vec<_>>().await
        };
        let exact = self.in_time(look).await?;
        let sealed = charged.release(Sensitive::all(exact), &mut noise)?;
        Ok(Released { release: ledger.publish(request, sealed).await?, charged: before, answered: None })
    }
}
