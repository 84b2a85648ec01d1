//! Noisy integers to an answer with intervals, and whatever SQL asks to be done with it. All of it is post-processing.

mod estimate;
mod outer;

use dither_core::Answer;
use dither_mechanisms::NoisyTable;

use crate::error::Refusal;
use crate::plan::QueryPlan;

pub use estimate::{CONFIDENCE, half_width};

/// Turns a noisy table into the answer of its question.
///
/// # Errors
/// A [`Refusal`] if the part of the question above its aggregation does not run; it sees released values only.
pub async fn answer(plan: &QueryPlan, noisy: &NoisyTable) -> Result<Answer, Refusal> {
    outer::run(plan, noisy).await
}

/// The names of the columns of the answer, without running anything, and whether each is a key.
///
/// # Errors
/// A [`Refusal`] if the part of the question above its aggregation does not run, which is found on an empty table.
pub async fn columns(plan: &QueryPlan) -> Result<Vec<dither_core::Column>, Refusal> {
    Ok(outer::run(plan, &NoisyTable { rows: Vec::new() }).await?.columns)
}
