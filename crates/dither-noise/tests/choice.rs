//! Choices, discrete exponential and staircase noise against their exact distributions. False-alarm rate 1e-9 each.

#![allow(clippy::unwrap_used, reason = "a failed draw is a failed test")]

mod common;

use common::{Seeded, Stub, ratio};
use dither_core::Ratio;
use dither_noise::{
    NoiseError, bernoulli_odds, discrete_exponential, discrete_staircase, exponential_choice,
    exponential_choice_by_distance, permute_and_flip,
};
use dither_testing::fit::{CAUGHT, Misfit, check_events, check_scale, deviations};
use dither_testing::{FALSE_ALARM, StubBytes};

type Choice = fn(&mut Seeded, &[i128], Ratio) -> Result<usize, NoiseError>;

fn frequencies(choice: Choice, utilities: &[i128], rate: Ratio, draws: u64) -> Vec<u64> {
    let (mut source, mut counts) = (Seeded::new(1), vec![0; utilities.len()]);
    for _ in 0..draws {
        counts[choice(&mut source, utilities, rate).unwrap()] += 1;
    }
    counts
}

/// exp(rate · (u − max u)), not normalised. The distance is taken in integers, so that nothing cancels.
fn weights(utilities: &[i128], rate: f64) -> Vec<f64> {
    let best = utilities.iter().max().unwrap();
    utilities.iter().map(|u| (-rate * best.abs_diff(*u) as f64).exp()).collect()
}

/// The exact distribution of the exponential mechanism.
fn exponential_pmf(utilities: &[i128], rate: f64) -> Vec<f64> {
    let weights = weights(utilities, rate);
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

/// The exact distribution of permute-and-flip: wᵢ · ∫₀¹ Πⱼ≠ᵢ (1 − t·wⱼ) dt, where t is the place of i in the order.
///
/// Candidates with a uniform arrival time are in uniformly random order, and i is taken if it arrives at t, its flip
/// succeeds, and all others arrive later or fail. Simpson's rule is exact to 10⁻⁹ here.
fn flip_pmf(utilities: &[i128], rate: f64) -> Vec<f64> {
    let weights = weights(utilities, rate);
    let at = |i: usize, t: f64| {
        let others = weights.iter().enumerate().filter(|&(j, _)| j != i);
        weights[i] * others.map(|(_, weight)| 1.0 - t * weight).product::<f64>()
    };
    let steps = 400;
    let node = |i: usize, k: i32| {
        let factor = if k == 0 || k == steps {
            1.0
        } else if k % 2 == 1 {
            4.0
        } else {
            2.0
        };
        factor * at(i, f64::from(k) / f64::from(steps))
    };
    (0..weights.len()).map(|i| (0..=steps).map(|k| node(i, k)).sum::<f64>() / f64::from(3 * steps)).collect()
}

/// Small distances, ties, distances of several levels, and the ends of the range.
fn cases() -> Vec<(Vec<i128>, Ratio)> {
    let mut crowd = vec![0; 100];
    crowd[99] = 60;
    vec![
        (vec![0, 1, 2, 3, 3], ratio(1, 2)),
        (vec![5, 0, 3], ratio(1, 1)),
        (vec![0, 0], ratio(7, 3)),
        (vec![-4, 9], ratio(1, 3)),
        (vec![i128::MIN, i128::MAX, i128::MAX - 1, 0], ratio(1, 1)),
        (vec![i128::MIN, i128::MAX], ratio(1, u128::MAX / 128)),
        (crowd, ratio(1, 10)),
    ]
}

fn choice_fits(
    choice: Choice,
    pmf: impl Fn(&[i128], f64) -> Vec<f64>,
    utilities: &[i128],
    rate: Ratio,
    claimed: f64,
) -> Result<(), Misfit> {
    let draws = 800_000 / utilities.len().min(6) as u64;
    check_events(&frequencies(choice, utilities, rate, draws), &pmf(utilities, claimed), draws, FALSE_ALARM)
}

#[test]
fn fp_05_exponential_choices_fit() {
    for (utilities, rate) in cases() {
        let fit = choice_fits(exponential_choice, exponential_pmf, &utilities, rate, rate.as_f64());
        assert_eq!(fit, Ok(()), "{rate:?}");
    }
}

/// The same choice where the candidates rise to the best and fall again.
fn by_distance(source: &mut Seeded, utilities: &[i128], rate: Ratio) -> Result<usize, NoiseError> {
    let best = *utilities.iter().max().unwrap();
    let near = |steps: u128| utilities.iter().map(move |utility| best.abs_diff(*utility) <= steps);
    let within = |steps: u128| {
        let first = near(steps).position(|near| near).unwrap() as u64;
        first..first + near(steps).filter(|near| *near).count() as u64
    };
    let distance = |position: u64| best.abs_diff(utilities[position as usize]);
    exponential_choice_by_distance(source, 0..utilities.len() as u64, rate, within, distance)
        .map(|place| place as usize)
}

#[test]
fn fp_05_choices_by_distance_fit() {
    for (mut utilities, rate) in cases() {
        // Up to the best in the middle, and down again.
        utilities.sort_unstable();
        let middle = utilities.len() / 2;
        utilities[middle..].reverse();
        let fit = choice_fits(by_distance, exponential_pmf, &utilities, rate, rate.as_f64());
        assert_eq!(fit, Ok(()), "{utilities:?} {rate:?}");
    }
    for mutant in [0.5 * 1.03, 0.5 * 0.97] {
        assert!(choice_fits(by_distance, exponential_pmf, &[0, 3], ratio(1, 2), mutant).is_err());
    }
}

#[test]
fn ranges_that_are_none_are_errors_and_no_panic() {
    let mut source = Seeded::new(9);
    let mut choose = |within: fn(u128) -> std::ops::Range<u64>, distance: fn(u64) -> u128| {
        exponential_choice_by_distance(&mut source, 0..10, ratio(1, 1), within, distance)
    };
    assert_eq!(choose(|_| 0..11, |_| 0), Err(NoiseError::OutOfRange), "beyond the positions");
    assert_eq!(choose(|steps| if steps == 0 { 0..10 } else { 2..3 }, |_| 5), Err(NoiseError::OutOfRange));
    assert_eq!(choose(|steps| if steps == 0 { 5..6 } else { 0..3 }, |_| 0), Err(NoiseError::OutOfRange));
    let empty = exponential_choice_by_distance(&mut source, 3..3, ratio(1, 1), |_| 3..3, |_| 0);
    assert_eq!(empty, Err(NoiseError::OutOfRange));
}

#[test]
fn fp_05_permute_and_flip_fits() {
    for (utilities, rate) in cases() {
        assert_eq!(choice_fits(permute_and_flip, flip_pmf, &utilities, rate, rate.as_f64()), Ok(()), "{rate:?}");
    }
}

#[test]
fn fp_05_mutants_of_choices_are_rejected() {
    // One good candidate is as likely as 20 poor ones together: of all utilities such show the rate best. With two
    // candidates no test of a million draws sees 1 %: the deviations are 6.6 at most.
    let (mut utilities, rate, draws) = (vec![0; 21], ratio(1, 2), 1_000_000);
    utilities[13] = 6;
    let sharp = |choice: Choice, pmf: fn(&[i128], f64) -> Vec<f64>| {
        let counts = frequencies(choice, &utilities, rate, draws);
        let law = |rate: f64| pmf(&utilities, rate);
        assert!(deviations(law, 0.5, draws) > CAUGHT, "the power");
        assert_eq!(check_scale(&counts, law, 0.5, draws, FALSE_ALARM / 2.0), Ok(()));
        assert_eq!(check_events(&counts, &law(0.5), draws, FALSE_ALARM / 2.0), Ok(()));
        for mutant in [0.5 * 1.01, 0.5 * 0.99] {
            assert!(check_scale(&counts, law, mutant, draws, FALSE_ALARM / 2.0).is_err(), "{mutant}");
        }
    };
    sharp(exponential_choice, exponential_pmf);
    sharp(permute_and_flip, flip_pmf);
    // One is not the other, though both prefer the same candidates.
    assert!(choice_fits(permute_and_flip, exponential_pmf, &[0, 3], rate, 0.5).is_err());
}

#[test]
fn fp_09_no_spread_of_a_million_utilities_underflows() {
    // All poor ones together are as likely as the good one: 10^4 · e^-rate·d = 1.
    let (distance, rate) = (9_210_340, ratio(1, 1_000_000));
    let mut utilities = vec![-distance; 10_001];
    utilities[7_777] = 0;
    let draws = 3_000;
    let (mut source, mut good) = (Seeded::new(2), 0);
    for _ in 0..draws {
        good += u64::from(exponential_choice(&mut source, &utilities, rate).unwrap() == 7_777);
    }
    assert_eq!(check_events(&[good], &[0.5], draws, FALSE_ALARM), Ok(()));
    // A softmax in floating point is 0/0 here.
    utilities = vec![i128::MIN; 1_000_000];
    utilities[3] = i128::MAX;
    for _ in 0..5 {
        assert_eq!(exponential_choice(&mut source, &utilities, ratio(1 << 50, 1)), Ok(3));
        assert_eq!(permute_and_flip(&mut source, &utilities, ratio(1 << 50, 1)), Ok(3));
    }
}

#[test]
fn fp_05_odds_fit() {
    let draws = 1_000_000;
    for (heads, tails, exponent) in [
        (1, 1, ratio(1, 10)),
        (1, 1, ratio(1, 1)),
        (2, 7, ratio(3, 2)),
        (1, 31, ratio(7, 2)),
        (1, 1 << 20, ratio(14, 1)),
        (1, 1 << 100, ratio(69_315, 1_000)),
        (1, u128::MAX, ratio(887_228, 10_000)),
    ] {
        let mut source = Seeded::new(3);
        let mut odds = || bernoulli_odds(&mut source, heads, tails, exponent).unwrap();
        let count = (0..draws).filter(|_| odds()).count() as u64;
        let p = |exponent: f64| 1.0 / (1.0 + tails as f64 / heads as f64 * (-exponent).exp());
        assert_eq!(check_events(&[count], &[p(exponent.as_f64())], draws, FALSE_ALARM), Ok(()), "{exponent:?}");
        // 1 % of an exponent, where the odds are even; elsewhere a million throws see 0.05 of it at best.
        let law = |exponent: f64| vec![p(exponent)];
        let mutants = match tails < 31 {
            true => [exponent.as_f64() - 0.05, exponent.as_f64() + 0.05],
            false => [exponent.as_f64() * 0.99, exponent.as_f64() * 1.01],
        };
        assert!(tails < 31 || deviations(law, exponent.as_f64(), draws) > CAUGHT, "{exponent:?}");
        for mutant in mutants {
            assert!(check_scale(&[count], law, mutant, draws, FALSE_ALARM).is_err(), "{exponent:?} {mutant}");
        }
    }
}

#[test]
fn fp_05_discrete_exponential_fits() {
    for scale in [ratio(1, 3), ratio(1, 1), ratio(50, 3), ratio((1 << 90) + 7, (1 << 80) - 1)] {
        // Below a scale of two a draw tells less of it.
        let draws = if scale.as_f64() < 2.0 { 2_000_000 } else { 1_000_000 };
        // Cells of a sixteenth of the scale, or of one integer, up to twelve scales.
        let width = (scale.as_f64() / 16.0).ceil().max(1.0);
        let mut counts = vec![0; (12.0 * scale.as_f64() / width).ceil() as usize];
        let mut source = Seeded::new(4);
        for _ in 0..draws {
            let place = discrete_exponential(&mut source, scale).unwrap() / width as i128;
            counts.get_mut(place as usize).into_iter().for_each(|count| *count += 1);
        }
        let law = |scale: f64| -> Vec<f64> {
            let cell = -libm::expm1(-width / scale);
            (0..counts.len()).map(|k| (-(k as f64) * width / scale).exp() * cell).collect()
        };
        let scale = scale.as_f64();
        assert!(deviations(law, scale, draws) > CAUGHT, "{scale}");
        assert_eq!(check_scale(&counts, law, scale, draws, FALSE_ALARM / 2.0), Ok(()), "{scale}");
        assert_eq!(check_events(&counts, &law(scale), draws, FALSE_ALARM / 2.0), Ok(()), "{scale}");
        for mutant in [scale * 0.99, scale * 1.01] {
            assert!(check_scale(&counts, law, mutant, draws, FALSE_ALARM / 2.0).is_err(), "{mutant}");
        }
    }
}

/// The exact masses of a staircase on −n..=n.
fn staircase_pmf(width: i64, step: i64, epsilon: f64, n: i64) -> Vec<f64> {
    let weight = |x: i64| (-epsilon * ((x.abs() + width - step) / width) as f64).exp();
    let total: f64 = (-400 * width..=400 * width).map(weight).sum();
    (-n..=n).map(|x| weight(x) / total).collect()
}

#[test]
fn fp_05_discrete_staircase_fits() {
    let draws = 1_000_000;
    for (width, step, epsilon, n) in [
        (1, 1, ratio(1, 2), 60),
        (5, 2, ratio(1, 1), 60),
        (7, 7, ratio(1, 2), 250),
        (3, 1, ratio(4, 1), 20),
        (10, 1, ratio(1, 2), 350),
        // One value on the top stair is as likely as all others together.
        (100, 1, ratio(53, 10), 350),
    ] {
        let (mut source, mut counts) = (Seeded::new(5), vec![0u64; 2 * n + 1]);
        for _ in 0..draws {
            let x = discrete_staircase(&mut source, width, step, epsilon).unwrap();
            if let Some(count) = usize::try_from(x + n as i128).ok().and_then(|place| counts.get_mut(place)) {
                *count += 1;
            }
        }
        let (width, step, loss) = (width as i64, step as i64, epsilon.as_f64());
        // Each value by itself sees its sign and its stair, the score of all sees ε.
        let events =
            |width, step| check_events(&counts, &staircase_pmf(width, step, loss, n as i64), draws, FALSE_ALARM / 2.0);
        let law = |loss| staircase_pmf(width, step, loss, n as i64);
        let scale = |loss| check_scale(&counts, law, loss, draws, FALSE_ALARM / 2.0);
        assert!(deviations(law, loss, draws) > CAUGHT, "{width} {step} {epsilon:?}");
        assert_eq!(events(width, step).and(scale(loss)), Ok(()), "{width} {step} {epsilon:?}");
        assert!(scale(loss * 1.01).is_err() && scale(loss * 0.99).is_err(), "{width} {step} {epsilon:?}");
        if width > 1 {
            assert!(events(width, step % width + 1).is_err(), "{width} {step} {epsilon:?}");
        }
        if width == 100 {
            assert!(events(99, step).is_err() && events(101, step).is_err(), "stairs that are 1 % too narrow or wide");
        }
    }
}

#[test]
fn fp_06_odd_parameters_of_choices_are_refused() {
    let mut source = Seeded::new(6);
    let refused = Err(NoiseError::OutOfRange);
    assert_eq!(exponential_choice(&mut source, &[], ratio(1, 1)), refused);
    assert_eq!(permute_and_flip(&mut source, &[], ratio(1, 1)), refused);
    assert_eq!(exponential_choice(&mut source, &[0], ratio(1, u128::MAX)), refused);
    assert_eq!(bernoulli_odds(&mut source, 0, 0, ratio(1, 1)), Err(NoiseError::OutOfRange));
    assert_eq!(bernoulli_odds(&mut source, 0, 1, ratio(1, 1)), Ok(false));
    assert_eq!(bernoulli_odds(&mut source, 1, 0, ratio(1, 1)), Ok(true));
    for (width, step) in [(0, 0), (1, 0), (1, 2)] {
        assert_eq!(discrete_staircase(&mut source, width, step, ratio(1, 1)), Err(NoiseError::OutOfRange));
    }
}

#[test]
fn fp_08_zeros_never_pass_for_a_choice() {
    let zeros = || Stub(StubBytes::Constant(0));
    assert_eq!(exponential_choice(&mut zeros(), &[1, 2], ratio(1, 1)), Err(NoiseError::Exhausted));
    assert_eq!(permute_and_flip(&mut zeros(), &[1, 2], ratio(1, 1)), Err(NoiseError::Exhausted));
    assert_eq!(bernoulli_odds(&mut zeros(), 1, 2, ratio(1, 1)), Err(NoiseError::Exhausted));
    assert_eq!(discrete_exponential(&mut zeros(), ratio(5, 1)), Err(NoiseError::Exhausted));
    assert_eq!(discrete_staircase(&mut zeros(), 5, 2, ratio(5, 1)), Err(NoiseError::Exhausted));
}

#[test]
fn fp_08_a_broken_generator_ends_every_choice() {
    let utilities = [i128::MIN, -1, 0, 7, i128::MAX];
    for stub in StubBytes::ALL {
        for rate in [ratio(1, 1), ratio(1, 1 << 60), ratio(1 << 60, 7), ratio(u128::MAX, 3)] {
            let errors = [
                exponential_choice(&mut Stub(stub), &utilities, rate).err(),
                permute_and_flip(&mut Stub(stub), &utilities, rate).err(),
                bernoulli_odds(&mut Stub(stub), 3, u128::MAX, rate).err(),
                discrete_exponential(&mut Stub(stub), rate).err(),
                discrete_staircase(&mut Stub(stub), u128::MAX, 5, rate).err(),
            ];
            assert!(stub != StubBytes::Failing || errors == [Some(NoiseError::Unavailable); 5]);
        }
    }
}
