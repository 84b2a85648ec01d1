//! The real binary: exit status, standard output and standard error, on tables that differ where it matters.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may fail like tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const POLICY: &str = r#"
dataset = "clinic"
[budget]
epsilon = 1
delta = 1e-6
max_epsilon_per_query = 0.5
[scopes.research]
epsilon = 0.3
[tables.visits]
source = "visits.csv"
privacy_unit = { column = "patient" }
max_groups_per_unit = 2
max_rows_per_group = 3
public = { rows = 1000 }
[tables.visits.columns]
patient = { type = "integer" }
ward = { type = "text", keys = ["B", "A", "absent"] }
city = { type = "text" }
age = { type = "integer", bounds = [0, 110], typical = 40 }
day = { type = "date" }
"#;

/// A folder with a policy and a table.
struct Clinic {
    folder: tempfile::TempDir,
}

impl Clinic {
    fn new(rows: &str) -> Self {
        let clinic = Self { folder: tempfile::tempdir().unwrap() };
        clinic.write("policy.toml", POLICY);
        clinic.write("visits.csv", &format!("patient,ward,city,age,day\n{rows}"));
        clinic
    }

    /// A table of a hundred patients, with some rows more.
    fn with(more: &str) -> Self {
        let rows: String =
            (0..100).map(|n| format!("{n},{},X,{},2026-01-0{}\n", ["A", "B"][n % 2], n % 90, 1 + n % 9)).collect();
        Self::new(&(rows + more))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn run(&self, args: &[&str]) -> Output {
        dither(self.folder.path(), args)
    }

    fn query(&self, sql: &str, more: &[&str]) -> Output {
        self.run(&[&["query", "-p", "policy.toml", sql], more].concat())
    }
}

fn dither(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dither")).current_dir(folder).args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What an analyst can see of an answer besides its numbers: status, keys, schema, charge, errors.
fn shape(output: &Output) -> String {
    let digits = |text: &str| {
        let mut shape = String::new();
        for character in text.chars() {
            let digit = character.is_ascii_digit() || ".-".contains(character);
            if !(digit && shape.ends_with('#')) {
                shape.push(if digit { '#' } else { character });
            }
        }
        shape
    };
    format!("{} {} {}", output.status, digits(&stdout(output)), stderr(output))
}

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
    let first = ask("SELECT COUNT(*) AS n FROM visits");
    for _ in 0..20 {
        assert_eq!(stdout(&ask("SELECT COUNT(*) AS n FROM visits")), stdout(&first));
    }
    // Spaces and case of keywords do not make another question.
    assert_eq!(stdout(&ask("select count( * ) as n\nfrom visits")), stdout(&first));
    assert_eq!(json(&ask("SELECT COUNT(*) AS n FROM visits"))["remaining"]["epsilon"], 0.9);
    // Another question is charged, with another answer.
    assert_eq!(json(&ask("SELECT COUNT(*) AS m FROM visits"))["remaining"]["epsilon"], 0.8);
}

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

#[test]
fn bg_01_and_bg_02_odd_epsilons_touch_nothing() {
    let clinic = Clinic::with("");
    for epsilon in ["NaN", "inf", "-1", "-0.0", "0", "1e400", "5e-324", "0x1p3", "", "null", "true", "1e-12"] {
        let output = clinic.query("SELECT COUNT(*) FROM visits", &[&format!("--epsilon={epsilon}")]);
        assert!(!output.status.success(), "{epsilon}");
        assert!(!stderr(&output).contains("panicked"), "{epsilon}");
    }
    let missing = clinic.query("SELECT COUNT(*) FROM visits", &[]);
    assert!(stderr(&missing).contains("missing-epsilon"), "{}", stderr(&missing));
    for delta in ["-1e-6", "1", "NaN", "2"] {
        let output = clinic.query("SELECT COUNT(*) FROM visits", &["--epsilon", "0.1", &format!("--delta={delta}")]);
        assert!(!output.status.success(), "bg_06: {delta}");
    }
    assert!(!clinic.path("ledger.db").exists(), "the ledger was touched");
}

#[test]
fn fp_12_no_seed_is_accepted_anywhere() {
    let clinic = Clinic::with("");
    for flag in ["--seed=1", "--random-state=1", "--rng=1"] {
        assert!(!clinic.query("SELECT COUNT(*) FROM visits", &["--epsilon", "0.1", flag]).status.success());
    }
    clinic.write("policy.toml", &format!("seed = 1\n{POLICY}"));
    assert!(!clinic.query("SELECT COUNT(*) FROM visits", &["--epsilon", "0.1"]).status.success());
    // Two copies of everything, asked the same, draw different noise, whatever the environment says.
    let values: Vec<String> = (0..2)
        .map(|_| {
            let clinic = Clinic::with("");
            let mut command = Command::new(env!("CARGO_BIN_EXE_dither"));
            command.current_dir(clinic.folder.path()).envs([("SEED", "1"), ("DITHER_SEED", "1"), ("RANDOM_SEED", "1")]);
            let ask = ["query", "-p", "policy.toml", "SELECT SUM(age) AS s FROM visits", "-e", "0.01", "-f", "csv"];
            stdout(&command.args(ask).output().unwrap())
        })
        .collect();
    assert_ne!(values[0], values[1]);
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
    assert!(clinic.run(&[&amend[..], &["--steward", "Grace"]].concat()).status.success());
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
fn du_06_concurrent_processes_never_overspend() {
    let clinic = Clinic::with("");
    let children: Vec<_> = (0..24)
        .map(|n| {
            Command::new(env!("CARGO_BIN_EXE_dither"))
                .current_dir(clinic.folder.path())
                .args(["query", "-p", "policy.toml", &format!("SELECT COUNT(*) AS n{n} FROM visits"), "-e", "0.1"])
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    let answered =
        children.into_iter().map(|mut child| child.wait().unwrap()).filter(|status| status.success()).count();
    assert_eq!(answered, 10, "ten tenths fit one");
    assert!(clinic.run(&["ledger", "verify", "-p", "policy.toml"]).status.success());
}

#[test]
fn bg_10_and_du_01_a_killed_process_loses_nothing_and_is_not_charged_twice() {
    let clinic = Clinic::with("");
    let ask = ["query", "-p", "policy.toml", "SELECT COUNT(*) AS n FROM visits", "-e", "0.3", "-f", "json"];
    for delay in [0, 2, 5, 8, 10, 12, 15, 20, 30] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_dither"))
            .current_dir(clinic.folder.path())
            .args(ask)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let answer = json(&clinic.run(&ask));
    assert_eq!(answer["remaining"]["epsilon"], 0.7, "charged once, however often it was killed");
    assert_eq!(answer, json(&clinic.run(&ask)));
    assert!(clinic.run(&["ledger", "verify", "-p", "policy.toml"]).status.success());
}

#[test]
fn bg_09_a_failure_after_the_charge_is_constant_and_keeps_the_charge() {
    let clinic = Clinic::with("");
    clinic.write("policy.toml", &POLICY.replace("visits.csv", "visits.csv.gz"));
    // A gzip stream whose header line is there and whose rest is torn.
    let whole = Command::new("gzip").arg("-c").arg(clinic.path("visits.csv")).output().unwrap().stdout;
    fs::write(clinic.path("visits.csv.gz"), &whole[..whole.len() - 12]).unwrap();
    let ask = |sql: &str| clinic.query(sql, &["-e", "0.2"]);
    let failed = ask("SELECT COUNT(*) AS a FROM visits");
    assert!(!failed.status.success());
    assert_eq!(
        stderr(&failed),
        "error[engine-failed]: the question could not be answered; the charge stands\n\
         hint: the same request is not charged twice: ask again with more time or memory, or ask the operator\n"
    );
    let show = stdout(&clinic.run(&["ledger", "show", "-p", "policy.toml"]));
    assert!(show.contains("left ε 0.8"), "{show}");
    // Mended, the same request is answered under the same charge.
    fs::write(clinic.path("visits.csv.gz"), &whole).unwrap();
    assert!(ask("SELECT COUNT(*) AS a FROM visits").status.success());
    let show = stdout(&clinic.run(&["ledger", "show", "-p", "policy.toml"]));
    assert!(show.contains("left ε 0.8"), "{show}");
}

#[test]
fn du_07_a_ledger_that_was_rolled_back_is_detected_against_a_receipt() {
    let clinic = Clinic::with("");
    let first = json(&clinic.query("SELECT COUNT(*) AS a FROM visits", &["-e", "0.2", "-f", "json"]));
    let copies: Vec<_> = ["ledger.db", "ledger.db-wal", "ledger.db-shm"]
        .into_iter()
        .filter_map(|name| Some((name, fs::read(clinic.path(name)).ok()?)))
        .collect();
    let second = json(&clinic.query("SELECT COUNT(*) AS b FROM visits", &["-e", "0.2", "-f", "json"]));
    let verify = |receipt: &str| clinic.run(&["ledger", "verify", "-p", "policy.toml", "--receipt", receipt]);
    assert!(verify(second["receipt"].as_str().unwrap()).status.success());
    for name in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
        let _ = fs::remove_file(clinic.path(name));
    }
    copies.into_iter().for_each(|(name, bytes)| fs::write(clinic.path(name), bytes).unwrap());
    assert!(verify(first["receipt"].as_str().unwrap()).status.success());
    assert!(!verify(second["receipt"].as_str().unwrap()).status.success());
}

#[test]
fn sv_08_only_regular_files_are_opened() {
    let clinic = Clinic::with("");
    for source in ["/dev/zero", "http://169.254.169.254/x.csv", "file:///etc/passwd", "missing.csv", ".", "/etc/passwd"]
    {
        clinic.write("policy.toml", &POLICY.replace("visits.csv", source));
        let output = clinic.query("SELECT COUNT(*) FROM visits", &["-e", "0.1"]);
        assert!(!output.status.success(), "{source}");
        assert!(!stderr(&output).contains("root:"), "{source}");
    }
    assert!(!clinic.path("ledger.db").exists());
}

#[test]
fn sq_31_names_with_quotes_are_data_not_code() {
    let clinic = Clinic::with("");
    for sql in [
        "x'; DROP TABLE t;--",
        "SELECT COUNT(*) FROM visits WHERE city = ''' OR 1=1 --'",
        "SELECT “COUNT(*)” FROM visits",
    ] {
        let output = clinic.query(sql, &["-e", "0.1"]);
        assert!(!stderr(&output).contains("panicked"), "{sql}");
    }
}

#[test]
fn a_refusal_shows_code_caret_and_hint() {
    let clinic = Clinic::with("");
    let output = clinic.query("SELECT ward,\n       MODE(age) FROM visits GROUP BY ward", &["-e", "0.1"]);
    assert_eq!(
        stderr(&output),
        "error[unknown-function]: the function `mode` is not offered\n  2 |        MODE(age) FROM visits GROUP BY ward\n    \
         |        ^^^^\nhint: the most frequent value may be somebody's; group by the values and count\n"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn plan_charges_nothing_and_says_what_it_would_cost() {
    let clinic = Clinic::with("");
    let plan = clinic.run(&["plan", "-p", "policy.toml", "SELECT AVG(age) AS a FROM visits", "-e", "0.5"]);
    let text = stdout(&plan);
    for part in
        ["Laplace", "sensitivity", "l1 330", "expected error", "left now   ε 1", "left then  ε 0.5", "basic", "RDP"]
    {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(!clinic.path("ledger.db").exists(), "a plan makes no ledger");
    let solved = json(&clinic.run(&[
        "plan",
        "-p",
        "policy.toml",
        "SELECT AVG(age) AS a FROM visits",
        "--target-error",
        "5",
        "--json",
    ]));
    let error = solved["plan"]["outputs"][0]["expected_error"].as_f64().unwrap();
    assert!((4.9..=5.0).contains(&error), "{error}");
    let percent =
        clinic.run(&["plan", "-p", "policy.toml", "SELECT AVG(age) AS a FROM visits", "--target-error", "0.001%"]);
    assert!(stderr(&percent).contains("target-error"), "{}", stderr(&percent));
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
    for part in ["exponential", "rows of rank", "rows from the end", "sum of squares", "sum of products"] {
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
fn init_reads_a_header_and_no_row() {
    let clinic = Clinic::with("500,SECRET,SECRET,SECRET,SECRET\n");
    let starter = stdout(&clinic.run(&["init", "visits.csv"]));
    assert!(
        starter.contains("patient") && starter.contains("privacy_unit") && !starter.contains("SECRET"),
        "{starter}"
    );
    clinic.write("starter.toml", &starter);
    let output = clinic.run(&["plan", "-p", "starter.toml", "SELECT COUNT(*) FROM visits", "-e", "0.1"]);
    assert!(!output.status.success() && stderr(&output).contains("hint"), "{}", stderr(&output));
}

#[test]
fn a_report_is_written_once_and_repeated_for_free() {
    let clinic = Clinic::with("");
    clinic.write(
        "report.toml",
        r#"
        policy = "policy.toml"
        title = "Clinic <b>"
        budget = { epsilon = 0.6, delta = 0 }
        [[question]]
        id = "n"
        title = "Visits"
        sql = "SELECT COUNT(*) AS n FROM visits"
        [[question]]
        id = "wards"
        title = "By ward"
        sql = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
        weight = 2
        then = [{ step = "sum-to-total", column = "n", total = { section = "n", column = "n" } }]
        plot = { kind = "bars" }
        "#,
    );
    let first = clinic.run(&["report", "report.toml"]);
    assert!(first.status.success(), "{}", stderr(&first));
    let page = fs::read_to_string(clinic.path("out/report.html")).unwrap();
    assert!(page.contains("Clinic &lt;b&gt;") && page.contains("<svg"), "sv_07");
    let csv = fs::read(clinic.path("out/wards.csv")).unwrap();
    let again = clinic.run(&["report", "report.toml"]);
    assert!(stdout(&again).contains("charged nothing"), "{}", stdout(&again));
    assert_eq!(fs::read(clinic.path("out/wards.csv")).unwrap(), csv);
    let certificate = fs::read_to_string(clinic.path("out/certificate.json")).unwrap();
    assert!(certificate.contains("\"head\""));
    clinic.write("report.toml", "policy = \"policy.toml\"\ntitel = 'x'");
    assert!(!clinic.run(&["report", "report.toml"]).status.success());
}

/// Bounds that were found stand in everything that shows the answer, the same ones, and in what is signed.
#[test]
fn bounds_that_a_report_found_stand_in_its_pages_and_in_its_certificate() {
    let clinic = Clinic::with("");
    let policy = POLICY.replace("bounds = [0, 110], typical = 40", "approx_bounds = true");
    clinic.write("policy.toml", &policy.replace("epsilon = 1", "epsilon = 1000").replace("query = 0.5", "query = 100"));
    let text = r#"
        policy = "policy.toml"
        title = "Ages"
        budget = { epsilon = 80, delta = 0 }
        [[question]]
        id = "age"
        title = "Age"
        sql = "SELECT AVG(age) AS mean FROM visits"
        "#;
    clinic.write("report.toml", text);
    let published = clinic.run(&["report", "report.toml"]);
    assert!(published.status.success(), "{}", stderr(&published));
    let read = |name: &str| fs::read_to_string(clinic.path("out").join(name)).unwrap();
    let json = |name: &str| serde_json::from_str::<serde_json::Value>(&read(name)).unwrap();
    let found = &json("report.json")["sections"][0]["found"];
    assert_eq!(found, &json("certificate.json")["events"][0]["found"]);
    let said = format!("`age` counts within [{}, {}]: bounds that were found", found[0]["lower"], found[0]["upper"]);
    let said = said.replace(".0]", "]").replace(".0,", ",");
    for shown in [stdout(&published), read("report.html"), read("certificate.html")] {
        assert_eq!(shown.matches(&said).count(), 1, "{said}\n{shown}");
        assert!(shown.contains("this bias is in no interval"));
    }
    clinic.write("report.toml", &text.replace("\"Ages\"", "\"年龄\"\nlanguage = \"zh\""));
    let repeated = clinic.run(&["report", "report.toml"]);
    assert!(stdout(&repeated).contains("偏差不在任何置信区间之内"), "{}", stdout(&repeated));
    let answered = clinic.query("SELECT AVG(age) FROM visits", &["-e", "70"]);
    assert!(stdout(&answered).contains("this bias is in no interval"), "{}", stdout(&answered));
    // Bounds that noise alone would choose are refused before the charge, in a report as in a question.
    clinic.write("report.toml", &text.replace("epsilon = 80", "epsilon = 0.5"));
    let refused = clinic.run(&["report", "report.toml"]);
    assert!(!refused.status.success() && stderr(&refused).contains("cannot be found"), "{}", stderr(&refused));
}

#[test]
fn the_wards_of_a_consistent_report_add_up_to_its_total() {
    let clinic = Clinic::with("");
    let report = |sections: &str| {
        let text = r#"
        policy = "policy.toml"
        title = "Clinic"
        budget = { epsilon = 0.6, delta = 0 }
        [[question]]
        id = "all"
        title = "Visits"
        sql = "SELECT COUNT(*) AS n FROM visits"
        [[question]]
        id = "wards"
        title = "By ward"
        sql = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
        [[consistent]]
        column = "n"
        sections = "#;
        clinic.write("report.toml", &format!("{text}{sections}\n"));
        clinic.run(&["report", "report.toml"])
    };
    // What is wrong is said before anything is charged.
    for sections in [r#"["all", "ward"]"#, r#"["all"]"#] {
        let refused = report(sections);
        assert!(!refused.status.success() && !clinic.path("ledger.db").exists(), "{}", stdout(&refused));
    }
    let published = report(r#"["all", "wards"]"#);
    assert!(published.status.success(), "{}", stderr(&published));
    let written = fs::read_to_string(clinic.path("out/report.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&written).unwrap();
    let numbers = |section: usize| {
        let rows = document["sections"][section]["rows"].as_array().unwrap();
        rows.iter().map(|row| row["n"]["value"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((numbers(0).len(), numbers(1).len()), (1, 3));
    // Four numbers with independent noise of scale 20 and more seldom add up by themselves.
    assert_eq!(numbers(0)[0], numbers(1).iter().sum::<i64>());
    for section in 0..2 {
        let step = document["sections"][section]["postprocessing"][0]["step"].as_str().unwrap();
        assert!(step.contains("agrees with"), "{step}");
    }
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
fn du_05_a_full_disk_releases_nothing_and_says_so() {
    let clinic = Clinic::with("");
    // No file may grow beyond so many blocks of 512 bytes: a disk that is full after them.
    for blocks in [0, 8, 16, 40, 64, 80, 100, 130] {
        let script = format!(
            "ulimit -f {blocks}; trap '' XFSZ; exec \"$0\" query -p policy.toml 'SELECT COUNT(*) AS n{blocks} FROM visits' -e 0.01"
        );
        let mut shell = Command::new("sh");
        shell.current_dir(clinic.folder.path()).args(["-c", &script, env!("CARGO_BIN_EXE_dither")]);
        let output = shell.output().unwrap();
        if !output.status.success() {
            assert!(stdout(&output).is_empty(), "{blocks}: {}", stdout(&output));
            assert!(stderr(&output).contains("error"), "{blocks}: {}", stderr(&output));
        }
    }
    let output = clinic.query("SELECT COUNT(*) AS after FROM visits", &["-e", "0.01"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(clinic.run(&["ledger", "verify", "-p", "policy.toml"]).status.success());
}

/// Expressions that fail for some rows only are an oracle: whether the question is answered tells who is in the table.
/// Each is refused before it is charged, or answered with the same status on both tables.
#[test]
fn sq_12_no_expression_can_be_made_to_fail_on_one_row() {
    let big = format!("'{}'", "_a".repeat(30_000));
    let texts = vec!["city"; 15_000].join(", ");
    let questions = [
        "SELECT COUNT(*) AS n FROM visits WHERE city = 'z' AND date_part('decade', day) = 1".to_owned(),
        "SELECT COUNT(*) AS n FROM visits WHERE city = 'z' AND date_part('foo', day) = 1".into(),
        "SELECT COUNT(*) AS n FROM visits WHERE CASE WHEN city = 'z' THEN date_trunc('century', day) > day ELSE true END".into(),
        format!("SELECT COUNT(*) AS n FROM visits WHERE city = 'z' AND city LIKE {big}"),
        "SELECT COUNT(*) AS n FROM visits WHERE city = 'z' AND city LIKE 'a_b' ESCAPE 'b'".into(),
        "SELECT CAST(age AS DATE) AS d, COUNT(*) AS n FROM visits GROUP BY 1".into(),
        "SELECT COUNT(*) AS n FROM visits WHERE city = 'z' AND CAST(CAST(age AS DATE) AS VARCHAR) = 'x'".into(),
        format!("SELECT COUNT(*) AS n FROM visits WHERE concat({texts}) = 'x'"),
        format!("SELECT COUNT(*) AS n FROM visits WHERE CASE WHEN city = 'z' THEN '{}' ELSE city END = 'x'", "y".repeat(100_000)),
        "SELECT date_trunc('month', CAST(day AS TIMESTAMP)) AS m, COUNT(*) AS n FROM visits GROUP BY 1".into(),
        "SELECT CAST(age AS SMALLINT) AS k, COUNT(*) AS n FROM visits GROUP BY 1".into(),
        "SELECT COUNT(*) AS n FROM visits WHERE CAST(day AS VARCHAR) || city = 'x'".into(),
    ];
    let odd = "500,A,z,100000000,9999-12-31\n501,B,z,-1,0001-01-01\n502,A,z,9223372036854775807,+262141-12-31\n";
    for sql in &questions {
        let ask = |more: &str| {
            let output = Clinic::with(more).query(sql, &["-e", "0.001", "-d", "1e-7", "-f", "json"]);
            assert!(!stderr(&output).contains("engine-failed"), "{sql:.200}");
            (output.status.code(), stderr(&output))
        };
        assert_eq!(ask(""), ask(odd), "{sql:.200}");
    }
}

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

/// Everything said beside the numbers, with every log turned on: a person with 5,000 rows changes none of it.
#[test]
fn sq_26_nothing_beside_the_numbers_tells_neighbours_apart() {
    let many: String = (0..5_000).map(|n| format!("500,A,Y{n},{},2026-01-01\n", n % 90)).collect();
    let said = |rows: &str| {
        let clinic = Clinic::with(rows);
        let run = |args: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_dither"));
            command.current_dir(clinic.folder.path()).args(args).env("RUST_LOG", "trace").env("RUST_BACKTRACE", "1");
            shape(&command.output().unwrap())
        };
        let sql = "SELECT ward, COUNT(*) AS n, AVG(age) AS a FROM visits GROUP BY ward";
        let said = [
            run(&["plan", "-p", "policy.toml", sql, "-e", "0.5"]),
            run(&["query", "-p", "policy.toml", sql, "-e", "0.5", "-f", "json"]),
            run(&["query", "-p", "policy.toml", &format!("EXPLAIN ANALYZE {sql}"), "-e", "0.5"]),
            run(&["ledger", "show", "-p", "policy.toml"]),
        ];
        said.map(|text| text.split("receipt").flat_map(|text| text.split("head")).next().unwrap_or_default().to_owned())
    };
    assert_eq!(said(""), said(&many));
}

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

/// A copy of the ledger's file alone must hold everything that was charged, whatever became of the command.
#[test]
fn every_command_leaves_the_ledger_in_one_file() {
    let clinic = Clinic::with("");
    clinic.write(
        "report.toml",
        "policy = \"policy.toml\"\ntitle = \"t\"\nbudget = { epsilon = 0.1, delta = 0 }\n[[question]]\nid = \"n\"\n\
         title = \"n\"\nsql = \"SELECT COUNT(*) AS r FROM visits\"\n",
    );
    let alone = |what: &str| {
        for log in ["ledger.db-wal", "ledger.db-shm"] {
            assert!(!clinic.path(log).exists(), "{log} after {what}");
        }
    };
    for n in 0..12 {
        let sql = format!("SELECT COUNT(*) AS n{n} FROM visits");
        // From the eleventh on the budget refuses.
        clinic.query(&sql, &["-e", "0.1"]);
        alone("query");
        let copy = tempfile::tempdir().unwrap();
        fs::copy(clinic.path("ledger.db"), copy.path().join("ledger.db")).unwrap();
        fs::copy(clinic.path("policy.toml"), copy.path().join("policy.toml")).unwrap();
        let shown = stdout(&dither(copy.path(), &["ledger", "show", "-p", "policy.toml"]));
        assert_eq!(shown.matches("charge   clinic").count(), (n + 1).min(10), "{shown}");
    }
    for command in [
        &["plan", "-p", "policy.toml", "SELECT COUNT(*) FROM visits", "-e", "0.1"][..],
        &["report", "report.toml"],
        &["report", "report.toml", "--plan"],
        &["ledger", "show", "-p", "policy.toml"],
        &["ledger", "verify", "-p", "policy.toml"],
        &["ledger", "verify", "-p", "policy.toml", "--receipt", &format!("1:{}", "0".repeat(64))],
        &["ledger", "export", "-p", "policy.toml"],
        &["ledger", "amend", "-p", "policy.toml", "--steward", "Ada", "--steward", "Grace"],
        &["query", "-p", "policy.toml", "SELECT COUNT(*) FROM visits", "-e", "0.4", "--scope", "research"],
    ] {
        clinic.run(command);
        alone(command[0]);
    }
    clinic.write("policy.toml", &POLICY.replace("epsilon = 1\n", "epsilon = 2\n"));
    assert!(!clinic.query("SELECT COUNT(*) AS m FROM visits", &["-e", "0.1"]).status.success());
    alone("a refused declaration");
}

#[test]
fn no_output_overwrites_the_policy_a_source_or_the_ledger() {
    let clinic = Clinic::with("");
    clinic.query("SELECT COUNT(*) AS first FROM visits", &["-e", "0.1"]);
    fs::create_dir(clinic.path("sub")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(clinic.path("visits.csv"), clinic.path("link.csv")).unwrap();
    let kept = || ["policy.toml", "visits.csv", "ledger.db"].map(|name| fs::read(clinic.path(name)).unwrap());
    let before = kept();
    let paths =
        ["policy.toml", "visits.csv", "ledger.db", "ledger.db-wal", "ledger.db-shm", "sub/../visits.csv", "sub"];
    for out in paths.into_iter().chain(cfg!(unix).then_some("link.csv")) {
        let output = clinic.query("SELECT COUNT(*) AS n FROM visits", &["-e", "0.1", "-f", "csv", "--out", out]);
        assert!(stderr(&output).contains("nothing was charged"), "{out}: {}", stderr(&output));
        if clinic.path(out).exists() {
            assert!(!clinic.run(&["init", "visits.csv", "--out", out]).status.success(), "{out}");
        }
    }
    // A table of a report is named after its question.
    clinic.write(
        "report.toml",
        "policy = \"policy.toml\"\ntitle = \"t\"\nbudget = { epsilon = 0.1, delta = 0 }\n[[question]]\nid = \"visits\"\n\
         title = \"n\"\nsql = \"SELECT COUNT(*) AS r FROM visits\"\n",
    );
    let output = clinic.run(&["report", "report.toml", "--out", "."]);
    assert!(stderr(&output).contains("visits.csv, which is still needed"), "{}", stderr(&output));
    assert!(kept() == before, "something was overwritten or charged");
    // What is there already is replaced whole, and nothing is left beside it.
    clinic.write("sub/answer.csv", "old");
    assert!(
        clinic
            .query("SELECT COUNT(*) AS n FROM visits", &["-e", "0.1", "-f", "csv", "-o", "sub/answer.csv"])
            .status
            .success()
    );
    assert!(fs::read_to_string(clinic.path("sub/answer.csv")).unwrap().starts_with("n,"));
    assert_eq!(fs::read_dir(clinic.path("sub")).unwrap().count(), 1);
}

#[test]
fn the_id_of_a_question_names_a_file_and_nothing_else() {
    let clinic = Clinic::with("");
    let report = |ids: &[&str]| {
        let question = |(n, id): (usize, &&str)| {
            format!("[[question]]\nid = {id:?}\ntitle = \"t\"\nsql = \"SELECT COUNT(*) AS r{n} FROM visits\"\n")
        };
        let questions: String = ids.iter().enumerate().map(question).collect();
        let head = "policy = \"policy.toml\"\ntitle = \"t\"\nbudget = { epsilon = 0.1, delta = 0 }\n";
        clinic.write("report.toml", &format!("{head}{questions}"));
        clinic.run(&["report", "report.toml"])
    };
    let long = "x".repeat(201);
    for ids in [&["../visits"][..], &[""], &["a/b"], &["a.b"], &["a b"], &["C:x"], &[&long], &["n", "N"], &["ä", "Ä"]]
    {
        let output = report(ids);
        assert!(!output.status.success() && stderr(&output).contains("id `"), "{ids:?}: {}", stderr(&output));
    }
    assert!(!clinic.path("ledger.db").exists() && !clinic.path("out").exists(), "something was charged or written");
    assert!(report(&["各科", "by-ward_2"]).status.success());
    assert!(clinic.path("out/各科.csv").exists());
}

/// What the contribution bounds drop makes no error smaller: a promise that ignores them would be broken.
#[test]
fn a_plan_counts_only_the_rows_that_the_bounds_keep() {
    let clinic = Clinic::with("");
    let policy = |public: &str| clinic.write("policy.toml", &POLICY.replace("public = { rows = 1000 }", public));
    let plan = |sql: &str| {
        let plan = json(&clinic.run(&["plan", "-p", "policy.toml", sql, "-e", "0.5", "--json"]));
        let output = &plan["plan"]["outputs"][0];
        let error = output["expected_error"].as_f64().unwrap();
        (error, output["expected_error_percent"].as_f64(), output["assumption"].as_str().unwrap_or_default().to_owned())
    };
    let (mean, count, wards) = (
        "SELECT AVG(age) AS a FROM visits",
        "SELECT COUNT(*) AS n FROM visits",
        "SELECT ward, AVG(age) AS a FROM visits GROUP BY ward",
    );
    // 200 units with at most 3 rows each: 600 of 100,000 rows count.
    policy("public = { rows = 600 }");
    let (expected, expected_count) = (plan(mean).0, plan(count).1);
    policy("public = { rows = 100000, units = 200 }");
    let (error, _, assumption) = plan(mean);
    assert_eq!((error, plan(count).1), (expected, expected_count));
    assert!(assumption.contains("600 rows that count, of 100000"), "{assumption}");
    // In 2 of 3 groups with 3 rows each: 200 · 2 · 3 / 3 rows in a group.
    let (error, _, assumption) = plan(wards);
    assert!(assumption.contains("a group has 400 rows that count, of 33333"), "{assumption}");
    policy("public = { rows_per_group = 400 }");
    assert_eq!(plan(wards).0, error);
    assert!(!plan(wards).2.contains("that count"));
    let units = "SELECT ward, COUNT(DISTINCT patient) AS n FROM visits GROUP BY ward";
    policy("public = { rows = 100000, units = 200 }");
    let (error, percent, _) = plan(units);
    assert_eq!(percent.unwrap().round(), (100.0 * error / 133.0).round());
}

#[test]
fn a_receipt_is_given_whole_and_what_is_left_is_left_on_the_whole_path() {
    let clinic = Clinic::with("");
    for n in 0..8 {
        assert!(clinic.query(&format!("SELECT COUNT(*) AS n{n} FROM visits"), &["-e", "0.1"]).status.success());
    }
    let verify = |receipt: &str| clinic.run(&["ledger", "verify", "-p", "policy.toml", "--receipt", receipt]);
    for short in ["2:3f", "2", ":", "x:3f", &format!("2:{}g", "0".repeat(63))] {
        let output = verify(short);
        assert!(!output.status.success() && stderr(&output).contains("all 64 digits"), "{short}: {}", stderr(&output));
    }
    assert!(clinic.query("SELECT COUNT(*) AS r FROM visits", &["-e", "0.1", "--scope", "research"]).status.success());
    // Of the 0.2 that the scope itself has left, the data set has 0.1.
    let shown = stdout(&clinic.run(&["ledger", "show", "-p", "policy.toml"]));
    let scope = shown.lines().find(|line| line.starts_with("clinic/research")).unwrap();
    assert!(scope.contains("left ε 0.1"), "{shown}");
    let head = shown.lines().find_map(|line| line.strip_prefix("head ")).unwrap();
    assert!(verify(head).status.success() && verify(&head.to_uppercase()).status.success());
}

/// `dither ledger show | head`: the reader goes away, and that is no failure.
#[cfg(unix)]
#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let clinic = Clinic::with("");
    let long = "x".repeat(100_000);
    assert!(
        clinic
            .query(&format!("SELECT COUNT(*) AS n FROM visits WHERE city <> '{long}'"), &["-e", "0.1"])
            .status
            .success()
    );
    for command in ["ledger show -p policy.toml", "ledger export -p policy.toml", "ledger verify -p policy.toml"] {
        let script = format!("\"$0\" {command} 2>err | :; cat err; exit ${{PIPESTATUS[0]}}");
        let mut shell = Command::new("bash");
        let output = shell
            .current_dir(clinic.folder.path())
            .args(["-c", &script, env!("CARGO_BIN_EXE_dither")])
            .output()
            .unwrap();
        assert!(output.status.success() && stdout(&output).is_empty(), "{command}: {}", stdout(&output));
    }
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

/// The count beside a mean follows from two noisy sums: its own noise is far below theirs, and a converted unit changes it.
#[test]
fn the_noise_of_a_report_is_that_of_the_numbers_it_shows() {
    let clinic = Clinic::with("");
    clinic.write(
        "report.toml",
        r#"
        policy = "policy.toml"
        title = "t"
        budget = { epsilon = 0.5, delta = 1e-6 }
        [[question]]
        id = "a"
        title = "a"
        sql = "SELECT COUNT(age) AS n, SUM(age) AS s, AVG(age) AS m FROM visits"
        mechanism = "gaussian"
        then = [{ step = "convert", column = "s", multiply = 0.001, rename = "thousands" }]
        "#,
    );
    let output = clinic.run(&["report", "report.toml"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let read = |name: &str| {
        serde_json::from_str::<serde_json::Value>(&fs::read_to_string(clinic.path(name)).unwrap()).unwrap()
    };
    let report = read("out/report.json");
    let noise = report["sections"][0]["share"]["noise"].as_array().unwrap();
    let number = |index: usize, key: &str| noise[index][key].as_f64().unwrap();
    // 1.96 standard deviations cover 95 of 100 draws of a Gaussian.
    for index in [0, 1] {
        let ratio = number(index, "expected_error") / number(index, "scale");
        assert!((1.9..2.1).contains(&ratio), "{index}: {ratio}");
    }
    assert_eq!(noise[1]["column"], "thousands");
    assert!(number(1, "expected_error") < number(0, "expected_error"), "{noise:?}");
    assert!(noise[2]["scale"].is_null());
    // The table of the certificate is at the δ that was charged.
    let certificate = read("out/certificate.json");
    assert!(certificate["charged"]["delta"].as_f64().unwrap() > 0.0);
    for guarantee in certificate["guarantees"].as_array().unwrap() {
        assert_eq!(guarantee["delta"], certificate["charged"]["delta"]);
    }
}

#[test]
fn a_wrong_value_is_refused_in_our_words() {
    let clinic = Clinic::with("");
    let said = |sql: &str, more: &[&str]| {
        let output = clinic.query(sql, more);
        assert!(!output.status.success(), "{sql}");
        stderr(&output)
    };
    for epsilon in [["-e", "-1"], ["-e", "-1e-6"], ["--epsilon", "-0.5"]] {
        let text = said("SELECT COUNT(*) FROM visits", &epsilon);
        assert!(text.contains("epsilon must be") && !text.contains("unexpected"), "{text}");
    }
    let text = said("SELECT SUM(city, contribution_bounds_per_row => (0, 1)) FROM visits", &["-e", "0.1"]);
    assert!(text.contains("bounds per row are three numbers") && !text.contains("oercion"), "{text}");
    let text = said("SELECT SUM(patient * age) FROM visits", &["-e", "0.1"]);
    assert!(text.contains("`SUM(patient * age)` has no bounds"), "{text}");
    // A name from the policy or the question cannot steer the terminal.
    let text = said("SELECT COUNT(*) FROM \"\u{1b}[2J\u{202e}x\"", &["-e", "0.1"]);
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:?}");
    // What is wrong in the policy points at no place in the question.
    clinic.write("policy.toml", &format!("{POLICY}odd = {{ type = \"integer\", expression = \"nothing + 1\" }}\n"));
    let text = said("SELECT COUNT(*) FROM visits", &["-e", "0.1"]);
    assert!(
        text.contains("the computed column `odd`") && text.contains("in the policy") && !text.contains('^'),
        "{text}"
    );
    for (ledger, word) in
        [("nodir/x.db", "there is no folder"), ("visits.csv", "is not a ledger"), (".", "is not a ledger")]
    {
        clinic.write("policy.toml", &format!("ledger = \"{ledger}\"\n{POLICY}"));
        let text = said("SELECT COUNT(*) FROM visits", &["-e", "0.1"]);
        assert!(text.contains(word), "{ledger}: {text}");
    }
    assert!(!clinic.path("ledger.db").exists());
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
