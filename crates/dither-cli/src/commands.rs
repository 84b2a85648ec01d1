//! One verb, one file.

pub mod account;
pub mod calibrate;
pub mod cluster;
pub mod init;
pub mod ledger;
pub mod model;
pub mod plan;
pub mod profile;
pub mod query;
pub mod report;
pub mod train;

use dither::{Error, Session};
use dither_query::engine::{Engine, LocalEngine};

use crate::args::{Elsewhere, Where};
use crate::failure::Told;

/// The session of a policy, in the scope that was asked for.
fn session(policy: &std::path::Path, scope: Option<&str>) -> Result<Session, Error> {
    let session = Session::open(policy)?;
    match scope {
        Some(scope) => session.in_scope(scope),
        None => Ok(session),
    }
}

/// The session with the engine that was asked for.
fn placed(session: Session, place: &Where) -> anyhow::Result<Session> {
    let session = match place.timeout {
        Some(limit) => session.with_timeout(limit),
        None => session,
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    match place.memory {
        Some(bytes) => {
            let engine = LocalEngine::with_memory(threads, bytes).map_err(Error::from)?;
            Ok(session.with_engine(Box::new(engine)))
        }
        None => elsewhere(session, &place.elsewhere),
    }
}

/// The session with the server or cluster that was named, if one was. Nothing is connected yet.
fn elsewhere(session: Session, place: &Elsewhere) -> anyhow::Result<Session> {
    let Some(url) = &place.engine else { return Ok(session) };
    let engine = match url.split_once("://") {
        Some(("ballista", _)) => on_cluster(url)?,
        Some(("postgres" | "postgresql", _)) => in_database(url)?,
        _ => {
            let message = "the URL of the engine begins neither with postgres:// nor with ballista://";
            return Err(odd_url(message.into(), "write postgres://user@host/database or ballista://127.0.0.1:50050"));
        }
    };
    Ok(session.with_engine(engine))
}

fn odd_url(message: String, hint: &str) -> anyhow::Error {
    Told { code: "engine-url", message, hint: hint.into() }.into()
}

#[cfg(feature = "postgres")]
fn in_database(url: &str) -> anyhow::Result<Box<dyn Engine>> {
    let engine = dither_postgres::PostgresEngine::new(url);
    Ok(Box::new(engine.map_err(|error| odd_url(error.to_string(), error.hint()))?))
}

#[cfg(not(feature = "postgres"))]
fn in_database(_: &str) -> anyhow::Result<Box<dyn Engine>> {
    let hint = "build one that does: cargo install --path crates/dither-cli --features postgres --locked";
    Err(Told { code: "no-postgres", message: "this build knows no PostgreSQL".into(), hint: hint.into() }.into())
}

#[cfg(feature = "cluster")]
fn on_cluster(url: &str) -> anyhow::Result<Box<dyn Engine>> {
    let engine = dither_ballista::BallistaEngine::new(url);
    Ok(Box::new(engine.map_err(|error| odd_url(error.to_string(), error.hint()))?))
}

#[cfg(not(feature = "cluster"))]
fn on_cluster(_: &str) -> anyhow::Result<Box<dyn Engine>> {
    cluster::absent()
}
