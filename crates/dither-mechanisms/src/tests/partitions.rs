//! Attacks on the rules that let keys from the data through: exact probabilities, on all neighbours.

use dither_core::{Delta, Neighbors, PrivacyEvent};
use dither_testing::FALSE_ALARM;
use dither_testing::binomial::{lower, upper};
use dither_testing::fit::{CAUGHT, check_events, check_scale, deviations};
use dither_testing::pmf::laplace_cdf;

use super::*;
use crate::{KeyNoise, MechanismError, Threshold, TruncatedGeometric};

const ADD: Neighbors = Neighbors::AddOrRemoveUnit;

fn delta(text: &str) -> Delta {
    text.parse().unwrap()
}

fn optimal(count: u32, loss: &str, failure: &str) -> Threshold {
    Threshold::truncated_geometric(groups(count), ADD, epsilon(loss), delta(failure)).unwrap()
}

fn by_laplace(count: u32, loss: &str, failure: &str) -> Threshold {
    Threshold::for_epsilon(groups(count), ADD, epsilon(loss), delta(failure)).unwrap()
}

fn truncated(rule: &Threshold) -> TruncatedGeometric {
    match rule.noise() {
        KeyNoise::TruncatedGeometric(noise) => noise,
        other => panic!("{other:?}"),
    }
}

/// The exact law of truncated geometric noise on −k..=k.
fn law(loss: f64, bound: i128) -> Vec<f64> {
    let weights = || (-bound..=bound).map(|x| (-loss * x.abs() as f64).exp());
    let total: f64 = weights().sum();
    weights().map(|weight| weight / total).collect()
}

fn normal_tail(x: f64) -> f64 {
    0.5 * libm::erfc(x / std::f64::consts::SQRT_2)
}

/// The exact probability that a key of so many units is let through; one of nobody never is.
fn release(rule: &Threshold, units: i128) -> f64 {
    let least = rule.threshold() - units;
    match rule.noise() {
        _ if units == 0 => 0.0,
        KeyNoise::Laplace(noise) => 1.0 - laplace_cdf(least - 1, noise.scale().as_f64()),
        KeyNoise::Gaussian(noise) => normal_tail(least as f64 / noise.standard_deviation()),
        KeyNoise::TruncatedGeometric(noise) => {
            let masses = law(1.0 / noise.scale().as_f64(), noise.bound());
            // Cell 0 is −k.
            let first = (least + noise.bound()).clamp(0, masses.len() as i128) as usize;
            masses[first..].iter().sum::<f64>().min(1.0)
        }
    }
}

/// The optimal probabilities of release by their recursion: as large as the two inequalities allow.
fn best(loss: f64, failure: f64, units: usize) -> Vec<f64> {
    let next = |p: &f64| {
        let grown = loss.exp() * p + failure;
        Some(grown.min(1.0 - (-loss).exp() * (1.0 - p - failure)).min(1.0))
    };
    std::iter::successors(Some(0.0), next).take(units).collect()
}

/// The closed form of the paper.
fn closed(loss: f64, failure: f64, units: usize) -> Vec<f64> {
    let rising = |n: f64| (n * loss).exp_m1() / loss.exp_m1() * failure;
    let first = 1.0 + (((loss.exp_m1() + 2.0 * failure) / ((loss.exp() + 1.0) * failure)).ln() / loss).floor();
    let second = first + ((1.0 + loss.exp_m1() / failure * (1.0 - rising(first))).ln() / loss).floor();
    let of = |n: f64| match n {
        n if n <= first => rising(n),
        n if n <= second => {
            let m = n - first;
            -(-m * loss).exp_m1() * (1.0 + failure / loss.exp_m1()) + (-m * loss).exp() * rising(first)
        }
        _ => 1.0,
    };
    (0..units).map(|n| of(n as f64)).collect()
}

const LOSSES: [&str; 6] = ["0.05", "0.1", "0.5", "1", "2", "3"];
const FAILURES: [&str; 4] = ["0.01", "0.0001", "1e-6", "1e-9"];

#[test]
fn keys_are_released_with_the_probabilities_of_the_paper() {
    for (loss, failure) in LOSSES.into_iter().flat_map(|loss| FAILURES.map(|failure| (loss, failure))) {
        let rule = optimal(1, loss, failure);
        let (value, allowed) = (epsilon(loss).as_f64(), delta(failure).as_f64());
        let units = 2 * truncated(&rule).bound() as usize + 4;
        // Desfontaines et al. 2022, Theorem 1: the recursion and its solution.
        let solution = closed(value, allowed, units);
        let largest = best(value, allowed, units);
        assert!(solution.iter().zip(&largest).all(|(a, b)| (a - b).abs() < 1e-11), "{loss} {failure}");
        // With integer noise δ is used but for less than a step: for what is used, the noise is optimal.
        let used = release(&rule, 1);
        assert!(used <= allowed && used > allowed * (-value).exp() * 0.9, "{loss} {failure}: {used}");
        let (ours, for_used) = ((0..units as i128).map(|n| release(&rule, n)), best(value, used, units));
        assert!(ours.zip(for_used).all(|(a, b)| (a - b).abs() < 1e-11), "{loss} {failure}");
        let half = largest.iter().position(|&p| p >= 0.5).unwrap() as i128;
        assert!(rule.threshold() == half || rule.threshold() == half + 1, "{loss} {failure}: {half}");
        // By symmetry.
        let bound = truncated(&rule).bound();
        assert!((release(&rule, 2 * bound) - (1.0 - release(&rule, 1))).abs() < 1e-12, "{loss} {failure}");
        assert!((release(&rule, 2 * bound + 1) - 1.0).abs() < 1e-12, "{loss} {failure}");
    }
}

#[test]
fn the_threshold_is_the_smallest_number_of_units_that_is_shown_every_other_time() {
    let variance = Ratio::new(300, 1).unwrap();
    for rule in [
        optimal(3, "1", "1e-6"),
        by_laplace(3, "1", "1e-6"),
        Threshold::gaussian(groups(30), ADD, variance, delta("1e-6")).unwrap(),
    ] {
        let threshold = rule.threshold();
        assert!(release(&rule, threshold) >= 0.5 && release(&rule, threshold - 1) < 0.5, "{rule:?}");
    }
}

/// The smallest δ for which two distributions are (ε, δ)-indistinguishable, both ways.
fn distance(a: &[f64], b: &[f64], loss: f64) -> f64 {
    let one = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - loss.exp() * b).max(0.0)).sum::<f64>();
    one(a, b).max(one(b, a))
}

/// The law of which of these keys are let through, from the probability of each.
fn joint(each: &[f64]) -> Vec<f64> {
    let outcome = |bits: usize| {
        each.iter().enumerate().map(|(place, p)| if bits >> place & 1 == 1 { *p } else { 1.0 - p }).product()
    };
    (0..1 << each.len()).map(outcome).collect()
}

/// The smallest δ at this ε over all tables and one unit more, who is in so many groups of 0 to `most` others each.
fn worst(release: &dyn Fn(i128) -> f64, count: u32, most: usize, loss: f64) -> f64 {
    let p: Vec<f64> = (0..=most as i128 + 1).map(release).collect();
    let mut worst = 0.0f64;
    // All multisets of numbers of units: which key has which does not matter.
    let mut others = vec![0; count as usize];
    loop {
        let [without, with] = [0, 1].map(|more| joint(&others.iter().map(|&n| p[n + more]).collect::<Vec<_>>()));
        worst = worst.max(distance(&without, &with, loss));
        let Some(place) = others.iter().rposition(|&n| n < most) else { return worst };
        let next = others[place] + 1;
        others[place..].fill(next);
    }
}

#[test]
fn sq_02_all_neighbours_are_within_epsilon_and_delta_and_a_threshold_one_lower_is_not() {
    for (loss, failure) in
        [("0.3", "0.01"), ("0.5", "1e-5"), ("1", "1e-3"), ("1", "1e-9"), ("3", "0.05"), ("8", "1e-6")]
    {
        let (value, allowed) = (epsilon(loss).as_f64(), delta(failure).as_f64());
        for count in 1..=3 {
            for rule in [optimal(count, loss, failure), by_laplace(count, loss, failure)] {
                // Beyond twice the threshold everything is nearly certain; three keys are tried with fewer units.
                let most = (2 * rule.threshold() as usize + 2).min([10_000, 300, 30][count as usize - 1]);
                let needed = worst(&|n| release(&rule, n), count, most, value);
                assert!(needed <= allowed * (1.0 + 1e-9), "{rule:?}: {needed}");
                assert!(needed > allowed * (-value / f64::from(count)).exp() * 0.9, "{rule:?}: {needed} is too little");
                // The control: nobody is let through as before, all others as if they were one more.
                let mutant = |n: i128| if n == 0 { 0.0 } else { release(&rule, n + 1) };
                assert!(worst(&mutant, count, most, value) > allowed, "{rule:?}: one lower is accepted");
            }
        }
    }
}

/// The exact law of what is released of a key of so many units with its noisy number: nothing, then the numbers from the
/// threshold on, those from `most` numbers above it on as one.
fn released(rule: &Threshold, units: i128, most: i128) -> Vec<f64> {
    if units == 0 {
        return [vec![1.0], vec![0.0; most as usize]].concat();
    }
    // P(units + noise ≥ number).
    let tail = |number: i128| match rule.noise() {
        KeyNoise::Laplace(noise) => 1.0 - laplace_cdf(number - units - 1, noise.scale().as_f64()),
        KeyNoise::TruncatedGeometric(noise) => {
            let masses = law(1.0 / noise.scale().as_f64(), noise.bound());
            let first = (number - units + noise.bound()).clamp(0, masses.len() as i128) as usize;
            masses[first..].iter().sum::<f64>().min(1.0)
        }
        KeyNoise::Gaussian(_) => panic!("its law is that of its event"),
    };
    let tails: Vec<f64> = (0..most).map(|above| tail(rule.threshold() + above)).chain([0.0]).collect();
    std::iter::once(1.0 - tails[0]).chain(tails.windows(2).map(|pair| pair[0] - pair[1])).collect()
}

/// The law of two independent outcomes.
fn both(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().flat_map(|a| b.iter().map(move |b| a * b)).collect()
}

/// The smallest δ at this ε for which all neighbours are indistinguishable by the laws of one key: of one unit more in one
/// group, or in each of two.
fn worst_law(of: &dyn Fn(i128) -> Vec<f64>, count: u32, most: i128, loss: f64) -> f64 {
    let laws: Vec<Vec<f64>> = (0..=most).map(of).collect();
    let pairs = laws.windows(2).map(|pair| (pair[0].clone(), pair[1].clone()));
    let firsts: Vec<_> = pairs.collect();
    let one = |(a, b): &(Vec<f64>, Vec<f64>)| distance(a, b, loss);
    match count {
        1 => firsts.iter().map(one).fold(0.0, f64::max),
        _ => {
            let joint = firsts.iter().enumerate().flat_map(|(place, x)| firsts[place..].iter().map(move |y| (x, y)));
            joint.map(|(x, y)| one(&(both(&x.0, &y.0), both(&x.1, &y.1)))).fold(0.0, f64::max)
        }
    }
}

#[test]
fn sq_02_released_numbers_are_within_epsilon_and_delta_and_those_with_noise_of_their_own_are_not() {
    for (loss, failure, count) in [("0.3", "0.01", 1), ("1", "1e-3", 1), ("1", "1e-9", 1), ("3", "0.05", 2)] {
        // A hair more than ε: the ratios attain it.
        let (value, allowed) = (epsilon(loss).as_f64() + 1e-12, delta(failure).as_f64());
        for rule in [optimal(count, loss, failure), by_laplace(count, loss, failure)] {
            let rule = rule.releasing_counts();
            let most = 2 * rule.threshold() + 2;
            let needed = worst_law(&|n| released(&rule, n, most), count, most, value);
            assert!(needed <= allowed * (1.0 + 1e-9), "{rule:?}: {needed}");
            assert!(needed > allowed * (-value / f64::from(count)).exp() * 0.9, "{rule:?}: {needed} is too little");
            // The controls: a threshold one lower, and a number with noise that nobody paid for beside the same bit.
            let lower = |n: i128| {
                let rest = 1.0 - release(&rule, n + 1);
                if n == 0 {
                    released(&rule, 0, most)
                } else {
                    [vec![rest], released(&rule, n + 1, most)[1..].to_vec()].concat()
                }
            };
            assert!(worst_law(&lower, count, most, value) > allowed, "{rule:?}: one lower is accepted");
            let twice = |n: i128| both(&[1.0 - release(&rule, n), release(&rule, n)], &released(&rule, n.max(1), most));
            assert!(worst_law(&twice, count, most, value) > allowed, "{rule:?}: two noises for the price of one");
        }
    }
}

#[test]
fn released_numbers_are_those_that_pass_and_cost_nothing() {
    let variance = Ratio::new(100, 1).unwrap();
    for rule in [
        optimal(1, "0.5", "1e-3"),
        by_laplace(1, "0.5", "1e-3"),
        Threshold::gaussian(groups(1), ADD, variance, delta("1e-3")).unwrap(),
    ] {
        let counted = rule.releasing_counts();
        assert_eq!(counted.event(), rule.event());
        let units = i64::try_from(rule.threshold()).unwrap() + 3;
        let mechanism = column(Noise::Laplace(laplace(1, "1")), KeyRule::Threshold(counted));
        let table = || ExactTable { rows: (0..400).map(|key| row(&key.to_string(), &[7], units)).collect() };
        let refined = rule.noise().refinement();
        let rows = mechanism.add_noise(table(), &mut Seeded::new(94)).unwrap().rows;
        assert!(rows.len() > 200 && rows.len() < 400);
        let numbers: Vec<f64> = rows.iter().map(|row| row.values[1] as f64 / f64::from(1u32 << refined)).collect();
        assert!(rows.iter().all(|row| row.values.len() == 2));
        assert!(numbers.iter().all(|number| *number >= rule.threshold() as f64));
        // Near the number of units, and not the column's 7.
        let off = |number: &f64| (number - units as f64).abs();
        let wide = rule.noise().error_quantile(1.0 - 1e-12).unwrap();
        assert!(numbers.iter().all(|number| off(number) <= wide), "{numbers:?}");
        assert!(numbers.iter().any(|number| off(number) > 0.5), "the number has no noise");
        let silent = column(Noise::Laplace(laplace(1, "1")), KeyRule::Threshold(rule));
        assert!(silent.add_noise(table(), &mut Seeded::new(94)).unwrap().rows.iter().all(|row| row.values.len() == 1));
    }
}

#[test]
fn se_13_noise_for_one_key_is_not_enough_for_three() {
    let (rule, value) = (optimal(1, "0.5", "1e-4"), 0.5);
    assert!(worst(&|n| release(&rule, n), 3, 30, value) > 1e-4);
    let shared = optimal(3, "0.5", "1e-4");
    assert!(worst(&|n| release(&shared, n), 3, 30, value) <= 1e-4);
    // Ten and a hundred keys with equally many units: only how many are let through matters.
    for count in [10, 100] {
        let rule = optimal(count, "1", "1e-4");
        let binomial = |p: f64| -> Vec<f64> {
            let mass = |k: u32| {
                let (n, k) = (f64::from(count), f64::from(k));
                let choose = libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0);
                let log = |p: f64, k: f64| if k == 0.0 { 0.0 } else { k * p.ln() };
                (choose + log(p, k) + log(1.0 - p, n - k)).exp()
            };
            (0..=count).map(mass).collect()
        };
        for units in 0..2 * rule.threshold() {
            let [without, with] = [units, units + 1].map(|units| binomial(release(&rule, units)));
            assert!(distance(&without, &with, 1.0) <= 1e-4 * (1.0 + 1e-9), "{count} {units}");
        }
    }
}

#[test]
fn noisy_numbers_of_units_are_private_themselves_so_that_any_rule_on_them_is() {
    for (loss, failure) in LOSSES.into_iter().flat_map(|loss| FAILURES.map(|failure| (loss, failure))) {
        let noise = TruncatedGeometric::new(epsilon(loss), delta(failure), groups(1)).unwrap();
        let shifted = |bound: i128| {
            let law = law(epsilon(loss).as_f64(), bound);
            [[&law[..], &[0.0]].concat(), [&[0.0], &law[..]].concat()]
        };
        let needed = |bound| {
            let [a, b] = shifted(bound);
            // A hair more than ε: the ratios attain it.
            distance(&a, &b, epsilon(loss).as_f64() + 1e-13)
        };
        let allowed = delta(failure).as_f64();
        assert!(needed(noise.bound()) <= allowed, "{loss} {failure}");
        assert!(needed(noise.bound() - 1) > allowed, "{loss} {failure}: the bound is the smallest");
    }
}

#[test]
fn gaussian_thresholds_are_within_the_sum_of_both_deltas() {
    for (count, sigma, failure) in [(1, 4u32, "1e-3"), (2, 6, "1e-4"), (3, 5, "0.01")] {
        let variance = Ratio::new((sigma * sigma).into(), 1).unwrap();
        let rule = Threshold::gaussian(groups(count), ADD, variance, delta(failure)).unwrap();
        // The exact δ of Gaussian noise (Balle and Wang 2018, Theorem 8), which a threshold can only make smaller.
        let (mu, loss) = (f64::from(count).sqrt() / f64::from(sigma), 0.5);
        let noise = normal_tail(loss / mu - mu / 2.0) - f64::exp(loss) * normal_tail(loss / mu + mu / 2.0);
        let most = (2 * rule.threshold() as usize).min(40);
        assert!(worst(&|n| release(&rule, n), count, most, loss) <= noise + delta(failure).as_f64());
        // The least threshold: one less lets keys of one unit through too often.
        let solo = |n| 1.0 - (1.0 - release(&rule, n)).powi(count as i32);
        assert!(solo(1) <= delta(failure).as_f64() && solo(2) > delta(failure).as_f64());
        // The control: a threshold of half the height.
        let half = |n: i128| if n == 0 { 0.0 } else { release(&rule, n + rule.threshold() / 2) };
        assert!(worst(&half, count, most, loss) > noise + delta(failure).as_f64());
    }
}

#[test]
fn fp_05_truncated_noise_fits_and_an_epsilon_off_by_one_percent_is_rejected() {
    let noise = TruncatedGeometric::new(epsilon("0.5"), delta("1e-6"), groups(1)).unwrap();
    let (bound, draws, sampler) = (noise.bound(), 1_000_000, noise.sampler());
    let (mut source, mut counts) = (Seeded::new(90), vec![0; 2 * bound as usize + 1]);
    for _ in 0..draws {
        counts[(noise.add(0, &sampler, &mut source).unwrap() + bound) as usize] += 1;
    }
    let law = |loss| law(loss, bound);
    assert!(deviations(law, 0.5, draws) > CAUGHT);
    assert_eq!(check_events(&counts, &law(0.5), draws, FALSE_ALARM), Ok(()));
    assert_eq!(check_scale(&counts, law, 0.5, draws, FALSE_ALARM / 2.0), Ok(()));
    assert!([0.495, 0.505].iter().all(|&mutant| check_scale(&counts, law, mutant, draws, FALSE_ALARM / 2.0).is_err()));
    // Where a tenth of it is cut off, the ends are as likely as they should be, and noise that is not cut off is caught.
    let noise = TruncatedGeometric::new(epsilon("0.5"), delta("0.06"), groups(1)).unwrap();
    let (bound, sampler) = (noise.bound(), noise.sampler());
    let ends = (0..draws).filter(|_| noise.add(0, &sampler, &mut source).unwrap() == bound).count() as u64;
    let exact = self::law(0.5, bound)[0];
    assert_eq!(check_events(&[ends], &[exact], draws, FALSE_ALARM), Ok(()));
    let untouched = 1.0 - laplace_cdf(bound - 1, 2.0);
    assert!(check_events(&[ends], &[untouched], draws, FALSE_ALARM).is_err());
}

#[test]
fn sq_01_singletons_are_let_through_with_probability_delta_by_every_rule() {
    let keys = 300_000;
    let variance = Ratio::new(2_500, 1).unwrap();
    for rule in [optimal(1, "0.02", "0.01"), Threshold::gaussian(groups(1), ADD, variance, delta("0.01")).unwrap()] {
        let (mut source, sampler) = (Seeded::new(91), rule.sampler());
        let mut count = |units| (0..keys).filter(|_| rule.admits(units, &sampler, &mut source).unwrap()).count() as u64;
        let released = count(1);
        // One step is 2 % of δ for the first and 5 % for the second.
        assert!(lower(released, keys, FALSE_ALARM) <= 0.01 && upper(released, keys, FALSE_ALARM) >= 0.0095);
        // The control: one unit counts as seven.
        assert!(lower(count(7), keys, FALSE_ALARM) > 0.01);
        // And half of the keys at the threshold pass.
        let half = count(i64::try_from(rule.threshold()).unwrap());
        assert!(
            lower(half, keys, FALSE_ALARM) <= release(&rule, rule.threshold()) && lower(half, keys, FALSE_ALARM) > 0.49
        );
    }
}

#[test]
fn a_key_below_the_least_number_of_units_is_never_shown_and_costs_nothing() {
    let (rule, ten) = (optimal(2, "1", "1e-3"), groups(10));
    let raised = rule.with_min_units(ten).unwrap();
    assert_eq!((raised.threshold(), raised.event()), (rule.threshold() + 9, rule.event()));
    assert_eq!(rule.with_min_units(groups(1)).unwrap(), rule, "one unit is needed anyway");
    let (bound, sampler) = (truncated(&rule).bound(), raised.sampler());
    let mut source = Seeded::new(92);
    let mut all = |units: i128| {
        let shown = (0..20_000).filter(|_| raised.admits(units as i64, &sampler, &mut source).unwrap()).count();
        (shown == 0, shown == 20_000)
    };
    assert!(all(9).0, "the largest noise does not carry nine units to it");
    assert!(all(10 + 2 * bound).1, "and the smallest carries nobody below");
    assert_eq!((release(&raised, 9), release(&raised, 10) > 0.0), (0.0, true));
    // Other noise has no bound: nine units pass less often than one unit would with no rule.
    let laplace = by_laplace(2, "1", "1e-3");
    let nine = release(&laplace.with_min_units(ten).unwrap(), 9);
    assert!(nine > 0.0 && nine < release(&laplace, 1));
    // The rule keeps the guarantee; without any threshold it would not.
    assert!(worst(&|n| release(&raised, n), 2, 60, 1.0) <= 1e-3);
    let alone = |n: i128| f64::from(u8::from(n >= 10));
    assert!(worst(&alone, 2, 60, 1.0) > 0.99, "the control: an exact minimum is not private");
}

#[test]
fn the_optimal_rule_never_needs_more_units_than_laplace_noise() {
    for (loss, failure) in LOSSES.into_iter().flat_map(|loss| FAILURES.map(|failure| (loss, failure))) {
        for count in [1, 2, 5, 30] {
            let (ours, laplace) = (optimal(count, loss, failure), by_laplace(count, loss, failure));
            assert!(ours.threshold() <= laplace.threshold(), "{loss} {failure} {count}");
        }
    }
}

#[test]
fn the_event_is_that_of_all_keys_and_how_many_there_are() {
    let expected = PrivacyEvent::Approximate { epsilon: epsilon("1"), delta: delta("1e-6"), count: groups(3) };
    assert_eq!(optimal(3, "1", "1e-6").event(), expected);
    assert_eq!(truncated(&optimal(3, "1", "1e-6")).scale(), Ratio::new(3, 1).unwrap());
}

#[test]
fn fp_06_odd_parameters_never_become_a_rule() {
    use MechanismError::{NoDelta, OutOfRange, ReplaceUnit};
    let new =
        |count, who, loss, failure| Threshold::truncated_geometric(groups(count), who, epsilon(loss), delta(failure));
    assert_eq!(new(1, ADD, "1", "0"), Err(NoDelta));
    assert_eq!(new(1, Neighbors::ReplaceUnit, "1", "1e-6"), Err(ReplaceUnit));
    assert_eq!(new(1, ADD, "0.000000001", "0.5"), Err(OutOfRange { what: "delta" }), "nearly uniform noise");
    let wide = Ratio::new(16, 1).unwrap();
    assert_eq!(Threshold::gaussian(groups(1), ADD, wide, Delta::ZERO), Err(NoDelta));
    assert_eq!(Threshold::gaussian(groups(1), Neighbors::ReplaceUnit, wide, delta("0.1")), Err(ReplaceUnit));
    // The largest numbers that are accepted work.
    for rule in [
        new(u32::MAX, ADD, "1000000", "0.9").unwrap(),
        new(u32::MAX, ADD, "0.000000001", "1e-18").unwrap(),
        Threshold::gaussian(groups(u32::MAX), ADD, Ratio::new(1 << 80, 1).unwrap(), delta("1e-18")).unwrap(),
    ] {
        let rule = rule.with_min_units(groups(u32::MAX)).unwrap();
        let (sampler, mut source) = (rule.sampler(), Seeded::new(93));
        for units in [i64::MIN, 0, i64::MAX] {
            assert!(rule.admits(units, &sampler, &mut source).is_ok());
        }
    }
}
