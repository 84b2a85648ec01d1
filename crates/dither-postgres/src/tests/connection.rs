//! Logging in, with and without TLS, and what is kept of what a server says.

use std::fs;
use std::path::Path;

use dither_testing::Postgres;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::Server;
use crate::connection::{Connection, ConnectionError};

/// An authority of certificates, made for one test.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate for a host, and its key.
    fn certify(&self, host: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    /// The end of a URL that trusts this authority.
    fn trusted(&self, folder: &Path, name: &str) -> String {
        let file = folder.join(name);
        fs::write(&file, self.0.pem()).unwrap();
        format!("sslrootcert={}", file.display())
    }
}

/// Whether the connection is encrypted, or why there is none.
async fn connect(url: &str) -> Result<bool, String> {
    let mut connection = Connection::open(&Server::parse(url).unwrap()).await.map_err(|error| error.to_string())?;
    let encrypted = "SELECT ssl::text FROM pg_catalog.pg_stat_ssl WHERE pid = pg_backend_pid()";
    let rows = connection.run(encrypted, &[]).await.map_err(|error| error.to_string())?;
    connection.close().await;
    Ok(rows[0][0].as_deref() == Some("true"))
}

/// A server is believed if its certificate is one for its host from an authority that is trusted; the control is that the
/// same server is taken where the URL asks for less.
#[tokio::test]
async fn tm_a_server_is_verified_before_anything_is_said_to_it() {
    let Some(server) = Postgres::start() else { return };
    server.sql("CREATE ROLE reader LOGIN PASSWORD 'topsecret'");
    let url = |host: &str, rest: &str| format!("{}?{rest}", server.host_url("reader", "topsecret", host));
    let failed = |problem: &str| Err(format!("the connection to PostgreSQL cannot be encrypted: {problem}"));
    assert_eq!(connect(&url("localhost", "sslmode=verify-full")).await, failed("the server does not offer it"));
    assert_eq!(connect(&url("localhost", "sslmode=require")).await, failed("the server does not offer it"));

    let folder = tempfile::tempdir().unwrap();
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let (certificate, key) = ours.certify("localhost");
    server.encrypt(&certificate, &key);
    let (ours, other) = (ours.trusted(folder.path(), "ours.pem"), other.trusted(folder.path(), "other.pem"));
    let full = |root: &str| format!("sslmode=verify-full&{root}");
    assert_eq!(connect(&url("localhost", &full(&ours))).await, Ok(true));
    let stranger = failed("its certificate comes from no authority that is trusted");
    assert_eq!(connect(&url("localhost", &full(&other))).await, stranger);
    assert_eq!(connect(&url("localhost", "sslmode=verify-full")).await, stranger);
    let elsewhere = failed("its certificate is one for another host");
    assert_eq!(connect(&url("127.0.0.1", &full(&ours))).await, elsewhere);
    let nowhere = failed("the file of sslrootcert cannot be read");
    assert_eq!(connect(&url("localhost", &full("sslrootcert=/nowhere.pem"))).await, nowhere);
    assert_eq!(connect(&url("127.0.0.1", "sslmode=require")).await, Ok(true), "the control");
    assert_eq!(connect(&url("127.0.0.1", "sslmode=disable")).await, Ok(false), "the control");
    assert_eq!(connect(&url("127.0.0.1", "")).await, Ok(false), "on this machine");

    let (certificate, key) = Authority::new("late").certify("localhost");
    server.encrypt(&certificate, &key);
    // The server reads it for connections that come after.
    for _ in 0..100 {
        if connect(&url("localhost", &full(&ours))).await == stranger {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("a certificate of somebody else is believed");
}

/// Whatever is wrong with a password, the message is one.
#[tokio::test]
async fn a_wrong_password_and_none_are_refused_alike() {
    let Some(server) = Postgres::shared() else { return };
    server.sql("DROP ROLE IF EXISTS careful; CREATE ROLE careful LOGIN PASSWORD 'topsecret'");
    for word in ["wrong", "", "top\u{ad}secre", "topsecret%20"] {
        let error = connect(&server.tcp_url("careful", word)).await;
        assert_eq!(error, Err("PostgreSQL refused with SQLSTATE 28P01".into()), "{word}");
    }
    assert_eq!(connect(&server.tcp_url("careful", "topsecret")).await, Ok(false), "the control");
    let nobody = connect(&server.tcp_url("stranger", "topsecret")).await;
    assert_eq!(nobody, Err("PostgreSQL refused with SQLSTATE 28P01".into()), "who is there is not told");
}

#[tokio::test]
async fn tm_of_an_error_only_its_code_is_kept() {
    let Some(server) = Postgres::shared() else { return };
    let mut connection = Connection::open(&Server::parse(&server.url("steward")).unwrap()).await.unwrap();
    let text = async |connection: &mut Connection, sql: &str, parameters: &[&str]| {
        let error: ConnectionError = connection.run(sql, parameters).await.unwrap_err();
        assert!(!format!("{error:?}").contains("4711"), "{error:?}");
        error.to_string()
    };
    let refused = |state: &str| format!("PostgreSQL refused with SQLSTATE {state}");
    assert_eq!(text(&mut connection, "SELECT '4711 p'::int::text", &[]).await, refused("22P02"));
    assert_eq!(text(&mut connection, "SELECT $1::text::int::text", &["4711 p"]).await, refused("22P02"));
    let raised = "DO $$ BEGIN RAISE EXCEPTION '4711' USING ERRCODE = 'P4711', DETAIL = '4711'; END $$";
    let raised = connection.run(raised, &[]).await.unwrap_err().to_string();
    assert_eq!(raised, refused("P4711"), "a code is the server's word");
    // The connection goes on, cells of other types than text are no answer, and zeros do not end a statement.
    let rows = connection.run("SELECT 'a', NULL::text, $1::text", &["ü"]).await.unwrap();
    assert_eq!(rows, [[Some("a".to_owned()), None, Some("ü".to_owned())]]);
    let misread = "PostgreSQL and this program do not understand each other";
    assert_eq!(text(&mut connection, "SELECT 4711", &[]).await, misread);
    assert_eq!(text(&mut connection, "SELECT 'a\0'", &[]).await, misread);
    // A statement is looked at without being run.
    assert!(connection.check("SELECT 1 / 0").await.is_ok());
}
