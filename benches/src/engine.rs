//! What privacy costs in time and memory: questions on generated tables, privately and plainly.
//!
//! All ways read the same Parquet file through `dither_query::source::open`, in turns, so that whatever else the machine
//! does falls on all of them. Memory is that of a process of its own for each way.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
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
const MANY_KEYS: u64 = 100_000;

/// What is asked, of whom, and what it is compared with.
struct Case {
    name: &'static str,
    /// The table of the policy, in TOML.
    unit: &'static str,
    sql: &'static str,
    /// The question without privacy that a row of the table is compared with.
    plain: &'static str,
    against: &'static str,
}

const CASES: [Case; 4] = [
    Case {
        name: "user level: COUNT, SUM, AVG by 50 keys, 3 keys of a unit, 5 rows in each",
        unit: "privacy_unit = { column = \"unit\" }\nmax_groups_per_unit = 3\nmax_rows_per_group = 5",
        sql: "SELECT key, COUNT(*) AS n, SUM(value) AS s, AVG(value) AS mean FROM t GROUP BY key",
        plain: "SELECT key, SUM(n) AS n, SUM(s) AS s, SUM(s) / SUM(n) AS mean FROM \
                (SELECT unit, key, COUNT(*) AS n, SUM(value) AS s FROM t GROUP BY unit, key) GROUP BY key",
        against: "plain, per unit and key first",
    },
    Case {
        name: "row level: COUNT, SUM, AVG by 50 keys",
        unit: "privacy_unit = \"row\"",
        sql: "SELECT key, COUNT(*) AS n, SUM(value) AS s, AVG(value) AS mean FROM t GROUP BY key",
        plain: "SELECT key, COUNT(*) AS n, SUM(value) AS s, AVG(value) AS mean FROM t GROUP BY key",
        against: "plain",
    },
    Case {
        name: "row level: COUNT, SUM, AVG of all rows",
        unit: "privacy_unit = \"row\"",
        sql: "SELECT COUNT(*) AS n, SUM(value) AS s, AVG(value) AS mean FROM t",
        plain: "SELECT COUNT(*) AS n, SUM(value) AS s, AVG(value) AS mean FROM t",
        against: "plain",
    },
    Case {
        name: "user level: COUNT by 100,000 public keys, 3 keys of a unit, 5 rows in each",
        unit: "privacy_unit = { column = \"unit\" }\nmax_groups_per_unit = 3\nmax_rows_per_group = 5",
        sql: "SELECT many, COUNT(*) AS n FROM t GROUP BY many",
        plain: "SELECT many, SUM(n) AS n FROM \
                (SELECT unit, many, COUNT(*) AS n FROM t GROUP BY unit, many) GROUP BY many",
        against: "plain, per unit and key first",
    },
];

/// How a question is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    Operator,
    Portable,
    Whole,
}

const WAYS: [Way; 4] = [Way::Plain, Way::Operator, Way::Portable, Way::Whole];

impl Way {
    fn name(self, case: &Case) -> &'static str {
        match self {
            Self::Plain => case.against,
            Self::Operator => "private, exact integers",
            Self::Portable => "private, exact integers by the portable plan",
            Self::Whole => "private, whole: plan, fresh ledger, charge, noise, answer",
        }
    }
}

/// One way of one case, to be run alone: `case,way`.
pub type One = (usize, usize);

/// Generates the table and asks each question in all ways; by the portable plan, which takes long, only where it is asked
/// for.
pub async fn run(rows: u64, units: u64, portable: bool) -> Result<Vec<Section>> {
    let ways: Vec<Way> = WAYS.into_iter().filter(|way| portable || *way != Way::Portable).collect();
    let folder = tempfile::tempdir()?;
    generate(&folder.path().join("t.parquet"), rows, units)?;
    let threads = threads();
    let mut sections = Vec::new();
    for (index, case) in CASES.iter().enumerate() {
        let mut times = vec![Vec::new(); ways.len()];
        for repeat in 0..=REPEATS {
            for (way, times) in ways.iter().zip(&mut times) {
                let seconds = answer(case, *way, folder.path()).await?;
                // The first round fills the cache of the file.
                if repeat > 0 {
                    times.push(seconds);
                }
            }
        }
        let alone = ways.iter().map(|way| memory_of((index, *way as usize), folder.path()));
        let memory = alone.collect::<Result<Vec<_>>>()?;
        let medians: Vec<f64> = times.iter().map(|times| median(times)).collect();
        let figures = ways.iter().zip(medians.clone()).zip(&memory).flat_map(|((way, seconds), memory_used)| {
            let name = way.name(case);
            [
                Figure::new(name, "median time (× plain)", seconds, "s").against(medians[0]),
                Figure::new(name, "rows per second", rows as f64 / seconds, ""),
                Figure::new(name, "peak memory (× plain)", *memory_used, "MiB").against(memory[0]),
            ]
        });
        let title = format!("{}: {rows} rows, {units} units, {threads} threads, medians of {REPEATS}", case.name);
        sections.push(Section { title, figures: figures.collect() });
    }
    Ok(sections)
}

/// Runs one way once and prints the most memory that was resident, in MiB.
pub async fn run_alone((case, way): One, folder: &Path) -> Result<()> {
    answer(&CASES[case], WAYS[way], folder).await?;
    println!("{}", peak()?);
    Ok(())
}

fn memory_of((case, way): One, folder: &Path) -> Result<f64> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["engine", "--alone", &format!("{case},{way}"), "--folder"]).arg(folder);
    let output = command.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Answers a question and returns the seconds that it took.
async fn answer(case: &Case, way: Way, folder: &Path) -> Result<f64> {
    let mut policy = Policy::from_toml(&policy(case), folder)?;
    let open = |policy: &Policy| source::open(&policy.tables["t"], &policy.base_dir, &Arc::default());
    let request = Request::new(case.sql, "4".parse()?);
    let priced = plan(&request, &policy).await?;
    let start = Instant::now();
    match way {
        Way::Plain => {
            let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(threads()));
            context.register_table("t", open(&policy)?)?;
            context.sql(case.plain).await?.collect().await?;
        }
        Way::Operator | Way::Portable => {
            let secret = "0".repeat(64);
            let bounding = Bounding {
                question: &priced.question,
                unit: &priced.unit,
                unit_kind: &priced.unit_kind,
                bounds: priced.bounds,
                values: &priced.values,
                summands: &priced.summands,
                histograms: &priced.histograms,
                needs_rows: priced.needs_rows(),
                secret: &secret,
            };
            let engine = LocalEngine::new(threads());
            let engine = if way == Way::Portable { engine.portable() } else { engine };
            engine.count(&bounding, &source::Tables::from([("t".to_owned(), open(&policy)?)])).await?;
        }
        Way::Whole => {
            let ledger = tempfile::tempdir()?;
            policy.ledger = ledger.path().join("ledger.db");
            Session::new(policy)?.query(&request).await?;
        }
    }
    Ok(start.elapsed().as_secs_f64())
}

fn policy(case: &Case) -> String {
    let list = |keys: u64| (0..keys).map(|key| format!("\"{}\"", key_name(key))).collect::<Vec<_>>().join(", ");
    let many = if case.sql.contains("many") { list(MANY_KEYS) } else { String::from("\"none\"") };
    let mut text = String::from("dataset = \"bench\"\nledger = \"ledger.db\"\n[budget]\nepsilon = 4\n");
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "[tables.t]\nsource = \"t.parquet\"\n{}\n[tables.t.columns]\nunit = {{ type = \"integer\" }}\n\
         key = {{ type = \"text\", keys = [{}] }}\nmany = {{ type = \"text\", keys = [{many}] }}\n\
         value = {{ type = \"number\", bounds = [0, 100], step = 0.01 }}\n",
        case.unit,
        list(KEYS)
    );
    text
}

fn key_name(key: u64) -> String {
    format!("key-{key:02}")
}

/// Rows of uniformly chosen units, keys and values, the same in every run.
fn generate(path: &Path, rows: u64, units: u64) -> Result<()> {
    let names: Vec<String> = (0..MANY_KEYS).map(key_name).collect();
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
        let chosen: Vec<[u64; 4]> =
            (0..size).map(|_| [below(units), below(KEYS), below(10_001), below(MANY_KEYS)]).collect();
        let text = |column: usize| {
            Arc::new(StringArray::from_iter_values(chosen.iter().map(|row| names[row[column] as usize].as_str())))
        };
        let unit = Int64Array::from_iter_values(chosen.iter().map(|row| row[0] as i64));
        let value = Float64Array::from_iter_values(chosen.iter().map(|row| row[2] as f64 / 100.0));
        let columns: [(&str, ArrayRef); 4] =
            [("unit", Arc::new(unit)), ("key", text(1)), ("value", Arc::new(value)), ("many", text(3))];
        let batch = RecordBatch::try_from_iter(columns)?;
        if writer.is_none() {
            writer = Some(ArrowWriter::try_new(fs::File::create(path)?, batch.schema(), None)?);
        }
        writer.as_mut().context("the writer was made above")?.write(&batch)?;
    }
    writer.context("a table needs at least one row")?.close()?;
    Ok(())
}

/// The most memory that was resident, in MiB.
fn peak() -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("the system names no VmHWM")?;
    let kibibytes: f64 = line.split_whitespace().next().context("VmHWM has a number")?.parse()?;
    Ok(kibibytes / 1024.0)
}
