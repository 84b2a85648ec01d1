//! Units that are what one person has within a week, from files to answers, certificates and the ledger.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may fail like tests")]

use dither::{Cell, ReportSpec, Request, Session};

/// Ann in three weeks, under two spellings; bob in one of them; rows without a person or a time.
const VISITS: &str = "id,patient,admitted,cost\n\
    1,ann,2026-01-05T10:00:00,10\n2, Ann,2026-01-11T23:59:59,20\n\
    3,ann,2026-01-12T00:00:00,30\n4,ANN,2026-02-02T00:00:00,40\n5,bob,2026-01-06T12:00:00,50\n6,,2026-01-06T12:00:00,60\n\
    7,bob,,70\n8,bob,soon,80\n";
const LABS: &str = "visit,value\n1,1\n3,2\n5,3\n7,4\n9,5\n";
const STAFF: &str = "person,hours\neve,8\nfay,7\n";

struct Clinic(tempfile::TempDir);

impl Clinic {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("visits.csv", VISITS), ("labs.csv", LABS), ("staff.csv", STAFF)] {
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
            privacy_unit = { column = "patient", per = "week", time = "admitted" }
            max_groups_per_unit = 5
            max_rows_per_group = 9
            [tables.visits.columns]
            id = { type = "integer" }
            patient = { type = "text" }
            admitted = { type = "timestamp" }
            cost = { type = "integer", bounds = [0, 100] }
            [tables.labs]
            source = "labs.csv"
            privacy_unit = { column = "visit", through = "visits.id" }
            max_groups_per_unit = 5
            max_rows_per_group = 9
            [tables.labs.columns]
            visit = { type = "integer" }
            value = { type = "integer", bounds = [0, 10] }
            [tables.staff]
            source = "staff.csv"
            privacy_unit = { column = "person" }
            neighbors = "replace-unit"
            max_groups_per_unit = 1
            max_rows_per_group = 1
            [tables.staff.columns]
            person = { type = "text" }
            hours = { type = "integer", bounds = [0, 12] }
        "#;
        let path = self.0.path().join("policy.toml");
        std::fs::write(&path, change(policy.to_owned())).unwrap();
        Session::open(path).unwrap()
    }
}

/// The released numbers with next to no noise, in tenths.
async fn ask(session: &Session, sql: &str) -> Vec<i64> {
    let answered = session.query(&Request::new(sql, "100000".parse().unwrap())).await.unwrap();
    let value = |cell: &Cell| match cell {
        Cell::Value(estimate) => Some((estimate.value? * 10.0).round() as i64),
        Cell::Key(_) => None,
    };
    answered.answer.rows.iter().flatten().filter_map(value).collect()
}

#[tokio::test]
async fn rows_without_a_person_or_a_time_count_nowhere_and_people_are_counted_once() {
    let clinic = Clinic::new();
    let session = clinic.session(|policy| policy);
    assert_eq!(ask(&session, "SELECT COUNT(*), SUM(cost), COUNT(DISTINCT patient) FROM visits").await, [50, 1500, 20]);
    // Ann's three weeks and bob's one.
    let sql = "SELECT COUNT(*), SUM(n, contribution_bounds_per_row => (0, 20)) FROM (SELECT patient, \
               date_trunc('week', admitted) AS week, COUNT(*) AS n FROM visits \
               GROUP BY patient, date_trunc('week', admitted))";
    assert_eq!(ask(&session, sql).await, [40, 50]);
    assert_eq!(ask(&session, "SELECT COUNT(*), SUM(value) FROM labs").await, [30, 60]);
}

#[tokio::test]
async fn sq_17_a_ledger_in_use_does_not_change_from_people_to_their_weeks() {
    let clinic = Clinic::new();
    ask(&clinic.session(|policy| policy), "SELECT COUNT(*) FROM visits").await;
    let whole = |policy: String| policy.replace(", per = \"week\", time = \"admitted\"", "");
    let month = |policy: String| policy.replace("per = \"week\"", "per = \"month\"");
    // Under another name of the table as well.
    let renamed = |policy: String| {
        let other = whole(policy).replace("tables.visits", "tables.stays").replace("visits.id", "stays.id");
        other.replace("tables.labs", "tables.tests")
    };
    let changes: [(&str, &dyn Fn(String) -> String); 3] = [("visits", &whole), ("visits", &month), ("stays", &renamed)];
    for (table, change) in changes {
        let sql = format!("SELECT COUNT(*) FROM {table}");
        let session = clinic.session(change);
        let refused = session.query(&Request::new(sql, "1".parse().unwrap())).await.unwrap_err();
        assert!(refused.to_string().contains("who is protected in"), "{refused}");
    }
    let words = clinic.session(|policy| policy).limits().unwrap()[0].protects.clone();
    assert_eq!(words["visits"], "add or remove one `patient` per week of `admitted`");
    assert_eq!(words["labs"], "add or remove one `patient` per week through `visit` of `visits.id`");
    assert_eq!(words["staff"], "replace one `person`");
    // The honest question is answered, of course.
    ask(&clinic.session(|policy| policy), "SELECT SUM(cost) FROM visits").await;
}

#[tokio::test]
async fn a_plan_says_what_it_means_for_a_whole_person_and_claims_no_more() {
    let clinic = Clinic::new();
    let session = clinic.session(|policy| policy);
    let request = Request::new("SELECT COUNT(*) FROM visits", "0.5".parse().unwrap());
    let plan = session.plan(&request, None).await.unwrap().plan;
    assert_eq!(plan.unit, "patient per week");
    assert!(plan.protects.contains("within one week, and not all rows of one `patient`"), "{}", plan.protects);
    let windows: Vec<(u32, u32)> = plan.windows.iter().map(|window| (window.days, window.periods)).collect();
    assert_eq!(windows, [(31, 6), (92, 14), (366, 54)]);
    for window in &plan.windows {
        let epsilon = window.epsilon.unwrap();
        let floor = 0.5 * f64::from(window.periods) * 0.99;
        assert!(epsilon >= floor && epsilon <= 0.5001 * f64::from(window.periods), "{window:?}");
        assert_eq!(window.delta, Some(0.0));
    }
    let json = serde_json::to_value(&plan).unwrap();
    assert_eq!(json["windows"][0]["name"], "month");
    // Of whole people nothing of the kind is said.
    let staff = session.plan(&Request::new("SELECT COUNT(*) FROM staff", "0.5".parse().unwrap()), None).await.unwrap();
    assert!(staff.plan.windows.is_empty() && serde_json::to_value(&staff.plan).unwrap().get("windows").is_none());
}

#[tokio::test]
async fn a_certificate_names_the_unit_of_every_table() {
    let clinic = Clinic::new();
    let session = clinic.session(|policy| policy);
    let report = clinic.0.path().join("report.toml");
    let text = "policy = \"policy.toml\"\ntitle = \"T\"\n[budget]\nepsilon = 1\ndelta = 1e-6\n\
        [[question]]\nid = \"hours\"\ntitle = \"Hours\"\nsql = \"SELECT AVG(hours) FROM staff\"\n\
        [[question]]\nid = \"costs\"\ntitle = \"Costs\"\nsql = \"SELECT SUM(cost) FROM visits\"\n\
        [[question]]\nid = \"labs\"\ntitle = \"Labs\"\nsql = \"SELECT SUM(value) FROM labs\"\n";
    std::fs::write(&report, text).unwrap();
    let published = session.report(&ReportSpec::load(&report).unwrap(), "now").await.unwrap();
    for protected in [&published.certificate.privacy.protected, &published.document.privacy.protected] {
        let units: Vec<(String, Option<&str>, usize)> =
            protected.iter().map(|one| (one.tables.join(" "), one.unit.column(), one.windows.len())).collect();
        assert_eq!(units, [("labs visits".to_owned(), Some("patient"), 3), ("staff".to_owned(), Some("person"), 0)]);
        let year = &protected[0].windows[2];
        let loss = year.loss.unwrap();
        assert!(loss.epsilon > published.charged.epsilon * 20.0, "{year:?}");
    }
    let page = dither_report::certificate::page(&published.certificate);
    for words in
        ["within one week, together", "All rows with the same person", "up to 54 of these", "replacing one unit"]
    {
        assert!(page.contains(words), "{words}");
    }
}

/// Whichever question comes first, the certificate states bounds that hold in all of them.
#[tokio::test]
async fn a_certificate_states_the_widest_bounds_of_its_questions() {
    let clinic = Clinic::new();
    let session = clinic.session(|policy| policy);
    let report = clinic.0.path().join("report.toml");
    let narrow = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 1, max_rows_contributed_per_group = 1) \
        COUNT(*) FROM visits";
    let text = format!(
        "policy = \"policy.toml\"\ntitle = \"T\"\n[budget]\nepsilon = 1\ndelta = 1e-6\n\
         [[question]]\nid = \"one\"\ntitle = \"One\"\nsql = \"{narrow}\"\n\
         [[question]]\nid = \"all\"\ntitle = \"All\"\nsql = \"SELECT SUM(cost) FROM visits\"\n"
    );
    std::fs::write(&report, text).unwrap();
    let published = session.report(&ReportSpec::load(&report).unwrap(), "now").await.unwrap();
    let [visits] = &published.certificate.bounds[..] else { panic!("{:?}", published.certificate.bounds) };
    assert_eq!((visits.contribution.max_groups_per_unit.get(), visits.contribution.max_rows_per_group.get()), (5, 9));
}
