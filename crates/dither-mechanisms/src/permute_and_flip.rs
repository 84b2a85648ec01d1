//! The permute-and-flip mechanism.

use dither_core::{GateError, Mechanism, OpenGate, PrivacyEvent, Sensitive, hazmat};
use dither_noise::{BitSource, NoiseSource, permute_and_flip};

use crate::selection::{ExactVector, Selection};

/// Visits the candidates in random order and takes each with probability e^(rate · (utility − best)), exactly.
///
/// It is never worse than the exponential mechanism at the same ε, and up to twice as good. No smaller range than that of
/// any ε-private mechanism is claimed for it, so that many choices cost more than as many of
/// [`ExponentialMechanism`](crate::ExponentialMechanism): for a single choice under a pure ε prefer this one, for
/// many choices under (ε, δ) the other.
///
/// # Privacy
/// ε-differentially private for the neighbours that the sensitivity was derived for. The candidates, their number
/// and their order must be public.
///
/// *Proof.* The choice has the law of the largest of utility + E with independent exponential E of mean 1/rate (Ding
/// et al. 2021), with no ties. Fix the noise of all others; i is chosen if Eᵢ exceeds t = maxⱼ(uⱼ + Eⱼ) − uᵢ over
/// j ≠ i, and between neighbours t grows by at most 2Δ, or Δ if all utilities move the same way. Since
/// P(E > t + s) ≥ e^(−rate · s) · P(E > t) for every t, the probability falls by a factor of e^-ε at most. ∎
///
/// ```
/// use std::num::NonZeroU32;
/// use dither_core::PrivacyEvent;
/// use dither_mechanisms::{MaxSensitivity, PermuteAndFlip, Selection};
/// let epsilon = "1".parse()?;
/// let selection = Selection::new(NonZeroU32::new(10).unwrap(), MaxSensitivity::monotone(1), epsilon)?;
/// assert_eq!(PermuteAndFlip::new(selection).event(), PrivacyEvent::Pure { epsilon });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// McKenna and Sheldon, *Permute-and-Flip: A New Mechanism for Differentially Private Selection*, 2020. Ding, Kifer,
/// Steinke, Wang, Xiao and Zhang, *The Permute-and-Flip Mechanism is Identical to Report-Noisy-Max with Exponential
/// Noise*, 2021.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermuteAndFlip {
    selection: Selection,
}

impl PermuteAndFlip {
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
        PrivacyEvent::Pure { epsilon: self.selection.epsilon() }
    }

    /// The number of steps that the utility of the chosen candidate stays within from the best, with this probability
    /// whatever the utilities are. `None` unless the probability lies in [0, 1).
    ///
    /// *Proof.* One that is worse by s or more is chosen only if it is visited before a given best one, with
    /// probability 1/2, and its flip succeeds: over all of them (n − 1) · e^(−rate · s)/2 at most. ∎
    pub fn error_quantile(&self, probability: f64) -> Option<u128> {
        self.selection.loss_quantile(probability, |loss| self.selection.weight_of_others(loss) / 2.0)
    }

    /// [`Mechanism::apply`] for any source of bits, so that tests can replay it.
    pub(crate) fn choose<S: BitSource>(&self, exact: ExactVector, source: &mut S) -> Result<usize, GateError> {
        let utilities = self.selection.checked(exact)?;
        permute_and_flip(source, &utilities, self.selection.rate()).map_err(|_| GateError::Failed)
    }
}

impl Mechanism for PermuteAndFlip {
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
