//! From an event to the pairs that it composes, each with how often it occurs.

use std::sync::Arc;

use dither_core::Neighbors;

use super::pair::{Pair, Tails};
use crate::error::AccountingError;
use crate::event::Event;
use crate::round::sqrt;

/// The pairs of an event, merged and sorted.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Plan {
    /// Each pair with its count; no pair occurs twice, and at most one is Gaussian.
    pub parts: Vec<(Pair, u64)>,
    /// Whether something has no finite loss at all.
    pub broken: bool,
}

/// A loss beyond this in one step is not followed.
const LARGEST_LOSS: f64 = 1e6;
/// N(0, 1) and N(μ, 1) beyond this μ are told apart with certainty as far as floats can say.
const LARGEST_MU: f64 = 30.0;

impl Plan {
    pub fn of(event: &Event, neighbors: Neighbors) -> Result<Self, AccountingError> {
        let mut plan = Self::default();
        plan.add(event, 1, neighbors)?;
        plan.settle()?;
        Ok(plan)
    }

    fn add(&mut self, event: &Event, count: u64, neighbors: Neighbors) -> Result<(), AccountingError> {
        if count == 0 {
            // Checked all the same: an event that makes no sense is an error however rarely it happens.
            return Self::default().add(event, 1, neighbors);
        }
        match event {
            Event::NoOp => {}
            Event::NonPrivate => self.broken = true,
            Event::Composed(events) => {
                for event in events {
                    self.add(event, count, neighbors)?;
                }
            }
            Event::SelfComposed { count: times, event } => {
                let total = count.checked_mul(*times).ok_or(AccountingError::LossTooLarge)?;
                self.add(event, total, neighbors)?;
            }
            Event::PostProcessed(event) => self.add(event, count, neighbors)?,
            Event::PoissonSampled { rate, event } => self.add_sampled(*rate, event, count, neighbors)?,
            Event::Parallel(events) => self.add_parallel(events, count, neighbors)?,
            Event::ZeroConcentrated { .. } | Event::SampledWithoutReplacement { .. } => {
                return Err(not_covered());
            }
            _ => self.push(base(event)?, count),
        }
        Ok(())
    }

    /// The event on a sample that is drawn once.
    fn add_sampled(
        &mut self,
        rate: f64,
        event: &Event,
        count: u64,
        neighbors: Neighbors,
    ) -> Result<(), AccountingError> {
        if !(0.0..=1.0).contains(&rate) {
            return Err(odd());
        }
        let inner = Self::of(event, Neighbors::AddOrRemoveUnit)?;
        if rate == 0.0 || (inner.parts.is_empty() && !inner.broken) {
            return Ok(());
        }
        if inner.broken {
            // The unit is in the sample with probability q, and then everything is known.
            self.push(Pair::Response { epsilon: 0.0, others: 0.0, delta: rate }, count);
            return Ok(());
        }
        // A sample on which several mechanisms run has the product of their pairs, which is none of the closed forms.
        let [(pair, 1)] = &inner.parts[..] else { return Err(not_covered()) };
        let pair = match (neighbors, pair) {
            (Neighbors::AddOrRemoveUnit, Pair::Sampled { rate: first, base }) => {
                Pair::Sampled { rate: rate * first, base: base.clone() }
            }
            (Neighbors::AddOrRemoveUnit, pair) if rate == 1.0 => pair.clone(),
            (Neighbors::AddOrRemoveUnit, pair) => Pair::Sampled { rate, base: Box::new(pair.clone()) },
            (Neighbors::ReplaceUnit, Pair::Gaussian { mu }) => replaced(rate, *mu)?,
            (Neighbors::ReplaceUnit, Pair::Sampled { rate: first, base }) => match **base {
                Pair::Gaussian { mu } => replaced(rate * first, mu)?,
                _ => return Err(not_covered()),
            },
            (Neighbors::ReplaceUnit, _) => return Err(not_covered()),
        };
        self.push(pair, count);
        Ok(())
    }

    /// A unit is in one part; one that is replaced leaves a part and may enter another.
    fn add_parallel(&mut self, events: &[Event], count: u64, neighbors: Neighbors) -> Result<(), AccountingError> {
        let mut pairs = Vec::new();
        for event in events {
            let part = Self::of(event, neighbors)?;
            self.broken |= part.broken;
            match &part.parts[..] {
                [] => {}
                [(pair, 1)] => pairs.push(pair.clone()),
                _ => return Err(not_covered()),
            }
        }
        pairs.sort_by(Pair::compare);
        pairs.dedup();
        let count = count.checked_mul(neighbors.distance().into()).ok_or(AccountingError::LossTooLarge)?;
        match pairs.len() {
            0 => {}
            1 => self.push(pairs.remove(0), count),
            _ => self.push(Pair::Largest(pairs), count),
        }
        Ok(())
    }

    fn push(&mut self, pair: Pair, count: u64) {
        self.parts.push((pair, count));
    }

    /// Sorts, adds up equal pairs, makes one Gaussian of all, and drops what costs nothing.
    ///
    /// Gaussians with μᵢ compose to one with μ² = Σ μᵢ²: Dong, Roth and Su 2022, Corollary 3.3.
    fn settle(&mut self) -> Result<(), AccountingError> {
        self.parts.sort_by(|a, b| a.0.compare(&b.0));
        let mut merged: Vec<(Pair, u64)> = Vec::with_capacity(self.parts.len());
        for (pair, count) in self.parts.drain(..) {
            match merged.last_mut() {
                Some((last, sum)) if *last == pair => {
                    *sum = sum.checked_add(count).ok_or(AccountingError::LossTooLarge)?;
                }
                _ => merged.push((pair, count)),
            }
        }
        let (mut squared, mut lost) = (0.0, 0.0);
        merged.retain(|(pair, count)| match pair {
            Pair::Gaussian { mu } => {
                // What rounding takes from the sum is added at the end.
                let next = mu * mu * *count as f64;
                let sum = squared + next;
                lost += if squared >= next { (squared - sum) + next } else { (next - sum) + squared };
                squared = sum;
                false
            }
            Pair::Laplace { epsilon } => *epsilon > 0.0,
            Pair::Response { epsilon, delta, .. } => *epsilon > 0.0 || *delta > 0.0,
            _ => true,
        });
        squared += lost;
        if squared > 0.0 {
            if squared > LARGEST_MU * LARGEST_MU {
                return Err(AccountingError::LossTooLarge);
            }
            merged.insert(0, (Pair::Gaussian { mu: sqrt(squared) }, 1));
        }
        self.parts = merged;
        Ok(())
    }
}

fn replaced(rate: f64, mu: f64) -> Result<Pair, AccountingError> {
    (mu <= LARGEST_MU / 3.0).then_some(Pair::Replaced { rate, mu }).ok_or(AccountingError::LossTooLarge)
}

fn not_covered() -> AccountingError {
    AccountingError::NotCovered { accountant: "pld", event: "this event, whose worst pair of laws is not known" }
}

/// What [`Event::validate`] lets through only if a field is a special case of its own.
fn odd() -> AccountingError {
    AccountingError::InvalidEvent { path: "event".into(), problem: "is in the range of its kind" }
}

/// The pair of an event that contains no other.
fn base(event: &Event) -> Result<Pair, AccountingError> {
    let probability = |value: f64| (0.0..=1.0).contains(&value);
    let bounded = |loss: f64| if loss <= LARGEST_LOSS { Ok(loss) } else { Err(AccountingError::LossTooLarge) };
    let epsilon = |value: f64| if value >= 0.0 { bounded(value) } else { Err(odd()) };
    match event {
        Event::Gaussian { noise_multiplier } => {
            let mu = bounded(inverse(*noise_multiplier)?)?;
            // Smaller squares would vanish.
            Ok(Pair::Gaussian { mu: if mu == 0.0 { 0.0 } else { mu.max(1e-150) } })
        }
        Event::Laplace { noise_multiplier } => Ok(Pair::Laplace { epsilon: bounded(inverse(*noise_multiplier)?)? }),
        Event::DiscreteLaplace { sensitivity, scale } => {
            inverse(*scale)?;
            let steps = *sensitivity as f64;
            bounded(steps / scale)?;
            if *sensitivity == 0 || steps / scale == 0.0 {
                return Ok(nothing(steps > 0.0));
            }
            Ok(Pair::DiscreteLaplace { steps, scale: *scale })
        }
        Event::DiscreteGaussian { sensitivity, sigma } => {
            inverse(*sigma)?;
            let steps = *sensitivity as f64;
            let mu = steps / sigma;
            if mu > LARGEST_MU {
                return Err(AccountingError::LossTooLarge);
            }
            if *sensitivity == 0 || mu < 1e-150 {
                return Ok(nothing(steps > 0.0));
            }
            Ok(Pair::DiscreteGaussian { steps, sigma: *sigma, tails: Arc::new(Tails::new(*sigma)) })
        }
        Event::BoundedRange { epsilon: range } => {
            Ok(Pair::Response { epsilon: epsilon(*range)?, others: 0.0, delta: 0.0 })
        }
        Event::RandomizedResponse { epsilon: loss, values } if *values >= 2 => {
            Ok(Pair::Response { epsilon: epsilon(*loss)?, others: (*values - 2) as f64, delta: 0.0 })
        }
        Event::EpsilonDelta { epsilon: loss, delta } if probability(*delta) => {
            Ok(Pair::Response { epsilon: epsilon(*loss)?, others: 0.0, delta: *delta })
        }
        Event::Threshold { delta } if probability(*delta) => {
            Ok(Pair::Response { epsilon: 0.0, others: 0.0, delta: *delta })
        }
        Event::RandomizedResponse { .. } | Event::EpsilonDelta { .. } | Event::Threshold { .. } => Err(odd()),
        _ => Err(AccountingError::UnknownEvent),
    }
}

/// The pair of a step that costs nothing that floats can say, or nothing at all.
fn nothing(at_all: bool) -> Pair {
    Pair::Laplace { epsilon: if at_all { 1e-150 } else { 0.0 } }
}

/// One over a multiplier: zero for infinite noise.
fn inverse(multiplier: f64) -> Result<f64, AccountingError> {
    if multiplier > 0.0 {
        Ok(1.0 / multiplier)
    } else if multiplier == 0.0 {
        Err(AccountingError::LossTooLarge)
    } else {
        Err(odd())
    }
}
