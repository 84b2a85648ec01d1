//! Keys that come from the data.

use std::num::NonZeroU32;

use dither_core::{Delta, Epsilon, L1Sensitivity, L2Sensitivity, Neighbors, PrivacyEvent, Ratio};
use dither_noise::{BitSource, NoiseError, first_integer, gaussian_tail, laplace_tail};

use crate::error::MechanismError;
use crate::gaussian::Gaussian;
use crate::laplace::Laplace;
use crate::sampler::Sampler;
use crate::table::Noise;
use crate::truncated::TruncatedGeometric;

/// Lets a key through when the noisy number of its distinct units reaches a threshold.
///
/// All noise is symmetric and larger than zero with a probability below one half, so that the threshold is the smallest
/// number of units at which a key is let through with probability one half or more: of several rules that cost the same,
/// the one with the smallest threshold shows most.
///
/// # Privacy
/// (ε, δ)-differentially private when a unit is added or removed, together with whatever the cells of the kept rows are
/// charged for. Each unit must appear under at most `max_groups_per_unit` keys (L), and a key must be in the table only
/// if some unit has it. Numbers of units and noise are compared as exact integers.
///
/// *Proof for Laplace and Gaussian noise.* ε is that of the noise on the numbers of units, of which one unit moves at
/// most L by one each: by L in the l1 norm, by √L in the l2 norm. Let the table D′ be D and one unit more. Call a key
/// *solo* if only this unit has it. All noise is independent per key, so the output on D′ is a function of two
/// independent parts: what happens to the solo keys, and what happens to all others. On D the solo part is the
/// constant "nothing".
///
/// 1. *The others.* Their rows exist in both tables, and their numbers of units move by at most one each, under
///    at most L keys, so the noise makes the list of kept keys as private as its own event says (comparing with a
///    threshold is post-processing), and their cells are covered by their own events.
/// 2. *The solo keys.* There are s ≤ L. Each has one unit and is let through with p = P(1 + X ≥ t),
///    independently, so on D′ this part is not "nothing" with probability 1 − (1 − p)^s ≤ 1 − (1 − p)^L ≤ δ.
///    Two distributions at total variation distance δ are (0, δ)-indistinguishable, in both directions.
///
/// The joint output is the non-adaptive composition of both parts, which is what the event says. ∎ The threshold t is
/// the smallest for which the bound, computed with every rounding towards more loss, is at most δ; its own mass
/// P(1 + X = t) counts as a release. Gaussian noise has a δ of its own, beside that of the threshold.
///
/// *Proof for truncated geometric noise.* Think of every possible key as one with a noisy number of units, at most L of
/// which one unit moves by one; each number is (ε/L, δ/L)-private (see [`TruncatedGeometric`]), all together are
/// (ε, δ)-private by basic composition, and what is let through is post-processing of them. A key that nobody has never
/// reaches t = k + 1, since its noise is at most k: so it need not be looked at, and is not. Given which keys are kept,
/// cells are covered by their own events; those of a key that is kept on D′ and impossible on D may be thought of as
/// having been zero there. ∎
///
/// *The noisy number of a kept key* may be released as well ([`releasing_counts`](Threshold::releasing_counts)) and costs
/// nothing: the proofs above hold word for word with "kept, and with which noisy number" for "kept". Of the others,
/// what is released is still a function of the noisy numbers that the noise is charged for. A solo key gives "nothing" with
/// probability 1 on D and at least 1 − δ on D′, whatever else it may give. Truncated geometric noise makes the numbers
/// themselves (ε, δ)-private, and those that are below the threshold are left out.
///
/// A number of units that must be reached at least, m, raises the threshold by m − 1. It is a rule on the same noisy
/// number and costs nothing. A key with fewer than m units is then let through with no more probability than a key with
/// none would be: never with truncated noise, and with a probability below δ/L or so with the others.
///
/// ```
/// use std::num::NonZeroU32;
/// use dither_core::{Delta, Epsilon, Neighbors};
/// use dither_mechanisms::Threshold;
/// let (epsilon, delta): (Epsilon, Delta) = ("0.1".parse()?, "1e-6".parse()?);
/// let rule = Threshold::for_epsilon(NonZeroU32::MIN, Neighbors::AddOrRemoveUnit, epsilon, delta)?;
/// // e^-(t - 1)/10 / (1 + e^-1/10) <= 1e-6 holds from t - 1 = 132 on.
/// assert_eq!(rule.threshold(), 133);
/// let optimal = Threshold::truncated_geometric(NonZeroU32::MIN, Neighbors::AddOrRemoveUnit, epsilon, delta)?;
/// assert_eq!(optimal.threshold(), 110);
/// // Ten people at least.
/// assert_eq!(optimal.with_min_units(NonZeroU32::new(10).unwrap())?.threshold(), 119);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// Korolova, Kenthapadi, Mishra and Ntoulas, *Releasing Search Queries and Clicks Privately*, 2009, Theorem 1.
/// Wilson et al., *Differentially Private SQL with Bounded User Contribution*, 2020 (τ-thresholding, jointly over
/// the keys of a unit). Desfontaines, Voss, Gipson and Mandayam, *Differentially Private Partition Selection*, 2022
/// (the optimal rule as truncated geometric noise and a threshold, with which noisy numbers can be released). Swanberg,
/// Desfontaines and Haney, *DP-SIPS: A simpler, more scalable mechanism for differentially private partition selection*,
/// PoPETs 2023 (thresholds with Gaussian noise).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    noise: KeyNoise,
    delta: Delta,
    max_groups_per_unit: NonZeroU32,
    threshold: i128,
    counts: bool,
}

/// The noise on a number of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyNoise {
    /// Discrete Laplace.
    Laplace(Laplace),
    /// Discrete Laplace within bounds.
    TruncatedGeometric(TruncatedGeometric),
    /// Discrete Gaussian, on a refined lattice.
    Gaussian(Gaussian),
}

impl Threshold {
    /// A threshold whose Laplace noise is ε-differentially private and which lets a unit's own keys through with
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
        check(neighbors, delta)?;
        let noise = Laplace::for_epsilon(L1Sensitivity::new(u128::from(max_groups_per_unit.get())), epsilon)?;
        let tail = |above_one| laplace_tail(noise.scale(), above_one);
        let threshold = smallest(max_groups_per_unit, delta, 0, tail)?;
        Ok(Self { noise: KeyNoise::Laplace(noise), delta, max_groups_per_unit, threshold, counts: false })
    }

    /// A threshold with the optimal noise for one key, at an equal share of ε and δ for each of `max_groups_per_unit` keys;
    /// the rows must be truncated to this number.
    ///
    /// # Errors
    /// As [`Threshold::for_epsilon`]; [`MechanismError::OutOfRange`] also for a δ that is large beside ε.
    pub fn truncated_geometric(
        max_groups_per_unit: NonZeroU32,
        neighbors: Neighbors,
        epsilon: Epsilon,
        delta: Delta,
    ) -> Result<Self, MechanismError> {
        check(neighbors, delta)?;
        let noise = TruncatedGeometric::new(epsilon, delta, max_groups_per_unit)?;
        Ok(Self {
            noise: KeyNoise::TruncatedGeometric(noise),
            delta,
            max_groups_per_unit,
            threshold: noise.bound() + 1,
            counts: false,
        })
    }

    /// A threshold with Gaussian noise of the parameter σ² = `variance`, in units squared, which lets a unit's own keys
    /// through with probability at most `delta`; the noise has a δ of its own. As for the others, the rows must be
    /// truncated to `max_groups_per_unit`.
    ///
    /// # Errors
    /// As [`Threshold::for_epsilon`], and as [`Gaussian::new`].
    pub fn gaussian(
        max_groups_per_unit: NonZeroU32,
        neighbors: Neighbors,
        variance: Ratio,
        delta: Delta,
    ) -> Result<Self, MechanismError> {
        check(neighbors, delta)?;
        let groups = u64::from(max_groups_per_unit.get());
        let noise = Gaussian::new(L2Sensitivity::from_squared(groups.into()), variance, groups)?;
        let tail = |above_one| gaussian_tail(noise.refined_variance(), above_one);
        let threshold = smallest(max_groups_per_unit, delta, noise.refinement(), tail)?;
        Ok(Self { noise: KeyNoise::Gaussian(noise), delta, max_groups_per_unit, threshold, counts: false })
    }

    /// The same rule for keys of at least so many units: the threshold is higher by one less than that.
    ///
    /// # Errors
    /// [`MechanismError::OutOfRange`] for a threshold beyond exact arithmetic.
    pub fn with_min_units(self, min_units: NonZeroU32) -> Result<Self, MechanismError> {
        let threshold = self.threshold + i128::from(min_units.get() - 1);
        if threshold > MAX_THRESHOLD { Err(TOO_HIGH) } else { Ok(Self { threshold, ..self }) }
    }

    /// The same rule, which releases the noisy number of units of each kept key with it.
    pub fn releasing_counts(self) -> Self {
        Self { counts: true, ..self }
    }

    /// Whether the noisy number of units is released.
    pub fn releases_counts(&self) -> bool {
        self.counts
    }

    /// The noise on the numbers of units.
    pub fn noise(&self) -> KeyNoise {
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
        let beside = |noise| PrivacyEvent::Composed(vec![noise, PrivacyEvent::Threshold { delta: self.delta }]);
        match self.noise {
            KeyNoise::Laplace(noise) => beside(noise.event()),
            KeyNoise::Gaussian(noise) => beside(noise.event()),
            KeyNoise::TruncatedGeometric(noise) => noise.event(),
        }
    }

    /// What the noise on the numbers of units is drawn from.
    pub(crate) fn sampler(&self) -> Sampler {
        match self.noise {
            KeyNoise::Laplace(noise) => Sampler::new(Noise::Laplace(noise)),
            KeyNoise::Gaussian(noise) => Sampler::new(Noise::Gaussian(noise)),
            KeyNoise::TruncatedGeometric(noise) => noise.sampler(),
        }
    }

    /// The noisy number of units of a key of so many, in refined steps, if the key is let through this time.
    pub(crate) fn admitted<S: BitSource>(
        &self,
        units: i64,
        sampler: &Sampler,
        source: &mut S,
    ) -> Result<Option<i128>, NoiseError> {
        let noisy = match self.noise {
            KeyNoise::Laplace(_) | KeyNoise::Gaussian(_) => sampler.add(units.into(), source)?,
            KeyNoise::TruncatedGeometric(noise) => noise.add(units, sampler, source)?,
        };
        // Below 2^80 · 2^40.
        Ok((noisy >= self.threshold << self.noise.refinement()).then_some(noisy))
    }

    /// Whether a key of so many distinct units is let through, this time.
    #[cfg(test)]
    pub(crate) fn admits<S: BitSource>(
        &self,
        units: i64,
        sampler: &Sampler,
        source: &mut S,
    ) -> Result<bool, NoiseError> {
        Ok(self.admitted(units, sampler, source)?.is_some())
    }
}

impl KeyNoise {
    /// Noisy numbers count steps of size 2^-`refinement`; zero but for Gaussian noise.
    pub fn refinement(&self) -> u32 {
        match self {
            Self::Gaussian(noise) => noise.refinement(),
            Self::Laplace(_) | Self::TruncatedGeometric(_) => 0,
        }
    }

    /// The error that one number stays within with this probability, either way, in units.
    /// `None` unless the probability lies in [0, 1).
    pub fn error_quantile(&self, probability: f64) -> Option<f64> {
        match self {
            Self::Laplace(noise) => noise.error_quantile(probability),
            Self::Gaussian(noise) => noise.error_quantile(probability),
            Self::TruncatedGeometric(noise) => noise.error_quantile(probability),
        }
    }

    /// A standard deviation that the noise does not exceed, in units.
    pub fn standard_deviation(&self) -> f64 {
        match self {
            Self::Laplace(noise) => noise.standard_deviation(),
            Self::Gaussian(noise) => noise.standard_deviation(),
            Self::TruncatedGeometric(noise) => noise.standard_deviation(),
        }
    }
}

/// A threshold beyond this may not fit 128 bits once it is refined; nobody has so many units.
const MAX_THRESHOLD: i128 = 1 << 80;

const TOO_HIGH: MechanismError = MechanismError::OutOfRange { what: "threshold" };

fn check(neighbors: Neighbors, delta: Delta) -> Result<(), MechanismError> {
    match neighbors {
        Neighbors::AddOrRemoveUnit if delta.is_zero() => Err(MechanismError::NoDelta),
        Neighbors::AddOrRemoveUnit => Ok(()),
        _ => Err(MechanismError::ReplaceUnit),
    }
}

/// The smallest threshold that lets any of `groups` keys with one unit each through with probability at most δ; `tail`
/// bounds P(X ≥ least) for the noise, in steps of size 2^-`refinement`.
fn smallest(
    groups: NonZeroU32,
    delta: Delta,
    refinement: u32,
    tail: impl Fn(i128) -> f64,
) -> Result<i128, MechanismError> {
    let allowed = delta.as_f64() * (1.0 - MARGIN);
    // A threshold below one would mean nothing: a key in the table has a unit.
    let sound = |above_one: u128| match i128::try_from(above_one) {
        Ok(above_one) if above_one < MAX_THRESHOLD => any_of(groups, tail(above_one << refinement)) <= allowed,
        _ => false,
    };
    first_integer(sound).and_then(|above_one| i128::try_from(above_one + 1).ok()).ok_or(TOO_HIGH)
}

/// Relative error allowed for the few operations on top of a tail, each of which errs by a few 2^-53.
const MARGIN: f64 = 1e-12;

/// An upper bound on 1 − (1 − p)^groups for p of at most `one`.
pub(crate) fn any_of(groups: NonZeroU32, one: f64) -> f64 {
    if one >= 1.0 {
        return 1.0;
    }
    let none = f64::from(groups.get()) * libm::log1p(-one);
    -libm::expm1(none) * (1.0 + MARGIN)
}
