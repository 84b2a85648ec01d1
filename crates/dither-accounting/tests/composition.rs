//! Textbook theorems against published values, brute force, and the mechanisms that attain them.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests; formulas are written as in the books")]

use dither_accounting::composition::{
    Loss, advanced, amplified, base, basic, heterogeneous, optimal_delta, optimal_epsilon, parallel, textbook_gaussian,
    textbook_rounds,
};
use dither_accounting::{AccountingError, gaussian};
use proptest::prelude::*;

fn pure(epsilon: f64) -> Loss {
    Loss { epsilon, delta: 0.0 }
}

#[test]
fn golden_optimal_composition() {
    // Origin: dp-accounting 0.6.0 unit tests, thirty mechanisms of (1, 0.001); theirs takes multiples of 2ε only.
    let part = Loss { epsilon: 1.0, delta: 0.001 };
    for (delta, epsilon) in [(0.06, 22.0), (0.1, 20.0)] {
        let on_grid =
            (0..=15).map(|i| 2.0 * f64::from(i)).find(|&total| optimal_delta(part, 30, total).unwrap() <= delta);
        assert_eq!(on_grid, Some(epsilon));
        let between = optimal_epsilon(part, 30, delta).unwrap().unwrap();
        assert!(between <= epsilon && between > epsilon - 2.0, "{between}");
        assert!(optimal_delta(part, 30, between).unwrap() <= delta);
        assert!(optimal_delta(part, 30, between - 1e-6).unwrap() > delta);
    }
    // Nothing below the δ of the parts is reached, whatever ε is: 1 − 0.999³⁰ = 0.02957.
    assert_eq!(optimal_epsilon(part, 30, 0.0295).unwrap(), None);
    assert!(optimal_epsilon(part, 30, 0.0296).unwrap().is_some());
}

/// The δ of k answers of a mechanism that fails with probability δ and else is randomised response, over all answers.
fn by_enumeration(part: Loss, count: u32, total: f64) -> f64 {
    let truth = part.epsilon.exp() / (1.0 + part.epsilon.exp());
    // Each answer is the truth, a lie, or (under P alone) a failure.
    (0..3u32.pow(count))
        .map(|code| {
            let (mut p, mut q) = (1.0, 1.0);
            for i in 0..count {
                let (under_p, under_q) = match code / 3u32.pow(i) % 3 {
                    0 => ((1.0 - part.delta) * truth, (1.0 - part.delta) * (1.0 - truth)),
                    1 => ((1.0 - part.delta) * (1.0 - truth), (1.0 - part.delta) * truth),
                    _ => (part.delta, 0.0),
                };
                (p, q) = (p * under_p, q * under_q);
            }
            (p - total.exp() * q).max(0.0)
        })
        .sum()
}

#[test]
fn ac_08_optimal_composition_is_that_of_its_worst_mechanism() {
    for part in [pure(0.3), pure(2.0), Loss { epsilon: 0.7, delta: 0.05 }, Loss { epsilon: 0.0, delta: 0.1 }] {
        for count in 0..8 {
            for total in [0.0, 0.1, 0.5, 1.0, 1.4, 3.0, 7.7] {
                let exact = by_enumeration(part, count, total);
                let claimed = optimal_delta(part, count.into(), total).unwrap();
                assert!(
                    claimed >= exact - 1e-15 && claimed <= exact + 1e-9,
                    "{part:?} {count} {total}: {claimed} {exact}"
                );
            }
        }
    }
    // Control: half of the failures are noticed.
    let less = Loss { epsilon: 0.7, delta: 0.025 };
    assert!(optimal_delta(less, 5, 1.0).unwrap() < by_enumeration(Loss { epsilon: 0.7, delta: 0.05 }, 5, 1.0));
}

#[test]
fn golden_advanced_composition() {
    // By hand: √(2·10⁴·ln e³²) = 800.
    let total = advanced(pure(1.0 / 801.0), 10_000, (-32f64).exp()).unwrap();
    let formula = 800.0 / 801.0 + 10_000.0 / 801.0 * (1.0f64 / 801.0).exp_m1();
    assert!((total.epsilon - formula).abs() < 1e-9 && total.epsilon >= formula);
    assert!((total.delta / (-32f64).exp() - 1.0).abs() < 1e-9 && total.delta >= (-32f64).exp());
    let total = advanced(Loss { epsilon: 0.1, delta: 1e-8 }, 50, 1e-6).unwrap();
    assert!((total.delta - 1.5e-6).abs() < 1e-15);
}

#[test]
fn odd_arguments_have_no_formula() {
    for slack in [0.0, 1.0, -1.0, 2.0, f64::NAN] {
        assert!(matches!(advanced(pure(0.1), 5, slack), Err(AccountingError::OutOfRange { .. })));
        assert!(heterogeneous(&[pure(0.1)], slack).is_err());
    }
    for total in [-1.0, f64::NAN] {
        assert!(optimal_delta(pure(1.0), 3, total).is_err());
    }
    for part in [pure(-1.0), pure(f64::NAN), pure(f64::INFINITY), Loss { epsilon: 1.0, delta: 1.5 }] {
        assert!(optimal_delta(part, 3, 1.0).is_err() && optimal_epsilon(part, 3, 0.5).is_err());
    }
    assert!(optimal_delta(pure(1.0), u64::MAX, 1.0).is_err());
    assert_eq!(basic(&[pure(f64::NAN)]).epsilon, f64::INFINITY);
    assert_eq!(parallel(&[], 2), pure(0.0));
    assert_eq!(advanced(pure(1e308), u64::MAX, 0.1).unwrap().epsilon, f64::INFINITY);
    assert_eq!(optimal_epsilon(pure(0.0), 5, 0.0).unwrap(), Some(0.0));
    assert_eq!(optimal_epsilon(pure(1.0), 0, 0.0).unwrap(), Some(0.0));
    for (epsilon, rate) in [(f64::NAN, 0.1), (1.0, f64::NAN), (f64::INFINITY, 0.1), (-1.0, 0.5), (1e300, 1e-300)] {
        assert!(amplified(epsilon, rate) >= 0.0);
    }
    assert_eq!((amplified(3.0, 0.0), amplified(3.0, 1.0)), (0.0, 3.0));
    for (epsilon, rate) in [(1.0, 0.0), (1.0, 1.5), (-1.0, 0.5), (f64::NAN, 0.5), (1.0, f64::NAN)] {
        assert_eq!(base(epsilon, rate), None);
    }
}

#[test]
fn parallel_parts_add_up_when_a_unit_may_change_its_part() {
    let parts =
        [Loss { epsilon: 0.2, delta: 1e-6 }, Loss { epsilon: 1.0, delta: 0.0 }, Loss { epsilon: 0.5, delta: 1e-7 }];
    assert_eq!(parallel(&parts, 1), Loss { epsilon: 1.0, delta: 1e-6 });
    let two = parallel(&parts, 2);
    assert!((two.epsilon - 1.5).abs() < 1e-9 && (two.delta - 1.1e-6).abs() < 1e-15);
}

#[test]
fn textbook_noise_is_enough_where_it_is_offered_and_refused_where_it_is_not() {
    let sigma = textbook_gaussian(1.0, 1e-5).unwrap();
    assert!((sigma - (2.0 * (1.25e5f64).ln()).sqrt()).abs() < 1e-9);
    for epsilon in [1e-6, 0.01, 0.3, 1.0] {
        for exponent in 1..18 {
            let delta = 10f64.powi(-exponent);
            let sigma = textbook_gaussian(epsilon, delta).unwrap();
            assert!(gaussian::delta(epsilon, 1.0 / sigma) <= delta);
            for count in [1, 10, 1000] {
                let sigma = textbook_rounds(epsilon, delta, count).unwrap();
                assert!(gaussian::delta(epsilon, (count as f64).sqrt() / sigma) <= delta);
            }
        }
    }
    for (epsilon, delta) in
        [(1.0001, 1e-6), (10.0, 1e-6), (0.0, 1e-6), (-1.0, 1e-6), (0.5, 0.0), (0.5, 1.0), (f64::NAN, 0.1)]
    {
        assert!(
            matches!(textbook_gaussian(epsilon, delta), Err(AccountingError::OutOfRange { .. })),
            "{epsilon} {delta}"
        );
        assert!(textbook_rounds(epsilon, delta, 10).is_err());
    }
    // Within the nominal range, but not enough noise.
    assert!(textbook_rounds(1.0, 0.99, 10).is_err());
    // Control: the formula beyond its range. Origin: ε 10, δ 1e-6 needs 0.5410868, the formula gives 0.5298803.
    let classical = (2.0 * (1.25e6f64).ln()).sqrt() / 10.0;
    assert!((classical - 0.5298803).abs() < 1e-7 && gaussian::delta(10.0, 1.0 / classical) > 1e-6);
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn ac_08_no_theorem_undercuts_the_optimum(
        log_epsilon in -3.0..0.5f64, log_delta in -12.0..-3.0f64, count in 1u64..300, log_slack in -12.0..-0.5f64
    ) {
        let part = Loss { epsilon: 10f64.powf(log_epsilon), delta: 10f64.powf(log_delta) };
        let slack = 10f64.powf(log_slack);
        let parts = vec![part; count as usize];
        let (advanced, mixed, summed) = (advanced(part, count, slack).unwrap(), heterogeneous(&parts, slack).unwrap(), basic(&parts));
        for total in [advanced, mixed, summed] {
            let least = optimal_delta(part, count, total.epsilon).unwrap();
            prop_assert!(least <= total.delta * (1.0 + 1e-9), "{:?}: {}", total, least);
        }
        // The theorem for different losses is never worse than the other two.
        prop_assert!(mixed.epsilon <= advanced.epsilon * (1.0 + 1e-9) && mixed.epsilon <= summed.epsilon * (1.0 + 1e-9));
        prop_assert!(mixed.delta <= advanced.delta * (1.0 + 1e-9));
        // And the optimum at its δ is below all.
        let best = optimal_epsilon(part, count, mixed.delta).unwrap().unwrap();
        prop_assert!(best <= mixed.epsilon * (1.0 + 1e-9));
    }

    #[test]
    fn ac_09_textbook_losses_are_monotone(epsilon in 0.0..3.0f64, rate in 0.0..1.0f64, count in 1u64..100, total in 0.0..5.0f64) {
        prop_assert!(amplified(epsilon, rate) <= amplified(epsilon * 1.01, rate) * (1.0 + 1e-11));
        prop_assert!(amplified(epsilon, rate * 0.99) <= amplified(epsilon, rate) * (1.0 + 1e-11));
        prop_assert!(amplified(epsilon, rate) <= epsilon);
        let delta = |epsilon: f64, count: u64| optimal_delta(pure(epsilon), count, total).unwrap();
        prop_assert!(delta(epsilon, count) <= delta(epsilon, count + 1) * (1.0 + 1e-9));
        prop_assert!(delta(epsilon, count) <= delta(epsilon * 1.01, count) * (1.0 + 1e-9));
    }

    #[test]
    fn ac_08_amplification_and_its_inverse_round_away_from_each_other(log_epsilon in -6.0..3.0f64, log_rate in -9.0..0.0f64) {
        let (epsilon, rate) = (10f64.powf(log_epsilon), 10f64.powf(log_rate));
        let sampled = amplified(epsilon, rate);
        let back = base(sampled, rate).unwrap();
        prop_assert!((back / epsilon - 1.0).abs() < 1e-6, "{} {}", epsilon, back);
        let whole = base(epsilon, rate).unwrap();
        prop_assert!(amplified(whole, rate) <= epsilon, "{} {}", amplified(whole, rate), epsilon);
        prop_assert!(amplified(whole, rate) >= epsilon * (1.0 - 1e-9));
    }
}
