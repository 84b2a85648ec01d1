//! Public keys of what is computed from a date: months and years of a column whose days are public.
//!
//! The keys of `date_trunc('month', day)` are the months of the declared days. They are computed by the engine with the
//! expression that will run on the rows, so that a key is what the engine makes of a day, bit for bit.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::DFSchema;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::{Case, TryCast};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::physical_expr::create_physical_expr;
use datafusion::scalar::ScalarValue;
use dither_core::Key;

use super::keys::{key_literal, key_of};
use super::total::in_nanoseconds;
use crate::policy::keys::identity;
use crate::policy::{ColumnPolicy, ColumnType, KeysPolicy, Period};
use crate::source::arrow_type;

/// The units and parts that are the same for all moments of a day.
const OF_A_DAY: [&str; 9] = ["day", "week", "month", "quarter", "year", "dow", "isodow", "doy", "isoyear"];

/// The public keys of an expression that cuts a column of dates or moments with public keys to a unit, takes a part of it or
/// casts it; `None` for any other expression, and where the keys of the column do not tell those of the expression.
pub(super) fn keys(expr: &Expr, columns: &HashMap<&str, &ColumnPolicy>) -> Option<Vec<Key>> {
    let (name, daily) = chain(expr, columns)?;
    let policy = columns.get(name)?;
    let declared = policy.keys.as_ref()?;
    // A calendar names the days that moments lie in, not the moments.
    if policy.r#type == ColumnType::Timestamp && matches!(declared, KeysPolicy::Calendar { .. }) && !daily {
        return None;
    }
    let kind = arrow_type(policy.r#type);
    let values = declared.keys(policy.r#type).into_iter().filter_map(|key| key_literal(&key, &kind));
    let values = ScalarValue::iter_to_array(values).ok()?;
    let schema = Arc::new(Schema::new(vec![Field::new(name, kind, true)]));
    let count = values.len();
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![values]).ok()?;
    let schema = DFSchema::try_from(schema).ok()?;
    let (props, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
    let expr = create_physical_expr(expr, &schema, &props, &context).ok()?;
    let values = expr.evaluate(&batch).ok()?.into_array(count).ok()?;
    let mut seen = HashSet::new();
    let mut keys = Vec::new();
    for row in 0..count {
        match key_of(&ScalarValue::try_from_array(&values, row).ok()?)? {
            Key::Null => {}
            key if seen.insert(identity(&key)) => keys.push(key),
            _ => {}
        }
    }
    (!keys.is_empty()).then_some(keys)
}

/// Whether a column of moments is grouped by as it is, while only its days are public.
pub(super) fn needs_a_unit(policy: &ColumnPolicy) -> bool {
    policy.r#type == ColumnType::Timestamp && matches!(policy.keys, Some(KeysPolicy::Calendar { .. }))
}

/// The column at the end of a chain of units, parts and casts, and whether the value is the same for all moments of a day.
fn chain<'a>(expr: &'a Expr, columns: &HashMap<&str, &ColumnPolicy>) -> Option<(&'a str, bool)> {
    match expr {
        Expr::Column(column) => {
            let policy = columns.get(column.name())?;
            let moments = matches!(policy.r#type, ColumnType::Date | ColumnType::Timestamp);
            moments.then_some((column.name(), policy.r#type == ColumnType::Date))
        }
        Expr::TryCast(TryCast { expr, field }) => {
            let (name, daily) = chain(expr, columns)?;
            match field.data_type() {
                DataType::Date32 => Some((name, true)),
                DataType::Timestamp(_, None) => Some((name, daily)),
                kind if kind.is_integer() => Some((name, daily)),
                _ => None,
            }
        }
        Expr::ScalarFunction(function) => {
            let [Expr::Literal(ScalarValue::Utf8(Some(unit)), _), value] = function.args.as_slice() else {
                return None;
            };
            if !matches!(function.func.name(), "date_trunc" | "date_part") {
                return None;
            }
            let (name, daily) = chain(guarded(value, columns), columns)?;
            let unit = unit.to_ascii_lowercase();
            // Of the days of a month, a calendar of quarters knows the first of three: other months would have no key.
            let every = match &columns.get(name)?.keys {
                Some(KeysPolicy::Calendar { every, .. }) => every.unwrap_or(Period::Day),
                _ => Period::Day,
            };
            every.tells(&unit).then(|| (name, daily || OF_A_DAY.contains(&unit.as_str())))
        }
        _ => None,
    }
}

/// What stands behind the condition that dates can be counted in nanoseconds, if that is what the CASE says.
pub(super) fn guarded<'a>(expr: &'a Expr, columns: &HashMap<&str, &ColumnPolicy>) -> &'a Expr {
    let Expr::Case(Case { expr: None, when_then_expr, else_expr: None }) = expr else { return expr };
    let [(_, inner)] = when_then_expr.as_slice() else { return expr };
    let fields = columns.iter().map(|(name, policy)| Field::new(*name, arrow_type(policy.r#type), true));
    let schema = DFSchema::try_from(Schema::new(fields.collect::<Vec<_>>()));
    let same = schema.ok().and_then(|schema| in_nanoseconds(inner.as_ref().clone(), &schema).ok());
    if same.as_ref() == Some(expr) { inner } else { expr }
}
