//! Losses, with their gradients.

use super::attention::softmax;
use super::simd::{largest, wide};

/// −log softmax(scores)\[class\] of every row. Scores become gradients, each row times its weight.
///
/// A class that does not exist has a loss that is not a number.
pub fn cross_entropy(scores: &mut [f32], classes: usize, targets: &[Option<u32>], weights: &[f32]) -> Vec<f32> {
    let rows = scores.chunks_exact_mut(classes).zip(targets).zip(weights);
    rows.map(|((row, target), &weight)| {
        let Some(target) = target else {
            row.fill(0.0);
            return 0.0;
        };
        let Some(&score) = row.get(*target as usize) else {
            row.fill(f32::NAN);
            return f32::NAN;
        };
        let (top, peak) = wide(
            #[inline(always)]
            || {
                let top = largest(row);
                softmax(row, 1.0);
                (top, largest(row))
            },
        );
        // The largest probability is 1 over the sum of exponentials.
        let loss = top - score - peak.ln();
        row[*target as usize] -= 1.0;
        wide(
            #[inline(always)]
            || row.iter_mut().for_each(|g| *g *= weight),
        );
        loss
    })
    .collect()
}

/// (prediction − target)² of every row. Predictions become gradients, each times its weight.
pub fn squared_error(predictions: &mut [f32], targets: &[f32], weights: &[f32]) -> Vec<f32> {
    let rows = predictions.iter_mut().zip(targets).zip(weights);
    rows.map(|((prediction, &target), &weight)| {
        let error = *prediction - target;
        *prediction = 2.0 * error * weight;
        error * error
    })
    .collect()
}
