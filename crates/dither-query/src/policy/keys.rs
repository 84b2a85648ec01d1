//! Sets of public keys: where they come from, what they are, and which of them make no sense.
//!
//! Whatever the form, a set is a list in one order that follows from public facts alone. Nothing here looks at a table of
//! people.

use std::collections::HashSet;
use std::num::NonZeroU64;

use chrono::{Datelike, Days, Months, NaiveDate, NaiveDateTime};
use dither_core::Key;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::load::{Refusal, nearest, path};
use super::{ColumnPolicy, ColumnType, Policy, Problem};

/// The most public keys of a column. No answer has more groups.
pub(crate) const MAX_KEYS: usize = 1_000_000;

/// The days that moments in nanoseconds reach, which is what dates are cut to months and years with.
const FIRST_YEAR: i32 = 1678;
const LAST_YEAR: i32 = 2261;

/// The public values of a column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "`keys` must be a list such as [\"a\", \"b\"] with dates and times in quotes, { from = 1, to = 12 }, { from \
                 = 0, to = 100, step = 5 }, { from = \"2026-01-01\", to = \"2026-12-31\", every = \"month\" }, or { table = \
                 \"wards\", column = \"ward\" }"
)]
pub enum KeysPolicy {
    /// A list, in the order of the answer.
    List(#[schemars(with = "Vec<serde_json::Value>")] Vec<Key>),
    /// Whole numbers from the first up to the last, which is one of them if a step leads there.
    Range {
        /// The first.
        from: i64,
        /// The last.
        to: i64,
        /// How far each is from the one before; 1 by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<NonZeroU64>,
    },
    /// The days of a calendar, or the first days of its weeks, months, quarters or years.
    Calendar {
        /// The first day, as in `2026-01-01`.
        from: String,
        /// The last day, which is in the last period.
        to: String,
        /// How long a period is; a day by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        every: Option<Period>,
    },
    /// The values of a column of a public table, in the order of its rows.
    Column {
        /// The public table.
        table: String,
        /// Its column.
        column: String,
    },
}

/// How long the periods of a calendar are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Period {
    /// Each day.
    Day,
    /// Weeks from Monday on.
    Week,
    /// Calendar months.
    Month,
    /// Three months from January, April, July or October on.
    Quarter,
    /// Calendar years.
    Year,
}

impl Period {
    /// The first day of the period that a day is in.
    fn start(self, day: NaiveDate) -> Option<NaiveDate> {
        match self {
            Self::Day => Some(day),
            Self::Week => day.checked_sub_days(Days::new(day.weekday().num_days_from_monday().into())),
            Self::Month => day.with_day(1),
            Self::Quarter => day.with_day(1)?.with_month(day.month0() / 3 * 3 + 1),
            Self::Year => NaiveDate::from_ymd_opt(day.year(), 1, 1),
        }
    }

    /// Whether the first days of these periods tell all values that days have when they are cut to a unit, or of a part of them.
    pub(crate) fn tells(self, unit: &str) -> bool {
        match self {
            Self::Day => true,
            Self::Week => unit == "week",
            Self::Month => ["month", "quarter", "year"].contains(&unit),
            Self::Quarter => ["quarter", "year"].contains(&unit),
            Self::Year => unit == "year",
        }
    }

    /// The first day of the period behind the one that begins on a day.
    fn next(self, start: NaiveDate) -> Option<NaiveDate> {
        match self {
            Self::Day => start.succ_opt(),
            Self::Week => start.checked_add_days(Days::new(7)),
            Self::Month => start.checked_add_months(Months::new(1)),
            Self::Quarter => start.checked_add_months(Months::new(3)),
            Self::Year => start.checked_add_months(Months::new(12)),
        }
    }
}

impl KeysPolicy {
    /// The keys of a column of a type, in order. None of a set that makes no sense, which no checked policy has, and of one
    /// that stands in a public table, which must be read first.
    ///
    /// ```
    /// use dither_query::policy::{ColumnType, KeysPolicy, Period};
    /// let (from, to) = ("2026-02-10".to_owned(), "2026-04-01".to_owned());
    /// let months = KeysPolicy::Calendar { from, to, every: Some(Period::Month) };
    /// let keys: Vec<String> = months.keys(ColumnType::Date).iter().map(ToString::to_string).collect();
    /// assert_eq!(keys, ["2026-02-01", "2026-03-01", "2026-04-01"]);
    /// ```
    pub fn keys(&self, r#type: ColumnType) -> Vec<Key> {
        match self {
            Self::List(keys) => keys.clone(),
            Self::Range { from, to, step } => {
                let step = step.map_or(1, NonZeroU64::get);
                let next = |last: &i64| last.checked_add_unsigned(step).filter(|next| next <= to);
                std::iter::successors((from <= to).then_some(*from), next).map(Key::Integer).collect()
            }
            Self::Calendar { from, to, every } => {
                let every = every.unwrap_or(Period::Day);
                let (Some(from), Some(to)) = (day(from), day(to)) else { return Vec::new() };
                let first = every.start(from).filter(|_| from <= to);
                let starts = std::iter::successors(first, |start| every.next(*start).filter(|next| *next <= to));
                starts.map(|start| Key::Text(moment(start, r#type))).collect()
            }
            Self::Column { .. } => Vec::new(),
        }
    }

    /// What is wrong with the keys for a column of a type.
    pub(super) fn check(&self, r#type: ColumnType) -> Result<(), Problem> {
        match self {
            Self::List(keys) => check_list(keys, r#type),
            Self::Range { from, .. } if r#type != ColumnType::Integer => {
                Err(Problem::KeyType { key: Key::Integer(*from), r#type })
            }
            Self::Range { from, to, step } => {
                let steps = (i128::from(*to) - i128::from(*from)) / i128::from(step.map_or(1, NonZeroU64::get));
                let why = match steps + 1 {
                    _ if from > to => "which is backwards".to_owned(),
                    count if count > MAX_KEYS as i128 => too_many(count),
                    _ => return Ok(()),
                };
                Err(Problem::KeyRange { from: from.to_string(), to: to.to_string(), why })
            }
            Self::Calendar { from, to, every } => check_calendar(from, to, *every, r#type),
            // Whether that column is one, the whole policy says.
            Self::Column { .. } => Ok(()),
        }
    }
}

fn too_many(count: i128) -> String {
    format!("which makes {} keys, more than {}", grouped(count), grouped(MAX_KEYS as i128))
}

/// A number with commas between its thousands.
pub(crate) fn grouped(number: i128) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn day(text: &str) -> Option<NaiveDate> {
    NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().filter(|day| day.to_string() == text)
}

/// A day as the key of a column of days or of moments.
fn moment(day: NaiveDate, r#type: ColumnType) -> String {
    match r#type {
        ColumnType::Timestamp => format!("{day}T00:00:00"),
        _ => day.to_string(),
    }
}

fn check_calendar(from: &str, to: &str, every: Option<Period>, r#type: ColumnType) -> Result<(), Problem> {
    if !matches!(r#type, ColumnType::Date | ColumnType::Timestamp) {
        return Err(Problem::KeyType { key: Key::Text(from.to_owned()), r#type });
    }
    if r#type == ColumnType::Timestamp && every.is_some_and(|every| every != Period::Day) {
        // Its values are moments, whatever a question makes of them; a column of first days is one of dates.
        return Err(Problem::NotFor { what: "a calendar of timestamps, other than by days".into() });
    }
    let range = |why: &str| Problem::KeyRange { from: from.to_owned(), to: to.to_owned(), why: why.to_owned() };
    let (Some(first), Some(last)) = (day(from), day(to)) else {
        return Err(range("of which one is no day such as `2026-11-30`"));
    };
    if first > last {
        return Err(range("which is backwards"));
    }
    if first.year() < FIRST_YEAR || last.year() > LAST_YEAR {
        return Err(range(&format!("outside of the years {FIRST_YEAR} to {LAST_YEAR}")));
    }
    Ok(())
}

fn check_list(keys: &[Key], r#type: ColumnType) -> Result<(), Problem> {
    if keys.is_empty() {
        return Err(Problem::Empty);
    }
    if keys.len() > MAX_KEYS {
        return Err(Problem::KeyCount { count: keys.len() });
    }
    let mut seen = HashSet::with_capacity(keys.len());
    let mut repeated: Option<&Key> = None;
    let mut more = 0;
    for key in keys {
        if !fits(key, r#type) {
            return Err(Problem::KeyType { key: key.clone(), r#type });
        }
        if !seen.insert(identity(key)) {
            more += usize::from(repeated.is_some());
            repeated = repeated.or(Some(key));
        }
    }
    match repeated {
        Some(key) => Err(Problem::KeyTwice { key: key.clone(), more }),
        None => Ok(()),
    }
}

/// Whether a key can be a value of a column. Dates and times must be in the form that answers show.
pub(crate) fn fits(key: &Key, r#type: ColumnType) -> bool {
    match (key, r#type) {
        (Key::Integer(_), ColumnType::Integer | ColumnType::Number) => true,
        (Key::Number(value), ColumnType::Number) => value.is_finite(),
        (Key::Boolean(_), ColumnType::Boolean) | (Key::Text(_), ColumnType::Text) => true,
        (Key::Text(text), ColumnType::Date) => day(text).is_some(),
        (Key::Text(text), ColumnType::Timestamp) => NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f")
            .is_ok_and(|time| time.format("%Y-%m-%dT%H:%M:%S%.f").to_string() == *text),
        _ => false,
    }
}

/// Equal for equal keys; 1 and 1.0 are one key.
pub(crate) fn identity(key: &Key) -> String {
    match key {
        // Beyond 2^53 floats skip integers, so the digits themselves are compared.
        Key::Integer(value) if value.unsigned_abs() <= 1 << 53 => format!("n{:?}", *value as f64),
        Key::Number(value) => format!("n{:?}", value + 0.0),
        Key::Text(value) => format!("t{value}"),
        other => other.to_string(),
    }
}

/// Keys that stand in a column stand in one of a public table, of the same type and from its file.
///
/// # Privacy
/// A column of people's rows is refused here: its values would be read off the rows.
pub(super) fn check_columns(policy: &Policy, kind: &str, name: &str) -> Result<(), Refusal> {
    let public = &policy.public;
    let columns = match kind {
        "public" => public.get(name).map(|table| &table.columns),
        _ => policy.tables.get(name).map(|table| &table.columns),
    };
    for (own, column) in columns.into_iter().flatten() {
        let Some(KeysPolicy::Column { table, column: from }) = &column.keys else { continue };
        let refused = |why: String| {
            let problem = Problem::KeyColumn { table: table.clone(), column: from.clone(), why };
            Err((path(&[kind, name, "columns", own, "keys"]), problem))
        };
        if policy.tables.contains_key(table) {
            return refused("a table of people, whose values are not public".into());
        }
        let Some(source) = public.get(table) else {
            let near = nearest(table, public.keys()).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            return refused(format!("which is no public table{near}"));
        };
        let Some(source) = source.columns.get(from) else {
            let near = nearest(from, source.columns.keys());
            let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            return refused(format!("which has no such column{near}"));
        };
        let ColumnPolicy { r#type, expression, .. } = source;
        if expression.is_some() {
            return refused("where the column is an expression and not one of the file".into());
        }
        if *r#type != column.r#type {
            return refused(format!(
                "where it is {}, while `{own}` is {}",
                super::problem::article(*r#type),
                super::problem::article(column.r#type)
            ));
        }
    }
    Ok(())
}
