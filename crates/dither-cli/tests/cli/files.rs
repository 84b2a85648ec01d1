//! Which files are read and written.

use std::fs;

use crate::{Clinic, stderr, stdout};

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
    // A policy finds its table from where it lies.
    fs::create_dir(clinic.path("sub")).unwrap();
    assert!(clinic.run(&["init", "visits.csv", "--out", "sub/starter.toml"]).status.success());
    let starter = fs::read_to_string(clinic.path("sub/starter.toml")).unwrap();
    let source = starter.lines().find_map(|line| line.strip_prefix("source = ")).unwrap();
    assert!(clinic.path("sub").join(source.trim_matches('"')).exists(), "{source}");
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
