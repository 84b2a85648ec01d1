//! The gate stays small: who may call what could break the guarantee.

use super::Finding;
use super::code::words;
use super::tree::{Source, Tree};

/// The dangerous functions of `dither-core` and `dither-noise`, and the only crate that may call each.
const HAZMAT: &[(&str, &str)] = &[
    ("reveal", "dither-mechanisms"),
    ("mint_charge", "dither-ledger"),
    ("open", "dither-ledger"),
    ("release", "dither-ledger"),
    ("key_bytes", "dither-learn"),
    ("restore_key", "dither-learn"),
];

/// Where `dither-noise` has its module of them.
const NOISE_MODULE: &str = "crates/dither-noise/src/lib.rs";

/// Crates that ship nothing.
const FREE: [&str; 2] = ["dither-bench", "xtask"];

/// Only the named crates call the functions of the two modules `hazmat`, and they write the name in full.
pub fn hazmat(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (source, number, line) in product(tree) {
        for at in words(line, "hazmat") {
            if let Err(message) = allowed(source.package(), &line[at + "hazmat".len()..]) {
                findings.push(Finding::fail(format!("{}:{number}", source.path), message));
            }
        }
    }
    findings
}

/// Only `dither-mechanisms` implements `Mechanism`.
pub fn mechanisms(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (source, number, line) in product(tree).filter(|(source, ..)| source.package() != "dither-mechanisms") {
        for at in words(line, "Mechanism") {
            let next = line[at + "Mechanism".len()..].split_whitespace().next();
            if matches!(next, Some("for" | "as")) {
                let place = format!("{}:{number}", source.path);
                findings.push(Finding::fail(place, "only dither-mechanisms implements Mechanism, under its own name"));
            }
        }
    }
    findings
}

/// Lines that ship, outside of the crate that defines the gate.
fn product(tree: &Tree) -> impl Iterator<Item = (&Source, usize, &str)> {
    let counts = |source: &Source| source.package() != "dither-core" && source.path != NOISE_MODULE;
    let code = tree.code().filter(move |(source, _)| counts(source) && !FREE.contains(&source.package()));
    code.flat_map(|(source, code)| code.product().map(move |(number, line)| (source, number, line)))
}

/// Whether a crate may write `hazmat` with this behind it.
fn allowed(package: &str, rest: &str) -> Result<(), String> {
    if !HAZMAT.iter().any(|(_, home)| *home == package) {
        return Err("hazmat is not for this crate".into());
    }
    let Some(name) = rest.strip_prefix("::") else {
        // An import of the module itself: `use dither_core::{.., hazmat};`.
        let ends = rest.trim_start().is_empty() || rest.trim_start().starts_with([',', '}', ';']);
        return if ends { Ok(()) } else { Err("hazmat keeps its name: import the module".into()) };
    };
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    match HAZMAT.iter().find(|(function, _)| *function == &name[..end]) {
        _ if !name[end..].starts_with(['(', ':']) => Err("call hazmat functions by their full name".into()),
        Some((_, home)) if *home == package => Ok(()),
        Some((function, home)) => Err(format!("only {home} may call hazmat::{function}")),
        None => Err(format!("hazmat::{} is not listed (xtask/src/tidy/gate.rs)", &name[..end])),
    }
}

#[cfg(test)]
mod tests {
    use super::super::failures;
    use super::*;

    fn found(package: &str, text: &str) -> usize {
        failures(hazmat, &Tree::of(&[(&format!("crates/{package}/src/a.rs"), text)])).len()
    }

    #[test]
    fn named_crates_may() {
        assert_eq!(found("dither-mechanisms", "use dither_core::{Key, hazmat};\nlet x = hazmat::reveal(y);"), 0);
        assert_eq!(found("dither-ledger", "use dither_core::hazmat;\nhazmat::release(hazmat::open(x).0, r);"), 0);
        assert_eq!(found("dither-query", "/// hazmat::reveal\n#[cfg(test)]\nmod t {\n use dither_core::hazmat;\n}"), 0);
    }

    #[test]
    fn others_and_other_ways_may_not() {
        for (package, text) in [
            ("dither-query", "let x = dither_core::hazmat::reveal(y);"),
            ("dither-mechanisms", "hazmat::mint_charge(a, b, c)"),
            ("dither-ledger", "hazmat::reveal(x)"),
            ("dither-mechanisms", "use dither_core::hazmat::reveal;"),
            ("dither-mechanisms", "use dither_core::hazmat::*;"),
            ("dither-mechanisms", "use dither_core::hazmat as h;"),
            ("dither-mechanisms", "use dither_core::hazmat::{reveal};"),
            ("dither-ledger", "hazmat::unsealed(x)"),
            ("dither-mechanisms", "dither_noise::hazmat::restore_key(x)"),
        ] {
            assert_eq!(found(package, text), 1, "{package}: {text}");
        }
    }

    #[test]
    fn only_one_crate_makes_mechanisms() {
        let text = "impl<T> dither_core::Mechanism for Leak<T> {";
        for (path, count) in [
            ("crates/dither-mechanisms/src/a.rs", 0),
            ("crates/dither-ledger/src/tests/a.rs", 0),
            ("crates/dither-query/src/a.rs", 1),
        ] {
            assert_eq!(failures(mechanisms, &Tree::of(&[(path, text)])).len(), count, "{path}");
        }
        let renamed = "use dither_core::Mechanism as M;";
        assert_eq!(failures(mechanisms, &Tree::of(&[("crates/dither/src/a.rs", renamed)])).len(), 1);
    }
}
