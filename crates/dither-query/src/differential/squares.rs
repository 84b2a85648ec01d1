//! Totals of units, squared.

use std::collections::BTreeMap;

use dither_mechanisms::{Block, Laplace, Noise};
use dither_testing::Random;

use super::{caught, integers_by, policy, rows, sampled};
use crate::engine::LocalEngine;
use crate::plan::Measure;

/// Totals of units that are squared move with the square of its rows, and more rows than are charged for are caught.
#[tokio::test]
async fn se_14_squares_of_totals_move_by_no_more_than_the_plan_claims() {
    let mut random = Random(31);
    let policy = policy("{ column = \"u\" }", 2, 2);
    for sql in
        ["SELECT g, AVG(x) FROM t GROUP BY g", "SELECT g, SUM(y), COUNT(*) FROM t GROUP BY g", "SELECT COUNT(x) FROM t"]
    {
        let mut honest = sampled(sql, &policy).await;
        // Nothing but the squares: the others are held to their claims elsewhere.
        honest.shape.measures.retain(|measure| matches!(measure, Measure::UnitSquares(_)));
        assert!(!honest.measures.is_empty(), "{sql}");
        honest.mechanism.blocks = honest
            .measures
            .iter()
            .map(|measure| {
                let (claimed, _) = honest.sensitivity(measure).unwrap();
                let noise = Laplace::for_epsilon(claimed, "1".parse().unwrap()).unwrap();
                Block { width: measure.width(), noise: Noise::Laplace(noise) }
            })
            .collect();
        assert_eq!(caught(&honest, &mut random).await, (true, false), "{sql}");
    }
}

/// The squares of totals are those of loops over a map, by the operator and by the portable plan.
#[tokio::test]
async fn se_05_squares_of_totals_are_those_of_loops_over_a_map() {
    let mut random = Random(37);
    let policy = policy("{ column = \"u\" }", 1, 100);
    let plan = sampled("SELECT AVG(x), COUNT(*), SUM(y) FROM t", &policy).await;
    for round in 0..20 {
        let table = rows(&mut random);
        let mut units: BTreeMap<i64, [i128; 5]> = BTreeMap::new();
        for row in table.iter() {
            let Some(unit) = row.unit else { continue };
            let [a, b, n, c, d] = units.entry(unit).or_default();
            if let Some(x) = row.x.map(|x| i128::from(x.clamp(-3, 50))) {
                (*a, *b) = (*a + 50 - x, *b + x + 3);
            }
            *n += 1;
            if let Some(y) = row.y.filter(|y| !y.is_nan()) {
                let y = (y * 4.0 + 0.5).floor().clamp(0.0, 4.0) as i128;
                (*c, *d) = (*c + 4 - y, *d + y);
            }
        }
        let sum = |of: &dyn Fn(&[i128; 5]) -> i128| units.values().map(of).sum::<i128>();
        let squares =
            |at: usize| [sum(&|u| u[at] * u[at]), sum(&|u| 2 * u[at] * u[at + 1]), sum(&|u| u[at + 1] * u[at + 1])];
        let mut expected = vec![sum(&|u| u[0]), sum(&|u| u[1]), sum(&|u| u[2]), sum(&|u| u[3]), sum(&|u| u[4])];
        expected.extend(squares(0));
        expected.extend([0, 0, sum(&|u| u[2] * u[2])]);
        expected.extend(squares(3));
        for engine in [LocalEngine::new(2), LocalEngine::new(2).portable()] {
            let found = integers_by(&engine, &plan, &table, 2).await;
            assert_eq!(found.rows[0].values, expected, "round {round}");
        }
    }
}
