//! Privacy loss distributions against published values, and the laws that every composition obeys.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests; formulas are written as in the books")]

use dither_accounting::{AccountingError, Event, Interval, Pld, gaussian};
use dither_core::Neighbors::{AddOrRemoveUnit, ReplaceUnit};

fn gaussian(noise_multiplier: f64) -> Event {
    Event::Gaussian { noise_multiplier }
}

fn laplace(noise_multiplier: f64) -> Event {
    Event::Laplace { noise_multiplier }
}

fn sampled(rate: f64, event: Event) -> Event {
    Event::PoissonSampled { rate, event: Box::new(event) }
}

fn times(count: u64, event: Event) -> Event {
    Event::SelfComposed { count, event: Box::new(event) }
}

fn training(sigma: f64, rate: f64, count: u64) -> Event {
    times(count, sampled(rate, gaussian(sigma)))
}

fn epsilon(event: &Event, delta: f64) -> Interval {
    Pld::of(event, AddOrRemoveUnit).unwrap().epsilon(delta)
}

/// (σ, q, steps, δ, ε of dp_accounting 0.6.0's PLD, bounds of prv_accountant 0.2.0 with an ε error of 0.01 and a δ error
/// of δ/1000). The mesh of the former is 10⁻⁴, in the last two rows 10⁻⁵.
const TRAININGS: [(f64, f64, u64, f64, f64, [f64; 2]); 15] = [
    (1.1, 256.0 / 60000.0, 14063, 1e-5, 2.381779, [2.371548, 2.391837]),
    (1.1, 250.0 / 60000.0, 14400, 1e-5, 2.349645, [2.339413, 2.359697]),
    (1.5, 0.04, 2250, 1e-5, 6.768787, [6.758431, 6.779132]),
    (4.0, 0.01, 10000, 1e-5, 0.946999, [0.936809, 0.956936]),
    (0.7, 240.0 / 60000.0, 11250, 1e-5, 5.431223, [5.420847, 5.441529]),
    (1.1, 240.0 / 60000.0, 15000, 1e-5, 2.295468, [2.285234, 2.305512]),
    (1.3, 240.0 / 60000.0, 3750, 1e-5, 0.833589, [0.823483, 0.843601]),
    (0.7, 1000.0 / 67349.0, 202, 1e-5, 3.724759, [3.714405, 3.735113]),
    (3.0, 4096.0 / 50000.0, 2468, 1e-5, 6.529288, [6.518951, 6.539612]),
    (0.8, 0.001, 1000, 1e-6, 0.467695, [0.457596, 0.477771]),
    (0.8, 0.05, 1000, 1e-6, 19.515033, [19.504220, 19.525843]),
    (1.5, 0.05, 1000, 1e-6, 6.199695, [6.189417, 6.209969]),
    (3.0, 0.001, 20000, 1e-6, 0.185361, [0.174008, 0.194031]),
    (1.1, 256.0 / 60000.0, 14063, 1e-5, 2.381691, [2.371548, 2.391837]),
    (0.8, 0.01, 10000, 1e-6, 11.183164, [11.172711, 11.193654]),
];

/// The unit of the last printed digit of a reference.
const PRINTED: f64 = 1.5e-6;

#[test]
fn golden_trainings_are_met_from_both_sides() {
    for (sigma, rate, count, delta, other, [low, high]) in TRAININGS {
        let bounds = epsilon(&training(sigma, rate, count), delta);
        let case = format!("{sigma} {rate} {count}: {bounds:?} {other}");
        assert!(bounds.lower <= bounds.upper && bounds.upper - bounds.lower <= 1e-3 * bounds.upper, "{case}");
        assert!(bounds.lower <= high && bounds.upper >= low, "{case}");
        assert!(bounds.upper <= other + PRINTED, "{case}");
    }
}

#[test]
fn golden_delta_of_a_training() {
    // dp_accounting 0.6.0, the first training above, mesh 10⁻⁴. The last is below the noise of its transform: with mesh
    // 3·10⁻⁵ it says 6.15e-12, and a tilted transform of doubles converges to 6.570e-12.
    let pld = Pld::of(&training(1.1, 256.0 / 60000.0, 14063), AddOrRemoveUnit).unwrap();
    for (epsilon, other) in [(1.0, 1.553270e-2), (2.0, 1.191566e-4), (4.0, 6.81e-12)] {
        let bounds = pld.delta(epsilon);
        assert!(bounds.lower <= other * 1.002 && bounds.upper >= other * 0.96, "{epsilon}: {bounds:?} {other}");
        assert!(bounds.upper <= other * 1.002 && bounds.lower >= bounds.upper * 0.99, "{epsilon}: {bounds:?} {other}");
    }
}

#[test]
fn golden_prv_bounds_of_short_trainings() {
    // Upper bounds in the test suite of Opacus 1.6.0 (prv_accountant.py), δ = 10⁻⁶, to four places.
    let rows = [
        (0.8, 0.001, 100, 0.270403),
        (1.5, 0.001, 100, 0.039369),
        (0.8, 0.05, 100, 6.741052),
        (1.5, 0.05, 100, 1.953853),
        (3.0, 0.05, 100, 0.767934),
        (0.8, 0.2, 100, 24.333664),
        (2.0, 0.2, 100, 5.672056),
        (2.0, 0.05, 1000, 4.172800),
        (0.8, 0.001, 20000, 1.296009),
        (1.5, 0.05, 20000, 38.306618),
        (0.8, 0.001, 50000, 2.034515),
        (3.0, 0.05, 50000, 24.942006),
    ];
    for (sigma, rate, count, other) in rows {
        let bounds = epsilon(&training(sigma, rate, count), 1e-6);
        // Theirs is an upper bound with an error of 0.01.
        assert!(bounds.lower <= other && bounds.upper >= other - 0.021, "{sigma} {rate} {count}: {bounds:?} {other}");
    }
}

#[test]
fn golden_replacement_of_a_unit() {
    // dp_accounting 0.6.0 with NeighboringRelation.REPLACE_ONE: both tables hold a unit of full size.
    let pld = Pld::of(&training(1.1, 256.0 / 60000.0, 14063), ReplaceUnit).unwrap();
    let bounds = pld.epsilon(1e-5);
    assert!(bounds.lower > 4.2213 && bounds.upper <= 4.221531, "{bounds:?}");
}

#[test]
fn golden_ledger_of_three_kinds() {
    // dp_accounting 0.6.0, mesh 10⁻⁴.
    let ledger =
        Event::Composed(vec![training(1.1, 256.0 / 60000.0, 1000), times(3, laplace(4.0)), times(2, gaussian(5.0))]);
    let bounds = epsilon(&ledger, 1e-6);
    assert!(bounds.lower > 2.0119 && bounds.upper <= 2.011985 + PRINTED, "{bounds:?}");
}

#[test]
fn golden_laplaces() {
    // dp_accounting 0.6.0, mesh 10⁻⁴, δ = 10⁻⁶. One of them has the closed form ε = 1/b + 2 ln(1 − δ).
    assert!((epsilon(&laplace(10.0), 1e-6).upper - 0.099998).abs() < 1e-9);
    for (count, other) in [(10, 0.998978), (100, 4.692667)] {
        let bounds = epsilon(&times(count, laplace(10.0)), 1e-6);
        assert!(bounds.upper <= other + PRINTED && bounds.lower >= other * 0.9999, "{count}: {bounds:?} {other}");
    }
}

/// 400 Laplaces, 400 Gaussians and 200 sampled Gaussians, all different.
fn many() -> Event {
    let between = |from: f64, to: f64, i: u32, n: u32| from + (to - from) * f64::from(i) / f64::from(n - 1);
    let laplaces = (0..400).map(|i| laplace(1.0 / between(0.001, 0.01, i, 400)));
    let gaussians = (0..400).map(|i| gaussian(between(50.0, 200.0, i, 400)));
    let steps = (0..200).map(|i| sampled(between(0.001, 0.01, i, 200), gaussian(between(1.0, 4.0, i, 200))));
    Event::Composed(laplaces.chain(gaussians).chain(steps).collect())
}

#[test]
fn golden_a_thousand_different_mechanisms() {
    // dp_accounting 0.6.0, mesh 10⁻⁵; prv_accountant 0.2.0 proves [0.988170, 1.008275].
    let bounds = epsilon(&many(), 1e-6);
    assert!(bounds.upper <= 0.998215 + PRINTED && bounds.lower >= 0.998215 * 0.999, "{bounds:?}");
}

#[test]
fn golden_unit_tests_of_others() {
    // dp_accounting: Gaussian σ = √3 three times, δ(1) = 0.126936; Poisson q = 0.2, σ = 0.5 three times, δ(1) = 0.15594.
    let three = Pld::of(&times(3, gaussian(3f64.sqrt())), AddOrRemoveUnit).unwrap().delta(1.0);
    assert!((three.upper - 0.126936).abs() < 1e-6 && (three.lower - 0.126936).abs() < 1e-6, "{three:?}");
    let three = Pld::of(&training(0.5, 0.2, 3), AddOrRemoveUnit).unwrap().delta(1.0);
    assert!((three.upper - 0.15594).abs() < 1e-5 && (three.lower - 0.15594).abs() < 1e-4, "{three:?}");
}

#[test]
fn ac_02_extreme_events_are_priced_or_refused_by_pld() {
    let values = [0.0, 1e-300, 1e-9, 1.0, 1e9, 1e300, f64::INFINITY, f64::NAN, -1.0];
    let mut events = Vec::new();
    for x in values {
        events.push(gaussian(x));
        events.push(laplace(x));
        events.push(Event::DiscreteGaussian { sensitivity: 1, sigma: x });
        events.push(Event::DiscreteLaplace { sensitivity: u64::MAX, scale: x });
        events.push(Event::RandomizedResponse { epsilon: x, values: u64::MAX });
        events.push(Event::EpsilonDelta { epsilon: x, delta: x });
        events.push(Event::BoundedRange { epsilon: x });
        events.push(Event::Threshold { delta: x });
        for rate in [0.0, 1e-300, 0.5, 2.0, f64::NAN] {
            events.push(sampled(rate, gaussian(x)));
            events.push(sampled(rate, laplace(x)));
        }
    }
    for event in events {
        for count in [0, 1, 2, 100, u64::MAX >> 1] {
            let Ok(pld) = Pld::of(&times(count, event.clone()), AddOrRemoveUnit) else { continue };
            for delta in [0.0, 1e-300, 1e-5, 1.0] {
                let bounds = pld.epsilon(delta);
                assert!(0.0 <= bounds.lower && bounds.lower <= bounds.upper, "{count} {event:?} {delta}: {bounds:?}");
            }
            for epsilon in [0.0, 1.0, 1e300] {
                let bounds = pld.delta(epsilon);
                assert!(0.0 <= bounds.lower && bounds.upper <= 1.0, "{count} {event:?} {epsilon}: {bounds:?}");
                assert!(bounds.lower <= bounds.upper, "{count} {event:?} {epsilon}: {bounds:?}");
            }
            assert!(count > 0 || pld.epsilon(1e-5).upper == 0.0);
        }
    }
    for odd in [f64::NAN, -1.0] {
        let error = Pld::of(&gaussian(odd), AddOrRemoveUnit).unwrap_err();
        assert!(matches!(error, AccountingError::InvalidEvent { .. }), "{error}");
    }
    assert!(Pld::of(&gaussian(0.0), AddOrRemoveUnit).is_err());
    let unknown = Event::ZeroConcentrated { rho: 0.1 };
    let error = Pld::of(&unknown, AddOrRemoveUnit).unwrap_err();
    assert!(matches!(error, AccountingError::NotCovered { .. }), "{error}");
    assert_eq!(Pld::of(&Event::NonPrivate, AddOrRemoveUnit).unwrap().epsilon(0.1).upper, f64::INFINITY);
}

#[test]
fn ac_09_prices_of_pld_are_monotone() {
    let at = |sigma, rate, count, delta| epsilon(&training(sigma, rate, count), delta);
    let base = at(1.0, 0.01, 500, 1e-6);
    let dearer =
        [at(0.95, 0.01, 500, 1e-6), at(1.0, 0.011, 500, 1e-6), at(1.0, 0.01, 550, 1e-6), at(1.0, 0.01, 500, 5e-7)];
    for more in dearer {
        assert!(more.lower > base.upper, "{more:?} {base:?}");
    }
    let pld = Pld::of(&training(1.0, 0.01, 500), AddOrRemoveUnit).unwrap();
    let curve: Vec<Interval> = (0..60).map(|i| pld.delta(f64::from(i) / 20.0)).collect();
    for pair in curve.windows(2) {
        assert!(pair[1].lower <= pair[0].upper && pair[1].upper <= pair[0].upper * 1.001, "{pair:?}");
    }
}

#[test]
fn ac_09_order_and_nesting_change_nothing_in_pld() {
    let parts = || [laplace(3.0), sampled(0.1, gaussian(1.0)), gaussian(4.0), gaussian(2.0)];
    let one = Event::Composed(parts().into());
    let mut backwards: Vec<Event> = parts().into();
    backwards.reverse();
    let nested = Event::Composed(vec![
        Event::PostProcessed(Box::new(Event::Composed(backwards))),
        times(0, laplace(1.0)),
        Event::NoOp,
    ]);
    assert_eq!(epsilon(&one, 1e-6), epsilon(&nested, 1e-6));
    let split = Event::Composed(vec![training(1.0, 0.1, 10), times(6, training(1.0, 0.1, 5))]);
    assert_eq!(epsilon(&training(1.0, 0.1, 40), 1e-6), epsilon(&split, 1e-6));
    let twice = sampled(0.2, sampled(0.5, gaussian(1.0)));
    assert_eq!(epsilon(&times(40, twice), 1e-6), epsilon(&training(1.0, 0.1, 40), 1e-6));
}

#[test]
fn parts_of_a_partition_cost_as_much_as_the_dearest() {
    let parallel = Event::Parallel(vec![gaussian(2.0), gaussian(3.0), laplace(1e9)]);
    let alone = gaussian::epsilon(1e-6, 0.5).unwrap();
    let bounds = epsilon(&parallel, 1e-6);
    assert!((bounds.upper - alone).abs() < 1e-6 && bounds.upper >= alone * (1.0 - 1e-9), "{bounds:?} {alone}");
    let replaced = Pld::of(&parallel, ReplaceUnit).unwrap().epsilon(1e-6);
    let twice = gaussian::epsilon(1e-6, 0.5 * 2f64.sqrt()).unwrap();
    assert!(replaced.upper >= twice * (1.0 - 1e-9) && replaced.upper <= twice * 1.01, "{replaced:?} {twice}");
}

#[test]
fn failures_add_up() {
    let events = Event::Composed(vec![Event::Threshold { delta: 1e-6 }, times(50, laplace(20.0))]);
    let (with, without) = (epsilon(&events, 3e-6), epsilon(&times(50, laplace(20.0)), 2e-6));
    assert!((with.upper - without.upper).abs() < 1e-3 * without.upper, "{with:?} {without:?}");
    assert_eq!(epsilon(&events, 1e-7).upper, f64::INFINITY);
    // Kairouz, Oh and Viswanath 2015: two (1, 0.1) mechanisms fail with probability 1 − 0.9² = 0.19.
    let two = Pld::of(&times(2, Event::EpsilonDelta { epsilon: 1.0, delta: 0.1 }), AddOrRemoveUnit).unwrap();
    let bounds = two.delta(2.01);
    assert!((bounds.upper - 0.19).abs() < 1e-7 && (bounds.lower - 0.19).abs() < 1e-7, "{bounds:?}");
}

#[test]
fn discrete_noise_costs_what_continuous_noise_costs_nearly() {
    for sigma in [40.0, 900.0, 5000.0, 1048576.0, 1e10] {
        let discrete = times(100, Event::DiscreteGaussian { sensitivity: sigma as u64 / 10, sigma });
        let mu = (sigma as u64 / 10) as f64 / sigma * 10.0;
        let (bounds, exact) = (epsilon(&discrete, 1e-6), gaussian::epsilon(1e-6, mu).unwrap());
        let slack = 1e-3 + 2.0 / sigma;
        assert!(
            (bounds.upper - exact).abs() < slack * exact && bounds.lower > exact * (1.0 - slack),
            "{sigma} {bounds:?} {exact}"
        );
    }
    let discrete = times(20, Event::DiscreteLaplace { sensitivity: 1000, scale: 10_000.0 });
    let (bounds, continuous) = (epsilon(&discrete, 1e-6), epsilon(&times(20, laplace(10.0)), 1e-6));
    assert!((bounds.upper - continuous.upper).abs() < 1e-3, "{bounds:?} {continuous:?}");
}

#[test]
fn the_distribution_for_a_picture_has_most_of_the_mass() {
    let pld = Pld::of(&training(1.0, 0.01, 500), AddOrRemoveUnit).unwrap();
    let points = pld.distribution(1e-6, 400);
    let sum: f64 = points.iter().map(|point| point.1).sum();
    assert!((sum - 1.0).abs() < 0.05 && points.len() >= 400, "{sum} {}", points.len());
}
