//! What was done to the data, as immutable facts that any accountant can price.
//!
//! A ledger stores events, not costs, so that the total can be recomputed later by a better accountant. The
//! meaning of an event never changes; a new meaning is a new variant.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::budget::{Delta, Epsilon};
use crate::ratio::Ratio;
use crate::sensitivity::{L1Sensitivity, L2Sensitivity};
use crate::unit::Neighbors;

/// One thing that was done to the data of one table, for the neighbour relation of its policy.
///
/// Sensitivities already contain the factor of the neighbour relation.
///
/// ```
/// use dither_core::{L1Sensitivity, PrivacyEvent, Ratio};
/// let event = PrivacyEvent::Laplace { sensitivity: L1Sensitivity::new(1), scale: Ratio::new(2, 1).unwrap() };
/// assert_eq!(serde_json::to_string(&event).unwrap(), r#"{"laplace":{"sensitivity":1,"scale":[2,1]}}"#);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PrivacyEvent {
    /// Discrete Laplace noise P(x) ∝ exp(−|x|/scale) was added to a vector of integers whose l1 norm can
    /// change by `sensitivity`.
    Laplace {
        /// How far the vector can move.
        sensitivity: L1Sensitivity,
        /// The scale of the noise, in the same steps.
        scale: Ratio,
    },
    /// Discrete Gaussian noise P(x) ∝ exp(−x²/2·variance) was added to a vector of integers whose l2 norm
    /// can change by `sensitivity`, at most `coordinates` of them at once.
    Gaussian {
        /// How far the vector can move.
        sensitivity: L2Sensitivity,
        /// The variance parameter σ² of the noise, in the same steps squared.
        variance: Ratio,
        /// How many coordinates of the vector can move together.
        coordinates: u64,
    },
    /// Keys taken from the data were released by a threshold that lets a key of one unit alone through with
    /// at most this probability, over all keys of the unit jointly. The noise itself is a separate event.
    Threshold {
        /// The probability, over all keys of one unit.
        delta: Delta,
    },
    /// Something (ε, 0)-private was done, of a kind whose price depends on nothing else.
    Pure {
        /// How much more likely an answer may be on one of two neighbours, as a logarithm.
        epsilon: Epsilon,
    },
    /// One answer of an ε-bounded-range mechanism: for all neighbours and any two answers, the privacy losses of the
    /// answers differ by at most ε. The exponential mechanism is one. It is (ε, 0)-private as well.
    BoundedRange {
        /// The range of the privacy loss.
        epsilon: Epsilon,
    },
    /// Something (ε/n, δ/n)-private was done n times, of a kind whose price depends on nothing else: (ε, δ) in all.
    Approximate {
        /// The sum of all ε.
        epsilon: Epsilon,
        /// The sum of all δ.
        delta: Delta,
        /// How many times, n.
        count: NonZeroU32,
    },
    /// Training. `steps` times, every unit entered a sample with probability `rate`, independently of all others and
    /// anew each time, and discrete Gaussian noise P(x) ∝ exp(−x²/2·variance) was added to a vector of integers whose l2
    /// norm adding one unit to the sample changes by at most `sensitivity`.
    ///
    /// The sensitivity is that of adding or removing a unit, whatever the neighbours: a sample may hold the unit on one
    /// side alone. So this event names its neighbours, and its price is for these.
    SampledGaussian {
        /// The probability that a unit enters a sample.
        rate: Ratio,
        /// How far one unit in the sample can move the vector.
        sensitivity: L2Sensitivity,
        /// The variance parameter σ² of the noise, in the same steps squared.
        variance: Ratio,
        /// How many coordinates the vector has.
        coordinates: u64,
        /// How many times.
        steps: u64,
        /// Which tables must be indistinguishable.
        neighbors: Neighbors,
    },
    /// Several events, all of them.
    Composed(Vec<PrivacyEvent>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_written_as_the_oldest_ledgers_have_it() {
        for json in [
            r#"{"laplace":{"sensitivity":1,"scale":[2,1]}}"#,
            r#"{"gaussian":{"sensitivity":4,"variance":[9,2],"coordinates":3}}"#,
            r#"{"threshold":{"delta":1e-6}}"#,
            r#"{"pure":{"epsilon":0.5}}"#,
            r#"{"bounded-range":{"epsilon":0.5}}"#,
            r#"{"approximate":{"epsilon":0.1,"delta":1e-6,"count":10}}"#,
            r#"{"sampled-gaussian":{"rate":[1,50],"sensitivity":4,"variance":[9,2],"coordinates":3,"steps":7,"neighbors":"add-or-remove-unit"}}"#,
            r#"{"composed":[{"threshold":{"delta":1e-6}},{"composed":[]}]}"#,
        ] {
            let event: PrivacyEvent = serde_json::from_str(json).expect(json);
            assert_eq!(serde_json::to_string(&event).expect(json), json);
        }
        assert!(serde_json::from_str::<PrivacyEvent>(r#"{"approximate":{"epsilon":1,"delta":0,"count":0}}"#).is_err());
    }
}
