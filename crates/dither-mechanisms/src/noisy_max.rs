//! Report noisy max.

use dither_core::{GateError, Mechanism, OpenGate, PrivacyEvent, Ratio, Sensitive, hazmat};
use dither_noise::{
    BitSource, NoiseError, NoiseSource, discrete_exponential, discrete_laplace, laplace_tail, uniform_below,
};

use crate::saturate::refined;
use crate::selection::{ExactVector, Selection};

/// Adds noise to every utility and says which noisy utility is largest, and nothing else: not by how much.
///
/// Noise on a lattice makes ties of positive probability. A tie is broken uniformly among those that share it.
///
/// # Privacy
/// ε-differentially private for the neighbours that the sensitivity was derived for. The candidates, their number
/// and their order must be public.
///
/// *Proof, ties included.* Breaking ties uniformly is breaking them by a uniformly random order of the candidates that
/// is drawn beforehand, without looking at the data. Fix that order and the noise of all candidates but i. Then i is
/// reported exactly if Xᵢ ≥ t, where t is the largest of uⱼ + Xⱼ − uᵢ + 1 over the j that come before i in the order
/// and uⱼ + Xⱼ − uᵢ over those that come after it: an integer. Between neighbours t grows by at most s = 2Δ steps,
/// or s = Δ if all utilities move the same way. For discrete exponential and for discrete Laplace noise of scale s/ε
/// and every integer t, P(X ≥ t + s) ≥ e^-ε · P(X ≥ t), since P(X = x + s) ≥ e^-ε · P(X = x) for every x that has a
/// positive probability. The bound holds for each order and each noise of the others, hence on average. ∎
///
/// With continuous noise, the exponential form is [`PermuteAndFlip`](crate::PermuteAndFlip); on a lattice the two
/// differ by their ties.
///
/// ```
/// use std::num::NonZeroU32;
/// use dither_core::PrivacyEvent;
/// use dither_mechanisms::{MaxNoise, MaxSensitivity, NoisyMax, Selection};
/// let epsilon = "0.5".parse()?;
/// let selection = Selection::new(NonZeroU32::new(10).unwrap(), MaxSensitivity::new(3), epsilon)?;
/// let mechanism = NoisyMax::new(selection, MaxNoise::Exponential);
/// assert_eq!(mechanism.event(), PrivacyEvent::Pure { epsilon });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// Dwork and Roth, *The Algorithmic Foundations of Differential Privacy*, 2014, section 3.3 (Laplace noise). Ding et
/// al., *The Permute-and-Flip Mechanism is Identical to Report-Noisy-Max with Exponential Noise*, 2021.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoisyMax {
    selection: Selection,
    noise: MaxNoise,
}

/// Which noise the utilities get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxNoise {
    /// Discrete exponential: never negative. The better one.
    Exponential,
    /// Discrete Laplace.
    Laplace,
}

impl NoisyMax {
    /// Chooses once.
    pub fn new(selection: Selection, noise: MaxNoise) -> Self {
        Self { selection, noise }
    }

    /// What is chosen among, and at what loss.
    pub fn selection(&self) -> Selection {
        self.selection
    }

    /// Which noise the utilities get.
    pub fn noise(&self) -> MaxNoise {
        self.noise
    }

    /// What is charged.
    pub fn event(&self) -> PrivacyEvent {
        PrivacyEvent::Pure { epsilon: self.selection.epsilon() }
    }

    /// The number of steps that the utility of the chosen candidate stays within from the best, with this probability
    /// whatever the utilities are. `None` unless the probability lies in [0, 1).
    ///
    /// *Proof.* One that is worse by s or more is reported only if its noise exceeds that of a given best one by s. The
    /// difference of two exponential noises is Laplace noise: P = e^(−rate · s)/(1 + e^-rate), for each of n − 1. For
    /// Laplace noise, one of the n noises must reach s/2 on its side. ∎
    pub fn error_quantile(&self, probability: f64) -> Option<u128> {
        let scale = self.selection.scale().ok()?;
        let all = f64::from(self.selection.candidates().get());
        self.selection.loss_quantile(probability, |loss| match self.noise {
            MaxNoise::Exponential => self.selection.weight_of_others(loss),
            MaxNoise::Laplace => i128::try_from(loss.div_ceil(2)).map_or(all, |half| all * laplace_tail(scale, half)),
        })
    }

    /// [`Mechanism::apply`] for any source of bits, so that tests can replay it.
    pub(crate) fn choose<S: BitSource>(&self, exact: ExactVector, source: &mut S) -> Result<usize, GateError> {
        let (utilities, scale) = (self.selection.checked(exact)?, self.selection.scale()?);
        self.largest(&utilities, scale, source).map_err(|_| GateError::Failed)
    }

    fn largest<S: BitSource>(&self, utilities: &[i128], scale: Ratio, source: &mut S) -> Result<usize, NoiseError> {
        let mut best = i128::MIN;
        let mut tied = Vec::new();
        for (index, &utility) in utilities.iter().enumerate() {
            let noise = match self.noise {
                MaxNoise::Exponential => discrete_exponential(source, scale),
                MaxNoise::Laplace => discrete_laplace(source, scale),
            }?;
            let noisy = refined(utility, 0).checked_add(noise).ok_or(NoiseError::OutOfRange)?;
            if noisy > best {
                best = noisy;
                tied.clear();
            }
            if noisy == best {
                tied.push(index);
            }
        }
        let place = uniform_below(source, tied.len() as u128)?;
        usize::try_from(place).ok().and_then(|place| tied.get(place).copied()).ok_or(NoiseError::OutOfRange)
    }
}

impl Mechanism for NoisyMax {
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
