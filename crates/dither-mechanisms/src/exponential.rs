//! The exponential mechanism.

use dither_core::{GateError, Mechanism, OpenGate, PrivacyEvent, Sensitive, hazmat};
use dither_noise::{BitSource, NoiseSource, exponential_choice};

use crate::selection::{ExactVector, Selection};

/// Chooses a candidate with a probability proportional to e^(rate · utility), exactly.
///
/// Utilities are integers and no weight is ever computed, so nothing underflows: a million candidates whose
/// utilities are 2^127 steps apart are chosen from by their exact probabilities, in a few passes.
///
/// # Privacy
/// ε-bounded range, hence ε-differentially private and ε²/8-zCDP, for the neighbours that the sensitivity was derived
/// for. The candidates, their number and their order must be public.
///
/// *Proof.* Between neighbours the utility uᵢ moves by dᵢ, so candidate i becomes less likely by a factor
/// e^(−rate · dᵢ) · Z′/Z, where the quotient Z′/Z of normalisers is the same for all. The losses of any two
/// candidates thus differ by rate · (dᵢ − dⱼ), at most rate · 2Δ = ε in general, and at most rate · Δ = ε if all
/// utilities move the same way. ∎
///
/// ```
/// use std::num::NonZeroU32;
/// use dither_core::PrivacyEvent;
/// use dither_mechanisms::{ExponentialMechanism, MaxSensitivity, Selection};
/// let candidates = NonZeroU32::new(1_000_000).unwrap();
/// let epsilon = "1".parse()?;
/// let selection = Selection::new(candidates, MaxSensitivity::monotone(1), epsilon)?;
/// let mechanism = ExponentialMechanism::new(selection);
/// assert_eq!(mechanism.event(), PrivacyEvent::BoundedRange { epsilon });
/// // ln(10^6 / 0.05): with 95 % probability the count of the chosen one is at most 16 below the largest.
/// assert_eq!(mechanism.error_quantile(0.95), Some(16));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// McSherry and Talwar, *Mechanism Design via Differential Privacy*, 2007, Theorem 6. Dong, Durfee and Rogers,
/// *Optimal Differential Privacy Composition for Exponential Mechanisms*, 2020 (bounded range). Rogers and Steinke, *A
/// Better Privacy Analysis of the Exponential Mechanism*, differentialprivacy.org, 2021 (ε²/8-zCDP).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExponentialMechanism {
    selection: Selection,
}

impl ExponentialMechanism {
    /// Chooses once.
    pub fn new(selection: Selection) -> Self {
        Self { selection }
    }

    /// What is chosen among, and at what loss.
    pub fn selection(&self) -> Selection {
        self.selection
    }

    /// What is charged.
    pub fn event(&self) -> PrivacyEvent {
        PrivacyEvent::BoundedRange { epsilon: self.selection.epsilon() }
    }

    /// The number of steps that the utility of the chosen candidate stays within from the best, with this probability
    /// whatever the utilities are. `None` unless the probability lies in [0, 1).
    ///
    /// *Proof.* With the weight of the best as the unit, those that are worse by s or more weigh at most
    /// w = (n − 1) · e^(−rate · s) together, and are chosen with probability w/(1 + w) at most. ∎
    pub fn error_quantile(&self, probability: f64) -> Option<u128> {
        self.selection.loss_quantile(probability, |loss| {
            let others = self.selection.weight_of_others(loss);
            others / (1.0 + others)
        })
    }

    /// [`Mechanism::apply`] for any source of bits, so that tests can replay it.
    pub(crate) fn choose<S: BitSource>(&self, exact: ExactVector, source: &mut S) -> Result<usize, GateError> {
        let utilities = self.selection.checked(exact)?;
        exponential_choice(source, &utilities, self.selection.rate()).map_err(|_| GateError::Failed)
    }
}

impl Mechanism for ExponentialMechanism {
    type Exact = ExactVector;
    type Noise = NoiseSource;
    /// The index of the chosen candidate.
    type Output = usize;

    fn event(&self) -> PrivacyEvent {
        self.event()
    }

    fn apply(
        &self,
        exact: Sensitive<ExactVector>,
        noise: &mut NoiseSource,
        _gate: OpenGate,
    ) -> Result<usize, GateError> {
        self.choose(hazmat::reveal(exact), noise)
    }
}
