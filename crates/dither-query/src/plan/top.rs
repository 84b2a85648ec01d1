//! The first few of public groups by a count that is not shown: only their order is asked for.

use std::num::NonZeroU32;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::scalar::ScalarValue;
use dither_core::{Delta, Epsilon, Neighbors};
use dither_mechanisms::{KeyRule, MaxSensitivity, Selection, TopK};

use super::{Derivation, Measure, QueryPlan};
use crate::ir::{AggregateKind, Question};

/// The plan that chooses the groups by the exponential mechanism, where that has less noise than a noisy count of every group.
///
/// A unit moves the count of one group by its rows in that group, however many groups it is in: so k choices at a sensitivity
/// of R stand against noise for R rows in each of L0 groups.
pub(super) fn instead_of(noise: &QueryPlan, epsilon: Epsilon) -> Option<QueryPlan> {
    let [measure] = noise.measures.as_slice() else { return None };
    // Sampling is asked about for the sake of a number.
    if noise.sampling.is_some() {
        return None;
    }
    let groups = u32::try_from(noise.question.public_groups()?).ok().and_then(NonZeroU32::new)?;
    let count = asked(&noise.question)?.min(groups);
    let rows = match measure {
        Measure::Units => 1,
        _ => u128::from(noise.effective_bounds().max_rows_per_group.get()),
    };
    let sensitivity = match noise.neighbors {
        Neighbors::AddOrRemoveUnit => MaxSensitivity::monotone(rows),
        _ => MaxSensitivity::new(rows),
    };
    let each = Epsilon::from_nanos(epsilon.nanos() / u64::from(count.get())).ok()?;
    let top = TopK::new(Selection::new(groups, sensitivity, each).ok()?, count).ok()?;
    // The deviation of the Gumbel noise that would choose alike.
    let width = std::f64::consts::PI / 6f64.sqrt() / top.each().rate().as_f64();
    let ratio = noise.mechanism.blocks.first()?.noise.standard_deviation() / width;
    if ratio <= 1.0 {
        return None;
    }
    let mut plan = noise.clone();
    plan.why = format!(
        "{count} of {groups} groups are chosen, the first first; noise on the count of each would be {ratio:.2} times as wide"
    );
    plan.shape.derivations = vec![Derivation::Place];
    plan.mechanism.blocks.clear();
    plan.mechanism.keys = KeyRule::Top(top);
    (plan.shares, plan.delta) = (vec![epsilon], Delta::ZERO);
    Some(plan)
}

/// How many groups are asked for in the order of one count, if that is all that is asked for.
fn asked(question: &Question) -> Option<NonZeroU32> {
    let [aggregate] = question.aggregates.as_slice() else { return None };
    use AggregateKind::{CountRows, CountUnits, CountValues};
    if question.keys.is_empty() || !matches!(aggregate.kind, CountRows | CountUnits | CountValues) {
        return None;
    }
    let outer = Outer::of(&question.outer.plan, &aggregate.name)?;
    (outer.sorted && outer.names.is_empty()).then_some(outer.most).flatten()
}

/// What stands above the aggregation.
struct Outer {
    /// The names under which the count is handed on.
    names: Vec<String>,
    /// Whether groups are in the order of the count, the largest first.
    sorted: bool,
    /// How many groups are shown or skipped.
    most: Option<NonZeroU32>,
}

impl Outer {
    /// Reads it from the aggregation upwards; `None` where something else is done with the count.
    fn of(plan: &LogicalPlan, count: &str) -> Option<Self> {
        match plan {
            LogicalPlan::Aggregate(_) => Some(Self { names: vec![count.to_owned()], sorted: false, most: None }),
            LogicalPlan::Projection(projection) => {
                let below = Self::of(&projection.input, count)?;
                let mut names = Vec::new();
                for expr in &projection.expr {
                    if below.is_count(expr) {
                        names.push(expr.qualified_name().1);
                    } else if below.mentioned(expr) {
                        return None;
                    }
                }
                Some(Self { names, ..below })
            }
            LogicalPlan::Sort(sort) => {
                let below = Self::of(&sort.input, count)?;
                let first = sort.expr.first()?;
                let sorted = !below.sorted && below.is_count(&first.expr) && !first.asc;
                (sorted && sort.fetch.is_none()).then_some(Self { sorted, ..below })
            }
            LogicalPlan::Limit(limit) => {
                let below = Self::of(&limit.input, count)?;
                let skip = limit.skip.as_deref().map_or(Some(0), number)?;
                let most = number(limit.fetch.as_deref()?)?.checked_add(skip).and_then(NonZeroU32::new);
                (below.sorted && below.most.is_none()).then_some(Self { most, ..below })
            }
            _ => None,
        }
    }

    /// Whether an expression is the count as it is.
    fn is_count(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Alias(alias) => self.is_count(&alias.expr),
            Expr::Column(column) => self.names.contains(&column.name),
            _ => false,
        }
    }

    fn mentioned(&self, expr: &Expr) -> bool {
        let mut found = false;
        let _ = expr.apply(|node| {
            found |= matches!(node, Expr::Column(column) if self.names.contains(&column.name));
            Ok(TreeNodeRecursion::Continue)
        });
        found
    }
}

/// A whole number that stands in the text.
fn number(expr: &Expr) -> Option<u32> {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(number)), _) => u32::try_from(*number).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{MechanismChoice, Request, plan};
    use crate::release;
    use crate::testing::policy;
    use dither_core::{Cell, Key};
    use dither_mechanisms::{NoisyRow, NoisyTable};

    const TABLE: &str = r#"
        privacy_unit = { column = "u" }
        max_groups_per_unit = 8
        max_rows_per_group = 3
        "#;
    const COLUMNS: &str = r#"
        u = { type = "integer" }
        x = { type = "integer" }
        g = { type = "integer", keys = { from = 1, to = 40 } }
        free = { type = "text" }
        "#;

    async fn ask(sql: &str, mechanism: MechanismChoice) -> QueryPlan {
        let policy = policy(TABLE, COLUMNS);
        let delta = Some("1e-6".parse().unwrap());
        let request =
            Request { sql: sql.into(), epsilon: Some("1".parse().unwrap()), delta, mechanism, sampling: false };
        plan(&request, &policy).await.unwrap()
    }

    fn top(plan: &QueryPlan) -> Option<TopK> {
        match plan.mechanism.keys {
            KeyRule::Top(top) => Some(top),
            _ => None,
        }
    }

    #[tokio::test]
    async fn a_few_groups_by_a_count_that_is_not_shown_are_chosen() {
        for (sql, count, steps) in [
            ("SELECT g FROM t GROUP BY g ORDER BY COUNT(*) DESC LIMIT 3", 3, 3),
            ("SELECT g AS ward FROM t WHERE x > 0 GROUP BY g ORDER BY COUNT(DISTINCT u) DESC LIMIT 2", 2, 1),
            ("SELECT g FROM t GROUP BY g ORDER BY COUNT(x) DESC, g LIMIT 2 OFFSET 1", 3, 3),
            ("SELECT g FROM t GROUP BY g ORDER BY COUNT(*) FILTER (WHERE x > 1) DESC LIMIT 1", 1, 3),
        ] {
            let plan = ask(sql, MechanismChoice::Auto).await;
            let top = top(&plan).unwrap_or_else(|| panic!("{sql}"));
            assert_eq!((top.count().get(), top.each().sensitivity().steps()), (count, steps), "{sql}");
            assert!(top.each().sensitivity().is_monotone());
            let cost = plan.cost().unwrap();
            assert!(cost.epsilon_nanos <= 1_000_000_000 && cost.delta_attos == 0, "{sql}: {}", cost.epsilon_nanos);
            let explained = plan.explain(Delta::ZERO).unwrap();
            assert!(explained.why.contains("times as wide") && explained.keys.contains("of all 40"), "{explained:?}");
            let output = &explained.outputs[0];
            assert_eq!((output.mechanism, output.l1_sensitivity), ("exponential", f64::from(steps as u32)));
            assert!(output.expected_error.is_some());
        }
    }

    #[tokio::test]
    async fn noise_on_all_counts_where_it_is_less_or_more_is_asked_for() {
        for sql in [
            // Twenty choices have more noise than eight groups of a unit.
            "SELECT g FROM t GROUP BY g ORDER BY COUNT(*) DESC LIMIT 20",
            "SELECT g FROM t GROUP BY g ORDER BY COUNT(*) LIMIT 3",
            "SELECT g FROM t GROUP BY g ORDER BY COUNT(*) DESC",
            "SELECT g, COUNT(*) FROM t GROUP BY g ORDER BY COUNT(*) DESC LIMIT 3",
            "SELECT g, COUNT(*) + 1 AS n FROM t GROUP BY g ORDER BY COUNT(*) DESC LIMIT 3",
            "SELECT g FROM t GROUP BY g HAVING COUNT(*) > 5 ORDER BY COUNT(*) DESC LIMIT 3",
            "SELECT g FROM t GROUP BY g ORDER BY COUNT(*) * 2 DESC LIMIT 3",
            "SELECT g FROM t GROUP BY g ORDER BY g DESC, COUNT(*) DESC LIMIT 3",
            "SELECT free FROM t GROUP BY free ORDER BY COUNT(*) DESC LIMIT 3",
        ] {
            assert_eq!(top(&ask(sql, MechanismChoice::Auto).await), None, "{sql}");
        }
        let sql = "SELECT g FROM t GROUP BY g ORDER BY COUNT(*) DESC LIMIT 3";
        assert_eq!(top(&ask(sql, MechanismChoice::Laplace).await), None, "as asked");
    }

    #[tokio::test]
    async fn the_answer_has_the_groups_in_the_order_of_the_choices() {
        for (sql, expected) in [
            ("SELECT g FROM t GROUP BY g ORDER BY COUNT(*) DESC LIMIT 3", vec![7, 2, 31]),
            ("SELECT g FROM t GROUP BY g ORDER BY COUNT(*) DESC LIMIT 2 OFFSET 1", vec![2, 31]),
        ] {
            let plan = ask(sql, MechanismChoice::Auto).await;
            let row = |(place, key): (i128, i64)| NoisyRow { key: vec![Key::Integer(key)], values: vec![3 - place] };
            let rows = (0..).zip([7, 2, 31]).map(row).collect();
            let answer = release::answer(&plan, &NoisyTable { rows, bounds: Vec::new() }).await.unwrap();
            let expected: Vec<Vec<Cell>> = expected.into_iter().map(|key| vec![Cell::Key(Key::Integer(key))]).collect();
            assert_eq!(answer.rows, expected, "{sql}");
            assert_eq!(release::columns(&plan).await.unwrap().len(), 1);
        }
    }
}
