//! Groups from ranges, calendars and public tables, from files to answers.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may fail like tests")]

use dither::{Answered, Cell, Request, Session};

const VISITS: &str = "patient,ward,day,at,age\n\
    ann,A,2026-01-31,2026-01-31T23:59:59,24\n\
    bob,B,2026-02-01,2026-02-01T00:00:00,25\n\
    cy,A,2026-02-28,2026-02-28T12:00:00,99\n\
    di,Z,2026-01-01,2025-12-31T00:00:00,7\n\
    ed,B,2027-01-01,2027-01-01T00:00:00,60\n";

/// Noise of a scale far below one, so that rounded answers are the exact ones.
const EXACT: &str = "100000";

struct Clinic(tempfile::TempDir);

impl Clinic {
    fn new(wards: &str) -> Self {
        let clinic = Self(tempfile::tempdir().unwrap());
        clinic.write("visits.csv", VISITS);
        clinic.write("wards.csv", wards);
        clinic
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).unwrap();
    }

    fn session(&self) -> Session {
        self.write(
            "policy.toml",
            r#"
            dataset = "clinic"
            [budget]
            epsilon = 1000000
            [tables.visits]
            source = "visits.csv"
            privacy_unit = { column = "patient" }
            max_groups_per_unit = 1
            max_rows_per_group = 1
            [tables.visits.columns]
            patient = { type = "text" }
            ward = { type = "text", keys = { table = "wards", column = "ward" } }
            day = { type = "date", keys = { from = "2026-01-15", to = "2026-03-01" } }
            at = { type = "timestamp", keys = { from = "2026-01-15", to = "2026-03-01" } }
            age = { type = "integer" }
            band = { type = "integer", expression = "floor(age / 25) * 25", keys = { from = 0, to = 99, step = 25 } }
            [public.wards]
            source = "wards.csv"
            [public.wards.columns]
            ward = { type = "text" }
            "#,
        );
        Session::open(self.0.path().join("policy.toml")).unwrap()
    }
}

async fn ask(session: &Session, sql: &str, epsilon: &str) -> Answered {
    session.query(&Request::new(sql, epsilon.parse().unwrap())).await.unwrap()
}

/// The key and the rounded number of each group.
fn rows(answered: &Answered) -> Vec<(String, f64)> {
    let cell = |cell: &Cell| match cell {
        Cell::Key(key) => key.to_string(),
        Cell::Value(estimate) => estimate.value.unwrap().to_string(),
    };
    let rows = answered.answer.rows.iter().map(|row| (cell(&row[0]), cell(&row[1]).parse().unwrap()));
    rows.collect()
}

fn expected(rows: &[(&str, f64)]) -> Vec<(String, f64)> {
    rows.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect()
}

#[tokio::test]
async fn rows_are_counted_in_their_month_band_and_ward_and_in_no_other() {
    let clinic = Clinic::new("ward\nB\nA\nC\n");
    let session = clinic.session();
    for (key, groups) in [
        ("ward", vec![("B", 2.0), ("A", 2.0), ("C", 0.0)]),
        ("band", vec![("0", 2.0), ("25", 1.0), ("50", 1.0), ("75", 1.0)]),
        // January has a row from before the first day of the calendar: what is grouped by is the month.
        ("CAST(date_trunc('month', day) AS DATE)", vec![("2026-01-01", 2.0), ("2026-02-01", 2.0), ("2026-03-01", 0.0)]),
        ("CAST(date_trunc('month', at) AS DATE)", vec![("2026-01-01", 1.0), ("2026-02-01", 2.0), ("2026-03-01", 0.0)]),
        ("CAST(date_trunc('quarter', at) AS DATE)", vec![("2026-01-01", 3.0)]),
        ("EXTRACT(year FROM at)", vec![("2026", 3.0)]),
    ] {
        let sql = format!("SELECT {key} AS k, COUNT(*) FROM visits GROUP BY k");
        assert_eq!(rows(&ask(&session, &sql, EXACT).await), expected(&groups), "{key}");
    }
    // 2026-01-26 is a Monday; the week of 2026-01-12 is that of the first day.
    let weeks = ask(&session, "SELECT date_trunc('week', at) AS k, COUNT(*) FROM visits GROUP BY k", EXACT).await;
    let weeks = rows(&weeks);
    assert_eq!((weeks.len(), weeks[0].0.as_str()), (7, "2026-01-12T00:00:00"));
    assert_eq!(weeks[2], ("2026-01-26T00:00:00".to_owned(), 2.0));
    let days = rows(&ask(&session, "SELECT day, COUNT(*) FROM visits GROUP BY day", EXACT).await);
    assert_eq!((days.len(), days.iter().map(|day| day.1).sum::<f64>()), (46, 3.0));
}

/// Keys that nobody has are there with noise of their own: of 46 days with rows on three, not all others are zero. At ε 0.1
/// the noise is zero with a probability of tanh(0.05) < 0.05, so that 43 zeros have one far below 1e-9.
#[tokio::test]
async fn sq_06_days_on_which_nobody_came_get_noise_too() {
    let clinic = Clinic::new("ward\nA\n");
    let session = clinic.session();
    let days = rows(&ask(&session, "SELECT day, COUNT(*) FROM visits GROUP BY day", "0.1").await);
    assert_eq!(days.len(), 46);
    assert!(days.iter().filter(|day| day.1 != 0.0).count() > 3);
}

/// The list is part of the question: the same list gives the same answer for nothing, another one is another question,
/// and one that cannot be read is refused before anything is charged.
#[tokio::test]
async fn sq_28_another_list_in_a_public_table_is_another_question() {
    let clinic = Clinic::new("ward\nB\nA\n");
    let sql = "SELECT ward, COUNT(*) FROM visits GROUP BY ward";
    let first = ask(&clinic.session(), sql, "1").await;
    let again = ask(&clinic.session(), sql, "1").await;
    assert!(again.repeated && again.answer == first.answer && again.remaining == first.remaining);
    clinic.write("wards.csv", "ward\nB\nA\nC\n");
    let other = ask(&clinic.session(), sql, "1").await;
    assert!(!other.repeated);
    assert_eq!(rows(&other).len(), 3);
    // A question that does not group by it is the same with either list.
    let count = ask(&clinic.session(), "SELECT COUNT(*) FROM visits", "1").await;
    clinic.write("wards.csv", "ward\nA\n");
    let same = ask(&clinic.session(), "SELECT COUNT(*) FROM visits", "1").await;
    assert!(same.repeated && same.answer == count.answer);
    clinic.write("wards.csv", "ward\nA\nB\nA\n");
    let session = clinic.session();
    let error = session.query(&Request::new(sql, "1".parse().unwrap())).await.unwrap_err();
    assert!(error.to_string().contains("holds 1 of its 2 values more than once"), "{error}");
    let left = session.plan(&Request::new("SELECT COUNT(*) FROM visits", "1".parse().unwrap()), None).await.unwrap();
    assert_eq!(left.remaining, same.remaining);
}

/// What the table of people holds changes neither the groups nor the price: keys come from public facts alone.
#[tokio::test]
async fn sq_25_no_row_of_people_changes_which_groups_there_are() {
    let sql = "SELECT ward, date_trunc('month', at) AS m, COUNT(*) FROM visits GROUP BY ward, m";
    let mut seen = Vec::new();
    for rows in
        [VISITS.to_owned(), "patient,ward,day,at,age\n".into(), format!("{VISITS}zz,NEW,2026-02-02,1999-01-01,1\n")]
    {
        let clinic = Clinic::new("ward\nB\nA\n");
        clinic.write("visits.csv", &rows);
        let answered = ask(&clinic.session(), sql, "1").await;
        let keys: Vec<_> = answered.answer.rows.iter().map(|row| (row[0].clone(), row[1].clone())).collect();
        seen.push((keys, answered.charged));
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(seen[0].0.len(), 6);
}
