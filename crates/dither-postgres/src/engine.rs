//! The engine: one transaction for each question, in which each of its plans is one statement.

use std::io;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::logical_expr::LogicalPlan;
use dither_query::bound::Bounding;
use dither_query::engine::{Counting, Engine, EngineError, Opening, Rehearsing, portable};
use dither_query::policy::TablePolicy;
use dither_query::source::{DatabaseRelation, Progress, SourceError, Table, Tables, relation_of};
use tokio::sync::{Mutex, Semaphore};

use crate::connection::{Connection, ConnectionError};
use crate::plan::{Statement, statement};
use crate::result;
use crate::server::{Server, UrlError};
use crate::table::{LookError, PostgresTable};

/// How many questions of a report are counted at once.
const AT_ONCE: usize = 4;

/// The oldest server: 14, in which parts of dates are exact numbers.
const OLDEST: i64 = 140_000;

/// What the meaning of a statement depends on, set for the transaction whatever the role, the database or the server
/// has. Only what is in the standard catalog has a name.
const SETTINGS: [(&str, &str); 14] = [
    ("search_path", "pg_catalog, pg_temp"),
    ("TimeZone", "UTC"),
    ("DateStyle", "ISO, YMD"),
    ("IntervalStyle", "postgres"),
    ("extra_float_digits", "1"),
    ("standard_conforming_strings", "on"),
    ("escape_string_warning", "off"),
    ("bytea_output", "hex"),
    ("transform_null_equals", "off"),
    ("lc_time", "C"),
    ("lc_numeric", "C"),
    ("statement_timeout", "0"),
    ("lock_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
];

/// Before the charge nobody waits long for a table that somebody else has locked.
const LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '10s'";

/// PostgreSQL, where the tables of the policy lie.
///
/// # Privacy
/// The rows stay in the server; what comes here is the exact integers of a question, before noise. Whoever administers
/// the server, or reads the connection, sees both, and the secret by which rows are chosen.
pub struct PostgresEngine {
    server: Server,
    turns: Semaphore,
}

impl PostgresEngine {
    /// An engine on the server that a URL names. Nothing is connected yet.
    ///
    /// # Errors
    /// As [`Server::parse`].
    pub fn new(url: &str) -> Result<Self, UrlError> {
        Ok(Self { server: Server::parse(url)?, turns: Semaphore::new(AT_ONCE) })
    }

    /// Begins a transaction that reads one state of the database, and nothing else.
    pub(crate) async fn begin(&self) -> Result<Connection, ConnectionError> {
        let mut connection = Connection::open(&self.server).await?;
        // So that the server gives up when we are gone. Not every system of a server can do that.
        match connection.run("SET client_connection_check_interval = '10s'", &[]).await {
            Ok(_) | Err(ConnectionError::Refused(_)) => {}
            Err(error) => return Err(error),
        }
        connection.run("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY", &[]).await?;
        let settings = SETTINGS.map(|(name, value)| format!("set_config('{name}', '{value}', true)"));
        connection.run(&format!("SELECT {}", settings.join(", ")), &[]).await?;
        Ok(connection)
    }

    /// A transaction in a server that can be used; only public things decide.
    async fn checked(&self) -> Result<Connection, SourceError> {
        let mut connection = self.begin().await.map_err(unusable)?;
        connection.run(LOCK_TIMEOUT, &[]).await.map_err(unusable)?;
        let facts = "SELECT current_setting('server_version_num'), current_setting('server_encoding')";
        let facts = connection.run(facts, &[]).await.map_err(unusable)?;
        let cell = |place: usize| facts.first().and_then(|row| row.get(place)?.as_deref());
        let server = |problem: &str, hint: &str| SourceError::Server { problem: problem.into(), hint: hint.into() };
        if cell(0).and_then(|version| version.parse().ok()).is_none_or(|version: i64| version < OLDEST) {
            return Err(server("it is older than PostgreSQL 14", "use a newer server"));
        }
        if cell(1) != Some("UTF8") {
            return Err(server("its database is not in UTF-8", "make one with ENCODING 'UTF8'"));
        }
        Ok(connection)
    }

    async fn find(&self, table: &TablePolicy) -> Result<Table, SourceError> {
        let relation = relation(table)?;
        let mut connection = self.checked().await?;
        match PostgresTable::find(&mut connection, &relation, table).await {
            Ok(table) => {
                connection.close().await;
                Ok(Arc::new(table))
            }
            Err(LookError::Source(error)) => Err(error),
            Err(LookError::Connection(error)) => Err(unusable(error)),
        }
    }
}

impl Engine for PostgresEngine {
    fn count<'a>(&'a self, bounding: &'a Bounding<'a>, tables: &'a Tables) -> Counting<'a> {
        Box::pin(async move {
            let _turn = self.turns.acquire().await.map_err(|error| EngineError(error.into()))?;
            let connection = Mutex::new(self.begin().await.map_err(failed)?);
            let run = async |plan: LogicalPlan| run(&mut *connection.lock().await, &plan, bounding.secret).await;
            let counted = portable(bounding, tables, run).await?;
            connection.into_inner().close().await;
            Ok(counted)
        })
    }

    fn accepts(&self, table: &TablePolicy) -> Result<(), SourceError> {
        relation(table).map(|_| ())
    }

    fn open<'a>(&'a self, table: &'a TablePolicy, _: &'a Path, _: &'a Arc<Progress>) -> Opening<'a> {
        Box::pin(self.find(table))
    }

    fn rehearse(&self, plan: LogicalPlan) -> Option<Rehearsing<'_>> {
        Some(Box::pin(async move {
            let mut connection = self.checked().await.map_err(|error| EngineError(Box::new(error)))?;
            let rows = run(&mut connection, &plan, "rehearsal").await?;
            connection.close().await;
            Ok(rows)
        }))
    }
}

/// The relation that a table is; the server reads no file.
fn relation(table: &TablePolicy) -> Result<DatabaseRelation, SourceError> {
    relation_of(&table.source).ok_or_else(|| SourceError::NotElsewhere { path: table.source.clone() })
}

/// Runs a plan as one statement.
async fn run(connection: &mut Connection, plan: &LogicalPlan, secret: &str) -> Result<Vec<RecordBatch>, EngineError> {
    let statement = statement(plan, secret).map_err(|refusal| EngineError(Box::new(refusal)))?;
    answered(connection, &statement, secret).await
}

/// What a server answers to a statement, if it has the columns of its plan.
pub(crate) async fn answered(
    connection: &mut Connection,
    statement: &Statement,
    secret: &str,
) -> Result<Vec<RecordBatch>, EngineError> {
    let parameters: &[&str] = if statement.secret { &[secret] } else { &[] };
    let rows = connection.run(&statement.sql, parameters).await.map_err(failed)?;
    let other =
        |_| EngineError(Box::new(io::Error::other("PostgreSQL answered with other columns than were asked for")));
    Ok(vec![result::batch(&rows, &statement.schema).map_err(other)?])
}

/// A failure while rows are read. For the operator: its kind, which holds no values.
pub(crate) fn failed(error: ConnectionError) -> EngineError {
    EngineError(Box::new(io::Error::other(error.to_string())))
}

/// Why a server cannot be used, before anything is charged.
fn unusable(error: ConnectionError) -> SourceError {
    let hint = match &error {
        ConnectionError::Io(_) => "check that it runs, and the host, port or folder in the URL",
        ConnectionError::Tls(_) => TLS_HINT,
        ConnectionError::Login => "let the role log in by scram-sha-256, peer or trust",
        ConnectionError::Refused(state) if state.starts_with("28") => LOGIN_HINT,
        ConnectionError::Refused(state) if state == "3D000" => "check the name of the database",
        ConnectionError::Refused(state) if state == "55P03" => "another session has locked the table; ask again later",
        ConnectionError::Refused(_) | ConnectionError::Protocol => "look into the log of the server",
    };
    SourceError::Server { problem: error.to_string(), hint: hint.into() }
}

const LOGIN_HINT: &str = "check the user, and the password in PGPASSWORD, the URL or ~/.pgpass";
const TLS_HINT: &str = "name the host as its certificate does, and the file of its authority with sslrootcert=…; \
                        without encryption (sslmode=disable) only over a network that you trust";
