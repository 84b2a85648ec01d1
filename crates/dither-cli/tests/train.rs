//! `dither train` by the real binary: plan, train, resume, refuse.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may fail like tests")]

use std::path::Path;
use std::process::{Command, Output};

const JOB: &str = r#"
[ledger]
file = "ledger.db"
scope = "people"
epsilon = 10
delta = 1e-4
[data]
kind = "table"
file = "people.csv"
features = [{ column = "x", lower = 0, upper = 1 }]
label = { column = "y", classes = ["no", "yes"] }
[unit]
column = "who"
count = 3000
[model]
kind = "linear"
[privacy]
epsilon = 2
delta = 1e-6
[sample]
units = 300
[training]
steps = 20
[clipping]
kind = "flat"
bound = 1.0
[optimizer]
kind = "sgd"
learning_rate = 2.0
[output]
folder = "model"
"#;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..3000)
        .map(|n| format!("{n},{},{}\n", f64::from(n % 100) / 100.0, ["no", "yes"][(n % 100 / 50) as usize]))
        .collect();
    std::fs::write(folder.path().join("people.csv"), format!("who,x,y\n{rows}")).unwrap();
    std::fs::write(folder.path().join("job.toml"), JOB).unwrap();
    folder
}

fn train(folder: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dither"))
        .arg("train")
        .arg("job.toml")
        .args(more)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_model_is_planned_for_free_trained_once_and_resumed_for_free() {
    let folder = folder();
    let planned = train(folder.path(), &["--plan"]);
    assert!(planned.status.success(), "{}", text(&planned.stderr));
    let told = text(&planned.stdout);
    assert!(told.contains("ε 2.0000 at δ 1e-6, for adding or removing one unit"), "{told}");
    assert!(!folder.path().join("ledger.db").exists(), "a plan charges nothing");

    let trained = train(folder.path(), &[]);
    assert!(trained.status.success(), "{}", text(&trained.stderr));
    let told = text(&trained.stdout);
    assert!(told.starts_with("charged ε 2.0000 δ 1e-6 · 20 steps · receipt 2:"), "{told}");
    assert!(!text(&trained.stderr).contains("loss"), "losses are for operators");
    let weights = std::fs::read(folder.path().join("model/model.safetensors")).unwrap();

    let again = train(folder.path(), &[]);
    assert!(!again.status.success() && text(&again.stderr).contains("hint: add --resume"), "{}", text(&again.stderr));
    let resumed = train(folder.path(), &["--resume"]);
    assert!(text(&resumed.stdout).starts_with("trained before, charged then ε 2.0000"), "{}", text(&resumed.stdout));
    assert_eq!(std::fs::read(folder.path().join("model/model.safetensors")).unwrap(), weights);
}

#[test]
fn losses_are_shown_to_operators() {
    let folder = folder();
    let trained = train(folder.path(), &["--operator"]);
    assert!(text(&trained.stderr).contains("step 20: loss "), "{}", text(&trained.stderr));
}

#[test]
fn jobs_that_cannot_be_are_refused_with_what_to_write() {
    let folder = folder();
    for (old, new, code, hint) in [
        ("delta = 1e-6", "delta = 1e-3", "training-field", "use at most"),
        ("column = \"x\"", "column = \"z\"", "training-field", "it has who, x, y"),
        ("epsilon = 2\n", "epsilon = 11\n", "budget-exceeded", "set epsilon to at most"),
        ("kind = \"sgd\"", "kind = \"sgd\"\nseed = 1", "training-job-unreadable", ""),
    ] {
        std::fs::write(folder.path().join("job.toml"), JOB.replace(old, new)).unwrap();
        let refused = train(folder.path(), &[]);
        let told = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1));
        assert!(told.contains(&format!("error[{code}]")) && told.contains(hint), "{told}");
    }
}

#[test]
fn tr_10_a_sweep_needs_a_public_table_and_charges_nothing() {
    let folder = folder();
    let refused = train(folder.path(), &["--sweep", "0.5,4"]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("public = true"), "{}", text(&refused.stderr));

    let measured = r#"
[evaluation]
epsilon = 1
[evaluation.data]
kind = "table"
file = "people.csv"
features = [{ column = "x", lower = 0, upper = 1 }]
label = { column = "y", classes = ["no", "yes"] }
"#;
    std::fs::write(folder.path().join("job.toml"), format!("public = true\n{JOB}{measured}")).unwrap();
    let swept = train(folder.path(), &["--sweep", "4,0.5"]);
    let told = text(&swept.stdout);
    assert!(swept.status.success(), "{}", text(&swept.stderr));
    assert!(told.starts_with("ε 0.5000: right in ") && told.contains("nothing was charged"), "{told}");
    let points: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("model/sweep.json")).unwrap()).unwrap();
    assert_eq!((points[0]["epsilon"].as_f64(), points[1]["epsilon"].as_f64()), (Some(0.5), Some(4.0)));
    assert!(points[1]["accuracy"].as_f64().unwrap() > 0.8, "{points}");
    assert!(std::fs::read_to_string(folder.path().join("model/sweep.svg")).unwrap().starts_with("<svg"));
    assert!(!folder.path().join("ledger.db").exists());
}
