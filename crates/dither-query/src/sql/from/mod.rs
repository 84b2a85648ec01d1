//! Where the rows come from: the plan below the aggregation to a unit-stable [`Relation`], and what is known of its
//! columns.
//!
//! A column carries what the policy says of it as long as it is handed on as it is, under whatever name. What is
//! computed gets what [`interval`] and [`keys`] derive, anything else nothing. That a relation is unit-stable rests on
//! its operators; what is refused here beyond that would silently mean something else than it says.

mod join;
mod per_unit;
mod period;

use std::collections::HashSet;

use datafusion::arrow::datatypes::DataType;
use datafusion::execution::context::SessionState;
use datafusion::functions::string::expr_fn::octet_length;
use datafusion::logical_expr::logical_plan::{Projection, Union};
use datafusion::logical_expr::{Expr, LogicalPlan, lit, when};
use dither_core::{PrivacyUnit, UnitPeriod, ValueBounds};

use super::catalog::full_schema;
use super::lower::{computed_columns, type_refusal, unknown_node};
use super::scope::{Scope, strip_alias};
use super::total::place_of;
use super::{interval, keys, width};
use crate::error::{Code, Place, Refusal};
use crate::ir::Domain;
use crate::policy::{ColumnPolicy, ColumnType, KeysPolicy, Policy, Root, TablePolicy, UnitPolicy};
use crate::relation::{Field, Relation, UnitKey, column_type};
use crate::source::arrow_type;
use crate::source::lexer::MAX_CELL;

use period::When;

/// The first character of hidden names, and what tells two columns of one name apart inside a relation. Nobody sees it.
pub(super) const MARK: char = '\u{2063}';

/// A relation and what is known of it.
#[derive(Debug, Clone)]
pub(super) struct Input {
    pub(super) relation: Relation,
    /// Its columns, in the order of the planner's.
    pub(super) columns: Vec<Known>,
    /// Whom its rows belong to; `None` for public ones.
    pub(super) root: Option<Root>,
}

/// What is known of a column.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// Its name in the relation.
    pub(super) name: String,
    /// Its type.
    pub(super) kind: DataType,
    /// What the policy says of it.
    pub(super) policy: ColumnPolicy,
    /// The expression over the columns of the file, for a computed column of a table.
    pub(super) computed: Option<Expr>,
    /// Whether it is the privacy unit of its row; of one that is cut to periods, the person.
    pub(super) unit: bool,
    /// What it tells of the period of its row, where units are cut to periods.
    when: Option<When>,
    /// The table and the column that it comes from as it is.
    origin: Option<(String, String)>,
}

impl Known {
    /// The name under which a table of the policy declares it, as long as it is handed on as it is.
    pub(super) fn declared(&self) -> Option<&str> {
        let computed = self.computed.is_some().then_some(self.name.as_str());
        self.origin.as_ref().map(|(_, column)| column.as_str()).or(computed)
    }

    fn field(&self) -> Field {
        (self.name.clone(), self.kind.clone())
    }
}

/// Reads relations.
pub(super) struct Reader<'a> {
    pub(super) policy: &'a Policy,
    pub(super) state: &'a SessionState,
}

fn unstable(message: impl Into<String>, hint: impl Into<String>, at: Option<Place>) -> Refusal {
    Refusal::new(Code::NotUnitStable, message).hint(hint).at(at)
}

impl Reader<'_> {
    /// Reads the plan of a relation.
    pub(super) fn input(&self, plan: &LogicalPlan) -> Result<Input, Refusal> {
        let input = match plan {
            LogicalPlan::SubqueryAlias(alias) => self.input(&alias.input)?,
            LogicalPlan::TableScan(scan) if scan.filters.is_empty() && scan.fetch.is_none() => {
                self.table(scan.table_name.table())?
            }
            LogicalPlan::Filter(filter) => {
                let input = self.input(&filter.input)?;
                let scope = Scope::new(&input, filter.input.schema())?;
                let condition = scope.row_local(filter.predicate.clone())?;
                let relation = Relation::Filter { input: Box::new(input.relation.clone()), condition };
                Input { relation, ..input }
            }
            LogicalPlan::Projection(projection) => self.projection(projection)?,
            LogicalPlan::Join(join) => self.join(join)?,
            LogicalPlan::Aggregate(aggregate) => self.per_unit(aggregate)?,
            LogicalPlan::Union(union) => self.union(union)?,
            other => return Err(unknown_node(other)),
        };
        // Columns are found by their places, which must therefore be the same on both sides.
        if input.columns.len() != plan.schema().fields().len() {
            return Err(unknown_node(plan));
        }
        Ok(input)
    }

    fn table(&self, name: &str) -> Result<Input, Refusal> {
        let table = self
            .policy
            .readable(name)
            .ok_or_else(|| Refusal::new(Code::UnknownTable, format!("the policy declares no table `{name}`")))?;
        if let Some(odd) = table.columns.keys().find(|column| column.contains(MARK)) {
            let message = format!("the name of the column `{odd}` holds an invisible separator");
            return Err(Refusal { in_policy: true, ..Refusal::new(Code::Unsupported, message) }
                .hint("rename the column, and write its name in the file as `name_in_source`"));
        }
        let mut computed = computed_columns(&table, self.state)?;
        let private = self.policy.tables.contains_key(name);
        let schema = full_schema(&table);
        let columns = schema.fields().iter().map(|field| {
            let policy = table.columns[field.name()].clone();
            let unit = self.policy.is_unit(name, field.name());
            let when = match &table.privacy_unit {
                UnitPolicy::Period { per, time, .. } if private && time == field.name() => {
                    let whole = *per == UnitPeriod::Day && policy.r#type == ColumnType::Date;
                    Some(if whole { When::Period } else { When::Time })
                }
                _ => None,
            };
            let origin = (private && policy.expression.is_none()).then(|| (name.to_owned(), field.name().clone()));
            Known {
                name: field.name().clone(),
                kind: field.data_type().clone(),
                policy,
                computed: computed.remove(field.name()),
                unit,
                when,
                origin,
            }
        });
        let columns: Vec<Known> = columns.collect();
        if private {
            let relation = self.private(name, &table)?;
            return Ok(Input { relation, columns, root: self.policy.root(name) });
        }
        let unique = columns.iter().filter(|column| column.policy.unique).map(|column| column.name.clone()).collect();
        let relation = Relation::Public { name: name.to_owned(), columns: file_columns(&table), unique };
        Ok(Input { relation, columns, root: None })
    }

    /// A table of people, with the tables through which its rows are owned.
    fn private(&self, name: &str, table: &TablePolicy) -> Result<Relation, Refusal> {
        let (name, columns) = (name.to_owned(), file_columns(table));
        let refused = |column: &str| {
            Refusal::new(Code::Unsupported, format!("the privacy unit `{column}` is a computed column"))
                .hint("declare a column of the file as `privacy_unit`")
        };
        let of_file = |column: &String| columns.iter().find(|(name, _)| name == column).cloned();
        match &table.privacy_unit {
            UnitPolicy::Row(_) => Ok(Relation::Table { name, unit: None, columns }),
            UnitPolicy::Column { column } => {
                let column = of_file(column).ok_or_else(|| refused(column))?;
                Ok(Relation::Table { name, unit: Some(UnitKey { column, period: None }), columns })
            }
            UnitPolicy::Period { column, per, time } => {
                let column = of_file(column).ok_or_else(|| refused(column))?;
                let time = of_file(time).ok_or_else(|| refused(time))?;
                Ok(Relation::Table { name, unit: Some(UnitKey { column, period: Some((*per, time)) }), columns })
            }
            UnitPolicy::Through { column, through } => {
                of_file(column).ok_or_else(|| refused(column))?;
                let key = self.policy.key_of(through).zip(self.policy.root(&name));
                let ((parent, key), _) = key.ok_or_else(|| {
                    Refusal::new(Code::Unsupported, format!("nobody owns the rows of `{name}`"))
                        .hint("correct `through` in the policy")
                })?;
                let parent_table = &self.policy.tables[parent];
                let parent = Box::new(self.private(parent, parent_table)?);
                Ok(Relation::Owned { name, column: column.clone(), columns, parent, key: key.to_owned() })
            }
        }
    }

    fn projection(&self, projection: &Projection) -> Result<Input, Refusal> {
        let input = self.input(&projection.input)?;
        let scope = Scope::new(&input, projection.input.schema())?;
        let mut taken = HashSet::new();
        let mut columns = Vec::new();
        let mut exprs = Vec::new();
        for (expr, field) in projection.expr.iter().zip(projection.schema.fields()) {
            let expr = strip_alias(scope.resolved(expr.clone())?);
            let (known, expr) = self.computed(&scope, &input, expr, fresh(field.name(), &mut taken))?;
            exprs.push((known.field(), expr));
            columns.push(known);
        }
        let relation = Relation::Project { input: Box::new(input.relation), columns: exprs };
        Ok(Input { relation, columns, root: input.root })
    }

    /// A column of a projection: what is known of it, and its expression.
    fn computed(&self, scope: &Scope, input: &Input, expr: Expr, name: String) -> Result<(Known, Expr), Refusal> {
        if let Some(known) = bare(&expr, input) {
            let known = Known { name, computed: None, ..known.clone() };
            return Ok((known, capped(scope.substitute(expr)?, scope)?));
        }
        let at = place_of(&expr);
        let expr = scope.total(expr)?;
        let kind = scope.type_of(&expr)?;
        let r#type = column_type(&kind).ok_or_else(|| {
            Refusal::new(Code::Type, format!("`{name}` has no type that a column can have"))
                .hint("cast it, as in CAST(NULL AS BIGINT)")
                .at(at)
        })?;
        let policy = self.derived(scope, &expr, &kind, r#type);
        let when = period::when(&expr, input, &scope.columns());
        let expr = capped(scope.substitute(expr)?, scope)?;
        Ok((Known { name, kind, policy, computed: None, unit: false, when, origin: None }, expr))
    }

    /// What follows of an expression from what is known of its columns.
    fn derived(&self, scope: &Scope, expr: &Expr, kind: &DataType, r#type: ColumnType) -> ColumnPolicy {
        let columns = scope.columns();
        let keys = match keys::domain(expr, kind, &columns) {
            Domain::Public(keys) if *kind != DataType::Boolean => Some(KeysPolicy::List(keys)),
            _ => None,
        };
        let policy = match interval::bounds(expr, &columns) {
            Some(bounds) => bounded(r#type, &bounds),
            None => ColumnPolicy::plain(r#type),
        };
        ColumnPolicy { keys, ..policy }
    }

    /// The same rows, with computed columns written out and without a name of `others`.
    fn renamed(&self, input: Input, others: &[Known]) -> Result<Input, Refusal> {
        let mut taken: HashSet<String> = others.iter().map(|other| other.name.clone()).collect();
        let clash = input.columns.iter().any(|column| taken.contains(&column.name) || column.computed.is_some());
        if !clash {
            return Ok(input);
        }
        let schema = Scope::schema_of(&input)?;
        let scope = Scope::new(&input, &schema)?;
        let mut columns = Vec::new();
        let mut exprs = Vec::new();
        for column in &input.columns {
            let known = Known { name: fresh(&column.name, &mut taken), computed: None, ..column.clone() };
            let expr = Expr::Column(datafusion::common::Column::from_name(&column.name));
            exprs.push((known.field(), capped(scope.substitute(expr)?, &scope)?));
            columns.push(known);
        }
        let relation = Relation::Project { input: Box::new(input.relation.clone()), columns: exprs };
        Ok(Input { relation, columns, root: input.root })
    }

    fn union(&self, union: &Union) -> Result<Input, Refusal> {
        let inputs = union.inputs.iter().map(|input| self.input(input)).collect::<Result<Vec<_>, _>>()?;
        let inputs = inputs.into_iter().map(|input| self.renamed(input, &[])).collect::<Result<Vec<_>, _>>()?;
        let Some(first) = inputs.first().cloned() else {
            return Err(Refusal::new(Code::Unsupported, "a union of nothing"));
        };
        for input in &inputs {
            match (&first.root, &input.root) {
                (Some(one), Some(other)) if same_people(one, other)? => {}
                (Some(Root { unit: PrivacyUnit::Row, .. }), _) | (_, Some(Root { unit: PrivacyUnit::Row, .. })) => {
                    return Err(unstable(
                        "rows that are units of their own are not united: one of them could be there twice",
                        "ask two questions, or declare a column as `privacy_unit` in the policy",
                        None,
                    ));
                }
                (Some(_), Some(_)) => return Err(other_people(None)),
                _ => {
                    return Err(Refusal::new(Code::Unsupported, "a union with a public table is not analysed")
                        .hint("join with it, or ask two questions"));
                }
            }
            let same = |(one, other): (&Known, &Known)| one.kind == other.kind;
            if input.columns.len() != first.columns.len() || !first.columns.iter().zip(&input.columns).all(same) {
                return Err(Refusal::new(Code::Type, "the parts of a union have columns of different types")
                    .hint("cast them to one type in each part"));
            }
        }
        let mut columns = first.columns.clone();
        for (index, column) in columns.iter_mut().enumerate() {
            let parts = || inputs.iter().map(|input| &input.columns[index]);
            column.unit = parts().all(|part| part.unit);
            if !parts().all(|part| part.when == column.when) {
                column.when = None;
            }
            if !parts().all(|part| says(&part.policy) == says(&column.policy)) {
                column.policy = ColumnPolicy::plain(column.policy.r#type);
            }
            if !parts().all(|part| part.origin == column.origin) {
                column.origin = None;
            }
        }
        let fields = columns.iter().map(Known::field).collect();
        let relation =
            Relation::Union { inputs: inputs.into_iter().map(|input| input.relation).collect(), columns: fields };
        Ok(Input { relation, columns, root: first.root })
    }
}

fn other_people(at: Option<Place>) -> Refusal {
    unstable(
        "these tables protect different people",
        "join tables whose unit columns have one name, or of which one is owned through a key of the other",
        at,
    )
}

/// Whether two tables protect the same people; refused if in different ways.
fn same_people(one: &Root, other: &Root) -> Result<bool, Refusal> {
    if !one.is_shared_with(other) {
        return Ok(false);
    }
    if one.neighbors != other.neighbors {
        let message = format!("`{}` and `{}` have different `neighbors`", one.table, other.table);
        return Err(Refusal::new(Code::NotUnitStable, message).hint("declare one neighbour relation for both tables"));
    }
    Ok(true)
}

fn bare<'a>(expr: &Expr, input: &'a Input) -> Option<&'a Known> {
    let Expr::Column(column) = expr else { return None };
    input.columns.iter().find(|known| known.name == column.name)
}

/// What a policy says of the values of a column, wherever they are read from.
fn says(policy: &ColumnPolicy) -> impl PartialEq + use<'_> {
    (policy.r#type, policy.bounds, policy.approx_bounds, policy.step, &policy.keys, policy.typical)
}

/// What bounds on a lattice say of a column.
fn bounded(r#type: ColumnType, bounds: &ValueBounds) -> ColumnPolicy {
    let step = bounds.lattice().step();
    let ends = [bounds.lower() as f64 * step, bounds.upper() as f64 * step];
    // Bounds that leave one value, or that floats cannot tell apart, are none.
    let policy = ColumnPolicy { bounds: Some(ends), step: Some(step), ..ColumnPolicy::plain(r#type) };
    if ends[0] < ends[1] && policy.value_bounds().is_some() { policy } else { ColumnPolicy::plain(r#type) }
}

fn file_columns(table: &TablePolicy) -> Vec<Field> {
    let columns = table.columns.iter().filter(|(_, column)| column.expression.is_none());
    columns.map(|(name, column)| (name.clone(), arrow_type(column.r#type))).collect()
}

/// Texts of a sub-query are cells again: what is longer than a cell can be is NULL.
fn capped(expr: Expr, scope: &Scope) -> Result<Expr, Refusal> {
    if scope.type_of(&expr)? != DataType::Utf8 || width::width(&expr, &scope.schema) <= MAX_CELL {
        return Ok(expr);
    }
    let short = octet_length(expr.clone()).lt_eq(lit(MAX_CELL as i64));
    when(short, expr).end().map_err(|error| type_refusal(&error))
}

/// A name that no column has yet, which reads like the wanted one.
fn fresh(wanted: &str, taken: &mut HashSet<String>) -> String {
    let wanted = plain(wanted);
    let mut name = wanted.clone();
    let mut number = 1_usize;
    while !taken.insert(name.clone()) {
        number += 1;
        name = format!("{wanted}{MARK}{number}");
    }
    name
}

/// A text without the marks that tell columns of one name apart.
pub(super) fn plain(text: &str) -> String {
    let mut parts = text.split(MARK);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}
