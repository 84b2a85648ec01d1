//! Amounts of privacy loss, for display.

use dither_accounting::{Cost, Remaining};
use dither_core::{Delta, Epsilon};
use serde::{Deserialize, Serialize};

/// An amount of privacy loss, for display.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Amounts {
    /// ε.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
}

impl From<&Cost> for Amounts {
    fn from(cost: &Cost) -> Self {
        Self::of(cost.epsilon_nanos, cost.delta_attos)
    }
}

impl From<Remaining> for Amounts {
    fn from(remaining: Remaining) -> Self {
        Self::of(remaining.epsilon_nanos, remaining.delta_attos)
    }
}

impl Amounts {
    /// What several charges add up to under basic composition.
    pub(crate) fn sum(costs: &[Cost]) -> Self {
        let add = |part: fn(&Cost) -> u64| costs.iter().map(part).fold(0, u64::saturating_add);
        Self::of(add(|cost| cost.epsilon_nanos), add(|cost| cost.delta_attos))
    }

    fn of(nanos: u64, attos: u64) -> Self {
        Self { epsilon: nanos as f64 / Epsilon::NANOS as f64, delta: attos as f64 / Delta::ATTOS as f64 }
    }
}
