//! Zero-concentrated differential privacy: one number ρ that bounds every Rényi order by α·ρ.

use crate::rdp;
use crate::round::{exp, up};

/// The ρ of any ε-private mechanism, ε·tanh(ε/2), rounded up.
///
/// # Privacy
/// A mechanism that is ε-private is result-zCDP. Let K(s) = s·D of order 1+s for randomised response, that is
/// ln cosh((s+½)ε) − ln cosh(ε/2), which bounds every ε-private mechanism (see [`rdp::pure`]). Then K(0) = 0,
/// K′(0) = ε·tanh(ε/2) =: ρ, and K″(s) = ε²/cosh²((s+½)ε) ≤ ε²/cosh²(ε/2) ≤ 2ρ because x ≤ sinh x · cosh x.
/// So K(s) ≤ ρs + ρs², and D of order α is at most ρα.
///
/// ```
/// use dither_accounting::zcdp;
/// assert!(zcdp::pure(1.0) < 0.4622 && zcdp::pure(100.0) < 100.001);
/// ```
///
/// # References
/// Bun and Steinke, *Concentrated Differential Privacy*, 2016, Proposition 1.4 has ε²/2, which is larger. Steinke,
/// *Sharp RDP and zCDP from Pure DP*, differentialprivacy.org, 2024, Theorem 4, for the curve.
pub fn pure(epsilon: f64) -> f64 {
    let rho = up(epsilon * -libm::expm1(-epsilon) / (1.0 + exp(-epsilon)));
    if rho.is_nan() { f64::INFINITY } else { rho }
}

/// The ρ of any ε-bounded-range mechanism, the smaller of ε²/8 and that of [`pure`], rounded up.
///
/// # Privacy
/// See [`rdp::bounded_range`].
///
/// ```
/// use dither_accounting::zcdp;
/// assert!(zcdp::bounded_range(1.0) < 0.1251 && zcdp::bounded_range(100.0) < 100.001);
/// ```
///
/// # References
/// As for [`rdp::bounded_range`].
pub fn bounded_range(epsilon: f64) -> f64 {
    let rho = up(epsilon * epsilon / 8.0).min(pure(epsilon));
    if epsilon.is_nan() { f64::INFINITY } else { rho }
}

/// The smallest ε at this δ of a ρ-zCDP mechanism over all real orders, rounded up.
///
/// # Privacy
/// A ρ-zCDP mechanism is (result, δ)-private.
///
/// ```
/// use dither_accounting::zcdp;
/// assert!((zcdp::epsilon(0.5, 1e-5) - 4.728507).abs() < 1e-3);
/// assert_eq!(zcdp::epsilon(0.0, 1e-5), 0.0);
/// ```
///
/// # References
/// Canonne, Kamath and Steinke 2020, Proposition 12 and Corollary 13.
pub fn epsilon(rho: f64, delta: f64) -> f64 {
    if rho == 0.0 { 0.0 } else { rdp::epsilon(|alpha| up(rho * alpha), delta) }
}
