//! Against a real server: the integers of three engines on the same random rows, and what a server may do wrong.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use datafusion::datasource::MemTable;
use datafusion::logical_expr::LogicalPlan;
use dither_query::bound::Bounding;
use dither_query::engine::{Counted, Counting, Engine, EngineError, LocalEngine, RehearsalError, portable, rehearse};
use dither_query::plan::{MechanismChoice, QueryPlan, price, shape};
use dither_query::source::database::LARGEST;
use dither_query::source::{SourceError, Table, Tables, schema};
use dither_query::{Policy, Refusal};
use dither_testing::questions::{self, PERSON, Sources, question};
use dither_testing::{Postgres, Random, setting};
use tokio::sync::Mutex;

use crate::PostgresEngine;
use crate::engine::{answered, failed};
use crate::plan::statement;

mod columns;
mod connection;

const DAY: i64 = 86_400_000_000;

/// A row as it is inserted: each cell in SQL, and what the policy makes of it.
#[derive(Debug, Clone)]
struct Row {
    u: Option<String>,
    v: Option<i64>,
    g: Option<&'static str>,
    free: Option<&'static str>,
    h: Option<i64>,
    x: Option<i64>,
    y: (&'static str, Option<f64>),
    d: (&'static str, Option<i32>),
    m: (&'static str, Option<i64>),
    b: Option<bool>,
}

const PEOPLE: [&str; 14] = [
    "bob",
    " Bob  ",
    "BOB",
    "ΣΊΣΥΦΟΣ",
    "σίσυφος",
    "Σίσυφοσ",
    "İnci",
    "i̇nci",
    "naïve",
    "NAÏVE",
    "日本",
    "o'hara \\",
    "",
    "ǅ ẞ",
];
const TEXTS: [&str; 9] = ["a", "B", "b", "Ä", "zz", "", " a ", "é\u{301}", "a'; --"];
/// Numbers as they lie in the table and as they are read.
const NUMBERS: [(&str, Option<f64>); 12] = [
    ("NULL", None),
    ("'NaN'", None),
    ("'Infinity'", Some(LARGEST)),
    ("'-1e308'", Some(-LARGEST)),
    ("'-0.0'", Some(0.0)),
    ("'1e-300'", Some(0.0)),
    ("0.1", Some(0.1)),
    ("0.5", Some(0.5)),
    ("0.625", Some(0.625)),
    ("-2.5", Some(-2.5)),
    ("3e-39", Some(3e-39)),
    ("1234567.875", Some(1_234_567.875)),
];
const DAYS: [(&str, Option<i32>); 8] = [
    ("NULL", None),
    ("'infinity'", None),
    ("'0044-03-15 BC'", None),
    ("'10000-01-01'", None),
    ("'1970-01-01'", Some(0)),
    ("'2026-11-30'", Some(20_787)),
    ("'0001-01-01'", Some(-719_162)),
    ("'1583-12-31'", Some(-140_985)),
];
const MOMENTS: [(&str, Option<i64>); 8] = [
    ("NULL", None),
    ("'-infinity'", None),
    ("'1970-01-01 00:00:00'", Some(0)),
    ("'1969-12-31 23:59:59.9'", Some(-100_000)),
    ("'2026-11-30 12:30:15.25'", Some(20_787 * DAY + 45_015_250_000)),
    ("'2026-11-30 12:30:15.000001'", Some(20_787 * DAY + 45_015_000_001)),
    ("'0001-01-01 00:00:00.5'", Some(-719_162 * DAY + 500_000)),
    ("'9999-12-31 23:59:59'", Some(2_932_896 * DAY + 86_399_000_000)),
];

fn rows(random: &mut Random) -> Vec<Row> {
    let (count, whale) = (random.below(40), random.below(3) == 0);
    let units = 1 + random.below(6);
    (0..count)
        .map(|_| {
            // One unit may own half of all rows; some rows have no unit.
            let big = whale && random.below(2) == 0;
            let some = random.below(12) > 0;
            Row {
                u: some.then(|| if big { "bob".to_owned() } else { random.of(&PEOPLE).to_owned() }),
                v: some.then(|| if big { 0 } else { random.below(units) as i64 - 2 }),
                g: (random.below(8) > 0).then(|| random.of(&["a", "b", "c", "zz"])),
                free: (random.below(8) > 0).then(|| random.of(&TEXTS)),
                h: (random.below(8) > 0).then(|| random.below(4) as i64 - 1),
                x: random.of(&[None, Some(-7), Some(0), Some(1), Some(42), Some(50), Some(i64::MAX), Some(i64::MIN)]),
                y: random.of(&NUMBERS),
                d: random.of(&DAYS),
                m: random.of(&MOMENTS),
                b: random.of(&[None, Some(true), Some(false)]),
            }
        })
        .collect()
}

fn policy(unit: &str, groups: u64, rows: u64) -> Policy {
    let sources = Sources { tables: ["postgres:public.t", "postgres:p", "postgres:codes"], moment: "Moment \"of\"" };
    Policy::from_toml(&questions::policy(sources, unit, groups, rows), ".").unwrap_or_else(|error| panic!("{error}"))
}

const TABLES: &str = r#"
    DROP TABLE IF EXISTS t, p, codes;
    CREATE TABLE t (u text, v int4, g varchar, free text, h int2, x int8, y float8, d date, "Moment ""of""" timestamp, b bool);
    CREATE TABLE p (u text, z int8);
    CREATE TABLE codes (code int8, label text, w numeric);
    INSERT INTO codes VALUES (1, 'Ä', 1.5), (1, 'a', 2), (2, 'B', NULL), (NULL, 'x', 3), (0, NULL, 0.1);
"#;

fn text(value: &Option<impl AsRef<str>>) -> String {
    value.as_ref().map_or("NULL".into(), |text| format!("'{}'", text.as_ref().replace('\'', "''")))
}

fn plain(value: Option<impl ToString>) -> String {
    value.map_or("NULL".into(), |value| value.to_string())
}

/// Puts rows into the server.
fn insert(server: &Postgres, rows: &[Row], second: &[(Option<String>, i64)]) {
    let mut script = String::from("BEGIN; TRUNCATE t, p;\n");
    for row in rows {
        let Row { u, v, g, free, h, x, y, d, m, b } = row;
        let (u, g, free, v, h) = (text(u), text(g), text(free), plain(*v), plain(*h));
        let (x, b) = (plain(*x), plain(*b));
        let _ =
            writeln!(script, "INSERT INTO t VALUES ({u}, {v}, {g}, {free}, {h}, {x}, {}, {}, {}, {b});", y.0, d.0, m.0);
    }
    for (u, z) in second {
        let _ = writeln!(script, "INSERT INTO p VALUES ({}, {z});", text(u));
    }
    server.sql(&(script + "COMMIT;"));
}

/// The same rows for the engines of this process.
fn here(policy: &Policy, rows: &[Row], second: &[(Option<String>, i64)]) -> Tables {
    let mut tables = Tables::new();
    for name in ["t", "p", "codes"] {
        let Some(table) = policy.readable(name) else { continue };
        let schema = schema(&table);
        let column = |column: &str| -> ArrayRef {
            match (name, column) {
                ("t", "u") => Arc::new(rows.iter().map(|row| row.u.clone()).collect::<StringArray>()),
                ("t", "v") => Arc::new(rows.iter().map(|row| row.v).collect::<Int64Array>()),
                ("t", "g") => Arc::new(rows.iter().map(|row| row.g).collect::<StringArray>()),
                ("t", "free") => Arc::new(rows.iter().map(|row| row.free).collect::<StringArray>()),
                ("t", "h") => Arc::new(rows.iter().map(|row| row.h).collect::<Int64Array>()),
                ("t", "x") => Arc::new(rows.iter().map(|row| row.x).collect::<Int64Array>()),
                ("t", "y") => Arc::new(rows.iter().map(|row| row.y.1).collect::<Float64Array>()),
                ("t", "d") => Arc::new(rows.iter().map(|row| row.d.1).collect::<Date32Array>()),
                ("t", "m") => Arc::new(rows.iter().map(|row| row.m.1).collect::<TimestampMicrosecondArray>()),
                ("t", _) => Arc::new(rows.iter().map(|row| row.b).collect::<BooleanArray>()),
                ("p", "u") => Arc::new(second.iter().map(|row| row.0.clone()).collect::<StringArray>()),
                ("p", _) => Arc::new(second.iter().map(|row| Some(row.1)).collect::<Int64Array>()),
                (_, "code") => Arc::new(Int64Array::from(vec![Some(1), Some(1), Some(2), None, Some(0)])),
                (_, "label") => Arc::new(StringArray::from(vec![Some("Ä"), Some("a"), Some("B"), Some("x"), None])),
                _ => Arc::new(Float64Array::from(vec![Some(1.5), Some(2.0), None, Some(3.0), Some(0.1)])),
            }
        };
        let columns = schema.fields().iter().map(|field| column(field.name())).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        let table: Table = Arc::new(MemTable::try_new(schema, vec![vec![batch]]).unwrap());
        tables.insert(name.to_owned(), table);
    }
    tables
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
    let mut lines: Vec<String> = counted
        .into_iter()
        // Of nothing at all one engine makes a group of nothing, and another none.
        .filter(|group| !(group.key.is_empty() && group.units == 0))
        .map(line)
        .collect();
    lines.sort();
    Ok(lines)
}

/// The tables of the server.
async fn there(engine: &PostgresEngine, policy: &Policy) -> Tables {
    let mut tables = BTreeMap::new();
    for name in ["t", "p", "codes"] {
        if let Some(table) = policy.readable(name) {
            let found = engine.open(&table, Path::new("."), &Arc::default()).await;
            tables.insert(name.to_owned(), found.unwrap_or_else(|error| panic!("{error}")));
        }
    }
    tables
}

/// Compares an engine with both of this process on random questions and rows. Counts those that were compared, those
/// that were refused, and gives the first that differs.
async fn compare(server: &Postgres, engine: &dyn Engine, rounds: u64, seed: u64) -> (u64, u64, Option<String>) {
    let postgres = PostgresEngine::new(&server.url("steward")).unwrap();
    let (operator, portable) = (LocalEngine::new(2), LocalEngine::new(2).portable());
    let mut random = Random(seed);
    let (mut same, mut refused) = (0, 0);
    for round in 0..rounds {
        let unit = random.of(&[
            "\"row\"",
            "{ column = \"u\" }",
            "{ column = \"u\" }",
            "{ column = \"v\" }",
            "{ column = \"u\", per = \"week\", time = \"d\" }",
            "{ column = \"v\", per = \"month\", time = \"m\" }",
        ]);
        let policy = policy(unit, 1 + random.below(3), 1 + random.below(4));
        let sql = question(&mut random, unit == PERSON, [&[]; 3]);
        let table = rows(&mut random);
        let second: Vec<_> =
            (0..random.below(12)).map(|_| (Some(random.of(&PEOPLE).to_owned()), random.below(12) as i64)).collect();
        let plan = match plan(&sql, &policy).await {
            Ok(plan) => plan,
            // Rows that are units join on unique columns only, a text has no sum: for every engine.
            Err(_) => continue,
        };
        insert(server, &table, &second);
        let local = here(&policy, &table, &second);
        let expected = counted(&portable, &plan, &local).await.unwrap_or_else(|error| panic!("{sql}: {:?}", error.0));
        assert_eq!(counted(&operator, &plan, &local).await.unwrap(), expected, "{sql}");
        match counted(engine, &plan, &there(&postgres, &policy).await).await {
            Ok(found) if found == expected => same += 1,
            Ok(found) => {
                let rows = format!("{table:?}\n{second:?}");
                return (same, refused, Some(format!("round {round}: {sql}\n{found:#?}\n{expected:#?}\n{rows}")));
            }
            Err(error) if error.0.is::<Refusal>() => {
                println!("{sql}: {}", error.0);
                refused += 1;
            }
            Err(error) => return (same, refused, Some(format!("round {round}: {sql}: {}", error.0))),
        }
    }
    (same, refused, None)
}

#[tokio::test(flavor = "multi_thread")]
async fn se_05_operator_portable_plan_and_postgresql_give_the_same_integers() {
    let Some(server) = Postgres::shared() else { return };
    let _alone = ALONE.lock().await;
    server.sql(TABLES);
    let engine = PostgresEngine::new(&server.url("steward")).unwrap();
    let (rounds, seed) = (setting("DITHER_ROUNDS", 60), setting("DITHER_SEED", 23));
    let (same, refused, difference) = compare(&server, &engine, rounds, seed).await;
    assert_eq!(difference, None);
    println!("{same} questions give the same, {refused} are refused");
    assert!(same > 4 * refused, "{same} of {rounds}, {refused} refused");
}

/// Tests that fill the same tables take turns.
static ALONE: Mutex<()> = Mutex::const_new(());

/// An engine whose statements are changed on their way.
struct Mutant(PostgresEngine, fn(String) -> String);

impl Engine for Mutant {
    fn count<'a>(&'a self, bounding: &'a Bounding<'a>, tables: &'a Tables) -> Counting<'a> {
        Box::pin(async move {
            let connection = Mutex::new(self.0.begin().await.map_err(failed)?);
            let run = async |plan: LogicalPlan| {
                let mut statement = statement(&plan, bounding.secret).map_err(|error| EngineError(error.into()))?;
                statement.sql = (self.1)(statement.sql);
                answered(&mut *connection.lock().await, &statement, bounding.secret).await
            };
            portable(bounding, tables, run).await
        })
    }
}

/// The controls: a collation, a cast, a rounding or a letter that is left as PostgreSQL has it is caught.
#[tokio::test(flavor = "multi_thread")]
async fn se_05_control_what_is_not_rewritten_is_caught() {
    let Some(server) = Postgres::shared() else { return };
    let _alone = ALONE.lock().await;
    server.sql(TABLES);
    let order = server.sql("SELECT 'a' < 'B', 'a' COLLATE \"C\" < 'B'");
    assert_eq!(order.trim(), "t|f", "the server's own order is not that of bytes");
    type Change = fn(String) -> String;
    let mutants: [(&str, Change); 4] = [
        ("collation", |sql| sql.replace(" COLLATE \"C\"", "")),
        ("whole part", |sql| sql.replace("trunc(", "(")),
        ("spelling", |sql| sql.replace("translate(", "concat(")),
        ("rank", |sql| sql.replace("sha256(", "md5(")),
    ];
    for (name, change) in mutants {
        let mutant = Mutant(PostgresEngine::new(&server.url("steward")).unwrap(), change);
        let (_, _, difference) = compare(&server, &mutant, 400, 29).await;
        assert!(difference.is_some(), "{name}");
    }
}

/// What evaluates differently on made-up rows is refused before a charge; what does not is accepted.
#[tokio::test(flavor = "multi_thread")]
async fn sq_12_every_question_is_rehearsed_in_the_server() {
    let Some(server) = Postgres::shared() else { return };
    let engine = PostgresEngine::new(&server.url("steward")).unwrap();
    let mut random = Random(31);
    let mut accepted = 0;
    for _ in 0..setting("DITHER_ROUNDS", 25) {
        let policy = policy("{ column = \"u\" }", 2, 3);
        let sql = question(&mut random, true, [&[]; 3]);
        let Ok(plan) = plan(&sql, &policy).await else { continue };
        match rehearse(&plan, &policy, &engine).await {
            Ok(()) => accepted += 1,
            Err(RehearsalError::Refused(refusal)) => {
                assert!(!refusal.message.contains("another way on made-up rows"), "{sql}: {refusal}");
                assert!(!refusal.message.contains("failed on made-up rows"), "{sql}: {refusal}");
                println!("{sql}: {refusal}");
            }
            Err(RehearsalError::Source(error)) => panic!("{error}"),
        }
    }
    assert!(accepted > 12, "{accepted}");
}

/// What PostgreSQL is known to do in another way is refused, with what to write instead.
#[tokio::test(flavor = "multi_thread")]
async fn sq_what_postgresql_does_in_another_way_is_refused() {
    let Some(server) = Postgres::shared() else { return };
    let engine = PostgresEngine::new(&server.url("steward")).unwrap();
    let policy = policy("{ column = \"u\" }", 2, 3);
    for (sql, word) in [
        ("SELECT COUNT(*) FROM t WHERE LOWER(free) = 'a'", "language"),
        ("SELECT COUNT(*) FROM t WHERE x % 2 = 0", "%"),
        ("SELECT COUNT(*) FROM t WHERE x * y < 0", "-0"),
        ("SELECT COUNT(DISTINCT y) FROM t", "fraction"),
        ("SELECT COUNT(*) FROM t WHERE CAST(free AS DOUBLE) > 1", "reads a text"),
        ("SELECT COUNT(*) FROM t WHERE CAST(free AS DATE) > '2026-01-01'", "reads a text"),
        ("SELECT COUNT(*) FROM t WHERE free LIKE 'a\\%'", "LIKE"),
        ("SELECT COUNT(*) FROM t WHERE free ILIKE 'a%'", "LIKE"),
        ("SELECT SUM(y * y * y * y * y, contribution_bounds_per_row => (0, 1)) FROM t", "range of a float"),
        ("SELECT COUNT(*) FROM t WHERE EXTRACT(second FROM m) > 3", "part of a date"),
    ] {
        let plan = plan(sql, &policy).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        match rehearse(&plan, &policy, &engine).await {
            Err(RehearsalError::Refused(refusal)) => {
                assert!(refusal.message.contains(word), "{sql}: {refusal}");
                assert!(refusal.hint.is_some());
            }
            other => panic!("{sql}: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tm_tables_are_found_by_public_things_only() {
    let Some(server) = Postgres::start() else { return };
    server.sql(TABLES);
    server.sql(
        "CREATE ROLE nobody LOGIN; CREATE ROLE reader LOGIN PASSWORD 'p''ä ss'; GRANT SELECT ON t TO reader;
         CREATE SCHEMA hidden; CREATE TABLE hidden.t AS TABLE t; CREATE INDEX i ON t (v); CREATE SEQUENCE s;",
    );
    let policy = policy("{ column = \"u\" }", 1, 1);
    let look = async |url: String, source: &str| {
        let mut table = policy.tables["t"].clone();
        table.source = source.into();
        let engine = PostgresEngine::new(&url).unwrap();
        match engine.open(&table, Path::new("."), &Arc::default()).await {
            Ok(_) => "found".to_owned(),
            Err(error) => format!("{error}"),
        }
    };
    let steward = || server.url("steward");
    assert_eq!(look(steward(), "postgres:public.t").await, "found");
    assert_eq!(look(steward(), "postgres:t").await, "found");
    assert_eq!(look(steward(), "postgres:T").await, "public.T cannot be read: there is none");
    assert_eq!(look(steward(), "postgres:nowhere.t").await, "nowhere.t cannot be read: there is none");
    assert_eq!(look(steward(), "postgres:s").await, "public.s cannot be read: it is no table or view");
    assert!(look(steward(), "postgres:p").await.contains("is not in public.p"));
    assert!(look(steward(), "t.csv").await.contains("is a file"));
    let denied = "public.t cannot be read: the role may not read all declared columns";
    assert_eq!(look(server.url("nobody"), "postgres:t").await, denied);
    assert!(look(server.url("reader"), "postgres:hidden.t").await.contains("may not read"));
    // A password over TCP, by SCRAM.
    let tcp = |password: &str| server.tcp_url("reader", password);
    assert_eq!(look(tcp("p'%C3%A4%20ss"), "postgres:t").await, "found");
    assert!(look(tcp("wrong"), "postgres:t").await.contains("SQLSTATE 28P01"));
    let mut declared = policy.tables["t"].clone();
    declared.columns.get_mut("h").unwrap().r#type = dither_query::policy::ColumnType::Text;
    declared.columns.get_mut("free").unwrap().r#type = dither_query::policy::ColumnType::Integer;
    let engine = PostgresEngine::new(&steward()).unwrap();
    let error = engine.open(&declared, Path::new("."), &Arc::default()).await.err().unwrap();
    assert!(matches!(error, SourceError::ColumnType { ref column, .. } if column == "free"), "{error}");
    // Whoever has locked the table does not hold up what is not charged yet.
    let lock = "BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(13); COMMIT";
    tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| server.sql(lock));
            std::thread::sleep(std::time::Duration::from_secs(1));
            let found = tokio::runtime::Handle::current().block_on(look(steward(), "postgres:t"));
            assert!(found.contains("SQLSTATE 55P03"), "{found}");
        });
    });
    // The statement of a question is refused to write anything.
    let mut connection = engine.begin().await.unwrap();
    let written = connection.run("INSERT INTO public.p VALUES ('x', 1)", &[]).await;
    assert_eq!(written.err().unwrap().to_string(), "PostgreSQL refused with SQLSTATE 25006");
    server.stop();
    assert!(look(steward(), "postgres:t").await.starts_with("the server cannot be used"));
}

/// Of numbers around the ends, whatever the type of their column, the reading is that of the rule.
#[tokio::test(flavor = "multi_thread")]
async fn fp_07_numbers_are_read_within_their_ends() {
    let Some(server) = Postgres::shared() else { return };
    let policy = policy("\"row\"", 1, 1);
    let _alone = ALONE.lock().await;
    server.sql(TABLES);
    let large = ("'1e38'", Some(1e38_f32.into()));
    let all = [("'NaN'", None), ("'Infinity'", Some(LARGEST)), ("'-Infinity'", Some(-LARGEST)), ("'0.25'", Some(0.25))];
    let zeros = [("'-0.0'", Some(0.0)), ("'1e-45'", Some(0.0))];
    let wide = [("'1e308'", Some(LARGEST)), ("'-1e308'", Some(-LARGEST)), ("'2.9e-39'", Some(0.0))];
    let wider = [("'1e400'", Some(LARGEST)), ("'-1e131071'", Some(-LARGEST)), ("'1e-400'", Some(0.0))];
    // As the server writes it, and as it is read.
    type Number = (&'static str, Option<f64>);
    let numbers: [(&str, Vec<Number>); 3] = [
        ("float4", [&all[..], &zeros, &[large]].concat()),
        ("float8", [&all[..], &zeros, &wide, &[("'5e-324'", Some(0.0))]].concat()),
        ("numeric", [&all[..], &zeros, &wide, &wider].concat()),
    ];
    for (kind, numbers) in numbers {
        server.sql(&format!("TRUNCATE t; ALTER TABLE t ALTER COLUMN y TYPE {kind}"));
        let empty = Row {
            u: None,
            v: None,
            g: None,
            free: None,
            h: None,
            x: None,
            y: NUMBERS[0],
            d: DAYS[0],
            m: MOMENTS[0],
            b: None,
        };
        let rows: Vec<Row> = numbers.into_iter().map(|y| Row { y, ..empty.clone() }).collect();
        insert(&server, &rows, &[]);
        let engine = PostgresEngine::new(&server.url("steward")).unwrap();
        for sql in [
            "SELECT SUM(y), COUNT(y), SUM(y * y / 7 + y, contribution_bounds_per_row => (-9, 9)) FROM t",
            "SELECT COUNT(*) FROM t WHERE y < 1e77",
            "SELECT COUNT(DISTINCT y), MEDIAN(y) FROM t WHERE y <> 0",
        ] {
            let plan = plan(sql, &policy).await.unwrap();
            let expected = counted(&LocalEngine::new(1), &plan, &here(&policy, &rows, &[])).await.unwrap();
            let found = counted(&engine, &plan, &there(&engine, &policy).await).await;
            assert_eq!(found.unwrap_or_else(|error| panic!("{kind}: {sql}: {}", error.0)), expected, "{kind}: {sql}");
        }
    }
}

/// Types that lie near the declared ones read as the rule says; a text that is too long is NULL.
#[tokio::test(flavor = "multi_thread")]
async fn sq_24_columns_of_related_types_are_read_as_declared() {
    let Some(server) = Postgres::start() else { return };
    server.sql(
        "CREATE TABLE o (u uuid, c char(5), l text, d timestamptz, m timestamptz, n date, i int2);
         INSERT INTO o VALUES
         ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'ab', repeat('x', 8192), '2026-11-30 23:30:00-05', '2026-11-30 23:30:00-05', '2026-11-30', 7),
         (NULL, 'ab   ', repeat('x', 8193), '0001-01-01 00:00:00+00', '10000-01-01 00:00:00+00', 'infinity', NULL),
         (NULL, NULL, repeat('é', 4096), 'infinity', '-infinity', '0001-01-01 BC', -7);",
    );
    let policy = r#"
        dataset = "test"
        [budget]
        epsilon = 100
        delta = 0.1
        [tables.o]
        source = "postgres:o"
        privacy_unit = "row"
        [tables.o.columns]
        u = { type = "text" }
        c = { type = "text" }
        l = { type = "text" }
        d = { type = "date" }
        m = { type = "timestamp" }
        n = { type = "timestamp" }
        i = { type = "number", bounds = [-9, 9] }
        "#;
    let policy = Policy::from_toml(policy, ".").unwrap();
    let engine = PostgresEngine::new(&server.url("steward")).unwrap();
    let table = engine.open(&policy.tables["o"], Path::new("."), &Arc::default()).await.unwrap();
    let tables = BTreeMap::from([("o".to_owned(), table)]);
    // Of groups with keys from the data the number of units is that of rows, which are not counted again.
    for (sql, expected) in [
        ("SELECT u, COUNT(*) FROM o GROUP BY u", "[Null] 2 0|[Text(\"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11\")] 1 0"),
        ("SELECT c, COUNT(*) FROM o GROUP BY c", "[Null] 1 0|[Text(\"ab\")] 2 0"),
        ("SELECT COUNT(*) FROM o WHERE l IS NULL", "[] 1 1"),
        ("SELECT d, COUNT(*) FROM o GROUP BY d", "[Null] 1 0|[Text(\"0001-01-01\")] 1 0|[Text(\"2026-12-01\")] 1 0"),
        ("SELECT m, COUNT(*) FROM o GROUP BY m", "[Null] 2 0|[Text(\"2026-12-01T04:30:00\")] 1 0"),
        ("SELECT n, COUNT(*) FROM o GROUP BY n", "[Null] 2 0|[Text(\"2026-11-30T00:00:00\")] 1 0"),
        ("SELECT COUNT(*) FROM o WHERE i < -6.5", "[] 1 1"),
    ] {
        let plan = plan(sql, &policy).await.unwrap();
        let found = counted(&engine, &plan, &tables).await.unwrap_or_else(|error| panic!("{sql}: {}", error.0));
        let found: Vec<&str> = found.iter().map(|line| line.split(" [").next().unwrap()).collect();
        let found: Vec<String> = found.iter().map(|line| (*line).to_owned()).collect();
        assert_eq!(found.join("|"), expected, "{sql}");
    }
}
