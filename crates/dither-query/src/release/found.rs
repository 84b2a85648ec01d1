//! Values between bounds that were found, and the bounds themselves.

use dither_core::{Between, Estimate};
use dither_mechanisms::NoisyTable;

use super::estimate::offsets;
use crate::plan::{Derivation, Measure, QueryPlan, Values};

/// The bounds that were found for a question.
pub fn found_bounds(plan: &QueryPlan, noisy: &NoisyTable) -> Vec<Between> {
    let each = plan.found.iter().zip(&plan.mechanism.found).zip(&noisy.bounds).enumerate();
    each.map(|(index, ((found, choice), bounds))| Between {
        column: found.name.clone(),
        lower: bounds.lower(),
        upper: bounds.upper(),
        rows_beyond: choice.margin(),
        share_beyond: values(plan, noisy, index).map(|values| share(choice.margin(), values)),
    })
    .collect()
}

/// About which part of so many values lies beyond the bounds. The histogram that they were chosen from is not released, so that
/// nobody may count in it: what is known is the rank that was asked for, which is public, and a noisy number of values.
fn share(margin: u64, values: f64) -> f64 {
    let beyond = 2.0 * margin as f64;
    if values <= beyond { 1.0 } else { beyond / values }
}

/// The noisy number of values in all groups that were released, from the pairs of sums of the answer.
fn values(plan: &QueryPlan, noisy: &NoisyTable, index: usize) -> Option<f64> {
    let of = Values::Found(index);
    let block = plan.measures.iter().position(|m| *m == Measure::Pair(of) || *m == Measure::Triple(of))?;
    let range = plan.bounds_of(&plan.measures[block])?.range() as f64;
    let steps = range * f64::from(plan.mechanism.blocks[block].noise.refinement()).exp2();
    let (first, mut sum) = (offsets(plan)[block], 0.0);
    for row in &noisy.rows {
        sum += (*row.values.get(first)? as f64 + *row.values.get(first + 1)? as f64) / steps;
    }
    Some(sum)
}

/// An estimate in ranges from one bound to the other in the unit of the data. Counts and sums are that already.
pub(super) fn scaled(derivation: Derivation, (lower, upper): (f64, f64), estimate: Estimate) -> Estimate {
    let range = upper - lower;
    match derivation {
        Derivation::PairMean(_) => estimate.map(|share| lower + share * range),
        Derivation::Variance { .. } => estimate.map(|square| square * range * range),
        Derivation::Deviation { .. } => estimate.map(|share| share * range),
        _ => estimate,
    }
}

#[cfg(test)]
mod tests {
    use dither_mechanisms::{Bounds, FoundBounds};
    use dither_noise::NoiseSource;

    use super::super::CONFIDENCE;
    use super::super::estimate::estimate;
    use super::*;
    use crate::plan::{MechanismChoice, price, shape};
    use crate::testing::{ROWS, noisy, policy};

    async fn plan(choice: MechanismChoice) -> QueryPlan {
        let policy = policy(ROWS, "x = { type = \"number\", approx_bounds = true }");
        let sql = "SELECT AVG(x), SUM(x), VAR_POP(x), STDDEV_POP(x), COUNT(x), COUNT(*) FROM t";
        let (shape, _) = shape(sql, &policy).await.unwrap();
        price(shape, "4".parse().unwrap(), "1e-6".parse().unwrap(), choice).unwrap()
    }

    /// The exact integers of the triple and the squares of values between bounds, two of which are missing.
    fn exact(values: &[f64], bounds: Bounds) -> Vec<i128> {
        let steps = FoundBounds::STEPS as f64;
        let place =
            |x: &f64| (x.clamp(bounds.lower(), bounds.upper()) - bounds.lower()) / (bounds.upper() - bounds.lower());
        let places: Vec<i128> = values.iter().map(|x| (place(x) * steps).round() as i128).collect();
        let range = i128::from(FoundBounds::STEPS);
        let square = |x: &i128| ((x - range / 2) * (x - range / 2) + (1 << 17)) >> 18;
        vec![places.iter().map(|x| range - x).sum(), places.iter().sum(), 2 * range, places.iter().map(square).sum()]
    }

    /// The clamped answers, as textbooks give them.
    fn truths(values: &[f64], bounds: Bounds) -> [f64; 6] {
        let clamped: Vec<f64> = values.iter().map(|x| x.clamp(bounds.lower(), bounds.upper())).collect();
        let (n, sum) = (clamped.len() as f64, clamped.iter().sum::<f64>());
        let square = clamped.iter().map(|x| (x - sum / n).powi(2)).sum::<f64>() / n;
        [sum / n, sum, square, square.sqrt(), n, n + 2.0]
    }

    /// Of 2,000 intervals of 95 % more than 160 miss with probability below 1e-8; the released value lies within each.
    #[tokio::test]
    async fn fp_14_intervals_between_found_bounds_cover_the_clamped_answer() {
        let values: Vec<f64> =
            (0..400).map(|i| f64::from(i * i % 997) - 100.0).chain([1e12, -1e12, f64::MAX]).collect();
        let mut source = NoiseSource::from_os().unwrap();
        for choice in [MechanismChoice::Laplace, MechanismChoice::Gaussian] {
            let plan = plan(choice).await;
            assert_eq!((plan.found.len(), plan.measures.len()), (1, 2), "one pair and one sum of squares for all six");
            for ends in [[-100, 480], [0, 470], [480, 500], [-1328, 1328]] {
                let bounds: Bounds = serde_json::from_value(serde_json::json!(ends)).unwrap();
                let (exact, truths) = (exact(&values, bounds), truths(&values, bounds));
                let (mut missed, mut caught) = ([0; 6], 0);
                for _ in 0..2_000 {
                    let row = noisy(&plan, &exact, &mut source);
                    for (index, truth) in truths.iter().enumerate() {
                        let found = estimate(&plan, plan.derivations[index], &[bounds], &row, CONFIDENCE);
                        let [value, low, high] = [found.value, found.low, found.high].map(Option::unwrap);
                        assert!(low <= value && value <= high, "{found:?}");
                        let slack = 1e-6 * (truth.abs() + (high - low));
                        missed[index] += u32::from(*truth < low - slack || *truth > high + slack);
                        // The control: the interval of a sum at half of its width.
                        let half = (high - low) / 4.0;
                        caught += u32::from(index == 1 && (*truth < value - half || *truth > value + half));
                    }
                }
                assert!(missed.iter().all(|missed| *missed < 160), "{missed:?} {ends:?} {choice:?}");
                assert!(caught > 160, "{caught} {ends:?} {choice:?}");
            }
        }
    }

    #[tokio::test]
    async fn the_plan_prices_bounds_and_sums_before_it_knows_them_and_says_so() {
        for choice in [MechanismChoice::Laplace, MechanismChoice::Gaussian] {
            let plan = plan(choice).await;
            let cost = plan.cost().unwrap().epsilon_nanos;
            assert!(cost <= 4_000_000_000 && cost > 3_500_000_000, "{cost}");
            let spent: u64 = plan.shares.iter().map(|share| share.nanos()).sum();
            assert!(spent <= 4_000_000_000);
            let outputs = plan.explain_outputs();
            let words = outputs[0].assumption.as_deref().unwrap();
            assert!(
                words.contains("bounds of `x` are found for ε 0.444") && words.contains("rows of all groups"),
                "{words}"
            );
            assert!(outputs[0].bounds.contains("they are found from the data"), "{}", outputs[0].bounds);
            assert_eq!(
                outputs.iter().map(|output| output.expected_error.is_some()).collect::<Vec<_>>(),
                [false, false, false, false, true, true]
            );
        }
    }

    #[tokio::test]
    async fn the_bounds_are_named_beside_the_answer() {
        let plan = plan(MechanismChoice::Laplace).await;
        let bounds: Vec<Bounds> = vec![serde_json::from_value(serde_json::json!([0, 321])).unwrap()];
        let noisy = NoisyTable { rows: Vec::new(), bounds };
        let rows_beyond = plan.mechanism.found[0].margin();
        // No group was released, so that nobody can say how many values there are.
        let share_beyond = Some(1.0);
        let expected = Between { column: "x".into(), lower: 0.0, upper: 1.0625, rows_beyond, share_beyond };
        assert_eq!(found_bounds(&plan, &noisy), [expected]);
    }

    /// What is said of the values beyond follows from what was released, and is near the truth where the values are.
    #[tokio::test]
    async fn the_share_of_values_beyond_follows_from_the_released_number_of_values() {
        let mut source = NoiseSource::from_os().unwrap();
        let bounds: Vec<Bounds> = vec![serde_json::from_value(serde_json::json!([0, 480])).unwrap()];
        for choice in [MechanismChoice::Laplace, MechanismChoice::Gaussian] {
            let plan = plan(choice).await;
            let margin = plan.mechanism.found[0].margin();
            for (values, narrow) in [(2 * margin + margin / 2, true), (100 * margin, false)] {
                let exact = exact(&vec![3.0; values as usize], bounds[0]);
                let row = |values| dither_mechanisms::NoisyRow { key: Vec::new(), values };
                let rows = vec![row(noisy(&plan, &exact, &mut source))];
                let found = &found_bounds(&plan, &NoisyTable { rows, bounds: bounds.clone() })[0];
                let expected = 2.0 * margin as f64 / values as f64;
                assert!((found.share_beyond.unwrap() - expected).abs() < 0.2 * expected, "{found:?} {expected}");
                assert_eq!(found.is_narrow(), narrow, "{found:?}");
            }
        }
    }
}
