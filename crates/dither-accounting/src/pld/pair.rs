//! One mechanism on two neighbouring tables: the pair of distributions that is hardest to hide.
//!
//! A pair (P, Q) is known by its hockey-stick divergence H(y) = ∫ (dP − e^y dQ)₊ alone, for every real y, together
//! with that of (Q, P). H is convex and falling in e^y, from 1 at y = −∞; where it stays above zero it tends to the
//! probability that something happens under P which is impossible under Q.

use std::cmp::Ordering;
use std::sync::Arc;

use super::interval::Interval;
use crate::round::{erfc, exp, ln_1p, sqrt};
use libm::expm1;

/// Half of the distance from 1 to the next float: the relative error of one operation.
pub(super) const U: f64 = f64::EPSILON / 2.0;

/// Below this a probability is not told from zero.
const TINY: f64 = 1e-300;

/// Which of the two neighbours is P.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// P is the table with the unit, Q the one without.
    Remove,
    /// P is the table without the unit.
    Add,
}

impl Way {
    pub fn other(self) -> Self {
        match self {
            Self::Remove => Self::Add,
            Self::Add => Self::Remove,
        }
    }
}

/// A pair in closed form. `Way::Add` asks for (Q, P).
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Pair {
    /// N(μ, 1) and N(0, 1).
    Gaussian { mu: f64 },
    /// The Laplace distributions of scale 1 around ε and 0.
    Laplace { epsilon: f64 },
    /// The geometric distributions P(x) ∝ exp(−|x|/b) around `steps` and 0.
    DiscreteLaplace { steps: f64, scale: f64 },
    /// The discrete Gaussian with this parameter around `steps` and 0.
    DiscreteGaussian { steps: f64, sigma: f64, tails: Arc<Tails> },
    /// Losses ε, −ε and 0, the last from so many values, and a failure of probability δ with infinite loss.
    Response { epsilon: f64, others: f64, delta: f64 },
    /// The largest H of several pairs: whichever of them a unit takes part in.
    Largest(Vec<Pair>),
    /// ((1−q)Q + qP, Q).
    Sampled { rate: f64, base: Box<Pair> },
    /// ((1−q)N(0, 1) + qN(μ, 1), (1−q)N(0, 1) + qN(−μ, 1)).
    Replaced { rate: f64, mu: f64 },
}

impl Pair {
    /// H(y) between two bounds.
    pub fn hockey_stick(&self, way: Way, y: f64) -> Interval {
        let Interval { lower, upper } = self.bounds(way, y);
        // What is no number bounds nothing.
        Interval { lower: if lower >= 0.0 { lower } else { 0.0 }, upper: if upper <= 1.0 { upper } else { 1.0 } }
    }

    fn bounds(&self, way: Way, y: f64) -> Interval {
        match self {
            Self::Gaussian { mu } => on_the_right(y, |y| gaussian(y, *mu)),
            Self::Laplace { epsilon } if y < -epsilon => rest(y),
            Self::Laplace { epsilon } if y < *epsilon => {
                around(-expm1((y - epsilon) / 2.0), 4.0 * U * (y.abs() + epsilon))
            }
            Self::Laplace { .. } => Interval::ZERO,
            Self::DiscreteLaplace { steps, scale } => discrete_laplace(y, *steps, *scale),
            Self::DiscreteGaussian { steps, sigma, tails } => {
                on_the_right(y, |y| discrete_gaussian(y, *steps, *sigma, tails))
            }
            Self::Response { epsilon, others, delta } => response(y, *epsilon, *others, *delta),
            Self::Largest(pairs) => pairs.iter().fold(rest(y.min(0.0)), |largest, pair| {
                let next = pair.hockey_stick(way, y);
                Interval { lower: largest.lower.max(next.lower), upper: largest.upper.max(next.upper) }
            }),
            Self::Sampled { rate, base } => match way {
                Way::Remove => sampled_remove(y, *rate, base),
                Way::Add => sampled_add(y, *rate, base),
            },
            Self::Replaced { rate, mu } => on_the_right(y, |y| replaced(y, *rate, *mu)),
        }
    }

    /// Whether H of (P, Q) and of (Q, P) are the same.
    pub fn is_symmetric(&self) -> bool {
        match self {
            Self::Sampled { .. } => false,
            Self::Largest(pairs) => pairs.iter().all(Self::is_symmetric),
            _ => true,
        }
    }

    /// The smallest and the largest finite loss.
    pub fn losses(&self, way: Way) -> (f64, f64) {
        match self {
            Self::Gaussian { .. } | Self::DiscreteGaussian { .. } => (f64::NEG_INFINITY, f64::INFINITY),
            Self::Laplace { epsilon } | Self::Response { epsilon, .. } => (-epsilon, *epsilon),
            Self::DiscreteLaplace { steps, scale } => (-steps / scale, steps / scale),
            Self::Largest(pairs) => pairs.iter().fold((0.0, 0.0), |(low, high): (f64, f64), pair| {
                let next = pair.losses(way);
                (low.min(next.0), high.max(next.1))
            }),
            Self::Sampled { rate, base } => {
                let (mut low, high) = base.losses(Way::Remove);
                if base.hockey_stick(Way::Remove, f64::INFINITY).upper > 2.0 * TINY {
                    // What never happens with the unit has a finite loss now.
                    low = f64::NEG_INFINITY;
                }
                let ends = (diluted(low, *rate), diluted(high, *rate));
                if way == Way::Remove { ends } else { (-ends.1, -ends.0) }
            }
            Self::Replaced { .. } => (f64::NEG_INFINITY, f64::INFINITY),
        }
    }

    /// The losses that have a probability of their own, as far as it matters where exactly they lie.
    pub fn atoms(&self, way: Way) -> Vec<f64> {
        match self {
            Self::DiscreteGaussian { steps, sigma, .. } if steps / sigma / sigma > 1e-3 => {
                let reach = (39.0 * sigma + steps).min(1e5) as i32;
                (-reach..=reach).map(|x| (2.0 * f64::from(x) - steps) * steps / (2.0 * sigma * sigma)).collect()
            }
            Self::Gaussian { .. } | Self::DiscreteGaussian { .. } | Self::Replaced { .. } => Vec::new(),
            Self::Laplace { epsilon } => vec![-epsilon, *epsilon],
            Self::Response { epsilon, others, .. } if *others > 0.0 => vec![-epsilon, 0.0, *epsilon],
            Self::Response { epsilon, .. } => vec![-epsilon, *epsilon],
            Self::DiscreteLaplace { steps, scale } if *steps <= 32.0 => {
                (0..=*steps as u32).map(|x| (2.0 * f64::from(x) - steps) / scale).collect()
            }
            Self::DiscreteLaplace { steps, scale } => vec![-steps / scale, *steps / scale],
            Self::Largest(pairs) => pairs.iter().flat_map(|pair| pair.atoms(way)).collect(),
            Self::Sampled { rate, base } => {
                let sign = if way == Way::Remove { 1.0 } else { -1.0 };
                base.atoms(Way::Remove).into_iter().map(|loss| sign * diluted(loss, *rate)).collect()
            }
        }
    }

    /// A total order, so that the order of a plan changes nothing.
    pub fn compare(&self, other: &Self) -> Ordering {
        let (a, b) = (self.key(), other.key());
        let differs = a.iter().zip(&b).map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne());
        differs.unwrap_or(a.len().cmp(&b.len()))
    }

    fn key(&self) -> Vec<f64> {
        match self {
            Self::Gaussian { mu } => vec![0.0, *mu],
            Self::Laplace { epsilon } => vec![1.0, *epsilon],
            Self::DiscreteLaplace { steps, scale } => vec![2.0, *steps, *scale],
            Self::DiscreteGaussian { steps, sigma, .. } => vec![3.0, *steps, *sigma],
            Self::Response { epsilon, others, delta } => vec![4.0, *epsilon, *others, *delta],
            Self::Largest(pairs) => {
                [5.0, pairs.len() as f64].into_iter().chain(pairs.iter().flat_map(Self::key)).collect()
            }
            Self::Sampled { rate, base } => [6.0, *rate].into_iter().chain(base.key()).collect(),
            Self::Replaced { rate, mu } => vec![7.0, *rate, *mu],
        }
    }
}

/// The loss of ((1−q)Q + qP, Q) where that of (P, Q) is y.
fn diluted(y: f64, rate: f64) -> f64 {
    if y > 700.0 { y + crate::round::ln(rate) } else { ln_1p(rate * expm1(y)) }
}

/// `value` give or take `error`, within [0, 1].
fn around(value: f64, error: f64) -> Interval {
    let error = error + 4.0 * U * value.abs();
    Interval { lower: (value - error).clamp(0.0, 1.0), upper: (value + error).clamp(0.0, 1.0) }
}

/// 1 − e^y for a negative y.
fn rest(y: f64) -> Interval {
    around(-expm1(y), 0.0)
}

/// H for a symmetric pair from H on the right: H(y) = 1 − e^y + e^y H(−y).
fn on_the_right(y: f64, hockey_stick: impl Fn(f64) -> Interval) -> Interval {
    if y >= 0.0 {
        return hockey_stick(y);
    }
    let (left, right, weight) = (-expm1(y), hockey_stick(-y), exp(y));
    let (lower, upper) = (left + weight * right.lower, left + weight * right.upper);
    Interval { lower: (lower * (1.0 - 8.0 * U)).max(0.0), upper: (upper * (1.0 + 8.0 * U)).min(1.0) }
}

/// Half of erfc(x/√2), and its relative error: that of the function, and some units of the argument times x².
fn tail(x: f64) -> (f64, f64) {
    (erfc(x / std::f64::consts::SQRT_2) / 2.0, (8.0 + 8.0 * x * x) * U)
}

/// H of N(μ, 1) and N(0, 1) at y ≥ 0.
///
/// With a = y/μ − μ/2 and b = a + μ it is Q(a) − e^y Q(b), Q the upper tail: Balle and Wang 2018, Theorem 8.
fn gaussian(y: f64, mu: f64) -> Interval {
    let (a, b) = (y / mu - mu / 2.0, y / mu + mu / 2.0);
    if b > 37.0 {
        // Q(a) is below its Chernoff bound, and the lower end may be zero.
        return Interval { lower: 0.0, upper: (exp(-a.max(0.0) * a.max(0.0) / 2.0) * 0.51).clamp(TINY, 1.0) };
    }
    if mu < 0.0625 {
        // φ(a) times the integral of 1 − xR(x) from a to b, R the Mills ratio φ R = Q: nothing cancels but 1 − xR.
        const NODES: [(f64, f64); 4] = [
            (-0.861_136_311_594_052_6, 0.347_854_845_137_453_86),
            (-0.339_981_043_584_856_26, 0.652_145_154_862_546_1),
            (0.339_981_043_584_856_26, 0.652_145_154_862_546_1),
            (0.861_136_311_594_052_6, 0.347_854_845_137_453_86),
        ];
        let slope = |x: f64| 1.0 - x * tail(x).0 / density(x);
        let sum: f64 = NODES.iter().map(|(at, weight)| weight * slope((a + b) / 2.0 + at * mu / 2.0)).sum();
        // The rule misses at most 6·10⁻¹⁰ μ⁹ times the eighth derivative, which is below 400: less than u of the sum.
        let value = density(a) * sum * mu / 2.0;
        let relative = (40.0 + 20.0 * (1.0 + b * b) * (1.0 + b * b)) * U;
        return around(value, value * relative + TINY);
    }
    // Both arguments are off by some units of b; e^y carries the relative error y u of its argument.
    let ((p, _), (q, error)) = (tail(a), tail(b));
    let q = exp(y) * q;
    around(p - q, (p + q) * (error + 2.0 * y * U) + TINY)
}

/// The standard normal density.
fn density(x: f64) -> f64 {
    const ROOT_OF_TAU: f64 = 2.506_628_274_631_000_7;
    exp(-x * x / 2.0) / ROOT_OF_TAU
}

/// H of the geometric distributions, from their closed form.
///
/// With r = e^(−1/b) the answers from m on have the larger ratios: P(X ≥ m) = 1 − r^(s−m+1)/(1+r) and
/// Q(X ≥ m) = r^m/(1+r) for 1 ≤ m ≤ s. Grouped so that both summands are positive.
fn discrete_laplace(y: f64, steps: f64, scale: f64) -> Interval {
    if y < -steps / scale {
        return rest(y);
    }
    if y >= steps / scale {
        return Interval::ZERO;
    }
    // Where rounding picks the neighbour of m, H is the same: both give its value at the kink.
    let m = (((y * scale + steps) / 2.0).floor() + 1.0).clamp(1.0, steps);
    let ratio = exp(-1.0 / scale);
    let value = (-expm1(y - m / scale) - ratio * expm1((m - steps) / scale)) / (1.0 + ratio);
    around(value, 8.0 * U * (y.abs() + (m + steps) / scale))
}

/// Upper tails of a discrete Gaussian around zero.
#[derive(Debug, PartialEq)]
pub(super) struct Tails {
    /// P(X ≥ x) for x from −`reach` on; empty where σ is large.
    sums: Vec<f64>,
    reach: f64,
    sigma: f64,
}

/// From this σ on tails are bounded by those of the continuous Gaussian.
const TABLE_MAX_SIGMA: f64 = 1024.0;

impl Tails {
    pub fn new(sigma: f64) -> Self {
        if sigma >= TABLE_MAX_SIGMA {
            return Self { sums: Vec::new(), reach: 0.0, sigma };
        }
        let reach = (38.0 * sigma).ceil() + 2.0;
        let mut sum = 0.0;
        let weight = |x: f64| exp(-(x / sigma) * (x / sigma) / 2.0);
        let mut sums: Vec<f64> = (0..=2 * reach as usize)
            .map(|i| {
                sum += weight(reach - i as f64);
                sum
            })
            .collect();
        sums.iter_mut().for_each(|each| *each /= sum);
        sums.reverse();
        Self { sums, reach, sigma }
    }

    /// P(X ≥ x) for an integer x.
    ///
    /// For a large σ: let p be the discrete probability of k and r that of a continuous Gaussian rounded to integers.
    /// The proof at `gaussian::composed_epsilon` shows p ≤ r exp(1/24σ²), and r ≤ p exp(t²/24σ² + 10⁻³³) for
    /// |k| ≤ tσ. Summed from x on, with t = |x|/σ + 9 and what lies beyond tσ left out of the lower bound.
    fn from(&self, x: f64) -> Interval {
        if !self.sums.is_empty() {
            if x > self.reach {
                return Interval { lower: 0.0, upper: TINY };
            }
            let value = self.sums[(x + self.reach).max(0.0) as usize];
            // Additions of positive terms, each with the error of its exponent; what is beyond the table is tiny.
            let z = x / self.sigma;
            let relative = (2.0 * self.reach + 8.0 + 3.0 * z * z) * U;
            return around(value, value * relative + TINY);
        }
        let z = (x - 0.5) / self.sigma;
        if z > 36.0 {
            return Interval { lower: 0.0, upper: exp(-z * z / 2.0).max(TINY) };
        }
        let (value, error) = tail(z);
        let t = z.abs() + 9.0;
        let unit = 1.0 / (24.0 * self.sigma * self.sigma);
        let upper = value * exp(unit) * (1.0 + error + 8.0 * U);
        let lower = (value - 2.0 * tail(t - 1.0).0) * exp(-t * t * unit) * (1.0 - error - 8.0 * U);
        Interval { lower: lower.clamp(0.0, 1.0), upper: upper.clamp(0.0, 1.0) }
    }
}

/// H of the discrete Gaussian at y ≥ 0: loss (2x − s)s/2σ² at the answer x.
fn discrete_gaussian(y: f64, steps: f64, sigma: f64, tails: &Tails) -> Interval {
    if sigma >= 1e9 {
        // By the proof at `gaussian::composed_epsilon`, with t = b + 14, the lattice changes probabilities by a factor of
        // 1 ± (t² + 1)/24σ² and what lies beyond t; the threshold is within half a step, which counts by its square.
        let (mu, b) = (steps / sigma, sigma * y / steps + steps / sigma);
        let Interval { lower, upper } = gaussian(y, mu);
        let error = 100.0 * (1.0 + b * b) / sigma / sigma * tail((y / mu - mu / 2.0).clamp(-37.0, 37.0)).0;
        return Interval { lower: (lower - error).max(0.0), upper: (upper + error).min(1.0) };
    }
    let m = (sigma * (sigma * y / steps) + steps / 2.0).floor() + 1.0;
    if m.is_nan() || m >= 1e300 {
        return Interval { lower: 0.0, upper: TINY };
    }
    // H is the largest P(S) − e^y Q(S): any m gives a lower bound, and neighbours of the right one agree at the kink.
    let at = |m: f64| {
        let (p, q, weight) = (tails.from(m - steps), tails.from(m), exp(y));
        let spread = 4.0 * U * (1.0 + y);
        Interval {
            lower: (p.lower - weight * q.upper * (1.0 + spread)).max(0.0),
            upper: (p.upper - weight * q.lower * (1.0 - spread)).clamp(TINY, 1.0),
        }
    };
    let (here, next) = (at(m), at(m + 1.0));
    let before = at(m - 1.0);
    Interval {
        lower: here.lower.max(next.lower).max(before.lower),
        upper: here.upper.max(next.upper).max(before.upper),
    }
}

/// H of randomised response with `others` further values, or a failure of probability δ.
fn response(y: f64, epsilon: f64, others: f64, delta: f64) -> Interval {
    let (truth, lie) = (-expm1((y - epsilon).min(0.0)), -expm1((y + epsilon).min(0.0)));
    let equal = -expm1(y.min(0.0));
    let small = exp(-epsilon);
    let value = (truth + small * (lie + others * equal)) / (1.0 + (1.0 + others) * small);
    let error = 8.0 * U * (y.abs() + epsilon).min(1e300);
    let Interval { lower, upper } = if y < epsilon { around(value, error.min(1.0)) } else { Interval::ZERO };
    let up = |value: f64| (value * (1.0 + 8.0 * U)).min(1.0);
    Interval { lower: (delta + (1.0 - delta) * lower) * (1.0 - 8.0 * U), upper: up(delta + (1.0 - delta) * upper) }
}

/// (1−q + qL − u)₊ averaged over Q, with u = e^y: it is q (L − e^x)₊ at e^x = 1 + (u − 1)/q, if that is positive.
///
/// Zhu, Dong and Wang, *Optimal Accounting of Differential Privacy via Characteristic Function*, 2022, Theorem 11,
/// for the pair.
fn sampled_remove(y: f64, rate: f64, base: &Pair) -> Interval {
    let shift = expm1(y) / rate;
    if shift <= -1.0 + 8.0 * U {
        // H ≥ 1 − u always, and the base is below 1.
        return Interval { lower: rest(y).lower, upper: (rest(y).upper.max(rate)) * (1.0 + 8.0 * U) };
    }
    if shift.is_nan() || shift >= 1e290 {
        let base = |x| base.hockey_stick(Way::Remove, x);
        let (low, high) = (base(f64::INFINITY).lower, base(660.0).upper);
        return Interval { lower: rate * low * (1.0 - 4.0 * U), upper: (rate * high * (1.0 + 4.0 * U)).max(TINY) };
    }
    let x = ln_1p(shift);
    let error = 4.0 * U * ((1.0 + y.abs()) * shift.abs() / (1.0 + shift) + x.abs());
    let (low, high) = neighbourhood(base, Way::Remove, x, error);
    Interval { lower: rate * low * (1.0 - 4.0 * U), upper: (rate * high * (1.0 + 4.0 * U)).max(TINY) }
}

/// (1 − u(1−q + qL))₊ averaged over Q: it is c (1 − e^x L)₊ at c = 1 − u(1−q) and e^x = uq/c, if c is positive.
fn sampled_add(y: f64, rate: f64, base: &Pair) -> Interval {
    let shift = (1.0 - rate) * expm1(y) / rate;
    let slack = 8.0 * U * (1.0 + y.abs()) * shift.abs();
    if shift >= 1.0 + slack {
        return Interval::ZERO;
    }
    // c = q(1 − shift)
    let left = 1.0 - shift;
    let error = slack + 4.0 * U;
    if left <= 4.0 * error {
        return Interval { lower: 0.0, upper: 8.0 * error * rate };
    }
    let x = y - ln_1p(-shift);
    let (low, high) = neighbourhood(base, Way::Add, x, 2.0 * error / left + 4.0 * U * (x.abs() + y.abs()));
    let scale = (rate * (left - error), rate * (left + error));
    Interval { lower: scale.0 * low * (1.0 - 4.0 * U), upper: (scale.1 * high * (1.0 + 4.0 * U)).clamp(TINY, 1.0) }
}

/// The smallest and largest H of the base within so much of x; H falls.
fn neighbourhood(base: &Pair, way: Way, x: f64, error: f64) -> (f64, f64) {
    if error < 1e-14 {
        // H falls by at most P(L > x) ≤ 1 per unit of x.
        let here = base.hockey_stick(way, x);
        if here.lower > 1e-3 {
            return ((here.lower - error).max(0.0), (here.upper + error).min(1.0));
        }
    }
    (base.hockey_stick(way, x + error).lower, base.hockey_stick(way, x - error).upper)
}

/// H of the two mixtures at y ≥ 0.
///
/// They are the worst of all mixtures (1−q)N(0, I) + qN(v, I) and (1−q)N(0, I) + qN(v′, I) with |v|, |v′| ≤ μ. *Proof.*
/// H is the largest P(S) − uQ(S) over sets S, u = e^y, and that is (1−q)(1−u)N₀(S) + q(N_v(S) − uN_v′(S)). Among sets with
/// N₀(S) = Φ(z), none has N_v(S) above Φ(z + |v|) or N_v′(S) below Φ(z − |v′|) (Neyman and Pearson; Dong, Roth and Su
/// 2022, Proposition 3.1), so the value is at most (1−q)(1−u)Φ(z) + q(Φ(z + μ) − uΦ(z − μ)). The half-line above −z
/// attains it for the pair here. ∎ Whoever else is in the sample shifts all four normal laws alike, and H is jointly
/// convex.
///
/// The likelihood ratio grows with the answer, so H = P(X > t) − e^y Q(X > t) for the t where it is e^y. With
/// z = e^(μt) and c = e^(−μ²/2) that is qcz² − (1−q)(e^y−1) z − e^y qc = 0. Every t gives a lower bound, and H is
/// stationary in t, so the error of t counts by its square; the rest is that of the sum.
fn replaced(y: f64, rate: f64, mu: f64) -> Interval {
    if y > 700.0 {
        return Interval { lower: 0.0, upper: TINY }; // μ ≤ 10, so that t is beyond 60
    }
    let excess = (1.0 - rate) * expm1(y);
    // Divided by e^y: all terms stay in range.
    let (linear, c) = (excess * exp(-y), exp(-mu * mu / 2.0));
    let product = rate * c;
    if product.is_nan() || product <= 1e-280 {
        // Too far apart for this formula: what the larger mixture has beyond the other is at most its own part.
        return Interval { lower: 0.0, upper: rate.clamp(TINY, 1.0) };
    }
    let root = sqrt(linear * linear + 4.0 * product * (product * exp(-y)));
    let log_z = y + crate::round::ln((linear + root) / (2.0 * product));
    let t = log_z / mu;
    if t.is_nan() || t >= 36.0 {
        let (upper, _) = tail((t - mu).clamp(0.0, 37.0));
        return Interval { lower: 0.0, upper: (upper * (1.0 + 1e-9)).clamp(TINY, 1.0) };
    }
    let ((zero, e0), (plus, e1), (minus, e2)) = (tail(t), tail(t - mu), tail(t + mu));
    let (gain, loss, cost) = (rate * plus, excess * zero, exp(y) * rate * minus);
    let more = (8.0 + 2.0 * y) * U;
    // t is off by its relative error and that of z; the slope of the integrand there is below (P + e^y Q)'s density.
    let shift = (8.0 * U * (log_z.abs() + y + 4.0) / mu).max(8.0 * U * t.abs());
    let slope = shift * shift * (1.0 + mu) * mu * (gain + loss + cost) * 64.0 * (1.0 + t * t);
    around(gain - loss - cost, gain * (e1 + more) + loss * (e0 + more) + cost * (e2 + more) + slope + TINY)
}
