//! Rows that sum to a total: weighted least squares under one equality constraint.
//!
//! Let row i have the value xᵢ and the variance vᵢ, V = Σvᵢ, and let the total be T with the variance t (zero if
//! public). The closest point on Σxᵢ = T, measured in standard deviations, moves row i by wᵢ(T − Σx) with
//! wᵢ = vᵢ/V. Its variance becomes vᵢ − wᵢ²(V − t): it shrinks for every row whenever the total is less noisy
//! than the sum of the rows, and grows if not. The total itself is not moved, so that every section that sums to
//! it agrees with it and with each other.
//!
//! # References
//! Hay, Rastogi, Miklau and Suciu, *Boosting the Accuracy of Differentially Private Histograms Through
//! Consistency*, VLDB 2010, for constrained inference. The formula is the generalised least squares estimate with
//! a fixed right-hand side.

use std::collections::BTreeMap;

use dither_core::{Answer, Cell, Estimate, Role};

use super::{Sections, StepError, Total, find, find_single, nearest, variance};

const STEP: &str = "sum-to-total";

pub(super) fn run(
    mut answer: Answer,
    column: &str,
    total: &Total,
    by: Option<&str>,
    sections: &Sections,
) -> Result<Answer, StepError> {
    let value = find_single(&answer, STEP, column)?;
    let by = by.map(|by| Ok((by, find(&answer, STEP, by, Role::Key)?))).transpose()?;
    let totals = Totals::new(total, by.map(|(name, _)| name), sections)?;

    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, row) in answer.rows.iter().enumerate() {
        groups.entry(group_name(by.and_then(|(_, key)| row.get(key)))).or_default().push(index);
    }
    for (name, rows) in groups {
        let estimates: Option<Vec<Estimate>> = rows.iter().map(|&row| estimate(&answer, row, value)).collect();
        // A group without a total, or with a row that has no number, stays as it is.
        let (Some(estimates), Some(total)) = (estimates, totals.get(&name)) else { continue };
        for (&row, moved) in rows.iter().zip(reconcile(&estimates, total)) {
            answer.rows[row][value] = Cell::Value(moved);
        }
    }
    Ok(answer)
}

pub(super) fn estimate(answer: &Answer, row: usize, column: usize) -> Option<Estimate> {
    match answer.rows.get(row)?.get(column)? {
        Cell::Value(estimate) if estimate.value.is_some_and(f64::is_finite) => Some(*estimate),
        _ => None,
    }
}

/// Keys have no order across types; their text with the type in front is a good name of a group.
pub(super) fn group_name(cell: Option<&Cell>) -> String {
    match cell {
        Some(Cell::Key(key)) => format!("{key:?}"),
        _ => String::new(),
    }
}

/// The total of each group.
enum Totals {
    Public(f64),
    Released(BTreeMap<String, Estimate>),
}

impl Totals {
    fn new(total: &Total, by: Option<&str>, sections: &Sections) -> Result<Self, StepError> {
        let (section, column) = match total {
            Total::Public(value) if value.is_finite() => return Ok(Self::Public(*value)),
            Total::Public(_) => return Err(StepError::Parameter { step: STEP, needed: "a finite `total`" }),
            Total::Released { section, column } => (section, column),
        };
        let Some(answer) = sections.get(section) else {
            let nearest = nearest(section, sections.keys().map(String::as_str));
            return Err(StepError::UnknownSection { section: section.clone(), nearest });
        };
        let value = find(answer, STEP, column, Role::Value)?;
        let keys: Vec<&str> = answer.columns.iter().filter(|c| c.role == Role::Key).map(|c| c.name.as_str()).collect();
        if keys != Vec::from_iter(by) {
            let needed = by.map_or("no keys".to_owned(), |by| format!("the one key `{by}`"));
            return Err(StepError::NotOneTotal { section: section.clone(), needed });
        }
        let key = answer.columns.iter().position(|c| c.role == Role::Key);
        let total = |index: usize| {
            let name = group_name(key.and_then(|key| answer.rows[index].get(key)));
            Some((name, estimate(answer, index, value)?))
        };
        Ok(Self::Released((0..answer.rows.len()).filter_map(total).collect()))
    }

    fn get(&self, group: &str) -> Option<Estimate> {
        match self {
            Self::Public(value) => Some(Estimate::new(*value, *value, *value)),
            Self::Released(totals) => totals.get(group).copied(),
        }
    }
}

/// The rows, moved to the total.
fn reconcile(rows: &[Estimate], total: Estimate) -> Vec<Estimate> {
    let values: Vec<f64> = rows.iter().filter_map(|row| row.value).collect();
    let Some(target) = total.value else { return rows.to_vec() };
    // Without every interval there is nothing to weigh by: all rows move alike and no interval is claimed.
    let variances: Option<Vec<f64>> = rows.iter().map(|row| variance(*row)).collect();
    let known = variances.zip(variance(total));
    let sum: f64 = known.as_ref().map_or(0.0, |(variances, _)| variances.iter().sum());
    let weights: Vec<f64> = match &known {
        Some((variances, _)) if sum > 0.0 => variances.iter().map(|variance| variance / sum).collect(),
        _ => vec![1.0 / rows.len() as f64; rows.len()],
    };

    let gap = target - values.iter().sum::<f64>();
    let exact: Vec<f64> = values.iter().zip(&weights).map(|(value, weight)| value + weight * gap).collect();
    let whole = rows.iter().chain([&total]).all(is_whole);
    let shown = if whole { whole_numbers(&exact, target) } else { close(exact.clone(), &weights, target) };

    let moved = |index: usize| {
        let value = Some(shown[index]);
        let Some((variances, total)) = &known else { return Estimate { value, low: None, high: None } };
        let half = (variances[index] - weights[index].powi(2) * (sum - total)).max(0.0).sqrt();
        // The interval lies around the exact solution. Of whole numbers it holds the whole numbers inside.
        let (low, high) = (exact[index] - half, exact[index] + half);
        let (low, high) = if whole { (low.ceil(), high.floor()) } else { (low, high) };
        Estimate::new(shown[index], low.min(shown[index]), high.max(shown[index]))
    };
    (0..rows.len()).map(moved).collect()
}

/// Whether a number and its interval are whole: then it counts something, and so does the exact answer.
pub(super) fn is_whole(estimate: &Estimate) -> bool {
    let parts = [estimate.value, estimate.low, estimate.high];
    parts.iter().all(|part| part.is_some_and(|part| part.fract() == 0.0 && part.abs() < 2f64.powi(50)))
}

/// Whole numbers stay whole: each is rounded down, and the units that are left go to the largest remainders.
pub(super) fn whole_numbers(exact: &[f64], target: f64) -> Vec<f64> {
    let mut shown: Vec<f64> = exact.iter().map(|value| value.floor()).collect();
    let left = (target - shown.iter().sum::<f64>()).max(0.0) as usize;
    let remainder = |index: usize| exact[index] - exact[index].floor();
    let mut order: Vec<usize> = (0..exact.len()).collect();
    order.sort_by(|&a, &b| remainder(b).total_cmp(&remainder(a)));
    // Rounding errors could leave one unit more than there are rows; the cycle hands out that one as well.
    for &index in order.iter().cycle().take(left) {
        shown[index] += 1.0;
    }
    shown
}

/// Moves the last digits of the noisiest row so that the floating-point sum is the total, as far as it can be.
fn close(mut values: Vec<f64>, weights: &[f64], target: f64) -> Vec<f64> {
    let noisiest = (0..weights.len()).max_by(|&a, &b| weights[a].total_cmp(&weights[b]));
    if let Some(index) = noisiest {
        for _ in 0..4 {
            values[index] += target - values.iter().sum::<f64>();
        }
    }
    values
}
