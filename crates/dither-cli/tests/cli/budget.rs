//! What is charged in which scope, and what a budget refuses.

use std::fs;

use crate::{Clinic, POLICY, json, stderr, stdout};

#[test]
fn bg_04_ten_tenths_fit_one_and_the_eleventh_is_refused() {
    let clinic = Clinic::with("");
    for n in 0..10 {
        let output = clinic.query(&format!("SELECT COUNT(*) AS n{n} FROM visits"), &["--epsilon", "0.1"]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let eleventh = clinic.query("SELECT COUNT(*) AS n10 FROM visits", &["--epsilon", "0.1"]);
    assert!(!eleventh.status.success());
    assert!(stderr(&eleventh).contains("budget"), "{}", stderr(&eleventh));
    assert!(stdout(&eleventh).is_empty());
    let smallest = clinic.query("SELECT COUNT(*) AS n11 FROM visits", &["--epsilon", "1e-9"]);
    assert!(!smallest.status.success(), "bg_03: an exhausted budget admits nothing");
}

/// A table that breaks off behind its header: whoever reads a row of it fails, as the control does within the budget.
#[test]
fn tm_05_a_question_beyond_the_budget_is_refused_before_a_row_is_read() {
    let clinic = Clinic::with("");
    clinic.tear();
    let ask = |sql: &str, epsilon: &str| stderr(&clinic.query(sql, &["-e", epsilon]));
    for epsilon in ["0.6", "1.5"] {
        let refused = ask("SELECT COUNT(*) AS a FROM visits", epsilon);
        assert!(refused.starts_with("error[") && !refused.contains("engine-failed"), "{refused}");
    }
    for name in ["b", "c"] {
        assert!(ask(&format!("SELECT COUNT(*) AS {name} FROM visits"), "0.5").contains("engine-failed"), "the control");
    }
    let exhausted = ask("SELECT COUNT(*) AS d FROM visits", "0.000001");
    assert!(exhausted.contains("budget") && !exhausted.contains("engine-failed"), "{exhausted}");
}

#[test]
fn bg_08_and_bg_14_a_narrow_scope_charges_all_above_it() {
    let clinic = Clinic::with("");
    let ask = |n: u32, more: &[&str]| {
        clinic.query(&format!("SELECT COUNT(*) AS n{n} FROM visits"), &[&["-e", "0.2"], more].concat())
    };
    assert!(ask(0, &["--scope", "research"]).status.success());
    let second = ask(1, &["--scope", "research"]);
    assert!(!second.status.success() && stderr(&second).contains("clinic/research"), "{}", stderr(&second));
    let show = stdout(&clinic.run(&["ledger", "show", "-p", "policy.toml"]));
    assert!(show.contains("left ε 0.8") && show.contains("left ε 0.1"), "{show}");
    assert!(!ask(2, &["--scope", "nobody"]).status.success());
}

#[test]
fn bg_13_a_copy_of_the_table_under_another_name_shares_the_budget() {
    let clinic = Clinic::with("");
    fs::copy(clinic.path("visits.csv"), clinic.path("copy.csv")).unwrap();
    assert!(clinic.query("SELECT COUNT(*) AS a FROM visits AS v", &["-e", "0.5"]).status.success());
    clinic.write("policy.toml", &POLICY.replace("visits.csv", "copy.csv"));
    let output = json(&clinic.query("SELECT COUNT(*) AS b FROM visits", &["-e", "0.5", "-f", "json"]));
    assert_eq!(output["remaining"]["epsilon"], 0.0);
}

#[test]
fn bg_20_a_higher_budget_needs_two_stewards() {
    let clinic = Clinic::with("");
    assert!(clinic.query("SELECT COUNT(*) AS a FROM visits", &["-e", "0.5"]).status.success());
    clinic.write("policy.toml", &POLICY.replace("epsilon = 1\n", "epsilon = 2\n"));
    let refused = clinic.query("SELECT COUNT(*) AS b FROM visits", &["-e", "0.5"]);
    assert!(!refused.status.success() && stderr(&refused).contains("amend"), "{}", stderr(&refused));
    let amend = ["ledger", "amend", "-p", "policy.toml", "--steward", "Ada"];
    assert!(!clinic.run(&amend).status.success());
    let both = [&amend[..], &["--steward", "Grace"]].concat();
    assert!(stdout(&clinic.run(&both)).contains("clinic now has ε 2"));
    assert!(stdout(&clinic.run(&both)).contains("nothing to amend"));
    assert!(clinic.query("SELECT COUNT(*) AS b FROM visits", &["-e", "0.5"]).status.success());
}

#[test]
fn bg_19_a_key_names_one_question() {
    let clinic = Clinic::with("");
    let ask = |sql: &str| clinic.query(sql, &["-e", "0.2", "--key", "monday", "-f", "csv"]);
    let first = ask("SELECT COUNT(*) AS a FROM visits");
    assert_eq!(stdout(&first), stdout(&ask("SELECT COUNT(*) AS a FROM visits")));
    let other = ask("SELECT SUM(age) AS b FROM visits");
    assert!(!other.status.success() && stderr(&other).contains("monday"), "{}", stderr(&other));
}

#[test]
fn bg_11_the_charge_follows_from_the_question_alone() {
    let charged = |more: &str, sql: &str| {
        let answer = json(&Clinic::with(more).query(sql, &["-e", "0.25", "-d", "1e-7", "-f", "json"]));
        (answer["charged"].clone(), answer["remaining"].clone())
    };
    let many: String = (0..500).map(|n| format!("{},A,city{n},5,2026-01-01\n", 1000 + n)).collect();
    let whale: String = (0..5000).map(|n| format!("7,B,city{},99,\n", n % 300)).collect();
    for sql in [
        "SELECT city, COUNT(*) AS n FROM visits GROUP BY city",
        "SELECT ward, AVG(age) AS a FROM visits GROUP BY ward",
        "SELECT COUNT(*) AS n FROM visits WHERE age > 200",
    ] {
        let plain = charged("", sql);
        for more in [many.as_str(), whale.as_str(), "500,,,NaN,\n"] {
            assert_eq!(charged(more, sql), plain, "{sql}");
        }
    }
}

#[test]
fn bg_22_questions_about_disjoint_groups_are_charged_one_after_the_other() {
    let clinic = Clinic::with("");
    for (ward, left) in [("A", 0.7), ("B", 0.4)] {
        let sql = format!("SELECT COUNT(*) AS n FROM visits WHERE ward = '{ward}'");
        let answer = json(&clinic.query(&sql, &["-e", "0.3", "-f", "json"]));
        assert_eq!(answer["remaining"]["epsilon"], left);
    }
}

#[test]
fn who_is_protected_cannot_change_once_something_was_charged() {
    let clinic = Clinic::with("");
    assert!(clinic.query("SELECT COUNT(*) AS a FROM visits", &["-e", "0.1"]).status.success());
    for (old, new) in [
        ("source =", "neighbors = \"replace-unit\"\nsource ="),
        (
            "privacy_unit = { column = \"patient\" }\nmax_groups_per_unit = 2\nmax_rows_per_group = 3",
            "privacy_unit = \"row\"",
        ),
    ] {
        clinic.write("policy.toml", &POLICY.replace(old, new));
        let output = clinic.query("SELECT COUNT(*) AS b FROM visits", &["-e", "0.1"]);
        assert!(stderr(&output).contains("protection-changed"), "{}", stderr(&output));
    }
    clinic.write("policy.toml", POLICY);
    assert!(clinic.query("SELECT COUNT(*) AS b FROM visits", &["-e", "0.1"]).status.success());
}

#[test]
fn a_lower_limit_that_refuses_is_not_taken_over() {
    let clinic = Clinic::with("");
    assert!(clinic.query("SELECT COUNT(*) AS a FROM visits", &["-e", "0.5"]).status.success());
    clinic.write("policy.toml", &POLICY.replace("epsilon = 1\n", "epsilon = 0.6\n"));
    assert!(!clinic.query("SELECT COUNT(*) AS b FROM visits", &["-e", "0.2"]).status.success());
    clinic.write("policy.toml", POLICY);
    let output = clinic.query("SELECT COUNT(*) AS b FROM visits", &["-e", "0.2"]);
    assert!(output.status.success(), "{}", stderr(&output));
    clinic.write("policy.toml", &POLICY.replace("epsilon = 1\n", "epsilon = 0.9\n"));
    assert!(clinic.query("SELECT COUNT(*) AS c FROM visits", &["-e", "0.1"]).status.success());
    clinic.write("policy.toml", POLICY);
    let output = clinic.query("SELECT COUNT(*) AS d FROM visits", &["-e", "0.1"]);
    assert!(stderr(&output).contains("raise-needs-amendment"), "{}", stderr(&output));
}
