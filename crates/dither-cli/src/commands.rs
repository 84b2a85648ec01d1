//! One verb, one file.

pub mod account;
pub mod calibrate;
pub mod init;
pub mod ledger;
pub mod plan;
pub mod query;
pub mod report;

use dither::{Error, Session};

/// The session of a policy, in the scope that was asked for.
fn session(policy: &std::path::Path, scope: Option<&str>) -> Result<Session, Error> {
    let session = Session::open(policy)?;
    match scope {
        Some(scope) => session.in_scope(scope),
        None => Ok(session),
    }
}
