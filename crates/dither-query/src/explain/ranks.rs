//! How far the ranks of quantiles may be off, which is known where an interval of values is not.

use dither_core::RankError;
use dither_mechanisms::Fraction;

use crate::plan::{Derivation, QueryPlan};
use crate::release::CONFIDENCE;

impl QueryPlan {
    /// By how many rows the rank of a quantile is off at most, 95 times in 100.
    pub(super) fn rank_error(&self, derivation: Derivation) -> Option<f64> {
        let Derivation::Quantile { ranks, fraction } = derivation else { return None };
        self.mechanism.quantiles[ranks].rank_error(fraction, CONFIDENCE)
    }

    /// The same in percent of the declared rows of a group.
    pub(super) fn rank_error_percent(&self, derivation: Derivation) -> Option<f64> {
        Some((100.0 * self.rank_error(derivation)? / self.group_rows()? as f64).min(100.0))
    }

    /// What is said of an aggregate beside its answer, where it is a quantile. It follows from the plan alone.
    pub fn rank_of(&self, derivation: Derivation) -> Option<RankError> {
        let Derivation::Quantile { ranks, fraction } = derivation else { return None };
        let end = matches!(fraction, Fraction::LEAST | Fraction::GREATEST);
        let from_end = end.then(|| self.mechanism.quantiles[ranks].margin());
        Some(RankError { rows: self.rank_error(derivation)?.ceil() as u64, from_end })
    }

    /// What is said of each quantile beside its answer, by the name of its column.
    pub fn ranks_off(&self) -> Vec<(String, RankError)> {
        let each = self.derivations.iter().zip(self.display_names());
        each.filter_map(|(derivation, name)| Some((name, self.rank_of(*derivation)?))).collect()
    }
}
