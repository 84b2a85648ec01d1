//! What an engine counted, as the integers that the mechanism measures.

use dither_mechanisms::{ExactRow, FoundBounds, Histogram, KeyRule};

use super::{Counted, EngineError, failed};
use crate::grid::Grid;
use crate::plan::{Measure, QueryPlan, Values};

/// The integers that the mechanism measures in a group.
pub(super) fn measured(plan: &QueryPlan, group: Counted) -> Result<ExactRow, EngineError> {
    let Counted { key, units, rows, sums, squares, histograms } = group;
    let mut squares = squares.into_iter();
    let mut values = Vec::new();
    let overflows = || failed("a sum overflows");
    let times = |count: i128, steps: i128| count.checked_mul(steps).ok_or_else(overflows);
    let less = |a: i128, b: i128| a.checked_sub(b).ok_or_else(overflows);
    for measure in &plan.measures {
        match measure {
            Measure::Units => values.push(units),
            Measure::Distinct(index) => {
                values.push(histograms[*index].iter().map(|(_, count)| i128::from(*count)).sum())
            }
            Measure::Rows => values.push(rows),
            Measure::Sum(index) => values.push(sums[*index].0),
            Measure::UnitSquares(_) => {
                let [aa, ab, bb] = squares.next().ok_or_else(|| failed("a square is missing"))?;
                values.extend([aa, times(ab, 2)?, bb]);
            }
            // Computed behind the gate, once the bounds are known.
            Measure::Squares(_) | Measure::Pair(Values::Found(_)) => values.extend(vec![0; measure.width()]),
            Measure::Triple(Values::Found(index)) => {
                let counted = histograms[plan.found[*index].histogram].iter();
                let present: i128 = counted.map(|(_, count)| i128::from(*count)).sum();
                let range = i128::from(FoundBounds::STEPS);
                values.extend([0, 0, times(less(rows, present)?, range)?]);
            }
            Measure::Pair(Values::Summand(index)) | Measure::Triple(Values::Summand(index)) => {
                let bounds = &plan.summands[*index].bounds;
                let (sum, count) = sums[*index];
                values.push(less(times(count, bounds.upper().into())?, sum)?);
                values.push(less(sum, times(count, bounds.lower().into())?)?);
                if matches!(measure, Measure::Triple(_)) {
                    values.push(times(less(rows, count)?, bounds.range().into())?);
                }
            }
        }
    }
    let units = match (&plan.mechanism.keys, values.as_slice()) {
        // The best groups are chosen by what would be counted.
        (KeyRule::Top(_), &[count]) => {
            values.clear();
            count
        }
        _ => units,
    };
    let units = i64::try_from(units).map_err(|_| failed("a count overflows"))?;
    let chosen = plan.ranks.iter().map(|ranks| (&ranks.grid, ranks.histogram));
    let found = plan.found.iter().map(|found| (&Grid::AnyMagnitude, found.histogram));
    let histograms = chosen.chain(found).map(|(grid, index)| on_grid(grid, &histograms[index]));
    Ok(ExactRow { key, values, units, histograms: histograms.collect::<Result<_, _>>()? })
}

/// The histogram of a group on its grid, in the order of the points.
fn on_grid(grid: &Grid, values: &[(i64, u64)]) -> Result<Histogram, EngineError> {
    let point = |&(value, count): &(i64, u64)| {
        let point = value.checked_sub(grid.lower()).and_then(|point| u32::try_from(point).ok());
        Ok((point.ok_or_else(|| failed("a value is off its grid"))?, count))
    };
    let mut histogram = values.iter().map(point).collect::<Result<Histogram, EngineError>>()?;
    histogram.sort_unstable();
    Ok(histogram)
}
