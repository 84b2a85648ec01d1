//! A first look at a table, from files to a suggested policy.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may fail like tests")]

use dither::{Budget, Explain, Key, Policy, Profile, ProfileSpec, Session};
use dither_query::engine::LocalEngine;

/// 300 people with one row each: ages 0 to 99, three times each; costs of twice that, some missing; two cities.
fn rows() -> String {
    let mut text = "patient,city,age,cost,day,ill\n".to_owned();
    for n in 0..300 {
        let age = n % 100;
        let cost = if n % 3 == 0 { String::new() } else { format!("{}.5", age * 2) };
        let city = ["Rome", "Oslo"][usize::from(n % 10 == 0)];
        text += &format!("p{n},{city},{age},{cost},2026-01-{:02},{}\n", 1 + n % 30, n % 2);
    }
    text
}

struct Clinic(tempfile::TempDir);

impl Clinic {
    fn new(rows: &str) -> Self {
        let clinic = Self(tempfile::tempdir().unwrap());
        std::fs::write(clinic.0.path().join("visits.csv"), rows).unwrap();
        clinic
    }

    fn session(&self, epsilon: &str) -> Session {
        let policy = r#"
            dataset = "clinic"
            [budget]
            epsilon = LIMIT
            delta = 1e-3
            [tables.visits]
            source = "visits.csv"
            privacy_unit = { column = "patient" }
            max_groups_per_unit = 1
            max_rows_per_group = 1
            [tables.visits.columns]
            patient = { type = "text" }
            city = { type = "text" }
            age = { type = "integer" }
            cost = { type = "number" }
            day = { type = "date" }
            ill = { type = "boolean" }
            [public.cities]
            source = "cities.csv"
            [public.cities.columns]
            name = { type = "text" }
        "#;
        std::fs::write(self.0.path().join("policy.toml"), policy.replace("LIMIT", epsilon)).unwrap();
        Session::open(self.0.path().join("policy.toml")).unwrap()
    }
}

fn spec(epsilon: &str, delta: &str) -> ProfileSpec {
    let budget = Budget { epsilon: epsilon.parse().unwrap(), delta: delta.parse().unwrap() };
    ProfileSpec { table: "visits".into(), columns: Vec::new(), budget, top: 2 }
}

fn column<'a>(profile: &'a Profile, name: &str) -> &'a dither::ColumnProfile {
    profile.columns.iter().find(|column| column.name == name).unwrap()
}

/// With noise far below one, a profile says what is there: all of it can be counted by hand.
#[tokio::test]
async fn a_profile_says_what_is_there() {
    let clinic = Clinic::new(&rows());
    let profile = clinic.session("100000").profile(&spec("100000", "1e-6")).await.unwrap();
    assert_eq!((profile.rows.value, profile.units.unwrap().value), (Some(300.0), Some(300.0)));
    assert!(profile.columns.iter().all(|column| column.needed_epsilon.is_none()));
    let names: Vec<&str> = profile.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["age", "city", "cost", "day", "ill"]);
    let sizes =
        |name: &str| [column(&profile, name).values.value.unwrap(), column(&profile, name).distinct.value.unwrap()];
    assert_eq!(
        ["age", "city", "cost", "day", "ill"].map(sizes),
        [[300.0, 100.0], [300.0, 2.0], [200.0, 100.0], [300.0, 30.0], [300.0, 2.0]]
    );
    // Ranks are off by a row at most, and a point of the grid is less than 1/4096 below its value.
    let age = column(&profile, "age").quantiles.clone().unwrap();
    for (quantile, exact) in age.iter().zip([0, 25, 50, 75, 99]) {
        let Key::Integer(value) = quantile else { panic!("{quantile:?}") };
        assert!((value - exact).abs() <= 1, "{age:?}");
    }
    let cost = column(&profile, "cost").quantiles.clone().unwrap();
    let Key::Number(median) = cost[2] else { panic!("{cost:?}") };
    assert!((97.0..103.0).contains(&median), "{cost:?}");
    let day = column(&profile, "day").quantiles.clone().unwrap();
    assert_eq!(day[0], Key::Text("2026-01-01".into()));
    assert!(["2026-01-30", "2026-01-29"].map(|day| Key::Text(day.into())).contains(&day[4]), "{day:?}");
    let city = column(&profile, "city").top.clone().unwrap();
    let city: Vec<_> = city.iter().map(|(key, count)| (key.to_string(), count.value.unwrap())).collect();
    assert_eq!(city, [("Rome".to_owned(), 270.0), ("Oslo".to_owned(), 30.0)]);
    assert_eq!(column(&profile, "ill").top.as_ref().unwrap().len(), 2);
    assert!(column(&profile, "cost").top.is_none());
    // What is suggested is a part of a policy, with bounds that hold the values.
    let policy = r#"
        dataset = "clinic"
        [budget]
        epsilon = 1
        [tables.visits]
        source = "visits.csv"
        privacy_unit = { column = "patient" }
        max_groups_per_unit = 1
        max_rows_per_group = 1
    "#;
    let text = format!("{policy}\n{}patient = {{ type = \"text\" }}\n", profile.suggestion);
    let policy = Policy::from_toml(&text, ".").unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(policy.tables["visits"].columns["age"].bounds, Some([0.0, 100.0]));
    assert_eq!(policy.tables["visits"].columns["cost"].bounds, Some([0.0, 200.0]));
    assert!(profile.suggestion.contains("keys = [\"Rome\", \"Oslo\"]"), "{}", profile.suggestion);
    assert!(profile.suggestion.contains("keys = { from = \"2026-01-01\""), "{}", profile.suggestion);
}

/// What a plan shows is what is charged, once: the parts add up to the budget, and the same profile again is free.
#[tokio::test]
async fn a_profile_is_one_charge_that_its_plan_shows() {
    let clinic = Clinic::new(&rows());
    let (session, spec) = (clinic.session("3"), spec("2", "1e-6"));
    let preview = session.preview_profile(&spec).await.unwrap();
    assert_eq!(preview.questions.len(), 12);
    let parts: f64 = preview.questions.iter().map(|(_, explained)| explained.epsilon).sum();
    assert!(preview.charged.epsilon <= 2.0 && preview.charged.epsilon > 1.99, "{:?}", preview.charged);
    assert!(parts >= preview.charged.epsilon - 1e-6, "the parts compose to the charge: {parts}");
    assert_eq!(preview.charged.delta, 1e-6);
    let first = session.profile(&spec).await.unwrap();
    assert_eq!(first.charged, preview.charged);
    assert_eq!(Some(first.remaining), preview.remaining_after);
    let again = session.profile(&spec).await.unwrap();
    assert!(again.first_answered.is_some() && first.first_answered.is_none());
    assert_eq!((&again.columns, again.remaining), (&first.columns, first.remaining));
}

/// Columns, charge and what is shown at all follow from the policy and the budget, whatever the table holds.
#[tokio::test]
async fn sq_07_and_sq_26_an_empty_table_has_the_same_profile_but_for_its_numbers() {
    let odd = format!("{}evil,\"\u{1b}[2J\u{202e}\n\",99999999999999999999,nan,0000-00-00,maybe\n", rows());
    let mut seen = Vec::new();
    for rows in [rows(), "patient,city,age,cost,day,ill\n".into(), odd] {
        let profile = Clinic::new(&rows).session("3").profile(&spec("1", "0")).await.unwrap();
        let column = |column: &dither::ColumnProfile| {
            let ranges = column.rank_error.is_some();
            let public = column.top.as_ref().map(Vec::len);
            (column.name.clone(), ranges, column.rank_error.map(f64::to_bits), public)
        };
        seen.push((profile.columns.iter().map(column).collect::<Vec<_>>(), profile.charged, profile.remaining));
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{seen:?}");
    // Without a δ no frequent value comes from the data; a Boolean has public ones.
    assert_eq!(seen[0].0.iter().map(|column| column.3).collect::<Vec<_>>(), [None, None, None, None, Some(2)]);
}

#[tokio::test]
async fn tm_05_a_profile_beyond_the_budget_is_refused_before_a_row_is_read() {
    let clinic = Clinic::new(&rows());
    let session = clinic.session("2");
    session.profile(&spec("1.5", "0")).await.unwrap();
    let read = || session.progress().rows.load(std::sync::atomic::Ordering::Relaxed);
    let before = read();
    assert!(before > 0);
    let error = session.profile(&spec("0.6", "0")).await.unwrap_err();
    assert_eq!((error.code(), read()), ("budget-exceeded", before));
    // The control: what fits is read.
    session.profile(&spec("0.5", "0")).await.unwrap();
    assert!(read() > before);
}

#[tokio::test]
async fn what_no_profile_can_be_made_of_is_refused_with_a_hint() {
    let clinic = Clinic::new(&rows());
    let session = clinic.session("3");
    let with = |change: fn(&mut ProfileSpec)| {
        let mut spec = spec("1", "1e-6");
        change(&mut spec);
        spec
    };
    for (spec, code) in [
        (with(|spec| spec.table = "visit".into()), "unknown-table"),
        (with(|spec| spec.table = "cities".into()), "unknown-table"),
        (with(|spec| spec.columns = vec!["agee".into()]), "unknown-column"),
        (with(|spec| spec.columns = vec!["patient".into()]), "option"),
        (with(|spec| spec.columns = vec!["age".into(), "age".into()]), "option"),
    ] {
        let error = session.profile(&spec).await.unwrap_err();
        assert_eq!(error.code(), code);
        assert!(error.hint().is_some());
    }
    assert!(session.existing_ledger().await.unwrap().is_none(), "nothing was charged");
    let one = session.profile(&with(|spec| spec.columns = vec!["age".into()])).await.unwrap();
    assert_eq!(one.columns.len(), 1);
}

/// Names of columns are whatever a header holds: keywords, quotes, the names that a profile gives to its own numbers.
#[tokio::test]
async fn sq_31_names_of_columns_are_data_in_a_profile_as_well() {
    let clinic = Clinic(tempfile::tempdir().unwrap());
    std::fs::write(clinic.0.path().join("t.csv"), "who,a,group,\"x\"\"; DROP TABLE t; --\"\n1,2,3,4\n").unwrap();
    let policy = r#"
        dataset = "odd"
        [budget]
        epsilon = 3
        delta = 1e-6
        [tables."select"]
        source = "t.csv"
        privacy_unit = { column = "who" }
        max_groups_per_unit = 1
        max_rows_per_group = 1
        [tables."select".columns]
        who = { type = "integer" }
        a = { type = "integer" }
        group = { type = "text" }
        "x\"; DROP TABLE t; --" = { type = "number" }
    "#;
    std::fs::write(clinic.0.path().join("policy.toml"), policy).unwrap();
    let session = Session::open(clinic.0.path().join("policy.toml")).unwrap();
    let spec = ProfileSpec { table: "select".into(), ..spec("1", "1e-6") };
    let profile = session.profile(&spec).await.unwrap();
    let names: Vec<&str> = profile.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["a", "group", "x\"; DROP TABLE t; --"]);
}

/// A profile of a dozen questions reads the file once, unless its rows do not fit the memory that there is; the control.
#[tokio::test]
async fn rows_are_read_once_where_they_fit_and_the_numbers_are_the_same() {
    let header = "patient,city,age,cost,day,ill\n";
    // Of 12 MB of them less than a quarter of 32 MB may wait in memory.
    let cities = ["Rome", "Oslo"].map(|city| format!("{city} {}", "x".repeat(600)));
    let line = |n: usize| {
        let city = &cities[n % 2];
        format!("p{n},{city},{},{}.5,2026-01-0{},{}\n", n % 100, n % 7, 1 + n % 9, n % 2)
    };
    let rows: String = (0..20_000).map(line).collect();
    let clinic = Clinic::new(&format!("{header}{rows}"));
    let mut seen = Vec::new();
    for memory in [None, Some(32 << 20)] {
        let session = clinic.session("100000");
        let session = match memory {
            None => session,
            Some(bytes) => session.with_engine(Box::new(LocalEngine::with_memory(2, bytes).unwrap())),
        };
        let profile = session.profile(&spec("100000", "1e-6")).await.unwrap();
        let read = session.progress().rows.load(std::sync::atomic::Ordering::Relaxed);
        std::fs::remove_file(clinic.0.path().join("ledger.db")).unwrap();
        // A quantile that lies between two values is one of them.
        let columns = profile.columns.into_iter();
        let numbers: Vec<_> = columns.map(|column| (column.values, column.distinct, column.top)).collect();
        seen.push((read, numbers));
    }
    assert_eq!(seen[0].0, 20_000);
    assert!(seen[1].0 >= 12 * 20_000, "{}", seen[1].0);
    assert_eq!(seen[0].1, seen[1].1);
}
