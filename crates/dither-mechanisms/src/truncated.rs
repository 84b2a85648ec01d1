//! Noise of bounded size on a number of units: the optimal way to release a key.

use std::num::NonZeroU32;

use dither_core::{Delta, Epsilon, L1Sensitivity, PrivacyEvent, Ratio};
use dither_noise::{BitSource, MAX_TRIES, NoiseError, first_integer, laplace_tail};

use crate::error::MechanismError;
use crate::laplace::Laplace;
use crate::sampler::Sampler;
use crate::table::Noise;

/// Truncated symmetric geometric noise on one number of units: discrete Laplace noise P(x) ∝ e^(−ε|x|), given that it
/// is at most k either way.
///
/// # Privacy
/// Of `count` integers which a unit moves by at most one each, with this noise on each of them, each is
/// (ε/count, δ/count)-differentially private, and all together are (ε, δ)-private by basic composition. The bound k is
/// the smallest for which P(X = k) ≤ δ/count, computed with every rounding towards more loss.
///
/// *Proof*, with ε and δ for those of one integer. Let the integer be n on one of the tables and n + 1 on the other. An answer that both tables can give is
/// n + x and n + 1 + (x − 1) with |x|, |x − 1| ≤ k, and |x| and |x − 1| differ by one: the probabilities by a factor of
/// e^ε at most. The first table alone can give n − k, with probability P(X = −k) ≤ δ, and the second alone n + 1 + k,
/// with P(X = k) ≤ δ. ∎
///
/// With p = e^−ε, P(X = k) = p^k(1 − p)/(1 + p − 2p^(k + 1)).
///
/// # References
/// Desfontaines, Voss, Gipson and Mandayam, *Differentially Private Partition Selection*, PoPETs 2022: the optimal
/// probabilities of release (Theorem 1), and truncated geometric noise with a threshold as a way to draw with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TruncatedGeometric {
    epsilon: Epsilon,
    delta: Delta,
    count: NonZeroU32,
    /// Of the scale count/ε.
    noise: Laplace,
    bound: i128,
}

impl TruncatedGeometric {
    /// The noise for an ε and a δ of so many numbers together.
    ///
    /// # Errors
    /// [`MechanismError::NoDelta`] for a δ of zero; [`MechanismError::OutOfRange`] where δ is so large beside ε that half
    /// of the Laplace noise or more would be cut off, and for noise beyond exact arithmetic.
    pub fn new(epsilon: Epsilon, delta: Delta, count: NonZeroU32) -> Result<Self, MechanismError> {
        if delta.is_zero() {
            return Err(MechanismError::NoDelta);
        }
        let noise = Laplace::for_epsilon(L1Sensitivity::new(count.get().into()), epsilon)?;
        let [rate, allowed] =
            [epsilon.as_f64(), delta.as_f64() * (1.0 - MARGIN)].map(|all| all / f64::from(count.get()));
        let bound = first_integer(|bound| end(rate, bound) <= allowed)
            .and_then(|bound| i128::try_from(bound).ok())
            .ok_or(MechanismError::OutOfRange { what: "threshold" })?;
        if 2.0 * laplace_tail(noise.scale(), bound + 1) > 0.5 {
            return Err(MechanismError::OutOfRange { what: "delta" });
        }
        Ok(Self { epsilon, delta, count, noise, bound })
    }

    /// What is charged for `count` numbers.
    pub fn event(&self) -> PrivacyEvent {
        PrivacyEvent::Approximate { epsilon: self.epsilon, delta: self.delta, count: self.count }
    }

    /// The scale of the noise before it is cut off, in units: count/ε.
    pub fn scale(&self) -> Ratio {
        self.noise.scale()
    }

    /// The largest noise either way, in units.
    pub fn bound(&self) -> i128 {
        self.bound
    }

    /// The error that a number stays within with this probability, either way: that of the noise before it is cut off,
    /// which is more likely to be beyond. `None` unless the probability lies in [0, 1).
    pub fn error_quantile(&self, probability: f64) -> Option<f64> {
        self.noise.error_quantile(probability).map(|error| error.min(self.bound as f64))
    }

    /// The standard deviation of the noise before it is cut off, which is not less.
    pub fn standard_deviation(&self) -> f64 {
        self.noise.standard_deviation()
    }

    /// What it is drawn from.
    pub(crate) fn sampler(&self) -> Sampler {
        Sampler::new(Noise::Laplace(self.noise))
    }

    /// A noisy number of units.
    ///
    /// *Law.* The first draw that is within the bound has the law of a draw given that it is. At least every second is,
    /// and how many are drawn says nothing about the one that is taken.
    pub(crate) fn add<S: BitSource>(&self, units: i64, sampler: &Sampler, source: &mut S) -> Result<i128, NoiseError> {
        for _ in 0..MAX_TRIES {
            let noise = sampler.add(0, source)?;
            if noise.abs() <= self.bound {
                return Ok(i128::from(units) + noise);
            }
        }
        Err(NoiseError::Exhausted)
    }
}

/// Relative error allowed for P(X = k): its exponent is at most 745 with an error of a few 2^-53 (beyond, it is below
/// every δ), and the other operations err by a few 2^-53 each; nothing cancels.
const MARGIN: f64 = 1e-12;

/// An upper bound on P(X = `bound`) for P(x) ∝ e^(−rate · |x|).
fn end(rate: f64, bound: u128) -> f64 {
    let k = bound as f64;
    // 1 + p − 2p^(k + 1) = (1 − p) + 2p(1 − p^k).
    let step = -libm::expm1(-rate);
    let whole = step - 2.0 * libm::exp(-rate) * libm::expm1(-rate * k);
    libm::exp(-rate * k) * step / whole * (1.0 + MARGIN) + f64::MIN_POSITIVE
}
