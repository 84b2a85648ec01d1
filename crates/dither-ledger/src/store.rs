//! The only module that knows the storage engine: how a file is created and opened, how a commit becomes
//! durable, and when a handle stops.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dither_core::Receipt;
use sqlx::any::{AnyConnectOptions, AnyPoolOptions, AnyRow};
use sqlx::{Any, AnyConnection, AnyPool, AssertSqlSafe, Connection, Row, Transaction};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::entry::{Body, Entry, Record};
use crate::error::LedgerError;
use crate::{chain, failpoint, schema};

/// The value of `PRAGMA synchronous` from which on a commit waits for the disk.
const FULL: i64 = 2;

/// An open ledger file.
pub(crate) struct Store {
    pub(crate) id: String,
    pub(crate) clock: fn() -> i64,
    /// Held from before a transaction begins until its outcome is known.
    turn: Arc<Mutex<()>>,
    writer: AnyPool,
    reader: AnyPool,
    poisoned: Arc<AtomicBool>,
}

impl Store {
    /// Opens the file, after creating it if it is missing and `create` says so.
    pub(crate) async fn open(path: &Path, create: bool) -> Result<Self, LedgerError> {
        sqlx::any::install_default_drivers();
        let exists = path.try_exists().map_err(|source| LedgerError::File { path: path.to_owned(), source })?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            return Err(LedgerError::NoFolder { path: folder.to_owned() });
        }
        if path.is_dir() {
            return Err(LedgerError::NotALedger { path: path.to_owned() });
        }
        match (exists, create) {
            (false, false) => return Err(LedgerError::Missing { path: path.to_owned() }),
            (false, true) => create_file(path).await?,
            (true, _) => {}
        }
        let options = options(path)?;
        let (writer, reader) = (pool(1, "", &options), pool(3, "PRAGMA query_only = ON;", &options));
        // The connection that is checked is the one that will write.
        let checked = async { check(&mut *writer.acquire().await?, path).await };
        match checked.await {
            Ok(id) => Ok(Self { id, clock: now, turn: Arc::default(), writer, reader, poisoned: Arc::default() }),
            Err(error) => {
                writer.close().await;
                Err(match error {
                    LedgerError::Malformed(source) if is_no_database(&source) => {
                        LedgerError::NotALedger { path: path.to_owned() }
                    }
                    error => error,
                })
            }
        }
    }

    /// Closes all connections, which moves the log into the file if no other handle is open.
    pub(crate) async fn close(&self) {
        // The last one moves the log, and has synced the folder that the log lies in if it wrote to it.
        self.reader.close().await;
        self.writer.close().await;
    }

    /// Runs an operation unless the handle has stopped, and stops it if the state of the disk becomes unknown.
    pub(crate) async fn guard<T>(
        &self,
        operation: impl Future<Output = Result<T, LedgerError>>,
    ) -> Result<T, LedgerError> {
        if self.poisoned.load(Ordering::SeqCst) {
            return Err(LedgerError::Poisoned);
        }
        let result = operation.await;
        if result.as_ref().is_err_and(LedgerError::poisons) {
            self.poisoned.store(true, Ordering::SeqCst);
        }
        result
    }

    /// A consistent view of the last durable state.
    pub(crate) async fn read(&self) -> Result<Transaction<'static, Any>, LedgerError> {
        Ok(self.reader.begin().await?)
    }

    /// Takes the write lock, which one writer of all processes holds at a time.
    pub(crate) async fn write(&self) -> Result<Write, LedgerError> {
        let turn = self.turn.clone().lock_owned().await;
        // The handle may have stopped while this writer waited.
        if self.poisoned.load(Ordering::SeqCst) {
            return Err(LedgerError::Poisoned);
        }
        let mut tx = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut *tx).await?;
        if synchronous < FULL {
            return Err(LedgerError::NotDurable);
        }
        let head = head(&mut tx, &self.id).await?;
        failpoint::hit("begun");
        Ok(Write { tx, head, time: (self.clock)(), poisoned: self.poisoned.clone(), turn })
    }
}

/// The write lock with the changes made under it; dropping it undoes them.
pub(crate) struct Write {
    pub(crate) tx: Transaction<'static, Any>,
    head: Receipt,
    time: i64,
    poisoned: Arc<AtomicBool>,
    turn: OwnedMutexGuard<()>,
}

impl Write {
    /// Adds an entry to the chain.
    pub(crate) async fn append(&mut self, record: Record) -> Result<Entry, LedgerError> {
        let sequence = self.head.sequence + 1;
        let body = Body { time: self.time, record };
        let text = serde_json::to_string(&body)?;
        let hash = chain::link(&self.head.head, sequence, &text);
        let columns = body.record.columns();
        sqlx::query(
            "INSERT INTO entries (sequence, kind, request, scope, key, body, hash) VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(signed(sequence)?)
        .bind(columns.kind)
        .bind(columns.request)
        .bind(columns.scope)
        .bind(columns.key)
        .bind(text.as_str())
        .bind(hash.as_str())
        .execute(&mut *self.tx)
        .await?;
        failpoint::hit("appended");
        self.head = Receipt { sequence, head: hash.clone() };
        Ok(Entry { sequence, hash, time: body.time, record: body.record })
    }

    /// Returns after the changes are durable.
    ///
    /// The commit runs as a task of its own: a caller that goes away cannot hide its failure.
    pub(crate) async fn commit(self) -> Result<(), LedgerError> {
        let Self { tx, poisoned, turn, .. } = self;
        let commit = async move {
            failpoint::hit("committing");
            let result = tx.commit().await;
            failpoint::hit("committed");
            if result.is_err() {
                // Whether the disk has the changes is unknown. The next writer sees this before its turn begins.
                poisoned.store(true, Ordering::SeqCst);
            }
            drop(turn);
            result
        };
        match tokio::spawn(commit).await {
            Ok(result) => Ok(result?),
            Err(_) => Err(LedgerError::Poisoned),
        }
    }
}

/// The last entry, or the beginning of an empty ledger.
pub(crate) async fn head(connection: &mut AnyConnection, id: &str) -> Result<Receipt, LedgerError> {
    let last = sqlx::query("SELECT sequence, hash FROM entries ORDER BY sequence DESC LIMIT 1");
    match last.fetch_optional(connection).await? {
        Some(row) => Ok(Receipt { sequence: unsigned(row.try_get("sequence")?)?, head: row.try_get("hash")? }),
        None => Ok(Receipt { sequence: 0, head: chain::genesis(id) }),
    }
}

/// Reads an entry from a row with `sequence`, `body` and `hash`.
pub(crate) fn entry(row: &AnyRow) -> Result<Entry, LedgerError> {
    let sequence = unsigned(row.try_get("sequence")?)?;
    let body: Body = serde_json::from_str(row.try_get("body")?)
        .map_err(|_| LedgerError::Damaged { sequence, finding: "its content is unreadable" })?;
    Ok(Entry { sequence, hash: row.try_get("hash")?, time: body.time, record: body.record })
}

/// A number of the storage as a sequence.
pub(crate) fn unsigned(value: i64) -> Result<u64, LedgerError> {
    u64::try_from(value).map_err(|_| LedgerError::Damaged { sequence: 0, finding: "a sequence is negative" })
}

/// A sequence as a number of the storage.
pub(crate) fn signed(value: u64) -> Result<i64, LedgerError> {
    i64::try_from(value).map_err(|_| LedgerError::Damaged { sequence: 0, finding: "a sequence is out of range" })
}

/// Whether the engine said that a file has nothing to do with it: SQLITE_NOTADB.
fn is_no_database(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == "26")
}

/// Checks what a start must know: the format and the last link.
async fn check(connection: &mut AnyConnection, path: &Path) -> Result<String, LedgerError> {
    sqlx::raw_sql(schema::CONNECTION).execute(&mut *connection).await?;
    let tables = "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name IN ('ledger', 'entries')";
    let tables: i64 = sqlx::query_scalar(tables).fetch_one(&mut *connection).await?;
    let identity = match tables {
        2 => sqlx::query("SELECT format, id FROM ledger").fetch_optional(&mut *connection).await?,
        _ => None,
    };
    let identity = identity.ok_or_else(|| LedgerError::NotALedger { path: path.to_owned() })?;
    let found: i64 = identity.try_get("format")?;
    if found != schema::FORMAT {
        return Err(LedgerError::UnknownFormat { found, supported: schema::FORMAT });
    }
    let journal: String = sqlx::query_scalar("PRAGMA journal_mode = WAL").fetch_one(&mut *connection).await?;
    if journal != "wal" {
        return Err(LedgerError::Damaged { sequence: 0, finding: "the journal is not a write-ahead log" });
    }
    // A commit whose sync failed may be read back from the cache of the system after a restart. Copying the log into
    // the file and syncing that makes it durable before anybody relies on it.
    sqlx::raw_sql("PRAGMA wal_checkpoint(PASSIVE)").execute(&mut *connection).await?;
    let id: String = identity.try_get("id")?;
    let tail = sqlx::query("SELECT sequence, body, hash FROM entries ORDER BY sequence DESC LIMIT 2");
    let tail = tail.fetch_all(&mut *connection).await?;
    if let Some(last) = tail.first() {
        let (sequence, hash) = (unsigned(last.try_get("sequence")?)?, last.try_get::<String, _>("hash")?);
        let previous = match tail.get(1) {
            Some(row) => row.try_get("hash")?,
            None => chain::genesis(&id),
        };
        if hash != chain::link(&previous, sequence, last.try_get("body")?) {
            return Err(LedgerError::Damaged { sequence, finding: "its hash does not follow from its content" });
        }
    }
    Ok(id)
}

/// Creates the file under another name and moves it into place complete, so that nobody ever sees a part of it
/// and of two creators one wins.
async fn create_file(path: &Path) -> Result<(), LedgerError> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|_| LedgerError::NoRandomness)?;
    let id = chain::hex(&random);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".new-{id}"));
    let draft = PathBuf::from(name);
    let failed = |source| LedgerError::File { path: path.to_owned(), source };
    private_file(&draft).map_err(failed)?;
    let written = write_schema(&draft, &id).await;
    failpoint::hit("drafted");
    let linked = match written {
        Ok(()) => match std::fs::hard_link(&draft, path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            result => result.map_err(failed),
        },
        Err(error) => Err(error),
    };
    failpoint::hit("linked");
    std::fs::remove_file(&draft).map_err(failed)?;
    linked?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}

/// An empty file that only its owner can read or write; the files beside it inherit the mode.
fn private_file(path: &Path) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

async fn write_schema(path: &Path, id: &str) -> Result<(), LedgerError> {
    let mut connection = AnyConnection::connect_with(&options(path)?).await?;
    sqlx::raw_sql(schema::CONNECTION).execute(&mut connection).await?;
    sqlx::raw_sql("PRAGMA journal_mode = WAL").execute(&mut connection).await?;
    let mut tx = connection.begin().await?;
    for (_, object) in schema::OBJECTS {
        sqlx::raw_sql(object).execute(&mut *tx).await?;
    }
    let identity = sqlx::query("INSERT INTO ledger (format, id) VALUES ($1, $2)");
    identity.bind(schema::FORMAT).bind(id).execute(&mut *tx).await?;
    tx.commit().await?;
    // Closing the last connection moves everything from the log into the file.
    Ok(connection.close().await?)
}

fn pool(size: u32, extra: &'static str, options: &AnyConnectOptions) -> AnyPool {
    let setup = format!("{} {extra}", schema::CONNECTION);
    AnyPoolOptions::new()
        .max_connections(size)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .acquire_timeout(Duration::from_secs(60))
        .after_connect(move |connection, _| {
            let setup = setup.clone();
            Box::pin(async move {
                // A failure here would be retried until the timeout. It shows again in the first transaction, which
                // checks that the connection is durable.
                let _ = sqlx::raw_sql(AssertSqlSafe(setup)).execute(connection).await;
                Ok(())
            })
        })
        .connect_lazy_with(options.clone())
}

/// The address of a file for the driver, with everything but plain characters escaped.
fn options(path: &Path) -> Result<AnyConnectOptions, LedgerError> {
    let failed = |source| LedgerError::File { path: path.to_owned(), source };
    let path = std::path::absolute(path).map_err(failed)?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte);
    let escape = |byte: &u8| if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    let escaped: String = path.as_os_str().as_encoded_bytes().iter().map(escape).collect();
    Ok(format!("sqlite://{escaped}?mode=rw").parse()?)
}

/// Seconds since 1970.
fn now() -> i64 {
    let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => seconds(since),
        Err(error) => -seconds(error.duration()),
    }
}

/// Checks that the tables, indexes and triggers are those of the format, and that the engine finds its file sound.
pub(crate) async fn check_structure(connection: &mut AnyConnection) -> Result<(), LedgerError> {
    let objects = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name";
    let objects = sqlx::query_as::<_, (String, String)>(objects).fetch_all(&mut *connection).await?;
    let mut expected = schema::OBJECTS;
    expected.sort_unstable();
    if !objects.iter().map(|(name, sql)| (name.as_str(), sql.as_str())).eq(expected) {
        return Err(LedgerError::Damaged { sequence: 0, finding: "its tables are not those of the format" });
    }
    let sound: String = sqlx::query_scalar("PRAGMA integrity_check(1)").fetch_one(connection).await?;
    if sound != "ok" {
        return Err(LedgerError::Damaged { sequence: 0, finding: "the storage engine finds its file unsound" });
    }
    Ok(())
}
