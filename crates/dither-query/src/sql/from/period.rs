//! What tells the calendar period of a row, where units are cut to periods.
//!
//! A relation compares and groups by whole units, the person and the period, whatever a question says. What a question
//! says must therefore name both, or it would silently mean something else.

use std::collections::HashMap;

use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::{ScalarFunction, TryCast};
use datafusion::scalar::ScalarValue;
use dither_core::UnitPeriod;

use super::Input;
use crate::policy::ColumnPolicy;
use crate::sql::calendar::guarded;

/// How much a value says of when its row happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// In which period, and nothing else.
    Period,
    /// In which period, and more.
    Time,
}

/// What an expression, made total already, says of the period of its row; `None` if it does not tell the period.
pub(super) fn when(expr: &Expr, input: &Input, columns: &HashMap<&str, &ColumnPolicy>) -> Option<When> {
    let per = input.root.as_ref()?.period()?;
    of(expr, input, columns, per)
}

fn of(expr: &Expr, input: &Input, columns: &HashMap<&str, &ColumnPolicy>, per: UnitPeriod) -> Option<When> {
    match expr {
        Expr::Column(column) => input.columns.iter().find(|known| known.name == column.name)?.when,
        Expr::TryCast(TryCast { expr, field }) => match (of(expr, input, columns, per)?, field.data_type()) {
            (_, DataType::Date32) if per == UnitPeriod::Day => Some(When::Period),
            (when, DataType::Date32 | DataType::Timestamp(_, None)) => Some(when),
            _ => None,
        },
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "date_trunc" => {
            let [Expr::Literal(ScalarValue::Utf8(Some(unit)), _), value] = args.as_slice() else { return None };
            let when = of(guarded(value, columns), input, columns, per)?;
            let unit = unit.to_ascii_lowercase();
            match per.name() == unit {
                true => Some(When::Period),
                false => finer(&unit, per).then_some(when),
            }
        }
        _ => None,
    }
}

/// Whether times that are cut to a unit still tell the period. A week may lie in two months.
fn finer(unit: &str, per: UnitPeriod) -> bool {
    match unit {
        "microsecond" | "millisecond" | "second" | "minute" | "hour" => true,
        "day" => per != UnitPeriod::Day,
        _ => false,
    }
}
