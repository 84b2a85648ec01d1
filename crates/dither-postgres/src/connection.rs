//! One connection: log in, run one statement, take its rows as texts. SQLx speaks to the server.
//!
//! Nothing that the server says is shown or kept: of an error only its code, which holds no values. SQLx logs neither
//! statements nor parameters.

use std::io;
use std::time::Duration;

use rustls::CertificateError;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow, PgSslMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection as _, Error, Row as _};

use crate::server::{Address, Encryption, Server};

/// How long a server may take to let us in. Nothing that it does until then depends on rows.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why a statement has no rows.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("the connection to PostgreSQL failed: {0}")]
    Io(io::ErrorKind),
    #[error("what answers asks for a way to log in that is not offered, or is no PostgreSQL")]
    Login,
    #[error("the connection to PostgreSQL cannot be encrypted: {0}")]
    Tls(&'static str),
    #[error("PostgreSQL and this program do not understand each other")]
    Protocol,
    #[error("PostgreSQL refused with SQLSTATE {0}")]
    Refused(String),
}

/// A row of a statement, each cell a text.
pub(crate) type Row = Vec<Option<String>>;
/// The rows of a statement.
pub(crate) type Rows = Vec<Row>;

/// A connection that is logged in. When it is dropped the server notices that nobody listens any more.
pub(crate) struct Connection(PgConnection);

impl Connection {
    /// Logs in.
    pub(crate) async fn open(server: &Server) -> Result<Self, ConnectionError> {
        let options = options(server)?;
        let late = |_| ConnectionError::Io(io::ErrorKind::TimedOut);
        let opened = tokio::time::timeout(PATIENCE, options.connect()).await.map_err(late)?;
        opened.map(Self).map_err(|error| match error {
            Error::Protocol(_) => ConnectionError::Login,
            error => error.into(),
        })
    }

    /// Runs one statement with texts for its parameters; all its columns are texts. Parameters travel beside it, not in it.
    pub(crate) async fn run(&mut self, sql: &str, parameters: &[&str]) -> Result<Rows, ConnectionError> {
        // It would end the statement early.
        if sql.contains('\0') {
            return Err(ConnectionError::Protocol);
        }
        // What is run once needs no name in the server.
        let query = sqlx::query::<sqlx::Postgres>(AssertSqlSafe(sql)).persistent(false);
        let query = parameters.iter().fold(query, |query, parameter| query.bind(*parameter));
        let rows = query.fetch_all(&mut self.0).await?;
        rows.iter().map(row).collect()
    }

    /// Lets the server look at a statement, its names and types, without planning or running it.
    pub(crate) async fn check(&mut self, sql: &str) -> Result<(), ConnectionError> {
        self.run(&format!("PREPARE looked_at AS {sql}"), &[]).await.map(drop)
    }

    /// Says goodbye, so that the server does not log a lost connection.
    pub(crate) async fn close(self) {
        // What was wanted is there already.
        let _ = self.0.close().await;
    }
}

fn row(row: &PgRow) -> Result<Row, ConnectionError> {
    (0..row.len()).map(|place| row.try_get::<Option<String>, _>(place).map_err(ConnectionError::from)).collect()
}

/// Where to connect and as whom. Of what the environment says, neither the host nor `PGSSLMODE` counts.
fn options(server: &Server) -> Result<PgConnectOptions, ConnectionError> {
    let (options, mode) = match &server.address {
        // A socket does not leave this machine.
        Address::Socket { folder, port } => {
            (PgConnectOptions::new_without_pgpass().socket(folder).port(*port), PgSslMode::Disable)
        }
        Address::Host(host, port) => {
            let mode = match server.encryption {
                Encryption::None => PgSslMode::Disable,
                Encryption::Unverified => PgSslMode::Require,
                Encryption::Verified => PgSslMode::VerifyFull,
            };
            (with_password_file(server, host, *port).host(host).port(*port), mode)
        }
    };
    let options = options.ssl_mode(mode).username(&server.user).database(&server.database).application_name("dither");
    let options = server.password.iter().fold(options, |options, password| options.password(password));
    let options = match &server.root {
        Some(file) => {
            let unread = |_| ConnectionError::Tls("the file of sslrootcert cannot be read");
            options.ssl_root_cert_from_pem(std::fs::read(file).map_err(unread)?)
        }
        None => options,
    };
    Ok(options.disable_statement_logging())
}

/// With the password that `PGPASSFILE` or `~/.pgpass` has for this host, database and user, if it has one. SQLx looks it
/// up for what a URL names only.
fn with_password_file(server: &Server, host: &str, port: u16) -> PgConnectOptions {
    let word = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
    let (host, user, database) = (word(host), word(&server.user), word(&server.database));
    let url = format!("postgres:///?host={host}&port={port}&user={user}&dbname={database}");
    url.parse().unwrap_or_else(|_| PgConnectOptions::new_without_pgpass())
}

impl From<Error> for ConnectionError {
    fn from(error: Error) -> Self {
        match &error {
            Error::Database(error) => Self::Refused(state(error.code().as_deref())),
            Error::Io(error) => match error.get_ref().and_then(|cause| encryption(cause)) {
                Some(problem) => Self::Tls(problem),
                None => Self::Io(error.kind()),
            },
            Error::Tls(error) => Self::Tls(match (encryption(error.as_ref()), error.to_string().as_str()) {
                (Some(problem), _) => problem,
                (None, "server does not support TLS") => "the server does not offer it",
                (None, _) => "the host or a certificate is none",
            }),
            Error::Configuration(_) => Self::Login,
            _ => Self::Protocol,
        }
    }
}

/// What is wrong with an encrypted connection, in words of our own; `None` for causes of other kinds.
fn encryption(cause: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    use rustls::Error::{AlertReceived, InvalidCertificate};
    Some(match cause.downcast_ref::<rustls::Error>()? {
        InvalidCertificate(CertificateError::UnknownIssuer) => {
            "its certificate comes from no authority that is trusted"
        }
        InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }) => {
            "its certificate is one for another host"
        }
        InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "its certificate has expired"
        }
        InvalidCertificate(_) => "its certificate cannot be verified",
        AlertReceived(_) => "the server does not accept what we offer",
        _ => "the server speaks it in another way",
    })
}

/// The code of an error. What else the server says may quote a row.
fn state(code: Option<&str>) -> String {
    let plain = |code: &&str| code.len() == 5 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    code.filter(plain).unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_five_letters_or_unknown() {
        assert_eq!(state(Some("22003")), "22003");
        for odd in [None, Some(""), Some("<b>x<"), Some("220031"), Some("ключ")] {
            assert_eq!(state(odd), "unknown");
        }
    }

    #[test]
    fn statements_are_not_logged_and_nothing_of_the_environment_decides() {
        let server = Server::parse("postgres://o%27hara@db.example.org:7/a%20b?sslmode=verify-full").unwrap();
        let options = options(&server).unwrap();
        assert_eq!((options.get_host(), options.get_port()), ("db.example.org", 7));
        assert_eq!((options.get_username(), options.get_database()), ("o'hara", Some("a b")));
        assert!(matches!(options.get_ssl_mode(), PgSslMode::VerifyFull));
        let shown = format!("{options:?}");
        let off = "statements_level: Off, slow_statements_level: Off";
        assert!(shown.contains(off), "{shown}");
    }
}
