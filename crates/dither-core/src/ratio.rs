//! An exact positive rational number, the parameter of every noise distribution.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A positive rational number in lowest terms.
///
/// Noise scales are rationals so that the distribution that is drawn is the distribution that is charged.
///
/// ```
/// use dither_core::Ratio;
/// let scale = Ratio::new(6, 4).unwrap();
/// assert_eq!((scale.numerator(), scale.denominator()), (3, 2));
/// assert!(Ratio::new(0, 1).is_none() && Ratio::new(1, 0).is_none());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "(u128, u128)", into = "(u128, u128)")]
pub struct Ratio {
    numerator: u128,
    denominator: u128,
}

impl Ratio {
    /// The quotient in lowest terms; `None` if either part is zero.
    pub fn new(numerator: u128, denominator: u128) -> Option<Self> {
        if numerator == 0 || denominator == 0 {
            return None;
        }
        let divisor = gcd(numerator, denominator);
        Some(Self { numerator: numerator / divisor, denominator: denominator / divisor })
    }

    /// The smallest ratio with a denominator of 2^20 that is at least `value`; a scale so rounded adds noise,
    /// never removes it. `None` unless `value` is finite, positive and below 2^100.
    pub fn at_least(value: f64) -> Option<Self> {
        const DENOMINATOR: f64 = 1_048_576.0;
        if !(value.is_finite() && value > 0.0 && value < 2f64.powi(100)) {
            return None;
        }
        // Multiplying by a power of two is exact, and so is `ceil`.
        Self::new((value * DENOMINATOR).ceil() as u128, DENOMINATOR as u128)
    }

    /// The numerator in lowest terms.
    pub fn numerator(self) -> u128 {
        self.numerator
    }

    /// The denominator in lowest terms.
    pub fn denominator(self) -> u128 {
        self.denominator
    }

    /// The nearest float, for display and prediction.
    pub fn as_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl TryFrom<(u128, u128)> for Ratio {
    type Error = &'static str;
    fn try_from((numerator, denominator): (u128, u128)) -> Result<Self, Self::Error> {
        Self::new(numerator, denominator).ok_or("a ratio needs two positive parts")
    }
}

impl From<Ratio> for (u128, u128) {
    fn from(ratio: Ratio) -> Self {
        (ratio.numerator, ratio.denominator)
    }
}

impl fmt::Debug for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn at_least_never_rounds_down(value in 1e-300f64..1e29) {
            let ratio = Ratio::at_least(value).unwrap();
            prop_assert!(ratio.as_f64() >= value);
        }
    }

    #[test]
    fn fp_06_a_scale_is_never_zero_or_odd() {
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
            assert!(Ratio::at_least(value).is_none(), "{value} was accepted");
        }
    }
}
