//! How many units a group needs in order to be shown, under each rule for keys that come from the data.

use std::num::NonZeroU32;

use anyhow::{Context, Result};
use dither_accounting::calibrate::gaussian_variance;
use dither_core::{Delta, Epsilon, L2Sensitivity, Neighbors};
use dither_mechanisms::Threshold;

use crate::figures::{Figure, Section};

/// The thresholds at ε = 1 and δ = 10⁻⁶, for units in up to so many groups.
pub fn run() -> Result<Vec<Section>> {
    let (epsilon, delta, neighbors): (Epsilon, Delta, _) = ("1".parse()?, "1e-6".parse()?, Neighbors::AddOrRemoveUnit);
    let half: Delta = "5e-7".parse()?;
    let mut figures = Vec::new();
    for count in [1u32, 3, 10, 30, 100] {
        let groups = NonZeroU32::new(count).context("some groups")?;
        let laplace = Threshold::for_epsilon(groups, neighbors, epsilon, delta)?;
        let optimal = Threshold::truncated_geometric(groups, neighbors, epsilon, delta)?;
        let variance = gaussian_variance(L2Sensitivity::from_squared(count.into()), count.into(), epsilon, half)?;
        let gaussian = Threshold::gaussian(groups, neighbors, variance, half)?;
        let row = if count == 1 { "1 group of a unit".into() } else { format!("{count} groups of a unit") };
        let against = laplace.threshold() as f64;
        let mut push = |measure, units: i128| {
            figures.push(Figure::new(row.clone(), measure, units as f64, "units").against(against));
        };
        push("Laplace", laplace.threshold());
        push("truncated geometric", optimal.threshold());
        push("Gaussian, half of δ for the threshold", gaussian.threshold());
        push("optimal probabilities", real(1.0 / f64::from(count), delta.as_f64() / f64::from(count)));
    }
    Ok(vec![Section { title: "Units at which a group is shown with probability one half".into(), figures }])
}

/// The smallest number of units at which the optimal probability of release is one half (Desfontaines et al. 2022,
/// Theorem 1, as a recursion).
fn real(epsilon: f64, delta: f64) -> i128 {
    let (mut released, mut units) = (0.0, 0);
    while released < 0.5 {
        let grown = epsilon.exp() * released + delta;
        released = grown.min(1.0 - (-epsilon).exp() * (1.0 - released - delta));
        units += 1;
    }
    units
}
