//! What stands beside the numbers.

use std::process::Command;

use crate::{Clinic, shape};

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
