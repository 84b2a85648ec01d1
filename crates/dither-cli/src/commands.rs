//! One verb, one file.

pub mod account;
pub mod calibrate;
pub mod init;
pub mod ledger;
pub mod plan;
pub mod profile;
pub mod query;
pub mod report;
pub mod train;

use dither::{Error, Session};
use dither_query::engine::LocalEngine;

use crate::args::Where;

/// The session of a policy, in the scope that was asked for.
fn session(policy: &std::path::Path, scope: Option<&str>) -> Result<Session, Error> {
    let session = Session::open(policy)?;
    match scope {
        Some(scope) => session.in_scope(scope),
        None => Ok(session),
    }
}

/// The session with the engine that was asked for.
fn placed(session: Session, place: &Where) -> Result<Session, Error> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    match place.memory {
        Some(bytes) => Ok(session.with_engine(Box::new(LocalEngine::with_memory(threads, bytes)?))),
        None => Ok(session),
    }
}
