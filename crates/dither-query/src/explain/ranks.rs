//! How far the ranks of quantiles may be off, which is known where an interval of values is not.

use dither_core::RankError;
use dither_mechanisms::Fraction;

use super::readable;
use crate::plan::{Derivation, QueryPlan};
use crate::policy::keys::grouped;
use crate::release::CONFIDENCE;

/// From this many percent of the rows of a group on, what is answered may be quite another quantile.
const FAR: f64 = 25.0;

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

    /// What has to be said aloud before anything is charged: that a quantile may be quite another one, or is the median.
    pub(super) fn rank_warnings(&self) -> impl Iterator<Item = String> {
        let each = self.question.aggregates.iter().zip(&self.derivations);
        each.filter_map(|(aggregate, derivation)| self.rank_warning(&readable(&aggregate.name), *derivation))
    }

    fn rank_warning(&self, name: &str, derivation: Derivation) -> Option<String> {
        let Derivation::Quantile { ranks, fraction } = derivation else { return None };
        let (rows, percent) = (self.group_rows()?, self.rank_error_percent(derivation)?);
        let needed = self.mechanism.quantiles[ranks].margin().saturating_mul(2);
        let end = matches!(fraction, Fraction::LEAST | Fraction::GREATEST);
        let [shown, needed_rows] = [rows, needed].map(|count| grouped(count.into()));
        let what = if end && rows < needed {
            format!("of fewer than {needed_rows} rows the middle one is answered: `{name}` is of {shown}")
        } else if percent >= FAR {
            format!("the rank of `{name}` may be off by {percent:.0} % of {shown} rows")
        } else {
            return None;
        };
        let fewer = if self.question.keys.is_empty() { "" } else { ", fewer groups" };
        let instead = if end { " and a quantile such as PERCENTILE_CONT(x, 0.9)" } else { "" };
        Some(format!("{what}; use a larger epsilon{fewer}, or narrower `bounds`{instead}"))
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
