//! Events as JSON: their own form, that of dp_accounting, and what a ledger recorded.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests; formulas are written as in the books")]

use dither_accounting::rdp::Curve;
use dither_accounting::{AccountingError, Cost, Event, EventDocument, dp_event, statement};
use dither_core::Neighbors::{self, AddOrRemoveUnit, ReplaceUnit};
use dither_core::{Delta, L1Sensitivity, L2Sensitivity, PrivacyEvent, Ratio};
use proptest::prelude::*;
use serde_json::Value;

/// Positive floats of every size.
fn positive() -> impl Strategy<Value = f64> {
    any::<f64>().prop_map(f64::abs).prop_filter("finite and positive", |value| value.is_finite() && *value > 0.0)
}

fn probability() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(1.0), 0.0..1.0f64, positive().prop_map(|value| if value < 1.0 { value } else { 0.5 })]
}

fn events() -> impl Strategy<Value = Event> {
    let single = prop_oneof![
        Just(Event::NoOp),
        Just(Event::NonPrivate),
        positive().prop_map(|noise_multiplier| Event::Gaussian { noise_multiplier }),
        positive().prop_map(|noise_multiplier| Event::Laplace { noise_multiplier }),
        (any::<u64>(), positive()).prop_map(|(sensitivity, sigma)| Event::DiscreteGaussian { sensitivity, sigma }),
        (any::<u64>(), positive()).prop_map(|(sensitivity, scale)| Event::DiscreteLaplace { sensitivity, scale }),
        positive().prop_map(|epsilon| Event::BoundedRange { epsilon }),
        (positive(), 2u64..).prop_map(|(epsilon, values)| Event::RandomizedResponse { epsilon, values }),
        (positive(), probability()).prop_map(|(epsilon, delta)| Event::EpsilonDelta { epsilon, delta }),
        positive().prop_map(|rho| Event::ZeroConcentrated { rho }),
        probability().prop_map(|delta| Event::Threshold { delta }),
    ];
    single.prop_recursive(6, 24, 4, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        let sizes =
            (1u64.., 0.0..=1.0f64).prop_map(|(source, share)| (source, ((source as f64 * share) as u64).min(source)));
        prop_oneof![
            (probability(), boxed.clone()).prop_map(|(rate, event)| Event::PoissonSampled { rate, event }),
            (sizes, boxed.clone()).prop_map(|((source_size, sample_size), event)| {
                Event::SampledWithoutReplacement { source_size, sample_size, event }
            }),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Event::Composed),
            (any::<u64>(), boxed.clone()).prop_map(|(count, event)| Event::SelfComposed { count, event }),
            prop::collection::vec(inner, 0..4).prop_map(Event::Parallel),
            boxed.prop_map(Event::PostProcessed),
        ]
    })
}

fn neighbors() -> impl Strategy<Value = Neighbors> {
    prop_oneof![Just(AddOrRemoveUnit), Just(ReplaceUnit)]
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn every_document_comes_back_bit_by_bit(event in events(), neighbors in neighbors()) {
        let document = EventDocument { neighbors, event };
        let json = document.to_json().unwrap();
        prop_assert_eq!(EventDocument::from_json(&json).unwrap(), document);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,60}") {
        let _ = EventDocument::from_json(&text);
        let _ = dp_event::from_json(&text, ReplaceUnit);
    }
}

fn read(event: &str) -> Result<EventDocument, AccountingError> {
    EventDocument::from_json(&format!(r#"{{"version":1,"neighbors":"replace-unit","event":{event}}}"#))
}

#[test]
fn what_is_unknown_or_out_of_range_is_an_error() {
    assert!(read(r#""no-op""#).is_ok());
    let unreadable = |event: &str| matches!(read(event), Err(AccountingError::Unreadable { .. }));
    assert!(unreadable(r#""no-such""#) && unreadable("3") && unreadable("null"));
    assert!(unreadable(r#"{"gaussian":{"noise_multiplier":1,"sigma":2}}"#));
    assert!(unreadable(r#"{"gaussian":{}}"#) && unreadable(r#"{"gaussian":{"noise_multiplier":null}}"#));
    assert!(unreadable(r#"{"gaussian":{"noise_multiplier":1},"laplace":{"noise_multiplier":1}}"#));
    assert!(unreadable(r#"{"self-composed":{"count":-1,"event":"no-op"}}"#));
    assert!(
        unreadable(r#"{"gaussian":{"noise_multiplier":1e999}}"#)
            && unreadable(r#"{"gaussian":{"noise_multiplier":NaN}}"#)
    );
    let path = |event: &str| match read(event) {
        Err(AccountingError::InvalidEvent { path, .. }) => path,
        other => format!("{other:?}"),
    };
    assert_eq!(path(r#"{"gaussian":{"noise_multiplier":0}}"#), "event.gaussian.noise_multiplier");
    assert_eq!(path(r#"{"laplace":{"noise_multiplier":-1.0}}"#), "event.laplace.noise_multiplier");
    assert_eq!(
        path(r#"{"composed":["no-op",{"poisson-sampled":{"rate":1.0000001,"event":"no-op"}}]}"#),
        "event.composed[1].poisson-sampled.rate"
    );
    let sample = r#"{"sampled-without-replacement":{"source_size":3,"sample_size":4,"event":"no-op"}}"#;
    assert_eq!(path(sample), "event.sampled-without-replacement.sample_size");
    assert_eq!(path(r#"{"randomized-response":{"epsilon":1,"values":1}}"#), "event.randomized-response.values");
    assert_eq!(path(r#"{"epsilon-delta":{"epsilon":1,"delta":-1e-9}}"#), "event.epsilon-delta.delta");

    let version = |json: &str| EventDocument::from_json(json);
    assert_eq!(version(r#"{"version":2,"other":[]}"#), Err(AccountingError::UnknownVersion { version: 2 }));
    assert!(version(r#"{"version":1,"neighbors":"add-or-remove-unit","event":"no-op","more":1}"#).is_err());
    assert!(version(r#"{"version":1,"event":"no-op"}"#).is_err());
    assert!(version(r#"{"version":1,"neighbors":"nobody","event":"no-op"}"#).is_err());
    let odd = Event::Gaussian { noise_multiplier: f64::NAN };
    assert!(EventDocument { neighbors: AddOrRemoveUnit, event: odd }.to_json().is_err());
}

#[test]
fn nesting_ends_before_the_stack_does() {
    let nested = |depth: usize| (0..depth).fold(Event::NoOp, |event, _| Event::PostProcessed(Box::new(event)));
    let document = |depth| EventDocument { neighbors: AddOrRemoveUnit, event: nested(depth) };
    let json = document(31).to_json().unwrap();
    assert_eq!(EventDocument::from_json(&json).unwrap(), document(31));
    assert!(document(32).to_json().is_err());
    let deep = format!("{}\"no-op\"{}", r#"{"post-processed":"#.repeat(100_000), "}".repeat(100_000));
    assert!(matches!(read(&deep), Err(AccountingError::Unreadable { .. })));
}

/// Origin: dp_accounting 0.6.0, `reference/dp_events.py write`.
const DP_EVENTS: &str = include_str!("reference/dp_events.json");

fn rows() -> Vec<Value> {
    serde_json::from_str(DP_EVENTS).unwrap()
}

fn relation(row: &Value) -> Option<Neighbors> {
    match row["neighbors"].as_str().unwrap() {
        "add-or-remove-unit" => Some(AddOrRemoveUnit),
        "replace-unit" => Some(ReplaceUnit),
        _ => None,
    }
}

#[test]
fn events_of_dp_accounting_are_read_and_priced() {
    let mut priced = 0;
    for row in rows() {
        let Some(neighbors) = relation(&row) else {
            let refused = dp_event::from_json(&row["event"].to_string(), AddOrRemoveUnit);
            assert!(matches!(refused, Err(AccountingError::NotCovered { .. })), "{row}: {refused:?}");
            continue;
        };
        let event = dp_event::from_json(&row["event"].to_string(), neighbors).unwrap();
        let ours = Curve::of(&event, neighbors).unwrap().epsilon(1e-6);
        match &row["epsilon"] {
            Value::Null => continue,
            Value::String(_) => assert_eq!(ours, f64::INFINITY),
            theirs => {
                let theirs = theirs.as_f64().unwrap();
                if neighbors == AddOrRemoveUnit {
                    assert!(ours <= theirs * (1.0 + 1e-9) && ours >= theirs * 0.97, "{row}: {ours}");
                } else {
                    // Theirs takes the norm of one record for the sensitivity of replacing one.
                    assert!(ours > theirs, "{row}: {ours}");
                }
            }
        }
        priced += 1;
    }
    assert!(priced >= 7, "{priced}");
}

#[test]
fn events_of_dp_accounting_come_back_as_they_were() {
    let mut same = 0;
    for row in rows() {
        let Some(neighbors) = relation(&row) else { continue };
        let event = dp_event::from_json(&row["event"].to_string(), neighbors).unwrap();
        let json = dp_event::to_json(&event, neighbors).unwrap();
        let written: Value = serde_json::from_str(&json).unwrap();
        let class = row["event"]["class_name"].as_str().unwrap();
        // A tree comes back as the Gaussian noise that it is.
        if class.contains("Tree") || class.contains("RandomizedResponse") {
            continue;
        }
        if class == "DiscreteLaplaceDpEvent" {
            let parameter = written["noise_parameter"].as_f64().unwrap();
            assert!((0.3..0.3 + 1e-15).contains(&parameter));
        } else {
            assert_eq!(written, row["event"]);
        }
        same += 1;
    }
    assert!(same >= 9, "{same}");
}

#[test]
fn what_is_written_for_dp_accounting_costs_no_less() {
    let events = [
        Event::DiscreteGaussian { sensitivity: 3, sigma: 7.0 },
        Event::DiscreteLaplace { sensitivity: 3, scale: 7.0 },
        Event::BoundedRange { epsilon: 0.3 },
        Event::RandomizedResponse { epsilon: 1.3, values: 5 },
        Event::EpsilonDelta { epsilon: 1.3, delta: 0.0 },
        Event::Laplace { noise_multiplier: 0.3 },
        Event::ZeroConcentrated { rho: 0.2 },
        Event::PostProcessed(Box::new(Event::Gaussian { noise_multiplier: 3.0 })),
    ];
    for event in events {
        for neighbors in [AddOrRemoveUnit, ReplaceUnit] {
            let json = dp_event::to_json(&event, neighbors).unwrap();
            let back = dp_event::from_json(&json, neighbors).unwrap();
            let loss = |event: &Event| Curve::of(event, neighbors).unwrap().at(3.3);
            assert!(loss(&back) >= loss(&event) * (1.0 - 1e-12), "{event:?} {back:?}");
            // Discrete Laplace noise of an odd sensitivity has no half when a unit is replaced.
            let slack = if neighbors == ReplaceUnit && matches!(event, Event::DiscreteLaplace { .. }) {
                2.0
            } else {
                1.0 + 1e-9
            };
            assert!(loss(&back) <= loss(&event) * slack, "{event:?} {back:?}");
        }
    }
    let refused = [
        Event::Threshold { delta: 1e-9 },
        Event::Parallel(vec![]),
        Event::EpsilonDelta { epsilon: 1.0, delta: 1e-9 },
        Event::Gaussian { noise_multiplier: 0.0 },
    ];
    for event in refused {
        assert!(dp_event::to_json(&event, AddOrRemoveUnit).is_err());
    }
}

#[test]
fn se_16_a_replaced_record_moves_a_sum_by_two_norms() {
    let json = &rows()[2]["event"].to_string();
    let price = |neighbors| Curve::of(&dp_event::from_json(json, neighbors).unwrap(), neighbors).unwrap().at(2.0);
    assert!((price(ReplaceUnit) / price(AddOrRemoveUnit) - 4.0).abs() < 1e-9);
}

#[test]
fn golden_tree_aggregation() {
    // Origin: dp_accounting 0.6.0 RDP, T = 1600, δ 1e-6.
    let tree = |sigma: f64| {
        let json = format!(
            r#"{{"module_name":"dp_accounting.dp_event","class_name":"SingleEpochTreeAggregationDpEvent","noise_multiplier":{sigma},"step_counts":1600}}"#
        );
        Curve::of(&dp_event::from_json(&json, AddOrRemoveUnit).unwrap(), AddOrRemoveUnit).unwrap().epsilon(1e-6)
    };
    for (sigma, epsilon) in [(1.13, 18.7096), (8.83, 1.7732)] {
        let claimed = tree(sigma);
        assert!(claimed <= epsilon + 1e-4 && claimed > epsilon * 0.99, "{sigma}: {claimed}");
    }
}

#[test]
fn odd_tuples_are_refused() {
    let read = |fields: &str| {
        let json = format!(r#"{{"module_name":"dp_accounting.dp_event",{fields}}}"#);
        dp_event::from_json(&json, AddOrRemoveUnit)
    };
    assert!(read(r#""class_name":"NoOpDpEvent""#).is_ok());
    let odd = [
        r#""class_name":"NoSuchDpEvent""#,
        r#""class_name":"NoOpDpEvent","more":1"#,
        r#""class_name":"GaussianDpEvent""#,
        r#""class_name":"GaussianDpEvent","noise_multiplier":0"#,
        r#""class_name":"GaussianDpEvent","noise_multiplier":"1""#,
        r#""class_name":"GaussianDpEvent","noise_multiplier":Infinity"#,
        r#""class_name":"ZCDpEvent","rho":0.1"#,
        r#""class_name":"ComposedDpEvent","events":{}"#,
        r#""class_name":"ComposedDpEvent","events":[1]"#,
        r#""class_name":"RandomizedResponseDpEvent","noise_parameter":1.5,"num_buckets":2"#,
        r#""class_name":"SelfComposedDpEvent","count":1.5,"event":{}"#,
        r#""class_name":"SingleEpochTreeAggregationDpEvent","noise_multiplier":1,"step_counts":[3,-1]"#,
        r#""class_name":"SingleEpochTreeAggregationDpEvent","noise_multiplier":1,"step_counts":[]"#,
        r#""class_name":3"#,
    ];
    for fields in odd {
        assert!(read(fields).is_err(), "{fields}");
    }
    let other = r#"{"module_name":"somewhere.dp_event","class_name":"NoOpDpEvent"}"#;
    assert!(dp_event::from_json(other, AddOrRemoveUnit).is_err());
}

fn recorded() -> Vec<PrivacyEvent> {
    let ratio = |a, b| Ratio::new(a, b).unwrap();
    let gaussian = |squared, variance, coordinates| PrivacyEvent::Gaussian {
        sensitivity: L2Sensitivity::from_squared(squared),
        variance,
        coordinates,
    };
    vec![
        PrivacyEvent::Laplace { sensitivity: L1Sensitivity::new(3), scale: ratio(20, 3) },
        PrivacyEvent::Laplace { sensitivity: L1Sensitivity::new(0), scale: ratio(1, 1) },
        gaussian(1 << 36, ratio(1 << 40, 1), 1),
        gaussian((1 << 36) + 5, ratio(1 << 41, 3), 1),
        gaussian(1 << 36, ratio(1 << 40, 1), 12),
        gaussian(0, ratio(1, 1), 12),
        PrivacyEvent::Threshold { delta: Delta::from_attos(1_000_000_001).unwrap() },
    ]
}

#[test]
fn recorded_events_cost_as_events_what_they_cost_the_ledger() {
    let delta: Delta = "1e-6".parse().unwrap();
    let mut all = recorded();
    all.push(PrivacyEvent::Composed(recorded()));
    for recorded in all {
        let event = Event::from(&recorded);
        event.validate().unwrap();
        let curve = Curve::of(&event, AddOrRemoveUnit).unwrap();
        let cost = Cost::of(&recorded, delta).unwrap();
        // One number moves by the root of the squared sensitivity rounded down: the curve may be a little below.
        let grid = dither_accounting::ORDERS.iter().zip(cost.renyi_nanos).filter(|(order, _)| order.is_finite());
        for (&order, nanos) in grid {
            let (ours, theirs) = (curve.at(order) * 1e9, nanos as f64);
            assert!(
                ours <= theirs + 2.0 && ours >= theirs * (1.0 - 1e-4) - 2.0,
                "{recorded:?} at {order}: {ours} {theirs}"
            );
        }
        assert!((curve.delta_outside() * 1e18 - cost.threshold_attos as f64).abs() < 1.0);
        if let Some(rdp) = statement(&recorded, delta).unwrap().rdp {
            assert!((curve.epsilon(1e-6) * 1e9 / rdp as f64 - 1.0).abs() < 1e-4 || rdp < 2, "{recorded:?}");
        }
    }
    // The widest numbers: published, or an upper bound.
    let widest =
        PrivacyEvent::Laplace { sensitivity: L1Sensitivity::new(u128::MAX), scale: Ratio::new(1, u128::MAX).unwrap() };
    assert!(Event::from(&widest).validate().is_ok());
    let most = L2Sensitivity::from_squared(u128::MAX);
    let widest =
        PrivacyEvent::Gaussian { sensitivity: most, variance: Ratio::new(1, u128::MAX).unwrap(), coordinates: 1 };
    assert!(Event::from(&widest).validate().is_ok(), "{:?}", Event::from(&widest));
}
