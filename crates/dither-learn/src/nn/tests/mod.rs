//! What holds of every network, checked on small ones of every kind.

mod cases;
mod clipped;
mod differences;
mod files;
mod gguf;
mod golden;
mod mutants;
mod odd;
mod quantized;

use super::Network;
use crate::model::{Batch, Clipping, Inputs, Model, Observed, Targets};

/// The clipped sum.
fn clipped(network: &mut Network, batch: &Batch, clipping: &Clipping) -> (Vec<f32>, Observed) {
    let mut sum = vec![0.0; network.trainable().len()];
    let observed = network.add_clipped(batch, clipping, &mut sum).unwrap();
    (sum, observed)
}

/// The sum without clipping.
fn plain(network: &mut Network, batch: &Batch) -> (Vec<f32>, Observed) {
    let mut sum = vec![0.0; network.trainable().len()];
    let observed = network.add_gradients(batch, &mut sum).unwrap();
    (sum, observed)
}

/// Some samples of a batch.
fn some(batch: &Batch, samples: std::ops::Range<usize>) -> Batch {
    let rows = batch.offsets[samples.start]..batch.offsets[samples.end];
    let offsets = batch.offsets[samples.start..=samples.end].iter().map(|end| end - rows.start).collect();
    let inputs = match &batch.inputs {
        Inputs::Numbers { values, width } => {
            Inputs::Numbers { values: values[rows.start * width..rows.end * width].to_vec(), width: *width }
        }
        Inputs::Tokens { ids, length, lengths } => Inputs::Tokens {
            ids: ids[rows.start * length..rows.end * length].to_vec(),
            length: *length,
            lengths: lengths[rows.clone()].to_vec(),
        },
    };
    let targets = match &batch.targets {
        Targets::Classes(classes) => Targets::Classes(classes[rows].to_vec()),
        Targets::Numbers(numbers) => Targets::Numbers(numbers[rows].to_vec()),
        Targets::NextToken => Targets::NextToken,
    };
    Batch { inputs, targets, offsets }
}

fn samples(batch: &Batch) -> usize {
    batch.offsets.len() - 1
}

fn norm(numbers: &[f32]) -> f64 {
    numbers.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt()
}

/// ‖a − b‖.
fn distance(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum::<f64>().sqrt()
}
