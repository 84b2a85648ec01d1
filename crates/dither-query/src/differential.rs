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
use dither_mechanisms::{Block, ExactRow, ExactTable, Histogram, KeyRule, Laplace, Noise};
use dither_testing::Random;
use sha2::{Digest, Sha256};

mod choices;
mod memory;
mod periods;
mod values;

use crate::engine::{Engine, LocalEngine, exact};
use crate::plan::{Measure, MechanismChoice, QueryPlan, price, shape};
use crate::policy::Policy;
use crate::source::Table;

/// A row: unit, g, h, x, y.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    unit: Option<i64>,
    g: Option<&'static str>,
    h: Option<i64>,
    x: Option<i64>,
    y: Option<f64>,
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
        wide = {{ type = "number", expression = "y", approx_bounds = true }}
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

/// A question that one in three times asks about samples as well, where it can.
async fn perhaps_sampled(random: &mut Random, sql: &str, policy: &Policy) -> QueryPlan {
    if random.below(3) == 0 { sampled(sql, policy).await } else { plan(sql, policy).await }
}

/// A question that asks about samples, where it can.
async fn sampled(sql: &str, policy: &Policy) -> QueryPlan {
    let (shape, _) = shape(sql, policy).await.unwrap_or_else(|refusal| panic!("{sql}: {refusal}"));
    let shape = shape.clone().with_sampling().unwrap_or(shape);
    price(shape, "1".parse().unwrap(), "1e-3".parse().unwrap(), MechanismChoice::Laplace).unwrap()
}

/// A random question over the columns of the policy.
fn question(random: &mut Random) -> String {
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
        "VAR_POP(x)",
        "STDDEV(y)",
        "COVAR_SAMP(x, y)",
        "CORR(y, x)",
        "COUNT(DISTINCT h)",
        "COUNT(DISTINCT y) FILTER (WHERE x > 0)",
        "COUNT(DISTINCT g || free)",
        "MEDIAN(x)",
        "PERCENTILE_CONT(x, 0.9)",
        "MIN(y)",
        "MAX(x * 2)",
        "SUM(wide)",
        "AVG(wide) FILTER (WHERE h > 0)",
        "STDDEV(wide)",
        "PERCENTILE_CONT(h, 0.2, contribution_bounds_per_row => (0, 2)) FILTER (WHERE x > 0)",
    ];
    let mut chosen = BTreeSet::new();
    for _ in 0..=random.below(3) {
        chosen.insert(random.of(&aggregates));
    }
    let keys = random.of(&[
        "",
        "",
        "g",
        "free",
        "h",
        "g, h",
        "CASE WHEN h > 1 THEN 'big' ELSE 'small' END",
        "bucket(y, 0.25, 0.5)",
    ]);
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
    integers_by(&ENGINES[partitions.min(3) - 1], plan, rows, partitions).await
}

async fn integers_by(engine: &dyn Engine, plan: &QueryPlan, rows: &[Row], partitions: usize) -> ExactTable {
    let table: Table = provider(rows, partitions);
    let tables = BTreeMap::from([("t".to_owned(), table)]);
    exact(plan, &tables, "secret", engine).await.unwrap_or_else(|error| panic!("{:?}", error.0))
}

/// By how much two exact tables differ.
struct Distance {
    /// In each block: the l1 norm and the squared l2 norm.
    blocks: Vec<(u128, u128)>,
    /// In each histogram: the most rows of one group, the number of groups, and the rows of all.
    histograms: Vec<(u64, u64, u64)>,
    /// In how many keys.
    keys: u128,
}

fn distance(plan: &QueryPlan, one: &ExactTable, two: &ExactTable) -> Distance {
    let width: usize = plan.measures.iter().map(Measure::width).sum();
    let index = |table: &ExactTable| -> BTreeMap<String, ExactRow> {
        table.rows.iter().map(|row| (serde_json::to_string(&row.key).unwrap(), row.clone())).collect()
    };
    let (one, two) = (index(one), index(two));
    let keys: BTreeSet<&String> = one.keys().chain(two.keys()).collect();
    let histograms = vec![Histogram::new(); plan.ranks.len() + plan.found.len()];
    let absent = ExactRow { key: Vec::new(), values: vec![0; width], units: 0, histograms };
    let mut blocks = vec![(0, 0); plan.measures.len()];
    let mut moved = vec![(0, 0, 0); plan.ranks.len() + plan.found.len()];
    let mut changed = 0;
    for key in keys {
        let (one, two) = (one.get(key).unwrap_or(&absent), two.get(key).unwrap_or(&absent));
        let (a, b) = (&one.values, &two.values);
        changed += u128::from(one.units.abs_diff(two.units));
        for (moved, (a, b)) in moved.iter_mut().zip(one.histograms.iter().zip(&two.histograms)) {
            let count =
                |histogram: &Histogram, point| histogram.iter().find(|(p, _)| *p == point).map_or(0, |(_, n)| *n);
            let points: BTreeSet<u32> = a.iter().chain(b).map(|(point, _)| *point).collect();
            let rows: u64 = points.into_iter().map(|point| count(a, point).abs_diff(count(b, point))).sum();
            *moved = (moved.0.max(rows), moved.1 + u64::from(rows > 0), moved.2 + rows);
        }
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
    Distance { blocks, histograms: moved, keys: changed }
}

/// Whether two tables differ by more than the plan claims.
pub(crate) fn violates(plan: &QueryPlan, one: &ExactTable, two: &ExactTable) -> bool {
    let Distance { blocks, histograms, keys: changed } = distance(plan, one, two);
    let bounds = plan.effective_bounds();
    let apart = plan.mechanism.found.iter().zip(&histograms[plan.ranks.len()..]).any(|(found, &(rows, _, all))| {
        // Sums between any bounds move by what is charged for, since so many rows move.
        all > found.rows() || rows > u64::from(bounds.max_rows_per_group.get())
    });
    let off = plan.mechanism.quantiles.iter().zip(histograms).any(|(quantiles, (rows, groups, _))| {
        assert_eq!(
            quantiles.rows(),
            u64::from(bounds.max_rows_per_group.get()),
            "the choice reads the bounds of the plan"
        );
        rows > quantiles.rows() || groups > u64::from(bounds.max_groups_per_unit.get())
    });
    let over = plan.measures.iter().zip(&plan.mechanism.blocks).zip(blocks).any(|((measure, block), (l1, l2))| {
        let (claimed, euclid) = plan.sensitivity(measure).unwrap();
        let Noise::Laplace(laplace) = block.noise else { panic!("Laplace was asked for") };
        assert_eq!(laplace.sensitivity(), claimed, "the noise reads the sensitivity of the plan");
        l1 > claimed.steps() || l2 > euclid.squared()
    });
    let keys = match &plan.mechanism.keys {
        KeyRule::Public | KeyRule::Top(_) => false,
        KeyRule::Threshold(rule) => changed > u128::from(rule.max_groups_per_unit().get()),
    };
    over || off || apart || keys
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

/// Totals of units that are squared move with the square of its rows, and more rows than are charged for are caught.
#[tokio::test]
async fn se_14_squares_of_totals_move_by_no_more_than_the_plan_claims() {
    let mut random = Random(31);
    let policy = policy("{ column = \"u\" }", 2, 2);
    for sql in
        ["SELECT g, AVG(x) FROM t GROUP BY g", "SELECT g, SUM(y), COUNT(*) FROM t GROUP BY g", "SELECT COUNT(x) FROM t"]
    {
        let mut honest = sampled(sql, &policy).await;
        // Nothing but the squares: the others are held to their claims elsewhere.
        honest.shape.measures.retain(|measure| matches!(measure, Measure::UnitSquares(_)));
        assert!(!honest.measures.is_empty(), "{sql}");
        honest.mechanism.blocks = honest
            .measures
            .iter()
            .map(|measure| {
                let (claimed, _) = honest.sensitivity(measure).unwrap();
                let noise = Laplace::for_epsilon(claimed, "1".parse().unwrap()).unwrap();
                Block { width: measure.width(), noise: Noise::Laplace(noise) }
            })
            .collect();
        assert_eq!(caught(&honest, &mut random).await, (true, false), "{sql}");
    }
}

/// The squares of totals are those of loops over a map, by the operator and by the portable plan.
#[tokio::test]
async fn se_05_squares_of_totals_are_those_of_loops_over_a_map() {
    let mut random = Random(37);
    let policy = policy("{ column = \"u\" }", 1, 100);
    let plan = sampled("SELECT AVG(x), COUNT(*), SUM(y) FROM t", &policy).await;
    for round in 0..20 {
        let table = rows(&mut random);
        let mut units: BTreeMap<i64, [i128; 5]> = BTreeMap::new();
        for row in table.iter() {
            let Some(unit) = row.unit else { continue };
            let [a, b, n, c, d] = units.entry(unit).or_default();
            if let Some(x) = row.x.map(|x| i128::from(x.clamp(-3, 50))) {
                (*a, *b) = (*a + 50 - x, *b + x + 3);
            }
            *n += 1;
            if let Some(y) = row.y.filter(|y| !y.is_nan()) {
                let y = (y * 4.0 + 0.5).floor().clamp(0.0, 4.0) as i128;
                (*c, *d) = (*c + 4 - y, *d + y);
            }
        }
        let sum = |of: &dyn Fn(&[i128; 5]) -> i128| units.values().map(of).sum::<i128>();
        let squares =
            |at: usize| [sum(&|u| u[at] * u[at]), sum(&|u| 2 * u[at] * u[at + 1]), sum(&|u| u[at + 1] * u[at + 1])];
        let mut expected = vec![sum(&|u| u[0]), sum(&|u| u[1]), sum(&|u| u[2]), sum(&|u| u[3]), sum(&|u| u[4])];
        expected.extend(squares(0));
        expected.extend([0, 0, sum(&|u| u[2] * u[2])]);
        expected.extend(squares(3));
        for engine in [LocalEngine::new(2), LocalEngine::new(2).portable()] {
            let found = integers_by(&engine, &plan, &table, 2).await;
            assert_eq!(found.rows[0].values, expected, "round {round}");
        }
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
