//! The unoptimised plan to our own terms. Every node and every expression that is not known is refused.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, DataFusionError};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::logical_plan::Aggregate as AggregateNode;
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, LogicalPlanBuilder, lit, try_cast};
use datafusion::optimizer::analyzer::Analyzer;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::scalar::ScalarValue;

use super::catalog::full_schema;
use super::from::Reader;
use super::scope::Scope;
use super::total::total;
use crate::error::{Code, Refusal};
use crate::ir::{Outer, Question};
use crate::policy::{Policy, TablePolicy};
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
    let known = super::not_numbers(text).or_else(|| super::of_two_types(text));
    known.unwrap_or_else(|| Refusal::new(Code::Type, text.lines().next().unwrap_or_default()))
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
