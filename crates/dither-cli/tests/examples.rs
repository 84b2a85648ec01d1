//! The four examples, run as the README says, against the truth that anybody can compute from the shipped files.
//!
//! The bounds here are wide enough that chance fails them less than once in 10^9 runs; the errors themselves are
//! measured in `docs/results.md`.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may fail like tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A copy of an example in a folder of its own, with a ledger of its own.
fn example(name: &str) -> (tempfile::TempDir, PathBuf) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(source).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_file() && !name.starts_with("ledger") {
            fs::copy(&path, folder.path().join(name)).unwrap();
        }
    }
    let path = folder.path().to_owned();
    (folder, path)
}

fn dither(folder: &Path, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_dither")).current_dir(folder).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Publishes the report of a folder and returns its JSON.
fn publish(folder: &Path) -> Value {
    dither(folder, &["report", "report.toml"]);
    for page in ["report.html", "certificate.html"] {
        let html = fs::read_to_string(folder.join("out").join(page)).unwrap();
        assert!(html.contains("</html>") && !html.contains("http-equiv=\"refresh\""), "{page}");
    }
    serde_json::from_str(&fs::read_to_string(folder.join("out/report.json")).unwrap()).unwrap()
}

/// The rows of a section, by its place in the report.
fn rows(report: &Value, section: usize) -> &Vec<Value> {
    report["sections"][section]["rows"].as_array().unwrap()
}

/// The lines of a compressed file, cut at commas; the files have no quoted cells where it matters.
fn table(path: &Path) -> (Vec<String>, Vec<Vec<String>>) {
    let text = Command::new("gzip").arg("-dc").arg(path).output().unwrap().stdout;
    let text = String::from_utf8(text).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    (lines.next().unwrap(), lines.collect())
}

#[test]
fn the_mean_length_of_stay_is_right_and_says_so_before_it_looks() {
    let (_folder, path) = example("hospital");
    let ask = ["-p", "policy.toml", "SELECT AVG(time_in_hospital) AS days FROM stays", "--epsilon", "1"];
    let plan: Value = serde_json::from_str(&dither(&path, &[&["plan", "--json"], &ask[..]].concat())).unwrap();
    let expected = plan["plan"]["outputs"][0]["expected_error"].as_f64().unwrap();
    assert!(expected < 0.01, "the plan promises an error under 0.01 days: {expected}");
    let answer: Value = serde_json::from_str(&dither(&path, &[&["query", "-f", "json"], &ask[..]].concat())).unwrap();
    let days = answer["rows"][0]["days"]["value"].as_f64().unwrap();
    // 447,362 days in 101,766 stays. The noise exceeds 0.05 days with probability below e^-30.
    assert!((days - 447_362.0 / 101_766.0).abs() < 0.05, "{days}");
    let (_folder, path) = example("hospital");
    let report = publish(&path);
    assert_eq!(rows(&report, 1).len(), 10, "ten age bands");
    assert!(rows(&report, 2).len() > 5, "specialties with many patients are shown");
}

#[test]
fn every_large_cell_of_the_income_table_is_close() {
    let (_folder, path) = example("income");
    let (header, people) = table(&path.join("acs_excerpts.csv.gz"));
    let column = |name: &str| header.iter().position(|column| column == name).unwrap();
    let (state, industry, income) = (column("STATE"), column("INDP_CAT"), column("PINCP"));
    let mut truth: BTreeMap<(String, String), (f64, f64)> = BTreeMap::new();
    for person in people.iter().filter(|person| person[industry] != "N" && person[income] != "N") {
        let cell = truth.entry((person[state].clone(), person[industry].clone())).or_default();
        cell.0 += 1.0;
        cell.1 += person[income].parse::<f64>().unwrap().clamp(0.0, 75_000.0);
    }
    let report = publish(&path);
    let mut large = 0;
    for row in rows(&report, 1) {
        let key = |name: &str| row[name].as_str().unwrap().to_owned();
        let Some((count, sum)) = truth.get(&(key("state"), key("industry"))).filter(|cell| cell.0 >= 500.0) else {
            continue;
        };
        large += 1;
        let error = row["mean_income"]["value"].as_f64().unwrap() / (sum / count) - 1.0;
        assert!(error.abs() < 0.12, "{row}: {error}");
    }
    assert_eq!(large, 21);
    // The cells of a state sum to its own people and incomes.
    for total in rows(&report, 0) {
        for name in ["people", "income"] {
            let cells = rows(&report, 1).iter().filter(|row| row["state"] == total["state"]);
            let sum: f64 = cells.map(|row| row[name]["value"].as_f64().unwrap()).sum();
            let whole = total[name]["value"].as_f64().unwrap();
            assert!((sum - whole).abs() <= 1e-6 * whole.abs().max(1.0), "{name}: {sum} and {whole}");
        }
    }
}

#[test]
fn the_restaurant_stays_within_its_budget_and_shows_the_split() {
    let (_folder, path) = example("restaurant");
    let report = publish(&path);
    let charged = &report["budget"]["charged"];
    assert!(charged["epsilon"].as_f64().unwrap() <= 1.0 && charged["delta"].as_f64().unwrap() <= 1e-6, "{charged}");
    let kinds: Vec<&str> =
        (0..4).map(|section| report["sections"][section]["share"]["noise"][0]["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["laplace", "laplace", "laplace", "gaussian"]);
    let per_head = rows(&report, 1)[0]["spend_per_head"]["value"].as_f64().unwrap();
    assert!((100.0..220.0).contains(&per_head), "{per_head}");
}

#[test]
fn the_heat_map_finds_the_busy_cells_of_made_up_and_of_real_check_ins() {
    let (_folder, path) = example("heatmap");
    let report = publish(&path);
    assert_eq!(rows(&report, 0).len(), 38 * 49);
    let real = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/gowalla_nyc/checkins.csv.gz");
    if !real.exists() {
        eprintln!("SKIPPED: the real check-ins are not here; their licence keeps them out of the repository");
        return;
    }
    let policy = fs::read_to_string(path.join("policy.toml")).unwrap();
    let policy = policy
        .replace("dataset = \"heatmap\"", "dataset = \"real\"")
        .replace("ledger.db", "real.db")
        .replace("\"checkins.csv.gz\"", &format!("{:?}", fs::canonicalize(&real).unwrap()))
        .replace("bounds = [31.1, 31.4]", "bounds = [40.4, 41.0]")
        .replace("bounds = [121.3, 121.7]", "bounds = [-74.3, -73.6]")
        .replace("user = { type = \"integer\" }", "user_id = { type = \"integer\" }")
        .replace("column = \"user\"", "column = \"user_id\"")
        .replace("time = { type", "checkin_time = { type")
        .replace("latitude * 200", "latitude * 100")
        .replace("longitude * 200", "longitude * 100")
        .replace("from = 6231, to = 6268", "from = 4048, to = 4091")
        .replace("from = 24280, to = 24328", "from = -7426, to = -7371");
    fs::write(path.join("policy.toml"), policy).unwrap();
    let spec = fs::read_to_string(path.join("report.toml")).unwrap().replace("\"user\"", "user_id");
    fs::write(path.join("report.toml"), spec).unwrap();
    let report = publish(&path);
    let busiest = rows(&report, 0)
        .iter()
        .max_by(|a, b| a["users"]["value"].as_f64().unwrap().total_cmp(&b["users"]["value"].as_f64().unwrap()))
        .unwrap();
    // The six busiest cells lie in Manhattan, within rows 4072 to 4076 and columns -7400 to -7398.
    let cell = (busiest["row"].as_i64().unwrap(), busiest["column"].as_i64().unwrap());
    assert!((4072..=4076).contains(&cell.0) && (-7401..=-7397).contains(&cell.1), "{cell:?}");
}
