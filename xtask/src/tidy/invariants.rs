//! Every invariant in the documents names tests that exist.

use super::table::{quoted, rows};
use super::tree::Tree;
use super::{Finding, RULES};

const DOCUMENT: &str = "docs/invariants.md";

/// The last column of a row names tests: a function, a file of code that must not compile, or a rule of `tidy`.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(DOCUMENT) else { return vec![Finding::fail(DOCUMENT, "is missing")] };
    let tests = tree.tests();
    let mut findings = Vec::new();
    let rows = rows(text);
    for row in &rows {
        let place = format!("{DOCUMENT}:{}", row.line);
        let names: Vec<&str> = row.cells.last().map(|cell| quoted(cell).collect()).unwrap_or_default();
        if names.is_empty() {
            findings.push(Finding::fail(&place, format!("invariant {} names no test", row.cells[0])));
        }
        for name in names {
            let known = match name.strip_prefix("tidy ") {
                Some(rule) => RULES.iter().any(|(name, _)| *name == rule),
                None if name.contains('/') => tree.text(name).is_some_and(|text| text.contains("```compile_fail")),
                None => tests.contains(name),
            };
            if !known {
                findings.push(Finding::fail(&place, format!("there is no test {name}")));
            }
        }
    }
    if rows.is_empty() {
        findings.push(Finding::fail(DOCUMENT, "lists no invariant"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::failures;
    use super::*;

    #[test]
    fn invariants_without_a_test_are_found() {
        let code = ("crates/dither/src/a.rs", "#[test]\nfn holds() {}\nfn helper() {}");
        let misuse = ("crates/dither/src/misuse.rs", "//! ```compile_fail\n//! ```");
        let found = |tests: &str| {
            let text = format!("| # | what | tests |\n|---|---|---|\n| 1 | it holds | {tests} |\n");
            failures(check, &Tree::of(&[code, misuse, (DOCUMENT, &text)])).len()
        };
        assert_eq!(found("`holds`, `crates/dither/src/misuse.rs`, `tidy hazmat`"), 0);
        for bad in ["", "holds", "`helper`", "`gone`", "`crates/dither/src/a.rs`", "`tidy nothing`"] {
            assert_eq!(found(bad), 1, "{bad}");
        }
        assert_eq!(failures(check, &Tree::of(&[code])).len(), 1);
    }
}
