//! Is the noise as large as it is charged for?

use dither_core::{PrivacyEvent, Ratio};
use dither_testing::FALSE_ALARM;
use dither_testing::binomial::upper;
use dither_testing::fit::{Misfit, check_cdf};
use dither_testing::neighbours::refuted;
use dither_testing::pmf::{gaussian_cdf, laplace_cdf};

use super::*;

/// Google's closeness grid, in steps: ε, rows' worth per group, groups per unit.
const LOSSES: [&str; 5] = ["0.000001", "0.01", "1.098612288", "2.197224577", "5"];
const MAGNITUDES: [u128; 3] = [1, 7, 1_000];
const GROUPS: [u128; 3] = [1, 2, 500];
/// What the noise is added to: 0, ±1, ±10^6, ±10^12, 6.48… and -125773.118… in steps of 2^-10.
const EXACT: [i128; 9] = [
    0,
    1 << 10,
    -(1 << 10),
    1_024_000_000,
    -1_024_000_000,
    1_024_000_000_000_000,
    -1_024_000_000_000_000,
    6_636,
    -128_791_673,
];

fn laplace_fits(noise: Laplace, exact: i128, draws: usize, claimed: f64) -> Result<(), Misfit> {
    let noisy = answers(Noise::Laplace(noise), exact, draws, &mut Seeded::new(7));
    let mut errors: Vec<i128> = noisy.into_iter().map(|y| y - exact).collect();
    check_cdf(&mut errors, |x| laplace_cdf(x, claimed), FALSE_ALARM)
}

fn gaussian_fits(noise: Gaussian, exact: i128, draws: usize, claimed: f64) -> Result<(), Misfit> {
    let unit = 1i128 << noise.refinement();
    let noisy = answers(Noise::Gaussian(noise), exact, draws, &mut Seeded::new(8));
    let mut errors: Vec<i128> = noisy.into_iter().map(|y| y - exact * unit).collect();
    check_cdf(&mut errors, gaussian_cdf(claimed * (unit * unit) as f64), FALSE_ALARM)
}

#[test]
fn fp_05_laplace_fits_over_the_closeness_grid() {
    let mut exact = EXACT.into_iter().cycle();
    for loss in LOSSES {
        for (magnitude, count) in MAGNITUDES.into_iter().flat_map(|m| GROUPS.map(|g| (m, g))) {
            let noise = laplace(magnitude * count, loss);
            let claimed = (magnitude * count) as f64 / loss.parse::<f64>().unwrap();
            let exact = exact.next().unwrap();
            assert_eq!(laplace_fits(noise, exact, 20_000, claimed), Ok(()), "{loss}, {magnitude}, {count}");
        }
    }
}

#[test]
fn fp_05_gaussian_fits_over_the_closeness_grid() {
    let mut exact = EXACT.into_iter().cycle();
    for loss in LOSSES {
        for (magnitude, count) in MAGNITUDES.into_iter().flat_map(|m| GROUPS.map(|g| (m, g))) {
            let squared = magnitude * magnitude * count;
            let variance = Ratio::at_least(squared as f64 / loss.parse::<f64>().unwrap().powi(2)).unwrap();
            let noise = gaussian(squared, (variance.numerator(), variance.denominator()));
            let exact = exact.next().unwrap();
            assert_eq!(gaussian_fits(noise, exact, 10_000, variance.as_f64()), Ok(()), "{loss}, {magnitude}, {count}");
        }
    }
}

#[test]
fn fp_05_mutants_are_rejected() {
    let million = 1_000_000;
    assert!(laplace_fits(laplace(100, "1"), 5, million, 100.0 * 1.0625f64.sqrt()).is_err());
    assert!(gaussian_fits(gaussian(1, (100, 1)), 5, million, 106.25).is_err());
    // Forgetting to refine the variance is a factor of 4^17 here.
    assert!(gaussian_fits(gaussian(1, (100, 1)), 5, 1_000, 100.0 / 4f64.powi(17)).is_err());
}

#[test]
fn fp_06_odd_parameters_never_become_a_mechanism() {
    use crate::MechanismError::{NoSensitivity, OutOfRange};
    let l1 = L1Sensitivity::new;
    let l2 = L2Sensitivity::from_squared;
    let ratio = |n, d| Ratio::new(n, d).unwrap();
    assert_eq!(Laplace::for_epsilon(l1(0), epsilon("1")), Err(NoSensitivity));
    assert_eq!(Laplace::new(l1(0), ratio(1, 1)), Err(NoSensitivity));
    assert_eq!(Laplace::new(l1(1), ratio(1 << 100, 1)), Err(OutOfRange { what: "noise scale" }));
    assert_eq!(Laplace::for_epsilon(l1(u128::MAX), epsilon("1")), Err(OutOfRange { what: "noise scale" }));
    assert_eq!(Gaussian::new(l2(0), ratio(1, 1), 1), Err(NoSensitivity));
    assert_eq!(Gaussian::new(l2(1), ratio(1, 1), 0), Err(OutOfRange { what: "number of coordinates" }));
    assert_eq!(Gaussian::new(l2(1), ratio(1, 1 << 100), 1), Err(OutOfRange { what: "noise variance" }));
    assert_eq!(Gaussian::new(l2(u128::MAX), ratio(1, 1), 1), Err(OutOfRange { what: "sensitivity" }));
}

#[test]
fn the_gaussian_event_is_in_refined_steps() {
    let noise = Gaussian::new(L2Sensitivity::from_squared(12), Ratio::new(9, 4).unwrap(), 3).unwrap();
    // 1.5 · 2^20 is above 2^20, 1.5 · 2^19 is not.
    assert_eq!(noise.refinement(), 20);
    let event = PrivacyEvent::Gaussian {
        sensitivity: L2Sensitivity::from_squared(12 << 40),
        variance: Ratio::new(9 << 38, 1).unwrap(),
        coordinates: 3,
    };
    assert_eq!(noise.event(), event);
    assert_eq!(gaussian(1, (1 << 40, 1)).refinement(), 0);
    assert_eq!(gaussian(1, ((1 << 40) - 1, 1)).refinement(), 1);
    let third = gaussian(1, (1, 3));
    assert_eq!(third.refinement(), 21);
}

/// P(y ≥ 1) on the counts 1 and 0, for noise of this scale, at a claimed ε of 1.
fn loss_is_refuted(scale: Ratio) -> bool {
    let noise = Noise::Laplace(Laplace::new(L1Sensitivity::new(1), scale).unwrap());
    let draws = 300_000;
    let [one, zero] = [(1, 9), (0, 10)].map(|(exact, seed)| {
        answers(noise, exact, draws, &mut Seeded::new(seed)).into_iter().filter(|&y| y >= 1).count() as u64
    });
    refuted(one, zero, draws as u64, 1.0, 0.0, FALSE_ALARM)
}

#[test]
fn neighbours_differ_by_no_more_than_is_charged() {
    // The event attains the bound, so noise that is 5 % too small is caught.
    assert!(!loss_is_refuted(laplace(1, "1").scale()));
    assert!(loss_is_refuted(Ratio::new(95, 100).unwrap()));
}

#[test]
fn fp_14_error_quantiles_cover_as_promised() {
    let draws = 200_000;
    for noise in [
        Noise::Laplace(laplace(10, "1")),
        Noise::Laplace(laplace(1, "1.5")),
        Noise::Gaussian(gaussian(1, (100, 1))),
        Noise::Gaussian(gaussian(1, (1, 3))),
    ] {
        let unit = f64::from(1u32 << noise.refinement());
        let errors: Vec<f64> =
            answers(noise, 0, draws, &mut Seeded::new(11)).into_iter().map(|y| y as f64 / unit).collect();
        let covered = |probability: f64| {
            let limit = noise.error_quantile(probability).unwrap();
            errors.iter().filter(|error| error.abs() <= limit).count() as u64
        };
        for probability in [0.5, 0.95, 0.999] {
            assert!(upper(covered(probability), draws as u64, FALSE_ALARM) >= probability, "{noise:?}");
        }
        // Not by being too wide: on a fine lattice a quantile of 94 % is no quantile of 95 %.
        assert!(noise.refinement() == 0 || upper(covered(0.94), draws as u64, FALSE_ALARM) < 0.95, "{noise:?}");
        let spread = (errors.iter().map(|x| x * x).sum::<f64>() / draws as f64).sqrt();
        assert!((spread / noise.standard_deviation() - 1.0).abs() < 0.02, "{noise:?}: {spread}");
    }
}
