//! `dither account` and `dither calibrate` as a user meets them: no data, no policy, no ledger.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may fail like tests")]

use std::path::Path;
use std::process::{Command, Output};

fn dither(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dither")).current_dir(folder).args(args).output().unwrap()
}

fn json(args: &[&str]) -> serde_json::Value {
    let folder = tempfile::tempdir().unwrap();
    let output = dither(folder.path(), args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

const TRAINING: &[&str] = &["dp-sgd", "--noise-multiplier", "1.1", "--sampling-rate", "256/60000", "--steps", "14063"];

/// Doroshenko et al.'s library, dp-accounting 0.6.0, gives 2.381779 on its usual mesh; prv-accountant 0.2.0 proves
/// [2.371548, 2.391837].
#[test]
fn a_training_run_is_priced_between_two_proven_ends() {
    let account = json(&[&["account"], TRAINING, &["--delta", "1e-5", "--json"]].concat());
    let (lower, upper) = (account["epsilon_lower"].as_f64().unwrap(), account["epsilon"].as_f64().unwrap());
    assert!(lower <= upper && upper <= 2.381779 && lower >= 2.371548, "[{lower}, {upper}]");
    assert!(upper - lower <= 1e-3 * upper);
    assert_eq!(
        (account["accountant"].as_str(), account["neighbors"].as_str()),
        (Some("pld"), Some("add-or-remove-unit"))
    );
    assert!(account["accountants"]["rdp"]["epsilon"].as_f64().unwrap() > upper);
    assert!(account["accountants"]["gdp"]["refused"].is_string());
    let replaced =
        json(&[&["account"], TRAINING, &["--delta", "1e-5", "--json", "--neighbors", "replace-unit"]].concat());
    assert!(replaced["epsilon"].as_f64().unwrap() > 1.5 * upper);
    let delta = json(&[&["account"], TRAINING, &["--epsilon", "2", "--json"]].concat());
    // dp-accounting 0.6.0: 1.191566e-4.
    assert!((delta["delta"].as_f64().unwrap() / 1.191566e-4 - 1.0).abs() < 1e-3, "{delta}");
}

#[test]
fn documents_of_events_are_read_whoever_wrote_them() {
    let folder = tempfile::tempdir().unwrap();
    let ours = r#"{"version":1,"neighbors":"replace-unit","event":{"laplace":{"noise_multiplier":2}}}"#;
    let theirs = r#"{"module_name":"dp_accounting.dp_event","class_name":"LaplaceDpEvent","noise_multiplier":2}"#;
    for (text, neighbors) in [(ours, "replace-unit"), (theirs, "add-or-remove-unit")] {
        std::fs::write(folder.path().join("events.json"), text).unwrap();
        let output = dither(folder.path(), &["account", "events.json", "--delta", "0", "--json"]);
        let account: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!((account["epsilon"].as_f64().unwrap() - 0.5).abs() < 1e-6, "{account}");
        assert_eq!(account["neighbors"].as_str(), Some(neighbors));
    }
    for text in
        ["", "[]", "{}", r#"{"version":2,"neighbors":"replace-unit","event":"no-op"}"#, &ours.replace('2', "-1")]
    {
        std::fs::write(folder.path().join("events.json"), text).unwrap();
        let output = dither(folder.path(), &["account", "events.json", "--delta", "0"]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && message.starts_with("error") && !message.contains("panicked"), "{message}");
    }
}

#[test]
fn ac_06_what_is_calibrated_is_priced_within_its_goal() {
    let found = json(&[
        "calibrate",
        "dp-sgd",
        "--sampling-rate",
        "0.01",
        "--steps",
        "5000",
        "--epsilon",
        "1",
        "--delta",
        "1e-5",
        "--json",
    ]);
    // dp-accounting 0.6.0 with PLD: 2.752654.
    let noise = found["noise_multiplier"].as_f64().unwrap();
    assert!(noise <= 2.752654 && noise > 2.752, "{noise}");
    assert!(found["epsilon"].as_f64().unwrap() <= 1.0);
    let found = json(&[
        "calibrate",
        "dp-sgd",
        "--sampling-rate",
        "0.1",
        "--noise-multiplier",
        "3",
        "--epsilon",
        "2",
        "--delta",
        "1e-6",
        "--json",
    ]);
    // jax-privacy 2.2's documentation: 155.
    assert_eq!(found["steps"].as_f64(), Some(155.0), "{found}");
    let found = json(&["calibrate", "laplace", "--target-error", "10", "--json"]);
    assert!((found["epsilon"].as_f64().unwrap() - 20f64.ln() / 10.0).abs() < 1e-6, "{found}");
    let found = json(&["calibrate", "gaussian", "--epsilon", "1", "--delta", "1e-5", "--json"]);
    // Balle and Wang 2018, Algorithm 1: 3.7306316.
    assert!((found["scale"].as_f64().unwrap() - 3.7306316).abs() < 1e-5, "{found}");
}

#[test]
fn plots_are_files_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let account = [&["account"], TRAINING, &["--delta", "1e-5", "--plot", "account.svg"]].concat();
    assert!(dither(folder.path(), &account).status.success());
    let calibrate = ["calibrate", "laplace", "-e", "1", "--columns", "40", "--plot", "errors.svg"];
    assert!(dither(folder.path(), &calibrate).status.success());
    for (file, words) in [("account.svg", "privacy loss"), ("errors.svg", "crossing")] {
        let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
        assert!(text.starts_with("<svg") && text.contains(words) && !text.contains("NaN"), "{file}");
        assert!(text.matches("<polyline").count() >= 4, "{file}: two curves and their legend");
    }
}

#[test]
fn bg_02_odd_parameters_are_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    for odd in ["0", "-1", "NaN", "inf", "1e999", "x", "1/0", "0/0", ""] {
        for args in [
            vec!["account", "gaussian", "--noise-multiplier", odd, "--delta", "1e-6"],
            vec!["calibrate", "laplace", "--epsilon", odd],
            vec!["calibrate", "gaussian", "--epsilon", "1", "--delta", "1e-6", "--sensitivity", odd],
        ] {
            let output = dither(folder.path(), &args);
            assert!(!output.status.success() && output.stdout.is_empty(), "{args:?}");
            assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{args:?}");
        }
    }
    for (noise, rate, steps) in
        [("1e-300", "1", "1"), ("1e300", "1e-300", "18446744073709551615"), ("1e-3", "1", "1000")]
    {
        let run = ["dp-sgd", "--noise-multiplier", noise, "--sampling-rate", rate, "--steps", steps, "--delta", "1e-6"];
        let output = dither(folder.path(), &[&["account"][..], &run].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(!text.contains("NaN") && !text.contains("panicked"), "{text}");
    }
}
