//! SQL as text: every case in `tests/sql/*.txt` is a question and what becomes of it.
//!
//! ```text
//! ### name
//! SELECT …
//! ---- refused CODE            the question is refused with this code …
//! caret TEXT                   … and the caret points at this text
//! says TEXT                    … and the message or the hint contains this text
//! ---- planned                 or it is planned, and each aggregate is measured like this:
//! AGGREGATE | MECHANISM | L1 SENSITIVITY
//! warns TEXT                   … and, where asked for, this is warned of, or nothing is: `warns nothing`
//! groups N: KEYS               … and, where asked for, these groups are public; of many the first three and the last
//! ```

#![allow(clippy::unwrap_used, reason = "the helpers of tests may fail like tests")]

use dither_core::Key;
use dither_query::plan::{QueryPlan, Request, plan};
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
income = { type = "number", approx_bounds = true }
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

/// Public keys from lists, ranges, calendars and public tables, which lie beside the cases.
const KEY_SETS: &str = r#"
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
patient = { type = "integer" }
age = { type = "integer", bounds = [0, 110] }
band = { type = "integer", expression = "floor(age / 25) * 25", keys = { from = 0, to = 99, step = 25 } }
number = { type = "integer", keys = { from = 1, to = 10000 } }
day = { type = "date", keys = { from = "2025-12-15", to = "2026-02-12" } }
at = { type = "timestamp", keys = { from = "2025-12-15", to = "2026-02-12" } }
plain = { type = "date" }
start = { type = "date", expression = "date_trunc('month', day)", keys = { from = "2025-12-15", to = "2026-02-12", every = "month" } }
[tables.stays]
source = "stays.csv"
privacy_unit = { column = "patient" }
max_groups_per_unit = 3
max_rows_per_group = 2
[tables.stays.columns]
patient = { type = "integer" }
days = { type = "integer", bounds = [0, 30] }
ward = { type = "text", keys = { table = "wards", column = "ward" } }
region = { type = "text", keys = { table = "regions", column = "region" } }
[tables.doubled]
source = "stays.csv"
privacy_unit = { column = "patient" }
max_groups_per_unit = 3
max_rows_per_group = 2
[tables.doubled.columns]
patient = { type = "integer" }
twice = { type = "text", keys = { table = "wards", column = "region" } }
[tables.bare]
source = "stays.csv"
privacy_unit = "row"
[tables.bare.columns]
nothing = { type = "text", keys = { table = "empty", column = "x" } }
[tables.lost]
source = "stays.csv"
privacy_unit = "row"
[tables.lost.columns]
gone = { type = "text", keys = { table = "gone", column = "x" } }
[tables.crowd]
source = "stays.csv"
privacy_unit = "row"
[tables.crowd.columns]
code = { type = "integer", keys = { table = "codes", column = "code" } }
[public.wards]
source = "wards.csv"
[public.wards.columns]
ward = { type = "text" }
region = { type = "text" }
[public.regions]
source = "wards.csv"
[public.regions.columns]
region = { type = "text", unique = true }
[public.empty]
source = "empty.csv"
[public.empty.columns]
x = { type = "text" }
[public.gone]
source = "gone.csv"
[public.gone.columns]
x = { type = "text" }
[public.codes]
source = "codes.csv"
[public.codes.columns]
code = { type = "integer" }
"#;

/// Units that are what one person has within a week: two tables, one that is owned through a key, one of other people.
const PERIODS: &str = r#"
dataset = "clinic"
[budget]
epsilon = 10
delta = 1e-3
[tables.visits]
source = "visits.csv"
privacy_unit = { column = "patient", per = "week", time = "admitted" }
max_groups_per_unit = 2
max_rows_per_group = 2
[tables.visits.columns]
patient = { type = "text" }
admitted = { type = "timestamp" }
left = { type = "timestamp" }
id = { type = "integer" }
ward = { type = "text", keys = ["A", "B", "C"] }
cost = { type = "number", bounds = [0, 1000], step = 1 }
[tables.meals]
source = "meals.csv"
privacy_unit = { column = "patient", per = "week", time = "day" }
max_groups_per_unit = 2
max_rows_per_group = 7
[tables.meals.columns]
patient = { type = "text" }
day = { type = "date" }
[tables.labs]
source = "labs.csv"
privacy_unit = { column = "visit", through = "visits.id" }
max_groups_per_unit = 3
max_rows_per_group = 5
[tables.labs.columns]
visit = { type = "integer" }
value = { type = "number", bounds = [0, 10], step = 1 }
[tables.staff]
source = "staff.csv"
privacy_unit = { column = "person" }
max_groups_per_unit = 1
max_rows_per_group = 1
[tables.staff.columns]
person = { type = "text" }
"#;

/// Tables of few rows, of many, and of unknown many.
const SIZES: &str = r#"
dataset = "clinic"
[budget]
epsilon = 10
delta = 1e-3
[tables.visits]
source = "visits.csv"
privacy_unit = { column = "patient" }
max_groups_per_unit = 3
max_rows_per_group = 2
public = { rows = 200 }
[tables.visits.columns]
patient = { type = "integer" }
ward = { type = "text", keys = ["A", "B"] }
cost = { type = "number", bounds = [0, 1000], step = 1 }
[tables.crowd]
source = "crowd.csv"
privacy_unit = "row"
public = { rows = 1000000 }
[tables.crowd.columns]
cost = { type = "number", bounds = [0, 1000], step = 1 }
income = { type = "number", approx_bounds = true }
[tables.unknown]
source = "unknown.csv"
privacy_unit = "row"
[tables.unknown.columns]
income = { type = "number", approx_bounds = true }
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
            let text = format!("{} {}", refusal.message, refusal.hint.as_deref().unwrap_or_default());
            let says = case.expected.lines().find_map(|line| line.strip_prefix("says "));
            let says = says.map(|wanted| if text.contains(wanted) { wanted } else { text.as_str() });
            let says = says.map_or(String::new(), |says| format!("\nsays {says}"));
            format!("refused {}{says}{caret}", refusal.code)
        }
        Ok(plan) => {
            dither_query::release::columns(&plan).await.expect("the outer part runs");
            let cost = plan.cost().unwrap().epsilon_nanos;
            assert!(cost <= 1_000_000_000 || case.sql.contains("OPTIONS"), "{}: costs {cost}", case.name);
            let lines = plan
                .explain_outputs()
                .into_iter()
                .map(|output| format!("\n{} | {} | {}", output.measures, output.mechanism, output.l1_sensitivity));
            let groups = if case.expected.contains("\ngroups ") { groups(&plan) } else { String::new() };
            format!("planned{}{}{groups}", lines.collect::<String>(), warned(case, &plan))
        }
    }
}

/// Whether a plan warns of what a case expects.
fn warned(case: &Case, plan: &QueryPlan) -> String {
    let wanted = case.expected.lines().find_map(|line| line.strip_prefix("warns "));
    let warnings = plan.warnings();
    match wanted {
        None => String::new(),
        Some("nothing") if warnings.is_empty() => "\nwarns nothing".into(),
        Some(wanted) if warnings.iter().any(|warning| warning.contains(wanted)) => format!("\nwarns {wanted}"),
        Some(_) => format!("\nwarns {warnings:?}"),
    }
}

/// How many public groups a plan has, and the first few and the last key of each column.
fn groups(plan: &QueryPlan) -> String {
    let shown = |keys: &[Key]| {
        let texts: Vec<String> = keys.iter().map(ToString::to_string).collect();
        match texts.as_slice() {
            [one, two, three, _, .., last] if texts.len() > 4 => format!("{one}, {two}, {three}, …, {last}"),
            all => all.join(", "),
        }
    };
    let lists = plan.question.keys.iter().filter_map(|key| key.domain.public());
    let lists: Vec<String> = lists.map(shown).collect();
    format!("\ngroups {}: {}", plan.question.public_groups().unwrap_or_default(), lists.join("; "))
}

fn pointed_at(sql: &str, start: (u64, u64), end: (u64, u64)) -> String {
    let line = sql.lines().nth(start.0 as usize - 1).unwrap_or_default();
    let width = if end.0 == start.0 { (end.1 + 1 - start.1) as usize } else { 1 };
    line.chars().skip(start.1 as usize - 1).take(width).collect()
}

async fn run(file: &str, policy: &str) {
    run_in(file, policy, std::path::Path::new(".")).await;
}

async fn run_in(file: &str, policy: &str, folder: &std::path::Path) {
    let policy = Policy::from_toml(policy, folder).unwrap();
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

/// Questions on which other systems fail, by the number of the report where it is known.
#[tokio::test]
async fn sq_asks() {
    run(include_str!("sql/asks.txt"), RELATIONS).await;
}

#[tokio::test]
async fn sq_periods() {
    run(include_str!("sql/periods.txt"), PERIODS).await;
}

#[tokio::test]
async fn sq_sizes() {
    run(include_str!("sql/sizes.txt"), SIZES).await;
}

#[tokio::test]
async fn sq_key_sets() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("wards.csv", include_str!("sql/wards.csv")), ("empty.csv", "x\n\n,\n")] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let codes: String = (0..=1_000_000).map(|code| format!("{code}\n")).collect();
    std::fs::write(folder.path().join("codes.csv"), format!("code\n{codes}")).unwrap();
    run_in(include_str!("sql/key_sets.txt"), KEY_SETS, folder.path()).await;
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
