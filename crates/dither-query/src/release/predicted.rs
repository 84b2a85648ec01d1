//! How far variances and their kin will be off, from the plan and the number of rows alone.
//!
//! With n rows, P = Σ(x − a)² and D = Σ(x − a) around the middle a of the bounds, a variance is P/n − (D/n)². Let z, c and d be the
//! noise of P, n and D, and e = (d − c·D/n)/(n + c) that of D/n. Then the released variance is off by exactly
//!
//! (z − c·P/n − 2(d − c·D/n)·D/n)/(n + c) − e².
//!
//! The numerator is a weighted sum of independent noise, which has a quantile; what n + c and e are at worst is bounded by
//! themselves, for a fifth of the 5 %.

use dither_mechanisms::Noise;

use super::estimate::{CONFIDENCE, pair_bounds, step_of};
use super::moments::events;
use super::width::half_width;
use crate::plan::{Derivation, QueryPlan};

/// The deviation that the prediction of a deviation's error assumes at least, as a part of the range.
pub(crate) const SPREAD: f64 = 0.1;

/// How far a variance, a deviation or a covariance of so many rows will be from the exact one, 95 times in 100. `share` says
/// where between its bounds the mean of the values lies; without one, wherever it is worst. A deviation is that of values
/// that spread by [`SPREAD`] of their range or more. `None` for a correlation: that depends on how far the values spread.
pub(crate) fn expected_error(plan: &QueryPlan, derivation: Derivation, rows: f64, share: Option<f64>) -> Option<f64> {
    match derivation {
        Derivation::Variance { pair, squares, .. } => Some(variance(plan, pair, squares, rows, share)),
        Derivation::Deviation { pair, squares, .. } => {
            let (error, least) = (variance(plan, pair, squares, rows, share), 2.0 * SPREAD * reach(plan, pair));
            // Of values that spread by more, the error is smaller: the root grows the slower the larger it is. As long as the
            // error of a variance can be all of it, that is the worst case.
            let below = least.powi(2) - error;
            Some(if below <= 0.0 { error.sqrt() } else { least - below.sqrt() })
        }
        Derivation::Covariance { pairs, products, .. } => Some(product(plan, (pairs, products), rows, derivation)),
        _ => None,
    }
}

/// The error of a deviation of any values at all: two roots differ by no more than the root of the difference.
pub(crate) fn error_of_any_deviation(
    plan: &QueryPlan,
    derivation: Derivation,
    rows: f64,
    share: Option<f64>,
) -> Option<f64> {
    let Derivation::Deviation { pair, squares, .. } = derivation else { return None };
    Some(variance(plan, pair, squares, rows, share).sqrt())
}

/// The error of a correlation of values whose deviations are a quarter of their ranges, so that the error is in proportion to
/// that of the sums behind it. `None` for all others.
pub(crate) fn error_where_values_spread(plan: &QueryPlan, derivation: Derivation, rows: f64) -> Option<f64> {
    let Derivation::Correlation { pairs, products, squares } = derivation else { return None };
    // A quarter of a range is half of what a value can be away from the middle.
    let spread = |pair: usize| (reach(plan, pair) / 2.0).powi(2);
    let scale = pairs.map(spread).iter().product::<f64>().sqrt();
    let covariance = product(plan, (pairs, products), rows, derivation) / scale;
    let of_variance = |side: usize| {
        let pair = pairs[side];
        product(plan, ([pair; 2], squares[side]), rows, derivation) / spread(pair)
    };
    // Both roots are as small as the errors of their variances allow, of a correlation of one.
    let roots = ((1.0 - of_variance(0)).max(0.0) * (1.0 - of_variance(1)).max(0.0)).sqrt();
    Some(((1.0 + covariance) / roots - 1.0).min(2.0))
}

/// Half the range of a value, in its unit.
fn reach(plan: &QueryPlan, pair: usize) -> f64 {
    let bounds = pair_bounds(plan, pair);
    bounds.range() as f64 * bounds.lattice().step() / 2.0
}

/// How far a variance will be off.
///
/// In units of the squared reach of a value over the range in steps, the weights of the noise X of Σ(upper − x) and Y of
/// Σ(x − lower) in the numerator are −q + 2u + 2u² and −q − 2u + 2u², for a mean at u and a mean square at q, both around the
/// middle and with −1 ≤ u ≤ 1 and u² ≤ q ≤ 1. They are at most 3 each and 4 together, so that 3 and 1 are worst: of symmetric,
/// log-concave variables a sum whose weights are further apart is spread wider (Proschan 1965).
fn variance(plan: &QueryPlan, pair: usize, squares: usize, rows: f64, share: Option<f64>) -> f64 {
    let (noise, range, reach) =
        (&plan.mechanism.blocks[pair].noise, pair_bounds(plan, pair).range() as f64, reach(plan, pair));
    let (of_squares, step) = (&plan.mechanism.blocks[squares].noise, step_of(plan, squares));
    let outside = (1.0 - CONFIDENCE) / 10.0;
    let count = half_width(noise, &[1.0 / range; 2], 1.0 - outside);
    // All blocks of a plan have noise of one kind, which differs in its scale alone.
    let ratio = scale(of_squares) / scale(noise) * step;
    let unit = reach.powi(2) / range;
    let linear = |a: f64, b: f64| half_width(noise, &[ratio, a * unit, b * unit], 1.0 - 8.0 * outside) + step;
    let (linear, far) = match share.map(|share| 2.0 * share - 1.0) {
        None => (linear(3.0, 1.0), 1.0),
        Some(u) => {
            let at = |q: f64| linear(2.0 * u * u + 2.0 * u - q, 2.0 * u * u - 2.0 * u - q);
            (at(u * u).max(at(1.0)), u.abs())
        }
    };
    let mean = half_width(noise, &[(1.0 + far) * reach / range, (1.0 - far) * reach / range], 1.0 - outside);
    let least = rows - count;
    if least <= 0.0 {
        return reach.powi(2);
    }
    (linear / least + (mean / least).powi(2)).min(reach.powi(2))
}

/// The scale of noise in steps.
fn scale(noise: &Noise) -> f64 {
    match noise {
        Noise::Laplace(laplace) => laplace.scale().as_f64(),
        Noise::Gaussian(gaussian) => gaussian.standard_deviation(),
    }
}

/// How far a covariance will be off, each of the intervals behind it being as certain as a derivation needs.
fn product(plan: &QueryPlan, (pairs, products): ([usize; 2], usize), rows: f64, derivation: Derivation) -> f64 {
    let each = 1.0 - (1.0 - CONFIDENCE) / events(derivation);
    let width = |block: usize, weights: &[f64]| half_width(&plan.mechanism.blocks[block].noise, weights, each);
    let range = |pair: usize| pair_bounds(plan, pair).range() as f64;
    let reaches = pairs.map(|pair| reach(plan, pair));
    let most = reaches[0] * reaches[1];
    let count = width(pairs[0], &[1.0 / range(pairs[0]); 2]) / rows;
    let means = [0, 1].map(|side| {
        let step = pair_bounds(plan, pairs[side]).lattice().step();
        (width(pairs[side], &[1.0]) / rows * step).min(2.0 * reaches[side])
    });
    let sum = width(products, &[1.0]) * step_of(plan, products) / rows;
    let moved = reaches[0] * means[1] + reaches[1] * means[0] + means[0] * means[1];
    (sum + most * count + moved).min(if pairs[0] == pairs[1] { most } else { 2.0 * most })
}
