//! What the ledger says about requests before they are made.

use std::collections::HashSet;

use dither_accounting::{Cost, Filter, Remaining, Spent};
use dither_core::RequestId;
use dither_ledger::{Ledger, ScopePath, ScopeStatus};

use super::{Amounts, Session};
use crate::error::Error;

/// What the ledger holds of a request: nothing, a charge, or a charge and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Known {
    /// Whether it was charged, so that asking again is free.
    pub charged: bool,
    /// Whether it was answered as well.
    pub answered: bool,
}

/// What some requests will find, and what they will leave.
pub(crate) struct Ahead {
    /// What is left now.
    pub remaining: Amounts,
    /// What is left after them; `None` if they do not fit.
    pub remaining_after: Option<Amounts>,
    /// What is held of each.
    pub known: Vec<Known>,
    /// The costs of those that will be charged: of those that were not yet, each once.
    pub costs: Vec<Cost>,
}

impl Session {
    /// What is left in the tightest scope before and after some requests, in their order. What was charged before is free, and
    /// what stands twice among them is charged once.
    ///
    /// # Errors
    /// A policy that the ledger will not take over, as when something is charged under it.
    pub(crate) async fn ahead(&self, requests: &[(RequestId, Cost)]) -> Result<Ahead, Error> {
        let (scopes, known) = match self.existing_ledger().await? {
            Some(ledger) => {
                let held = held(&ledger, requests).await;
                ledger.close().await;
                held?
            }
            None => (Vec::new(), vec![Known::default(); requests.len()]),
        };
        let mut seen = HashSet::new();
        let new = requests.iter().zip(&known).filter(|((id, _), known)| !known.charged && seen.insert(*id));
        let costs: Vec<Cost> = new.map(|((_, cost), _)| *cost).collect();
        let lineage: Vec<ScopePath> = self.scope.lineage().collect();
        let mut before: Option<Remaining> = None;
        let mut after: Option<Option<Remaining>> = None;
        for limit in self.limits()? {
            let status = scopes.iter().find(|status| status.limit.path == limit.path);
            if let Some(status) = status {
                status.limit.admits(&limit)?;
            }
            if !lineage.contains(&limit.path) {
                continue;
            }
            let filter = Filter { budget: limit.budget, composition: limit.composition };
            let spent = status.map_or_else(Spent::default, |status| status.spent);
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
        let remaining = before.unwrap_or(zero).into();
        Ok(Ahead { remaining, remaining_after: after.flatten().map(Amounts::from), known, costs })
    }
}

/// The scopes of a ledger, and what it holds of each request.
async fn held(ledger: &Ledger, requests: &[(RequestId, Cost)]) -> Result<(Vec<ScopeStatus>, Vec<Known>), Error> {
    let mut known = Vec::new();
    for (request, _) in requests {
        let charged = ledger.charge_of(*request).await?.is_some();
        let answered = charged && ledger.answer_bytes(*request).await?.is_some();
        known.push(Known { charged, answered });
    }
    Ok((ledger.scopes().await?, known))
}

fn least(a: Remaining, b: Remaining) -> Remaining {
    Remaining { epsilon_nanos: a.epsilon_nanos.min(b.epsilon_nanos), delta_attos: a.delta_attos.min(b.delta_attos) }
}
