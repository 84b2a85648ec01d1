//! How the ε of a question is split over what is measured.

use dither_core::Epsilon;

use super::{Measure, Shape, range};
use crate::error::Refusal;
use crate::ir::Argument;

/// The weight of a part with nothing known about it. Weights are integers, so that shares add up exactly.
pub(super) const EVEN: u64 = 1 << 16;

/// The weight of bounds that are found. They need to be about right only: what is left out at either end is in proportion
/// to the inverse of their share, and of many rows few; all that is summed between them has the noise of the rest.
pub(super) const BOUNDS: u64 = EVEN / 4;

/// A range of more than so many typical values says that the bounds are wide, not that all else should be noisy for it.
const WIDEST: f64 = 64.0;

impl Shape {
    /// The weight of each block for a kind of noise.
    ///
    /// The relative error of a block is `a/ε` for Laplace noise, where `a` is the range of its values over a typical one;
    /// the sum of all errors is least with shares of ε in proportion to √a. Gaussian noise splits the square of the ratio
    /// of sensitivity to noise instead, and the error is `a` over the root of a share: a^⅔ is best. Both follow from
    /// Lagrange's rule. Where no typical value is public, `a` is 1, as for counts.
    pub(super) fn weights(&self, power: f64) -> Vec<u64> {
        let weight = |block| (EVEN as f64 * self.ranges_of_a_typical_value(block).powf(power)).round() as u64;
        (0..self.measures.len()).map(weight).collect()
    }

    /// What the first aggregate that a block serves is of.
    pub(crate) fn first_argument(&self, block: usize) -> Option<&Argument> {
        let mut aggregates = self.question.aggregates.iter().zip(&self.derivations);
        aggregates.find_map(|(aggregate, derivation)| {
            aggregate.argument.as_ref().filter(|_| derivation.blocks().first() == Some(&block))
        })
    }

    /// How many times a typical value fits the range of the values of a block, if it is public.
    fn ranges_of_a_typical_value(&self, block: usize) -> f64 {
        match self.measures[block] {
            Measure::Sum(_) | Measure::Pair(_) | Measure::Triple(_) => {
                self.first_argument(block).map_or(1.0, ranges_of_a_typical_value)
            }
            Measure::Units | Measure::Rows | Measure::Distinct(_) | Measure::Squares(_) | Measure::UnitSquares(_) => {
                1.0
            }
        }
    }
}

/// How many times a typical value fits the range of the values of an argument, if both are known.
pub(super) fn ranges_of_a_typical_value(argument: &Argument) -> f64 {
    let ratio = argument
        .bounds
        .zip(argument.typical)
        .map(|(bounds, typical)| bounds.range() as f64 * bounds.lattice().step() / typical.abs());
    // NaN, from an empty range and a typical zero, is no ratio either.
    ratio.filter(|ratio| !ratio.is_nan()).map_or(1.0, |ratio| ratio.clamp(1.0, WIDEST))
}

/// Weights without a common divisor.
pub(super) fn lowest_terms(weights: Vec<u64>) -> Vec<u64> {
    fn gcd(a: u64, b: u64) -> u64 {
        if b == 0 { a } else { gcd(b, a % b) }
    }
    let divisor = weights.iter().copied().fold(0, gcd).max(1);
    weights.into_iter().map(|weight| weight / divisor).collect()
}

/// Splits an amount of nano-units by weight into parts that add up to it exactly.
pub(super) fn split(epsilon: Epsilon, weights: &[u64]) -> Result<Vec<Epsilon>, Refusal> {
    let total: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    let part = |weight: &u64| (u128::from(epsilon.nanos()) * u128::from(*weight) / total) as u64;
    let mut parts: Vec<u64> = weights.iter().map(part).collect();
    let left = (epsilon.nanos() - parts.iter().sum::<u64>()) as usize;
    parts[..left].iter_mut().for_each(|part| *part += 1);
    parts.into_iter().map(|nanos| Epsilon::from_nanos(nanos).map_err(|error| range(&error))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{MechanismChoice, QueryPlan, Request, plan};
    use crate::policy::Policy;

    #[test]
    fn shares_add_up_exactly_and_follow_their_weights() {
        let nanos = |total, weights: &[u64]| -> Vec<u64> {
            split(Epsilon::from_nanos(total).unwrap(), weights).unwrap().into_iter().map(Epsilon::nanos).collect()
        };
        assert_eq!(nanos(1_000_000_000, &[1, 1, 1]), [333_333_334, 333_333_333, 333_333_333]);
        assert_eq!(nanos(1_000_000_000, &[1, 3]), [250_000_000, 750_000_000]);
        assert_eq!(nanos(1_000_003, &[5, 7, 9]).iter().sum::<u64>(), 1_000_003);
        assert_eq!(lowest_terms(vec![EVEN, 3 * EVEN, 2 * EVEN]), [1, 3, 2]);
        // A part of nothing is refused, not measured without noise.
        assert!(split(Epsilon::from_nanos(1).unwrap(), &[1, 1]).is_err());
    }

    async fn planned(typical: &str, mechanism: MechanismChoice) -> QueryPlan {
        let text = format!(
            "dataset = \"d\"\n[budget]\nepsilon = 1\ndelta = 1e-6\n[tables.t]\nsource = \"t.csv\"\nprivacy_unit = \"row\"\n\
             [tables.t.columns]\nx = {{ type = \"integer\", bounds = [0, 100]{typical} }}\n"
        );
        let policy = Policy::from_toml(&text, ".").unwrap();
        let request = Request {
            mechanism,
            delta: Some("1e-6".parse().unwrap()),
            ..Request::new("SELECT COUNT(*) FILTER (WHERE x > 1), AVG(x) FROM t", "1".parse().unwrap())
        };
        plan(&request, &policy).await.unwrap()
    }

    #[tokio::test]
    async fn a_sum_of_small_values_gets_more_than_a_count() {
        for mechanism in [MechanismChoice::Laplace, MechanismChoice::Gaussian] {
            let deviations = |plan: &QueryPlan| -> Vec<f64> {
                plan.mechanism.blocks.iter().map(|block| block.noise.standard_deviation()).collect()
            };
            let [even, known, wide] = [
                planned("", mechanism).await,
                planned(", typical = 4", mechanism).await,
                planned(", typical = 0", mechanism).await,
            ];
            let ratio = |plan: &QueryPlan| deviations(plan)[0] / deviations(plan)[1];
            // Laplace: √25 against 1. Gaussian: the cube root of 25 against 1.
            let expected = if mechanism == MechanismChoice::Laplace { 5.0 } else { 25f64.cbrt() };
            // The lattice makes narrow noise a little narrower: 1 % at a scale of two steps.
            assert!((ratio(&known) / ratio(&even) / expected - 1.0).abs() < 0.02, "{}", ratio(&known) / ratio(&even));
            assert!(ratio(&wide) > ratio(&known));
            for plan in [even, known, wide] {
                let cost = dither_accounting::Cost::of(&plan.event(), plan.delta).unwrap();
                assert!(cost.epsilon_nanos <= 1_000_000_000, "{}", cost.epsilon_nanos);
            }
        }
    }
}
