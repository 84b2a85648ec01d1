//! One table of uniformly chosen units, keys and values, the same in every run.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};

use super::{Case, Writer};

const KEYS: u64 = 50;
const MANY_KEYS: u64 = 100_000;
const BY_UNIT: &str = "privacy_unit = { column = \"unit\" }\nmax_groups_per_unit = 3\nmax_rows_per_group = 5";
const BY_ROW: &str = "privacy_unit = \"row\"";

/// What is asked of it.
pub fn cases() -> Vec<Case> {
    let case = |name, unit: &str, sql: &'static str, plain, against| Case {
        name,
        policy: policy(unit, if sql.contains("many") { MANY_KEYS } else { 0 }),
        sql,
        plain,
        against,
    };
    let first = "plain, per unit and key first";
    vec![
        case(
            "user level: COUNT, SUM, AVG by 50 keys, 3 keys of a unit, 5 rows in each",
            BY_UNIT,
            "SELECT key, COUNT(*) AS n, SUM(value) AS s, AVG(value) AS mean FROM t GROUP BY key",
            "SELECT key, SUM(n) AS n, SUM(s) AS s, SUM(s) / SUM(n) AS mean FROM \
             (SELECT unit, key, COUNT(*) AS n, SUM(value) AS s FROM t GROUP BY unit, key) GROUP BY key",
            first,
        ),
        case(
            "row level: COUNT, SUM, AVG by 50 keys",
            BY_ROW,
            "SELECT key, COUNT(*) AS n, SUM(value) AS s, AVG(value) AS mean FROM t GROUP BY key",
            "SELECT key, COUNT(*) AS n, SUM(value) AS s, AVG(value) AS mean FROM t GROUP BY key",
            "plain",
        ),
        case(
            "row level: COUNT, SUM, AVG of all rows",
            BY_ROW,
            "SELECT COUNT(*) AS n, SUM(value) AS s, AVG(value) AS mean FROM t",
            "SELECT COUNT(*) AS n, SUM(value) AS s, AVG(value) AS mean FROM t",
            "plain",
        ),
        case(
            "user level: COUNT by 100,000 public keys, 3 keys of a unit, 5 rows in each",
            BY_UNIT,
            "SELECT many, COUNT(*) AS n FROM t GROUP BY many",
            "SELECT many, SUM(n) AS n FROM \
             (SELECT unit, many, COUNT(*) AS n FROM t GROUP BY unit, many) GROUP BY many",
            first,
        ),
    ]
}

fn policy(unit: &str, many: u64) -> String {
    let list = |keys: u64| (0..keys).map(|key| format!("\"{}\"", key_name(key))).collect::<Vec<_>>().join(", ");
    let many = if many > 0 { list(many) } else { String::from("\"none\"") };
    let mut text = String::from("dataset = \"bench\"\nledger = \"ledger.db\"\n[budget]\nepsilon = 100\n");
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "[tables.t]\nsource = \"t.parquet\"\n{unit}\n[tables.t.columns]\nunit = {{ type = \"integer\" }}\n\
         key = {{ type = \"text\", keys = [{}] }}\nmany = {{ type = \"text\", keys = [{many}] }}\n\
         value = {{ type = \"number\", bounds = [0, 100], step = 0.01 }}\n",
        list(KEYS)
    );
    text
}

fn key_name(key: u64) -> String {
    format!("key-{key:02}")
}

/// Writes the table; with `half`, one unit owns about half of all rows.
pub fn write(folder: &Path, rows: u64, units: u64, half: bool) -> Result<()> {
    let names: Vec<String> = (0..MANY_KEYS).map(key_name).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % limit
    };
    let mut writer = Writer::new(folder.join("t.parquet"));
    let mut first = 0;
    while first < rows {
        let last = rows.min(first + (1 << 16));
        let chosen: Vec<[u64; 4]> = (first..last)
            .map(|row| {
                let unit = if half && row % 2 == 0 { 0 } else { below(units) };
                [unit, below(KEYS), below(10_001), below(MANY_KEYS)]
            })
            .collect();
        first = last;
        let text = |column: usize| {
            Arc::new(StringArray::from_iter_values(chosen.iter().map(|row| names[row[column] as usize].as_str())))
        };
        let unit = Int64Array::from_iter_values(chosen.iter().map(|row| row[0] as i64));
        let value = Float64Array::from_iter_values(chosen.iter().map(|row| row[2] as f64 / 100.0));
        let columns: [(&str, ArrayRef); 4] =
            [("unit", Arc::new(unit)), ("key", text(1)), ("value", Arc::new(value)), ("many", text(3))];
        writer.write(columns)?;
    }
    writer.close()
}
