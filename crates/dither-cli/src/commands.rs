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
    match &place.engine {
        Some(url) if url.starts_with("ballista://") => Ok(session.with_engine(on_cluster(url)?)),
        Some(url) => Ok(session.with_engine(in_database(url)?)),
        None => Ok(session),
    }
}

#[cfg(feature = "postgres")]
fn in_database(url: &str) -> anyhow::Result<Box<dyn Engine>> {
    Ok(Box::new(dither_postgres::PostgresEngine::new(url)?))
}

#[cfg(not(feature = "postgres"))]
fn in_database(_: &str) -> anyhow::Result<Box<dyn Engine>> {
    anyhow::bail!("this build knows no PostgreSQL; build it with the feature `postgres`")
}

#[cfg(feature = "cluster")]
fn on_cluster(url: &str) -> anyhow::Result<Box<dyn Engine>> {
    Ok(Box::new(dither_ballista::BallistaEngine::new(url)?))
}

#[cfg(not(feature = "cluster"))]
fn on_cluster(_: &str) -> anyhow::Result<Box<dyn Engine>> {
    cluster::absent()
}
