//! The best few groups by a count that is not shown.

use dither_mechanisms::{KeyRule, TopK};

use super::Described;
use crate::plan::QueryPlan;

/// What is expected of them.
pub(super) const ASSUMPTION: &str =
    "so many fewer each of the groups may have than the best that was left for its place";

impl QueryPlan {
    /// The choice of the best few groups.
    pub(super) fn best_few(&self) -> Option<&TopK> {
        match &self.mechanism.keys {
            KeyRule::Top(top) => Some(top),
            KeyRule::Public | KeyRule::Threshold(_) => None,
        }
    }

    /// What the best few groups are chosen with.
    pub(super) fn described_place(&self) -> Described {
        let each = self.best_few().map(TopK::each);
        let steps = each.map_or(f64::INFINITY, |each| each.sensitivity().steps() as f64);
        Described {
            mechanism: "exponential",
            l1: steps,
            l2: steps,
            nanos: self.shares.first().map_or(0, |share| share.nanos()),
            scale: each.map_or(f64::INFINITY, |each| 1.0 / each.rate().as_f64()),
            of: Some("the count of one group, in each choice"),
            why: None,
        }
    }
}
