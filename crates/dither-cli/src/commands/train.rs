//! `dither train`: plan, charge, train, write the model and its card.

use std::io::IsTerminal;

use dither_learn::train::card::rounded_up;
use dither_learn::train::reader::Reader;
use dither_learn::train::session::TrainingSession;
use dither_learn::train::trainer::Progress;
use dither_query::source::{SourceError, text_columns, text_rows};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::Train;
use crate::output;

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
    let mut session = TrainingSession::open_with(&command.job, Some(PARQUET))?;
    let summary = session.summary()?;
    if command.plan {
        return output::write(None, summary.as_bytes());
    }
    eprint!("{summary}");
    let bar = match std::io::stderr().is_terminal() {
        true => ProgressBar::new(session.plan().steps()),
        false => ProgressBar::hidden(),
    };
    if let Ok(style) = ProgressStyle::with_template(STYLE) {
        bar.set_style(style);
    }
    let bound = session.plan().norm();
    let mut watch = |progress: Progress<'_>| {
        bar.set_position(progress.executed);
        if let Some(observed) = progress.observed {
            let units = observed.losses.len().max(1) as f64;
            let loss = observed.losses.iter().map(|loss| f64::from(*loss)).sum::<f64>() / units;
            let clipped = observed.norms.iter().filter(|norm| **norm > bound).count() as f64 / units;
            let text = format!("step {}: loss {loss:.4}, {:.0} % clipped", progress.executed, 100.0 * clipped);
            bar.set_message(text.clone());
            if bar.is_hidden() {
                eprintln!("{text}");
            }
        }
        true
    };
    let trained = session.train(command.resume, command.operator, &mut watch).await;
    bar.finish_and_clear();
    let trained = trained?;
    let price = session.plan().price()?;
    let charged = if trained.repeated { "trained before, charged then" } else { "charged" };
    let accuracy = session.accuracy().map_or(String::new(), |measured| {
        format!(
            "right in {:.1} % of rows, with noise, at a further ε {}\n",
            100.0 * measured.accuracy,
            measured.epsilon
        )
    });
    let text = format!(
        "{accuracy}{charged} ε {} δ {:e} · {} steps · receipt {}:{}\nwritten to {}\n",
        rounded_up(price.best),
        session.plan().delta().as_f64(),
        trained.finished.executed,
        trained.receipt.sequence,
        trained.receipt.head,
        session.folder().display(),
    );
    output::write(None, text.as_bytes())
}
