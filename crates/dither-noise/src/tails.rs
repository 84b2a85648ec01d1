//! How large noise can be: tails and quantiles, rounded towards larger errors.
//!
//! The functions are those of the pure-Rust `libm`, so that a threshold is the same number on every platform.

use dither_core::Ratio;

/// Relative error allowed for one tail in floating point.
///
/// An exponent of at most 745 (beyond, the tail is below the smallest float) with a relative error of a few
/// 2^-53 moves its exponential by less than 4·10⁻¹³; the other operations add a few 2^-53.
const MARGIN: f64 = 1e-12;

/// An upper bound on P(X ≥ `least`) for discrete Laplace noise X, tight to a relative 2·10⁻¹².
///
/// ```
/// use dither_core::Ratio;
/// use dither_noise::laplace_tail;
/// let scale = Ratio::new(1, 1).unwrap();
/// let exact = (-3.0f64).exp() / (1.0 + (-1.0f64).exp());
/// assert!(laplace_tail(scale, 3) >= exact && laplace_tail(scale, 3) < exact * 1.0001);
/// assert!(laplace_tail(scale, 0) > 0.5, "zero itself counts");
/// ```
///
/// # References
/// Summation of P(x) = (1 − q)/(1 + q) · q^|x| for q = exp(−1/scale): P(X ≥ k) = q^k/(1 + q) for k ≥ 0.
pub fn laplace_tail(scale: Ratio, least: i128) -> f64 {
    let rate = scale.denominator() as f64 / scale.numerator() as f64;
    let tail = |k: f64| libm::exp(-k * rate) / (1.0 + libm::exp(-rate));
    if least >= 0 {
        // Below the normal floats relative errors mean nothing; the smallest normal one covers them.
        return tail(least as f64) * (1.0 + MARGIN) + f64::MIN_POSITIVE;
    }
    // P(X ≥ k) = 1 − P(X ≥ 1 − k).
    (1.0 - tail(1.0 - least as f64) * (1.0 - MARGIN)).min(1.0)
}

/// An upper bound on P(X ≥ `least`) for discrete Gaussian noise X of parameter σ² = `variance`: that of a normal
/// variable to reach `least` − 1, by the argument of [`gaussian_quantile`]; one half or more for `least` up to one.
///
/// ```
/// use dither_core::Ratio;
/// use dither_noise::gaussian_tail;
/// let variance = Ratio::new(1_000_000, 1).unwrap();
/// // Φ(−1.999) = 0.022804 for P(X ≥ 2000), which is 0.022777.
/// assert!((gaussian_tail(variance, 2_000) - 0.022_804).abs() < 1e-6);
/// assert_eq!(gaussian_tail(variance, 0), 1.0);
/// ```
///
/// # References
/// Canonne, Kamath and Steinke, *The Discrete Gaussian for Differential Privacy*, 2020, section 3 (tail bounds).
pub fn gaussian_tail(variance: Ratio, least: i128) -> f64 {
    if least < 1 {
        return 1.0;
    }
    let width = (2.0 * variance.as_f64()).sqrt();
    (0.5 * libm::erfc((least - 1) as f64 / width) * (1.0 + MARGIN) + f64::MIN_POSITIVE).min(1.0)
}

/// The smallest k with P(|X| ≤ k) ≥ `probability` for discrete Laplace noise, in lattice steps; where the
/// float arithmetic leaves a doubt, the next one. `None` unless the probability lies in [0, 1).
///
/// ```
/// use dither_core::Ratio;
/// use dither_noise::laplace_quantile;
/// assert_eq!(laplace_quantile(Ratio::new(10, 1).unwrap(), 0.95), Some(30));
/// assert_eq!(laplace_quantile(Ratio::new(10, 1).unwrap(), 1.0), None);
/// ```
pub fn laplace_quantile(scale: Ratio, probability: f64) -> Option<u128> {
    let outside = outside(probability)?;
    first_integer(|k| i128::try_from(k + 1).is_ok_and(|next| 2.0 * laplace_tail(scale, next) <= outside))
}

/// A k with P(|X| ≤ k) ≥ `probability` for discrete Gaussian noise of parameter σ² = `variance`, in lattice
/// steps: the Gaussian quantile rounded up, at most one step more than the smallest such k.
/// `None` unless the probability lies in [0, 1).
///
/// P(|X| ≤ k) = 1 − 2·P(X ≥ k + 1) ≥ 1 − 2·P(N(0, σ²) ≥ k), since the masses from k + 1 on sum to at most the
/// integral from k, and all of them to at least σ√(2π).
///
/// ```
/// use dither_core::Ratio;
/// use dither_noise::gaussian_quantile;
/// assert_eq!(gaussian_quantile(Ratio::new(10_000, 1).unwrap(), 0.95), Some(196));
/// ```
///
/// # References
/// Canonne, Kamath and Steinke, *The Discrete Gaussian for Differential Privacy*, 2020, section 3 (tail bounds).
pub fn gaussian_quantile(variance: Ratio, probability: f64) -> Option<u128> {
    let outside = outside(probability)?;
    let width = (2.0 * variance.as_f64()).sqrt();
    first_integer(|k| libm::erfc(k as f64 / width) * (1.0 + MARGIN) + f64::MIN_POSITIVE <= outside)
}

/// The smallest integer for which a monotone condition holds, up to 2^120; `None` if there is none.
///
/// ```
/// use dither_noise::first_integer;
/// assert_eq!(first_integer(|k| k * k >= 50), Some(8));
/// assert_eq!(first_integer(|_| false), None);
/// ```
pub fn first_integer(holds: impl Fn(u128) -> bool) -> Option<u128> {
    if holds(0) {
        return Some(0);
    }
    let mut above = (0..=120).map(|power| 1u128 << power).find(|&candidate| holds(candidate))?;
    let mut below = above / 2;
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if holds(middle) {
            above = middle;
        } else {
            below = middle;
        }
    }
    Some(above)
}

/// The probability that is left, made smaller by more than the subtraction can have made it larger.
fn outside(probability: f64) -> Option<f64> {
    (0.0..1.0).contains(&probability).then_some((1.0 - probability) * (1.0 - MARGIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ratio(numerator: u128, denominator: u128) -> Ratio {
        Ratio::new(numerator, denominator).unwrap()
    }

    proptest! {
        #[test]
        fn a_laplace_tail_bounds_the_sum_of_its_masses(n in 1u128..400, d in 1u128..40, least in -60i128..60) {
            let rate = d as f64 / n as f64;
            let mass = |x: i128| (rate / 2.0).tanh() * (-rate * x.unsigned_abs() as f64).exp();
            // The masses beyond 60 scales sum to less than 10⁻²⁵ of the whole.
            let far = least + 40_000;
            let sum: f64 = (least..far).rev().map(mass).sum();
            let bound = laplace_tail(ratio(n, d), least);
            prop_assert!(bound >= sum * (1.0 - 1e-12), "{} < {}", bound, sum);
            prop_assert!(bound <= sum * (1.0 + 1e-9) + 1e-300, "{} > {}", bound, sum);
        }

        #[test]
        fn a_gaussian_quantile_covers_and_is_at_most_two_steps_wide(
            n in 1u128..4000, d in 1u128..8, p in 0.0f64..0.9999,
        ) {
            let variance = ratio(n, d).as_f64();
            let mass = |x: u128| (-((x * x) as f64) / (2.0 * variance)).exp();
            let total = 1.0 + 2.0 * (1..2_000).map(mass).sum::<f64>();
            let inside = |k: u128| (1.0 + 2.0 * (1..=k).map(mass).sum::<f64>()) / total;
            let k = gaussian_quantile(ratio(n, d), p).unwrap();
            prop_assert!(inside(k) >= p - 1e-12);
            prop_assert!(k < 2 || inside(k - 2) < p + 1e-12);
        }
    }

    #[test]
    fn a_gaussian_tail_bounds_the_sum_of_its_masses() {
        for (n, d) in [(1, 9), (1, 1), (25, 2), (10_000, 1)] {
            let variance = ratio(n, d).as_f64();
            let mass = |x: i128| (-((x * x) as f64) / (2.0 * variance)).exp();
            let total: f64 = (-4_000..=4_000).map(mass).sum();
            for least in (-3..=(6.0 * variance.sqrt()) as i128).chain([1, 2, 40]) {
                let exact = (least..=4_000).rev().map(mass).sum::<f64>() / total;
                let (bound, next) = (gaussian_tail(ratio(n, d), least), gaussian_tail(ratio(n, d), least + 2));
                assert!(
                    bound >= exact && (least < 1 || exact < 1e-290 || next <= exact * (1.0 + 1e-9)),
                    "{n}/{d} {least}: {bound} {exact}"
                );
            }
        }
    }

    #[test]
    fn fp_14_a_laplace_quantile_is_the_smallest_that_covers() {
        for (n, d) in [(1, 10), (1, 2), (1, 1), (7, 3), (1_000, 1), (1 << 50, 1)] {
            let q = (-(d as f64) / n as f64).exp();
            for p in [0.0, 0.5, 0.9, 0.95, 0.999_999] {
                let k = laplace_quantile(ratio(n, d), p).unwrap();
                let inside = |k: f64| 1.0 - 2.0 * q.powf(k + 1.0) / (1.0 + q);
                assert!(inside(k as f64) >= p - 1e-9, "scale {n}/{d} at {p}");
                assert!(k == 0 || inside(k as f64 - 1.0) < p + 1e-9, "scale {n}/{d} at {p}");
            }
        }
    }

    #[test]
    fn odd_probabilities_have_no_quantile() {
        for p in [-0.1, 1.0, 1.5, f64::NAN, f64::INFINITY] {
            assert!(laplace_quantile(ratio(1, 1), p).is_none() && gaussian_quantile(ratio(1, 1), p).is_none());
        }
    }
}
