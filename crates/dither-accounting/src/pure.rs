//! Pure differential privacy: integers, no floats.

use dither_core::{L1Sensitivity, Ratio};

use crate::round::{nanos_up, quotient_up};

/// The ε of discrete Laplace noise in nano-units, rounded up; `None` if 64 bits cannot hold it.
///
/// The quotient sensitivity/scale is taken in integers. Where an intermediate product leaves 128 bits, floats
/// rounded up take over.
///
/// # Privacy
/// Noise P(x) ∝ exp(−|x|/scale), independent in each coordinate of an integer vector whose l1 norm changes by
/// at most `sensitivity`, is (result, 0)-private for the neighbour relation that the sensitivity is for.
///
/// ```
/// use dither_accounting::pure;
/// use dither_core::{L1Sensitivity, Ratio};
/// let scale = Ratio::new(10, 1).unwrap();
/// assert_eq!(pure::laplace_nanos(L1Sensitivity::new(1), scale), Some(100_000_000));
/// ```
///
/// # References
/// Ghosh, Roughgarden and Sundararajan, *Universally Utility-Maximizing Privacy Mechanisms*, 2009, for one
/// coordinate; Dwork and Roth, *The Algorithmic Foundations of Differential Privacy*, 2014, Theorem 3.6, for
/// the vector.
pub fn laplace_nanos(sensitivity: L1Sensitivity, scale: Ratio) -> Option<u64> {
    let nanos = sensitivity.steps().checked_mul(scale.denominator()).and_then(|steps| steps.checked_mul(1_000_000_000));
    match nanos {
        Some(nanos) => u64::try_from(nanos.div_ceil(scale.numerator())).ok(),
        None => nanos_up(quotient_up([sensitivity.steps(), scale.denominator()], scale.numerator())),
    }
}
