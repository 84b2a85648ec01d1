//! From a budget to the smallest noise; every result is priced again before it is returned.

mod search;

pub use search::{epsilon_for_error, noise_multiplier, rounds};

use dither_core::{Budget, Delta, Epsilon, L1Sensitivity, L2Sensitivity, PrivacyEvent, Ratio};

use crate::cost::Cost;
use crate::error::AccountingError;
use crate::gaussian;
use crate::profile::Profile;
use crate::rdp;
use crate::round::{bisect, delta_down, epsilon_down, up};

/// The least σ², in refined lattice steps squared, of Gaussian noise: σ ≥ 2²⁰.
///
/// There the lattice costs m·(t²+1)/(24·2⁴⁰) of ε for m coordinates and t ≈ 10: below 4·10⁻¹² each.
pub const REFINED_VARIANCE: u128 = 1 << 40;

/// The Gaussian event as it is drawn: on a lattice refined by the smallest power of two for which σ ≥ 2²⁰ steps.
///
/// Returns the event and the exponent k of the refinement 2^k. The event in original steps need not be drawn at
/// all; only its price on the refined lattice counts. `None` for another kind of event, and where the numbers
/// leave 128 bits.
///
/// # Privacy
/// The refined event is what the mechanism must draw and what must be charged: integers of the original lattice
/// times 2^k, noise on the refined integers.
///
/// ```
/// use dither_accounting::calibrate::refined;
/// use dither_core::{L2Sensitivity, PrivacyEvent, Ratio};
/// let sensitivity = L2Sensitivity::from_squared(1);
/// let event = PrivacyEvent::Gaussian { sensitivity, variance: Ratio::new(16, 1).unwrap(), coordinates: 1 };
/// let (fine, k) = refined(&event).unwrap();
/// assert_eq!(k, 18);
/// assert!(matches!(fine, PrivacyEvent::Gaussian { variance, .. } if variance.numerator() == 1 << 40));
/// ```
pub fn refined(event: &PrivacyEvent) -> Option<(PrivacyEvent, u32)> {
    let PrivacyEvent::Gaussian { sensitivity, variance, coordinates } = event else { return None };
    let (numerator, denominator) = (variance.numerator(), variance.denominator());
    // 4^k · variance, with the powers of two of the denominator cancelled before anything grows.
    let fine = |k: u32| {
        let cancelled = denominator.trailing_zeros().min(2 * k);
        shifted(numerator, 2 * k - cancelled).map(|numerator| (numerator, denominator >> cancelled))
    };
    let (k, (numerator, denominator)) = (0..=60).find_map(|k| {
        let (numerator, denominator) = fine(k)?;
        (numerator / denominator >= REFINED_VARIANCE).then_some((k, (numerator, denominator)))
    })?;
    let event = PrivacyEvent::Gaussian {
        sensitivity: L2Sensitivity::from_squared(shifted(sensitivity.squared(), 2 * k)?),
        variance: Ratio::new(numerator, denominator)?,
        coordinates: *coordinates,
    };
    Some((event, k))
}

/// `value · 2^by`, if 128 bits hold it.
fn shifted(value: u128, by: u32) -> Option<u128> {
    (by <= value.leading_zeros()).then(|| value.checked_shl(by)).flatten()
}

/// The smallest σ², in original lattice steps squared, of Gaussian noise that is (ε, δ)-private once [`refined`].
///
/// `sensitivity` is in original steps, `coordinates` the number that can move together. The result is
/// within 10⁻⁹ of the smallest, relative to it.
///
/// # Errors
/// [`AccountingError::DeltaTooSmall`] for a δ of zero; [`AccountingError::Unreachable`] where the variance leaves
/// the range of [`Ratio`].
///
/// # Privacy
/// The price of the refined event at this δ, by [`Cost::of`], is at most ε; it was computed.
///
/// ```
/// use dither_accounting::calibrate::gaussian_variance;
/// use dither_core::L2Sensitivity;
/// let sensitivity = L2Sensitivity::from_squared(1);
/// let variance = gaussian_variance(sensitivity, 1, "1".parse().unwrap(), "1e-6".parse().unwrap()).unwrap();
/// assert!((variance.as_f64().sqrt() - 4.2246789).abs() < 1e-6);
/// ```
///
/// # References
/// Balle and Wang 2018, Algorithm 1.
pub fn gaussian_variance(
    sensitivity: L2Sensitivity,
    coordinates: u64,
    epsilon: Epsilon,
    delta: Delta,
) -> Result<Ratio, AccountingError> {
    if delta.is_zero() {
        return Err(AccountingError::DeltaTooSmall { delta });
    }
    let unreachable = || AccountingError::Unreachable { epsilon: epsilon.to_string(), delta };
    let mu = gaussian::calibrate(epsilon_down(epsilon.nanos()), delta_down(delta.attos())).ok_or_else(unreachable)?;
    let sensitivity = L2Sensitivity::from_squared(sensitivity.squared().max(1));
    let continuous = sensitivity.squared() as f64 / (mu * mu);
    let event = |excess: f64| drawn(sensitivity, coordinates, continuous * (1.0 + excess)).map(|(_, fine)| fine);
    let fits = |excess: f64| {
        let Some(Ok(profile)) = event(excess).map(|fine| Profile::of(&fine)) else { return false };
        profile.gaussian_fits(epsilon.nanos(), delta_down(delta.attos()))
            || rdp::epsilon(|alpha| profile.renyi(alpha), delta_down(delta.attos())) <= epsilon_down(epsilon.nanos())
    };
    // The lattice and the rounding need a little more than the continuous noise.
    let mut excess =
        (0..80).map(|i| libm::exp2(f64::from(i) - 40.0)).find(|&excess| fits(excess)).ok_or_else(unreachable)?;
    if excess > 1e-9 {
        excess = bisect(excess, excess / 2.0, fits);
    }
    for i in 0..60 {
        let (variance, fine) = drawn(sensitivity, coordinates, continuous * (1.0 + excess)).ok_or_else(unreachable)?;
        if Cost::of(&fine, delta)?.epsilon_nanos <= epsilon.nanos() {
            return Ok(variance);
        }
        // Two routes to one number differ by a few roundings.
        excess += libm::exp2(f64::from(i) - 38.0);
    }
    Err(unreachable())
}

/// The smallest variance that [`Ratio`] offers on the refined lattice and not below `variance`, in original steps,
/// with the event as drawn.
fn drawn(sensitivity: L2Sensitivity, coordinates: u64, variance: f64) -> Option<(Ratio, PrivacyEvent)> {
    let doublings = (0..=60).find(|&k| variance * libm::exp2(2.0 * f64::from(k)) >= REFINED_VARIANCE as f64)?;
    let fine = Ratio::at_least(variance * libm::exp2(2.0 * f64::from(doublings)))?;
    let cancelled = fine.numerator().trailing_zeros().min(2 * doublings);
    let denominator = shifted(fine.denominator(), 2 * doublings - cancelled)?;
    let variance = Ratio::new(fine.numerator() >> cancelled, denominator)?;
    let (event, _) = refined(&PrivacyEvent::Gaussian { sensitivity, variance, coordinates })?;
    Some((variance, event))
}

/// One part of a plan. Weights are shares of ε; only their ratios matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Laplace noise on a vector.
    Laplace {
        /// How far the vector can move, in lattice steps.
        sensitivity: L1Sensitivity,
        /// The share of ε.
        weight: u32,
    },
    /// Gaussian noise on a vector.
    Gaussian {
        /// How far the vector can move, in original lattice steps.
        sensitivity: L2Sensitivity,
        /// How many coordinates can move together.
        coordinates: u64,
        /// The share of ε.
        weight: u32,
    },
    /// A threshold on keys. It takes a share of δ and no ε.
    Threshold,
}

/// The noise of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noise {
    /// Laplace noise of this scale, in lattice steps.
    Laplace {
        /// The scale.
        scale: Ratio,
    },
    /// Gaussian noise of this variance, in original lattice steps squared, to be [`refined`].
    Gaussian {
        /// The variance parameter σ².
        variance: Ratio,
    },
    /// A threshold that lets a lone key through with this probability.
    Threshold {
        /// The probability, over all keys of one unit.
        delta: Delta,
    },
}

/// A budget divided over parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The noise of each part, in the order of the parts.
    pub noises: Vec<Noise>,
    /// All of it as one event, Gaussian parts as drawn.
    pub event: PrivacyEvent,
    /// What the event costs; within the budget.
    pub cost: Cost,
}

/// From this many Laplace parts on, Rényi composition at a usual δ is cheaper than the sum of the losses.
const RENYI_PAYS_FROM: usize = 16;

/// Divides a budget over parts by weight, with the least noise that any accountant allows.
///
/// δ is split evenly over thresholds and Gaussian parts, ε by weight; then all noise is scaled down by one common
/// factor for as long as the whole, composed as one event, stays within the budget.
///
/// # Errors
/// [`AccountingError::EmptyPlan`]; [`AccountingError::DeltaTooSmall`] if a part needs a δ and there is none;
/// [`AccountingError::Unreachable`].
///
/// # Privacy
/// The plan is (ε, δ)-private as a whole by [`Cost::of`] on its event. The split depends on public numbers only.
///
/// ```
/// use dither_accounting::calibrate::{Noise, Part, plan};
/// use dither_core::{Budget, Delta, L1Sensitivity};
/// let part = Part::Laplace { sensitivity: L1Sensitivity::new(1), weight: 1 };
/// let budget = Budget { epsilon: "1".parse().unwrap(), delta: Delta::ZERO };
/// let plan = plan(&[part; 10], budget).unwrap();
/// assert!(matches!(plan.noises[0], Noise::Laplace { scale } if scale.numerator() == 10 && scale.denominator() == 1));
/// assert_eq!(plan.cost.epsilon_nanos, 1_000_000_000);
/// ```
///
/// # References
/// Dwork and Roth 2014, Theorem 3.16, for the split; see [`statement`](crate::statement) for the price.
pub fn plan(parts: &[Part], budget: Budget) -> Result<Plan, AccountingError> {
    let unreachable = || AccountingError::Unreachable { epsilon: budget.epsilon.to_string(), delta: budget.delta };
    let base = split(parts, budget)?;
    let build = |multiplier: f64| {
        let drawn: Option<Vec<_>> = base.iter().map(|share| share.noise(multiplier)).collect();
        let (noises, events) = drawn?.into_iter().unzip();
        let event = PrivacyEvent::Composed(events);
        let cost = Cost::of(&event, budget.delta).ok()?;
        let fits = cost.epsilon_nanos <= budget.epsilon.nanos() && cost.delta_attos <= budget.delta.attos();
        fits.then_some(Plan { noises, event, cost })
    };
    let fits = |multiplier| build(multiplier).is_some();
    // The split fits up to rounding; the loop below zero is for that.
    let low = (0..8).map(|i| 1.0 - libm::exp2(f64::from(i) - 30.0) * f64::from(i.min(1))).find(|&low| fits(low));
    let low = low.ok_or_else(unreachable)?;
    // Thresholds alone fit whatever the multiplier is.
    let high = (1..64).map(|i| low * libm::exp2(f64::from(i))).find(|&high| !fits(high));
    let multiplier = high.map_or(low, |high| bisect(high / 2.0, high, fits));
    build(multiplier).ok_or_else(unreachable)
}

/// A part with its share of the budget.
enum Share {
    Laplace { steps: u128, nanos: u64 },
    Gaussian { sensitivity: L2Sensitivity, coordinates: u64, variance: f64 },
    Threshold { delta: Delta },
}

impl Share {
    /// The noise and the event when all losses are multiplied.
    fn noise(&self, multiplier: f64) -> Option<(Noise, PrivacyEvent)> {
        match *self {
            Self::Laplace { steps, nanos } => {
                let nanos = (nanos as f64 * multiplier) as u128;
                let scale = Ratio::new(steps.checked_mul(u128::from(Epsilon::NANOS))?, nanos)?;
                let event = PrivacyEvent::Laplace { sensitivity: L1Sensitivity::new(steps), scale };
                Some((Noise::Laplace { scale }, event))
            }
            Self::Gaussian { sensitivity, coordinates, variance } => {
                let (variance, event) = drawn(sensitivity, coordinates, variance / (multiplier * multiplier))?;
                Some((Noise::Gaussian { variance }, event))
            }
            Self::Threshold { delta } => Some((Noise::Threshold { delta }, PrivacyEvent::Threshold { delta })),
        }
    }
}

fn split(parts: &[Part], budget: Budget) -> Result<Vec<Share>, AccountingError> {
    let weight = |part: &Part| match *part {
        Part::Laplace { weight, .. } | Part::Gaussian { weight, .. } => Some(u128::from(weight)),
        Part::Threshold => None,
    };
    let total: u128 = parts.iter().filter_map(weight).sum();
    if parts.is_empty() || parts.iter().any(|part| weight(part) == Some(0)) {
        return Err(AccountingError::EmptyPlan);
    }
    let laplace = parts.iter().filter(|part| matches!(part, Part::Laplace { .. })).count();
    let takers = parts.len() - laplace;
    let only_thresholds = parts.iter().all(|part| !matches!(part, Part::Gaussian { .. }));
    let takers = takers + usize::from(only_thresholds && laplace >= RENYI_PAYS_FROM);
    let delta = Delta::from_attos(budget.delta.attos() / (takers as u64).max(1)).unwrap_or_default();
    let epsilon = |weight: u32| {
        let nanos = u128::from(budget.epsilon.nanos()) * u128::from(weight) / total;
        u64::try_from(nanos)
            .ok()
            .and_then(|nanos| Epsilon::from_nanos(nanos).ok())
            .ok_or_else(|| AccountingError::Unreachable { epsilon: budget.epsilon.to_string(), delta: budget.delta })
    };
    let share = |part: &Part| match *part {
        Part::Laplace { sensitivity, weight } => {
            Ok(Share::Laplace { steps: sensitivity.steps().max(1), nanos: epsilon(weight)?.nanos() })
        }
        Part::Gaussian { sensitivity, coordinates, weight } => {
            let variance = gaussian_variance(sensitivity, coordinates, epsilon(weight)?, delta)?;
            let sensitivity = L2Sensitivity::from_squared(sensitivity.squared().max(1));
            Ok(Share::Gaussian { sensitivity, coordinates, variance: up(variance.as_f64()) })
        }
        Part::Threshold if delta.is_zero() => Err(AccountingError::DeltaTooSmall { delta: budget.delta }),
        Part::Threshold => Ok(Share::Threshold { delta }),
    };
    parts.iter().map(share).collect()
}
