//! The syntax of everything below the SELECT of the question: tables, joins, derived tables, WITH, UNION ALL.
//!
//! Like [`shape`](super::shape), this is where the positions are, and not what the guarantee rests on:
//! [`from`](super::from) refuses whatever it does not know as well.

use datafusion::sql::sqlparser::ast::{
    Cte, Expr, Join, JoinConstraint, JoinOperator, ObjectName, Query, Select, SetExpr, SetOperator, SetQuantifier,
    Spanned, TableAlias, TableFactor, TableWithJoins, With,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::shape::{check_clauses, check_extras, only_select, place, single, unsupported};
use crate::error::{Code, Refusal};
use crate::policy::Policy;

/// How deeply sub-queries may nest.
const MAX_NESTING: usize = 8;
/// How many tables a question may read, each as often as it is read. A WITH that is used twice counts twice, and one
/// that uses such a one four times.
const MAX_TABLES: usize = 12;

/// What is known while a text is read from its outside to its inside.
pub(super) struct Reading<'a> {
    policy: &'a Policy,
    /// The names that WITH gave so far, and how many tables each reads.
    with: Vec<(String, usize)>,
    depth: usize,
}

impl<'a> Reading<'a> {
    pub(super) fn new(policy: &'a Policy) -> Self {
        Self { policy, with: Vec::new(), depth: 0 }
    }

    /// Checks a WITH clause; its names hold from here on.
    pub(super) fn with(&mut self, with: &With) -> Result<(), Refusal> {
        if with.recursive {
            let span = with.with_token.0.span;
            return Err(unsupported("a recursive WITH is not analysed", "write each step as a query of its own", span));
        }
        for Cte { alias, query, from, materialized, closing_paren_token: _ } in &with.cte_tables {
            let span = alias.name.span;
            if from.is_some() || materialized.is_some() {
                return Err(unsupported("this form of WITH is not analysed", "write WITH name AS (SELECT …)", span));
            }
            check_alias(alias)?;
            let name = &alias.name.value;
            let known = self.with.iter().any(|(known, _)| known == name);
            if known || self.policy.tables.contains_key(name) || self.policy.public.contains_key(name) {
                let message = format!("`{name}` is the name of a table already");
                return Err(unsupported(&message, "choose another name", span));
            }
            let tables = self.sub_query(query)?;
            self.with.push((name.clone(), tables));
        }
        Ok(())
    }

    /// Checks a query below that of the question, and counts the tables that it reads.
    fn sub_query(&mut self, query: &Query) -> Result<usize, Refusal> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(Refusal::new(Code::TooLarge, format!("sub-queries nest more than {MAX_NESTING} deep"))
                .hint("ask in fewer steps")
                .at(place(query.span())));
        }
        let outside = self.with.len();
        check_extras(query, "use WHERE, GROUP BY, HAVING")?;
        let Query { with, body, order_by, limit_clause, fetch, .. } = query;
        if let Some(with) = with {
            self.with(with)?;
        }
        if order_by.is_some() || limit_clause.is_some() || fetch.is_some() {
            return Err(unsupported(
                "ORDER BY and LIMIT in a sub-query choose rows by those of others",
                "leave them out, or order the released answer",
                query.span(),
            ));
        }
        let tables = self.body(body)?;
        self.with.truncate(outside);
        self.depth -= 1;
        Ok(tables)
    }

    fn body(&mut self, body: &SetExpr) -> Result<usize, Refusal> {
        match body {
            SetExpr::Select(select) => self.sub_select(select),
            SetExpr::Query(query) => self.sub_query(query),
            SetExpr::SetOperation { op: SetOperator::Union, set_quantifier: SetQuantifier::All, left, right } => {
                Ok(self.body(left)? + self.body(right)?)
            }
            SetExpr::SetOperation { .. } => Err(unsupported(
                "of set operations only UNION ALL is analysed",
                "write UNION ALL, and group by the privacy unit to count a row once",
                body.span(),
            )),
            SetExpr::Values(_)
            | SetExpr::Insert(_)
            | SetExpr::Update(_)
            | SetExpr::Delete(_)
            | SetExpr::Merge(_)
            | SetExpr::Table(_) => Err(only_select(place(body.span()))),
        }
    }

    fn sub_select(&mut self, select: &Select) -> Result<usize, Refusal> {
        if select.distinct.is_some() {
            return Err(unsupported(
                "DISTINCT in a sub-query is not analysed",
                "group by the privacy unit and the columns instead",
                select.select_token.0.span,
            ));
        }
        check_clauses(select)?;
        self.from(&select.from, select.select_token.0.span)
    }

    /// Checks a FROM clause, and counts the tables that it reads.
    pub(super) fn from(&mut self, from: &[TableWithJoins], select: Span) -> Result<usize, Refusal> {
        let TableWithJoins { relation, joins } = match from {
            [one] => one,
            [] => {
                return Err(unsupported("the question names no table", "write FROM and a table of the policy", select));
            }
            [_, second, ..] => {
                let hint = "write a JOIN b ON a.unit = b.unit";
                return Err(unsupported("tables are joined with JOIN … ON", hint, second.span()));
            }
        };
        let mut tables = self.factor(relation)?;
        for join in joins {
            check_join(join)?;
            tables += self.factor(&join.relation)?;
        }
        if tables > MAX_TABLES {
            return Err(Refusal::new(Code::TooLarge, format!("the question reads more than {MAX_TABLES} tables"))
                .hint("ask several questions")
                .at(place(relation.span())));
        }
        Ok(tables)
    }

    fn factor(&mut self, factor: &TableFactor) -> Result<usize, Refusal> {
        match factor {
            TableFactor::Table { .. } => self.table(factor),
            TableFactor::Derived { lateral, subquery, alias, sample } => {
                if *lateral || sample.is_some() {
                    let what = "LATERAL and TABLESAMPLE are not analysed";
                    return Err(unsupported(what, "write (SELECT …) AS name", factor.span()));
                }
                alias.as_ref().map_or(Ok(()), check_alias)?;
                self.sub_query(subquery)
            }
            _ => Err(unsupported("this form of table is not analysed", "name a table of the policy", factor.span())),
        }
    }

    fn table(&self, factor: &TableFactor) -> Result<usize, Refusal> {
        let TableFactor::Table {
            name,
            alias,
            args,
            with_hints,
            version,
            with_ordinality,
            partitions,
            json_path,
            sample,
            index_hints,
        } = factor
        else {
            return Err(unsupported("this form of table is not analysed", "name a table of the policy", factor.span()));
        };
        if sample.is_some() {
            return Err(unsupported("TABLESAMPLE is not analysed", "leave it out", factor.span()));
        }
        let odd = args.is_some() || !with_hints.is_empty() || version.is_some() || *with_ordinality;
        if odd || !partitions.is_empty() || json_path.is_some() || !index_hints.is_empty() {
            return Err(unsupported("this form of table is not analysed", "write its name alone", factor.span()));
        }
        alias.as_ref().map_or(Ok(()), check_alias)?;
        self.known(name).ok_or_else(|| {
            let tables = self.policy.tables.keys().chain(self.policy.public.keys());
            let tables: Vec<_> = tables.map(|table| format!("`{table}`")).collect();
            Refusal::new(Code::UnknownTable, format!("the policy declares no table `{name}`"))
                .hint(format!("it declares {}", tables.join(", ")))
                .at(place(name.span()))
        })
    }

    /// How many tables a name stands for.
    fn known(&self, name: &ObjectName) -> Option<usize> {
        let name = &single(name)?.value;
        if self.policy.tables.contains_key(name) || self.policy.public.contains_key(name) {
            return Some(1);
        }
        self.with.iter().rev().find(|(known, _)| known == name).map(|(_, tables)| *tables)
    }
}

/// `AS name`; a list of names of columns is not analysed.
fn check_alias(alias: &TableAlias) -> Result<(), Refusal> {
    if alias.columns.is_empty() {
        return Ok(());
    }
    Err(unsupported("names of columns behind an alias are not analysed", "name them in the SELECT", alias.name.span))
}

fn check_join(join: &Join) -> Result<(), Refusal> {
    let span = join.relation.span();
    let constraint = match &join.join_operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint) => constraint,
        JoinOperator::Right(_) | JoinOperator::RightOuter(_) => {
            return Err(unsupported(
                "RIGHT JOIN is not analysed",
                "write b LEFT JOIN a instead of a RIGHT JOIN b",
                span,
            ));
        }
        JoinOperator::FullOuter(_) => {
            return Err(unsupported("FULL JOIN is not analysed", "use LEFT JOIN, or UNION ALL", span));
        }
        JoinOperator::CrossJoin(_) => {
            return Err(unsupported(
                "a cross join pairs the rows of everybody",
                "write JOIN … ON a.unit = b.unit",
                span,
            ));
        }
        _ => return Err(unsupported("this kind of join is not analysed", "use JOIN … ON or LEFT JOIN … ON", span)),
    };
    match constraint {
        JoinConstraint::On(Expr::Value(_)) | JoinConstraint::None if !join.global => {
            Err(unsupported("a join without a condition pairs the rows of everybody", "write ON a.unit = b.unit", span))
        }
        JoinConstraint::On(_) | JoinConstraint::Using(_) if !join.global => Ok(()),
        _ => Err(unsupported("this form of join is not analysed", "write JOIN … ON a.unit = b.unit", span)),
    }
}
