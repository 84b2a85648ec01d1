//! The discrete Gaussian distribution.

use dashu_int::UBig;
use dither_core::Ratio;

use crate::MAX_TRIES;
use crate::bernoulli::{bernoulli_exp, bernoulli_exp_big};
use crate::error::NoiseError;
use crate::laplace::discrete_laplace;
use crate::source::BitSource;

/// A draw with P(x) ∝ exp(−x² / (2 · variance)) on the integers, exactly, in lattice steps.
///
/// `variance` is the parameter σ². The variance of the draw is at most σ², and equal to it to 30 digits from
/// σ = 2 on. The products are formed in 128 bits, and in any number of bits where that is not enough.
///
/// # Privacy
/// Added to a vector of integers of l2 sensitivity Δ it is Δ²/(2σ²)-concentrated differentially private.
///
/// # Errors
/// What the source reports. With t = ⌊σ⌋ + 1, a candidate is accepted with probability
/// tanh(1/2t) · exp(−σ²/2t²) · Σ exp(−x²/2σ²), where the sum is at least max(1, σ√(2π)); that is at least 0.28
/// for t = 1 (σ < 1) and at least 0.37 for t ≥ 2 (σ ≥ t/2), so another round has probability below 0.72.
///
/// ```
/// use dither_core::Ratio;
/// use dither_noise::{NoiseSource, discrete_gaussian};
/// let mut source = NoiseSource::from_os()?;
/// let noise = discrete_gaussian(&mut source, Ratio::new(100, 1).unwrap())?;
/// // |noise| > 20 σ happens once in 10^88 runs.
/// assert!(noise.abs() <= 200);
/// # Ok::<(), dither_noise::NoiseError>(())
/// ```
///
/// # References
/// Canonne, Kamath and Steinke, *The Discrete Gaussian for Differential Privacy*, 2020, Algorithm 3 (the
/// sampler) and Theorem 4 (privacy). The bound on the sum is Poisson summation.
pub fn discrete_gaussian<S: BitSource + ?Sized>(source: &mut S, variance: Ratio) -> Result<i128, NoiseError> {
    // ⌊σ⌋ = ⌊√⌊σ²⌋⌋, below 2^64.
    let t = (variance.numerator() / variance.denominator()).isqrt() + 1;
    let envelope = Ratio::new(t, 1).ok_or(NoiseError::OutOfRange)?;
    for _ in 0..MAX_TRIES {
        let candidate = discrete_laplace(source, envelope)?;
        if accept(source, candidate.unsigned_abs(), t, variance)? {
            return Ok(candidate);
        }
    }
    Err(NoiseError::Exhausted)
}

/// True with probability exp(−(|y| − σ²/t)² / 2σ²).
fn accept<S: BitSource + ?Sized>(source: &mut S, y: u128, t: u128, variance: Ratio) -> Result<bool, NoiseError> {
    if let Some((numerator, denominator)) = exponent(y, t, variance) {
        return bernoulli_exp(source, numerator, denominator);
    }
    let (numerator, denominator) = exponent_big(y, t, variance);
    bernoulli_exp_big(source, &numerator, &denominator)
}

/// (|y| − n/(dt))² · d/2n = (ydt − n)² / 2ndt² for σ² = n/d; `None` if a product leaves 128 bits.
fn exponent(y: u128, t: u128, variance: Ratio) -> Option<(u128, u128)> {
    let (n, d) = (variance.numerator(), variance.denominator());
    let difference = y.checked_mul(d)?.checked_mul(t)?.abs_diff(n);
    let denominator = n.checked_mul(2)?.checked_mul(d)?.checked_mul(t)?.checked_mul(t)?;
    Some((difference.checked_mul(difference)?, denominator))
}

/// [`exponent`] without a limit.
fn exponent_big(y: u128, t: u128, variance: Ratio) -> (UBig, UBig) {
    let (n, d, t) = (UBig::from(variance.numerator()), UBig::from(variance.denominator()), UBig::from(t));
    let product = UBig::from(y) * &d * &t;
    let difference = if product > n { product - &n } else { &n - product };
    (&difference * &difference, n * d * &t * &t * UBig::from(2u8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn both_widths_compute_the_same_exponent(
            y in 0..1u128 << 30, t in 1..1u128 << 12, n in 1..1u128 << 24, d in 1..1u128 << 10,
        ) {
            let variance = Ratio::new(n, d).unwrap();
            let (numerator, denominator) = exponent(y, t, variance).unwrap();
            prop_assert_eq!(exponent_big(y, t, variance), (UBig::from(numerator), UBig::from(denominator)));
        }
    }
}
