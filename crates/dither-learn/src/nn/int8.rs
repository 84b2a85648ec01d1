//! Weights as integers of 8 bits: symmetric, with one step for each output.
//!
//! # References
//! Jacob et al., *Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference* (2018),
//! section 2.1, without a zero point. The steps of a tensor `x` stand in the tensor `x_scale`, outputs × 1, as in the library
//! `compressed-tensors`.

use std::collections::HashMap;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use super::error::NetworkError;
use super::weights::numbers;

/// What is appended to the name of a tensor for that of its steps.
pub const SCALE: &str = "_scale";
/// The largest integer; its opposite is the smallest, so that zero is in the middle.
const LARGEST: f64 = 127.0;

/// A file of weights as integers.
#[derive(Clone, Debug)]
pub struct Quantized {
    /// The file, as safetensors. It follows from the weights alone, byte by byte.
    pub file: Vec<u8>,
    /// How many numbers became integers.
    pub integers: usize,
    /// How many stayed floats: biases, and what normalises.
    pub floats: usize,
}

/// Rounds the weights of a file of safetensors to integers of 8 bits. Tensors of one dimension stay floats.
///
/// An integer times the step of its output is off by half a step at most, and a step is the largest weight of the output
/// over 127.
///
/// # Errors
/// Not such a file, or one of integers already, or with numbers that are not finite.
///
/// # Privacy
/// Post-processing: it sees weights only. What holds of them holds of the result.
pub fn quantize(file: &[u8], receipt: &str) -> Result<Quantized, NetworkError> {
    let tensors = SafeTensors::deserialize(file).map_err(refused)?;
    let (mut integers, mut floats, mut out) = (0, 0, Vec::new());
    for (name, tensor) in tensors.iter() {
        if tensor.dtype() == Dtype::I8 {
            return Err(NetworkError::Weights(format!("{name} is of integers already")));
        }
        let (values, shape) = (numbers(name, &tensor, &tensors)?, tensor.shape().to_vec());
        let bytes_of = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        if shape.len() < 2 || values.is_empty() {
            floats += values.len();
            out.push((name.to_owned(), Dtype::F32, shape, bytes_of(&values)));
            continue;
        }
        integers += values.len();
        let rows: Vec<(f32, Vec<i8>)> = values.chunks(values.len() / shape[0]).map(rounded).collect();
        let steps: Vec<f32> = rows.iter().map(|(step, _)| *step).collect();
        out.push((format!("{name}{SCALE}"), Dtype::F32, vec![shape[0], 1], bytes_of(&steps)));
        let bytes = rows.iter().flat_map(|(_, row)| row.iter().map(|integer| integer.cast_unsigned())).collect();
        out.push((name.to_owned(), Dtype::I8, shape, bytes));
    }
    let views =
        out.iter().map(|(name, dtype, shape, bytes)| Ok((name, TensorView::new(*dtype, shape.clone(), bytes)?)));
    let views = views.collect::<Result<Vec<_>, _>>().map_err(refused)?;
    // One entry only: a map of several is written in any order.
    let metadata = HashMap::from([("dither_receipt".to_owned(), receipt.to_owned())]);
    let file = safetensors::serialize(views, Some(metadata)).map_err(refused)?;
    Ok(Quantized { file, integers, floats })
}

/// The step of an output, rounded up, and its weights in steps.
fn rounded(row: &[f32]) -> (f32, Vec<i8>) {
    let largest = row.iter().fold(0.0f32, |largest, weight| largest.max(weight.abs()));
    let exact = f64::from(largest) / LARGEST;
    let step = match exact as f32 {
        _ if largest == 0.0 => 1.0,
        step if f64::from(step) < exact => step.next_up(),
        step => step,
    };
    let integer =
        |weight: &f32| (f64::from(*weight) / f64::from(step)).round_ties_even().clamp(-LARGEST, LARGEST) as i8;
    (step, row.iter().map(integer).collect())
}

/// Integers times the steps of their outputs.
pub fn scaled(integers: &[u8], steps: &[f32]) -> Vec<f32> {
    let width = (integers.len() / steps.len().max(1)).max(1);
    let row = |(integers, step): (&[u8], &f32)| {
        let step = f64::from(*step);
        // The largest weight of all may have been rounded beyond what floats reach.
        let largest = f64::from(f32::MAX);
        let weight = move |integer: &u8| (f64::from(integer.cast_signed()) * step).clamp(-largest, largest) as f32;
        integers.iter().map(weight).collect::<Vec<_>>()
    };
    integers.chunks(width).zip(steps).flat_map(row).collect()
}

fn refused(error: safetensors::SafeTensorError) -> NetworkError {
    NetworkError::Weights(error.to_string())
}
