//! What privacy costs in time and memory: one question on a generated table, privately and plainly.
//!
//! All four ways read the same Parquet file through `dither_query::source::open`. The private question keeps at most
//! [`GROUPS`] keys of a unit and [`ROWS_PER_GROUP`] rows in each, by keyed hashes. The plain two-level question
//! aggregates per unit and key first, as any bounding must, and bounds nothing.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::{SessionConfig, SessionContext};
use dither::{Policy, Request, Session};
use dither_query::bound::Bounding;
use dither_query::engine::{Engine, LocalEngine};
use dither_query::{plan::plan, source};

use crate::figures::{Figure, Section, median};

const REPEATS: usize = 5;
const KEYS: u64 = 50;
const GROUPS: u64 = 10;
const ROWS_PER_GROUP: u64 = 5;
const SQL: &str = "SELECT key, COUNT(*) AS n, AVG(value) AS mean FROM t GROUP BY key";
const TWO_LEVELS: &str = "SELECT key, SUM(n) AS n, SUM(s) / SUM(n) AS mean FROM \
    (SELECT unit, key, COUNT(*) AS n, SUM(value) AS s FROM t GROUP BY unit, key) GROUP BY key";

const WAYS: [&str; 4] = [
    "plain GROUP BY",
    "plain, per unit and key first",
    "private, portable plan alone",
    "private, whole: plan, fresh ledger, charge, noise, answer",
];

/// Generates the table and asks the question in four ways.
pub async fn run(rows: u64, units: u64) -> Result<Vec<Section>> {
    let folder = tempfile::tempdir()?;
    generate(&folder.path().join("t.parquet"), rows, units)?;
    fs::write(folder.path().join("policy.toml"), policy())?;
    let policy = Policy::load(folder.path().join("policy.toml"))?;
    let table = &policy.tables["t"];
    let open = || source::open(table, &policy.base_dir, &Arc::default());
    let partitions = std::thread::available_parallelism().map_or(1, usize::from);
    let request = Request::new(SQL, "4".parse()?);
    let priced = plan(&request, &policy).await?;
    let mut measured: Vec<(&str, Vec<f64>, f64)> = WAYS.iter().map(|name| (*name, Vec::new(), 0.0)).collect();
    // The ways take turns, so that whatever else the machine does falls on all of them.
    for repeat in 0..REPEATS {
        for (way, (_, times, memory)) in measured.iter_mut().enumerate() {
            let reset = forget_peak();
            let start = Instant::now();
            match way {
                0 | 1 => {
                    let config = SessionConfig::new().with_target_partitions(partitions);
                    let context = SessionContext::new_with_config(config);
                    context.register_table("t", open()?)?;
                    context.sql(if way == 0 { SQL } else { TWO_LEVELS }).await?.collect().await?;
                }
                2 => {
                    let secret = "0".repeat(64);
                    let bounding = Bounding {
                        question: &priced.question,
                        unit: &priced.unit,
                        unit_kind: &priced.unit_kind,
                        bounds: priced.bounds,
                        summands: &priced.summands,
                        needs_rows: priced.needs_rows(),
                        secret: &secret,
                    };
                    let portable = bounding.plan(&source::Tables::from([("t".to_owned(), open()?)]))?;
                    LocalEngine::new(partitions).run(portable).await?;
                }
                _ => {
                    let mut policy = policy.clone();
                    policy.ledger = format!("ledger-{repeat}.db").into();
                    let session = Session::new(policy)?.with_engine(Box::new(LocalEngine::new(partitions)));
                    session.query(&request).await?;
                }
            }
            times.push(start.elapsed().as_secs_f64());
            // Memory that was freed may stay with the process, so that later rounds cannot be told apart.
            if repeat == 0 {
                *memory = peak(reset)?;
            }
        }
    }

    let two_levels = median(&measured[1].1);
    let figures = measured.into_iter().flat_map(|(name, times, memory)| {
        let seconds = median(&times);
        [
            Figure::new(name, "median time (× the plain question per unit and key)", seconds, "s").against(two_levels),
            Figure::new(name, "rows per second", rows as f64 / seconds, ""),
            Figure::new(name, "peak memory, first round", memory, "MiB"),
        ]
    });
    let title = format!("Engine: {rows} rows, {units} units, {KEYS} keys, {partitions} threads, medians of {REPEATS}");
    Ok(vec![Section { title, figures: figures.collect() }])
}

fn policy() -> String {
    let keys: Vec<String> = (0..KEYS).map(|key| format!("\"{}\"", key_name(key))).collect();
    let mut text = String::from("dataset = \"bench\"\nledger = \"ledger.db\"\n[budget]\nepsilon = 4\n");
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "[tables.t]\nsource = \"t.parquet\"\nprivacy_unit = {{ column = \"unit\" }}\n\
         max_groups_per_unit = {GROUPS}\nmax_rows_per_group = {ROWS_PER_GROUP}\n\
         [tables.t.columns]\nunit = {{ type = \"integer\" }}\nkey = {{ type = \"text\", keys = [{}] }}\n\
         value = {{ type = \"number\", bounds = [0, 100], step = 0.01 }}\n",
        keys.join(", ")
    );
    text
}

fn key_name(key: u64) -> String {
    format!("key-{key:02}")
}

/// Rows of uniformly chosen units, keys and values, the same in every run.
fn generate(path: &Path, rows: u64, units: u64) -> Result<()> {
    let names: Vec<String> = (0..KEYS).map(key_name).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % limit
    };
    let mut writer: Option<ArrowWriter<fs::File>> = None;
    let mut left = rows;
    while left > 0 {
        let size = left.min(1 << 16);
        left -= size;
        let chosen: Vec<[u64; 3]> = (0..size).map(|_| [below(units), below(KEYS), below(10_001)]).collect();
        let unit = Int64Array::from_iter_values(chosen.iter().map(|row| row[0] as i64));
        let key = StringArray::from_iter_values(chosen.iter().map(|row| names[row[1] as usize].as_str()));
        let value = Float64Array::from_iter_values(chosen.iter().map(|row| row[2] as f64 / 100.0));
        let columns: [(&str, ArrayRef); 3] =
            [("unit", Arc::new(unit)), ("key", Arc::new(key)), ("value", Arc::new(value))];
        let batch = RecordBatch::try_from_iter(columns)?;
        if writer.is_none() {
            writer = Some(ArrowWriter::try_new(fs::File::create(path)?, batch.schema(), None)?);
        }
        writer.as_mut().context("the writer was made above")?.write(&batch)?;
    }
    writer.context("a table needs at least one row")?.close()?;
    Ok(())
}

/// Starts the peak of memory anew where the system lets us; otherwise it is that of everything so far.
fn forget_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// The most memory that was resident, in MiB.
fn peak(reset: bool) -> Result<f64> {
    if !reset {
        eprintln!("the peak of memory includes everything before");
    }
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("the system names no VmHWM")?;
    let kibibytes: f64 = line.split_whitespace().next().context("VmHWM has a number")?.parse()?;
    Ok(kibibytes / 1024.0)
}
