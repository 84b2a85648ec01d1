//! What the text does with columns by their names: sums of texts and comparisons with constants that are no values of the
//! column, which are refused, and comparisons with keys that are not declared, which are warned of. All of it follows from
//! the text and the policy alone.
//!
//! Names are looked up in the tables that the text mentions. What a sub-query gives a name of its own is left alone.

use std::ops::ControlFlow;

use chrono::NaiveDate;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Statement, TypedString,
    Value, ValueWithSpan, visit_expressions, visit_relations,
};
use dither_core::Key;

use super::catalog::AGGREGATES;
use super::shape::{place, single};
use crate::error::{Code, Refusal};
use crate::policy::{ColumnPolicy, ColumnType, KeysPolicy, Policy, nearest};
use crate::source::arrow_type;

/// What compares two values.
pub(super) const COMPARISONS: [BinaryOperator; 6] = [
    BinaryOperator::Eq,
    BinaryOperator::NotEq,
    BinaryOperator::Lt,
    BinaryOperator::LtEq,
    BinaryOperator::Gt,
    BinaryOperator::GtEq,
];
/// So many warnings are enough.
const MOST: usize = 5;
/// So many constants are looked up in lists of keys, which may be long.
const COMPARED: usize = 100;
/// A list of more keys than this is not searched for a similar one.
const FEW: usize = 10_000;
/// The aggregates that take values of every type.
const OF_ANYTHING: [&str; 3] = ["count", "min", "max"];

/// The columns that a text may mean.
struct Named<'a> {
    columns: Vec<(&'a String, &'a ColumnPolicy)>,
    text: String,
}

impl<'a> Named<'a> {
    fn of(statement: &Statement, policy: &'a Policy) -> Self {
        let mut columns = Vec::new();
        let _ = visit_relations(statement, |name| {
            let name = single(name).map_or("", |name| name.value.as_str());
            columns.extend(policy.tables.get(name).into_iter().flat_map(|table| &table.columns));
            columns.extend(policy.public.get(name).into_iter().flat_map(|table| &table.columns));
            ControlFlow::<()>::Continue(())
        });
        Self { columns, text: statement.to_string() }
    }

    /// What the policy says of a column, if all columns of this name are of one type.
    fn get(&self, name: &Ident) -> Option<(&'a str, Vec<&'a ColumnPolicy>)> {
        let all: Vec<_> = self.columns.iter().filter(|(known, _)| **known == name.value).collect();
        let (known, first) = all.first()?;
        let renamed = ["", "\""].iter().any(|quote| self.text.contains(&format!(" AS {quote}{}", name.value)));
        let alike = !renamed && all.iter().all(|(_, column)| column.r#type == first.r#type);
        alike.then(|| (known.as_str(), all.iter().map(|(_, column)| *column).collect()))
    }
}

fn column(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(parts) => parts.last(),
        Expr::Nested(inner) => column(inner),
        _ => None,
    }
}

/// A constant; one with a type before it, as in `DATE '2026-11-30'`, is its text.
fn constant(expr: &Expr) -> Option<&ValueWithSpan> {
    match expr {
        Expr::Value(value) | Expr::TypedString(TypedString { value, .. }) => Some(value),
        Expr::Nested(inner) => constant(inner),
        _ => None,
    }
}

/// Refuses numbers of texts and constants that are no values of their column, where the caret can point at them.
pub(super) fn check(statement: &Statement, policy: &Policy) -> Result<(), Refusal> {
    let named = Named::of(statement, policy);
    let found = visit_expressions(statement, |expr| {
        let refusal = match expr {
            Expr::Function(function) => named.text_in(function),
            _ => compared(expr).find_map(|(ident, value)| named.misfit(ident, value)),
        };
        refusal.map_or(ControlFlow::Continue(()), ControlFlow::Break)
    });
    match found {
        ControlFlow::Break(refusal) => Err(refusal),
        ControlFlow::Continue(()) => Ok(()),
    }
}

impl Named<'_> {
    /// The refusal of an aggregate of numbers whose argument is a column of texts.
    fn text_in(&self, function: &Function) -> Option<Refusal> {
        let name = function.name.to_string().to_ascii_lowercase();
        let FunctionArguments::List(list) = &function.args else { return None };
        let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))) = list.args.first() else { return None };
        if !AGGREGATES.contains(&name.as_str()) || OF_ANYTHING.contains(&name.as_str()) {
            return None;
        }
        let upper = name.to_ascii_uppercase();
        if let Expr::Value(value) = argument
            && let Value::SingleQuotedString(text) = &value.value
        {
            let refusal = Refusal::new(Code::Type, format!("`{upper}` needs numbers, and '{text}' is a text"));
            let quotes = format!("single quotes are for texts, double quotes or none for names: {upper}({text})");
            return Some(refusal.hint(quotes).at(place(value.span)));
        }
        let ident = column(argument)?;
        let (known, columns) = self.get(ident)?;
        if columns[0].r#type != ColumnType::Text {
            return None;
        }
        let refusal = Refusal::new(Code::Type, format!("`{upper}` needs numbers, and `{known}` is a column of texts"));
        let hint = format!("count its values with COUNT({known}), group by it, or name a column of numbers");
        Some(refusal.hint(hint).at(place(ident.span)))
    }

    /// The refusal of a comparison with a constant that is no value of the column.
    fn misfit(&self, ident: &Ident, value: &ValueWithSpan) -> Option<Refusal> {
        let (known, columns) = self.get(ident)?;
        let r#type = columns[0].r#type;
        let dated = matches!(r#type, ColumnType::Date | ColumnType::Timestamp);
        let (text, fits) = match &value.value {
            // The engine compares truth values with no text.
            Value::SingleQuotedString(text) if r#type != ColumnType::Boolean => {
                let read = ScalarValue::from(text.as_str()).cast_to(&arrow_type(r#type));
                (format!("'{text}'"), read.is_ok_and(|read| !read.is_null()))
            }
            Value::SingleQuotedString(text) => (format!("'{text}'"), false),
            Value::Number(number, _) => (number.clone(), !dated && r#type != ColumnType::Boolean),
            _ => return None,
        };
        if fits {
            return None;
        }
        let (kind, example) = match r#type {
            ColumnType::Integer => ("whole numbers", "42"),
            ColumnType::Number => ("numbers", "4.2"),
            ColumnType::Boolean => ("truth values", "TRUE"),
            ColumnType::Date => ("dates", "'2026-11-30'"),
            ColumnType::Timestamp => ("moments", "'2026-11-30T18:00:00'"),
            ColumnType::Text => return None,
        };
        let refusal = Refusal::new(Code::Type, format!("`{known}` is a column of {kind}, and {text} is none"));
        let hint = match &value.value {
            Value::Number(..) if dated => format!("write {example}, or compare EXTRACT(YEAR FROM {known})"),
            _ => format!("no row would ever match; write a constant such as {example}"),
        };
        Some(refusal.hint(hint).at(place(value.span)))
    }

    /// What is odd about a column beside a constant.
    fn odd(&self, ident: &Ident, value: &Value) -> Option<String> {
        let (known, columns) = self.get(ident)?;
        let (key, shown) = match value {
            Value::SingleQuotedString(text) => (Key::Text(text.clone()), format!("'{text}'")),
            Value::Number(number, _) => (Key::Integer(number.parse().ok()?), number.clone()),
            _ => return None,
        };
        let declared: Vec<&KeysPolicy> = columns.iter().map(|column| column.keys.as_ref()).collect::<Option<_>>()?;
        if declared.iter().any(|keys| holds(keys, &key) != Some(false)) {
            return None;
        }
        let similar = declared.iter().find_map(|keys| match (keys, &key) {
            (KeysPolicy::List(list), Key::Text(text)) if list.len() <= FEW => {
                nearest(text, &list.iter().map(ToString::to_string).collect::<Vec<_>>())
            }
            _ => None,
        });
        let similar = similar.map_or(String::new(), |similar| format!("; did you mean '{similar}'?"));
        Some(format!("`{known}` is compared with {shown}, which is not among its declared keys{similar}"))
    }
}

/// Whether a set of keys holds one, where that is quickly told.
fn holds(keys: &KeysPolicy, key: &Key) -> Option<bool> {
    match (keys, key) {
        (KeysPolicy::List(list), _) => Some(list.contains(key)),
        (KeysPolicy::Range { from, to, step }, Key::Integer(number)) => {
            let steps = i128::from(*number) - i128::from(*from);
            Some((from..=to).contains(&number) && steps % step.map_or(1, |step| i128::from(step.get())) == 0)
        }
        (KeysPolicy::Calendar { .. }, Key::Text(text)) => {
            let day = Key::Text(text.parse::<NaiveDate>().ok()?.to_string());
            Some(keys.keys(ColumnType::Date).contains(&day))
        }
        _ => None,
    }
}

/// The columns beside constants in a comparison.
fn compared(expr: &Expr) -> impl Iterator<Item = (&Ident, &ValueWithSpan)> {
    let (columns, constants): (Vec<&Expr>, Vec<&Expr>) = match expr {
        Expr::BinaryOp { left, op, right } if COMPARISONS.contains(op) => (vec![left, right], vec![right, left]),
        Expr::Between { expr, low, high, .. } => (vec![expr, expr], vec![low, high]),
        Expr::InList { expr, list, .. } => (vec![expr; list.len()], list.iter().collect()),
        _ => Default::default(),
    };
    columns.into_iter().zip(constants).filter_map(|(ident, value)| column(ident).zip(constant(value)))
}

/// Comparisons with keys that are not declared, such as one with a slip of the pen.
pub(super) fn warnings(statement: &Statement, policy: &Policy) -> Vec<String> {
    let named = Named::of(statement, policy);
    let mut warnings: Vec<String> = Vec::new();
    let mut left = COMPARED;
    let _ = visit_expressions(statement, |expr| {
        let equal =
            matches!(expr, Expr::BinaryOp { op: BinaryOperator::Eq | BinaryOperator::NotEq, .. } | Expr::InList { .. });
        for (ident, value) in compared(expr).filter(|_| equal) {
            left -= 1;
            if left == 0 || warnings.len() == MOST {
                return ControlFlow::Break(());
            }
            warnings.extend(named.odd(ident, &value.value).filter(|odd| !warnings.contains(odd)));
        }
        ControlFlow::Continue(())
    });
    warnings
}
