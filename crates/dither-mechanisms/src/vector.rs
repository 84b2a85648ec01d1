//! Noise on a vector whose coordinates have sensitivities of their own.

use dither_core::{
    Epsilon, GateError, L1Sensitivity, L2Sensitivity, Mechanism, OpenGate, PrivacyEvent, Ratio, Sensitive, hazmat,
};
use dither_noise::{BitSource, NoiseSource};

use crate::error::MechanismError;
use crate::gaussian::Gaussian;
use crate::laplace::Laplace;
use crate::sampler::Samplers;
use crate::selection::ExactVector;
use crate::table::Noise;

/// Noise on each coordinate of a vector, scaled to its own sensitivity, for one joint guarantee.
///
/// One scale for all would be that of the sum of sensitivities. Here the scales differ so that the total squared error
/// is smallest for the same guarantee, and each coordinate has its own error quantile: see [`VectorNoise::noises`].
///
/// # Privacy
/// The composition of its coordinates, of which one unit may move all at once, the i-th by at most Δᵢ, for the
/// neighbours that the sensitivities were derived for: Σ Δᵢ/bᵢ ≤ ε with Laplace noise of scales bᵢ, and
/// Σ Δᵢ²/σᵢ² = 1/`variance` with Gaussian noise. The noises are independent, which makes the losses add up: as for
/// a vector of one scale once every coordinate is divided by its own.
///
/// ```
/// use dither_core::Ratio;
/// use dither_mechanisms::VectorNoise;
/// // A count, and a sum of values up to 1,000, for one epsilon.
/// let noise = VectorNoise::laplace(&[1, 1_000], "1".parse()?)?;
/// let errors: Vec<f64> = noise.noises().iter().filter_map(|each| each.error_quantile(0.95)).collect();
/// assert!(errors[0] > 300.0 && errors[1] < 3_050.0, "{errors:?}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// Dwork and Roth, *The Algorithmic Foundations of Differential Privacy*, 2014, Theorems 3.6 and 3.16. Canonne, Kamath
/// and Steinke, *The Discrete Gaussian for Differential Privacy*, 2020, Theorem 14 (multivariate, by composition).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorNoise {
    noises: Vec<Noise>,
}

impl VectorNoise {
    /// An event for each coordinate goes into the ledger.
    const MAX_COORDINATES: usize = 10_000;

    /// Laplace noise of a total loss of ε on coordinates that move by at most so many steps each.
    ///
    /// Of Σ Δᵢ/bᵢ = ε, the total variance is smallest for bᵢ ∝ Δᵢ^⅓: coordinate i gets a share of ε that is
    /// proportional to Δᵢ^⅔, rounded down to nano-units.
    ///
    /// # Errors
    /// [`MechanismError::NoSensitivity`] for a sensitivity of zero or no coordinates, [`MechanismError::OutOfRange`] for
    /// more than 10,000 of them, for an ε too small to be shared, and for noise beyond exact arithmetic.
    pub fn laplace(sensitivities: &[u128], epsilon: Epsilon) -> Result<Self, MechanismError> {
        Self::check(sensitivities)?;
        let out_of_range = MechanismError::OutOfRange { what: "epsilon" };
        let weights: Vec<f64> = sensitivities.iter().map(|&steps| libm::pow(steps as f64, 2.0 / 3.0)).collect();
        let total: f64 = weights.iter().sum();
        // Any shares that add up to no more than ε are private; they are added up below, as integers.
        let share = |weight: f64| ((epsilon.nanos() as f64 * (weight / total) * (1.0 - SLACK)) as u64).max(1);
        let shares: Vec<u64> = weights.into_iter().map(share).collect();
        let sum = shares.iter().try_fold(0u64, |sum, &share| sum.checked_add(share)).ok_or(out_of_range)?;
        if sum > epsilon.nanos() {
            return Err(out_of_range);
        }
        let noise = |(&steps, &nanos): (&u128, &u64)| {
            let epsilon = Epsilon::from_nanos(nanos).map_err(|_| out_of_range)?;
            Laplace::for_epsilon(L1Sensitivity::new(steps), epsilon).map(Noise::Laplace)
        };
        let noises = sensitivities.iter().zip(&shares).map(noise).collect::<Result<_, _>>()?;
        Ok(Self { noises })
    }

    /// Gaussian noise on coordinates that move by at most so many steps each, as private as noise of this variance on one
    /// integer of sensitivity one.
    ///
    /// Of Σ Δᵢ²/σᵢ² = 1/`variance`, the total variance is smallest for σᵢ² = `variance` · Δᵢ · Σ Δⱼ: a fraction, so
    /// that nothing is rounded.
    ///
    /// # Errors
    /// As [`VectorNoise::laplace`], and as [`Gaussian::new`].
    pub fn gaussian(sensitivities: &[u128], variance: Ratio) -> Result<Self, MechanismError> {
        Self::check(sensitivities)?;
        let out_of_range = MechanismError::OutOfRange { what: "noise variance" };
        let total = sensitivities.iter().try_fold(0u128, |sum, &steps| sum.checked_add(steps)).ok_or(out_of_range)?;
        let noise = |&steps: &u128| {
            let squared = steps.checked_mul(steps).ok_or(MechanismError::OutOfRange { what: "sensitivity" })?;
            let variance = times(variance, steps).and_then(|product| times(product, total)).ok_or(out_of_range)?;
            Gaussian::new(L2Sensitivity::from_squared(squared), variance, 1).map(Noise::Gaussian)
        };
        let noises = sensitivities.iter().map(noise).collect::<Result<_, _>>()?;
        Ok(Self { noises })
    }

    fn check(sensitivities: &[u128]) -> Result<(), MechanismError> {
        if sensitivities.is_empty() || sensitivities.contains(&0) {
            return Err(MechanismError::NoSensitivity);
        }
        if sensitivities.len() > Self::MAX_COORDINATES {
            return Err(MechanismError::OutOfRange { what: "number of coordinates" });
        }
        Ok(())
    }

    /// The noise of each coordinate, with its error quantile and its refinement.
    pub fn noises(&self) -> &[Noise] {
        &self.noises
    }

    /// What is charged.
    pub fn event(&self) -> PrivacyEvent {
        PrivacyEvent::Composed(self.noises.iter().map(Noise::event).collect())
    }

    /// [`Mechanism::apply`] for any source of bits, so that tests can replay it.
    pub(crate) fn add<S: BitSource>(&self, exact: ExactVector, source: &mut S) -> Result<Vec<i128>, GateError> {
        if exact.values.len() != self.noises.len() {
            return Err(GateError::Failed);
        }
        // So many tables take 32 MiB.
        const AT_ONCE: usize = 256;
        let mut noisy = Vec::with_capacity(exact.values.len());
        for (noises, values) in self.noises.chunks(AT_ONCE).zip(exact.values.chunks(AT_ONCE)) {
            noisy.extend(Samplers::new(noises).add(values, source).map_err(|_| GateError::Failed)?);
        }
        Ok(noisy)
    }
}

/// What is left of ε for the roundings of shares in floating point: a share errs by a few 2^-53, and so does the sum of
/// 10,000 weights by less than 10⁻¹¹.
const SLACK: f64 = 1e-9;

/// A multiple of a ratio, dividing the denominator by what it has in common with the factor.
fn times(ratio: Ratio, factor: u128) -> Option<Ratio> {
    // In lowest terms, so that the product needs no more bits than its result.
    let common = Ratio::new(factor, ratio.denominator())?;
    Ratio::new(ratio.numerator().checked_mul(common.numerator())?, common.denominator())
}

impl Mechanism for VectorNoise {
    type Exact = ExactVector;
    type Noise = NoiseSource;
    /// One integer per coordinate, in refined steps of its lattice.
    type Output = Vec<i128>;

    fn event(&self) -> PrivacyEvent {
        self.event()
    }

    fn apply(
        &self,
        exact: Sensitive<ExactVector>,
        noise: &mut NoiseSource,
        _gate: OpenGate,
    ) -> Result<Vec<i128>, GateError> {
        self.add(hazmat::reveal(exact), noise)
    }
}
