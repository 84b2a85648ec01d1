//! The filter against exact sums, overflow, and an adversary that sees every answer.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests; formulas are written as in the books")]

use dither_accounting::{
    Composition, ConcentratedFilter, ConcentratedLoss, Cost, Event, Filter, ORDERS, Odometer, Refusal, Spent, UNBOUNDED,
};
use dither_core::{Budget, Delta, Epsilon, Explain, L1Sensitivity, L2Sensitivity, Neighbors, PrivacyEvent, Ratio};
use proptest::prelude::*;

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

fn concentrated(epsilon: &str, delta: &str, outside: &str) -> ConcentratedFilter {
    let budget = Budget { epsilon: epsilon.parse().unwrap(), delta: delta.parse().unwrap() };
    ConcentratedFilter::new(budget, outside.parse().unwrap()).unwrap()
}

#[test]
fn the_concentrated_filter_is_that_of_its_budget() {
    let cap = concentrated("1", "1e-6", "1e-7").remaining(ConcentratedLoss::default());
    assert_eq!(cap.delta_attos, 100_000_000_000);
    let rho = cap.rho_picos as f64 / 1e12;
    let at = |rho: f64| dither_accounting::zcdp::epsilon(rho, 9e-7);
    assert!(at(rho) <= 1.0 && at(rho + 1e-8) > 1.0, "{rho}");
    let budget = Budget { epsilon: "1".parse().unwrap(), delta: "1e-6".parse().unwrap() };
    assert!(ConcentratedFilter::new(budget, budget.delta).is_err());
    assert!(ConcentratedFilter::new(Budget { delta: Delta::ZERO, ..budget }, Delta::ZERO).is_err());
    // A refusal says what fits.
    let filter = concentrated("1", "1e-6", "0");
    let most = ConcentratedLoss { rho_picos: 1 << 60, delta_attos: 0 };
    let refusal = filter.admit(ConcentratedLoss::default(), most).unwrap_err();
    assert_eq!(refusal.code(), "budget-exceeded");
    assert!(refusal.hint().unwrap().starts_with("the budget still admits a rho of 0.02"), "{:?}", refusal.hint());
    assert_eq!(filter.admit(ConcentratedLoss { rho_picos: u64::MAX, ..most }, most), Err(Refusal::Overflow));
    // A threshold takes of its own part only.
    let threshold = ConcentratedLoss::of(&Event::Threshold { delta: 1e-9 }, Neighbors::AddOrRemoveUnit).unwrap();
    assert_eq!(threshold.rho_picos, 0);
    assert!((1_000_000_000..1_000_000_010).contains(&threshold.delta_attos), "{threshold:?}");
    assert!(filter.admit(ConcentratedLoss::default(), threshold).is_err());
    assert!(concentrated("1", "1e-6", "1e-7").admit(ConcentratedLoss::default(), threshold).is_ok());
}

#[test]
fn the_concentrated_filter_admits_more_gaussian_noise_than_the_grid_of_orders() {
    let cost = Cost::of(&gaussian(0.01), "1e-6".parse().unwrap()).unwrap();
    let grid = admitted(&filter("1", "1e-6", Composition::Renyi), &cost, 9999);
    let query = ConcentratedLoss::of(&Event::Gaussian { noise_multiplier: 100.0 }, Neighbors::AddOrRemoveUnit).unwrap();
    let filter = concentrated("1", "1e-6", "0");
    let mut spent = ConcentratedLoss::default();
    let many = (0..9999).take_while(|_| filter.admit(spent, query).map(|sum| spent = sum).is_ok()).count();
    assert!(many > grid && many < 561, "{many} {grid}"); // 560 fit exactly, if all are known in advance
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ac_13_every_filter_refuses_the_first_charge_that_would_cross_and_no_other(
        nanos in prop::collection::vec(1u64..400_000_000, 1..40), thresholds in prop::collection::vec(0u64..3, 40)
    ) {
        // In integers of 128 bits: what is admitted, and what is asked for.
        let basic = filter("1", "1e-6", Composition::Basic);
        let rho = concentrated("1", "1e-6", "1e-7");
        let cap = rho.remaining(ConcentratedLoss::default());
        let (mut spent, mut total) = (Spent::default(), 0u128);
        let (mut lost, mut rhos, mut deltas) = (ConcentratedLoss::default(), 0u128, 0u128);
        for (nanos, threshold) in nanos.into_iter().zip(thresholds) {
            let cost = Cost::of(&laplace(nanos.into()), Delta::ZERO).unwrap();
            let fits = total + u128::from(cost.epsilon_nanos) <= 1_000_000_000;
            let answer = basic.admit(&spent, &cost);
            prop_assert_eq!(answer.is_ok(), fits);
            if let Ok(sum) = answer {
                spent = sum;
                total += u128::from(cost.epsilon_nanos);
            }
            let charge = ConcentratedLoss { rho_picos: nanos * 10, delta_attos: threshold * 30_000_000_000 };
            let fits = rhos + u128::from(charge.rho_picos) <= u128::from(cap.rho_picos)
                && deltas + u128::from(charge.delta_attos) <= u128::from(cap.delta_attos);
            let answer = rho.admit(lost, charge);
            prop_assert_eq!(answer.is_ok(), fits);
            if let Ok(sum) = answer {
                lost = sum;
                rhos += u128::from(charge.rho_picos);
                deltas += u128::from(charge.delta_attos);
            }
            // What remains fits, to the last unit, and one unit more does not.
            let left = rho.remaining(lost);
            prop_assert!(rho.admit(lost, left).is_ok());
            let rho_more = ConcentratedLoss { rho_picos: left.rho_picos + 1, ..left };
            let delta_more = ConcentratedLoss { delta_attos: left.delta_attos + 1, ..left };
            prop_assert!(rho.admit(lost, rho_more).is_err() && rho.admit(lost, delta_more).is_err());
        }
    }
}

#[test]
fn ac_15_no_adaptive_adversary_beats_the_concentrated_filter() {
    let pure = |step: f64| Event::EpsilonDelta { epsilon: step, delta: 0.0 };
    let charges = STEPS.map(|step| ConcentratedLoss::of(&pure(step), Neighbors::AddOrRemoveUnit).unwrap());
    for (epsilon, delta) in [("1", "0.05"), ("2", "0.1"), ("2", "0.01"), ("1.5", "0.4")] {
        let filter = concentrated(epsilon, delta, "0");
        let admit = |spent, index: usize, _: f64| filter.admit(spent, charges[index]).ok();
        let reached = adversary(ConcentratedLoss::default(), 0.0, &STEPS, &admit, epsilon.parse().unwrap(), 7);
        assert!(reached <= delta.parse::<f64>().unwrap(), "({epsilon}, {delta}): {reached}");
        // Not in vain: some of δ is used.
        assert!(reached > 0.0 || delta == "0.01", "({epsilon}, {delta})");
    }
    // Control: a cap of ε on ρ, without the conversion, is beaten.
    let bare = |spent: u64, index: usize, _: f64| {
        Some(spent + charges[index].rho_picos).filter(|&sum| sum <= 1_000_000_000_000)
    };
    assert!(adversary(0, 0.0, &STEPS, &bare, 1.0, 7) > 0.05);
}

/// The largest probability with which an adversary that sees every answer makes the loss exceed what is shown, ever.
fn exceeded(spent: Spent, loss: f64, costs: &[Cost], shown: &dyn Fn(&Spent) -> f64, depth: usize) -> f64 {
    if loss > shown(&spent) {
        return 1.0;
    }
    if depth == 0 {
        return 0.0;
    }
    let go = |(cost, &step): (&Cost, &f64)| {
        let truth = step.exp() / (1.0 + step.exp());
        let next = |loss| exceeded(spent.plus(cost).unwrap(), loss, costs, shown, depth - 1);
        truth * next(loss + step) + (1.0 - truth) * next(loss - step)
    };
    costs.iter().zip(&STEPS).map(go).fold(0.0, f64::max)
}

#[test]
fn ac_15_an_odometer_may_be_read_at_any_time() {
    let costs = costs();
    for delta in ["0.5", "0.1", "0.01"] {
        let odometer = Odometer { delta: delta.parse().unwrap() };
        let shown = |spent: &Spent| odometer.epsilon_nanos(spent).unwrap() as f64 / 1e9 + 1e-9;
        let reached = exceeded(Spent::default(), 0.0, &costs, &shown, 7);
        assert!(reached <= delta.parse().unwrap(), "{delta}: {reached}");
    }
    // Control: the conversion for a fixed length, or none, is exceeded by an adversary that stops at the right time.
    let order = ORDERS.iter().position(|&order| order == 2.0).unwrap();
    let bare = |spent: &Spent| spent.renyi_nanos[order] as f64 / 1e9;
    assert!(exceeded(Spent::default(), 0.0, &costs, &bare, 7) > 0.5);
    // Without a δ it is the sum of pure losses; thresholds are outside.
    let none = Odometer { delta: Delta::ZERO };
    let spent = costs.iter().fold(Spent::default(), |spent, cost| spent.plus(cost).unwrap());
    assert_eq!(none.epsilon_nanos(&spent), Some(spent.renyi_nanos[ORDERS.len() - 1]));
    let unbounded = Spent { renyi_nanos: [UNBOUNDED; ORDERS.len()], threshold_attos: 7, ..Spent::default() };
    assert_eq!((none.epsilon_nanos(&unbounded), none.delta_attos(&unbounded)), (None, 7));
}
