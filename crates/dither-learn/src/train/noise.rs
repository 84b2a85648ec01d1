//! From a sum of floats to integers on a public lattice, which is what noise is added to.

use std::ops::RangeInclusive;

use dither_core::{GateError, L2Sensitivity, Ratio};

use crate::nn::wide;
use crate::train::adaptive::{COUNT_ALLOWANCE, WHOLE};
use crate::train::error::TrainError;

/// What rounding inside the sum of one part may add to the contribution of a unit, relative to the clipping norm.
///
/// Let a sum of floats of 24 bits be made by additions in any order. Each rounds by at most 2⁻²⁴ of its result in every
/// coordinate, and its result is at most mC long where m clipped gradients are in it. So the sum is off by at most 2⁻²⁴·C
/// times the sum of all m, to first order, which is largest where one is added after the other: n(n + 1)/2 for n of them.
///
/// A part of n units is added up in even chunks of at most S units, S from 4 to 128: each from zero, then one after the
/// other. That makes n(S + 1)/2 at most inside K = ⌈n/S⌉ chunks, n(K + 1)/2 for adding them, and n more where products are rounded
/// before they are added. S + K is at most 132 for n ≤ 448, so the sum is off by at most 68n·2⁻²⁴·C. No part has more
/// than 448 units (`most_in_part`): with and without a unit, sums are off by at most 68·(448 + 448)·2⁻²⁴·C together.
///
/// Where a unit makes a full part into two (see [`Sampler`](crate::train::sampler::Sampler)), these have 449 units
/// together, so their sums and the one without the unit are off by at most 68·(449 + 448)·2⁻²⁴·C < 0.003636·C. One sum
/// more is rounded to the lattice then, which is another half a step in each of P coordinates, and √P/2 steps are at
/// most 2⁻¹²·C. Both together are below 0.00388·C < 2⁻⁸·C. The guard of 10⁻⁶ in clipping is far inside.
///
/// # References
/// Higham, *Accuracy and Stability of Numerical Algorithms*, 2002, section 4.2: sums in any order.
pub const FLOAT_ALLOWANCE: f64 = 1.0 / 256.0;

/// How many units of a part are added up from zero, at least and at most, before they are added to the others.
pub(crate) const CHUNK: RangeInclusive<usize> = 4..=128;

/// How many units a part has on average. Each part costs a pass over all weights.
pub const UNITS_PER_PART: f64 = 256.0;

/// The same where layers see several positions of a unit, or where norms are counted: kernels add the positions of some units
/// up together, and norms have an allowance for their company, which grow with a part and have no such proof.
pub const FEWER_UNITS_PER_PART: f64 = 64.0;

/// How many units a part has at most. Of parts of 256 units on average one in 10²⁵ would have more (Chernoff).
pub(crate) fn most_in_part(average: f64) -> usize {
    (average * 1.75) as usize
}

/// σ has at least 2^20 steps, and so many more that what all draws of a run add to ε is below 2^-20, and what rounding
/// adds to the clipping norm below 2^-11 of it.
const MIN_BITS: i32 = 20;
/// More steps than this would not leave enough room for sums in 64 bits.
const MAX_BITS: i32 = 40;

/// The lattice of a run: its step, and what clipping leaves of one unit when it is counted in steps.
///
/// # Privacy
/// Everything here follows from public numbers: the clipping norm C, the noise multiplier σ, the number of weights P and
/// of steps. A unit that is added to a sample enters one part and changes the float sum of that part by at most
/// C·(1 + [`FLOAT_ALLOWANCE`]). Rounding each coordinate to the nearest step moves it by half a step on either side, so
/// that the integers change by at most C·(1 + allowance)/step + √P in the l2 norm; the allowance has room for the
/// rounding of one part more, where that part becomes two. Other parts stay as they are, bit by bit, and integers add
/// up exactly. Noise is σ times that.
///
/// # References
/// Casacuberta, Shoemate, Vadhan and Wagaman, *Widespread Underestimation of Sensitivity in Differentially Private
/// Libraries and How to Fix It*, 2022: what float sums do to sensitivity. The triangle inequality for the rest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lattice {
    exponent: i32,
    sensitivity: L2Sensitivity,
    variance: Ratio,
    /// How many steps of the count are half a unit, of a lattice that has one; its sums are in clipping norms.
    count: Option<u64>,
}

/// Where adding stops, which 2^20 units at the finest lattice do not reach.
const END: i64 = 1 << 61;

/// Adds floats times `scale` as integers, or overwrites with them if there are none yet.
fn add_integers(floats: &[f32], sum: &mut [i64], empty: bool, scale: f64, integer: impl Fn(f64) -> i64) {
    wide(
        #[inline(always)]
        || {
            for (sum, float) in sum.iter_mut().zip(floats) {
                *sum = added(if empty { 0 } else { *sum }, integer(f64::from(*float) * scale));
            }
        },
    );
}

/// The sum of two integers, each of which counts as [`END`] beyond it. That moves no two of them apart.
#[inline(always)]
fn added(sum: i64, integer: i64) -> i64 {
    sum.clamp(-END, END).wrapping_add(integer.clamp(-END, END))
}

/// How long the sum of so many gradients of norm at most `norm` can be.
fn longest(units: usize, norm: f64) -> f64 {
    units as f64 * norm * (1.0 + FLOAT_ALLOWANCE)
}

/// The nearest integer, even where two are; of numbers within ±2^51.
#[inline(always)]
fn nearest(value: f64) -> i64 {
    // 1.5 · 2^52: whoever adds it rounds to an integer, which then stands in the low bits.
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    (value + MAGIC).to_bits().wrapping_sub(MAGIC.to_bits()) as i64
}

impl Lattice {
    /// The lattice for a clipping norm, a noise multiplier and so many weights and steps.
    ///
    /// # Errors
    /// A norm or a multiplier outside of [10⁻⁹, 10⁹], and runs so large that no lattice serves them.
    ///
    /// ```
    /// use dither_learn::train::noise::Lattice;
    /// let lattice = Lattice::new(1.0, 1.0, 1_000_000, 10_000)?;
    /// // 10^10 draws: σ of 2^25 steps.
    /// assert_eq!(lattice.step(), 2f64.powi(-25));
    /// // 2^-8 for floats, and √P = 1000 steps.
    /// assert!((lattice.sensitivity().as_f64() * lattice.step() - 1.0039).abs() < 1e-4);
    /// # Ok::<(), dither_learn::train::error::TrainError>(())
    /// ```
    pub fn new(norm: f64, multiplier: f64, weights: usize, steps: u64) -> Result<Self, TrainError> {
        let usual = |value: f64| (1e-9..=1e9).contains(&value);
        if !usual(norm) {
            return Err(TrainError::field("clipping.bound", format!("{norm} is no clipping norm"), "use about 1"));
        }
        if !usual(multiplier) {
            let problem = format!("{multiplier} is no noise multiplier");
            return Err(TrainError::field("privacy.noise_multiplier", problem, "use about 1, or name an epsilon"));
        }
        let draws = weights as f64 * steps as f64;
        // 2N/24σ² ≤ 2^-20 for the draws, and √P steps are at most 2^-11 of the norm.
        let of_draws = 0.5 * (draws * (1u64 << 20) as f64 / 12.0).log2();
        let of_rounding = (multiplier * (weights as f64).sqrt()).log2() + 11.0;
        let bits = of_draws.max(of_rounding).ceil().max(f64::from(MIN_BITS));
        if weights == 0 || steps == 0 || bits > f64::from(MAX_BITS) {
            let problem = format!("{steps} steps on {weights} weights are out of range");
            return Err(TrainError::field("steps", problem, "train fewer steps or fewer weights"));
        }
        // A power of two, so that dividing by it is exact.
        let exponent = (norm * multiplier).log2().floor() as i32 - bits as i32;
        let steps_of = |value: f64| value * 2f64.powi(-exponent);
        let up = |value: f64| value * (1.0 + 1e-12);
        let moved = up(steps_of(norm * (1.0 + FLOAT_ALLOWANCE)) + (weights as f64).sqrt());
        let squared = up(moved * moved).ceil();
        let sensitivity = L2Sensitivity::from_squared(squared as u128);
        let variance = Ratio::at_least(up(squared * multiplier * multiplier));
        let variance = variance.ok_or_else(|| {
            TrainError::field(
                "privacy.noise_multiplier",
                "the noise is out of range",
                "use about 1, or name an epsilon",
            )
        })?;
        Ok(Self { exponent, sensitivity, variance, count: None })
    }

    /// The lattice for gradients in clipping norms, whatever these are in a step, and a count beside them, to which every
    /// unit adds ½ to −½ and whose noise has a deviation of `count_noise`.
    ///
    /// # Errors
    /// As [`Lattice::new`]; and a count whose noise is at most half the multiplier, since it alone would cost more than
    /// the run may.
    ///
    /// # Privacy
    /// Let A bound what a unit does to the gradients, as in [`Lattice::new`] with a norm of 1, and let c steps of the count
    /// be half a unit. A unit adds c steps at most, and what others of its part count beside it changes by at most ac, where
    /// a is [`COUNT_ALLOWANCE`]; rounding to a step makes one more. So it moves the count by M = c(1 + a) + 1 and both
    /// together by S = √(A² + M²), and every coordinate has noise of deviation zS: that of the Gaussian mechanism on one
    /// vector. c is chosen so that this is `count_noise` units of 2c, or slightly more: c = ⌊zS₀/2·count_noise⌋ for
    /// S₀² = A²/(1 − ((1 + a)z/2·count_noise)²) ≤ S², and with z_Δ = zS/A follows 1/z² = 1/z_Δ² + (1 + a)²/(2·count_noise)².
    ///
    /// # References
    /// Andrew et al., *Differentially Private Learning with Adaptive Clipping*, 2021, Theorem 1.
    pub fn counting(multiplier: f64, count_noise: f64, weights: usize, steps: u64) -> Result<Self, TrainError> {
        let plain = Self::new(1.0, multiplier, weights, steps)?;
        let ratio = multiplier / (2.0 * count_noise);
        let allowed = 1.0 + COUNT_ALLOWANCE;
        let gradients = plain.sensitivity.squared();
        let all = (gradients as f64 / (1.0 - (allowed * ratio).powi(2))).sqrt();
        let count = (all * ratio).floor();
        if !(count_noise > 0.0 && allowed * ratio < 1.0 && (1.0..1e15).contains(&count)) {
            let hint = format!("use more than {:.3}, about a twentieth of a sample", allowed * multiplier / 2.0);
            return Err(TrainError::field("clipping.count_noise", format!("{count_noise}"), hint));
        }
        let (count, moved) = (count as u64, (count * allowed).ceil() as u128 + 1);
        let squared = gradients + moved * moved;
        let variance = Ratio::at_least(squared as f64 * multiplier * multiplier * (1.0 + 1e-12));
        let variance = variance.ok_or_else(|| {
            TrainError::field("clipping.count_noise", format!("{count_noise}"), "use about a twentieth of a sample")
        })?;
        Ok(Self { sensitivity: L2Sensitivity::from_squared(squared), variance, count: Some(count), ..plain })
    }

    /// The step, in the units of a gradient.
    pub fn step(&self) -> f64 {
        2f64.powi(self.exponent)
    }

    /// How far a unit in the sample can move the integers.
    pub fn sensitivity(&self) -> L2Sensitivity {
        self.sensitivity
    }

    /// The parameter σ² of the noise on the integers.
    pub fn variance(&self) -> Ratio {
        self.variance
    }

    /// How many steps of the count are half a unit, if there is a count.
    pub fn count(&self) -> Option<u64> {
        self.count
    }

    /// The count in steps: of so many units that count so much together, in parts of [`WHOLE`]. Without a count it is 0.
    pub(crate) fn count_of(&self, counted: u64, units: usize) -> i64 {
        // ½ for a unit that counts all, and −½ for one that counts nothing.
        let more = 2 * i128::from(counted) - units as i128 * i128::from(WHOLE);
        let steps = more.saturating_mul(i128::from(self.count.unwrap_or(0))) + i128::from(WHOLE / 2);
        steps.div_euclid(i128::from(WHOLE)).clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// The standard deviation of the noise, in the units of a gradient; in clipping norms where there is a count.
    pub fn deviation(&self) -> f64 {
        self.variance.as_f64().sqrt() * self.step()
    }

    /// Whether the sum of a part of so many units, each of norm at most `norm`, can have this square.
    ///
    /// # Errors
    /// [`GateError::Failed`] for a sum that is not finite, or longer than clipped gradients can make it: the model does
    /// not do what it must, and nothing may be released.
    pub(crate) fn check(&self, squared: f64, (units, norm): (usize, f64)) -> Result<(), GateError> {
        // A NaN is within no range.
        if (0.0..=longest(units, norm)).contains(&squared.sqrt()) { Ok(()) } else { Err(GateError::Failed) }
    }

    /// Adds coordinates of the sum of one part, which was checked, to integers; or overwrites these, where they are still
    /// `empty`.
    pub(crate) fn add(&self, part: &[f32], (units, norm): (usize, f64), sum: &mut [i64], empty: bool) {
        // Neither depends on the part, so that sums without a unit stay what they are.
        let scale = 2f64.powi(-self.exponent) / self.unit(norm);
        match longest(units, norm) * scale <= 2f64.powi(50) {
            true => add_integers(part, sum, empty, scale, nearest),
            // Only noise of a millionth of the clipping norm and less has so fine a lattice.
            false => add_integers(part, sum, empty, scale, |value| value.round_ties_even() as i64),
        }
    }

    /// Noisy integers as gradients that were clipped to this norm, divided by the public divisor.
    pub(crate) fn gradients(&self, noisy: &[i64], norm: f64, divisor: f64) -> impl Iterator<Item = f32> {
        let scale = self.step() * self.unit(norm) / divisor;
        noisy.iter().map(
            #[inline(always)]
            move |&noisy| (noisy as f64 * scale) as f32,
        )
    }

    /// What sums are measured in.
    fn unit(&self, norm: f64) -> f64 {
        if self.count.is_some() { norm } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_way_to_integers_rounds_like_the_slow_one() {
        let small = (-4000..4000).map(|i| f64::from(i) / 8.0);
        let large = (0..51).flat_map(|bits| [-1.0, 1.0].map(|sign| sign * (2f64.powi(bits) + 0.5)));
        for value in small.chain(large).chain([0.0, -0.0, 1e-300]) {
            assert_eq!(nearest(value), value.round_ties_even() as i64, "{value}");
        }
    }
}
