//! How long files are, and whether they are finished.

use super::Finding;
use super::code::words;
use super::tree::Tree;

/// Lines of a source file above which somebody should think of splitting it.
const SOFT: usize = 400;
/// Lines above which it is split.
const HARD: usize = 700;

/// Source files are short enough to be read in one sitting. Tests do not count.
pub fn length(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (source, code) in tree.code() {
        let lines = code.product().count();
        if lines > HARD {
            findings.push(Finding::fail(&source.path, format!("{lines} lines; the limit is {HARD}")));
        } else if lines > SOFT {
            findings.push(Finding::warn(&source.path, format!("{lines} lines; aim for {SOFT}")));
        }
    }
    findings
}

/// Nothing is left to be done or printed for debugging.
pub fn unfinished(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (source, code) in tree.code() {
        for (number, line) in code.lines.iter().enumerate() {
            for name in ["todo", "unimplemented", "dbg"] {
                if words(&line.text, name).any(|at| line.text[at + name.len()..].starts_with('!')) {
                    findings.push(Finding::fail(format!("{}:{}", source.path, number + 1), format!("{name}! is left")));
                }
            }
        }
    }
    findings
}

/// Tables lie in the examples and among the tests that read them. One anywhere else was left behind by a measurement.
pub fn tables(tree: &Tree) -> Vec<Finding> {
    let table = |path: &&String| [".csv", ".tsv", ".parquet", ".gz", ".zst"].iter().any(|end| path.ends_with(end));
    let stray = |path: &&String| !path.starts_with("examples/") && !path.contains("/tests/");
    let found = tree.paths.iter().filter(table).filter(stray);
    found.map(|path| Finding::fail(path, "a table outside of examples and tests")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Weight, failures};
    use super::*;

    #[test]
    fn long_files_are_found_and_tests_do_not_count() {
        let lines = |count: usize| "fn a() {}\n".repeat(count);
        let weights = |text: &str| {
            let found = length(&Tree::of(&[("crates/dither/src/a.rs", text)]));
            found.into_iter().map(|finding| finding.weight).collect::<Vec<_>>()
        };
        assert_eq!(weights(&lines(SOFT)), []);
        assert_eq!(weights(&lines(SOFT + 1)), [Weight::Warn]);
        assert_eq!(weights(&lines(HARD + 1)), [Weight::Fail]);
        assert_eq!(weights(&format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", lines(SOFT), lines(HARD))), []);
    }

    #[test]
    fn leftovers_are_found() {
        let text = "fn a() { todo!(\"later\") }\nfn b() { dbg!(1); }\n// todo!\nlet s = \"unimplemented!\";";
        assert_eq!(failures(unfinished, &Tree::of(&[("crates/dither/src/a.rs", text)])).len(), 2);
    }

    #[test]
    fn tables_that_were_left_behind_are_found() {
        let found = |path: &str| failures(tables, &Tree::of(&[(path, "")])).len();
        assert_eq!(["visits.csv", "crates/dither/a.parquet"].map(found), [1, 1]);
        assert_eq!(["examples/hospital/stays.csv.gz", "crates/dither/tests/a.csv", "README.md"].map(found), [0, 0, 0]);
    }
}
