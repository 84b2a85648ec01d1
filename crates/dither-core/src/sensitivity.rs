//! How far one unit can move an exact answer. Different norms are different types.

use serde::{Deserialize, Serialize};

/// The largest sum of absolute changes, in lattice steps. What the Laplace mechanism needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct L1Sensitivity(u128);

impl L1Sensitivity {
    /// A sensitivity of so many steps.
    pub fn new(steps: u128) -> Self {
        Self(steps)
    }

    /// The number of steps.
    pub fn steps(self) -> u128 {
        self.0
    }
}

/// The largest Euclidean change, kept squared so that it is exact. What the Gaussian mechanism needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct L2Sensitivity(u128);

impl L2Sensitivity {
    /// A sensitivity whose square is so many squared steps.
    pub fn from_squared(squared: u128) -> Self {
        Self(squared)
    }

    /// The square of the sensitivity, in squared steps.
    pub fn squared(self) -> u128 {
        self.0
    }

    /// The sensitivity as a float, for display and calibration.
    pub fn as_f64(self) -> f64 {
        (self.0 as f64).sqrt()
    }
}
