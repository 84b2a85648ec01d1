//! Several tables, from files to answers: joins, ownership through keys, public tables, and what the ledger holds on to.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may fail like tests")]

use dither::{Cell, Key, Request, Session};

const VISITS: &str =
    "id,patient,ward,cost\n1,ann,A,10\n2, Ann,A,20\n3,bob,B,30\n4,bob,B,40\n5,bob,A,50\n6,,A,60\n7,cy,C,70\n";
/// The last two belong to nobody: a visit that does not exist, and one without a patient.
const LABS: &str = "visit,value\n1,1\n1,2\n3,3\n7,4\n99,5\n6,6\n";
/// The second line about A is not read: `ward` is unique.
const WARDS: &str = "ward,floor\nA,1\nA,2\nB,2\n";

/// Noise of a scale far below one, so that rounded answers are the exact ones.
const EPSILON: &str = "100000";

struct Clinic(tempfile::TempDir);

impl Clinic {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("visits.csv", VISITS), ("labs.csv", LABS), ("wards.csv", WARDS)] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Self(folder)
    }

    fn session(&self, change: impl Fn(String) -> String) -> Session {
        let policy = r#"
            dataset = "clinic"
            [budget]
            epsilon = 1000000
            delta = 1e-3
            [tables.visits]
            source = "visits.csv"
            privacy_unit = { column = "patient" }
            max_groups_per_unit = 5
            max_rows_per_group = 9
            [tables.visits.columns]
            id = { type = "integer" }
            patient = { type = "text" }
            ward = { type = "text", keys = ["A", "B", "C"] }
            cost = { type = "integer", bounds = [0, 100] }
            [tables.labs]
            source = "labs.csv"
            privacy_unit = { column = "visit", through = "visits.id" }
            max_groups_per_unit = 5
            max_rows_per_group = 9
            [tables.labs.columns]
            visit = { type = "integer" }
            value = { type = "integer", bounds = [0, 10] }
            [public.wards]
            source = "wards.csv"
            [public.wards.columns]
            ward = { type = "text", unique = true }
            floor = { type = "integer", keys = [1, 2] }
        "#;
        let path = self.0.path().join("policy.toml");
        std::fs::write(&path, change(policy.to_owned())).unwrap();
        Session::open(path).unwrap()
    }
}

/// The released numbers, rounded, with the key in front if there is one.
async fn ask(session: &Session, sql: &str) -> Vec<(String, Vec<i64>)> {
    let answered = session.query(&Request::new(sql, EPSILON.parse().unwrap())).await.unwrap();
    let row = |row: &Vec<Cell>| {
        let mut key = String::new();
        let mut values = Vec::new();
        for cell in row {
            match cell {
                Cell::Key(Key::Text(text)) => key += text,
                Cell::Key(other) => key += &other.to_string(),
                Cell::Value(estimate) => values.push((estimate.value.unwrap() * 10.0).round() as i64),
            }
        }
        (key, values)
    };
    answered.answer.rows.iter().map(row).collect()
}

fn one(values: &[i64]) -> Vec<(String, Vec<i64>)> {
    vec![(String::new(), values.to_vec())]
}

#[tokio::test]
async fn several_tables_are_asked_at_once() {
    let clinic = Clinic::new();
    let session = clinic.session(|policy| policy);
    // Four of the six lab values belong to somebody. All numbers are in tenths.
    assert_eq!(ask(&session, "SELECT COUNT(*), SUM(value) FROM labs").await, one(&[40, 100]));
    let sql = "SELECT v.ward, SUM(l.value) FROM labs l JOIN visits v ON l.visit = v.id GROUP BY v.ward";
    let wards = |a, b, c| vec![("A".to_owned(), vec![a]), ("B".to_owned(), vec![b]), ("C".to_owned(), vec![c])];
    assert_eq!(ask(&session, sql).await, wards(30, 30, 40));
    let sql = "SELECT w.floor, COUNT(*) FROM visits v JOIN wards w ON v.ward = w.ward GROUP BY w.floor";
    assert_eq!(ask(&session, sql).await, vec![("1".to_owned(), vec![30]), ("2".to_owned(), vec![20])]);
    // Two, three and one visits: Ann is one person under two spellings.
    let sql = "SELECT AVG(n, contribution_bounds_per_row => (0, 20)) FROM \
               (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient)";
    assert_eq!(ask(&session, sql).await, one(&[20]));
    let sql = "WITH busy AS (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient HAVING COUNT(*) > 1) \
               SELECT SUM(v.cost), COUNT(DISTINCT v.patient) FROM visits v JOIN busy b ON v.patient = b.patient";
    assert_eq!(ask(&session, sql).await, one(&[1500, 20]));
    let sql = "SELECT COUNT(*), COUNT(l.value) FROM visits v LEFT JOIN labs l ON v.id = l.visit";
    assert_eq!(ask(&session, sql).await, one(&[70, 40]));
}

/// The price and the status of a question about several tables follow from the question, whatever the tables hold.
#[tokio::test]
async fn sq_09_and_sq_17_odd_rows_in_any_table_change_neither_status_nor_charge() {
    let sql = "SELECT w.floor, COUNT(*), SUM(l.value / (v.cost - 10), contribution_bounds_per_row => (-5, 5)) \
               FROM labs l JOIN visits v ON l.visit = v.id LEFT JOIN wards w ON v.ward = w.ward GROUP BY w.floor";
    let mut seen = Vec::new();
    for change in 0..5 {
        let clinic = Clinic::new();
        let write = |name: &str, text: String| std::fs::write(clinic.0.path().join(name), text).unwrap();
        match change {
            1 => write("visits.csv", VISITS.replace("2, Ann,A,20", "9223372036854775807,\u{0}\u{7f},A,nan")),
            2 => write("labs.csv", format!("{LABS}{}", "3,9\n".repeat(5_000))),
            3 => write("visits.csv", "id,patient,ward,cost\n".into()),
            4 => write("labs.csv", "visit,value\nx\n,,,\n".into()),
            _ => {}
        }
        let session = clinic.session(|policy| policy);
        let request = Request::new(sql, "1".parse().unwrap());
        let answered = session.query(&request).await.unwrap();
        seen.push((answered.charged, answered.remaining, answered.answer.columns, answered.answer.rows.len()));
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:?}");
}

/// One person whose rows meet a hundred thousand times, in a join with themselves and in one with a public table, moves a
/// count by what counts of a person. The control: where more counts, so many rows are there.
#[tokio::test]
async fn sq_17_a_join_that_repeats_rows_a_hundred_thousand_times_moves_a_count_by_the_bound() {
    const OWN: usize = 320;
    let clinic = Clinic::new();
    let write = |name: &str, text: String| std::fs::write(clinic.0.path().join(name), text).unwrap();
    write("codes.csv", format!("ward\n{}", "D\n".repeat(OWN * OWN)));
    let most = |rows: usize| {
        move |policy: String| {
            policy.replacen("max_rows_per_group = 9", &format!("max_rows_per_group = {rows}"), 1)
                + "[public.codes]\nsource = \"codes.csv\"\n[public.codes.columns]\nward = { type = \"text\" }\n"
        }
    };
    for (join, own) in [("visits b ON a.patient = b.patient", OWN), ("codes b ON a.ward = b.ward", 1)] {
        let sql = format!("SELECT COUNT(*) FROM visits a JOIN {join}");
        let mut moved = Vec::new();
        for rows in [9, 1_000_000] {
            let mut counts = Vec::new();
            for more in [0, own] {
                let _ = std::fs::remove_file(clinic.0.path().join("ledger.db"));
                write("visits.csv", format!("{VISITS}{}", "8,dan,D,1\n".repeat(more)));
                counts.push(ask(&clinic.session(most(rows)), &sql).await[0].1[0] / 10);
            }
            moved.push(counts[1] - counts[0]);
        }
        assert_eq!(moved[0], 9, "{join}");
        // Noise of scale ten.
        assert!((moved[1] - (OWN * OWN) as i64).abs() < 1_000, "{join}: {moved:?}");
    }
}

#[tokio::test]
async fn sq_17_whose_the_rows_are_cannot_change_on_a_ledger_in_use() {
    let clinic = Clinic::new();
    let sql = "SELECT COUNT(*) FROM labs";
    ask(&clinic.session(|policy| policy), sql).await;
    let direct =
        |policy: String| policy.replace("{ column = \"visit\", through = \"visits.id\" }", "{ column = \"visit\" }");
    let public = |policy: String| {
        let (before, after) = policy.split_once("[tables.labs]").unwrap();
        let (_, wards) = after.split_once("[public.wards]").unwrap();
        format!(
            "{before}[public.wards]{wards}\n[public.labs]\nsource = \"labs.csv\"\n[public.labs.columns]\n\
             visit = {{ type = \"integer\" }}"
        )
    };
    let join = "SELECT COUNT(*) FROM visits v JOIN labs l ON v.id = l.visit";
    for (sql, session) in [(sql, clinic.session(direct)), (join, clinic.session(public))] {
        let refused = session.query(&Request::new(sql, "1".parse().unwrap())).await.unwrap_err();
        assert!(refused.to_string().contains("who is protected in `labs` cannot change"), "{refused}");
    }
    let words = clinic.session(|policy| policy).limits().unwrap()[0].protects.clone();
    assert_eq!(words["labs"], "add or remove one `patient` through `visit` of `visits.id`");
    assert_eq!(words["wards"], "nobody");
    assert_eq!(words["visits"], "add or remove one `patient`");
}

#[tokio::test]
async fn sq_28_a_change_of_any_table_that_takes_part_makes_another_question() {
    let clinic = Clinic::new();
    let sql = "SELECT COUNT(*) FROM labs l JOIN visits v ON l.visit = v.id JOIN wards w ON v.ward = w.ward";
    let request = Request::new(sql, "1".parse().unwrap());
    assert!(!clinic.session(|policy| policy).query(&request).await.unwrap().repeated);
    assert!(clinic.session(|policy| policy).query(&request).await.unwrap().repeated);
    let changes: [fn(String) -> String; 3] = [
        |policy| policy.replace("bounds = [0, 100]", "bounds = [0, 101]"),
        |policy| policy.replace("bounds = [0, 10]", "bounds = [0, 11]"),
        |policy| policy.replace("keys = [1, 2]", "keys = [1, 2, 3]"),
    ];
    for change in changes {
        assert!(!clinic.session(change).query(&request).await.unwrap().repeated);
    }
}
