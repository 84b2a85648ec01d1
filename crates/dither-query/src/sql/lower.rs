//! The unoptimised plan to our own terms. Every node and every expression that is not known is refused.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef, DataFusionError};
use datafusion::execution::context::SessionState;
use datafusion::functions::math::expr_fn::isnan;
use datafusion::logical_expr::expr::{AggregateFunction, Alias};
use datafusion::logical_expr::logical_plan::Aggregate as AggregateNode;
use datafusion::logical_expr::{
    EmptyRelation, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, lit, try_cast, when,
};
use datafusion::optimizer::analyzer::Analyzer;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::scalar::ScalarValue;
use dither_mechanisms::Fraction;

use super::calendar;
use super::catalog::full_schema;
use super::from::{Input, Reader};
use super::interval;
use super::keys;
use super::total::{literal_number, number, place_of, total};
use super::width;
use crate::bound::canonical;
use crate::error::{Code, Refusal};
use crate::ir::{Aggregate, AggregateKind, Argument, Domain, GroupKey, Outer, Over, Question};
use crate::policy::{ColumnPolicy, ColumnType, Policy, TablePolicy};
use crate::source::arrow_type;

/// Walks a plan into a question.
pub(super) fn question(
    plan: LogicalPlan,
    canonical: String,
    policy: &Policy,
    state: &SessionState,
) -> Result<Question, Refusal> {
    let aggregate = aggregation(&plan)?;
    let aggregate = coerce(LogicalPlan::Aggregate(aggregate.clone()), state)?;
    let LogicalPlan::Aggregate(aggregate) = aggregate else {
        return Err(Refusal::new(Code::Unsupported, "the aggregation is not analysed"));
    };
    let AggregateNode { input, group_expr, aggr_expr, .. } = aggregate;
    let (below, conditions) = conditions(&input);
    let input = Reader { policy, state }.input(below)?;
    let table = input.relation.first_table().map(str::to_owned).ok_or_else(|| {
        Refusal::new(Code::Unsupported, "the question is about public tables only, which need no protection")
            .hint("read them as they are, or join them with a table of people")
    })?;
    if !input.relation.is_unit_stable() {
        return Err(Refusal::new(Code::NotUnitStable, "the rows of this question do not belong to one unit each")
            .hint("join tables of people on their privacy unit"));
    }
    let scope = Scope::new(&input, below.schema())?;
    let filters = conditions.into_iter().map(|condition| scope.row_local(condition)).collect::<Result<_, _>>()?;
    let keys = group_expr.into_iter().map(|expr| scope.key(expr)).collect::<Result<_, _>>()?;
    let aggregates = aggr_expr.into_iter().map(|expr| scope.aggregate(expr)).collect::<Result<Vec<_>, _>>()?;
    if aggregates.is_empty() {
        return Err(not_aggregated("the question groups but measures nothing"));
    }
    Ok(Question {
        canonical,
        table,
        relation: input.relation,
        filters,
        keys,
        aggregates,
        outer: Outer { plan },
        warnings: Vec::new(),
    })
}

fn not_aggregated(message: &str) -> Refusal {
    Refusal::new(Code::NotAggregated, message)
        .hint("ask for an aggregate such as COUNT(*), SUM or AVG; rows are never shown")
}

/// The aggregation below the nodes that will see released values only.
fn aggregation(plan: &LogicalPlan) -> Result<&AggregateNode, Refusal> {
    match plan {
        LogicalPlan::Aggregate(aggregate) => Ok(aggregate),
        LogicalPlan::Projection(node) => aggregation(&node.input),
        LogicalPlan::Filter(node) => aggregation(&node.input),
        LogicalPlan::Sort(node) => aggregation(&node.input),
        LogicalPlan::Limit(node) => aggregation(&node.input),
        LogicalPlan::TableScan(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Join(_) | LogicalPlan::Union(_) => {
            Err(not_aggregated("the question would show rows as they are"))
        }
        LogicalPlan::Window(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::EmptyRelation(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::Statement(_)
        | LogicalPlan::Values(_)
        | LogicalPlan::Explain(_)
        | LogicalPlan::Analyze(_)
        | LogicalPlan::Extension(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Dml(_)
        | LogicalPlan::Ddl(_)
        | LogicalPlan::Copy(_)
        | LogicalPlan::DescribeTable(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::RecursiveQuery(_) => Err(unknown_node(plan)),
    }
}

pub(super) fn unknown_node(plan: &LogicalPlan) -> Refusal {
    let kind = plan.display().to_string();
    let kind = kind.split([':', ' ']).next().unwrap_or("this").to_owned();
    Refusal::new(Code::Unsupported, format!("`{kind}` is not analysed"))
        .hint("use JOIN, UNION ALL, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT")
}

/// The relation below the aggregation and the conditions on its rows.
fn conditions(plan: &LogicalPlan) -> (&LogicalPlan, Vec<Expr>) {
    match plan {
        LogicalPlan::Filter(filter) => {
            let (below, mut conditions) = conditions(&filter.input);
            conditions.push(filter.predicate.clone());
            (below, conditions)
        }
        other => (other, Vec::new()),
    }
}

pub(super) fn type_refusal(error: &DataFusionError) -> Refusal {
    let text = error.find_root().strip_backtrace();
    let text = text.strip_prefix("Error during planning: ").unwrap_or(&text);
    super::not_numbers(text).unwrap_or_else(|| Refusal::new(Code::Type, text.lines().next().unwrap_or_default()))
}

/// Makes the types of both sides of every operator equal, as the engine would.
fn coerce(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan, Refusal> {
    Analyzer::with_rules(vec![Arc::new(TypeCoercion::new())])
        .execute_and_check(plan, state.config_options(), |_, _| {})
        .map_err(|error| type_refusal(&error))
}

/// The computed columns of a table, in terms of those of its file.
pub(super) fn computed_columns(table: &TablePolicy, state: &SessionState) -> Result<HashMap<String, Expr>, Refusal> {
    let mut computed = HashMap::new();
    for (name, column) in &table.columns {
        if let Some(text) = &column.expression {
            let refused = |refusal: Refusal| Refusal {
                hint: Some(format!("correct the `expression` of column `{name}` in the policy")),
                in_policy: true,
                ..Refusal::new(refusal.code, format!("the computed column `{name}`: {}", refusal.message))
            };
            let expr = computed_column(table, text, state).map_err(refused)?;
            computed.insert(name.clone(), try_cast(expr, arrow_type(column.r#type)));
        }
    }
    Ok(computed)
}

/// Plans the expression of a computed column against the columns of the file.
fn computed_column(table: &TablePolicy, text: &str, state: &SessionState) -> Result<Expr, Refusal> {
    let refused = |error: DataFusionError| type_refusal(&error);
    let full = full_schema(table);
    let fields = full.fields().iter().filter(|field| table.columns[field.name()].expression.is_none());
    let file = Schema::new(fields.cloned().collect::<Vec<_>>());
    let rows = LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: false,
        schema: Arc::new(DFSchema::try_from(file).map_err(refused)?),
    });
    let expr = state.create_logical_expr(text, rows.schema()).map_err(refused)?;
    let plan = LogicalPlanBuilder::from(rows).project([expr]).and_then(|builder| builder.build());
    match coerce(plan.map_err(refused)?, state)? {
        LogicalPlan::Projection(projection) => {
            let expr = projection.expr.into_iter().next();
            let schema = DFSchema::try_from(full).map_err(refused)?;
            total(unqualified(expr.unwrap_or_else(|| lit(ScalarValue::Null)))?, &schema)
        }
        other => Err(unknown_node(&other)),
    }
}

/// The columns that a row-local expression may use.
pub(super) struct Scope {
    /// What is known of each, by its name in the relation.
    known: BTreeMap<String, ColumnPolicy>,
    pub(super) schema: DFSchema,
    /// The computed columns, by name, in terms of those of the file.
    computed: HashMap<String, Expr>,
    /// The names that tables of the policy declare columns under, by those in the relation.
    declared: BTreeMap<String, String>,
    /// The columns that are the privacy unit of their row, or its person where units are cut to periods.
    units: Vec<String>,
    /// Whether units are cut to periods.
    periods: bool,
    /// The planner's columns, and at the same places their names in the relation.
    planned: (DFSchemaRef, Vec<String>),
}

impl Scope {
    pub(super) fn new(input: &Input, planned: &DFSchemaRef) -> Result<Self, Refusal> {
        let columns = &input.columns;
        Ok(Self {
            known: columns.iter().map(|column| (column.name.clone(), column.policy.clone())).collect(),
            schema: Self::schema_of(input)?.as_ref().clone(),
            computed: columns
                .iter()
                .filter_map(|column| Some((column.name.clone(), column.computed.clone()?)))
                .collect(),
            declared: columns
                .iter()
                .filter_map(|column| Some((column.name.clone(), column.declared()?.to_owned())))
                .collect(),
            units: columns.iter().filter(|column| column.unit).map(|column| column.name.clone()).collect(),
            periods: input.root.as_ref().is_some_and(|root| root.period().is_some()),
            planned: (Arc::clone(planned), columns.iter().map(|column| column.name.clone()).collect()),
        })
    }

    /// The columns with their names in the relation.
    pub(super) fn schema_of(input: &Input) -> Result<DFSchemaRef, Refusal> {
        let fields = input.columns.iter().map(|column| Field::new(&column.name, column.kind.clone(), true));
        let schema = DFSchema::try_from(Schema::new(fields.collect::<Vec<_>>()));
        schema.map(Arc::new).map_err(|error| type_refusal(&error))
    }

    /// What is known of every column, by name.
    pub(super) fn columns(&self) -> HashMap<&str, &ColumnPolicy> {
        self.known.iter().map(|(name, policy)| (name.as_str(), policy)).collect()
    }

    /// What is known of an expression that is a column.
    pub(super) fn known(&self, expr: &Expr) -> Option<&ColumnPolicy> {
        match expr {
            Expr::Column(column) => self.known.get(&column.name),
            _ => None,
        }
    }

    pub(super) fn type_of(&self, expr: &Expr) -> Result<DataType, Refusal> {
        expr.get_type(&self.schema).map_err(|error| type_refusal(&error))
    }

    /// The expression in the relation's names of its columns.
    pub(super) fn resolved(&self, expr: Expr) -> Result<Expr, Refusal> {
        let (planned, names) = &self.planned;
        expr.transform_up(|node| {
            Ok(match node {
                Expr::Column(column) => {
                    let place = planned.index_of_column(&column)?;
                    let name = names.get(place).cloned().unwrap_or_default();
                    Transformed::yes(Expr::Column(Column { relation: None, name, spans: column.spans }))
                }
                other => Transformed::no(other),
            })
        })
        .map(|transformed| transformed.data)
        .map_err(|error: DataFusionError| type_refusal(&error))
    }

    /// The expression, resolved already, as a total one.
    pub(super) fn total(&self, expr: Expr) -> Result<Expr, Refusal> {
        total(expr, &self.schema)
    }

    /// A row-local, total expression over the columns of the file.
    pub(super) fn row_local(&self, expr: Expr) -> Result<Expr, Refusal> {
        self.substitute(total(self.resolved(expr)?, &self.schema)?)
    }

    /// Replaces computed columns by their expressions.
    pub(super) fn substitute(&self, expr: Expr) -> Result<Expr, Refusal> {
        let expr = self.replaced(expr)?;
        width::check(&expr, &self.schema)?;
        Ok(expr)
    }

    fn replaced(&self, expr: Expr) -> Result<Expr, Refusal> {
        expr.transform_up(|node| {
            let replacement = match &node {
                Expr::Column(column) => self.computed.get(column.name()),
                _ => None,
            };
            Ok(replacement.map_or_else(|| Transformed::no(node.clone()), |expr| Transformed::yes(expr.clone())))
        })
        .map(|transformed| transformed.data)
        .map_err(|error: DataFusionError| type_refusal(&error))
    }

    fn key(&self, expr: Expr) -> Result<GroupKey, Refusal> {
        let name = expr.schema_name().to_string();
        let total = self.key_type(total(self.resolved(expr)?, &self.schema)?)?;
        let kind = total.get_type(&self.schema).map_err(|error| type_refusal(&error))?;
        if self.known(&total).is_some_and(calendar::needs_a_unit) {
            return Err(Refusal::new(Code::Keys, format!("`{name}` holds moments, and the policy lists days"))
                .hint(format!("group by date_trunc('day', {name})"))
                .at(place_of(&total)));
        }
        let domain = keys::domain(&total, &kind, &self.columns());
        if kind.is_floating() && domain == Domain::Private {
            return Err(Refusal::new(Code::Type, format!("`{name}` is a number with a fraction and makes no groups"))
                .hint("group by CAST(FLOOR(x / width) AS BIGINT), or declare `keys`")
                .at(place_of(&total)));
        }
        Ok(GroupKey { expr: self.substitute(total)?, name, kind, domain })
    }

    /// The key in one of the types that keys have; -0.0 and 0.0 are one number.
    pub(super) fn key_type(&self, expr: Expr) -> Result<Expr, Refusal> {
        let kind = expr.get_type(&self.schema).map_err(|error| type_refusal(&error))?;
        Ok(match kind {
            DataType::Int32 | DataType::Int64 | DataType::Boolean | DataType::Utf8 | DataType::Date32 => expr,
            DataType::Timestamp(TimeUnit::Microsecond, None) => expr,
            DataType::Timestamp(TimeUnit::Nanosecond, None) => {
                try_cast(expr, DataType::Timestamp(TimeUnit::Microsecond, None))
            }
            kind if kind.is_integer() => try_cast(expr, DataType::Int64),
            DataType::Float64 | DataType::Float32 => try_cast(expr, DataType::Float64) + lit(0.0),
            kind => {
                return Err(
                    Refusal::new(Code::Type, format!("`{expr}` is {kind} and makes no groups")).at(place_of(&expr))
                );
            }
        })
    }

    pub(super) fn aggregate(&self, expr: Expr) -> Result<Aggregate, Refusal> {
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

    /// `expr` where the condition of a FILTER clause holds, NULL elsewhere.
    pub(super) fn where_true(&self, expr: Expr, condition: Option<Expr>) -> Result<Expr, Refusal> {
        match condition {
            None => Ok(expr),
            Some(condition) => when(self.row_local(condition)?, expr).end().map_err(|error| type_refusal(&error)),
        }
    }
}

pub(super) fn strip_alias(expr: Expr) -> Expr {
    match expr {
        Expr::Alias(Alias { expr, .. }) => strip_alias(*expr),
        expr => expr,
    }
}

/// Drops the qualifier of every column of one table.
fn unqualified(expr: Expr) -> Result<Expr, Refusal> {
    expr.transform_up(|node| {
        Ok(match node {
            Expr::Column(Column { relation: Some(_), name, spans }) => {
                Transformed::yes(Expr::Column(Column { relation: None, name, spans }))
            }
            other => Transformed::no(other),
        })
    })
    .map(|transformed| transformed.data)
    .map_err(|error: DataFusionError| type_refusal(&error))
}
