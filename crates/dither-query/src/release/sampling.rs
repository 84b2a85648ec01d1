//! Intervals for noise and sampling together: what an answer says about what its units were drawn from.
//!
//! With x one row of each unit, and units that are drawn independently:
//!
//! - a mean x̄ of n values has the variance s²/n around the mean of the population, with s² their variance;
//! - a sum has at most the variance Σx² around its expectation: that where each unit of the population is in the sample
//!   by a small chance of its own, less where their number is fixed;
//! - a count is such a sum of ones.
//!
//! All three are replaced by the largest that the noisy sums leave possible, for a tenth of the misses. Half the width of
//! the interval is the root of the sum of the squares of half the width for noise and z or t times that deviation, with
//! Student's t for so many values as there are at least. For normal noise that is the quantile of the sum of both; for
//! Laplace noise it is on the safe side, since its quantiles exceed those of a normal variable of its variance the less
//! the smaller its part of the sum is.
//!
//! The interval is as good as the normal approximation of the sampling error: for some thirty units and more, fewer
//! where values are spread evenly, more where few of them make most of the sum.

use dither_core::{Estimate, Ratio};
use dither_noise::gaussian_quantile;

use super::estimate::{self, pair_bounds};
use super::moments::Moments;
use super::width::half_width;
use crate::ir::Over;
use crate::plan::{Derivation, QueryPlan};

/// The part of the misses that is for the bound on the variance.
const FOR_VARIANCE: f64 = 0.1;

/// The value of an aggregate with its interval for noise and sampling at the given confidence. `None` in place of ends
/// where there is none.
pub(super) fn interval(plan: &QueryPlan, index: usize, row: &[i128], confidence: f64) -> Estimate {
    let derivation = plan.derivations[index];
    let value = estimate(plan, derivation, row, confidence).value;
    let outside = 1.0 - confidence;
    let level = 1.0 - (1.0 - FOR_VARIANCE) * outside;
    let noise = estimate(plan, derivation, row, level);
    let squares = plan.sampling.as_ref().and_then(|squares| squares.get(index).copied()).flatten();
    let sampling = deviation(plan, derivation, squares, row, 1.0 - FOR_VARIANCE * outside);
    let (Some(middle), Some(low), Some(high), Some(sampling)) = (value, noise.low, noise.high, sampling) else {
        return Estimate { value, low: None, high: None };
    };
    let half = sampling.quantile(level) * sampling.deviation;
    let ends = [middle - (middle - low).max(0.0).hypot(half), middle + (high - middle).max(0.0).hypot(half)];
    let [low, high] = match derivation {
        Derivation::PairMean(pair) => {
            let bounds = pair_bounds(plan, pair);
            let step = bounds.lattice().step();
            ends.map(|end| end.clamp(bounds.lower() as f64 * step, bounds.upper() as f64 * step))
        }
        Derivation::Count(_) | Derivation::PairCount(_) => [ends[0].floor(), ends[1].ceil()],
        _ => ends,
    };
    Estimate { value, low: Some(low), high: Some(high) }
}

/// The value with its interval for noise; where sampling is asked about, no bounds are found.
fn estimate(plan: &QueryPlan, derivation: Derivation, row: &[i128], confidence: f64) -> Estimate {
    estimate::estimate(plan, derivation, &[], row, confidence)
}

/// How far samples differ, and how many values say so.
struct Sampling {
    deviation: f64,
    /// The degrees of freedom of the estimate; `None` for a count, whose deviation follows from itself.
    freedom: Option<f64>,
}

impl Sampling {
    /// How many deviations an interval reaches to each side.
    fn quantile(&self, confidence: f64) -> f64 {
        let z = normal_quantile(confidence);
        // Student's t by its expansion in 1/ν (Abramowitz and Stegun 1964, 26.7.5), to the second order.
        let Some(freedom) = self.freedom else { return z };
        let (first, second) = ((z.powi(3) + z) / 4.0, (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0);
        z + first / freedom + second / (freedom * freedom)
    }
}

/// The deviation of an aggregate over samples: the largest that is possible at this confidence.
fn deviation(
    plan: &QueryPlan,
    derivation: Derivation,
    squares: Option<usize>,
    row: &[i128],
    confidence: f64,
) -> Option<Sampling> {
    match (derivation, squares) {
        (Derivation::Count(_) | Derivation::PairCount(_), _) => {
            let most = estimate(plan, derivation, row, confidence).high?;
            Some(Sampling { deviation: most.max(0.0).sqrt(), freedom: None })
        }
        (Derivation::PairSum(pair) | Derivation::PairMean(pair), Some(squares)) => {
            let variance = Derivation::Variance { pair, squares, over: Over::Sample };
            let moments = Moments::new(plan, row, confidence, variance);
            let least = moments.count([pair; 2]).low;
            let most = match derivation {
                Derivation::PairMean(_) => moments.variance(pair, squares, Over::Sample).high / least,
                _ => second_moment(plan, &moments, pair, squares),
            };
            Some(Sampling { deviation: most.max(0.0).sqrt(), freedom: Some((least - 1.0).max(1.0)) })
        }
        _ => None,
    }
}

/// Σx² at most: with the middle m of the bounds it is Σ(x − m)² + m·(Σ(x − lower) − Σ(upper − x)) + m²n.
fn second_moment(plan: &QueryPlan, moments: &Moments<'_>, pair: usize, squares: usize) -> f64 {
    let bounds = pair_bounds(plan, pair);
    let (range, step) = (bounds.range() as f64, bounds.lattice().step());
    let middle = (bounds.lower() as f64 + bounds.upper() as f64) / 2.0 * step;
    let weights = [middle * middle / range - middle * step, middle * middle / range + middle * step];
    let linear = weights[0] * moments.steps(pair, 0) + weights[1] * moments.steps(pair, 1);
    moments.sum(squares).high + linear + half_width(moments.noise(pair), &weights, moments.each)
}

/// The z with P(|X| > z) = 1 − confidence for a standard normal X: that of an integer one, in millionths.
fn normal_quantile(confidence: f64) -> f64 {
    const MILLION: u128 = 1_000_000;
    let variance = Ratio::new(MILLION * MILLION, 1);
    let quantile = variance.and_then(|variance| gaussian_quantile(variance, confidence));
    quantile.map_or(f64::INFINITY, |steps| steps as f64 / MILLION as f64)
}

#[cfg(test)]
mod tests;
