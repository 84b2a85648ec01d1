//! Who is protected: the privacy unit and the neighbour relation.

use serde::{Deserialize, Serialize};

/// Which pairs of tables must be indistinguishable.
///
/// Every ε that Dither prints stands beside one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbors {
    /// All rows of one unit are added or removed. The default; it protects the number of units as well.
    #[default]
    AddOrRemoveUnit,
    /// All rows of one unit are replaced by those of another: a removal and an addition, so every
    /// sensitivity doubles.
    ReplaceUnit,
}

impl Neighbors {
    /// How many additions or removals of a unit one step is: the factor on every sensitivity.
    pub fn distance(self) -> u32 {
        match self {
            Self::AddOrRemoveUnit => 1,
            Self::ReplaceUnit => 2,
        }
    }
}

/// What is protected as a whole: every row with one value of a column, those of them within one period, or each row by
/// itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrivacyUnit {
    /// All rows that share a value of this column belong to one unit; rows without a value are dropped.
    Column(String),
    /// All rows that share a value of a column and lie in one calendar period belong to one unit; rows without a value
    /// or a time are dropped. Whoever has rows in w periods is w units: see [`UnitPeriod::most`].
    Period {
        /// The column.
        column: String,
        /// The period.
        per: UnitPeriod,
    },
    /// Each row is a unit of its own.
    Row,
}

impl PrivacyUnit {
    /// The column that tells units apart; `None` where each row is one.
    pub fn column(&self) -> Option<&str> {
        match self {
            Self::Column(column) | Self::Period { column, .. } => Some(column),
            Self::Row => None,
        }
    }
}

/// The calendar period that a unit is cut to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnitPeriod {
    /// A day.
    Day,
    /// A week from Monday to Sunday.
    Week,
    /// A month.
    Month,
}

impl UnitPeriod {
    /// Its name, in a policy and for `date_trunc`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// In how many periods so many days in a row can lie at most, wherever they begin.
    ///
    /// ```
    /// use dither_core::UnitPeriod;
    /// // From a Sunday to a Monday: two days, two weeks. No year of 366 days has days of more than 54 weeks.
    /// assert_eq!((UnitPeriod::Week.most(2), UnitPeriod::Week.most(366)), (2, 54));
    /// ```
    pub fn most(self, days: u32) -> u32 {
        match self {
            Self::Day => days,
            // The first day is a Sunday, and all others begin with a Monday.
            Self::Week => days.saturating_add(12) / 7,
            // The first day is the last of January: what follows it is as short as months are, in cycles of one year.
            Self::Month => {
                let months = [28_u32, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 31];
                let (years, rest) = (days.saturating_sub(1) / 365, days.saturating_sub(1) % 365);
                let ends = months.iter().scan(0, |end, length| {
                    *end += length;
                    Some(*end)
                });
                let begun = 1 + ends.take_while(|end| *end < rest).count() as u32;
                days.min(1) + 12 * years + if rest == 0 { 0 } else { begun }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By counting: every start in 400 years of the calendar, day by day.
    #[test]
    fn no_days_in_a_row_lie_in_more_periods() {
        let leap = |year: u32| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let lengths = |year: u32| [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        // For each day the number of its month and of its week. 1 January 2000 was a Saturday.
        let mut days: Vec<(u32, u32)> = Vec::new();
        for year in 2000..2404 {
            for (month, length) in lengths(year).into_iter().enumerate() {
                for _ in 0..length {
                    days.push(((year - 2000) * 12 + month as u32, (days.len() as u32 + 5) / 7));
                }
            }
        }
        for length in [0, 1, 2, 7, 8, 9, 28, 29, 30, 31, 32, 59, 60, 61, 62, 92, 93, 365, 366, 367, 730, 731, 1000] {
            let spans = days.windows(length.max(1)).map(|span| (span[0], span[span.len() - 1]));
            let (months, weeks) = spans.fold((0, 0), |(months, weeks), (first, last)| {
                (months.max(last.0 - first.0 + 1), weeks.max(last.1 - first.1 + 1))
            });
            let some = u32::from(length > 0);
            let length = length as u32;
            assert_eq!(UnitPeriod::Week.most(length), weeks * some + (1 - some), "{length} days");
            assert!(UnitPeriod::Month.most(length) >= months * some, "{length} days: {months} months");
            assert!(UnitPeriod::Month.most(length) <= months * some + 1, "{length} days: not far above {months}");
            assert_eq!(UnitPeriod::Day.most(length), length);
        }
    }
}
