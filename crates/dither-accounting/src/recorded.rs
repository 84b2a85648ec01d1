//! What a ledger recorded, as an event for every accountant.

use dither_core::{Delta, PrivacyEvent, Ratio};

use crate::event::Event;
use crate::round::{down, quotient_up, sqrt, up};

/// What is known of a recorded event, or something that costs more.
///
/// Laplace noise is recorded for a vector, with its l1 sensitivity alone: an event of its pure loss. Discrete Gaussian
/// noise on one number stays what it is; on several it is ρ-zero-concentrated with ρ = Δ₂²/2σ², on every lattice,
/// refined or not, also on the samples of a training run, whose neighbours the caller must ask about. A kind that this version does not know counts as published.
///
/// ```
/// use dither_accounting::Event;
/// use dither_core::{L1Sensitivity, PrivacyEvent, Ratio};
/// let recorded = PrivacyEvent::Laplace { sensitivity: L1Sensitivity::new(1), scale: Ratio::new(4, 1).unwrap() };
/// assert!(matches!(Event::from(&recorded), Event::EpsilonDelta { epsilon, delta: 0.0 } if (epsilon - 0.25).abs() < 1e-9));
/// ```
///
/// # References
/// Canonne, Kamath and Steinke, *The Discrete Gaussian for Differential Privacy*, 2020, Theorem 14.
impl From<&PrivacyEvent> for Event {
    fn from(recorded: &PrivacyEvent) -> Self {
        match recorded {
            PrivacyEvent::Laplace { sensitivity, .. } if sensitivity.steps() == 0 => Self::NoOp,
            PrivacyEvent::Laplace { sensitivity, scale } => {
                let epsilon = quotient_up([sensitivity.steps(), scale.denominator()], scale.numerator());
                finite(epsilon, Self::EpsilonDelta { epsilon, delta: 0.0 })
            }
            PrivacyEvent::Gaussian { sensitivity, .. } if sensitivity.squared() == 0 => Self::NoOp,
            PrivacyEvent::Gaussian { sensitivity, variance, coordinates: 0 | 1 } => {
                // An integer whose square is at most this moves by at most its root.
                let steps = u64::try_from(sensitivity.squared().isqrt()).unwrap_or(u64::MAX);
                Self::DiscreteGaussian { sensitivity: steps, sigma: deviation(*variance) }
            }
            PrivacyEvent::Gaussian { sensitivity, variance, .. } => {
                let squared = quotient_up([sensitivity.squared(), variance.denominator()], variance.numerator());
                finite(squared, Self::ZeroConcentrated { rho: up(squared / 2.0) })
            }
            PrivacyEvent::SampledGaussian { sensitivity, steps, .. } if sensitivity.squared() == 0 || *steps == 0 => {
                Self::NoOp
            }
            PrivacyEvent::SampledGaussian { rate, sensitivity, variance, steps, .. } => {
                let squared = quotient_up([sensitivity.squared(), variance.denominator()], variance.numerator());
                let noise = finite(squared, Self::ZeroConcentrated { rho: up(squared / 2.0) });
                let rate = up(rate.as_f64()).min(1.0);
                Self::SelfComposed {
                    count: *steps,
                    event: Box::new(Self::PoissonSampled { rate, event: Box::new(noise) }),
                }
            }
            PrivacyEvent::Pure { epsilon } => Self::EpsilonDelta { epsilon: up(epsilon.as_f64()), delta: 0.0 },
            PrivacyEvent::Approximate { epsilon, delta, count } => Self::SelfComposed {
                count: count.get().into(),
                event: Box::new(Self::EpsilonDelta {
                    epsilon: up(epsilon.as_f64() / f64::from(count.get())),
                    delta: up(probability(*delta) / f64::from(count.get())).min(1.0),
                }),
            },
            PrivacyEvent::BoundedRange { epsilon } => Self::BoundedRange { epsilon: up(epsilon.as_f64()) },
            PrivacyEvent::Threshold { delta } => Self::Threshold { delta: probability(*delta) },
            PrivacyEvent::Composed(parts) => Self::Composed(parts.iter().map(Self::from).collect()),
            _ => Self::NonPrivate,
        }
    }
}

fn finite(loss: f64, event: Event) -> Event {
    if loss.is_finite() { event } else { Event::NonPrivate }
}

/// σ, rounded down.
fn deviation(variance: Ratio) -> f64 {
    down(sqrt(variance.as_f64()))
}

/// A probability, never less than it is.
fn probability(delta: Delta) -> f64 {
    up(delta.attos() as f64 / Delta::ATTOS as f64).min(1.0)
}
