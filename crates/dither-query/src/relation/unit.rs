//! Whose a row is: what is computed of it, in every engine.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::functions::datetime::expr_fn::date_trunc;
use datafusion::functions::string::expr_fn::concat;
use datafusion::logical_expr::{Expr, cast, lit, try_cast};
use dither_core::UnitPeriod;

use super::Field;
use crate::bound::{canonical, column, wide};
use crate::sql::within_nanoseconds;

/// What the unit of a row of a table is: the value of a column in canonical form, or that together with the calendar
/// period of a time.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitKey {
    /// The column of the person.
    pub column: Field,
    /// The period that units are cut to, and the column of dates or moments that says in which one a row lies.
    pub period: Option<(UnitPeriod, Field)>,
}

impl UnitKey {
    /// The type of the units of a table whose unit column has this type: a text where they are pairs.
    pub(crate) fn kind(column: DataType, period: Option<UnitPeriod>) -> DataType {
        if period.is_some() { DataType::Utf8 } else { column }
    }

    /// The unit of a row that has one. Of two rows it is the same exactly if person and period are: the first day of
    /// the period is a text of ten characters, and all that comes behind it is the person.
    pub(crate) fn value(&self) -> Result<Expr> {
        let person = self.person();
        let Some((per, time)) = &self.period else { return Ok(person) };
        let text = |expr: Expr| cast(expr, DataType::LargeUtf8);
        Ok(concat(vec![text(first_day(*per, time)?), lit(" "), text(person)]))
    }

    /// Whether a row has a unit: a person, and a time from 1678 to 2261 where units are cut to periods.
    pub(crate) fn is_present(&self) -> Result<Expr> {
        let person = column(&self.column.0).is_not_null();
        match &self.period {
            None => Ok(person),
            Some((per, time)) => Ok(person.and(first_day(*per, time)?.is_not_null())),
        }
    }

    /// The person in canonical form.
    fn person(&self) -> Expr {
        let (name, kind) = &self.column;
        canonical(wide(column(name), kind), kind)
    }
}

/// The first day of the period of a time; NULL for a time that nanoseconds do not count.
fn first_day(per: UnitPeriod, (name, kind): &Field) -> Result<Expr> {
    let time = within_nanoseconds(column(name), kind)?;
    Ok(try_cast(date_trunc(lit(per.name()), time), DataType::Date32))
}
