//! An event, read once: what every accountant needs to know about it.

use dither_core::PrivacyEvent;

use crate::error::AccountingError;
use crate::gaussian::{self, Gaussian};
use crate::round::{down, epsilon_down, nanos_up, quotient_up, sqrt, up};
use crate::training::{self, Training};
use crate::{pure, rdp, zcdp};

/// The parts of an event, flat and sorted so that neither order nor nesting changes a bit of any result.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    /// The pure losses but for those of bounded range, rounded up, each with how often it occurs.
    losses: Vec<(f64, f64)>,
    /// The ranges of bounded-range events, rounded up, each with how often it occurs.
    ranges: Vec<(f64, f64)>,
    /// The sum of the pure losses, ranges included; `None` if it cannot be counted.
    pub pure_nanos: Option<u64>,
    /// The Gaussian events.
    gaussians: Vec<Gaussian>,
    /// Σ (Δ/σ)², rounded up.
    mu_squared: f64,
    /// The training runs.
    trainings: Vec<Training>,
    /// The sum of the δ of thresholds and of what is (ε, δ)-private by itself; `None` if it cannot be counted.
    pub threshold_attos: Option<u64>,
}

impl Profile {
    pub fn of(event: &PrivacyEvent) -> Result<Self, AccountingError> {
        let mut profile = Self { pure_nanos: Some(0), threshold_attos: Some(0), ..Self::default() };
        let (mut losses, mut ranges) = (Vec::new(), Vec::new());
        let mut rest = vec![event];
        while let Some(event) = rest.pop() {
            match event {
                PrivacyEvent::Composed(parts) => rest.extend(parts),
                PrivacyEvent::Laplace { sensitivity, scale } => {
                    losses.push((quotient_up([sensitivity.steps(), scale.denominator()], scale.numerator()), 1.0));
                    profile.add_pure(pure::laplace_nanos(*sensitivity, *scale));
                }
                PrivacyEvent::Pure { epsilon } => {
                    losses.push((up(epsilon.as_f64()), 1.0));
                    profile.add_pure(Some(epsilon.nanos()));
                }
                // Anything (ε, δ)-private is a function of what happens with probability δ, where all is told, and else
                // of an ε-private response (Kairouz, Oh and Viswanath 2015, Theorem 2.3; Murtagh and Vadhan 2016).
                PrivacyEvent::Approximate { epsilon, delta, count } => {
                    let count = f64::from(count.get());
                    losses.push((up(epsilon.as_f64() / count), count));
                    profile.add_pure(Some(epsilon.nanos()));
                    profile.add_threshold(Some(delta.attos()));
                }
                PrivacyEvent::BoundedRange { epsilon } => {
                    ranges.push((up(epsilon.as_f64()), 1.0));
                    profile.add_pure(Some(epsilon.nanos()));
                }
                PrivacyEvent::Gaussian { sensitivity, variance, coordinates } if sensitivity.squared() > 0 => {
                    profile.gaussians.push(Gaussian {
                        mu_squared: quotient_up([sensitivity.squared(), variance.denominator()], variance.numerator()),
                        sigma: down(sqrt(variance.as_f64())),
                        coordinates: up((*coordinates).max(1) as f64),
                    });
                }
                PrivacyEvent::Gaussian { .. } => {}
                PrivacyEvent::Threshold { delta } => profile.add_threshold(Some(delta.attos())),
                PrivacyEvent::SampledGaussian { .. } => profile.trainings.extend(Training::of(event)?),
                _ => return Err(AccountingError::UnknownEvent),
            }
        }
        (profile.losses, profile.ranges) = (counted(losses), counted(ranges));
        profile.gaussians.sort_by(|a, b| {
            let key = |each: &Gaussian| [each.mu_squared, each.sigma, each.coordinates];
            key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal)
        });
        profile.trainings.sort_by(|a, b| a.key().partial_cmp(&b.key()).unwrap_or(std::cmp::Ordering::Equal));
        profile.mu_squared = up(profile.gaussians.iter().map(|each| each.mu_squared).sum());
        Ok(profile)
    }

    /// A single Laplace event of so many nano-units.
    pub fn laplace(nanos: u64) -> Self {
        let loss = up(nanos as f64 / 1e9);
        Self { losses: vec![(loss, 1.0)], pure_nanos: Some(nanos), ..Self::default() }
    }

    fn add_pure(&mut self, nanos: Option<u64>) {
        self.pure_nanos = self.pure_nanos.zip(nanos).and_then(|(sum, next)| sum.checked_add(next));
    }

    fn add_threshold(&mut self, attos: Option<u64>) {
        self.threshold_attos = self.threshold_attos.zip(attos).and_then(|(sum, next)| sum.checked_add(next));
    }

    /// Whether the event is pure but for thresholds.
    pub fn is_pure(&self) -> bool {
        self.gaussians.is_empty() && self.trainings.is_empty()
    }

    /// The Rényi loss of order α, rounded up. The δ of thresholds comes on top.
    pub fn renyi(&self, alpha: f64) -> f64 {
        let pure: f64 = self.losses.iter().map(|&(loss, count)| count * rdp::pure(loss, alpha)).sum();
        let ranges: f64 = self.ranges.iter().map(|&(range, count)| count * rdp::bounded_range(range, alpha)).sum();
        let gaussian = if self.is_pure() { 0.0 } else { alpha * self.mu_squared / 2.0 };
        let trainings: f64 = self.trainings.iter().map(|training| training.renyi(alpha)).sum();
        up(pure + ranges + gaussian + trainings)
    }

    /// ρ, rounded up; infinite where sampling leaves none. The δ of thresholds comes on top.
    pub fn rho(&self) -> f64 {
        if !self.trainings.is_empty() {
            return f64::INFINITY;
        }
        let pure: f64 = self.losses.iter().map(|&(loss, count)| count * zcdp::pure(loss)).sum();
        let ranges: f64 = self.ranges.iter().map(|&(range, count)| count * zcdp::bounded_range(range)).sum();
        up(pure + ranges + self.mu_squared / 2.0)
    }

    /// The smallest ε by exact composition of the Gaussian events, or numerical composition of training runs, and
    /// addition of the pure ones; `delta` is what the thresholds leave. `None` for Gaussian events beside training runs.
    pub fn basic_nanos(&self, delta: f64) -> Option<u64> {
        let pure = self.pure_nanos?;
        if self.is_pure() {
            return Some(pure);
        }
        if !self.trainings.is_empty() {
            let composed = training::composed_epsilon(&self.trainings, delta).filter(|_| self.gaussians.is_empty())?;
            return nanos_up(composed)?.checked_add(pure);
        }
        let exact = gaussian::composed_epsilon(&self.gaussians, self.mu_squared, delta);
        let concentrated = || zcdp::epsilon(up(self.mu_squared / 2.0), delta);
        nanos_up(exact.unwrap_or_else(concentrated))?.checked_add(pure)
    }

    /// Whether the exact composition of Gaussian events alone fits, with one evaluation of δ.
    pub fn gaussian_fits(&self, epsilon_nanos: u64, delta: f64) -> bool {
        gaussian::composed_fits(&self.gaussians, self.mu_squared, epsilon_down(epsilon_nanos), delta)
    }
}

/// The positive amounts in order, each with how often it occurs.
fn counted(mut amounts: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    amounts.retain(|&(amount, _)| amount > 0.0);
    amounts.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    // Counts are whole numbers far below 2^53, so that their sum is exact in any order.
    let times = |same: &[(f64, f64)]| same.iter().map(|(_, count)| count).sum();
    amounts.chunk_by(|(a, _), (b, _)| a == b).map(|same| (same[0].0, times(same))).collect()
}
