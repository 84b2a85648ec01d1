//! Whether a run fits a stated limit of memory: found out from public numbers, before the charge.

use crate::nn::Description;
use crate::train::error::TrainError;
use crate::train::job::{Job, ModelPart};
use crate::train::load::Data;
use crate::train::optimizer::Method;

/// Bytes of a number.
const FLOAT: f64 = 4.0;

/// Refuses a model whose weights alone are beyond the limit, before they are made.
pub(crate) fn check_model(job: &Job) -> Result<(), TrainError> {
    let (Some(limit), ModelPart::Network { network, .. }) = (limit(job)?, &job.model) else { return Ok(()) };
    let weights = FLOAT * network.need(1).weights;
    match weights <= limit {
        true => Ok(()),
        false => Err(beyond(limit, format!("the weights take {}", shown(weights)), "use a smaller model")),
    }
}

/// Refuses a run whose weights, sums and largest batch are beyond the limit. The table is not counted: its size is not
/// public.
pub(crate) fn check_run(job: &Job, trainable: usize, frozen: usize) -> Result<(), TrainError> {
    let Some(limit) = limit(job)? else { return Ok(()) };
    let weights = weights(job, trainable as f64, frozen as f64);
    let rows = job.training.physical as f64 * f64::from(job.unit.rows);
    let batch = FLOAT * rows * row(job, trainable as f64);
    if weights + batch <= limit {
        return Ok(());
    }
    let (weights, batch) = (shown(weights), shown(batch));
    let problem = format!("weights, optimiser and sums take about {weights}, a batch of {rows} rows about {batch}");
    Err(beyond(limit, problem, "lower training.physical or unit.rows, use a smaller model, or raise the limit"))
}

/// Bytes that are there in every step: weights, moments, sums, noise, and a checkpoint on its way to the disk.
fn weights(job: &Job, trainable: f64, frozen: f64) -> f64 {
    let moments = match job.optimizer.method {
        Method::Sgd { momentum: 0.0 } => 0.0,
        Method::Sgd { .. } | Method::Adagrad { .. } => 1.0,
        Method::Adamw { .. } => 2.0,
    };
    let state = 1.0 + moments + if job.optimizer.average.is_some() { 1.0 } else { 0.0 };
    // The sum of a part, the result, and two vectors of 64 bits.
    FLOAT * (frozen + trainable * (2.0 * state + 6.0))
}

/// Numbers that are kept of a row.
fn row(job: &Job, trainable: f64) -> f64 {
    let length = match &job.data {
        Data::Text { length, .. } => *length,
        Data::Table { .. } | Data::Images { .. } => 1,
    };
    match &job.model {
        // One gradient at a time, in 64 bits.
        ModelPart::Linear {} => length as f64 + 2.0 * trainable / job.training.physical.max(1) as f64,
        ModelPart::Network { network, .. } => Description::need(network, length).row,
    }
}

/// The limit in bytes, in powers of 1024.
fn limit(job: &Job) -> Result<Option<f64>, TrainError> {
    let Some(text) = &job.training.memory else { return Ok(None) };
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let scale = match text[digits.len()..].trim() {
        "MB" => 20,
        "GB" => 30,
        _ => 0,
    };
    match digits.parse::<u32>() {
        Ok(number) if scale > 0 && number > 0 => Ok(Some(f64::from(number) * 2f64.powi(scale))),
        _ => Err(TrainError::field("training.memory", format!("{text:?}"), "write 512MB or 2GB")),
    }
}

fn beyond(limit: f64, problem: String, hint: &str) -> TrainError {
    TrainError::field("training.memory", format!("{problem}, and the limit is {}", shown(limit)), hint)
}

fn shown(bytes: f64) -> String {
    format!("{:.0} MB", (bytes / 2f64.powi(20)).ceil())
}
