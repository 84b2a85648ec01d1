//! Loops over numbers, compiled for the widest registers of the machine that runs them.
//!
//! Products and sums are never fused, so that the width of the registers changes no bit of an element.

use std::f32::consts::{FRAC_1_SQRT_2, LOG2_E};

/// Runs a closure in code for the widest registers there are. It must be marked `#[inline(always)]`: what is called and
/// not inlined is compiled for the narrowest.
#[inline(always)]
pub fn wide<R>(run: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(run)
}

/// e^x within 2 units in the last place; 0 and not a denormal number for x below −87, and NaN for NaN.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // 1.5 · 2^23: whoever adds it rounds to an integer, which then stands in the low bits.
    const MAGIC: f32 = 12_582_912.0;
    let clamped = if x > 88.0 { 88.0 } else { x };
    let shifted = clamped * LOG2_E + MAGIC;
    let power = shifted - MAGIC;
    // ln 2 in two parts, so that the rest is exact.
    let rest = clamped - power * (355.0 / 512.0) + power * 2.121_944_4e-4;
    // The Taylor series: on ±(ln 2)/2 what is left out is below 2^-26.
    let mut sum = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = sum * rest + coefficient;
    }
    let scale = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    if x < -87.0 { 0.0 } else { sum * scale }
}

/// Φ(x) and φ(x) of the standard normal law, Φ within 2·10⁻⁷.
///
/// # References
/// Abramowitz, Stegun, *Handbook of Mathematical Functions* (1964), 7.1.26.
#[inline(always)]
pub fn normal(x: f32) -> (f32, f32) {
    let bell = exp(-0.5 * x * x);
    let t = 1.0 / (1.0 + 0.327_591_1 * FRAC_1_SQRT_2 * x.abs());
    let mut sum = 1.061_405_4;
    for coefficient in [-1.453_152_1, 1.421_413_8, -0.284_496_74, 0.254_829_6] {
        sum = sum * t + coefficient;
    }
    let tail = 0.5 * sum * t * bell;
    let below = if x < 0.0 { tail } else { 1.0 - tail };
    (below, bell * 0.398_942_3)
}

/// Σx² in 64 bits; NaN or infinite exactly if an element is.
#[inline(always)]
pub fn sum_of_squares(x: &[f32]) -> f64 {
    dot(x, x)
}

/// Σxy in 64 bits, where no product of two numbers overflows or underflows.
#[inline(always)]
pub fn dot(x: &[f32], y: &[f32]) -> f64 {
    const LANES: usize = 16;
    let (mut sums, whole) = ([0.0f64; LANES], x.len() / LANES * LANES);
    for (x, y) in x.chunks_exact(LANES).zip(y.chunks_exact(LANES)) {
        for lane in 0..LANES {
            sums[lane] += f64::from(x[lane]) * f64::from(y[lane]);
        }
    }
    let rest: f64 = x[whole..].iter().zip(&y[whole..]).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum();
    sums.iter().sum::<f64>() + rest
}

/// Σx in 32 bits, by sixteen partial sums.
#[inline(always)]
pub fn sum(x: &[f32]) -> f32 {
    fold(x, x, |x, _| x)
}

/// Σ of a function of pairs in 32 bits, by sixteen partial sums.
#[inline(always)]
pub fn fold(x: &[f32], y: &[f32], f: impl Fn(f32, f32) -> f32) -> f32 {
    const LANES: usize = 16;
    let (mut sums, whole) = ([0.0f32; LANES], x.len() / LANES * LANES);
    for (x, y) in x.chunks_exact(LANES).zip(y.chunks_exact(LANES)) {
        for lane in 0..LANES {
            sums[lane] += f(x[lane], y[lane]);
        }
    }
    let rest: f32 = x[whole..].iter().zip(&y[whole..]).map(|(&x, &y)| f(x, y)).sum();
    sums.iter().sum::<f32>() + rest
}

/// The largest number that is one; −∞ of none.
#[inline(always)]
pub fn largest(x: &[f32]) -> f32 {
    const LANES: usize = 16;
    let (mut tops, whole) = ([f32::NEG_INFINITY; LANES], x.len() / LANES * LANES);
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    for x in x.chunks_exact(LANES) {
        for lane in 0..LANES {
            tops[lane] = larger(tops[lane], x[lane]);
        }
    }
    tops.iter().chain(&x[whole..]).fold(f32::NEG_INFINITY, |a, &b| larger(a, b))
}

/// y += a·x.
#[inline(always)]
pub fn add_scaled(y: &mut [f32], a: f32, x: &[f32]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y += a * x;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_close_to_those_of_64_bits() {
        for i in -8700..8800 {
            let x = i as f32 * 0.01;
            let exact = f64::from(x).exp();
            assert!((f64::from(exp(x)) - exact).abs() <= 3e-7 * exact, "{x}");
        }
        assert_eq!(exp(-1e9), 0.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert!(exp(f32::NAN).is_nan() && exp(1e9).is_finite());
        // Φ from a table of the normal law.
        for (x, expected) in [(0.0, 0.5), (1.0, 0.841_344_8), (-1.96, 0.024_997_9), (3.0, 0.998_650_1)] {
            assert!((normal(x).0 - expected).abs() < 3e-7, "{x}");
        }
    }

    #[test]
    fn sums_see_every_element() {
        let numbers: Vec<f32> = (0..37).map(|i| i as f32).collect();
        assert_eq!(sum(&numbers), 666.0);
        assert_eq!((largest(&numbers), largest(&[f32::NAN, -1.0])), (36.0, -1.0));
        assert_eq!(sum_of_squares(&numbers), 16206.0);
        assert!(sum_of_squares(&[1e30, 1e-30]) > 9.9e59);
    }
}
