//! Against a real cluster of processes on this machine: the integers of three engines on the same odd files, an executor
//! that is lost, and what a cluster may do wrong.

mod files;
mod loss;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use datafusion::datasource::ViewTable;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, col, try_cast};
use dither_query::bound::Bounding;
use dither_query::engine::{Counted, Counting, Engine, EngineError, LocalEngine, RehearsalError, rehearse};
use dither_query::plan::{MechanismChoice, QueryPlan, price, shape};
use dither_query::source::{self, Tables, schema};
use dither_query::{Policy, Refusal};
use dither_testing::questions::{self, PERSON, Sources};
use dither_testing::{Cluster, Random, setting};

use crate::{BallistaEngine, Executor, Scheduler};

/// Not a test: a process of the cluster, started by tests from their own binary.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a process of the cluster, which other tests start"]
async fn process() {
    let Ok(arguments) = std::env::var("DITHER_CLUSTER") else { return };
    let arguments: Vec<&str> = arguments.split('\n').collect();
    let after = |name: &str| arguments[arguments.iter().position(|argument| *argument == name).unwrap() + 1];
    let bind = after("--bind").parse().unwrap();
    let ended = match arguments[0] {
        "scheduler" => {
            let executor_timeout = after("--executor-timeout").parse().unwrap();
            Scheduler { bind, advertise: None, executor_timeout, trusted_network: false }.run().await
        }
        _ => {
            let executor = Executor {
                scheduler: after("--scheduler").into(),
                bind,
                work_port: after("--work-port").parse().unwrap(),
                advertise: None,
                work_dir: Some(after("--work-dir").into()),
                cores: Some(after("--cores").parse().unwrap()),
                memory: Some(512 << 20),
                trusted_network: false,
            };
            executor.run().await
        }
    };
    panic!("{ended:?}");
}

/// A cluster of this build's processes, into which nothing of ours is registered: they are what Ballista ships.
fn cluster(folder: &Path, executors: usize) -> Cluster {
    Cluster::start(folder, executors, |arguments| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["tests::process", "--exact", "--ignored", "--nocapture"]);
        command.env("DITHER_CLUSTER", arguments.join("\n"));
        command
    })
}

fn policy(folder: &Path, unit: &str, groups: u64, rows: u64) -> Policy {
    let sources = Sources { tables: ["t/*.parquet", "p.parquet", "codes.parquet"], moment: "m" };
    Policy::from_toml(&questions::policy(sources, unit, groups, rows), folder).unwrap_or_else(|error| panic!("{error}"))
}

/// A random question, also of what only engines with the functions of this process can do.
fn question(random: &mut Random, joined: bool) -> String {
    let aggregates = ["COUNT(DISTINCT y)"];
    let keys = ["UPPER(free)", "CAST(y AS VARCHAR)"];
    let filters = [" WHERE free ILIKE '%a%' OR free IN ('a', 'Ä')", " WHERE x % 2 = 0"];
    questions::question(random, joined, [&aggregates, &keys, &filters])
}

async fn plan(sql: &str, policy: &Policy) -> Result<QueryPlan, Refusal> {
    let (shape, _) = shape(sql, policy).await?;
    // Every other question asks about samples as well, where it can.
    let shape = if sql.len().is_multiple_of(2) { shape.clone().with_sampling().unwrap_or(shape) } else { shape };
    price(shape, "1".parse().unwrap(), "1e-3".parse().unwrap(), MechanismChoice::Laplace)
}

/// What an engine counts, in the order of keys.
async fn counted(engine: &dyn Engine, plan: &QueryPlan, tables: &Tables) -> Result<Vec<String>, EngineError> {
    let secret = "0123456789abcdef".repeat(4);
    let bounding = Bounding {
        question: &plan.question,
        unit: &plan.unit,
        unit_kind: &plan.unit_kind,
        bounds: plan.bounds,
        values: &plan.values,
        summands: &plan.summands,
        squared: &plan.squared(),
        histograms: &plan.histograms,
        needs_rows: plan.needs_rows(),
        secret: &secret,
    };
    let line = |group: Counted| {
        let Counted { key, units, rows, sums, squares, mut histograms } = group;
        for histogram in &mut histograms {
            // Of no values one engine counts none, and another counts nothing.
            histogram.retain(|(_, count)| *count > 0);
            histogram.sort_unstable();
        }
        // What a plan does not count it does not count in another way.
        let (rows, sums) = if plan.needs_rows() { (rows, sums) } else { (0, Vec::new()) };
        format!("{key:?} {units} {rows} {sums:?} {squares:?} {histograms:?}")
    };
    let counted = engine.count(&bounding, tables).await?;
    // Of nothing at all one engine makes a group of nothing, and another none.
    let some = counted.into_iter().filter(|group| !(group.key.is_empty() && group.units == 0));
    let mut lines: Vec<String> = some.map(line).collect();
    lines.sort();
    Ok(lines)
}

fn opened(policy: &Policy) -> Tables {
    let tables = ["t", "p", "codes"].into_iter().filter_map(|name| Some((name, policy.readable(name)?)));
    let open = |table: &dither_query::policy::TablePolicy| {
        source::open(table, &policy.base_dir, &Arc::default()).unwrap_or_else(|error| panic!("{error}"))
    };
    tables.map(|(name, table)| (name.to_owned(), open(&table))).collect()
}

/// Compares an engine with both of this process on random questions and files. The first that differs, and how many groups
/// were compared.
async fn compare(folder: &Path, engine: &dyn Engine, rounds: u64, seed: u64) -> (usize, Option<String>) {
    let (operator, portable) = (LocalEngine::new(2), LocalEngine::new(2).portable());
    let mut random = Random(seed);
    let mut groups = 0;
    for round in 0..rounds {
        let unit = random.of(&["\"row\"", PERSON, PERSON, "{ column = \"v\" }"]);
        let folder = folder.join(format!("{seed}-{round}"));
        let policy = policy(&folder, unit, 1 + random.below(3), 1 + random.below(4));
        files::write(&folder, &mut random);
        let sql = question(&mut random, unit == PERSON);
        // Rows that are units join on unique columns only, a text has no sum: for every engine.
        let Ok(plan) = plan(&sql, &policy).await else { continue };
        let tables = opened(&policy);
        let expected = counted(&portable, &plan, &tables).await.unwrap_or_else(|error| panic!("{sql}: {:?}", error.0));
        assert_eq!(counted(&operator, &plan, &tables).await.unwrap(), expected, "{sql}");
        groups += expected.len();
        match counted(engine, &plan, &tables).await {
            Ok(found) if found == expected => {}
            Ok(found) => return (groups, Some(format!("round {round}: {sql}\n{found:#?}\n{expected:#?}"))),
            Err(error) => return (groups, Some(format!("round {round}: {sql}: {:?}", error.0))),
        }
    }
    (groups, None)
}

/// An engine whose tables are read in another way on their way to the cluster.
struct Mutant<'a>(&'a BallistaEngine, fn(&Policy) -> Tables, Policy);

impl Engine for Mutant<'_> {
    fn count<'a>(&'a self, bounding: &'a Bounding<'a>, _: &'a Tables) -> Counting<'a> {
        Box::pin(async move {
            let tables = (self.1)(&self.2);
            self.0.count(bounding, &tables).await
        })
    }
}

/// The tables under plain casts: what is left out is NaN, the sign of zero, the calendar and the length of texts.
fn under_plain_casts(policy: &Policy) -> Tables {
    let mut tables = opened(policy);
    let declared = schema(&policy.tables["t"]);
    let raw = scan_of(tables["t"].get_logical_plan().unwrap().into_owned());
    let cast = |field: &Arc<datafusion::arrow::datatypes::Field>| -> Expr {
        try_cast(col(field.name().as_str()), field.data_type().clone()).alias(field.name())
    };
    let columns: Vec<Expr> = declared.fields().iter().map(cast).collect();
    let plan = LogicalPlanBuilder::from(raw).project(columns).unwrap().build().unwrap();
    tables.insert("t".into(), Arc::new(ViewTable::new(plan, None)));
    tables
}

fn scan_of(plan: LogicalPlan) -> LogicalPlan {
    match plan {
        LogicalPlan::TableScan(scan) => LogicalPlanBuilder::scan("raw", scan.source, None).unwrap().build().unwrap(),
        other => scan_of(other.inputs()[0].clone()),
    }
}

/// The tables without the second file of the folder.
fn without_a_file(policy: &Policy) -> Tables {
    let mut one = policy.clone();
    one.tables.get_mut("t").unwrap().source = "t/a.parquet".into();
    opened(&one)
}

/// Whether a mutant is noticed, on tables and questions where it could be.
async fn noticed(engine: &BallistaEngine, folder: &Path, tables: fn(&Policy) -> Tables) -> bool {
    let portable = LocalEngine::new(2).portable();
    let mut random = Random(41);
    for round in 0..40 {
        let folder = folder.join(format!("mutant-{round}"));
        let policy = policy(&folder, "\"row\"", 1, 1);
        files::write(&folder, &mut random);
        for sql in [
            "SELECT d, COUNT(*) FROM t GROUP BY d",
            "SELECT COUNT(y) FROM t",
            "SELECT COUNT(free), COUNT(*) FROM t WHERE y > 0.2 OR LENGTH(free) > 9",
        ] {
            let plan = plan(sql, &policy).await.unwrap();
            let expected = counted(&portable, &plan, &opened(&policy)).await.unwrap();
            let mutant = Mutant(engine, tables, policy.clone());
            match counted(&mutant, &plan, &Tables::new()).await {
                Ok(found) if found == expected => {}
                _ => return true,
            }
        }
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn se_05_operator_portable_plan_and_ballista_give_the_same_integers() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(folder.path(), 2);
    let engine = BallistaEngine::new(&format!("{}?partitions=3", cluster.url())).unwrap();
    let (rounds, seed) = (setting("DITHER_ROUNDS", 16), setting("DITHER_SEED", 23));
    let (groups, difference) = compare(folder.path(), &engine, rounds, seed).await;
    assert_eq!(difference, None);
    assert!(groups > 20, "{groups}");
    // The controls.
    for (name, mutant) in [
        ("plain casts", under_plain_casts as fn(&Policy) -> Tables),
        ("a file less", without_a_file as fn(&Policy) -> Tables),
    ] {
        assert!(noticed(&engine, folder.path(), mutant).await, "{name}");
    }
    every_question_is_rehearsed(&engine, folder.path()).await;
    what_is_too_deep_is_refused_by_the_rehearsal(&engine, folder.path()).await;
}

/// Nothing that a cluster does as this process does is refused.
async fn every_question_is_rehearsed(engine: &BallistaEngine, folder: &Path) {
    let mut random = Random(31);
    let mut accepted = 0;
    for _ in 0..setting("DITHER_ROUNDS", 4) {
        let policy = policy(folder, "{ column = \"u\" }", 2, 3);
        let sql = question(&mut random, true);
        let Ok(plan) = plan(&sql, &policy).await else { continue };
        match rehearse(&plan, &policy, engine).await {
            Ok(()) => accepted += 1,
            Err(error) => panic!("{sql}: {error}"),
        }
    }
    assert!(accepted > 1, "{accepted}");
}

/// However deep a question is, what fits no message is refused before a charge and not after it.
async fn what_is_too_deep_is_refused_by_the_rehearsal(engine: &BallistaEngine, folder: &Path) {
    let folder = folder.join("deep");
    let policy = policy(&folder, "{ column = \"u\" }", 2, 3);
    files::write(&folder, &mut Random(3));
    let tables = opened(&policy);
    let (mut accepted, mut refused) = (0, 0);
    for depth in [3, 6, 9, 12, 15, 18, 30] {
        let value = (0..depth).fold("y".to_owned(), |value, _| format!("ABS({value} - 0.5)"));
        let sql = format!("SELECT g, SUM({value}, contribution_bounds_per_row => (0, 1)) FROM t GROUP BY g");
        let Ok(plan) = plan(&sql, &policy).await else { continue };
        match rehearse(&plan, &policy, engine).await {
            Ok(()) => {
                accepted += 1;
                let here = counted(&LocalEngine::new(1), &plan, &tables).await.unwrap();
                let there = counted(engine, &plan, &tables).await;
                assert_eq!(there.unwrap_or_else(|error| panic!("{depth}: {:?}", error.0)), here, "{depth}");
            }
            Err(RehearsalError::Refused(refusal)) => {
                assert!(refusal.message.contains("too deep"), "{depth}: {refusal}");
                refused += 1;
            }
            Err(error) => panic!("{depth}: {error}"),
        }
    }
    assert!(accepted > 0 && refused > 0, "{accepted} {refused}");
}
