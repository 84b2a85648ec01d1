//! How an error looks: code, clause with caret, hint.

use dither::{Error, Explain};
use dither_accounting::AccountingError;
use dither_learn::train::error::TrainError;

/// Prints an error to the terminal. What may depend on the data goes to the operator's log instead.
pub fn print(error: &anyhow::Error) {
    let Some(known) = error.downcast_ref::<Error>() else {
        if let Some(known) = error.downcast_ref::<TrainError>() {
            explain(known);
            known.operator_detail().into_iter().for_each(log);
        } else if let Some(known) = error.downcast_ref::<AccountingError>() {
            explain(known);
        } else {
            eprintln!("error: {}", shown(&format!("{error:#}")));
        }
        return;
    };
    eprintln!("error[{}]: {}", known.code(), shown(&known.to_string()));
    if let Error::Refused { refusal, sql } = known
        && let Some(pointer) = refusal.pointer(sql)
    {
        eprintln!("{}", shown(&pointer));
    }
    if let Some(hint) = known.hint() {
        eprintln!("hint: {}", shown(&hint));
    }
    if let Error::Engine(failure) = known {
        log(&failure.operator_detail());
    }
}

/// An error that has no place in a text.
fn explain(error: &impl Explain) {
    eprintln!("error[{}]: {}", error.code(), shown(&error.to_string()));
    if let Some(hint) = error.hint() {
        eprintln!("hint: {}", shown(&hint));
    }
}

/// Appends what failed to the file that `DITHER_OPERATOR_LOG` names; without one, nothing is kept.
fn log(detail: &str) {
    use std::io::Write;
    let Some(path) = std::env::var_os("DITHER_OPERATOR_LOG") else { return };
    let line = format!("{} {}\n", chrono::Utc::now().format("%Y-%m-%dT%H:%M:%SZ"), detail);
    let written = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    if written.is_err() {
        eprintln!("warning: the operator's log could not be written");
    }
}

/// A text that cannot steer the terminal: names, questions and policies may hold anything. A tab is one cell wide, as the
/// caret below it counts.
fn shown(text: &str) -> String {
    let safe = |c: char| match c {
        '\n' => '\n',
        '\t' => ' ',
        c if c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
        {
            '\u{fffd}'
        }
        c => c,
    };
    text.chars().map(safe).collect()
}
