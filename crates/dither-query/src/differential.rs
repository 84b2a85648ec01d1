//! The strongest test of the portable half: on random questions and neighbouring tables, the exact integers differ by
//! no more than the plan claims, and they are those of a naive reference in plain Rust, bit for bit.
//!
//! The short form runs 10,000 pairs of tables. `cargo xtask long neighbours` is the long one; `DITHER_PAIRS` and
//! `DITHER_SEED` set another size and another seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::datasource::MemTable;
use dither_core::{ContributionBounds, Key};
use dither_mechanisms::{ExactTable, KeyRule, Noise};
use sha2::{Digest, Sha256};

use crate::engine::{LocalEngine, exact};
use crate::plan::{Measure, MechanismChoice, QueryPlan, price, shape};
use crate::policy::Policy;

/// A row: unit, g, h, x, y.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    unit: Option<i64>,
    g: Option<&'static str>,
    h: Option<i64>,
    x: Option<i64>,
    y: Option<f64>,
}

/// A small generator of its own (SplitMix64), so that a seed means the same everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn of<T: Clone>(&mut self, options: &[T]) -> T {
        options[self.below(options.len() as u64) as usize].clone()
    }
}

const GROUPS: [&str; 4] = ["a", "b", "c", "zz"];

fn policy(unit: &str, groups: u32, rows: u32) -> Policy {
    let bounds = match unit {
        "\"row\"" => String::new(),
        _ => format!("max_groups_per_unit = {groups}\nmax_rows_per_group = {rows}"),
    };
    let text = format!(
        r#"
        dataset = "test"
        [budget]
        epsilon = 100
        delta = 0.1
        [tables.t]
        source = "t.csv"
        privacy_unit = {unit}
        {bounds}
        [tables.t.columns]
        u = {{ type = "integer" }}
        g = {{ type = "text", keys = ["b", "a", "absent"] }}
        free = {{ type = "text", name_in_source = "g2" }}
        h = {{ type = "integer" }}
        x = {{ type = "integer", bounds = [-3, 50] }}
        y = {{ type = "number", bounds = [0, 1], step = 0.25 }}
        "#
    );
    Policy::from_toml(&text, ".").unwrap()
}

fn rows(random: &mut Random) -> Vec<Row> {
    let units = 1 + random.below(6) as i64;
    let count = random.below(40);
    let whale = random.below(3) == 0;
    (0..count)
        .map(|_| Row {
            // One unit may own half of all rows; some rows have no unit.
            unit: match random.below(12) {
                0 => None,
                n if whale && n % 2 == 0 => Some(0),
                _ => Some(random.below(units as u64) as i64),
            },
            g: (random.below(8) > 0).then(|| random.of(&GROUPS)),
            h: (random.below(8) > 0).then(|| random.below(3) as i64),
            x: random.of(&[None, Some(-7), Some(0), Some(1), Some(42), Some(50), Some(i64::MAX), Some(i64::MIN)]),
            y: random.of(&[None, Some(0.1), Some(0.5), Some(f64::NAN), Some(f64::INFINITY), Some(-0.0), Some(-1e308)]),
        })
        .collect()
}

fn provider(rows: &[Row], partitions: usize) -> Arc<MemTable> {
    let schema = Arc::new(Schema::new(vec![
        Field::new("u", DataType::Int64, true),
        Field::new("g", DataType::Utf8, true),
        Field::new("free", DataType::Utf8, true),
        Field::new("h", DataType::Int64, true),
        Field::new("x", DataType::Int64, true),
        Field::new("y", DataType::Float64, true),
    ]));
    let batch = |rows: &[Row]| {
        RecordBatch::try_new(
            Arc::clone(&schema),
            vec![
                Arc::new(rows.iter().map(|row| row.unit).collect::<Int64Array>()),
                Arc::new(rows.iter().map(|row| row.g).collect::<StringArray>()),
                Arc::new(rows.iter().map(|row| row.g).collect::<StringArray>()),
                Arc::new(rows.iter().map(|row| row.h).collect::<Int64Array>()),
                Arc::new(rows.iter().map(|row| row.x).collect::<Int64Array>()),
                Arc::new(rows.iter().map(|row| row.y).collect::<Float64Array>()),
            ],
        )
        .unwrap()
    };
    let chunk = rows.len().div_ceil(partitions).max(1);
    let mut parts: Vec<Vec<RecordBatch>> = rows.chunks(chunk).map(|rows| vec![batch(rows)]).collect();
    if parts.is_empty() {
        parts.push(vec![batch(&[])]);
    }
    Arc::new(MemTable::try_new(schema, parts).unwrap())
}

/// A random question over the columns of the policy.
fn question(random: &mut Random, row_unit: bool) -> String {
    let aggregates = [
        "COUNT(*)",
        "COUNT(x)",
        "SUM(x)",
        "AVG(x)",
        "AVG(y)",
        "SUM(y)",
        "SUM(x * 2 + 1)",
        "COUNT(DISTINCT u)",
        "SUM(CASE WHEN h = 1 THEN x ELSE 0 END)",
        "SUM(x, contribution_bounds_per_row => (0, 10))",
        "COUNT(*) FILTER (WHERE h > 0)",
        "SUM(ABS(y))",
    ];
    let mut chosen = BTreeSet::new();
    for _ in 0..=random.below(3) {
        let aggregate = random.of(&aggregates);
        if !(row_unit && aggregate.contains("DISTINCT")) {
            chosen.insert(aggregate);
        }
    }
    if chosen.is_empty() {
        chosen.insert("COUNT(*)");
    }
    let keys = random.of(&["", "", "g", "free", "h", "g, h", "CASE WHEN h > 1 THEN 'big' ELSE 'small' END"]);
    let filter = random.of(&["", "", " WHERE x > 0", " WHERE h = 1 OR g = 'a'", " WHERE 1 / (x - 42) >= 0"]);
    let list = chosen.into_iter().collect::<Vec<_>>().join(", ");
    match keys {
        "" => format!("SELECT {list} FROM t{filter}"),
        keys => format!("SELECT {keys}, {list} FROM t{filter} GROUP BY {keys}"),
    }
}

async fn plan(sql: &str, policy: &Policy) -> QueryPlan {
    let (shape, _) = shape(sql, policy).await.unwrap_or_else(|refusal| panic!("{sql}: {refusal}"));
    price(shape, "1".parse().unwrap(), "1e-3".parse().unwrap(), MechanismChoice::Laplace).unwrap()
}

async fn integers(plan: &QueryPlan, rows: &[Row], partitions: usize) -> ExactTable {
    static ENGINES: LazyLock<[LocalEngine; 3]> = LazyLock::new(|| [1, 2, 4].map(LocalEngine::new));
    let engine = &ENGINES[partitions.min(3) - 1];
    let table: crate::source::Table = provider(rows, partitions);
    let tables = BTreeMap::from([("t".to_owned(), table)]);
    exact(plan, &tables, "secret", engine).await.unwrap_or_else(|error| panic!("{:?}", error.0))
}

/// By how much two exact tables differ in each block: the l1 norm and the squared l2 norm, and in how many keys.
fn distance(plan: &QueryPlan, one: &ExactTable, two: &ExactTable) -> (Vec<(u128, u128)>, u128) {
    let width: usize = plan.measures.iter().map(Measure::width).sum();
    let index = |table: &ExactTable| -> BTreeMap<String, (Vec<i128>, i64)> {
        let rows = table.rows.iter();
        rows.map(|row| (serde_json::to_string(&row.key).unwrap(), (row.values.clone(), row.units))).collect()
    };
    let (one, two) = (index(one), index(two));
    let keys: BTreeSet<&String> = one.keys().chain(two.keys()).collect();
    let absent = (vec![0; width], 0);
    let mut blocks = vec![(0, 0); plan.measures.len()];
    let mut changed = 0;
    for key in keys {
        let ((a, units_a), (b, units_b)) = (one.get(key).unwrap_or(&absent), two.get(key).unwrap_or(&absent));
        changed += u128::from(units_a.abs_diff(*units_b));
        let mut column = 0;
        for (block, measure) in plan.measures.iter().enumerate() {
            for _ in 0..measure.width() {
                let difference = a[column].abs_diff(b[column]);
                blocks[block].0 += difference;
                blocks[block].1 += difference * difference;
                column += 1;
            }
        }
    }
    (blocks, changed)
}

/// Whether two tables differ by more than the plan claims.
pub(crate) fn violates(plan: &QueryPlan, one: &ExactTable, two: &ExactTable) -> bool {
    let (blocks, changed) = distance(plan, one, two);
    let over = plan.measures.iter().zip(&plan.mechanism.blocks).zip(blocks).any(|((measure, block), (l1, l2))| {
        let (claimed, euclid) = plan.sensitivity(measure).unwrap();
        let Noise::Laplace(laplace) = block.noise else { panic!("Laplace was asked for") };
        assert_eq!(laplace.sensitivity(), claimed, "the noise reads the sensitivity of the plan");
        l1 > claimed.steps() || l2 > euclid.squared()
    });
    let keys = match &plan.mechanism.keys {
        KeyRule::Public => false,
        KeyRule::Threshold(rule) => changed > u128::from(rule.max_groups_per_unit().get()),
    };
    over || keys
}

/// The same integers by loops over a map.
fn reference(sql: &str, plan: &QueryPlan, rows: &[Row], secret: &str) -> Option<BTreeMap<Option<String>, i128>> {
    // Counting rows by g or h covers the choice of rows and groups; values are covered by the distances.
    let key: fn(&Row) -> Option<Option<String>> = match sql {
        "SELECT g, COUNT(*) FROM t GROUP BY g" => {
            |row| row.g.filter(|g| ["a", "b", "absent"].contains(g)).map(|g| Some(g.to_owned()))
        }
        "SELECT h, COUNT(*) FROM t GROUP BY h" => |row| Some(row.h.map(|h| h.to_string())),
        "SELECT COUNT(*) FROM t" => |_| Some(Some("all".to_owned())),
        _ => return None,
    };
    let hash = |purpose: &str, parts: &[Option<&str>]| {
        let mut text = format!("{secret} {purpose}");
        for part in parts {
            text += &part.map_or("N".into(), |part| format!(" {}:{part}", part.chars().count()));
        }
        Sha256::digest(text.as_bytes())
    };
    let bounds = plan.bounds;
    let mut units: BTreeMap<i64, BTreeMap<Option<String>, u32>> = BTreeMap::new();
    for row in rows {
        if let (Some(unit), Some(key)) = (row.unit, key(row)) {
            *units.entry(unit).or_default().entry(key).or_default() += 1;
        }
    }
    let mut totals: BTreeMap<Option<String>, i128> = BTreeMap::new();
    for (unit, groups) in units {
        let mut kept: Vec<(Option<String>, u32)> = groups.into_iter().collect();
        kept.sort_by_key(|(key, _)| hash("group", &[Some(&unit.to_string()), key.as_deref()]));
        // Three public groups are never more than a bound of three.
        if sql.contains("GROUP BY") {
            kept.truncate(bounds.max_groups_per_unit.get() as usize);
        }
        for (key, count) in kept {
            *totals.entry(key).or_default() += i128::from(count.min(bounds.max_rows_per_group.get()));
        }
    }
    Some(totals)
}

pub(crate) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::test(flavor = "multi_thread")]
async fn se_14_and_sq_17_neighbouring_tables_differ_by_no_more_than_the_plan_claims() {
    let (wanted, seed) = (setting("DITHER_PAIRS", 10_000), setting("DITHER_SEED", 20_261_130));
    let workers = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let tasks: Vec<_> = (0..workers)
        .map(|worker| tokio::spawn(compare_pairs(wanted.div_ceil(workers), seed.wrapping_add(worker << 32))))
        .collect();
    let mut pairs = 0;
    for task in tasks {
        pairs += task.await.unwrap();
    }
    assert!(pairs >= wanted);
    println!("{pairs} pairs, seed {seed}: no violation");
}

/// Compares so many pairs of random neighbouring tables.
async fn compare_pairs(wanted: u64, seed: u64) -> u64 {
    let mut random = Random(seed);
    let mut pairs = 0;
    while pairs < wanted {
        let row_unit = random.below(5) == 0;
        let unit = if row_unit { "\"row\"" } else { "{ column = \"u\" }" };
        let policy = policy(unit, 1 + random.below(3) as u32, 1 + random.below(4) as u32);
        let sql = question(&mut random, row_unit);
        let plan = plan(&sql, &policy).await;
        let table = rows(&mut random);
        let partitions = 1 + random.below(3) as usize;
        let whole = integers(&plan, &table, partitions).await;
        let neighbours: Vec<Vec<Row>> = if row_unit {
            (0..table.len().min(6)).map(|skip| [&table[..skip], &table[skip + 1..]].concat()).collect()
        } else {
            let units: BTreeSet<_> = table.iter().filter_map(|row| row.unit).collect();
            let without = |unit| table.iter().filter(|row| row.unit != Some(unit)).cloned().collect();
            units.into_iter().map(without).collect()
        };
        for neighbour in neighbours {
            let less = integers(&plan, &neighbour, 1).await;
            assert!(!violates(&plan, &whole, &less), "seed {seed}, pair {pairs}: {sql}\n{table:?}\n{neighbour:?}");
            pairs += 1;
        }
    }
    pairs
}

/// The control: bounds that are not enforced must be caught by the same comparison.
#[tokio::test]
async fn the_comparison_catches_a_bound_that_is_not_enforced() {
    let mut random = Random(7);
    let policy = policy("{ column = \"u\" }", 1, 1);
    let sql = "SELECT free, COUNT(*), AVG(x) FROM t GROUP BY free";
    let honest = plan(sql, &policy).await;
    let mut mutant = honest.clone();
    let two = std::num::NonZeroU32::new(2).unwrap();
    mutant.shape.bounds = ContributionBounds { max_groups_per_unit: two, max_rows_per_group: two };
    let mut caught = (false, false);
    for _ in 0..50 {
        let table = rows(&mut random);
        let without: Vec<Row> = table.iter().filter(|row| row.unit != Some(0)).cloned().collect();
        let (whole, less) = (integers(&mutant, &table, 1).await, integers(&mutant, &without, 1).await);
        // The mutant enforces 2 where the honest plan charges for 1.
        caught.0 |= violates(&honest, &whole, &less);
        let (whole, less) = (integers(&honest, &table, 1).await, integers(&honest, &without, 1).await);
        caught.1 |= violates(&honest, &whole, &less);
    }
    assert_eq!(caught, (true, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_portable_plan_gives_the_integers_of_the_naive_reference() {
    let mut random = Random(11);
    for round in 0..200 {
        let policy = policy("{ column = \"u\" }", 1 + random.below(3) as u32, 1 + random.below(3) as u32);
        let sql = random.of(&[
            "SELECT g, COUNT(*) FROM t GROUP BY g",
            "SELECT h, COUNT(*) FROM t GROUP BY h",
            "SELECT COUNT(*) FROM t",
        ]);
        let plan = plan(sql, &policy).await;
        let table = rows(&mut random);
        let expected = reference(sql, &plan, &table, "secret").unwrap();
        let exact = integers(&plan, &table, 2).await;
        for row in &exact.rows {
            let name = match row.key.first() {
                None => Some("all".to_owned()),
                Some(Key::Null) => None,
                Some(key) => Some(key.to_string()),
            };
            assert_eq!(row.values[0], expected.get(&name).copied().unwrap_or(0), "round {round}: {sql} {name:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn se_05_order_partitions_and_threads_change_no_bit() {
    let mut random = Random(5);
    let policy = policy("{ column = \"u\" }", 2, 2);
    let plan = plan("SELECT g, COUNT(*), SUM(x), AVG(y) FROM t GROUP BY g", &policy).await;
    for _ in 0..20 {
        let mut table = rows(&mut random);
        let first = integers(&plan, &table, 1).await;
        for partitions in [1, 2, 3, 7] {
            // A shuffle by swaps.
            for index in (1..table.len()).rev() {
                table.swap(index, random.below(index as u64 + 1) as usize);
            }
            assert!(integers(&plan, &table, partitions).await == first);
        }
    }
}

#[tokio::test]
async fn sq_23_rows_of_one_unit_do_not_change_which_rows_of_another_are_kept() {
    let policy = policy("{ column = \"u\" }", 1, 2);
    let plan = plan("SELECT SUM(x) FROM t", &policy).await;
    let row = |unit: i64, x: i64| Row { unit: Some(unit), g: Some("a"), h: None, x: Some(x), y: None };
    let others: Vec<Row> = (0..20).map(|index| row(1, index)).collect();
    let alone = integers(&plan, &others, 1).await.rows[0].values[0];
    let newcomer: Vec<Row> = (0..10).map(|_| row(2, 0)).collect();
    let together = integers(&plan, &[newcomer, others].concat(), 1).await.rows[0].values[0];
    assert_eq!(alone, together);
}

#[tokio::test]
async fn se_01_and_se_02_sums_are_exact_beyond_64_bits() {
    let text = r#"
        dataset = "test"
        [budget]
        epsilon = 100
        [tables.t]
        source = "t.csv"
        privacy_unit = "row"
        [tables.t.columns]
        x = { type = "integer", bounds = [-9007199254740992, 9007199254740992] }
        "#;
    let policy = Policy::from_toml(text, ".").unwrap();
    let plan = plan("SELECT SUM(x) FROM t", &policy).await;
    let row = |x: i64| Row { unit: Some(1), g: None, h: None, x: Some(x), y: None };
    let table: Vec<Row> = (0..4000).map(|_| row(i64::MAX)).collect();
    let total = integers(&plan, &table, 2).await.rows[0].values[0];
    assert_eq!(total, 4000 * (1_i128 << 53), "clamped, and summed in 128 bits");
    let mixed = [row(i64::MAX), row(1), row(i64::MIN)];
    assert_eq!(integers(&plan, &mixed, 1).await.rows[0].values[0], 1);
}

#[tokio::test]
async fn fp_07_odd_numbers_become_null_or_a_bound() {
    let policy = policy("\"row\"", 1, 1);
    let plan = plan("SELECT COUNT(y), SUM(y) FROM t", &policy).await;
    let row = |y: f64| Row { unit: Some(1), g: None, h: None, x: None, y: Some(y) };
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e308, 5e-324, -0.0];
    let table: Vec<Row> = odd.into_iter().map(row).collect();
    let values = &integers(&plan, &table, 1).await.rows[0].values;
    // NaN counts for nothing in a sum; infinities and 1e308 are clamped to the bounds [0, 1] = [0, 4] steps.
    assert_eq!(values[1], 4 + 4);
}

/// A sum over 131,072 rows, ones and small alternating values, moves by exactly the one that goes.
#[tokio::test]
async fn se_03_a_long_sum_of_fractions_moves_by_one_bound_only() {
    let policy = policy("\"row\"", 1, 1);
    let plan = plan("SELECT SUM(y) FROM t", &policy).await;
    let row = |y: f64| Row { unit: Some(1), g: None, h: None, x: None, y: Some(y) };
    let table = |ones: usize| -> Vec<Row> {
        let small = (0..ones).map(|index| row(if index % 2 == 0 { 0.003_906_25 } else { -0.003_906_25 }));
        std::iter::repeat_n(row(1.0), ones).chain(small).collect()
    };
    let sum = |table: ExactTable| table.rows[0].values[0];
    let whole = sum(integers(&plan, &table(1 << 16), 2).await);
    let less = sum(integers(&plan, &table(1 << 16)[1..], 2).await);
    assert_eq!(whole - less, 4, "one row of 1.0 is four steps of 0.25");
    // The control: added up as floats in order, 2^24 swallows a thousand ones, and taking it away sets them free.
    let naive = |rows: &[f32]| rows.iter().fold(0.0_f32, |sum, value| sum + value);
    let swallowed: Vec<f32> = std::iter::once(16_777_216.0).chain(std::iter::repeat_n(1.0, 1000)).collect();
    assert_eq!(naive(&swallowed) - naive(&swallowed[1..]), 16_777_216.0 - 1000.0);
}
