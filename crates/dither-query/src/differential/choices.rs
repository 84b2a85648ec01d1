//! Choices of neighbouring tables: quantiles of any magnitude, and the best groups.

use std::collections::BTreeSet;

use dither_mechanisms::{ExactRow, KeyRule, MaxSensitivity};
use dither_testing::Random;

use super::{Row, integers, integers_by, plan, policy, rows, violates};
use crate::engine::LocalEngine;
use crate::plan::{MechanismChoice, price, shape};

/// Quantiles on the grid of all magnitudes move by no more rows than those between bounds, and both engines agree on where
/// values lie. As in the control below, a bound that is not enforced would show.
#[tokio::test(flavor = "multi_thread")]
async fn se_14_quantiles_of_any_magnitude_move_by_no_more_than_the_plan_claims() {
    let mut random = Random(23);
    let mut moved = 0;
    for round in 0..25 {
        let policy = policy("{ column = \"u\" }", 1 + random.below(2) as u32, 1 + random.below(3) as u32);
        let key = random.of(&["g", "h", "free"]);
        let plan = plan(
            &format!("SELECT {key}, MEDIAN(wide), MAX(wide), AVG(wide), VAR_POP(wide), COUNT(*) FROM t GROUP BY {key}"),
            &policy,
        )
        .await;
        let mut table = rows(&mut random);
        table.iter_mut().for_each(|row| row.y = random.of(&[row.y, Some(-2.5e-7), Some(3e18), Some(-1e6), Some(7.0)]));
        let whole = integers(&plan, &table, 2).await;
        let portable = integers_by(&LocalEngine::new(1).portable(), &plan, &table, 1).await;
        assert!(whole == portable, "round {round}");
        let units: BTreeSet<_> = table.iter().filter_map(|row| row.unit).collect();
        for unit in units {
            let rest: Vec<Row> = table.iter().filter(|row| row.unit != Some(unit)).cloned().collect();
            let less = integers(&plan, &rest, 1).await;
            assert!(!violates(&plan, &whole, &less), "round {round}: {table:?}");
            moved += u32::from(whole != less);
        }
    }
    assert!(moved > 40, "{moved}: too few neighbours differ for the comparison to mean something");
}

/// The best groups are chosen by counts that a unit moves by its rows in one group at most, all of them the same way.
#[tokio::test]
async fn se_13_the_best_groups_are_chosen_by_what_a_unit_has_in_one_group() {
    let mut random = Random(29);
    for (sql, steps) in [
        ("SELECT g FROM t GROUP BY g ORDER BY COUNT(*) DESC LIMIT 1", 2),
        ("SELECT g FROM t GROUP BY g ORDER BY COUNT(DISTINCT u) DESC LIMIT 1", 1),
        ("SELECT g FROM t GROUP BY g ORDER BY COUNT(x) DESC LIMIT 1", 2),
    ] {
        let policy = policy("{ column = \"u\" }", 2, 2);
        let (shape, _) = shape(sql, &policy).await.unwrap();
        let honest = price(shape, "1".parse().unwrap(), "0".parse().unwrap(), MechanismChoice::Auto).unwrap();
        let KeyRule::Top(top) = honest.mechanism.keys else { panic!("{sql}") };
        assert_eq!(top.each().sensitivity(), MaxSensitivity::monotone(steps), "{sql}");
        let mut mutant = honest.clone();
        mutant.shape.bounds.max_rows_per_group = std::num::NonZeroU32::new(4).unwrap();
        let (mut caught, mut moved) = (0, 0);
        for _ in 0..30 {
            let table = rows(&mut random);
            let rest: Vec<Row> = table.iter().filter(|row| row.unit != Some(0)).cloned().collect();
            let mut apart = Vec::new();
            for plan in [&honest, &mutant] {
                let (whole, less) = (integers(plan, &table, 2).await, integers(plan, &rest, 1).await);
                assert!(whole.rows.iter().chain(&less.rows).all(|row| row.values.is_empty()));
                let fewer = |(a, b): (&ExactRow, &ExactRow)| i128::from(a.units) - i128::from(b.units);
                apart.push(whole.rows.iter().zip(&less.rows).map(fewer).collect::<Vec<_>>());
            }
            assert!(apart[0].iter().all(|fewer| (0..=steps as i128).contains(fewer)), "{sql}: {:?}", apart[0]);
            moved += apart[0].iter().filter(|fewer| **fewer > 0).count();
            caught += apart[1].iter().filter(|fewer| **fewer > steps as i128).count();
        }
        assert!(moved > 20, "{moved}");
        // The control: rows that are kept and not charged for.
        assert!(caught > 0 || sql.contains("DISTINCT"), "{sql}");
    }
}
