//! The lint of the repository: what must hold and the compiler does not check.
//!
//! Each rule is a function from the [`Tree`] to findings, and is tested on a small tree in which it must find
//! something.

mod attacks;
mod code;
mod documents;
mod files;
mod gate;
mod invariants;
mod layers;
mod table;
mod tree;

use std::fmt;

use anyhow::bail;

use tree::Tree;

/// Looks at the repository for one kind of fault.
type Rule = fn(&Tree) -> Vec<Finding>;

/// Every rule with its name.
const RULES: &[(&str, Rule)] = &[
    ("edges", layers::edges),
    ("confined", layers::confined),
    ("pure", layers::pure),
    ("hazmat", gate::hazmat),
    ("mechanisms", gate::mechanisms),
    ("length", files::length),
    ("unfinished", files::unfinished),
    ("tables", files::tables),
    ("paths", documents::paths),
    ("links", documents::links),
    ("invariants", invariants::check),
    ("attacks", attacks::check),
];

/// What a rule has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    weight: Weight,
    place: String,
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// The check fails.
    Fail,
    /// Somebody should look.
    Warn,
    /// A statement.
    Note,
}

impl Finding {
    fn fail(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { weight: Weight::Fail, place: place.into(), message: message.into() }
    }

    fn warn(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { weight: Weight::Warn, place: place.into(), message: message.into() }
    }

    fn note(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { weight: Weight::Note, place: place.into(), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.weight {
            Weight::Fail => "error",
            Weight::Warn => "warning",
            Weight::Note => "note",
        };
        write!(f, "{word}: {}: {}", self.place, self.message)
    }
}

/// Checks the repository and prints the findings.
pub fn run() -> anyhow::Result<()> {
    let tree = Tree::load()?;
    let mut failures = 0;
    for (name, rule) in RULES {
        for finding in rule(&tree) {
            println!("[{name}] {finding}");
            failures += usize::from(finding.weight == Weight::Fail);
        }
    }
    match failures {
        0 => println!("tidy: {} rules hold for {} files", RULES.len(), tree.sources.len()),
        _ => bail!("{failures} things are not tidy"),
    }
    Ok(())
}

/// The failures of a rule, as text, for tests.
#[cfg(test)]
fn failures(rule: Rule, tree: &Tree) -> Vec<String> {
    let fails = rule(tree).into_iter().filter(|finding| finding.weight == Weight::Fail);
    fails.map(|finding| format!("{}: {}", finding.place, finding.message)).collect()
}
