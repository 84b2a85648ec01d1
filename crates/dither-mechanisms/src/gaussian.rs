//! The discrete Gaussian mechanism, on a refined lattice.

use dither_core::{L2Sensitivity, PrivacyEvent, Ratio};
use dither_noise::gaussian_quantile;

use crate::error::MechanismError;

/// Discrete Gaussian noise on every cell of a vector of integers.
///
/// The exact integer is multiplied by 2^k and noise is added in these refined steps, so outputs count steps of
/// size 2^-k. The refinement k is the least for which σ is at least 2^20 refined steps: there the discrete
/// Gaussian is as private as the continuous one to within what the accountant adds for it.
///
/// # Privacy
/// That of the event it reports, which is in refined steps: (sensitivity/σ)²/2-zCDP, and the analytic Gaussian
/// (ε, δ), for the neighbours that the sensitivity was derived for. Refining multiplies sensitivity and σ alike.
///
/// ```
/// use dither_core::{L2Sensitivity, Ratio};
/// use dither_mechanisms::Gaussian;
/// let gaussian = Gaussian::new(L2Sensitivity::from_squared(4), Ratio::new(100, 1).unwrap(), 4)?;
/// assert_eq!(gaussian.refinement(), 17, "10 · 2^17 is the first above 2^20");
/// assert_eq!(gaussian.error_quantile(0.95).map(f64::round), Some(20.0));
/// # Ok::<(), dither_mechanisms::MechanismError>(())
/// ```
///
/// # References
/// Canonne, Kamath and Steinke, *The Discrete Gaussian for Differential Privacy*, 2020, Theorem 4 (zCDP).
/// Balle and Wang, *Improving the Gaussian Mechanism for Differential Privacy*, 2018, Theorem 8 (analytic).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gaussian {
    sensitivity: L2Sensitivity,
    variance: Ratio,
    refinement: u32,
    coordinates: u64,
    /// The sensitivity and the variance in refined steps: both times 4^refinement.
    refined_sensitivity: L2Sensitivity,
    refined_variance: Ratio,
}

impl Gaussian {
    /// The least σ, squared, in refined steps: 2^20 squared.
    const MIN_VARIANCE: u128 = 1 << 40;
    /// A finer lattice would leave less than 2^86 steps for exact values; it means a σ below 2^-20 steps.
    const MAX_REFINEMENT: u32 = 40;

    /// Noise with the parameter σ² = `variance`, in lattice steps squared, on a vector of which one unit moves
    /// at most `coordinates` cells.
    ///
    /// # Errors
    /// [`MechanismError::NoSensitivity`] for a sensitivity of zero, [`MechanismError::OutOfRange`] for a variance
    /// or sensitivity that 128 bits cannot hold once refined, and for no coordinates.
    pub fn new(sensitivity: L2Sensitivity, variance: Ratio, coordinates: u64) -> Result<Self, MechanismError> {
        if sensitivity.squared() == 0 {
            return Err(MechanismError::NoSensitivity);
        }
        if coordinates == 0 {
            return Err(MechanismError::OutOfRange { what: "number of coordinates" });
        }
        let (mut refined_variance, mut refinement) = (variance, 0);
        // floor(σ²) >= 2^40 exactly if σ >= 2^20.
        while refined_variance.numerator() / refined_variance.denominator() < Self::MIN_VARIANCE {
            if refinement == Self::MAX_REFINEMENT {
                return Err(MechanismError::OutOfRange { what: "noise variance" });
            }
            refined_variance =
                times_four(refined_variance).ok_or(MechanismError::OutOfRange { what: "noise variance" })?;
            refinement += 1;
        }
        let refined_sensitivity = sensitivity
            .squared()
            .checked_mul(1 << (2 * refinement))
            .map(L2Sensitivity::from_squared)
            .ok_or(MechanismError::OutOfRange { what: "sensitivity" })?;
        Ok(Self { sensitivity, variance, refinement, coordinates, refined_sensitivity, refined_variance })
    }

    /// How far the vector can move, in lattice steps.
    pub fn sensitivity(&self) -> L2Sensitivity {
        self.sensitivity
    }

    /// The parameter σ² of the noise, in lattice steps squared.
    pub fn variance(&self) -> Ratio {
        self.variance
    }

    /// Outputs count steps of size 2^-`refinement`.
    pub fn refinement(&self) -> u32 {
        self.refinement
    }

    /// The parameter σ² of the noise, in refined steps squared.
    pub(crate) fn refined_variance(&self) -> Ratio {
        self.refined_variance
    }

    /// What is charged, in refined steps.
    pub fn event(&self) -> PrivacyEvent {
        PrivacyEvent::Gaussian {
            sensitivity: self.refined_sensitivity,
            variance: self.refined_variance,
            coordinates: self.coordinates,
        }
    }

    /// The error that one cell stays within with this probability, either way, in lattice steps (not refined).
    /// `None` unless the probability lies in [0, 1).
    pub fn error_quantile(&self, probability: f64) -> Option<f64> {
        let refined = gaussian_quantile(self.refined_variance, probability)?;
        Some(refined as f64 / (1u64 << self.refinement) as f64)
    }

    /// The standard deviation of the noise of one cell, in lattice steps (not refined).
    pub fn standard_deviation(&self) -> f64 {
        self.variance.as_f64().sqrt()
    }
}

/// Four times a ratio, dividing the denominator where that is exact.
fn times_four(ratio: Ratio) -> Option<Ratio> {
    let (numerator, denominator) = (ratio.numerator(), ratio.denominator());
    match denominator % 4 {
        0 => Ratio::new(numerator, denominator / 4),
        2 => Ratio::new(numerator.checked_mul(2)?, denominator / 2),
        _ => Ratio::new(numerator.checked_mul(4)?, denominator),
    }
}
