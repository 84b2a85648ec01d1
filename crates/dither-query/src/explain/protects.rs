//! Who is protected, in words, and what that means for a whole person where units are cut to periods.

use dither_accounting::group::group_loss;
use dither_core::{Delta, Neighbors, PrivacyEvent, PrivacyUnit};
use serde::Serialize;

use crate::plan::QueryPlan;

/// The windows that a guarantee for periods is stated for, in days: the longest month, quarter and year.
const WINDOWS: [(&str, u32); 3] = [("month", 31), ("quarter", 92), ("year", 366)];

/// What protects a person whose rows all lie within some days in a row, where a unit is what one has within a period.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Window {
    /// Its name: `month`, `quarter`, `year`.
    pub name: &'static str,
    /// How many days in a row.
    pub days: u32,
    /// In how many periods these can lie at most.
    pub periods: u32,
    /// ε for all rows of a person within them; `None` where nothing is guaranteed.
    pub epsilon: Option<f64>,
    /// δ for all rows of a person within them; `None` where nothing is guaranteed.
    pub delta: Option<f64>,
}

/// What an event that may use this δ costs a whole person over some windows; none where units are not cut to periods.
///
/// # Privacy
/// Group privacy: all rows of a person within w periods are w units. See [`group_loss`].
pub fn windows(unit: &PrivacyUnit, event: &PrivacyEvent, delta: Delta) -> Vec<Window> {
    let PrivacyUnit::Period { per, .. } = unit else { return Vec::new() };
    let window = |(name, days)| {
        let periods = per.most(days);
        let loss = group_loss(event, delta, periods);
        let (epsilon, delta) = (loss.map(|loss| loss.epsilon), loss.map(|loss| loss.delta));
        Window { name, days, periods, epsilon, delta }
    };
    WINDOWS.into_iter().map(window).collect()
}

/// What contributions are bounded for.
pub(super) fn each(unit: &PrivacyUnit) -> String {
    match unit {
        PrivacyUnit::Column(column) => format!("`{column}`"),
        PrivacyUnit::Period { column, per } => format!("`{column}` and {}", per.name()),
        PrivacyUnit::Row => "row".into(),
    }
}

impl QueryPlan {
    /// Who is protected from what, in words.
    pub(super) fn protects(&self) -> String {
        let unit = match &self.unit {
            PrivacyUnit::Column(column) => format!("all rows of one `{column}`"),
            PrivacyUnit::Period { column, per } => {
                format!("the rows of one `{column}` within one {}, and not all rows of one `{column}`", per.name())
            }
            PrivacyUnit::Row => "one row".into(),
        };
        let owned = match self.question.relation.is_owned() {
            true => ", those that belong to it through keys included",
            false => "",
        };
        match self.neighbors {
            Neighbors::AddOrRemoveUnit => format!("{unit}{owned}, added or removed"),
            Neighbors::ReplaceUnit => format!("{unit}{owned}, replaced by others, which doubles the sensitivity"),
        }
    }
}
