//! The Gaussian mechanism, exactly, and what its discrete form on a lattice costs beyond it.
//!
//! `mu` is the sensitivity divided by the standard deviation. Everything is rounded towards more loss.

use crate::round::{bisect, down, erfc, exp, ln, sqrt, up};

/// The smallest σ, in lattice steps, for which the lattice correction is claimed; below it the zCDP bound holds.
///
/// The proof of the lattice correction holds from σ = 2 on; here its normaliser term is below 10⁻³⁰⁰ and the
/// correction itself is small enough to be of use.
pub const GAUSSIAN_MIN_SIGMA: f64 = 1024.0;

/// δ is never reported below this value: it stands for everything smaller.
const TINY: f64 = 1e-300;

/// The smallest δ for which the Gaussian mechanism is (ε, δ)-private, rounded up.
///
/// `epsilon` and `mu` are dimensionless. A NaN is taken for the worst value; the result lies in [0, 1], is
/// within 10⁻⁶ of the exact value relative to it, and is never below 10⁻³⁰⁰ unless `mu` is zero.
///
/// # Privacy
/// For continuous Gaussian noise of standard deviation σ on a function of l2 sensitivity Δ under the neighbour
/// relation that Δ was derived for, and `mu` ≥ Δ/σ.
///
/// ```
/// use dither_accounting::gaussian;
/// let delta = gaussian::delta(1.0, 1.0 / 3.7306316);
/// assert!(delta >= 1e-5 && delta < 1.00001e-5);
/// ```
///
/// # References
/// Balle and Wang, *Improving the Gaussian Mechanism for Differential Privacy*, 2018, Theorem 8.
pub fn delta(epsilon: f64, mu: f64) -> f64 {
    if mu <= 0.0 {
        return 0.0;
    }
    if !mu.is_finite() {
        return 1.0;
    }
    let epsilon = epsilon.max(0.0);
    // δ = Q(a) − e^ε Q(b) with Q the upper tail; e^ε φ(b) = φ(a), so δ = φ(a) (R(a) − R(b)), R the Mills ratio.
    let (a, b) = (epsilon / mu - mu / 2.0, epsilon / mu + mu / 2.0);
    if a > 37.2 {
        return TINY; // Q(37.2) < 10⁻³⁰²
    }
    let exact = if mu < 1.0 {
        density(a) * mills_difference(a, mu)
    } else if a >= 0.0 {
        density(a) * (mills(a) - mills(b))
    } else {
        // δ ≥ 0.23 here, and nothing cancels.
        erfc(a / std::f64::consts::SQRT_2) / 2.0 - density(a) * mills(b)
    };
    // `a` carries an absolute error of a few ulps of b, which φ(a) multiplies by |a|.
    let margin = 1e-11 + 4.0 * f64::EPSILON * b * (a.abs().min(40.0) + 1.0);
    (exact * (1.0 + margin)).clamp(TINY, 1.0)
}

/// The smallest ε for which the Gaussian mechanism is (ε, δ)-private, rounded up.
///
/// `None` where no finite ε is enough: `delta` is zero, or `mu` is not a finite number.
///
/// # Privacy
/// As for [`delta`].
///
/// ```
/// use dither_accounting::gaussian;
/// assert!((gaussian::epsilon(1e-5, 1.0).unwrap() - 4.377178).abs() < 1e-6);
/// assert_eq!(gaussian::epsilon(0.0, 1.0), None);
/// ```
///
/// # References
/// Balle and Wang 2018, Theorem 8, solved for ε.
pub fn epsilon(delta: f64, mu: f64) -> Option<f64> {
    if mu <= 0.0 || (delta >= 1.0 && !mu.is_nan()) {
        return Some(0.0);
    }
    let fits = |epsilon: f64| self::delta(epsilon, mu) <= delta;
    if fits(0.0) {
        return Some(0.0);
    }
    // δ(ε) ≤ Q(ε/μ − μ/2) ≤ exp(−(ε/μ − μ/2)²/2)/2, half of the target at this ε.
    let high = mu * (mu / 2.0 + sqrt(2.0 * ln(1.0 / delta)));
    (high.is_finite() && fits(high)).then(|| bisect(high, 0.0, fits))
}

/// The largest `mu` at which the Gaussian mechanism is (ε, δ)-private, rounded down.
///
/// The noise needs a standard deviation of sensitivity/`mu`. `None` if `delta` is not in (10⁻³⁰⁰, 1) or
/// `epsilon` is negative or not finite.
///
/// # Privacy
/// As for [`delta`].
///
/// ```
/// use dither_accounting::gaussian;
/// let sigma = 1.0 / gaussian::calibrate(1.0, 1e-6).unwrap();
/// assert!((sigma - 4.2246789).abs() < 1e-6);
/// ```
///
/// # References
/// Balle and Wang 2018, Algorithm 1.
pub fn calibrate(epsilon: f64, delta: f64) -> Option<f64> {
    if !(epsilon >= 0.0 && epsilon.is_finite() && delta > TINY && delta < 1.0) {
        return None;
    }
    let fits = |mu: f64| self::delta(epsilon, mu) <= delta;
    let mut low = 1.0;
    while !fits(low) {
        low /= 2.0;
        if low < 1e-305 {
            return None;
        }
    }
    let mut high = 2.0 * low;
    while fits(high) {
        (low, high) = (high, 2.0 * high);
    }
    Some(bisect(low, high, fits))
}

/// One event of discrete Gaussian noise, as the accountant sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Gaussian {
    /// (Δ/σ)², rounded up.
    pub mu_squared: f64,
    /// σ in lattice steps, rounded down.
    pub sigma: f64,
    /// How many coordinates can move together.
    pub coordinates: f64,
}

/// The smallest ε at which discrete Gaussian events compose to (ε, δ), rounded up; `None` where no ε is enough
/// or a σ is below [`GAUSSIAN_MIN_SIGMA`].
///
/// # Privacy
/// For Gaussian events chosen adaptively with these parameters fixed in advance. Let p be the probability of
/// an integer k under the discrete Gaussian and r its probability under a continuous Gaussian rounded to the
/// nearest integer, both with parameter σ. With φ the continuous density,
///
/// - r(k)/φ(k) = ∫ exp(−u²/2σ²) cosh(ku/σ²) du over |u| ≤ ½, the odd part of the integrand being zero. It is
///   at least exp(−1/24σ²) by Jensen's inequality and cosh ≥ 1, and at most sinh(y)/y ≤ exp(y²/6) with
///   y = k/2σ², that is exp(k²/24σ⁴).
/// - φ(k)/p(k) = 1 + ν with ν = 2 Σ exp(−2π²σ²j²) over j ≥ 1, by Poisson summation: at least 1, and for
///   σ ≥ 2 less than 1 + 10⁻³³.
///
/// Hence p ≤ e^η₁ r everywhere with η₁ = 1/24σ², and r ≤ e^η₂ p for |k| ≤ tσ with η₂ = t²/24σ² + ν.
///
/// Coordinates that do not move have the same conditional law on both sides and drop out; let m move. Adding
/// an integer and rounding commute, so the rounded mechanism is post-processing of the continuous one, whose
/// adaptive composition is (ε, δ(ε, μ))-private with μ² = Σ μᵢ². Write P for the discrete and R for the rounded
/// mechanism, x and x′ for the neighbours, and B for the outputs within tσ of the exact answer on x′ in every
/// moving coordinate. For every set S,
///
/// P(x,S) ≤ e^{mη₁} R(x,S) ≤ e^{mη₁} (R(x,S∩B) + R(x,¬B)) ≤ e^{mη₁} (e^ε R(x′,S∩B) + δ(ε, μ) + τ)
/// ≤ e^{ε+m(η₁+η₂)} P(x′,S) + e^{mη₁} (δ(ε, μ) + τ).
///
/// Outside B some coordinate of the rounded noise on x exceeds (t − μᵢ)σ, so the noise before rounding
/// exceeds (t − μᵢ)σ − ½, and τ ≤ m·2Q(z) ≤ m·exp(−z²/2) where t = μᵢ + 1/2σ + z. Several events add their
/// mη₁, mη₂ and τ. Here z is chosen so that all τ together are 10⁻⁹ δ.
///
/// # References
/// Canonne, Kamath and Steinke, *The Discrete Gaussian for Differential Privacy*, 2020, for the distribution;
/// Dong, Roth and Su, *Gaussian Differential Privacy*, 2022, Theorem 3.2 and Corollary 3.3 for the composition.
pub(crate) fn composed_epsilon(events: &[Gaussian], mu_squared: f64, delta: f64) -> Option<f64> {
    let (lattice, delta) = lattice_correction(events, delta)?;
    Some(up(up(epsilon(delta, up(sqrt(mu_squared)))?) + lattice))
}

/// Whether the events are (ε, δ)-private together: [`composed_epsilon`] as a question, with one evaluation of δ.
pub(crate) fn composed_fits(events: &[Gaussian], mu_squared: f64, epsilon: f64, delta: f64) -> bool {
    lattice_correction(events, delta).is_some_and(|(lattice, continuous)| {
        let epsilon = down(down(epsilon) - lattice);
        epsilon >= 0.0 && self::delta(epsilon, up(sqrt(mu_squared))) <= continuous
    })
}

/// What the lattice adds to ε, rounded up, and the δ that it leaves to the continuous mechanism, rounded down.
fn lattice_correction(events: &[Gaussian], delta: f64) -> Option<(f64, f64)> {
    const TAIL: f64 = 1e-9;
    let tail = delta * TAIL / events.len().max(1) as f64;
    let (mut lattice, mut eta_1) = (0.0, 0.0);
    for &Gaussian { mu_squared, sigma, coordinates } in events {
        if !(up(up(sigma)) >= GAUSSIAN_MIN_SIGMA && delta > 0.0) {
            return None;
        }
        let z = sqrt(2.0 * ln(coordinates / tail).max(0.0));
        let t = sqrt(mu_squared) + 0.5 / sigma + z;
        let unit = coordinates / (24.0 * sigma * sigma);
        eta_1 += unit;
        // ν is below exp(−2·10⁷) here, far inside the rounding.
        lattice += unit * (t * t + 1.0);
    }
    Some((up(lattice), down(delta * exp(-up(eta_1)) - delta * TAIL)))
}

fn density(x: f64) -> f64 {
    exp(-x * x / 2.0) / sqrt(2.0 * std::f64::consts::PI)
}

/// The Mills ratio Q(x)/φ(x) for x ≥ −1, to a few ulps.
fn mills(x: f64) -> f64 {
    if x < 3.0 {
        return erfc(x / std::f64::consts::SQRT_2) / 2.0 / density(x);
    }
    // x + 1/(x + 2/(x + 3/…)): the error after n terms is about exp(−2x√(2n)), 10⁻²⁴ at x = 3 and n = 40.
    1.0 / (1..=40).rev().fold(x, |rest, k| x + f64::from(k) / rest)
}

/// R(a) − R(a + width) for a width of at most 1, as the integral of −R′(x) = 1 − x R(x) > 0.
fn mills_difference(a: f64, width: f64) -> f64 {
    // Gauss-Legendre with ten nodes: the integrand is entire, and the error below 10⁻¹⁵.
    const NODES: [(f64, f64); 5] = [
        (0.148_874_338_981_631_22, 0.295_524_224_714_752_87),
        (0.433_395_394_129_247_2, 0.269_266_719_309_996_35),
        (0.679_409_568_299_024_4, 0.219_086_362_515_982_04),
        (0.865_063_366_688_984_5, 0.149_451_349_150_580_6),
        (0.973_906_528_517_171_7, 0.066_671_344_308_688_14),
    ];
    let slope = |x: f64| 1.0 - x * mills(x);
    let (middle, half) = (a + width / 2.0, width / 2.0);
    half * NODES
        .iter()
        .map(|&(at, weight)| weight * (slope(middle - half * at) + slope(middle + half * at)))
        .sum::<f64>()
}
