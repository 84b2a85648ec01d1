//! The filter against exact sums, overflow, and an adversary that sees every answer.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests; formulas are written as in the books")]

use dither_accounting::{Composition, Cost, Filter, ORDERS, Refusal, Spent, UNBOUNDED};
use dither_core::{Budget, Delta, Epsilon, Explain, L1Sensitivity, L2Sensitivity, PrivacyEvent, Ratio};

fn laplace(nanos: u128) -> PrivacyEvent {
    let scale = Ratio::new(1_000_000_000, nanos).unwrap();
    PrivacyEvent::Laplace { sensitivity: L1Sensitivity::new(1), scale }
}

fn gaussian(mu: f64) -> PrivacyEvent {
    PrivacyEvent::Gaussian {
        sensitivity: L2Sensitivity::from_squared(1 << 40),
        variance: Ratio::at_least(2f64.powi(40) / (mu * mu)).unwrap(),
        coordinates: 1,
    }
}

fn filter(epsilon: &str, delta: &str, composition: Composition) -> Filter {
    Filter { budget: Budget { epsilon: epsilon.parse().unwrap(), delta: delta.parse().unwrap() }, composition }
}

/// How many of the same charge are admitted, at most `limit`.
fn admitted(filter: &Filter, cost: &Cost, limit: usize) -> usize {
    let mut spent = Spent::default();
    (0..limit).take_while(|_| filter.admit(&spent, cost).map(|sum| spent = sum).is_ok()).count()
}

#[test]
fn bg_04_ten_tenths_fit_and_the_eleventh_does_not() {
    let tenth = Cost::of(&laplace(100_000_000), "1e-6".parse().unwrap()).unwrap();
    assert_eq!((tenth.epsilon_nanos, tenth.delta_attos), (100_000_000, 0));
    for composition in [Composition::Basic, Composition::Renyi] {
        // The infinite order makes the Rényi filter as good as the basic one without any δ.
        assert_eq!(admitted(&filter("1", "0", composition), &tenth, 20), 10);
    }
    // Control: floats get it wrong.
    assert_ne!((0..10).map(|_| 0.1).sum::<f64>(), 1.0);
}

#[test]
fn bg_05_charges_round_up_and_requests_round_down() {
    // A scale of exactly 3 is a loss of one third, which is charged as a nano-unit more than the request.
    let third = PrivacyEvent::Laplace { sensitivity: L1Sensitivity::new(1), scale: Ratio::new(3, 1).unwrap() };
    assert_eq!(Cost::of(&third, Delta::ZERO).unwrap().epsilon_nanos, 333_333_334);
    let request = Epsilon::from_f64(1.0 / 3.0).unwrap();
    let cost = Cost::of(&laplace(request.nanos().into()), Delta::ZERO).unwrap();
    assert_eq!(admitted(&filter("1", "0", Composition::Basic), &cost, 9), 3);
    assert_eq!(admitted(&filter("1", "0", Composition::Basic), &Cost::of(&third, Delta::ZERO).unwrap(), 9), 2);
}

#[test]
fn bg_06_deltas_add_up_to_the_cap() {
    let cost = Cost::of(&PrivacyEvent::Threshold { delta: "1e-7".parse().unwrap() }, "1e-7".parse().unwrap()).unwrap();
    assert_eq!(admitted(&filter("1", "1e-6", Composition::Basic), &cost, 99), 10);
    assert_eq!(admitted(&filter("1", "1e-6", Composition::Renyi), &cost, 99), 5);
    assert_eq!(admitted(&filter("1", "0", Composition::Basic), &cost, 99), 0);
}

#[test]
fn bg_18_sums_that_overflow_are_refused() {
    let huge = Cost {
        epsilon_nanos: u64::MAX / 2 + 1,
        delta_attos: u64::MAX,
        renyi_nanos: [UNBOUNDED; ORDERS.len()],
        threshold_attos: u64::MAX,
    };
    let full = Spent::default().plus(&huge).unwrap();
    assert_eq!(full.plus(&huge), None);
    for composition in [Composition::Basic, Composition::Renyi] {
        let filter = filter("1000000", "0.9", composition);
        assert!(matches!(filter.admit(&Spent::default(), &huge), Err(Refusal::BudgetExceeded { .. })));
        assert_eq!(filter.admit(&full, &huge), Err(Refusal::Overflow));
        assert_eq!(filter.remaining(&full).epsilon_nanos, 0);
    }
}

#[test]
fn bg_18_a_million_charges_at_the_maximum() {
    let most = Cost::of(&laplace(Epsilon::MAX.nanos().into()), Delta::ZERO).unwrap();
    assert_eq!(admitted(&filter("1000000", "0", Composition::Basic), &most, 1_000_000), 1);
}

#[test]
fn a_refusal_says_what_still_fits() {
    let filter = filter("1", "1e-6", Composition::Basic);
    let most = Cost::of(&laplace(900_000_000), Delta::ZERO).unwrap();
    let spent = filter.admit(&Spent::default(), &most).unwrap();
    let refusal = filter.admit(&spent, &most).unwrap_err();
    assert_eq!(refusal.to_string(), "the budget does not admit epsilon 0.9 and delta 0");
    assert_eq!(refusal.hint().unwrap(), "set epsilon to at most 0.1 and delta to at most 0.000001");
    assert_eq!(refusal.code(), "budget-exceeded");
}

#[test]
fn what_remains_fits_and_a_little_more_does_not() {
    for composition in [Composition::Basic, Composition::Renyi] {
        let filter = filter("2", "1e-6", composition);
        let mut spent = Spent::default();
        for _ in 0..6 {
            let left = u128::from(filter.remaining(&spent).epsilon_nanos);
            let fits = |nanos| filter.admit(&spent, &Cost::of(&laplace(nanos), Delta::ZERO).unwrap());
            assert!(fits(left).is_ok(), "{composition:?}: {left}");
            assert!(fits(left + 10).is_err(), "{composition:?}: {left}");
            spent = fits(left / 4).unwrap();
        }
    }
}

#[test]
fn renyi_admits_many_more_small_events() {
    let delta: Delta = "1e-6".parse().unwrap();
    let small = Cost::of(&laplace(10_000_000), delta).unwrap();
    assert_eq!(admitted(&filter("1", "1e-6", Composition::Basic), &small, 9999), 100);
    let many = admitted(&filter("1", "1e-6", Composition::Renyi), &small, 9999);
    // The best possible for a Gaussian approximation of this budget is about 470 (ρ ≈ 0.0177 at 3.8e-5 each).
    assert!((300..470).contains(&many), "{many}");
}

#[test]
fn cost_and_sums_keep_their_json_form() {
    let cost = Cost::of(&gaussian(1e-3), "1e-6".parse().unwrap()).unwrap();
    let spent = Spent::default().plus(&cost).unwrap();
    let json = serde_json::to_string(&spent).unwrap();
    assert!(json.starts_with(r#"{"epsilon_nanos":"#), "{json}");
    assert_eq!(serde_json::from_str::<Spent>(&json).unwrap(), spent);
    assert_eq!(serde_json::to_string(&Composition::Renyi).unwrap(), r#""renyi""#);
}

/// An adversary that sees every answer and picks the next ε; every mechanism is randomised response, the worst
/// of its ε. `admit` is the filter, `payoff` the pointwise (1 − e^(ε − loss))⁺; the value is the exact δ reached.
fn adversary<S: Copy>(
    state: S,
    loss: f64,
    choices: &[f64],
    admit: &dyn Fn(S, usize, f64) -> Option<S>,
    epsilon: f64,
    depth: usize,
) -> f64 {
    let stop = (1.0 - (epsilon - loss).exp()).max(0.0);
    let go = |index: usize| -> Option<f64> {
        let step = choices[index];
        let truth = step.exp() / (1.0 + step.exp());
        // The next state may depend on the answer only in broken filters.
        let (up, down) = (admit(state, index, step)?, admit(state, index, -step)?);
        let value = |state, loss| adversary(state, loss, choices, admit, epsilon, depth - 1);
        Some(truth * value(up, loss + step) + (1.0 - truth) * value(down, loss - step))
    };
    let best = if depth == 0 { None } else { (0..choices.len()).filter_map(go).reduce(f64::max) };
    best.unwrap_or(stop).max(stop)
}

const STEPS: [f64; 3] = [0.25, 0.5, 1.0];

fn costs() -> Vec<Cost> {
    STEPS.iter().map(|step| Cost::of(&laplace((step * 1e9) as u128), Delta::ZERO).unwrap()).collect()
}

#[test]
fn ac_15_no_adaptive_adversary_beats_the_filters() {
    let costs = costs();
    for (epsilon, delta) in [("1", "0.05"), ("2", "0.1"), ("2", "0.01"), ("1.5", "0.4")] {
        for composition in [Composition::Basic, Composition::Renyi] {
            let filter = filter(epsilon, delta, composition);
            let admit = |spent: Spent, index: usize, _: f64| filter.admit(&spent, &costs[index]).ok();
            let reached = adversary(Spent::default(), 0.0, &STEPS, &admit, epsilon.parse().unwrap(), 7);
            let allowed = match composition {
                Composition::Basic => 0.0,
                _ => delta.parse::<f64>().unwrap() / 2.0,
            };
            assert!(reached <= allowed + 1e-12, "{composition:?} ({epsilon}, {delta}): {reached}");
        }
    }
}

#[test]
fn ac_15_control_broken_filters_are_beaten() {
    let costs = costs();
    // Gives back the charge of a question that failed, where failing depends on the data.
    let refunds = |spent: f64, _: usize, step: f64| {
        Some(spent).filter(|spent| spent + step.abs() <= 2.0).map(|spent| spent + (-step).max(0.0))
    };
    assert!(adversary(0.0, 0.0, &STEPS, &refunds, 2.0, 7) > 0.05);
    // Forgets the conversion from a Rényi loss to ε.
    let order = ORDERS.iter().position(|&order| order == 2.0).unwrap();
    let bare = |spent: u64, index: usize, _: f64| {
        Some(spent + costs[index].renyi_nanos[order]).filter(|&sum| sum <= 2_000_000_000)
    };
    assert!(adversary(0, 0.0, &STEPS, &bare, 2.0, 7) > 0.05);
    // Advanced composition with a fixed k, applied to steps that the adversary chooses afterwards.
    let fixed_k = |count: usize, _: usize, _: f64| (count < 7).then_some(count + 1);
    assert!(adversary(0, 0.0, &STEPS, &fixed_k, 2.0, 7) > 0.05);
}
