//! How an error looks: code, clause with caret, hint.

use std::fmt;

use dither::{Error, Explain};
use dither_accounting::AccountingError;
use dither_core::Audience;
use dither_learn::train::error::TrainError;

use crate::output::tell;

/// What is wrong with what was typed, or with this build of the program.
#[derive(Debug)]
pub struct Told {
    pub code: &'static str,
    pub message: String,
    pub hint: String,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Told {}

impl Explain for Told {
    fn code(&self) -> &'static str {
        self.code
    }
    fn hint(&self) -> Option<String> {
        Some(self.hint.clone())
    }
    fn audience(&self) -> Audience {
        Audience::Analyst
    }
}

/// Prints an error to the terminal. What may depend on the data goes to the operator's log instead.
pub fn print(error: &anyhow::Error) {
    let Some(known) = error.downcast_ref::<Error>() else {
        if let Some(known) = error.downcast_ref::<TrainError>() {
            explain(known);
            known.operator_detail().into_iter().for_each(log);
        } else if let Some(known) = error.downcast_ref::<AccountingError>() {
            explain(known);
        } else if let Some(known) = error.downcast_ref::<Told>() {
            explain(known);
        } else {
            tell(&format!("error: {}", shown(&format!("{error:#}"))));
        }
        return;
    };
    tell(&format!("error[{}]: {}", known.code(), shown(&known.to_string())));
    if let Error::Refused { refusal, sql } = known
        && let Some(pointer) = refusal.pointer(sql)
    {
        tell(&shown(&pointer));
    }
    if let Some(hint) = known.hint() {
        tell(&format!("hint: {}", shown(&hint)));
    }
    if let Error::Engine(failure) = known {
        log(&failure.operator_detail());
    }
}

/// An error that has no place in a text.
fn explain(error: &impl Explain) {
    tell(&format!("error[{}]: {}", error.code(), shown(&error.to_string())));
    if let Some(hint) = error.hint() {
        tell(&format!("hint: {}", shown(&hint)));
    }
}

/// Appends what failed to the file that `DITHER_OPERATOR_LOG` names; without one, nothing is kept.
pub fn log(detail: &str) {
    use std::io::Write;
    let Some(path) = std::env::var_os("DITHER_OPERATOR_LOG") else { return };
    let line = format!("{} {}\n", chrono::Utc::now().format("%Y-%m-%dT%H:%M:%SZ"), detail);
    let written = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    if written.is_err() {
        tell("warning: the operator's log could not be written");
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
