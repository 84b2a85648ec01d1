//! Uniform integers by rejection.

use dashu_int::UBig;
use dashu_int::ops::BitTest;

use crate::MAX_TRIES;
use crate::error::NoiseError;
use crate::source::BitSource;

/// A uniform integer in `0..bound`, exactly.
///
/// Takes as many bits as `bound - 1` has and tries again when they are too large, which happens at most every
/// second time; a bound of one takes no bits.
///
/// # Errors
/// [`NoiseError::OutOfRange`] for a bound of zero, and what the source reports.
///
/// ```
/// use dither_noise::{NoiseSource, uniform_below};
/// let mut source = NoiseSource::from_os()?;
/// let die = 1 + uniform_below(&mut source, 6)?;
/// assert!((1..=6).contains(&die));
/// # Ok::<(), dither_noise::NoiseError>(())
/// ```
pub fn uniform_below<S: BitSource + ?Sized>(source: &mut S, bound: u128) -> Result<u128, NoiseError> {
    let largest = bound.checked_sub(1).ok_or(NoiseError::OutOfRange)?;
    if largest == 0 {
        return Ok(0);
    }
    let spare = largest.leading_zeros();
    let mut bytes = [0; 16];
    let used = (128 - spare).div_ceil(8) as usize;
    for _ in 0..MAX_TRIES {
        source.fill(&mut bytes[..used])?;
        let candidate = u128::from_le_bytes(bytes) & (u128::MAX >> spare);
        if candidate <= largest {
            return Ok(candidate);
        }
    }
    Err(NoiseError::Exhausted)
}

/// [`uniform_below`] for integers of any size.
pub(crate) fn uniform_below_big<S: BitSource + ?Sized>(source: &mut S, bound: &UBig) -> Result<UBig, NoiseError> {
    let bits = bound.bit_len();
    let mut bytes = vec![0; bits.div_ceil(8)];
    let mask = 0xFF_u8 >> (bytes.len() * 8 - bits);
    for _ in 0..MAX_TRIES {
        source.fill(&mut bytes)?;
        if let Some(last) = bytes.last_mut() {
            *last &= mask;
        }
        let candidate = UBig::from_le_bytes(&bytes);
        if candidate < *bound {
            return Ok(candidate);
        }
    }
    Err(NoiseError::Exhausted)
}
