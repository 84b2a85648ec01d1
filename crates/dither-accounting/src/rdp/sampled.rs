//! The Rényi loss of mechanisms on random subsets.
//!
//! Throughout, P is the law of the answer with the unit, Q without it, r = P/Q, and A = E_Q (1 − p + p·r)^α.
//! The Rényi loss of order α of the sampled mechanism against Q is ln A/(α−1).

use crate::round::{exp, ln, ln_1p, up};

/// ln(exp(a) + exp(b)), either may be −∞.
fn log_add(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    if high == f64::NEG_INFINITY { high } else { high + ln_1p(exp(low - high)) }
}

/// ln(1 + e^x), for x of any size.
fn log_one_plus(x: f64) -> f64 {
    if x > 40.0 { x + exp(-x) } else { ln_1p(exp(x)) }
}

/// ln(e^x − 1) for x ≥ 0.
fn log_excess(x: f64) -> f64 {
    if x > 40.0 { x + ln_1p(-exp(-x)) } else { ln(libm::expm1(x)) }
}

/// ln((1+y)^α − 1 − αy) for y > −1 and α > 1, where `log` = ln(1 + y); −∞ at y = 0.
///
/// The difference is never negative. It is computed to a relative error of a few dozen ulps times α·`log`.
fn log_bregman(y: f64, log: f64, alpha: f64) -> f64 {
    let order = alpha - 1.0;
    if alpha * log > 500.0 {
        return alpha * log; // which is more, and next to nothing more unless α is next to one
    }
    if y.abs() * alpha.max(2.0) >= 0.1 {
        return ln(((1.0 + y) * libm::expm1(order * log) - order * y).max(0.0));
    }
    // Σ over k ≥ 2 of C(α,k)·y^k; each term is below a twentieth of the one before.
    let tail = (3..=14).rev().fold(1.0, |rest, k| 1.0 + (alpha - f64::from(k - 1)) / f64::from(k) * y * rest);
    ln(alpha * order / 2.0 * tail) + 2.0 * ln(y.abs())
}

/// How many nodes a quadrature may have. At more, [`gaussian`] leaves the order to others.
const MAX_NODES: f64 = 32_768.0;

/// How many of them are passed over at once.
const BLOCK: u32 = 16;

/// The Rényi loss of order `alpha` > 1 of Gaussian noise on a Poisson sample, rounded up, in both directions; `None`
/// where the quadrature would be too long: noise multipliers below a twentieth, or orders in the hundred thousands.
///
/// A − 1 = E φ(y) for φ(y) = (1+y)^α − 1 − αy ≥ 0 and y = q(e^((2z−1)/2σ²) − 1), because y has mean zero under
/// z ~ N(0, σ²). In u = z/σ the integrand is analytic for |Im u| < πσ, where 1 + y first meets zero, so the
/// trapezoid rule of step h is off by a factor of e^(d²/2 − 2πd/h) for every d up to πσ: here e^(−75). Nothing
/// cancels, whatever the order, and integer orders are no exception.
///
/// # Privacy
/// For add/remove neighbours. The direction computed, sample against no sample, is the worse: the reflection that
/// swaps N(0,σ²) and N(1,σ²) makes Theorem 5 of the reference apply.
///
/// # References
/// Mironov, Talwar and Zhang, *Rényi Differential Privacy of the Sampled Gaussian Mechanism*, 2019, Theorems 4
/// and 5. Trefethen and Weideman, *The Exponentially Convergent Trapezoidal Rule*, 2014, Theorem 5.1.
pub(super) fn gaussian(rate: f64, sigma: f64, alpha: f64) -> Option<f64> {
    let strip = (std::f64::consts::PI * sigma).min(12.0);
    let step = 2.0 * std::f64::consts::PI * strip / (75.0 + strip * strip / 2.0);
    // The mass lies around zero and around α/σ; twelve deviations beyond them nothing is left.
    let low = -12.0;
    let nodes = ((alpha.max(2.0) / sigma + 24.0) / step).ceil();
    // A NaN is refused as well.
    if !(nodes < MAX_NODES && sigma > 1e-3) {
        return None;
    }
    let (log_rate, shift) = (ln(rate), 0.5 / (sigma * sigma));
    let mut total = (f64::NEG_INFINITY, 0.0);
    // ln(1 + y), with y, at a node.
    let at = |u: f64| {
        let loss = u / sigma - shift;
        let y = if loss < 1.0 { rate * libm::expm1(loss) } else { exp(loss + log_rate) - rate };
        let log = if y < 1e10 { ln_1p(y) } else { loss + log_rate + ln_1p((1.0 - rate) * exp(-loss - log_rate)) };
        (y, log)
    };
    let node = |i: u32| low + step * f64::from(i);
    // First the mass around zero, then from the right: what is passed over is measured against what there is.
    let blocks = 0..=nodes as u32 / BLOCK;
    let around_zero = (24.0 / step) as u32 / BLOCK;
    for block in blocks.clone().take_while(|&block| block <= around_zero).chain((around_zero + 1..=*blocks.end()).rev())
    {
        let block = block * BLOCK;
        // φ(y) < (1+y)^α grows with u: where that is nothing against what there is, the block is passed over.
        let (start, end) = (node(block), node(block + BLOCK));
        if start > 0.0 && alpha * at(end).1 - start * start / 2.0 < total.0 - 50.0 {
            continue;
        }
        for u in (block..block + BLOCK).map(node) {
            let (y, log) = at(u);
            let term = log_bregman(y, log, alpha) - u * u / 2.0;
            // Σ exp(term), scaled by the largest so far.
            if term > total.0 {
                total = (term, total.1 * exp(total.0 - term) + 1.0);
            } else if term > f64::NEG_INFINITY {
                total.1 += exp(term - total.0);
            }
        }
    }
    let scale = ln(step / libm::sqrt(2.0 * std::f64::consts::PI));
    finish(total.0 + ln(total.1) + scale, alpha)
}

/// ln(1 + e^`log_excess`)/(α−1), with the error of `log_excess` on top: a few dozen ulps of the terms, each of which
/// is of the size of α times a logarithm.
fn finish(log_excess: f64, alpha: f64) -> Option<f64> {
    let excess = log_excess + 1e-12 + 1e-13 * alpha.min(1e4);
    let loss = up(log_one_plus(excess)) / (alpha - 1.0);
    (!loss.is_nan()).then(|| up(loss).max(f64::MIN_POSITIVE))
}

/// The moments of a mechanism at integer orders, to sample it.
#[derive(Debug, Clone)]
pub(super) struct Moments {
    /// (k−1)·D_k for k = 0, 1, 2, …: the logarithm of E_Q r^k, rounded up.
    logs: Vec<f64>,
    /// ln k! for the same k.
    factorials: Vec<f64>,
}

/// Up to this order a sampled mechanism is priced by its moments. Beyond it, sampling is not counted: what is sampled
/// costs no more than what is not.
pub(super) const MAX_ORDER: u32 = 1024;

impl Moments {
    /// From the Rényi curve of the mechanism.
    pub fn of(curve: impl Fn(f64) -> f64) -> Self {
        let log = |k: u32| if k < 2 { 0.0 } else { up(f64::from(k - 1) * curve(f64::from(k))) };
        let factorials = (1..=MAX_ORDER).scan(0.0, |sum, k| {
            *sum += ln(f64::from(k));
            Some(*sum)
        });
        Self { logs: (0..=MAX_ORDER).map(log).collect(), factorials: std::iter::once(0.0).chain(factorials).collect() }
    }

    /// Interpolates the logarithm of a moment of order α, which is convex in α and zero at α = 1, between the
    /// integers around it; `None` beyond [`MAX_ORDER`].
    fn interpolate(alpha: f64, at: impl Fn(u32) -> f64) -> Option<f64> {
        if alpha > f64::from(MAX_ORDER) {
            return None;
        }
        let floor = alpha.floor();
        let above = alpha - floor;
        let moment = |k: u32| if k <= 1 { 0.0 } else { at(k) };
        let low = moment(floor as u32);
        let log = if above == 0.0 { low } else { (1.0 - above) * low + above * moment(floor as u32 + 1) };
        let loss = up(log) / (alpha - 1.0);
        (!loss.is_nan()).then(|| up(loss).max(f64::MIN_POSITIVE))
    }

    fn log_binomial(&self, n: u32, k: u32) -> f64 {
        self.factorials[n as usize] - self.factorials[k as usize] - self.factorials[(n - k) as usize]
    }

    /// The loss of order `alpha` of a Poisson sample against no sample, rounded up.
    ///
    /// A − 1 = Σ C(α,k) (1−p)^(α−k) p^k (E_Q r^k − 1) over k ≥ 2, exactly, for integer α. Below α = 2, φ(y)/y² falls
    /// with y ≥ −p, so that A − 1 ≤ φ(−p)·E y²/p² as well.
    pub fn poisson(&self, rate: f64, alpha: f64) -> Option<f64> {
        let (log_rate, log_rest) = (ln(rate), ln_1p(-rate));
        let second = match alpha < 2.0 {
            true => finish(log_bregman(-rate, log_rest, alpha) + log_excess(self.logs[2]), alpha),
            false => None,
        };
        let interpolated = Self::interpolate(alpha, |n| {
            let term = |k: u32| {
                let rest = if k == n { 0.0 } else { f64::from(n - k) * log_rest };
                self.log_binomial(n, k) + rest + f64::from(k) * log_rate + log_excess(self.logs[k as usize])
            };
            let sum = (2..=n).map(term).fold(f64::NEG_INFINITY, log_add);
            log_one_plus(sum + 1e-12 + 1e-12 * f64::from(n))
        });
        second.into_iter().chain(interpolated).reduce(f64::min)
    }

    /// The loss of order `alpha` of a sample of a fixed size when one unit is replaced, rounded up.
    ///
    /// # References
    /// Wang, Balle and Kasiviswanathan, *Subsampled Rényi Differential Privacy and Analytical Moments Accountant*,
    /// 2019, Theorem 9.
    pub fn fixed_size(&self, rate: f64, epsilon: f64, alpha: f64) -> Option<f64> {
        let log_rate = ln(rate);
        // ln min(2, (e^ε − 1)^k), ε the pure loss.
        let capped = |k: f64| (k * log_excess(epsilon)).min(std::f64::consts::LN_2);
        Self::interpolate(alpha, |n| {
            let term = |k: u32| {
                let moment = self.logs[k as usize];
                let bound = moment + capped(f64::from(k));
                let bound = if k == 2 { bound.min(2.0 * std::f64::consts::LN_2 + log_excess(moment)) } else { bound };
                self.log_binomial(n, k) + f64::from(k) * log_rate + bound
            };
            let sum = (2..=n).map(term).fold(f64::NEG_INFINITY, log_add);
            log_one_plus(sum + 1e-12 + 1e-12 * f64::from(n))
        })
    }
}

/// The loss of order `alpha` of no sample against a Poisson sample, rounded up, from the loss `second` of order 2 of P
/// against Q.
///
/// # Privacy
/// With y = p(r − 1) ≥ −p of mean zero under Q and a = α − 1, the moment is E_Q (1+y)^(−a). The quotient
/// ((1+y)^(−a) − 1 + ay)/y² is an integral of (1−t)(1+ty)^(−a−2) over t and falls with y, so it is at most its
/// value at −p, and E_Q y² = p²(e^`second` − 1). Hence the moment is at most
/// 1 + ((1−p)^(−a) − 1 − ap)(e^`second` − 1).
pub(super) fn without_against_with(rate: f64, second: f64, alpha: f64) -> f64 {
    let order = alpha - 1.0;
    let log = -order * ln_1p(-rate);
    // The excess of (1−p)^(−a) over its tangent, as a power series where it cancels.
    let tangent = if rate * alpha < 0.1 {
        let tail = (3..=14).rev().fold(1.0, |rest, k| 1.0 + (order + f64::from(k - 1)) / f64::from(k) * rate * rest);
        ln(order * alpha / 2.0 * tail) + 2.0 * ln(rate)
    } else if log > 500.0 {
        log
    } else {
        ln((libm::expm1(log) - order * rate).max(0.0))
    };
    let loss = up(log_one_plus(tangent + log_excess(second) + 1e-11)) / order;
    if loss.is_nan() { f64::INFINITY } else { up(loss) }
}

/// The loss of order `alpha` of a mixture of two laws that share the part of weight 1 − `rate`, rounded up, from that
/// of the parts which differ.
///
/// # Privacy
/// x^α·y^(1−α) is jointly convex, so the moment of the mixture is at most the mixture of moments, whatever the shared
/// part is.
pub(super) fn shared_part(rate: f64, loss: f64, alpha: f64) -> f64 {
    let order = alpha - 1.0;
    let mixed = up(log_one_plus(ln(rate) + log_excess(up(order * loss)) + 1e-12)) / order;
    if mixed.is_nan() { loss } else { up(mixed).min(loss) }
}

/// The pure loss of a mechanism of pure loss `epsilon` on a sample that a unit enters with probability `rate`,
/// rounded up: ln(1 + p(e^ε − 1)).
pub(super) fn pure(rate: f64, epsilon: f64) -> f64 {
    crate::composition::amplified(epsilon, rate)
}
