//! The discrete staircase mechanism.

use dither_core::{Epsilon, GateError, L1Sensitivity, Mechanism, OpenGate, PrivacyEvent, Ratio, Sensitive, hazmat};
use dither_noise::{BitSource, NoiseError, NoiseSource, discrete_staircase, first_integer};

use crate::error::MechanismError;
use crate::saturate::refined;
use crate::selection::ExactVector;

/// Discrete staircase noise on one integer: P(x) ∝ e^(−ε · ⌊(|x| + Δ − r)/Δ⌋).
///
/// Among all noises that make one integer of sensitivity Δ ε-private, one of this form has the smallest mean error;
/// against Laplace noise it gains little for small ε and much for large ones. With Δ = 1 it is Laplace noise.
///
/// # Privacy
/// ε-differentially private for the neighbours that the sensitivity was derived for, for one integer; of a vector
/// each coordinate would cost ε.
///
/// *Proof.* The exponent ⌊(m + Δ − r)/Δ⌋ grows with m = |x|, by one when m grows by Δ. Neighbours move x, and hence
/// m, by at most Δ, so that the exponent moves by at most one and the probability by a factor of at most e^ε. ∎
///
/// ```
/// use dither_core::{L1Sensitivity, PrivacyEvent};
/// use dither_mechanisms::{Laplace, Staircase};
/// let (sensitivity, epsilon) = (L1Sensitivity::new(100), "4".parse()?);
/// let staircase = Staircase::for_epsilon(sensitivity, epsilon)?;
/// assert_eq!(staircase.event(), PrivacyEvent::Pure { epsilon });
/// // Laplace noise has a mean error of 25.
/// assert!(staircase.mean_error() < 14.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// Geng and Viswanath, *The Optimal Noise-Adding Mechanism in Differential Privacy*, 2016, section on integer-valued
/// queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Staircase {
    sensitivity: L1Sensitivity,
    step: u128,
    epsilon: Epsilon,
}

impl Staircase {
    /// A sensitivity beyond this, or a stair that is expected beyond 2^100, may not fit 128 bits beside an exact value.
    const MAX_STEPS: u128 = 1 << 80;

    /// A staircase whose top stair reaches `step` − 1 either way; 0 < `step` ≤ Δ.
    ///
    /// # Errors
    /// [`MechanismError::NoSensitivity`] for a sensitivity of zero, [`MechanismError::OutOfRange`] for a step beyond Δ
    /// and for noise that 128 bits cannot hold.
    pub fn new(sensitivity: L1Sensitivity, step: u128, epsilon: Epsilon) -> Result<Self, MechanismError> {
        let width = sensitivity.steps();
        if width == 0 {
            return Err(MechanismError::NoSensitivity);
        }
        if step == 0 || step > width {
            return Err(MechanismError::OutOfRange { what: "step of the staircase" });
        }
        // At most 2^80 · 2^30 before the division.
        if width > Self::MAX_STEPS || width * u128::from(Epsilon::NANOS) / u128::from(epsilon.nanos()) >= 1 << 100 {
            return Err(MechanismError::OutOfRange { what: "noise scale" });
        }
        Ok(Self { sensitivity, step, epsilon })
    }

    /// The staircase with the smallest mean error, up to a step.
    ///
    /// In the reals the best step is Δ/(1 + e^(ε/2)); of the integers around it, this is the best.
    ///
    /// # Errors
    /// As [`Staircase::new`].
    pub fn for_epsilon(sensitivity: L1Sensitivity, epsilon: Epsilon) -> Result<Self, MechanismError> {
        let width = sensitivity.steps();
        // Any step is private; the float only makes it a good one.
        let near = (width as f64 / (1.0 + libm::exp(epsilon.as_f64() / 2.0))) as u128;
        let steps = [near.saturating_sub(1), near, near + 1].map(|step| step.clamp(1, width.max(1)));
        let [first, second, third] = steps.map(|step| Self::new(sensitivity, step, epsilon));
        let better = |a: Self, b: Self| if b.mean_error() < a.mean_error() { b } else { a };
        Ok(better(better(first?, second?), third?))
    }

    /// How far the integer can move, in lattice steps.
    pub fn sensitivity(&self) -> L1Sensitivity {
        self.sensitivity
    }

    /// The step r: the top stair reaches r − 1 either way.
    pub fn step(&self) -> u128 {
        self.step
    }

    /// The privacy loss.
    pub fn epsilon(&self) -> Epsilon {
        self.epsilon
    }

    /// What is charged.
    pub fn event(&self) -> PrivacyEvent {
        PrivacyEvent::Pure { epsilon: self.epsilon }
    }

    /// The expected size of the noise, in lattice steps.
    pub fn mean_error(&self) -> f64 {
        let (width, step, b, left) = self.shape();
        let block = step + b * (width - step);
        let triangle = |n: f64| n * (n - 1.0) / 2.0;
        // Of magnitudes from zero on: Σ m·w(m), over stairs of `width` at k·`width` and within them.
        let within = triangle(step) + b * (triangle(width) - triangle(step));
        let moment = (width * block * b / left + within) / left;
        2.0 * moment / (2.0 * block / left - 1.0)
    }

    /// The error that the answer stays within with this probability, either way, in lattice steps.
    /// `None` unless the probability lies in [0, 1).
    pub fn error_quantile(&self, probability: f64) -> Option<u128> {
        let outside = (0.0..1.0).contains(&probability).then_some((1.0 - probability) * (1.0 - MARGIN))?;
        first_integer(|error| self.tail(error + 1) * (1.0 + MARGIN) <= outside)
    }

    /// P(|X| ≥ `least`) for `least` > 0, but for rounding.
    fn tail(&self, least: u128) -> f64 {
        let (width, step, b, left) = self.shape();
        let (stair, place) = (least / self.sensitivity.steps(), (least % self.sensitivity.steps()) as f64);
        let block = step + b * (width - step);
        let rest = if place < step { step - place + b * (width - step) } else { b * (width - place) };
        let beyond = libm::exp(-self.epsilon.as_f64() * stair as f64) * (rest + block * b / left);
        2.0 * beyond / (2.0 * block / left - 1.0)
    }

    /// Δ, r, e^-ε and 1 − e^-ε.
    fn shape(&self) -> (f64, f64, f64, f64) {
        let epsilon = self.epsilon.as_f64();
        (self.sensitivity.steps() as f64, self.step as f64, libm::exp(-epsilon), -libm::expm1(-epsilon))
    }

    /// [`Mechanism::apply`] for any source of bits, so that tests can replay it.
    pub(crate) fn add<S: BitSource>(&self, exact: &ExactVector, source: &mut S) -> Result<i128, GateError> {
        match exact.values[..] {
            [exact] => self.noisy(exact, source).map_err(|_| GateError::Failed),
            _ => Err(GateError::Failed),
        }
    }

    fn noisy<S: BitSource>(&self, exact: i128, source: &mut S) -> Result<i128, NoiseError> {
        let epsilon = Ratio::new(self.epsilon.nanos().into(), Epsilon::NANOS.into()).ok_or(NoiseError::OutOfRange)?;
        let noise = discrete_staircase(source, self.sensitivity.steps(), self.step, epsilon)?;
        refined(exact, 0).checked_add(noise).ok_or(NoiseError::OutOfRange)
    }
}

/// Relative error allowed for the operations of a tail, whose exponent is at most 745, and for a cancelled unit in its
/// normaliser, which is at least 1.
const MARGIN: f64 = 1e-11;

impl Mechanism for Staircase {
    /// A vector of one.
    type Exact = ExactVector;
    type Noise = NoiseSource;
    /// The noisy integer.
    type Output = i128;

    fn event(&self) -> PrivacyEvent {
        self.event()
    }

    fn apply(
        &self,
        exact: Sensitive<ExactVector>,
        noise: &mut NoiseSource,
        _gate: OpenGate,
    ) -> Result<i128, GateError> {
        self.add(&hazmat::reveal(exact), noise)
    }
}
