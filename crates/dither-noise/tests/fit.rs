//! Do the samplers draw from the distributions that are charged? False-alarm rate 1e-9 per test.

#![allow(clippy::unwrap_used, reason = "a failed draw is a failed test")]

mod common;

use common::{Seeded, check, gaussian_sample, laplace_sample, magnitude_law, magnitudes, ratio};
use dither_core::Ratio;
use dither_noise::{bernoulli, bernoulli_exp, uniform_below};
use dither_testing::FALSE_ALARM;
use dither_testing::fit::{CAUGHT, Misfit, check_events, check_scale, deviations};
use dither_testing::pmf::{gaussian_cdf, laplace_cdf};

const MILLION: usize = 1_000_000;

fn laplace(seed: u64, scale: Ratio, draws: usize, claimed: f64) -> Result<(), Misfit> {
    check(laplace_sample(seed, scale, draws), |x| laplace_cdf(x, claimed))
}

fn gaussian(seed: u64, variance: Ratio, draws: usize, claimed: f64) -> Result<(), Misfit> {
    check(gaussian_sample(seed, variance, draws), gaussian_cdf(claimed))
}

#[test]
fn fp_05_discrete_laplace_fits_at_every_scale() {
    // Far below one, around one, ln 3, non-trivial denominators, 2^20, and the wide path beyond 128 bits.
    let wide = ratio((1 << 120) + 7, (1 << 90) - 1);
    for (seed, scale) in
        [ratio(1, 5), ratio(1, 1), ratio(910_239_227, 1_000_000_000), ratio(50, 3), ratio(1 << 20, 1), wide]
            .into_iter()
            .enumerate()
    {
        assert_eq!(laplace(seed as u64, scale, MILLION, scale.as_f64()), Ok(()), "scale {scale:?}");
    }
}

#[test]
fn fp_05_discrete_gaussian_fits_at_every_variance() {
    for (seed, variance) in
        [ratio(1, 9), ratio(1, 1), ratio(16, 1), ratio(10_485_761, 1 << 20), ratio(1 << 40, 1)].into_iter().enumerate()
    {
        assert_eq!(gaussian(seed as u64, variance, MILLION, variance.as_f64()), Ok(()), "variance {variance:?}");
    }
}

#[test]
fn fp_05_the_widest_parameters_fit() {
    // Ten thousand draws each: the Gaussian here takes the path of unbounded integers.
    let (scale, variance) = (ratio((1 << 50) + 1, 1), ratio((1 << 120) + 1, 1 << 20));
    assert_eq!(laplace(1, scale, 10_000, scale.as_f64()), Ok(()));
    assert_eq!(gaussian(2, variance, 10_000, variance.as_f64()), Ok(()));
}

#[test]
fn fp_05_mutants_are_rejected() {
    let sample = gaussian_sample(4, ratio(100, 1), MILLION);
    // Google's mutants: the variance times 1.0625 and a shift by 0.02 standard deviations.
    assert!(laplace(5, ratio(10, 1), MILLION / 2, 10.0 * 1.0625f64.sqrt()).is_err());
    assert!(check(sample, gaussian_cdf(106.25)).is_err());
    let shifted = |sample: Vec<i128>, by: i128| sample.into_iter().map(|x| x + by).collect::<Vec<_>>();
    assert!(check(shifted(gaussian_sample(7, ratio(10_000, 1), MILLION / 2), 2), gaussian_cdf(10_000.0)).is_err());
    assert!(check(shifted(laplace_sample(8, ratio(100, 1), MILLION / 2), 3), |x| laplace_cdf(x, 100.0)).is_err());
    // A shift by one step at small scales.
    assert!(check(shifted(gaussian_sample(9, ratio(4, 1), MILLION / 10), 1), gaussian_cdf(4.0)).is_err());
    assert!(check(shifted(laplace_sample(10, ratio(3, 1), MILLION / 10), 1), |x| laplace_cdf(x, 3.0)).is_err());
}

#[test]
fn fp_05_a_scale_off_by_one_percent_is_rejected() {
    // Beside the score, which sees the scale, single magnitudes and the distribution as a whole.
    let sharp = |sample: Vec<i128>, limit: usize, cdf: &dyn Fn(f64, i128) -> f64| {
        let (counts, draws) = (magnitudes(&sample, limit), sample.len() as u64);
        let law = |scale: f64| magnitude_law(|x| cdf(scale, x), limit);
        assert!(deviations(law, 10.0, draws) > CAUGHT, "the power");
        assert_eq!(check_scale(&counts, law, 10.0, draws, FALSE_ALARM), Ok(()));
        assert_eq!(check_events(&counts, &law(10.0), draws, FALSE_ALARM), Ok(()));
        for mutant in [9.9, 10.1] {
            assert!(check_scale(&counts, law, mutant, draws, FALSE_ALARM / 2.0).is_err(), "{mutant}");
        }
    };
    sharp(laplace_sample(3, ratio(10, 1), MILLION), 150, &|scale, x| laplace_cdf(x, scale));
    // One function per law, so that its sums are made once.
    let cdfs = [9.9f64, 10.0, 10.1]
        .map(|sigma| [0.999, 1.0, 1.001].map(|step| (sigma * step, gaussian_cdf((sigma * step).powi(2)))));
    let of = |sigma: f64, x: i128| {
        let known = cdfs.iter().flatten().find(|(each, _)| (each / sigma - 1.0).abs() < 1e-12);
        known.unwrap().1(x)
    };
    sharp(gaussian_sample(4, ratio(100, 1), MILLION), 70, &of);
}

#[test]
fn fp_05_coins_whose_exponents_are_off_by_one_percent_are_rejected() {
    // Five coins are thrown together: one alone would need three million throws.
    let exponents = [(1, 3), (1, 2), (1, 1), (3, 2), (5, 2)];
    let mut source = Seeded::new(14);
    let mut counts = vec![0; 32];
    for _ in 0..MILLION {
        let faces = exponents
            .iter()
            .fold(0, |faces, &(n, d)| 2 * faces + usize::from(bernoulli_exp(&mut source, n, d).unwrap()));
        counts[faces] += 1;
    }
    let law = |factor: f64| -> Vec<f64> {
        let heads = exponents.map(|(n, d)| (-factor * n as f64 / d as f64).exp());
        let of = |faces: usize| {
            (0..5).map(|coin| if faces >> (4 - coin) & 1 == 1 { heads[coin] } else { 1.0 - heads[coin] }).product()
        };
        (0..32).map(of).collect()
    };
    let draws = MILLION as u64;
    assert!(deviations(law, 1.0, draws) > CAUGHT);
    assert_eq!(check_scale(&counts, law, 1.0, draws, FALSE_ALARM), Ok(()));
    assert_eq!(check_events(&counts, &law(1.0), draws, FALSE_ALARM), Ok(()));
    assert!([0.99, 1.01].iter().all(|&mutant| check_scale(&counts, law, mutant, draws, FALSE_ALARM).is_err()));
}

#[test]
fn fp_05_a_laplace_with_two_zeros_is_rejected() {
    // The bug of forgetting that +0 and -0 are one: a half of the mass at zero comes back as -0.
    let mut source = Seeded::new(11);
    let one_sided = laplace_sample(12, ratio(2, 1), MILLION);
    let sample: Vec<i128> = one_sided
        .into_iter()
        .filter(|&x| x >= 0)
        .map(|x| if bernoulli(&mut source, 1, 2).unwrap() { -x } else { x })
        .take(MILLION / 4)
        .collect();
    assert!(check(sample, |x| laplace_cdf(x, 2.0)).is_err());
}

#[test]
fn uniform_and_coins_have_the_right_rates() {
    let mut source = Seeded::new(13);
    let draws = 300_000;
    let mut faces = [0u64; 6];
    for _ in 0..draws {
        faces[uniform_below(&mut source, 6).unwrap() as usize] += 1;
    }
    assert_eq!(check_events(&faces, &[1.0 / 6.0; 6], draws, FALSE_ALARM), Ok(()));
    let exponents = [(0, 1), (1, 3), (1, 1), (5, 2), (7, 1), (u128::MAX / 2, u128::MAX)];
    let rates = exponents.map(|(n, d)| (-(n as f64) / d as f64).exp());
    let hits = exponents.map(|(n, d)| (0..draws).filter(|_| bernoulli_exp(&mut source, n, d).unwrap()).count() as u64);
    assert_eq!(check_events(&hits, &rates, draws, FALSE_ALARM), Ok(()));
    let wrong = rates.map(|rate| rate * 1.02);
    assert!(check_events(&hits[1..], &wrong[1..], draws, FALSE_ALARM).is_err());
}
