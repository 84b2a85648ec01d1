//! Policies as stewards write them, right and wrong.

use dither_core::{Explain, Key, Neighbors};
use proptest::prelude::*;

use super::*;

mod periods;

/// A policy with one table; `{}` stands for what the test varies.
fn with_column(column: &str) -> String {
    format!(
        r#"
dataset = "hospital"
[budget]
epsilon = 4
delta = 1e-6
[tables.visits]
source = "visits.csv"
privacy_unit = {{ column = "patient" }}
max_groups_contributed = 2
max_rows_per_group = 3
[tables.visits.columns]
patient = {{ type = "integer" }}
{column}
"#
    )
}

fn good() -> String {
    with_column(r#"ward = { type = "text", keys = ["b", "a"] }"#)
}

fn load(text: &str) -> Result<Policy, PolicyError> {
    Policy::from_toml(text, "/data")
}

/// The code and the message of a refusal.
fn refusal(text: &str) -> (&'static str, String) {
    let error = load(text).expect_err(text);
    assert_eq!(error.audience(), dither_core::Audience::Operator);
    (error.code(), format!("{error}\n{}", error.hint().unwrap_or_default()))
}

fn assert_refused(text: &str, code: &str, parts: &[&str]) {
    let (found, message) = refusal(text);
    assert_eq!(found, code, "{message}");
    parts.iter().for_each(|part| assert!(message.contains(part), "{part:?} is not in:\n{message}"));
}

#[test]
fn a_policy_says_what_its_text_says() {
    let policy = load(&good()).unwrap();
    let table = &policy.tables["visits"];
    assert_eq!(table.privacy_unit, UnitPolicy::Column { column: "patient".into() });
    assert_eq!(table.neighbors, Neighbors::AddOrRemoveUnit);
    assert_eq!(table.contribution_bounds().unwrap().max_groups_per_unit.get(), 2);
    assert_eq!(policy.budget.limit().delta.to_string(), "1e-6");
    assert_eq!(policy.base_dir, PathBuf::from("/data"));
}

#[test]
fn sq_06_public_keys_keep_the_order_of_the_list() {
    let keys = load(&good()).unwrap().tables["visits"].columns["ward"].keys.clone().unwrap();
    assert_eq!(keys.keys(ColumnType::Text), [Key::Text("b".into()), Key::Text("a".into())]);
}

#[test]
fn unknown_keys_are_refused_with_the_nearest_name_and_place() {
    let text = good().replace("delta", "detla");
    assert_refused(&text, "policy-unknown-key", &["`detla`", "did you mean `delta`?", "line 5, column 1", "^^^^^"]);
    let text = with_column(r#"age = { type = "integer", bonds = [0, 120] }"#);
    assert_refused(&text, "policy-unknown-key", &["did you mean `bounds`?", "line 13"]);
    let text = with_column(r#"age = { type = "integer", keys = { from = 1, to = 3, stride = 2 } }"#);
    assert_refused(&text, "policy-syntax", &["`keys` must be", "line 13"]);
    assert_refused(&good().replace("epsilon = 4", ""), "policy-missing-key", &["`epsilon`"]);
}

#[test]
fn sq_24_an_encoding_with_a_memory_is_refused() {
    let csv = |label: &str| {
        good().replace(
            "[tables.visits.columns]",
            &format!("[tables.visits.csv]\nencoding = {label:?}\n[tables.visits.columns]"),
        )
    };
    for (label, from) in
        [("utf-16le", "UTF-16 "), ("UTF-16BE", "UTF-16 "), ("utf-16", "UTF-16 "), ("iso-2022-jp", "ISO-2022-JP ")]
    {
        assert_refused(
            &csv(label),
            "policy-encoding",
            &["rows of others", &format!("iconv -f {from}-t UTF-8"), "line 12"],
        );
    }
    assert_refused(&csv("replacement"), "policy-encoding", &["no known encoding"]);
    for label in ["utf-8", "gbk", "gb18030", "big5", "shift_jis", "euc-kr", "windows-1252", "latin1"] {
        assert!(load(&csv(label)).is_ok(), "{label}");
    }
}

#[test]
fn bounds_are_exactly_two() {
    for bounds in ["[0, 20, 30]", "[0]", "[]"] {
        let text = with_column(&format!("age = {{ type = \"integer\", bounds = {bounds} }}"));
        assert_refused(&text, "policy-bounds", &["numbers, not a least", "[lower, upper]", "line 13"]);
    }
}

#[test]
fn a_step_and_a_typical_value_fit_the_bounds() {
    let column = |value: &str| with_column(&format!("x = {{ type = \"number\", bounds = [0, 5000], {value} }}"));
    for (value, why) in [
        ("step = 1e9", "is 1000000000, wider than the bounds [0, 5000]"),
        ("typical = 5001", "is 5001, outside of the bounds [0, 5000]"),
        ("typical = -1", "is -1, outside of"),
    ] {
        assert_refused(&column(value), "policy-bounds", &[why, "correct it or `bounds`", "line 13", "^"]);
    }
    for value in ["step = 5000", "typical = 0", "typical = 5000"] {
        assert!(Policy::from_toml(&column(value), ".").is_ok(), "{value}");
    }
}

#[test]
fn wrong_values_are_explained_without_names_of_types() {
    let syntax = "policy-syntax";
    assert_refused(
        &good().replace("_rows_per_group = 3", "_rows_per_group = 0"),
        syntax,
        &["a whole number from 1 to"],
    );
    assert_refused(
        &good().replace("_rows_per_group = 3", "_rows_per_group = 1.5"),
        syntax,
        &["a whole number from 1 to"],
    );
    let public = |line: &str| {
        good().replace("[tables.visits.columns]", &format!("[tables.visits.public]\n{line}\n[tables.visits.columns]"))
    };
    assert_refused(&public("rows = -1"), syntax, &["a whole number, not below 0"]);
    let csv = |line: &str| {
        good().replace("[tables.visits.columns]", &format!("[tables.visits.csv]\n{line}\n[tables.visits.columns]"))
    };
    for line in ["delimiter = \"\"", "quote = \"\"", "delimiter = \";;\""] {
        assert_refused(&csv(line), syntax, &["one character in quotes", "leave the key out"]);
    }
    let typical = |value: &str| with_column(&format!("x = {{ type = \"number\", bounds = [0, 1], {value} }}"));
    assert_refused(&typical("typical = nan"), "policy-number", &["finite number, or leave it out"]);
    assert_refused(&typical("step = 0"), "policy-number", &["a number above 0"]);
}

#[test]
fn a_caret_points_below_wide_characters() {
    let (_, message) = refusal(&with_column(r#""年龄" = { type = "integer", bounds = [9, 1] }"#));
    let lines: Vec<&str> = message.lines().collect();
    let caret = lines.iter().find(|line| line.contains('^')).unwrap();
    // Two Chinese characters fill four cells of the terminal.
    assert_eq!(caret.find('^').unwrap(), r#"13 | "xxxx" = { type = "integer", bounds = "#.len());
    assert_eq!(caret.matches('^').count(), "[9, 1]".len());
}

#[test]
fn bg_01_bg_06_odd_budgets_are_refused() {
    for epsilon in ["0", "-1", "nan", "inf", "\"many\"", "1e400", "true"] {
        let (_, message) = refusal(&good().replace("epsilon = 4", &format!("epsilon = {epsilon}")));
        assert!(message.contains("line 4"), "{message}");
    }
    for delta in ["1", "-1e-6", "nan", "1e-30"] {
        refusal(&good().replace("delta = 1e-6", &format!("delta = {delta}")));
    }
}

#[test]
fn caps_and_scopes_stay_within_what_contains_them() {
    let budget = |line: &str| good().replace("delta = 1e-6", &format!("delta = 1e-6\n{line}"));
    let above = "policy-above-budget";
    assert_refused(&budget("max_epsilon_per_query = 4.5"), above, &["is 4.5", "use at most 4"]);
    assert_refused(&budget("delta_per_query = 1e-5"), above, &["use at most 1e-6"]);
    assert!(load(&budget("max_epsilon_per_query = 4")).is_ok());
    let scope = |lines: &str| format!("{}\n{lines}", good());
    assert!(load(&scope("[scopes.\"研究\"]\nepsilon = 2\n[scopes.\"研究/alice\"]\nepsilon = 1")).is_ok());
    assert_refused(&scope("[scopes.a]\nepsilon = 5"), above, &["scopes.a", "is 5, above the budget of 4"]);
    assert_refused(&scope("[scopes.a]\nepsilon = 2\n[scopes.\"a/b\"]\nepsilon = 3"), above, &["is 3"]);
    assert_refused(&scope("[scopes.\"a/b\"]\nepsilon = 1"), "policy-scope-without-parent", &["`a`"]);
    for name in ["a//b", "/a", "a b", "a/../b", ""] {
        assert_refused(&scope(&format!("[scopes.\"{name}\"]\nepsilon = 1")), "policy-name", &["is not a name"]);
    }
    assert_refused(&good().replace("\"hospital\"", "\"a/b\""), "policy-name", &["`dataset`"]);
}

#[test]
fn sq_22_a_column_of_fractions_is_no_privacy_unit() {
    let unit = "policy-privacy-unit";
    assert_refused(
        &good().replace("patient = { type = \"integer\" }", "patient = { type = \"number\" }"),
        unit,
        &["tables.visits.privacy_unit", "integer or text"],
    );
    assert_refused(&good().replace("column = \"patient\"", "column = \"patiant\""), unit, &["did you mean `patient`?"]);
    let plain = good().replace("{ column = \"patient\" }", "\"patient\"");
    assert_refused(&plain, unit, &["write { column = \"patient\" }"]);
    let row = good().replace("{ column = \"patient\" }", "\"row\"");
    assert_refused(&row, "policy-no-meaning", &["max_groups_per_unit"]);
}

#[test]
fn se_11_odd_bounds_are_refused() {
    let odd = ["[nan, 1]", "[0, inf]", "[2, 1]", "[-1e308, 1e308]", "[3, 3]", "[0, 5e-324]", "[0, 1e300]"];
    for r#type in ["integer", "number"] {
        for bounds in odd {
            if r#type == "number" && bounds == "[0, 1e300]" {
                continue; // 2^20 steps like any other range of numbers
            }
            let text = with_column(&format!("age = {{ type = \"{type}\", bounds = {bounds} }}"));
            if r#type == "integer" && bounds == "[0, 5e-324]" {
                assert!(load(&text).is_ok(), "rounds outwards to [0, 1]");
                continue;
            }
            assert_refused(&text, "policy-bounds", &["age.bounds", "lower < upper", "line 13"]);
        }
    }
    let text = with_column(r#"age = { type = "number", bounds = [0, 1], step = 0 }"#);
    assert_refused(&text, "policy-number", &["age.step"]);
    assert!(load(&with_column(r#"age = { type = "number", bounds = [0, 1], step = 1e-17 }"#)).is_err());
}

#[test]
fn sq_25_bounds_from_the_data_are_refused() {
    for bounds in ["\"auto\"", "[\"min\", \"max\"]", "true", "{ from = \"data\" }"] {
        let text = with_column(&format!("age = {{ type = \"integer\", bounds = {bounds} }}"));
        assert_refused(&text, "policy-bounds-from-data", &["must not be looked at", "such as [0, 120]", "line 13"]);
    }
}

#[test]
fn settings_stand_only_where_they_mean_something() {
    for (column, code) in [
        (r#"x = { type = "text", bounds = [0, 1] }"#, "policy-no-meaning"),
        (r#"x = { type = "text", step = 1.0 }"#, "policy-no-meaning"),
        (r#"x = { type = "text", thousands = "," }"#, "policy-no-meaning"),
        (r#"x = { type = "integer", format = "%Y" }"#, "policy-no-meaning"),
        (r#"x = { type = "number", decimal = ",", expression = "patient" }"#, "policy-no-meaning"),
        (r#"x = { type = "integer", expression = "patient", name_in_source = "y" }"#, "policy-no-meaning"),
        (r#"x = { type = "integer", expression = " " }"#, "policy-empty"),
        (r#"x = { type = "number", thousands = ".", typical = 3 }"#, "policy-character"),
        (r#"x = { type = "number", decimal = "1" }"#, "policy-character"),
        (r#"x = { type = "date", format = "%H:%M" }"#, "policy-format"),
        (r#"x = { type = "date", format = "%Q" }"#, "policy-format"),
        (r#"x = { type = "timestamp", format = "%d/%m/%Y" }"#, "policy-format"),
    ] {
        assert_refused(&with_column(column), code, &["visits.columns.x"]);
    }
    let fine = r#"x = { type = "timestamp", format = "%d/%m/%Y %I:%M %p" }"#;
    assert!(load(&with_column(fine)).is_ok());
    let parquet = with_column(r#"x = { type = "date", format = "%Y" }"#).replace(".csv", ".parquet");
    assert_refused(&parquet, "policy-no-meaning", &["a Parquet file"]);
}

#[test]
fn keys_fit_their_column() {
    assert_refused(&with_column(r#"x = { type = "text", keys = [] }"#), "policy-empty", &["x.keys"]);
    for (column, part) in [
        (r#"{ type = "text", keys = ["a", "a"] }"#, "`a` twice"),
        (r#"{ type = "text", keys = [1] }"#, "in quotes"),
        (r#"{ type = "integer", keys = ["1"] }"#, "not an integer"),
        (r#"{ type = "number", keys = [1, 1.0] }"#, "twice"),
        (r#"{ type = "number", keys = [nan] }"#, "not a number"),
        (r#"{ type = "date", keys = ["2026-02-30"] }"#, "not a date"),
        (r#"{ type = "date", keys = ["2026-2-3"] }"#, "not a date"),
        (r#"{ type = "timestamp", keys = ["2026-02-03"] }"#, "not a timestamp"),
        (r#"{ type = "integer", keys = { from = 2, to = 1 } }"#, "from <= to"),
        (r#"{ type = "integer", keys = { from = 1, to = 1000001 } }"#, "1,000,000"),
        (r#"{ type = "integer", keys = { from = -9223372036854775808, to = 9223372036854775807 } }"#, "1,000,000"),
        (r#"{ type = "integer", keys = { from = 0, to = 9999999, step = 5 } }"#, "2,000,000 keys, more than 1,000,000"),
        (r#"{ type = "text", keys = { from = 1, to = 2 } }"#, "not a text"),
        (r#"{ type = "text", keys = ["a", "b", "a", "a", "b"] }"#, "`a` twice, and 2 more"),
        (r#"{ type = "date", keys = { from = "2026-02-30", to = "2026-12-31" } }"#, "no day"),
        (r#"{ type = "date", keys = { from = "2026-12-31", to = "2026-01-01" } }"#, "backwards"),
        (r#"{ type = "date", keys = { from = "0001-01-01", to = "2026-01-01" } }"#, "1678 to 2261"),
        (r#"{ type = "integer", keys = { from = "2026-01-01", to = "2026-12-31" } }"#, "not an integer"),
        (r#"{ type = "text", keys = { table = "wrads", column = "ward" } }"#, "did you mean `wards`"),
        (r#"{ type = "text", keys = { table = "wards", column = "wart" } }"#, "did you mean `ward`"),
        (r#"{ type = "integer", keys = { table = "wards", column = "ward" } }"#, "a text, while `x` is an integer"),
        (r#"{ type = "text", keys = { table = "wards", column = "long" } }"#, "an expression"),
    ] {
        assert_refused(&with_wards(&with_column(&format!("x = {column}"))), "policy-keys", &[part]);
    }
    let months = with_column(
        r#"x = { type = "timestamp", keys = { from = "2026-01-01", to = "2026-12-31", every = "month" } }"#,
    );
    assert_refused(&months, "policy-no-meaning", &["a calendar of timestamps"]);
    for odd in ["every = \"fortnight\"", "step = 2", "every = 1"] {
        let keys = format!("{{ from = \"2026-01-01\", to = \"2026-12-31\", {odd} }}");
        let text = with_column(&format!("x = {{ type = \"date\", keys = {keys} }}"));
        assert_refused(&text, "policy-syntax", &["`keys` must be", "every = \"month\""]);
    }
    for odd in ["step = 0", "step = -1", "step = 1.5"] {
        let text = with_column(&format!("x = {{ type = \"integer\", keys = {{ from = 0, to = 9, {odd} }} }}"));
        assert_refused(&text, "policy-syntax", &["`keys` must be"]);
    }
    for column in [
        r#"{ type = "integer", keys = { from = 1, to = 1000000 } }"#,
        r#"{ type = "integer", keys = [9007199254740992, 9007199254740993] }"#,
        r#"{ type = "timestamp", keys = ["2026-02-03T12:00:00", "2026-02-03T12:00:00.500"] }"#,
        r#"{ type = "boolean", keys = [true, false] }"#,
        r#"{ type = "integer", keys = { from = -9223372036854775808, to = 9223372036854775807, step = 18446744073709551615 } }"#,
        r#"{ type = "timestamp", keys = { from = "2026-01-01", to = "2026-12-31" } }"#,
        r#"{ type = "text", keys = { table = "wards", column = "ward" } }"#,
    ] {
        load(&with_wards(&with_column(&format!("x = {column}")))).unwrap();
    }
}

fn with_wards(text: &str) -> String {
    format!(
        "{text}\n[public.wards]\nsource = \"wards.csv\"\n[public.wards.columns]\nward = {{ type = \"text\" }}\n\
         long = {{ type = \"text\", expression = \"ward || ward\" }}"
    )
}

/// Whatever is written, keys never come from the rows of people: not by name, not through a public table's own keys.
#[test]
fn sq_25_keys_from_a_table_of_people_are_refused() {
    for column in ["patient", "x", "y", "ward"] {
        let text = format!(r#"x = {{ type = "text", keys = {{ table = "visits", column = "{column}" }} }}"#);
        assert_refused(
            &with_wards(&with_column(&text)),
            "policy-keys",
            &["a table of people", "visits.columns.x.keys"],
        );
    }
    let code = r#"code = { type = "text", keys = { table = "visits", column = "patient" } }"#;
    let text = format!("{}\n{code}", with_wards(&good()));
    assert_refused(&text, "policy-keys", &["a table of people", "public.wards.columns.code.keys"]);
}

/// Counted by hand on a calendar: 2024 is a leap year, its first day a Monday; 2026 begins on a Thursday.
#[test]
fn ranges_and_calendars_have_the_keys_of_a_calendar_on_the_wall() {
    let keys = |text: &str, r#type: ColumnType| -> Vec<String> {
        let column: ColumnPolicy = toml::from_str(&format!("type = \"{}\"\nkeys = {text}", r#type.name())).unwrap();
        column.keys.unwrap().keys(r#type).iter().map(ToString::to_string).collect()
    };
    let calendar = |from: &str, to: &str, every: &str| {
        keys(&format!("{{ from = \"{from}\", to = \"{to}\", every = \"{every}\" }}"), ColumnType::Date)
    };
    assert_eq!(keys("{ from = -4, to = 7, step = 5 }", ColumnType::Integer), ["-4", "1", "6"]);
    assert_eq!(keys("{ from = 5, to = 5, step = 5 }", ColumnType::Integer), ["5"]);
    let ends = format!("{{ from = {}, to = {}, step = 6000000000000000000 }}", i64::MIN, i64::MAX);
    let thirds = ["-9223372036854775808", "-3223372036854775808", "2776627963145224192", "8776627963145224192"];
    assert_eq!(keys(&ends, ColumnType::Integer), thirds);
    assert_eq!(calendar("2024-02-28", "2024-03-01", "day"), ["2024-02-28", "2024-02-29", "2024-03-01"]);
    assert_eq!(calendar("2024-01-01", "2024-12-31", "day").len(), 366);
    assert_eq!(calendar("2026-01-01", "2026-01-12", "week"), ["2025-12-29", "2026-01-05", "2026-01-12"]);
    assert_eq!(calendar("2025-12-31", "2026-02-01", "month"), ["2025-12-01", "2026-01-01", "2026-02-01"]);
    assert_eq!(calendar("2026-03-31", "2026-07-01", "quarter"), ["2026-01-01", "2026-04-01", "2026-07-01"]);
    assert_eq!(calendar("2026-12-31", "2027-01-01", "year"), ["2026-01-01", "2027-01-01"]);
    assert_eq!(calendar("1678-01-01", "2261-12-31", "day").len(), 213_301);
    let moments = keys("{ from = \"2026-01-01\", to = \"2026-01-02\" }", ColumnType::Timestamp);
    assert_eq!(moments, ["2026-01-01T00:00:00", "2026-01-02T00:00:00"]);
}

#[test]
fn bounds_are_declared_or_found_and_not_both() {
    let text = with_column(r#"x = { type = "text", approx_bounds = true }"#);
    assert_refused(&text, "policy-no-meaning", &["approx_bounds"]);
    let text = with_column(r#"x = { type = "number", bounds = [0, 1], approx_bounds = true }"#);
    assert_refused(&text, "policy-no-meaning", &["excludes `bounds`"]);
    assert!(load(&with_column(r#"x = { type = "integer", approx_bounds = true }"#)).is_ok());
}

#[test]
fn sv_08_sources_are_local_files_of_known_kinds() {
    for source in
        ["http://169.254.169.254/x.csv", "file:///etc/passwd.csv", "/dev/zero", "a.xlsx", "csv", "a.csv.gz.gz"]
    {
        let text = good().replace("visits.csv", source);
        assert_refused(&text, "policy-source", &["tables.visits.source", "not a local"]);
    }
    for source in ["/data/a.CSV", "../a.tsv.zst", "a.b.csv.gz", "数据.parquet"] {
        load(&good().replace("visits.csv", source)).unwrap();
    }
}

#[test]
fn text_files_are_declared_in_known_words() {
    let csv = |line: &str| format!("{}\n[tables.visits.csv]\n{line}", good());
    assert_refused(&csv("encoding = \"utf-9\""), "policy-encoding", &["gb18030"]);
    assert_refused(&csv("encoding = \"iso-2022-kr\""), "policy-encoding", &["csv.encoding"]);
    for line in ["delimiter = \"，\"", "delimiter = \"\\n\"", "delimiter = '\"'", "quote = \"a\""] {
        assert_refused(&csv(line), "policy-character", &["tables.visits.csv"]);
    }
    assert_refused(&csv("delimiter = \";;\""), "policy-syntax", &["line"]);
    load(&csv("encoding = \"GBK\"\ndelimiter = \"|\"\nquote = \"'\"\nnull = [\"\", \"?\"]")).unwrap();
}

#[test]
fn the_fingerprint_depends_on_the_meaning_alone() {
    let policy = load(&good()).unwrap();
    assert_eq!(policy.fingerprint().len(), 64);
    let spaced = good().replace("epsilon = 4", "# more\nepsilon   = 4.0");
    assert_eq!(load(&spaced).unwrap().fingerprint(), policy.fingerprint());
    assert_eq!(Policy::from_toml(&good(), "/elsewhere").unwrap().fingerprint(), policy.fingerprint());
    for (from, to) in [
        ("= 4", "= 5"),
        ("[\"b\", \"a\"]", "[\"a\", \"b\"]"),
        ("visits.csv", "visit.csv"),
        ("_rows_per_group = 3", "_rows_per_group = 4"),
    ] {
        assert_ne!(load(&good().replace(from, to)).unwrap().fingerprint(), policy.fingerprint(), "{from}");
    }
}

#[test]
fn the_schema_in_the_documentation_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/policy.schema.json");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, json_schema()).unwrap();
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(stored, json_schema(), "run the tests with UPDATE_DOCS=1");
    assert!(stored.matches("\"additionalProperties\": false").count() >= 7, "unknown keys pass the schema");
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,200}", at in 0usize..400, line in "[a-z_]{1,9} = [\"0-9a-z{}\\[\\], =]{0,20}") {
        let _ = load(&text).map_err(|error| error.to_string());
        let mut damaged = good();
        damaged.insert_str(damaged.floor_char_boundary(at), &line);
        let _ = load(&damaged).map_err(|error| error.to_string());
    }
}

/// A policy with further tables.
fn with_tables(more: &str) -> String {
    format!(
        r#"{}
id = {{ type = "integer" }}
name = {{ type = "text" }}
weight = {{ type = "number" }}
{more}"#,
        good()
    )
}

fn owned(name: &str, unit: &str) -> String {
    format!(
        "[tables.{name}]\nsource = \"{name}.csv\"\nprivacy_unit = {unit}\nmax_groups_per_unit = 1\n\
         max_rows_per_group = 1\n[tables.{name}.columns]\nvisit = {{ type = \"integer\" }}\nlab = {{ type = \"integer\" }}\n\
         w = {{ type = \"number\" }}\nnext = {{ type = \"integer\", expression = \"visit + 1\" }}\n"
    )
}

#[test]
fn rows_are_owned_through_chains_of_keys() {
    let labs = owned("labs", "{ column = \"visit\", through = \"visits.id\" }");
    let notes = owned("notes", "{ column = \"lab\", through = \"labs.lab\" }");
    let policy = load(&with_tables(&format!("{labs}{notes}"))).unwrap();
    let root = policy.root("notes").unwrap();
    assert_eq!((root.table.as_str(), root.kind), ("visits", Some(ColumnType::Integer)));
    assert_eq!(root.unit, dither_core::PrivacyUnit::Column("patient".into()));
    assert!(policy.is_unit("visits", "patient") && !policy.is_unit("labs", "visit"));
    // Through the unit column itself the key is the unit.
    let labs = owned("labs", "{ column = \"visit\", through = \"visits.patient\" }");
    assert!(load(&with_tables(&labs)).unwrap().is_unit("labs", "visit"));
}

#[test]
fn sq_17_keys_that_lead_to_nobody_are_refused() {
    let refuse = |tables: &str, code: &str, parts: &[&str]| assert_refused(&with_tables(tables), code, parts);
    let one = |unit: &str| owned("labs", unit);
    let code = "policy-through";
    let at = "tables.labs.privacy_unit";
    refuse(&one(r#"{ column = "visit", through = "visit.id" }"#), code, &[at, "did you mean `visits.id`?"]);
    refuse(&one(r#"{ column = "visit", through = "id" }"#), code, &[at, "no column of another table"]);
    refuse(
        &one(r#"{ column = "visit", through = "visits.name" }"#),
        code,
        &[at, "a text, while `visit` is an integer"],
    );
    refuse(&one(r#"{ column = "next", through = "visits.id" }"#), code, &[at, "columns of a file"]);
    refuse(&one(r#"{ column = "visit", through = "labs.lab" }"#), code, &[at, "does not end"]);
    refuse(&one(r#"{ column = "w", through = "visits.weight" }"#), "policy-privacy-unit", &["fraction"]);
    refuse(&one(r#"{ column = "vsit", through = "visits.id" }"#), "policy-privacy-unit", &["did you mean `visit`?"]);
    refuse(&one(r#"{ column = "visit", trough = "visits.id" }"#), "policy-unknown-key", &["did you mean `through`?"]);
    let circle = format!(
        "{}{}",
        owned("labs", r#"{ column = "visit", through = "notes.lab" }"#),
        owned("notes", r#"{ column = "lab", through = "labs.visit" }"#)
    );
    refuse(&circle, code, &[at, "does not end"]);
    let rows = owned("rows", "\"row\"");
    refuse(
        &format!("{}{rows}", one(r#"{ column = "visit", through = "rows.lab" }"#)),
        code,
        &[at, "units of their own"],
    );
    let other = one(r#"{ column = "visit", through = "visits.id" }"#)
        .replace("max_rows", "neighbors = \"replace-unit\"\nmax_rows");
    refuse(&other, code, &[at, "another neighbour relation"]);
}

#[test]
fn public_tables_protect_nobody() {
    let public = |name: &str, more: &str| {
        with_tables(&format!("[public.{name}]\nsource = \"{name}.csv\"\n[public.{name}.columns]\ncode = {more}"))
    };
    let policy = load(&public("codes", r#"{ type = "text", unique = true }"#)).unwrap();
    assert!(policy.public["codes"].columns["code"].unique && policy.readable("codes").is_some());
    let code = "policy-no-meaning";
    assert_refused(
        &public("codes", r#"{ type = "number", unique = true }"#),
        code,
        &["public.codes.columns.code.unique"],
    );
    assert_refused(
        &public("codes", r#"{ type = "text", unique = true, expression = "'x'" }"#),
        code,
        &["an expression"],
    );
    assert_refused(&with_column(r#"x = { type = "text", unique = true }"#), code, &["a table of people"]);
    assert_refused(&public("visits", r#"{ type = "text" }"#), "policy-two-tables", &["public.visits"]);
    assert_refused(
        &public("codes", r#"{ type = "text", bounds = "auto" }"#),
        "policy-bounds-from-data",
        &["public.codes"],
    );
    assert_refused(
        &public("codes", r#"{ type = "text", uniqe = true }"#),
        "policy-unknown-key",
        &["did you mean `unique`?"],
    );
    let private = public("codes", r#"{ type = "text" }"#)
        .replace("[public.codes.columns]", "privacy_unit = \"row\"\n[public.codes.columns]");
    assert_refused(&private, "policy-unknown-key", &["privacy_unit"]);
}

/// What is written is what is read; a policy without the new settings is written as before, so that earlier answers
/// stay free.
#[test]
fn units_keep_their_form() {
    let write = |unit: &UnitPolicy| serde_json::to_string(unit).unwrap();
    assert_eq!(write(&UnitPolicy::Column { column: "patient".into() }), r#"{"column":"patient"}"#);
    assert_eq!(write(&UnitPolicy::ROW), r#""row""#);
    let through = UnitPolicy::Through { column: "visit".into(), through: "visits.id".into() };
    for unit in [UnitPolicy::Column { column: "patient".into() }, UnitPolicy::ROW, through] {
        assert_eq!(serde_json::from_str::<UnitPolicy>(&write(&unit)).unwrap(), unit);
    }
    let policy = serde_json::to_string(&load(&good()).unwrap()).unwrap();
    assert!(!policy.contains("unique") && !policy.contains("\"public\":{\"codes"), "{policy}");
}
