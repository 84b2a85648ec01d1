//! Sub-queries that group: within each unit.

use std::collections::HashSet;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::logical_plan::Aggregate as AggregateNode;

use super::period::{self, When};
use super::{Input, Known, Reader, bare, bounded, capped, fresh, plain, unstable};
use crate::bound::{canonical, wide};
use crate::error::{Code, Refusal};
use crate::ir::AggregateKind;
use crate::policy::{ColumnPolicy, ColumnType, Root, UnitPolicy};
use crate::relation::{Owner, Relation, UnitMeasure, column_type};
use crate::sql::scope::{Scope, strip_alias};
use crate::sql::total::{in_words, place_of};

impl Reader<'_> {
    pub(super) fn per_unit(&self, aggregate: &AggregateNode) -> Result<Input, Refusal> {
        let input = self.input(&aggregate.input)?;
        let scope = Scope::new(&input, aggregate.input.schema())?;
        let at = aggregate.group_expr.iter().chain(&aggregate.aggr_expr).find_map(place_of);
        match input.relation.owner() {
            Owner::Unit => {}
            Owner::Row => {
                return Err(unstable(
                    "a sub-query that groups would mix rows that are units of their own",
                    "declare a column as `privacy_unit` in the policy, or group in the question itself",
                    at,
                ));
            }
            Owner::Nobody => {
                return Err(Refusal::new(Code::Unsupported, "aggregates over public tables are not analysed")
                    .hint("compute them once, and declare the result as a public table")
                    .at(at));
            }
        }
        let mut taken = HashSet::new();
        let (mut columns, mut keys) = (Vec::new(), Vec::new());
        let per = input.root.as_ref().and_then(Root::period);
        let (mut person, mut period, mut key, mut single) = (false, per.is_none(), false, true);
        let names: Vec<String> =
            aggregate.schema.fields().iter().map(|field| fresh(field.name(), &mut taken)).collect();
        for (expr, name) in aggregate.group_expr.iter().zip(&names) {
            let expr = strip_alias(scope.resolved(expr.clone())?);
            let known = bare(&expr, &input);
            if let Some(known) = known.filter(|known| known.unit) {
                // In its canonical form a key may be spelt in another way than it is declared.
                let policy = ColumnPolicy { keys: None, ..known.policy.clone() };
                let known = Known { name: name.clone(), computed: None, policy, ..known.clone() };
                // Where units are cut to periods, the person is not the unit itself, and follows from it.
                let shown = per.map(|_| canonical(wide(expr, &known.kind), &known.kind));
                keys.push((known.field(), shown));
                columns.push(known);
                person = true;
                continue;
            }
            key |= known.is_some_and(|known| self.holds_key(known));
            let total = scope.key_type(scope.total(expr.clone())?)?;
            let when = period::when(&total, &input, &scope.columns());
            period |= when.is_some();
            single &= when == Some(When::Period);
            let kind = scope.type_of(&total)?;
            let r#type = column_type(&kind).ok_or_else(|| Refusal::new(Code::Type, format!("`{name}` has no type")))?;
            let known = match known.filter(|known| known.kind == kind) {
                Some(known) => Known { name: name.clone(), computed: None, ..known.clone() },
                None => {
                    let policy = self.derived(&scope, &total, &kind, r#type);
                    Known { name: name.clone(), kind, policy, computed: None, unit: false, when, origin: None }
                }
            };
            keys.push((known.field(), Some(capped(scope.substitute(total)?, &scope)?)));
            columns.push(known);
        }
        if let Some(per) = per.filter(|_| person && !period && !key) {
            let time = input.columns.iter().find(|column| column.when.is_some()).map(|column| plain(&column.name));
            let (per, time) = (per.name(), time.unwrap_or_else(|| "time".into()));
            let message = format!("units are people within a {per}: a sub-query that groups must group by both");
            return Err(unstable(message, format!("add date_trunc('{per}', {time}) to its GROUP BY"), at));
        }
        if !person && !key {
            let unit = input.columns.iter().find(|column| column.unit).map(|column| plain(&column.name));
            let hint = match unit {
                Some(unit) => format!("add `{unit}` to its GROUP BY"),
                None => "join with the table that has the unit, and group by it".into(),
            };
            return Err(unstable("a sub-query that groups must group by the privacy unit", hint, at));
        }
        let mut measures = Vec::new();
        for ((expr, field), name) in
            aggregate.aggr_expr.iter().zip(aggregate.schema.fields().iter().skip(keys.len())).zip(&names[keys.len()..])
        {
            let (measure, policy) = self.measure(&scope, expr)?;
            let kind = match &measure {
                UnitMeasure::Least(expr) | UnitMeasure::Greatest(expr) => scope.type_of(expr)?,
                _ => field.data_type().clone(),
            };
            let policy = match (policy, column_type(&kind)) {
                (Some(policy), _) => policy,
                (None, Some(r#type)) => ColumnPolicy::plain(r#type),
                (None, None) => return Err(Refusal::new(Code::Type, format!("`{name}` is {}", in_words(&kind))).at(at)),
            };
            let measure = substituted(measure, &scope)?;
            let known =
                Known { name: name.clone(), kind, policy, computed: None, unit: false, when: None, origin: None };
            measures.push((known.field(), measure));
            columns.push(known);
        }
        let single = single && person && period;
        let relation = Relation::PerUnit { input: Box::new(input.relation), keys, measures, single };
        Ok(Input { relation, columns, root: input.root })
    }

    /// Whether the column holds the key through which the rows of its table are owned.
    fn holds_key(&self, known: &Known) -> bool {
        let Some((table, column)) = &known.origin else { return false };
        let unit = self.policy.tables.get(table).map(|table| &table.privacy_unit);
        matches!(unit, Some(UnitPolicy::Through { column: key, .. }) if key == column)
    }

    /// A measure of the rows of one unit, and what is known of its result. Extremes are not substituted yet.
    fn measure(&self, scope: &Scope, expr: &Expr) -> Result<(UnitMeasure, Option<ColumnPolicy>), Refusal> {
        let at = place_of(expr);
        if let Expr::AggregateFunction(AggregateFunction { func, params }) = expr
            && matches!(func.name(), "min" | "max")
        {
            let [argument] = params.args.as_slice() else {
                return Err(Refusal::new(Code::Unsupported, "an extreme has one argument").at(at));
            };
            if params.distinct || !params.order_by.is_empty() || params.null_treatment.is_some() {
                return Err(Refusal::new(Code::Unsupported, "this form of an extreme is not analysed").at(at));
            }
            let argument = scope.total(strip_alias(scope.resolved(argument.clone())?))?;
            let kind = scope.type_of(&argument)?;
            let known = scope.known(&argument).cloned();
            let r#type = match kind {
                DataType::Int32 | DataType::Int64 => ColumnType::Integer,
                DataType::Float64 => ColumnType::Number,
                DataType::Date32 => ColumnType::Date,
                DataType::Timestamp(TimeUnit::Microsecond, None) => ColumnType::Timestamp,
                kind => {
                    return Err(Refusal::new(
                        Code::Type,
                        format!("MIN and MAX are not offered where it is {}", in_words(&kind)),
                    )
                    .hint("use them on numbers, dates and timestamps")
                    .at(at));
                }
            };
            let policy = known.unwrap_or_else(|| self.derived(scope, &argument, &kind, r#type));
            let argument = scope.where_true(argument, params.filter.as_ref().map(|filter| *filter.clone()))?;
            let least = func.name() == "min";
            return Ok((
                if least { UnitMeasure::Least(argument) } else { UnitMeasure::Greatest(argument) },
                Some(policy),
            ));
        }
        let aggregate = scope.aggregate(expr.clone())?;
        let summed = aggregate.argument.map(|argument| (argument.expr, argument.bounds));
        Ok(match (aggregate.kind, summed) {
            (AggregateKind::CountRows, _) => (UnitMeasure::Rows, None),
            (AggregateKind::CountValues, Some((expr, _))) => (UnitMeasure::Values(expr), None),
            (AggregateKind::Sum, Some((expr, Some(bounds)))) => (UnitMeasure::Sum(expr, bounds), None),
            (AggregateKind::Mean, Some((expr, Some(bounds)))) => {
                let policy = bounded(ColumnType::Number, &bounds);
                (UnitMeasure::Mean(expr, bounds), Some(ColumnPolicy { step: None, ..policy }))
            }
            _ => {
                return Err(Refusal::new(
                    Code::Unsupported,
                    format!("`{}` is not offered in a sub-query", aggregate.name),
                )
                .hint("use COUNT, SUM, AVG, MIN or MAX within the rows of a unit")
                .at(at));
            }
        })
    }
}

fn substituted(measure: UnitMeasure, scope: &Scope) -> Result<UnitMeasure, Refusal> {
    Ok(match measure {
        UnitMeasure::Least(expr) => UnitMeasure::Least(scope.substitute(expr)?),
        UnitMeasure::Greatest(expr) => UnitMeasure::Greatest(scope.substitute(expr)?),
        // The arguments of the others were substituted where their bounds were derived.
        other => other,
    })
}
