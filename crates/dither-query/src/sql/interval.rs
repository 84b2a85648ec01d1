//! Derives the bounds of a row-local expression from the declared bounds of its columns.
//!
//! The derivation only has to be useful, not right: whatever it yields, every value is clamped to it.

use std::collections::HashMap;

use datafusion::logical_expr::expr::{Case, TryCast};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use dither_core::{Lattice, ValueBounds};

use super::total::literal_number;
use crate::policy::{ColumnPolicy, ColumnType};

/// The bounds of an expression, and whether all its values are whole numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Interval {
    lower: f64,
    upper: f64,
    whole: bool,
}

impl Interval {
    fn point(value: f64) -> Self {
        Self { lower: value, upper: value, whole: value.fract() == 0.0 }
    }

    fn hull(self, other: Self) -> Self {
        Self {
            lower: self.lower.min(other.lower),
            upper: self.upper.max(other.upper),
            whole: self.whole && other.whole,
        }
    }

    fn of(values: impl IntoIterator<Item = f64>, whole: bool) -> Self {
        let (lower, upper) = values
            .into_iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(lower, upper), value| (lower.min(value), upper.max(value)));
        Self { lower, upper, whole }
    }
}

/// The bounds of an expression on a lattice of its own; a bare column keeps the lattice that was declared.
pub(super) fn bounds(expr: &Expr, columns: &HashMap<&str, &ColumnPolicy>) -> Option<ValueBounds> {
    if let Expr::Column(column) = strip(expr) {
        return columns.get(column.name())?.value_bounds();
    }
    let Interval { lower, upper, whole } = interval(expr, columns)?;
    let step = if whole { 1.0 } else { ((upper - lower).log2().floor() - 20.0).exp2() };
    ValueBounds::new(lower, upper, Lattice::new(step)?)
}

/// The expression below casts between numbers.
pub(super) fn strip(expr: &Expr) -> &Expr {
    match expr {
        Expr::TryCast(TryCast { expr, field }) if field.data_type().is_numeric() => strip(expr),
        _ => expr,
    }
}

fn interval(expr: &Expr, columns: &HashMap<&str, &ColumnPolicy>) -> Option<Interval> {
    if let Some(value) = literal_number(expr) {
        return value.is_finite().then(|| Interval::point(value));
    }
    let of = |expr: &Expr| interval(expr, columns);
    match strip(expr) {
        Expr::Column(column) => {
            let column = columns.get(column.name())?;
            let [lower, upper] = column.bounds?;
            Some(Interval { lower, upper, whole: column.r#type == ColumnType::Integer })
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (a, b) = (of(left)?, of(right)?);
            let whole = a.whole && b.whole;
            match op {
                Operator::Plus => Some(Interval { lower: a.lower + b.lower, upper: a.upper + b.upper, whole }),
                Operator::Minus => Some(Interval { lower: a.lower - b.upper, upper: a.upper - b.lower, whole }),
                Operator::Multiply => {
                    let corners = [a.lower * b.lower, a.lower * b.upper, a.upper * b.lower, a.upper * b.upper];
                    Some(Interval::of(corners, whole))
                }
                _ => None,
            }
        }
        // x / c for a constant c, through the NULLIF that makes it total; other quotients have no bounds.
        Expr::Case(case) => case_interval(case, columns),
        Expr::ScalarFunction(function) => {
            let first = function.args.first()?;
            match function.func.name() {
                "floor" | "round" | "ceil" | "trunc" if function.args.len() == 1 => {
                    let inner = of(first)?;
                    Some(Interval { lower: inner.lower.floor(), upper: inner.upper.ceil(), whole: true })
                }
                "abs" => {
                    let Interval { lower, upper, whole } = of(first)?;
                    let least = if lower <= 0.0 && upper >= 0.0 { 0.0 } else { lower.abs().min(upper.abs()) };
                    Some(Interval { lower: least, upper: lower.abs().max(upper.abs()), whole })
                }
                "coalesce" | "greatest" | "least" => {
                    function.args.iter().map(of).reduce(|a, b| Some(a?.hull(b?))).flatten()
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn case_interval(case: &Case, columns: &HashMap<&str, &ColumnPolicy>) -> Option<Interval> {
    if let Some(inner) = clamp_interval(case) {
        return Some(inner);
    }
    let thens = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
    let branches = thens.chain(case.else_expr.as_deref());
    branches.map(|branch| interval(branch, columns)).reduce(|a, b| Some(a?.hull(b?))).flatten()
}

/// The form that [`clamped`](super::total::clamped) makes: below the one bound, above the other.
fn clamp_interval(case: &Case) -> Option<Interval> {
    let [(below, lower), (above, upper)] = case.when_then_expr.as_slice() else { return None };
    let compares = |when: &Expr, operator: Operator, bound: f64| match when {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            *op == operator && literal_number(right) == Some(bound) && Some(left.as_ref()) == case.else_expr.as_deref()
        }
        _ => false,
    };
    let (lower, upper) = (literal_number(lower)?, literal_number(upper)?);
    let clamp = compares(below, Operator::Lt, lower) && compares(above, Operator::Gt, upper);
    clamp.then_some(Interval { lower, upper, whole: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{col, lit, when};

    fn amount() -> ColumnPolicy {
        toml::from_str("type = \"integer\"\nbounds = [-10, 100]").unwrap()
    }

    #[test]
    fn se_12_a_rewritten_column_gets_wider_bounds_not_the_old_ones() {
        let amount = amount();
        let columns = HashMap::from([("amount", &amount)]);
        let bounds = |expr: &Expr| super::bounds(expr, &columns).map(|b| (b.lower(), b.upper()));
        assert_eq!(bounds(&col("amount")), Some((-10, 100)));
        assert_eq!(bounds(&(col("amount") * lit(1_000_000_i64))), Some((-10_000_000, 100_000_000)));
        let jump = when(col("id").eq(lit(42_i64)), lit(1_000_000_000_i64)).otherwise(lit(0_i64)).unwrap();
        assert_eq!(bounds(&jump), Some((0, 1_000_000_000)));
    }

    #[test]
    fn se_10_an_expression_without_bounds_has_none() {
        let amount = amount();
        let columns = HashMap::from([("amount", &amount)]);
        assert_eq!(bounds(&col("unbounded"), &columns), None);
        assert_eq!(bounds(&(lit(1_i64) / col("amount")), &columns), None);
    }
}
