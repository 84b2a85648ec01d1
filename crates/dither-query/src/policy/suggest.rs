//! What a policy might declare, from what was released about a table. Nothing here sees a row.

use std::fmt::Write as _;

use chrono::{Duration, NaiveDate};
use dither_core::Key;

use super::init::{key, quoted};
use super::{ColumnPolicy, ColumnType};

/// Columns with more different values than this are not suggested to have a list of keys.
const MANY: f64 = 100.0;

/// What was released about a column.
#[derive(Debug, Clone, PartialEq)]
pub struct Released<'a> {
    /// Its name.
    pub name: &'a str,
    /// What the policy says of it so far.
    pub policy: &'a ColumnPolicy,
    /// The least and the greatest value, roughly; days since 1970 for dates and moments.
    pub ends: Option<[f64; 2]>,
    /// How many different values there may be at most.
    pub distinct: Option<f64>,
    /// Values that were released, the most frequent first.
    pub keys: Option<&'a [Key]>,
}

/// A part of a policy, as TOML: the columns of a table with bounds that suit what was released, and keys as comments.
///
/// What a policy declares already is kept as it is: a column with `approx_bounds` keeps it, with the bounds as a comment.
///
/// # Privacy
/// Post-processing of released values. Keys stay comments: which values may exist in public is for the steward to say.
pub fn fragment(table: &str, columns: &[Released<'_>]) -> String {
    let mut text = format!("[tables.{}.columns]\n", key(table));
    for column in columns {
        let policy = column.policy;
        if policy.expression.is_some() || policy.bounds.is_some() || policy.keys.is_some() {
            let _ = writeln!(text, "# {} is declared already", quoted(column.name));
            continue;
        }
        let bounds = column.ends.filter(|_| matches!(policy.r#type, ColumnType::Integer | ColumnType::Number));
        let bounds = bounds.map(around).map(|[low, high]| format!("bounds = [{low}, {high}]"));
        let declared = declared(policy);
        let added =
            bounds.as_ref().filter(|_| !policy.approx_bounds).map_or(String::new(), |bounds| format!(", {bounds}"));
        let r#type = policy.r#type.name();
        let _ = writeln!(text, "{} = {{ type = \"{type}\"{declared}{added} }}", key(column.name));
        if let (Some(bounds), true) = (bounds, policy.approx_bounds) {
            let _ = writeln!(text, "#   {bounds} instead of approx_bounds");
        }
        if let Some(keys) = keys(column) {
            let _ = writeln!(text, "#   keys = {keys}");
        }
    }
    text
}

/// What a policy says of a column beside its type, its bounds and its keys.
fn declared(policy: &ColumnPolicy) -> String {
    let text = |name: &str, value: Option<String>| value.map(|value| format!(", {name} = {}", quoted(&value)));
    let number = |name: &str, value: Option<f64>| value.map(|value| format!(", {name} = {value}"));
    let parts = [
        text("name_in_source", policy.name_in_source.clone()),
        policy.approx_bounds.then(|| ", approx_bounds = true".to_owned()),
        number("step", policy.step),
        number("typical", policy.typical),
        text("thousands", policy.thousands.map(String::from)),
        text("decimal", policy.decimal.map(String::from)),
        text("format", policy.format.clone()),
        policy.unique.then(|| ", unique = true".to_owned()),
    ];
    parts.into_iter().flatten().collect()
}

/// Keys to think about: a calendar for dates, the released values where there are few.
fn keys(column: &Released<'_>) -> Option<String> {
    match (column.policy.r#type, column.ends) {
        (ColumnType::Date | ColumnType::Timestamp, Some([first, last])) => {
            // Whole years: the ends lie some rows inside of the values.
            let (first, last) = (day(first)?, day(last)?);
            let [first, last] = [first, last].map(|day| day.split('-').next().unwrap_or_default().to_owned());
            Some(format!("{{ from = \"{first}-01-01\", to = \"{last}-12-31\" }}"))
        }
        (ColumnType::Boolean | ColumnType::Number, _) => None,
        _ => {
            let few = column.keys.filter(|keys| !keys.is_empty() && column.distinct.is_some_and(|count| count <= MANY));
            let written = |key: &Key| match key {
                Key::Text(text) => quoted(text),
                other => other.to_string(),
            };
            few.map(|keys| format!("[{}]", keys.iter().map(written).collect::<Vec<_>>().join(", ")))
        }
    }
}

/// The day so many days after the first of 1970, as `2026-11-30`; `None` outside of the calendar.
///
/// ```
/// assert_eq!(dither_query::policy::day(20_787.9).unwrap(), "2026-11-30");
/// ```
pub fn day(days: f64) -> Option<String> {
    let days = Duration::try_days(days.floor() as i64)?;
    NaiveDate::default().checked_add_signed(days).map(|day| day.to_string())
}

/// Bounds around two ends with one or two digits, from zero on where the lower one is near it.
fn around([low, high]: [f64; 2]) -> [f64; 2] {
    let coarse = |value: f64, round: fn(f64) -> f64| {
        let unit = 10_f64.powf(value.abs().log10().floor()) / 2.0;
        // Two digits at most: the product is near a short decimal, which the text of it is.
        if unit > 0.0 && unit.is_finite() { round(value / unit) * unit } else { 0.0 }
    };
    let low = if (0.0..high / 4.0).contains(&low) { 0.0 } else { coarse(low, f64::floor) };
    let high = if (low / 4.0..0.0).contains(&high) { 0.0 } else { coarse(high, f64::ceil) };
    if low < high { [low, high] } else { [low - 1.0, high.max(low) + 1.0] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_outside_of_the_ends_and_short() {
        for (ends, bounds) in [
            ([3.0, 97.3], [0.0, 100.0]),
            ([23.0, 61.0], [20.0, 65.0]),
            ([-17.0, 1234.0], [-20.0, 1500.0]),
            ([-40.0, -3.0], [-40.0, 0.0]),
            ([0.0, 0.0], [-1.0, 1.0]),
            ([5.0, 5.0], [4.0, 6.0]),
            ([0.0, 1e18], [0.0, 1e18]),
        ] {
            assert_eq!(around(ends), bounds, "{ends:?}");
        }
    }

    /// Whatever a column declares, the suggestion declares it again, and reads as a policy does.
    #[test]
    fn what_is_declared_is_kept() {
        let declared = ColumnPolicy {
            approx_bounds: true,
            name_in_source: Some("the \"wage\"".into()),
            thousands: Some('.'),
            decimal: Some(','),
            ..ColumnPolicy::plain(ColumnType::Number)
        };
        let bare = ColumnPolicy::plain(ColumnType::Number);
        let released = |name, policy| Released { name, policy, ends: Some([1.0, 90.0]), distinct: None, keys: None };
        let text = fragment("t", &[released("wage", &declared), released("age", &bare)]);
        let table: toml::Table = text.parse().unwrap();
        let columns = table["tables"]["t"]["columns"].clone();
        let read: std::collections::BTreeMap<String, ColumnPolicy> = columns.try_into().unwrap();
        assert_eq!(read["wage"], declared);
        assert_eq!(read["age"], ColumnPolicy { bounds: Some([0.0, 90.0]), ..bare });
        assert!(text.contains("#   bounds = [0, 90] instead of approx_bounds"), "{text}");
    }

    #[test]
    fn sv_07_no_key_or_name_leaves_its_text() {
        let policy = ColumnPolicy::plain(ColumnType::Text);
        let evil = Key::Text("x\"]\n[budget]\nepsilon = 1e6 #\u{1b}[2J\u{202e}".into());
        let name = "a\n\"b\" = 1 #";
        let released = Released {
            name,
            policy: &policy,
            ends: None,
            distinct: Some(1.0),
            keys: Some(std::slice::from_ref(&evil)),
        };
        let text = fragment("t]\n[budget]", &[released]);
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
        let table: toml::Table = text.parse().unwrap();
        assert!(table["tables"]["t]\n[budget]"]["columns"].get(name).is_some() && table.len() == 1);
    }
}
