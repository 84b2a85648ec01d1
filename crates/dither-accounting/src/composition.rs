//! Composition and amplification theorems for (ε, δ), as the textbooks state them.
//!
//! They need nothing but ε and δ of the parts, and are looser than an accountant that knows the mechanisms:
//! [`Curve`](crate::rdp::Curve) for most, [`gaussian`] for Gaussian noise. All hold under the
//! neighbour relation of the parts, unless they say otherwise.

use crate::error::AccountingError;
use crate::gaussian;
use crate::round::{exp, ln, ln_1p, sqrt, up};

/// ε and δ of a mechanism or of several.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loss {
    /// ε.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
}

/// More mechanisms than this are not composed one loss at a time.
const MAX_COUNT: u64 = 1_000_000;

/// The sums of all ε and of all δ, rounded up.
///
/// # Privacy
/// Holds for mechanisms chosen adaptively.
///
/// ```
/// use dither_accounting::composition::{Loss, basic};
/// let total = basic(&[Loss { epsilon: 0.5, delta: 1e-6 }; 4]);
/// assert!(total.epsilon >= 2.0 && total.epsilon < 2.0 + 1e-9);
/// ```
///
/// # References
/// Dwork and Roth, *The Algorithmic Foundations of Differential Privacy*, 2014, Theorem 3.16.
pub fn basic(parts: &[Loss]) -> Loss {
    let sum = |value: fn(&Loss) -> f64| at_worst(up(parts.iter().map(value).sum()));
    Loss { epsilon: sum(|part| part.epsilon), delta: sum(|part| part.delta).min(1.0) }
}

/// The loss of mechanisms that each see their own part of a partition of the units, rounded up.
///
/// `touched` is how many parts one step between neighbours can change: 1 under add/remove, 2 when a unit is replaced
/// and may change its part ([`Neighbors::distance`](dither_core::Neighbors::distance)).
///
/// # Privacy
/// The parts must be a function of each unit alone. ε and δ are the sums of the `touched` largest, each by itself.
///
/// ```
/// use dither_accounting::composition::{Loss, parallel};
/// let parts = [Loss { epsilon: 1.0, delta: 0.0 }, Loss { epsilon: 0.5, delta: 1e-6 }];
/// assert_eq!(parallel(&parts, 1), Loss { epsilon: 1.0, delta: 1e-6 });
/// ```
///
/// # References
/// McSherry, *Privacy Integrated Queries*, 2009, Theorem 4, for one part.
pub fn parallel(parts: &[Loss], touched: u32) -> Loss {
    let largest = |value: fn(&Loss) -> f64| {
        let mut values: Vec<f64> = parts.iter().map(value).map(at_worst).collect();
        values.sort_by(|a, b| b.total_cmp(a));
        values.truncate(touched as usize);
        match values[..] {
            [] => 0.0,
            [only] => only,
            _ => up(values.iter().sum()),
        }
    };
    Loss { epsilon: largest(|part| part.epsilon), delta: largest(|part| part.delta).min(1.0) }
}

/// Advanced composition of `count` mechanisms of the same loss, rounded up: ε√(2k ln(1/`slack`)) + kε(e^ε − 1) and
/// kδ + `slack`.
///
/// Worse than [`basic`] for few or lossy mechanisms; [`heterogeneous`] is never worse than either.
///
/// # Errors
/// [`AccountingError::OutOfRange`] for a slack that is not between 0 and 1, both excluded.
///
/// # Privacy
/// Holds for mechanisms chosen adaptively, with `count` and their loss fixed in advance.
///
/// ```
/// use dither_accounting::composition::{Loss, advanced};
/// let total = advanced(Loss { epsilon: 0.01, delta: 0.0 }, 10_000, 1e-6).unwrap();
/// assert!((total.epsilon - (5.2565 + 1.0050)).abs() < 1e-3 && total.delta >= 1e-6);
/// ```
///
/// # References
/// Dwork, Rothblum and Vadhan, *Boosting and Differential Privacy*, 2010, Theorem III.3; Dwork and Roth 2014, Theorem
/// 3.20.
pub fn advanced(part: Loss, count: u64, slack: f64) -> Result<Loss, AccountingError> {
    let slack = checked_slack(slack)?;
    let (count, epsilon) = (count as f64, at_worst(part.epsilon));
    let spread = epsilon * sqrt(2.0 * count * -ln(slack));
    let drift = count * epsilon * libm::expm1(epsilon);
    Ok(Loss {
        epsilon: at_worst(up(spread + drift)),
        delta: at_worst(up(count * at_worst(part.delta) + slack)).min(1.0),
    })
}

/// The composition of mechanisms of different losses, rounded up.
///
/// With S = Σε², D = Σ ε(e^ε − 1)/(e^ε + 1): ε is the smallest of Σε, D + √(2S ln(1/`slack`)) and
/// D + √(2S ln(e + √S/`slack`)); δ is 1 − (1 − `slack`)·Π(1 − δ).
///
/// # Errors
/// [`AccountingError::OutOfRange`] for a slack that is not between 0 and 1, both excluded.
///
/// # Privacy
/// Holds for mechanisms chosen adaptively, with their losses fixed in advance.
///
/// ```
/// use dither_accounting::composition::{Loss, advanced, heterogeneous};
/// let part = Loss { epsilon: 0.01, delta: 0.0 };
/// let total = heterogeneous(&vec![part; 10_000], 1e-6).unwrap();
/// assert!(total.epsilon < advanced(part, 10_000, 1e-6).unwrap().epsilon);
/// ```
///
/// # References
/// Kairouz, Oh and Viswanath, *The Composition Theorem for Differential Privacy*, 2015, Theorem 3.5.
pub fn heterogeneous(parts: &[Loss], slack: f64) -> Result<Loss, AccountingError> {
    let slack = checked_slack(slack)?;
    let sum = |value: fn(f64) -> f64| -> f64 { parts.iter().map(|part| value(at_worst(part.epsilon))).sum() };
    let squares = sum(|epsilon| epsilon * epsilon);
    // (e^ε − 1)/(e^ε + 1) = (1 − e^(−ε))/(1 + e^(−ε)).
    let drift = sum(|epsilon| epsilon * -libm::expm1(-epsilon) / (1.0 + exp(-epsilon)));
    let spread = (-ln(slack)).min(ln(std::f64::consts::E + sqrt(squares) / slack));
    let epsilon = up(drift + sqrt(2.0 * squares * spread)).min(up(sum(|epsilon| epsilon)));
    // 1 − Π(1 − δ), without the cancellation.
    let logs: f64 = parts.iter().map(|part| ln_1p(-at_worst(part.delta).clamp(0.0, 1.0))).sum();
    let delta = up(-libm::expm1(logs + ln_1p(-slack)));
    Ok(Loss { epsilon: at_worst(epsilon), delta: at_worst(delta).min(1.0) })
}

/// The smallest δ at which `count` mechanisms of the same loss are (`total`, δ)-private, rounded up.
///
/// # Errors
/// [`AccountingError::OutOfRange`] for more than a million mechanisms or a loss that is not finite.
///
/// # Privacy
/// Holds for mechanisms chosen adaptively, with `count` and their loss fixed in advance. Nothing smaller holds for all
/// (ε, δ)-private mechanisms: one that fails with probability δ and else is randomised response attains it.
///
/// ```
/// use dither_accounting::composition::{Loss, optimal_delta};
/// // Two answers of randomised response: beyond ε, both of them the truth.
/// let truth = 1.0 / (1.0 + (-1f64).exp());
/// let exact = truth * truth * (1.0 - (1f64 - 2.0).exp());
/// assert!((optimal_delta(Loss { epsilon: 1.0, delta: 0.0 }, 2, 1.0).unwrap() - exact).abs() < 1e-9);
/// ```
///
/// # References
/// Kairouz, Oh and Viswanath 2015, Theorem 3.3; here for every ε, not only for those of the same parity as `count`.
pub fn optimal_delta(part: Loss, count: u64, total: f64) -> Result<f64, AccountingError> {
    let range = AccountingError::OutOfRange {
        formula: "optimal composition",
        range: "at most a million mechanisms of finite, not negative loss",
    };
    let valid = part.epsilon >= 0.0 && part.epsilon.is_finite() && (0.0..=1.0).contains(&part.delta);
    if !(valid && count <= MAX_COUNT && total >= 0.0) {
        return Err(range);
    }
    // Of k answers, l are lies: the loss is (k − 2l)ε, with probability C(k,l)·e^((k−l)ε)/(1 + e^ε)^k.
    let (k, epsilon) = (count as f64, part.epsilon);
    let log_truth = -ln_1p(exp(-epsilon));
    let log_factorial = |n: f64| libm::lgamma(n + 1.0);
    let whole = log_factorial(k);
    let term = |lies: u64| {
        let l = lies as f64;
        let gain = -libm::expm1(total - (k - 2.0 * l) * epsilon);
        let log = whole - log_factorial(l) - log_factorial(k - l) + k * log_truth - l * epsilon;
        exp(log) * gain
    };
    let beyond: f64 = (0..=count).take_while(|&lies| (k - 2.0 * lies as f64) * epsilon > total).map(term).sum();
    // The logarithms of factorials are of the size of k ln k and accurate to a few ulps.
    let beyond = (up(beyond) * (1.0 + 1e-15 * (k + 2.0) * ln(k + 2.0) * 8.0)).min(1.0);
    let failed = k * ln_1p(-part.delta);
    let delta = if part.delta > 0.0 && count > 0 { -libm::expm1(failed) + exp(failed) * beyond } else { beyond };
    Ok(at_worst(up(delta)).min(1.0))
}

/// The smallest ε at which `count` mechanisms of the same loss are (ε, `delta`)-private, rounded up; `None` where no ε is
/// enough.
///
/// # Errors
/// As for [`optimal_delta`].
///
/// # Privacy
/// As for [`optimal_delta`].
///
/// ```
/// use dither_accounting::composition::{Loss, optimal_epsilon};
/// let part = Loss { epsilon: 0.1, delta: 0.0 };
/// assert_eq!(optimal_epsilon(part, 3, 0.0).unwrap().map(|total| (total * 1e9).round()), Some(0.3e9));
/// assert!(optimal_epsilon(part, 100, 1e-6).unwrap().unwrap() < 5.3);
/// ```
///
/// # References
/// Kairouz, Oh and Viswanath 2015, Theorem 3.3.
pub fn optimal_epsilon(part: Loss, count: u64, delta: f64) -> Result<Option<f64>, AccountingError> {
    let at = |total: f64| optimal_delta(part, count, total);
    at(0.0)?;
    let fits = |total: f64| at(total).is_ok_and(|least| least <= delta);
    let all = up(up(count as f64 * part.epsilon));
    Ok(if fits(0.0) {
        Some(0.0)
    } else if fits(all) {
        Some(up(crate::round::bisect(all, 0.0, fits)))
    } else {
        None
    })
}

/// ε on a random subset that a unit enters with probability `rate`, rounded up: ln(1 + p(e^ε − 1)). The δ that goes
/// with it is p·δ.
///
/// # Privacy
/// For Poisson samples under add/remove, and for samples of a fixed size when a unit is replaced. It does *not* hold
/// for Poisson samples when a unit is replaced and ε is that of replacing, nor for any fixed subset.
///
/// ```
/// use dither_accounting::composition::{amplified, base};
/// assert!((amplified(1.0, 0.01) - 0.017037).abs() < 1e-6);
/// assert!((base(amplified(1.0, 0.01), 0.01).unwrap() - 1.0).abs() < 1e-9);
/// ```
///
/// # References
/// Balle, Barthe and Gaboardi, *Privacy Amplification by Subsampling: Tight Analyses via Couplings and Divergences*,
/// 2018, Theorems 8 and 9.
pub fn amplified(epsilon: f64, rate: f64) -> f64 {
    let (epsilon, rate) = (at_worst(epsilon).max(0.0), if rate.is_nan() { 1.0 } else { rate.clamp(0.0, 1.0) });
    let loss = if rate == 0.0 {
        0.0
    } else if epsilon < 30.0 {
        ln_1p(rate * libm::expm1(epsilon))
    } else {
        epsilon + ln(rate + (1.0 - rate) * exp(-epsilon))
    };
    // The sum of two terms of this size.
    up(loss + 1e-15 * if epsilon < 30.0 { 0.0 } else { epsilon + 1.0 }).min(epsilon).max(0.0)
}

/// The largest ε of a mechanism that is `epsilon`-private on a sample, rounded down: ln(1 + (e^ε − 1)/p). `None` for
/// a rate that is not above 0 and at most 1, or a loss that is not a number or negative.
///
/// # Privacy
/// As for [`amplified`]: a mechanism of this loss is `epsilon`-private on the sample. The largest δ is δ/p.
///
/// # References
/// Balle, Barthe and Gaboardi 2018, Theorems 8 and 9, solved for ε.
pub fn base(epsilon: f64, rate: f64) -> Option<f64> {
    if !(rate > 0.0 && rate <= 1.0 && epsilon >= 0.0) {
        return None;
    }
    let loss = if epsilon < 30.0 {
        ln_1p(libm::expm1(epsilon) / rate)
    } else {
        epsilon + ln(1.0 / rate - (1.0 / rate - 1.0) * exp(-epsilon))
    };
    // What is amplified again is rounded up once more.
    Some((loss * (1.0 - 1e-11)).max(epsilon * (1.0 - 1e-11)))
}

/// The textbook σ/Δ₂ of Gaussian noise, √(2 ln(1.25/δ))/ε, rounded up.
///
/// [`gaussian::calibrate`] is exact, has no such range, and asks for less noise.
///
/// # Errors
/// [`AccountingError::OutOfRange`] unless 0 < ε ≤ 1 and 0 < δ < 1: at ε = 10 and δ = 10⁻⁶ the formula gives too little.
///
/// # Privacy
/// Continuous Gaussian noise of this multiple of the l2 sensitivity is (ε, δ)-private.
///
/// ```
/// use dither_accounting::composition::textbook_gaussian;
/// assert!((textbook_gaussian(1.0, 1e-5).unwrap() - 4.8448).abs() < 1e-4); // 3.7306 is enough
/// assert!(textbook_gaussian(10.0, 1e-6).is_err());
/// ```
///
/// # References
/// Dwork and Roth 2014, Theorem A.1.
pub fn textbook_gaussian(epsilon: f64, delta: f64) -> Result<f64, AccountingError> {
    textbook(epsilon, delta, 1.0, 1.25, "the textbook calibration of Gaussian noise")
}

/// The folklore σ/Δ₂ for `count` rounds of Gaussian noise on all of the data, √(2T ln(1/δ))/ε, rounded up.
///
/// [`gaussian::calibrate`] divided into √T is exact and asks for less noise. No formula of this
/// kind knows about sampling.
///
/// # Errors
/// [`AccountingError::OutOfRange`] unless 0 < ε ≤ 1, 0 < δ < 1 and the noise, priced exactly, is enough: for δ near 1
/// it is not.
///
/// # Privacy
/// `count` rounds of continuous Gaussian noise of this multiple of the l2 sensitivity are (ε, δ)-private together.
///
/// ```
/// use dither_accounting::composition::textbook_rounds;
/// assert!((textbook_rounds(1.0, 1e-5, 100).unwrap() - 47.985).abs() < 1e-3); // 37.306 is enough
/// assert!(textbook_rounds(8.0, 1e-5, 100).is_err());
/// ```
///
/// # References
/// Bun and Steinke 2016, Proposition 1.3, without its term of second order; the exact price is that of Balle and Wang,
/// *Improving the Gaussian Mechanism for Differential Privacy*, 2018, Theorem 8.
pub fn textbook_rounds(epsilon: f64, delta: f64, count: u64) -> Result<f64, AccountingError> {
    textbook(epsilon, delta, count as f64, 1.0, "the folklore calibration of repeated Gaussian noise")
}

fn textbook(
    epsilon: f64,
    delta: f64,
    count: f64,
    constant: f64,
    formula: &'static str,
) -> Result<f64, AccountingError> {
    let range = AccountingError::OutOfRange { formula, range: "0 < epsilon <= 1 and a small delta" };
    if !(epsilon > 0.0 && epsilon <= 1.0 && delta > 0.0 && delta < 1.0) {
        return Err(range);
    }
    let multiplier = up(sqrt(2.0 * count * ln(constant / delta)) / epsilon);
    let enough = count == 0.0 || gaussian::delta(epsilon, up(sqrt(count) / multiplier)) <= delta;
    if enough && multiplier.is_finite() { Ok(multiplier) } else { Err(range) }
}

fn checked_slack(slack: f64) -> Result<f64, AccountingError> {
    let range = AccountingError::OutOfRange { formula: "advanced composition", range: "a slack between 0 and 1" };
    if slack > 0.0 && slack < 1.0 { Ok(slack) } else { Err(range) }
}

/// A NaN stands for a loss that nobody knows.
fn at_worst(value: f64) -> f64 {
    if value.is_nan() { f64::INFINITY } else { value }
}
