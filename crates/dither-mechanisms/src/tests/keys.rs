//! Attacks on keys that come from the data.

use dither_core::{Delta, Neighbors, PrivacyEvent};
use dither_noise::{discrete_gaussian, discrete_laplace, laplace_tail};
use dither_testing::FALSE_ALARM;
use dither_testing::binomial::{lower, upper};

use super::*;
use crate::threshold::any_of;
use crate::{KeyNoise, MechanismError, Threshold};

fn delta(text: &str) -> Delta {
    text.parse().unwrap()
}

fn rule(count: u32, loss: &str, failure: &str) -> Threshold {
    Threshold::for_epsilon(groups(count), Neighbors::AddOrRemoveUnit, epsilon(loss), delta(failure)).unwrap()
}

/// Its Laplace noise.
fn noise(rule: &Threshold) -> Laplace {
    match rule.noise() {
        KeyNoise::Laplace(laplace) => laplace,
        other => panic!("{other:?}"),
    }
}

/// A bound on the chance of a key with one unit to reach the threshold `above_one` + 1, of any of so many keys.
fn solo_release(scale: Ratio, groups: std::num::NonZeroU32, above_one: i128) -> f64 {
    any_of(groups, laplace_tail(scale, above_one))
}

/// How many of so many keys with one unit each are let through.
fn singletons(rule: &Threshold, keys: u64) -> u64 {
    let (mut source, sampler) = (Seeded::new(20), rule.sampler());
    (0..keys).filter(|_| rule.admits(1, &sampler, &mut source).unwrap()).count() as u64
}

#[test]
fn sq_01_a_million_singletons_are_let_through_with_probability_delta() {
    let keys = 1_000_000;
    let rule = rule(1, "0.02", "0.01");
    let released = singletons(&rule, keys);
    assert!(lower(released, keys, FALSE_ALARM) <= 0.01, "{released} of {keys} exceed delta");
    // At this ε one step of the threshold is 2 %, so the smallest threshold uses at least 98 % of δ.
    assert!(upper(released, keys, FALSE_ALARM) >= 0.0098, "{released} of {keys}: the threshold is too high");
    // The power: 1.060 % still passes, 1.083 % is caught.
    assert!(lower(10_590, keys, FALSE_ALARM) <= 0.01 && lower(10_610, keys, FALSE_ALARM) > 0.01);
    // The seeded bug: P(X ≥ t) ≤ δ, which forgets that the unit itself counts for one.
    let mutant = |units: i64, source: &mut Seeded| {
        let rule = self::rule(1, "1", "0.01");
        i128::from(units) + discrete_laplace(source, noise(&rule).scale()).unwrap() >= rule.threshold() - 1
    };
    let mut source = Seeded::new(21);
    let leaked = (0..keys).filter(|_| mutant(1, &mut source)).count() as u64;
    assert!(lower(leaked, keys, FALSE_ALARM) > 0.01, "{leaked} of {keys} pass for delta");
}

#[test]
fn sq_02_the_threshold_is_the_smallest_sound_integer() {
    for loss in ["0.05", "0.5", "1", "3", "10"] {
        for failure in ["0.1", "1e-6", "1e-12", "1e-18"] {
            for count in [1, 2, 25, 10_000] {
                let rule = rule(count, loss, failure);
                let (scale, allowed) = (noise(&rule).scale(), delta(failure).as_f64());
                // The real-valued threshold, from solving 1 - (1 - p)^L = δ for p = q^(τ - 1)/(1 + q).
                let one = -((-allowed).ln_1p() / f64::from(count)).exp_m1();
                let tau = 1.0 - scale.as_f64() * (one * (1.0 + (-1.0 / scale.as_f64()).exp())).ln();
                let threshold = rule.threshold() as f64;
                assert!(
                    threshold >= tau - 1e-6 && threshold < tau.max(1.0) + 1.0 + 1e-6,
                    "{loss} {failure} {count}: {threshold} for {tau}"
                );
                assert!(solo_release(scale, groups(count), rule.threshold() - 1) <= allowed);
                let mutant = solo_release(scale, groups(count), rule.threshold() - 2);
                assert!(threshold == 1.0 || mutant > allowed * (1.0 - 1e-9), "one less must be unsound");
            }
        }
    }
}

#[test]
fn sq_02_a_noisy_count_below_the_threshold_is_not_released() {
    let rule = rule(1, "0.1", "1e-6");
    let sampler = rule.sampler();
    for seed in 0..1_000 {
        let noise = sampler.add(0, &mut Seeded::new(seed)).unwrap();
        let reaching = i64::try_from(rule.threshold() - noise).unwrap();
        assert!(rule.admits(reaching, &sampler, &mut Seeded::new(seed)).unwrap());
        assert!(!rule.admits(reaching - 1, &sampler, &mut Seeded::new(seed)).unwrap());
    }
}

/// How many of so many units have at least one of their own keys let through.
fn exposed(rule: &Threshold, keys_per_unit: u32, units: u64) -> u64 {
    let (mut source, sampler) = (Seeded::new(22), rule.sampler());
    let mut any = || (0..keys_per_unit).fold(false, |any, _| rule.admits(1, &sampler, &mut source).unwrap() | any);
    (0..units).filter(|_| any()).count() as u64
}

#[test]
fn se_13_the_bound_holds_over_all_keys_of_a_unit() {
    let units = 200_000;
    let sound = rule(5, "0.1", "0.01");
    assert!(lower(exposed(&sound, 5, units), units, FALSE_ALARM) <= 0.01);
    assert_eq!(noise(&sound).sensitivity().steps(), 5, "the same number scales the noise");
    // The mutant truncates to five keys and calibrates for one.
    let mutant = rule(1, "0.1", "0.01");
    assert!(lower(exposed(&mutant, 5, units), units, FALSE_ALARM) > 0.01);
}

#[test]
fn sq_04_gaussian_noise_under_a_laplace_threshold_is_caught() {
    let (rule, keys) = (rule(1, "1", "0.01"), 200_000);
    assert!(lower(singletons(&rule, keys), keys, FALSE_ALARM) <= 0.01);
    // σ = √(2 ln(1.25/δ))/ε, squared.
    let variance = Ratio::at_least(2.0 * (1.25f64 / 0.01).ln()).unwrap();
    let mut source = Seeded::new(23);
    let through = (0..keys).filter(|_| 1 + discrete_gaussian(&mut source, variance).unwrap() >= rule.threshold());
    assert!(lower(through.count() as u64, keys, FALSE_ALARM) > 0.01);
}

#[test]
fn unsound_rules_are_refused() {
    let (one, loss) = (groups(1), epsilon("1"));
    assert_eq!(
        Threshold::for_epsilon(one, Neighbors::AddOrRemoveUnit, loss, Delta::ZERO),
        Err(MechanismError::NoDelta)
    );
    assert_eq!(
        Threshold::for_epsilon(one, Neighbors::ReplaceUnit, loss, delta("1e-6")),
        Err(MechanismError::ReplaceUnit)
    );
}

#[test]
fn the_event_names_the_noise_and_the_threshold() {
    let rule = rule(3, "0.5", "1e-6");
    let expected = vec![laplace(3, "0.5").event(), PrivacyEvent::Threshold { delta: delta("1e-6") }];
    assert_eq!(rule.event(), PrivacyEvent::Composed(expected));
}
