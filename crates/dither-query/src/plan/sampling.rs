//! Intervals for what the units were drawn from: when they can be had, and what else is measured for them.
//!
//! The interval of a released value covers the exact bounded answer about the rows that are there. Where the question
//! asks for `sampling`, a second one covers what the answer would be on average over samples: of a mean that of the
//! population, of a count or a sum its expectation. `release::sampling` says how.
//!
//! A sample is one of units. Where each of them brings one row at most, sums over rows are sums over units: how far samples
//! differ follows from Σ(x − m)² around the middle m of the bounds, which is measured and paid for like any other sum, and
//! a count needs nothing more. Elsewhere rows of one unit go together, and an interval that took them for independent would be
//! too narrow. There the totals of units are squared, which are independent: see [`Measure::UnitSquares`].

use dither_core::PrivacyUnit;

use super::blocks::{Blocks, CountedBy};
use super::{Measure, Shape};
use crate::error::{Code, Refusal};
use crate::ir::AggregateKind;

impl Shape {
    /// The largest total of a unit that is squared, in steps. A square then fits 48 bits and its sensitivity squared, for
    /// Gaussian noise, 128 with room for groups and shares; sums of 2^60 units are exact in 128 bits as well.
    pub const MOST: u64 = 1 << 24;

    /// The summands of which the totals of units are squared, in the order of their blocks.
    pub fn squared(&self) -> Vec<usize> {
        let squared = |measure: &Measure| match *measure {
            Measure::UnitSquares(index) => Some(index),
            _ => None,
        };
        self.measures.iter().filter_map(squared).collect()
    }

    /// The same question with what intervals for sampling need.
    ///
    /// # Errors
    /// A [`Refusal`] where no such interval is offered.
    pub fn with_sampling(self) -> Result<Self, Refusal> {
        if self.sampling.is_some() {
            return Ok(self);
        }
        self.can_be_sampled()?;
        // Keys from the data are refused, and rows are counted by themselves.
        let counted = CountedBy { one_row: false, private: false, sampling: true };
        let mut blocks = Blocks::of(&self.question.aggregates, counted)?;
        let squares = match self.effective_bounds().max_rows_per_group.get() {
            1 => blocks.squares_for_sampling()?,
            rows => blocks.unit_squares_for_sampling(rows)?,
        };
        Ok(Self {
            values: blocks.values,
            summands: blocks.summands,
            histograms: blocks.histograms,
            measures: blocks.measures,
            ranks: blocks.ranks,
            derivations: blocks.derivations,
            sampling: Some(squares),
            ..self
        })
    }

    fn can_be_sampled(&self) -> Result<(), Refusal> {
        let refuse = |message: &str, hint: &str| Err(Refusal::new(Code::Unsupported, message).hint(hint));
        use AggregateKind::{CountRows, CountUnits, CountValues, Mean, Sum};
        let offered = |kind| matches!(kind, CountRows | CountUnits | CountValues | Mean | Sum);
        if let Some(other) = self.question.aggregates.iter().find(|aggregate| !offered(aggregate.kind)) {
            let message = format!("`{}` has no interval for sampling", other.kind.sql());
            return refuse(&message, "ask for COUNT, SUM and AVG, or without sampling");
        }
        if self.has_private_keys() {
            return refuse(
                "groups that come from the data have no interval for sampling: which are shown depends on the sample",
                "declare `keys` of the column in the policy, or ask without sampling",
            );
        }
        if !self.found.is_empty() {
            let hint = "declare `bounds` of the column, or ask without sampling";
            return refuse("between bounds that are found in the rows there is no interval for sampling", hint);
        }
        if let PrivacyUnit::Period { per, .. } = &self.unit {
            let message = format!("each {} of one person is a unit, and these are no independent sample", per.name());
            return refuse(&message, "ask without sampling");
        }
        Ok(())
    }
}
