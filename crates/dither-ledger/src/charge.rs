//! Charging: one request, one charge, in one transaction.

use dither_accounting::Cost;
use dither_core::{Charge, Delta, PrivacyEvent, RequestId, hazmat};
use sqlx::AnyConnection;

use crate::answer::{StoredAnswer, stored};
use crate::declare::{declare, update};
use crate::entry::{ChargeRecord, Entry, Record};
use crate::error::LedgerError;
use crate::ledger::{Ledger, lineage};
use crate::scope::{ScopeLimit, ScopePath};
use crate::store::{self, Write};

const MAX_KEY: usize = 255;
const MAX_LABEL: usize = 1 << 20;

/// What is to be charged.
#[derive(Debug, Clone, PartialEq)]
pub struct ChargeRequest {
    /// The name of the request; one name is charged once and answered once.
    pub request: RequestId,
    /// An idempotency key of at most 255 bytes, chosen by the caller, which names one request in its scope.
    pub key: Option<String>,
    /// Where it is charged, as well as in every scope above.
    pub scope: ScopePath,
    /// What will be done to the data.
    pub event: PrivacyEvent,
    /// The δ that the event may use; see [`Cost::of`].
    pub delta: Delta,
    /// The text of the question, at most 1 MiB, for people who read the ledger. It must hold no data.
    pub label: String,
}

/// What became of a request.
pub enum Outcome {
    /// It is charged and not answered yet; here is the proof.
    Charged(Charge),
    /// It was answered before; here is that answer.
    Answered(StoredAnswer),
}

impl Ledger {
    /// Charges a request in its scope and all scopes above it: in all of them, or in none.
    ///
    /// The charge is durable before this returns. A request that is charged already is not charged again: it gets
    /// its answer, or its charge if it has no answer yet. Dropping the future leaves the request charged or not,
    /// never half charged; asking again tells.
    ///
    /// # Errors
    /// [`LedgerError::Refused`], [`LedgerError::Unpriced`], [`LedgerError::UnknownScope`],
    /// [`LedgerError::KeyConflict`], [`LedgerError::RequestConflict`], [`LedgerError::TooLong`] and storage errors.
    /// Nothing is charged on any of the named ones.
    ///
    /// # Privacy
    /// Whether a request is charged, and how much, follows from the request and the ledger alone.
    pub async fn charge(&self, request: &ChargeRequest) -> Result<Outcome, LedgerError> {
        self.charge_within(&[], request).await
    }

    /// [`Ledger::declare`] and [`Ledger::charge`] in one: both, or neither.
    ///
    /// A lower limit is so taken over with a request that it admits, and not with one that it refuses: a slip in a
    /// limit that nothing fits can be corrected without an amendment.
    ///
    /// # Errors
    /// As for both.
    ///
    /// # Privacy
    /// As for [`Ledger::charge`]; the request must be admitted by the lower limits.
    pub async fn charge_within(&self, limits: &[ScopeLimit], request: &ChargeRequest) -> Result<Outcome, LedgerError> {
        at_most("label", request.label.len(), MAX_LABEL)?;
        at_most("key", request.key.as_ref().map_or(0, String::len), MAX_KEY)?;
        let cost = Cost::of(&request.event, request.delta).map_err(LedgerError::Unpriced)?;
        self.store.guard(self.charge_at(limits, request, cost)).await
    }

    async fn charge_at(
        &self,
        limits: &[ScopeLimit],
        request: &ChargeRequest,
        cost: Cost,
    ) -> Result<Outcome, LedgerError> {
        let mut write = self.store.write().await?;
        let mut changed = declare(&mut write, limits).await?;
        let bound = key_is_bound(&mut write, request).await?;
        let Some(entry) = find_charge(&mut write.tx, request.request).await? else {
            let entry = insert(&mut write, request, cost).await?;
            write.commit().await?;
            // Only here: the charge is on the disk.
            let charge = hazmat::mint_charge(request.request, request.event.clone(), entry.receipt());
            return Ok(Outcome::Charged(charge));
        };
        same_request(&entry, request)?;
        let answer = stored(&mut write.tx, request.request).await?;
        if let (Some(key), false) = (&request.key, bound) {
            let (request, scope) = (request.request.to_string(), request.scope.clone());
            write.append(Record::Key { request, scope, key: key.clone() }).await?;
            changed = true;
        }
        if changed {
            write.commit().await?;
        }
        Ok(match answer {
            Some(answer) => Outcome::Answered(answer),
            // The entry was read under the write lock, so it is committed, and every commit is durable.
            None => Outcome::Charged(hazmat::mint_charge(request.request, request.event.clone(), entry.receipt())),
        })
    }
}

/// The charge of a request, if there is one.
pub(crate) async fn find_charge(
    connection: &mut AnyConnection,
    request: RequestId,
) -> Result<Option<Entry>, LedgerError> {
    let query = "SELECT sequence, body, hash FROM entries WHERE kind = 'charge' AND request = $1";
    let row = sqlx::query(query).bind(request.to_string()).fetch_optional(connection).await?;
    row.as_ref().map(store::entry).transpose()
}

/// Adds the charge to the totals of all scopes and to the chain, if all admit it.
async fn insert(write: &mut Write, request: &ChargeRequest, cost: Cost) -> Result<Entry, LedgerError> {
    let mut rows = lineage(&mut write.tx, &request.scope).await?;
    for row in &mut rows {
        let scope = || row.limit.path.clone();
        let admitted = row.filter().admit(&row.spent, &cost);
        row.spent = admitted.map_err(|refusal| LedgerError::Refused { scope: scope(), refusal })?;
    }
    let record = ChargeRecord {
        request: request.request.to_string(),
        key: request.key.clone(),
        scope: request.scope.clone(),
        event: request.event.clone(),
        cost,
        label: request.label.clone(),
    };
    let entry = write.append(Record::Charge(record)).await?;
    for row in &rows {
        update(write, row, entry.sequence).await?;
    }
    Ok(entry)
}

/// Whether the key is bound to this request already; an error if it is bound to another one.
async fn key_is_bound(write: &mut Write, request: &ChargeRequest) -> Result<bool, LedgerError> {
    let Some(key) = &request.key else { return Ok(false) };
    let query = sqlx::query_scalar("SELECT request FROM entries WHERE scope = $1 AND key = $2");
    let query = query.bind(request.scope.as_str()).bind(key.as_str());
    let bound: Option<String> = query.fetch_optional(&mut *write.tx).await?;
    match bound {
        Some(other) if other != request.request.to_string() => Err(LedgerError::KeyConflict { key: key.clone() }),
        bound => Ok(bound.is_some()),
    }
}

/// Whether the stored charge is for what is requested now. Events are compared as they are written.
fn same_request(entry: &Entry, request: &ChargeRequest) -> Result<(), LedgerError> {
    if let Record::Charge(charge) = &entry.record
        && charge.scope == request.scope
        && serde_json::to_string(&charge.event)? == serde_json::to_string(&request.event)?
    {
        return Ok(());
    }
    Err(LedgerError::RequestConflict { request: request.request })
}

/// Refuses texts that are longer than the ledger stores.
pub(crate) fn at_most(what: &'static str, length: usize, limit: usize) -> Result<(), LedgerError> {
    if length > limit { Err(LedgerError::TooLong { what, length, limit }) } else { Ok(()) }
}
