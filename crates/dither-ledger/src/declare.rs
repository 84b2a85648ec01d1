//! Limits: declared once, lowered freely, raised by two people.

use dither_accounting::Spent;
use dither_core::Budget;

use crate::entry::Record;
use crate::error::LedgerError;
use crate::ledger::{Ledger, ScopeRow, find};
use crate::scope::ScopeLimit;
use crate::store::{Write, signed};

impl Ledger {
    /// Declares scopes, all or none. A scope comes after the one above it, or in the same call.
    ///
    /// The first declaration is logged. The same limit again changes nothing. A lower limit is logged, and may lie
    /// below what is charged already: then nothing remains. Nothing is ever deleted.
    ///
    /// # Errors
    /// [`LedgerError::RaiseNeedsAmendment`] for a higher limit, [`LedgerError::CompositionChanged`],
    /// [`LedgerError::ProtectionChanged`], [`LedgerError::UnknownScope`] if the scope above is missing, and storage errors.
    pub async fn declare(&self, limits: &[ScopeLimit]) -> Result<(), LedgerError> {
        let write = async {
            let mut write = self.store.write().await?;
            declare(&mut write, limits).await?;
            write.commit().await
        };
        self.store.guard(write).await
    }

    /// Sets another limit of a declared scope, higher or lower, in the name of at least two people.
    ///
    /// Names count as the same if they differ only in case and surrounding spaces.
    ///
    /// # Errors
    /// [`LedgerError::StewardsMissing`], [`LedgerError::CompositionChanged`], [`LedgerError::UnknownScope`] and
    /// storage errors.
    pub async fn amend(&self, limit: &ScopeLimit, stewards: &[String]) -> Result<(), LedgerError> {
        let mut names: Vec<String> = stewards.iter().map(|name| name.trim().to_lowercase()).collect();
        names.sort();
        names.dedup();
        if names.len() < 2 || names.iter().any(String::is_empty) {
            return Err(LedgerError::StewardsMissing { scope: limit.path.clone() });
        }
        let write = async {
            let mut write = self.store.write().await?;
            let row = find(&mut write.tx, &limit.path).await?;
            let row = row.ok_or_else(|| LedgerError::UnknownScope { scope: limit.path.clone() })?;
            same_terms(&row.limit, limit)?;
            let mut limit = limit.clone();
            limit.protects.extend(row.limit.protects.clone());
            let stewards = stewards.iter().map(|name| name.trim().to_owned()).collect();
            change(&mut write, row, Record::Amend { limit: limit.clone(), stewards }, &limit).await?;
            write.commit().await
        };
        self.store.guard(write).await
    }
}

/// Declares scopes under the write lock, and tells whether anything changed.
pub(crate) async fn declare(write: &mut Write, limits: &[ScopeLimit]) -> Result<bool, LedgerError> {
    let mut limits: Vec<&ScopeLimit> = limits.iter().collect();
    // A path sorts behind its parent.
    limits.sort_by(|a, b| a.path.cmp(&b.path));
    let mut changed = false;
    for limit in limits {
        match find(&mut write.tx, &limit.path).await? {
            None => {
                create(write, limit).await?;
                changed = true;
            }
            Some(row) => {
                row.limit.admits(limit)?;
                // A table that is not declared any more keeps what was declared for it.
                let mut limit = limit.clone();
                limit.protects.extend(row.limit.protects.clone());
                if row.limit != limit {
                    change(write, row, Record::Lower(limit.clone()), &limit).await?;
                    changed = true;
                }
            }
        }
    }
    Ok(changed)
}

async fn create(write: &mut Write, limit: &ScopeLimit) -> Result<(), LedgerError> {
    if let Some(parent) = limit.path.parent() {
        let above = find(&mut write.tx, &parent).await?;
        above.ok_or(LedgerError::UnknownScope { scope: parent })?;
    }
    let entry = write.append(Record::Declare(limit.clone())).await?;
    sqlx::query("INSERT INTO scopes (path, declared, spent, last) VALUES ($1, $2, $3, $4)")
        .bind(limit.path.as_str())
        .bind(serde_json::to_string(limit)?)
        .bind(serde_json::to_string(&Spent::default())?)
        .bind(signed(entry.sequence)?)
        .execute(&mut *write.tx)
        .await?;
    Ok(())
}

async fn change(write: &mut Write, mut row: ScopeRow, record: Record, limit: &ScopeLimit) -> Result<(), LedgerError> {
    let entry = write.append(record).await?;
    row.limit = limit.clone();
    update(write, &row, entry.sequence).await
}

/// Replaces the state of a scope, provided that nobody else changed it since it was read.
pub(crate) async fn update(write: &mut Write, row: &ScopeRow, sequence: u64) -> Result<(), LedgerError> {
    let changed = sqlx::query("UPDATE scopes SET declared = $1, spent = $2, last = $3 WHERE path = $4 AND last = $5")
        .bind(serde_json::to_string(&row.limit)?)
        .bind(serde_json::to_string(&row.spent)?)
        .bind(signed(sequence)?)
        .bind(row.limit.path.as_str())
        .bind(signed(row.last)?)
        .execute(&mut *write.tx)
        .await?;
    match changed.rows_affected() {
        1 => Ok(()),
        _ => Err(LedgerError::LostUpdate { scope: row.limit.path.clone() }),
    }
}

impl ScopeLimit {
    /// Whether a declaration changes nothing of this limit in force but lowers it.
    ///
    /// # Errors
    /// [`LedgerError::RaiseNeedsAmendment`], [`LedgerError::CompositionChanged`] and [`LedgerError::ProtectionChanged`].
    pub fn admits(&self, declared: &Self) -> Result<(), LedgerError> {
        same_terms(self, declared)?;
        let Budget { epsilon, delta } = declared.budget;
        if epsilon > self.budget.epsilon || delta > self.budget.delta {
            return Err(LedgerError::RaiseNeedsAmendment { scope: declared.path.clone(), current: self.budget });
        }
        Ok(())
    }
}

/// Whether a declaration keeps what can never change.
fn same_terms(current: &ScopeLimit, new: &ScopeLimit) -> Result<(), LedgerError> {
    if current.composition != new.composition {
        return Err(LedgerError::CompositionChanged { scope: new.path.clone() });
    }
    let both = current.protects.iter().filter_map(|(table, unit)| Some((table, unit, new.protects.get(table)?)));
    match both.into_iter().find(|(_, unit, declared)| unit != declared) {
        Some((table, unit, declared)) => {
            let (table, unit, declared) = (table.clone(), unit.clone(), declared.clone());
            Err(LedgerError::ProtectionChanged { table, unit, declared })
        }
        None => Ok(()),
    }
}
