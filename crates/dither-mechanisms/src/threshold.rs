//! Keys that come from the data.

use std::num::NonZeroU32;

use dither_core::{Delta, Epsilon, L1Sensitivity, Neighbors, PrivacyEvent, Ratio};
use dither_noise::{BitSource, NoiseError, first_integer, laplace_tail};

use crate::error::MechanismError;
use crate::laplace::Laplace;
use crate::sampler::Sampler;
use crate::table::Noise;

/// Lets a key through when the noisy number of its distinct units reaches a threshold.
///
/// # Privacy
/// (ε, δ)-differentially private when a unit is added or removed, where ε is that of the Laplace noise on the
/// numbers of units, together with whatever the cells of the kept rows are charged for. Each unit must appear
/// under at most `max_groups_per_unit` keys (L), and a key must be in the table only if some unit has it.
///
/// *Proof.* Let the table D′ be D and one unit more. Call a key *solo* if only this unit has it. All noise is
/// independent per key, so the output on D′ is a function of two independent parts: what happens to the solo
/// keys, and what happens to all others. On D the solo part is the constant "nothing".
///
/// 1. *The others.* Their rows exist in both tables, and their numbers of units move by at most one each, under
///    at most L keys, so the Laplace noise of sensitivity L makes the list of kept keys ε-indistinguishable
///    (comparing with a threshold is post-processing), and their cells are covered by their own events.
/// 2. *The solo keys.* There are s ≤ L. Each has one unit and is let through with p = P(1 + X ≥ t),
///    independently, so on D′ this part is not "nothing" with probability 1 − (1 − p)^s ≤ 1 − (1 − p)^L ≤ δ.
///    Two distributions at total variation distance δ are (0, δ)-indistinguishable, in both directions.
///
/// The joint output is the non-adaptive composition of both parts, which is what the event says. ∎
///
/// The threshold t is the smallest for which the bound, computed with every rounding towards more loss, is at
/// most δ; its own mass P(1 + X = t) counts as a release. Counts and noise are compared as exact integers.
///
/// ```
/// use std::num::NonZeroU32;
/// use dither_core::{Delta, Epsilon, Neighbors};
/// use dither_mechanisms::Threshold;
/// let (epsilon, delta): (Epsilon, Delta) = ("1".parse()?, "1e-6".parse()?);
/// let rule = Threshold::for_epsilon(NonZeroU32::MIN, Neighbors::AddOrRemoveUnit, epsilon, delta)?;
/// // e^-(t - 1) / (1 + e^-1) <= 1e-6 holds from t - 1 = 14 on.
/// assert_eq!(rule.threshold(), 15);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// Korolova, Kenthapadi, Mishra and Ntoulas, *Releasing Search Queries and Clicks Privately*, 2009, Theorem 1.
/// Wilson et al., *Differentially Private SQL with Bounded User Contribution*, 2020 (τ-thresholding, jointly over
/// the keys of a unit).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    noise: Laplace,
    delta: Delta,
    max_groups_per_unit: NonZeroU32,
    threshold: i128,
}

impl Threshold {
    /// A threshold whose noise is ε-differentially private and which lets a unit's own keys through with
    /// probability at most δ. One number, `max_groups_per_unit`, gives both the sensitivity of the noise and the
    /// number of keys in the bound; the rows must be truncated to the same number.
    ///
    /// # Errors
    /// [`MechanismError::NoDelta`] for a δ of zero, [`MechanismError::ReplaceUnit`] for neighbours other than
    /// adding or removing a unit, [`MechanismError::OutOfRange`] for noise beyond exact arithmetic.
    pub fn for_epsilon(
        max_groups_per_unit: NonZeroU32,
        neighbors: Neighbors,
        epsilon: Epsilon,
        delta: Delta,
    ) -> Result<Self, MechanismError> {
        if neighbors != Neighbors::AddOrRemoveUnit {
            return Err(MechanismError::ReplaceUnit);
        }
        if delta.is_zero() {
            return Err(MechanismError::NoDelta);
        }
        let noise = Laplace::for_epsilon(L1Sensitivity::new(u128::from(max_groups_per_unit.get())), epsilon)?;
        let allowed = delta.as_f64() * (1.0 - MARGIN);
        // A threshold below one would mean nothing: a key in the table has a unit.
        let threshold = first_integer(|above_one| {
            i128::try_from(above_one).is_ok_and(|k| solo_release(noise.scale(), max_groups_per_unit, k) <= allowed)
        })
        .and_then(|above_one| i128::try_from(above_one).ok()?.checked_add(1))
        .ok_or(MechanismError::OutOfRange { what: "threshold" })?;
        Ok(Self { noise, delta, max_groups_per_unit, threshold })
    }

    /// The noise on the numbers of units, in units.
    pub fn noise(&self) -> Laplace {
        self.noise
    }

    /// The bound on the probability that any key of one unit alone is let through.
    pub fn delta(&self) -> Delta {
        self.delta
    }

    /// The number of keys that a unit may appear under.
    pub fn max_groups_per_unit(&self) -> NonZeroU32 {
        self.max_groups_per_unit
    }

    /// The noisy number of units from which on a key is let through.
    pub fn threshold(&self) -> i128 {
        self.threshold
    }

    /// What is charged.
    pub fn event(&self) -> PrivacyEvent {
        PrivacyEvent::Composed(vec![self.noise.event(), PrivacyEvent::Threshold { delta: self.delta }])
    }

    /// What the noise on the numbers of units is drawn from.
    pub(crate) fn sampler(&self) -> Sampler {
        Sampler::new(Noise::Laplace(self.noise))
    }

    /// Whether a key of so many distinct units is let through, this time.
    pub(crate) fn admits<S: BitSource>(
        &self,
        units: i64,
        sampler: &Sampler,
        source: &mut S,
    ) -> Result<bool, NoiseError> {
        Ok(sampler.add(units.into(), source)? >= self.threshold)
    }
}

/// Relative error allowed for the few operations on top of a tail, each of which errs by a few 2^-53.
const MARGIN: f64 = 1e-12;

/// An upper bound on 1 − (1 − p)^groups for p = P(X ≥ `above_one`), the chance of a key with one unit to reach
/// the threshold `above_one` + 1.
pub(crate) fn solo_release(scale: Ratio, groups: NonZeroU32, above_one: i128) -> f64 {
    let one = laplace_tail(scale, above_one);
    if one >= 1.0 {
        return 1.0;
    }
    let none = f64::from(groups.get()) * libm::log1p(-one);
    -libm::expm1(none) * (1.0 + MARGIN)
}
