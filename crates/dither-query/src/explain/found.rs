//! Aggregates between bounds that are found from the data.

use dither_core::{Between, Epsilon};

use crate::plan::{Beyond, Derivation, QueryPlan};
use crate::policy::keys::grouped;
use crate::release::{CONFIDENCE, SPREAD, expected_error, half_width};

/// What the noise is of: sensitivities and scales are in this unit as well.
pub(super) const NOISE_OF: &str = "each sum that it follows from, in ranges from one found bound to the other";

impl QueryPlan {
    /// The share of ε that the choice of both bounds has.
    pub(super) fn found_share(&self, index: usize) -> Epsilon {
        self.shares[self.measures.len() + self.ranks.len() + index]
    }

    /// What is known before the bounds are.
    pub(super) fn found_assumption(&self, derivation: Derivation, index: usize) -> String {
        let (share, margin) = (self.found_share(index), self.mechanism.found[index].margin());
        let beyond = self.beyond(index).map_or(String::new(), |beyond| {
            let Beyond { rows, about, most } = beyond;
            format!(
                "; about {:.1} % of {rows} rows lie beyond one of them, at most {:.1} % in 95 of 100 cases",
                100.0 * about,
                100.0 * most
            )
        });
        let bounds = format!(
            "the bounds of `{}` are found for ε {share} of it, each about {margin} rows of all groups from the end, and \
             released with the answer{beyond}",
            self.found[index].name
        );
        self.off_by(derivation).map_or(bounds.clone(), |off| format!("{bounds}; {off}"))
    }

    /// What has to be said aloud before anything is charged: that many values will count as a bound, or that it is not known.
    pub(super) fn found_warnings(&self) -> impl Iterator<Item = String> {
        (0..self.found.len()).filter_map(|index| self.found_warning(index))
    }

    fn found_warning(&self, index: usize) -> Option<String> {
        let name = &self.found[index].name;
        let Some(Beyond { rows, about, most }) = self.beyond(index) else {
            let needed = self.mechanism.found[index].margin().saturating_mul(2);
            return Some(format!(
                "of fewer than {} rows all values of `{name}` would count as one of the bounds that are found, and how many rows \
                 there are is not public; declare `public.rows` of the table, or `bounds`",
                grouped(needed.into())
            ));
        };
        (about >= Between::MANY).then(|| {
            format!(
                "about {:.0} % of the values of `{name}` will count as one of the bounds that are found, at most {:.0} % in 95 of \
                 100 cases, if all {rows} rows count, and more if a filter leaves fewer: no interval knows this bias; use a larger \
                 epsilon, or declare `bounds`",
                100.0 * about,
                100.0 * most
            )
        })
    }

    /// The error in percent of the range between both bounds, if the number of rows is declared.
    fn off_by(&self, derivation: Derivation) -> Option<String> {
        let rows = self.group_rows()? as f64;
        let percent = |part: f64| format!("{:.3} %", (100.0 * part).min(100.0));
        match derivation {
            Derivation::PairMean(block) => {
                let half = half_width(&self.mechanism.blocks[block].noise, &[1.0], CONFIDENCE);
                let part = half * self.bounds_of(&self.measures[block])?.lattice().step() / rows;
                Some(format!("a mean is off by {} of the range between them", percent(part)))
            }
            Derivation::Deviation { .. } => {
                let part = expected_error(self, derivation, rows, None)?;
                Some(format!(
                    "a deviation is off by {} of the range between them at most, where it is {:.0} % of that or more",
                    percent(part),
                    100.0 * SPREAD
                ))
            }
            Derivation::Variance { .. } => {
                let part = expected_error(self, derivation, rows, None)?;
                Some(format!("a variance is off by {} of the squared range between them at most", percent(part)))
            }
            _ => None,
        }
    }
}
