//! How much memory a run takes, and how many units fit into it at once: found out from public numbers, before the charge.

use serde::Serialize;

use crate::nn::Description;
use crate::train::error::TrainError;
use crate::train::job::{Job, MOST_PHYSICAL, ModelPart, USUAL_PHYSICAL};
use crate::train::load::Data;
use crate::train::optimizer::Method;

/// Bytes of a number.
const FLOAT: f64 = 4.0;
/// Bytes of what people call a megabyte, and a gigabyte.
const MB: f64 = 1048576.0;
const GB: f64 = 1024.0 * MB;

/// About how much memory a run takes, in bytes. It is estimated from shapes, rather too high: nothing is measured. Rows are
/// not counted, since their number is not public.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Memory {
    /// Weights, optimiser, sums and noise.
    pub always: f64,
    /// What one thread takes for the largest batch and its sum.
    pub batch: f64,
    /// How many units a batch has, at most.
    pub physical: usize,
    /// How many threads work, at most.
    pub threads: usize,
    /// `training.memory`.
    pub limit: Option<f64>,
}

impl Memory {
    /// All of it.
    pub fn whole(&self) -> f64 {
        self.always + self.threads as f64 * self.batch
    }
}

/// How many units and threads work at once, so that a run stays within `training.memory`: the units that the job says, or
/// up to [`USUAL_PHYSICAL`] where it says nothing, or up to [`MOST_PHYSICAL`] where so many take less than a sum of gradients;
/// and at most so many threads. A job that was `begun` keeps its units.
///
/// # Errors
/// A model or one batch that is beyond the limit.
pub(crate) fn settle(
    job: &Job,
    begun: Option<usize>,
    (inputs, outputs): (usize, usize),
    threads: usize,
) -> Result<Memory, TrainError> {
    let shape = Shape::new(job, inputs, outputs);
    let limit = limit(job)?;
    let room = limit.unwrap_or(f64::INFINITY) - shape.always;
    let fits = |physical: usize, threads: usize| threads as f64 * shape.batch(physical) <= room;
    let usual = ((shape.sum / shape.unit) as usize).clamp(USUAL_PHYSICAL, MOST_PHYSICAL);
    let largest = |threads: usize| (1..=usual).rev().find(|physical| fits(*physical, threads));
    let wanted = job.training.physical.or(begun);
    let chosen = wanted.or_else(|| largest(threads)).or_else(|| largest(1)).unwrap_or(1);
    if !fits(chosen, 1) {
        let fitting = if begun.is_none() { largest(1) } else { None };
        return Err(shape.beyond(limit.unwrap_or_default(), chosen, fitting));
    }
    let threads = (1..=threads).rev().find(|threads| fits(chosen, *threads)).unwrap_or(1);
    Ok(Memory { always: shape.always, batch: shape.batch(chosen), physical: chosen, threads, limit })
}

/// What follows from the description of a job.
struct Shape {
    /// Bytes of all weights.
    weights: f64,
    /// Bytes that are there in every step: weights, moments, sums, noise, and a checkpoint on its way to the disk.
    always: f64,
    /// Bytes of a unit in a batch.
    unit: f64,
    /// Bytes of a sum, and of what else a thread has once.
    sum: f64,
    rows: u32,
}

impl Shape {
    fn new(job: &Job, inputs: usize, outputs: usize) -> Self {
        let moments = match job.optimizer.method {
            Method::Sgd { momentum: 0.0 } => 0.0,
            Method::Sgd { .. } | Method::Adagrad { .. } => 1.0,
            Method::Adamw { .. } => 2.0,
        };
        let state = 1.0 + moments + if job.optimizer.average.is_some() { 1.0 } else { 0.0 };
        let (length, tokens) = match &job.data {
            Data::Text { length, .. } => (*length, true),
            Data::Table { .. } | Data::Images { .. } => (inputs, false),
        };
        let (weights, trained, row, once) = match &job.model {
            // One gradient at a time, in 64 bits.
            ModelPart::Linear {} => {
                let weights = (inputs as f64 + 1.0) * outputs as f64;
                (weights, weights, length as f64, 2.0 * weights)
            }
            ModelPart::Network { network, .. } => {
                let need = Description::need(network, if tokens { length } else { 1 });
                (need.weights, network.trained(), need.row, 0.0)
            }
        };
        let frozen = (weights - trained).max(0.0);
        Self {
            weights: FLOAT * weights,
            // The sum of a part, the result, and the integers of other parts, of 64 bits.
            always: FLOAT * (frozen + trained * (2.0 * state + 4.0)),
            unit: FLOAT * f64::from(job.unit.rows) * row,
            sum: FLOAT * (trained + once),
            rows: job.unit.rows,
        }
    }

    /// Bytes of a thread with so many units.
    fn batch(&self, physical: usize) -> f64 {
        physical as f64 * self.unit + self.sum
    }

    fn beyond(&self, limit: f64, physical: usize, fitting: Option<usize>) -> TrainError {
        let least = self.always + self.batch(if fitting.is_some() { 1 } else { physical });
        let raise = format!("set training.memory to {}GB or more", (least / GB).ceil());
        let (weights, always, batch) = (shown(self.weights), shown(self.always), shown(self.batch(physical)));
        let (problem, hint) = match fitting {
            _ if self.weights > limit => {
                (format!("the weights take {weights}"), format!("{raise}, or use a smaller model"))
            }
            Some(fitting) => (
                self.words(&always, &batch, physical),
                format!("set training.physical to at most {fitting}, or leave it out: it is then chosen to fit"),
            ),
            None => {
                (self.words(&always, &batch, physical), format!("{raise}, lower unit.rows, or use a smaller model"))
            }
        };
        TrainError::field("training.memory", format!("{problem}, and the limit is {}", shown(limit)), hint)
    }

    fn words(&self, always: &str, batch: &str, physical: usize) -> String {
        let rows = physical as f64 * f64::from(self.rows);
        format!("weights, optimiser and sums take about {always}, a batch of {rows} rows about {batch}")
    }
}

/// The limit in bytes, in powers of 1024.
fn limit(job: &Job) -> Result<Option<f64>, TrainError> {
    let Some(text) = &job.training.memory else { return Ok(None) };
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let scale = match text[digits.len()..].trim() {
        "MB" => MB,
        "GB" => GB,
        _ => 0.0,
    };
    match digits.parse::<u32>() {
        Ok(number) if scale > 0.0 && number > 0 => Ok(Some(f64::from(number) * scale)),
        _ => Err(TrainError::field("training.memory", format!("{text:?}"), "write 512MB or 2GB")),
    }
}

/// Bytes in words, rounded up.
pub(crate) fn shown(bytes: f64) -> String {
    format!("{:.0} MB", (bytes / MB).ceil())
}
