//! `dither profile`, as it is typed.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may fail like tests")]

use std::process::{Command, Output};

struct Clinic(tempfile::TempDir);

impl Clinic {
    fn new() -> Self {
        let clinic = Self(tempfile::tempdir().unwrap());
        let rows: String = (0..4_000).map(|n| format!("{n},{},{}\n", ["Rome", "Oslo"][n % 2], 20 + n % 50)).collect();
        std::fs::write(clinic.0.path().join("visits.csv"), format!("patient,city,age\n{rows}")).unwrap();
        let policy = r#"
            dataset = "clinic"
            [budget]
            epsilon = 3
            delta = 1e-5
            max_epsilon_per_query = 1.7
            [tables.visits]
            source = "visits.csv"
            privacy_unit = { column = "patient" }
            max_groups_per_unit = 1
            max_rows_per_group = 1
            [tables.visits.columns]
            patient = { type = "integer" }
            city = { type = "text" }
            age = { type = "integer" }
        "#;
        std::fs::write(clinic.0.path().join("policy.toml"), policy).unwrap();
        clinic
    }

    fn run(&self, args: &[&str]) -> Output {
        let args = [&["profile", "visits", "-p", "policy.toml"], args].concat();
        Command::new(env!("CARGO_BIN_EXE_dither")).current_dir(self.0.path()).args(args).output().unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_profile_is_planned_made_and_repeated_for_free() {
    let clinic = Clinic::new();
    let plan = clinic.run(&["-e", "1.5", "-d", "1e-6", "--plan"]);
    let shown = text(&plan.stdout);
    assert!(plan.status.success(), "{}", text(&plan.stderr));
    for part in [
        "rows and units",
        "age: range and quartiles",
        "city: the most frequent values",
        "rows of rank",
        "groups come from the data",
        "the whole profile costs ε 1.5, δ 1e-6",
        "left then  ε 1.5, δ 9e-6",
    ] {
        assert!(shown.contains(part), "{part:?} is not in\n{shown}");
    }
    assert!(!clinic.0.path().join("ledger.db").exists(), "a plan charges nothing");
    let made = clinic.run(&["-e", "1.5", "-d", "1e-6"]);
    let shown = text(&made.stdout);
    assert!(made.status.success(), "{}", text(&made.stderr));
    for part in
        ["visits: ", "age (integer)", "quartiles  ", "Rome ", "[tables.visits.columns]", "charged ε 1.5, δ 1e-6"]
    {
        assert!(shown.contains(part), "{part:?} is not in\n{shown}");
    }
    let again = text(&clinic.run(&["-e", "1.5", "-d", "1e-6"]).stdout);
    assert!(again.contains("charged nothing: this was made before") && again.contains("left ε 1.5, δ 9e-6"), "{again}");
    let json = clinic.run(&["-e", "1.5", "-d", "1e-6", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["columns"][0]["name"], "age");
    assert_eq!(json["columns"][0]["quantiles"].as_array().unwrap().len(), 5);
    assert!(shown.contains("range      ") && shown.contains("bounds = ["), "{shown}");
    assert_eq!(json["charged"]["epsilon"], 1.5);
}

#[test]
fn what_a_profile_may_not_cost_is_refused() {
    let clinic = Clinic::new();
    for (args, code) in [
        (&["-e", "3.5", "-d", "1e-6"][..], "budget-exceeded"),
        (&["-e", "2.7", "--columns", "city"], "epsilon-over-cap"),
        (&["-e", "1", "--columns", "name"], "unknown-column"),
    ] {
        let refused = clinic.run(args);
        let shown = text(&refused.stderr);
        assert!(!refused.status.success() && shown.contains(&format!("error[{code}]")), "{args:?}: {shown}");
        assert!(shown.contains("hint:"), "{shown}");
    }
}

/// Where ranks are off by more than a quarter of the rows nothing is said about them, but what would do; the control is the
/// profile above, which says where the same values lie.
#[test]
fn what_the_budget_cannot_tell_is_not_told() {
    let clinic = Clinic::new();
    let made = text(&clinic.run(&["-e", "0.02"]).stdout);
    for part in [
        "quartiles  cannot be told at this ε: ranks are off by ",
        " would do, or fewer --columns",
        "at most ",
        "No bounds are suggested",
    ] {
        assert!(made.contains(part), "{part:?} is not in\n{made}");
    }
    assert!(!made.contains("range  ") && !made.contains("bounds = ["), "{made}");
    let json = clinic.run(&["-e", "0.02", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let age = &json["columns"][0];
    assert!(age["quantiles"].is_null() && age["rank_error"].as_f64().unwrap() > 1_000.0, "{age}");
    if age["values"]["low"].as_f64().unwrap() > 0.0 {
        assert!(age["needed_epsilon"].as_f64().unwrap() > 0.02, "{age}");
    }
    // No count is below zero, and none is exact.
    for count in [&age["values"], &age["distinct"], &json["columns"][1]["distinct"], &json["rows"]] {
        let number = |end: &str| count[end].as_f64().unwrap();
        assert!(number("value") >= 0.0 && number("low") >= 0.0 && number("high") > number("value"), "{count}");
    }
}
