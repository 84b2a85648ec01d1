//! Calibration through any accountant: it meets its target, and by little.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests; formulas are written as in the books")]

use std::cell::Cell;

use dither_accounting::calibrate::{epsilon_for_error, noise_multiplier, rounds};
use dither_accounting::rdp::Curve;
use dither_accounting::{Event, gaussian, zcdp};
use dither_core::Neighbors::AddOrRemoveUnit;
use proptest::prelude::*;

fn training(noise_multiplier: f64, rate: f64, steps: u64) -> Event {
    let step = Event::PoissonSampled { rate, event: Box::new(Event::Gaussian { noise_multiplier }) };
    Event::SelfComposed { count: steps, event: Box::new(step) }
}

fn price(event: &Event, delta: f64) -> f64 {
    Curve::of(event, AddOrRemoveUnit).unwrap().epsilon(delta)
}

#[test]
fn golden_noise_of_training_runs() {
    // Origin: dp-accounting 0.6.0, RDP on its grid of orders: ε, δ, rate, steps, noise multiplier.
    let rows = [
        (1.0, 1e-6, 0.1, 512, 10.36414),
        (8.0, 1e-5, 0.04, 2_250, 1.41588),
        (3.0, 1e-5, 1000.0 / 67_349.0, 202, 0.81431),
        (8.0, 1e-5, 1000.0 / 67_349.0, 202, 0.57406),
        (3.0, 1e-5, 512.0 / 50_000.0, 3_906, 1.19608),
        (1.0, 1e-5, 256.0 / 60_000.0, 3_515, 1.26304),
        (8.0, 1e-5, 4096.0 / 50_000.0, 2_468, 2.71392),
        (1.0, 1e-5, 0.01, 5_000, 2.973019),
    ];
    for (epsilon, delta, rate, steps, theirs) in rows {
        let ours = noise_multiplier(epsilon, |noise| price(&training(noise, rate, steps), delta)).unwrap();
        assert!(ours <= theirs + 1e-5 && ours > theirs * 0.995, "{ours} for {theirs}");
        assert!(price(&training(ours, rate, steps), delta) <= epsilon);
    }
}

#[test]
fn golden_noise_of_one_query_by_every_accountant() {
    let renyi = noise_multiplier(1.0, |noise| price(&Event::Gaussian { noise_multiplier: noise }, 1e-6)).unwrap();
    // Origin: dp-accounting 0.6.0 unit tests.
    assert!(renyi <= 4.530877117 + 1e-6 && renyi > 4.530877117 - 1e-2, "{renyi}");
    let concentrated = noise_multiplier(1.0, |noise| zcdp::epsilon(0.5 / noise / noise, 1e-6)).unwrap();
    assert!((renyi / concentrated - 1.0).abs() < 1e-6);
    let exact = noise_multiplier(1.0, |noise| gaussian::epsilon(1e-6, 1.0 / noise).unwrap()).unwrap();
    assert!((exact / 4.2246789 - 1.0).abs() < 1e-6, "{exact}");
}

#[test]
fn the_number_of_rounds_is_the_largest_that_fits() {
    let epsilon_of = |count| price(&training(3.0, 0.1, count), 1e-6);
    let fit = rounds(2.0, epsilon_of);
    assert!(epsilon_of(fit) <= 2.0 && epsilon_of(fit + 1) > 2.0);
    // Origin of 155: jax_privacy, by PLD, which is tighter.
    assert!(fit < 155 && fit > 120, "{fit}");
    assert_eq!(rounds(0.5, |count| count as f64), 0);
    assert_eq!(rounds(1.0, |count| count as f64), 1);
    assert_eq!(rounds(2.0, |count| count as f64), 2);
    for limit in 1..200 {
        assert_eq!(rounds(f64::from(limit), |count| count as f64), limit as u64);
    }
    assert_eq!(rounds(1.0, |_| 0.0), u64::MAX - 1);
    assert_eq!(rounds(1.0, |_| f64::NAN), 0);
}

#[test]
fn an_accountant_that_never_fits_or_always_does_has_an_answer() {
    assert_eq!(noise_multiplier(1.0, |_| f64::INFINITY), None);
    assert_eq!(noise_multiplier(1.0, |_| f64::NAN), None);
    assert_eq!(noise_multiplier(f64::NAN, |_| 0.0), None);
    assert_eq!(noise_multiplier(1.0, |_| 0.0), Some(0.5f64.powi(20)));
    assert_eq!(epsilon_for_error(1.0, |_| 2.0), None);
    assert_eq!(epsilon_for_error(1.0, |_| 1.0), Some(0.5f64.powi(30)));
}

#[test]
fn an_accountant_that_is_not_monotone_is_never_believed_where_it_was_not_asked() {
    // ε jumps between 0.9 and 1.1 on a fine comb below 5.
    let comb = |noise: f64| if noise > 5.0 { 0.9 } else { 1.0 + 0.1 * (noise * 1e5).sin() + 0.01 };
    let noise = noise_multiplier(1.0, comb).unwrap();
    assert!(comb(noise) <= 1.0);
}

/// Log-uniform ε, δ, rate and steps.
fn plans() -> impl Strategy<Value = (f64, f64, f64, u64)> {
    (-2.0..1.3f64, -9.0..-2.0f64, -4.0..0.0f64, 0.0..4.5f64).prop_map(|(epsilon, delta, rate, steps)| {
        (10f64.powf(epsilon), 10f64.powf(delta), 10f64.powf(rate), 10f64.powf(steps) as u64)
    })
}

fn config() -> ProptestConfig {
    let cases = if std::env::var_os("DITHER_LONG").is_some() { 10_000 } else { 50 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn ac_06_noise_found_through_an_accountant_is_within_its_target((epsilon, delta, rate, steps) in plans()) {
        let epsilon_of = |noise| price(&training(noise, rate, steps), delta);
        let noise = noise_multiplier(epsilon, epsilon_of).unwrap();
        prop_assert!(epsilon_of(noise) <= epsilon);
        prop_assert!(epsilon_of(noise * (1.0 - 1e-6)) > epsilon || noise <= 0.5f64.powi(20));
    }
}

#[test]
fn ac_06_control_the_other_side_of_the_bisection_misses_the_target() {
    // The seeded bug: what was tried last, rather than what fits.
    let last = Cell::new(0.0);
    let epsilon_of = |noise: f64| {
        last.set(noise);
        gaussian::epsilon(1e-6, 1.0 / noise).unwrap()
    };
    let missed = (1..40).filter(|&i| {
        let epsilon = f64::from(i) / 10.0;
        noise_multiplier(epsilon, epsilon_of);
        epsilon_of(last.get()) > epsilon
    });
    assert!(missed.count() > 5);
}
