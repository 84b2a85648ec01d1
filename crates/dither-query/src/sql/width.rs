//! How long the texts of a row-local expression can get, from the expression alone.
//!
//! The engine holds 8,192 texts in one array of at most 2^31 bytes. An expression whose texts may be longer than
//! [`MAX_TEXT`] could overflow it for some rows and not for others, so it is refused.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::{Case, TryCast};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use datafusion::scalar::ScalarValue;

use super::total::place_of;
use crate::error::{Code, Refusal};
use crate::source::lexer::MAX_CELL;

/// The longest text in bytes: 8,192 of them are half of what an array holds.
const MAX_TEXT: usize = 128 << 10;

/// Refuses an expression with a part whose texts may be too long.
pub(super) fn check(expr: &Expr, schema: &DFSchema) -> Result<(), Refusal> {
    match width(expr, schema) {
        width if width > MAX_TEXT => Err(Refusal::new(Code::TooLarge, format!("a text may get {width} bytes long"))
            .hint(format!("stay below {MAX_TEXT} bytes: a column counts {MAX_CELL}"))
            .at(place_of(expr))),
        _ => Ok(()),
    }
}

/// An upper bound on the bytes of the longest text that evaluating the expression makes.
pub(super) fn width(expr: &Expr, schema: &DFSchema) -> usize {
    let of = |expr: &Expr| width(expr, schema);
    let largest = |exprs: &[Expr]| exprs.iter().map(of).max().unwrap_or(0);
    match expr {
        Expr::Column(_) if expr.get_type(schema).is_ok_and(|kind| kind == DataType::Utf8) => MAX_CELL,
        Expr::Column(_) => 0,
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => text.len(),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) => of(left).saturating_add(of(right)),
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => of(left).max(of(right)),
        Expr::Case(Case { expr, when_then_expr, else_expr }) => {
            let pairs = when_then_expr.iter().flat_map(|(when, then)| [when.as_ref(), then.as_ref()]);
            pairs.chain(expr.as_deref()).chain(else_expr.as_deref()).map(of).max().unwrap_or(0)
        }
        // No number, day or moment takes more than 64 bytes as a text.
        Expr::TryCast(TryCast { expr, field }) if *field.data_type() == DataType::Utf8 => of(expr).max(64),
        Expr::ScalarFunction(function) => match function.func.name() {
            "concat" => function.args.iter().map(of).fold(0, usize::saturating_add),
            // A letter may become three.
            "upper" | "lower" => largest(&function.args).saturating_mul(3),
            _ => largest(&function.args),
        },
        Expr::InList(list) => of(&list.expr).max(largest(&list.list)),
        Expr::Like(like) => of(&like.expr),
        Expr::Between(between) => of(&between.expr).max(of(&between.low)).max(of(&between.high)),
        Expr::Not(expr)
        | Expr::Negative(expr)
        | Expr::IsNull(expr)
        | Expr::IsNotNull(expr)
        | Expr::IsTrue(expr)
        | Expr::IsFalse(expr)
        | Expr::IsUnknown(expr)
        | Expr::IsNotTrue(expr)
        | Expr::IsNotFalse(expr)
        | Expr::IsNotUnknown(expr) => of(expr),
        Expr::TryCast(TryCast { expr, .. }) => of(expr),
        // Whatever else there is did not pass `total`; it counts as too long.
        other => {
            if matches!(other, Expr::Literal(..)) {
                0
            } else {
                usize::MAX
            }
        }
    }
}
