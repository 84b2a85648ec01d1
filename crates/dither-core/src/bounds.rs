//! How much one unit can contribute, and on which lattice its values lie.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::sensitivity::{L1Sensitivity, L2Sensitivity};
use crate::unit::Neighbors;

/// The most that one unit may contribute to the result of a query; more is dropped before aggregation.
///
/// Truncation and noise read the same value, so they cannot disagree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ContributionBounds {
    /// The number of groups that a unit may appear in (l0).
    pub max_groups_per_unit: NonZeroU32,
    /// The number of rows that a unit may have in one group (l∞).
    pub max_rows_per_group: NonZeroU32,
}

impl ContributionBounds {
    /// The bounds of a query with one group at most per unit and one row at most per group.
    pub const ONE: Self = Self { max_groups_per_unit: NonZeroU32::MIN, max_rows_per_group: NonZeroU32::MIN };

    /// How far all groups of one sum can move together when a row moves it by at most `per_row` steps.
    ///
    /// `None` if the product leaves 128 bits.
    pub fn l1(&self, per_row: u64, neighbors: Neighbors) -> Option<L1Sensitivity> {
        let per_group = u128::from(per_row) * u128::from(self.max_rows_per_group.get());
        let steps = per_group
            .checked_mul(u128::from(self.max_groups_per_unit.get()))?
            .checked_mul(u128::from(neighbors.distance()))?;
        Some(L1Sensitivity::new(steps))
    }

    /// The Euclidean counterpart of [`ContributionBounds::l1`].
    pub fn l2(&self, per_row: u64, neighbors: Neighbors) -> Option<L2Sensitivity> {
        let per_group = u128::from(per_row) * u128::from(self.max_rows_per_group.get());
        let distance = u128::from(neighbors.distance());
        let squared = per_group
            .checked_mul(per_group)?
            .checked_mul(u128::from(self.max_groups_per_unit.get()))?
            .checked_mul(distance * distance)?;
        Some(L2Sensitivity::from_squared(squared))
    }
}

/// A public grid of numbers: every value is an integer number of steps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Lattice {
    step: f64,
}

impl Lattice {
    /// The integers.
    pub const UNIT: Self = Self { step: 1.0 };

    /// A grid with this step; `None` unless it is finite and positive.
    pub fn new(step: f64) -> Option<Self> {
        (step.is_finite() && step > 0.0).then_some(Self { step })
    }

    /// The distance between neighbouring points.
    pub fn step(self) -> f64 {
        self.step
    }

    /// The number that so many steps stand for.
    pub fn value(self, steps: i128) -> f64 {
        steps as f64 * self.step
    }
}

/// Bounds that every value is clamped to, in steps of a lattice.
///
/// ```
/// use dither_core::{Lattice, ValueBounds};
/// let days = ValueBounds::new(1.0, 14.0, Lattice::UNIT).unwrap();
/// assert_eq!((days.lower(), days.upper(), days.magnitude(), days.range()), (1, 14, 14, 13));
/// assert!(ValueBounds::new(1.0, f64::NAN, Lattice::UNIT).is_none());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ValueBounds {
    lower: i64,
    upper: i64,
    lattice: Lattice,
}

impl ValueBounds {
    /// The largest number of steps on either side: a sum of 2^63 such values still fits 128 bits.
    pub const MAX_STEPS: i64 = 1 << 53;

    /// Bounds in the units of the data, moved outwards to the lattice.
    ///
    /// `None` unless both are finite, `lower <= upper`, and both lie within [`ValueBounds::MAX_STEPS`].
    pub fn new(lower: f64, upper: f64, lattice: Lattice) -> Option<Self> {
        let (low, high) = ((lower / lattice.step).floor(), (upper / lattice.step).ceil());
        let limit = Self::MAX_STEPS as f64;
        let sound = lower.is_finite() && upper.is_finite() && lower <= upper && low >= -limit && high <= limit;
        sound.then_some(Self { lower: low as i64, upper: high as i64, lattice })
    }

    /// The lower bound in steps.
    pub fn lower(&self) -> i64 {
        self.lower
    }

    /// The upper bound in steps.
    pub fn upper(&self) -> i64 {
        self.upper
    }

    /// The lattice that the steps belong to.
    pub fn lattice(&self) -> Lattice {
        self.lattice
    }

    /// The most steps that one value can move a sum when its row comes or goes.
    pub fn magnitude(&self) -> u64 {
        self.lower.unsigned_abs().max(self.upper.unsigned_abs())
    }

    /// The number of steps between the bounds.
    pub fn range(&self) -> u64 {
        self.upper.abs_diff(self.lower)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(groups: u32, rows: u32) -> ContributionBounds {
        ContributionBounds {
            max_groups_per_unit: NonZeroU32::new(groups).unwrap(),
            max_rows_per_group: NonZeroU32::new(rows).unwrap(),
        }
    }

    #[test]
    fn sensitivities_follow_from_the_bounds() {
        let both = bounds(3, 5);
        assert_eq!(both.l1(14, Neighbors::AddOrRemoveUnit).unwrap().steps(), 3 * 5 * 14);
        assert_eq!(both.l2(14, Neighbors::AddOrRemoveUnit).unwrap().squared(), 3 * (5 * 14) * (5 * 14));
    }

    #[test]
    fn se_16_replacing_a_unit_doubles_every_sensitivity() {
        let both = bounds(3, 5);
        assert_eq!(both.l1(14, Neighbors::ReplaceUnit).unwrap().steps(), 2 * 3 * 5 * 14);
        assert_eq!(both.l2(14, Neighbors::ReplaceUnit).unwrap().squared(), 4 * 3 * 70 * 70);
    }

    #[test]
    fn se_07_bounds_and_sensitivities_move_outwards() {
        let halves = ValueBounds::new(0.3, 2.6, Lattice::new(0.5).unwrap()).unwrap();
        assert_eq!((halves.lower(), halves.upper()), (0, 6));
    }

    #[test]
    fn se_09_a_zero_lower_bound_does_not_hide_the_upper_one() {
        let wide = ValueBounds::new(0.0, 100.0, Lattice::UNIT).unwrap();
        assert_eq!(wide.magnitude(), 100);
        assert_eq!(ValueBounds::new(-100.0, 0.0, Lattice::UNIT).unwrap().magnitude(), 100);
    }

    #[test]
    fn se_11_odd_bounds_are_refused() {
        for (lower, upper) in [(f64::NAN, 1.0), (0.0, f64::INFINITY), (2.0, 1.0), (-1e308, 1e308)] {
            assert!(ValueBounds::new(lower, upper, Lattice::UNIT).is_none(), "[{lower}, {upper}] was accepted");
        }
        assert!(Lattice::new(0.0).is_none() && Lattice::new(f64::NAN).is_none());
    }
}
