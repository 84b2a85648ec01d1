//! The strongest test of the portable half: on random questions and neighbouring tables, the exact integers differ by
//! no more than the plan claims, and they are those of a naive reference in plain Rust, bit for bit.
//!
//! The short form runs 10,000 pairs of tables. `cargo xtask long neighbours` is the long one; `DITHER_PAIRS` and
//! `DITHER_SEED` set another size and another seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use dither_core::{ContributionBounds, Key};
use dither_mechanisms::ExactTable;
use dither_testing::{Random, setting};
use sha2::{Digest, Sha256};

mod choices;
mod distance;
mod memory;
mod periods;
mod questions;
mod squares;
mod tables;
mod values;

use crate::engine::{Engine, LocalEngine, exact};
use crate::plan::QueryPlan;
use crate::source::Table;
pub(crate) use distance::violates;
use questions::{perhaps_sampled, plan, question, sampled};
use tables::{Row, policy, provider, rows};

async fn integers(plan: &QueryPlan, rows: &[Row], partitions: usize) -> ExactTable {
    static ENGINES: LazyLock<[LocalEngine; 3]> = LazyLock::new(|| [1, 2, 4].map(LocalEngine::new));
    integers_by(&ENGINES[partitions.min(3) - 1], plan, rows, partitions).await
}

async fn integers_by(engine: &dyn Engine, plan: &QueryPlan, rows: &[Row], partitions: usize) -> ExactTable {
    let table: Table = provider(rows, partitions);
    let tables = BTreeMap::from([("t".to_owned(), table)]);
    exact(plan, &tables, "secret", engine).await.unwrap_or_else(|error| panic!("{:?}", error.0))
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
    let written = |key: &Option<String>| match key {
        None => "N".to_owned(),
        // Integers need no length before them.
        Some(key) if sql.contains("GROUP BY h") => format!(" {key}"),
        Some(key) => format!(" {}:{key}", key.chars().count()),
    };
    let hash =
        |unit: i64, key: &Option<String>| Sha256::digest(format!("{secret} group {unit}{}", written(key)).as_bytes());
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
        kept.sort_by_key(|(key, _)| hash(unit, key));
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

#[tokio::test(flavor = "multi_thread")]
async fn se_14_and_sq_17_neighbouring_tables_differ_by_no_more_than_the_plan_claims() {
    let (wanted, seed) = (setting("DITHER_PAIRS", 10_000), setting("DITHER_SEED", 20_261_130));
    let pairs = shared_out(wanted, seed, compare_pairs).await;
    assert!(pairs >= wanted);
    println!("{pairs} pairs, seed {seed}: no violation");
}

/// Does so many comparisons in as many tasks as there are threads, each with a seed of its own; says how many were done.
pub(crate) async fn shared_out<F>(wanted: u64, seed: u64, compare: impl Fn(u64, u64) -> F) -> u64
where
    F: Future<Output = u64> + Send + 'static,
{
    let workers = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let share = |worker: u64| compare(wanted.div_ceil(workers), seed.wrapping_add(worker << 32));
    let tasks: Vec<_> = (0..workers).map(|worker| tokio::spawn(share(worker))).collect();
    let mut done = 0;
    for task in tasks {
        done += task.await.unwrap();
    }
    done
}

/// Compares so many pairs of random neighbouring tables.
async fn compare_pairs(wanted: u64, seed: u64) -> u64 {
    let mut random = Random(seed);
    let mut pairs = 0;
    while pairs < wanted {
        let row_unit = random.below(5) == 0;
        let unit = if row_unit { "\"row\"" } else { "{ column = \"u\" }" };
        let policy = policy(unit, 1 + random.below(3) as u32, 1 + random.below(4) as u32);
        let sql = question(&mut random);
        let plan = perhaps_sampled(&mut random, &sql, &policy).await;
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
    for sql in [
        "SELECT free, COUNT(*), AVG(x) FROM t GROUP BY free",
        "SELECT h, MEDIAN(x) FROM t GROUP BY h",
        "SELECT h, SUM(wide) FROM t GROUP BY h",
    ] {
        assert_eq!(caught(&plan(sql, &policy).await, &mut random).await, (true, false), "{sql}");
    }
}

/// Whether more rows and groups than are charged for are caught, and whether honest ones are.
async fn caught(honest: &QueryPlan, random: &mut Random) -> (bool, bool) {
    let mut mutant = honest.clone();
    let ContributionBounds { max_groups_per_unit: groups, max_rows_per_group: rows_of } = honest.bounds;
    let more = |bound: std::num::NonZeroU32| bound.saturating_add(bound.get());
    mutant.shape.bounds = ContributionBounds { max_groups_per_unit: more(groups), max_rows_per_group: more(rows_of) };
    let mut caught = (false, false);
    for _ in 0..25 {
        let table = rows(random);
        let without: Vec<Row> = table.iter().filter(|row| row.unit != Some(0)).cloned().collect();
        let (whole, less) = (integers(&mutant, &table, 1).await, integers(&mutant, &without, 1).await);
        // The mutant enforces twice what the honest plan charges for.
        caught.0 |= violates(honest, &whole, &less);
        let (whole, less) = (integers(honest, &table, 1).await, integers(honest, &without, 1).await);
        caught.1 |= violates(honest, &whole, &less);
    }
    caught
}

/// The operator against the portable plan: on random questions and tables the same integers and histograms.
/// `DITHER_ROUNDS` sets another number of them.
#[tokio::test(flavor = "multi_thread")]
async fn the_operator_gives_the_integers_of_the_portable_plan() {
    let mut random = Random(setting("DITHER_SEED", 13));
    let portable = LocalEngine::new(2).portable();
    let operator = LocalEngine::new(2);
    for round in 0..setting("DITHER_ROUNDS", 250) {
        let unit =
            if random.below(5) == 0 { "\"row\"" } else { random.of(&["{ column = \"u\" }", "{ column = \"free\" }"]) };
        let policy = policy(unit, 1 + random.below(3) as u32, 1 + random.below(4) as u32);
        let sql = question(&mut random);
        let (plan, table) = (perhaps_sampled(&mut random, &sql, &policy).await, rows(&mut random));
        let expected = integers_by(&portable, &plan, &table, 2).await;
        let found = integers_by(&operator, &plan, &table, 1 + random.below(3) as usize).await;
        assert!(found == expected, "round {round}: {sql}\n{table:?}");
    }
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
            // Where a unit has one row, the number of units that selects a key is the answer.
            let counted = row.values.first().copied().unwrap_or(row.units.into());
            assert_eq!(counted, expected.get(&name).copied().unwrap_or(0), "round {round}: {sql} {name:?}");
        }
    }
}

/// A histogram holds the rows whose values are summed beside it, though another plan chooses them.
#[tokio::test(flavor = "multi_thread")]
async fn both_plans_keep_the_same_rows() {
    let mut random = Random(17);
    for round in 0..30 {
        let policy = policy("{ column = \"u\" }", 1 + random.below(3) as u32, 1 + random.below(3) as u32);
        let key = random.of(&["g", "h", "free"]);
        let sql = format!("SELECT {key}, SUM(x), SUM(y), MEDIAN(x), MAX(y), MIN(x) FROM t GROUP BY {key}");
        let plan = plan(&sql, &policy).await;
        for row in integers(&plan, &rows(&mut random), 2).await.rows {
            let sum = |index: usize, lower: i128| -> i128 {
                row.histograms[index].iter().map(|&(point, n)| (i128::from(point) + lower) * i128::from(n)).sum()
            };
            assert_eq!([sum(0, -3), sum(1, 0)], row.values[..], "round {round}: {sql}");
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
