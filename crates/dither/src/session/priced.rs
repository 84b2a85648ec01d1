//! One question between its price and its charge.

use std::slice;

use dither_accounting::Cost;
use dither_core::{Delta, GateError};
use dither_query::Refusal;
use dither_query::explain::{Explanation, TargetError, solve};
use dither_query::plan::{QueryPlan, Request, plan, shape};
use dither_query::release::{answer, found_bounds};

use super::{Amounts, Answered, Asked, Released, Session, Settled};
use crate::error::Error;

/// A question with its price: nothing is charged, no row is read.
///
/// It belongs to the session whose policy it was priced against: under another one it could cost too little.
pub struct Priced<'a> {
    session: &'a Session,
    sql: &'a str,
    plan: QueryPlan,
}

impl Session {
    /// Prices a question. With a target error, the smallest ε that reaches it is found first.
    ///
    /// # Errors
    /// [`Error::Refused`] for a question that is not answered.
    ///
    /// # Privacy
    /// Charges nothing, reads no row.
    pub async fn priced<'a>(&'a self, request: &'a Request, target: Option<TargetError>) -> Result<Priced<'a>, Error> {
        let refused = |refusal| Error::refused(refusal, &request.sql);
        let plan = match target {
            Some(target) => self.aimed(request, target).await.map_err(refused)?,
            None => plan(request, &self.policy).await.map_err(refused)?,
        };
        Ok(Priced { session: self, sql: &request.sql, plan })
    }

    async fn aimed(&self, request: &Request, target: TargetError) -> Result<QueryPlan, Refusal> {
        let (shape, options) = shape(&request.sql, &self.policy).await?;
        let shape = if request.sampling { shape.with_sampling()? } else { shape };
        let budget = &self.policy.budget;
        let delta = options.delta.or(request.delta).or(budget.delta_per_query).unwrap_or(Delta::ZERO);
        let cap = budget.max_epsilon_per_query.unwrap_or(budget.epsilon);
        solve(&shape, target, delta, request.mechanism, cap)
    }
}

impl Priced<'_> {
    /// What should be known before the question is charged. It follows from the question and the policy alone.
    pub fn warnings(&self) -> Vec<String> {
        self.plan.warnings()
    }

    /// Charges the question and answers it, under an idempotency key if there is one. The identical request gets the
    /// identical answer again, for free.
    ///
    /// # Errors
    /// As [`Session::query`]; a key that names another request is refused.
    ///
    /// # Privacy
    /// As [`Session::query`].
    pub async fn ask(self, key: Option<String>) -> Result<Answered, Error> {
        let Self { session, sql, plan } = self;
        let refused = |refusal| Error::refused(refusal, sql);
        let cost = plan.cost().map_err(refused)?;
        session.rehearse(&plan, sql).await?;
        let asked = Asked { plans: slice::from_ref(&plan), delta: plan.delta, key, label: sql.to_owned() };
        let Settled { released, remaining, .. } = session.settle(asked).await?;
        let Released { release, charged: first_charged, answered: first_answered } = released;
        let noisy = release.value().first().ok_or(GateError::Failed)?;
        let answer = answer(&plan, noisy).await.map_err(refused)?;
        let (bounds, ranks) = (found_bounds(&plan, noisy), plan.ranks_off());
        let receipt = release.receipt().clone();
        let (charged, repeated) = (Amounts::from(&cost), first_answered.is_some());
        Ok(Answered { answer, bounds, ranks, charged, remaining, receipt, repeated, first_answered, first_charged })
    }

    /// The plan with its price and its explanation, after a rehearsal.
    pub(crate) async fn explained(self) -> Result<(QueryPlan, Cost, Explanation), Error> {
        let Self { session, sql, plan } = self;
        let refused = |refusal| Error::refused(refusal, sql);
        session.rehearse(&plan, sql).await?;
        let cost = plan.cost().map_err(refused)?;
        let budget = &session.policy.budget;
        // The δ at which a plan that uses none is shown under the other accountants.
        let explanation = plan.explain(budget.delta_per_query.unwrap_or(budget.delta)).map_err(refused)?;
        Ok((plan, cost, explanation))
    }
}
