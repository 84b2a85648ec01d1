//! From noisy gradients to weights. All of it is post-processing.

use serde::{Deserialize, Serialize};

use crate::nn::wide;
use crate::train::error::TrainError;

/// How weights follow from gradients.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Method {
    /// Stochastic gradient descent.
    Sgd {
        /// How much of the last update is kept.
        #[serde(default)]
        momentum: f64,
    },
    /// Adam with decoupled weight decay. Noise makes the second moment larger than that of the gradients, by the variance
    /// of the noise: steps are smaller than without noise, and a larger learning rate makes up for it.
    Adamw {
        /// How much of the first moment is kept.
        #[serde(default = "first")]
        beta1: f64,
        /// How much of the second moment is kept.
        #[serde(default = "second")]
        beta2: f64,
        /// What is added to the root of the second moment.
        #[serde(default = "small")]
        epsilon: f64,
        /// How much weights shrink in a step, before the learning rate.
        #[serde(default)]
        weight_decay: f64,
    },
    /// Adagrad: the sum of all squares instead of a moving average.
    Adagrad {
        /// What is added to the root of the sum.
        #[serde(default = "small")]
        epsilon: f64,
    },
}

fn first() -> f64 {
    0.9
}
fn second() -> f64 {
    0.999
}
fn small() -> f64 {
    1e-8
}

/// No more: weights must stay numbers, whatever is divided by.
const LARGEST_RATE: f64 = 1e6;

/// A method, its learning rate over the steps, and the average of weights.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// The method.
    pub method: Method,
    /// The largest learning rate.
    pub learning_rate: f64,
    /// How many steps the learning rate rises in, linearly.
    pub warmup_steps: u64,
    /// Whether it falls to zero along a half wave of a cosine afterwards; it stays otherwise.
    pub cosine: bool,
    /// How much of the average of weights is kept in a step; none is made without.
    pub average: Option<f64>,
}

/// The state of an optimiser.
#[derive(Debug, Clone, PartialEq)]
pub struct Optimizer {
    schedule: Schedule,
    steps: u64,
    /// Momentum, or the first moment.
    pub(crate) first: Vec<f32>,
    /// The second moment, or the sum of squares.
    pub(crate) second: Vec<f32>,
    /// The average of weights.
    pub(crate) average: Vec<f32>,
}

impl Schedule {
    /// Checks that all numbers are in range.
    pub(crate) fn check(&self) -> Result<(), TrainError> {
        let unit = |value: f64| (0.0..1.0).contains(&value);
        let positive = |value: f64| value > 0.0 && value.is_finite();
        let method = match self.method {
            Method::Sgd { momentum } => unit(momentum),
            Method::Adamw { beta1, beta2, epsilon, weight_decay } => {
                unit(beta1) && unit(beta2) && positive(epsilon) && (0.0..=1e3).contains(&weight_decay)
            }
            Method::Adagrad { epsilon } => positive(epsilon),
        };
        if !method || !self.average.is_none_or(unit) {
            let hint = "momentum, beta and average lie in [0, 1), epsilon is positive";
            return Err(TrainError::field("optimizer", "a parameter is out of range", hint));
        }
        if !(positive(self.learning_rate) && self.learning_rate <= LARGEST_RATE) {
            let problem = format!("{}", self.learning_rate);
            return Err(TrainError::field("optimizer.learning_rate", problem, "use a positive number, about 0.1"));
        }
        Ok(())
    }
}

impl Optimizer {
    /// An optimiser of these weights for so many steps.
    ///
    /// # Errors
    /// Numbers that are not finite or out of range.
    pub fn new(schedule: Schedule, steps: u64, weights: &[f32]) -> Result<Self, TrainError> {
        schedule.check()?;
        let zeros = || vec![0.0; weights.len()];
        let (first, second) = match schedule.method {
            Method::Sgd { momentum: 0.0 } => (Vec::new(), Vec::new()),
            Method::Sgd { .. } => (zeros(), Vec::new()),
            Method::Adamw { .. } => (zeros(), zeros()),
            Method::Adagrad { .. } => (Vec::new(), zeros()),
        };
        let average = if schedule.average.is_some() { weights.to_vec() } else { Vec::new() };
        Ok(Self { schedule, steps, first, second, average })
    }

    /// The learning rate of a step, counted from 0.
    pub fn learning_rate(&self, step: u64) -> f64 {
        let Schedule { learning_rate, warmup_steps, cosine, .. } = self.schedule;
        if step < warmup_steps {
            return learning_rate * (step + 1) as f64 / warmup_steps as f64;
        }
        if !cosine {
            return learning_rate;
        }
        let (done, all) = (step - warmup_steps, self.steps.saturating_sub(warmup_steps).max(1));
        learning_rate * 0.5 * (1.0 + (std::f64::consts::PI * done as f64 / all as f64).cos())
    }

    /// One update, with the gradients of all weights in their order.
    pub fn update(&mut self, step: u64, weights: &mut [f32], gradients: impl Iterator<Item = f32>) {
        let rate = self.learning_rate(step);
        wide(
            #[inline(always)]
            || self.apply(step, rate, weights, gradients),
        );
        if let Some(kept) = self.schedule.average {
            for (average, weight) in self.average.iter_mut().zip(weights.iter()) {
                *average = (kept * f64::from(*average) + (1.0 - kept) * f64::from(*weight)) as f32;
            }
        }
    }

    #[inline(always)]
    fn apply(&mut self, step: u64, rate: f64, weights: &mut [f32], gradients: impl Iterator<Item = f32>) {
        let weights = weights.iter_mut().zip(gradients);
        match self.schedule.method {
            Method::Sgd { momentum: 0.0 } => weights.for_each(|(weight, g)| *weight -= rate as f32 * g),
            Method::Sgd { momentum } => {
                for ((weight, g), kept) in weights.zip(&mut self.first) {
                    *kept = momentum as f32 * *kept + g;
                    *weight -= rate as f32 * *kept;
                }
            }
            Method::Adamw { beta1, beta2, epsilon, weight_decay } => {
                let power = |beta: f64| 1.0 - beta.powf((step + 1) as f64);
                let (correct1, correct2) = (power(beta1), power(beta2));
                for ((weight, g), (first, second)) in weights.zip(self.first.iter_mut().zip(&mut self.second)) {
                    let g = f64::from(g);
                    let m = beta1 * f64::from(*first) + (1.0 - beta1) * g;
                    let v = beta2 * f64::from(*second) + (1.0 - beta2) * g * g;
                    (*first, *second) = (m as f32, v as f32);
                    let step = (m / correct1) / ((v / correct2).sqrt() + epsilon) + weight_decay * f64::from(*weight);
                    *weight -= (rate * step) as f32;
                }
            }
            Method::Adagrad { epsilon } => {
                for ((weight, g), sum) in weights.zip(&mut self.second) {
                    let g = f64::from(g);
                    let total = f64::from(*sum) + g * g;
                    *sum = total as f32;
                    *weight -= (rate * g / (total.sqrt() + epsilon)) as f32;
                }
            }
        }
    }

    /// The weights to hand out: the average where there is one.
    pub fn result<'a>(&'a self, weights: &'a [f32]) -> &'a [f32] {
        if self.average.is_empty() { weights } else { &self.average }
    }
}
