//! The smallest model: scores that are linear in the inputs.

use std::error::Error;

use crate::model::{Batch, Clipping, Inputs, Layer, Model, Observed, Targets};
use crate::train::error::TrainError;
use crate::train::mutant::{Mutant, is};

/// Softmax regression for classes, linear regression with squared error for numbers.
///
/// A row of tokens is the share of each token in it. The gradient of one unit is computed alone, in f64, and clipped before
/// it is added to that of others.
///
/// # Privacy
/// Keeps what [`Model::add_clipped`] promises: the gradient of a unit that is not finite counts as zero, any other is scaled
/// to a norm of at most the bound, less one part in a million for rounding.
pub struct Linear {
    weights: Vec<f32>,
    layers: Vec<Layer>,
    outputs: usize,
    inputs: usize,
}

/// What is left of a clipping bound: rounding to f32 moves a norm by less than this part of it.
const GUARD: f64 = 1.0 - 1e-6;

impl Linear {
    /// A model of weights zero, which is as good as any other beginning: its loss is convex.
    ///
    /// # Errors
    /// No inputs or outputs, or too many.
    pub fn new(inputs: usize, outputs: usize) -> Result<Self, TrainError> {
        let size =
            inputs.checked_mul(outputs).and_then(|size| size.checked_add(outputs)).filter(|size| *size < 1 << 32);
        let Some(size) = size.filter(|_| inputs > 0 && outputs > 0) else {
            return Err(TrainError::field("model", format!("{inputs} inputs, {outputs} outputs"), "use less"));
        };
        let layers = vec![
            Layer { name: "linear.weight".into(), shape: vec![outputs, inputs], start: 0 },
            Layer { name: "linear.bias".into(), shape: vec![outputs], start: inputs * outputs },
        ];
        Ok(Self { weights: vec![0.0; size], layers, outputs, inputs })
    }

    /// Outputs and inputs.
    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.outputs, self.inputs]
    }

    /// The inputs that are not zero, by number.
    fn features(&self, inputs: &Inputs, row: usize) -> Vec<(usize, f64)> {
        match inputs {
            Inputs::Numbers { values, width } => {
                let row = &values[row * width..(row + 1) * width];
                row.iter().enumerate().map(|(i, value)| (i, f64::from(*value))).collect()
            }
            Inputs::Tokens { ids, length, lengths } => {
                let real = lengths[row].min(*length);
                let share = 1.0 / real.max(1) as f64;
                ids[row * length..][..real].iter().map(|id| (*id as usize, share)).collect()
            }
        }
    }

    fn scores(&self, features: &[(usize, f64)]) -> Vec<f64> {
        let score = |output: usize| {
            let weights = &self.weights[output * self.inputs..(output + 1) * self.inputs];
            let bias = f64::from(self.weights[self.outputs * self.inputs + output]);
            bias + features.iter().map(|(i, value)| f64::from(weights[*i]) * value).sum::<f64>()
        };
        (0..self.outputs).map(score).collect()
    }

    /// The loss of a row, and what it would have each output be less of.
    fn residual(&self, features: &[(usize, f64)], targets: &Targets, row: usize) -> (f64, Vec<f64>) {
        let mut scores = self.scores(features);
        match targets {
            Targets::Classes(classes) => {
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = scores.iter().map(|score| (score - most).exp()).sum();
                let class = classes[row] as usize;
                let loss = total.ln() + most - scores.get(class).copied().unwrap_or(0.0);
                for (output, score) in scores.iter_mut().enumerate() {
                    *score = (*score - most).exp() / total - if output == class { 1.0 } else { 0.0 };
                }
                (loss, scores)
            }
            Targets::Numbers(numbers) => {
                let error = scores[0] - f64::from(numbers[row]);
                scores.fill(0.0);
                scores[0] = 2.0 * error;
                (error * error, scores)
            }
            // There is no next token for a linear model: nothing is learned.
            Targets::NextToken => (0.0, vec![0.0; self.outputs]),
        }
    }

    /// The mean loss of the rows of a sample, and its gradient.
    fn gradient(&self, batch: &Batch, sample: usize) -> (f64, Vec<f64>) {
        let mut gradient = vec![0.0; self.weights.len()];
        let rows = batch.offsets[sample]..batch.offsets[sample + 1];
        let share = 1.0 / rows.len().max(1) as f64;
        let mut total = 0.0;
        for row in rows {
            let features = self.features(&batch.inputs, row);
            let (loss, residual) = self.residual(&features, &batch.targets, row);
            total += share * loss;
            for (output, residual) in residual.into_iter().enumerate() {
                let residual = share * residual;
                let weights = &mut gradient[output * self.inputs..(output + 1) * self.inputs];
                features.iter().for_each(|(i, value)| weights[*i] += residual * value);
                gradient[self.outputs * self.inputs + output] += residual;
            }
        }
        (total, gradient)
    }

    fn add(&self, batch: &Batch, clipping: Option<&Clipping>, sum: &mut [f32]) -> Observed {
        let mut observed = Observed::default();
        for sample in 0..batch.offsets.len().saturating_sub(1) {
            let (loss, mut gradient) = self.gradient(batch, sample);
            let norm = norm(&gradient);
            observed.losses.push(loss as f32);
            observed.norms.push(norm);
            if !norm.is_finite() && !is(Mutant::NotFiniteCounts) {
                observed.not_finite += 1;
                continue;
            }
            match clipping.filter(|_| !is(Mutant::NotClipped)) {
                Some(Clipping::Flat { bound }) => scale(&mut gradient, (bound * GUARD / norm).min(1.0)),
                Some(Clipping::Automatic { bound }) => scale(&mut gradient, bound * GUARD / (norm + 0.01)),
                Some(Clipping::PerLayer { bounds }) => {
                    for (layer, bound) in self.layers.iter().zip(bounds) {
                        let size: usize = layer.shape.iter().product();
                        let part = &mut gradient[layer.start..layer.start + size];
                        let factor = bound * GUARD / self::norm(part);
                        scale(part, factor.min(1.0));
                    }
                }
                None => {}
            }
            sum.iter_mut().zip(&gradient).for_each(|(sum, gradient)| *sum += *gradient as f32);
        }
        observed
    }
}

fn norm(gradient: &[f64]) -> f64 {
    gradient.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// Multiplies; a factor from a norm of zero is infinite, and changes nothing.
fn scale(gradient: &mut [f64], factor: f64) {
    if factor.is_finite() {
        gradient.iter_mut().for_each(|value| *value *= factor);
    }
}

impl Model for Linear {
    fn trainable(&self) -> &[f32] {
        &self.weights
    }

    fn trainable_mut(&mut self) -> &mut [f32] {
        &mut self.weights
    }

    fn layers(&self) -> &[Layer] {
        &self.layers
    }

    fn add_clipped(
        &self,
        batch: &Batch,
        clipping: &Clipping,
        sum: &mut [f32],
    ) -> Result<Observed, Box<dyn Error + Send + Sync>> {
        Ok(self.add(batch, Some(clipping), sum))
    }

    fn add_gradients(&self, batch: &Batch, sum: &mut [f32]) -> Result<Observed, Box<dyn Error + Send + Sync>> {
        Ok(self.add(batch, None, sum))
    }

    fn predict(&self, inputs: &Inputs) -> Result<Vec<f32>, Box<dyn Error + Send + Sync>> {
        let rows = match inputs {
            Inputs::Numbers { values, width } => values.len() / width.max(&1),
            Inputs::Tokens { lengths, .. } => lengths.len(),
        };
        let scores = |row| self.scores(&self.features(inputs, row)).into_iter().map(|score| score as f32);
        Ok((0..rows).flat_map(scores).collect())
    }
}
