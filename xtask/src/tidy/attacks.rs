//! Every known attack has a state, and what is said to be covered has a test that carries its number.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::table::{quoted, rows};
use super::tree::Tree;

const DOCUMENT: &str = "docs/attack-vectors.md";

/// The states that the last column of a row begins with.
const STATES: [&str; 4] = ["covered", "partly", "later", "does not apply"];

/// Compares the table with the tests in the tree, both ways.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(DOCUMENT) else { return vec![Finding::fail(DOCUMENT, "is missing")] };
    let tests = tree.tests();
    let mut carried: BTreeMap<String, usize> = BTreeMap::new();
    for id in tests.iter().flat_map(|test| ids(test)) {
        *carried.entry(id).or_default() += 1;
    }
    let mut findings = Vec::new();
    let mut states: BTreeMap<String, (&str, bool)> = BTreeMap::new();
    for row in rows(text) {
        let place = format!("{DOCUMENT}:{}", row.line);
        let blocks = row.cells[0].ends_with('!');
        let id = row.cells[0].trim_end_matches('!').to_owned();
        let cell = row.cells.last().map(String::as_str).unwrap_or_default();
        let Some(state) = STATES.iter().find(|state| cell.starts_with(*state)) else {
            findings.push(Finding::fail(place, format!("{id} has no state; one of {}", STATES.join(", "))));
            continue;
        };
        let names: Vec<&str> = quoted(cell).collect();
        let tested = ["covered", "partly"].contains(state);
        for name in names.iter().filter(|name| tested && !tests.contains(*name) && !tree.paths.contains(**name)) {
            findings.push(Finding::fail(&place, format!("{id}: there is no test {name}")));
        }
        let own = names.iter().any(|name| ids(name).contains(&id) || name.contains('/'));
        if tested && !own {
            findings.push(Finding::fail(&place, format!("{id} is {state} by no test that carries its number")));
        }
        if let (false, Some(count)) = (tested, carried.get(&id)) {
            findings.push(Finding::warn(&place, format!("{id} has {count} tests now; say covered or partly")));
        }
        if states.insert(id.clone(), (state, blocks)).is_some() {
            findings.push(Finding::fail(&place, format!("{id} stands here twice")));
        }
    }
    for id in carried.keys().filter(|id| !states.contains_key(*id)) {
        findings.push(Finding::fail(DOCUMENT, format!("tests carry the number {id}, which the table lacks")));
    }
    findings.extend(summary(&states));
    findings
}

/// The numbers that the name of a test begins with: `bg_07_and_du_06_x` carries BG-07 and DU-06.
fn ids(test: &str) -> BTreeSet<String> {
    let parts: Vec<&str> = test.split('_').filter(|part| *part != "and").collect();
    let pairs = parts.chunks(2).take_while(|pair| {
        let [letters, digits] = pair else { return false };
        let group = letters.len() == 2 && letters.chars().all(|c| c.is_ascii_lowercase());
        group && digits.len() == 2 && digits.chars().all(|c| c.is_ascii_digit())
    });
    pairs.map(|pair| format!("{}-{}", pair[0].to_uppercase(), pair[1])).collect()
}

fn summary(states: &BTreeMap<String, (&str, bool)>) -> Vec<Finding> {
    let of = |wanted: &str| states.values().filter(|(state, _)| *state == wanted).count();
    let counts: Vec<String> = STATES.iter().map(|state| format!("{} {state}", of(state))).collect();
    let mut notes = vec![Finding::note(DOCUMENT, counts.join(", "))];
    for (blocks, about) in [(true, "block a release"), (false, "do not block one")] {
        let open = states.iter().filter(|(_, (state, here))| *state == "later" && *here == blocks);
        let open: Vec<&str> = open.map(|(id, _)| id.as_str()).collect();
        if !open.is_empty() {
            notes.push(Finding::note(DOCUMENT, format!("without a test, which {about}: {}", open.join(" "))));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::super::{Weight, failures};
    use super::*;

    const CODE: (&str, &str) = ("crates/a/src/a.rs", "#[test]\nfn fp_01_holds() {}\n#[test]\nfn bg_07_du_06_both() {}");

    fn tree(rows: &[(&str, &str)]) -> Tree {
        let mut text = String::from("| id | attack | state |\n|---|---|---|\n");
        for (id, state) in rows {
            text.push_str(&format!("| {id} | x | {state} |\n"));
        }
        Tree::of(&[CODE, (DOCUMENT, &text)])
    }

    const GOOD: [(&str, &str); 4] = [
        ("FP-01!", "covered: `fp_01_holds`"),
        ("BG-07", "partly: `bg_07_du_06_both`; processes later"),
        ("DU-06", "covered: `bg_07_du_06_both`"),
        ("TM-01", "later (server)"),
    ];

    #[test]
    fn a_true_table_passes() {
        assert_eq!(failures(check, &tree(&GOOD)), Vec::<String>::new());
    }

    #[test]
    fn false_claims_are_found() {
        for (row, bad) in [
            (0, ("FP-01!", "covered")),
            (0, ("FP-01!", "covered: `fp_01_gone`, `fp_01_holds`")),
            (0, ("FP-01!", "covered: `bg_07_du_06_both`")),
            (0, ("FP-01!", "")),
            (0, ("FP-02!", "later")),
            (3, ("DU-06", "covered: `bg_07_du_06_both`")),
        ] {
            let mut rows = GOOD;
            rows[row] = bad;
            assert!(!failures(check, &tree(&rows)).is_empty(), "{bad:?}");
        }
    }

    #[test]
    fn a_new_test_is_noticed() {
        let mut rows = GOOD;
        rows[0].1 = "later";
        assert!(check(&tree(&rows)).iter().any(|finding| finding.weight == Weight::Warn));
    }

    #[test]
    fn numbers_are_read_from_names() {
        assert_eq!(ids("bg_07_du_06_control_x"), ["BG-07".to_owned(), "DU-06".to_owned()].into());
        assert_eq!(ids("sq_09_and_sq_10_x"), ["SQ-09".to_owned(), "SQ-10".to_owned()].into());
        assert!(ids("a_07_b").is_empty() && ids("the_end").is_empty());
    }
}
