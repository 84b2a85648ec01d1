//! What people see: a small table of group keys and estimates with intervals.
//!
//! An [`Answer`] holds released values only. Anything computed from it is post-processing and free.

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The value of a group key.
#[derive(Debug, Clone, PartialEq, PartialOrd, Serialize)]
#[serde(untagged)]
pub enum Key {
    /// No value.
    Null,
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Number(f64),
    /// A text, a date (`2026-11-30`) or a time (`2026-11-30T12:00:00`).
    Text(String),
}

/// Read by what stands there, not by trying one form after another: answers may have a hundred thousand keys.
impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a text, a number, true, false or null")
    }

    fn visit_unit<E>(self) -> Result<Key, E> {
        Ok(Key::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Key, E> {
        Ok(Key::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Key, E> {
        Ok(Key::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Key, E> {
        Ok(i64::try_from(value).map_or(Key::Number(value as f64), Key::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Key, E> {
        Ok(Key::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Key, E> {
        Ok(Key::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Key, E> {
        Ok(Key::Text(value))
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => f.pad("NULL"),
            Self::Boolean(value) => f.pad(&value.to_string()),
            Self::Integer(value) => f.pad(&value.to_string()),
            Self::Number(value) => f.pad(&value.to_string()),
            Self::Text(value) => f.pad(value),
        }
    }
}

/// A released number with the interval that covers the exact bounded answer 95 times in 100.
///
/// The interval follows from the noise alone: its width depends on public parameters and released values.
/// It is absent where no interval could be derived.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The released number; `None` where the question has no answer, as in a division by a noisy zero.
    #[serde(serialize_with = "short", deserialize_with = "number")]
    pub value: Option<f64>,
    /// The lower end of the interval.
    #[serde(serialize_with = "short", deserialize_with = "number")]
    pub low: Option<f64>,
    /// The upper end of the interval.
    #[serde(serialize_with = "short", deserialize_with = "number")]
    pub high: Option<f64>,
}

impl Estimate {
    /// A number and its interval.
    pub fn new(value: f64, low: f64, high: f64) -> Self {
        Self { value: Some(value), low: Some(low), high: Some(high) }
    }

    /// The three numbers, each transformed; for a decreasing function the ends change places.
    pub fn map(self, function: impl Fn(f64) -> f64) -> Self {
        let (value, a, b) = (self.value.map(&function), self.low.map(&function), self.high.map(&function));
        let (low, high) = if a > b { (b, a) } else { (a, b) };
        Self { value, low, high }
    }
}

/// The bounds that were found from the data for one column: the values of all groups count as the nearer of them where
/// they lie beyond. What that changes is in no interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Between {
    /// The column.
    pub column: String,
    /// The lower bound.
    pub lower: f64,
    /// The upper bound.
    pub upper: f64,
    /// How many rows lie beyond each of them, about: a public number, by which sums and means may be off beside their noise.
    pub rows_beyond: u64,
    /// The part of the values that lies beyond either of them, about: twice `rows_beyond` over the noisy number of values that was
    /// released with the answer. `None` where no answer has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_beyond: Option<f64>,
}

impl Between {
    /// From which part of the values on it has to be said aloud that they count as a bound.
    pub const MANY: f64 = 0.1;

    /// Whether so many values count as a bound that a mean is rather one of the bounds than of the values.
    pub fn is_narrow(&self) -> bool {
        self.share_beyond.is_some_and(|share| share >= Self::MANY)
    }
}

/// How far the rank of a value may be off that was chosen among public candidates, 95 times in 100: a public number, which
/// follows from ε and the number of candidates, whatever the rows are. How far the value is off depends on the rows around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankError {
    /// So many rows on either side, rounded up.
    pub rows: u64,
    /// For a least or a greatest value: how many rows from the end the rank lies that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_end: Option<u64>,
}

/// One column of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Its name, unique in the answer.
    pub name: String,
    /// What its cells are.
    pub role: Role,
}

/// What the cells of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Group keys: public, or let through by a threshold.
    Key,
    /// Estimates.
    Value,
}

/// One cell of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cell {
    /// A released number; an object in JSON.
    Value(Estimate),
    /// A group key; a plain value in JSON.
    Key(Key),
}

/// A released table: columns in the order of the question, rows in the order that the question asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows; each has one cell per column.
    pub rows: Vec<Vec<Cell>>,
}

/// Whole numbers are written without a fraction, as people write them.
fn short<S: Serializer>(number: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match *number {
        Some(value) if value.fract() == 0.0 && value.abs() < 9e15 => serializer.serialize_i64(value as i64),
        Some(value) if value.is_finite() => serializer.serialize_f64(value),
        _ => serializer.serialize_none(),
    }
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    Option::deserialize(deserializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_keep_the_documented_json_form() {
        let row = vec![Cell::Key(Key::Text("A".into())), Cell::Value(Estimate::new(12.0, 8.0, 16.5))];
        let json = serde_json::to_string(&row).unwrap();
        assert_eq!(json, r#"["A",{"value":12,"low":8,"high":16.5}]"#);
        assert_eq!(serde_json::from_str::<Vec<Cell>>(&json).unwrap(), row);
    }

    #[test]
    fn keys_are_read_as_they_are_written() {
        let keys = r#"[null,true,-7,0.5,18446744073709551615,"été",""]"#;
        let read: Vec<Key> = serde_json::from_str(keys).unwrap();
        let big = Key::Number(18_446_744_073_709_551_615.0);
        let text = |text: &str| Key::Text(text.into());
        let expected = [Key::Null, Key::Boolean(true), Key::Integer(-7), Key::Number(0.5), big, text("été"), text("")];
        assert_eq!(read, expected);
        assert!(serde_json::from_str::<Key>("[]").unwrap_err().to_string().contains("a text, a number"));
    }

    #[test]
    fn a_decreasing_map_turns_the_interval_round() {
        assert_eq!(Estimate::new(1.0, 0.0, 3.0).map(|x| -x), Estimate::new(-1.0, -3.0, 0.0));
    }
}
