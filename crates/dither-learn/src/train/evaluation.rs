//! How often a model is right on a table, under a charge of its own.

use dither_core::{Delta, GateError, Measurement, RequestId, Sensitive};
use dither_ledger::{ChargeRequest, Ledger, Outcome, ScopeLimit, ScopePath};
use dither_mechanisms::{ExactVector, VectorNoise};
use dither_noise::NoiseSource;
use serde::Serialize;

use crate::model::{Inputs, Model, Targets};
use crate::train::checkpoint;
use crate::train::data::{Rows, Table};
use crate::train::error::TrainError;
use crate::train::job::EvaluationPart;
use crate::train::key::JobFile;
use crate::train::load::Source;

/// How many rows about nobody are predicted at once.
const ROWS_AT_ONCE: usize = 256;

/// Noisy counts of right and wrong rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Accuracy {
    /// How many rows were classified rightly, with noise.
    pub right: i64,
    /// How many were not, with noise.
    pub wrong: i64,
    /// The share of right ones, between 0 and 1; 0 where the noisy counts leave nothing.
    pub accuracy: f64,
    /// What it cost.
    pub epsilon: f64,
    /// Whether it had been charged before, so that nothing was charged now.
    #[serde(skip)]
    pub charged_before: bool,
}

/// Where an evaluation is charged, and for whom.
pub(crate) struct Place<'a> {
    pub ledger: &'a Ledger,
    pub scope: ScopePath,
    pub limits: &'a [ScopeLimit],
    pub rows_per_unit: u32,
    /// By how many units neighbours differ.
    pub distance: u32,
}

/// The noise of an evaluation: either count moves by all rows of a unit.
pub(crate) fn noise(part: &EvaluationPart, rows_per_unit: u32, distance: u32) -> Result<VectorNoise, TrainError> {
    let rows = u128::from(rows_per_unit) * u128::from(distance);
    Ok(VectorNoise::laplace(&[rows, rows], part.epsilon)?)
}

/// The name under which the evaluation of a model with these weights is charged, and what is evaluated in words.
pub(crate) fn request(
    part: &EvaluationPart,
    scope: &ScopePath,
    weights: &str,
    key: &JobFile,
) -> Result<(RequestId, String), TrainError> {
    let description = serde_json::to_string(part).map_err(|error| TrainError::Job(error.to_string()))?;
    let parts = ["dither evaluation 1", scope.as_str(), &description, weights].map(str::as_bytes);
    Ok((RequestId::digest(parts.into_iter().chain([key.key().name().as_slice()])), description))
}

/// Charges and counts. The same model on the same table is answered once, and then for free.
///
/// # Privacy
/// ε of the part, δ = 0, for the neighbours of the run. A unit has at most so many rows, each of which is right or
/// wrong whatever other units there are: either count moves by at most as many, and both have Laplace noise for it.
pub(crate) async fn evaluate(
    model: &mut dyn Model,
    part: &EvaluationPart,
    source: &Source,
    key: &JobFile,
    place: Place<'_>,
) -> Result<Accuracy, TrainError> {
    let noise = noise(part, place.rows_per_unit, place.distance)?;
    let weights = checkpoint::digest(model.trainable());
    let (request, description) = request(part, &place.scope, &weights, key)?;
    let charged_before = place.ledger.charge_of(request).await?.is_some();
    let label = format!("evaluate {weights} on {description}");
    let charge =
        ChargeRequest { request, key: None, scope: place.scope, event: noise.event(), delta: Delta::ZERO, label };
    let release = match place.ledger.charge_within(place.limits, &charge).await? {
        Outcome::Answered(answer) => answer.decode::<Vec<i128>>()?,
        Outcome::Charged(charge) => {
            let charged = Measurement::new(noise, request).authorize(charge)?;
            let table = Table::new(source.read()?, place.rows_per_unit, key.key());
            let values = count(model, &table).map_err(|detail| TrainError::Ended { detail })?;
            let exact = Sensitive::new(ExactVector { values });
            let sealed = charged.release(exact, &mut NoiseSource::from_os()?)?;
            place.ledger.publish(request, sealed).await?
        }
    };
    let &[right, wrong] = release.value().as_slice() else { return Err(GateError::Failed.into()) };
    let (right, wrong) = (right.clamp(0, 1 << 53) as i64, wrong.clamp(0, 1 << 53) as i64);
    let accuracy = if right == 0 { 0.0 } else { right as f64 / (right + wrong) as f64 };
    Ok(Accuracy { right, wrong, accuracy, epsilon: part.epsilon.as_f64(), charged_before })
}

/// The share of rows about nobody that a model classifies rightly.
///
/// # Privacy
/// None: nothing is charged, and there is no noise.
///
/// # Errors
/// Rows without classes, or of another shape than the model.
pub fn accuracy_on(model: &mut dyn Model, rows: &Rows) -> Result<f64, TrainError> {
    let wrong = |problem| TrainError::field("evaluation.data", problem, "use rows with classes that fit the model");
    let all: Vec<u32> = (0..rows.count() as u32).collect();
    let mut right = 0;
    for chunk in all.chunks(ROWS_AT_ONCE) {
        let (inputs, targets) = (rows.inputs(chunk), rows.targets(chunk));
        let Targets::Classes(classes) = targets else { return Err(wrong("it has no classes".to_owned())) };
        right += right_in(model, &inputs, &classes).map_err(wrong)?;
    }
    Ok(right as f64 / rows.count().max(1) as f64)
}

/// Right and wrong rows.
///
/// # Privacy
/// Each unit is predicted by itself: kernels may round scores in another way in other company, and of two classes that
/// are nearly as likely the other one would win. So a unit changes what is counted of its own rows and of no others.
pub(crate) fn count(model: &mut dyn Model, table: &Table) -> Result<Vec<i128>, String> {
    let (mut right, mut all) = (0, 0);
    for unit in 0..table.units() as u32 {
        let batch = table.batch(&[unit]);
        let Targets::Classes(classes) = &batch.targets else { continue };
        right += right_in(model, &batch.inputs, classes)? as i128;
        all += classes.len() as i128;
    }
    Ok(vec![right, all - right])
}

/// How many rows have their largest score at their class.
fn right_in(model: &mut dyn Model, inputs: &Inputs, classes: &[u32]) -> Result<usize, String> {
    let scores = model.predict(inputs).map_err(|error| error.to_string())?;
    let outputs = (scores.len() / classes.len().max(1)).max(1);
    let best = |scores: &[f32]| (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    let hits = scores.chunks(outputs).zip(classes).filter(|(scores, class)| best(scores) == Some(**class as usize));
    Ok(hits.count())
}
