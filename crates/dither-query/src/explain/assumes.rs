//! What an expected error assumes.

use dither_mechanisms::Fraction;

use super::{selected, top};
use crate::plan::{Derivation, QueryPlan};
use crate::release;

impl QueryPlan {
    /// What the expected error of an aggregate assumes, or why there is none.
    pub(super) fn assumption(&self, derivation: Derivation) -> Option<String> {
        if let Some(index) = self.found_for(derivation) {
            return Some(self.found_assumption(derivation, index));
        }
        let what = match derivation {
            Derivation::PairMean(_) => "a mean",
            Derivation::Variance { .. } | Derivation::Deviation { .. } => "a variance",
            Derivation::Covariance { .. } => "a covariance",
            Derivation::Correlation { .. } => "a correlation",
            Derivation::Quantile { ranks, fraction: Fraction::LEAST | Fraction::GREATEST } => {
                let margin = self.mechanism.quantiles[ranks].margin();
                return Some(format!(
                    "the value {margin} rows from the end, since the very last is somebody's; of fewer than {} rows the \
                     middle one",
                    margin.saturating_mul(2)
                ));
            }
            Derivation::Selected => return Some(selected::ASSUMPTION.into()),
            Derivation::Place => return Some(top::ASSUMPTION.into()),
            Derivation::Count(_)
            | Derivation::Sum(_)
            | Derivation::PairCount(_)
            | Derivation::TripleCount(_)
            | Derivation::PairSum(_)
            | Derivation::Quantile { .. } => return None,
        };
        let (Some(rows), Some(declared)) = (self.group_rows(), self.declared_rows()) else {
            let size = if self.has_private_keys() { "rows_per_group" } else { "rows" };
            return Some(format!("declare `public.{size}` in the policy to predict the error of {what}"));
        };
        let (most, bounded) = match rows < declared {
            true => ("at most ", format!(" that count, of {declared}: the contribution bounds drop the others")),
            false => ("", String::new()),
        };
        let size = match self.question.keys.is_empty() {
            true => format!("the table has {most}{rows} rows{bounded}"),
            false => format!("a group has {most}{rows} rows{bounded}; the error shrinks in proportion"),
        };
        let rows = rows as f64;
        let spread = match derivation {
            Derivation::Deviation { pair, .. } => {
                let any = release::error_of_any_deviation(self, derivation, rows, self.typical_share(pair)).map(short);
                let part = 100.0 * release::SPREAD;
                any.map(|any| format!("; for values whose deviation is {part:.0} % of their range or more, ± {any} for any"))
            }
            _ => release::error_where_values_spread(self, derivation, rows).map(short).map(|error| {
                format!(
                    "; it depends on how far the values spread, ± {error} at most for values whose deviation is a quarter \
                     of their range"
                )
            }),
        };
        Some(size + &spread.unwrap_or_default())
    }
}

/// Three significant digits.
fn short(value: f64) -> String {
    let places = (2 - value.abs().max(1e-12).log10().floor() as i32).clamp(0, 12) as usize;
    format!("{value:.places$}")
}
