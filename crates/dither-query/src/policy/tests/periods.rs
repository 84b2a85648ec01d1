//! Units that are cut to periods.

use dither_core::{PrivacyUnit, UnitPeriod};

use super::{assert_refused, load};
use crate::policy::UnitPolicy;

/// Two tables, with the units of each.
fn policy(visits: &str, meals: &str) -> String {
    let table = |name: &str, unit: &str| {
        format!(
            "[tables.{name}]\nsource = \"{name}.csv\"\nprivacy_unit = {unit}\nmax_groups_per_unit = 1\n\
             max_rows_per_group = 1\n[tables.{name}.columns]\nid = {{ type = \"integer\" }}\n\
             patient = {{ type = \"integer\" }}\nday = {{ type = \"date\" }}\nat = {{ type = \"timestamp\" }}\n\
             next = {{ type = \"date\", expression = \"day\" }}\n\
             same = {{ type = \"integer\", expression = \"patient\" }}\n"
        )
    };
    let budget = "dataset = \"d\"\n[budget]\nepsilon = 1\n";
    format!("{budget}{}{}", table("visits", visits), table("meals", meals))
}

const WEEK: &str = r#"{ column = "patient", per = "week", time = "at" }"#;

#[test]
fn a_unit_may_be_what_one_person_has_within_a_period() {
    let loaded = load(&policy(WEEK, r#"{ column = "id", through = "visits.id" }"#)).unwrap();
    let unit = PrivacyUnit::Period { column: "patient".into(), per: UnitPeriod::Week };
    for table in ["visits", "meals"] {
        let root = loaded.root(table).unwrap();
        assert_eq!((&root.unit, root.period(), root.table.as_str()), (&unit, Some(UnitPeriod::Week), "visits"));
    }
    let written = serde_json::to_string(&loaded.tables["visits"].privacy_unit).unwrap();
    assert_eq!(written, r#"{"column":"patient","per":"week","time":"at"}"#);
    assert_eq!(serde_json::from_str::<UnitPolicy>(&written).unwrap(), loaded.tables["visits"].privacy_unit);
    for per in ["day", "month"] {
        let day = WEEK.replace("week", per).replace("\"at\"", "\"day\"");
        assert!(load(&policy(&day, &day.replace("\"day\" }", "\"at\" }"))).is_ok(), "{day}");
    }
}

#[test]
fn sq_17_a_period_without_a_time_or_of_others_is_refused() {
    let refuse = |unit: &str, code: &str, part: &str| assert_refused(&policy(unit, "\"row\""), code, &[part]);
    let week = |rest: &str| format!(r#"{{ column = "patient", per = "week"{rest} }}"#);
    let at = "policy-unit-period";
    refuse(&week(""), "policy-syntax", "`per` needs `time`");
    refuse(r#"{ column = "patient", time = "at" }"#, "policy-syntax", "`time` needs `per`");
    refuse(r#"{ column = "id", through = "meals.id", per = "week", time = "at" }"#, "policy-syntax", "leave `per` out");
    refuse(r#"{ column = "patient", per = "quarter", time = "at" }"#, "policy-syntax", "quarter");
    refuse(&week(r#", time = "dayy""#), at, "did you mean `day`?");
    refuse(&week(r#", time = "id""#), at, "neither a date nor a timestamp");
    refuse(&week(r#", time = "next""#), at, "no column of the file");
    refuse(r#"{ column = "same", per = "week", time = "at" }"#, "policy-no-meaning", "a computed column");
    // The same people as a whole in one table, within a week or a month in the other.
    for other in [r#"{ column = "patient" }"#, r#"{ column = "patient", per = "month", time = "at" }"#] {
        assert_refused(&policy(WEEK, other), at, &["tables.meals.privacy_unit", "as `visits`", "the same `per`"]);
    }
    // A row would be there once for every week of its owner.
    let through = r#"{ column = "patient", through = "visits.patient" }"#;
    assert_refused(&policy(WEEK, through), "policy-through", &["`per` and `time` of its own"]);
}
