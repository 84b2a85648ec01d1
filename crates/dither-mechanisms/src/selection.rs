//! What all mechanisms that choose among candidates have in common.

use std::num::NonZeroU32;

use dither_core::{Epsilon, GateError, Ratio};
use dither_noise::first_integer;

use crate::error::MechanismError;

/// How far one unit can move each of several integers, in lattice steps: a sensitivity in the l∞ norm.
///
/// ```
/// use dither_mechanisms::MaxSensitivity;
/// // Adding or removing a person moves every count by at most one, and all of them up or all of them down.
/// let counts = MaxSensitivity::monotone(1);
/// assert!(counts.is_monotone() && counts.steps() == 1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxSensitivity {
    steps: u128,
    monotone: bool,
}

impl MaxSensitivity {
    /// Each integer moves by at most so many steps.
    pub fn new(steps: u128) -> Self {
        Self { steps, monotone: false }
    }

    /// Each integer moves by at most so many steps, and between any two neighbours none moves up or none moves down.
    ///
    /// Counts are like this when a unit is added or removed. When a unit is replaced they are not: one count falls
    /// while another rises.
    pub fn monotone(steps: u128) -> Self {
        Self { steps, monotone: true }
    }

    /// The number of steps.
    pub fn steps(self) -> u128 {
        self.steps
    }

    /// Whether all integers move the same way.
    pub fn is_monotone(self) -> bool {
        self.monotone
    }

    /// By how many steps the difference of two of the integers can move.
    pub(crate) fn spread(self) -> Result<u128, MechanismError> {
        /// Beyond, noise would leave no room for exact values.
        const MAX_STEPS: u128 = 1 << 80;
        match self.steps {
            0 => Err(MechanismError::NoSensitivity),
            steps if steps > MAX_STEPS => Err(MechanismError::OutOfRange { what: "sensitivity" }),
            steps => Ok(if self.monotone { steps } else { 2 * steps }),
        }
    }
}

/// One exact integer per candidate, query or coordinate. Its debug form shows nothing.
#[derive(Clone, PartialEq)]
pub struct ExactVector {
    /// The integers, in steps of one lattice, in an order that is public.
    pub values: Vec<i128>,
}

impl std::fmt::Debug for ExactVector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ExactVector(..)")
    }
}

/// One choice among public candidates by utilities that are integers, at a loss of ε.
///
/// ```
/// use std::num::NonZeroU32;
/// use dither_mechanisms::{MaxSensitivity, Selection};
/// let candidates = NonZeroU32::new(1_000).unwrap();
/// let selection = Selection::new(candidates, MaxSensitivity::new(1), "1".parse()?)?;
/// assert_eq!(selection.rate().as_f64(), 0.5, "epsilon/2 for each step of utility");
/// let selection = Selection::new(candidates, MaxSensitivity::monotone(1), "1".parse()?)?;
/// assert_eq!(selection.rate().as_f64(), 1.0, "twice as sharp for the same loss");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selection {
    candidates: NonZeroU32,
    sensitivity: MaxSensitivity,
    epsilon: Epsilon,
    rate: Ratio,
}

impl Selection {
    /// A choice among so many candidates. The number, the candidates and their order are public.
    ///
    /// # Errors
    /// [`MechanismError::NoSensitivity`] for a sensitivity of zero, [`MechanismError::OutOfRange`] for one beyond 2^80.
    pub fn new(candidates: NonZeroU32, sensitivity: MaxSensitivity, epsilon: Epsilon) -> Result<Self, MechanismError> {
        let out_of_range = MechanismError::OutOfRange { what: "sensitivity" };
        // At most 2^81 · 2^30.
        let denominator = sensitivity.spread()?.checked_mul(Epsilon::NANOS.into()).ok_or(out_of_range)?;
        let rate = Ratio::new(epsilon.nanos().into(), denominator).ok_or(out_of_range)?;
        Ok(Self { candidates, sensitivity, epsilon, rate })
    }

    /// How many candidates there are.
    pub fn candidates(&self) -> NonZeroU32 {
        self.candidates
    }

    /// How far one unit can move each utility.
    pub fn sensitivity(&self) -> MaxSensitivity {
        self.sensitivity
    }

    /// The loss of one choice.
    pub fn epsilon(&self) -> Epsilon {
        self.epsilon
    }

    /// By how much the logarithm of a weight grows with each step of utility: ε/2Δ, or ε/Δ for monotone utilities.
    pub fn rate(&self) -> Ratio {
        self.rate
    }

    /// The scale of noise that makes the same loss: the inverse of the rate, in lattice steps.
    pub(crate) fn scale(&self) -> Result<Ratio, GateError> {
        Ratio::new(self.rate.denominator(), self.rate.numerator()).ok_or(GateError::Failed)
    }

    /// The utilities, if there are as many as candidates.
    pub(crate) fn checked(&self, exact: ExactVector) -> Result<Vec<i128>, GateError> {
        let expected = usize::try_from(self.candidates.get()).ok();
        if expected == Some(exact.values.len()) { Ok(exact.values) } else { Err(GateError::Failed) }
    }

    /// The smallest t for which a choice is worse than the best by more than t with at most the probability that is
    /// left; `bound` makes of t + 1 a bound on the probability of being worse by that or more.
    pub(crate) fn loss_quantile(&self, probability: f64, bound: impl Fn(u128) -> f64) -> Option<u128> {
        let outside = (0.0..1.0).contains(&probability).then_some((1.0 - probability) * (1.0 - MARGIN))?;
        let single = self.candidates.get() == 1;
        first_integer(|loss| single || bound(loss + 1) * (1.0 + MARGIN) <= outside)
    }

    /// (n − 1) · e^(−rate · `loss`): the weight of all others, if each is worse by so many steps.
    pub(crate) fn weight_of_others(&self, loss: u128) -> f64 {
        f64::from(self.candidates.get() - 1) * libm::exp(-self.rate.as_f64() * loss as f64)
    }
}

/// Relative error allowed for a handful of float operations and an exponential of a number up to 745.
const MARGIN: f64 = 1e-12;
