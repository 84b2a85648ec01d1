//! Joins: which condition makes the pairs those of one unit, and whom they belong to.

use datafusion::common::{JoinType, NullEquality};
use datafusion::logical_expr::logical_plan::Join;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use dither_core::{PrivacyUnit, UnitPeriod};

use super::{Input, Known, Reader, bare, other_people, period, plain, same_people, unstable};
use crate::error::{Code, Place, Refusal};
use crate::policy::{Policy, Root, UnitPolicy};
use crate::relation::Relation;
use crate::sql::lower::unknown_node;
use crate::sql::scope::Scope;
use crate::sql::total::place_of;

impl Reader<'_> {
    pub(super) fn join(&self, join: &Join) -> Result<Input, Refusal> {
        let (left, right) = (self.input(&join.left)?, self.input(&join.right)?);
        let conditions = join.on.iter().map(|(a, b)| a.clone().eq(b.clone())).chain(join.filter.iter().cloned());
        let conditions: Vec<Expr> = conditions.flat_map(conjuncts).collect();
        let at = conditions.first().and_then(place_of);
        let outer = match join.join_type {
            JoinType::Inner => false,
            JoinType::Left => true,
            kind => {
                return Err(Refusal::new(Code::Unsupported, format!("a {kind} join is not analysed"))
                    .hint("use JOIN … ON or LEFT JOIN … ON")
                    .at(at));
            }
        };
        if join.null_aware || join.null_equality != NullEquality::NullEqualsNothing {
            return Err(unknown_node(&LogicalPlan::Join(join.clone())));
        }
        let left =
            if left.columns.iter().any(|column| column.computed.is_some()) { self.renamed(left, &[])? } else { left };
        let right = self.renamed(right, &left.columns)?;
        let combined = Input {
            relation: left.relation.clone(),
            columns: left.columns.iter().chain(&right.columns).cloned().collect(),
            root: None,
        };
        let scope = Scope::new(&combined, &join.schema)?;
        let pairs = Pairs { policy: self.policy, left: &left, right: &right };
        let known = scope.columns();
        let tells = |side: &Expr, input: &Input| period::when(side, input, &known).is_some();
        let (mut on, mut linked, mut equalities) = (Vec::new(), Linked::default(), 0);
        for condition in conditions {
            let condition = scope.total(scope.resolved(condition)?)?;
            let equality = pairs.equality(&condition);
            equalities += usize::from(equality.is_some());
            if let Some((a, b)) = equality {
                if pairs.same_unit(a, b) {
                    // The units are compared in their canonical form, as the relation does it.
                    linked.person = true;
                    continue;
                }
                linked.key |= pairs.same_key(a, b);
                linked.period |= tells(a, &left) && tells(b, &right);
            }
            on.push(scope.substitute(condition)?);
        }
        let relation = Relation::Join {
            left: Box::new(left.relation.clone()),
            right: Box::new(right.relation.clone()),
            outer,
            on,
            same_unit: left.root.is_some() && right.root.is_some(),
        };
        let root = pairs.root(outer, linked, equalities, relation.is_single(), at)?;
        let mut columns = left.columns;
        columns.extend(right.columns.into_iter().map(|mut column| {
            // Where there is no partner, the unit of the right side is NULL, and not the unit of the row.
            column.unit &= !outer;
            column.when = column.when.filter(|_| !outer);
            column
        }));
        Ok(Input { relation, columns, root })
    }
}

/// What the equalities of a join compare of the units of both sides.
#[derive(Debug, Clone, Copy, Default)]
struct Linked {
    /// The people.
    person: bool,
    /// The periods that units are cut to.
    period: bool,
    /// The key through which the rows of one side are owned.
    key: bool,
}

/// The two sides of a join.
struct Pairs<'a> {
    policy: &'a Policy,
    left: &'a Input,
    right: &'a Input,
}

impl Pairs<'_> {
    /// The sides of an equality between the left and the right relation, in this order.
    fn equality<'e>(&self, condition: &'e Expr) -> Option<(&'e Expr, &'e Expr)> {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return None };
        let within = |expr: &Expr, input: &Input| {
            let columns = expr.column_refs();
            !columns.is_empty() && columns.iter().all(|used| input.columns.iter().any(|known| known.name == used.name))
        };
        match (left.as_ref(), right.as_ref()) {
            (a, b) if within(a, self.left) && within(b, self.right) => Some((a, b)),
            (a, b) if within(b, self.left) && within(a, self.right) => Some((b, a)),
            _ => None,
        }
    }

    fn columns(&self, a: &Expr, b: &Expr) -> Option<(&Known, &Known)> {
        Some((bare(a, self.left)?, bare(b, self.right)?))
    }

    /// Whether both sides are the privacy units of their rows.
    fn same_unit(&self, a: &Expr, b: &Expr) -> bool {
        self.columns(a, b).is_some_and(|(a, b)| a.unit && b.unit)
    }

    /// Whether both sides are one key: that of a table and the column through which rows of another one are owned, or
    /// two such columns.
    fn same_key(&self, a: &Expr, b: &Expr) -> bool {
        let Some((a, b)) = self.columns(a, b) else { return false };
        let key = |known: &Known| {
            let (table, column) = known.origin.as_ref()?;
            match &self.policy.tables.get(table)?.privacy_unit {
                UnitPolicy::Through { column: holds, through } if holds == column => {
                    self.policy.key_of(through).map(|(table, key)| (table.to_owned(), key.to_owned()))
                }
                _ => None,
            }
        };
        let (of_a, of_b) = (key(a), key(b));
        (of_a.is_some() && (of_a == of_b || of_a == b.origin)) || (of_b.is_some() && of_b == a.origin)
    }

    /// Whom the pairs belong to.
    fn root(
        &self,
        outer: bool,
        linked: Linked,
        equalities: usize,
        single: bool,
        at: Option<Place>,
    ) -> Result<Option<Root>, Refusal> {
        let by_row = |root: &Root| root.unit == PrivacyUnit::Row;
        match (&self.left.root, &self.right.root) {
            (Some(one), Some(other)) if by_row(one) || by_row(other) => Err(unstable(
                "rows that are units of their own are joined with public tables only",
                "declare a column as `privacy_unit` in both tables",
                at,
            )),
            (Some(one), Some(other)) => {
                if !same_people(one, other)? {
                    return Err(other_people(at));
                }
                if let Some(per) = one.period().filter(|_| linked.person && !linked.period && !linked.key) {
                    let message = format!("units are people within a {}: a join must be on both", per.name());
                    return Err(unstable(message, self.both_periods(per), at));
                }
                if !linked.person && !linked.key {
                    let unit = |input: &Input| input.columns.iter().find(|column| column.unit).map(|c| plain(&c.name));
                    let hint = match (unit(self.left), unit(self.right)) {
                        (Some(a), Some(b)) => format!("add `{a}` = `{b}` of both sides to its ON"),
                        _ => "join on the key through which the rows are owned".into(),
                    };
                    return Err(unstable("a join of two tables of people must be on their privacy unit", hint, at));
                }
                Ok(Some(one.clone()))
            }
            (Some(root), None) | (None, Some(root)) => {
                if outer && self.left.root.is_none() {
                    let hint = "write the table of people first, and LEFT JOIN the public one";
                    return Err(unstable("public rows without a partner would belong to nobody", hint, at));
                }
                if equalities == 0 {
                    return Err(no_equality(at));
                }
                if by_row(root) && !single {
                    return Err(unstable(
                        "a row that is a unit of its own could become several",
                        "join on a column of the public table that the policy declares `unique = true`",
                        at,
                    ));
                }
                Ok(Some(root.clone()))
            }
            (None, None) if equalities == 0 => Err(no_equality(at)),
            (None, None) => Ok(None),
        }
    }
}

impl Pairs<'_> {
    /// How the periods of both sides are compared.
    fn both_periods(&self, per: UnitPeriod) -> String {
        let cut = |input: &Input| {
            let time = input.columns.iter().find(|column| column.when.is_some());
            let name = time.map_or_else(|| "time".to_owned(), |column| plain(&column.name));
            format!("date_trunc('{}', {name})", per.name())
        };
        format!("add {} = {} of both sides to its ON", cut(self.left), cut(self.right))
    }
}

fn no_equality(at: Option<Place>) -> Refusal {
    Refusal::new(Code::Unsupported, "a join without an equality of both sides is not analysed")
        .hint("write ON a.x = b.y, and further conditions behind AND")
        .at(at)
}

/// The parts of a condition that must all hold.
fn conjuncts(condition: Expr) -> Vec<Expr> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            [conjuncts(*left), conjuncts(*right)].concat()
        }
        other => vec![other],
    }
}
