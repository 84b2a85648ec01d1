//! Limits of memory: whatever the limit and the rows are, the integers are those without a limit.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::datasource::MemTable;
use dither_mechanisms::ExactTable;

use super::{Random, sampled};
use crate::engine::{Counting, Engine, LocalEngine, exact};
use crate::operator;
use crate::policy::Policy;
use crate::source::{Table, Tables};
use crate::{bound::Bounding, plan::QueryPlan};

const ROWS: u64 = 45_000;
const PEOPLE: u64 = 15_000;

const POLICY: &str = r#"
    dataset = "test"
    [budget]
    epsilon = 100
    delta = 0.1
    [tables.t]
    source = "t.csv"
    privacy_unit = { column = "PERSON" }
    max_groups_per_unit = 2
    max_rows_per_group = 3
    [tables.t.columns]
    id = { type = "integer" }
    number = { type = "integer" }
    name = { type = "text" }
    g = { type = "text", keys = ["a", "b", "absent"] }
    free = { type = "text" }
    x = { type = "integer", bounds = [-3, 50] }
    [tables.lines]
    source = "lines.csv"
    privacy_unit = { column = "of", through = "t.id" }
    max_groups_per_unit = 2
    max_rows_per_group = 3
    [tables.lines.columns]
    of = { type = "integer" }
    part = { type = "integer" }
    y = { type = "integer", bounds = [0, 9] }
    [public.parts]
    source = "parts.csv"
    [public.parts.columns]
    part = { type = "integer", unique = true }
    colour = { type = "text", keys = ["red", "green"] }
"#;

/// What is asked: sums, quantiles, different values, joins, private keys, units alone, all people and one row each.
const QUESTIONS: [&str; 8] = [
    "SELECT g, SUM(x), COUNT(*) FROM t GROUP BY g",
    "SELECT g, MEDIAN(x), MAX(x) FROM t GROUP BY g",
    "SELECT g, COUNT(DISTINCT free) FROM t GROUP BY g",
    "SELECT free, COUNT(*), AVG(x) FROM t GROUP BY free",
    "SELECT free, COUNT(DISTINCT PERSON) FROM t GROUP BY free",
    "SELECT COUNT(DISTINCT PERSON) FROM t",
    "SELECT SUM(y), COUNT(*) FROM lines",
    "SELECT colour, COUNT(*), AVG(y) FROM lines JOIN parts ON lines.part = parts.part GROUP BY colour",
];

fn table(columns: Vec<(&str, ArrayRef)>) -> Table {
    let fields = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let whole = RecordBatch::try_new(Arc::clone(&schema), columns.iter().map(|(_, array)| Arc::clone(array)).collect())
        .unwrap();
    let batches: Vec<RecordBatch> = (0..whole.num_rows())
        .step_by(4096)
        .map(|start| whole.slice(start, 4096.min(whole.num_rows() - start)))
        .collect();
    let middle = batches.len() / 2;
    Arc::new(MemTable::try_new(schema, vec![batches[..middle].to_vec(), batches[middle..].to_vec()]).unwrap())
}

fn integers(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values.map(|value| value as i64)))
}

/// Tables of people, of whom one may own half of the rows; whether a key of the people has several of them.
fn tables(half: bool, shared: bool) -> Tables {
    let mut random = Random(31);
    let person: Vec<u64> = (0..ROWS).map(|row| if half && row % 2 == 0 { 7 } else { random.below(PEOPLE) }).collect();
    let free: Vec<u64> = (0..ROWS).map(|_| random.below(5_000)).collect();
    let lines: Vec<[u64; 3]> = (0..ROWS).map(|_| [random.below(ROWS), random.below(5_000), random.below(9)]).collect();
    let text = |values: Vec<String>| -> ArrayRef { Arc::new(StringArray::from(values)) };
    let t = vec![
        ("id", integers((0..ROWS).map(|row| if shared { row / 2 } else { row }))),
        ("number", integers(person.iter().copied())),
        ("name", text(person.iter().map(|person| format!("Person number {person}, Ärztin")).collect())),
        ("g", text(free.iter().map(|free| ["a", "b", "c"][(*free % 3) as usize].to_owned()).collect())),
        ("free", text(free.iter().map(|free| format!("value {free}")).collect())),
        ("x", integers(free.iter().map(|free| free % 47))),
    ];
    let column = |column: usize| integers(lines.iter().map(move |line| line[column]));
    let lines = vec![("of", column(0)), ("part", column(1)), ("y", column(2))];
    let colours = (0..5_000).map(|part| ["red", "green", "blue"][part % 3].to_owned()).collect();
    let parts = vec![("part", integers(0..5_000)), ("colour", text(colours))];
    BTreeMap::from(
        [("t", t), ("lines", lines), ("parts", parts)].map(|(name, columns)| (name.to_owned(), table(columns))),
    )
}

async fn counted(engine: &dyn Engine, plan: &QueryPlan, tables: &Tables) -> ExactTable {
    exact(plan, tables, "secret", engine).await.unwrap_or_else(|error| panic!("{:?}", error.0))
}

/// Every question about people that are texts or integers, in less memory than the rows take: pruned, spilled, sorted on disk,
/// and never refused after a charge.
#[tokio::test(flavor = "multi_thread")]
async fn se_05_and_tm_03_no_limit_of_memory_changes_a_bit() {
    let free = LocalEngine::new(2);
    for (person, half, shared) in [("name", false, false), ("name", true, true), ("number", true, false)] {
        let policy = Policy::from_toml(&POLICY.replace("PERSON", person), ".").unwrap();
        let tables = tables(half, shared);
        for sql in QUESTIONS {
            let plan = sampled(&sql.replace("PERSON", person), &policy).await;
            let expected = counted(&free, &plan, &tables).await;
            assert!(expected.rows.iter().any(|row| row.units > 0), "{sql}");
            for limit in [64 << 10, 1 << 20] {
                let small = LocalEngine::with_memory(2, limit).unwrap();
                assert!(counted(&small, &plan, &tables).await == expected, "{sql}, {person}, {limit} bytes");
            }
        }
    }
}

/// A join that makes hundreds of millions of pairs of the rows of one person gives way to whoever wants to stop it.
#[tokio::test]
async fn tm_03_a_join_that_fans_out_can_be_stopped() {
    let policy = Policy::from_toml(&POLICY.replace("PERSON", "number"), ".").unwrap();
    let tables = tables(true, false);
    let sql = "SELECT COUNT(*) FROM t a JOIN t b ON a.number = b.number WHERE a.x + b.x > 3";
    let plan = crate::plan::plan(&crate::plan::Request::new(sql, "1".parse().unwrap()), &policy).await.unwrap();
    let engine = LocalEngine::new(1);
    let turns = async {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    };
    // One thread: if the join did not give way, it would have its answer before the first turn.
    tokio::select! {
        biased;
        _ = counted(&engine, &plan, &tables) => panic!("the join did not give way"),
        () = turns => {}
    }
}

/// One context and nothing to fall back on.
struct OperatorAlone(LocalEngine);

impl Engine for OperatorAlone {
    fn count<'a>(&'a self, bounding: &'a Bounding<'a>, tables: &'a Tables) -> Counting<'a> {
        Box::pin(async move { Ok(operator::count(&self.0.context, self.0.waiting, bounding, tables).await?) })
    }
}

/// Rows that wait for their bounding need no join and nothing wider, whoever owns them; they are those of the portable plan.
#[tokio::test(flavor = "multi_thread")]
async fn se_05_and_tm_03_pruning_and_spilling_change_no_bit() {
    for person in ["name", "number"] {
        let policy = Policy::from_toml(&POLICY.replace("PERSON", person), ".").unwrap();
        let tables = tables(true, false);
        for sql in &QUESTIONS[..4] {
            let plan = sampled(sql, &policy).await;
            let expected = counted(&LocalEngine::new(2).portable(), &plan, &tables).await;
            let small = OperatorAlone(LocalEngine::with_memory(2, 200_000).unwrap());
            assert!(counted(&small, &plan, &tables).await == expected, "{sql}, {person}");
        }
    }
}
