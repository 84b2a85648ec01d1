//! Intervals for noise and sampling together, as they are asked for and paid for.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may fail like tests")]

use dither::{Answered, Cell, Defaults, ReportSpec, Request, Session, read_questions};

fn folder() -> (tempfile::TempDir, Session) {
    let folder = tempfile::tempdir().unwrap();
    let rows: String =
        (0..400).map(|index| format!("{index},{},{}\n", 20 + index % 50, ["A", "B"][index % 2])).collect();
    std::fs::write(folder.path().join("people.csv"), format!("person,age,ward\n{rows}")).unwrap();
    let policy = r#"
        dataset = "clinic"
        [budget]
        epsilon = 100
        delta = 1e-3
        [tables.people]
        source = "people.csv"
        privacy_unit = { column = "person" }
        max_groups_per_unit = 1
        max_rows_per_group = 1
        [tables.people.columns]
        person = { type = "integer" }
        age = { type = "integer", bounds = [0, 100] }
        ward = { type = "text", keys = ["A", "B"] }
    "#;
    let path = folder.path().join("policy.toml");
    std::fs::write(&path, policy).unwrap();
    let session = Session::open(path).unwrap();
    (folder, session)
}

fn names(answered: &Answered) -> Vec<&str> {
    answered.answer.columns.iter().map(|column| column.name.as_str()).collect()
}

#[tokio::test]
async fn both_intervals_are_labelled_and_the_second_is_paid_for() {
    let (_folder, session) = folder();
    let sql = "SELECT ward, AVG(age) AS mean, COUNT(*) AS n FROM people GROUP BY ward";
    let plain = Request::new(sql, "2".parse().unwrap());
    let sampled = Request { sampling: true, ..plain.clone() };
    let noise = session.query(&plain).await.unwrap();
    assert_eq!(names(&noise), ["ward", "mean", "n"], "noise alone by default");
    let both = session.query(&sampled).await.unwrap();
    assert_eq!(names(&both), ["ward", "mean", "mean (with sampling)", "n", "n (with sampling)"]);
    // The share for sampling is one of the same ε.
    assert!(!both.repeated && (both.charged.epsilon - noise.charged.epsilon).abs() < 1e-3);
    for row in &both.answer.rows {
        let cells = row.iter().filter_map(|cell| match cell {
            Cell::Value(estimate) => Some(*estimate),
            Cell::Key(_) => None,
        });
        for pair in cells.collect::<Vec<_>>().chunks(2) {
            assert_eq!(pair[0].value, pair[1].value);
            assert!(pair[1].low < pair[0].low && pair[1].high > pair[0].high, "{pair:?}");
        }
    }
    let again = session.query(&sampled).await.unwrap();
    assert!(again.repeated && again.answer == both.answer);
    // In the clause it is the same question, and shares of ε are seen before anything is charged.
    let clause = sql.replacen("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 2, sampling = true)", 1);
    let clause = Request { epsilon: None, ..Request::new(clause, "2".parse().unwrap()) };
    let preview = session.plan(&clause, None).await.unwrap();
    assert!(preview.answered_before);
    let shares: Vec<Option<f64>> = preview.plan.outputs.iter().map(|output| output.sampling).collect();
    assert!(shares[0].unwrap() > 0.5 && shares[1] == Some(0.0), "{shares:?}");
}

/// Of a count nothing more is measured: both intervals follow from one release, and the second question is free.
#[tokio::test]
async fn the_interval_of_a_count_is_free() {
    let (_folder, session) = folder();
    let plain = Request::new("SELECT COUNT(*) FROM people", "1".parse().unwrap());
    let noise = session.query(&plain).await.unwrap();
    let both = session.query(&Request { sampling: true, ..plain }).await.unwrap();
    assert!(both.repeated && both.answer.rows[0][0] == noise.answer.rows[0][0]);
}

#[tokio::test]
async fn reports_and_files_of_questions_ask_for_it_as_well() {
    let (folder, session) = folder();
    let report = folder.path().join("report.toml");
    let text = "policy = \"policy.toml\"\ntitle = \"T\"\n[budget]\nepsilon = 1\ndelta = 1e-6\n\
        [[question]]\nid = \"age\"\ntitle = \"Age\"\nsql = \"SELECT AVG(age) AS mean FROM people\"\nsampling = true\n\
        then = [{ step = \"round\", column = \"mean (with sampling)\", digits = 1 }]\n\
        [[question]]\nid = \"n\"\ntitle = \"N\"\nsql = \"SELECT COUNT(*) AS n FROM people\"\n";
    std::fs::write(&report, text).unwrap();
    let spec = ReportSpec::load(&report).unwrap();
    let published = session.report(&spec, "now").await.unwrap();
    let columns: Vec<Vec<&str>> = published
        .document
        .sections
        .iter()
        .map(|section| section.answer.columns.iter().map(|column| column.name.as_str()).collect())
        .collect();
    assert_eq!(columns, [vec!["mean", "mean (with sampling)"], vec!["n"]]);
    assert!(dither_report::html::page(&published.document).contains("mean (with sampling)"));
    let chinese = ReportSpec { language: dither_report::Language::Zh, ..spec };
    let page = dither_report::html::page(&session.report(&chinese, "now").await.unwrap().document);
    assert!(page.contains("mean（含抽样误差）") && !page.contains("with sampling"), "a word is left in English");
    let text = "-- @sampling\nSELECT AVG(age) FROM people; SELECT AVG(age) FROM people;";
    let defaults = Defaults { epsilon: "1".parse().ok(), ..Defaults::default() };
    let preview = session.plan_file(&read_questions(text, &defaults).unwrap()).await.unwrap();
    let asked: Vec<bool> =
        preview.questions.iter().map(|question| question.plan.outputs[0].sampling.is_some()).collect();
    assert_eq!(asked, [true, false]);
}

/// Where a person has several rows that are alike, the interval is that of so many people, and not of so many rows.
#[tokio::test]
async fn people_with_several_rows_are_a_sample_of_people() {
    let (folder, one) = folder();
    let path = folder.path().join("policy.toml");
    let policy = std::fs::read_to_string(&path).unwrap().replace("max_rows_per_group = 1", "max_rows_per_group = 4");
    std::fs::write(&path, policy.replace("people.csv", "rows.csv")).unwrap();
    let row = |index: usize| format!("{index},{},{}\n", 20 + index % 50, ["A", "B"][index % 2]);
    let rows: String = (0..1_600).map(|index| row(index / 4)).collect();
    std::fs::write(folder.path().join("rows.csv"), format!("person,age,ward\n{rows}")).unwrap();
    let several = Session::open(&path).unwrap();
    let asked =
        Request { sampling: true, ..Request::new("SELECT AVG(age) AS mean FROM people", "30".parse().unwrap()) };
    let half = |answered: &Answered| match &answered.answer.rows[0][1] {
        Cell::Value(estimate) => (estimate.high.unwrap() - estimate.low.unwrap()) / 2.0,
        Cell::Key(key) => panic!("{key:?}"),
    };
    let [of_people, of_rows] = [half(&one.query(&asked).await.unwrap()), half(&several.query(&asked).await.unwrap())];
    // 1,600 rows taken for a sample would make it half as wide.
    assert!(of_rows > 0.9 * of_people && of_rows < 1.5 * of_people, "{of_people} {of_rows}");
    let preview = several.plan(&asked, None).await.unwrap();
    assert_eq!(preview.plan.outputs[0].sampling, Some(15.0));
}
