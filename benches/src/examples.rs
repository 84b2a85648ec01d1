//! How far the published numbers of the examples are from the truth, over many runs with fresh randomness.
//!
//! Every run has a ledger of its own. The report is published as it is; the same charge then answers the report
//! without its post-processing for free, so that both come from the same noise.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use dither::{Answer, Cell, Estimate, Policy, ReportSpec, Session};

use crate::figures::{Figure, Section, median, quantile};
use crate::score::Score;
use crate::truth::{self, Columns, Example, Kind, Question, Table};

/// What one run published: by question and column, the estimates by key; and what the plan expected of each.
#[derive(Default)]
struct Run {
    raw: BTreeMap<(String, String), BTreeMap<String, Estimate>>,
    shown: BTreeMap<(String, String), BTreeMap<String, Estimate>>,
    expected: BTreeMap<(String, String), f64>,
    seconds: f64,
}

/// Publishes the reports.
pub async fn run(runs: usize, only: Option<&str>) -> Result<Vec<Section>> {
    let mut sections = Vec::new();
    for example in truth::examples().into_iter().filter(|example| only.is_none_or(|name| name == example.name)) {
        let folder = copy(example.name)?;
        let spec = ReportSpec::load(folder.path().join("report.toml"))?;
        let policy = Policy::load(&spec.policy)?;
        let mut published = Vec::new();
        for number in 0..runs {
            let mut policy = policy.clone();
            policy.ledger = format!("ledger-{number}.db").into();
            published.push(publish(&Session::new(policy)?, &spec).await?);
        }
        let table = Table::open(&policy, example.table, folder.path())?;
        let mut figures = (Vec::new(), Vec::new());
        for question in &example.questions {
            let truths = [table.unbounded(question).await?, table.bounded(question).await?];
            let cut = table.units_cut(question).await?;
            compare(question, &truths, cut, &published, &mut figures);
        }
        let (errors, bounds) = figures;
        sections.push(Section { title: format!("{}, {runs} runs, against the truth", example.name), figures: errors });
        let title = format!("{}, {runs} runs, against the bounded answer", example.name);
        sections.push(Section { title, figures: bounds });
        sections.extend(particular(&example, &table, &published).await?);
        let seconds: Vec<f64> = published.iter().map(|run| run.seconds).collect();
        let mut times = vec![Figure::new("report within a process", "median time", median(&seconds), "s")];
        if example.name == "hospital" {
            times.extend(processes(folder.path())?);
        }
        sections.push(Section { title: format!("{}, time", example.name), figures: times });
    }
    Ok(sections)
}

/// A copy of the folder of an example, without its ledger.
fn copy(name: &str) -> Result<tempfile::TempDir> {
    let from = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name);
    let to = tempfile::tempdir()?;
    for entry in fs::read_dir(&from).with_context(|| format!("there is no example {name}"))? {
        let entry = entry?;
        if entry.file_type()?.is_file() && !entry.file_name().to_string_lossy().contains(".db") {
            fs::copy(entry.path(), to.path().join(entry.file_name()))?;
        }
    }
    Ok(to)
}

async fn publish(session: &Session, spec: &ReportSpec) -> Result<Run> {
    let start = Instant::now();
    let shown = session.report(spec, "now").await?;
    let seconds = start.elapsed().as_secs_f64();
    let mut plain = spec.clone();
    for question in &mut plain.questions {
        (question.then, question.plot) = (Vec::new(), None);
    }
    let raw = session.report(&plain, "now").await?;
    ensure!(!shown.repeated && raw.repeated, "a run must be charged once");
    let mut run = Run { seconds, ..Run::default() };
    for (section, question) in shown.document.sections.iter().zip(&spec.questions) {
        if !question.then.is_empty() {
            estimates(&section.id, &section.answer, &mut run.shown);
        }
    }
    for section in &raw.document.sections {
        estimates(&section.id, &section.answer, &mut run.raw);
        for noise in &section.share.noise {
            if let Some(error) = noise.expected_error {
                run.expected.insert((section.id.clone(), noise.column.clone()), error);
            }
        }
    }
    Ok(run)
}

fn estimates(id: &str, answer: &Answer, into: &mut BTreeMap<(String, String), BTreeMap<String, Estimate>>) {
    for row in &answer.rows {
        let keys = row.iter().filter_map(|cell| match cell {
            Cell::Key(key) => Some(key.to_string()),
            Cell::Value(_) => None,
        });
        let key = keys.collect::<Vec<_>>().join("|");
        for (column, cell) in answer.columns.iter().zip(row) {
            if let Cell::Value(estimate) = cell {
                into.entry((id.into(), column.name.clone())).or_default().insert(key.clone(), *estimate);
            }
        }
    }
}

/// Compares with the truth, which knows no bounds on contributions, and with the bounded answer, which the intervals
/// are about. Where units are cut, the bounded answer is known in expectation only.
fn compare(
    question: &Question,
    truths: &[Columns; 2],
    cut: f64,
    published: &[Run],
    (errors, bounds): &mut (Vec<Figure>, Vec<Figure>),
) {
    for (column, kind, _) in &question.columns {
        let id = (question.id.to_owned(), (*column).to_owned());
        let expected = published.first().and_then(|run| run.expected.get(&id)).copied();
        let raw: Vec<_> = published.iter().filter_map(|run| run.raw.get(&id)).collect();
        let shown: Vec<_> = published.iter().filter_map(|run| run.shown.get(&id)).collect();
        for (runs, suffix, expected) in [(raw, "", expected), (shown, ", after steps", None)] {
            if runs.is_empty() {
                continue;
            }
            let row = &format!("{}.{column}{suffix}", question.id);
            let [truth, bounded] =
                truths.each_ref().map(|truth| Score::of(&truth[*column], &runs, *kind == Kind::Mean));
            errors.extend([
                Figure::new(row, "cells", truth.cells, ""),
                Figure::new(row, "true value", truth.target, ""),
                Figure::new(row, "released mean", truth.released, "").against(truth.target),
                Figure::new(row, "deviation", truth.deviation, ""),
                Figure::new(row, "rms error (× true value)", truth.rms(), "").against(truth.target),
                Figure::new(row, "largest error", quantile(&truth.errors, 1.0), ""),
            ]);
            let tail = quantile(&bounded.errors, 0.95);
            let tail = Figure::new(row, "error of 95 in 100 (× expected by the plan)", tail, "");
            bounds.extend([
                Figure::new(row, "units cut", cut, ""),
                Figure::new(row, "bounded answer (× true value)", bounded.target, "").against(truth.target),
                Figure::new(row, "rms error", bounded.rms(), ""),
                match expected {
                    Some(expected) => tail.against(expected),
                    None => tail,
                },
                Figure::new(row, "intervals with the bounded answer", bounded.covered, "%"),
                Figure::new(row, "intervals with the truth", truth.covered, "%"),
            ]);
        }
    }
}

/// What is asked of one example in particular, run by run.
async fn particular(example: &Example, table: &Table, published: &[Run]) -> Result<Vec<Section>> {
    let mut figures = Vec::new();
    let of = |run: &Run, id: &str, column: &str| {
        let id = (id.to_owned(), column.to_owned());
        run.shown.get(&id).or_else(|| run.raw.get(&id)).cloned().unwrap_or_default()
    };
    let (what, limit) = match example.name {
        "hospital" => ("error of the published mean stay, days", 0.01),
        "income" => ("largest relative error of a mean income, cells of 500 people or more", 0.05),
        _ => return Ok(Vec::new()),
    };
    let mut worst = Vec::new();
    if example.name == "hospital" {
        let truth = table.unbounded(&example.questions[0]).await?["days"][""];
        for run in published {
            let days = of(run, "mean-stay", "days")[""].value.context("the mean stay is a number")?;
            worst.push((days - truth).abs());
        }
    } else {
        let truth = table.columns(&truth::bias_of_bounds(), 2).await?;
        let large: Vec<&String> = truth["people"].iter().filter(|(_, n)| **n >= 500.0).map(|(key, _)| key).collect();
        for run in published {
            let means = of(run, "by-state-and-industry", "mean_income");
            let errors = large.iter().filter_map(|key| {
                let bounded = truth["bounded"].get(*key)?;
                Some((means.get(*key)?.value.unwrap_or(f64::INFINITY) / bounded - 1.0).abs())
            });
            worst.push(errors.fold(0.0, f64::max));
        }
        let bias: Vec<f64> = large.iter().map(|key| 1.0 - truth["bounded"][*key] / truth["unbounded"][*key]).collect();
        let row = "bias of the bounds, downwards, not part of the error";
        figures.push(Figure::new("cells of 500 people or more", "figure", large.len() as f64, ""));
        figures.push(Figure::new(
            format!("{row}: mean of these cells"),
            "figure",
            bias.iter().sum::<f64>() / bias.len() as f64,
            "",
        ));
        figures.push(Figure::new(format!("{row}: largest"), "figure", bias.iter().copied().fold(0.0, f64::max), ""));
    }
    let below = worst.iter().filter(|error| **error < limit).count() as f64;
    figures.push(Figure::new(format!("runs below {limit}"), "figure", below, "").against(worst.len() as f64));
    figures.extend(
        worst.iter().enumerate().map(|(index, error)| Figure::new(format!("run {}", index + 1), "figure", *error, "")),
    );
    Ok(vec![Section { title: format!("{}, {what}", example.name), figures }])
}

/// Whole processes of the built binary, each with a fresh ledger.
fn processes(folder: &Path) -> Result<Vec<Figure>> {
    let dither = std::env::current_exe()?.with_file_name("dither");
    if !dither.exists() {
        eprintln!("the binary `dither` is not built, so its time is not measured: cargo build --release --workspace");
        return Ok(Vec::new());
    }
    let sql = "SELECT AVG(time_in_hospital) AS days FROM stays";
    let ways: [(&str, &[&str]); 2] = [
        ("process `dither report report.toml`", &["report", "report.toml", "--out", "out"]),
        (
            "process `dither query … AVG(time_in_hospital)`",
            &["query", "--policy", "policy.toml", "--epsilon", "1", sql],
        ),
    ];
    let mut figures = Vec::new();
    for (name, arguments) in ways {
        let mut times = Vec::new();
        for _ in 0..5 {
            for ledger in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
                let _ = fs::remove_file(folder.join(ledger)); // there is none in the first run
            }
            let start = Instant::now();
            let status = Command::new(&dither).args(arguments).current_dir(folder).stdout(Stdio::null()).status()?;
            ensure!(status.success(), "{name} ended with {status}");
            times.push(start.elapsed().as_secs_f64());
        }
        figures.push(Figure::new(name, "median time", median(&times), "s"));
    }
    Ok(figures)
}
