//! The real binary: exit status, standard output and standard error, on tables that differ where it matters.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may fail like tests")]

mod budget;
mod files;
mod leaks;
mod ledger;
mod plan;
mod query;
mod refusals;
mod report;
mod units;

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

    /// Packs the table, and tears the archive behind its header: reading it fails after the charge. Gives back the whole.
    fn tear(&self) -> Vec<u8> {
        self.write("policy.toml", &POLICY.replace("visits.csv", "visits.csv.gz"));
        let whole = Command::new("gzip").arg("-c").arg(self.path("visits.csv")).output().unwrap().stdout;
        fs::write(self.path("visits.csv.gz"), &whole[..whole.len() - 12]).unwrap();
        whole
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
