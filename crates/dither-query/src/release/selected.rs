//! The noisy number of units that a key was selected by, as a count.

use dither_core::Estimate;
use dither_mechanisms::{KeyRule, Threshold};

use crate::plan::QueryPlan;

/// The number of units of a row that was shown.
pub(super) fn estimate(plan: &QueryPlan, row: &[i128], confidence: f64) -> Estimate {
    match (&plan.mechanism.keys, row.last()) {
        (KeyRule::Threshold(rule), Some(noisy)) => interval(rule, *noisy, confidence),
        _ => Estimate { value: None, low: None, high: None },
    }
}

/// The interval of a group that is shown: given that it is, it covers with the stated probability, however many units the
/// group has.
///
/// Let h be the distance that symmetric, log-concave noise X stays within but for a probability of α, and t the threshold. The
/// interval of a noisy number v = n + X ≥ t is [v − h, v + h], its ends rounded outwards, and [1, v + h] where it would begin
/// at t or below.
///
/// *Proof.* In steps of one; P(X ≥ h + 1) ≤ α/2. (1) n < t. Then X > 0 in every group that is shown, so that n < v + h. It is
/// missed if v ≥ t + 1 + h, which has probability P(X ≥ s + h + 1 | X ≥ s) with s = t − n. Of log-concave noise that falls
/// with s; at s = 0 it is α/2 at most, of P(X ≥ 0) ≥ ½. (2) t ≤ n ≤ t + h. Then n ≤ v + h again, and it is missed only if
/// X ≥ h + 1, with probability α/2 of the one half or more with which the group is shown. (3) n > t + h. Let q be the
/// probability that the group is not shown, at most α/2. X < −h misses with α/2 − q and X > h with α/2, of 1 − q:
/// (α − q)/(1 − q) ≤ α. ∎
///
/// Without the first rule a group of few units that is shown by chance would have an interval that never covers it.
fn interval(rule: &Threshold, noisy: i128, confidence: f64) -> Estimate {
    let noise = rule.noise();
    let value = noisy as f64 / f64::from(noise.refinement()).exp2();
    let half = noise.error_quantile(confidence).unwrap_or(f64::INFINITY);
    let low = (value - half).floor();
    let low = if low <= rule.threshold() as f64 { 1.0 } else { low };
    Estimate::new(value.round(), low, (value + half).ceil())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use dither_core::Neighbors::AddOrRemoveUnit;
    use dither_core::Ratio;
    use dither_mechanisms::KeyNoise;

    use super::*;

    fn rules() -> [Threshold; 3] {
        let (one, loss, failure) = (NonZeroU32::MIN, "0.4".parse().unwrap(), "1e-4".parse().unwrap());
        [
            Threshold::truncated_geometric(one, AddOrRemoveUnit, loss, failure).unwrap(),
            Threshold::for_epsilon(one, AddOrRemoveUnit, loss, failure).unwrap(),
            Threshold::gaussian(one, AddOrRemoveUnit, Ratio::new(64, 1).unwrap(), failure).unwrap(),
        ]
    }

    /// The masses of the noise on the integers from −400 to 400, up to a factor.
    fn law(rule: &Threshold) -> Vec<(i128, f64)> {
        let mass = |x: i128| match rule.noise() {
            KeyNoise::Laplace(noise) => (-(x.abs() as f64) / noise.scale().as_f64()).exp(),
            KeyNoise::Gaussian(noise) => (-((x * x) as f64) / 2.0 / noise.variance().as_f64()).exp(),
            KeyNoise::TruncatedGeometric(noise) if x.abs() > noise.bound() => 0.0,
            KeyNoise::TruncatedGeometric(noise) => (-(x.abs() as f64) / noise.scale().as_f64()).exp(),
        };
        (-400..=400).map(|x| (x, mass(x))).collect()
    }

    /// How often the interval of a group of so many units misses it, of all times that the group is shown.
    fn missed(rule: &Threshold, units: i128, interval: &dyn Fn(i128) -> Estimate) -> f64 {
        let refinement = rule.noise().refinement();
        let shown = law(rule).into_iter().filter(|(x, _)| units + x >= rule.threshold());
        let (mut missed, mut all) = (0.0, 0.0);
        for (x, mass) in shown {
            let Estimate { low, high, .. } = interval((units + x) << refinement);
            let covered = low.unwrap() <= units as f64 && units as f64 <= high.unwrap();
            all += mass;
            missed += if covered { 0.0 } else { mass };
        }
        missed / all
    }

    #[test]
    fn fp_14_the_interval_of_a_shown_group_covers_it_whether_it_is_near_the_threshold_or_not() {
        for rule in rules() {
            for confidence in [0.5, 0.95, 0.99] {
                let honest = |noisy| interval(&rule, noisy, confidence);
                let far = 4 * rule.threshold();
                for units in (1..=2 * rule.threshold() + 2).chain([far]) {
                    // Sampled on whole numbers, Gaussian noise of deviation 8 errs by less than this.
                    let missed = missed(&rule, units, &honest);
                    assert!(missed <= (1.0 - confidence) * 1.001, "{rule:?} {units}: {missed}");
                }
                // Far from it the interval is not much too wide: a unit more on either side.
                let narrow = |noisy: i128| {
                    let Estimate { value, low, high } = honest(noisy);
                    Estimate { value, low: low.map(|low| low + 3.0), high: high.map(|high| high - 3.0) }
                };
                assert!(missed(&rule, far, &narrow) > 1.0 - confidence, "{rule:?}");
            }
            // The control: without a look at the threshold.
            let half = rule.noise().error_quantile(0.95).unwrap();
            let plain = |noisy: i128| {
                let value = noisy as f64 / f64::from(rule.noise().refinement()).exp2();
                Estimate::new(value, (value - half).floor(), (value + half).ceil())
            };
            assert!(missed(&rule, rule.threshold() / 4, &plain) > 0.2, "{rule:?}");
        }
    }
}
