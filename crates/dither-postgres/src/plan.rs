//! A portable plan as one statement: each node a sub-select whose columns are called `c0`, `c1`, … in its order.
//!
//! DataFusion's own writer of SQL merges nodes into one `SELECT` and leaves functions, casts and names as they are. What
//! is needed here is less, and has to be certain: a few kinds of nodes, and nothing that was not looked at.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{DFSchema, JoinType, NullEquality};
use datafusion::config::ConfigOptions;
use datafusion::datasource::{MemTable, source_as_provider};
use datafusion::logical_expr::expr::{AggregateFunction, Alias, WindowFunction};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, Join, LogicalPlan, Operator, TableScan, Window, WindowFunctionDefinition,
};
use datafusion::optimizer::analyzer::Analyzer;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::optimizer::simplify_expressions::SimplifyExpressions;
use datafusion::optimizer::{Optimizer, OptimizerContext};
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;
use dither_query::{Code, Refusal};

use crate::expr::{Family, Scope, by_bytes, compared, family, refusal, same_family, unplanned};
use crate::fact::Fact;
use crate::table::PostgresTable;

/// The longest statement: some hundred thousand keys.
const MAX_BYTES: usize = 8 << 20;

/// A statement and what comes back.
pub(crate) struct Statement {
    pub sql: String,
    /// Whether the secret is its parameter.
    pub secret: bool,
    pub schema: SchemaRef,
}

/// Writes a plan. The secret is not in the statement: it becomes a parameter.
pub(crate) fn statement(plan: &LogicalPlan, secret: &str) -> Result<Statement, Refusal> {
    // As before this process runs a plan: both sides of every comparison get one type, and a constant is brought to the
    // type of the column that it is compared with rather than the column to its.
    let analyzer = Analyzer::with_rules(vec![Arc::new(TypeCoercion::new())]);
    let plan = analyzer.execute_and_check(plan.clone(), &ConfigOptions::default(), |_, _| {}).map_err(unplanned)?;
    let optimizer = Optimizer::with_rules(vec![Arc::new(SimplifyExpressions::new())]);
    let plan = optimizer.optimize(plan, &OptimizerContext::new(), |_, _| {}).map_err(unplanned)?;
    let mut writer = Writer { secret, used: Cell::new(false), aliases: 0, context: SessionContext::new() };
    let Node { sql, facts } = writer.node(&plan)?;
    let cells = plan.schema().fields().iter().zip(&facts).enumerate().map(|(index, (field, _))| {
        let cell = format!("q.c{index}");
        Ok(match family(field.data_type())? {
            Family::Date => format!("({cell} - '1970-01-01'::date)::text"),
            Family::Moment => format!("(extract(epoch FROM {cell}) * 1000000)::bigint::text"),
            Family::Bytes => return Err(refusal("bytes are no result")),
            _ => format!("{cell}::text"),
        })
    });
    let cells = cells.collect::<Result<Vec<_>, Refusal>>()?.join(", ");
    let sql = format!("SELECT {cells} FROM ({sql}) AS q");
    if sql.len() > MAX_BYTES {
        let message = format!("the statement for PostgreSQL would be longer than {} MiB", MAX_BYTES >> 20);
        return Err(Refusal::new(Code::TooLarge, message).hint("ask for fewer columns or keys, or without --engine"));
    }
    Ok(Statement { sql, secret: writer.used.get(), schema: Arc::clone(plan.schema().inner()) })
}

struct Writer<'a> {
    secret: &'a str,
    used: Cell<bool>,
    aliases: usize,
    context: SessionContext,
}

/// A sub-select, and what is known of its columns.
struct Node {
    sql: String,
    facts: Vec<Fact>,
}

impl Writer<'_> {
    /// A name that no other sub-select has.
    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("q{}", self.aliases)
    }

    fn scope<'s>(&'s self, schema: &'s DFSchema, columns: Vec<(String, Fact)>) -> Scope<'s> {
        Scope { schema, columns, secret: self.secret, secret_used: &self.used, context: &self.context }
    }

    /// The columns of a sub-select under its name.
    fn columns(alias: &str, facts: &[Fact]) -> Vec<(String, Fact)> {
        facts.iter().enumerate().map(|(index, fact)| (format!("{alias}.c{index}"), *fact)).collect()
    }

    fn node(&mut self, plan: &LogicalPlan) -> Result<Node, Refusal> {
        match plan {
            LogicalPlan::TableScan(scan) => self.scan(scan),
            LogicalPlan::SubqueryAlias(alias) => self.node(&alias.input),
            LogicalPlan::EmptyRelation(one) if one.produce_one_row && one.schema.fields().is_empty() => {
                Ok(Node { sql: "SELECT".into(), facts: Vec::new() })
            }
            LogicalPlan::Projection(projection) => {
                let (input, alias) = (self.node(&projection.input)?, self.alias());
                let scope = self.scope(projection.input.schema(), Self::columns(&alias, &input.facts));
                let (mut list, mut facts) = (Vec::new(), Vec::new());
                for (index, expr) in projection.expr.iter().enumerate() {
                    let written = scope.write(expr)?;
                    list.push(format!("{} AS c{index}", written.sql));
                    facts.push(written.fact);
                }
                Ok(Node { sql: format!("SELECT {} FROM ({}) AS {alias}", list.join(", "), input.sql), facts })
            }
            LogicalPlan::Filter(filter) => {
                let (input, alias) = (self.node(&filter.input)?, self.alias());
                let scope = self.scope(filter.input.schema(), Self::columns(&alias, &input.facts));
                let condition = scope.write(&filter.predicate)?.sql;
                let sql = format!("SELECT {alias}.* FROM ({}) AS {alias} WHERE {condition}", input.sql);
                Ok(Node { sql, facts: input.facts })
            }
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let (node, alias) = (self.node(input)?, self.alias());
                if node.facts.iter().any(|fact| fact.minus_zero) {
                    return Err(refusal("numbers with a fraction make no groups in PostgreSQL"));
                }
                Ok(Node { sql: format!("SELECT DISTINCT {alias}.* FROM ({}) AS {alias}", node.sql), ..node })
            }
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Window(window) => self.window(window),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Union(union) => {
                let mut parts = union.inputs.iter().map(|input| self.node(input)).collect::<Result<Vec<_>, _>>()?;
                let mut all = parts.pop().ok_or_else(|| refusal("a union of nothing"))?;
                let mut texts = vec![format!("({})", all.sql)];
                for part in parts.into_iter().rev() {
                    all.facts = all.facts.iter().zip(part.facts).map(|(one, other)| one.or(other)).collect();
                    texts.push(format!("({})", part.sql));
                }
                texts.reverse();
                Ok(Node { sql: texts.join(" UNION ALL "), facts: all.facts })
            }
            other => {
                let kind = other.display().to_string();
                let kind = kind.split([':', ' ']).next().unwrap_or("this").to_owned();
                Err(refusal(format!("`{kind}` is not known to PostgreSQL")))
            }
        }
    }

    /// A table of the database, or made-up rows. Rows of a file do not go to a server.
    fn scan(&mut self, scan: &TableScan) -> Result<Node, Refusal> {
        if scan.projection.is_some() || !scan.filters.is_empty() || scan.fetch.is_some() {
            return Err(refusal("a part of a table is not known to PostgreSQL"));
        }
        let provider = source_as_provider(&scan.source).map_err(unplanned)?;
        let facts = scan.projected_schema.fields().iter().map(|field| Fact::of(field.data_type())).collect();
        if let Some(table) = provider.downcast_ref::<PostgresTable>() {
            return Ok(Node { sql: table.select().to_owned(), facts });
        }
        match provider.downcast_ref::<MemTable>() {
            Some(table) => Ok(Node { sql: self.made_up(table, &scan.projected_schema)?, facts }),
            None => Err(refusal("a table lies in a file, which PostgreSQL cannot read")),
        }
    }

    fn made_up(&mut self, table: &MemTable, schema: &DFSchema) -> Result<String, Refusal> {
        let busy = |_| refusal("the made-up rows are in use");
        let mut rows = Vec::new();
        let empty = DFSchema::empty();
        let scope = self.scope(&empty, Vec::new());
        for partition in &table.batches {
            for batch in partition.try_read().map_err(busy)?.iter() {
                for row in 0..batch.num_rows() {
                    let cells = batch.columns().iter().map(|column| {
                        let value = ScalarValue::try_from_array(column, row).map_err(unplanned)?;
                        Ok(scope.write(&Expr::Literal(value, None))?.sql)
                    });
                    rows.push(format!("({})", cells.collect::<Result<Vec<_>, Refusal>>()?.join(", ")));
                }
            }
        }
        let names: Vec<String> = (0..schema.fields().len()).map(|index| format!("c{index}")).collect();
        Ok(format!("SELECT * FROM (VALUES {}) AS v({})", rows.join(", "), names.join(", ")))
    }

    fn aggregate(&mut self, aggregate: &Aggregate) -> Result<Node, Refusal> {
        let (input, alias) = (self.node(&aggregate.input)?, self.alias());
        let scope = self.scope(aggregate.input.schema(), Self::columns(&alias, &input.facts));
        let (mut list, mut groups, mut facts) = (Vec::new(), Vec::new(), Vec::new());
        for expr in &aggregate.group_expr {
            // A constant here would be the number of a column.
            let column = match expr {
                Expr::Alias(Alias { expr, .. }) => expr.as_ref(),
                expr => expr,
            };
            let Expr::Column(_) = column else { return Err(refusal("a group key is no column")) };
            let key = scope.write(column)?;
            same_family(&key, &key)?;
            list.push(format!("{} AS c{}", key.sql, list.len()));
            groups.push(key.sql);
            facts.push(key.fact);
        }
        for expr in &aggregate.aggr_expr {
            let place = list.len();
            let kind = aggregate.schema.field(place).data_type();
            let (sql, fact) = aggregation(&scope, expr, kind)?;
            list.push(format!("{sql} AS c{place}"));
            facts.push(fact);
        }
        let groups = if groups.is_empty() { String::new() } else { format!(" GROUP BY {}", groups.join(", ")) };
        Ok(Node { sql: format!("SELECT {} FROM ({}) AS {alias}{groups}", list.join(", "), input.sql), facts })
    }

    fn window(&mut self, window: &Window) -> Result<Node, Refusal> {
        let (input, alias) = (self.node(&window.input)?, self.alias());
        let scope = self.scope(window.input.schema(), Self::columns(&alias, &input.facts));
        let mut list = vec![format!("{alias}.*")];
        let mut facts = input.facts.clone();
        for expr in &window.window_expr {
            list.push(format!("{} AS c{}", ranking(&scope, expr)?, facts.len()));
            facts.push(Fact::WHOLE);
        }
        Ok(Node { sql: format!("SELECT {} FROM ({}) AS {alias}", list.join(", "), input.sql), facts })
    }

    fn join(&mut self, join: &Join) -> Result<Node, Refusal> {
        let word = match join.join_type {
            JoinType::Inner => "JOIN",
            JoinType::Left => "LEFT JOIN",
            _ => return Err(refusal("this kind of join is not known to PostgreSQL")),
        };
        if join.null_equality != NullEquality::NullEqualsNothing {
            return Err(refusal("a join on NULL is not known to PostgreSQL"));
        }
        let (left, right) = (self.node(&join.left)?, self.node(&join.right)?);
        let (first, second) = (self.alias(), self.alias());
        let columns = [Self::columns(&first, &left.facts), Self::columns(&second, &right.facts)];
        let [one, two] = columns.clone();
        let (one, two) = (self.scope(join.left.schema(), one), self.scope(join.right.schema(), two));
        let mut conditions = Vec::new();
        for (a, b) in &join.on {
            conditions.push(compared(&one.write(a)?, Operator::Eq, &two.write(b)?)?.sql);
        }
        let columns = columns.concat();
        if let Some(filter) = &join.filter {
            // Both sides together, as the condition sees them.
            let both = join.left.schema().join(join.right.schema()).map_err(unplanned)?;
            conditions.push(self.scope(&both, columns.clone()).write(filter)?.sql);
        }
        if conditions.is_empty() {
            return Err(refusal("a join without a condition"));
        }
        let list: Vec<String> =
            columns.iter().enumerate().map(|(index, (sql, _))| format!("{sql} AS c{index}")).collect();
        let (list, condition) = (list.join(", "), conditions.join(" AND "));
        let sql =
            format!("SELECT {list} FROM ({}) AS {first} {word} ({}) AS {second} ON {condition}", left.sql, right.sql);
        Ok(Node { sql, facts: columns.into_iter().map(|(_, fact)| fact).collect() })
    }
}

/// An aggregate of exact values.
fn aggregation(scope: &Scope<'_>, expr: &Expr, kind: &DataType) -> Result<(String, Fact), Refusal> {
    match expr {
        Expr::Alias(Alias { expr, .. }) => aggregation(scope, expr, kind),
        Expr::AggregateFunction(AggregateFunction { func, params })
            if !params.distinct && params.filter.is_none() && params.order_by.is_empty() && params.args.len() == 1 =>
        {
            let argument = &params.args[0];
            let value = scope.write(argument)?;
            let of = family(&value.kind)?;
            let sql = match (func.name(), of) {
                ("count", _) => {
                    let sql = match argument {
                        Expr::Literal(one, _) if !one.is_null() => "count(*)".to_owned(),
                        _ => format!("count({})", value.sql),
                    };
                    return Ok((sql, Fact::COUNT));
                }
                ("sum", Family::Whole) => format!("sum({})::bigint", value.sql),
                ("sum", Family::Decimal) => format!("sum({})", value.sql),
                (name @ ("min" | "max"), Family::Text) => format!("{name}({})", by_bytes(&value.sql)),
                (name @ ("min" | "max"), Family::Whole | Family::Float | Family::Date | Family::Moment) => {
                    same_family(&value, &value)?;
                    return Ok((format!("{name}({})", value.sql), value.fact));
                }
                (name, _) => return Err(refusal(format!("`{name}` of {} is not known to PostgreSQL", value.kind))),
            };
            Ok((sql, Fact::of(kind)))
        }
        other => Err(refusal(format!("`{other}` is not known to PostgreSQL"))),
    }
}

/// A rank of rows.
fn ranking(scope: &Scope<'_>, expr: &Expr) -> Result<String, Refusal> {
    let function = match expr {
        Expr::Alias(Alias { expr, .. }) => return ranking(scope, expr),
        Expr::WindowFunction(function) => function,
        other => return Err(refusal(format!("`{other}` is not known to PostgreSQL"))),
    };
    let WindowFunction { fun, params } = function.as_ref();
    let name = match fun {
        WindowFunctionDefinition::WindowUDF(function) => function.name().to_owned(),
        WindowFunctionDefinition::AggregateUDF(_) => String::new(),
    };
    let plain =
        params.args.is_empty() && params.filter.is_none() && !params.distinct && params.null_treatment.is_none();
    if !matches!(name.as_str(), "row_number" | "dense_rank") || !plain {
        return Err(refusal("this window is not known to PostgreSQL"));
    }
    let one = |expr: &Expr| {
        let written = scope.write(expr)?;
        Ok(match same_family(&written, &written)? {
            Family::Text => by_bytes(&written.sql),
            _ => written.sql,
        })
    };
    let by = params.partition_by.iter().map(one).collect::<Result<Vec<_>, Refusal>>()?;
    let order = params.order_by.iter().map(|sort| match (sort.asc, sort.nulls_first) {
        (true, false) => Ok(format!("{} ASC NULLS LAST", one(&sort.expr)?)),
        _ => Err(refusal("this order is not known to PostgreSQL")),
    });
    let order = order.collect::<Result<Vec<_>, Refusal>>()?;
    Ok(format!("{name}() OVER (PARTITION BY {} ORDER BY {})", by.join(", "), order.join(", ")))
}
