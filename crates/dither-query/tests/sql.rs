//! SQL as text: every case in `tests/sql/*.txt` is a question and what becomes of it.
//!
//! ```text
//! ### name
//! SELECT …
//! ---- refused CODE            the question is refused with this code …
//! caret TEXT                   … and the caret points at this text
//! ---- planned                 or it is planned, and each aggregate is measured like this:
//! AGGREGATE | MECHANISM | L1 SENSITIVITY
//! ```

#![allow(clippy::unwrap_used, reason = "the helpers of tests may fail like tests")]

use dither_query::plan::{Request, plan};
use dither_query::policy::Policy;

const POLICY: &str = r#"
dataset = "clinic"
[budget]
epsilon = 10
delta = 1e-3
max_epsilon_per_query = 2
[tables.visits]
source = "visits.csv"
privacy_unit = { column = "patient" }
max_groups_per_unit = 3
max_rows_per_group = 2
[tables.visits.columns]
patient = { type = "integer" }
ward = { type = "text", keys = ["A", "B", "C", "D"] }
city = { type = "text" }
age = { type = "integer", bounds = [0, 110] }
cost = { type = "number", bounds = [-50, 1000], step = 1 }
weight = { type = "number" }
day = { type = "date" }
urgent = { type = "boolean" }
band = { type = "integer", expression = "floor(age / 10)", keys = { from = 0, to = 11 } }
[tables.bare]
source = "bare.csv"
privacy_unit = { column = "patient" }
[tables.bare.columns]
patient = { type = "integer" }
"#;

/// Several tables: two with one unit, one that is owned through a key, one of other people, one of rows, two public ones.
const RELATIONS: &str = r#"
dataset = "clinic"
[budget]
epsilon = 10
delta = 1e-3
[tables.visits]
source = "visits.csv"
privacy_unit = { column = "patient" }
max_groups_per_unit = 3
max_rows_per_group = 2
[tables.visits.columns]
patient = { type = "text" }
id = { type = "integer" }
ward = { type = "text", keys = ["A", "B"] }
cost = { type = "number", bounds = [0, 1000], step = 1 }
day = { type = "date" }
long = { type = "text", expression = "ward || ward" }
[tables.patients]
source = "patients.csv"
privacy_unit = { column = "patient" }
max_groups_per_unit = 2
max_rows_per_group = 1
[tables.patients.columns]
patient = { type = "text" }
age = { type = "integer", bounds = [0, 110] }
cost = { type = "number", bounds = [0, 7], step = 1 }
[tables.labs]
source = "labs.csv"
privacy_unit = { column = "visit", through = "visits.id" }
max_groups_per_unit = 3
max_rows_per_group = 5
[tables.labs.columns]
visit = { type = "integer" }
value = { type = "number", bounds = [0, 10], step = 1 }
[tables.bills]
source = "bills.csv"
privacy_unit = { column = "payer", through = "patients.patient" }
max_groups_per_unit = 1
max_rows_per_group = 3
[tables.bills.columns]
payer = { type = "text" }
amount = { type = "number", bounds = [0, 100], step = 1 }
[tables.staff]
source = "staff.csv"
privacy_unit = { column = "person" }
max_groups_per_unit = 1
max_rows_per_group = 1
[tables.staff.columns]
person = { type = "text" }
ward = { type = "text" }
[tables.swaps]
source = "swaps.csv"
privacy_unit = { column = "patient" }
neighbors = "replace-unit"
max_groups_per_unit = 1
max_rows_per_group = 1
[tables.swaps.columns]
patient = { type = "text" }
[tables.logins]
source = "logins.csv"
privacy_unit = "row"
[tables.logins.columns]
patient = { type = "text" }
ward = { type = "text" }
minutes = { type = "integer", bounds = [0, 60] }
[public.wards]
source = "wards.csv"
[public.wards.columns]
ward = { type = "text", unique = true }
floor = { type = "integer", keys = { from = 0, to = 3 } }
beds = { type = "integer", bounds = [0, 50] }
[public.holidays]
source = "holidays.csv"
[public.holidays.columns]
day = { type = "date" }
name = { type = "text" }
"#;

struct Case {
    name: String,
    sql: String,
    expected: String,
}

fn cases(text: &str) -> Vec<Case> {
    text.split("\n### ")
        .skip(1)
        .map(|block| {
            let (name, rest) = block.split_once('\n').expect("a case has a name");
            let (sql, expected) = rest.split_once("\n---- ").expect("a case has an expectation");
            Case { name: name.trim().into(), sql: sql.into(), expected: expected.trim().into() }
        })
        .collect()
}

async fn outcome(case: &Case, policy: &Policy) -> String {
    let delta = if case.name.contains("with_delta") { "1e-6" } else { "0" };
    let mut request = Request::new(case.sql.clone(), "1".parse().unwrap());
    request.delta = Some(delta.parse().unwrap());
    if case.sql.contains("OPTIONS") {
        request.epsilon = None;
        request.delta = None;
    }
    match plan(&request, policy).await {
        Err(refusal) => {
            let caret = refusal.place.map(|place| pointed_at(&case.sql, place.start, place.end));
            let wants_caret = case.expected.contains("\ncaret ");
            let caret = caret.filter(|_| wants_caret).map_or(String::new(), |text| format!("\ncaret {text}"));
            format!("refused {}{caret}", refusal.code)
        }
        Ok(plan) => {
            dither_query::release::columns(&plan).await.expect("the outer part runs");
            let cost = plan.cost().unwrap().epsilon_nanos;
            assert!(cost <= 1_000_000_000 || case.sql.contains("OPTIONS"), "{}: costs {cost}", case.name);
            let lines = plan
                .explain_outputs()
                .into_iter()
                .map(|output| format!("\n{} | {} | {}", output.measures, output.mechanism, output.l1_sensitivity));
            format!("planned{}", lines.collect::<String>())
        }
    }
}

fn pointed_at(sql: &str, start: (u64, u64), end: (u64, u64)) -> String {
    let line = sql.lines().nth(start.0 as usize - 1).unwrap_or_default();
    let width = if end.0 == start.0 { (end.1 + 1 - start.1) as usize } else { 1 };
    line.chars().skip(start.1 as usize - 1).take(width).collect()
}

async fn run(file: &str, policy: &str) {
    let policy = Policy::from_toml(policy, ".").unwrap();
    let cases = cases(&format!("\n{file}"));
    assert!(!cases.is_empty());
    let mut wrong = String::new();
    for case in &cases {
        let outcome = outcome(case, &policy).await;
        if outcome != case.expected {
            wrong += &format!("{}\n  wanted {}\n  got    {outcome}\n", case.name, case.expected);
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[tokio::test]
async fn sq_refusals() {
    run(include_str!("sql/refused.txt"), POLICY).await;
}

#[tokio::test]
async fn sq_plans() {
    run(include_str!("sql/planned.txt"), POLICY).await;
}

#[tokio::test]
async fn sq_relations() {
    run(include_str!("sql/relations.txt"), RELATIONS).await;
}

#[tokio::test]
async fn sv_10_queries_that_nest_or_multiply_are_refused_without_a_crash() {
    let policy = Policy::from_toml(RELATIONS, ".").unwrap();
    let deep =
        |depth: usize| format!("SELECT COUNT(*) FROM {}visits{}", "(SELECT * FROM ".repeat(depth), ")".repeat(depth));
    // Each WITH reads the one before it twice: the last one would read 2^20 tables.
    let doubled: Vec<String> = (1..20)
        .map(|level| format!("w{level} AS (SELECT a.patient FROM w{0} a JOIN w{0} b USING (patient))", level - 1))
        .collect();
    let doubled = format!("WITH w0 AS (SELECT patient FROM visits), {} SELECT COUNT(*) FROM w19", doubled.join(", "));
    let wide = format!("SELECT COUNT(*) FROM visits{}", " JOIN wards USING (ward)".repeat(12));
    let long = format!("SELECT COUNT(*) FROM visits -- {}", "x".repeat(10_000_000));
    for sql in [deep(9), deep(1_000), doubled, wide, long] {
        let refusal = plan(&Request::new(sql, "1".parse().unwrap()), &policy).await.unwrap_err();
        assert_eq!(refusal.code.as_str(), "too-large", "{refusal}");
        assert!(refusal.hint.is_some());
    }
    assert!(plan(&Request::new(deep(8), "1".parse().unwrap()), &policy).await.is_ok());
}

#[tokio::test]
async fn sv_10_deep_and_long_texts_are_refused_without_a_crash() {
    let policy = Policy::from_toml(POLICY, ".").unwrap();
    for sql in [
        format!("SELECT COUNT(*) FROM visits WHERE {}1{} = 1", "(".repeat(100_000), ")".repeat(100_000)),
        format!("SELECT COUNT(*) FROM visits WHERE age = 1{}", " + 1".repeat(60_000)),
        format!("SELECT COUNT(*) FROM visits WHERE age IN ({})", "1,".repeat(200_000)),
        format!("SELECT COUNT(*) FROM visits WHERE {} TRUE", "NOT ".repeat(50_000)),
        "(".repeat(200_000),
        "\u{0}\u{feff}SELECT".into(),
    ] {
        let request = Request::new(sql, "1".parse().unwrap());
        assert!(plan(&request, &policy).await.is_err());
    }
    // What is just within the limit is answered on the same stack.
    let long = format!("SELECT COUNT(*) FROM visits WHERE age = 1{}", " + 1".repeat(235));
    assert!(plan(&Request::new(long, "1".parse().unwrap()), &policy).await.is_ok());
}
