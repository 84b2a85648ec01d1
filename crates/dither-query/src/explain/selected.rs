//! A count that is the noisy number by which keys from the data are selected.

use dither_mechanisms::{KeyNoise, KeyRule, Threshold};

use super::Described;
use crate::plan::QueryPlan;

/// What is expected of it.
pub(super) const ASSUMPTION: &str = "of a group that is shown; one of few units that is shown by chance seems larger than it \
                                     is, which its interval allows for";

impl QueryPlan {
    /// The rule that selects keys from the data.
    pub(super) fn selection(&self) -> Option<&Threshold> {
        match &self.mechanism.keys {
            KeyRule::Threshold(rule) => Some(rule),
            KeyRule::Public | KeyRule::Top(_) => None,
        }
    }

    /// What a count by the selection of keys is measured with.
    pub(super) fn described_selection(&self) -> Described {
        let groups = f64::from(self.effective_bounds().max_groups_per_unit.get());
        let (mechanism, scale) = match self.selection().map(Threshold::noise) {
            Some(KeyNoise::Laplace(noise)) => ("Laplace", noise.scale().as_f64()),
            Some(KeyNoise::TruncatedGeometric(noise)) => ("truncated geometric", noise.scale().as_f64()),
            Some(KeyNoise::Gaussian(noise)) => ("Gaussian", noise.standard_deviation()),
            None => ("", f64::INFINITY),
        };
        Described {
            mechanism,
            l1: groups,
            l2: groups.sqrt(),
            nanos: self.shares.last().map_or(0, |share| share.nanos()),
            scale,
            of: None,
            why: Some("the noisy number that the group is shown by, which needs no share of its own"),
        }
    }
}
