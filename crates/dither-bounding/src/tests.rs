//! The kernel against loops over a map, however the rows are ordered, cut, pruned and spilled.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use proptest::prelude::*;
use sha2::{Digest, Sha256};

use crate::{
    Buckets, Columns, DROPPED, Dictionary, KeyedHash, Layout, Limits, Mapping, NULL, Names, Owners, Pairs, Part, Rows,
    Rule, Scratch, Share, Square, Units,
};
use crate::{Totals, bound};

const SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const KEYS: [Option<&str>; 4] = [Some("a"), Some("été"), None, Some("")];

#[derive(Debug, Clone)]
struct Row {
    unit: i64,
    key: u32,
    summed: Option<i64>,
    tallied: Option<i64>,
}

fn row() -> impl Strategy<Value = Row> {
    // One unit owns about half of all rows.
    let unit = prop_oneof![Just(7_i64), Just(7), -3..6_i64, any::<i64>()];
    let summed = proptest::option::of(prop_oneof![-5..5_i64, Just(1 << 53), Just(-(1 << 53))]);
    (unit, 0..KEYS.len() as u32, summed, proptest::option::of(0..3_i64)).prop_map(|(unit, key, summed, tallied)| Row {
        unit,
        key,
        summed,
        tallied,
    })
}

fn limits() -> impl Strategy<Value = Limits> {
    let limit = || proptest::option::of((1..4_u32).prop_map(|limit| NonZeroU32::new(limit).unwrap()));
    (limit(), limit()).prop_map(|(rows, groups)| Limits { max_rows_per_group: rows, max_groups_per_unit: groups })
}

/// Units and rows, sum and count, tally, squares of the totals of units: by key.
type Expected = BTreeMap<u32, (i64, i64, i128, i64, BTreeMap<i64, u64>, [i128; 3])>;

/// The column of sums, with its ends.
const SQUARE: Square = Square { column: 0, lower: -(1 << 53), upper: 1 << 53 };

/// What is kept, by whole digests and sorted lists.
fn naive(rows: &[Row], limits: Limits, texts: bool) -> Expected {
    let digest =
        |purpose: &str, parts: &[String]| Sha256::digest(format!("{SECRET} {purpose}{}", parts.concat()).as_bytes());
    let integer = |value: Option<i64>| value.map_or("N".into(), |value| format!(" {value}"));
    let name = |key: u32| match KEYS[key as usize] {
        None => "N".to_owned(),
        Some(text) => format!(" {}:{text}", text.chars().count()),
    };
    let mut units: BTreeMap<i64, BTreeMap<u32, Vec<&Row>>> = BTreeMap::new();
    for row in rows {
        units.entry(row.unit).or_default().entry(row.key).or_default().push(row);
    }
    let mut expected = Expected::new();
    for (unit, groups) in units {
        let unit = if texts { format!(" {}:{unit}", unit.to_string().len()) } else { integer(Some(unit)) };
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(key, _)| digest("group", &[unit.clone(), name(*key)]));
        groups.truncate(limits.max_groups_per_unit.map_or(usize::MAX, |limit| limit.get() as usize));
        for (key, mut rows) in groups {
            let texts =
                |row: &&Row| digest("row", &[unit.clone(), name(key), integer(row.summed), integer(row.tallied)]);
            rows.sort_by_key(texts);
            rows.truncate(limits.max_rows_per_group.map_or(usize::MAX, |limit| limit.get() as usize));
            let entry = expected.entry(key).or_default();
            entry.0 += 1;
            let present: Vec<i128> = rows.iter().filter_map(|row| row.summed).map(i128::from).collect();
            let a: i128 = present.iter().map(|value| i128::from(SQUARE.upper) - value).sum();
            let b: i128 = present.iter().map(|value| value - i128::from(SQUARE.lower)).sum();
            entry.5.iter_mut().zip([a * a, a * b, b * b]).for_each(|(total, square)| *total += square);
            for row in rows {
                entry.1 += 1;
                entry.2 += i128::from(row.summed.unwrap_or(0));
                entry.3 += i64::from(row.summed.is_some());
                if let Some(value) = row.tallied {
                    *entry.4.entry(value).or_default() += 1;
                }
            }
        }
    }
    expected
}

fn found(totals: &Totals) -> Expected {
    let mut found = Expected::new();
    for key in (0..totals.keys()).filter(|key| totals.rows(*key) > 0) {
        let (sum, count) = totals.sum(key, 0);
        let tally = totals.tally(0).iter().filter(|((k, _), _)| *k as usize == key);
        let tally = tally.map(|((_, value), count)| (*value, *count)).collect();
        let squares = totals.squares(key, 0);
        found.insert(key as u32, (totals.units(key), totals.rows(key), sum, count, tally, squares));
    }
    found
}

struct Setting {
    group_hash: KeyedHash,
    row_hash: KeyedHash,
    keys: Dictionary,
    values: [Names; 2],
    layout: Arc<Layout>,
}

impl Setting {
    fn new() -> Self {
        let mut keys = Dictionary::default();
        KEYS.iter().for_each(|key| keys.push([key.map_or(Part::Null, Part::Text)]));
        let (group_hash, row_hash) = (KeyedHash::new(SECRET, "group"), KeyedHash::new(SECRET, "row"));
        let values = [Names::Integers, Names::Integers];
        // Sums in eight bytes, tallies in one.
        let layout = Arc::new(Layout::new(Some(KEYS.len()), [None, Some((0, 2))]));
        Self { group_hash, row_hash, keys, values, layout }
    }

    fn rule(&self, limits: Limits) -> Rule<'_> {
        let Self { group_hash, row_hash, keys, values, layout } = self;
        Rule { limits, group_hash, row_hash, keys, layout, values }
    }
}

/// Adds rows, their units as integers or as the texts of these.
fn push(buckets: &mut Buckets, rows: &[Row], texts: bool) {
    let units: Vec<u64> = rows.iter().map(|row| row.unit as u64).collect();
    let names: Vec<String> = rows.iter().map(|row| row.unit.to_string()).collect();
    // A hash on which many texts agree.
    let hashes: Vec<u64> = names.iter().map(|name| name.len() as u64).collect();
    let keys: Vec<u32> = rows.iter().map(|row| row.key).collect();
    let column = |value: fn(&Row) -> Option<i64>| rows.iter().map(|row| value(row).unwrap_or(NULL)).collect();
    let units = match texts {
        true => Units::Texts { hashes: &hashes, text: &|row| &names[row] },
        false => Units::Integers(&units),
    };
    buckets.push(units, &keys, &[column(|row| row.summed), column(|row| row.tallied)]);
}

/// The totals of the rows of several readers, bounded share by share.
fn total(readers: &[Buckets], rule: &Rule<'_>, shares: u64) -> Totals {
    let mut totals = Totals::new(Columns { summed: 1, tallied: 1 }, Arc::new([SQUARE]), KEYS.len());
    let mapping = Mapping::new((0..KEYS.len() as u32).collect(), vec![None, None]);
    let mut scratch = Scratch::default();
    for (bucket, number) in (0..Buckets::COUNT).flat_map(|bucket| (0..shares).map(move |number| (bucket, number))) {
        let mut rows = Rows::default();
        let share = Share { number, of: shares };
        readers.iter().for_each(|reader| reader.collect(bucket, &mapping, share, &mut rows, |_| {}).unwrap());
        bound(&rows, rule, &mut scratch, &mut totals);
    }
    totals
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_kernel_gives_the_integers_of_loops_over_a_map(
        rows in proptest::collection::vec(row(), 0..60),
        limits in limits(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
        spill in proptest::collection::vec(any::<(bool, bool)>(), 5),
        texts in any::<bool>(),
        shares in 1..4_u64,
    ) {
        let (setting, expected) = (Setting::new(), naive(&rows, limits, texts));
        let rule = setting.rule(limits);
        let mut readers = vec![Buckets::new(Arc::clone(&setting.layout)), Buckets::new(Arc::clone(&setting.layout))];
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(rows.len() + 1)).collect();
        places.extend([0, rows.len()]);
        places.sort_unstable();
        for (part, ends) in places.windows(2).enumerate() {
            let reader = &mut readers[part % 2];
            push(reader, &rows[ends[0]..ends[1]], texts);
            if spill[part].0 {
                reader.prune(&rule, &mut Scratch::default());
            }
            if spill[part].1 {
                reader.spill(&setting.row_hash).unwrap();
            }
        }
        prop_assert_eq!(found(&total(&readers, &rule, shares)), expected);
    }
}

proptest! {
    #[test]
    fn owners_are_those_of_a_map(
        pairs in proptest::collection::vec((prop_oneof![-9..9_i64, any::<i64>(), Just(i64::MIN), Just(i64::MAX)], prop_oneof![0..2_u64, Just(u64::MAX)]), 0..40),
        others in proptest::collection::vec(any::<i64>(), 10),
        narrow in any::<bool>(),
    ) {
        let narrowed = |(key, unit): (i64, u64)| if narrow { (key.rem_euclid(1 << 32), unit % 5) } else { (key, unit) };
        let pairs: Vec<(i64, u64)> = pairs.into_iter().map(narrowed).collect();
        let mut map: BTreeMap<i64, u64> = BTreeMap::new();
        let several = pairs.iter().any(|(key, unit)| map.insert(*key, *unit).is_some_and(|other| other != *unit));
        let owners = Owners::new(pairs.iter().copied().collect());
        let fits = |(key, unit): &(i64, u64)| u32::try_from(*key).is_ok() && u32::try_from(*unit).is_ok();
        prop_assert_eq!(matches!(Pairs::from_iter(pairs.iter().copied()), Pairs::Narrow(_)), pairs.iter().all(fits));
        prop_assert_eq!(owners.is_none(), several);
        if let Some(owners) = owners {
            for key in pairs.iter().map(|pair| pair.0).chain(others).chain(-10..10) {
                prop_assert_eq!(owners.of(key), map.get(&key).copied());
            }
        }
    }
}

/// The control: the comparison sees a limit that is not enforced.
#[test]
fn the_comparison_catches_a_limit_that_is_not_enforced() {
    let rows: Vec<Row> = (0..20).map(|n| Row { unit: 7, key: n % 4, summed: Some(1), tallied: None }).collect();
    let one = NonZeroU32::new(1);
    let none = Limits { max_rows_per_group: None, max_groups_per_unit: None };
    let setting = Setting::new();
    let mut reader = Buckets::new(Arc::clone(&setting.layout));
    push(&mut reader, &rows, false);
    for limits in [Limits { max_rows_per_group: one, ..none }, Limits { max_groups_per_unit: one, ..none }] {
        let honest = naive(&rows, limits, false);
        assert_eq!(found(&total(std::slice::from_ref(&reader), &setting.rule(limits), 1)), honest);
        assert_ne!(found(&total(std::slice::from_ref(&reader), &setting.rule(none), 1)), honest);
    }
}

#[test]
fn dropped_keys_and_renamed_numbers_leave_no_trace() {
    let layout = Layout::new(None, [Some((0, 9)), None]);
    let mut rows = Rows::default();
    rows.push(&layout, 0, 0, [5, 1].into_iter());
    rows.push(&layout, 1, 1, [6, NULL].into_iter());
    let mapping = Mapping::new(vec![DROPPED, 3], vec![None, Some(vec![8, 9])]);
    let mut renamed = Rows::default();
    renamed.append(&rows, &layout, &mapping, Share::ALL);
    assert_eq!((renamed.len(), renamed.unit(0, &layout), renamed.key(0, &layout)), (1, 1, 3));
    assert_eq!(layout.read(renamed.row(0, &layout)).collect::<Vec<_>>(), [6, NULL]);
}

#[test]
fn totals_of_rows_that_are_units_add_up_in_any_cut() {
    let columns = Columns { summed: 1, tallied: 1 };
    let (keys, values) = ([0, 1, 1, 0], [vec![1, NULL, 1 << 53, -7], vec![NULL, 2, 2, 0]]);
    let mut whole = Totals::new(columns, Arc::default(), 2);
    whole.add_rows(&keys, &values);
    let mut parts = Totals::new(columns, Arc::default(), 2);
    for half in [0..2, 2..4] {
        let mut part = Totals::new(columns, Arc::default(), 2);
        part.add_rows(&keys[half.clone()], &[values[0][half.clone()].to_vec(), values[1][half].to_vec()]);
        parts.merge(&part, &[0, 1], &[None, None]);
    }
    assert_eq!(whole, parts);
    assert_eq!((whole.sum(0, 0), whole.sum(1, 0)), ((-6, 2), (1 << 53, 1)));
}

/// However many keys there are, and wherever NULLs stand, rows that are units add up to what a loop over them says.
#[test]
fn totals_of_rows_that_are_units_are_those_of_a_loop() {
    let columns = Columns { summed: 2, tallied: 0 };
    for (count, nulls) in [(1_u32, 3), (2, 0), (2, 5), (128, 0), (128, 700), (129, 4)] {
        let keys: Vec<u32> = (0..2_000_u32).map(|row| row.wrapping_mul(2_654_435_761) % count).collect();
        let value = |row: i64| if nulls > 0 && row % nulls == 1 { NULL } else { (1 << 53) - row * 7 };
        let values = [(0..2_000).map(value).collect::<Vec<i64>>(), (0..2_000).map(|row| -(1 << 53) + row).collect()];
        let mut totals = Totals::new(columns, Arc::default(), count as usize);
        totals.add_rows(&keys, &values);
        for key in 0..count {
            let of = |column: usize| {
                let own = keys.iter().zip(&values[column]).filter(|(k, value)| **k == key && **value != NULL);
                own.fold((0_i128, 0_i64), |(sum, count), (_, value)| (sum + i128::from(*value), count + 1))
            };
            let rows = keys.iter().filter(|k| **k == key).count() as i64;
            let key = key as usize;
            assert_eq!(
                (totals.rows(key), totals.sum(key, 0), totals.sum(key, 1)),
                (rows, of(0), of(1)),
                "{count} {nulls}"
            );
        }
    }
}

/// The padding done by hand is that of the standard, in one block and in several, for every secret and text.
#[test]
fn the_keyed_hash_is_sha_256() {
    let text = [b'x'; 200];
    for prefix in ["", SECRET, &SECRET[..50]] {
        let hash = KeyedHash::new(prefix, "row");
        for length in 0..text.len() {
            let digest = Sha256::digest([format!("{prefix} row").as_bytes(), &text[..length]].concat());
            assert_eq!(hash.of(&text[..length]).to_be_bytes(), digest[..16], "{prefix} and {length} bytes");
        }
    }
}
