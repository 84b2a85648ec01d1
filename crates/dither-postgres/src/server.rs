//! Which server: a URL in the usual form. What it holds is never shown.

use std::net::IpAddr;
use std::path::PathBuf;

/// Where a server listens.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// A socket in a folder; the port is part of its name.
    Socket { folder: PathBuf, port: u16 },
    /// A host and a port.
    Host(String, u16),
}

/// How a connection over TCP is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encryption {
    None,
    /// Against those who listen, not against those who stand between.
    Unverified,
    /// The server has a certificate for its host from an authority that is trusted.
    Verified,
}

/// A server, a database in it, and who we are there. It has no debug form: it may hold a password.
#[derive(Clone)]
pub struct Server {
    pub(crate) address: Address,
    pub(crate) user: String,
    pub(crate) password: Option<String>,
    pub(crate) database: String,
    pub(crate) encryption: Encryption,
    /// A file with authorities that are trusted besides those of the system.
    pub(crate) root: Option<PathBuf>,
}

/// Why a URL names no server that can be used. The text never quotes the URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the URL of the server {problem}")]
pub struct UrlError {
    problem: &'static str,
}

impl UrlError {
    /// What to write instead.
    pub fn hint(&self) -> &'static str {
        "write postgres://user@host:port/database, or postgres:///database?host=/folder/of/the/socket"
    }
}

/// The folder of the socket and the port, where the URL names none.
const FOLDER: &str = "/var/run/postgresql";
const PORT: u16 = 5432;

impl Server {
    /// Reads a URL. Without a password in it the environment variable `PGPASSWORD` holds, or else what `~/.pgpass` (or the
    /// file that `PGPASSFILE` names) has for it; without a user `PGUSER` or `USER`.
    ///
    /// What is sent to another machine is encrypted, and the certificate of the server verified, unless `sslmode` says
    /// that the network between is trusted.
    ///
    /// # Errors
    /// A text that is no such URL, or one with a parameter that is not offered.
    ///
    /// ```
    /// use dither_postgres::Server;
    /// assert!(Server::parse("postgres://steward@localhost/clinic").is_ok());
    /// assert!(Server::parse("postgres://steward@db.example.org/clinic?sslrootcert=authority.pem").is_ok());
    /// assert!(Server::parse("postgres://steward@db.example.org/clinic?sslmode=prefer").is_err(), "a wish is no protection");
    /// ```
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        Self::with(url, |name| std::env::var(name).ok())
    }

    fn with(url: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, UrlError> {
        let odd = |problem| UrlError { problem };
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
        let rest = rest.ok_or(odd("does not begin with postgres://"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').map_or((login, None), |(user, word)| (user, Some(word)));
        let text = |text: &str| decoded(text).ok_or(odd("has a % or a zero that means nothing"));
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let (mut user, mut database) = (some(text(user)?), some(text(database)?));
        let mut password = password.map(text).transpose()?;
        let (host, port) = host_and_port(host).ok_or(odd("has a port that is none"))?;
        let (mut host, mut port, mut encryption, mut root) = (some(text(host)?), port, None, None);
        for (name, value) in query.split('&').filter(|part| !part.is_empty()).filter_map(|part| part.split_once('=')) {
            let value = text(value)?;
            match name {
                "host" => host = some(value),
                "port" => port = Some(value.parse().map_err(|_| odd("has a port that is none"))?),
                "user" => user = some(value),
                "password" => password = Some(value),
                "dbname" => database = some(value),
                "sslmode" => encryption = Some(encryption_named(&value).ok_or(odd(MODES))?),
                "sslrootcert" => root = Some(value.into()),
                _ => return Err(odd("has a parameter that is not offered")),
            }
        }
        let user = user.or_else(|| variable("PGUSER")).or_else(|| variable("USER")).ok_or(odd("names no user"))?;
        let port = port.unwrap_or(PORT);
        let address = match host.unwrap_or_else(|| FOLDER.into()) {
            folder if folder.starts_with('/') => Address::Socket { folder: folder.into(), port },
            host => Address::Host(host, port),
        };
        let encryption = encryption.unwrap_or(match &address {
            Address::Host(host, _) if !is_here(host) => Encryption::Verified,
            _ => Encryption::None,
        });
        let password = password.or_else(|| variable("PGPASSWORD"));
        let database = database.unwrap_or_else(|| user.clone());
        Ok(Self { address, user, password, database, encryption, root })
    }
}

/// What is said where `sslmode` has another value: the others either fall back to no encryption when somebody asks for it,
/// or take the certificate of any host.
const MODES: &str = "has an sslmode that is not offered: it is verify-full, require or disable";

fn encryption_named(sslmode: &str) -> Option<Encryption> {
    match sslmode {
        "disable" => Some(Encryption::None),
        "require" => Some(Encryption::Unverified),
        "verify-full" => Some(Encryption::Verified),
        _ => None,
    }
}

/// Whether a host is this machine.
fn is_here(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A host, without the brackets of IPv6, and a port.
fn host_and_port(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(host, rest)| (host, rest.strip_prefix(':')))?,
        None => text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    match port {
        None => Some((host, None)),
        Some(port) => Some((host, Some(port.parse().ok()?))),
    }
}

/// A text without its percent signs; `None` for what is no text, and for one with a zero, which would end it early.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        bytes.push(match byte {
            b'%' => u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?,
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Server, UrlError> {
        Server::with(url, |name| (name == "USER").then(|| "me".into()))
    }

    #[test]
    fn urls_are_read() {
        let server = parse("postgres://ann:p%40ss@localhost:5433/clinic").unwrap();
        assert!(server.address == Address::Host("localhost".into(), 5433));
        let found = (server.user.as_str(), server.password.as_deref(), server.database.as_str());
        assert_eq!(found, ("ann", Some("p@ss"), "clinic"));
        let server = parse("postgresql:///clinic?host=/run/pg&port=6000&user=bob").unwrap();
        let socket = |folder: &str, port| Address::Socket { folder: folder.into(), port };
        assert!(server.address == socket("/run/pg", 6000));
        assert_eq!((server.user.as_str(), server.password), ("bob", None));
        assert!(parse("postgres://").unwrap().address == socket("/var/run/postgresql", 5432));
        assert_eq!(parse("postgres://").unwrap().database, "me");
        assert!(parse("postgres://[::1]:7/x").unwrap().address == Address::Host("::1".into(), 7));
        assert!(parse("postgres://%2Frun%2Fpg/x").unwrap().address == socket("/run/pg", 5432));
    }

    #[test]
    fn another_machine_is_verified_unless_the_url_says_otherwise() {
        for (url, expected) in [
            ("postgres://a@localhost/x", Encryption::None),
            ("postgres://a@127.0.0.1/x?sslmode=verify-full", Encryption::Verified),
            ("postgres:///x", Encryption::None),
            ("postgres://a@db.example.org/x", Encryption::Verified),
            ("postgres://a@localhost.example.org/x", Encryption::Verified),
            ("postgres://a@/x?host=db.example.org", Encryption::Verified),
            ("postgres://a@db.example.org/x?sslmode=require", Encryption::Unverified),
            ("postgres://a@db.example.org/x?sslmode=disable", Encryption::None),
        ] {
            assert_eq!(parse(url).unwrap().encryption, expected, "{url}");
        }
        let root = parse("postgres://a@db.example.org/x?sslrootcert=%2Fetc%2Fauthority.pem").unwrap().root;
        assert_eq!(root, Some("/etc/authority.pem".into()));
    }

    #[test]
    fn what_is_refused_does_not_show_the_url() {
        let odd = [
            "mysql://a:secret@localhost/x",
            "postgres://a:secret@localhost:99999/x",
            "postgres://a:secret%zz@localhost/x",
            "postgres://a:secret%00@localhost/x",
            "postgres://a:secret@db.example.org/x?sslmode=prefer",
            "postgres://a:secret@db.example.org/x?sslmode=verify-ca",
            "postgres://a:secret@localhost/x?options=-csearch_path=evil",
        ];
        for url in odd {
            let error = parse(url).err().unwrap().to_string();
            assert!(!error.contains("secret") && !error.contains("evil") && !error.contains("example.org"), "{error}");
        }
    }
}
