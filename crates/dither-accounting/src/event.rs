//! What a private computation does, as far as its privacy loss is concerned.

use serde::{Deserialize, Serialize};

/// A private computation, described by its parameters alone, for the accountants of this crate.
///
/// A ledger records [`PrivacyEvent`](dither_core::PrivacyEvent)s: exact integers of what was done to one table. An
/// `Event` is what an accountant makes of it, or of a training run, or of a plan that somebody only thinks about:
/// parameters are real numbers relative to the sensitivity, and there are kinds that no table mechanism has.
///
/// Every sensitivity, but within [`Event::PoissonSampled`], is that of the neighbour relation that an accountant is asked about; under
/// [`Neighbors::ReplaceUnit`](dither_core::Neighbors) the sensitivity of a sum is usually twice that of the other.
///
/// ```
/// use dither_accounting::Event;
/// let step = Event::PoissonSampled { rate: 0.01, event: Box::new(Event::Gaussian { noise_multiplier: 1.1 }) };
/// let training = Event::SelfComposed { count: 1_000, event: Box::new(step) };
/// let json = serde_json::to_string(&training).unwrap();
/// assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), training);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Event {
    /// Nothing was learned about the data.
    NoOp,
    /// The data were published, or something nobody has analysed happened: no finite ε holds.
    NonPrivate,
    /// Gaussian noise on a vector; the multiplier is σ divided by the l2 sensitivity.
    Gaussian {
        /// σ/Δ₂.
        noise_multiplier: f64,
    },
    /// Laplace noise on a vector; the multiplier is the scale divided by the l1 sensitivity.
    ///
    /// Its worst case is that one number moves by all of it. *Proof.* Moving the numbers one after the other composes
    /// trade-off functions as group privacy does (Dong, Roth and Su, *Gaussian Differential Privacy*, 2022, section 2.5),
    /// and for a log-concave noise moving one number by s and then by t gives exactly that of moving it by s + t. ∎
    Laplace {
        /// b/Δ₁.
        noise_multiplier: f64,
    },
    /// Discrete Gaussian noise P(x) ∝ exp(−x²/2σ²) on one integer.
    DiscreteGaussian {
        /// How far the integer can move.
        sensitivity: u64,
        /// The parameter σ, in the same steps.
        sigma: f64,
    },
    /// Discrete Laplace noise P(x) ∝ exp(−|x|/b) on one integer.
    DiscreteLaplace {
        /// How far the integer can move.
        sensitivity: u64,
        /// The scale b, in the same steps.
        scale: f64,
    },
    /// An ε-bounded-range mechanism, which the exponential mechanism is: the losses of any two answers differ by
    /// at most ε.
    BoundedRange {
        /// The range.
        epsilon: f64,
    },
    /// The truth with probability e^ε/(e^ε + values − 1), else another value, each equally likely.
    RandomizedResponse {
        /// ε.
        epsilon: f64,
        /// How many values there are, at least two.
        values: u64,
    },
    /// Anything (ε, δ)-private.
    EpsilonDelta {
        /// ε.
        epsilon: f64,
        /// δ.
        delta: f64,
    },
    /// Anything ρ-zero-concentrated private.
    ZeroConcentrated {
        /// ρ.
        rho: f64,
    },
    /// Keys released by a threshold: with at most this probability something of one unit alone is shown.
    Threshold {
        /// The probability, over all keys of one unit.
        delta: f64,
    },
    /// The event on a random subset that every unit enters independently of all others.
    ///
    /// The sensitivities of the event are those of adding or removing a unit, whatever the neighbours: a sample may
    /// hold the unit on one side alone. Under replacement an accountant makes two steps of it.
    PoissonSampled {
        /// The probability that a unit enters.
        rate: f64,
        /// What is done to the subset.
        event: Box<Event>,
    },
    /// The event on a uniform subset of a fixed size.
    SampledWithoutReplacement {
        /// The number of units.
        source_size: u64,
        /// How many of them are drawn.
        sample_size: u64,
        /// What is done to the subset.
        event: Box<Event>,
    },
    /// All of the events, on the same data.
    Composed(Vec<Event>),
    /// The event so many times, with fresh randomness each time.
    SelfComposed {
        /// How many times.
        count: u64,
        /// What is repeated.
        event: Box<Event>,
    },
    /// Each event on its own part of a partition of the units.
    Parallel(Vec<Event>),
    /// The event, and a function of its answer that does not look at the data again.
    PostProcessed(Box<Event>),
}
