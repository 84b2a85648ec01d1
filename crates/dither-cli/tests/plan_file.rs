//! `dither plan --file`: several questions planned together.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may fail like tests")]

use std::process::{Command, Output};

struct Clinic(tempfile::TempDir);

impl Clinic {
    fn new(composition: &str) -> Self {
        let clinic = Self(tempfile::tempdir().unwrap());
        let rows: String = (0..200).map(|n| format!("{n},{}\n", n % 90)).collect();
        clinic.write("visits.csv", &format!("patient,age\n{rows}"));
        let policy = format!(
            r#"
            dataset = "clinic"
            [budget]
            epsilon = 2
            delta = 1e-5
            composition = "{composition}"
            [tables.visits]
            source = "visits.csv"
            privacy_unit = {{ column = "patient" }}
            max_groups_per_unit = 1
            max_rows_per_group = 1
            public = {{ rows = 200 }}
            [tables.visits.columns]
            patient = {{ type = "integer" }}
            age = {{ type = "integer", bounds = [0, 110], typical = 45 }}
            "#
        );
        clinic.write("policy.toml", &policy);
        clinic
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).unwrap();
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_dither")).current_dir(self.0.path()).args(args).output().unwrap()
    }

    fn plan(&self, questions: &str, more: &[&str]) -> serde_json::Value {
        self.write("questions.sql", questions);
        let args = [&["plan", "-p", "policy.toml", "--file", "questions.sql", "--json"], more].concat();
        let output = self.run(&args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const QUESTIONS: &str = "-- @title How many\n-- @epsilon 0.25\nSELECT COUNT(*) FROM visits;\n\
    -- @title How old\n-- @target-error 4\nSELECT AVG(age) FROM visits;\nSELECT SUM(age) FROM visits;";

#[test]
fn a_file_is_planned_as_a_whole_and_charges_nothing() {
    let clinic = Clinic::new("basic");
    let plan = clinic.plan(QUESTIONS, &["-e", "0.5"]);
    let cost = |index: usize| plan["questions"][index]["plan"]["epsilon"].as_f64().unwrap();
    assert_eq!((cost(0), cost(2)), (0.25, 0.5));
    // The smallest ε that meets the declared error: what it expects is at the target, and not far below.
    let expected = plan["questions"][1]["plan"]["outputs"][0]["expected_error"].as_f64().unwrap();
    assert!((3.9..=4.0).contains(&expected), "{expected}");
    let sum: f64 = (0..3).map(cost).sum();
    let apart = plan["apart"]["epsilon"].as_f64().unwrap();
    assert!((apart - sum).abs() < 1e-9);
    let after = plan["remaining_after"]["epsilon"].as_f64().unwrap();
    assert!((after - (2.0 - sum)).abs() < 1e-9, "{after} {sum}");
    assert!(plan["together"]["epsilon"].as_f64().unwrap() <= apart + 1e-9);
    assert!(!clinic.0.path().join("ledger.db").exists());
    let shown = clinic.run(&["plan", "-p", "policy.toml", "--file", "questions.sql", "-e", "0.5"]);
    let shown = text(&shown.stdout);
    for part in
        ["# How many", "# question 3", "expected error", "all 3, asked one by one", "all 3, as one report", "left then"]
    {
        assert!(shown.contains(part), "{part:?} is not in\n{shown}");
    }
}

/// What was asked before is free, in the file as well; what is asked twice in the file is charged once. The explanation is the
/// same before the answer and after it.
#[test]
fn what_was_answered_is_free_and_explained_as_before() {
    let clinic = Clinic::new("basic");
    let before = clinic.plan(QUESTIONS, &["-e", "0.5"]);
    assert!(clinic.run(&["query", "-p", "policy.toml", "SELECT COUNT(*) FROM visits", "-e", "0.25"]).status.success());
    let twice = format!("{QUESTIONS}\n-- @epsilon 0.25\nSELECT COUNT(*)  FROM visits;");
    let after = clinic.plan(&twice, &["-e", "0.5"]);
    let answered = |index: usize| after["questions"][index]["answered_before"].as_bool().unwrap();
    assert_eq!([0, 1, 2, 3].map(answered), [true, false, false, true]);
    assert_eq!(after["questions"][0]["plan"], before["questions"][0]["plan"]);
    let epsilon = |plan: &serde_json::Value| plan["apart"]["epsilon"].as_f64().unwrap();
    assert!((epsilon(&before) - epsilon(&after) - 0.25).abs() < 1e-9);
    let left = |plan: &serde_json::Value| plan["remaining_after"]["epsilon"].as_f64().unwrap();
    assert!((left(&before) - left(&after)).abs() < 1e-9, "the budget then is the same");
}

/// One by one, the ledger's own composition decides what is left, as it will when they are asked.
#[test]
fn what_is_left_then_is_what_the_ledger_leaves() {
    for composition in ["basic", "renyi"] {
        let clinic = Clinic::new(composition);
        let many = "SELECT COUNT(*) FROM visits; SELECT SUM(age) FROM visits; SELECT AVG(age) FROM visits;";
        let plan = clinic.plan(many, &["-e", "0.1"]);
        for sql in many.split(';').map(str::trim).filter(|sql| !sql.is_empty()) {
            let asked = clinic.run(&["query", "-p", "policy.toml", sql, "-e", "0.1"]);
            assert!(asked.status.success(), "{}", text(&asked.stderr));
        }
        let after = clinic.plan(many, &["-e", "0.1"]);
        assert_eq!(after["remaining"], plan["remaining_after"], "{composition}");
        assert_eq!(after["apart"]["epsilon"].as_f64(), Some(0.0));
    }
    let clinic = Clinic::new("basic");
    let plan = clinic.plan("SELECT COUNT(*) FROM visits; SELECT SUM(age) FROM visits;", &["-e", "1.5"]);
    assert!(plan["remaining_after"].is_null(), "{plan}");
}

#[test]
fn a_question_that_is_refused_is_named() {
    let clinic = Clinic::new("basic");
    for (questions, code, part) in [
        (
            "-- @epsilon 1\nSELECT COUNT(*) FROM visits;\n\n-- @epsilon 1\nSELECT COUNT(*),\n  nobody FROM visits;",
            "unknown-column",
            "question 2, line 5: ",
        ),
        (
            "-- @epsilon 1\nSELECT COUNT(*) FROM visits; -- @epsilon 1\nSELECT MODE(age)\nFROM visits",
            "unknown-function",
            "  3 | SELECT MODE(age)\n    |        ^^^^",
        ),
        ("-- @epsilon 1\nSELECT COUNT(*) FROM visits; SELECT * FROM visits;", "not-aggregated", "hint:"),
        ("SELECT 1;\n-- @espilon 1\nSELECT COUNT(*) FROM visits;", "option", "question 2, line 3: `@espilon 1`"),
        ("-- nothing", "syntax", "0 questions"),
        ("SELECT COUNT(*) FROM visits;", "missing-epsilon", "question 1, line 1: "),
    ] {
        clinic.write("questions.sql", questions);
        let refused = clinic.run(&["plan", "-p", "policy.toml", "--file", "questions.sql"]);
        let shown = text(&refused.stderr);
        assert!(!refused.status.success() && shown.contains(&format!("error[{code}]")), "{questions}: {shown}");
        assert!(shown.contains(part), "{shown}");
    }
}

#[test]
fn sv_10_a_huge_file_and_a_deep_question_are_refused_without_a_crash() {
    let clinic = Clinic::new("basic");
    let deep = |open: &str, inner: &str| format!("{}{inner}{}", open.repeat(1_000), ")".repeat(1_000));
    for question in [
        format!("SELECT COUNT(*) FROM visits WHERE age IN (1{})", ", 1".repeat(3_400_000)),
        format!("SELECT COUNT(*) FROM visits -- {}", "x".repeat(10_000_000)),
        format!("SELECT COUNT(*) FROM {}", deep("(SELECT * FROM ", "visits")),
        format!("SELECT COUNT(*) FROM visits WHERE {} > 1", deep("ABS(", "age")),
    ] {
        clinic.write("questions.sql", &format!("-- @epsilon 1\n{question};"));
        let refused = clinic.run(&["plan", "-p", "policy.toml", "--file", "questions.sql"]);
        let shown = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{question:.80}: {shown:.300}");
        assert!(shown.starts_with("error[") && shown.len() < 2_000, "{question:.80}: {shown:.300}");
    }
}

#[test]
fn intervals_for_sampling_are_planned_and_answered_in_columns_of_their_own() {
    let clinic = Clinic::new("basic");
    let sql = "SELECT AVG(age) AS mean, COUNT(*) AS n FROM visits";
    let plan = clinic.run(&["plan", "-p", "policy.toml", "-e", "0.6", "--sampling", sql]);
    let shown = text(&plan.stdout);
    for part in ["for how far samples differ", "sampling        ε 0, nothing more is measured for it"] {
        assert!(shown.contains(part), "{part} is not in:\n{shown}{}", text(&plan.stderr));
    }
    let without = text(&clinic.run(&["plan", "-p", "policy.toml", "-e", "0.6", sql]).stdout);
    assert!(!without.contains("sampling"), "{without}");
    let answer = clinic.run(&["query", "-p", "policy.toml", "-e", "0.6", "--sampling", "-f", "csv", sql]);
    let header = "mean,mean_low,mean_high,mean (with sampling),mean (with sampling)_low,mean (with sampling)_high,n,";
    assert!(text(&answer.stdout).starts_with(header), "{}{}", text(&answer.stdout), text(&answer.stderr));
    let planned = clinic.plan("-- @sampling\nSELECT AVG(age) FROM visits; SELECT AVG(age) FROM visits", &["-e", "0.2"]);
    let share = |index: usize| planned["questions"][index]["plan"]["outputs"][0]["sampling"].as_f64();
    // Less than half: a typical value that is small beside the range gives the mean more.
    assert!((0.05..0.1).contains(&share(0).unwrap()) && share(1).is_none(), "{:?}", share(0));
}

#[test]
fn a_plan_for_weeks_of_people_says_what_it_means_for_a_person() {
    let clinic = Clinic::new("basic");
    let policy = std::fs::read_to_string(clinic.0.path().join("policy.toml")).unwrap();
    let weeks = policy
        .replace("{ column = \"patient\" }", "{ column = \"patient\", per = \"week\", time = \"day\" }")
        .replace("age = {", "day = { type = \"date\" }\nage = {");
    clinic.write("policy.toml", &weeks);
    let plan = clinic.run(&["plan", "-p", "policy.toml", "-e", "0.5", "SELECT COUNT(*) FROM visits"]);
    let shown = text(&plan.stdout);
    for part in [
        "protects   the rows of one `patient` within one week, and not all rows of one `patient`, added or removed",
        "a person   with rows of any 31 days in a row, up to 6 units: ε 3",
        "a person   with rows of any 366 days in a row, up to 54 units: ε 27",
        "per `patient` and week",
    ] {
        assert!(shown.contains(part), "{part} is not in:\n{shown}{}", text(&plan.stderr));
    }
    // A report says it of each of its questions, and of all of them together.
    let question = |id: &str| {
        format!("[[question]]\nid = \"{id}\"\ntitle = \"{id}\"\nsql = \"SELECT COUNT(*) AS {id} FROM visits\"\n")
    };
    let head = "policy = \"policy.toml\"\ntitle = \"t\"\nbudget = { epsilon = 0.5, delta = 0 }\n";
    clinic.write("report.toml", &format!("{head}{}{}", question("a"), question("b")));
    let plan = clinic.run(&["report", "report.toml", "--plan"]);
    let shown = text(&plan.stdout);
    let (_, whole) = shown.split_once("the whole report costs ε 0.5\n").unwrap_or_else(|| panic!("{shown}"));
    assert!(whole.starts_with("a person   with rows of any 31 days in a row, up to 6 units: ε 3"), "{whole}");
    assert_eq!(shown.matches("of any 366 days").count(), 3, "{shown}");
}
