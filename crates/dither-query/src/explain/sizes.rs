//! How large groups and values are, as far as that is public.

use crate::ir::AggregateKind;
use crate::plan::Shape;

impl Shape {
    /// The declared size of one group, in rows that count: what the contribution bounds drop is not among them.
    pub fn group_rows(&self) -> Option<u64> {
        self.declared_rows().map(|rows| self.most_rows().map_or(rows, |most| rows.min(most)).max(1))
    }

    /// The most rows of all groups together that count, as far as they are declared.
    pub(crate) fn counted_rows(&self) -> Option<u64> {
        let rows = self.public.rows?;
        let bounds = self.effective_bounds();
        let each = u64::from(bounds.max_rows_per_group.get()).saturating_mul(bounds.max_groups_per_unit.get().into());
        Some(self.public.units.map_or(rows, |units| rows.min(units.saturating_mul(each))))
    }

    /// The size of one group in rows before the contribution bounds.
    pub(super) fn declared_rows(&self) -> Option<u64> {
        if self.question.keys.is_empty() {
            return self.public.rows;
        }
        let even = || Some(self.public.rows? / self.question.public_groups()?);
        self.public.rows_per_group.or_else(even)
    }

    /// The most rows that the contribution bounds leave in one group, for the declared number of units.
    fn most_rows(&self) -> Option<u64> {
        let bounds = self.effective_bounds();
        let most = self.public.units?.saturating_mul(u64::from(bounds.max_rows_per_group.get()));
        // Where the size of a group is stated, all units may be in that one; otherwise rows lie evenly over the groups.
        match self.public.rows_per_group {
            None if !self.question.keys.is_empty() => {
                let everywhere = most.saturating_mul(u64::from(bounds.max_groups_per_unit.get()));
                Some(everywhere / self.question.public_groups()?)
            }
            _ => Some(most),
        }
    }

    /// The declared number of units in one group.
    fn group_units(&self) -> Option<u64> {
        if self.question.keys.is_empty() {
            return self.public.units;
        }
        let bounds = self.effective_bounds();
        let even = |units: u64| {
            Some(units.saturating_mul(u64::from(bounds.max_groups_per_unit.get())) / self.question.public_groups()?)
        };
        let most = self.public.units.and_then(|units| match self.public.rows_per_group {
            None => even(units),
            Some(_) => Some(units),
        });
        self.group_rows().map(|rows| most.map_or(rows, |most| rows.min(most)).max(1))
    }

    pub(super) fn magnitude(&self, kind: AggregateKind, typical: Option<f64>) -> Option<f64> {
        match kind {
            AggregateKind::CountRows | AggregateKind::CountValues => self.group_rows().map(|rows| rows as f64),
            AggregateKind::CountUnits => self.group_units().map(|units| units as f64),
            AggregateKind::Sum => Some(typical? * self.group_rows()? as f64),
            AggregateKind::Mean => typical,
            AggregateKind::Variance(_)
            | AggregateKind::Deviation(_)
            | AggregateKind::Covariance(_)
            | AggregateKind::Correlation
            | AggregateKind::Quantile(_)
            | AggregateKind::CountPeople
            | AggregateKind::CountDistinct => None,
        }
        .filter(|size| *size != 0.0)
    }
}
