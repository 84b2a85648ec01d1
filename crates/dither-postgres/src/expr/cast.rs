//! Casts that give NULL where they give nothing else.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::logical_expr::Expr;
use dither_query::Refusal;

use super::{Family, Scope, Written, by_bytes, family, refusal};
use crate::fact::Fact;

/// What nanoseconds since 1970 can count, to the microsecond.
const NANOSECONDS: (&str, &str) = ("1677-09-21 00:12:43.145225", "2262-04-11 23:47:16.854775");

/// The least and the greatest number of a type of integers, as far as 64 bits with a sign go.
fn range(kind: &DataType) -> (i64, i64) {
    match kind {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::UInt64 => (0, i64::MAX),
        _ => (i64::MIN, i64::MAX),
    }
}

impl Scope<'_> {
    pub(super) fn cast(&self, expr: &Expr, to: &DataType) -> Result<Written, Refusal> {
        let value = self.write(expr)?;
        let (sql, from) = (&value.sql, &value.kind);
        let kind = to.clone();
        let (before, after) = (family(from)?, family(to)?);
        let fact = Fact::of(to);
        let done = |sql: String| Ok(Written { sql, kind: kind.clone(), fact });
        match (before, after) {
            (Family::Moment, Family::Moment) if is_nanoseconds(to) && !is_nanoseconds(from) => {
                done(in_nanoseconds(sql))
            }
            (Family::Date, Family::Moment) if is_nanoseconds(to) => {
                done(in_nanoseconds(&format!("({sql})::timestamp")))
            }
            (Family::Date, Family::Moment) => done(format!("({sql}::timestamp)")),
            (Family::Moment, Family::Date) => done(format!("({sql}::date)")),
            (Family::Whole, Family::Whole) => {
                let ((low, high), (least, most)) = (range(to), range(from));
                let sql = match low <= least && most <= high {
                    true => sql.clone(),
                    false => format!("(CASE WHEN {sql} BETWEEN '{low}'::bigint AND '{high}'::bigint THEN {sql} END)"),
                };
                Ok(Written { sql, kind, fact: value.fact })
            }
            (a, b) if a == b => Ok(Written { kind, ..value }),
            (Family::Boolean, Family::Whole) => done(format!("({sql}::int::bigint)")),
            (Family::Whole, Family::Float) | (Family::Decimal, Family::Float) => {
                Ok(Written { sql: format!("({sql}::float8)"), kind, fact: value.fact.as_float() })
            }
            (Family::Whole, Family::Decimal) => {
                Ok(Written { sql: format!("({sql}::numeric)"), kind, fact: value.fact })
            }
            (Family::Decimal, Family::Whole) => {
                let (low, high) = range(to);
                done(format!("(CASE WHEN {sql} BETWEEN '{low}'::numeric AND '{high}'::numeric THEN {sql}::bigint END)"))
            }
            (Family::Float, Family::Whole) => {
                Ok(Written { sql: whole_part(&value, to), kind, fact: fact.within_of(value.fact) })
            }
            (Family::Text, Family::Whole) => done(read_whole(sql, to)),
            (Family::Whole | Family::Boolean, Family::Text) => done(by_bytes(&format!("{sql}::text"))),
            (Family::Date, Family::Text) => done(by_bytes(&format!("to_char({sql}, 'YYYY-MM-DD')"))),
            (Family::Moment, Family::Text) => done(by_bytes(&moment_text(sql))),
            (Family::Float, Family::Text) => {
                Err(refusal("PostgreSQL writes a number with a fraction in another way, so it is no text there")
                    .hint("cast it to BIGINT first, or count different values in steps: FLOOR(x / step)"))
            }
            (Family::Text, _) => Err(refusal(format!("PostgreSQL reads a text as {to} in another way"))
                .hint("declare the column with its type in the policy, or cast it in a view")),
            _ => Err(refusal(format!("a cast from {from} to {to} is not known to PostgreSQL"))),
        }
    }
}

impl Fact {
    /// What is known of whole numbers that are cut from others.
    fn within_of(self, other: Self) -> Self {
        Self { reach: self.reach.min(other.reach), ..self }
    }
}

/// The whole part of a float towards zero, where it fits.
fn whole_part(value: &Written, to: &DataType) -> String {
    let sql = &value.sql;
    let cut = format!("trunc({sql})::bigint");
    let (low, high) = range(to);
    let bits = if low == 0 { 0 } else { 64 - high.leading_zeros() as i32 };
    if value.fact.reach < bits {
        return format!("({cut})");
    }
    // The numbers next to the range that are not cut to a number in it; each is a float without a rounding.
    let (least, below) = match low {
        i64::MIN => (">=", low as f64),
        _ => (">", low as f64 - 1.0),
    };
    let above = if high == i64::MAX { high as f64 } else { high as f64 + 1.0 };
    format!("(CASE WHEN {sql} {least} '{below:e}'::float8 AND {sql} < '{above:e}'::float8 THEN {cut} END)")
}

/// A whole number in digits, with a sign and blanks around it; NULL for every other text.
fn read_whole(sql: &str, to: &DataType) -> String {
    let blanks = r"E' \t\n\f\r'";
    let number = format!("btrim({sql}, {blanks})::numeric");
    let (low, high) = range(to);
    format!(
        "(CASE WHEN {sql} ~ '^[ \\t\\n\\f\\r]*[+-]?[0-9]+[ \\t\\n\\f\\r]*$' THEN \
         CASE WHEN {number} BETWEEN '{low}'::numeric AND '{high}'::numeric THEN {number}::bigint END END)"
    )
}

fn is_nanoseconds(kind: &DataType) -> bool {
    matches!(kind, DataType::Timestamp(TimeUnit::Nanosecond, _))
}

fn in_nanoseconds(sql: &str) -> String {
    let (first, last) = NANOSECONDS;
    format!("(CASE WHEN {sql} BETWEEN '{first}'::timestamp AND '{last}'::timestamp THEN {sql} END)")
}

/// A moment as the engine of this process writes it: no fraction, three digits, or six.
fn moment_text(sql: &str) -> String {
    format!(
        "(to_char({sql}, 'YYYY-MM-DD\"T\"HH24:MI:SS') || CASE to_char({sql}, 'US') WHEN '000000' THEN '' ELSE \
         CASE right(to_char({sql}, 'US'), 3) WHEN '000' THEN to_char({sql}, '.MS') ELSE to_char({sql}, '.US') END END)"
    )
}
