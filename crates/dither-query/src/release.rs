//! Noisy integers to an answer with intervals, and whatever SQL asks to be done with it. All of it is post-processing.

mod estimate;
mod found;
mod moments;
mod outer;
mod predicted;
mod sampling;
mod selected;
mod width;

use datafusion::arrow::datatypes::DataType;
use dither_core::{Answer, Column, Key};
use dither_mechanisms::{Bounds, NoisyRow, NoisyTable};

use crate::error::Refusal;
use crate::ir::{Domain, GroupKey};
use crate::plan::{Measure, QueryPlan};

pub use estimate::CONFIDENCE;
pub use found::found_bounds;
pub(crate) use predicted::{SPREAD, error_of_any_deviation, error_where_values_spread, expected_error};
pub use width::half_width;

/// Turns a noisy table into the answer of its question.
///
/// # Errors
/// A [`Refusal`] if the part of the question above its aggregation does not run; it sees released values only.
pub async fn answer(plan: &QueryPlan, noisy: &NoisyTable) -> Result<Answer, Refusal> {
    outer::run(plan, noisy).await
}

/// The columns of the answer, before there is one. The part of the question above its aggregation runs on an empty
/// table and on one made-up row.
///
/// # Errors
/// A [`Refusal`] if that part does not run.
pub async fn columns(plan: &QueryPlan) -> Result<Vec<Column>, Refusal> {
    let key = |key: &GroupKey| match (&key.domain, &key.kind) {
        (Domain::Public(keys), _) => keys.first().cloned().unwrap_or(Key::Null),
        (Domain::Private, DataType::Boolean) => Key::Boolean(true),
        (Domain::Private, DataType::Utf8) => Key::Text("text".into()),
        (Domain::Private, DataType::Date32) => Key::Text("2026-11-30".into()),
        (Domain::Private, DataType::Timestamp(..)) => Key::Text("2026-11-30T12:00:00".into()),
        (Domain::Private, _) => Key::Integer(1),
    };
    let chosen = plan.ranks.iter().map(|ranks| ranks.fractions.len());
    let counted = plan.counts_by_selection().then_some(1);
    let width = plan.measures.iter().map(Measure::width).chain(chosen).chain(counted).sum();
    let bounds = vec![Bounds::default(); plan.found.len()];
    let row = NoisyRow { key: plan.question.keys.iter().map(key).collect(), values: vec![1; width] };
    outer::run(plan, &NoisyTable { rows: vec![row], bounds }).await?;
    Ok(outer::run(plan, &NoisyTable { rows: Vec::new(), bounds: Vec::new() }).await?.columns)
}
