//! Random questions and their plans.

use std::collections::BTreeSet;

use dither_testing::Random;

use crate::plan::{MechanismChoice, QueryPlan, price, shape};
use crate::policy::Policy;

/// A question that one in three times asks about samples as well, where it can.
pub(super) async fn perhaps_sampled(random: &mut Random, sql: &str, policy: &Policy) -> QueryPlan {
    if random.below(3) == 0 { sampled(sql, policy).await } else { plan(sql, policy).await }
}

/// A question that asks about samples, where it can.
pub(super) async fn sampled(sql: &str, policy: &Policy) -> QueryPlan {
    let (shape, _) = shape(sql, policy).await.unwrap_or_else(|refusal| panic!("{sql}: {refusal}"));
    let shape = shape.clone().with_sampling().unwrap_or(shape);
    price(shape, "1".parse().unwrap(), "1e-3".parse().unwrap(), MechanismChoice::Laplace).unwrap()
}

/// A random question over the columns of the policy.
pub(super) fn question(random: &mut Random) -> String {
    let aggregates = [
        "COUNT(*)",
        "COUNT(x)",
        "SUM(x)",
        "AVG(x)",
        "AVG(y)",
        "SUM(y)",
        "SUM(x * 2 + 1)",
        "COUNT(DISTINCT u)",
        "SUM(CASE WHEN h = 1 THEN x ELSE 0 END)",
        "SUM(x, contribution_bounds_per_row => (0, 10))",
        "COUNT(*) FILTER (WHERE h > 0)",
        "SUM(ABS(y))",
        "VAR_POP(x)",
        "STDDEV(y)",
        "COVAR_SAMP(x, y)",
        "CORR(y, x)",
        "COUNT(DISTINCT h)",
        "COUNT(DISTINCT y) FILTER (WHERE x > 0)",
        "COUNT(DISTINCT g || free)",
        "MEDIAN(x)",
        "PERCENTILE_CONT(x, 0.9)",
        "MIN(y)",
        "MAX(x * 2)",
        "SUM(wide)",
        "AVG(wide) FILTER (WHERE h > 0)",
        "STDDEV(wide)",
        "PERCENTILE_CONT(h, 0.2, contribution_bounds_per_row => (0, 2)) FILTER (WHERE x > 0)",
    ];
    let mut chosen = BTreeSet::new();
    for _ in 0..=random.below(3) {
        chosen.insert(random.of(&aggregates));
    }
    let keys = random.of(&[
        "",
        "",
        "g",
        "free",
        "h",
        "g, h",
        "CASE WHEN h > 1 THEN 'big' ELSE 'small' END",
        "bucket(y, 0.25, 0.5)",
    ]);
    let filter = random.of(&["", "", " WHERE x > 0", " WHERE h = 1 OR g = 'a'", " WHERE 1 / (x - 42) >= 0"]);
    let list = chosen.into_iter().collect::<Vec<_>>().join(", ");
    match keys {
        "" => format!("SELECT {list} FROM t{filter}"),
        keys => format!("SELECT {keys}, {list} FROM t{filter} GROUP BY {keys}"),
    }
}

pub(super) async fn plan(sql: &str, policy: &Policy) -> QueryPlan {
    let (shape, _) = shape(sql, policy).await.unwrap_or_else(|refusal| panic!("{sql}: {refusal}"));
    price(shape, "1".parse().unwrap(), "1e-3".parse().unwrap(), MechanismChoice::Laplace).unwrap()
}
