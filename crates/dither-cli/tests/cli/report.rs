//! `dither report`.

use std::fs;
use std::process::Output;

use crate::{Clinic, POLICY, stderr, stdout};

#[test]
fn a_report_is_written_once_and_repeated_for_free() {
    let clinic = Clinic::with("");
    clinic.write(
        "report.toml",
        r#"
        policy = "policy.toml"
        title = "Clinic <b>"
        budget = { epsilon = 0.6, delta = 0 }
        [[question]]
        id = "n"
        title = "Visits"
        sql = "SELECT COUNT(*) AS n FROM visits"
        [[question]]
        id = "wards"
        title = "By ward"
        sql = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
        weight = 2
        then = [{ step = "sum-to-total", column = "n", total = { section = "n", column = "n" } }]
        plot = { kind = "bars" }
        "#,
    );
    let first = clinic.run(&["report", "report.toml"]);
    assert!(first.status.success(), "{}", stderr(&first));
    let page = fs::read_to_string(clinic.path("out/report.html")).unwrap();
    assert!(page.contains("Clinic &lt;b&gt;") && page.contains("<svg"), "sv_07");
    let csv = fs::read(clinic.path("out/wards.csv")).unwrap();
    let again = clinic.run(&["report", "report.toml"]);
    assert!(stdout(&again).contains("charged nothing"), "{}", stdout(&again));
    assert_eq!(fs::read(clinic.path("out/wards.csv")).unwrap(), csv);
    let certificate = fs::read_to_string(clinic.path("out/certificate.json")).unwrap();
    assert!(certificate.contains("\"head\""));
    clinic.write("report.toml", "policy = \"policy.toml\"\ntitel = 'x'");
    assert!(!clinic.run(&["report", "report.toml"]).status.success());
}

/// Bounds that were found stand in everything that shows the answer, the same ones, and in what is signed.
#[test]
fn bounds_that_a_report_found_stand_in_its_pages_and_in_its_certificate() {
    let clinic = Clinic::with("");
    let policy = POLICY.replace("bounds = [0, 110], typical = 40", "approx_bounds = true");
    clinic.write("policy.toml", &policy.replace("epsilon = 1", "epsilon = 1000").replace("query = 0.5", "query = 100"));
    let text = r#"
        policy = "policy.toml"
        title = "Ages"
        budget = { epsilon = 80, delta = 0 }
        [[question]]
        id = "age"
        title = "Age"
        sql = "SELECT AVG(age) AS mean FROM visits"
        "#;
    clinic.write("report.toml", text);
    let published = clinic.run(&["report", "report.toml"]);
    assert!(published.status.success(), "{}", stderr(&published));
    let read = |name: &str| fs::read_to_string(clinic.path("out").join(name)).unwrap();
    let json = |name: &str| serde_json::from_str::<serde_json::Value>(&read(name)).unwrap();
    let found = &json("report.json")["sections"][0]["found"];
    assert_eq!(found, &json("certificate.json")["events"][0]["found"]);
    let said = format!("age counts within the bounds found, [{}, {}], which", found[0]["lower"], found[0]["upper"]);
    let said = said.replace(".0]", "]").replace(".0,", ",");
    for shown in [stdout(&published), read("report.html"), read("certificate.html")] {
        assert_eq!(shown.matches(&said).count(), 1, "{said}\n{shown}");
        assert!(shown.contains("bias is in no interval"));
    }
    clinic.write("report.toml", &text.replace("\"Ages\"", "\"年龄\"\nlanguage = \"zh\""));
    let repeated = clinic.run(&["report", "report.toml"]);
    assert!(stdout(&repeated).contains("偏差不在任何置信区间之内"), "{}", stdout(&repeated));
    let answered = clinic.query("SELECT AVG(age) FROM visits", &["-e", "70"]);
    assert!(stdout(&answered).contains("bias is in no interval"), "{}", stdout(&answered));
    // Bounds that noise alone would choose are refused before the charge, in a report as in a question.
    clinic.write("report.toml", &text.replace("epsilon = 80", "epsilon = 0.5"));
    let refused = clinic.run(&["report", "report.toml"]);
    assert!(!refused.status.success() && stderr(&refused).contains("cannot be found"), "{}", stderr(&refused));
}

#[test]
fn the_wards_of_a_consistent_report_add_up_to_its_total() {
    let clinic = Clinic::with("");
    let report = |sections: &str, filter: &str| {
        let text = r#"
        policy = "policy.toml"
        title = "Clinic"
        budget = { epsilon = 0.6, delta = 0 }
        [[question]]
        id = "all"
        title = "Visits"
        sql = "SELECT COUNT(*) AS n FROM visits"
        [[question]]
        id = "wards"
        title = "By ward"
        sql = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
        [[consistent]]
        column = "n"
        sections = "#;
        let text = text.replacen("FROM visits", &format!("FROM visits{filter}"), 1);
        clinic.write("report.toml", &format!("{text}{sections}\n"));
        clinic.run(&["report", "report.toml"])
    };
    // What is wrong is said before anything is charged.
    for sections in [r#"["all", "ward"]"#, r#"["all"]"#] {
        let refused = report(sections, "");
        assert!(!refused.status.success() && !clinic.path("ledger.db").exists(), "{}", stdout(&refused));
    }
    let apart = report(r#"["all", "wards"]"#, " WHERE age > 50");
    assert!(!apart.status.success() && stderr(&apart).contains("the same WHERE"), "{}", stderr(&apart));
    assert!(!clinic.path("ledger.db").exists());
    let published = report(r#"["all", "wards"]"#, "");
    assert!(published.status.success(), "{}", stderr(&published));
    // A patient has up to so many rows in each of several wards, and no more than in one of them without.
    assert!(stderr(&published).contains("warning: Visits: up to "), "{}", stderr(&published));
    let written = fs::read_to_string(clinic.path("out/report.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&written).unwrap();
    let numbers = |section: usize| {
        let rows = document["sections"][section]["rows"].as_array().unwrap();
        rows.iter().map(|row| row["n"]["value"].as_i64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((numbers(0).len(), numbers(1).len()), (1, 3));
    // Four numbers with independent noise of scale 20 and more seldom add up by themselves.
    assert_eq!(numbers(0)[0], numbers(1).iter().sum::<i64>());
    for section in 0..2 {
        let step = document["sections"][section]["postprocessing"][0]["step"].as_str().unwrap();
        assert!(step.contains("agrees with"), "{step}");
    }
}

#[test]
fn the_id_of_a_question_names_a_file_and_nothing_else() {
    let clinic = Clinic::with("");
    let report = |ids: &[&str]| {
        let question = |(n, id): (usize, &&str)| {
            format!("[[question]]\nid = {id:?}\ntitle = \"t\"\nsql = \"SELECT COUNT(*) AS r{n} FROM visits\"\n")
        };
        let questions: String = ids.iter().enumerate().map(question).collect();
        let head = "policy = \"policy.toml\"\ntitle = \"t\"\nbudget = { epsilon = 0.1, delta = 0 }\n";
        clinic.write("report.toml", &format!("{head}{questions}"));
        clinic.run(&["report", "report.toml"])
    };
    let long = "x".repeat(201);
    for ids in [&["../visits"][..], &[""], &["a/b"], &["a.b"], &["a b"], &["C:x"], &[&long], &["n", "N"], &["ä", "Ä"]]
    {
        let output = report(ids);
        assert!(!output.status.success() && stderr(&output).contains("id `"), "{ids:?}: {}", stderr(&output));
    }
    assert!(!clinic.path("ledger.db").exists() && !clinic.path("out").exists(), "something was charged or written");
    assert!(report(&["各科", "by-ward_2"]).status.success());
    assert!(clinic.path("out/各科.csv").exists());
}

/// The count beside a mean follows from two noisy sums: its own noise is far below theirs, and a converted unit changes it.
#[test]
fn the_noise_of_a_report_is_that_of_the_numbers_it_shows() {
    let clinic = Clinic::with("");
    clinic.write(
        "report.toml",
        r#"
        policy = "policy.toml"
        title = "t"
        budget = { epsilon = 0.5, delta = 1e-6 }
        [[question]]
        id = "a"
        title = "a"
        sql = "SELECT COUNT(age) AS n, SUM(age) AS s, AVG(age) AS m FROM visits"
        mechanism = "gaussian"
        then = [{ step = "convert", column = "s", multiply = 0.001, rename = "thousands" }]
        "#,
    );
    let output = clinic.run(&["report", "report.toml"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let read = |name: &str| {
        serde_json::from_str::<serde_json::Value>(&fs::read_to_string(clinic.path(name)).unwrap()).unwrap()
    };
    let report = read("out/report.json");
    let noise = report["sections"][0]["share"]["noise"].as_array().unwrap();
    let number = |index: usize, key: &str| noise[index][key].as_f64().unwrap();
    // 1.96 standard deviations cover 95 of 100 draws of a Gaussian.
    for index in [0, 1] {
        let ratio = number(index, "expected_error") / number(index, "scale");
        assert!((1.9..2.1).contains(&ratio), "{index}: {ratio}");
    }
    assert_eq!(noise[1]["column"], "thousands");
    assert!(number(1, "expected_error") < number(0, "expected_error"), "{noise:?}");
    assert!(noise[2]["scale"].is_null());
    // The table of the certificate is at the δ that was charged.
    let certificate = read("out/certificate.json");
    assert!(certificate["charged"]["delta"].as_f64().unwrap() > 0.0);
    for guarantee in certificate["guarantees"].as_array().unwrap() {
        assert_eq!(guarantee["delta"], certificate["charged"]["delta"]);
    }
}

/// Who signs a certificate sees for what: the day of the charge, the SQL, the file, and the bounds that were used.
#[test]
fn a_certificate_says_for_what_was_paid() {
    let clinic = Clinic::with("");
    let text = r#"
        policy = "policy.toml"
        title = "Ages"
        budget = { epsilon = 0.4, delta = 0 }
        [[question]]
        id = "young"
        title = "Young"
        sql = "SELECT SUM(age, contribution_bounds_per_row => (0, 5)) AS years FROM visits"
        [[question]]
        id = "patients"
        title = "Numbers"
        sql = "SELECT SUM(patient, contribution_bounds_per_row => (-7, 9)) AS total FROM visits"
        "#;
    clinic.write("report.toml", text);
    let published = clinic.run(&["report", "report.toml"]);
    assert!(published.status.success(), "{}", stderr(&published));
    let read = |name: &str| fs::read_to_string(clinic.path("out").join(name)).unwrap();
    let json = || serde_json::from_str::<serde_json::Value>(&read("certificate.json")).unwrap();
    let certificate = json();
    assert_eq!(
        certificate["events"][0]["question"],
        "SELECT SUM(age, contribution_bounds_per_row => (0, 5)) AS years FROM visits"
    );
    assert_eq!(certificate["bounds"][0]["file"], "visits.csv");
    let bounds = certificate["bounds"][0]["columns"].as_array().unwrap();
    let of = |name: &str| {
        let column =
            bounds.iter().find(|column| column["column"] == name).unwrap_or_else(|| panic!("{name} {bounds:?}"));
        [&column["lower"], &column["upper"]].map(|end| end.as_f64().unwrap())
    };
    assert_eq!(of("age"), [0.0, 110.0], "what the policy says stays");
    assert_eq!(of("age (contribution_bounds_per_row)"), [0.0, 5.0]);
    assert_eq!(of("patient (contribution_bounds_per_row)"), [-7.0, 9.0]);
    let day = certificate["charged_on"].as_str().unwrap().to_owned();
    assert!(day.len() == 10 && certificate["generated"].as_str().unwrap().starts_with(&day), "{day}");
    for part in [day.as_str(), "visits.csv", "(0, 5)) AS years"] {
        assert!(read("certificate.html").contains(part), "{part} is missing");
    }
    assert!(clinic.run(&["report", "report.toml"]).status.success());
    assert_eq!(json()["charged_on"], day.as_str(), "the day of the first charge");
}

/// The warnings of all questions come once, by their titles, before anything is charged, and whatever the ledger says then.
#[test]
fn a_report_is_warned_of_before_the_charge() {
    let clinic = Clinic::with("");
    let question = |id: &str, ward: &str| {
        let sql = format!("SELECT COUNT(*) AS n FROM visits WHERE ward = '{ward}'");
        format!("[[question]]\nid = {id:?}\ntitle = \"{id}!\"\nsql = \"{sql}\"\n")
    };
    let head = "policy = \"policy.toml\"\ntitle = \"t\"\nbudget = { epsilon = 0.6, delta = 0 }\n";
    clinic.write("report.toml", &[head, &question("a", "absend"), &question("b", "A"), &question("c", "C")].concat());
    let warnings = |output: &Output| {
        let told = stderr(output);
        let lines = told.lines().filter_map(|line| line.strip_prefix("warning: "));
        lines.map(|line| line.split(" is ").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let published = clinic.run(&["report", "report.toml"]);
    assert!(published.status.success(), "{}", stderr(&published));
    assert_eq!(warnings(&published), ["a!: `ward`", "c!: `ward`"]);
    clinic.write("report.toml", &(head.replace("0.6", "0.5") + &question("a", "absend")));
    let refused = clinic.run(&["report", "report.toml"]);
    assert!(!refused.status.success() && stderr(&refused).contains("error[budget"), "{}", stderr(&refused));
    assert_eq!(warnings(&refused), ["a!: `ward`"]);
}
