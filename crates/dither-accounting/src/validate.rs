//! Which numbers an event may hold.

use crate::error::AccountingError;
use crate::event::Event;

/// How deep events may be nested: a document of this depth is read by every JSON parser with a usual limit.
pub const MAX_DEPTH: usize = 32;

impl Event {
    /// Checks every parameter: finite, within its range, and not nested deeper than [`MAX_DEPTH`].
    ///
    /// Every accountant of this crate does so first.
    ///
    /// # Errors
    /// [`AccountingError::InvalidEvent`] with the path to the first wrong field.
    ///
    /// ```
    /// use dither_accounting::Event;
    /// let step = Event::PoissonSampled { rate: 1.5, event: Box::new(Event::Gaussian { noise_multiplier: 1.0 }) };
    /// let error = Event::Composed(vec![Event::NoOp, step]).validate().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "event.composed[1].poisson-sampled.rate must be a value that is between 0 and 1"
    /// );
    /// ```
    pub fn validate(&self) -> Result<(), AccountingError> {
        check(self, "event", 0)
    }

    /// The name of the kind, as in JSON.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::NoOp => "no-op",
            Self::NonPrivate => "non-private",
            Self::Gaussian { .. } => "gaussian",
            Self::Laplace { .. } => "laplace",
            Self::DiscreteGaussian { .. } => "discrete-gaussian",
            Self::DiscreteLaplace { .. } => "discrete-laplace",
            Self::BoundedRange { .. } => "bounded-range",
            Self::RandomizedResponse { .. } => "randomized-response",
            Self::EpsilonDelta { .. } => "epsilon-delta",
            Self::ZeroConcentrated { .. } => "zero-concentrated",
            Self::Threshold { .. } => "threshold",
            Self::PoissonSampled { .. } => "poisson-sampled",
            Self::SampledWithoutReplacement { .. } => "sampled-without-replacement",
            Self::Composed(_) => "composed",
            Self::SelfComposed { .. } => "self-composed",
            Self::Parallel(_) => "parallel",
            Self::PostProcessed(_) => "post-processed",
        }
    }
}

fn check(event: &Event, path: &str, depth: usize) -> Result<(), AccountingError> {
    let here = format!("{path}.{}", event.kind());
    let wrong = |field: &str, problem| {
        let path = if field.is_empty() { here.clone() } else { format!("{here}.{field}") };
        Err(AccountingError::InvalidEvent { path, problem })
    };
    if depth >= MAX_DEPTH {
        return wrong("", "is nested less than 32 deep");
    }
    let positive = |field: &str, value: f64| match value > 0.0 && value.is_finite() {
        true => Ok(()),
        false => wrong(field, "is positive and finite"),
    };
    let not_negative = |field: &str, value: f64| match value >= 0.0 && value.is_finite() {
        true => Ok(()),
        false => wrong(field, "is finite and not negative"),
    };
    let probability = |field: &str, value: f64| match (0.0..=1.0).contains(&value) {
        true => Ok(()),
        false => wrong(field, "is between 0 and 1"),
    };
    match event {
        Event::NoOp | Event::NonPrivate => Ok(()),
        Event::Gaussian { noise_multiplier } | Event::Laplace { noise_multiplier } => {
            positive("noise_multiplier", *noise_multiplier)
        }
        Event::DiscreteGaussian { sigma, .. } => positive("sigma", *sigma),
        Event::DiscreteLaplace { scale, .. } => positive("scale", *scale),
        Event::BoundedRange { epsilon } => not_negative("epsilon", *epsilon),
        Event::RandomizedResponse { values: 0 | 1, .. } => wrong("values", "is at least 2"),
        Event::RandomizedResponse { epsilon, .. } => not_negative("epsilon", *epsilon),
        Event::EpsilonDelta { epsilon, delta } => {
            not_negative("epsilon", *epsilon).and_then(|()| probability("delta", *delta))
        }
        Event::ZeroConcentrated { rho } => not_negative("rho", *rho),
        Event::Threshold { delta } => probability("delta", *delta),
        Event::PoissonSampled { rate, event } => {
            probability("rate", *rate)?;
            check(event, &here, depth + 1)
        }
        Event::SampledWithoutReplacement { source_size: 0, .. } => wrong("source_size", "is at least 1"),
        Event::SampledWithoutReplacement { source_size, sample_size, .. } if sample_size > source_size => {
            wrong("sample_size", "is at most source_size")
        }
        Event::SampledWithoutReplacement { event, .. }
        | Event::SelfComposed { event, .. }
        | Event::PostProcessed(event) => check(event, &here, depth + 1),
        Event::Composed(parts) | Event::Parallel(parts) => {
            (0..).zip(parts).try_for_each(|(i, part): (usize, _)| check(part, &format!("{here}[{i}]"), depth + 1))
        }
    }
}
