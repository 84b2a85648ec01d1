//! By how much the exact integers of two tables differ, and whether a plan claims as much.

use std::collections::{BTreeMap, BTreeSet};

use dither_mechanisms::{ExactRow, ExactTable, Histogram, KeyRule, Noise};

use crate::plan::{Measure, QueryPlan};

/// By how much two exact tables differ.
struct Distance {
    /// In each block: the l1 norm and the squared l2 norm.
    blocks: Vec<(u128, u128)>,
    /// In each histogram: the most rows of one group, the number of groups, and the rows of all.
    histograms: Vec<(u64, u64, u64)>,
    /// In how many keys.
    keys: u128,
}

fn distance(plan: &QueryPlan, one: &ExactTable, two: &ExactTable) -> Distance {
    let width: usize = plan.measures.iter().map(Measure::width).sum();
    let index = |table: &ExactTable| -> BTreeMap<String, ExactRow> {
        table.rows.iter().map(|row| (serde_json::to_string(&row.key).unwrap(), row.clone())).collect()
    };
    let (one, two) = (index(one), index(two));
    let keys: BTreeSet<&String> = one.keys().chain(two.keys()).collect();
    let histograms = vec![Histogram::new(); plan.ranks.len() + plan.found.len()];
    let absent = ExactRow { key: Vec::new(), values: vec![0; width], units: 0, histograms };
    let mut blocks = vec![(0, 0); plan.measures.len()];
    let mut moved = vec![(0, 0, 0); plan.ranks.len() + plan.found.len()];
    let mut changed = 0;
    for key in keys {
        let (one, two) = (one.get(key).unwrap_or(&absent), two.get(key).unwrap_or(&absent));
        let (a, b) = (&one.values, &two.values);
        changed += u128::from(one.units.abs_diff(two.units));
        for (moved, (a, b)) in moved.iter_mut().zip(one.histograms.iter().zip(&two.histograms)) {
            let count =
                |histogram: &Histogram, point| histogram.iter().find(|(p, _)| *p == point).map_or(0, |(_, n)| *n);
            let points: BTreeSet<u32> = a.iter().chain(b).map(|(point, _)| *point).collect();
            let rows: u64 = points.into_iter().map(|point| count(a, point).abs_diff(count(b, point))).sum();
            *moved = (moved.0.max(rows), moved.1 + u64::from(rows > 0), moved.2 + rows);
        }
        let mut column = 0;
        for (block, measure) in plan.measures.iter().enumerate() {
            for _ in 0..measure.width() {
                let difference = a[column].abs_diff(b[column]);
                blocks[block].0 += difference;
                blocks[block].1 += difference * difference;
                column += 1;
            }
        }
    }
    Distance { blocks, histograms: moved, keys: changed }
}

/// Whether two tables differ by more than the plan claims.
pub(crate) fn violates(plan: &QueryPlan, one: &ExactTable, two: &ExactTable) -> bool {
    let Distance { blocks, histograms, keys: changed } = distance(plan, one, two);
    let bounds = plan.effective_bounds();
    let apart = plan.mechanism.found.iter().zip(&histograms[plan.ranks.len()..]).any(|(found, &(rows, _, all))| {
        // Sums between any bounds move by what is charged for, since so many rows move.
        all > found.rows() || rows > u64::from(bounds.max_rows_per_group.get())
    });
    let off = plan.mechanism.quantiles.iter().zip(histograms).any(|(quantiles, (rows, groups, _))| {
        assert_eq!(
            quantiles.rows(),
            u64::from(bounds.max_rows_per_group.get()),
            "the choice reads the bounds of the plan"
        );
        rows > quantiles.rows() || groups > u64::from(bounds.max_groups_per_unit.get())
    });
    let over = plan.measures.iter().zip(&plan.mechanism.blocks).zip(blocks).any(|((measure, block), (l1, l2))| {
        let (claimed, euclid) = plan.sensitivity(measure).unwrap();
        let Noise::Laplace(laplace) = block.noise else { panic!("Laplace was asked for") };
        assert_eq!(laplace.sensitivity(), claimed, "the noise reads the sensitivity of the plan");
        l1 > claimed.steps() || l2 > euclid.squared()
    });
    let keys = match &plan.mechanism.keys {
        KeyRule::Public | KeyRule::Top(_) => false,
        KeyRule::Threshold(rule) => changed > u128::from(rule.max_groups_per_unit().get()),
    };
    over || off || apart || keys
}
