//! The Rényi loss of single mechanisms at one order.

use crate::round::{exp, ln, ln_1p, up};

use super::pure;

/// The Rényi loss of order `alpha` > 1 of continuous Laplace noise, rounded up.
///
/// `noise_multiplier` is the scale divided by the sensitivity.
///
/// # Privacy
/// (α, result)-Rényi private for a number, and for a vector whose l1 norm moves by at most the sensitivity: the
/// logarithm of the moment is convex in the shift and zero at zero, so a shift that is spread over coordinates
/// costs no more than the same shift in one.
///
/// ```
/// use dither_accounting::rdp;
/// // α/(2α−1)·e^((α−1)/b) + (α−1)/(2α−1)·e^(−α/b) at α = 2, b = 1.
/// let moment = 2.0 / 3.0 * 1f64.exp() + 1.0 / 3.0 * (-2f64).exp();
/// assert!((rdp::laplace(1.0, 2.0) - moment.ln()).abs() < 1e-9);
/// ```
///
/// # References
/// Mironov, *Rényi Differential Privacy*, 2017, Proposition 6 and Table II.
pub fn laplace(noise_multiplier: f64, alpha: f64) -> f64 {
    two_sided(1.0 / noise_multiplier, alpha, |order| order / (2.0 * order + 1.0))
}

/// The Rényi loss of order `alpha` > 1 of discrete Laplace noise P(x) ∝ exp(−|x|/`scale`), rounded up.
///
/// `sensitivity` and `scale` are in lattice steps.
///
/// # Privacy
/// As for [`laplace`], for integers and vectors of integers; the moment is the exact sum over the lattice. With
/// a = 1/scale, x = sensitivity·a, it is e^(−x/2)·(cosh((α−½)x) + τ·sinh((α−½)x)) where
/// τ = tanh(a/2)/tanh((α−½)a): three geometric series, below zero, between and above the shift.
///
/// ```
/// use dither_accounting::rdp;
/// // One step apart, the mechanism is exactly as bad as randomised response.
/// assert!((rdp::discrete_laplace(1, 2.0, 3.0) - rdp::pure(0.5, 3.0)).abs() < 1e-9);
/// assert!(rdp::discrete_laplace(10, 20.0, 3.0) < rdp::pure(0.5, 3.0));
/// ```
///
/// # References
/// The sum is elementary; its limit for a fine lattice is Mironov 2017, Proposition 6.
pub fn discrete_laplace(sensitivity: u64, scale: f64, alpha: f64) -> f64 {
    if sensitivity == 0 {
        return 0.0;
    }
    let step = 1.0 / scale;
    two_sided(sensitivity as f64 * step, alpha, |order| {
        // (1 − τ)/2, without the cancellation: e^(−a)/(1 + e^(−a))·(1 − e^(−2(α−1)a))/(1 − e^(−(2α−1)a)).
        let (near, far) = (-libm::expm1(-2.0 * order * step), -libm::expm1(-(2.0 * order + 1.0) * step));
        // Below the range of floats the lattice does not show.
        if near > 0.0 { near / far * exp(-step) / (1.0 + exp(-step)) } else { order / (2.0 * order + 1.0) }
    })
}

/// loss + ln(1 − w + w·e^(−(2α−1)·loss))/(α−1), the weight w a function of α − 1.
fn two_sided(loss: f64, alpha: f64, weight: impl Fn(f64) -> f64) -> f64 {
    if !(loss.is_finite() && alpha < f64::INFINITY) {
        return pure(loss, alpha);
    }
    let alpha = alpha.max(1.0 + f64::EPSILON);
    let order = alpha - 1.0;
    let saved = -ln_1p(weight(order) * libm::expm1(-(2.0 * alpha - 1.0) * loss)) / order;
    // The difference cancels where α·loss is small, down to α·loss²/2. There the pure bound is as good.
    let exact = loss - saved + 1e-14 * (loss + saved);
    if exact.is_nan() { pure(loss, alpha) } else { up(exact.max(0.0)).min(pure(loss, alpha)) }
}

/// The Rényi loss of order `alpha` > 1 of randomised response over so many values, rounded up.
///
/// The truth is answered with probability e^ε/(e^ε + values − 1), every other value with the same share of the
/// rest.
///
/// # Privacy
/// (α, result)-Rényi private for replacing one value by another; exact.
///
/// ```
/// use dither_accounting::rdp;
/// assert!((rdp::randomized_response(1.0, 2, 4.0) - rdp::pure(1.0, 4.0)).abs() < 1e-9);
/// assert!(rdp::randomized_response(1.0, 10, 4.0) < rdp::pure(1.0, 4.0));
/// ```
///
/// # References
/// Mironov 2017, Proposition 5, for two values; the sum over more is elementary.
pub fn randomized_response(epsilon: f64, values: u64, alpha: f64) -> f64 {
    let bound = pure(epsilon, alpha);
    if !(epsilon.is_finite() && alpha < f64::INFINITY) {
        return bound;
    }
    // The moment (e^(αε) + e^((1−α)ε) + k − 2)/(e^ε + k − 1) is one plus (e^(αε) − 1)(1 − e^((1−α)ε))/(e^ε + k − 1).
    let alpha = alpha.max(1.0 + f64::EPSILON);
    let (long, short) = (alpha * epsilon, (alpha - 1.0) * epsilon);
    let sides = -libm::expm1(-long) * -libm::expm1(-short);
    let rest = ln_1p((values.max(2) - 1) as f64 * exp(-epsilon));
    let log_excess = short + ln(sides) - rest;
    let moment = if log_excess < 600.0 { ln_1p(exp(log_excess)) } else { log_excess + 1e-200 };
    let exact = up(moment / (alpha - 1.0));
    if exact.is_nan() { bound } else { exact.min(bound) }
}
