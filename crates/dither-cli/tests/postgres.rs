//! The real binary on a real PostgreSQL server: what is charged, what is shown, and what stays in the server.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may fail like tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dither_testing::Postgres;
use dither_testing::proxy::{between, replace};

const POLICY: &str = r#"
dataset = "clinic"
[budget]
epsilon = 1
delta = 1e-6
[tables.visits]
source = "postgres:clinic.visits"
privacy_unit = { column = "patient" }
max_groups_per_unit = 2
max_rows_per_group = 3
[tables.visits.columns]
patient = { type = "text" }
ward = { type = "text", keys = ["B", "A", "absent"] }
age = { type = "integer", bounds = [0, 110] }
"#;

const TABLE: &str = "
CREATE SCHEMA clinic;
CREATE TABLE clinic.people AS
SELECT 'p' || n % 200 AS patient, CASE n % 2 WHEN 0 THEN 'A' ELSE 'B' END AS ward, n % 90 AS age
FROM generate_series(1, 1000) n;
CREATE VIEW clinic.visits AS SELECT * FROM clinic.people;
CREATE ROLE analyst LOGIN PASSWORD 'topsecret';
GRANT USAGE ON SCHEMA clinic TO analyst;
GRANT SELECT ON clinic.visits TO analyst;
";

const FAILED: &str = "error[engine-failed]: the question could not be answered; the charge stands\n\
                      hint: the same request is not charged twice: ask again with more time or memory, or ask the operator\n";

/// A server and a folder with a policy.
struct Clinic {
    server: Postgres,
    folder: tempfile::TempDir,
}

impl Clinic {
    fn new() -> Option<Self> {
        let clinic = Self { server: Postgres::start()?, folder: tempfile::tempdir().unwrap() };
        fs::write(clinic.folder.path().join("policy.toml"), POLICY).unwrap();
        clinic.server.sql(TABLE);
        Some(clinic)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dither"));
        command.current_dir(self.folder.path()).args(args).env_remove("PGPASSWORD");
        command.env("DITHER_OPERATOR_LOG", self.folder.path().join("operator.log"));
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn query(&self, sql: &str, epsilon: &str) -> Output {
        let url = self.server.url("analyst");
        self.run(&["query", "-p", "policy.toml", sql, "-e", epsilon, "-f", "json", "--engine", &url])
    }

    /// What is left of ε, by the ledger.
    fn left(&self) -> String {
        let shown = self.run(&["ledger", "show", "-p", "policy.toml"]);
        assert!(shown.status.success(), "{}", stderr(&shown));
        String::from_utf8(shown.stdout).unwrap().lines().next().unwrap().to_owned()
    }

    fn has_ledger(&self) -> bool {
        self.folder.path().join("ledger.db").exists()
    }

    /// Asks, and waits until the server reads rows for it.
    fn asked(&self, sql: &str, epsilon: &str) -> Child {
        let url = self.server.url("analyst");
        let args = ["query", "-p", "policy.toml", sql, "-e", epsilon, "-f", "json", "--engine", &url];
        let mut child = self.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        for _ in 0..600 {
            let running = "SELECT count(*) FROM pg_stat_activity \
                           WHERE application_name = 'dither' AND wait_event = 'PgSleep'";
            if self.server.sql(running).trim() != "0" {
                return child;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        panic!("the server was never asked");
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Whether a text holds what could be the secret of a request: 64 hexadecimal digits.
fn holds_secret(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_hexdigit()).any(|word| word.len() >= 64)
}

#[test]
fn questions_and_reports_are_answered_where_the_tables_lie() {
    let Some(clinic) = Clinic::new() else { return };
    let url = clinic.server.url("analyst");
    let sql = "SELECT ward, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY ward";
    let plan = clinic.run(&["plan", "-p", "policy.toml", sql, "-e", "0.5", "--engine", &url]);
    assert!(plan.status.success(), "{}", stderr(&plan));
    assert!(!clinic.has_ledger(), "a plan charges nothing");
    let answer = clinic.query(sql, "0.5");
    let rows = json(&answer)["rows"].as_array().unwrap().clone();
    assert_eq!(rows.iter().map(|row| row["ward"].as_str().unwrap()).collect::<Vec<_>>(), ["B", "A", "absent"]);
    // 200 patients with 5 rows each in one ward, of which 3 count: 300 of each. Noise of scale 24 stays below 600 but
    // in one of 10^11 runs.
    for row in &rows[..2] {
        let n = row["n"]["value"].as_f64().unwrap();
        assert!((n - 300.0).abs() < 600.0, "{n}");
    }
    assert_eq!(json(&clinic.query(sql, "0.5"))["rows"], json(&answer)["rows"], "the identical question is free");
    let report = "title = \"Wards\"\npolicy = \"policy.toml\"\n[budget]\nepsilon = 0.25\n[[question]]\nid = \"wards\"\n\
                  title = \"Visits\"\nsql = \"SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward\"\n[[question]]\n\
                  id = \"ages\"\ntitle = \"Ages\"\nsql = \"SELECT AVG(age) AS age FROM visits\"\n";
    fs::write(clinic.folder.path().join("report.toml"), report).unwrap();
    let published = clinic.run(&["report", "report.toml", "--engine", &url]);
    assert!(published.status.success(), "{}", stderr(&published));
    assert!(clinic.folder.path().join("out/report.html").exists());
    assert!(!holds_secret(&clinic.server.log()));
}

/// A first look at a table takes columns of every type, also those whose texts the server writes in another way.
#[test]
fn a_table_in_a_database_is_profiled() {
    let Some(clinic) = Clinic::new() else { return };
    clinic.server.sql(
        "CREATE OR REPLACE VIEW clinic.visits AS SELECT *, age * 0.25::float8 AS cost, age % 3 = 0 AS urgent,
         date '2026-01-01' + age AS day, timestamp '2026-01-01 06:00' + age * interval '1 hour' AS at FROM clinic.people;",
    );
    let columns = "cost = { type = \"number\" }\nurgent = { type = \"boolean\" }\n\
                   day = { type = \"date\" }\nat = { type = \"timestamp\" }\n";
    let policy = POLICY.replace("epsilon = 1\n", "epsilon = 1000\n") + columns;
    fs::write(clinic.folder.path().join("policy.toml"), policy).unwrap();
    let url = clinic.server.url("analyst");
    let profile =
        json(&clinic.run(&["profile", "-p", "policy.toml", "visits", "-e", "900", "--json", "--engine", &url]));
    let column =
        |name: &str| profile["columns"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap().clone();
    assert!(column("cost")["distinct"]["value"].is_null(), "{}", column("cost"));
    let days = column("day")["distinct"]["value"].as_f64().unwrap();
    assert!((days - 90.0).abs() < 30.0, "{days}");
    let median = |name: &str| column(name)["quantiles"][2].clone();
    // Ages are spread evenly from 0 to 89; ranks are off by less than a quarter of the rows.
    assert!((4.0..19.0).contains(&median("cost").as_f64().unwrap()), "{}", median("cost"));
    for (name, middle) in [("day", "2026-02-14"), ("at", "2026-01-02")] {
        let found: chrono::NaiveDate = median(name).as_str().unwrap()[..10].parse().unwrap();
        let off = (found - middle.parse::<chrono::NaiveDate>().unwrap()).num_days();
        assert!(off.abs() < 25, "{name}: {found}");
    }
}

#[test]
fn bg_09_a_connection_that_is_lost_while_rows_are_read_keeps_the_charge_and_a_retry_is_free() {
    let Some(clinic) = Clinic::new() else { return };
    let slow = "CREATE OR REPLACE VIEW clinic.visits AS SELECT p.* FROM clinic.people p, pg_sleep(60);";
    let quick = "CREATE OR REPLACE VIEW clinic.visits AS SELECT p.* FROM clinic.people p;";
    clinic.server.sql(slow);
    let child = clinic.asked("SELECT COUNT(*) AS n FROM visits", "0.5");
    // What an administrator sees while it runs is the statement, and the secret only where parameters are logged.
    let seen = clinic.server.sql("SELECT query FROM pg_stat_activity WHERE application_name = 'dither'");
    assert!(seen.contains("$1") && !holds_secret(&seen), "{seen}");
    clinic.server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dither'");
    let failed = child.wait_with_output().unwrap();
    assert!(!failed.status.success() && failed.stdout.is_empty());
    assert_eq!(stderr(&failed), FAILED);
    let log = fs::read_to_string(clinic.folder.path().join("operator.log")).unwrap();
    assert!(log.trim_end().ends_with("PostgreSQL refused with SQLSTATE 57P01"), "{log}");
    let left = clinic.left();
    clinic.server.sql(quick);
    let answer = json(&clinic.query("SELECT COUNT(*) AS n FROM visits", "0.5"));
    assert_eq!(answer["remaining"]["epsilon"], 0.5, "charged once");
    assert_eq!(clinic.left(), left);
    // Another ε does not fit any more, whatever was lost.
    assert!(!clinic.query("SELECT COUNT(*) AS n FROM visits WHERE age > 3", "0.6").status.success());
}

#[test]
fn tm_04_a_question_that_runs_out_of_time_shows_one_constant_text_and_is_charged_once() {
    let Some(clinic) = Clinic::new() else { return };
    clinic.server.sql("CREATE OR REPLACE VIEW clinic.visits AS SELECT p.* FROM clinic.people p, pg_sleep(60);");
    let url = clinic.server.url("analyst");
    let sql = "SELECT COUNT(*) AS n FROM visits";
    let ask = |time: &str| {
        clinic.run(&["query", "-p", "policy.toml", sql, "-e", "0.5", "-f", "json", "--engine", &url, "--timeout", time])
    };
    let late = ask("1s");
    assert!(!late.status.success() && late.stdout.is_empty());
    assert_eq!(stderr(&late), FAILED);
    let log = fs::read_to_string(clinic.folder.path().join("operator.log")).unwrap();
    assert!(log.trim_end().ends_with("the limit of time was reached"), "{log}");
    let left = clinic.left();
    clinic.server.sql("CREATE OR REPLACE VIEW clinic.visits AS SELECT p.* FROM clinic.people p;");
    let answer = json(&ask("1h"));
    assert_eq!(answer["remaining"]["epsilon"], 0.5, "charged once");
    assert_eq!(clinic.left(), left);
    for odd in ["0s", "5", "1d", "-1s", "99999999999999999999h"] {
        assert_eq!(ask(odd).status.code(), Some(2), "{odd}");
    }
}

#[test]
fn bg_09_a_row_on_which_a_view_fails_shows_one_constant_text() {
    let Some(clinic) = Clinic::new() else { return };
    clinic.server.sql(
        "CREATE OR REPLACE VIEW clinic.visits AS SELECT patient, ward, age / (age - 89) * 0 + age AS age FROM clinic.people;",
    );
    let failed = clinic.query("SELECT SUM(age) AS n FROM visits", "0.5");
    assert!(!failed.status.success());
    assert_eq!(stderr(&failed), FAILED);
    let log = fs::read_to_string(clinic.folder.path().join("operator.log")).unwrap();
    assert!(log.trim_end().ends_with("PostgreSQL refused with SQLSTATE 22012"), "{log}");
}

/// A server, or somebody between, that says its columns are numbers where texts were asked for. The control is the same
/// way without a change.
#[test]
fn bg_09_a_server_that_answers_with_other_columns_shows_one_constant_text_and_a_retry_is_free() {
    let Some(clinic) = Clinic::new() else { return };
    // Made-up rows come from no table: a server that is honest until rows are read.
    let (reading, lying) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
    let (reads, lies) = (Arc::clone(&reading), Arc::clone(&lying));
    let port = between(
        clinic.server.port(),
        move |asked| {
            let asked = String::from_utf8_lossy(asked);
            let read = asked.contains("FROM \"clinic\".\"visits\"") && !asked.contains("PREPARE");
            reads.fetch_or(read, Ordering::SeqCst);
        },
        move |answer| {
            if reading.load(Ordering::SeqCst) && lies.load(Ordering::SeqCst) {
                // A column of the type `text` of any length, and one of the type `int4`.
                replace(answer, b"\0\0\0\x19\xff\xff\xff\xff\xff\xff", b"\0\0\0\x17\0\x04\xff\xff\xff\xff");
            }
        },
    );
    let url = format!("postgres://analyst:topsecret@127.0.0.1:{port}/postgres");
    let sql = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward";
    let ask = || clinic.run(&["query", "-p", "policy.toml", sql, "-e", "0.5", "-f", "json", "--engine", &url]);
    let failed = ask();
    assert!(!failed.status.success() && failed.stdout.is_empty());
    assert_eq!(stderr(&failed), FAILED);
    let log = fs::read_to_string(clinic.folder.path().join("operator.log")).unwrap();
    assert!(log.trim_end().ends_with("PostgreSQL and this program do not understand each other"), "{log}");
    let left = clinic.left();
    lying.store(false, Ordering::SeqCst);
    assert_eq!(json(&ask())["remaining"]["epsilon"], 0.5, "charged once");
    assert_eq!(clinic.left(), left);
}

#[test]
fn du_what_is_wrong_with_a_server_is_said_before_the_charge() {
    let Some(clinic) = Clinic::new() else { return };
    let ask = |url: &str, password: Option<&str>| {
        let args = ["query", "-p", "policy.toml", "SELECT COUNT(*) AS n FROM visits", "-e", "0.5", "--engine", url];
        let mut command = clinic.command(&args);
        command.envs(password.map(|word| ("PGPASSWORD", word)));
        let output = command.output().unwrap();
        (output.status.success(), stderr(&output))
    };
    let tcp = |password: &str| clinic.server.tcp_url("analyst", password);
    for (url, code) in [
        (tcp("wrongsecret"), "source-server"),
        (clinic.server.url("stranger"), "source-server"),
        ("postgres://analyst:topsecret@127.0.0.1:1/postgres".into(), "source-server"),
        ("postgres://analyst:topsecret@db.example.org/postgres?sslmode=prefer".into(), "error[engine-url]: the URL"),
        ("analyst:topsecret@localhost".into(), "error[engine-url]: the URL"),
    ] {
        let (answered, error) = ask(&url, None);
        assert!(!answered && error.contains(code), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
    let without = tcp("").replace(":@", "@");
    assert!(ask(&without, None).1.contains("PGPASSWORD"));
    let file = clinic.folder.path().join("passwords");
    let with_file = |mode| {
        fs::write(&file, "127.0.0.1:*:postgres:analyst:topsecret\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        let plan = ["plan", "-p", "policy.toml", "SELECT COUNT(*) AS n FROM visits", "-e", "0.5", "--engine", &without];
        clinic.command(&plan).env("PGPASSFILE", &file).output().unwrap().status.success()
    };
    assert!(with_file(0o600));
    assert!(!with_file(0o644), "a file that everybody can read is no secret");
    clinic.server.sql("REVOKE SELECT ON clinic.visits FROM analyst");
    assert!(ask(&tcp("topsecret"), None).1.contains("GRANT SELECT"));
    clinic.server.sql("GRANT SELECT ON clinic.visits TO analyst; ALTER VIEW clinic.visits RENAME COLUMN ward TO room");
    assert!(ask(&tcp("topsecret"), None).1.contains("is not in clinic.visits"));
    clinic.server.sql("ALTER VIEW clinic.visits RENAME COLUMN room TO ward");
    let missing = clinic.run(&["query", "-p", "policy.toml", "SELECT COUNT(*) AS n FROM visits", "-e", "0.5"]);
    assert!(stderr(&missing).contains("source-elsewhere") && stderr(&missing).contains("--engine"));
    assert!(!clinic.has_ledger());
    assert!(ask(&without, Some("topsecret")).0);
    clinic.server.stop();
    let left = clinic.left();
    let (answered, error) = ask(&tcp("topsecret"), None);
    assert!(!answered && error.contains("source-server"), "{error}");
    assert_eq!(clinic.left(), left);
}

/// The policy of tables in a database loads without any file, and says what makes no sense there.
#[test]
fn a_policy_of_relations_needs_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let plan = |policy: &str| {
        fs::write(folder.path().join("policy.toml"), policy).unwrap();
        run(folder.path(), &["plan", "-p", "policy.toml", "SELECT AVG(age) AS a FROM visits", "-e", "0.5"])
    };
    assert!(plan(POLICY).status.success());
    let csv = POLICY.replace("[tables.visits.columns]", "csv = { delimiter = \";\" }\n[tables.visits.columns]");
    assert!(stderr(&plan(&csv)).contains("a relation of a database"));
    assert!(stderr(&plan(&POLICY.replace("postgres:clinic.visits", "postgres://host/db"))).contains("policy-source"));
    fs::write(folder.path().join("policy.toml"), POLICY.replace("postgres:clinic.visits", "visits.csv")).unwrap();
    let nowhere = ["--engine", "postgres://me@127.0.0.1:1/x"];
    let ask = ["plan", "-p", "policy.toml", "SELECT AVG(age) AS a FROM visits", "-e", "0.5"];
    let file = run(folder.path(), &[&ask[..], &nowhere].concat());
    assert!(stderr(&file).contains("error[source-not-elsewhere]: visits.csv is a file"), "{}", stderr(&file));
}

fn run(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dither")).current_dir(folder).args(args).output().unwrap()
}
