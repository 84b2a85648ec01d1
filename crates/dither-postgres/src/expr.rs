//! Row-local expressions as PostgreSQL writes them: the same value for every row, and no error for any.
//!
//! A list of what is known; the rest is refused before anything is charged.

mod cast;
mod function;
mod literal;

use std::cell::Cell;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::DFSchema;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::{Alias, Between, Case, InList, Like};
use datafusion::logical_expr::{BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator};
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;
use dither_query::{Code, Refusal};

use crate::fact::Fact;

pub(crate) use literal::{identifier, quoted};

/// What cannot be written.
pub(crate) fn refusal(message: impl Into<String>) -> Refusal {
    Refusal::new(Code::Unsupported, message.into()).hint("write it in another way, or ask without --engine")
}

pub(crate) fn unplanned(_: DataFusionError) -> Refusal {
    refusal("the plan of this question cannot be written for PostgreSQL")
}

/// What an expression is in SQL.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub sql: String,
    pub kind: DataType,
    pub fact: Fact,
}

/// What types have in common. All integers are `bigint`, all texts are in the collation "C".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Whole,
    Decimal,
    Float,
    Text,
    Boolean,
    Date,
    Moment,
    Bytes,
}

/// The family of a type.
pub(crate) fn family(kind: &DataType) -> Result<Family, Refusal> {
    Ok(match kind {
        kind if kind.is_integer() => Family::Whole,
        DataType::Decimal128(_, 0) => Family::Decimal,
        DataType::Float64 => Family::Float,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Family::Text,
        DataType::Boolean => Family::Boolean,
        DataType::Date32 => Family::Date,
        DataType::Timestamp(_, None) => Family::Moment,
        DataType::Binary => Family::Bytes,
        other => return Err(refusal(format!("values of the type {other} are not known to PostgreSQL"))),
    })
}

impl Family {
    /// The type in PostgreSQL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Whole => "bigint",
            Self::Decimal => "numeric",
            Self::Float => "float8",
            Self::Text => "text",
            Self::Boolean => "boolean",
            Self::Date => "date",
            Self::Moment => "timestamp",
            Self::Bytes => "bytea",
        }
    }
}

/// Texts in the order of their bytes, which is that of their characters.
pub(crate) fn by_bytes(sql: &str) -> String {
    format!("({sql} COLLATE \"C\")")
}

/// The columns that an expression may use, and what it must not show.
pub(crate) struct Scope<'a> {
    pub schema: &'a DFSchema,
    /// At the places of the schema: how each column is written, and what is known of it.
    pub columns: Vec<(String, Fact)>,
    /// The secret of the request. Where a text begins with it, a parameter stands.
    pub secret: &'a str,
    /// Whether it was used.
    pub secret_used: &'a Cell<bool>,
    /// For constants.
    pub context: &'a SessionContext,
}

impl Scope<'_> {
    /// Writes an expression.
    pub(crate) fn write(&self, expr: &Expr) -> Result<Written, Refusal> {
        let kind = || expr.get_type(self.schema).map_err(unplanned);
        let logical = |sql: String| Ok(Written { sql, kind: DataType::Boolean, fact: Fact::WHOLE });
        let of = |expr: &Expr| self.write(expr).map(|written| written.sql);
        match expr {
            Expr::Alias(Alias { expr, .. }) => self.write(expr),
            Expr::Column(column) => {
                let place = self.schema.index_of_column(column).map_err(unplanned)?;
                let (sql, fact) = self.columns.get(place).cloned().ok_or_else(|| refusal("a column is missing"))?;
                Ok(Written { sql, kind: kind()?, fact })
            }
            Expr::Literal(value, _) => self.literal(value),
            constant if is_constant(constant) => self.literal(&self.value(constant)?),
            Expr::BinaryExpr(binary) => self.binary(binary),
            Expr::Not(expr) => logical(format!("(NOT {})", of(expr)?)),
            Expr::IsNull(expr) => logical(format!("({} IS NULL)", of(expr)?)),
            Expr::IsNotNull(expr) => logical(format!("({} IS NOT NULL)", of(expr)?)),
            Expr::IsTrue(expr) => logical(format!("({} IS TRUE)", of(expr)?)),
            Expr::IsFalse(expr) => logical(format!("({} IS FALSE)", of(expr)?)),
            Expr::IsUnknown(expr) => logical(format!("({} IS UNKNOWN)", of(expr)?)),
            Expr::IsNotTrue(expr) => logical(format!("({} IS NOT TRUE)", of(expr)?)),
            Expr::IsNotFalse(expr) => logical(format!("({} IS NOT FALSE)", of(expr)?)),
            Expr::IsNotUnknown(expr) => logical(format!("({} IS NOT UNKNOWN)", of(expr)?)),
            Expr::Between(Between { expr, negated, low, high }) => {
                let (value, low, high) = (self.write(expr)?, self.write(low)?, self.write(high)?);
                let low = compared(&value, Operator::GtEq, &low)?.sql;
                let high = compared(&value, Operator::LtEq, &high)?.sql;
                logical(format!("({}({low} AND {high}))", if *negated { "NOT " } else { "" }))
            }
            Expr::InList(InList { expr, list, negated }) => {
                let value = self.write(expr)?;
                let mut items = Vec::with_capacity(list.len());
                for item in list {
                    let item = self.write(item)?;
                    same_family(&value, &item)?;
                    items.push(item.sql);
                }
                let not = if *negated { "NOT " } else { "" };
                logical(format!("({} {not}IN ({}))", value.sql, items.join(", ")))
            }
            Expr::Like(like) => self.like(like),
            Expr::Case(case) => self.case(case, kind()?),
            Expr::Cast(cast) => self.cast(&cast.expr, cast.field.data_type()),
            Expr::TryCast(cast) => self.cast(&cast.expr, cast.field.data_type()),
            Expr::ScalarFunction(function) => self.function(function, kind()?),
            other => Err(refusal(format!("`{other}` is not known to PostgreSQL"))),
        }
    }

    fn binary(&self, BinaryExpr { left, op, right }: &BinaryExpr) -> Result<Written, Refusal> {
        let (a, b) = (self.write(left)?, self.write(right)?);
        let families = (family(&a.kind)?, family(&b.kind)?);
        let fact = match (op, families) {
            (Operator::And | Operator::Or, (Family::Boolean, Family::Boolean)) => Fact::WHOLE,
            (Operator::StringConcat, (Family::Text, Family::Text)) => Fact::WHOLE,
            (Operator::Plus, (Family::Float, Family::Float)) => a.fact.plus(b.fact)?,
            (Operator::Minus, (Family::Float, Family::Float)) => a.fact.minus(b.fact)?,
            (Operator::Multiply, (Family::Float, Family::Float)) => a.fact.times(b.fact)?,
            (Operator::Divide, (Family::Float, Family::Float)) if is_not_zero(right) => a.fact.over(b.fact)?,
            // Exact on both sides: decimals are the plan's own, which keeps what is made of them below 38 digits.
            (Operator::Plus | Operator::Minus | Operator::Multiply, (Family::Decimal, Family::Decimal)) => {
                let kind = DataType::Decimal128(38, 0);
                return Ok(Written { sql: format!("({} {op} {})", a.sql, b.sql), fact: Fact::of(&kind), kind });
            }
            _ => return compared(&a, *op, &b),
        };
        Ok(Written { sql: format!("({} {op} {})", a.sql, b.sql), kind: a.kind, fact })
    }

    fn like(&self, like: &Like) -> Result<Written, Refusal> {
        let pattern = self.text(&like.pattern)?;
        // Before the end of a text, and before letters, a backslash means different things.
        if like.case_insensitive || like.escape_char.is_some() || pattern.contains('\\') {
            return Err(refusal("this form of LIKE gives other values in PostgreSQL"));
        }
        let (value, pattern) = (self.write(&like.expr)?, self.write(&like.pattern)?);
        same_family(&value, &pattern)?;
        let not = if like.negated { "NOT " } else { "" };
        let sql = format!("({} {not}LIKE {})", value.sql, pattern.sql);
        Ok(Written { sql, kind: DataType::Boolean, fact: Fact::WHOLE })
    }

    fn case(&self, case: &Case, kind: DataType) -> Result<Written, Refusal> {
        let base = case.expr.as_ref().map(|expr| self.write(expr)).transpose()?;
        let wanted = family(&kind)?;
        let mut fact = Fact::NULL;
        let mut sql = String::from("(CASE");
        for (condition, then) in &case.when_then_expr {
            // No number of a database is NaN.
            if base.is_none() && is_nan_of(condition).is_some() {
                continue;
            }
            let condition = match &base {
                Some(base) => compared(base, Operator::Eq, &self.write(condition)?)?.sql,
                None => match clamps(condition, then, case.else_expr.as_deref()) {
                    Some((value, op, bound)) => format!("({} {op} {})", self.write(value)?.sql, self.write(bound)?.sql),
                    None => self.write(condition)?.sql,
                },
            };
            let then = self.branch(then, wanted)?;
            fact = fact.or(then.fact);
            sql += &format!(" WHEN {condition} THEN {}", then.sql);
        }
        let last = match &case.else_expr {
            Some(other) => {
                let mut written = self.branch(other, wanted)?;
                if let Some(most) = clamped_to(case, other) {
                    written.fact = written.fact.within(most);
                }
                written
            }
            None => Written { sql: format!("NULL::{}", wanted.name()), kind: kind.clone(), fact: Fact::NULL },
        };
        let fact = fact.or(last.fact);
        let sql = if sql == "(CASE" { last.sql } else { format!("{sql} ELSE {} END)", last.sql) };
        Ok(Written { sql, kind, fact })
    }

    /// A branch, which must be of the family of the whole; NULL is of every one.
    fn branch(&self, expr: &Expr, wanted: Family) -> Result<Written, Refusal> {
        if let Expr::Literal(value, _) = expr
            && value.is_null()
        {
            let sql = format!("NULL::{}", wanted.name());
            return Ok(Written { sql, kind: value.data_type(), fact: Fact::NULL });
        }
        let written = self.write(expr)?;
        match family(&written.kind)? == wanted {
            true => Ok(written),
            false => Err(refusal("the branches of a CASE have different types")),
        }
    }

    /// The value of an expression without columns, as this process computes it.
    fn value(&self, expr: &Expr) -> Result<ScalarValue, Refusal> {
        let physical = self.context.create_physical_expr(expr.clone(), &DFSchema::empty()).map_err(unplanned)?;
        let one = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(Schema::empty().into(), Vec::new(), &one);
        match physical.evaluate(&row.map_err(|error| unplanned(error.into()))?).map_err(unplanned)? {
            ColumnarValue::Scalar(value) => Ok(value),
            ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0).map_err(unplanned),
        }
    }
}

fn is_constant(expr: &Expr) -> bool {
    !expr.any_column_refs()
}

/// Whether a divisor is a constant other than zero, or NULL where it would be zero.
fn is_not_zero(expr: &Expr) -> bool {
    let zero = |expr: &Expr| matches!(expr, Expr::Literal(ScalarValue::Float64(Some(value)), _) if *value == 0.0);
    match expr {
        Expr::Literal(ScalarValue::Float64(value), _) => *value != Some(0.0),
        Expr::ScalarFunction(function) => function.func.name() == "nullif" && function.args.get(1).is_some_and(zero),
        _ => false,
    }
}

/// The argument of `isnan`.
fn is_nan_of(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::ScalarFunction(function) if function.func.name() == "isnan" => function.args.first(),
        _ => None,
    }
}

/// The parts of `WHEN x < b THEN b … ELSE x`, for floats. Where x is -0 and b is 0 one engine gives b and the other x: a
/// zero, of whichever sign, which is known of x anyway.
fn clamps<'a>(condition: &'a Expr, then: &Expr, last: Option<&Expr>) -> Option<(&'a Expr, Operator, &'a Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Lt | Operator::Gt), right }) = condition else {
        return None;
    };
    let bound = matches!(right.as_ref(), Expr::Literal(ScalarValue::Float64(Some(_)), _)) && right.as_ref() == then;
    (bound && Some(left.as_ref()) == last).then_some((left, *op, right))
}

/// The larger bound of `CASE WHEN x < lower THEN … WHEN x > upper THEN … ELSE x END` in absolute value.
fn clamped_to(case: &Case, last: &Expr) -> Option<f64> {
    let bound = |wanted: Operator| {
        case.when_then_expr.iter().find_map(|(condition, _)| match condition.as_ref() {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if *op == wanted && left.as_ref() == last => {
                match right.as_ref() {
                    Expr::Literal(ScalarValue::Float64(Some(bound)), _) => Some(bound.abs()),
                    _ => None,
                }
            }
            _ => None,
        })
    };
    Some(bound(Operator::Lt)?.max(bound(Operator::Gt)?))
}

/// Both values are of one family, and neither is a zero that one engine orders and the other does not.
pub(crate) fn same_family(a: &Written, b: &Written) -> Result<Family, Refusal> {
    let (first, second) = (family(&a.kind)?, family(&b.kind)?);
    if first != second {
        return Err(refusal(format!("{} and {} do not compare in PostgreSQL", a.kind, b.kind)));
    }
    if (a.fact.minus_zero && !b.fact.not_zero) || (b.fact.minus_zero && !a.fact.not_zero) {
        return Err(refusal("a product, a quotient or a rounded number may be -0, which PostgreSQL takes for 0")
            .hint("add 0 to it, as in x * y + 0, or ask without --engine"));
    }
    Ok(first)
}

/// A comparison, which has no other result than in this process.
pub(crate) fn compared(a: &Written, op: Operator, b: &Written) -> Result<Written, Refusal> {
    let known = matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    );
    if !known {
        return Err(refusal(format!("the operator `{op}` gives other values in PostgreSQL")));
    }
    let left = match same_family(a, b)? {
        Family::Text => by_bytes(&a.sql),
        _ => a.sql.clone(),
    };
    let op = if op == Operator::NotEq { "<>".to_owned() } else { op.to_string() };
    let sql = format!("({left} {op} {})", b.sql);
    Ok(Written { sql, kind: DataType::Boolean, fact: Fact::WHOLE })
}
