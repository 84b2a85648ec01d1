//! Attacks on staircase noise and on vectors with a sensitivity for each coordinate.

use dither_core::PrivacyEvent;
use dither_testing::FALSE_ALARM;
use dither_testing::binomial::upper;
use dither_testing::fit::{CAUGHT, check_events, check_scale, deviations};
use proptest::prelude::*;

use super::*;
use crate::{ExactVector, MechanismError, Staircase, VectorNoise};

fn staircase(width: u128, loss: &str) -> Staircase {
    Staircase::for_epsilon(L1Sensitivity::new(width), epsilon(loss)).unwrap()
}

fn noisy(staircase: Staircase, exact: i128, draws: usize) -> Vec<i128> {
    let mut source = Seeded::new(80);
    let exact = ExactVector { values: vec![exact] };
    (0..draws).map(|_| staircase.add(&exact, &mut source).unwrap()).collect()
}

/// The exact masses on 0, 1, 2, …, and those of the negative side with them.
fn masses(staircase: Staircase, loss: f64) -> Vec<f64> {
    let (width, step) = (staircase.sensitivity().steps() as f64, staircase.step() as f64);
    let weight = |m: f64| (-loss * ((m + width - step) / width).floor()).exp();
    let two_sided = |m: i32| if m == 0 { weight(0.0) } else { 2.0 * weight(f64::from(m)) };
    let total: f64 = (0..40_000).map(two_sided).sum();
    (0..40_000).map(|m| two_sided(m) / total).collect()
}

#[test]
fn fp_02_staircase_outputs_are_the_exact_value_and_noise_that_does_not_depend_on_it() {
    let reference = noisy(staircase(5, "1"), 0, 10_000);
    for exact in [1i128, 1 << 40, (1 << 40) + 1, -1_000_000_000_000, 1 << 125] {
        let answers = noisy(staircase(5, "1"), exact, 10_000);
        assert!(answers.iter().zip(&reference).all(|(y, noise)| y - exact == *noise), "{exact}");
    }
}

#[test]
fn fp_05_and_fp_14_staircase_noise_has_its_law_mean_error_and_quantiles() {
    for (width, loss) in [(1, "1"), (10, "0.5"), (10, "3"), (100, "5.3"), (7, "8")] {
        // At ε = 8 the noise is nearly always zero: 199 of 200 draws say nothing about ε. And ε = ½ is like ε = 1.
        let sharp = !["0.5", "8"].contains(&loss);
        let draws = if sharp { 1_000_000 } else { 200_000 };
        let staircase = staircase(width, loss);
        let errors = noisy(staircase, 0, draws);
        let value: f64 = loss.parse().unwrap();
        let exact = masses(staircase, value);
        let ends = [1, 2, 3, 5, 8, 10, 14, 20, 30, 60];
        let within = |end: usize, masses: &[f64]| masses[..end].iter().sum::<f64>();
        let counts = ends.map(|end| errors.iter().filter(|x| x.unsigned_abs() < end as u128).count() as u64);
        let check = |masses: &[f64]| {
            check_events(&counts, &ends.map(|end| within(end, masses).min(1.0)), draws as u64, FALSE_ALARM)
        };
        assert_eq!(check(&exact), Ok(()), "{width} {loss}");
        let mut magnitudes = vec![0; 400];
        for x in &errors {
            magnitudes.get_mut(x.unsigned_abs() as usize).into_iter().for_each(|count| *count += 1);
        }
        let law = |value| masses(staircase, value)[..400].to_vec();
        let scale = |value| check_scale(&magnitudes, law, value, draws as u64, FALSE_ALARM / 2.0);
        assert_eq!(scale(value), Ok(()), "{width} {loss}");
        if sharp {
            assert!(deviations(law, value, draws as u64) > CAUGHT, "{width} {loss}");
            assert!(scale(value * 0.99).is_err() && scale(value * 1.01).is_err(), "{width} {loss}");
        }
        let mean: f64 = exact.iter().enumerate().map(|(m, mass)| m as f64 * mass).sum();
        assert!((staircase.mean_error() / mean - 1.0).abs() < 1e-9, "{width} {loss}: {mean}");
        for probability in [0.5, 0.95, 0.999] {
            let quantile = staircase.error_quantile(probability).unwrap();
            assert!(within(quantile as usize + 1, &exact) >= probability - 1e-12, "{width} {loss} {probability}");
            assert!(quantile == 0 || within(quantile as usize, &exact) < probability + 1e-9, "{width} {loss}");
            let covered = errors.iter().filter(|x| x.unsigned_abs() <= quantile).count() as u64;
            assert!(upper(covered, draws as u64, FALSE_ALARM) >= probability);
        }
    }
    assert_eq!(staircase(5, "1").error_quantile(1.0), None);
}

#[test]
fn the_chosen_step_is_the_best_and_beats_laplace_noise() {
    for loss in ["0.1", "1", "3", "8", "30"] {
        let chosen = staircase(40, loss);
        let all = (1..=40).map(|step| Staircase::new(L1Sensitivity::new(40), step, epsilon(loss)).unwrap());
        let best = all.map(|each| each.mean_error()).fold(f64::INFINITY, f64::min);
        assert!(chosen.mean_error() <= best * (1.0 + 1e-12), "{loss}: {} {best}", chosen.mean_error());
        // E|X| of discrete Laplace noise, 1/sinh(1/scale).
        let laplace = 1.0 / laplace(40, loss).scale().as_f64().recip().sinh();
        assert!(best <= laplace * (1.0 + 1e-9), "{loss}: {best} {laplace}");
    }
    let (large, noise) = (staircase(1_000, "8"), laplace(1_000, "8"));
    assert!(large.mean_error() < 0.3 * noise.scale().as_f64(), "{}", large.mean_error());
}

#[test]
fn fp_06_odd_staircases_are_refused() {
    let new = |width, step, loss| Staircase::new(L1Sensitivity::new(width), step, epsilon(loss));
    assert_eq!(new(0, 1, "1"), Err(MechanismError::NoSensitivity));
    for step in [0, 6] {
        assert_eq!(new(5, step, "1"), Err(MechanismError::OutOfRange { what: "step of the staircase" }));
    }
    for (width, loss) in [(u128::MAX, "1"), ((1 << 80) + 1, "1"), (1 << 80, "0.000000001")] {
        let refused = Err(MechanismError::OutOfRange { what: "noise scale" });
        assert_eq!(new(width, 1, loss), refused);
        assert_eq!(Staircase::for_epsilon(L1Sensitivity::new(width), epsilon(loss)), refused);
    }
    assert_eq!(Staircase::for_epsilon(L1Sensitivity::new(0), epsilon("1")), Err(MechanismError::NoSensitivity));
    // The widest ones that are accepted work.
    for (width, loss) in [(1 << 80, "0.01"), (1 << 80, "1000000"), (1, "0.000000001")] {
        assert_eq!(noisy(Staircase::for_epsilon(L1Sensitivity::new(width), epsilon(loss)).unwrap(), 0, 10).len(), 10);
    }
}

/// Σ Δᵢ/bᵢ in nano-units, rounded up.
fn laplace_loss(noise: &VectorNoise) -> u128 {
    let PrivacyEvent::Composed(events) = noise.event() else { panic!("not composed") };
    let loss = |event: PrivacyEvent| match event {
        PrivacyEvent::Laplace { sensitivity, scale } => {
            (sensitivity.steps() * scale.denominator() * u128::from(Epsilon::NANOS)).div_ceil(scale.numerator())
        }
        _ => panic!("not Laplace"),
    };
    events.into_iter().map(loss).sum()
}

/// Σ Δᵢ²/σᵢ².
fn gaussian_loss(noise: &VectorNoise) -> f64 {
    let PrivacyEvent::Composed(events) = noise.event() else { panic!("not composed") };
    let loss = |event: PrivacyEvent| match event {
        PrivacyEvent::Gaussian { sensitivity, variance, .. } => sensitivity.squared() as f64 / variance.as_f64(),
        _ => panic!("not Gaussian"),
    };
    events.into_iter().map(loss).sum()
}

proptest! {
    #[test]
    fn losses_of_coordinates_add_up_to_the_claim(
        sensitivities in proptest::collection::vec(1u128..1 << 30, 1..20), nanos in 1_000u64..50_000_000_000,
    ) {
        let loss = Epsilon::from_nanos(nanos).unwrap();
        if let Ok(noise) = VectorNoise::laplace(&sensitivities, loss) {
            let sum = laplace_loss(&noise);
            prop_assert!(sum <= u128::from(nanos), "{} > {}", sum, nanos);
            // A nano-unit for each coordinate, and one in 10⁹.
            prop_assert!(sum + 20 + u128::from(nanos) / 500_000_000 >= u128::from(nanos));
        }
        let variance = Ratio::new(u128::from(nanos), 1_000_000_000).unwrap();
        let noise = VectorNoise::gaussian(&sensitivities, variance).unwrap();
        prop_assert!((gaussian_loss(&noise) * variance.as_f64() - 1.0).abs() < 1e-12);
    }
}

#[test]
fn no_other_scales_have_a_smaller_total_error() {
    let sensitivities = [1, 10, 1_000];
    let total = |noise: &VectorNoise| noise.noises().iter().map(|each| each.standard_deviation().powi(2)).sum::<f64>();
    let laplace = total(&VectorNoise::laplace(&sensitivities, epsilon("1")).unwrap());
    let gaussian = total(&VectorNoise::gaussian(&sensitivities, Ratio::new(9, 1).unwrap()).unwrap());
    // Shares of ε and of 1/variance, moved from one coordinate to another by a fifth: wider scales beside narrower ones.
    let shares = |power: f64| {
        let weights = sensitivities.map(|steps: u128| (steps as f64).powf(power));
        weights.map(|weight| weight / weights.iter().sum::<f64>())
    };
    for (from, to) in [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0)] {
        let moved = |mut shares: [f64; 3]| {
            let part = shares[from.min(to)] / 5.0;
            shares[from] -= part;
            shares[to] += part;
            shares
        };
        let error = |shares: [f64; 3], each: fn(f64, f64) -> f64| {
            shares.iter().zip(sensitivities).map(|(&share, steps)| each(steps as f64, share)).sum::<f64>()
        };
        // The variance 2b² for b = Δ/share, less the 1/6 that the lattice takes away; and 9Δ²/share.
        let other = error(moved(shares(2.0 / 3.0)), |steps, share| 2.0 * (steps / share).powi(2) - 1.0 / 6.0);
        assert!(laplace < other, "{from} {to}: {laplace} {other}");
        let other = error(moved(shares(1.0)), |steps, share| 9.0 * steps * steps / share);
        assert!(gaussian < other, "{from} {to}: {gaussian} {other}");
    }
    // One scale for all, for the same loss.
    assert!(laplace < 3.0 * 2.0 * 1_011f64.powi(2));
}

#[test]
fn fp_06_odd_vectors_are_refused() {
    use MechanismError::{NoSensitivity, OutOfRange};
    let one = Ratio::new(1, 1).unwrap();
    for zero in [&[][..], &[0], &[1, 0]] {
        assert_eq!(VectorNoise::laplace(zero, epsilon("1")), Err(NoSensitivity));
        assert_eq!(VectorNoise::gaussian(zero, one), Err(NoSensitivity));
    }
    let many = vec![1; 10_001];
    assert_eq!(VectorNoise::laplace(&many, epsilon("1")), Err(OutOfRange { what: "number of coordinates" }));
    assert_eq!(VectorNoise::gaussian(&many, one), Err(OutOfRange { what: "number of coordinates" }));
    assert_eq!(VectorNoise::laplace(&[1, 1], epsilon("0.000000001")), Err(OutOfRange { what: "epsilon" }));
    assert!(VectorNoise::laplace(&[u128::MAX, 1], epsilon("1")).is_err());
    assert!(VectorNoise::gaussian(&[u128::MAX, 1], one).is_err());
    assert!(VectorNoise::gaussian(&[1 << 63, 1], Ratio::new(u128::MAX, 1).unwrap()).is_err());
}

#[test]
fn fp_14_each_coordinate_has_its_own_error_and_its_quantile_covers() {
    let draws = 20_000u64;
    for noise in [
        VectorNoise::laplace(&[1, 100], epsilon("1")).unwrap(),
        VectorNoise::gaussian(&[1, 100], Ratio::new(4, 1).unwrap()).unwrap(),
    ] {
        let mut source = Seeded::new(81);
        let limits = [0, 1].map(|i: usize| noise.noises()[i].error_quantile(0.95).unwrap());
        assert!(limits[0] < limits[1] / 3.0, "{limits:?}");
        let mut covered = [0; 2];
        for _ in 0..draws {
            let answer = noise.add(ExactVector { values: vec![7, -7] }, &mut source).unwrap();
            for (i, exact) in [7.0, -7.0].into_iter().enumerate() {
                let step = (1u128 << noise.noises()[i].refinement()) as f64;
                covered[i] += u64::from((answer[i] as f64 / step - exact).abs() <= limits[i]);
            }
        }
        assert!(covered.iter().all(|&count| upper(count, draws, FALSE_ALARM) >= 0.95), "{covered:?}");
    }
}
