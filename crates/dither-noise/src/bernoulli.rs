//! Coins with rational and with exponential probabilities.

use dashu_int::UBig;

use crate::MAX_TRIES;
use crate::error::NoiseError;
use crate::source::BitSource;
use crate::uniform::{uniform_below, uniform_below_big};

/// True with probability `numerator / denominator`, exactly.
///
/// # Errors
/// [`NoiseError::OutOfRange`] if the quotient is not a probability, and what the source reports.
///
/// ```
/// use dither_noise::{NoiseSource, bernoulli};
/// let mut source = NoiseSource::from_os()?;
/// assert!(bernoulli(&mut source, 7, 7)? && !bernoulli(&mut source, 0, 7)?);
/// # Ok::<(), dither_noise::NoiseError>(())
/// ```
pub fn bernoulli<S: BitSource + ?Sized>(
    source: &mut S,
    numerator: u128,
    denominator: u128,
) -> Result<bool, NoiseError> {
    if numerator > denominator {
        return Err(NoiseError::OutOfRange);
    }
    Ok(uniform_below(source, denominator)? < numerator)
}

/// True with probability exp(−`numerator / denominator`), exactly, without computing an exponential.
///
/// # Errors
/// [`NoiseError::OutOfRange`] for a denominator of zero, and what the source reports.
///
/// ```
/// use dither_noise::{NoiseSource, bernoulli_exp};
/// let mut source = NoiseSource::from_os()?;
/// assert!(bernoulli_exp(&mut source, 0, 1)?);
/// # Ok::<(), dither_noise::NoiseError>(())
/// ```
///
/// # References
/// Canonne, Kamath and Steinke, *The Discrete Gaussian for Differential Privacy*, 2020, Algorithm 1.
pub fn bernoulli_exp<S: BitSource + ?Sized>(
    source: &mut S,
    numerator: u128,
    denominator: u128,
) -> Result<bool, NoiseError> {
    let whole = numerator.checked_div(denominator).ok_or(NoiseError::OutOfRange)?;
    exp_of(source, whole, |source| bernoulli(source, numerator % denominator, denominator))
}

/// [`bernoulli_exp`] for integers of any size; the denominator must be positive.
pub(crate) fn bernoulli_exp_big<S: BitSource + ?Sized>(
    source: &mut S,
    numerator: &UBig,
    denominator: &UBig,
) -> Result<bool, NoiseError> {
    // More factors than fit 128 bits fail as surely as so many.
    let whole = u128::try_from(numerator / denominator).unwrap_or(u128::MAX);
    let rest = numerator % denominator;
    exp_of(source, whole, |source| Ok(uniform_below_big(source, denominator)? < rest))
}

/// The number of successes of Bernoulli(exp(−1)) before the first failure.
pub(crate) fn geometric<S: BitSource + ?Sized>(source: &mut S) -> Result<u128, NoiseError> {
    for successes in 0..MAX_TRIES {
        if !exp_below_one(source, |_| Ok(true))? {
            return Ok(u128::from(successes));
        }
    }
    // Probability e^-512.
    Err(NoiseError::Exhausted)
}

/// True with probability e^-whole · e^-γ, where `coin` is true with probability γ ≤ 1.
fn exp_of<S: BitSource + ?Sized>(
    source: &mut S,
    whole: u128,
    coin: impl FnMut(&mut S) -> Result<bool, NoiseError>,
) -> Result<bool, NoiseError> {
    let mut remaining = whole;
    for _ in 0..MAX_TRIES {
        if remaining == 0 {
            return exp_below_one(source, coin);
        }
        if !exp_below_one(source, |_| Ok(true))? {
            return Ok(false);
        }
        remaining -= 1;
    }
    // Probability e^-512.
    Err(NoiseError::Exhausted)
}

/// True with probability e^-γ, where `coin` is true with probability γ ≤ 1.
///
/// Draws A₁, A₂, … with P(A_k) = γ/k until the first failure at K, which is odd with probability
/// 1 − γ + γ²/2! − … = e^-γ. A coin of probability γ/k is one of γ and one of 1/k, both true: no product of
/// denominators is ever formed.
fn exp_below_one<S: BitSource + ?Sized>(
    source: &mut S,
    mut coin: impl FnMut(&mut S) -> Result<bool, NoiseError>,
) -> Result<bool, NoiseError> {
    for k in 1..=u128::from(MAX_TRIES) {
        let success = uniform_below(source, k)? == 0 && coin(source)?;
        if !success {
            return Ok(k % 2 == 1);
        }
    }
    // Probability 1/512!.
    Err(NoiseError::Exhausted)
}
