//! A clipping norm that follows a quantile of the norms of gradients, at no price of its own.

use serde::{Deserialize, Serialize};

use crate::train::error::TrainError;

/// How far the norm may move away from the first one, in either direction.
const FURTHEST: f64 = 1e6;
/// The norms that models accept.
const BOUNDS: (f64, f64) = (1e-9, 1e9);

/// How wide the ramp is on either side of the clipping norm, relative to it.
const RAMP: f64 = 0.25;
/// What a unit with a short gradient counts.
pub(crate) const WHOLE: u64 = 1 << 32;
/// What a unit may do to a count by what others count beside it, relative to the ½ that it counts itself.
///
/// Kernels round the gradient of a unit in another way beside others, so that a unit moves the norms of the others in its
/// part in their last bits. A norm that moves by d moves what is counted by at most 2d/C, the slope of the ramp. So this
/// covers norms that move by C/128 in all: twice what [`FLOAT_ALLOWANCE`](crate::train::noise::FLOAT_ALLOWANCE) sets
/// aside for the sum of the same gradients. The count relies on the same property of kernels, with more room, and asks it of
/// norms up to 5C/4 too, where the sum sees only a direction. It is not proven for the worst case. Rounding to 2⁻³² is far
/// inside.
pub const COUNT_ALLOWANCE: f64 = 1.0 / 32.0;

/// What a unit with a gradient of this norm counts, in parts of [`WHOLE`]: all up to three quarters of the clipping norm,
/// nothing from five quarters on, and in proportion between them. A norm that is not a number counts nothing.
///
/// # Privacy
/// A step from all to nothing would turn the last bit of a norm into a whole unit. See [`COUNT_ALLOWANCE`].
pub(crate) fn counted(norm: f64, bound: f64) -> u64 {
    let share = (1.0 + RAMP - norm / bound) / (2.0 * RAMP);
    (share.clamp(0.0, 1.0) * WHOLE as f64).round() as u64
}

/// A clipping norm that is set anew after every step, so that about this share of gradients is not longer.
///
/// # Privacy
/// Every unit in a sample adds between ½ and −½ to a count, the more the shorter its gradient is, along a ramp from three
/// quarters of the clipping norm to five quarters. The count is one coordinate more of the vector that the noise of the step
/// is added to: one mechanism, one event. With noise of deviation `count_noise` on the count, the gradients have a
/// multiplier z_Δ of their own for which 1/z² = 1/z_Δ² + (1 + a)²/(2·count_noise)², where z is the multiplier of the plan and
/// a is [`COUNT_ALLOWANCE`]; so z is below 1.9·count_noise. See
/// [`Lattice::counting`](crate::train::noise::Lattice::counting). The norm of a step follows from noisy counts of steps
/// before it, which is post-processing.
///
/// # References
/// Andrew, Thakkar, McMahan and Ramaswamy, *Differentially Private Learning with Adaptive Clipping*, 2021, Theorem 1 and
/// section 3, which count 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adaptive {
    /// The share of gradients that should not be clipped.
    pub quantile: f64,
    /// How fast the norm moves: its logarithm, by so many times the difference of shares.
    pub learning_rate: f64,
    /// The standard deviation of the noise on the count, in units.
    pub count_noise: f64,
}

impl Adaptive {
    /// Refuses what makes no sense.
    pub(crate) fn check(&self) -> Result<(), TrainError> {
        if !(0.0..=1.0).contains(&self.quantile) {
            return Err(TrainError::field("clipping.quantile", format!("{}", self.quantile), "use 0.5, or 0 to 1"));
        }
        if !(self.learning_rate > 0.0 && self.learning_rate <= 10.0) {
            let problem = format!("{}", self.learning_rate);
            return Err(TrainError::field("clipping.learning_rate", problem, "use about 0.2"));
        }
        Ok(())
    }

    /// The norm of the next step, from that of this one and the noisy count, to which every unit added ½ to −½. The
    /// divisor is public, and not the size of the sample.
    pub(crate) fn next(&self, bound: f64, first: f64, count: f64, divisor: f64) -> f64 {
        let share = count / divisor + 0.5;
        let next = bound * (-self.learning_rate * (share - self.quantile)).exp();
        next.clamp((first / FURTHEST).max(BOUNDS.0), (first * FURTHEST).min(BOUNDS.1))
    }
}
