//! Errors of the four questions that libraries for differential privacy were measured with, on a table of visits.
//!
//! The table is a Parquet file with the columns `user_id`, `hospital` (50 public keys, `H00` to `H49`), `diagnosis`
//! (160 common keys and 40 of at most twelve users, `D160` and up) and `days`, from 0 to 60.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use dither::{Answer, Cell, Policy, Request, Session};

use crate::figures::{Figure, Section, median};
use crate::truth::{Columns, Table};

/// One question: for whom, what, and the exact answers it is compared with.
struct Question {
    title: &'static str,
    unit: &'static str,
    sql: &'static str,
    /// The group columns.
    keys: &'static [&'static str],
}

const BY_USER: &str = "privacy_unit = { column = \"user_id\" }\nmax_groups_per_unit = 3\nmax_rows_per_group = 5";
const BY_ROW: &str = "privacy_unit = \"row\"";

const QUESTIONS: [Question; 4] = [
    Question {
        title: "Q1: by 50 public hospitals; a user counts with 5 rows in each of 3",
        unit: BY_USER,
        sql: "SELECT hospital, COUNT(*) AS n, SUM(days) AS s, AVG(days) AS mean FROM visits GROUP BY hospital",
        keys: &["hospital"],
    },
    Question {
        title: "Q2: by diagnosis, keys from the data; a user counts with 5 rows in each of 3",
        unit: BY_USER,
        sql: "SELECT diagnosis, COUNT(*) AS n, AVG(days) AS mean FROM visits GROUP BY diagnosis",
        keys: &["diagnosis"],
    },
    Question {
        title: "Q3: by hospital and diagnosis, keys from the data; rows are units",
        unit: BY_ROW,
        sql: "SELECT place, diagnosis, COUNT(*) AS n, AVG(days) AS mean FROM visits GROUP BY place, diagnosis",
        keys: &["place", "diagnosis"],
    },
    Question {
        title: "Q4: five quantiles of days; rows are units",
        unit: BY_ROW,
        sql: "SELECT PERCENTILE_CONT(days, 0.1) AS q10, PERCENTILE_CONT(days, 0.25) AS q25, MEDIAN(days) AS q50, \
              PERCENTILE_CONT(days, 0.75) AS q75, PERCENTILE_CONT(days, 0.9) AS q90 FROM visits",
        keys: &[],
    },
];

/// Asks each question several times at ε = 1, δ = 1e-6, and compares with the rows that a user may count with, chosen by
/// other chances.
pub async fn run(data: &Path, runs: usize) -> Result<Vec<Section>> {
    let mut sections = Vec::new();
    for question in QUESTIONS {
        let policy = || Policy::from_toml(&policy(question.unit, data), ".");
        let table = Table::open(&policy()?, "visits", Path::new("."))?;
        let exact = exact(&table, &question).await?;
        let (mut errors, mut seconds) = (BTreeMap::<String, Vec<f64>>::new(), Vec::new());
        let (mut groups, mut rare) = (Vec::new(), 0);
        for _ in 0..runs {
            let folder = tempfile::tempdir()?;
            let mut policy = policy()?;
            policy.ledger = folder.path().join("ledger.db");
            let request = Request { delta: Some("1e-6".parse()?), ..Request::new(question.sql, "1".parse()?) };
            let start = Instant::now();
            let answer = Session::new(policy)?.query(&request).await?.answer;
            seconds.push(start.elapsed().as_secs_f64());
            groups.push(answer.rows.len() as f64);
            let released = released(&answer);
            for (name, cells) in &exact {
                let error = |key: &String, exact: &f64| Some((released.get(name)?.get(key)? - exact).abs());
                let errors = errors.entry(name.clone()).or_default();
                if question.keys.is_empty() {
                    errors.extend(cells.iter().filter_map(|(key, exact)| error(key, exact)));
                } else {
                    let relative = cells.iter().filter_map(|(key, exact)| Some(error(key, exact)? / exact.abs()));
                    errors.push(median(&relative.collect::<Vec<_>>()));
                }
            }
            let cells = released.values().next().context("an answer has a column")?;
            rare += cells.keys().filter(|key| key.rsplit('|').next().is_some_and(|key| key >= "D160")).count();
        }
        let kind = if question.keys.is_empty() { "absolute error" } else { "relative error, median over keys" };
        let mut figures: Vec<Figure> =
            errors.iter().map(|(name, errors)| Figure::new(name, kind, median(errors), "")).collect();
        if !question.keys.is_empty() {
            figures.push(Figure::new("groups", kind, median(&groups), ""));
            figures.push(Figure::new("groups of at most twelve users, in all runs", kind, rare as f64, ""));
        }
        figures.push(Figure::new("time of an answer", kind, median(&seconds), "s"));
        sections.push(Section { title: format!("{}, medians of {runs} runs", question.title), figures });
    }
    Ok(sections)
}

fn policy(unit: &str, data: &Path) -> String {
    let hospitals: Vec<String> = (0..50).map(|hospital| format!("\"H{hospital:02}\"")).collect();
    format!(
        "dataset = \"visits\"\nledger = \"ledger.db\"\n[budget]\nepsilon = 1\ndelta = 1e-6\n[tables.visits]\n\
         source = {data:?}\n{unit}\n[tables.visits.columns]\nuser_id = {{ type = \"integer\" }}\n\
         hospital = {{ type = \"text\", keys = [{}] }}\ndiagnosis = {{ type = \"text\" }}\n\
         place = {{ type = \"text\", expression = \"hospital\" }}\n\
         days = {{ type = \"number\", bounds = [0, 60], step = 0.01, typical = 5 }}\n",
        hospitals.join(", ")
    )
}

/// The exact answers: of all rows, or of those that a user may count with.
async fn exact(table: &Table, question: &Question) -> Result<Columns> {
    let [key, ..] = question.keys else {
        let quantile = |name: &str, part: f64| format!("percentile_cont(days, {part}) AS {name}");
        let quantiles = [("q10", 0.1), ("q25", 0.25), ("q50", 0.5), ("q75", 0.75), ("q90", 0.9)];
        let quantiles: Vec<String> = quantiles.iter().map(|(name, part)| quantile(name, *part)).collect();
        return table.columns(&format!("SELECT {} FROM visits", quantiles.join(", ")), 0).await;
    };
    let keys = question.keys.join(", ");
    let aggregates = match question.sql.contains("SUM") {
        true => "COUNT(*) AS n, SUM(days) AS s, AVG(days) AS mean",
        false => "COUNT(*) AS n, AVG(days) AS mean",
    };
    if question.unit == BY_ROW {
        // The expression of the policy's column, which the file does not have.
        let keys = keys.replace("place", "hospital");
        let sql = format!("SELECT {keys}, {aggregates} FROM visits GROUP BY {keys}");
        return table.columns(&sql, question.keys.len()).await;
    }
    let chance = |of: &str| format!("md5(concat('another chance', {of}))");
    let sql = format!(
        "WITH r AS (SELECT user_id, {key}, days, row_number() OVER (PARTITION BY user_id, {key} ORDER BY {rows}) AS rn \
         FROM visits), p AS (SELECT user_id, {key}, row_number() OVER (PARTITION BY user_id ORDER BY {groups}) AS pn \
         FROM (SELECT DISTINCT user_id, {key} FROM visits)) SELECT r.{key}, {aggregates} FROM r JOIN p ON \
         r.user_id = p.user_id AND r.{key} = p.{key} WHERE rn <= 5 AND pn <= 3 GROUP BY r.{key}",
        rows = chance("user_id, days"),
        groups = chance(&format!("user_id, {key}")),
    );
    table.columns(&sql, 1).await
}

/// The values of each column by the keys of the row, joined by `|`.
fn released(answer: &Answer) -> Columns {
    let mut columns = Columns::new();
    for row in &answer.rows {
        let keys = row.iter().filter_map(|cell| match cell {
            Cell::Key(dither::Key::Text(key)) => Some(key.clone()),
            _ => None,
        });
        let key = keys.collect::<Vec<_>>().join("|");
        for (column, cell) in answer.columns.iter().zip(row) {
            if let Cell::Value(estimate) = cell
                && let Some(value) = estimate.value
            {
                columns.entry(column.name.clone()).or_default().insert(key.clone(), value);
            }
        }
    }
    columns
}
