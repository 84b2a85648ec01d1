//! Where the values of a group key come from, and how keys are written for the engine.

use std::collections::HashMap;

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::logical_expr::{Expr, Operator, lit};
use datafusion::scalar::ScalarValue;
use dither_core::Key;

use super::calendar;
use super::interval::strip;
use crate::ir::Domain;
use crate::policy::ColumnPolicy;

/// The public values of a key expression, if it has them by declaration or by nature.
pub(super) fn domain(expr: &Expr, kind: &DataType, columns: &HashMap<&str, &ColumnPolicy>) -> Domain {
    // A number has 0.0 added, which changes none but -0.0. Any other sum has other values.
    let zero = |expr: &Expr| *expr == lit(0.0);
    let expr = match expr {
        Expr::BinaryExpr(sum) if kind.is_floating() && sum.op == Operator::Plus && zero(&sum.right) => {
            sum.left.as_ref()
        }
        expr => expr,
    };
    if let Expr::Column(column) = strip(expr)
        && let Some(policy) = columns.get(column.name())
        && let Some(keys) = &policy.keys
    {
        return Domain::Public(keys.keys(policy.r#type));
    }
    if *kind == DataType::Boolean {
        return Domain::Public(vec![Key::Boolean(false), Key::Boolean(true)]);
    }
    match expr {
        Expr::ScalarFunction(function)
            if function.func.name() == "date_part"
                && let Some(keys) = date_part(function.args.first()) =>
        {
            keys
        }
        Expr::Case(case) => {
            let thens = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
            let mut keys: Vec<Key> = Vec::new();
            for branch in thens.chain(case.else_expr.as_deref()) {
                let Expr::Literal(value, _) = branch else { return Domain::Private };
                match key_of(value) {
                    Some(key) if !keys.contains(&key) => keys.push(key),
                    Some(_) => {}
                    None => return Domain::Private,
                }
            }
            Domain::Public(keys)
        }
        _ => calendar::keys(expr, columns).map_or(Domain::Private, Domain::Public),
    }
}

/// The parts of a date that take few values whatever the data.
fn date_part(part: Option<&Expr>) -> Option<Domain> {
    let Expr::Literal(ScalarValue::Utf8(Some(part)), _) = part? else { return None };
    let (from, to) = match part.to_ascii_lowercase().as_str() {
        "month" => (1, 12),
        "quarter" => (1, 4),
        "day" => (1, 31),
        "hour" => (0, 23),
        "minute" => (0, 59),
        "dow" => (0, 6),
        "isodow" => (1, 7),
        "week" => (1, 53),
        _ => return None,
    };
    Some(Domain::Public((from..=to).map(Key::Integer).collect()))
}

/// A key as a constant of the engine; `None` if it is not of the type.
pub(crate) fn key_literal(key: &Key, kind: &DataType) -> Option<ScalarValue> {
    Some(match (key, kind) {
        (Key::Boolean(value), DataType::Boolean) => ScalarValue::Boolean(Some(*value)),
        (Key::Integer(value), DataType::Int64) => ScalarValue::Int64(Some(*value)),
        (Key::Integer(value), DataType::Int32) => ScalarValue::Int32(Some(i32::try_from(*value).ok()?)),
        (Key::Integer(value), DataType::Float64) => ScalarValue::Float64(Some(*value as f64)),
        (Key::Number(value), DataType::Float64) => ScalarValue::Float64(Some(*value)),
        (Key::Text(text), DataType::Utf8) => ScalarValue::Utf8(Some(text.clone())),
        (Key::Text(text), DataType::LargeUtf8) => ScalarValue::LargeUtf8(Some(text.clone())),
        (Key::Text(text), DataType::Date32) => {
            let day = text.parse::<NaiveDate>().ok()?;
            ScalarValue::Date32(Some(i32::try_from((day - NaiveDate::default()).num_days()).ok()?))
        }
        (Key::Text(text), DataType::Timestamp(TimeUnit::Microsecond, None)) => {
            let moment = text.parse::<NaiveDateTime>().ok()?;
            ScalarValue::TimestampMicrosecond(Some(moment.and_utc().timestamp_micros()), None)
        }
        _ => return None,
    })
}

/// A value of the engine as a key; `None` if it is of a type that keys do not have.
pub(crate) fn key_of(value: &ScalarValue) -> Option<Key> {
    if value.is_null() {
        return Some(Key::Null);
    }
    Some(match value {
        ScalarValue::Boolean(Some(value)) => Key::Boolean(*value),
        ScalarValue::Int8(Some(value)) => Key::Integer((*value).into()),
        ScalarValue::Int16(Some(value)) => Key::Integer((*value).into()),
        ScalarValue::Int32(Some(value)) => Key::Integer((*value).into()),
        ScalarValue::Int64(Some(value)) => Key::Integer(*value),
        // -0.0 and 0.0 are one number.
        ScalarValue::Float64(Some(value)) => Key::Number(value + 0.0),
        ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) => Key::Text(text.clone()),
        ScalarValue::Date32(Some(days)) => {
            Key::Text(NaiveDate::default().checked_add_signed(chrono::Duration::days((*days).into()))?.to_string())
        }
        ScalarValue::TimestampMicrosecond(Some(micros), None) => {
            Key::Text(DateTime::from_timestamp_micros(*micros)?.naive_utc().format("%Y-%m-%dT%H:%M:%S%.f").to_string())
        }
        ScalarValue::TimestampNanosecond(Some(nanos), None) => {
            Key::Text(DateTime::from_timestamp_nanos(*nanos).naive_utc().format("%Y-%m-%dT%H:%M:%S%.f").to_string())
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::col;

    #[test]
    fn only_a_zero_can_be_added_to_declared_keys() {
        let policy: ColumnPolicy = toml::from_str("type = \"number\"\nkeys = [1, 2, 3]").unwrap();
        let columns = HashMap::from([("x", &policy)]);
        let of = |expr: Expr| domain(&expr, &DataType::Float64, &columns);
        assert!(matches!(of(col("x") + lit(0.0)), Domain::Public(keys) if keys.len() == 3));
        assert_eq!(of(col("x") + lit(1.0)), Domain::Private);
    }

    #[test]
    fn keys_survive_the_way_to_the_engine_and_back() {
        let pairs = [
            (Key::Text("[0-10)".into()), DataType::Utf8),
            (Key::Integer(-7), DataType::Int64),
            (Key::Boolean(true), DataType::Boolean),
            (Key::Text("2026-11-30".into()), DataType::Date32),
            (Key::Text("2026-11-30T12:00:00".into()), DataType::Timestamp(TimeUnit::Microsecond, None)),
        ];
        for (key, kind) in pairs {
            let literal = key_literal(&key, &kind).unwrap();
            assert_eq!(key_of(&literal), Some(key));
        }
        assert_eq!(key_literal(&Key::Text("x".into()), &DataType::Int64), None);
    }
}
