//! Errors of many runs over all cells of a column.

use std::collections::BTreeMap;

use dither::Estimate;

/// How some runs compare with target values, over all cells.
pub struct Score {
    /// How many cells were released at all.
    pub cells: f64,
    /// The mean of the target values.
    pub target: f64,
    /// The mean of what was released.
    pub released: f64,
    /// The standard deviation of a cell around its own mean over the runs.
    pub deviation: f64,
    /// All absolute errors.
    pub errors: Vec<f64>,
    /// How many intervals hold the target, in percent.
    pub covered: f64,
}

impl Score {
    /// Compares. Cells without a target count as zero, unless they are means.
    pub fn of(targets: &BTreeMap<String, f64>, runs: &[&BTreeMap<String, Estimate>], mean: bool) -> Self {
        let mut cells: BTreeMap<&str, (f64, Vec<f64>)> = BTreeMap::new();
        let (mut errors, mut covered) = (Vec::new(), 0.0);
        for (key, estimate) in runs.iter().flat_map(|run| run.iter()) {
            let Some(value) = estimate.value else { continue };
            let Some(target) = targets.get(key).copied().or((!mean).then_some(0.0)) else { continue };
            cells.entry(key).or_insert((target, Vec::new())).1.push(value);
            errors.push((value - target).abs());
            let inside = estimate.low.zip(estimate.high).is_some_and(|(low, high)| low <= target && target <= high);
            covered += f64::from(u8::from(inside));
        }
        let total = errors.len() as f64;
        let average = |each: &dyn Fn(f64, &[f64]) -> f64| {
            cells.values().map(|(target, values)| each(*target, values)).sum::<f64>() / total
        };
        Self {
            cells: cells.len() as f64,
            target: average(&|target, values| target * values.len() as f64),
            released: average(&|_, values| values.iter().sum()),
            deviation: average(&|_, values| {
                let middle = values.iter().sum::<f64>() / values.len() as f64;
                values.iter().map(|value| (value - middle).powi(2)).sum()
            })
            .sqrt(),
            errors,
            covered: 100.0 * covered / total,
        }
    }

    /// The root of the mean of all squared errors.
    pub fn rms(&self) -> f64 {
        (self.errors.iter().map(|error| error * error).sum::<f64>() / self.errors.len() as f64).sqrt()
    }
}
