//! `dither plan`.

use crate::{Clinic, POLICY, json, stderr, stdout};

#[test]
fn plan_charges_nothing_and_says_what_it_would_cost() {
    let clinic = Clinic::with("");
    let plan = clinic.run(&["plan", "-p", "policy.toml", "SELECT AVG(age) AS a FROM visits", "-e", "0.5"]);
    let text = stdout(&plan);
    for part in
        ["Laplace", "sensitivity", "l1 330", "expected error", "left now   ε 1", "left then  ε 0.5", "basic", "RDP"]
    {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(!clinic.path("ledger.db").exists(), "a plan makes no ledger");
    let solved = json(&clinic.run(&[
        "plan",
        "-p",
        "policy.toml",
        "SELECT AVG(age) AS a FROM visits",
        "--target-error",
        "5",
        "--json",
    ]));
    let error = solved["plan"]["outputs"][0]["expected_error"].as_f64().unwrap();
    assert!((4.9..=5.0).contains(&error), "{error}");
    let percent =
        clinic.run(&["plan", "-p", "policy.toml", "SELECT AVG(age) AS a FROM visits", "--target-error", "0.001%"]);
    assert!(stderr(&percent).contains("target-error"), "{}", stderr(&percent));
}

/// What the contribution bounds drop makes no error smaller: a promise that ignores them would be broken.
#[test]
fn a_plan_counts_only_the_rows_that_the_bounds_keep() {
    let clinic = Clinic::with("");
    let policy = |public: &str| clinic.write("policy.toml", &POLICY.replace("public = { rows = 1000 }", public));
    let plan = |sql: &str| {
        let plan = json(&clinic.run(&["plan", "-p", "policy.toml", sql, "-e", "0.5", "--json"]));
        let output = &plan["plan"]["outputs"][0];
        let error = output["expected_error"].as_f64().unwrap();
        (error, output["expected_error_percent"].as_f64(), output["assumption"].as_str().unwrap_or_default().to_owned())
    };
    let (mean, count, wards) = (
        "SELECT AVG(age) AS a FROM visits",
        "SELECT COUNT(*) AS n FROM visits",
        "SELECT ward, AVG(age) AS a FROM visits GROUP BY ward",
    );
    // 200 units with at most 3 rows each: 600 of 100,000 rows count.
    policy("public = { rows = 600 }");
    let (expected, expected_count) = (plan(mean).0, plan(count).1);
    policy("public = { rows = 100000, units = 200 }");
    let (error, _, assumption) = plan(mean);
    assert_eq!((error, plan(count).1), (expected, expected_count));
    assert!(assumption.contains("600 rows that count, of 100000"), "{assumption}");
    // In 2 of 3 groups with 3 rows each: 200 · 2 · 3 / 3 rows in a group.
    let (error, _, assumption) = plan(wards);
    assert!(assumption.contains("a group has at most 400 rows that count, of 33333"), "{assumption}");
    policy("public = { rows_per_group = 400 }");
    assert_eq!(plan(wards).0, error);
    assert!(!plan(wards).2.contains("that count"));
    let units = "SELECT ward, COUNT(DISTINCT patient) AS n FROM visits GROUP BY ward";
    policy("public = { rows = 100000, units = 200 }");
    let (error, percent, _) = plan(units);
    assert_eq!(percent.unwrap().round(), (100.0 * error / 133.0).round());
}

/// A question that was charged and failed costs nothing more, and both the plan and the answer say so.
#[test]
fn what_was_charged_and_failed_is_free_and_said_to_be() {
    let clinic = Clinic::with("");
    let whole = clinic.tear();
    let sql = "SELECT COUNT(*) AS n FROM visits";
    clinic.write(
        "report.toml",
        "policy = \"policy.toml\"\ntitle = \"t\"\nbudget = { epsilon = 0.3, delta = 0 }\n[[question]]\nid = \"n\"\n\
         title = \"n\"\nsql = \"SELECT COUNT(*) AS r FROM visits\"\n",
    );
    clinic.write("questions.sql", &format!("{sql}; SELECT COUNT(*) AS m FROM visits; {sql}"));
    let terms = ["-p", "policy.toml", "-e", "0.2"];
    let plan = |more: &[&str]| clinic.run(&[&["plan"], &terms[..], more].concat());
    let left = |plan: &serde_json::Value, name: &str| plan[name]["epsilon"].as_f64();
    let before = json(&plan(&[sql, "--json"]));
    assert_eq!((left(&before, "remaining"), left(&before, "remaining_after")), (Some(1.0), Some(0.8)));
    let together = json(&plan(&["--file", "questions.sql", "--json"]));
    assert_eq!(together["apart"]["epsilon"], 0.4, "what stands twice is charged once");
    assert_eq!((&together["together"]["epsilon"], &together["questions"][2]["same_as"]), (&0.4.into(), &1.into()));
    let shown = stdout(&plan(&["--file", "questions.sql"]));
    assert!(shown.contains("all 2 different, asked one by one    ε 0.4") && shown.contains("it is question 1 again"));

    assert!(!clinic.query(sql, &["-e", "0.2"]).status.success());
    assert!(!clinic.run(&["report", "report.toml"]).status.success());
    let failed = json(&plan(&[sql, "--json"]));
    assert_eq!((left(&failed, "remaining"), left(&failed, "remaining_after")), (Some(0.5), Some(0.5)));
    assert_eq!((&failed["charged_before"], &failed["answered_before"]), (&true.into(), &false.into()));
    let free = "left now   ε 0.5, δ 1e-6\nleft then  the same: this was charged before and had no answer; asking again is free\n";
    for shown in [stdout(&plan(&[sql])), stdout(&clinic.run(&["report", "report.toml", "--plan"]))] {
        assert!(shown.ends_with(free), "{shown}");
    }
    let file = json(&plan(&["--file", "questions.sql", "--json"]));
    assert_eq!((&file["apart"]["epsilon"], left(&file, "remaining_after")), (&0.2.into(), Some(0.3)));

    std::fs::write(clinic.path("visits.csv.gz"), whole).unwrap();
    for answered in [clinic.query(sql, &["-e", "0.2"]), clinic.run(&["report", "report.toml"])] {
        let shown = stdout(&answered);
        assert!(shown.contains("charged nothing: this was charged before, on 2"), "{shown}{}", stderr(&answered));
        assert!(shown.contains("and had no answer · left ε 0.5"), "{shown}");
    }
    let answered = json(&plan(&[sql, "--json"]));
    assert_eq!(answered["remaining_after"], answered["remaining"]);
    assert_eq!((&answered["charged_before"], &answered["answered_before"]), (&true.into(), &true.into()));
    assert!(stdout(&plan(&[sql])).ends_with("left then  the same: this was answered before and is free\n"));
    let report = stdout(&clinic.run(&["report", "report.toml", "--plan"]));
    assert!(report.ends_with("left then  the same: this was published before and is free\n"), "{report}");
}

/// A plan is refused for what the question itself would be refused for.
#[test]
fn a_plan_under_terms_that_the_ledger_refuses_is_refused() {
    let clinic = Clinic::with("");
    assert!(clinic.query("SELECT COUNT(*) AS n FROM visits", &["-e", "0.1"]).status.success());
    for (old, new, parts) in [
        (
            "source =",
            "neighbors = \"replace-unit\"\nsource =",
            [
                "error[protection-changed]",
                "the ledger says \"add or remove one `patient`\", the policy \"replace one `patient`\"",
            ],
        ),
        ("epsilon = 1\n", "epsilon = 2\n", ["error[raise-needs-amendment]", "dither ledger amend"]),
    ] {
        clinic.write("policy.toml", &POLICY.replace(old, new));
        let sql = "SELECT COUNT(*) AS m FROM visits";
        let plan = clinic.run(&["plan", "-p", "policy.toml", sql, "-e", "0.1"]);
        assert_eq!(stderr(&plan), stderr(&clinic.query(sql, &["-e", "0.1"])));
        assert!(parts.iter().all(|part| stderr(&plan).contains(part)), "{}", stderr(&plan));
    }
}

/// Where bounds that are found clamp much of a column, that is said before the charge from declared numbers, and after it from
/// the released number of values.
#[test]
fn bounds_that_clamp_much_of_a_column_are_warned_of_before_and_after_the_charge() {
    let clinic = Clinic::with("");
    let policy = POLICY.replace("bounds = [0, 110], typical = 40", "approx_bounds = true");
    let policy = policy.replace("epsilon = 1", "epsilon = 1000").replace("query = 0.5", "query = 500");
    clinic.write("policy.toml", &policy);
    let sql = "SELECT AVG(age) FROM visits";
    let plan = |epsilon: &str| clinic.run(&["plan", "-p", "policy.toml", "-e", epsilon, sql]);
    let warned = stdout(&plan("8"));
    assert!(warned.contains("\nwarning    about ") && warned.contains("will count as one of the bounds"), "{warned}");
    assert!(!stdout(&plan("400")).contains("warning"), "{}", stdout(&plan("400")));
    // A hundred rows where a thousand are declared: the number that is released with the answer shows it.
    let answered = clinic.query(sql, &["-e", "16"]);
    assert!(stdout(&answered).contains("Warning: so many values count as a bound"), "{}", stdout(&answered));
    // Of those that are declared no more count than the contribution bounds leave.
    clinic.write("policy.toml", &policy.replace("rows = 1000", "rows = 1000, units = 40"));
    let refused = stderr(&plan("8"));
    assert!(refused.contains("cannot be found") && refused.contains("of 120 that count, of 1000"), "{refused}");
}
