//! Two bounds of one number.

/// A number that is known to lie between two bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Not above the number.
    pub lower: f64,
    /// Not below the number.
    pub upper: f64,
}

impl Interval {
    pub(super) const ZERO: Self = Self { lower: 0.0, upper: 0.0 };
    pub(super) const ONE: Self = Self { lower: 1.0, upper: 1.0 };

    /// The bounds of the larger of two numbers.
    pub(super) fn max(self, other: Self) -> Self {
        Self { lower: self.lower.max(other.lower), upper: self.upper.max(other.upper) }
    }
}
