//! Attacks on what runs on a user's device.

use dither_testing::FALSE_ALARM;
use dither_testing::binomial::upper;
use dither_testing::fit::{CAUGHT, check_events, check_scale, deviations};

use super::*;
use crate::{FrequencyEstimator, MechanismError, RandomizedResponse, UnaryEncoding};

const DRAWS: u64 = 1_000_000;

/// Counts fit a law at its ε, and at none that is 1 % off.
fn is_sharp(counts: &[u64], law: impl Fn(f64) -> Vec<f64> + Copy, loss: f64) {
    assert!(deviations(law, loss, DRAWS) > CAUGHT, "the power");
    assert_eq!(check_events(counts, &law(loss), DRAWS, FALSE_ALARM / 2.0), Ok(()));
    assert_eq!(check_scale(counts, law, loss, DRAWS, FALSE_ALARM / 2.0), Ok(()));
    for mutant in [loss * 0.99, loss * 1.01] {
        assert!(check_scale(counts, law, mutant, DRAWS, FALSE_ALARM / 2.0).is_err(), "{mutant}");
    }
}

/// How often each value is reported.
fn reports(values: u64, loss: &str, value: u64) -> Vec<u64> {
    let response = RandomizedResponse::new(values, epsilon(loss)).unwrap();
    let (mut source, mut counts) = (Seeded::new(70), vec![0; values as usize]);
    (0..DRAWS).for_each(|_| counts[response.respond(value, &mut source).unwrap() as usize] += 1);
    counts
}

#[test]
fn fp_05_randomised_response_fits() {
    for (values, loss, value) in [(2, "0.5", 0), (3, "1", 2), (5, "2.5", 1), (33, "3.5", 7)] {
        let counts = reports(values, loss, value);
        let pmf = |loss: f64| -> Vec<f64> {
            let total = loss.exp() + (values - 1) as f64;
            (0..values).map(|v| if v == value { loss.exp() / total } else { 1.0 / total }).collect()
        };
        let loss: f64 = loss.parse().unwrap();
        assert_eq!(check_events(&counts, &pmf(loss), DRAWS, FALSE_ALARM), Ok(()), "{values} {loss}");
        assert!(check_events(&counts, &pmf(loss + 0.05), DRAWS, FALSE_ALARM).is_err(), "{values} {loss}");
        // Where the truth is about as likely as all other values, a report tells most of ε.
        if values == 33 {
            is_sharp(&counts, pmf, loss);
        }
    }
}

#[test]
fn fp_05_randomised_response_fits_over_a_huge_range_of_values() {
    // As likely to be true as to be one of 2^40 − 1 others.
    let response = RandomizedResponse::new(1 << 40, epsilon("27.725887222")).unwrap();
    let mut source = Seeded::new(71);
    let kept = (0..DRAWS).filter(|_| response.respond(3, &mut source).unwrap() == 3).count() as u64;
    let others = ((1u64 << 40) - 1) as f64;
    is_sharp(&[kept], |loss| vec![1.0 / (1.0 + others * (-loss).exp())], 27.725887222);
}

/// How often each of two bits, the user's own and another, is reported as set.
fn bits(encoding: UnaryEncoding, draws: u64) -> [u64; 2] {
    let mut source = Seeded::new(72);
    (0..draws).fold([0, 0], |[own, other], _| {
        let report = encoding.respond(1, &mut source).unwrap();
        [own + u64::from(report[1]), other + u64::from(report[0])]
    })
}

#[test]
fn fp_05_unary_encodings_fit() {
    for loss in [0.5f64, 3.0] {
        let epsilon = Epsilon::from_f64(loss).unwrap();
        let draws = 400_000;
        let symmetric = bits(UnaryEncoding::symmetric(2, epsilon).unwrap(), draws);
        let optimized = bits(UnaryEncoding::optimized(2, epsilon).unwrap(), draws);
        let coin = |loss: f64| 1.0 / (1.0 + loss.exp());
        let check = |counts: [u64; 2], p: [f64; 2]| check_events(&counts, &p, draws, FALSE_ALARM);
        assert_eq!(check(symmetric, [coin(-loss / 2.0), coin(loss / 2.0)]), Ok(()));
        assert_eq!(check(optimized, [0.5, coin(loss)]), Ok(()));
        // The control: each bit at the whole ε, as if a value had one bit only.
        assert!(check(symmetric, [coin(-loss), coin(loss)]).is_err());
        assert!(check(optimized, [0.5, coin(loss * 1.05)]).is_err());
        // A report is at most e^ε times as likely: exactly so for both.
        let ratio = |p: f64, q: f64| (p * (1.0 - q) / ((1.0 - p) * q)).ln();
        assert!((ratio(coin(-loss / 2.0), coin(loss / 2.0)) - loss).abs() < 1e-12);
        assert!((ratio(0.5, coin(loss)) - loss).abs() < 1e-12);
    }
}

/// The law of the number of heads among so many coins.
fn heads(coins: i32, p: f64) -> Vec<f64> {
    let mut ways = 1.0;
    (0..=coins)
        .map(|k| {
            let mass = ways * p.powi(k) * (1.0 - p).powi(coins - k);
            ways *= f64::from(coins - k) / f64::from(k + 1);
            mass
        })
        .collect()
}

/// How many of a million users have their own bit as it is, and so many of seven others set: 8 · own + others.
fn wrong_bits(encoding: UnaryEncoding) -> Vec<u64> {
    let (mut source, mut counts) = (Seeded::new(74), vec![0; 16]);
    for _ in 0..DRAWS {
        let report = encoding.respond(5, &mut source).unwrap();
        let set = report.iter().filter(|&&bit| bit).count();
        counts[8 * usize::from(report[5]) + set - usize::from(report[5])] += 1;
    }
    counts
}

#[test]
fn fp_05_and_fp_14_unary_encodings_and_estimates_for_an_epsilon_off_by_one_percent_are_rejected() {
    // Eight bits of a report tell eight times as much of ε as one: 6.6 deviations become 18.
    let coin = |loss: f64| 1.0 / (1.0 + loss.exp());
    let law = |own: f64, other: f64| -> Vec<f64> {
        [1.0 - own, own].into_iter().flat_map(|own| heads(7, other).into_iter().map(move |mass| own * mass)).collect()
    };
    let symmetric = wrong_bits(UnaryEncoding::symmetric(8, epsilon("4.8")).unwrap());
    is_sharp(&symmetric, |loss| law(coin(-loss / 2.0), coin(loss / 2.0)), 4.8);
    let optimized = wrong_bits(UnaryEncoding::optimized(8, epsilon("2.4")).unwrap());
    is_sharp(&optimized, |loss| law(0.5, coin(loss)), 2.4);
    // The estimates of all values together: 6.6 of 14 deviations, or 1,000,000 ± some thousand users.
    let encodings: [fn(Epsilon) -> UnaryEncoding; 2] =
        [|loss| UnaryEncoding::symmetric(8, loss).unwrap(), |loss| UnaryEncoding::optimized(8, loss).unwrap()];
    let surveys = [(&symmetric, ["4.752", "4.8", "4.848"]), (&optimized, ["2.376", "2.4", "2.424"])];
    for (encoding, (counts, losses)) in encodings.into_iter().zip(surveys) {
        let supports = counts.iter().zip(0..).map(|(count, place)| count * (place / 8 + place % 8)).sum();
        // The estimate is linear, so that the sum of all is that of all supports in eight times as many reports. Its
        // variance is that of one value which all hold and seven that nobody holds.
        let [below, at, above] = losses.map(|loss| {
            let estimator = encoding(epsilon(loss)).estimator();
            let variance = estimator.variance(DRAWS, DRAWS) + 7.0 * estimator.variance(0, DRAWS);
            // Bernstein's bound exceeds a normal one, 6.55 deviations, by less than a hundredth of one here.
            (estimator.estimate(supports, 8 * DRAWS) - DRAWS as f64) / (6.56 * variance.sqrt())
        });
        assert!(at.abs() < 1.0 && below.abs() > 1.0 && above.abs() > 1.0, "{below} {at} {above}");
    }
}

#[test]
fn a_value_out_of_range_is_reported_like_the_last() {
    let response = RandomizedResponse::new(3, epsilon("1")).unwrap();
    let encoding = UnaryEncoding::optimized(3, epsilon("1")).unwrap();
    for seed in 0..200 {
        let respond = |value| response.respond(value, &mut Seeded::new(seed)).unwrap();
        assert_eq!(respond(2), respond(u64::MAX));
        let encode = |value| encoding.respond(value, &mut Seeded::new(seed)).unwrap();
        assert_eq!(encode(2), encode(u32::MAX));
    }
}

/// Runs a survey often: the mean estimate, its variance, and how often the error is within the quantile.
fn survey(
    estimator: FrequencyEstimator,
    holders: u64,
    users: u64,
    mut supports: impl FnMut(bool, &mut Seeded) -> bool,
) -> (f64, f64, u64) {
    let (runs, mut source) = (2_000, Seeded::new(73));
    let quantile = estimator.error_quantile(users, 0.9).unwrap();
    let estimates: Vec<f64> = (0..runs)
        .map(|_| {
            let supporting = (0..users).filter(|&user| supports(user < holders, &mut source)).count() as u64;
            estimator.estimate(supporting, users)
        })
        .collect();
    let mean = estimates.iter().sum::<f64>() / f64::from(runs);
    let variance = estimates.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(runs - 1);
    let covered = estimates.iter().filter(|&x| (x - holders as f64).abs() <= quantile).count() as u64;
    (mean, variance, covered)
}

#[test]
fn fp_14_estimates_are_unbiased_with_the_stated_variance_and_cover() {
    let (holders, users, loss) = (60, 200, epsilon("1.5"));
    let response = RandomizedResponse::new(4, loss).unwrap();
    let [symmetric, optimized] = [UnaryEncoding::symmetric(2, loss), UnaryEncoding::optimized(2, loss)];
    let (symmetric, optimized) = (symmetric.unwrap(), optimized.unwrap());
    let unary = |encoding: UnaryEncoding| {
        move |holds: bool, source: &mut Seeded| encoding.respond(u32::from(holds), source).unwrap()[1]
    };
    let surveys = [
        (
            response.estimator(),
            survey(response.estimator(), holders, users, |holds, source| {
                response.respond(if holds { 1 } else { 3 }, source).unwrap() == 1
            }),
        ),
        (symmetric.estimator(), survey(symmetric.estimator(), holders, users, unary(symmetric))),
        (optimized.estimator(), survey(optimized.estimator(), holders, users, unary(optimized))),
    ];
    for (estimator, (mean, variance, covered)) in surveys {
        let exact = estimator.variance(holders, users);
        // Six standard errors of a mean and of a variance over 2,000 runs.
        assert!((mean - holders as f64).abs() < 6.0 * (exact / 2_000.0).sqrt(), "{mean}");
        assert!((variance / exact - 1.0).abs() < 6.0 * (2.0f64 / 2_000.0).sqrt(), "{variance} {exact}");
        assert!(upper(covered, 2_000, FALSE_ALARM) >= 0.9);
    }
}

#[test]
fn fp_14_estimates_of_responses_for_an_epsilon_off_by_one_percent_are_rejected() {
    // A million users who all hold one of 33 values: the estimate is a sum of independent bits, and its error quantile is
    // Bernstein's bound, valid for every number of reports. A standard deviation is 1,014 users, the quantile 6.6 of
    // them, and the estimates for 1 % less and more are off by 17.5.
    let estimator = |loss: &str| RandomizedResponse::new(33, epsilon(loss)).unwrap().estimator();
    let supporting = reports(33, "3.5", 9)[9];
    let error = |loss| {
        let quantile = estimator(loss).error_quantile(DRAWS, 1.0 - FALSE_ALARM).unwrap();
        (estimator(loss).estimate(supporting, DRAWS) - DRAWS as f64).abs() / quantile
    };
    assert!(error("3.5") < 1.0 && error("3.465") > 1.0 && error("3.535") > 1.0, "{}", error("3.535"));
}

#[test]
fn variances_are_those_of_the_paper() {
    for loss in [0.1f64, 1.0, 4.0] {
        let (epsilon, users, e) = (Epsilon::from_f64(loss).unwrap(), 1_000, loss.exp());
        let close = |estimator: FrequencyEstimator, exact: f64| {
            let variance = estimator.variance(0, users) / users as f64;
            assert!((variance / exact - 1.0).abs() < 1e-9, "{variance} {exact}");
        };
        // Wang et al. 2017, equations for direct encoding, symmetric and optimised unary encoding.
        close(RandomizedResponse::new(7, epsilon).unwrap().estimator(), (7.0 - 2.0 + e) / (e - 1.0).powi(2));
        let half = (loss / 2.0).exp();
        close(UnaryEncoding::symmetric(7, epsilon).unwrap().estimator(), half / (half - 1.0).powi(2));
        close(UnaryEncoding::optimized(7, epsilon).unwrap().estimator(), 4.0 * e / (e - 1.0).powi(2));
    }
    // No overflow, no NaN at the largest loss.
    let largest = RandomizedResponse::new(u64::MAX, Epsilon::MAX).unwrap().estimator();
    assert_eq!((largest.estimate(5, 10), largest.variance(5, 10)), (5.0, 0.0));
    assert_eq!(largest.error_quantile(10, 1.0), None);
}

#[test]
fn fp_06_odd_parameters_of_local_mechanisms_are_refused() {
    for values in [0, 1] {
        assert_eq!(RandomizedResponse::new(values, epsilon("1")), Err(MechanismError::NoSensitivity));
        assert_eq!(UnaryEncoding::symmetric(values as u32, epsilon("1")), Err(MechanismError::NoSensitivity));
    }
    let refused = Err(MechanismError::OutOfRange { what: "number of values" });
    assert_eq!(UnaryEncoding::optimized(u32::MAX, epsilon("1")), refused);
}
