//! Who may depend on whom.

use serde_json::Value;

use super::Finding;
use super::code::words;
use super::tree::Tree;

/// Every crate with the crates of ours that it may depend on, from the vocabulary to the binary.
const LAYERS: &[(&str, &[&str])] = &[
    ("dither-core", &[]),
    ("dither-chacha", &[]),
    ("dither-bounding", &["dither-core", "dither-chacha"]),
    ("dither-noise", &["dither-core", "dither-chacha"]),
    ("dither-accounting", &["dither-core"]),
    ("dither-mechanisms", &["dither-core", "dither-noise"]),
    ("dither-federated", &[CORE, NOISE, "dither-accounting"]),
    ("dither-ledger", &["dither-core", "dither-accounting"]),
    ("dither-learn", &[CORE, NOISE, "dither-accounting", MECHANISMS, "dither-federated", "dither-ledger"]),
    ("dither-query", &[CORE, "dither-bounding", NOISE, "dither-accounting", MECHANISMS]),
    ("dither-postgres", &[CORE, "dither-query"]),
    ("dither-ballista", &["dither-query"]),
    ("dither-report", &["dither-core"]),
    ("dither", &[CORE, NOISE, "dither-accounting", MECHANISMS, "dither-ledger", "dither-query", "dither-report"]),
    (
        "dither-cli",
        &[
            CORE,
            "dither-accounting",
            "dither-ledger",
            "dither-learn",
            "dither-query",
            "dither-postgres",
            "dither-ballista",
            "dither-report",
            "dither",
        ],
    ),
    (TESTING, &[]),
];

const CORE: &str = "dither-core";
const NOISE: &str = "dither-noise";
const MECHANISMS: &str = "dither-mechanisms";
const TESTING: &str = "dither-testing";

/// Packages that ship nothing and may use everything.
const FREE: [&str; 2] = ["dither-bench", "xtask"];

/// Names that only these crates may know: the one that wraps them, and the engines that are given its plans.
const CONFINED: &[(&str, &[&str])] = &[
    ("datafusion", &["dither-query", "dither-postgres", "dither-ballista"]),
    ("ballista", &["dither-ballista"]),
    ("arrow", &["dither-query"]),
    ("parquet", &["dither-query"]),
    ("sqlparser", &["dither-query"]),
    ("sqlx", &["dither-ledger", "dither-postgres"]),
    ("maud", &["dither-report"]),
    ("faer", &["dither-learn"]),
    ("safetensors", &["dither-learn"]),
    ("fhe", &["dither-federated"]),
];

/// Crates without runtime, storage and clock.
const PURE: [&str; 5] = [CORE, NOISE, "dither-accounting", MECHANISMS, "dither-federated"];
/// What they must not name.
const IMPURE: [&str; 12] = [
    "tokio",
    "async_std",
    "futures",
    "sqlx",
    "datafusion",
    "arrow",
    "chrono",
    "std::fs",
    "std::net",
    "std::time",
    "std::env",
    "std::process",
];

/// Each crate depends only on crates above it; test fixtures are for tests.
pub fn edges(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (package, dependency, kind) in dependencies(tree).filter(|(_, name, _)| is_ours(tree, name)) {
        let place = format!("{package} -> {dependency}");
        let Some((_, above)) = LAYERS.iter().find(|(name, _)| *name == package) else { continue };
        match kind {
            Some("dev") if dependency == TESTING => {}
            _ if dependency == TESTING => findings.push(Finding::fail(place, "test fixtures are a dev-dependency")),
            _ if !above.contains(&dependency) => {
                let allowed = if above.is_empty() { "none".to_owned() } else { above.join(", ") };
                findings.push(Finding::fail(place, format!("not an edge of the layers; allowed: {allowed}")));
            }
            _ => {}
        }
    }
    for package in packages(tree).filter(|name| !FREE.contains(name)) {
        if !LAYERS.iter().any(|(name, _)| *name == package) {
            findings.push(Finding::fail(package, "the crate has no place in the layers (xtask/src/tidy/layers.rs)"));
        }
    }
    findings
}

/// Heavy crates stop at the crate that wraps them.
pub fn confined(tree: &Tree) -> Vec<Finding> {
    let homes = |name: &str| CONFINED.iter().find(|(heavy, _)| begins_with_word(name, heavy)).map(|(_, homes)| *homes);
    let mut findings = Vec::new();
    for (package, dependency, _) in dependencies(tree).filter(|(package, ..)| !FREE.contains(package)) {
        if let Some(homes) = homes(dependency).filter(|homes| !homes.contains(&package)) {
            let message = format!("only {} may know it", homes.join(", "));
            findings.push(Finding::fail(format!("{package} -> {dependency}"), message));
        }
    }
    for (source, code) in tree.code().filter(|(source, _)| !FREE.contains(&source.package())) {
        for (number, line) in code.lines.iter().enumerate() {
            for (heavy, homes) in CONFINED.iter().filter(|(_, homes)| !homes.contains(&source.package())) {
                if names_crate(&line.text, heavy) {
                    let place = format!("{}:{}", source.path, number + 1);
                    findings.push(Finding::fail(place, format!("names {heavy}; only {} may", homes.join(", "))));
                }
            }
        }
    }
    findings
}

/// Core, noise, accounting, mechanisms and federated know no async runtime, no storage and no clock.
pub fn pure(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (package, dependency, kind) in dependencies(tree) {
        let impure = IMPURE.iter().any(|name| begins_with_word(dependency, name));
        if impure && kind.is_none() && PURE.contains(&package) {
            findings.push(Finding::fail(format!("{package} -> {dependency}"), "no runtime, storage or clock here"));
        }
    }
    for (source, code) in tree.code().filter(|(source, _)| PURE.contains(&source.package())) {
        for (number, line) in code.product() {
            for name in IMPURE.iter().filter(|name| names_crate(line, name)) {
                let place = format!("{}:{number}", source.path);
                findings.push(Finding::fail(place, format!("names {name}; no runtime, storage or clock here")));
            }
        }
    }
    findings
}

/// Whether a line names a crate or a module: in a path, or in an import.
fn names_crate(line: &str, name: &str) -> bool {
    let grouped =
        name.strip_prefix("std::").is_some_and(|part| line.contains("std::{") && words(line, part).count() > 0);
    if grouped {
        return true;
    }
    words(line, name).any(|at| {
        let (before, after) = (&line[..at], &line[at + name.len()..]);
        // `parquet::write` names a crate; `export::parquet(..)` names a function.
        after.starts_with("::") && !before.ends_with("::") || before.trim_end().ends_with("use")
    }) || line.trim_start().starts_with(&format!("use {name}_"))
}

/// `arrow-schema` begins with the word `arrow`, `arrows` does not.
fn begins_with_word(name: &str, word: &str) -> bool {
    name.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
}

fn packages(tree: &Tree) -> impl Iterator<Item = &str> {
    array(&tree.metadata["packages"]).filter_map(|package| package["name"].as_str())
}

fn is_ours(tree: &Tree, name: &str) -> bool {
    packages(tree).any(|package| package == name)
}

/// Package, dependency and kind, where no kind is the usual one.
fn dependencies(tree: &Tree) -> impl Iterator<Item = (&str, &str, Option<&str>)> {
    array(&tree.metadata["packages"]).flat_map(|package| {
        let name = package["name"].as_str().unwrap_or_default();
        array(&package["dependencies"])
            .map(move |edge| (name, edge["name"].as_str().unwrap_or_default(), edge["kind"].as_str()))
    })
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::failures;
    use super::*;

    /// A workspace of one edge.
    fn edge(from: &str, to: &str, kind: Option<&str>) -> Tree {
        let metadata = json!({ "packages": [
            { "name": from, "dependencies": [{ "name": to, "kind": kind }] },
            { "name": to, "dependencies": [] },
        ] });
        Tree { metadata, ..Tree::default() }
    }

    #[test]
    fn edges_upwards_are_allowed_and_no_others() {
        for (from, to, kind) in [
            ("dither-noise", "dither-core", None),
            ("dither-noise", TESTING, Some("dev")),
            ("dither-bench", "dither-query", None),
            ("dither-cli", "dither", None),
        ] {
            assert!(failures(edges, &edge(from, to, kind)).is_empty(), "{from} -> {to}");
        }
        for (from, to, kind) in [
            ("dither-core", "dither-noise", None),
            ("dither-accounting", "dither-noise", None),
            ("dither-noise", "dither-query", Some("dev")),
            ("dither-report", "dither-ledger", None),
            ("dither-noise", TESTING, None),
            ("dither-core", "dither-new", Some("build")),
        ] {
            assert!(!failures(edges, &edge(from, to, kind)).is_empty(), "{from} -> {to}");
        }
    }

    #[test]
    fn a_crate_without_a_place_is_found() {
        assert_eq!(failures(edges, &edge("dither-new", "libm", None)).len(), 2);
        assert_eq!(failures(edges, &edge("dither-unknown", "libm", None)).len(), 2);
    }

    #[test]
    fn heavy_crates_stay_where_they_are_wrapped() {
        assert!(failures(confined, &edge("dither-query", "datafusion", None)).is_empty());
        assert_eq!(failures(confined, &edge("dither", "datafusion-expr", None)).len(), 1);
        let leak = "pub fn f(x: datafusion::Expr) {}\nuse sqlx;\nlet arrows = 1;\n// maud::html\nx::parquet(1)";
        let found = failures(confined, &Tree::of(&[("crates/dither-report/src/a.rs", leak)]));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(failures(confined, &Tree::of(&[("benches/src/a.rs", leak)])).is_empty());
    }

    #[test]
    fn pure_crates_have_no_runtime_and_no_clock() {
        assert_eq!(failures(pure, &edge("dither-core", "tokio", None)).len(), 1);
        let clock = "use std::time::Instant;\nfn f() { std::fs::read(1); }\nuse std::{fmt, env};\n#[cfg(test)]\nmod t {\n use std::env;\n}";
        assert_eq!(failures(pure, &Tree::of(&[("crates/dither-noise/src/a.rs", clock)])).len(), 3);
        assert!(failures(pure, &Tree::of(&[("crates/dither-ledger/src/a.rs", clock)])).is_empty());
    }
}
