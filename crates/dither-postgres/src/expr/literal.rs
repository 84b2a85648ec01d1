//! Constants and names.

use datafusion::scalar::ScalarValue;
use dither_query::Refusal;
use dither_query::source::database::DAYS;

use super::{Family, Scope, Written, by_bytes, family, refusal};
use crate::fact::Fact;

const MICROS: i64 = 86_400_000_000;

/// A text as a constant, between quotes that nothing in it can end.
pub(crate) fn quoted(text: &str) -> Result<String, Refusal> {
    if text.contains('\0') {
        return Err(refusal("no text of PostgreSQL holds a zero"));
    }
    Ok(format!("'{}'", text.replace('\'', "''")))
}

/// A name, between quotes that nothing in it can end.
pub(crate) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Scope<'_> {
    /// A constant; the secret of the request is no constant but a parameter.
    pub(super) fn literal(&self, value: &ScalarValue) -> Result<Written, Refusal> {
        let kind = value.data_type();
        let of = family(&kind)?;
        let mut fact = Fact::of(&kind);
        let text = match value {
            value if value.is_null() => {
                return Ok(Written { sql: format!("NULL::{}", of.name()), kind, fact: Fact::NULL });
            }
            ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
                let sql = match text.strip_prefix(self.secret) {
                    Some(rest) => {
                        self.secret_used.set(true);
                        format!("($1::text || {})", quoted(rest)?)
                    }
                    None => format!("{}::text", quoted(text)?),
                };
                return Ok(Written { sql: by_bytes(&sql), kind, fact });
            }
            ScalarValue::Boolean(Some(value)) => value.to_string(),
            ScalarValue::Float64(Some(number)) => {
                fact = Fact::constant(*number);
                match number {
                    number if number.is_nan() => return Err(refusal("NaN is no number of a database")),
                    number if number.is_infinite() => format!("{}Infinity", if *number < 0.0 { "-" } else { "" }),
                    number => format!("{number:e}"),
                }
            }
            ScalarValue::Date32(Some(day)) => day_text(*day)?,
            ScalarValue::TimestampMicrosecond(Some(micros), None) => moment_text(*micros)?,
            ScalarValue::TimestampNanosecond(Some(nanos), None) if nanos % 1000 == 0 => moment_text(nanos / 1000)?,
            value if of == Family::Whole => {
                let text = value.to_string();
                fact = text.parse().map_or(fact, |number: i64| Fact {
                    reach: 64 - number.unsigned_abs().leading_zeros() as i32,
                    ..Fact::WHOLE
                });
                text
            }
            ScalarValue::Decimal128(Some(value), _, 0) => value.to_string(),
            _ => return Err(refusal(format!("a constant of the type {kind} is not known to PostgreSQL"))),
        };
        Ok(Written { sql: format!("('{text}'::{})", of.name()), kind, fact })
    }
}

/// A day of the calendar of a database.
fn day_text(day: i32) -> Result<String, Refusal> {
    if !(DAYS.0..=DAYS.1).contains(&day) {
        return Err(refusal("a date lies outside of the years 1 to 9999"));
    }
    ScalarValue::Date32(Some(day))
        .cast_to(&datafusion::arrow::datatypes::DataType::Utf8)
        .map(|text| text.to_string())
        .map_err(super::unplanned)
}

/// A moment of the calendar of a database, to the microsecond.
fn moment_text(micros: i64) -> Result<String, Refusal> {
    let day =
        i32::try_from(micros.div_euclid(MICROS)).map_err(|_| refusal("a time lies outside of the years 1 to 9999"))?;
    let rest = micros.rem_euclid(MICROS);
    let (seconds, micros) = (rest / 1_000_000, rest % 1_000_000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    Ok(format!("{} {hours:02}:{minutes:02}:{seconds:02}.{micros:06}", day_text(day)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sq_nothing_ends_a_quote() {
        assert_eq!(quoted("o'; DROP TABLE t; --\\").unwrap(), "'o''; DROP TABLE t; --\\'");
        assert!(quoted("a\0b").is_err());
        assert_eq!(identifier("a\"; --"), "\"a\"\"; --\"");
    }

    #[test]
    fn days_and_moments_are_those_of_the_calendar() {
        assert_eq!(day_text(0).unwrap(), "1970-01-01");
        assert_eq!(day_text(DAYS.0).unwrap(), "0001-01-01");
        assert_eq!(day_text(DAYS.1).unwrap(), "9999-12-31");
        assert!(day_text(DAYS.1 + 1).is_err());
        assert_eq!(moment_text(-1).unwrap(), "1969-12-31 23:59:59.999999");
    }
}
