//! Crashes, races and receipts.

use std::fs;
use std::process::Command;

use crate::{Clinic, POLICY, dither, json, stderr, stdout};

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
    let again = json(&clinic.run(&ask));
    assert_eq!((&answer["rows"], &answer["receipt"]), (&again["rows"], &again["receipt"]));
    assert_eq!((&answer["remaining"], &again["free"]), (&again["remaining"], &true.into()));
    assert!(clinic.run(&["ledger", "verify", "-p", "policy.toml"]).status.success());
}

#[test]
fn bg_09_a_failure_after_the_charge_is_constant_and_keeps_the_charge() {
    let clinic = Clinic::with("");
    let whole = clinic.tear();
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
    // The same of what stands on standard error: a refusal stays one.
    for (command, code) in [
        ("query -p policy.toml 'SELECT COUNT(*) FROM visits' -e 0.2 -f csv -o answer.csv", 0),
        ("plan -p none.toml x", 1),
    ] {
        let script = format!("\"$0\" {command} 2>&1 | :; exit ${{PIPESTATUS[0]}}");
        let mut shell = Command::new("bash");
        shell.current_dir(clinic.folder.path()).args(["-c", &script, env!("CARGO_BIN_EXE_dither")]);
        assert_eq!(shell.output().unwrap().status.code(), Some(code), "{command}");
    }
}

/// One receipt, wherever it is shown: what a terminal, a page and JSON say is taken by `ledger verify`.
#[test]
fn a_receipt_has_one_form_everywhere() {
    let clinic = Clinic::with("");
    let question = "SELECT COUNT(*) AS n FROM visits";
    let table = stdout(&clinic.query(question, &["-e", "0.1"]));
    let query = json(&clinic.query(question, &["-e", "0.1", "--json"]));
    assert_eq!(query, json(&clinic.query(question, &["-e", "0.1", "-f", "json"])));
    clinic.write(
        "report.toml",
        "policy = \"policy.toml\"\ntitle = \"t\"\nbudget = { epsilon = 0.1, delta = 0 }\n[[question]]\nid = \"n\"\n\
         title = \"n\"\nsql = \"SELECT COUNT(*) AS r FROM visits\"\n",
    );
    let published = stdout(&clinic.run(&["report", "report.toml"]));
    let profile = ["profile", "visits", "-p", "policy.toml", "-e", "0.2", "--columns", "age"];
    let profiled = stdout(&clinic.run(&profile));
    let profile = json(&clinic.run(&[&profile[..], &["--json"]].concat()));
    let written = |name: &str| fs::read_to_string(clinic.path(&format!("out/{name}"))).unwrap();
    let parsed = |name: &str| serde_json::from_str::<serde_json::Value>(&written(name)).unwrap();
    let (report, certificate) = (parsed("report.json"), parsed("certificate.json"));
    let on_terminal = |text: &str| text.split("receipt ").nth(1).unwrap().lines().next().unwrap().to_owned();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    assert_eq!(on_terminal(&table), text(&query["receipt"]));
    assert_eq!(on_terminal(&published), text(&report["receipt"]));
    assert_eq!(on_terminal(&profiled), text(&profile["receipt"]));
    for page in ["report.html", "certificate.html"] {
        assert!(written(page).contains(&format!("<code>{}</code>", text(&report["receipt"]))), "{page}");
    }
    for receipt in [&query["receipt"], &report["receipt"], &profile["receipt"], &certificate["head"]] {
        let verified = clinic.run(&["ledger", "verify", "--ledger", "ledger.db", "--receipt", &text(receipt)]);
        assert!(verified.status.success(), "{receipt}: {}", stderr(&verified));
    }
}

#[test]
fn a_ledger_is_shown_by_its_own_name_as_well() {
    let clinic = Clinic::with("");
    let long = "x".repeat(1_000);
    assert!(
        clinic.query(&format!("SELECT COUNT(*) FROM visits WHERE city <> '{long}'"), &["-e", "0.1"]).status.success()
    );
    let shown = clinic.run(&["ledger", "show", "--ledger", "ledger.db"]);
    assert_eq!(stdout(&shown), stdout(&clinic.run(&["ledger", "show", "-p", "policy.toml"])));
    assert!(stdout(&shown).lines().all(|line| line.chars().count() < 280), "{}", stdout(&shown));
    assert!(stdout(&clinic.run(&["ledger", "export", "--ledger", "ledger.db"])).contains(&long));
    for args in [&["ledger", "show"][..], &["ledger", "show", "-p", "policy.toml", "--ledger", "ledger.db"]] {
        assert_eq!(clinic.run(args).status.code(), Some(2), "{args:?}");
    }
    let missing = clinic.run(&["ledger", "show", "--ledger", "none.db"]);
    assert!(stderr(&missing).contains("error[ledger-missing]"), "{}", stderr(&missing));
}
