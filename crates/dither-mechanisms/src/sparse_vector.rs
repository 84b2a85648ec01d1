//! The sparse vector technique.

use std::num::NonZeroU32;

use dither_core::{Epsilon, GateError, L1Sensitivity, Mechanism, OpenGate, PrivacyEvent, Sensitive, hazmat};
use dither_noise::{BitSource, NoiseError, NoiseSource, discrete_laplace};

use crate::error::MechanismError;
use crate::laplace::Laplace;
use crate::saturate::refined;
use crate::selection::{ExactVector, MaxSensitivity};

/// Says for each of many queries whether it is above a threshold, and stops after a number of them that are.
///
/// Only queries that are above cost anything: ε does not depend on how many are below. No value is released, only
/// above or below.
///
/// # Privacy
/// ε-differentially private with ε = ε₁ + ε₂, for the neighbours that the sensitivity was derived for. The queries,
/// their number and their order, the threshold and the cutoff c must be public. The threshold gets Laplace noise of
/// scale Δ/ε₁ once, each query fresh Laplace noise of scale 2cΔ/ε₂, or cΔ/ε₂ if all queries move the same way.
///
/// *Proof.* Noise is integer, above means q + ν ≥ T + ρ. Take an output with at most c above, neighbours D and D′, and
/// fix ρ and the ν of all queries on D that lead to it.
///
/// 1. *In general*, let ρ′ = ρ + Δ on D′. A query below stays below with the same ν: q′ + ν ≤ q + Δ + ν < T + ρ′. One
///    above stays above with ν′ = ν + 2Δ, since q′ + ν′ ≥ q − Δ + ν + 2Δ ≥ T + ρ′. Integers are mapped to integers one
///    to one, ρ loses a factor of at most e^ε₁ in probability and each of at most c queries one of e^(ε₂/c).
/// 2. *If no query is larger on D′*, keep ρ: below stays below, and above stays above with ν′ = ν + Δ.
/// 3. *If none is smaller on D′*, let ρ′ = ρ + Δ: below stays below as in 1, and above stays above with ν′ = ν + Δ.
///
/// What comes after the last answer is not drawn. Summed over all ρ and ν: P(output on D) ≤ e^ε · P(output on D′). ∎
///
/// Variants that leave out the noise of the queries, its factor c, or the stop, or release the noisy values, are not
/// ε-private for any or for this ε; the tests refute them.
///
/// ```
/// use std::num::NonZeroU32;
/// use dither_core::PrivacyEvent;
/// use dither_mechanisms::{MaxSensitivity, SparseVector};
/// let (queries, cutoff) = (NonZeroU32::new(1_000).unwrap(), NonZeroU32::new(4).unwrap());
/// let epsilon = "1".parse()?;
/// let mechanism = SparseVector::new(queries, MaxSensitivity::monotone(1), 500, cutoff, epsilon)?;
/// assert_eq!(mechanism.event(), PrivacyEvent::Pure { epsilon });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// Lyu, Su and Li, *Understanding the Sparse Vector Technique for Differential Privacy*, 2017, Algorithms 1 and 7 and
/// their theorems; section 4 for monotone queries and for the split of ε; Algorithms 3 to 6 are the broken ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SparseVector {
    queries: NonZeroU32,
    threshold: i128,
    cutoff: NonZeroU32,
    epsilon: Epsilon,
    threshold_noise: Laplace,
    query_noise: Laplace,
}

impl SparseVector {
    /// Compares so many queries with a threshold, in lattice steps, and stops after `cutoff` of them were above.
    ///
    /// ε is split into ε₁ : ε₂ = 1 : (2c)^⅔, or 1 : c^⅔ for monotone queries, which makes the variance of the
    /// comparison smallest.
    ///
    /// # Errors
    /// [`MechanismError::NoSensitivity`] for a sensitivity of zero, [`MechanismError::OutOfRange`] for noise beyond exact
    /// arithmetic and for an ε that cannot be split.
    pub fn new(
        queries: NonZeroU32,
        sensitivity: MaxSensitivity,
        threshold: i128,
        cutoff: NonZeroU32,
        epsilon: Epsilon,
    ) -> Result<Self, MechanismError> {
        let out_of_range = MechanismError::OutOfRange { what: "noise scale" };
        // At most 2^81 · 2^32.
        let spread = sensitivity.spread()?.checked_mul(cutoff.get().into()).ok_or(out_of_range)?;
        let share = libm::cbrt((spread / sensitivity.steps()) as f64);
        // Any split is private; the float only makes it a good one.
        let first = ((epsilon.nanos() as f64 / (1.0 + share * share)) as u64).max(1);
        let part = |nanos| Epsilon::from_nanos(nanos).map_err(|_| MechanismError::OutOfRange { what: "epsilon" });
        let second = part(epsilon.nanos().saturating_sub(first))?;
        Ok(Self {
            queries,
            threshold: refined(threshold, 0),
            cutoff,
            epsilon,
            threshold_noise: Laplace::for_epsilon(L1Sensitivity::new(sensitivity.steps()), part(first)?)?,
            query_noise: Laplace::for_epsilon(L1Sensitivity::new(spread), second)?,
        })
    }

    /// The threshold, in lattice steps.
    pub fn threshold(&self) -> i128 {
        self.threshold
    }

    /// After how many queries that were above it stops.
    pub fn cutoff(&self) -> NonZeroU32 {
        self.cutoff
    }

    /// The noise of the threshold, drawn once.
    pub fn threshold_noise(&self) -> Laplace {
        self.threshold_noise
    }

    /// The noise of each query; its sensitivity is the 2cΔ or cΔ of the proof.
    pub fn query_noise(&self) -> Laplace {
        self.query_noise
    }

    /// What is charged.
    pub fn event(&self) -> PrivacyEvent {
        PrivacyEvent::Pure { epsilon: self.epsilon }
    }

    /// How far a query may lie on the wrong side of the threshold, in lattice steps, in all answers at once with this
    /// probability: what is said to be above is above less that, and the other way round. `None` unless the
    /// probability lies in [0, 1).
    ///
    /// Half of the failures go to the threshold, half to the queries together.
    pub fn error_quantile(&self, probability: f64) -> Option<f64> {
        let half = (0.0..1.0).contains(&probability).then_some((1.0 - probability) / 2.0)?;
        // The subtraction may round; the largest float below one is a quantile still.
        let inside = |outside: f64| (1.0 - outside).min(1.0 - f64::EPSILON / 2.0);
        let threshold = self.threshold_noise.error_quantile(inside(half))?;
        Some(threshold + self.query_noise.error_quantile(inside(half / f64::from(self.queries.get())))?)
    }

    /// [`Mechanism::apply`] for any source of bits, so that tests can replay it.
    pub(crate) fn compare<S: BitSource>(&self, exact: ExactVector, source: &mut S) -> Result<Vec<bool>, GateError> {
        if usize::try_from(self.queries.get()).ok() != Some(exact.values.len()) {
            return Err(GateError::Failed);
        }
        self.answers(&exact.values, source).map_err(|_| GateError::Failed)
    }

    fn answers<S: BitSource>(&self, queries: &[i128], source: &mut S) -> Result<Vec<bool>, NoiseError> {
        let sum = |exact: i128, noise: i128| exact.checked_add(noise).ok_or(NoiseError::OutOfRange);
        let threshold = sum(self.threshold, discrete_laplace(source, self.threshold_noise.scale())?)?;
        let (mut answers, mut left) = (Vec::new(), self.cutoff.get());
        for &query in queries {
            let above = sum(refined(query, 0), discrete_laplace(source, self.query_noise.scale())?)? >= threshold;
            answers.push(above);
            left -= u32::from(above);
            if left == 0 {
                break;
            }
        }
        Ok(answers)
    }
}

impl Mechanism for SparseVector {
    type Exact = ExactVector;
    type Noise = NoiseSource;
    /// Whether each query is above, up to the last that was answered.
    type Output = Vec<bool>;

    fn event(&self) -> PrivacyEvent {
        self.event()
    }

    fn apply(
        &self,
        exact: Sensitive<ExactVector>,
        noise: &mut NoiseSource,
        _gate: OpenGate,
    ) -> Result<Vec<bool>, GateError> {
        self.compare(hazmat::reveal(exact), noise)
    }
}
