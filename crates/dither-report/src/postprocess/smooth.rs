//! Smoothing on a grid: a Gaussian kernel over the released cells.
//!
//! The weights of a cell are exp(−d²/2σ²) over released cells within 3σ, d in cells, divided by their sum. A
//! cell that was not released is not counted as zero: it is unknown, not empty, and treating it as zero would
//! pull its neighbours down. So a mean over the cells that exist is taken, and the sum over the grid is not kept.
//!
//! The interval of a smoothed cell combines the half-widths with the same weights in quadrature. It covers the
//! exact bounded answer *smoothed the same way*, not the exact answer of the one cell: where neighbours really
//! differ, smoothing is biased, and no interval made of noise alone shows that.

use std::collections::BTreeMap;

use dither_core::{Answer, Cell, Estimate, Key, Role};

use super::{StepError, find, find_single, variance};

const STEP: &str = "smooth";

/// Beyond three standard deviations a Gaussian kernel has 0.3 % of its weight.
const REACH: f64 = 3.0;

/// Cells by the keys that are not of the grid, then by place; the value is the row.
type Layers = BTreeMap<String, BTreeMap<(i64, i64), usize>>;

pub(super) fn run(mut answer: Answer, x: &str, y: &str, value: &str, sigma: f64) -> Result<Answer, StepError> {
    if !(sigma > 0.0 && sigma <= 20.0) {
        return Err(StepError::Parameter { step: STEP, needed: "a `sigma` of more than 0 and at most 20 cells" });
    }
    let (x, y) = (find(&answer, STEP, x, Role::Key)?, find(&answer, STEP, y, Role::Key)?);
    let value = find_single(&answer, STEP, value)?;
    if x == y {
        return Err(StepError::Parameter { step: STEP, needed: "two different key columns as `x` and `y`" });
    }

    let (xs, ys) = (places(&answer, x), places(&answer, y));
    let mut layers = Layers::new();
    for (row, cells) in answer.rows.iter().enumerate() {
        let rest = cells.iter().enumerate().filter(|(index, _)| *index != x && *index != y);
        let layer: Vec<&Cell> = rest.map(|(_, cell)| cell).filter(|cell| matches!(cell, Cell::Key(_))).collect();
        layers.entry(format!("{layer:?}")).or_default().insert((xs[row], ys[row]), row);
    }

    let before: Vec<Option<Estimate>> = answer.rows.iter().map(|row| number(row.get(value))).collect();
    for cells in layers.values() {
        for (&place, &row) in cells {
            if before[row].is_some() {
                answer.rows[row][value] = Cell::Value(average(place, cells, &before, sigma));
            }
        }
    }
    Ok(answer)
}

fn number(cell: Option<&Cell>) -> Option<Estimate> {
    match cell {
        Some(Cell::Value(estimate)) if estimate.value.is_some_and(f64::is_finite) => Some(*estimate),
        _ => None,
    }
}

fn average(
    (x, y): (i64, i64),
    cells: &BTreeMap<(i64, i64), usize>,
    before: &[Option<Estimate>],
    sigma: f64,
) -> Estimate {
    let reach = (REACH * sigma).ceil() as i64;
    let (mut total, mut sum, mut square) = (0.0, 0.0, Some(0.0));
    for dx in -reach..=reach {
        let column = (x.saturating_add(dx), y.saturating_sub(reach))..=(x.saturating_add(dx), y.saturating_add(reach));
        for (&(_, other), &row) in cells.range(column) {
            let Some(estimate) = before[row] else { continue };
            let (dx, dy) = (dx as f64, (other - y) as f64);
            let weight = (-(dx * dx + dy * dy) / (2.0 * sigma * sigma)).exp();
            total += weight;
            sum += weight * estimate.value.unwrap_or(0.0);
            square = square.zip(variance(estimate)).map(|(square, variance)| square + weight * weight * variance);
        }
    }
    // The cell itself has the weight 1, so the total is never zero.
    let value = sum / total;
    match square {
        Some(square) => Estimate::new(value, value - square.sqrt() / total, value + square.sqrt() / total),
        None => Estimate { value: Some(value), low: None, high: None },
    }
}

/// The place of every row along one key: multiples of the smallest gap for numbers, the rank for the rest.
pub(crate) fn places(answer: &Answer, column: usize) -> Vec<i64> {
    let keys: Vec<Option<&Key>> = answer
        .rows
        .iter()
        .map(|row| match row.get(column) {
            Some(Cell::Key(key)) => Some(key),
            _ => None,
        })
        .collect();
    let numbers: Option<Vec<f64>> = keys.iter().map(|key| numeric(*key)).collect();
    if let Some(numbers) = numbers {
        let mut sorted = numbers.clone();
        sorted.sort_by(f64::total_cmp);
        let gaps = sorted.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0.0);
        let step = gaps.fold(f64::INFINITY, f64::min);
        let first = sorted.first().copied().unwrap_or(0.0);
        return numbers.iter().map(|number| ((number - first) / step).round() as i64).collect();
    }
    let mut ranks: BTreeMap<String, i64> = keys.iter().map(|key| (format!("{key:?}"), 0)).collect();
    ranks.values_mut().zip(0..).for_each(|(rank, place)| *rank = place);
    keys.iter().map(|key| ranks.get(&format!("{key:?}")).copied().unwrap_or(0)).collect()
}

/// The number of a key.
pub(crate) fn numeric(key: Option<&Key>) -> Option<f64> {
    match key {
        Some(Key::Integer(value)) => Some(*value as f64),
        Some(Key::Number(value)) if value.is_finite() => Some(*value),
        _ => None,
    }
}
