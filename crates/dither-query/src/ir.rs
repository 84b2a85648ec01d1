//! The question in our own terms: a relation, a row filter, group keys, aggregates, and what is done afterwards.
//!
//! Everything below [`Question::outer`] is row-local and total; everything in it sees released values only.

use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::{Expr, LogicalPlan};
use dither_core::{Key, ValueBounds};
use dither_mechanisms::Fraction;

use crate::relation::Relation;

/// A validated question.
#[derive(Debug, Clone)]
pub struct Question {
    /// The text in canonical form: two questions with the same one are the same.
    pub canonical: String,
    /// The first table of people, by its name in the policy: its contribution bounds hold.
    pub table: String,
    /// Where the rows come from.
    pub relation: Relation,
    /// Row-local conditions, all of which must hold.
    pub filters: Vec<Expr>,
    /// What to group by, in order.
    pub keys: Vec<GroupKey>,
    /// What to measure, in order.
    pub aggregates: Vec<Aggregate>,
    /// What is done with the released table.
    pub outer: Outer,
    /// What is odd about the text, from the policy alone.
    pub warnings: Vec<String>,
}

/// One group key.
#[derive(Debug, Clone)]
pub struct GroupKey {
    /// The row-local expression.
    pub expr: Expr,
    /// As people wrote it.
    pub name: String,
    /// The type of its values.
    pub kind: DataType,
    /// Where its values come from.
    pub domain: Domain,
}

/// Where the values of a group key come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Domain {
    /// A public list: exactly these groups are in the answer, whether anybody is in them or not.
    Public(Vec<Key>),
    /// The data: a group is in the answer if enough units are in it.
    Private,
}

impl Domain {
    /// The public values.
    pub fn public(&self) -> Option<&[Key]> {
        match self {
            Self::Public(keys) => Some(keys),
            Self::Private => None,
        }
    }
}

/// One aggregate.
#[derive(Debug, Clone)]
pub struct Aggregate {
    /// What is measured.
    pub kind: AggregateKind,
    /// The row-local argument, if there is one.
    pub argument: Option<Argument>,
    /// The second argument of a covariance or a correlation.
    pub second: Option<Argument>,
    /// As people wrote it.
    pub name: String,
}

/// The argument of a sum, a mean or a count of values.
#[derive(Debug, Clone, PartialEq)]
pub struct Argument {
    /// The expression; a float where it is summed.
    pub expr: Expr,
    /// The bounds that its values are clamped to; a count of values needs none.
    pub bounds: Option<ValueBounds>,
    /// Whether its values have no bounds and the policy allows to find some from the data, for a share of ε.
    pub approx: bool,
    /// As people wrote it.
    pub written: String,
    /// Whether it is a column as it is, of a table or of a sub-query.
    pub is_column: bool,
    /// Where the bounds came from, in words.
    pub origin: String,
    /// A public typical value, for errors in percent.
    pub typical: Option<f64>,
    /// For a count of values: the values that are counted, if they are numbers.
    pub counted: Option<Expr>,
    /// The type of the values; a float where they are summed, but for whole numbers whose bounds are found.
    pub kind: DataType,
}

impl Argument {
    /// What is counted and not added up, so that it needs no bounds.
    pub fn counted(expr: Expr, written: &str, origin: &str, kind: DataType) -> Self {
        let (written, origin) = (written.to_owned(), origin.to_owned());
        Self {
            expr,
            bounds: None,
            approx: false,
            written,
            is_column: false,
            origin,
            typical: None,
            counted: None,
            kind,
        }
    }
}

/// What an aggregate measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AggregateKind {
    /// The number of rows.
    CountRows,
    /// The number of rows whose argument is not NULL.
    CountValues,
    /// The number of units.
    CountUnits,
    /// The number of people, where a unit is what one of them has within a period.
    CountPeople,
    /// The number of different values.
    CountDistinct,
    /// The sum of the bounded values.
    Sum,
    /// The mean of the bounded values.
    Mean,
    /// The variance of the bounded values.
    Variance(Over),
    /// The standard deviation of the bounded values.
    Deviation(Over),
    /// The covariance of two bounded values.
    Covariance(Over),
    /// The correlation of two bounded values.
    Correlation,
    /// A quantile of the bounded values; the least and the greatest are ones.
    Quantile(Fraction),
}

/// What squares are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// The number of values: the variance of the rows themselves.
    Population,
    /// One less: an estimate of the variance of what the rows were drawn from.
    Sample,
}

impl AggregateKind {
    /// Its name in SQL.
    pub fn sql(self) -> &'static str {
        match self {
            Self::CountRows | Self::CountValues | Self::CountUnits | Self::CountPeople | Self::CountDistinct => "COUNT",
            Self::Sum => "SUM",
            Self::Mean => "AVG",
            Self::Variance(Over::Population) => "VAR_POP",
            Self::Variance(Over::Sample) => "VAR_SAMP",
            Self::Deviation(Over::Population) => "STDDEV_POP",
            Self::Deviation(Over::Sample) => "STDDEV_SAMP",
            Self::Covariance(Over::Population) => "COVAR_POP",
            Self::Covariance(Over::Sample) => "COVAR_SAMP",
            Self::Correlation => "CORR",
            Self::Quantile(Fraction::LEAST) => "MIN",
            Self::Quantile(Fraction::GREATEST) => "MAX",
            Self::Quantile(Fraction::MEDIAN) => "MEDIAN",
            Self::Quantile(_) => "PERCENTILE_CONT",
        }
    }
}

/// The part of the query above its aggregation, to be run on the released table.
#[derive(Debug, Clone)]
pub struct Outer {
    /// The plan as it was parsed, down to and including the aggregation.
    pub plan: LogicalPlan,
}
