//! A handle to a ledger file, and everything that only reads it.

use std::path::Path;
use std::sync::Arc;

use dither_accounting::{Filter, Remaining, Spent};
use dither_core::{Receipt, RequestId};
use serde::Serialize;
use sqlx::AnyConnection;
use sqlx::Row;
use sqlx::any::AnyRow;

use crate::charge::find_charge;
use crate::entry::Entry;
use crate::error::LedgerError;
use crate::scope::{ScopeLimit, ScopePath};
use crate::store::{self, Store};

/// A handle to one ledger file. Clones share it; several handles and several processes may use one file.
///
/// After a storage failure the handle answers [`LedgerError::Poisoned`] until the file is opened again.
///
/// ```
/// use dither_accounting::Composition;
/// use dither_core::{Budget, L1Sensitivity, PrivacyEvent, Ratio, RequestId};
/// use dither_ledger::{ChargeRequest, Ledger, Outcome, ScopeLimit};
///
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("dither-ledger-example-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("ledger.db");
/// let ledger = Ledger::open(&path).await?;
/// let budget = Budget { epsilon: "1".parse()?, delta: "1e-6".parse()? };
/// let (path, composition) = ("diabetes".parse()?, Composition::Basic);
/// ledger.declare(&[ScopeLimit { path, budget, composition, protects: Default::default() }]).await?;
///
/// let request = ChargeRequest {
///     request: RequestId::digest([b"SELECT COUNT(*) FROM visits".as_slice()]),
///     key: Some("monday".into()),
///     scope: "diabetes".parse()?,
///     event: PrivacyEvent::Laplace { sensitivity: L1Sensitivity::new(1), scale: Ratio::new(10, 1).unwrap() },
///     delta: "0".parse()?,
///     label: "SELECT COUNT(*) FROM visits".into(),
/// };
/// let Outcome::Charged(charge) = ledger.charge(&request).await? else { panic!("nothing was answered yet") };
/// assert_eq!(charge.receipt().sequence, 2);
/// assert_eq!(ledger.remaining(&request.scope).await?.epsilon_nanos, 900_000_000);
/// # drop(ledger); std::fs::remove_dir_all(folder)?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Ledger {
    pub(crate) store: Arc<Store>,
}

/// One scope: its limit, what was charged in it, and what it still admits by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScopeStatus {
    /// The limit in force.
    pub limit: ScopeLimit,
    /// The sum of all charges in it and below it.
    pub spent: Spent,
    /// What its limit still admits; the scopes above may admit less.
    pub remaining: Remaining,
}

impl Ledger {
    /// Opens a ledger, after creating it with mode 0600 if there is none.
    ///
    /// The file must lie on a local disk: network file systems do not keep the promises that durability needs.
    ///
    /// # Errors
    /// [`LedgerError::NotALedger`], [`LedgerError::UnknownFormat`], [`LedgerError::Damaged`] if the last entry
    /// does not follow from the one before it, and storage errors.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, LedgerError> {
        Ok(Self { store: Arc::new(Store::open(path.as_ref(), true).await?) })
    }

    /// Opens a ledger that exists.
    ///
    /// # Errors
    /// [`LedgerError::Missing`], and as for [`Ledger::open`].
    pub async fn open_existing(path: impl AsRef<Path>) -> Result<Self, LedgerError> {
        Ok(Self { store: Arc::new(Store::open(path.as_ref(), false).await?) })
    }

    /// Closes the file for this handle and all its clones, and waits until that is done.
    ///
    /// Not needed for durability. The last handle to close leaves everything in the one file, without a log beside
    /// it. Every later call fails.
    pub async fn close(&self) {
        self.store.close().await;
    }

    /// The random identity of this ledger, in hexadecimal.
    pub fn id(&self) -> &str {
        &self.store.id
    }

    /// The last entry and its hash; keep it elsewhere to detect a rollback. The number is 0 in an empty ledger.
    ///
    /// # Errors
    /// Storage errors.
    pub async fn head(&self) -> Result<Receipt, LedgerError> {
        self.store.guard(async { store::head(&mut *self.store.read().await?, &self.store.id).await }).await
    }

    /// What one more charge in this scope may cost: the least that it and the scopes above it admit.
    ///
    /// # Errors
    /// [`LedgerError::UnknownScope`] and storage errors.
    pub async fn remaining(&self, scope: &ScopePath) -> Result<Remaining, LedgerError> {
        let lineage = self.store.guard(async { lineage(&mut *self.store.read().await?, scope).await }).await?;
        let each = lineage.iter().map(|row| row.filter().remaining(&row.spent));
        let least = each.reduce(|a, b| Remaining {
            epsilon_nanos: a.epsilon_nanos.min(b.epsilon_nanos),
            delta_attos: a.delta_attos.min(b.delta_attos),
        });
        least.ok_or_else(|| LedgerError::UnknownScope { scope: scope.clone() })
    }

    /// All scopes, in the order of their paths.
    ///
    /// # Errors
    /// Storage errors.
    pub async fn scopes(&self) -> Result<Vec<ScopeStatus>, LedgerError> {
        let rows = self.store.guard(async { scopes(&mut *self.store.read().await?).await }).await?;
        let status = |row: ScopeRow| {
            let remaining = row.filter().remaining(&row.spent);
            ScopeStatus { limit: row.limit, spent: row.spent, remaining }
        };
        Ok(rows.into_iter().map(status).collect())
    }

    /// The charge of a request, if it was charged. It may have no answer yet: see [`Ledger::answer_bytes`].
    ///
    /// # Errors
    /// [`LedgerError::Damaged`] if its entry is unreadable, and storage errors.
    pub async fn charge_of(&self, request: RequestId) -> Result<Option<Entry>, LedgerError> {
        self.store.guard(async { find_charge(&mut *self.store.read().await?, request).await }).await
    }

    /// At most `limit` entries after the entry with number `after`, in order.
    ///
    /// # Errors
    /// Storage errors, and [`LedgerError::Damaged`] if one is unreadable.
    pub async fn entries(&self, after: u64, limit: u32) -> Result<Vec<Entry>, LedgerError> {
        let query = "SELECT sequence, body, hash FROM entries WHERE sequence > $1 ORDER BY sequence LIMIT $2";
        let read = async {
            let query = sqlx::query(query).bind(store::signed(after)?).bind(i64::from(limit));
            let rows = query.fetch_all(&mut *self.store.read().await?).await?;
            rows.iter().map(store::entry).collect()
        };
        self.store.guard(read).await
    }

    /// The whole ledger as JSON lines, for readers that share no code with this crate.
    ///
    /// The first line is `{"format":1,"id":"…"}`, each further line `{"sequence":1,"hash":"…","body":"…"}` where
    /// `body` is the exact text that the hash covers. `docs/ledger.md` says how to check it.
    ///
    /// # Errors
    /// [`LedgerError::Export`] if `out` fails, and storage errors.
    pub async fn export(&self, out: &mut (impl std::io::Write + Send)) -> Result<(), LedgerError> {
        #[derive(Serialize)]
        struct Line<'a> {
            sequence: i64,
            hash: &'a str,
            body: &'a str,
        }
        let written = |result: std::io::Result<()>| result.map_err(LedgerError::Export);
        let identity = serde_json::json!({ "format": crate::schema::FORMAT, "id": self.store.id });
        written(writeln!(out, "{identity}"))?;
        let write = async {
            let mut tx = self.store.read().await?;
            let mut last = 0;
            loop {
                let rows = page(&mut tx, last).await?;
                for row in &rows {
                    last = row.try_get("sequence")?;
                    let line = Line { sequence: last, hash: row.try_get("hash")?, body: row.try_get("body")? };
                    written(writeln!(out, "{}", serde_json::to_string(&line)?))?;
                }
                if rows.is_empty() {
                    return Ok(());
                }
            }
        };
        self.store.guard(write).await
    }
}

/// The state of one scope as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScopeRow {
    pub(crate) limit: ScopeLimit,
    pub(crate) spent: Spent,
    /// The number of the entry that changed it last.
    pub(crate) last: u64,
}

impl ScopeRow {
    pub(crate) fn filter(&self) -> Filter {
        Filter { budget: self.limit.budget, composition: self.limit.composition }
    }

    fn read(row: &AnyRow) -> Result<Self, LedgerError> {
        let last = store::unsigned(row.try_get("last")?)?;
        let damaged = |_| LedgerError::Damaged { sequence: last, finding: "a scope is unreadable" };
        Ok(Self {
            limit: serde_json::from_str(row.try_get("declared")?).map_err(damaged)?,
            spent: serde_json::from_str(row.try_get("spent")?).map_err(damaged)?,
            last,
        })
    }
}

/// A scope and all scopes above it, outermost first.
pub(crate) async fn lineage(connection: &mut AnyConnection, scope: &ScopePath) -> Result<Vec<ScopeRow>, LedgerError> {
    let mut rows = Vec::new();
    for path in scope.lineage() {
        rows.push(find(connection, &path).await?.ok_or(LedgerError::UnknownScope { scope: path })?);
    }
    Ok(rows)
}

/// One scope, if it was declared.
pub(crate) async fn find(connection: &mut AnyConnection, path: &ScopePath) -> Result<Option<ScopeRow>, LedgerError> {
    let query = sqlx::query("SELECT declared, spent, last FROM scopes WHERE path = $1").bind(path.as_str());
    query.fetch_optional(connection).await?.as_ref().map(ScopeRow::read).transpose()
}

/// All scopes by path.
pub(crate) async fn scopes(connection: &mut AnyConnection) -> Result<Vec<ScopeRow>, LedgerError> {
    let rows = sqlx::query("SELECT declared, spent, last FROM scopes ORDER BY path").fetch_all(connection).await?;
    rows.iter().map(ScopeRow::read).collect()
}

/// The next entries after `last`, as rows with all columns.
pub(crate) async fn page(connection: &mut AnyConnection, last: i64) -> Result<Vec<AnyRow>, LedgerError> {
    const PAGE: &str = "SELECT sequence, kind, request, scope, key, body, hash FROM entries \
                        WHERE sequence > $1 ORDER BY sequence LIMIT 1000";
    Ok(sqlx::query(PAGE).bind(last).fetch_all(connection).await?)
}
