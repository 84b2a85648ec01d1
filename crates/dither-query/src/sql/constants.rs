//! Constants that make NULL of whatever they stand beside, which are refused: the answer would say nothing for its charge.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Spanned, Statement, Value, visit_expressions};

use super::named::COMPARISONS;
use super::shape::place;
use crate::error::{Code, Refusal};

/// What computes with two numbers.
const ARITHMETIC: [BinaryOperator; 5] = [
    BinaryOperator::Plus,
    BinaryOperator::Minus,
    BinaryOperator::Multiply,
    BinaryOperator::Divide,
    BinaryOperator::Modulo,
];

/// Refuses comparisons and arithmetic with NULL, in all parts of a question.
pub(super) fn check(statement: &Statement) -> Result<(), Refusal> {
    let found =
        visit_expressions(statement, |expr| refusal(expr).map_or(ControlFlow::Continue(()), ControlFlow::Break));
    match found {
        ControlFlow::Break(refusal) => Err(refusal),
        ControlFlow::Continue(()) => Ok(()),
    }
}

fn refusal(expr: &Expr) -> Option<Refusal> {
    let (null, message, hint) = match expr {
        Expr::BinaryOp { left, op, right } if COMPARISONS.contains(op) => {
            let (null, other) = if is_null(right) { (right, left) } else { (left, right) };
            let not = if *op == BinaryOperator::NotEq { "NOT " } else { "" };
            (null.as_ref(), "a comparison with NULL is never true", format!("write {other} IS {not}NULL"))
        }
        Expr::BinaryOp { left, op, right } if ARITHMETIC.contains(op) => {
            let null = if is_null(right) { right } else { left };
            (null.as_ref(), "arithmetic with NULL is NULL", "leave it out, or write a number".to_owned())
        }
        Expr::Between { low, high, .. } => {
            let null = if is_null(high) { high } else { low };
            (null.as_ref(), "a comparison with NULL is never true", "write two values".to_owned())
        }
        Expr::InList { expr, list, negated: true } => {
            let null = list.iter().find(|value| is_null(value))?;
            (null, "NOT IN a list with NULL is never true", format!("leave it out, and write {expr} IS NOT NULL"))
        }
        _ => return None,
    };
    is_null(null).then(|| Refusal::new(Code::Type, message).hint(hint).at(place(null.span())))
}

fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => value.value == Value::Null,
        Expr::Nested(inner) => is_null(inner),
        _ => false,
    }
}
