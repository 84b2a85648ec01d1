//! The best few of many candidates.

use std::num::NonZeroU32;

use dither_core::{GateError, Mechanism, OpenGate, PrivacyEvent, Sensitive, hazmat};
use dither_noise::{BitSource, NoiseSource, exponential_choice};

use crate::error::MechanismError;
use crate::selection::{ExactVector, Selection};

/// Chooses k candidates, the best first, by k exponential mechanisms: each among those that are left.
///
/// In one shot one would add Gumbel noise to all utilities and report the k largest in order. That has the same law
/// (Durfee and Rogers 2019), but needs noise in the reals; peeling draws it exactly.
///
/// # Privacy
/// The composition of k choices of ε-bounded range, each chosen by what was chosen before, for the neighbours that
/// the sensitivity was derived for: kε-differentially private, and kε²/8-zCDP. The order is released as well. The
/// candidates, their number and their order must be public. A choice of a subset of the candidates is as private as
/// one of all, since which are left is known from the earlier choices.
///
/// ```
/// use std::num::NonZeroU32;
/// use dither_core::PrivacyEvent;
/// use dither_mechanisms::{MaxSensitivity, Selection, TopK};
/// let epsilon = "0.1".parse()?;
/// let each = Selection::new(NonZeroU32::new(1_000).unwrap(), MaxSensitivity::monotone(1), epsilon)?;
/// let mechanism = TopK::new(each, NonZeroU32::new(3).unwrap())?;
/// assert_eq!(mechanism.event(), PrivacyEvent::Composed(vec![PrivacyEvent::BoundedRange { epsilon }; 3]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// Durfee and Rogers, *Practical Differentially Private Top-k Selection with Pay-what-you-get Composition*, 2019
/// (Gumbel noise in one shot is peeling). Dong, Durfee and Rogers, *Optimal Differential Privacy Composition for
/// Exponential Mechanisms*, 2020.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopK {
    each: Selection,
    count: NonZeroU32,
}

impl TopK {
    /// An event for each choice goes into the ledger.
    const MAX_COUNT: u32 = 10_000;

    /// Chooses `count` candidates, each as `each` says: its ε is the loss of one choice, not of all.
    ///
    /// # Errors
    /// [`MechanismError::OutOfRange`] for more choices than candidates, and for more than 10,000.
    pub fn new(each: Selection, count: NonZeroU32) -> Result<Self, MechanismError> {
        if count > each.candidates() || count.get() > Self::MAX_COUNT {
            return Err(MechanismError::OutOfRange { what: "number of choices" });
        }
        Ok(Self { each, count })
    }

    /// What the first choice is among, and the loss of each choice.
    pub fn each(&self) -> Selection {
        self.each
    }

    /// How many are chosen.
    pub fn count(&self) -> NonZeroU32 {
        self.count
    }

    /// What is charged.
    pub fn event(&self) -> PrivacyEvent {
        let one = PrivacyEvent::BoundedRange { epsilon: self.each.epsilon() };
        PrivacyEvent::Composed((0..self.count.get()).map(|_| one.clone()).collect())
    }

    /// The number of steps that the utility of every chosen candidate stays within from the best that was left for it,
    /// all at once with this probability whatever the utilities are. `None` unless the probability lies in [0, 1).
    ///
    /// *Proof.* As for one exponential mechanism, and the probabilities of k failures add up to the whole at most. ∎
    pub fn error_quantile(&self, probability: f64) -> Option<u128> {
        self.each.loss_quantile(probability, |loss| {
            let others = self.each.weight_of_others(loss);
            f64::from(self.count.get()) * others / (1.0 + others)
        })
    }

    /// [`Mechanism::apply`] for any source of bits, so that tests can replay it.
    pub(crate) fn choose<S: BitSource>(&self, exact: ExactVector, source: &mut S) -> Result<Vec<usize>, GateError> {
        let mut utilities = self.each.checked(exact)?;
        let mut left: Vec<usize> = (0..utilities.len()).collect();
        let mut chosen = Vec::new();
        for _ in 0..self.count.get() {
            let place = exponential_choice(source, &utilities, self.each.rate()).map_err(|_| GateError::Failed)?;
            utilities.swap_remove(place);
            chosen.push(left.swap_remove(place));
        }
        Ok(chosen)
    }
}

impl Mechanism for TopK {
    type Exact = ExactVector;
    type Noise = NoiseSource;
    /// The indices of the chosen candidates, in the order of the choices.
    type Output = Vec<usize>;

    fn event(&self) -> PrivacyEvent {
        self.event()
    }

    fn apply(
        &self,
        exact: Sensitive<ExactVector>,
        noise: &mut NoiseSource,
        _gate: OpenGate,
    ) -> Result<Vec<usize>, GateError> {
        self.choose(hazmat::reveal(exact), noise)
    }
}
