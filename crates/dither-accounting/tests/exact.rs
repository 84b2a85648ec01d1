//! Claims against the exact divergence of discrete noise, by summation over the lattice.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests; formulas are written as in the books")]

use dither_accounting::{Cost, ORDERS, gaussian, rdp, statement, zcdp};
use dither_core::{Delta, Epsilon, L1Sensitivity, L2Sensitivity, PrivacyEvent, Ratio};

/// The smallest δ at this ε for noise with weights `weight(k)` on −n..=n when the answer moves by `shift`.
fn hockey_stick(weight: impl Fn(f64) -> f64, n: i64, shift: i64, epsilon: f64) -> f64 {
    let total: f64 = (-n..=n).map(|k| weight(k as f64)).sum();
    let term = |k: i64| weight(k as f64) - epsilon.exp() * weight((k + shift) as f64);
    (-n - shift..=n).map(|k| term(k).max(0.0)).sum::<f64>() / total
}

/// The exact δ of the discrete Gaussian. The sum reaches 40 standard deviations.
fn gaussian_delta(variance: f64, shift: i64, epsilon: f64) -> f64 {
    let n = (40.0 * variance.sqrt()) as i64 + 40 + shift;
    hockey_stick(|k| (-k * k / (2.0 * variance)).exp(), n, shift, epsilon)
}

fn gaussian_event(variance: u128, shift: u128, coordinates: u64) -> PrivacyEvent {
    PrivacyEvent::Gaussian {
        sensitivity: L2Sensitivity::from_squared(shift * shift * u128::from(coordinates)),
        variance: Ratio::new(variance, 16).unwrap(),
        coordinates,
    }
}

fn best(event: &PrivacyEvent, delta: f64) -> f64 {
    statement(event, Delta::from_f64(delta).unwrap()).unwrap().best as f64 / 1e9
}

const DELTAS: [f64; 4] = [1e-2, 1e-4, 1e-6, 1e-9];

#[test]
fn ac_08_small_discrete_gaussians_cost_no_more_than_claimed() {
    for sixteenths in [1, 4, 16, 64, 1600, 160_000] {
        for shift in [1, 2, 5, 40] {
            for delta in DELTAS {
                let claimed = best(&gaussian_event(sixteenths, shift, 1), delta);
                let exact = gaussian_delta(sixteenths as f64 / 16.0, shift as i64, claimed);
                assert!(exact <= delta, "variance {sixteenths}/16, shift {shift}, {delta}: {claimed} has {exact}");
            }
        }
    }
}

#[test]
fn ac_08_control_the_continuous_formula_is_wrong_for_small_variances() {
    let wrong = |variance: f64, delta: f64| {
        gaussian_delta(variance, 1, gaussian::epsilon(delta, 1.0 / variance.sqrt()).unwrap()) > delta
    };
    assert!([0.0625, 0.25, 1.0, 4.0].iter().any(|&variance| DELTAS.iter().any(|&delta| wrong(variance, delta))));
}

#[test]
fn ac_08_two_coordinates_cost_no_more_than_claimed() {
    for sixteenths in [4, 16, 144] {
        let variance = f64::from(sixteenths) / 16.0;
        let n = (12.0 * variance.sqrt()) as i64 + 12;
        let weight = |k: i64| (-((k * k) as f64) / (2.0 * variance)).exp();
        let total: f64 = (-n..=n).map(weight).sum::<f64>().powi(2);
        for delta in DELTAS {
            let epsilon = best(&gaussian_event(sixteenths as u128, 1, 2), delta);
            let mut exact = 0.0;
            for i in -n..=n {
                for j in -n..=n {
                    exact += (weight(i) * weight(j) - epsilon.exp() * weight(i + 1) * weight(j + 1)).max(0.0) / total;
                }
            }
            assert!(exact <= delta, "variance {variance}, delta {delta}: {exact}");
        }
    }
}

/// The lattice correction: sound against the exact sum, and tight enough that a hundred-thousandth less is wrong.
#[test]
fn ac_08_wide_discrete_gaussians_cost_what_is_claimed() {
    for (sigma, shift) in [(1024u128, 1024i64), (1024, 4000), (1024, 100), (2000, 700), (5000, 20_000)] {
        let variance = (sigma * sigma) as f64;
        for delta in DELTAS {
            let claimed = best(&gaussian_event(16 * sigma * sigma, shift as u128, 1), delta);
            let exact = gaussian_delta(variance, shift, claimed);
            assert!(exact <= delta, "sigma {sigma}, shift {shift}, {delta}: {claimed} has {exact}");
            // Control: this test catches a claim that is too small by a hundred-thousandth.
            let mutant = gaussian_delta(variance, shift, claimed * (1.0 - 1e-5) - 3e-6);
            assert!(mutant > delta, "sigma {sigma}, shift {shift}, {delta}: {claimed} is loose");
        }
    }
}

/// The two inequalities of the proof in `gaussian.rs`, point by point.
#[test]
fn ac_08_rounded_and_discrete_gaussian_differ_as_proved() {
    for sigma in [8.0f64, 64.0, 1024.0] {
        let n = (8.0 * sigma) as i64;
        let normaliser: f64 = (-2 * n..=2 * n).map(|k| (-((k * k) as f64) / (2.0 * sigma * sigma)).exp()).sum();
        for k in (-n..=n).step_by(1 + n as usize / 500) {
            let x = k as f64;
            // r(k)/φ(k) by Simpson's rule on the even part of the integrand.
            let integrand = |u: f64| (-u * u / (2.0 * sigma * sigma)).exp() * (x * u / (sigma * sigma)).cosh();
            let rounded = (integrand(0.0) + 4.0 * integrand(0.25) + integrand(0.5)) / 6.0;
            let discrete = (2.0 * std::f64::consts::PI).sqrt() * sigma / normaliser;
            let log_ratio = (rounded / discrete).ln();
            let (eta_1, eta_2) = (1.0 / (24.0 * sigma * sigma), x * x / (24.0 * sigma.powi(4)));
            assert!(log_ratio >= -eta_1 - 1e-9 / sigma && log_ratio <= eta_2 + 1e-9 / sigma, "sigma {sigma}, k {k}");
        }
    }
}

#[test]
fn ac_08_discrete_laplace_costs_exactly_what_is_claimed() {
    for (shift, scale) in [(1u128, 10u128), (3, 7), (10, 4), (1, 1)] {
        let event =
            PrivacyEvent::Laplace { sensitivity: L1Sensitivity::new(shift), scale: Ratio::new(scale, 1).unwrap() };
        let claimed = best(&event, 0.0);
        let exact = |epsilon| {
            let b = scale as f64;
            hockey_stick(|k| (-k.abs() / b).exp(), 60 * scale as i64, shift as i64, epsilon)
        };
        // The weights beyond the sum are below e⁻⁵⁰.
        assert!(exact(claimed) < 1e-14, "{shift}/{scale}: {}", exact(claimed));
        assert!(exact(claimed - 1e-6) > 1e-9, "control: {shift}/{scale} claims too much");
    }
}

/// The exact Rényi loss of order α between coins of heads p and of the same odds times e^epsilon.
fn coins_renyi(p: f64, epsilon: f64, alpha: f64) -> f64 {
    let q = p * epsilon.exp() / (1.0 + p * epsilon.exp_m1());
    let order = alpha - 1.0;
    (p * (p / q).powf(order) + (1.0 - p) * ((1.0 - p) / (1.0 - q)).powf(order)).ln() / order
}

/// The exponential mechanism with two candidates is such a pair of coins, and the worst of bounded range.
#[test]
fn ac_08_bounded_range_costs_no_more_than_claimed() {
    let mut closest: f64 = 0.0;
    for epsilon in [0.01, 0.1, 1.0, 3.0, 10.0] {
        for alpha in ORDERS.into_iter().filter(|alpha| alpha * epsilon < 600.0) {
            for p in (1..400).map(|part| f64::from(part) / 400.0) {
                let exact = coins_renyi(p, epsilon, alpha);
                let claimed = rdp::bounded_range(epsilon, alpha);
                assert!(exact <= claimed + 1e-12, "{epsilon} {alpha} {p}: {exact} {claimed}");
                assert!(exact <= alpha * zcdp::bounded_range(epsilon) + 1e-12);
                closest = closest.max((exact - 1e-12) / claimed);
            }
        }
    }
    // The control: a constant one per cent smaller is refuted.
    assert!(closest > 0.99, "{closest}");
}

#[test]
fn ac_08_pure_and_bounded_range_events_are_priced_exactly() {
    let epsilon: Epsilon = "0.1".parse().unwrap();
    let (pure, range) = (PrivacyEvent::Pure { epsilon }, PrivacyEvent::BoundedRange { epsilon });
    let delta = "1e-6".parse().unwrap();
    for event in [&pure, &range] {
        let cost = Cost::of(event, delta).unwrap();
        assert_eq!((cost.epsilon_nanos, cost.delta_attos, cost.renyi_nanos[23]), (100_000_000, 0, 100_000_000));
    }
    // A pure event costs what Laplace noise of the same loss costs, under every order.
    let scale = Ratio::new(10, 1).unwrap();
    let laplace = PrivacyEvent::Laplace { sensitivity: L1Sensitivity::new(1), scale };
    assert_eq!(Cost::of(&laplace, delta).unwrap(), Cost::of(&pure, delta).unwrap());
    // Many choices cost half of what as many answers of Laplace noise cost, or less.
    let many = |event: &PrivacyEvent| best(&PrivacyEvent::Composed(vec![event.clone(); 1_000]), 1e-6);
    assert!(many(&range) < 0.55 * many(&pure), "{} {}", many(&range), many(&pure));
    assert_eq!(serde_json::to_string(&range).unwrap(), r#"{"bounded-range":{"epsilon":0.1}}"#);
    assert_eq!(serde_json::to_string(&pure).unwrap(), r#"{"pure":{"epsilon":0.1}}"#);
}
