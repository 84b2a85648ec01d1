//! `dither train` by the real binary: plan, train, resume, refuse.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may fail like tests")]

use std::io::{BufRead, Read};
use std::path::Path;
use std::process::{Command, Output};

use dither_core::{Answer, Cell, Column, Key, Role};

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
    for line in
        ["left now   ε 10.0000, δ 1e-4\n", "left then  ε 8.0000, δ 9.9e-5\n", "memory     about ", "time       about "]
    {
        assert!(told.contains(line), "{line}: {told}");
    }
    let planned = train(folder.path(), &["--plan", "--json"]);
    let plan: serde_json::Value = serde_json::from_slice(&planned.stdout).unwrap();
    assert_eq!(plan["budget"]["left_then"]["delta"], 9.9e-5);
    assert_eq!((plan["memory"]["physical"].as_u64(), plan["plan"]["plan"]["weights"].as_u64()), (Some(32), Some(4)));
    assert!(plan["time"]["run"].as_f64().unwrap() > 0.0 && plan["evaluation_epsilon"].is_null(), "{plan}");
    assert!(!folder.path().join("ledger.db").exists(), "a plan charges nothing");

    let trained = train(folder.path(), &[]);
    assert!(trained.status.success(), "{}", text(&trained.stderr));
    let told = text(&trained.stdout);
    assert!(told.starts_with("charged ε 2.0000 δ 1e-6 · 20 steps · left ε 8.0000, δ 9.9e-5 · receipt 2:"), "{told}");
    assert!(!text(&trained.stderr).contains("loss"), "losses are for operators");
    let weights = std::fs::read(folder.path().join("model/model.safetensors")).unwrap();

    let again = train(folder.path(), &[]);
    assert!(!again.status.success() && text(&again.stderr).contains("hint: add --resume"), "{}", text(&again.stderr));
    let resumed = train(folder.path(), &["--resume"]);
    let told = text(&resumed.stdout);
    assert!(told.starts_with("charged nothing for training: it had ended before, at ε 2.0000 δ 1e-6"), "{told}");
    assert!(told.contains(" · left ε 8.0000, δ 9.9e-5 · receipt "), "{told}");
    assert_eq!(std::fs::read(folder.path().join("model/model.safetensors")).unwrap(), weights);
}

#[test]
fn a_run_that_is_interrupted_keeps_its_steps_and_goes_on_for_free() {
    let folder = folder();
    let endless = JOB.replace("steps = 20", "steps = 20000");
    std::fs::write(folder.path().join("job.toml"), &endless).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dither"));
    command.args(["train", "job.toml", "--operator"]).current_dir(folder.path());
    let mut child = command.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::null()).spawn().unwrap();
    let mut lines = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("step 2:") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended before its second step");
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let said = "stopping after this step, which will be kept; Ctrl-C once more stops at once\n";
    let (_, end) = rest.split_once(said).unwrap_or_else(|| panic!("{rest}"));
    assert!(
        end.contains("error[training-stopped]: stopped after step ")
            && end.contains(" of 20000, which is kept in model/checkpoint"),
        "{end}"
    );
    assert!(end.contains("hint: run the job again with --resume: it goes on from there, for free"), "{end}");
    let planned = text(&train(folder.path(), &["--plan"]).stdout);
    assert!(
        planned.contains("left then  ε 8.0000, δ 9.9e-5: this was charged before, and --resume goes on for free"),
        "{planned}"
    );
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
        ("delta = 1e-6", "delta = 1e-3", "training-field", "use 3e-5 or less, a tenth of one in 3000 units"),
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

    // A plan says what its ε costs on a public table, and on no other.
    std::fs::write(folder.path().join("other.toml"), format!("{JOB}{measured}")).unwrap();
    let refused = train(folder.path(), &["--plan", "--proxy", "other.toml"]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("public = true"), "{}", text(&refused.stderr));
    let planned = train(folder.path(), &["--plan", "--json", "--proxy", "job.toml"]);
    let planned: serde_json::Value = serde_json::from_slice(&planned.stdout).unwrap();
    assert!((planned["proxy"][0]["epsilon"].as_f64().unwrap() - 2.0).abs() < 1e-3, "{planned}");
    assert_eq!(planned["proxy"][1]["noise_multiplier"], 0.1);
    let told = text(&train(folder.path(), &["--plan", "--proxy", "job.toml"]).stdout).to_owned();
    assert!(told.contains("proxy      right in ") && told.contains(" points less"), "{told}");
    assert!(!folder.path().join("ledger.db").exists());
}

#[test]
fn a_model_is_quantised_for_free_with_its_card() {
    let folder = folder();
    assert!(train(folder.path(), &[]).status.success());
    let quantize = |model: &str, out: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dither"));
        command.args(["model", "quantize", model, "--out", out]).current_dir(folder.path()).output().unwrap()
    };
    let ledger = std::fs::read(folder.path().join("ledger.db")).unwrap();
    let done = quantize("model", "small");
    let told = text(&done.stdout);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(
        told.starts_with("2 weights of 8 bits, 2 left as they are, ") && told.contains("charged nothing"),
        "{told}"
    );
    let card = |folder_name: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(folder.path().join(folder_name).join("card.json")).unwrap()).unwrap()
    };
    assert!(told.contains(card("model")["receipt"].as_str().unwrap()), "{told}");
    assert_eq!(card("small")["guarantee"], card("model")["guarantee"]);
    assert_eq!(std::fs::read(folder.path().join("ledger.db")).unwrap(), ledger);
    for (model, out, said) in [
        ("model", "small", "exists already"),
        ("small", "smaller", "integers already"),
        ("gone", "smaller", "card.json cannot be used"),
    ] {
        let refused = quantize(model, out);
        let told = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1));
        assert!(told.starts_with("error[training-file]: ") && told.contains(said), "{told}");
    }
    let mut weights = std::fs::read(folder.path().join("model/model.safetensors")).unwrap();
    *weights.last_mut().unwrap() ^= 1;
    std::fs::write(folder.path().join("model/model.safetensors"), weights).unwrap();
    let told = text(&quantize("model", "smaller").stderr);
    assert!(told.contains("not the file that card.json was written for"), "{told}");
}

/// Numbers that are none, texts with quotes, rows of nobody.
fn odd_rows() -> Vec<[Key; 3]> {
    let text = |text: &str| Key::Text(text.into());
    let row = |n: i64| {
        let x = f64::from(n as i32 % 100) / 99.7;
        [Key::Integer(n), Key::Number(x), text(["no", "yes"][(n % 100 / 50) as usize])]
    };
    let mut rows: Vec<[Key; 3]> = (0..3000).map(row).collect();
    for (n, x) in [f64::NAN, f64::INFINITY, -1e300, 5e-324, 0.1 + 0.2].into_iter().enumerate() {
        rows[100 * n] = [Key::Integer(1), Key::Number(x), text(" yes ")];
    }
    rows.extend([
        [Key::Null, Key::Number(0.5), text("yes")],
        [Key::Integer(7), Key::Null, text("no")],
        [Key::Integer(8), Key::Number(0.5), Key::Null],
        [Key::Integer(9), Key::Number(0.5), text("\"maybe\", they say")],
    ]);
    rows
}

#[test]
fn the_same_table_as_text_and_as_parquet_is_one_table() {
    let digest = |file: &str, leave_out: usize| {
        let folder = folder();
        let mut rows = odd_rows();
        rows.drain(..leave_out);
        match file {
            "people.csv" => {
                let cell = |key: &Key| match key {
                    Key::Null => String::new(),
                    Key::Text(text) => format!("\"{}\"", text.replace('"', "\"\"")),
                    Key::Number(number) => number.to_string(),
                    other => other.to_string(),
                };
                let lines = rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join(",") + "\n");
                let text = format!("who,x,y\n{}", lines.collect::<String>());
                std::fs::write(folder.path().join(file), text).unwrap();
            }
            _ => {
                let columns = ["who", "x", "y"].map(|name| Column { name: name.into(), role: Role::Key });
                let rows = rows.into_iter().map(|row| row.into_iter().map(Cell::Key).collect()).collect();
                let answer = Answer { columns: columns.into(), rows };
                let bytes = dither_query::export::parquet(&answer).unwrap();
                std::fs::write(folder.path().join(file), bytes).unwrap();
            }
        }
        let job = folder.path().join("job.toml");
        std::fs::write(&job, JOB.replace("people.csv", file)).unwrap();
        // The two jobs get one key: with it the digest of the rows that a run has read is the same where they are.
        let keys = folder.path().join("ledger.db.jobs");
        std::fs::create_dir(&keys).unwrap();
        let key = format!(r#"{{"version":1,"key":"{}","table":null}}"#, "07".repeat(32));
        let name = dither_learn::train::job::Job::load(&job).unwrap().name();
        let key_file = keys.join(format!("{name}.json"));
        std::fs::write(&key_file, key).unwrap();
        let trained = train(folder.path(), &["--resume"]);
        assert!(trained.status.success(), "{}", text(&trained.stderr));
        let stored: serde_json::Value = serde_json::from_slice(&std::fs::read(key_file).unwrap()).unwrap();
        stored["table"].as_str().unwrap().to_owned()
    };
    let expected = digest("people.csv", 0);
    assert_eq!(digest("people.parquet", 0), expected);
    // Control: a table without some of the rows.
    assert_ne!(digest("people.parquet", 10), expected);
}

#[test]
fn parquet_files_that_do_not_fit_are_refused_before_the_charge() {
    let folder = folder();
    let refused = |said: &str, code: &str| {
        let told = text(&train(folder.path(), &[]).stderr);
        assert!(told.contains(said) && told.contains(&format!("error[{code}]")), "{told}");
        assert!(!folder.path().join("ledger.db").exists(), "nothing is charged");
    };
    std::fs::write(folder.path().join("job.toml"), JOB.replace("people.csv", "people.parquet")).unwrap();
    refused("people.parquet cannot be used", "training-file");
    std::fs::write(folder.path().join("people.parquet"), "who,x,y\n1,2,no\n").unwrap();
    refused("people.parquet cannot be used", "training-file");
    let columns = vec![Column { name: "who".into(), role: Role::Key }];
    let answer = Answer { columns, rows: vec![vec![Cell::Key(Key::Integer(1))]] };
    std::fs::write(folder.path().join("people.parquet"), dither_query::export::parquet(&answer).unwrap()).unwrap();
    refused("hint: it has who", "training-field");
}
