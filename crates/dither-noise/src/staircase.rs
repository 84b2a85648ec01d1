//! The discrete staircase distribution.

use dither_core::Ratio;

use crate::MAX_TRIES;
use crate::choice::bernoulli_odds;
use crate::error::NoiseError;
use crate::exponential::discrete_exponential;
use crate::source::BitSource;
use crate::uniform::uniform_below;

/// A draw with P(x) ∝ exp(−`epsilon` · ⌊(|x| + `width` − `step`) / `width`⌋) on the integers, exactly, in lattice
/// steps: a staircase whose stairs are `width` wide, but for the top one, which reaches `step` − 1 either way.
///
/// *Law.* The magnitude is k · `width` + j. A discrete exponential k has P(k) ∝ e^(−k·epsilon). Given k, the weights
/// of j are 1 below `step` and e^(−epsilon) from there on: [`bernoulli_odds`] decides which, and j is uniform in
/// its part. A fair sign follows, and a negative zero is drawn anew so that zero is not counted twice. ∎
///
/// # Errors
/// [`NoiseError::OutOfRange`] unless 0 < `step` ≤ `width`, and for a draw beyond 127 bits; and what the source
/// reports. Another round has probability at most 1/2.
///
/// ```
/// use dither_core::Ratio;
/// use dither_noise::{NoiseSource, discrete_staircase};
/// let mut source = NoiseSource::from_os()?;
/// let noise = discrete_staircase(&mut source, 10, 3, Ratio::new(2, 1).unwrap())?;
/// // Beyond 50 stairs, once in 10^43 runs.
/// assert!(noise.abs() < 500);
/// # Ok::<(), dither_noise::NoiseError>(())
/// ```
///
/// # References
/// Geng and Viswanath, *The Optimal Noise-Adding Mechanism in Differential Privacy*, 2016, section on integer-valued
/// queries (the distribution).
pub fn discrete_staircase<S: BitSource + ?Sized>(
    source: &mut S,
    width: u128,
    step: u128,
    epsilon: Ratio,
) -> Result<i128, NoiseError> {
    if step == 0 {
        return Err(NoiseError::OutOfRange);
    }
    let beyond = width.checked_sub(step).ok_or(NoiseError::OutOfRange)?;
    let scale = Ratio::new(epsilon.denominator(), epsilon.numerator()).ok_or(NoiseError::OutOfRange)?;
    for _ in 0..MAX_TRIES {
        let stair = discrete_exponential(source, scale)?.unsigned_abs();
        let top = bernoulli_odds(source, step, beyond, epsilon)?;
        let within = if top { uniform_below(source, step)? } else { step + uniform_below(source, beyond)? };
        let magnitude = stair.checked_mul(width).and_then(|base| base.checked_add(within));
        let magnitude = magnitude.and_then(|sum| i128::try_from(sum).ok()).ok_or(NoiseError::OutOfRange)?;
        let negative = uniform_below(source, 2)? == 1;
        if !(negative && magnitude == 0) {
            return Ok(if negative { -magnitude } else { magnitude });
        }
    }
    Err(NoiseError::Exhausted)
}
