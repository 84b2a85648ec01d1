//! One cell of text to one value of a declared type, totally: what does not read is NULL.

use std::sync::Arc;

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime};
use datafusion::arrow::array::{
    ArrayRef, BooleanBuilder, Date32Builder, Float64Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
};

use crate::policy::{ColumnPolicy, ColumnType};

/// The days from year 1 to 1970, where Arrow counts from.
const EPOCH: i32 = 719_163;
/// Above this, floats skip integers.
const EXACT: f64 = (1u64 << 53) as f64;

/// Reads the cells of one column into an array.
pub(super) struct Reader {
    values: Values,
    numerals: Numerals,
    format: Option<String>,
    null: Arc<[String]>,
    trim: bool,
}

enum Values {
    Integer(Int64Builder),
    Number(Float64Builder),
    Text(StringBuilder),
    Boolean(BooleanBuilder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
}

impl Reader {
    /// A reader for a declared column.
    pub(super) fn new(column: &ColumnPolicy, null: Arc<[String]>, trim: bool) -> Self {
        let values = match column.r#type {
            ColumnType::Integer => Values::Integer(Int64Builder::new()),
            ColumnType::Number => Values::Number(Float64Builder::new()),
            ColumnType::Text => Values::Text(StringBuilder::new()),
            ColumnType::Boolean => Values::Boolean(BooleanBuilder::new()),
            ColumnType::Date => Values::Date(Date32Builder::new()),
            ColumnType::Timestamp => Values::Timestamp(TimestampMicrosecondBuilder::new()),
        };
        let numerals = Numerals {
            thousands: column.thousands,
            decimal: column.decimal.unwrap_or('.'),
            plain: column.thousands.is_none() && column.decimal.is_none_or(|decimal| decimal == '.'),
            text: String::new(),
        };
        Self { values, numerals, format: column.format.clone(), null, trim }
    }

    /// Appends one cell; `None` where the row has none.
    pub(super) fn push(&mut self, cell: Option<&str>) {
        let raw = cell.unwrap_or_default();
        let trimmed = raw.trim();
        let cell = Some(trimmed).filter(|cell| !cell.is_empty() && !self.null.iter().any(|word| word.trim() == *cell));
        let format = self.format.as_deref();
        let numerals = &mut self.numerals;
        match &mut self.values {
            Values::Integer(values) => values.append_option(cell.and_then(|cell| numerals.integer(cell))),
            Values::Number(values) => values.append_option(cell.and_then(|cell| numerals.number(cell))),
            Values::Text(values) => values.append_option(cell.map(|cell| if self.trim { cell } else { raw })),
            Values::Boolean(values) => values.append_option(cell.and_then(boolean)),
            Values::Date(values) => {
                let days = |time: NaiveDateTime| chrono::Datelike::num_days_from_ce(&time.date()) - EPOCH;
                values.append_option(cell.and_then(|cell| read_moment(cell, format)).map(days));
            }
            Values::Timestamp(values) => {
                let micros = |time: NaiveDateTime| time.and_utc().timestamp_micros();
                values.append_option(cell.and_then(|cell| read_moment(cell, format)).map(micros));
            }
        }
    }

    /// The array of the cells so far; the next one starts empty.
    pub(super) fn finish(&mut self) -> ArrayRef {
        match &mut self.values {
            Values::Integer(values) => Arc::new(values.finish()),
            Values::Number(values) => Arc::new(values.finish()),
            Values::Text(values) => Arc::new(values.finish()),
            Values::Boolean(values) => Arc::new(values.finish()),
            Values::Date(values) => Arc::new(values.finish()),
            Values::Timestamp(values) => Arc::new(values.finish()),
        }
    }
}

/// How numbers are written.
struct Numerals {
    thousands: Option<char>,
    decimal: char,
    /// Whether they are written as in Rust.
    plain: bool,
    text: String,
}

impl Numerals {
    fn integer(&mut self, cell: &str) -> Option<i64> {
        let text = self.normalize(cell)?;
        if let Ok(value) = text.parse() {
            return Some(value);
        }
        let value: f64 = text.parse().ok()?;
        (value.fract() == 0.0 && value.abs() <= EXACT).then_some(value as i64)
    }

    fn number(&mut self, cell: &str) -> Option<f64> {
        let value: f64 = self.normalize(cell)?.parse().ok()?;
        // Adding zero makes -0 and 0 one value.
        (!value.is_nan()).then_some(value + 0.0)
    }

    /// The number in digits and a point; `None` if a separator stands where none can.
    fn normalize<'a>(&'a mut self, cell: &'a str) -> Option<&'a str> {
        if self.plain {
            return Some(cell);
        }
        self.text.clear();
        let (mut fraction, mut previous) = (false, ' ');
        for character in cell.chars() {
            let before = std::mem::replace(&mut previous, character);
            if Some(character) == self.thousands {
                if fraction || !before.is_ascii_digit() {
                    return None;
                }
            } else if character == self.decimal {
                fraction = true;
                self.text.push('.');
            } else if character == '.' {
                return None;
            } else {
                self.text.push(character);
            }
        }
        Some(&self.text)
    }
}

fn boolean(cell: &str) -> Option<bool> {
    let is = |words: [&str; 3]| words.iter().any(|word| cell.eq_ignore_ascii_case(word));
    match () {
        () if is(["true", "1", "yes"]) => Some(true),
        () if is(["false", "0", "no"]) => Some(false),
        () => None,
    }
}

fn read_moment(cell: &str, format: Option<&str>) -> Option<NaiveDateTime> {
    match format {
        Some(format) => moment(cell, format),
        None => iso(cell),
    }
}

/// A date or time in a format; a date is its midnight.
pub(crate) fn moment(cell: &str, format: &str) -> Option<NaiveDateTime> {
    let midnight = |date: NaiveDate| date.and_time(NaiveTime::MIN);
    NaiveDateTime::parse_from_str(cell, format)
        .ok()
        .or_else(|| NaiveDate::parse_from_str(cell, format).ok().map(midnight))
}

/// A date or time in ISO 8601; an offset moves it to UTC.
fn iso(cell: &str) -> Option<NaiveDateTime> {
    let zoned = |cell: &str| DateTime::parse_from_rfc3339(cell).ok().map(|time| time.naive_utc());
    moment(cell, "%Y-%m-%d")
        .or_else(|| moment(cell, "%Y-%m-%dT%H:%M:%S%.f"))
        .or_else(|| moment(cell, "%Y-%m-%d %H:%M:%S%.f"))
        .or_else(|| moment(cell, "%Y-%m-%dT%H:%M"))
        .or_else(|| moment(cell, "%Y-%m-%d %H:%M"))
        .or_else(|| zoned(cell))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Array, AsArray};
    use datafusion::arrow::datatypes::{Date32Type, Float64Type, Int64Type, TimestampMicrosecondType};
    use proptest::prelude::*;

    fn column(r#type: ColumnType) -> ColumnPolicy {
        serde_json::from_value(serde_json::json!({ "type": r#type })).unwrap()
    }

    fn read(column: &ColumnPolicy, cells: &[&str]) -> ArrayRef {
        let mut reader = Reader::new(column, Arc::from(["N/A".to_owned()]), true);
        cells.iter().for_each(|cell| reader.push(Some(cell)));
        reader.finish()
    }

    fn integers(column: &ColumnPolicy, cells: &[&str]) -> Vec<Option<i64>> {
        read(column, cells).as_primitive::<Int64Type>().iter().collect()
    }

    #[test]
    fn sq_10_cells_that_are_no_integers_are_null() {
        let whole = column(ColumnType::Integer);
        assert_eq!(
            integers(&whole, &["1", " -2 ", "+3", "4.0", "1e3", "9223372036854775807", "-9223372036854775808"]),
            [Some(1), Some(-2), Some(3), Some(4), Some(1000), Some(i64::MAX), Some(i64::MIN)]
        );
        let odd = ["", "N/A", "1.5", "9223372036854775808", "1e300", "inf", "NaN", "0x10", "1,000", "1 2", "５", "--1"];
        assert_eq!(integers(&whole, &odd), [None; 12]);
    }

    #[test]
    fn separators_are_read_as_declared_and_nowhere_else() {
        let english = ColumnPolicy { thousands: Some(','), ..column(ColumnType::Integer) };
        assert_eq!(
            integers(&english, &["39,512,223", "1,2", "-1,000", ",1", "1,,2"]),
            [Some(39_512_223), Some(12), Some(-1000), None, None]
        );
        let german = ColumnPolicy { thousands: Some('.'), decimal: Some(','), ..column(ColumnType::Number) };
        let numbers = read(&german, &["1.234,5", "0,25", "1,2,3", "1,234.5"]);
        assert_eq!(
            numbers.as_primitive::<Float64Type>().iter().collect::<Vec<_>>(),
            [Some(1234.5), Some(0.25), None, None]
        );
        let comma = ColumnPolicy { decimal: Some(','), ..column(ColumnType::Number) };
        assert_eq!(read(&comma, &["1.5"]).null_count(), 1);
    }

    #[test]
    fn sq_24_numbers_lose_nan_and_negative_zero_but_keep_infinity() {
        let numbers = read(&column(ColumnType::Number), &["NaN", "-nan", "inf", "-Infinity", "1e999", "-0", "x"]);
        let numbers: Vec<_> = numbers.as_primitive::<Float64Type>().iter().map(|x| x.map(f64::to_bits)).collect();
        let infinity = Some(f64::INFINITY.to_bits());
        let negative = Some(f64::NEG_INFINITY.to_bits());
        assert_eq!(numbers, [None, None, infinity, negative, infinity, Some(0), None]);
    }

    #[test]
    fn sq_10_dates_that_do_not_exist_are_null() {
        let cells = ["1970-01-02", "2026-11-30 12:00:00", "2026-02-30", "30/11/2026", "N/A"];
        let dates = read(&column(ColumnType::Date), &cells);
        let dates: Vec<_> = dates.as_primitive::<Date32Type>().iter().collect();
        assert_eq!(dates, [Some(1), Some(20_787), None, None, None]);
        let american = ColumnPolicy { format: Some("%m/%d/%Y".into()), ..column(ColumnType::Date) };
        assert_eq!(read(&american, &["01/02/1970", "13/01/1970"]).as_primitive::<Date32Type>().value(0), 1);
    }

    #[test]
    fn times_are_read_to_the_microsecond_and_moved_to_utc() {
        let cells = ["1970-01-01T00:00:01.5", "1970-01-01 00:01", "1970-01-02", "1970-01-01T01:00:00+01:00", "12:00"];
        let times = read(&column(ColumnType::Timestamp), &cells);
        let times: Vec<_> = times.as_primitive::<TimestampMicrosecondType>().iter().collect();
        assert_eq!(times, [Some(1_500_000), Some(60_000_000), Some(86_400_000_000), Some(0), None]);
    }

    #[test]
    fn sq_22_spaces_do_not_split_a_person() {
        let texts = read(&column(ColumnType::Text), &["bob", "bob ", "\u{3000}bob", "  ", "BOB"]);
        let texts: Vec<_> = texts.as_string::<i32>().iter().collect();
        assert_eq!(texts, [Some("bob"), Some("bob"), Some("bob"), None, Some("BOB")]);
        assert_eq!(integers(&column(ColumnType::Integer), &["1", "1.0", "01"]), [Some(1); 3]);
    }

    #[test]
    fn booleans_are_six_words() {
        let values = read(&column(ColumnType::Boolean), &["TRUE", "no", "1", "t", "2", ""]);
        let values: Vec<_> = values.as_boolean().iter().collect();
        assert_eq!(values, [Some(true), Some(false), Some(true), None, None, None]);
    }

    proptest! {
        #[test]
        fn sq_24_any_cell_gives_one_value_of_the_declared_type(
            cell in proptest::prop_oneof![".{0,40}", "[0-9.,:eE+T/ -]{0,40}"],
            format in proptest::option::of("[%a-zA-Z/: -]{0,12}"),
        ) {
            for r#type in [ColumnType::Integer, ColumnType::Number, ColumnType::Text, ColumnType::Boolean] {
                prop_assert_eq!(read(&column(r#type), &[&cell]).len(), 1);
            }
            for r#type in [ColumnType::Date, ColumnType::Timestamp] {
                let column = ColumnPolicy { format: format.clone(), ..column(r#type) };
                prop_assert_eq!(read(&column, &[&cell]).len(), 1);
            }
        }
    }
}
