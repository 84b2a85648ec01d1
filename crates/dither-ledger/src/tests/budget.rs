//! Budgets, scopes and limits, one caller at a time.

use dither_accounting::Refusal;
use dither_core::{Audience, Explain};

use super::*;
use crate::Record;

const TENTH: u128 = 100_000_000;

#[tokio::test]
async fn bg_03_an_exhausted_budget_admits_not_even_the_smallest_event() {
    let folder = Folder::new();
    let ledger = with_budget(&folder.ledger(), "1").await;
    ledger.charge(&request("all", "d", 10 * TENTH)).await.unwrap();
    let mut tiny = request("tiny", "d", 1);
    // A scale of 10^30: the loss is 10^-30 and is charged as one nano-unit.
    tiny.event =
        PrivacyEvent::Laplace { sensitivity: L1Sensitivity::new(1), scale: Ratio::new(10u128.pow(30), 1).unwrap() };
    let head = ledger.head().await.unwrap();
    let Err(LedgerError::Refused { refusal: Refusal::BudgetExceeded { requested, remaining }, .. }) =
        ledger.charge(&tiny).await
    else {
        panic!("it was admitted")
    };
    assert_eq!((requested.epsilon_nanos, remaining.epsilon_nanos), (1, 0));
    assert_eq!(ledger.head().await.unwrap(), head);
}

#[tokio::test]
async fn bg_04_ten_tenths_fit_and_the_eleventh_does_not() {
    let folder = Folder::new();
    let ledger = with_budget(&folder.ledger(), "1").await;
    for number in 0..10 {
        ledger.charge(&request(&number.to_string(), "d", TENTH)).await.unwrap();
    }
    let error = ledger.charge(&request("10", "d", TENTH)).await.err().unwrap();
    assert_eq!((error.code(), error.audience()), ("budget-exceeded", Audience::Analyst));
    assert!(error.to_string().contains("`d`") && error.to_string().contains("epsilon 0.1"), "{error}");
    // What was charged is still there.
    charged(ledger.charge(&request("3", "d", TENTH)).await.unwrap());
    assert_eq!(left(&ledger, "d").await, 0);
}

#[tokio::test]
async fn bg_05_a_third_is_charged_rounded_up() {
    let folder = Folder::new();
    let ledger = Ledger::open(folder.ledger()).await.unwrap();
    ledger.declare(&[limit("exact", "1", "0"), limit("grid", "1", "0")]).await.unwrap();
    for number in 0..3 {
        // The noise of the rounded-down request fits three times and leaves what was rounded off.
        ledger.charge(&request(&number.to_string(), "grid", 333_333_333)).await.unwrap();
        // The loss of exactly 1/3 costs one nano-unit more, so the third one does not fit.
        let mut third = request(&number.to_string(), "exact", 1);
        third.event = PrivacyEvent::Laplace { sensitivity: L1Sensitivity::new(1), scale: Ratio::new(3, 1).unwrap() };
        assert_eq!(ledger.charge(&third).await.is_ok(), number < 2);
    }
    assert_eq!((left(&ledger, "grid").await, left(&ledger, "exact").await), (1, 333_333_332));
}

#[tokio::test]
async fn bg_06_the_sum_of_deltas_is_capped() {
    let folder = Folder::new();
    let ledger = with_budget(&folder.ledger(), "1").await;
    for number in 0..5 {
        let mut ask = request(&number.to_string(), "d", 1);
        ask.delta = "3e-7".parse().unwrap();
        ask.event = PrivacyEvent::Composed(vec![laplace(1), PrivacyEvent::Threshold { delta: ask.delta }]);
        assert_eq!(ledger.charge(&ask).await.is_ok(), number < 3, "charge {number}");
    }
    assert_eq!(ledger.remaining(&"d".parse().unwrap()).await.unwrap().delta_attos, 100_000_000_000);
}

#[tokio::test]
async fn bg_08_a_charge_counts_in_all_scopes_or_in_none() {
    let folder = Folder::new();
    for short in ["d", "d/p", "d/p/alice"] {
        let ledger = Ledger::open(folder.0.join(short.replace('/', "-"))).await.unwrap();
        let cap = |path| limit(path, if path == short { "0.1" } else { "1" }, "0");
        ledger.declare(&[cap("d/p/alice"), cap("d"), cap("d/p")]).await.unwrap();
        ledger.charge(&request("first", "d/p/alice", TENTH)).await.unwrap();
        let before = ledger.scopes().await.unwrap();
        assert!(before.iter().all(|scope| u128::from(scope.spent.epsilon_nanos) == TENTH));
        let error = ledger.charge(&request("second", "d/p/alice", TENTH)).await.err().unwrap();
        assert!(matches!(&error, LedgerError::Refused { scope, .. } if scope.as_str() == short), "{error}");
        assert_eq!(ledger.scopes().await.unwrap(), before);
        ledger.verify(None).await.unwrap();
    }
}

#[tokio::test]
async fn bg_14_two_analysts_at_their_caps_meet_the_cap_of_the_data_set() {
    let folder = Folder::new();
    let ledger = Ledger::open(folder.ledger()).await.unwrap();
    ledger.declare(&[limit("d", "1", "0"), limit("d/alice", "1", "0"), limit("d/bob", "1", "0")]).await.unwrap();
    for number in 0..6 {
        ledger.charge(&request(&number.to_string(), "d/alice", TENTH)).await.unwrap();
    }
    for number in 0..10 {
        let admitted = ledger.charge(&request(&number.to_string(), "d/bob", TENTH)).await.is_ok();
        assert_eq!(admitted, number < 4);
    }
    assert_eq!((left(&ledger, "d/alice").await, left(&ledger, "d").await), (0, 0));
}

#[tokio::test]
async fn bg_15_the_clock_changes_nothing() {
    const YEAR: i64 = 31_557_600;
    let folder = Folder::new();
    with_budget(&folder.ledger(), "1").await.close().await;
    let clocks: [fn() -> i64; 4] = [|| 2_000_000_000, || 2_000_000_000 + YEAR, || 2_000_000_000 - YEAR, || i64::MIN];
    for (number, clock) in (1..).zip(clocks) {
        let ledger = with_clock(&folder.ledger(), clock).await;
        ledger.charge(&request(&number.to_string(), "d", TENTH)).await.unwrap();
        assert_eq!(u128::from(left(&ledger, "d").await), (10 - number) * TENTH);
        let entries = ledger.entries(0, 100).await.unwrap();
        assert!(entries.iter().map(|entry| entry.sequence).eq(1..=entries.len() as u64));
        assert_eq!(entries.last().unwrap().time, clock());
        ledger.verify(None).await.unwrap();
    }
}

#[tokio::test]
async fn bg_16_nothing_is_forgotten() {
    let folder = Folder::new();
    let ledger = with_budget(&folder.ledger(), "1").await;
    ledger.charge(&request("one", "d", TENTH)).await.unwrap();
    ledger.declare(&[limit("d", "1", "1e-6")]).await.unwrap();
    assert_eq!(u128::from(left(&ledger, "d").await), 9 * TENTH);
    // A file in the place of the ledger that is not one is refused rather than started afresh.
    ledger.close().await;
    std::fs::write(folder.ledger(), "").unwrap();
    assert!(matches!(Ledger::open(folder.ledger()).await, Err(LedgerError::NotALedger { .. })));
}

#[tokio::test]
async fn bg_18_huge_amounts_are_refused() {
    let folder = Folder::new();
    let ledger = with_budget(&folder.ledger(), "1000000").await;
    ledger.charge(&request("largest", "d", 1_000_000_000_000_000)).await.unwrap();
    for nanos in [1, 1 << 62, 1 << 63, 1 << 64, u128::MAX] {
        assert!(ledger.charge(&request(&nanos.to_string(), "d", nanos)).await.is_err(), "{nanos} was admitted");
    }
    assert_eq!(left(&ledger, "d").await, 0);
    ledger.verify(None).await.unwrap();
}

#[tokio::test]
async fn bg_20_limits_fall_freely_and_rise_with_two_stewards() {
    let folder = Folder::new();
    let ledger = with_budget(&folder.ledger(), "1").await;
    ledger.charge(&request("half", "d", 5 * TENTH)).await.unwrap();

    ledger.declare(&[limit("d", "0.2", "1e-6")]).await.unwrap();
    assert_eq!(left(&ledger, "d").await, 0);
    assert!(ledger.charge(&request("more", "d", 1)).await.is_err());

    for higher in [limit("d", "0.3", "1e-6"), limit("d", "0.1", "2e-6")] {
        let error = ledger.declare(std::slice::from_ref(&higher)).await.unwrap_err();
        assert_eq!(error.code(), "raise-needs-amendment");
        assert!(error.hint().unwrap().contains("epsilon 0.2"));
        for stewards in [vec![], vec!["ann"], vec!["ann", " Ann "], vec!["ann", " "]] {
            let stewards: Vec<String> = stewards.into_iter().map(String::from).collect();
            let error = ledger.amend(&higher, &stewards).await.unwrap_err();
            assert_eq!(error.code(), "stewards-missing");
        }
    }
    let mut other = limit("d", "0.2", "1e-6");
    other.composition = Composition::Renyi;
    assert_eq!(ledger.declare(std::slice::from_ref(&other)).await.unwrap_err().code(), "composition-changed");
    let two = ["ann".to_owned(), "bo".to_owned()];
    assert_eq!(ledger.amend(&other, &two).await.unwrap_err().code(), "composition-changed");

    ledger.amend(&limit("d", "0.6", "1e-6"), &two).await.unwrap();
    assert_eq!(u128::from(left(&ledger, "d").await), TENTH);
    let kinds: Vec<_> = ledger.entries(0, 10).await.unwrap().iter().map(|e| e.record.columns().kind).collect();
    assert_eq!(kinds, ["declare", "charge", "lower", "amend"]);
    ledger.verify(None).await.unwrap();
}

#[tokio::test]
async fn a_scope_needs_the_one_above_it() {
    let folder = Folder::new();
    let ledger = with_budget(&folder.ledger(), "1").await;
    let both = [limit("e", "1", "0"), limit("f/g", "1", "0")];
    let error = ledger.declare(&both).await.unwrap_err();
    assert!(matches!(&error, LedgerError::UnknownScope { scope } if scope.as_str() == "f"), "{error}");
    // Neither was declared.
    assert_eq!(ledger.scopes().await.unwrap().len(), 1);
    let error = ledger.charge(&request("x", "d/nobody", 1)).await.err().unwrap();
    assert_eq!(
        (error.code(), error.hint().unwrap().as_str()),
        ("scope-unknown", "declare [scopes.\"nobody\"] in the policy, inside `d`")
    );
}

#[tokio::test]
async fn a_request_has_one_meaning() {
    let folder = Folder::new();
    let ledger = with_budget(&folder.ledger(), "1").await;
    ledger.declare(&[limit("d/p", "1", "0")]).await.unwrap();
    let first = request("x", "d", 1);
    let charge = charged(ledger.charge(&first).await.unwrap());
    let (event, scope) = (laplace(2), "d/p".parse().unwrap());
    for other in [ChargeRequest { event, ..first.clone() }, ChargeRequest { scope, ..first.clone() }] {
        assert_eq!(ledger.charge(&other).await.err().unwrap().code(), "request-conflict");
    }
    // The answer of another request, and of another ledger, has no charge here.
    let sealed = seal(&first, charge, 1.0);
    let error = ledger.publish(request("y", "d", 1).request, sealed).await.unwrap_err();
    assert_eq!(error.code(), "not-charged");
    let other = with_budget(&folder.0.join("other.db"), "1").await;
    let sealed = seal(&first, charged(other.charge(&first).await.unwrap()), 1.0);
    assert_eq!(ledger.publish(first.request, sealed).await.unwrap_err().code(), "not-charged");
    assert!(ledger.answer::<f64>(first.request).await.unwrap().is_none());
    // What JSON cannot carry back is not stored.
    let sealed = seal(&first, charged(ledger.charge(&first).await.unwrap()), f64::NAN);
    assert_eq!(ledger.publish(first.request, sealed).await.unwrap_err().code(), "ledger-json");
    assert_eq!(ask(&ledger, &first, 2.0).await.unwrap(), 2.0);
    // A long text is refused before anything is charged.
    let label = "x".repeat((1 << 20) + 1);
    assert_eq!(ledger.charge(&ChargeRequest { label, ..first }).await.err().unwrap().code(), "text-too-long");
}

#[tokio::test]
async fn deltas_that_floats_cannot_hold_survive() {
    let folder = Folder::new();
    let ledger = Ledger::open(folder.ledger()).await.unwrap();
    let odd = limit("odd", "999999.999999999", "0.123456789012345677");
    ledger.declare(std::slice::from_ref(&odd)).await.unwrap();
    let head = ledger.head().await.unwrap();
    ledger.declare(std::slice::from_ref(&odd)).await.unwrap();
    assert_eq!(ledger.head().await.unwrap(), head, "the same limit looked different");
    assert!(matches!(&ledger.entries(0, 1).await.unwrap()[0].record, Record::Declare(limit) if *limit == odd));
}

#[tokio::test]
async fn an_export_can_be_checked_by_strangers() {
    let folder = Folder::new();
    let ledger = with_budget(&folder.ledger(), "1").await;
    ask(&ledger, &request("x", "d", 1), 4.5).await.unwrap();
    let mut out = Vec::new();
    ledger.export(&mut out).await.unwrap();
    let lines: Vec<serde_json::Value> = out
        .split(|byte| *byte == b'\n')
        .filter(|l| !l.is_empty())
        .map(|l| serde_json::from_slice(l).unwrap())
        .collect();
    assert_eq!(lines[0], serde_json::json!({ "format": 1, "id": ledger.id() }));
    let mut head = crate::chain::genesis(ledger.id());
    for (sequence, line) in (1..).zip(&lines[1..]) {
        head = crate::chain::link(&head, sequence, line["body"].as_str().unwrap());
        assert_eq!((line["sequence"].as_u64(), line["hash"].as_str()), (Some(sequence), Some(head.as_str())));
    }
    assert_eq!(ledger.head().await.unwrap().head, head);
    assert_eq!(ledger.answer_bytes(request("x", "d", 1).request).await.unwrap().unwrap().bytes(), b"4.5");
}

/// Prints how long things take; run by `cargo test --release -p dither-ledger -- --ignored --nocapture du_13`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn du_13_large_ledgers_open_and_verify_quickly() {
    use std::time::Instant;
    let folder = Folder::new();
    let ledger = with_budget(&folder.ledger(), "1000000").await;
    let start = Instant::now();
    for number in 0..1000 {
        ledger.charge(&request(&format!("single {number}"), "d", 1)).await.unwrap();
    }
    println!("{:.0} charges per second, one after the other", 1000.0 / start.elapsed().as_secs_f64());

    let (count, cost) = (size(100_000, 10_000_000), dither_accounting::Cost::of(&laplace(1), Delta::ZERO).unwrap());
    let mut write = ledger.store.write().await.unwrap();
    for number in 0..count {
        let one = request(&number.to_string(), "d", 1);
        let mut row = crate::ledger::find(&mut write.tx, &one.scope).await.unwrap().unwrap();
        row.spent = row.filter().admit(&row.spent, &cost).unwrap();
        let (request, scope) = (one.request.to_string(), one.scope);
        let record = crate::ChargeRecord { request, key: None, scope, event: one.event, cost, label: one.label };
        let entry = write.append(Record::Charge(record)).await.unwrap();
        crate::declare::update(&mut write, &row, entry.sequence).await.unwrap();
    }
    write.commit().await.unwrap();
    ledger.close().await;

    let start = Instant::now();
    let ledger = Ledger::open_existing(folder.ledger()).await.unwrap();
    println!("{count} entries opened in {:?}", start.elapsed());
    let start = Instant::now();
    ledger.verify(None).await.unwrap();
    println!("and verified in {:?}; the file has {} bytes", start.elapsed(), folder.ledger().metadata().unwrap().len());
}

#[tokio::test]
async fn bg_20_a_lower_limit_is_taken_over_with_a_charge_that_it_admits() {
    let folder = Folder::new();
    let ledger = with_budget(&folder.ledger(), "1").await;
    let current = |scopes: Vec<crate::ScopeStatus>| scopes[0].limit.budget.epsilon.to_string();
    let typo = [limit("d", "0.01", "1e-6")];
    assert!(matches!(ledger.charge_within(&typo, &request("a", "d", TENTH)).await, Err(LedgerError::Refused { .. })));
    assert_eq!(current(ledger.scopes().await.unwrap()), "1", "a refusal changes nothing");
    assert!(ledger.charge_within(&[limit("d", "2", "1e-6")], &request("a", "d", TENTH)).await.is_err());
    assert!(matches!(
        ledger.charge_within(&[limit("d", "0.5", "1e-6")], &request("a", "d", TENTH)).await,
        Ok(Outcome::Charged(_))
    ));
    assert_eq!(current(ledger.scopes().await.unwrap()), "0.5");
    // The lower limit counts for the charge that brings it.
    assert!(ledger.charge_within(&[limit("d", "0.15", "1e-6")], &request("b", "d", TENTH)).await.is_err());
    ledger.verify(None).await.unwrap();
}
