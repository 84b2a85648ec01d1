//! The axis of a plot.

use super::{Mark, Style};
use crate::format::{pretty, significant};

/// A range of numbers with round ticks.
pub(crate) struct Scale {
    pub low: f64,
    pub high: f64,
    pub ticks: Vec<f64>,
}

impl Scale {
    /// A scale that shows every interval whole, and zero for bars.
    pub(super) fn of(marks: &[Mark], style: Style, ticks: usize) -> Self {
        let numbers = marks.iter().flat_map(|mark| [mark.estimate.value, mark.estimate.low, mark.estimate.high]);
        let zero = (style == Style::Bars).then_some(0.0);
        let numbers = numbers.flatten().chain(zero).filter(|number| number.is_finite());
        let (low, high) = numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
        match (low <= high, low < high) {
            (false, _) => Self::new(0.0, 1.0, ticks),
            (true, false) => Self::new(low - 1.0, high + 1.0, ticks),
            (true, true) => Self::new(low, high, ticks),
        }
    }

    /// A scale from one round number to another, with about so many ticks.
    pub fn new(low: f64, high: f64, ticks: usize) -> Self {
        let rough = (high - low) / ticks.max(1) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|round| round * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        // The range is a few steps; the bound only guards against a step lost in rounding.
        let count = (last - first).clamp(0.0, 50.0) as usize;
        let ticks = (0..=count).map(|index| (first + index as f64) * step).collect();
        Self { low: first * step, high: last * step, ticks }
    }

    /// Where a number lies, 0 to 1.
    pub fn place(&self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// The text of a tick.
    pub fn text(tick: f64) -> String {
        pretty(&significant(tick, 6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_hold_the_range() {
        for (low, high, expected) in [
            (0.0, 1234.0, vec![0.0, 500.0, 1000.0, 1500.0]),
            (-3.0, 17.0, vec![-5.0, 0.0, 5.0, 10.0, 15.0, 20.0]),
            (6.11, 6.34, vec![6.1, 6.2, 6.3, 6.4]),
        ] {
            let scale = Scale::new(low, high, 4);
            let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
            assert!(
                scale.ticks.len() == expected.len() && scale.ticks.iter().zip(&expected).all(close),
                "{:?}",
                scale.ticks
            );
        }
    }
}
