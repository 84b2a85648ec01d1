//! A training step against the same step without privacy, against PyTorch, and against Opacus in its best mode.
//!
//! Every side is a process that takes steps for some seconds when it is asked. They take turns, so that what else runs
//! on the machine disturbs all of them alike; of each the fastest step, the median and the processor time count.

pub mod step;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::figures::{Figure, Section, median};
use step::{Case, How};

const PEER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/learn_peers.py");

/// How Opacus finds the norms of gradients.
const MODES: [&str; 4] = ["hooks", "ghost", "functorch", "ew"];

/// What is measured, and how long.
#[derive(clap::Args, Clone, Debug)]
pub struct Setting {
    /// Seconds of a turn; one step at least
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// How many turns each side has
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only this case
    #[arg(long, value_enum)]
    only: Option<Case>,
    /// Numbers of threads, one after the other
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
}

/// One step as a process.
struct Side {
    name: String,
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    examples: f64,
    times: Vec<f64>,
    /// Processor time of all steps.
    processor: f64,
    peak: f64,
}

/// All sides of a case with so many threads.
struct Measured {
    name: String,
    sides: Vec<Side>,
}

/// Measures all cases: a table for each, and three of all together, whose rows are cases and whose columns are sides.
pub fn run(setting: &Setting) -> Result<Vec<Section>> {
    let mut measured = Vec::new();
    for case in Case::ALL.into_iter().filter(|case| setting.only.is_none_or(|only| only == *case)) {
        for &threads in &setting.threads {
            measured.push(measure(setting, case, threads)?);
        }
    }
    let of_case = |measured: &Measured| Section { title: measured.name.clone(), figures: figures(&measured.sides) };
    let mut sections: Vec<Section> = measured.iter().map(of_case).collect();
    sections.push(together("Median of a step (× ours without privacy)", &measured, "ms", &|side| 1e3 * middle(side)));
    let processor = |side: &Side| 1e3 * side.mean_processor();
    sections.push(together("Processor time of a step (×)", &measured, "ms", &processor));
    sections.push(together("Peak memory (×)", &measured, "MiB", &mebibytes));
    Ok(sections)
}

/// One measure of all cases, with its ratio to our step without privacy.
fn together(title: &str, measured: &[Measured], unit: &'static str, of: &dyn Fn(&Side) -> f64) -> Section {
    // Columns, and how the names of their sides begin. Of the modes of Opacus the best one comes first.
    const COLUMNS: [(&str, &str); 5] = [
        ("without privacy", "ours, without"),
        ("clipped", "ours, clipped"),
        ("whole", "ours, private"),
        ("PyTorch, without privacy", "PyTorch"),
        ("Opacus, best mode", "Opacus"),
    ];
    let figures = measured.iter().flat_map(|Measured { name, sides }| {
        let against = sides.first().map(of);
        let side = |begin: &str| sides.iter().find(|side| side.name.starts_with(begin));
        let sides = COLUMNS.into_iter().filter_map(move |(column, begin)| Some((column, side(begin)?)));
        sides.map(move |(column, side)| Figure { against, ..Figure::new(name, column, of(side), unit) })
    });
    Section { title: title.to_owned(), figures: figures.collect() }
}

fn measure(setting: &Setting, case: Case, threads: usize) -> Result<Measured> {
    let mut sides = vec![
        ours("ours, without privacy", case, How::Plain, threads)?,
        ours("ours, clipped", case, How::Clipped, threads)?,
        ours("ours, private, whole step", case, How::Private, threads)?,
    ];
    let mut tried = Vec::new();
    match peer("PyTorch, without privacy".into(), case, "plain", threads) {
        Some(plain) => {
            sides.push(plain);
            // All modes once, and the one that takes the least of a processor in turns with all others.
            for mode in MODES {
                let Some(mut side) = peer(format!("Opacus, {mode}"), case, mode, threads) else { continue };
                if side.turn(setting.seconds).is_ok() {
                    tried.push(side.finish());
                }
            }
            tried.sort_by(|a, b| a.mean_processor().total_cmp(&b.mean_processor()));
            if let Some(best) = tried.first() {
                let mode = best.name.trim_start_matches("Opacus, ").to_owned();
                tried.remove(0);
                sides.extend(peer(format!("Opacus, {mode}, its best mode"), case, &mode, threads));
            }
        }
        None => eprintln!("no interpreter of DITHER_PEERS has torch and opacus: only our own steps are measured"),
    }
    for round in 0..setting.rounds.max(1) {
        eprintln!("{}, {threads} threads, turn {}", case.name(), round + 1);
        for side in &mut sides {
            side.turn(setting.seconds)?;
        }
    }
    let mut sides: Vec<Side> = sides.into_iter().map(Side::finish).collect();
    sides.extend(tried.into_iter().map(|side| Side { name: format!("{}, one turn", side.name), ..side }));
    let plural = if threads == 1 { "" } else { "s" };
    Ok(Measured { name: format!("{}, {threads} thread{plural}", case.title()), sides })
}

/// Ratios of times and memory to our step without privacy, of rates to PyTorch's.
fn figures(sides: &[Side]) -> Vec<Figure> {
    let plain = |of: &dyn Fn(&Side) -> f64| sides.first().map(of);
    let torch = |of: &dyn Fn(&Side) -> f64| sides.iter().find(|side| side.name.starts_with("PyTorch")).map(of);
    let per_processor = |side: &Side| side.examples / side.mean_processor();
    let mut figures = Vec::new();
    for side in sides {
        let mut add = |measure, value, unit, against| {
            figures.push(Figure { against, ..Figure::new(&side.name, measure, value, unit) });
        };
        let ms = |of: fn(&Side) -> f64| move |side: &Side| 1e3 * of(side);
        add("fastest step (× ours without privacy)", ms(fastest)(side), "ms", plain(&ms(fastest)));
        add("median step (×)", ms(middle)(side), "ms", plain(&ms(middle)));
        add("processor time (×)", ms(Side::mean_processor)(side), "ms", plain(&ms(Side::mean_processor)));
        add("peak memory (×)", mebibytes(side), "MiB", plain(&mebibytes));
        let rate = |side: &Side| side.examples / fastest(side);
        add("examples per second (× PyTorch)", rate(side), "", torch(&rate));
        add("per second of processor (× PyTorch)", per_processor(side), "", torch(&per_processor));
    }
    figures
}

fn fastest(side: &Side) -> f64 {
    side.times.iter().copied().fold(f64::INFINITY, f64::min)
}

fn mebibytes(side: &Side) -> f64 {
    side.peak / f64::from(1 << 20)
}

fn middle(side: &Side) -> f64 {
    median(&side.times)
}

fn ours(name: &str, case: Case, how: How, threads: usize) -> Result<Side> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["learn", "--step"]).arg(format!("{},{},{threads}", case.name(), how.name()));
    Side::new(name.to_owned(), &mut command)
}

/// A side in the first interpreter that has what it takes.
fn peer(name: String, case: Case, mode: &str, threads: usize) -> Option<Side> {
    let interpreters = std::env::var("DITHER_PEERS").unwrap_or_else(|_| "python3".into());
    let mut sides = interpreters.split(':').filter_map(|python| {
        let mut command = Command::new(python);
        command.args([PEER, case.name(), mode, &threads.to_string()]).stderr(Stdio::null());
        Side::new(name.clone(), &mut command).ok()
    });
    sides.next()
}

impl Side {
    fn new(name: String, command: &mut Command) -> Result<Self> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let requests = process.stdin.take().context("a process has an input")?;
        let answers = BufReader::new(process.stdout.take().context("a process has an output")?);
        let (times, processor, peak) = (Vec::new(), 0.0, 0.0);
        let mut side = Self { name, process, requests, answers, examples: 0.0, times, processor, peak };
        side.examples = side.answer()?["examples"].as_f64().context("it does not say what a step has")?;
        Ok(side)
    }

    fn answer(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("{} ended", self.name))
    }

    /// Has it take steps for so many seconds.
    fn turn(&mut self, seconds: f64) -> Result<()> {
        writeln!(self.requests, "{seconds}")?;
        self.requests.flush()?;
        let answer = self.answer()?;
        let times = answer["seconds"].as_array().context("it does not say how long steps took")?;
        self.times.extend(times.iter().filter_map(Value::as_f64));
        self.processor += answer["cpu"].as_f64().context("it does not say how much of a processor it took")?;
        self.peak = answer["peak"].as_f64().context("it does not say how much memory it took")?;
        Ok(())
    }

    fn mean_processor(&self) -> f64 {
        self.processor / self.times.len() as f64
    }

    /// Ends the process; what was measured stays.
    fn finish(mut self) -> Self {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
        self
    }
}
