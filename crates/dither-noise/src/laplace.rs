//! The discrete Laplace distribution.

use dashu_int::UBig;
use dither_core::Ratio;

use crate::MAX_TRIES;
use crate::bernoulli::{bernoulli_exp, geometric};
use crate::error::NoiseError;
use crate::source::BitSource;
use crate::uniform::uniform_below;

/// A draw with P(x) = (1 − q)/(1 + q) · q^|x| for q = exp(−1/scale), exactly, in lattice steps.
///
/// Meant for scales up to 2^100, where a draw always fits; a larger scale is an error only when its draw does
/// not fit. The products are formed in 128 bits, and in any number of bits where that is not enough.
///
/// # Privacy
/// Added to an integer of sensitivity Δ it is (Δ/scale)-differentially private.
///
/// # Errors
/// [`NoiseError::OutOfRange`] for a draw beyond 127 bits, and what the source reports. A draw goes into
/// another round with probability at most 1 − (1 − 1/e)/2 < 0.69.
///
/// ```
/// use dither_core::Ratio;
/// use dither_noise::{NoiseSource, discrete_laplace};
/// let mut source = NoiseSource::from_os()?;
/// let noisy_count = 1_000 + discrete_laplace(&mut source, Ratio::new(2, 1).unwrap())?;
/// // |noise| > 200 happens once in 10^43 runs.
/// assert!((800..=1_200).contains(&noisy_count));
/// # Ok::<(), dither_noise::NoiseError>(())
/// ```
///
/// # References
/// Canonne, Kamath and Steinke, *The Discrete Gaussian for Differential Privacy*, 2020, Algorithm 2.
/// Ghosh, Roughgarden and Sundararajan, *Universally Utility-Maximizing Privacy Mechanisms*, 2009.
pub fn discrete_laplace<S: BitSource + ?Sized>(source: &mut S, scale: Ratio) -> Result<i128, NoiseError> {
    let (t, s) = (scale.numerator(), scale.denominator());
    for _ in 0..MAX_TRIES {
        let low = uniform_below(source, t)?;
        if !bernoulli_exp(source, low, t)? {
            continue;
        }
        let high = geometric(source)?;
        let magnitude = quotient(low, high, t, s)?;
        let negative = uniform_below(source, 2)? == 1;
        // Zero must not be counted twice.
        if negative && magnitude == 0 {
            continue;
        }
        return Ok(if negative { -magnitude } else { magnitude });
    }
    Err(NoiseError::Exhausted)
}

/// ⌊(low + t · high) / s⌋.
pub(crate) fn quotient(low: u128, high: u128, t: u128, s: u128) -> Result<i128, NoiseError> {
    let narrow = t.checked_mul(high).and_then(|product| product.checked_add(low)).and_then(|sum| sum.checked_div(s));
    let value = match narrow {
        Some(value) => value,
        None => u128::try_from((UBig::from(low) + UBig::from(t) * UBig::from(high)) / UBig::from(s))
            .map_err(|_| NoiseError::OutOfRange)?,
    };
    i128::try_from(value).map_err(|_| NoiseError::OutOfRange)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn se_02_a_product_beyond_128_bits_is_computed_not_wrapped() {
        let t = (1 << 100) + 7;
        assert_eq!(quotient(5, 3, t, 1 << 60), Ok(((3 * t + 5) >> 60) as i128));
        assert_eq!(quotient(u128::MAX - 1, 2, u128::MAX, u128::MAX), Ok(2));
        assert_eq!(quotient(u128::MAX - 1, 511, u128::MAX, 1 << 10), quotient(0, 1, (1 << 127) - 1, 1));
        assert_eq!(quotient(0, 2, u128::MAX, 1), Err(NoiseError::OutOfRange));
    }
}
