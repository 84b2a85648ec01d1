//! `dither train`: plan, charge, train, write the model and its card.

mod meter;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dither_core::Epsilon;
use dither_learn::train::card::rounded_up;
use dither_learn::train::job::Job;
use dither_learn::train::reader::Reader;
use dither_learn::train::session::TrainingSession;
use dither_learn::train::sweep::{self, Point};
use dither_learn::train::trainer::Progress;
use dither_query::source::{SourceError, text_columns, text_rows};
use dither_report::curves::{Axis, Chart, Curve, svg};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::Train;
use crate::output;
use meter::Meter;

/// Parquet, read by the crate that knows it.
const PARQUET: Reader = Reader {
    extension: "parquet",
    columns: |path| text_columns(path).map_err(told),
    rows: |path, columns, row| text_rows(path, columns, row).map_err(told),
};

/// What is wrong with a file, with its cause. Only an operator reads what was found in rows.
fn told(error: SourceError) -> String {
    format!("{:#}", anyhow::Error::new(error))
}

const STYLE: &str = "{spinner} {msg} {wide_bar} {pos}/{len} steps, {eta} left";

/// Trains a model.
pub async fn run(command: &Train) -> anyhow::Result<()> {
    if !command.sweep.is_empty() {
        return sweep(command).await;
    }
    let mut session = TrainingSession::open_with(&command.job, Some(PARQUET))?;
    if command.plan {
        return plan(command, &mut session).await;
    }
    eprint!("{}", session.summary()?);
    let stop = interrupted();
    let bar = match std::io::stderr().is_terminal() {
        true => ProgressBar::new(session.plan().steps()),
        false => ProgressBar::hidden(),
    };
    if let Ok(style) = ProgressStyle::with_template(STYLE) {
        bar.set_style(style);
    }
    let mut meter = Meter::new(session.plan().clone());
    let mut watch = |progress: Progress<'_>| {
        bar.set_position(progress.executed);
        if !bar.is_hidden() {
            bar.set_message(meter.words(progress.executed));
        }
        if let Some(observed) = progress.observed {
            let units = observed.losses.len().max(1) as f64;
            let loss = observed.losses.iter().map(|loss| f64::from(*loss)).sum::<f64>() / units;
            let clipped = observed.norms.iter().filter(|norm| **norm > progress.bound).count() as f64 / units;
            let text = format!("step {}: loss {loss:.4}, {:.0} % clipped", progress.executed, 100.0 * clipped);
            match bar.is_hidden() {
                true => eprintln!("{text}"),
                false => bar.println(text),
            }
        }
        !stop.load(Ordering::Relaxed)
    };
    let trained = session.train(command.resume, command.operator, &mut watch).await;
    bar.finish_and_clear();
    let trained = trained?;
    let price = session.plan().price()?;
    let accuracy = session.accuracy().map_or(String::new(), |measured| {
        let (percent, epsilon) = (100.0 * measured.accuracy, measured.epsilon);
        match measured.charged_before {
            true => format!("right in {percent:.1} % of rows, with noise, as it was measured before at ε {epsilon}\n"),
            false => format!("right in {percent:.1} % of rows, with noise, at a further ε {epsilon}\n"),
        }
    });
    let amounts = format!("ε {} δ {:e}", rounded_up(price.best), session.plan().delta().as_f64());
    let charged = match (trained.charged_before, trained.repeated) {
        (false, _) => format!("charged {amounts}"),
        (true, false) => format!("charged nothing for training: {amounts} were charged when the run began"),
        (true, true) => format!("charged nothing for training: it had ended before, at {amounts}"),
    };
    let left = session.left().map_or(String::new(), |left| format!(" · left {left}"));
    let text = format!(
        "{accuracy}{charged} · {} steps{left} · receipt {}\nwritten to {}\n",
        trained.finished.executed,
        trained.receipt,
        session.folder().display(),
    );
    output::write(None, text.as_bytes())
}

/// Shows what a run would cost, leave, need and last.
async fn plan(command: &Train, session: &mut TrainingSession) -> anyhow::Result<()> {
    let forecast = session.forecast().await?;
    let proxy = match &command.proxy {
        Some(path) => Some(on_proxy(path, session).await?),
        None => None,
    };
    let text = match command.json {
        true => {
            let mut value = serde_json::to_value(&forecast)?;
            value["proxy"] = serde_json::to_value(&proxy)?;
            format!("{value:#}\n")
        }
        false => session.summary()? + &forecast.words() + &proxy.as_ref().map_or(String::new(), proxy_words),
    };
    output::write(None, text.as_bytes())
}

/// Trains a job about nobody at the ε of a run, and with hardly any noise.
async fn on_proxy(path: &Path, session: &TrainingSession) -> anyhow::Result<[Point; 2]> {
    let (job, base) = (Job::load(path)?, path.parent().unwrap_or(Path::new("")));
    let epsilon = Epsilon::from_nanos(session.plan().price()?.best)?;
    Ok(sweep::proxy(&job, base, epsilon, Some(PARQUET)).await?)
}

fn proxy_words([private, loose]: &[Point; 2]) -> String {
    let percent = |point: &Point| 100.0 * point.accuracy;
    let less = percent(loose) - percent(private);
    format!(
        "proxy      right in {:.2} % of public rows at ε {}, in {:.2} % with hardly any noise: {less:.2} points less\n",
        percent(private),
        private.price,
        percent(loose),
    )
}

/// Becomes true with the first Ctrl-C, so that the step is finished and kept. The second one ends the process.
fn interrupted() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_err() {
            return;
        }
        flag.store(true, Ordering::Relaxed);
        eprintln!("\nstopping after this step, which will be kept; Ctrl-C once more stops at once");
        if tokio::signal::ctrl_c().await.is_ok() {
            eprintln!(
                "\nstopped; --resume goes on from the last checkpoint, and what was charged is not charged again"
            );
            std::process::exit(130);
        }
    });
    stop
}

/// Trains on a public table at every ε, and writes the curve as `sweep.svg` and `sweep.json` beside the model.
async fn sweep(command: &Train) -> anyhow::Result<()> {
    let job = Job::load(&command.job)?;
    let base = command.job.parent().unwrap_or(Path::new(""));
    let mut tell = |point: &Point| {
        println!(
            "ε {}: right in {:.2} % of rows, noise multiplier {:.5}",
            point.price,
            100.0 * point.accuracy,
            point.noise_multiplier
        );
    };
    let points = sweep::sweep(&job, base, &command.sweep, Some(PARQUET), &mut tell).await?;
    let axis = |label: &str, logarithmic| Axis { label: label.into(), logarithmic };
    let line = points.iter().map(|point| (point.epsilon, 100.0 * point.accuracy)).collect();
    let chart = Chart {
        title: "How often a model is right, by the ε of its training".into(),
        x: axis(&format!("ε at δ {:e}", job.privacy.delta.as_f64()), true),
        y: axis("right, % of public test rows", false),
        curves: vec![Curve { name: "one run each".into(), points: line }],
        marks: Vec::new(),
    };
    let folder = base.join(&job.output.folder);
    std::fs::create_dir_all(&folder)?;
    output::write(Some(&folder.join("sweep.svg")), svg(&[chart]).as_bytes())?;
    output::write(Some(&folder.join("sweep.json")), format!("{:#}\n", serde_json::to_value(&points)?).as_bytes())?;
    output::write(None, format!("written to {}, nothing was charged\n", folder.display()).as_bytes())
}
