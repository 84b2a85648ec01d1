//! Questions and answers.

use std::fs;

use crate::{Clinic, POLICY, json, shape, stderr, stdout};

#[test]
fn the_json_contract_holds() {
    let clinic = Clinic::with("");
    let answer = json(
        &clinic.query("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", &["--epsilon", "0.5", "-f", "json"]),
    );
    let rows = answer["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| row["ward"].as_str().unwrap()).collect::<Vec<_>>(), ["B", "A", "absent"]);
    for row in rows {
        let n = &row["n"];
        assert!(n["low"].as_f64() <= n["value"].as_f64() && n["value"].as_f64() <= n["high"].as_f64());
    }
    assert_eq!(answer["charged"], serde_json::json!({"epsilon": 0.5, "delta": 0.0}));
    assert_eq!(answer["remaining"]["epsilon"], 0.5);
    assert!(answer["receipt"].as_str().unwrap().contains(':'));
}

#[test]
fn sq_28_the_identical_question_is_answered_byte_for_byte_and_free() {
    let clinic = Clinic::with("");
    let ask = |sql: &str| clinic.query(sql, &["--epsilon", "0.1", "-f", "json"]);
    // All but what is said of the charge: whether it was before, and when.
    let given = |sql: &str| stdout(&ask(sql)).split_once(",\"free\":").unwrap().0.to_owned();
    let first = given("SELECT COUNT(*) AS n FROM visits");
    for _ in 0..20 {
        assert_eq!(given("SELECT COUNT(*) AS n FROM visits"), first);
    }
    // Spaces and case of keywords do not make another question.
    assert_eq!(given("select count( * ) as n\nfrom visits"), first);
    assert_eq!(json(&ask("SELECT COUNT(*) AS n FROM visits"))["remaining"]["epsilon"], 0.9);
    // Another question is charged, with another answer.
    assert_eq!(json(&ask("SELECT COUNT(*) AS m FROM visits"))["remaining"]["epsilon"], 0.8);
}

#[test]
fn sq_09_and_sq_10_one_odd_row_changes_neither_status_nor_schema_nor_charge() {
    let questions = [
        "SELECT SUM(1 / (age - 42), contribution_bounds_per_row => (-1, 1)) AS s FROM visits",
        "SELECT COUNT(*) AS n FROM visits WHERE CAST(city AS INT) > 5",
        "SELECT SUM(age * 9000000000000000000, contribution_bounds_per_row => (0, 10)) AS s FROM visits",
        "SELECT SUM(CAST(age * 1e300 AS BIGINT), contribution_bounds_per_row => (0, 10)) AS s FROM visits",
        "SELECT SUM(age / 0, contribution_bounds_per_row => (0, 10)) AS s FROM visits",
        "SELECT COUNT(*) AS n FROM visits WHERE date_trunc('month', day) > CAST('2026-01-01' AS DATE)",
        "SELECT COUNT(*) AS n FROM visits WHERE substr(city, 3, 2) = 'ab'",
        "SELECT ward, AVG(age) AS a FROM visits GROUP BY ward",
        "SELECT bucket(age, 18, 65) AS b, VAR_POP(age) AS v, MEDIAN(age) AS m, COUNT(DISTINCT day) AS d FROM visits \
         GROUP BY b",
    ];
    let odd_rows = [
        "500,A,Bob,42,2026-01-01\n",
        "500,A,N/A,N/A,not a day\n",
        "500,,,,\n",
        "500\n",
        "500,A,\"unterminated,42\n",
        "500,A,X,99999999999999999999999,9999999-99-99\n",
        "NaN,NaN,NaN,NaN,NaN\n",
        "500,A,X,-9223372036854775808,0000-00-00\n",
        "500,\u{fffd}\u{0}\u{1b}[31m,X,1e999,292277026596-12-04\n",
    ];
    for sql in questions {
        let plain = shape(&Clinic::with("").query(sql, &["--epsilon", "0.5", "-f", "json"]));
        for row in odd_rows {
            let odd = shape(&Clinic::with(row).query(sql, &["--epsilon", "0.5", "-f", "json"]));
            let normal = |text: &str| text.split("receipt").next().unwrap_or_default().to_owned();
            assert_eq!(normal(&plain), normal(&odd), "{sql}\n{row}");
        }
    }
}

#[test]
fn sq_07_nobody_matches_and_nobody_is_there() {
    for rows in ["", "1,A,X,5,2026-01-01\n"] {
        let clinic = Clinic::new(rows);
        let sum = json(
            &clinic
                .query("SELECT COUNT(*) AS n, AVG(age) AS a FROM visits WHERE age > 200", &["-e", "0.5", "-f", "json"]),
        );
        assert_eq!(sum["rows"].as_array().unwrap().len(), 1);
        assert!(sum["rows"][0]["n"]["value"].is_number());
        let mean = &sum["rows"][0]["a"];
        assert!(mean["value"].as_f64().is_some_and(|mean| (0.0..=110.0).contains(&mean)), "se_08: {mean}");
    }
}

#[test]
fn sq_24_and_sq_25_the_schema_is_declared_never_inferred() {
    let clinic = Clinic::with("");
    clinic.write("policy.toml", &POLICY.replace("bounds = [0, 110]", "bounds = \"auto\""));
    let output = clinic.query("SELECT AVG(age) FROM visits", &["-e", "0.1"]);
    assert!(!output.status.success() && stderr(&output).contains("hint"), "{}", stderr(&output));
    clinic.write("policy.toml", &POLICY.replace("age = {", "agee = {"));
    let output = clinic.query("SELECT AVG(agee) FROM visits", &["-e", "0.1"]);
    assert!(stderr(&output).contains("age"), "the nearest name is suggested: {}", stderr(&output));
    assert!(!clinic.path("ledger.db").exists(), "a wrong column is found before anything is charged");
}

#[test]
fn sq_06_absent_keys_get_noise_too() {
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..12 {
        let answer = json(
            &Clinic::with("")
                .query("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", &["-e", "0.1", "-f", "json"]),
        );
        seen.insert(answer["rows"][2]["n"]["value"].to_string());
    }
    assert!(seen.len() > 3, "{seen:?}");
}

#[test]
fn variances_and_quantiles_are_answered_in_every_public_group() {
    let clinic = Clinic::with("");
    let sql = "SELECT ward, VAR_POP(age) AS v, CORR(age, patient * 0 + age) AS r, MEDIAN(age) AS m, MIN(age) AS low, \
               MAX(age) AS high, COUNT(DISTINCT city) AS cities FROM visits GROUP BY ward";
    let refused = clinic.query(sql, &["-e", "0.1"]);
    assert!(stderr(&refused).contains("missing-bounds"), "a product with an unbounded column has no bounds");
    let sql = sql.replace("patient * 0 + age", "110 - age");
    let plan = stdout(&clinic.run(&["plan", "-p", "policy.toml", &sql, "-e", "0.5"]));
    for part in ["exponential", "rank ± ", "rows from the end", "sum of squares", "sum of products"] {
        assert!(plan.contains(part), "{part} is missing in\n{plan}");
    }
    let answer = json(&clinic.query(&sql, &["-e", "0.5", "-f", "json"]));
    // Every choice of a quantile is charged in whole billionths, rounded down.
    let charged = answer["charged"]["epsilon"].as_f64().unwrap();
    assert!(charged <= 0.5 && charged > 0.499_999, "{charged}");
    let rows = answer["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    for row in rows {
        let value = |name: &str| row[name]["value"].as_f64().unwrap();
        assert!(row["m"]["low"].is_null() && row["m"]["high"].is_null(), "a quantile has no interval");
        assert!((0.0..=110.0).contains(&value("low")) && value("low") <= value("m") && value("m") <= value("high"));
        assert!((0.0..=3025.0).contains(&value("v")) && row["v"]["low"].as_f64() <= row["v"]["high"].as_f64());
        assert!(row["r"]["low"].as_f64().unwrap() >= -1.0 && row["r"]["high"].as_f64().unwrap() <= 1.0);
    }
}

#[test]
fn every_format_is_written() {
    let clinic = Clinic::with("");
    let ask = |format: &str, more: &[&str]| {
        clinic.query(
            "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward",
            &[&["-e", "0.1", "-f", format], more].concat(),
        )
    };
    assert!(stdout(&ask("table", &[])).contains("ward"));
    assert!(stdout(&ask("csv", &[])).starts_with("ward,n,n_low,n_high\n"));
    assert!(!ask("parquet", &[]).status.success());
    assert!(ask("parquet", &["-o", "a.parquet"]).status.success());
    assert_eq!(&fs::read(clinic.path("a.parquet")).unwrap()[..4], b"PAR1");
}

#[test]
fn sq_11_long_cells_and_long_concatenations_change_nothing_but_numbers() {
    let sql = "SELECT COUNT(*) AS n FROM visits WHERE concat(city, city, city, city, upper(city)) LIKE '%zzz'";
    let plain = shape(&Clinic::with("").query(sql, &["-e", "0.5", "-f", "json"]));
    for length in [1 << 10, 1 << 20, (1 << 20) + 1, 3 << 20] {
        let row = format!("500,A,{},5,2026-01-01\n", "z".repeat(length));
        let long = shape(&Clinic::with(&row).query(sql, &["-e", "0.5", "-f", "json"]));
        let normal = |text: &str| text.split("receipt").next().unwrap_or_default().to_owned();
        assert_eq!(normal(&plain), normal(&long), "{length}");
    }
}

/// HAVING compares the noisy count: at the true count it passes about half of the time. A comparison with the true
/// count would pass always or never; 40 draws split 0:40 by chance with probability 2^-39.
#[test]
fn sq_15_having_sees_noisy_values_only() {
    let passed = (0..40)
        .filter(|_| {
            let sql = "SELECT COUNT(*) AS n FROM visits HAVING COUNT(*) > 100";
            let answer = json(&Clinic::with("").query(sql, &["-e", "0.1", "-f", "json"]));
            !answer["rows"].as_array().unwrap().is_empty()
        })
        .count();
    assert!((1..40).contains(&passed), "{passed}");
}

/// A mean times the released count would be the true sum if the mean used the true count.
#[test]
fn se_08_a_mean_uses_a_noisy_count() {
    let products: std::collections::BTreeSet<String> = (0..12)
        .map(|_| {
            let sql = "SELECT AVG(age) AS a, COUNT(age) AS n FROM visits";
            let answer = json(&Clinic::with("").query(sql, &["-e", "0.5", "-f", "json"]));
            let row = &answer["rows"][0];
            format!("{:.3}", row["a"]["value"].as_f64().unwrap() * row["n"]["value"].as_f64().unwrap())
        })
        .collect();
    assert!(products.len() > 6, "{products:?}");
}

#[test]
fn another_bound_is_another_question() {
    let clinic = Clinic::with("");
    let ask = |groups: u32, rows: u32| {
        let sql = format!(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0.2, max_groups_contributed={groups}, \
             max_rows_contributed_per_group={rows}) ward, COUNT(*) AS n FROM visits GROUP BY ward"
        );
        json(&clinic.query(&sql, &["-f", "json"]))["remaining"]["epsilon"].as_f64().unwrap()
    };
    // The same product, the same noise, another truncation.
    assert_eq!((ask(2, 3), ask(1, 6)), (0.8, 0.6));
}

#[test]
fn a_repeated_answer_says_when_it_was_given() {
    let clinic = Clinic::with("");
    let ask = || stdout(&clinic.query("SELECT COUNT(*) AS n FROM visits", &["-e", "0.1"]));
    assert!(ask().contains("charged ε 0.1"));
    // Other data under the same name is no new question.
    clinic.write("visits.csv", "patient,ward,city,age,day\n");
    let again = ask();
    assert!(again.contains("charged nothing: this was answered before, on 2"), "{again}");
}

#[test]
fn an_output_without_a_name_is_named_as_it_was_written() {
    let clinic = Clinic::with("");
    let sql = "SELECT SUM(age, contribution_bounds_per_row => (0, 5)) FROM visits";
    let header = stdout(&clinic.query(sql, &["-e", "0.1", "-f", "csv"]));
    assert!(header.starts_with("\"SUM(age, contribution_bounds_per_row => (0, 5))\","), "{header}");
    clinic.write(
        "report.toml",
        "policy = \"policy.toml\"\ntitle = \"t\"\nbudget = { epsilon = 0.4, delta = 0 }\n[[question]]\nid = \"n\"\n\
         title = \"n\"\nsql = \"SELECT COUNT(*) AS r FROM visits\"\ntarget_error = 60\n",
    );
    let output = clinic.run(&["report", "report.toml"]);
    assert!(output.status.success(), "{}", stderr(&output));
}

/// A key with a slip of the pen is charged like any other, so it is named before that, with the key that may be meant.
#[test]
fn a_key_with_a_slip_of_the_pen_is_warned_of_before_the_charge() {
    let clinic = Clinic::with("");
    let sql = "SELECT COUNT(*) AS n FROM visits WHERE ward = 'absend'";
    let words = "`ward` is compared with 'absend', which is not among its declared keys; did you mean 'absent'?";
    let plan = stdout(&clinic.run(&["plan", "-p", "policy.toml", "-e", "0.1", sql]));
    assert!(plan.contains(&format!("warning    {words}")), "{plan}");
    let answered = clinic.query(sql, &["-e", "0.1"]);
    assert!(
        answered.status.success() && stderr(&answered).contains(&format!("warning: {words}")),
        "{}",
        stderr(&answered)
    );
    // The control: a declared key, whether anybody has it or not, is not warned of.
    let known = clinic.query(&sql.replace("absend", "absent"), &["-e", "0.1"]);
    assert!(!stderr(&known).contains("warning"), "{}", stderr(&known));
    // A warning follows from the policy: nothing of the rows can change it, and a question that cannot be charged has it too.
    let empty = Clinic::new("").query(sql, &["-e", "0.1"]);
    assert!(stderr(&empty).contains(words), "{}", stderr(&empty));
    assert!(clinic.query(sql, &["-e", "5"]).stdout.is_empty());
}

/// What a quantile is known by stands beside it: how far its rank may be off, from public numbers. A repeated answer says in
/// JSON that it was free.
#[test]
fn an_answer_says_how_far_ranks_are_off_and_whether_it_was_free() {
    let clinic = Clinic::with("");
    let sql = "SELECT MEDIAN(age) AS middle, MAX(age) AS oldest, COUNT(*) AS n FROM visits";
    let shown = stdout(&clinic.query(sql, &["-e", "0.3"]));
    let line = |name: &str| shown.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
    assert!(line("middle: ").contains("rows in 95 of 100 cases. How far the value is off depends"), "{shown}");
    assert!(line("oldest: ").contains("rows from the end. "), "{shown}");
    let again = json(&clinic.query(sql, &["-e", "0.3", "--json"]));
    assert_eq!((&again["free"], again["first_charged"].is_i64()), (&true.into(), true), "{again}");
    let plan = json(&clinic.run(&["plan", "-p", "policy.toml", "-e", "0.3", "--json", sql]));
    for (rank, output) in again["ranks"].as_array().unwrap().iter().zip(plan["plan"]["outputs"].as_array().unwrap()) {
        assert_eq!(rank["column"], output["name"]);
        assert_eq!(rank["rank_error"].as_f64().unwrap(), output["rank_error"].as_f64().unwrap().ceil());
        assert!(output["rank_error_percent"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(again["ranks"].as_array().unwrap().len(), 2);
    let counted = json(&clinic.query("SELECT COUNT(*) AS n FROM visits", &["-e", "0.1", "--json"]));
    assert_eq!((&counted["free"], &counted["first_charged"]), (&false.into(), &serde_json::Value::Null));
    assert!(counted.get("ranks").is_none(), "{counted}");
}
