//! The real binary on a cluster of its own processes: what is charged, what is shown, and what a lost process changes.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may fail like tests")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use dither_testing::proxy::{between, replace};
use dither_testing::{Cluster, Values, write_parquet};

const POLICY: &str = r#"
dataset = "clinic"
[budget]
epsilon = 1
delta = 1e-6
[tables.visits]
source = "visits/*.parquet"
privacy_unit = { column = "patient" }
max_groups_per_unit = 2
max_rows_per_group = 3
[tables.visits.columns]
patient = { type = "text" }
ward = { type = "text", keys = ["B", "A", "absent"] }
age = { type = "integer", bounds = [0, 110] }
"#;

const FAILED: &str = "error[engine-failed]: the question could not be answered; the charge stands\n\
                      hint: the same request is not charged twice: ask again with more time or memory, or ask the operator\n";

const ASKED: &str = "SELECT ward, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY ward";

/// More than an executor writes in a rehearsal.
const ROWS: u64 = 1 << 20;

/// A folder with a policy and the files of its table.
struct Clinic {
    folder: tempfile::TempDir,
}

impl Clinic {
    /// So many rows of each of four files; every patient has ten in all.
    fn new(rows: i64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("policy.toml"), POLICY).unwrap();
        fs::create_dir(folder.path().join("visits")).unwrap();
        for file in 0..4 {
            let people = (0..rows).map(|n| format!("patient number {}", (file * rows + n) % (rows * 4 / 10)));
            let wards = (0..rows).map(|n| if n % 2 == 0 { "A".into() } else { "B".into() });
            let columns = [
                ("patient", Values::Texts(people.collect())),
                ("ward", Values::Texts(wards.collect())),
                ("age", Values::Integers((0..rows).map(|n| n % 90).collect())),
            ];
            write_parquet(&folder.path().join(format!("visits/part {file}.parquet")), &columns);
        }
        Self { folder }
    }

    fn cluster(&self, executors: usize) -> Cluster {
        Cluster::start(self.folder.path(), executors, |arguments| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_dither"));
            command.arg("cluster").args(arguments);
            command
        })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dither"));
        command.current_dir(self.folder.path()).args(arguments);
        command.env("DITHER_OPERATOR_LOG", self.folder.path().join("operator.log"));
        command
    }

    fn query(&self, url: &str, epsilon: &str) -> Output {
        self.command(&["query", "-p", "policy.toml", ASKED, "-e", epsilon, "-f", "json", "--engine", url])
            .output()
            .unwrap()
    }

    /// Asks, and waits until an executor has written rows.
    fn asked(&self, cluster: &Cluster, epsilon: &str) -> Child {
        let url = cluster.url();
        let arguments = ["query", "-p", "policy.toml", ASKED, "-e", epsilon, "-f", "json", "--engine", &url];
        let mut command = self.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        cluster.wait_for_rows(0, ROWS);
        assert!(child.try_wait().unwrap().is_none(), "it is still counted");
        child
    }

    /// What is left of ε, by the ledger.
    fn left(&self) -> String {
        let shown = self.command(&["ledger", "show", "-p", "policy.toml"]).output().unwrap();
        assert!(shown.status.success(), "{}", stderr(&shown));
        String::from_utf8(shown.stdout).unwrap().lines().next().unwrap().to_owned()
    }

    fn has_ledger(&self) -> bool {
        self.folder.path().join("ledger.db").exists()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Whether the rows are those of the table: half of the patients have three rows that count in each ward.
fn plausible(output: &Output, rows: i64) {
    let found = json(output)["rows"].as_array().unwrap().clone();
    assert_eq!(found.iter().map(|row| row["ward"].as_str().unwrap()).collect::<Vec<_>>(), ["B", "A", "absent"]);
    for row in &found[..2] {
        // All of a patient's ten rows lie in one ward. Noise of scale 24 stays below 600 but in one of 10^11 runs.
        let (n, expected) = (row["n"]["value"].as_f64().unwrap(), (rows * 4 / 10 / 2 * 3) as f64);
        assert!((n - expected).abs() < 600.0, "{n} {expected}");
    }
}

#[test]
fn questions_are_answered_by_executors_and_what_cannot_be_is_said_before_a_charge() {
    let clinic = Clinic::new(1000);
    let mut cluster = clinic.cluster(1);
    let url = cluster.url();
    let plan = clinic.command(&["plan", "-p", "policy.toml", ASKED, "-e", "0.5", "--engine", &url]).output().unwrap();
    assert!(plan.status.success(), "{}", stderr(&plan));
    let refused = |code: &str, word: &str| {
        let output = clinic.query(&url, "0.5");
        assert!(!output.status.success() && output.stdout.is_empty());
        assert!(stderr(&output).starts_with(code) && stderr(&output).contains(word), "{}", stderr(&output));
        assert!(!clinic.has_ledger(), "nothing is charged");
    };
    // Text is read by this program only.
    clinic.write("policy.toml", &POLICY.replace("visits/*.parquet", "visits.csv"));
    refused("error[source-not-on-cluster]", "Parquet");
    clinic.write("policy.toml", POLICY);
    // A file of other types, one that is none, and one that lacks a column.
    let odd = clinic.folder.path().join("visits/z.parquet");
    let (people, wards) = (|| Values::Texts(vec!["p".into()]), || Values::Texts(vec!["A".into()]));
    write_parquet(&odd, &[("patient", people()), ("ward", wards()), ("age", Values::Texts(vec!["7".into()]))]);
    refused("error[source-files-differ]", "`age`");
    write_parquet(&odd, &[("patient", people()), ("ward", wards())]);
    refused("error[source-missing-column]", "`age`");
    clinic.write("visits/z.parquet", "PAR1");
    refused("error[source-unreadable]", "z.parquet");
    fs::remove_file(odd).unwrap();
    // Nobody works, then nobody is there.
    cluster.kill_executor(0);
    cluster.settle();
    refused("error[source-server]", "it has no executor");
    cluster.kill_scheduler();
    refused("error[source-server]", "it cannot be reached");
    cluster.start_scheduler();
    cluster.add_executor();
    let answer = clinic.query(&url, "0.5");
    plausible(&answer, 1000);
    assert_eq!(json(&clinic.query(&url, "0.5"))["rows"], json(&answer)["rows"], "the identical question is free");
    assert_eq!(json(&answer)["remaining"]["epsilon"], 0.5);
    // In this process the same policy reads the same files.
    let here =
        clinic.command(&["query", "-p", "policy.toml", "SELECT COUNT(*) AS n FROM visits", "-e", "0.5"]).output();
    assert!(here.unwrap().status.success());
}

#[test]
fn du_an_executor_that_is_lost_while_rows_are_read_changes_nothing() {
    let clinic = Clinic::new(100_000);
    let mut cluster = clinic.cluster(2);
    let child = clinic.asked(&cluster, "0.5");
    cluster.kill_executor(0);
    plausible(&child.wait_with_output().unwrap(), 100_000);
    assert!(!clinic.folder.path().join("operator.log").exists());
}

#[test]
fn bg_09_a_cluster_that_is_lost_while_rows_are_read_keeps_the_charge_and_a_retry_is_free() {
    let clinic = Clinic::new(100_000);
    let mut cluster = clinic.cluster(1);
    // The charge is on disk before an executor has read a row: whoever dies then, it stands.
    let mut child = clinic.asked(&cluster, "0.5");
    child.kill().unwrap();
    child.wait().unwrap();
    let left = clinic.left();
    assert!(left.contains("0.5"), "{left}");
    cluster.kill_executor(0);
    cluster.kill_scheduler();
    cluster.start_scheduler();
    cluster.add_executor();
    let url = cluster.url();
    let mut command =
        clinic.command(&["query", "-p", "policy.toml", ASKED, "-e", "0.5", "-f", "json", "--engine", &url]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    cluster.wait_for_rows(1, ROWS);
    cluster.kill_scheduler();
    let failed = child.wait_with_output().unwrap();
    assert!(!failed.status.success() && failed.stdout.is_empty());
    assert_eq!(stderr(&failed), FAILED);
    let log = fs::read_to_string(clinic.folder.path().join("operator.log")).unwrap();
    assert!(log.trim_end().ends_with("the cluster did not finish a job"), "{log}");
    assert_eq!(clinic.left(), left);
    cluster.kill_executor(1);
    cluster.start_scheduler();
    cluster.add_executor();
    let answer = clinic.query(&url, "0.5");
    plausible(&answer, 100_000);
    assert_eq!(json(&answer)["remaining"]["epsilon"], 0.5, "charged once");
    assert_eq!(clinic.left(), left);
}

/// Executors of another version, or somebody between, that answer with other columns than were asked for: of what they say
/// nothing is shown, and the charge stands. The control is the same way without a change.
#[test]
fn bg_09_a_cluster_that_answers_with_other_columns_shows_one_constant_text_and_a_retry_is_free() {
    let clinic = Clinic::new(1000);
    let cluster = clinic.cluster(1);
    // Plans of made-up rows name no file: a cluster that is honest until rows are read.
    let (reading, lie) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (reads, lying) = (Arc::clone(&reading), Arc::clone(&lie));
    let port = between(
        cluster.port(),
        move |asked| {
            reads.fetch_or(asked.windows(8).any(|word| word == b".parquet"), Ordering::SeqCst);
        },
        move |answer| match (reading.load(Ordering::SeqCst), lying.load(Ordering::SeqCst)) {
            // Another name, and two columns of one type that change their places.
            (true, 1) => replace(answer, b"\x05\0\0\0units\0", b"\x05\0\0\0staff\0"),
            (true, 2) => {
                replace(answer, b"\x02\0\0\0s0\0", b"\x02\0\0\0??\0");
                replace(answer, b"\x02\0\0\0n0\0", b"\x02\0\0\0s0\0");
                replace(answer, b"\x02\0\0\0??\0", b"\x02\0\0\0n0\0");
            }
            _ => {}
        },
    );
    let url = format!("ballista://127.0.0.1:{port}");
    for change in [1, 2] {
        lie.store(change, Ordering::SeqCst);
        let failed = clinic.query(&url, "0.5");
        assert!(!failed.status.success() && failed.stdout.is_empty(), "{change}");
        assert_eq!(stderr(&failed), FAILED);
        let log = fs::read_to_string(clinic.folder.path().join("operator.log")).unwrap();
        assert!(log.trim_end().ends_with("the cluster answered with other columns than were asked for"), "{log}");
        assert_eq!(log.lines().count(), change);
        assert!(clinic.left().contains("0.5"), "{}", clinic.left());
    }
    lie.store(0, Ordering::SeqCst);
    let answer = clinic.query(&url, "0.5");
    plausible(&answer, 1000);
    assert_eq!(json(&answer)["remaining"]["epsilon"], 0.5, "charged once");
}

#[test]
fn tm_processes_listen_for_other_machines_only_where_somebody_says_so() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_dither")).current_dir(Path::new("/")).args(arguments).output();
        stderr(&output.unwrap())
    };
    let scheduler = run(&["cluster", "scheduler", "--bind", "0.0.0.0:0"]);
    assert!(scheduler.contains("can be reached from other machines"), "{scheduler}");
    // Nothing is announced that does not listen.
    assert!(scheduler.starts_with("error[cluster-open]: ") && scheduler.contains("--trusted-network"), "{scheduler}");
    let executor = run(&["cluster", "executor", "--bind", "0.0.0.0:50051"]);
    assert!(executor.contains("can be reached from other machines"), "{executor}");
    let elsewhere = ["plan", "-p", "none.toml", "SELECT 1", "-e", "1", "--engine", "ballista://192.0.2.1:50050"];
    assert!(!run(&elsewhere).is_empty());
}
