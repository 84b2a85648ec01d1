//! Whose a row is, and in which order groups come.

use crate::{Clinic, json};

const GENEROUS: &str = r#"
dataset = "clinic"
[budget]
epsilon = 1000
delta = 1e-6
[tables.visits]
source = "visits.csv"
privacy_unit = { column = "patient" }
max_groups_per_unit = 100
max_rows_per_group = 1
[tables.visits.columns]
patient = { type = "text" }
ward = { type = "text" }
"#;

#[test]
fn sq_24_an_open_quote_takes_in_nobody_else() {
    let others: String = (200..300).map(|n| format!("{n},A,X,30,2026-01-01\n")).collect();
    let count = |row: &str| {
        let clinic = Clinic::new(&format!("{row}{others}"));
        let answer = json(&clinic.query("SELECT COUNT(*) AS n FROM visits", &["-e", "0.5", "-f", "json"]));
        answer["rows"][0]["n"]["value"].as_f64().unwrap()
    };
    // Noise of scale 6 exceeds 80 with probability below 2e-6.
    assert!(count("7,A,\"open,30,2026-01-01\n") > 20.0);
}

#[test]
fn sq_22_one_person_under_many_spellings_is_one_unit() {
    let count = |spellings: &[&str]| {
        let rows: String = spellings.iter().map(|patient| format!("{patient},A\n")).collect();
        let clinic = Clinic::new("");
        clinic.write("visits.csv", &format!("patient,ward\n{rows}"));
        clinic.write("policy.toml", GENEROUS);
        let sql = "SELECT COUNT(*) AS n FROM visits";
        json(&clinic.query(sql, &["-e", "200", "-f", "json"]))["rows"][0]["n"]["value"].as_f64().unwrap()
    };
    // With ε = 200 the noise is zero but once in 10^86 draws.
    assert_eq!(count(&["bob", "bob ", "BOB", "Bob", "\" bob\"", "bOB"]), 1.0);
    assert_eq!(count(&["ГОША", "гоша", "Éva", "éva"]), 2.0);
    assert_eq!(count(&["bob", "ann", ""]), 2.0, "people are told apart, and nobody is dropped");
}

#[test]
fn sq_27_keys_come_in_one_order_whatever_that_of_the_rows() {
    let mut rows: Vec<String> =
        (0..2_000).map(|n| format!("p{n},{}\n", ["K", "a", "B", "中", "z", "Ä", "10", "9"][n % 8])).collect();
    let order = |rows: &[String]| {
        let clinic = Clinic::new("");
        clinic.write("visits.csv", &format!("patient,ward\n{}", rows.concat()));
        clinic.write("policy.toml", GENEROUS);
        let sql = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward";
        let answer = json(&clinic.query(sql, &["-e", "100", "--delta", "1e-6", "-f", "json"]));
        let keys: Vec<String> = answer["rows"].as_array().unwrap().iter().map(|row| row["ward"].to_string()).collect();
        assert_eq!(keys.len(), 8);
        keys
    };
    let forwards = order(&rows);
    rows.reverse();
    assert_eq!(order(&rows), forwards);
    rows.sort();
    assert_eq!(order(&rows), forwards);
}
