//! What the noisy integers of a block say about a count, a sum or a mean, and how far off they may be.

use dither_core::{Estimate, ValueBounds};
use dither_mechanisms::{Bounds, Fraction, Noise};

use super::found;
use super::moments::Moments;
use super::selected;
use super::width::half_width;
use crate::plan::{Derivation, QueryPlan};

/// The probability that an interval covers the exact bounded answer.
pub const CONFIDENCE: f64 = 0.95;

/// The first integers of each block in a noisy row.
pub(super) fn offsets(plan: &QueryPlan) -> Vec<usize> {
    let widths = plan.mechanism.blocks.iter().map(|block| block.width);
    widths
        .scan(0, |next, width| {
            let offset = *next;
            *next += width;
            Some(offset)
        })
        .collect()
}

/// The estimate of one aggregate from a noisy row and the bounds that were found, with an interval at the given confidence.
pub(super) fn estimate(
    plan: &QueryPlan,
    derivation: Derivation,
    bounds: &[Bounds],
    row: &[i128],
    confidence: f64,
) -> Estimate {
    match plan.found_for(derivation).map(|index| bounds.get(index)) {
        None => between(plan, derivation, None, row, confidence),
        Some(Some(bounds)) => {
            let ends = (bounds.lower(), bounds.upper());
            found::scaled(derivation, ends, between(plan, derivation, Some(ends), row, confidence))
        }
        Some(None) => Estimate { value: None, low: None, high: None },
    }
}

/// The estimate between declared bounds. Where bounds were found, it is in ranges from one to the other but for counts and
/// sums.
fn between(
    plan: &QueryPlan,
    derivation: Derivation,
    found: Option<(f64, f64)>,
    row: &[i128],
    confidence: f64,
) -> Estimate {
    let block = match (derivation, derivation.block()) {
        (_, Some(block)) => block,
        (Derivation::Quantile { ranks, fraction }, None) => return quantile(plan, ranks, fraction, row),
        // It is for the order of the answer alone.
        (Derivation::Place, None) => {
            return Estimate { value: row.last().map(|place| *place as f64), low: None, high: None };
        }
        (Derivation::Selected, None) => return selected::estimate(plan, row, confidence),
        (_, None) => return Estimate { value: None, low: None, high: None },
    };
    let noise = &plan.mechanism.blocks[block].noise;
    let offset = offsets(plan)[block];
    let refined = (f64::from(noise.refinement())).exp2();
    let steps = |index: usize| row[offset + index] as f64 / refined;
    let around =
        |value: f64, half: f64, step: f64| Estimate::new(value * step, (value - half) * step, (value + half) * step);
    let pair = |bounds: &ValueBounds, a: f64, b: f64| {
        let range = bounds.range() as f64;
        let (a, b) = (a / range, b / range);
        around(a * steps(0) + b * steps(1), half_width(noise, &[a, b], confidence), 1.0)
    };
    match derivation {
        Derivation::Count(_) => {
            let half = half_width(noise, &[1.0], confidence);
            let value = steps(0);
            Estimate::new(value.round(), (value - half).floor(), (value + half).ceil())
        }
        Derivation::Sum(_) => around(steps(0), half_width(noise, &[1.0], confidence), step_of(plan, block)),
        Derivation::PairCount(_) => {
            let bounds = pair_bounds(plan, block);
            let Estimate { value, low, high } = pair(&bounds, 1.0, 1.0);
            Estimate { value: value.map(f64::round), low: low.map(f64::floor), high: high.map(f64::ceil) }
        }
        Derivation::TripleCount(_) => {
            let range = pair_bounds(plan, block).range() as f64;
            let (value, half) =
                ((steps(0) + steps(1) + steps(2)) / range, half_width(noise, &[1.0 / range; 3], confidence));
            Estimate::new(value.round(), (value - half).floor(), (value + half).ceil())
        }
        Derivation::PairSum(_) => {
            let bounds = pair_bounds(plan, block);
            // Σx = (lower·Σ(upper − x) + upper·Σ(x − lower)) / (upper − lower), the weights of which may differ in sign.
            let step = bounds.lattice().step();
            let declared = (bounds.lower() as f64 * step, bounds.upper() as f64 * step);
            let (lower, upper) = found.unwrap_or(declared);
            pair(&bounds, lower, upper)
        }
        Derivation::PairMean(_) => mean(&pair_bounds(plan, block), steps(0), steps(1), noise, confidence),
        Derivation::Variance { .. }
        | Derivation::Deviation { .. }
        | Derivation::Covariance { .. }
        | Derivation::Correlation { .. }
        | Derivation::Selected
        | Derivation::Place
        | Derivation::Quantile { .. } => Moments::new(plan, row, confidence, derivation).estimate(derivation),
    }
}

/// The number that a chosen point of a grid stands for. Nothing is known about how far off it is: that depends on the
/// rows around it.
fn quantile(plan: &QueryPlan, ranks: usize, fraction: Fraction, row: &[i128]) -> Estimate {
    let columns = plan.mechanism.blocks.iter().map(|block| block.width);
    let before = plan.mechanism.quantiles[..ranks].iter().map(|quantiles| quantiles.fractions().len());
    let place = plan.mechanism.quantiles[ranks].fractions().iter().position(|known| *known == fraction);
    let point = place.and_then(|place| row.get(columns.chain(before).sum::<usize>() + place));
    let value = point.map(|point| plan.ranks[ranks].grid.value(*point));
    Estimate { value, low: None, high: None }
}

pub(super) fn step_of(plan: &QueryPlan, block: usize) -> f64 {
    plan.bounds_of(&plan.measures[block]).map_or(1.0, |bounds| bounds.lattice().step())
}

pub(super) fn pair_bounds(plan: &QueryPlan, block: usize) -> ValueBounds {
    plan.bounds_of(&plan.measures[block]).unwrap_or_else(|| plan.summands[0].bounds)
}

/// The mean from A = Σ(upper − x) + noise and B = Σ(x − lower) + noise.
///
/// With p the true share B/(A + B) and X, Y the noise of A and B, the error is exactly
/// ((1 − p)·Y − p·X)/(A + B), all noisy. The interval solves this for p: first with the widest weights, which hold
/// for every p since the noise is symmetric and log-concave (Proschan 1965), then with the widest weights among the
/// p that are left.
pub(super) fn mean(bounds: &ValueBounds, a: f64, b: f64, noise: &Noise, confidence: f64) -> Estimate {
    let step = bounds.lattice().step();
    let real = |share: f64| (bounds.lower() as f64 + share * bounds.range() as f64) * step;
    let total = a + b;
    if total <= 0.0 {
        return Estimate::new(real(0.5), real(0.0), real(1.0));
    }
    let center = b / total;
    let share = center.clamp(0.0, 1.0);
    let widest = half_width(noise, &[1.0], confidence) / total;
    let edge = |share: f64| share.clamp(0.0, 1.0);
    let least_balanced = [edge(center - widest), edge(center + widest)]
        .into_iter()
        .max_by(|p, q| (p - 0.5).abs().total_cmp(&(q - 0.5).abs()))
        .unwrap_or(1.0);
    let half = half_width(noise, &[1.0 - least_balanced, least_balanced], confidence) / total;
    // Where no share explains the noisy sums, one of the rare misses happened; any share may be the true one.
    if center - half > 1.0 || center + half < 0.0 {
        return Estimate::new(real(share), real(0.0), real(1.0));
    }
    Estimate::new(real(share), real(edge(center - half)), real(edge(center + half)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dither_core::{L1Sensitivity, L2Sensitivity, Lattice, Ratio};
    use dither_mechanisms::{Gaussian, Laplace};
    use dither_noise::{NoiseSource, discrete_gaussian, discrete_laplace};

    /// How often the interval of a mean misses the truth, in 20,000 draws of the noise.
    fn misses(rows: i128, share: f64, gaussian: bool) -> usize {
        let bounds = ValueBounds::new(0.0, 100.0, Lattice::UNIT).unwrap();
        let sum = (rows as f64 * share * 100.0).round() as i128;
        let truth = sum as f64 / rows as f64;
        let scale = Ratio::new(500, 1).unwrap();
        let noise = match gaussian {
            true => Noise::Gaussian(Gaussian::new(L2Sensitivity::from_squared(1), squared(scale), 2).unwrap()),
            false => Noise::Laplace(Laplace::new(L1Sensitivity::new(1), scale).unwrap()),
        };
        let mut source = NoiseSource::from_os().unwrap();
        let mut draw = || match gaussian {
            true => discrete_gaussian(&mut source, squared(scale)).unwrap() as f64,
            false => discrete_laplace(&mut source, scale).unwrap() as f64,
        };
        (0..20_000)
            .filter(|_| {
                let (a, b) = ((rows * 100 - sum) as f64 + draw(), sum as f64 + draw());
                let interval = mean(&bounds, a, b, &noise, CONFIDENCE);
                let (low, high) = (interval.low.unwrap(), interval.high.unwrap());
                assert!(low <= interval.value.unwrap() && interval.value.unwrap() <= high);
                !(low..=high).contains(&truth)
            })
            .count()
    }

    fn squared(ratio: Ratio) -> Ratio {
        Ratio::new(ratio.numerator() * ratio.numerator(), 1).unwrap()
    }

    /// With 5 % of misses, more than 1,190 in 20,000 have probability below 1e-9 (six standard deviations).
    #[test]
    fn fp_14_the_interval_of_a_mean_covers_small_and_large_groups() {
        for gaussian in [false, true] {
            for (rows, share) in [(1, 0.5), (1, 1.0), (5, 0.1), (20, 0.0), (20, 0.5), (100, 0.26), (1000, 0.9)] {
                let missed = misses(rows, share, gaussian);
                assert!(missed < 1_190, "{missed} of 20000 with {rows} rows at {share}, Gaussian: {gaussian}");
            }
        }
    }
}
