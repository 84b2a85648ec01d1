//! The discrete Laplace mechanism.

use dither_core::{Epsilon, L1Sensitivity, PrivacyEvent, Ratio};
use dither_noise::laplace_quantile;

use crate::error::MechanismError;

/// Discrete Laplace noise on every cell of a vector of integers.
///
/// # Privacy
/// (sensitivity/scale)-differentially private for the neighbours that the sensitivity was derived for, when the
/// vector moves by at most the sensitivity in l1 norm. The ratio is exact: see [`Laplace::for_epsilon`].
///
/// ```
/// use dither_core::{Epsilon, L1Sensitivity, PrivacyEvent, Ratio};
/// use dither_mechanisms::Laplace;
/// let laplace = Laplace::for_epsilon(L1Sensitivity::new(3), "0.7".parse::<Epsilon>()?)?;
/// assert_eq!(laplace.scale(), Ratio::new(30, 7).unwrap());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// Ghosh, Roughgarden and Sundararajan, *Universally Utility-Maximizing Privacy Mechanisms*, 2009 (the geometric
/// mechanism). Dwork and Roth, *The Algorithmic Foundations of Differential Privacy*, 2014, Theorem 3.6, whose
/// proof reads the same for sums over the integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Laplace {
    sensitivity: L1Sensitivity,
    scale: Ratio,
}

impl Laplace {
    /// Beyond 2^100 steps a draw may not fit 128 bits beside an exact value.
    const MAX_SCALE: u128 = 1 << 100;

    /// Noise of this scale, in lattice steps.
    ///
    /// # Errors
    /// [`MechanismError::NoSensitivity`] for a sensitivity of zero, [`MechanismError::OutOfRange`] for a scale
    /// beyond 2^100.
    pub fn new(sensitivity: L1Sensitivity, scale: Ratio) -> Result<Self, MechanismError> {
        if sensitivity.steps() == 0 {
            return Err(MechanismError::NoSensitivity);
        }
        // floor(scale) >= 2^100 exactly if scale >= 2^100.
        if scale.numerator() / scale.denominator() >= Self::MAX_SCALE {
            return Err(MechanismError::OutOfRange { what: "noise scale" });
        }
        Ok(Self { sensitivity, scale })
    }

    /// The least noise that is ε-differentially private: scale = sensitivity/ε, as an exact fraction.
    ///
    /// # Errors
    /// As [`Laplace::new`].
    pub fn for_epsilon(sensitivity: L1Sensitivity, epsilon: Epsilon) -> Result<Self, MechanismError> {
        let out_of_range = MechanismError::OutOfRange { what: "noise scale" };
        if sensitivity.steps() == 0 {
            return Err(MechanismError::NoSensitivity);
        }
        let numerator = sensitivity.steps().checked_mul(u128::from(Epsilon::NANOS)).ok_or(out_of_range)?;
        let scale = Ratio::new(numerator, u128::from(epsilon.nanos())).ok_or(out_of_range)?;
        Self::new(sensitivity, scale)
    }

    /// How far the vector can move, in lattice steps.
    pub fn sensitivity(&self) -> L1Sensitivity {
        self.sensitivity
    }

    /// The scale of the noise, in lattice steps.
    pub fn scale(&self) -> Ratio {
        self.scale
    }

    /// What is charged.
    pub fn event(&self) -> PrivacyEvent {
        PrivacyEvent::Laplace { sensitivity: self.sensitivity, scale: self.scale }
    }

    /// The error that one cell stays within with this probability, either way, in lattice steps.
    /// `None` unless the probability lies in [0, 1).
    pub fn error_quantile(&self, probability: f64) -> Option<f64> {
        laplace_quantile(self.scale, probability).map(|steps| steps as f64)
    }

    /// The standard deviation of the noise of one cell, in lattice steps.
    ///
    /// The variance is 2q/(1 − q)² for q = exp(−1/scale), which is 1/(2 sinh²(1/2·scale)).
    pub fn standard_deviation(&self) -> f64 {
        1.0 / (std::f64::consts::SQRT_2 * (0.5 / self.scale.as_f64()).sinh())
    }
}
