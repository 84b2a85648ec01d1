//! Intervals for noise and sampling together: what an answer says about what its units were drawn from.
//!
//! With x one row of each unit, and units that are drawn independently:
//!
//! - a mean x̄ of n values has the variance s²/n around the mean of the population, with s² their variance;
//! - a sum has at most the variance Σx² around its expectation: that where each unit of the population is in the sample
//!   by a small chance of its own, less where their number is fixed;
//! - a count is such a sum of ones.
//!
//! Where a unit has several rows, so are the totals t of its values and c of its rows: a sum has at most the variance Σt², a
//! count Σc², and a mean, which is the quotient of two such sums, about Σ(t − x̄·c)²/(Σc)² (Cochran 1977, *Sampling
//! Techniques*, chapter 6). With A = Σ(upper − x) and B = Σ(x − lower) of a unit all three are sums of the squares of wA + vB,
//! and follow from the noisy ΣA², 2ΣAB and ΣB². That of a mean is convex in the mean, so that it is largest at one end of its
//! interval.
//!
//! All are replaced by the largest that the noisy sums leave possible, for a tenth of the misses. Half the width of
//! the interval is the root of the sum of the squares of half the width for noise and z or t times that deviation, with
//! Student's t for so many units as there are at least. For normal noise that is the quantile of the sum of both; for
//! Laplace noise it is on the safe side, since its quantiles exceed those of a normal variable of its variance the less
//! the smaller its part of the sum is.
//!
//! The interval is as good as the normal approximation of the sampling error: for some thirty units and more, fewer
//! where values are spread evenly, more where few of them make most of the sum.

use dither_core::{Estimate, Ratio, ValueBounds};
use dither_noise::gaussian_quantile;

use super::estimate::{self, pair_bounds};
use super::moments::Moments;
use super::width::half_width;
use crate::ir::Over;
use crate::plan::{Derivation, Measure, QueryPlan};

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
    if let Some(squares) = squares
        && let Measure::UnitSquares(summand) = plan.measures[squares]
    {
        return Totals { plan, row, squares, bounds: plan.summands[summand].bounds }.deviation(derivation, confidence);
    }
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

/// The noisy squares of the totals of units.
struct Totals<'a> {
    plan: &'a QueryPlan,
    row: &'a [i128],
    /// Their block.
    squares: usize,
    /// The bounds of the values, in the steps of the squares.
    bounds: ValueBounds,
}

impl Totals<'_> {
    /// The deviation of a count, a sum or a mean over samples of units.
    fn deviation(&self, derivation: Derivation, confidence: f64) -> Option<Sampling> {
        // Those of the number of rows and of the squares; for a mean also its own, and of the squares at both of its ends.
        let intervals = if matches!(derivation, Derivation::PairMean(_)) { 4.0 } else { 2.0 };
        let each = 1.0 - (1.0 - confidence) / intervals;
        let rows = match derivation {
            Derivation::PairSum(pair) | Derivation::PairMean(pair) => Derivation::PairCount(pair),
            count => count,
        };
        let rows = estimate(self.plan, rows, self.row, each);
        let (least, most) = (rows.low?.max(1.0), rows.high?.max(1.0));
        let of_unit = f64::from(self.plan.effective_bounds().max_rows_per_group.get());
        let units = (least / of_unit).max(1.0);
        let (lower, upper, step) =
            (self.bounds.lower() as f64, self.bounds.upper() as f64, self.bounds.lattice().step());
        let range = self.bounds.range() as f64;
        // The squared total of R values is at most R times the sum of their squares, which is largest with all of them at the
        // ends: around their mean p ranges above the lower one, p(1 − p) squared ranges for each (Bhatia and Davis 2000).
        let at_most = |variance: f64, of_row: f64| variance.clamp(0.0, of_unit * most * of_row);
        let deviation = match derivation {
            Derivation::PairSum(_) => {
                at_most(self.most(lower / range, upper / range, each), lower.abs().max(upper.abs()).powi(2)).sqrt()
                    * step
            }
            Derivation::PairMean(_) => {
                let mean = estimate(self.plan, derivation, self.row, each);
                let share = |end: f64| ((end / step - lower) / range).clamp(0.0, 1.0);
                let ends = [share(mean.low?), share(mean.high?)];
                let variance = ends.map(|share| self.most(-share, 1.0 - share, each)).into_iter().fold(0.0, f64::max);
                let middle = ends[0].max(ends[1].min(0.5));
                let variance = at_most(variance, middle * (1.0 - middle) * range * range);
                let of_sample = units.max(2.0) / (units.max(2.0) - 1.0);
                (variance * of_sample).sqrt() * step / least
            }
            // Of what is counted A is nothing and B the number of rows.
            Derivation::Count(_) => at_most(self.most(0.0, 1.0, each), 1.0).sqrt(),
            Derivation::PairCount(_) => at_most(self.most(1.0 / range, 1.0 / range, each), 1.0).sqrt(),
            _ => return None,
        };
        Some(Sampling { deviation, freedom: Some((units - 1.0).max(1.0)) })
    }

    /// The sum of the squares of a·A + b·B at most.
    fn most(&self, a: f64, b: f64, confidence: f64) -> f64 {
        let noise = &self.plan.mechanism.blocks[self.squares].noise;
        let offset = estimate::offsets(self.plan)[self.squares];
        let weights = [a * a, a * b, b * b];
        let steps = |index: usize| self.row[offset + index] as f64 / f64::from(noise.refinement()).exp2();
        let noisy: f64 = weights.iter().enumerate().map(|(index, weight)| weight * steps(index)).sum();
        noisy + half_width(noise, &weights, confidence)
    }
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
