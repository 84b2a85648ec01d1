//! Makes a row-local expression a total function, or refuses it.
//!
//! A cell that does not cast, a division by zero or a number out of range becomes NULL; nothing in a row can make a
//! query fail. Arithmetic is done in 64-bit floats: it may round, but it neither wraps nor raises, and what leaves
//! it is clamped to the lattice before anything is added up.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::functions::core::expr_fn::nullif;
use datafusion::functions::math::expr_fn::trunc;
use datafusion::logical_expr::expr::{Alias, Between, Case, Cast, InList, Like, ScalarFunction, TryCast};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, lit, try_cast, when};
use datafusion::scalar::ScalarValue;

use super::catalog::{BUCKET, CLAMP, SCALARS};
use crate::error::{Code, Place, Refusal};

/// The longest LIKE pattern: matchers for longer ones can be too large to be built.
const MAX_PATTERN: usize = 1024;
/// The most arguments of a function.
const MAX_ARGUMENTS: usize = 64;
/// The longest literal list; longer ones belong into the policy.
const MAX_LIST: usize = 10_000;

/// Rewrites an expression over the columns of a table into a total one.
///
/// # Errors
/// A [`Refusal`] for whatever is not known to depend on the row alone.
pub(super) fn total(expr: Expr, schema: &DFSchema) -> Result<Expr, Refusal> {
    let recurse = |expr: Box<Expr>| total(*expr, schema).map(Box::new);
    let each = |exprs: Vec<Expr>| exprs.into_iter().map(|expr| total(expr, schema)).collect::<Result<Vec<_>, _>>();
    Ok(match expr {
        Expr::Column(_) | Expr::Literal(..) => expr,
        Expr::Alias(Alias { expr, .. }) => total(*expr, schema)?,
        Expr::BinaryExpr(binary) => total_binary(binary, schema)?,
        Expr::Not(expr) => Expr::Not(recurse(expr)?),
        Expr::IsNull(expr) => Expr::IsNull(recurse(expr)?),
        Expr::IsNotNull(expr) => Expr::IsNotNull(recurse(expr)?),
        Expr::IsTrue(expr) => Expr::IsTrue(recurse(expr)?),
        Expr::IsFalse(expr) => Expr::IsFalse(recurse(expr)?),
        Expr::IsUnknown(expr) => Expr::IsUnknown(recurse(expr)?),
        Expr::IsNotTrue(expr) => Expr::IsNotTrue(recurse(expr)?),
        Expr::IsNotFalse(expr) => Expr::IsNotFalse(recurse(expr)?),
        Expr::IsNotUnknown(expr) => Expr::IsNotUnknown(recurse(expr)?),
        Expr::Negative(expr) => lit(0.0) - number(total(*expr, schema)?, schema)?,
        Expr::Between(Between { expr, negated, low, high }) => {
            Expr::Between(Between { expr: recurse(expr)?, negated, low: recurse(low)?, high: recurse(high)? })
        }
        Expr::InList(InList { expr, list, negated }) if list.len() <= MAX_LIST => {
            Expr::InList(InList { expr: recurse(expr)?, list: each(list)?, negated })
        }
        Expr::InList(_) => {
            return Err(Refusal::new(Code::TooLarge, format!("a list has more than {MAX_LIST} values"))
                .hint("declare the list as `keys` in the policy"));
        }
        Expr::Like(Like { negated, expr, pattern, escape_char, case_insensitive }) => {
            let constant = |text: &str| text.len() <= MAX_PATTERN && escape_char.is_none();
            if !matches!(pattern.as_ref(), Expr::Literal(ScalarValue::Utf8(Some(text)), _) if constant(text)) {
                let message = format!("a LIKE pattern must be a constant text of at most {MAX_PATTERN} bytes");
                return Err(Refusal::new(Code::Unsupported, message).at(place_of(&expr)));
            }
            Expr::Like(Like { negated, expr: recurse(expr)?, pattern, escape_char, case_insensitive })
        }
        Expr::Case(Case { expr, when_then_expr, else_expr }) => Expr::Case(Case {
            expr: expr.map(recurse).transpose()?,
            when_then_expr: when_then_expr
                .into_iter()
                .map(|(when, then)| Ok((recurse(when)?, recurse(then)?)))
                .collect::<Result<_, Refusal>>()?,
            else_expr: else_expr.map(recurse).transpose()?,
        }),
        Expr::Cast(Cast { expr, field }) => total_cast(total(*expr, schema)?, field.data_type(), schema)?,
        Expr::TryCast(TryCast { expr, field }) => total_cast(total(*expr, schema)?, field.data_type(), schema)?,
        Expr::ScalarFunction(function) => total_function(function, schema)?,
        Expr::ScalarVariable(..)
        | Expr::SimilarTo(_)
        | Expr::AggregateFunction(_)
        | Expr::WindowFunction(_)
        | Expr::Exists(_)
        | Expr::InSubquery(_)
        | Expr::SetComparison(_)
        | Expr::ScalarSubquery(_)
        | Expr::GroupingSet(_)
        | Expr::Placeholder(_)
        | Expr::OuterReferenceColumn(..)
        | Expr::Unnest(_)
        | Expr::HigherOrderFunction(_)
        | Expr::Lambda(_)
        | Expr::LambdaVariable(_) => return Err(not_row_local(&expr)),
        #[allow(deprecated)]
        Expr::Wildcard { .. } => return Err(not_row_local(&expr)),
    })
}

fn not_row_local(expr: &Expr) -> Refusal {
    Refusal::new(Code::Unsupported, format!("`{expr}` is not known to depend on one row alone"))
        .hint("use comparisons, arithmetic, CASE, CAST and the functions of docs/sql.md")
        .at(place_of(expr))
}

/// The place of the first column in an expression, for the caret.
pub(super) fn place_of(expr: &Expr) -> Option<Place> {
    let mut spans = Vec::new();
    let _ = datafusion::common::tree_node::TreeNode::apply(expr, |node: &Expr| {
        if let Expr::Column(column) = node {
            spans.extend(column.spans.first());
        }
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    });
    spans.first().map(|span| Place {
        start: (span.start.line, span.start.column),
        end: (span.end.line, span.end.column.saturating_sub(1)),
    })
}

fn type_of(expr: &Expr, schema: &DFSchema) -> Result<DataType, Refusal> {
    expr.get_type(schema).map_err(|error| Refusal::new(Code::Type, error.strip_backtrace()).at(place_of(expr)))
}

/// The expression as a float; refused unless it is a number.
pub(super) fn number(expr: Expr, schema: &DFSchema) -> Result<Expr, Refusal> {
    match type_of(&expr, schema)? {
        DataType::Float64 => Ok(expr),
        kind if kind.is_numeric() || kind == DataType::Null => Ok(try_cast(expr, DataType::Float64)),
        kind => {
            let what = match &expr {
                Expr::Column(column) => format!("`{}` is {}", column.name, in_words(&kind)),
                _ => format!("this is {}", in_words(&kind)),
            };
            let hint = match kind {
                DataType::Date32 | DataType::Timestamp(..) => {
                    "EXTRACT(YEAR FROM x) makes a number of it; where a moment is meant, write it as one constant: '2026-11-30'"
                }
                _ => "cast it, as in CAST(x AS DOUBLE)",
            };
            Err(Refusal::new(Code::Type, format!("{what}, not a number")).hint(hint).at(place_of(&expr)))
        }
    }
}

/// A type as an analyst calls it.
pub(super) fn in_words(kind: &DataType) -> &'static str {
    match kind {
        DataType::Boolean => "a truth value",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "a text",
        DataType::Date32 => "a date",
        DataType::Timestamp(..) => "a moment",
        DataType::Interval(_) | DataType::Duration(_) => "a span of time",
        kind if kind.is_integer() => "a whole number",
        kind if kind.is_numeric() => "a number",
        _ => "of another type",
    }
}

fn total_binary(binary: BinaryExpr, schema: &DFSchema) -> Result<Expr, Refusal> {
    let BinaryExpr { left, op, right } = binary;
    let (left, right) = (total(*left, schema)?, total(*right, schema)?);
    let integers = type_of(&left, schema)?.is_integer() && type_of(&right, schema)?.is_integer();
    let numbers = |left, right| Ok::<_, Refusal>((number(left, schema)?, number(right, schema)?));
    Ok(match op {
        Operator::Eq
        | Operator::NotEq
        | Operator::Lt
        | Operator::LtEq
        | Operator::Gt
        | Operator::GtEq
        | Operator::And
        | Operator::Or
        | Operator::IsDistinctFrom
        | Operator::IsNotDistinctFrom
        | Operator::StringConcat => Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))),
        Operator::Plus | Operator::Minus | Operator::Multiply => {
            let (left, right) = numbers(left, right)?;
            Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
        }
        Operator::Divide | Operator::Modulo => {
            let (left, right) = numbers(left, right)?;
            // -0.0 is another number to NULLIF, unless zero is added to it.
            let constant = literal_number(&right).is_some_and(|number| number != 0.0);
            let divisor = nullif(if constant { right } else { right + lit(0.0) }, lit(0.0));
            let quotient = Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(divisor)));
            // SQL divides integers towards zero.
            if integers && op == Operator::Divide { trunc(vec![quotient]) } else { quotient }
        }
        other => {
            return Err(Refusal::new(Code::Unsupported, format!("the operator `{other}` is not offered"))
                .hint("use comparisons, + - * / %, AND, OR, NOT and ||")
                .at(place_of(&left)));
        }
    })
}

fn total_cast(expr: Expr, to: &DataType, schema: &DFSchema) -> Result<Expr, Refusal> {
    let calendar = |kind: &DataType| matches!(kind, DataType::Date32 | DataType::Timestamp(..));
    let from = type_of(&expr, schema)?;
    // A number as a day may lie outside of every calendar, and then it cannot be written as a text.
    if calendar(to) && !(calendar(&from) || matches!(from, DataType::Utf8 | DataType::Null)) {
        return Err(Refusal::new(
            Code::Type,
            format!("a cast from {} to {} is not offered", in_words(&from), in_words(to)),
        )
        .hint("declare the column as a date or timestamp in the policy")
        .at(place_of(&expr)));
    }
    if let Expr::Literal(value, _) = &expr
        && !value.is_null()
        && !value.cast_to(to).is_ok_and(|cast| !cast.is_null())
    {
        return Err(Refusal::new(Code::Type, format!("'{value}' cannot be read as {}", in_words(to)))
            .hint("it would be NULL in every row; correct the constant"));
    }
    match to {
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Float32
        | DataType::Float64
        | DataType::Utf8
        | DataType::Date32
        | DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, None) => Ok(try_cast(expr, to.clone())),
        other => Err(Refusal::new(Code::Type, format!("a cast to {other} is not offered"))
            .hint("cast to BIGINT, DOUBLE, VARCHAR, BOOLEAN, DATE or TIMESTAMP")
            .at(place_of(&expr))),
    }
}

fn total_function(function: ScalarFunction, schema: &DFSchema) -> Result<Expr, Refusal> {
    let name = function.func.name().to_owned();
    let mut args = function.args.into_iter().map(|arg| total(arg, schema)).collect::<Result<Vec<_>, _>>()?;
    let refuse =
        |message: &str| Err(Refusal::new(Code::Unsupported, message.to_owned()).at(args.first().and_then(place_of)));
    match name.as_str() {
        CLAMP => return clamp(args, schema),
        BUCKET => return bucket(args, schema),
        "date_part" if !part_of(args.first(), &DATE_PARTS) => return refuse("this part of a date is not offered"),
        "date_trunc" if !part_of(args.first(), &DATE_UNITS) => return refuse("dates are not cut to this unit"),
        "date_trunc" => {
            let value = args.remove(1);
            args.push(in_nanoseconds(value, schema)?);
        }
        _ if args.len() > MAX_ARGUMENTS => return refuse("a function has too many arguments"),
        "substr" | "left" if args[1..].iter().any(|arg| !natural(arg)) => {
            return refuse("positions and lengths must be constants of at least 0");
        }
        "round" if args.len() > 1 && !natural(&args[1]) => {
            return refuse("the number of digits must be a constant of at least 0")
                .map_err(|refusal: Refusal| refusal.hint("write round(x / 1000) * 1000 for thousands"));
        }
        // Floats neither wrap nor raise.
        "abs" | "ceil" | "floor" | "round" => {
            let value = args.remove(0);
            args.insert(0, number(value, schema)?);
        }
        known if SCALARS.contains(&known) => {}
        other => {
            return Err(Refusal::new(Code::UnknownFunction, format!("the function `{other}` is not offered"))
                .hint("the functions are listed in docs/sql.md"));
        }
    }
    Ok(Expr::ScalarFunction(ScalarFunction { func: function.func, args }))
}

/// The parts that EXTRACT knows for every date. Any other name would fail only where there are rows.
const DATE_PARTS: [&str; 15] = [
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "second",
    "millisecond",
    "microsecond",
    "dow",
    "isodow",
    "doy",
    "isoyear",
    "epoch",
];
/// The units that DATE_TRUNC knows.
const DATE_UNITS: [&str; 10] =
    ["microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"];

fn part_of(part: Option<&Expr>, known: &[&str]) -> bool {
    match part {
        Some(Expr::Literal(ScalarValue::Utf8(Some(part)), _)) => known.contains(&part.to_ascii_lowercase().as_str()),
        _ => false,
    }
}

/// A moment that nanoseconds since 1970 can count, 1678 to 2261; NULL elsewhere. DATE_TRUNC raises outside of it.
pub(super) fn in_nanoseconds(value: Expr, schema: &DFSchema) -> Result<Expr, Refusal> {
    let kind = type_of(&value, schema)?;
    let at = place_of(&value);
    within_nanoseconds(value, &kind).map_err(|error| Refusal::new(Code::Type, error.strip_backtrace()).at(at))
}

/// The same for a value of a known type.
pub(crate) fn within_nanoseconds(value: Expr, kind: &DataType) -> datafusion::common::Result<Expr> {
    const DAYS: (i32, i32) = (-106_650, 106_650);
    let micros = |day: i32| i64::from(day) * 86_400_000_000;
    let (first, last) = match kind {
        DataType::Date32 => (ScalarValue::Date32(Some(DAYS.0)), ScalarValue::Date32(Some(DAYS.1))),
        DataType::Timestamp(TimeUnit::Microsecond, None) => (
            ScalarValue::TimestampMicrosecond(Some(micros(DAYS.0)), None),
            ScalarValue::TimestampMicrosecond(Some(micros(DAYS.1)), None),
        ),
        // The first moments that nanoseconds can count are in weeks, months and years that begin before them.
        DataType::Timestamp(TimeUnit::Nanosecond, None) => (
            ScalarValue::TimestampNanosecond(Some(micros(DAYS.0) * 1000), None),
            ScalarValue::TimestampNanosecond(Some(micros(DAYS.1) * 1000), None),
        ),
        kind => {
            return datafusion::common::plan_err!("this is {}, not a date or timestamp", in_words(kind));
        }
    };
    let inside = value.clone().gt_eq(lit(first)).and(value.clone().lt_eq(lit(last)));
    when(inside, value).end()
}

fn natural(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(value)), _) => (0..=1 << 20).contains(value),
        Expr::Cast(Cast { expr, .. }) => natural(expr),
        Expr::TryCast(TryCast { expr, .. }) => natural(expr),
        _ => false,
    }
}

fn clamp(mut args: Vec<Expr>, schema: &DFSchema) -> Result<Expr, Refusal> {
    let bound = |arg: &Expr| match literal_number(arg) {
        Some(value) if value.is_finite() => Ok(value),
        _ => Err(Refusal::new(Code::MissingBounds, "bounds must be two finite constants").at(place_of(arg))),
    };
    let (lower, upper) = (bound(&args[1])?, bound(&args[2])?);
    if lower >= upper {
        let hint = if lower == upper { "write two numbers".into() } else { format!("write ({upper}, {lower})") };
        return Err(Refusal::new(Code::MissingBounds, "the lower bound must be below the upper one")
            .hint(hint)
            .at(place_of(&args[0])));
    }
    clamped(number(args.remove(0), schema)?, lower, upper)
}

/// `bucket(x, e1, …, en)` as a CASE with constant results, one for each range between the edges, which are public.
/// NULL stays NULL, and NaN is NULL.
fn bucket(mut args: Vec<Expr>, schema: &DFSchema) -> Result<Expr, Refusal> {
    let refuse = |message: &str, at: Option<Place>| {
        Refusal::new(Code::Unsupported, message.to_owned()).hint("write bucket(x, 18, 40, 65)").at(at)
    };
    if !(2..=MAX_ARGUMENTS).contains(&args.len()) {
        let message = format!("bucket takes a number and up to {} edges", MAX_ARGUMENTS - 1);
        return Err(refuse(&message, args.first().and_then(place_of)));
    }
    // Adding zero makes -0.0 a zero like any other.
    let value = number(args.remove(0), schema)? + lit(0.0);
    let at = place_of(&value);
    let edges: Vec<f64> = args
        .iter()
        .map(|edge| literal_number(edge).filter(|edge| edge.is_finite()))
        .collect::<Option<_>>()
        .ok_or_else(|| refuse("the edges of buckets must be finite constants", at))?;
    if edges.windows(2).any(|pair| pair[0] >= pair[1]) {
        return Err(refuse("the edges of buckets must increase", at));
    }
    // Comparisons that hold for no NaN, whichever side an engine sorts it to.
    let within = |low: f64, high: Expr| value.clone().gt_eq(lit(low)).and(high);
    let mut low = f64::NEG_INFINITY;
    let mut branches = Vec::new();
    for edge in &edges {
        let label = if low.is_finite() { format!("[{low}, {edge})") } else { format!("< {edge}") };
        branches.push((within(low, value.clone().lt(lit(*edge))), label));
        low = *edge;
    }
    branches.push((within(low, value.clone().lt_eq(lit(f64::INFINITY))), format!(">= {low}")));
    let when_then_expr = branches.into_iter().map(|(when, label)| (Box::new(when), Box::new(lit(label)))).collect();
    Ok(Expr::Case(Case { expr: None, when_then_expr, else_expr: None }))
}

/// `value` moved to the nearer bound if it lies outside; NULL stays NULL.
///
/// GREATEST and LEAST would not do: they skip NULL and would turn a missing value into a bound.
pub(crate) fn clamped(value: Expr, lower: f64, upper: f64) -> Result<Expr, Refusal> {
    when(value.clone().lt(lit(lower)), lit(lower))
        .when(value.clone().gt(lit(upper)), lit(upper))
        .otherwise(value)
        .map_err(|error| Refusal::new(Code::Type, error.strip_backtrace()))
}

/// The value of a constant, through casts and signs.
pub(super) fn literal_number(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(value)), _) => Some(*value as f64),
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => Some(*value),
        Expr::Cast(Cast { expr, .. }) => literal_number(expr),
        Expr::TryCast(TryCast { expr, .. }) => literal_number(expr),
        Expr::Negative(expr) => literal_number(expr).map(|value| -value),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }) => {
            Some(literal_number(left)? - literal_number(right)?)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, Float64Array, RecordBatch};
    use datafusion::logical_expr::col;
    use datafusion::prelude::SessionContext;

    use super::*;

    #[test]
    fn sq_09_nothing_is_divided_by_a_zero_of_either_sign() {
        let column: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, -2.0]));
        let rows = RecordBatch::try_from_iter([("x", column)]).unwrap();
        let schema = DFSchema::try_from(rows.schema()).unwrap();
        let quotients = |expr: Expr| {
            let physical = SessionContext::new().create_physical_expr(expr, &schema).unwrap();
            physical.evaluate(&rows).unwrap().into_array(3).unwrap()
        };
        let expected: ArrayRef = Arc::new(Float64Array::from(vec![None, None, Some(-0.5)]));
        assert_eq!(&quotients(total(lit(1.0) / col("x"), &schema).unwrap()), &expected);
        // The control: a quotient that only looks for the other zero.
        assert_ne!(&quotients(lit(1.0) / nullif(col("x"), lit(0.0))), &expected);
    }
}
