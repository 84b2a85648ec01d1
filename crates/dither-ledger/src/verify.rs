//! Verification: everything the ledger says is recomputed from its entries.

use std::collections::BTreeMap;

use dither_accounting::Spent;
use dither_core::Receipt;
use serde::Serialize;
use sqlx::AnyConnection;
use sqlx::Row;
use sqlx::any::AnyRow;

use crate::entry::{Columns, Entry, Record};
use crate::error::LedgerError;
use crate::ledger::{Ledger, ScopeRow, page, scopes};
use crate::scope::{ScopeLimit, ScopePath};
use crate::{chain, schema, store};

/// What was verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// The last entry.
    pub head: Receipt,
    /// How many requests were charged.
    pub charges: u64,
    /// How many answers were stored.
    pub answers: u64,
}

impl Ledger {
    /// Recomputes the chain, replays every charge against the limits of its time, and compares totals and answers.
    ///
    /// `seen` is a receipt or head of an earlier time that was kept elsewhere: only with one can a ledger that was
    /// rolled back, truncated or forked be told from a younger one. On a finding the handle stops.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`] with the first entry that is wrong, [`LedgerError::RolledBack`],
    /// [`LedgerError::Forked`], and storage errors.
    pub async fn verify(&self, seen: Option<&Receipt>) -> Result<Verified, LedgerError> {
        self.store.guard(async { verify(&mut *self.store.read().await?, &self.store.id, seen).await }).await
    }
}

async fn verify(connection: &mut AnyConnection, id: &str, seen: Option<&Receipt>) -> Result<Verified, LedgerError> {
    store::check_structure(connection).await?;
    let mut replay = Replay::new(id);
    let mut seen_hash = seen.filter(|seen| seen.sequence == 0).map(|_| chain::genesis(id));
    loop {
        let rows = page(connection, store::signed(replay.head.sequence)?).await?;
        for row in &rows {
            replay.step(row)?;
            if seen.is_some_and(|seen| seen.sequence == replay.head.sequence) {
                seen_hash = Some(replay.head.head.clone());
            }
        }
        if rows.is_empty() {
            break;
        }
    }
    let Replay { head, scopes: expected, charges, answers } = replay;
    if scopes(connection).await? != expected.into_values().collect::<Vec<_>>() {
        return Err(LedgerError::Damaged {
            sequence: head.sequence,
            finding: "the totals are not those of the entries",
        });
    }
    check_answers(connection, answers).await?;
    match (seen, seen_hash) {
        (Some(seen), None) => Err(LedgerError::RolledBack { expected: seen.sequence, found: head.sequence }),
        (Some(seen), Some(hash)) if hash != seen.head => Err(LedgerError::Forked { sequence: seen.sequence }),
        _ => Ok(Verified { head, charges, answers }),
    }
}

/// The state of a ledger that consists of the entries so far.
struct Replay {
    head: Receipt,
    scopes: BTreeMap<ScopePath, ScopeRow>,
    charges: u64,
    answers: u64,
}

impl Replay {
    fn new(id: &str) -> Self {
        let head = Receipt { sequence: 0, head: chain::genesis(id) };
        Self { head, scopes: BTreeMap::new(), charges: 0, answers: 0 }
    }

    fn step(&mut self, row: &AnyRow) -> Result<(), LedgerError> {
        let sequence = store::unsigned(row.try_get("sequence")?)?;
        let damaged = |finding| Err(LedgerError::Damaged { sequence, finding });
        if sequence != self.head.sequence + 1 {
            return damaged("the entry before it is missing");
        }
        let hash = chain::link(&self.head.head, sequence, row.try_get("body")?);
        if row.try_get::<String, _>("hash")? != hash {
            return damaged("its hash does not follow from its content");
        }
        let entry = store::entry(row)?;
        let (kind, request): (String, Option<String>) = (row.try_get("kind")?, row.try_get("request")?);
        let (scope, key): (Option<String>, Option<String>) = (row.try_get("scope")?, row.try_get("key")?);
        let Columns { kind: expected, request: for_request, scope: in_scope, key: by_key } = entry.record.columns();
        let copies = [request.as_deref(), scope.as_deref(), key.as_deref()];
        if kind != expected || copies != [for_request, in_scope, by_key] {
            return damaged("its columns are not copies of its content");
        }
        if !self.apply(&entry) {
            return damaged("it was not allowed by the limits before it");
        }
        self.head = Receipt { sequence, head: hash };
        Ok(())
    }

    /// Applies an entry if the ledger would have written it.
    fn apply(&mut self, entry: &Entry) -> bool {
        match &entry.record {
            Record::Declare(limit) => {
                let orphan = limit.path.parent().is_some_and(|parent| !self.scopes.contains_key(&parent));
                let row = ScopeRow { limit: limit.clone(), spent: Spent::default(), last: entry.sequence };
                !orphan && self.scopes.insert(limit.path.clone(), row).is_none()
            }
            Record::Lower(limit) => self.limit(limit, entry.sequence, |current| current.admits(limit).is_ok()),
            Record::Amend { limit, .. } => {
                self.limit(limit, entry.sequence, |current| current.composition == limit.composition)
            }
            Record::Charge(charge) => {
                self.charges += 1;
                charge.scope.lineage().all(|path| {
                    let Some(row) = self.scopes.get_mut(&path) else { return false };
                    let Ok(spent) = row.filter().admit(&row.spent, &charge.cost) else { return false };
                    (row.spent, row.last) = (spent, entry.sequence);
                    true
                })
            }
            Record::Release { charge, .. } => {
                self.answers += 1;
                *charge < entry.sequence
            }
            Record::Key { .. } => true,
        }
    }

    fn limit(&mut self, limit: &ScopeLimit, sequence: u64, allowed: impl FnOnce(&ScopeLimit) -> bool) -> bool {
        let Some(row) = self.scopes.get_mut(&limit.path) else { return false };
        let allowed = allowed(&row.limit);
        (row.limit, row.last) = (limit.clone(), sequence);
        allowed
    }
}

/// Checks that each request has one charge and one answer at most, and each answer the bytes of its release.
async fn check_answers(connection: &mut AnyConnection, expected: u64) -> Result<(), LedgerError> {
    for (query, finding) in schema::CONTRADICTIONS {
        let found: Option<i64> = sqlx::query_scalar(query).fetch_optional(&mut *connection).await?;
        if let Some(sequence) = found {
            return Err(LedgerError::Damaged { sequence: store::unsigned(sequence)?, finding });
        }
    }
    const PAGE: &str = "SELECT r.sequence, r.body, r.hash, a.bytes FROM answers a JOIN entries r \
        ON r.sequence = a.sequence AND r.request = a.request AND r.kind = 'release' \
        WHERE r.sequence > $1 ORDER BY r.sequence LIMIT 100";
    let (mut last, mut count) = (0, 0);
    loop {
        let rows = sqlx::query(PAGE).bind(last).fetch_all(&mut *connection).await?;
        for row in &rows {
            last = row.try_get("sequence")?;
            let Record::Release { digest, .. } = store::entry(row)?.record else { continue };
            if chain::answer(row.try_get::<String, _>("bytes")?.as_bytes()) != digest {
                let sequence = store::unsigned(last)?;
                return Err(LedgerError::Damaged { sequence, finding: "its answer is not the stored one" });
            }
            count += 1;
        }
        if rows.is_empty() {
            break;
        }
    }
    let stored: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM answers").fetch_one(connection).await?;
    if (count, store::unsigned(stored)?) != (expected, expected) {
        return Err(LedgerError::Damaged { sequence: 0, finding: "an answer is missing or unaccounted for" });
    }
    Ok(())
}
