//! The discrete exponential distribution.

use dither_core::Ratio;

use crate::MAX_TRIES;
use crate::bernoulli::{bernoulli_exp, geometric};
use crate::error::NoiseError;
use crate::laplace::quotient;
use crate::source::BitSource;
use crate::uniform::uniform_below;

/// A draw with P(x) = (1 − q) · q^x on 0, 1, 2, … for q = exp(−1/scale), exactly, in lattice steps.
///
/// It is the rounding down of an exponential variable of mean `scale`. Meant for scales up to 2^100, where a draw
/// always fits.
///
/// *Law.* With scale = t/s, a round keeps `low` below t with probability (1/t)·e^(−low/t), and adds t for each
/// success of a coin of e^-1: the sum y has P(y) ∝ e^(−y/t), so ⌊y/s⌋ ≥ x, which is y ≥ sx, has probability q^x. ∎
///
/// # Errors
/// [`NoiseError::OutOfRange`] for a draw beyond 127 bits, and what the source reports. A round fails with
/// probability at most 1/e < 0.37.
///
/// ```
/// use dither_core::Ratio;
/// use dither_noise::{NoiseSource, discrete_exponential};
/// let mut source = NoiseSource::from_os()?;
/// // More than 200 happens once in 10^43 runs.
/// assert!((0..=200).contains(&discrete_exponential(&mut source, Ratio::new(2, 1).unwrap())?));
/// # Ok::<(), dither_noise::NoiseError>(())
/// ```
///
/// # References
/// Canonne, Kamath and Steinke, *The Discrete Gaussian for Differential Privacy*, 2020, Algorithm 2, lines 1 to 10.
pub fn discrete_exponential<S: BitSource + ?Sized>(source: &mut S, scale: Ratio) -> Result<i128, NoiseError> {
    let (t, s) = (scale.numerator(), scale.denominator());
    for _ in 0..MAX_TRIES {
        let low = uniform_below(source, t)?;
        if bernoulli_exp(source, low, t)? {
            let high = geometric(source)?;
            return quotient(low, high, t, s);
        }
    }
    Err(NoiseError::Exhausted)
}
