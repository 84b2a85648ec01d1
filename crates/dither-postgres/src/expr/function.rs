//! The functions that are known to give the same in PostgreSQL.

use std::sync::LazyLock;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::scalar::ScalarValue;
use dither_query::Refusal;

use super::{Family, Scope, Written, compared, family, quoted, refusal, same_family};
use crate::fact::Fact;

/// Parts of a date that are whole numbers in both.
const PARTS: [&str; 11] =
    ["year", "quarter", "month", "week", "day", "hour", "minute", "dow", "isodow", "doy", "isoyear"];
/// Units that moments are cut to.
const UNITS: [&str; 10] =
    ["microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"];

/// Capitals, the small letters of each at the same places, and the capitals of which more than one letter is made.
type Letters = (String, String, Vec<(char, String)>);

impl Scope<'_> {
    pub(super) fn function(&self, function: &ScalarFunction, kind: DataType) -> Result<Written, Refusal> {
        let (name, args) = (function.func.name(), function.args.as_slice());
        let done = |sql: String| Ok(Written { sql, kind: kind.clone(), fact: Fact::of(&kind) });
        match (name, args) {
            ("replace", [Expr::ScalarFunction(inner), from, to]) if inner.func.name() == "lower" => {
                match [self.text(from)?.as_str(), &self.text(to)?] {
                    ["ς", "σ"] => done(self.lowered(&inner.args[0])?),
                    _ => Err(unknown(name)),
                }
            }
            ("isnan", [number]) => {
                let number = self.of(number, Family::Float)?.sql;
                done(format!("({number} IS NULL AND NULL::boolean)"))
            }
            ("abs", [number]) => {
                let number = self.of(number, Family::Float)?;
                Ok(Written { sql: format!("abs({})", number.sql), kind, fact: number.fact.absolute() })
            }
            ("floor" | "ceil" | "trunc", [number]) => {
                let number = self.of(number, Family::Float)?;
                let fact = number.fact.rounded(name == "floor");
                Ok(Written { sql: format!("{name}({})", number.sql), kind, fact })
            }
            ("round", [number]) => Ok(rounded(&self.of(number, Family::Float)?)),
            ("round", [number, digits]) => {
                let (number, digits) = (self.of(number, Family::Float)?, self.natural(digits)?);
                let factor =
                    u32::try_from(digits).ok().filter(|digits| *digits <= 15).map(|digits| 10_f64.powi(digits as i32));
                let factor = self.literal(&ScalarValue::from(factor.ok_or_else(|| refusal("more than 15 digits"))?))?;
                let sql = format!("({} * {})", number.sql, factor.sql);
                let scaled = rounded(&Written { sql, kind: kind.clone(), fact: number.fact.times(factor.fact)? });
                let fact = scaled.fact.over(factor.fact)?;
                Ok(Written { sql: format!("({} / {})", scaled.sql, factor.sql), kind, fact })
            }
            ("nullif", [value, other]) => {
                let (value, other) = (self.write(value)?, self.write(other)?);
                same_family(&value, &other)?;
                Ok(Written { sql: format!("NULLIF({}, {})", value.sql, other.sql), kind, fact: value.fact })
            }
            ("coalesce" | "greatest" | "least", [_, ..]) => self.several(name, args, kind),
            ("concat", [_, ..]) => {
                let parts = args.iter().map(|arg| Ok(format!("COALESCE({}, '')", self.of(arg, Family::Text)?.sql)));
                done(format!("({})", parts.collect::<Result<Vec<_>, Refusal>>()?.join(" || ")))
            }
            ("btrim" | "ltrim" | "rtrim", [text]) => done(format!("{name}({})", self.of(text, Family::Text)?.sql)),
            ("btrim" | "ltrim" | "rtrim", [text, letters]) => {
                let (text, letters) = (self.of(text, Family::Text)?, quoted(&self.text(letters)?)?);
                done(format!("{name}({}, {letters})", text.sql))
            }
            ("character_length", [text]) => {
                let sql = format!("(char_length({})::bigint)", self.of(text, Family::Text)?.sql);
                Ok(Written { sql, kind, fact: Fact::COUNT })
            }
            ("left", [text, count]) => {
                done(format!("left({}, {})", self.of(text, Family::Text)?.sql, self.natural(count)?))
            }
            ("substr", [text, from]) => {
                done(format!("substr({}, {})", self.of(text, Family::Text)?.sql, self.natural(from)?))
            }
            ("substr", [text, from, count]) => {
                let (from, count) = (self.natural(from)?, self.natural(count)?);
                done(format!("substr({}, {from}, {count})", self.of(text, Family::Text)?.sql))
            }
            ("starts_with", [text, start]) => {
                let (text, start) = (self.of(text, Family::Text)?, self.of(start, Family::Text)?);
                done(format!("starts_with({}, {})", text.sql, start.sql))
            }
            ("ends_with", [text, end]) => {
                let (text, end) = (self.of(text, Family::Text)?, self.of(end, Family::Text)?);
                let tail = Written { sql: format!("right({}, char_length({}))", text.sql, end.sql), ..text };
                compared(&tail, datafusion::logical_expr::Operator::Eq, &end)
            }
            ("date_part", [part, value]) if self.text(part)?.eq_ignore_ascii_case("epoch") => done(self.epoch(value)?),
            ("date_part", [part, value]) => {
                let part = known(&self.text(part)?, &PARTS)
                    .ok_or_else(|| refusal("this part of a date is not known to PostgreSQL"))?;
                done(format!("(floor(extract({part} FROM {}))::bigint)", self.moment(value)?))
            }
            ("date_trunc", [unit, value]) => {
                let unit = known(&self.text(unit)?, &UNITS)
                    .ok_or_else(|| refusal("PostgreSQL does not cut dates to this unit"))?;
                let cut = format!("date_trunc('{unit}', {})", self.moment(value)?);
                done(if kind == DataType::Date32 { format!("({cut}::date)") } else { cut })
            }
            ("sha256", [text]) => done(format!("sha256(convert_to({}, 'UTF8'))", self.of(text, Family::Text)?.sql)),
            ("lower" | "upper", _) => Err(refusal(format!("`{name}` depends on the language settings of PostgreSQL"))
                .hint("compare with all spellings: x IN ('a', 'A')")),
            _ => Err(unknown(name)),
        }
    }

    /// An argument of a family.
    fn of(&self, expr: &Expr, wanted: Family) -> Result<Written, Refusal> {
        let written = self.write(expr)?;
        match family(&written.kind)? == wanted {
            true => Ok(written),
            false => {
                Err(refusal(format!("a function is given {} where PostgreSQL needs {}", written.kind, wanted.name())))
            }
        }
    }

    /// A constant whole number from 0 on.
    fn natural(&self, expr: &Expr) -> Result<i64, Refusal> {
        let odd = || refusal("positions, lengths and digits must be constants from 0 on");
        if !super::is_constant(expr) {
            return Err(odd());
        }
        let value = self.value(expr)?.cast_to(&DataType::Int64).map_err(super::unplanned)?;
        match value {
            ScalarValue::Int64(Some(value)) if (0..=1 << 20).contains(&value) => Ok(value),
            _ => Err(odd()),
        }
    }

    /// A constant text.
    pub(super) fn text(&self, expr: &Expr) -> Result<String, Refusal> {
        let odd = || refusal("a pattern, a part of a date or a list of letters must be a constant text");
        if !super::is_constant(expr) {
            return Err(odd());
        }
        self.value(expr)?.try_as_str().flatten().map(str::to_owned).ok_or_else(odd)
    }

    /// A date or moment as a moment.
    fn moment(&self, expr: &Expr) -> Result<String, Refusal> {
        let value = self.write(expr)?;
        match family(&value.kind)? {
            Family::Date => Ok(format!("({}::timestamp)", value.sql)),
            Family::Moment => Ok(value.sql),
            _ => Err(refusal("a part of what is no date is not known to PostgreSQL")),
        }
    }

    /// Seconds since 1970, rounded as this process rounds them: of whole days, micro- or nanoseconds, as a float.
    fn epoch(&self, expr: &Expr) -> Result<String, Refusal> {
        let value = self.write(expr)?;
        let per_second = match value.kind {
            DataType::Date32 => return Ok(format!("(({} - DATE '1970-01-01')::float8 * 86400)", value.sql)),
            DataType::Timestamp(TimeUnit::Microsecond, None) => 1_000_000,
            DataType::Timestamp(TimeUnit::Nanosecond, None) => 1_000_000_000,
            _ => return Err(refusal("a part of what is no date is not known to PostgreSQL")),
        };
        Ok(format!("((extract(epoch FROM {}) * {per_second})::bigint::float8 / {per_second})", value.sql))
    }

    /// The first that is present, the greatest or the least: what is NULL is left out in both.
    fn several(&self, name: &str, args: &[Expr], kind: DataType) -> Result<Written, Refusal> {
        let wanted = family(&kind)?;
        let mut fact = Fact::NULL;
        let mut parts: Vec<Written> = Vec::new();
        for arg in args {
            let part = self.branch(arg, wanted)?;
            if name != "coalesce" && part.fact.minus_zero {
                same_family(&part, &part)?;
            }
            fact = fact.or(part.fact);
            parts.push(part);
        }
        let list: Vec<&str> = parts.iter().map(|part| part.sql.as_str()).collect();
        Ok(Written { sql: format!("{}({})", name.to_uppercase(), list.join(", ")), kind, fact })
    }

    /// Each letter as a small one, as the standard library of Rust has them, and both small sigmas as one. The tables of
    /// the server's own languages may be older or newer.
    fn lowered(&self, expr: &Expr) -> Result<String, Refusal> {
        static LETTERS: LazyLock<Letters> = LazyLock::new(|| {
            let (mut from, mut to, mut longer) = (String::from("ς"), String::from("σ"), Vec::new());
            for letter in '\u{1}'..=char::MAX {
                let small: String = letter.to_lowercase().collect();
                match (small.chars().next(), small.chars().count()) {
                    (Some(one), 1) if one != letter => {
                        from.push(letter);
                        to.push(one);
                    }
                    (_, 1) => {}
                    _ => longer.push((letter, small)),
                }
            }
            (from, to, longer)
        });
        let text = self.of(expr, Family::Text)?.sql;
        let (from, to, longer) = &*LETTERS;
        let mut all = text.clone();
        for (letter, small) in longer {
            all = format!("replace({all}, {}, {})", quoted(&letter.to_string())?, quoted(small)?);
        }
        let all = format!("translate({all}, {}, {})", quoted(from)?, quoted(to)?);
        let small = super::by_bytes(&format!("lower({})", super::by_bytes(&text)));
        Ok(format!("(CASE WHEN octet_length({text}) = char_length({text}) THEN {small} ELSE {all} END)"))
    }
}

fn unknown(name: &str) -> Refusal {
    refusal(format!("the function `{name}` in this form is not known to PostgreSQL"))
}

/// Halves away from zero; PostgreSQL rounds those of floats to the even number.
fn rounded(number: &Written) -> Written {
    let sql = &number.sql;
    let sql = format!("(trunc({sql}) + CASE WHEN abs({sql} - trunc({sql})) >= 0.5 THEN sign({sql}) ELSE 0 END)");
    Written { sql, kind: DataType::Float64, fact: number.fact.rounded(false) }
}

/// The name of a part or a unit, if it is known.
fn known<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    names.iter().find(|known| **known == name).copied()
}
