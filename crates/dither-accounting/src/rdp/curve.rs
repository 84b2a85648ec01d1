//! The Rényi curve of an event: its loss at every order.

use dither_core::Neighbors;

use crate::error::AccountingError;
use crate::event::Event;
use crate::round::{down, sqrt, up};
use crate::zcdp;

use super::sampled::{self, Moments};
use super::{bounded_range, discrete_laplace, laplace, pure, randomized_response};

/// The Rényi loss of an event at every order, and the δ that no order covers.
///
/// # Privacy
/// The event is (max(0, r), δ′ + [`Curve::delta_outside`])-private for the neighbour relation that the curve was made for, for
/// every α and δ′, with r = [`Curve::at`]\(α) + [`conversion`](super::conversion)(α − 1, δ′). Composed events may be
/// chosen adaptively; their parameters are fixed in advance (a [`Filter`](crate::Filter) lifts that).
///
/// ```
/// use dither_accounting::{Event, rdp::Curve};
/// use dither_core::Neighbors;
/// let step = Event::PoissonSampled { rate: 256.0 / 60_000.0, event: Box::new(Event::Gaussian { noise_multiplier: 1.1 }) };
/// let training = Event::SelfComposed { count: 14_063, event: Box::new(step) };
/// let curve = Curve::of(&training, Neighbors::AddOrRemoveUnit).unwrap();
/// assert!((curve.epsilon(1e-5) - 2.5966).abs() < 1e-3);
/// ```
///
/// # References
/// Mironov, *Rényi Differential Privacy*, 2017, Propositions 1 and 9, Table II; Canonne, Kamath and Steinke, *The
/// Discrete Gaussian for Differential Privacy*, 2020, Theorem 14 and Proposition 12. Sampling: see [`Curve::of`].
#[derive(Debug, Clone)]
pub struct Curve {
    loss: Loss,
    delta: f64,
}

/// A Rényi curve, as a tree.
#[derive(Debug, Clone)]
enum Loss {
    /// Nothing is lost.
    None,
    /// No order is finite.
    Unbounded,
    /// Of any ε-private mechanism.
    Pure(f64),
    /// α·ρ, attained by continuous Gaussian noise.
    Gaussian { rho: f64 },
    /// At most α·ρ; symmetric if a map that is its own inverse swaps P and Q, as for every symmetric noise.
    Concentrated { rho: f64, symmetric: bool },
    /// A mechanism of its own kind, which is one of four.
    Single(Event),
    /// On a Poisson sample, under add/remove.
    Poisson { rate: f64, inner: Box<Loss>, moments: Moments },
    /// On a Poisson sample, a unit being replaced; `inner` and `sampled` are of adding or removing one.
    PoissonReplaced { rate: f64, inner: Box<Loss>, sampled: Box<Loss> },
    /// On a subset that the unit is in with this probability; only the linear part of the amplification counts.
    LinearPart { rate: f64, inner: Box<Loss> },
    /// On a sample of a fixed size, a unit being replaced.
    FixedSize { rate: f64, inner: Box<Loss>, moments: Moments },
    /// All of them, each so many times.
    Sum(Vec<(f64, Loss)>),
    /// At most so many of them touch a unit.
    Largest { touched: usize, parts: Vec<Loss> },
}

impl Curve {
    /// The curve of an event under a neighbour relation.
    ///
    /// Sampling is exact for Gaussian noise on a Poisson sample, under add/remove: at every real order up to those
    /// where the quadrature becomes long. Every other mechanism on a Poisson sample is priced by its moments, exactly
    /// at integer orders up to 1024 for sample against no sample, and for no sample against sample by symmetry, or by
    /// the loss of order 2. In between the integers (α − 1)·loss is convex and interpolated. At larger orders sampling
    /// is not counted.
    ///
    /// When a unit is replaced, a Poisson sample leaves three laws: without either unit, with one, with the other. The
    /// loss is that of a removal and an addition, or the linear part of the amplification of both together. No δ of a
    /// part passes through two steps: such events are refused.
    ///
    /// # Errors
    /// [`AccountingError::InvalidEvent`]; [`AccountingError::NotCovered`] for a fixed sample size under add/remove: what
    /// the unit's place is filled with is a replacement, for which the event has no sensitivity; and for a Poisson sample
    /// under replacement where the event has a δ of its own.
    ///
    /// # Privacy
    /// See [`Curve`]. Under add/remove a unit is in one part of [`Event::Parallel`], so the largest loss counts;
    /// a replaced unit may leave one part and enter another, so the two largest do.
    ///
    /// # References
    /// Mironov, Talwar and Zhang, *Rényi Differential Privacy of the Sampled Gaussian Mechanism*, 2019, Theorems 4 and
    /// 5; Zhu and Wang, *Poisson Subsampled Rényi Differential Privacy*, 2019, for the moments; Mironov 2017,
    /// Proposition 11 (the weak triangle inequality), for two steps; Wang, Balle
    /// and Kasiviswanathan 2019, Theorem 9, for a fixed size; Balle, Barthe and Gaboardi, *Privacy Amplification by
    /// Subsampling*, 2018, Theorems 8 and 9, for pure losses and δ.
    pub fn of(event: &Event, neighbors: Neighbors) -> Result<Self, AccountingError> {
        event.validate()?;
        let curve = build(event, neighbors)?;
        Ok(Self { delta: up(curve.delta), ..curve })
    }

    /// The loss of order `alpha` > 1, rounded up; at infinity the pure loss. It may be infinite, and is never NaN.
    ///
    /// ```
    /// use dither_accounting::{Event, rdp::Curve};
    /// use dither_core::Neighbors;
    /// let event = Event::PoissonSampled { rate: 0.01, event: Box::new(Event::Gaussian { noise_multiplier: 1.1 }) };
    /// let curve = Curve::of(&event, Neighbors::AddOrRemoveUnit).unwrap();
    /// assert!((curve.at(2.0) / 1.285101e-4 - 1.0).abs() < 1e-6 && curve.at(1.5) < curve.at(2.0));
    /// ```
    pub fn at(&self, alpha: f64) -> f64 {
        self.loss.at(alpha)
    }

    /// The probability of the bad cases that no order covers: thresholds, and the δ of (ε, δ)-private parts.
    pub fn delta_outside(&self) -> f64 {
        self.delta
    }

    /// The smallest ε at this δ over all real orders and the pure loss, rounded up; infinite where none holds.
    ///
    /// # Privacy
    /// The event is (result, δ)-private.
    ///
    /// ```
    /// use dither_accounting::{Event, rdp::Curve};
    /// use dither_core::Neighbors;
    /// let curve = Curve::of(&Event::Laplace { noise_multiplier: 4.0 }, Neighbors::AddOrRemoveUnit).unwrap();
    /// assert_eq!(curve.epsilon(0.0), 0.25);
    /// ```
    ///
    /// # References
    /// Canonne, Kamath and Steinke 2020, Proposition 12.
    pub fn epsilon(&self, delta: f64) -> f64 {
        if delta >= 1.0 {
            return 0.0;
        }
        let left = delta - self.delta;
        if left < 0.0 || left.is_nan() {
            return f64::INFINITY;
        }
        // The difference of two floats of this size.
        let left = (left - 1e-15 * delta).max(0.0);
        if left == 0.0 {
            return self.at(f64::INFINITY);
        }
        super::epsilon(|alpha| self.at(alpha), left).min(self.at(f64::INFINITY))
    }

    /// The smallest δ at this ε over all real orders, rounded up; at most 1.
    ///
    /// # Privacy
    /// The event is (ε, result)-private.
    ///
    /// ```
    /// use dither_accounting::{Event, rdp::Curve};
    /// use dither_core::Neighbors;
    /// let curve = Curve::of(&Event::Gaussian { noise_multiplier: 1.0 }, Neighbors::AddOrRemoveUnit).unwrap();
    /// assert!((curve.delta(4.7286) / 1e-5 - 1.0).abs() < 1e-3);
    /// ```
    ///
    /// # References
    /// Canonne, Kamath and Steinke 2020, Proposition 12.
    pub fn delta(&self, epsilon: f64) -> f64 {
        let converted =
            if self.at(f64::INFINITY) <= epsilon { 0.0 } else { super::delta(|alpha| self.at(alpha), epsilon) };
        up(self.delta + converted).min(1.0)
    }
}

fn build(event: &Event, neighbors: Neighbors) -> Result<Curve, AccountingError> {
    let simple = |loss| Ok(Curve { loss, delta: 0.0 });
    match event {
        Event::NoOp => simple(Loss::None),
        Event::NonPrivate => simple(Loss::Unbounded),
        Event::Gaussian { noise_multiplier } => simple(Loss::Gaussian { rho: half_square(1.0 / noise_multiplier) }),
        Event::DiscreteGaussian { sensitivity, sigma } => {
            let rho = if *sensitivity == 0 { 0.0 } else { half_square(*sensitivity as f64 / sigma) };
            simple(Loss::Concentrated { rho, symmetric: true })
        }
        Event::ZeroConcentrated { rho } => simple(Loss::Concentrated { rho: *rho, symmetric: false }),
        Event::Laplace { .. }
        | Event::DiscreteLaplace { .. }
        | Event::BoundedRange { .. }
        | Event::RandomizedResponse { .. } => simple(Loss::Single(event.clone())),
        Event::EpsilonDelta { epsilon, delta } => Ok(Curve { loss: Loss::Pure(*epsilon), delta: *delta }),
        Event::Threshold { delta } => Ok(Curve { loss: Loss::None, delta: *delta }),
        Event::PostProcessed(event) => build(event, neighbors),
        Event::SelfComposed { count: 0, .. } => simple(Loss::None),
        Event::SelfComposed { count, event } => {
            let Curve { loss, delta } = build(event, neighbors)?;
            let count = up(*count as f64);
            Ok(Curve { loss: Loss::Sum(vec![(count, loss)]), delta: count * delta })
        }
        Event::Composed(parts) => {
            let curves = parts.iter().map(|part| build(part, neighbors)).collect::<Result<Vec<_>, _>>()?;
            let delta = curves.iter().map(|curve| curve.delta).sum();
            Ok(Curve { loss: Loss::Sum(curves.into_iter().map(|curve| (1.0, curve.loss)).collect()), delta })
        }
        Event::Parallel(parts) => {
            let curves = parts.iter().map(|part| build(part, neighbors)).collect::<Result<Vec<_>, _>>()?;
            let touched = neighbors.distance() as usize;
            let delta = largest(touched, curves.iter().map(|curve| curve.delta));
            Ok(Curve {
                loss: Loss::Largest { touched, parts: curves.into_iter().map(|each| each.loss).collect() },
                delta,
            })
        }
        Event::PoissonSampled { rate, event } => {
            let Curve { loss, delta } = build(event, Neighbors::AddOrRemoveUnit)?;
            if neighbors == Neighbors::AddOrRemoveUnit {
                return Ok(Curve { loss: poisson(*rate, loss), delta: rate * delta });
            }
            if delta > 0.0 {
                let event = "a Poisson sample with a delta of its own when a unit is replaced";
                return Err(AccountingError::NotCovered { accountant: "rdp", event });
            }
            let loss = match poisson(*rate, loss.clone()) {
                Loss::None => Loss::None,
                Loss::Unbounded => Loss::Unbounded,
                sampled => Loss::PoissonReplaced { rate: *rate, inner: Box::new(loss), sampled: Box::new(sampled) },
            };
            Ok(Curve { loss, delta })
        }
        Event::SampledWithoutReplacement { sample_size, source_size, event } => {
            if neighbors != Neighbors::ReplaceUnit {
                let event = "a sample of a fixed size when units are added or removed";
                return Err(AccountingError::NotCovered { accountant: "rdp", event });
            }
            let Curve { loss, delta } = build(event, neighbors)?;
            let rate = *sample_size as f64 / *source_size as f64;
            let loss = match loss {
                Loss::None => Loss::None,
                _ if *sample_size == 0 => Loss::None,
                loss if sample_size == source_size => loss,
                // A moment of an (ε, δ)-private part is not one of a pair of laws; Theorem 9 wants one.
                loss if delta > 0.0 => Loss::LinearPart { rate, inner: Box::new(loss) },
                loss => Loss::FixedSize { rate, moments: Moments::of(|alpha| loss.at(alpha)), inner: Box::new(loss) },
            };
            Ok(Curve { loss, delta: up(rate * delta) })
        }
    }
}

/// μ²/2, rounded up, and never zero.
fn half_square(mu: f64) -> f64 {
    up(mu * mu / 2.0).max(f64::MIN_POSITIVE)
}

/// On a Poisson sample, under add/remove.
fn poisson(rate: f64, inner: Loss) -> Loss {
    match inner {
        _ if rate == 0.0 => Loss::None,
        inner if rate == 1.0 => inner,
        Loss::None => Loss::None,
        Loss::Unbounded => Loss::Unbounded,
        // A sample of a sample is a sample.
        Loss::Poisson { rate: within, inner, moments } => {
            Loss::Poisson { rate: up(rate * within).min(1.0), inner, moments }
        }
        inner => {
            let moments = Moments::of(|alpha| inner.at(alpha));
            Loss::Poisson { rate, inner: Box::new(inner), moments }
        }
    }
}

/// The sum of the largest so many.
fn largest(touched: usize, values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(|a, b| b.total_cmp(a));
    values.iter().take(touched).sum()
}

impl Loss {
    fn at(&self, alpha: f64) -> f64 {
        // A NaN is taken for an order at which nothing is known; the loss grows with the order.
        let alpha = if alpha.is_nan() { f64::INFINITY } else { alpha.max(1.0 + f64::EPSILON) };
        let loss = match self {
            Self::None => 0.0,
            Self::Unbounded => f64::INFINITY,
            Self::Pure(epsilon) => pure(*epsilon, alpha),
            Self::Concentrated { rho: 0.0, .. } => 0.0,
            Self::Gaussian { rho } | Self::Concentrated { rho, .. } => up(rho * alpha),
            Self::Single(event) => match event {
                Event::Laplace { noise_multiplier } => laplace(*noise_multiplier, alpha),
                Event::DiscreteLaplace { sensitivity, scale } => discrete_laplace(*sensitivity, *scale, alpha),
                Event::BoundedRange { epsilon } => bounded_range(*epsilon, alpha),
                Event::RandomizedResponse { epsilon, values } => randomized_response(*epsilon, *values, alpha),
                _ => f64::INFINITY,
            },
            Self::Poisson { rate, inner, moments } => inner.poisson(*rate, moments, alpha),
            Self::PoissonReplaced { rate, inner, sampled } => {
                let steps = sampled.twice(alpha);
                if alpha.is_finite() {
                    steps.min(sampled::shared_part(*rate, inner.twice(alpha), alpha))
                } else {
                    steps
                }
            }
            Self::LinearPart { rate, inner } => match inner.at(alpha) {
                loss if alpha.is_finite() => sampled::shared_part(*rate, loss, alpha),
                loss => loss,
            },
            Self::FixedSize { rate, inner, moments } => {
                let epsilon = inner.at(f64::INFINITY);
                let amplified = up(sampled::pure(*rate, epsilon));
                if alpha.is_finite() {
                    let exact = moments.fixed_size(*rate, epsilon, alpha).unwrap_or(f64::INFINITY);
                    let convex = sampled::shared_part(*rate, inner.at(alpha), alpha);
                    exact.min(convex).min(pure(amplified, alpha))
                } else {
                    amplified
                }
            }
            Self::Sum(parts) => up(parts.iter().map(|(count, part)| count * part.at(alpha)).sum()),
            Self::Largest { touched, parts } => up(largest(*touched, parts.iter().map(|part| part.at(alpha)))),
        };
        if loss.is_nan() { f64::INFINITY } else { loss }
    }

    /// The loss from one table to another by way of a third, where this is that of each step.
    ///
    /// Gaussian noise moves twice as far at most. Elsewhere D_α ≤ (α − ½)/(α − 1)·D_2α + D_(2α−1): Mironov 2017,
    /// Proposition 11 with p = q = 2; and pure losses add up.
    fn twice(&self, alpha: f64) -> f64 {
        let both = up(2.0 * self.at(f64::INFINITY));
        if !alpha.is_finite() {
            return both;
        }
        if let Some(rho) = self.as_gaussian() {
            return up(4.0 * rho * alpha);
        }
        let triangle = up((alpha - 0.5) / (alpha - 1.0) * self.at(2.0 * alpha) + self.at(2.0 * alpha - 1.0));
        if triangle.is_nan() { pure(both, alpha) } else { triangle.min(pure(both, alpha)) }
    }

    /// The loss of this mechanism on a Poisson sample, the larger of both directions.
    fn poisson(&self, rate: f64, moments: &Moments, alpha: f64) -> f64 {
        // A mechanism of pure loss ε is no worse than randomised response, which stays so when it is sampled.
        let amplified = sampled::pure(rate, self.at(f64::INFINITY));
        let bound = if alpha.is_finite() { pure(amplified, alpha).min(self.at(alpha)) } else { return amplified };
        if let Some(rho) = self.as_gaussian()
            && let Some(exact) = sampled::gaussian(rate, down(sqrt(0.5 / rho)), alpha)
        {
            return exact.min(bound);
        }
        let Some(with) = moments.poisson(rate, alpha) else { return bound };
        if self.is_symmetric() {
            return with.min(bound);
        }
        let without = sampled::without_against_with(rate, self.at(2.0), alpha);
        let without = without.min(sampled::shared_part(rate, self.at(alpha), alpha));
        with.max(without).min(bound)
    }

    /// ρ, if all of it is Gaussian noise: several shifts of Gaussian noise are one.
    fn as_gaussian(&self) -> Option<f64> {
        match self {
            Self::Gaussian { rho } => Some(*rho),
            Self::Sum(parts) => {
                let rhos = parts.iter().map(|(count, part)| Some(count * part.as_gaussian()?));
                rhos.sum::<Option<f64>>().map(up).filter(|rho| *rho > 0.0)
            }
            _ => None,
        }
    }

    /// Whether the worst pair of laws is swapped by a map that is its own inverse, so that sampling against no sampling
    /// is the worse direction.
    fn is_symmetric(&self) -> bool {
        match self {
            Self::None | Self::Unbounded | Self::Pure(_) | Self::Gaussian { .. } => true,
            Self::Concentrated { symmetric, .. } => *symmetric,
            Self::Single(event) => !matches!(event, Event::BoundedRange { .. }),
            Self::Poisson { .. } | Self::PoissonReplaced { .. } | Self::LinearPart { .. } | Self::FixedSize { .. } => {
                false
            }
            Self::Sum(parts) => parts.iter().all(|(_, part)| part.is_symmetric()),
            Self::Largest { parts, .. } => parts.iter().all(Self::is_symmetric),
        }
    }
}

/// ρ of an event, if its curve is bounded by α·ρ; rounded up.
pub(crate) fn concentrated(curve: &Curve) -> f64 {
    rho(&curve.loss)
}

fn rho(loss: &Loss) -> f64 {
    let rho = match loss {
        Loss::None => 0.0,
        Loss::Unbounded => f64::INFINITY,
        Loss::Pure(epsilon) => zcdp::pure(*epsilon),
        Loss::Gaussian { rho } | Loss::Concentrated { rho, .. } => *rho,
        Loss::Single(Event::BoundedRange { epsilon }) => up(epsilon * epsilon / 8.0).min(zcdp::pure(*epsilon)),
        Loss::Single(_) => zcdp::pure(loss.at(f64::INFINITY)),
        // No ρ shows the gain of sampling Gaussian noise: at large orders there is none. A pure loss does shrink.
        Loss::Poisson { inner, .. } | Loss::FixedSize { inner, .. } | Loss::LinearPart { inner, .. } => {
            rho(inner).min(zcdp::pure(loss.at(f64::INFINITY)))
        }
        // Two steps of ρ are one of 4ρ: Bun and Steinke 2016, Proposition 1.9.
        Loss::PoissonReplaced { inner, .. } => up(4.0 * rho(inner)).min(zcdp::pure(loss.at(f64::INFINITY))),
        Loss::Sum(parts) => up(parts.iter().map(|(count, part)| count * rho(part)).sum()),
        Loss::Largest { touched, parts } => up(largest(*touched, parts.iter().map(rho))),
    };
    if rho.is_nan() { f64::INFINITY } else { rho }
}
