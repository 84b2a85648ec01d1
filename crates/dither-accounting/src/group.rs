//! What an event says about several units at once: people who are in the data in many periods, each of which is a unit.
//!
//! Group privacy changes one unit after the other. Of noise it says that w units move what is noised w times as far, which
//! is the same event with another sensitivity. Of what is (ε, δ)-private for reasons that the event does not tell, it
//! says that w units cost wε and δ + δeᵉ + … + δe⁽ʷ⁻¹⁾ᵉ.

use dither_core::{Delta, Epsilon, L1Sensitivity, L2Sensitivity, PrivacyEvent};

use crate::cost::{Cost, UNBOUNDED};
use crate::round::{exp, up};

/// A loss for several units together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GroupLoss {
    /// ε, rounded up.
    pub epsilon: f64,
    /// δ, rounded up; below 1.
    pub delta: f64,
}

/// The loss of an event that may use this δ, for so many units together; `None` where nothing is left to be said.
///
/// # Privacy
/// For tables that are so many steps of the event's neighbour relation apart.
///
/// # References
/// Dwork and Roth, *The Algorithmic Foundations of Differential Privacy*, 2014, Theorem 2.2 for ε alone; Vadhan, *The
/// Complexity of Differential Privacy*, 2017, Lemma 2.2 for δ, here with the sum itself in place of its bound.
///
/// ```
/// use dither_accounting::group::group_loss;
/// use dither_core::{L1Sensitivity, PrivacyEvent, Ratio};
/// let event = PrivacyEvent::Laplace { sensitivity: L1Sensitivity::new(1), scale: Ratio::new(10, 1).unwrap() };
/// let year = group_loss(&event, "0".parse().unwrap(), 54).unwrap();
/// assert!(year.epsilon >= 5.4 && year.epsilon < 5.400001 && year.delta == 0.0);
/// ```
pub fn group_loss(event: &PrivacyEvent, delta: Delta, units: u32) -> Option<GroupLoss> {
    let moved = wider(event, units).and_then(|wider| Cost::of(&wider, delta).ok()).and_then(|cost| of(&cost));
    let grown = Cost::of(event, delta).ok().and_then(|cost| of(&cost)).and_then(|one| grown(one, units));
    // Both hold; the smaller δ first, since a larger one may be no guarantee at all.
    [moved, grown].into_iter().flatten().min_by(|a, b| {
        let key = |loss: &GroupLoss| (loss.delta > delta.as_f64(), loss.epsilon);
        key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal)
    })
}

fn of(cost: &Cost) -> Option<GroupLoss> {
    let counted = cost.epsilon_nanos != UNBOUNDED;
    counted.then(|| GroupLoss {
        epsilon: cost.epsilon_nanos as f64 / Epsilon::NANOS as f64,
        delta: cost.delta_attos as f64 / Delta::ATTOS as f64,
    })
}

/// wε and the sum of δ·e^(iε) for i below w.
fn grown(one: GroupLoss, units: u32) -> Option<GroupLoss> {
    let epsilon = up(one.epsilon * f64::from(units));
    let mut delta = 0.0;
    for unit in 0..units {
        delta = up(delta + up(one.delta * up(exp(up(one.epsilon * f64::from(unit))))));
        if one.delta == 0.0 || delta >= 1.0 {
            break;
        }
    }
    (up(delta) < 1.0).then_some(GroupLoss { epsilon, delta: up(delta) })
}

/// The event as it is for tables that are so many units apart; `None` where it does not tell.
fn wider(event: &PrivacyEvent, units: u32) -> Option<PrivacyEvent> {
    let times = |epsilon: &Epsilon| Epsilon::from_nanos(epsilon.nanos().checked_mul(units.into())?).ok();
    Some(match event {
        PrivacyEvent::Laplace { sensitivity, scale } => PrivacyEvent::Laplace {
            sensitivity: L1Sensitivity::new(sensitivity.steps().checked_mul(units.into())?),
            scale: *scale,
        },
        PrivacyEvent::Gaussian { sensitivity, variance, coordinates } => {
            let squared = u128::from(units).checked_mul(units.into())?;
            PrivacyEvent::Gaussian {
                sensitivity: L2Sensitivity::from_squared(sensitivity.squared().checked_mul(squared)?),
                variance: *variance,
                coordinates: coordinates.checked_mul(units.into())?,
            }
        }
        PrivacyEvent::Pure { epsilon } => PrivacyEvent::Pure { epsilon: times(epsilon)? },
        PrivacyEvent::BoundedRange { epsilon } => PrivacyEvent::BoundedRange { epsilon: times(epsilon)? },
        PrivacyEvent::Composed(parts) => {
            PrivacyEvent::Composed(parts.iter().map(|part| wider(part, units)).collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dither_core::Ratio;

    fn laplace(scale: u128) -> PrivacyEvent {
        PrivacyEvent::Laplace { sensitivity: L1Sensitivity::new(1), scale: Ratio::new(scale, 1).unwrap() }
    }

    fn gaussian(sigma: u128) -> PrivacyEvent {
        let variance = Ratio::new(sigma * sigma, 1).unwrap();
        PrivacyEvent::Gaussian { sensitivity: L2Sensitivity::from_squared(1), variance, coordinates: 1 }
    }

    #[test]
    fn one_unit_costs_what_the_event_costs_and_more_never_less() {
        let delta: Delta = "1e-6".parse().unwrap();
        let threshold = PrivacyEvent::Composed(vec![laplace(4), PrivacyEvent::Threshold { delta }]);
        for event in [laplace(4), gaussian(20), threshold, PrivacyEvent::Composed(vec![laplace(9), gaussian(30)])] {
            let cost = Cost::of(&event, delta).unwrap();
            let one = group_loss(&event, delta, 1).unwrap();
            let epsilon = cost.epsilon_nanos as f64 / 1e9;
            assert!(one.epsilon >= epsilon && one.epsilon <= epsilon * (1.0 + 1e-9), "{event:?}: {one:?}");
            let mut before = one;
            for units in 2..9 {
                let Some(loss) = group_loss(&event, delta, units) else { break };
                assert!(loss.epsilon > before.epsilon && loss.delta >= before.delta, "{event:?} {units}: {loss:?}");
                before = loss;
            }
        }
    }

    /// The sum of the published lemma: δ·(e^(wε) − 1)/(e^ε − 1).
    #[test]
    fn a_threshold_costs_what_the_lemma_says() {
        let delta: Delta = "1e-9".parse().unwrap();
        let event = PrivacyEvent::Composed(vec![laplace(2), PrivacyEvent::Threshold { delta }]);
        for units in [2_u32, 6, 14] {
            let loss = group_loss(&event, delta, units).unwrap();
            let (epsilon, w) = (0.5_f64, f64::from(units));
            let sum = 1e-9 * (exp(w * epsilon) - 1.0) / (exp(epsilon) - 1.0);
            assert!((loss.delta / sum - 1.0).abs() < 1e-6 && loss.delta >= sum, "{units}: {loss:?}, {sum}");
            assert!(loss.epsilon >= w * epsilon && loss.epsilon < w * epsilon * (1.0 + 1e-6));
        }
        assert_eq!(group_loss(&event, delta, 366), None, "nothing is left of this guarantee for a year of days");
    }

    /// Noise for one week on a person who is there in every week: the exact loss of the worst outcome is reached.
    #[test]
    fn control_the_loss_of_one_unit_is_not_that_of_many() {
        let event = laplace(10);
        let exact = |units: u32| f64::from(units) / 10.0;
        let claimed = group_loss(&event, Delta::ZERO, 54).unwrap().epsilon;
        assert!(claimed >= exact(54));
        assert!(group_loss(&event, Delta::ZERO, 1).unwrap().epsilon < exact(54), "as one unit it would be far below");
    }
}
