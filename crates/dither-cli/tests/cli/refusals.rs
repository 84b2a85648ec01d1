//! What is refused, and in which words.

use std::process::Command;

use crate::{Clinic, POLICY, stderr, stdout};

#[test]
fn bg_01_and_bg_02_odd_epsilons_touch_nothing() {
    let clinic = Clinic::with("");
    for epsilon in ["NaN", "inf", "-1", "-0.0", "0", "1e400", "5e-324", "0x1p3", "", "null", "true", "1e-12"] {
        let output = clinic.query("SELECT COUNT(*) FROM visits", &[&format!("--epsilon={epsilon}")]);
        assert!(!output.status.success(), "{epsilon}");
        assert!(!stderr(&output).contains("panicked"), "{epsilon}");
    }
    let missing = clinic.query("SELECT COUNT(*) FROM visits", &[]);
    assert!(stderr(&missing).contains("missing-epsilon"), "{}", stderr(&missing));
    for delta in ["-1e-6", "1", "NaN", "2"] {
        let output = clinic.query("SELECT COUNT(*) FROM visits", &["--epsilon", "0.1", &format!("--delta={delta}")]);
        assert!(!output.status.success(), "bg_06: {delta}");
    }
    assert!(!clinic.path("ledger.db").exists(), "the ledger was touched");
}

#[test]
fn fp_12_no_seed_is_accepted_anywhere() {
    let clinic = Clinic::with("");
    for flag in ["--seed=1", "--random-state=1", "--rng=1"] {
        assert!(!clinic.query("SELECT COUNT(*) FROM visits", &["--epsilon", "0.1", flag]).status.success());
    }
    clinic.write("policy.toml", &format!("seed = 1\n{POLICY}"));
    assert!(!clinic.query("SELECT COUNT(*) FROM visits", &["--epsilon", "0.1"]).status.success());
    // Two copies of everything, asked the same, draw different noise, whatever the environment says.
    let values: Vec<String> = (0..2)
        .map(|_| {
            let clinic = Clinic::with("");
            let mut command = Command::new(env!("CARGO_BIN_EXE_dither"));
            command.current_dir(clinic.folder.path()).envs([("SEED", "1"), ("DITHER_SEED", "1"), ("RANDOM_SEED", "1")]);
            let ask = ["query", "-p", "policy.toml", "SELECT SUM(age) AS s FROM visits", "-e", "0.01", "-f", "csv"];
            stdout(&command.args(ask).output().unwrap())
        })
        .collect();
    assert_ne!(values[0], values[1]);
}

#[test]
fn sv_08_only_regular_files_are_opened() {
    let clinic = Clinic::with("");
    for source in ["/dev/zero", "http://169.254.169.254/x.csv", "file:///etc/passwd", "missing.csv", ".", "/etc/passwd"]
    {
        clinic.write("policy.toml", &POLICY.replace("visits.csv", source));
        let output = clinic.query("SELECT COUNT(*) FROM visits", &["-e", "0.1"]);
        assert!(!output.status.success(), "{source}");
        assert!(!stderr(&output).contains("root:"), "{source}");
    }
    assert!(!clinic.path("ledger.db").exists());
}

#[test]
fn sq_31_names_with_quotes_are_data_not_code() {
    let clinic = Clinic::with("");
    for sql in [
        "x'; DROP TABLE t;--",
        "SELECT COUNT(*) FROM visits WHERE city = ''' OR 1=1 --'",
        "SELECT “COUNT(*)” FROM visits",
    ] {
        let output = clinic.query(sql, &["-e", "0.1"]);
        assert!(!stderr(&output).contains("panicked"), "{sql}");
    }
}

#[test]
fn a_refusal_shows_code_caret_and_hint() {
    let clinic = Clinic::with("");
    let output = clinic.query("SELECT ward,\n       MODE(age) FROM visits GROUP BY ward", &["-e", "0.1"]);
    assert_eq!(
        stderr(&output),
        "error[unknown-function]: the function `mode` is not offered\n  2 |        MODE(age) FROM visits GROUP BY ward\n    \
         |        ^^^^\nhint: the most frequent value may be somebody's; group by the values and count\n"
    );
    assert_eq!(output.status.code(), Some(1));
}

/// Expressions that fail for some rows only are an oracle: whether the question is answered tells who is in the table.
/// Each is refused before it is charged, or answered with the same status on both tables.
#[test]
fn sq_12_no_expression_can_be_made_to_fail_on_one_row() {
    let big = format!("'{}'", "_a".repeat(30_000));
    let texts = vec!["city"; 15_000].join(", ");
    let questions = [
        "SELECT COUNT(*) AS n FROM visits WHERE city = 'z' AND date_part('decade', day) = 1".to_owned(),
        "SELECT COUNT(*) AS n FROM visits WHERE city = 'z' AND date_part('foo', day) = 1".into(),
        "SELECT COUNT(*) AS n FROM visits WHERE CASE WHEN city = 'z' THEN date_trunc('century', day) > day ELSE true END".into(),
        format!("SELECT COUNT(*) AS n FROM visits WHERE city = 'z' AND city LIKE {big}"),
        "SELECT COUNT(*) AS n FROM visits WHERE city = 'z' AND city LIKE 'a_b' ESCAPE 'b'".into(),
        "SELECT CAST(age AS DATE) AS d, COUNT(*) AS n FROM visits GROUP BY 1".into(),
        "SELECT COUNT(*) AS n FROM visits WHERE city = 'z' AND CAST(CAST(age AS DATE) AS VARCHAR) = 'x'".into(),
        format!("SELECT COUNT(*) AS n FROM visits WHERE concat({texts}) = 'x'"),
        format!("SELECT COUNT(*) AS n FROM visits WHERE CASE WHEN city = 'z' THEN '{}' ELSE city END = 'x'", "y".repeat(100_000)),
        "SELECT date_trunc('month', CAST(day AS TIMESTAMP)) AS m, COUNT(*) AS n FROM visits GROUP BY 1".into(),
        "SELECT CAST(age AS SMALLINT) AS k, COUNT(*) AS n FROM visits GROUP BY 1".into(),
        "SELECT COUNT(*) AS n FROM visits WHERE CAST(day AS VARCHAR) || city = 'x'".into(),
        // The year of this moment begins before the first one that nanoseconds can count.
        "SELECT COUNT(*) AS n FROM visits WHERE date_trunc('year', CAST(CASE WHEN city = 'z' \
         THEN '1677-09-21T00:12:44' ELSE '2020-01-01' END AS TIMESTAMP)) IS NOT NULL"
            .into(),
        "SELECT EXTRACT(month FROM date_trunc('week', CAST(CASE WHEN city = 'z' THEN '1677-09-21T00:12:44' END \
         AS TIMESTAMP))) AS m, COUNT(*) AS n FROM visits GROUP BY m"
            .into(),
    ];
    let odd = "500,A,z,100000000,9999-12-31\n501,B,z,-1,0001-01-01\n502,A,z,9223372036854775807,+262141-12-31\n";
    for sql in &questions {
        let ask = |more: &str| {
            let output = Clinic::with(more).query(sql, &["-e", "0.001", "-d", "1e-7", "-f", "json"]);
            assert!(!stderr(&output).contains("engine-failed"), "{sql:.200}");
            (output.status.code(), stderr(&output))
        };
        assert_eq!(ask(""), ask(odd), "{sql:.200}");
    }
}

#[test]
fn a_wrong_value_is_refused_in_our_words() {
    let clinic = Clinic::with("");
    let said = |sql: &str, more: &[&str]| {
        let output = clinic.query(sql, more);
        assert!(!output.status.success(), "{sql}");
        stderr(&output)
    };
    for epsilon in [["-e", "-1"], ["-e", "-1e-6"], ["--epsilon", "-0.5"]] {
        let text = said("SELECT COUNT(*) FROM visits", &epsilon);
        assert!(text.contains("epsilon must be") && !text.contains("unexpected"), "{text}");
    }
    let text = said("SELECT SUM(city, contribution_bounds_per_row => (0, 1)) FROM visits", &["-e", "0.1"]);
    assert!(
        text.contains("`SUM` needs numbers, and `city` is a column of texts") && !text.contains("oercion"),
        "{text}"
    );
    let text = said("SELECT SUM(patient * age) FROM visits", &["-e", "0.1"]);
    assert!(text.contains("`SUM(patient * age)` has no bounds"), "{text}");
    // A name from the policy or the question cannot steer the terminal.
    let text = said("SELECT COUNT(*) FROM \"\u{1b}[2J\u{202e}x\"", &["-e", "0.1"]);
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text:?}");
    // What is wrong in the policy points at no place in the question.
    clinic.write("policy.toml", &format!("{POLICY}odd = {{ type = \"integer\", expression = \"nothing + 1\" }}\n"));
    let text = said("SELECT COUNT(*) FROM visits", &["-e", "0.1"]);
    assert!(
        text.contains("the computed column `odd`") && text.contains("in the policy") && !text.contains('^'),
        "{text}"
    );
    for (ledger, word) in
        [("nodir/x.db", "there is no folder"), ("visits.csv", "is not a ledger"), (".", "is not a ledger")]
    {
        clinic.write("policy.toml", &format!("ledger = \"{ledger}\"\n{POLICY}"));
        let text = said("SELECT COUNT(*) FROM visits", &["-e", "0.1"]);
        assert!(text.contains(word), "{ledger}: {text}");
    }
    assert!(!clinic.path("ledger.db").exists());
}

#[test]
fn an_engine_that_is_none_is_refused_with_both_that_there_are() {
    let clinic = Clinic::with("");
    let said = |url: &str| {
        let output = clinic.query("SELECT COUNT(*) FROM visits", &["-e", "0.1", "--engine", url]);
        assert!(!output.status.success() && !clinic.path("ledger.db").exists());
        stderr(&output)
    };
    for url in ["mysql://localhost/clinic", "localhost", "", "POSTGRES//x"] {
        let text = said(url);
        assert!(
            text.starts_with("error[engine-url]: ") && text.contains("postgres://") && text.contains("ballista://"),
            "{text}"
        );
    }
    for url in ["postgres://user@localhost:99999/clinic", "postgres://localhost/clinic?nonsense=1"] {
        let text = said(url);
        assert!(text.starts_with("error[engine-url]: ") && text.contains("\nhint: write postgres://"), "{text}");
    }
    let text = said("ballista://node-1.lan");
    let code = ["error[engine-url]: ", "error[no-cluster]: "].iter().any(|code| text.starts_with(code));
    assert!(code && text.contains("\nhint: "), "{text}");
}

#[test]
fn a_slip_in_a_policy_is_answered_with_what_to_write() {
    let clinic = Clinic::with("");
    let unit = "privacy_unit = { column = \"patient\" }";
    for (old, new, hint) in [
        (
            unit,
            "privacy_unit = { column = \"patient\", per = \"fortnight\", time = \"day\" }",
            "one of \"day\", \"week\", \"month\"",
        ),
        (unit, "privacy_unit = { column = \"patient\", per = \"weeks\", time = \"day\" }", "did you mean \"week\"?"),
        (unit, "privacy_unit = { column = \"patient\", time = \"day\" }", "per = \"week\", time ="),
        (unit, "privacy_unit = { column = \"patient\", per = \"week\" }", "per = \"week\", time ="),
        (
            "patient = { type = \"integer\" }",
            "patient = { type = \"integer\", approx_bounds = \"yes\" }",
            "true or false, without quotes",
        ),
        ("day = { type = \"date\" }", "day = { type = \"dates\" }", "did you mean \"date\"?"),
        ("max_rows_per_group = 3", "max_rows_per_group = \"3\"", "without quotes"),
        ("dataset = \"clinic\"", "dataset = 5", "in quotes"),
    ] {
        assert!(POLICY.contains(old), "{old}");
        clinic.write("policy.toml", &POLICY.replace(old, new));
        let output = clinic.query("SELECT COUNT(*) FROM visits", &["-e", "0.1"]);
        let text = stderr(&output);
        let hinted = text.split("\nhint: ").nth(1).is_some_and(|shown| shown.contains(hint));
        assert!(text.starts_with("error[policy-syntax]: ") && text.contains("--> line") && hinted, "{new}: {text}");
    }
}
