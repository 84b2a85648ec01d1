//! What travels with a model: its weights, and a card that says what was promised to whom.

use std::path::Path;

use dither_core::{Neighbors, PrivacyUnit};
use serde_json::{Value, json};

use crate::model::Model;
use crate::train::adaptive::Adaptive;
use crate::train::error::TrainError;
use crate::train::evaluation::Accuracy;
use crate::train::key::unusable;
use crate::train::plan::DpPlan;
use crate::train::trainer::Trained;

/// The card as JSON: guarantee, neighbours, unit, plan, receipt.
///
/// # Errors
/// What has no price.
pub fn json(plan: &DpPlan, trained: &Trained, accuracy: Option<&Accuracy>) -> Result<Value, TrainError> {
    let (planned, executed) = (plan.price()?, plan.price_of(trained.finished.executed)?);
    let epsilon = |nanos: Option<u64>| nanos.map(|nanos| nanos as f64 / 1e9);
    let plan_value: Value = serde_json::from_str(&plan.json()).unwrap_or_default();
    Ok(json!({
        "guarantee": {
            "epsilon": planned.best as f64 / 1e9,
            "delta": plan.delta().as_f64(),
            "neighbors": plan.neighbors(),
            "unit": plan.unit(),
            "epsilon_pld": epsilon(planned.basic),
            "epsilon_rdp": epsilon(planned.rdp),
            "epsilon_of_executed_steps": executed.best as f64 / 1e9,
        },
        "steps": { "planned": plan.steps(), "executed": trained.finished.executed },
        "evaluation": accuracy,
        "weights_sha256": trained.finished.weights,
        "receipt": format!("{}:{}", trained.receipt.sequence, trained.receipt.head),
        "plan_sha256": plan.hash(),
        "plan": plan_value,
    }))
}

/// The card in words, in Markdown.
///
/// # Errors
/// What has no price.
pub fn markdown(plan: &DpPlan, trained: &Trained, accuracy: Option<&Accuracy>) -> Result<String, TrainError> {
    let price = plan.price()?;
    let epsilon = rounded_up(price.best);
    let delta = plan.delta().as_f64();
    let unit = match plan.unit() {
        PrivacyUnit::Column(column) => {
            format!("all rows with the same `{column}`, of which {} take part", plan.rows_per_unit())
        }
        PrivacyUnit::Period { column, per } => {
            let (rows, per) = (plan.rows_per_unit(), per.name());
            format!("all rows with the same `{column}` within one {per}, of which {rows} take part")
        }
        PrivacyUnit::Row => "each row by itself".into(),
    };
    let neighbors = neighbors(plan.neighbors());
    let amount = |nanos: Option<u64>| nanos.map_or("none".into(), rounded_up);
    let receipt = format!("{}:{}", trained.receipt.sequence, trained.receipt.head);
    let measured = accuracy.map_or(String::new(), |measured| {
        let Accuracy { right, wrong, accuracy, epsilon, .. } = measured;
        let noisy = format!("{right} right and {wrong} wrong, with noise, at a further ε of {epsilon}");
        format!("| accuracy | {:.1} %: {noisy} |\n", 100.0 * accuracy)
    });
    Ok(format!(
        "# Model card\n\n\
         This model was trained under (ε, δ)-differential privacy with **ε = {epsilon}** and **δ = {delta:e}**, for tables \
         that differ by {neighbors}. Protected is: {unit}.\n\n\
         | | |\n| --- | --- |\n\
         | ε by numerical composition (PLD, upper bound) | {} |\n| ε by Rényi composition | {} |\n\
         | noise multiplier σ | {:.6} |\n| clipping norm | {} |\n| sampling rate (Poisson) | {:.6e} |\n\
         | steps planned and charged | {} |\n| steps executed | {} |\n| public divisor | {} |\n\
         | weights, SHA-256 | `{}` |\n| plan, SHA-256 | `{}` |\n| receipt | `{receipt}` |\n{measured}\n\
         Anything computed from the weights keeps this guarantee. It covers this run: what else was published about the \
         same people adds to it, and the ledger that gave the receipt adds it up. Assumed is that the clipped gradient of a \
         unit, in floating point, depends on that unit alone and is as short as the clipping norm.\n",
        amount(price.basic),
        amount(price.rdp),
        plan.noise_multiplier(),
        clipping_norm(plan),
        plan.rate().as_f64(),
        plan.steps(),
        trained.finished.executed,
        plan.divisor(),
        trained.finished.weights,
        plan.hash(),
    ))
}

/// Nano-units of ε in words, to four places, never less than they are.
///
/// ```
/// use dither_learn::train::card::rounded_up;
/// assert_eq!((rounded_up(2_381_700_001), rounded_up(3_000_000_000)), ("2.3818".into(), "3.0000".into()));
/// ```
pub fn rounded_up(nanos: u64) -> String {
    let places = nanos.div_ceil(100_000);
    format!("{}.{:04}", places / 10_000, places % 10_000)
}

/// What neighbours differ by, in words.
pub(crate) fn neighbors(neighbors: Neighbors) -> &'static str {
    match neighbors {
        Neighbors::AddOrRemoveUnit => "adding or removing one unit",
        Neighbors::ReplaceUnit => "replacing one unit by another",
    }
}

/// The clipping norm in words.
pub(crate) fn clipping_norm(plan: &DpPlan) -> String {
    plan.adaptive().map_or(plan.norm().to_string(), |adaptive| {
        let Adaptive { quantile, count_noise, .. } = adaptive;
        format!("{} at first, then a noisy quantile {quantile} of norms (count noise {count_noise})", plan.norm())
    })
}

/// Writes the weights as a `safetensors` file, with the names and shapes of the layers.
///
/// # Errors
/// [`TrainError::File`].
///
/// # References
/// The safetensors format: the length of a JSON header in 8 bytes, little endian; the header; the numbers.
pub fn write_weights(path: &Path, model: &(impl Model + ?Sized), receipt: &str) -> Result<(), TrainError> {
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".into(), json!({ "format": "pt", "dither_receipt": receipt }));
    for layer in model.layers() {
        let size: usize = layer.shape.iter().product();
        let offsets = [4 * layer.start, 4 * (layer.start + size)];
        header.insert(layer.name.clone(), json!({ "dtype": "F32", "shape": layer.shape, "data_offsets": offsets }));
    }
    let mut text = Value::Object(header).to_string();
    // The numbers begin at a multiple of 8.
    text.push_str(&" ".repeat(text.len().next_multiple_of(8) - text.len()));
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    model.trainable().iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
    std::fs::write(path, bytes).map_err(|error| unusable(path, error))
}
