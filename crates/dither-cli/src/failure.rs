//! How an error looks: code, clause with caret, hint.

use dither::{Error, Explain};
use dither_query::engine::EngineError;

/// Prints an error to the terminal. What may depend on the data goes to the operator's log instead.
pub fn print(error: &anyhow::Error) {
    let Some(known) = error.downcast_ref::<Error>() else {
        eprintln!("error: {error:#}");
        return;
    };
    eprintln!("error[{}]: {known}", known.code());
    if let Error::Refused { refusal, sql } = known
        && let Some(pointer) = refusal.pointer(sql)
    {
        eprintln!("{pointer}");
    }
    if let Some(hint) = known.hint() {
        eprintln!("hint: {hint}");
    }
    if let Error::Engine(failure) = known {
        log(failure);
    }
}

/// Appends what failed to the file that `DITHER_OPERATOR_LOG` names; without one, nothing is kept.
fn log(failure: &EngineError) {
    use std::io::Write;
    let Some(path) = std::env::var_os("DITHER_OPERATOR_LOG") else { return };
    let line = format!("{} {}\n", chrono::Utc::now().format("%Y-%m-%dT%H:%M:%SZ"), failure.operator_detail());
    let written = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    if written.is_err() {
        eprintln!("warning: the operator's log could not be written");
    }
}
