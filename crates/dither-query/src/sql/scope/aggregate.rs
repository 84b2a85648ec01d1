//! Aggregates and their arguments in our own terms.

use datafusion::arrow::datatypes::DataType;
use datafusion::functions::math::expr_fn::isnan;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Expr, ExprSchemable, lit, when};
use dither_mechanisms::Fraction;

use super::{Scope, strip_alias};
use crate::bound::canonical;
use crate::error::{Code, Refusal};
use crate::ir::{Aggregate, AggregateKind, Argument, Over};
use crate::policy::ColumnType;
use crate::sql::interval;
use crate::sql::lower::type_refusal;
use crate::sql::total::{literal_number, number, place_of, total};

impl Scope {
    pub(in crate::sql) fn aggregate(&self, expr: Expr) -> Result<Aggregate, Refusal> {
        let name = expr.schema_name().to_string();
        let function = match strip_alias(expr) {
            Expr::AggregateFunction(function) => function,
            other => return Err(Refusal::new(Code::Unsupported, format!("`{other}` is not analysed"))),
        };
        let AggregateFunction { func, params } = function;
        let two = matches!(func.name(), "covar_pop" | "covar_samp" | "corr" | "percentile_cont");
        if !params.order_by.is_empty() || params.null_treatment.is_some() || params.args.len() != 1 + usize::from(two) {
            let message = format!("this form of `{}` is not analysed", func.name());
            return Err(Refusal::new(Code::Unsupported, message).at(params.args.first().and_then(place_of)));
        }
        let mut arguments = params.args.into_iter();
        let argument = self.resolved(arguments.next().unwrap_or_else(|| lit(1_i64)))?;
        let condition = params.filter.map(|filter| *filter);
        let kind = match (func.name(), params.distinct) {
            ("count", true) => return self.count_distinct(name, argument, condition),
            ("count", false) => return self.count(name, argument, condition),
            ("sum", false) => AggregateKind::Sum,
            ("avg", false) => AggregateKind::Mean,
            ("var_pop", false) => AggregateKind::Variance(Over::Population),
            ("var_samp", false) => AggregateKind::Variance(Over::Sample),
            ("stddev_pop", false) => AggregateKind::Deviation(Over::Population),
            ("stddev_samp", false) => AggregateKind::Deviation(Over::Sample),
            ("covar_pop", false) => AggregateKind::Covariance(Over::Population),
            ("covar_samp", false) => AggregateKind::Covariance(Over::Sample),
            ("corr", false) => AggregateKind::Correlation,
            ("min", false) => AggregateKind::Quantile(Fraction::LEAST),
            ("median", false) => AggregateKind::Quantile(Fraction::MEDIAN),
            ("max", false) => AggregateKind::Quantile(Fraction::GREATEST),
            ("percentile_cont", false) => {
                let fraction = arguments.next().as_ref().and_then(literal_number).and_then(Fraction::new);
                AggregateKind::Quantile(fraction.ok_or_else(|| {
                    Refusal::new(Code::Unsupported, "the fraction of a quantile must be a constant from 0 to 1")
                        .hint("write PERCENTILE_CONT(x, 0.5)")
                        .at(place_of(&argument))
                })?)
            }
            (other, _) => {
                return Err(Refusal::new(Code::UnknownFunction, format!("the aggregate `{other}` is not offered")));
            }
        };
        let argument = Some(self.bounded(kind, argument, condition.clone())?);
        let second =
            arguments.next().map(|second| self.bounded(kind, self.resolved(second)?, condition)).transpose()?;
        Ok(Aggregate { kind, argument, second, name })
    }

    /// The number of units where the unit is counted, the number of different values otherwise.
    fn count_distinct(&self, name: String, argument: Expr, condition: Option<Expr>) -> Result<Aggregate, Refusal> {
        let at = place_of(&argument);
        let unit = match strip_alias(argument.clone()) {
            Expr::Column(column) => self.units.contains(&column.name),
            _ => false,
        };
        if unit && self.periods {
            return self.count_people(name, argument, condition);
        }
        if unit && condition.is_some() {
            return Err(Refusal::new(Code::Unsupported, "FILTER is not analysed for COUNT(DISTINCT unit)")
                .hint("move the condition to WHERE")
                .at(at));
        }
        if unit {
            return Ok(Aggregate { kind: AggregateKind::CountUnits, argument: None, second: None, name });
        }
        let value = self.value_type(total(argument, &self.schema)?)?;
        let kind = value.get_type(&self.schema).map_err(|error| type_refusal(&error))?;
        let expr = self.where_true(self.substitute(value)?, condition)?;
        let argument = Argument::counted(expr, &name, "a row brings one value at most", kind);
        Ok(Aggregate { kind: AggregateKind::CountDistinct, argument: Some(argument), second: None, name })
    }

    /// The number of people, where a unit is what one of them has within a period: of all the rows of a unit it counts
    /// one value, which is the person in canonical form.
    fn count_people(&self, name: String, argument: Expr, condition: Option<Expr>) -> Result<Aggregate, Refusal> {
        let argument = self.substitute(argument)?;
        let kind = argument.get_type(&self.schema).map_err(|error| type_refusal(&error))?;
        let expr = self.where_true(canonical(argument, &kind), condition)?;
        let argument = Argument::counted(expr, &name, "a unit brings one person at most", kind);
        Ok(Aggregate { kind: AggregateKind::CountPeople, argument: Some(argument), second: None, name })
    }

    /// A value in a type whose values can be told apart: NaN is no value, and -0.0 and 0.0 are one.
    fn value_type(&self, expr: Expr) -> Result<Expr, Refusal> {
        let value = self.key_type(expr)?;
        match value.get_type(&self.schema).map_err(|error| type_refusal(&error))? {
            DataType::Float64 => {
                let number = isnan(value.clone()).is_false();
                when(number, value).end().map_err(|error| type_refusal(&error))
            }
            _ => Ok(value),
        }
    }

    fn count(&self, name: String, argument: Expr, condition: Option<Expr>) -> Result<Aggregate, Refusal> {
        if condition.is_none() && matches!(&argument, Expr::Literal(value, _) if !value.is_null()) {
            return Ok(Aggregate { kind: AggregateKind::CountRows, argument: None, second: None, name });
        }
        let value = total(argument, &self.schema)?;
        let counted = match number(value.clone(), &self.schema) {
            Ok(value) => Some(self.where_true(self.substitute(value)?, condition.clone())?),
            Err(_) => None,
        };
        let present = when(self.substitute(value)?.is_not_null(), lit(1.0)).end();
        let expr = self.where_true(present.map_err(|error| type_refusal(&error))?, condition)?;
        let argument = Argument::counted(expr, &name, "a row counts once", DataType::Float64);
        let argument = Argument { counted, ..argument };
        Ok(Aggregate { kind: AggregateKind::CountValues, argument: Some(argument), second: None, name })
    }

    /// An argument whose values are numbers with bounds.
    fn bounded(&self, kind: AggregateKind, argument: Expr, condition: Option<Expr>) -> Result<Argument, Refusal> {
        let at = place_of(&argument);
        let written = crate::explain::readable(&argument.schema_name().to_string());
        let expr = number(total(argument, &self.schema)?, &self.schema)?;
        let columns = self.columns();
        let bare = match interval::strip(&expr) {
            Expr::Column(column) => columns.get(column.name()).map(|policy| (column.name(), *policy)),
            _ => None,
        };
        let found = bare.filter(|(_, policy)| policy.approx_bounds && policy.bounds.is_none());
        let two = matches!(kind, AggregateKind::Covariance(_) | AggregateKind::Correlation);
        if let Some((column, policy)) = found.filter(|_| !two) {
            let origin = match kind {
                AggregateKind::Quantile(_) => {
                    format!("column `{column}` has no bounds: values of any magnitude from 2^-20 to 2^63")
                }
                _ => format!("column `{column}` has no bounds: they are found from the data of all groups, and shown"),
            };
            let (typical, whole) = (policy.typical, policy.r#type == ColumnType::Integer);
            let expr = self.where_true(self.substitute(expr)?, condition)?;
            let kind = if whole { DataType::Int64 } else { DataType::Float64 };
            let is_column = true;
            return Ok(Argument {
                expr,
                bounds: None,
                approx: true,
                written,
                is_column,
                origin,
                typical,
                counted: None,
                kind,
            });
        }
        let bounds = interval::bounds(&expr, &columns).ok_or_else(|| {
            let declared = bare.and_then(|(column, policy)| Some((self.declared.get(column)?, policy)));
            let hint = match declared {
                Some((column, policy)) if policy.approx_bounds => format!(
                    "declare `bounds` of column `{column}` in the policy: its `approx_bounds` serves aggregates of one value"
                ),
                Some((column, _)) => format!("declare `bounds` of column `{column}` in the policy"),
                // What a sub-query computes has no place in the policy.
                None if bare.is_some() && !two => format!(
                    "state how large it can be: {}({written}, contribution_bounds_per_row => (lower, upper))",
                    kind.sql()
                ),
                None if bare.is_some() => "ask about columns with `bounds` in the policy".into(),
                None => "declare bounds of its columns, or write contribution_bounds_per_row => (lower, upper)".into(),
            };
            let message = match kind {
                AggregateKind::Covariance(_) | AggregateKind::Correlation => {
                    format!("`{written}` in `{}` has no bounds, so one row could move it without limit", kind.sql())
                }
                AggregateKind::Quantile(_) => {
                    format!("`{}({written})` has no bounds, between which its answers could lie", kind.sql())
                }
                _ => format!("`{}({written})` has no bounds, so one row could move it without limit", kind.sql()),
            };
            Refusal::new(Code::MissingBounds, message).hint(hint).at(at)
        })?;
        let origin = match bare {
            Some((column, policy)) => {
                let [lower, upper] = policy.bounds.unwrap_or_default();
                format!("bounds of column `{column}`: [{lower}, {upper}]")
            }
            None => "derived from the bounds in the expression".into(),
        };
        let (typical, is_column) = (bare.and_then(|(_, policy)| policy.typical), bare.is_some());
        let expr = self.where_true(self.substitute(expr)?, condition)?;
        Ok(Argument {
            expr,
            bounds: Some(bounds),
            approx: false,
            written,
            is_column,
            origin,
            typical,
            counted: None,
            kind: DataType::Float64,
        })
    }
}
