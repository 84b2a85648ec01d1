//! Attacks on the shape of an answer.

use dither_core::{GateError, Mechanism, Neighbors, PrivacyEvent};
use dither_testing::StubBytes;
use proptest::prelude::*;

use super::*;
use crate::{MaxSensitivity, NoisyTable, Selection, Threshold, TopK};

fn count() -> Noise {
    Noise::Laplace(laplace(1, "0.5"))
}

fn keys(table: &NoisyTable) -> Vec<String> {
    table.rows.iter().map(|row| row.key.iter().map(Key::to_string).collect()).collect()
}

#[test]
fn sq_06_public_keys_appear_exactly_and_in_their_order() {
    let table = || ExactTable { rows: vec![row("b", &[7], 7), row("a", &[3], 3), row("zzz-absent", &[0], 0)] };
    let mechanism = column(count(), KeyRule::Public);
    let mut source = Seeded::new(30);
    let noisy: Vec<NoisyTable> = (0..100).map(|_| mechanism.add_noise(table(), &mut source).unwrap()).collect();
    assert!(noisy.iter().all(|table| keys(table) == ["b", "a", "zzz-absent"]));
    assert!(noisy.iter().any(|table| table.rows[2].values[0] != 0), "absent keys get noise");
    let first = noisy[0].rows[2].values[0];
    assert!(noisy.iter().any(|table| table.rows[2].values[0] != first), "and fresh noise every time");
}

#[test]
fn sq_07_an_empty_table_answers_with_one_noisy_number() {
    let mechanism = column(count(), KeyRule::Public);
    for exact in [0, 1] {
        let table = ExactTable {
            rows: vec![ExactRow { key: Vec::new(), values: vec![exact], units: 0, histograms: Vec::new() }],
        };
        let noisy = mechanism.add_noise(table, &mut Seeded::new(31)).unwrap();
        assert_eq!((noisy.rows.len(), noisy.rows[0].values.len()), (1, 1));
    }
}

#[test]
fn rows_that_pass_the_threshold_keep_their_order() {
    let rule =
        Threshold::for_epsilon(groups(1), Neighbors::AddOrRemoveUnit, epsilon("1"), "1e-9".parse().unwrap()).unwrap();
    let rows = vec![row("d", &[1], 1_000), row("c", &[1], 1), row("b", &[1], 1_000), row("a", &[1], 0)];
    let noisy = column(count(), KeyRule::Threshold(rule)).add_noise(ExactTable { rows }, &mut Seeded::new(32)).unwrap();
    assert_eq!(keys(&noisy), ["d", "b"]);
}

#[test]
fn sq_32_every_block_and_the_key_rule_are_charged() {
    let (sum, pair) = (Noise::Gaussian(gaussian(9, (100, 1))), Noise::Laplace(laplace(13, "0.25")));
    let rule =
        Threshold::for_epsilon(groups(2), Neighbors::AddOrRemoveUnit, epsilon("1"), "1e-9".parse().unwrap()).unwrap();
    let blocks = vec![Block { width: 1, noise: sum }, Block { width: 2, noise: pair }];
    let mechanism = TableMechanism { blocks, quantiles: Vec::new(), found: Vec::new(), keys: KeyRule::Threshold(rule) };
    assert_eq!(mechanism.event(), PrivacyEvent::Composed(vec![sum.event(), pair.event(), rule.event()]));
}

#[test]
fn cells_of_a_block_get_independent_noise() {
    let blocks = vec![Block { width: 2, noise: Noise::Laplace(laplace(1_000_000, "0.1")) }];
    let mechanism = TableMechanism { blocks, quantiles: Vec::new(), found: Vec::new(), keys: KeyRule::Public };
    let table = ExactTable { rows: vec![row("a", &[0, 0], 0), row("b", &[0, 0], 0)] };
    let mut cells: Vec<i128> =
        mechanism.add_noise(table, &mut Seeded::new(33)).unwrap().rows.into_iter().flat_map(|row| row.values).collect();
    cells.sort_unstable();
    cells.dedup();
    assert_eq!(cells.len(), 4);
}

#[test]
fn a_row_of_the_wrong_width_fails_and_does_not_panic() {
    let mechanism = column(count(), KeyRule::Public);
    for values in [vec![], vec![1, 2]] {
        let table = ExactTable { rows: vec![row("a", &[1], 1), row("b", &values, 1)] };
        assert_eq!(mechanism.add_noise(table, &mut Seeded::new(34)), Err(GateError::Failed));
    }
}

#[test]
fn se_02_no_exact_value_fails_or_wraps() {
    for noise in [count(), Noise::Gaussian(gaussian(1, (1, 3)))] {
        for exact in [i128::MIN, i128::MIN + 1, -(1 << 120), 1 << 120, i128::MAX] {
            let noisy = answers(noise, exact, 1_000, &mut Seeded::new(35));
            assert!(noisy.iter().all(|y| y.signum() == exact.signum()), "{exact} wrapped");
        }
    }
}

#[test]
fn fp_08_a_broken_generator_releases_nothing_or_ends() {
    for noise in [count(), Noise::Gaussian(gaussian(1, (100, 1)))] {
        let mechanism = column(noise, KeyRule::Public);
        let apply = |stub| mechanism.add_noise(ExactTable { rows: vec![row("a", &[5], 5)] }, &mut Stub(stub));
        for stub in StubBytes::ALL {
            let _ = apply(stub);
        }
        assert_eq!(apply(StubBytes::Failing), Err(GateError::Failed));
        assert_eq!(apply(StubBytes::Constant(0)), Err(GateError::Failed), "zeros are not noise");
    }
}

#[test]
fn exact_tables_print_nothing() {
    let table = ExactTable { rows: vec![row("secret", &[42], 42)] };
    assert_eq!(format!("{table:?} {:?}", table.rows[0]), "ExactTable(..) ExactRow(..)");
}

#[test]
fn the_best_keys_are_kept_in_their_order_and_each_choice_is_charged() {
    let each = Selection::new(groups(4), MaxSensitivity::monotone(1), epsilon("50")).unwrap();
    let top = TopK::new(each, groups(3)).unwrap();
    let mechanism =
        TableMechanism { blocks: Vec::new(), quantiles: Vec::new(), found: Vec::new(), keys: KeyRule::Top(top) };
    let one = PrivacyEvent::BoundedRange { epsilon: epsilon("50") };
    assert_eq!(mechanism.event(), PrivacyEvent::Composed(vec![PrivacyEvent::Composed(vec![one; 3])]));
    let table = || ExactTable { rows: vec![row("b", &[], 7), row("a", &[], 30), row("d", &[], 0), row("c", &[], 11)] };
    let noisy = mechanism.add_noise(table(), &mut Seeded::new(36)).unwrap();
    assert_eq!(keys(&noisy), ["a", "c", "b"], "at so large an epsilon there is no doubt");
    assert_eq!(noisy.rows.iter().map(|row| row.values[0]).collect::<Vec<_>>(), [3, 2, 1]);
    // At a small one any key may come first; a table with another number of keys is refused.
    let each = Selection::new(groups(4), MaxSensitivity::monotone(1), epsilon("0.01")).unwrap();
    let doubtful = TableMechanism { keys: KeyRule::Top(TopK::new(each, groups(1)).unwrap()), ..mechanism };
    let first = |seed| keys(&doubtful.add_noise(table(), &mut Seeded::new(seed)).unwrap())[0].clone();
    assert_eq!((0..100).map(first).collect::<std::collections::BTreeSet<_>>().len(), 4);
    let short = ExactTable { rows: vec![row("a", &[], 1)] };
    assert_eq!(doubtful.add_noise(short, &mut Seeded::new(37)), Err(GateError::Failed));
}

proptest! {
    #[test]
    fn noisy_tables_round_trip_through_json(
        values in proptest::collection::vec(any::<i128>(), 0..4),
        ends in proptest::option::of([-1_328_i64..=1_328, -1_328_i64..=1_328]),
    ) {
        let bounds = ends.iter().map(|ends| serde_json::from_value(serde_json::json!(ends)).unwrap()).collect();
        let table = NoisyTable { rows: vec![crate::NoisyRow { key: vec![Key::Integer(3), Key::Null], values }], bounds };
        let json = serde_json::to_string(&table).unwrap();
        prop_assert_eq!(json.contains("bounds"), ends.is_some(), "without bounds the form is that of older ledgers");
        prop_assert_eq!(serde_json::from_str::<NoisyTable>(&json).unwrap(), table);
    }
}
