//! The syntax tree: one SELECT that aggregates, no sub-queries in expressions, known functions only.
//!
//! This is where the positions are, so this is where most questions are refused. It is not what the guarantee
//! rests on: [`lower`](super::lower) and [`total`](super::total) refuse whatever they do not know as well.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, GroupByExpr, Ident, LimitClause, ObjectName, Query, Select, SelectItem, SetExpr, Spanned,
    Statement, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::catalog::{AGGREGATES, CLAMP, SCALARS, UNIT_AGGREGATES};
use super::tables::Reading;
use crate::error::{Code, Place, Refusal};
use crate::policy::Policy;

/// A statement whose shape is accepted.
pub(super) struct Accepted {
    /// The statement, with `contribution_bounds_per_row => (a, b)` rewritten as a clamp of the argument.
    pub rewritten: Statement,
    /// Where the query stands in the text, for refusals that know no better.
    pub place: Option<Place>,
}

/// Checks the shape of a statement.
pub(super) fn check(statement: DfStatement, policy: &Policy) -> Result<Accepted, Refusal> {
    let DfStatement::Statement(statement) = statement else {
        return Err(only_select(None));
    };
    let mut rewritten = *statement;
    let Statement::Query(query) = &rewritten else {
        return Err(only_select(place(rewritten.span())));
    };
    let mut reading = Reading::new(policy);
    let select = check_query(query, &mut reading)?;
    check_select(select)?;
    reading.from(&select.from, select.select_token.0.span)?;
    super::named::check(&rewritten, policy)?;
    super::constants::check(&rewritten)?;
    let start = first_token(select);
    let written: Vec<String> = select.projection.iter().map(ToString::to_string).collect();
    let mut walk = Walk { depth: 0 };
    if let ControlFlow::Break(refusal) = VisitMut::visit(&mut rewritten, &mut walk) {
        return Err(*refusal);
    }
    name_as_written(&mut rewritten, &written);
    Ok(Accepted { rewritten, place: start })
}

/// Names the outputs that were rewritten and have no name as they were written.
fn name_as_written(statement: &mut Statement, written: &[String]) {
    let Statement::Query(query) = statement else { return };
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    for (item, text) in select.projection.iter_mut().zip(written) {
        if let SelectItem::UnnamedExpr(expr) = item
            && (expr.to_string().contains(&format!("{CLAMP}(")) || text.to_ascii_uppercase().contains("WITHIN GROUP"))
        {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', text) };
        }
    }
}

pub(super) fn only_select(at: Option<Place>) -> Refusal {
    Refusal::new(Code::Unsupported, "only SELECT is answered").hint("ask SELECT COUNT(*) FROM …").at(at)
}

fn first_token(select: &Select) -> Option<Place> {
    place(select.select_token.0.span)
}

/// The place of a span; the empty span has none.
pub(super) fn place(span: Span) -> Option<Place> {
    (span.start.line > 0).then(|| Place {
        start: (span.start.line, span.start.column),
        end: (span.end.line, span.end.column.saturating_sub(1).max(1)),
    })
}

pub(super) fn unsupported(what: &str, hint: &str, span: Span) -> Refusal {
    Refusal::new(Code::Unsupported, what).hint(hint).at(place(span))
}

/// Refuses the clauses that no query may have, that of the question or one below it. What may stand in one of them only is
/// for the caller to check: the parts that are named here with `_`.
pub(super) fn check_extras(query: &Query, allowed: &str) -> Result<(), Refusal> {
    let Query {
        with: _,
        body: _,
        order_by: _,
        limit_clause: _,
        fetch: _,
        locks,
        for_clause,
        settings,
        format_clause,
        pipe_operators,
    } = query;
    let extras = !locks.is_empty() || for_clause.is_some() || settings.is_some();
    if extras || format_clause.is_some() || !pipe_operators.is_empty() {
        return Err(unsupported("this clause is not analysed", allowed, query.span()));
    }
    Ok(())
}

fn check_query<'a>(query: &'a Query, reading: &mut Reading<'_>) -> Result<&'a Select, Refusal> {
    let allowed = "use WHERE, GROUP BY, HAVING, ORDER BY, LIMIT";
    check_extras(query, allowed)?;
    let Query { with, body, limit_clause, fetch, .. } = query;
    if let Some(with) = with {
        reading.with(with)?;
    }
    if fetch.is_some() {
        return Err(unsupported("this clause is not analysed", allowed, query.span()));
    }
    if let Some(LimitClause::OffsetCommaLimit { offset, .. }) = limit_clause {
        return Err(unsupported("LIMIT a, b is not analysed", "write LIMIT n OFFSET m", offset.span()));
    }
    if let Some(LimitClause::LimitOffset { limit, offset, limit_by }) = limit_clause {
        let numbers = limit.iter().map(|limit| (limit, 1)).chain(offset.iter().map(|offset| (&offset.value, 0)));
        for (number, least) in numbers {
            if !limit_by.is_empty() || whole(number).is_none_or(|number| number < least) {
                return Err(unsupported(
                    "this LIMIT is not analysed",
                    "write LIMIT 10, or LIMIT 10 OFFSET 20",
                    number.span(),
                ));
            }
        }
    }
    match body.as_ref() {
        SetExpr::Select(select) => Ok(select),
        SetExpr::SetOperation { .. } => {
            let hint = "ask two questions, or write FROM (SELECT … UNION ALL SELECT …)";
            Err(unsupported("answers are not united", hint, body.span()))
        }
        SetExpr::Query(_)
        | SetExpr::Values(_)
        | SetExpr::Insert(_)
        | SetExpr::Update(_)
        | SetExpr::Delete(_)
        | SetExpr::Merge(_)
        | SetExpr::Table(_) => Err(only_select(place(body.span()))),
    }
}

/// A whole number of 32 bits, so that no sum of two leaves 64.
fn whole(expr: &Expr) -> Option<u32> {
    match expr {
        Expr::Value(value) => value.value.to_string().parse().ok(),
        _ => None,
    }
}

fn check_select(select: &Select) -> Result<(), Refusal> {
    if select.distinct.is_some() {
        let hint = "group by the columns instead, and count";
        return Err(Refusal::new(Code::NotAggregated, "SELECT DISTINCT shows values as they are")
            .hint(hint)
            .at(first_token(select)));
    }
    check_clauses(select)
}

/// The clauses of a SELECT, whether it is the question or a sub-query, but for DISTINCT and FROM.
pub(super) fn check_clauses(select: &Select) -> Result<(), Refusal> {
    let Select {
        select_token: _,
        optimizer_hints,
        distinct: _,
        select_modifiers,
        top,
        top_before_distinct: _,
        projection: _,
        exclude,
        into,
        from: _,
        lateral_views,
        prewhere,
        selection: _,
        connect_by,
        group_by,
        cluster_by,
        distribute_by,
        sort_by,
        having: _,
        named_window,
        qualify,
        window_before_qualify: _,
        value_table_mode,
        flavor: _,
    } = select;
    let span = select.select_token.0.span;
    if top.is_some() {
        return Err(unsupported("TOP is not analysed", "order the noisy answer and use LIMIT", span));
    }
    let odd = !optimizer_hints.is_empty()
        || select_modifiers.is_some()
        || exclude.is_some()
        || into.is_some()
        || !lateral_views.is_empty()
        || prewhere.is_some()
        || !connect_by.is_empty()
        || !cluster_by.is_empty()
        || !distribute_by.is_empty()
        || !sort_by.is_empty()
        || !named_window.is_empty()
        || qualify.is_some()
        || value_table_mode.is_some();
    if odd {
        return Err(unsupported(
            "a clause of this SELECT is not analysed",
            "use WHERE, GROUP BY, HAVING, ORDER BY, LIMIT",
            span,
        ));
    }
    match group_by {
        GroupByExpr::Expressions(expressions, modifiers) if modifiers.is_empty() => {
            let grouping = |e: &&Expr| matches!(e, Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_));
            if let Some(sets) = expressions.iter().find(grouping) {
                return Err(unsupported(
                    "grouping sets are not analysed yet",
                    "ask one question for each",
                    sets.span(),
                ));
            }
        }
        GroupByExpr::Expressions(..) | GroupByExpr::All(_) => {
            return Err(unsupported("this GROUP BY is not analysed", "list the columns", span));
        }
    }
    Ok(())
}

pub(super) fn single(name: &ObjectName) -> Option<&Ident> {
    match name.0.as_slice() {
        [part] => part.as_ident(),
        _ => None,
    }
}

/// Visits every expression: refuses sub-queries and unknown functions, and rewrites per-row bounds.
struct Walk {
    /// How many queries are around the expression: one is the question itself.
    depth: usize,
}

impl VisitorMut for Walk {
    type Break = Box<Refusal>;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if let Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } = expr {
            let what = "a sub-query in an expression is not analysed: its result would depend on the rows of others";
            let hint = "join with it on the privacy unit, or use a constant";
            return ControlFlow::Break(Box::new(unsupported(what, hint, expr.span())));
        }
        if let Expr::BinaryOp { op: BinaryOperator::Divide | BinaryOperator::Modulo, right, .. } = expr
            && is_zero(right)
        {
            let refusal =
                unsupported("this divides by zero", "the answer would be NULL whatever is in the table", right.span());
            return ControlFlow::Break(Box::new(refusal));
        }
        let Expr::Function(function) = expr else {
            return ControlFlow::Continue(());
        };
        match check_function(function, self.depth > 1) {
            Ok(()) => ControlFlow::Continue(()),
            Err(refusal) => ControlFlow::Break(Box::new(refusal)),
        }
    }
}

fn is_zero(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => value.value.to_string().parse() == Ok(0.0),
        Expr::Nested(inner) => is_zero(inner),
        _ => false,
    }
}

fn check_function(function: &mut Function, in_sub_query: bool) -> Result<(), Refusal> {
    let span = function.name.span();
    let name = function.name.to_string().to_ascii_lowercase();
    if function.over.is_some() {
        return Err(unsupported("window functions look at several rows at once", "use GROUP BY", span));
    }
    let per_unit = in_sub_query && UNIT_AGGREGATES.contains(&name.as_str());
    let aggregate = per_unit || AGGREGATES.contains(&name.as_str());
    if !aggregate && !SCALARS.contains(&name.as_str()) {
        return Err(unknown_function(&name).at(place(span)));
    }
    function.name = ObjectName::from(vec![Ident::with_span(span, name.clone())]);
    order_first(&name, function)?;
    if function.null_treatment.is_some() || !function.within_group.is_empty() || function.uses_odbc_syntax {
        return Err(unsupported("this form of a function is not analysed", "leave the extra clause out", span));
    }
    match &mut function.args {
        FunctionArguments::List(list) if aggregate => check_aggregate(&name, list, span),
        _ => Ok(()),
    }
}

/// `PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x)` is `PERCENTILE_CONT(x, q)`.
fn order_first(name: &str, function: &mut Function) -> Result<(), Refusal> {
    let ([order], FunctionArguments::List(list), "percentile_cont") =
        (function.within_group.as_slice(), &mut function.args, name)
    else {
        return Ok(());
    };
    if order.options.asc == Some(false) || order.options.nulls_first.is_some() || order.with_fill.is_some() {
        return Err(unsupported(
            "this order is not analysed",
            "write WITHIN GROUP (ORDER BY x), and 1 − q for the other direction",
            order.expr.span(),
        ));
    }
    list.args.insert(0, FunctionArg::Unnamed(FunctionArgExpr::Expr(order.expr.clone())));
    function.within_group.clear();
    Ok(())
}

fn unknown_function(name: &str) -> Refusal {
    let refusal = Refusal::new(Code::UnknownFunction, format!("the function `{name}` is not offered"));
    refusal.hint(match name {
        "percentile_disc" | "approx_percentile_cont" | "approx_median" | "approx_quantiles" | "quantile" => {
            "MEDIAN(x), PERCENTILE_CONT(x, 0.9), MIN(x) and MAX(x) are offered".to_owned()
        }
        "approx_top_count" | "approx_top_sum" => {
            "write SELECT x FROM t GROUP BY x ORDER BY COUNT(*) DESC LIMIT 10, where `x` has public keys".to_owned()
        }
        "histogram" | "width_bucket" => "group by bucket(x, 18, 40, 65), whose edges are yours, and count".to_owned(),
        "topk" | "top_k" | "approx_top_k" => {
            "GROUP BY x ORDER BY COUNT(*) DESC LIMIT 5 chooses the best five".to_owned()
        }
        "mode" => "the most frequent value may be somebody's; group by the values and count".to_owned(),
        "approx_distinct" | "hll" | "md5" | "sha256" => {
            "sketches and hashes are not private; COUNT(DISTINCT unit) is offered".to_owned()
        }
        "random" | "now" | "current_user" | "current_date" | "sleep" => "it depends on more than the row".to_owned(),
        _ => {
            let known = AGGREGATES.iter().chain(&SCALARS);
            let nearest = known.max_by(|a, b| strsim::jaro_winkler(a, name).total_cmp(&strsim::jaro_winkler(b, name)));
            match nearest {
                Some(nearest) if strsim::jaro_winkler(nearest, name) > 0.8 => format!("did you mean `{nearest}`?"),
                _ => "the functions are listed in docs/sql.md".to_owned(),
            }
        }
    })
}

/// `SUM(x, contribution_bounds_per_row => (a, b))` is the sum of x clamped to [a, b].
fn check_aggregate(name: &str, list: &mut FunctionArgumentList, span: Span) -> Result<(), Refusal> {
    if !list.clauses.is_empty() {
        return Err(unsupported("this form of an aggregate is not analysed", "leave the extra clause out", span));
    }
    if list.duplicate_treatment == Some(DuplicateTreatment::Distinct) && name != "count" {
        return Err(unsupported("DISTINCT is answered for COUNT only", "leave DISTINCT out", span));
    }
    let arguments = if name == "percentile_cont" { 2 } else { 1 };
    let Some(FunctionArg::Named { name: option, arg, .. }) = list.args.last() else {
        let lacks = arguments == 2 && list.args.len() != arguments;
        let refusal = || Refusal::new(Code::Type, "`PERCENTILE_CONT` takes a column and a fraction").at(place(span));
        return if lacks { Err(refusal().hint("PERCENTILE_CONT(x, 0.9)")) } else { Ok(()) };
    };
    let (option, at) = (option.value.to_ascii_lowercase(), option.span);
    if name == "count" {
        return Err(Refusal::new(Code::Option, "`COUNT` takes no bounds: a row counts as one")
            .hint("how many rows of a unit count is `max_rows_per_group` of the policy")
            .at(place(at)));
    }
    if ["covar_pop", "covar_samp", "corr"].contains(&name) {
        return Err(Refusal::new(Code::Option, format!("`{name}` has two arguments, and bounds for one"))
            .hint("declare `bounds` of both columns in the policy")
            .at(place(at)));
    }
    if option != "contribution_bounds_per_row" || list.args.len() != arguments + 1 {
        return Err(Refusal::new(Code::Option, format!("`{option}` is not an option of an aggregate"))
            .hint("contribution_bounds_per_row => (lower, upper)")
            .at(place(at)));
    }
    let bounds = match arg {
        FunctionArgExpr::Expr(Expr::Tuple(pair)) if pair.len() == 2 => pair.clone(),
        _ => return Err(Refusal::new(Code::Option, "bounds are a pair (lower, upper)").at(place(at))),
    };
    list.args.pop();
    let mut clamped = vec![list.args.remove(0)];
    clamped.extend(bounds.into_iter().map(|bound| FunctionArg::Unnamed(FunctionArgExpr::Expr(bound))));
    let clamped = Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(CLAMP)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: clamped,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    });
    list.args.insert(0, FunctionArg::Unnamed(FunctionArgExpr::Expr(clamped)));
    Ok(())
}
