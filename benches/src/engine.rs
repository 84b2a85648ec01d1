//! What privacy costs in time and memory: questions on generated tables, privately and plainly.
//!
//! All ways read the same Parquet files through `dither_query::source::open`, in turns, so that whatever else the machine
//! does falls on all of them. Memory is that of a process of its own for each way.

mod generated;
mod tpch;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::prelude::{SessionConfig, SessionContext};
use dither::{Policy, Request, Session};
use dither_query::bound::Bounding;
use dither_query::engine::{Engine, LocalEngine};
use dither_query::{plan::plan, source};

use crate::figures::{Figure, Section, median};

const REPEATS: usize = 5;

/// What is asked, of whom, and what it is compared with.
struct Case {
    name: &'static str,
    policy: String,
    sql: &'static str,
    /// The question without privacy that a row of the table is compared with.
    plain: &'static str,
    against: &'static str,
}

/// Which tables and questions.
#[derive(Debug, Clone, Copy, PartialEq, clap::Args)]
pub struct Setting {
    /// Rows of the generated table
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Units of the generated table
    #[arg(long, default_value_t = 100_000)]
    units: u64,
    /// One unit owns half of the generated rows
    #[arg(long)]
    half: bool,
    /// The tables and questions of TPC-H at this scale instead
    #[arg(long)]
    tpch: Option<f64>,
    /// By the portable plan as well, which takes long
    #[arg(long)]
    portable: bool,
    /// MiB of memory that the engine keeps rows in; all it has by default
    #[arg(long)]
    memory: Option<usize>,
}

impl Setting {
    fn cases(&self) -> Vec<Case> {
        if self.tpch.is_some() { tpch::cases() } else { generated::cases() }
    }

    fn write(&self, folder: &Path) -> Result<()> {
        match self.tpch {
            Some(scale) => tpch::write(folder, scale),
            None => generated::write(folder, self.rows, self.units.max(1), self.half),
        }
    }

    fn described(&self) -> String {
        let half = if self.half { ", one of which owns half" } else { "" };
        let tables = match self.tpch {
            Some(scale) => format!("scale {scale}"),
            None => format!("{} rows, {} units{half}", self.rows, self.units),
        };
        let memory = self.memory.map_or(String::new(), |memory| format!(", --memory {memory} MiB"));
        format!("{tables}, {} threads{memory}, medians of {REPEATS}", threads())
    }

    fn engine(&self) -> Result<LocalEngine> {
        Ok(match self.memory {
            Some(memory) => LocalEngine::with_memory(threads(), memory << 20)?,
            None => LocalEngine::new(threads()),
        })
    }
}

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
            Self::Whole => "private, whole: plan, charge, noise, answer",
        }
    }
}

/// One way of one case, to be run alone: `case,way`.
pub type One = (usize, usize);

/// Generates the tables and asks each question in all ways; by the portable plan, which takes long, only where it is asked
/// for.
pub async fn run(setting: &Setting) -> Result<Vec<Section>> {
    let ways: Vec<Way> = WAYS.into_iter().filter(|way| setting.portable || *way != Way::Portable).collect();
    let folder = tempfile::tempdir()?;
    setting.write(folder.path())?;
    let mut sections = Vec::new();
    for (index, case) in setting.cases().iter().enumerate() {
        let mut times = vec![Vec::new(); ways.len()];
        for repeat in 0..=REPEATS {
            for (way, times) in ways.iter().zip(&mut times) {
                let seconds = answer(setting, (index, case), *way, folder.path(), repeat).await?;
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
            let time = Figure::new(name, "median time (× plain)", seconds, "s").against(medians[0]);
            let memory = Figure::new(name, "peak memory (× plain)", *memory_used, "MiB").against(memory[0]);
            // The tables of TPC-H have different numbers of rows.
            let rows = setting.tpch.is_none().then_some(setting.rows as f64 / seconds);
            let speed = rows.map(|rows| Figure::new(name, "rows per second", rows, "/s"));
            [time, memory].into_iter().chain(speed)
        });
        let title = format!("{}: {}", case.name, setting.described());
        sections.push(Section { title, figures: figures.collect() });
    }
    Ok(sections)
}

/// Runs one way once and prints the most memory that was resident, in MiB.
pub async fn run_alone(setting: &Setting, (case, way): One, folder: &Path) -> Result<()> {
    answer(setting, (case, &setting.cases()[case]), WAYS[way], folder, 0).await?;
    println!("{}", peak()?);
    Ok(())
}

/// The same program again, with one argument more.
fn memory_of((case, way): One, folder: &Path) -> Result<f64> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1)).args(["--alone", &format!("{case},{way}"), "--folder"]).arg(folder);
    let output = command.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Answers a question and returns the seconds that it took. The ledger is made in the first round; in each round ε is
/// another one, so that nothing was asked before.
async fn answer(
    setting: &Setting,
    (index, case): (usize, &Case),
    way: Way,
    folder: &Path,
    round: usize,
) -> Result<f64> {
    let mut policy = Policy::from_toml(&case.policy, folder)?;
    policy.ledger = folder.join(format!("ledger-{index}-{}.db", std::process::id()));
    let request = Request::new(case.sql, format!("4.00{round}").parse()?);
    let priced = plan(&request, &policy).await?;
    let mut tables = source::Tables::new();
    for name in priced.question.relation.tables() {
        let table = policy.readable(name).context("a question reads tables of its policy")?;
        tables.insert(name.to_owned(), source::open(&table, &policy.base_dir, &Arc::default())?);
    }
    let start = Instant::now();
    match way {
        Way::Plain => {
            let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(threads()));
            for (name, table) in tables {
                context.register_table(name, table)?;
            }
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
                squared: &priced.squared(),
                needs_rows: priced.needs_rows(),
                secret: &secret,
            };
            let engine = setting.engine()?;
            let engine = if way == Way::Portable { engine.portable() } else { engine };
            engine.count(&bounding, &tables).await?;
        }
        Way::Whole => {
            Session::new(policy)?.with_engine(Box::new(setting.engine()?)).query(&request).await?;
        }
    }
    Ok(start.elapsed().as_secs_f64())
}

/// A Parquet file, written batch by batch.
struct Writer {
    path: PathBuf,
    file: Option<ArrowWriter<fs::File>>,
}

impl Writer {
    fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    fn write<'a>(&mut self, columns: impl IntoIterator<Item = (&'a str, ArrayRef)>) -> Result<()> {
        let batch = RecordBatch::try_from_iter(columns)?;
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(ArrowWriter::try_new(fs::File::create(&self.path)?, batch.schema(), None)?),
        };
        Ok(file.write(&batch)?)
    }

    fn close(self) -> Result<()> {
        self.file.context("a table needs at least one row")?.close()?;
        Ok(())
    }
}

/// The most memory that was resident, in MiB.
fn peak() -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("the system names no VmHWM")?;
    let kibibytes: f64 = line.split_whitespace().next().context("VmHWM has a number")?.parse()?;
    Ok(kibibytes / 1024.0)
}
