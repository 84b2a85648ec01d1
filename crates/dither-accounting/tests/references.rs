//! Values computed elsewhere: tables by mpmath (`reference/make.py`) and published numbers of other packages.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests; formulas are written as in the books")]

use dither_accounting::{gaussian, rdp, statement, zcdp};
use dither_core::{Delta, L1Sensitivity, L2Sensitivity, PrivacyEvent, Ratio};

fn table(text: &str) -> impl Iterator<Item = [f64; 3]> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let numbers: Vec<f64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        numbers.try_into().unwrap()
    })
}

/// Rows where `claim` is below the reference or above it by more than `slack`.
fn broken(text: &str, claim: impl Fn(f64, f64) -> f64, slack: impl Fn(f64, f64, f64) -> f64) -> Vec<String> {
    let row = |[a, b, exact]: [f64; 3]| {
        let claimed = claim(a, b);
        let sound = claimed >= exact && claimed <= exact + slack(a, b, exact);
        (!sound).then(|| format!("({a:e}, {b:e}): claimed {claimed:e}, exact {exact:e}"))
    };
    table(text).filter_map(row).collect()
}

const GAUSSIAN: &str = include_str!("reference/gaussian_delta.txt");

fn naive_delta(epsilon: f64, mu: f64) -> f64 {
    let upper = |x: f64| libm::erfc(x / std::f64::consts::SQRT_2) / 2.0;
    upper(epsilon / mu - mu / 2.0) - epsilon.exp() * upper(epsilon / mu + mu / 2.0)
}

#[test]
fn ac_08_gaussian_delta_is_never_below_and_close() {
    assert_eq!(broken(GAUSSIAN, gaussian::delta, |_, _, exact| 1e-6 * exact), [""; 0]);
}

#[test]
fn ac_08_control_the_textbook_formula_fails() {
    assert!(broken(GAUSSIAN, naive_delta, |_, _, exact| 1e-6 * exact).len() > 50);
}

#[test]
fn ac_08_gaussian_epsilon_and_calibration_are_inverse_and_safe() {
    for [epsilon, mu, delta] in table(GAUSSIAN) {
        let claimed = gaussian::epsilon(delta, mu).unwrap();
        assert!(claimed >= epsilon && claimed <= epsilon * (1.0 + 1e-6) + 1e-9 * mu, "{epsilon} {mu} {claimed}");
        let allowed = gaussian::calibrate(epsilon, delta).unwrap();
        assert!(allowed <= mu && allowed >= mu * (1.0 - 1e-6), "{epsilon} {mu} {allowed}");
    }
}

#[test]
fn ac_08_pure_renyi_is_never_below_and_close() {
    let text = include_str!("reference/renyi_pure.txt");
    let slack = |_: f64, _: f64, exact: f64| 1e-6 * exact;
    assert_eq!(broken(text, rdp::pure, slack), [""; 0]);
    // Control: the formula with the exponentials written out, rounded to nearest.
    let naive = |epsilon: f64, alpha: f64| {
        let (e, a) = (epsilon, alpha);
        (((a * e).exp() + ((1.0 - a) * e).exp()) / (1.0 + e.exp())).ln() / (a - 1.0)
    };
    assert!(broken(text, naive, slack).len() > 20);
}

#[test]
fn ac_08_conversion_is_never_below_and_close() {
    let text = include_str!("reference/conversion.txt");
    // The terms cancel: the slack is relative to them, not to the sum.
    let slack = |order: f64, delta: f64, _: f64| 1e-9 * ((1.0 / delta).ln() + 1.0) * (1.0 + 1.0 / order);
    assert_eq!(broken(text, rdp::conversion, slack), [""; 0]);
    // Control: rounded the other way.
    let down = |order: f64, delta: f64| 2.0 * nearest_conversion(order, delta) - rdp::conversion(order, delta);
    assert!(broken(text, down, slack).len() > 50);
}

fn nearest_conversion(order: f64, delta: f64) -> f64 {
    ((1.0 / delta).ln() - order.ln_1p()) / order - (1.0 / order).ln_1p()
}

#[test]
fn ac_08_zcdp_is_never_below_and_close() {
    let text = include_str!("reference/zcdp.txt");
    assert_eq!(broken(text, zcdp::epsilon, |_, _, exact| 1e-6 * exact + 1e-9), [""; 0]);
    // Control: the conversion of Bun and Steinke 2016, valid and not tight, is told apart.
    let loose = |rho: f64, delta: f64| rho + 2.0 * (rho * (1.0 / delta).ln()).sqrt();
    assert!(broken(text, loose, |_, _, exact| 1e-6 * exact + 1e-9).len() > 50);
}

/// σ = `sigma` times 2²⁰ refined steps and a sensitivity of 2²⁰ steps.
fn gaussian_event(sigma: f64) -> PrivacyEvent {
    let step = 2f64.powi(40);
    PrivacyEvent::Gaussian {
        sensitivity: L2Sensitivity::from_squared(1 << 40),
        variance: Ratio::at_least(sigma * sigma * step).unwrap(),
        coordinates: 1,
    }
}

fn laplace_event(steps: u128, scale: u128) -> PrivacyEvent {
    PrivacyEvent::Laplace { sensitivity: L1Sensitivity::new(steps), scale: Ratio::new(scale, 1).unwrap() }
}

fn best(event: &PrivacyEvent, delta: &str) -> f64 {
    statement(event, delta.parse().unwrap()).unwrap().best as f64 / 1e9
}

#[test]
fn golden_analytic_gaussian_sigmas() {
    // Origin: dp-accounting 0.6.0 and the closed form of Balle and Wang 2018, seven decimals.
    let rows = [
        (1.0, 1e-5, 3.7306316),
        (1.0, 1e-6, 4.2246789),
        (0.5, 1e-5, 7.0318267),
        (3.0, 1e-5, 1.3905935),
        (8.0, 1e-5, 0.6002291),
        (10.0, 1e-6, 0.5410868),
    ];
    for (epsilon, delta, sigma) in rows {
        let calibrated = 1.0 / gaussian::calibrate(epsilon, delta).unwrap();
        assert!((calibrated - sigma).abs() < 1e-7, "{calibrated} for {sigma}");
    }
}

#[test]
fn golden_full_batch_gaussian() {
    // Origin: Opacus 1.6.0 RDP (order 5.4) and the exact analytic Gaussian, σ 1, q 1, one step, δ 1e-5.
    let hundred = PrivacyEvent::Composed(vec![gaussian_event(10.0); 100]);
    for event in [gaussian_event(1.0), hundred] {
        let statement = statement(&event, "1e-5".parse().unwrap()).unwrap();
        assert!((statement.basic.unwrap() as f64 / 1e9 - 4.377178).abs() < 1e-6);
        let rdp = statement.rdp.unwrap() as f64 / 1e9;
        // All real orders may only beat the grid of tenths, and here by little.
        assert!(rdp <= 4.728507 + 1e-6 && rdp > 4.728507 - 1e-3, "{rdp}");
        assert_eq!(statement.best, statement.basic.unwrap());
    }
}

#[test]
fn golden_dp_accounting_gaussian_and_renyi() {
    // Origin: dp-accounting 0.6.0 unit tests: Gaussian σ = √3 three times; RDP calibration; constant curve.
    assert!((gaussian::delta(1.0, 1.0) - 0.126936).abs() < 1e-6);
    let at_target = zcdp::epsilon(0.5 / 4.530877117f64.powi(2), 1e-6);
    assert!(at_target <= 1.0 + 1e-8 && at_target > 0.999, "{at_target}");
    let constant = (2..=32).map(|alpha| 1.1 + rdp::conversion(f64::from(alpha) - 1.0, 1e-5)).fold(f64::MAX, f64::min);
    assert!((constant - 1.32783806176).abs() < 1e-10, "{constant}");
}

#[test]
fn golden_laplace_compositions_are_never_below_numerical_ones() {
    // Origin: dp-accounting 0.6.0 PLD, Laplace b = 10 composed n times, δ 1e-6. PLD will close the gap.
    for (n, exact, at_most) in [(1, 0.0999980, 0.1), (10, 0.998978, 1.0), (100, 4.692667, 5.4)] {
        let claimed = best(&PrivacyEvent::Composed(vec![laplace_event(1, 10); n]), "1e-6");
        assert!(claimed >= exact && claimed <= at_most, "{n}: {claimed}");
    }
}

#[test]
fn ac_01_orders_next_to_one_never_lead_to_zero() {
    // tf-privacy once returned an epsilon of 0 here.
    let order = 1e-8;
    assert!(rdp::pure(1e-6, 1.0 + order) + rdp::conversion(order, 1e-3) > 1e8);
    // RDP and zCDP never undercut the exact mechanism, however private.
    for exponent in 0..9 {
        let mu = 10f64.powi(-exponent);
        for delta in ["1e-3", "1e-6", "1e-12", "1e-18"] {
            let exact = gaussian::epsilon(delta.parse().unwrap(), mu * (1.0 - 1e-9)).unwrap();
            let claimed = zcdp::epsilon(mu * mu / 2.0, delta.parse().unwrap());
            assert!(claimed >= exact * (1.0 - 1e-6), "mu {mu}, delta {delta}: {claimed} < {exact}");
        }
    }
}

#[test]
fn ac_05_epsilon_is_never_negative() {
    for delta in [0.5, 0.9, 0.999] {
        assert_eq!(zcdp::epsilon(1e-12, delta), 0.0);
        assert_eq!(gaussian::epsilon(delta, 1e-6), Some(0.0));
    }
    assert!(rdp::conversion(100.0, 0.999) < 0.0, "control: the unclamped sum can be negative");
}

#[test]
fn ac_02_extreme_floats_never_give_nan() {
    let odd = [0.0, -0.0, -1.0, 1e-300, 1e-9, 1.0, 1e9, 1e300, f64::INFINITY, f64::NAN, f64::MIN_POSITIVE, 5e-324];
    for a in odd {
        for b in odd {
            let delta = gaussian::delta(a, b);
            assert!((0.0..=1.0).contains(&delta), "delta({a}, {b}) = {delta}");
            for value in [gaussian::epsilon(a, b), gaussian::calibrate(a, b)].into_iter().flatten() {
                assert!(value >= 0.0, "({a}, {b}): {value}");
            }
            for value in [rdp::pure(a, 1.0 + b.abs()), rdp::conversion(a, b), zcdp::pure(a), zcdp::epsilon(a, b)] {
                assert!(!value.is_nan(), "({a:e}, {b:e})");
            }
        }
    }
}

#[test]
fn ac_02_extreme_events_are_priced_or_refused() {
    let odd = [1, 2, 1 << 20, 1 << 64, u128::MAX / 3, u128::MAX];
    for a in odd {
        for b in odd {
            for c in odd {
                let ratio = Ratio::new(b, c).unwrap();
                let laplace = PrivacyEvent::Laplace { sensitivity: L1Sensitivity::new(a), scale: ratio };
                let sensitivity = L2Sensitivity::from_squared(a);
                let gaussian = PrivacyEvent::Gaussian { sensitivity, variance: ratio, coordinates: u64::MAX };
                for event in [laplace, gaussian] {
                    for delta in
                        [Delta::ZERO, Delta::from_attos(1).unwrap(), Delta::from_attos(Delta::ATTOS - 1).unwrap()]
                    {
                        let _ = dither_accounting::Cost::of(&event, delta);
                        let _ = dither_accounting::calibrate::refined(&event);
                    }
                }
            }
        }
    }
}
