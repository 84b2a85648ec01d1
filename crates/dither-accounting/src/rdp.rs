//! Rényi differential privacy: curves of events and the tight conversion to (ε, δ).

mod curve;
mod mechanism;
mod sampled;

pub use curve::Curve;
pub(crate) use curve::concentrated;
pub use mechanism::{discrete_laplace, laplace, randomized_response};

use crate::round::{cosh, exp, ln, ln_1p, sinh, up};

/// The Rényi loss of order `alpha` > 1 of any ε-private mechanism, rounded up.
///
/// `epsilon` is dimensionless. The bound is attained by randomised response, so nothing smaller holds for
/// every ε-private mechanism. The curves of [`laplace`] and [`discrete_laplace`] are lower.
///
/// # Privacy
/// (α, result)-Rényi private for every pair of neighbours of the ε-private mechanism. An `alpha` of infinity
/// gives ε itself.
///
/// ```
/// use dither_accounting::rdp;
/// assert!((rdp::pure(0.1, 2.0) - 0.0099).abs() < 1e-4);
/// assert_eq!(rdp::pure(0.5, f64::INFINITY), 0.5);
/// ```
///
/// # References
/// Bun and Steinke, *Concentrated Differential Privacy*, 2016, Proposition 3.3. The quotient
/// (sinh αε − sinh (α−1)ε)/sinh ε is cosh((α−½)ε)/cosh(ε/2), evaluated here as one plus a positive term.
pub fn pure(epsilon: f64, alpha: f64) -> f64 {
    if !(epsilon.is_finite() && alpha < f64::INFINITY) {
        return if epsilon.is_nan() { f64::INFINITY } else { epsilon };
    }
    // The loss grows with the order, so an odd α is taken for the smallest float above one.
    let alpha = alpha.max(1.0 + f64::EPSILON);
    let order = alpha - 1.0;
    let loss = if alpha * epsilon < 600.0 {
        ln_1p(2.0 * sinh(alpha * epsilon / 2.0) * sinh(order * epsilon / 2.0) / cosh(epsilon / 2.0)) / order
    } else {
        // The smaller exponential of the larger cosine is below 10⁻²⁶⁰ here.
        epsilon - ln_1p(libm::exp(-epsilon)) / order
    };
    // Rounding may lift it over the pure bound, which always holds.
    up(loss).min(epsilon)
}

/// The Rényi loss of order `alpha` > 1 of any ε-bounded-range mechanism, rounded up: the smaller of αε²/8 and that
/// of [`pure`], since it is ε-private as well.
///
/// # Privacy
/// (α, result)-Rényi private for every pair of neighbours of the mechanism. *Proof.* On one pair, the privacy loss L
/// of an answer drawn from the first lies in an interval of length ε, so that ln E e^(tL) ≤ t·E L + t²ε²/8 for every
/// t (Hoeffding's lemma). All losses are finite, so both have the same answers and E e^-L = 1: t = −1 gives
/// E L ≤ ε²/8, and t = α − 1 gives (α − 1)·D ≤ (α − 1)ε²/8 + (α − 1)²ε²/8, which is D ≤ αε²/8. Losses of both signs
/// occur, or only zeros, so none is above ε, and [`pure`] holds as well. ∎
///
/// ```
/// use dither_accounting::rdp;
/// assert!(rdp::bounded_range(1.0, 2.0) < 0.2501 && rdp::pure(1.0, 2.0) > 0.69);
/// assert_eq!(rdp::bounded_range(0.5, f64::INFINITY), 0.5);
/// ```
///
/// # References
/// Dong, Durfee and Rogers, *Optimal Differential Privacy Composition for Exponential Mechanisms*, 2020 (the
/// definition). Cesar and Rogers, *Bounding, Concentrating, and Truncating*, 2021, and Rogers and Steinke, *A Better
/// Privacy Analysis of the Exponential Mechanism*, differentialprivacy.org, 2021 (ε²/8-zCDP).
pub fn bounded_range(epsilon: f64, alpha: f64) -> f64 {
    // `min` takes the pure loss where the product is no number.
    up(alpha * up(epsilon * epsilon) / 8.0).min(pure(epsilon, alpha))
}

/// What is added to a Rényi loss of order `alpha` = 1 + `order` to get an ε at this δ, rounded up.
///
/// It may be negative; the ε it leads to is never below zero. Infinite for a δ of zero and a finite order.
///
/// # Privacy
/// If a mechanism is (1 + order, r)-Rényi private, it is (max(0, r + result), δ)-private.
///
/// ```
/// use dither_accounting::rdp;
/// let epsilon = 5.4 / 2.0 + rdp::conversion(4.4, 1e-5);
/// assert!((epsilon - 4.728507).abs() < 1e-3);
/// ```
///
/// # References
/// Canonne, Kamath and Steinke, *The Discrete Gaussian for Differential Privacy*, 2020, Proposition 12.
pub fn conversion(order: f64, delta: f64) -> f64 {
    if order == f64::INFINITY {
        return 0.0;
    }
    // Below 10⁻³⁰⁰ the terms overflow, and the result is as good as infinite.
    if !(delta > 0.0 && order > 1e-300) {
        return f64::INFINITY;
    }
    let delta = delta.min(1.0);
    // The terms have both signs: each is rounded by itself.
    let gain = ln_1p(1.0 / order);
    let price = (-ln(delta) - ln_1p(order)) / order;
    let magnitude = (ln(delta).abs() + ln_1p(order)) / order + gain;
    price - gain + up(magnitude) - magnitude
}

/// The smallest ε at this δ over all real orders of a Rényi curve, rounded up; infinite where none is finite.
///
/// `curve` is called with real α > 1 and must be rounded up. Every order gives a valid ε, so the search can
/// only lose tightness.
///
/// # Privacy
/// If the mechanism is (α, curve(α))-Rényi private for every α > 1, it is (result, δ)-private.
///
/// ```
/// use dither_accounting::rdp;
/// let epsilon = rdp::epsilon(|alpha| alpha / 2.0, 1e-5);
/// assert!((epsilon - 4.728507).abs() < 1e-3);
/// ```
///
/// # References
/// Canonne, Kamath and Steinke 2020, Proposition 12, for each order.
pub fn epsilon(curve: impl Fn(f64) -> f64, delta: f64) -> f64 {
    minimum(|order| {
        // `1 + order` rounds; the curve grows with the order and is taken a little above it.
        up(curve(up(1.0 + order)) + conversion(order, delta)).max(0.0)
    })
}

/// The smallest δ at this ε over all real orders of a Rényi curve, rounded up; 1 where nothing smaller holds.
///
/// `curve` is as for [`epsilon`].
///
/// # Privacy
/// If the mechanism is (α, curve(α))-Rényi private for every α > 1, it is (ε, result)-private.
///
/// ```
/// use dither_accounting::rdp;
/// let delta = rdp::delta(|alpha| alpha / 2.0, 4.7286);
/// assert!(delta < 1e-5 && delta > 0.999e-5);
/// ```
///
/// # References
/// Canonne, Kamath and Steinke 2020, Proposition 12, solved for δ.
pub fn delta(curve: impl Fn(f64) -> f64, epsilon: f64) -> f64 {
    let epsilon = epsilon.max(0.0);
    let log = minimum(|order| {
        let margin = curve(up(1.0 + order)) - epsilon - ln_1p(1.0 / order);
        order * margin - ln_1p(order) + 1e-12 * (1.0 + order * (epsilon + 1.0))
    });
    if log < 0.0 { up(exp(log)) } else { 1.0 }
}

/// The smallest value over orders α − 1; infinite where there is none. Any order would do.
fn minimum(value: impl Fn(f64) -> f64) -> f64 {
    let at = |log_order: f64| {
        let value = value(libm::exp2(log_order));
        if value.is_nan() { f64::INFINITY } else { value }
    };
    // Orders from 2⁻²⁴ to 2⁵⁰ above one cover an ε from 10⁻⁹ to 10⁹ with δ down to 10⁻¹⁸. The value has several valleys
    // where a curve is the smaller of two; a step of an octave finds the deepest.
    let nodes = |low: f64, cell: f64, cells: i32| {
        let node = |i| (at(low + cell * f64::from(i)), low + cell * f64::from(i));
        (0..=cells).map(node).min_by(|x, y| x.0.total_cmp(&y.0)).unwrap_or((f64::INFINITY, low))
    };
    let (_, octave) = nodes(-24.0, 1.0, 74);
    let (mut best, middle) = nodes(octave - 1.0, 1.0 / 16.0, 32);
    // Around it, golden section.
    let shrink = 0.618_033_988_749_894_9;
    let (mut low, mut high) = (middle - 1.0 / 16.0, middle + 1.0 / 16.0);
    let (mut left, mut right) = (high - shrink * (high - low), low + shrink * (high - low));
    let (mut at_left, mut at_right) = (at(left), at(right));
    while high - low > 1e-7 {
        best = best.min(at_left).min(at_right);
        if at_left < at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - shrink * (high - low);
            at_left = at(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + shrink * (high - low);
            at_right = at(right);
        }
    }
    best.min(at_left).min(at_right)
}
