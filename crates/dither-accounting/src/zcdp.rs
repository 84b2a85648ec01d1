//! Zero-concentrated differential privacy: one number ρ that bounds every Rényi order by α·ρ.

use dither_core::Neighbors;

use crate::error::AccountingError;
use crate::event::Event;
use crate::rdp::{self, Curve};
use crate::round::{exp, up};

/// ρ of an event, and the δ that it does not cover.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Concentrated {
    /// ρ, rounded up.
    pub rho: f64,
    /// The probability of the bad cases outside: thresholds, and the δ of (ε, δ)-private parts.
    pub delta_outside: f64,
}

impl Concentrated {
    /// The ρ of an event under a neighbour relation.
    ///
    /// Sampling shrinks pure losses, and with them ρ. It does not shrink the ρ of Gaussian noise: at large orders the
    /// sampled mechanism loses what the other does. [`Curve`] sees more.
    ///
    /// # Errors
    /// [`AccountingError::InvalidEvent`]; [`AccountingError::NotCovered`] where no finite ρ holds, and as for [`Curve::of`].
    ///
    /// # Privacy
    /// Outside bad cases of total probability `delta_outside` the event is ρ-zCDP for the neighbour relation. Composed
    /// events may be chosen adaptively; their parameters are fixed in advance.
    ///
    /// ```
    /// use dither_accounting::{Event, zcdp::Concentrated};
    /// use dither_core::Neighbors;
    /// let round = Event::Gaussian { noise_multiplier: 10.0 };
    /// let rounds = Event::SelfComposed { count: 100, event: Box::new(round) };
    /// let total = Concentrated::of(&rounds, Neighbors::AddOrRemoveUnit).unwrap();
    /// assert!((total.rho - 0.5).abs() < 1e-9 && (total.epsilon(1e-5) - 4.7285).abs() < 1e-3);
    /// ```
    ///
    /// # References
    /// Bun and Steinke 2016, Lemma 1.7; [`rdp::bounded_range`] and [`pure`] for the rest.
    pub fn of(event: &Event, neighbors: Neighbors) -> Result<Self, AccountingError> {
        let curve = Curve::of(event, neighbors)?;
        let rho = rdp::concentrated(&curve);
        if !rho.is_finite() {
            return Err(AccountingError::NotCovered { accountant: "zcdp", event: "an event of unbounded loss" });
        }
        Ok(Self { rho, delta_outside: curve.delta_outside() })
    }

    /// The smallest ε at this δ, rounded up; infinite where none holds.
    ///
    /// # Privacy
    /// The event is (result, δ)-private.
    ///
    /// ```
    /// use dither_accounting::zcdp::Concentrated;
    /// let keys = Concentrated { rho: 0.0, delta_outside: 1e-7 };
    /// assert_eq!((keys.epsilon(1e-7), keys.epsilon(1e-8)), (0.0, f64::INFINITY));
    /// ```
    ///
    /// # References
    /// Canonne, Kamath and Steinke 2020, Proposition 12 and Corollary 13.
    pub fn epsilon(&self, delta: f64) -> f64 {
        if delta >= 1.0 {
            return 0.0;
        }
        // The difference of two floats of this size.
        let left = delta - self.delta_outside - 1e-15 * delta;
        if self.rho == 0.0 && delta >= self.delta_outside {
            0.0
        } else if left > 0.0 {
            epsilon(self.rho, left)
        } else {
            f64::INFINITY
        }
    }

    /// The smallest δ at this ε, rounded up.
    ///
    /// # Privacy
    /// The event is (ε, result)-private.
    ///
    /// ```
    /// use dither_accounting::zcdp::Concentrated;
    /// let noise = Concentrated { rho: 0.5, delta_outside: 0.0 };
    /// assert!(noise.epsilon(noise.delta(4.0)) <= 4.0 + 1e-6 && noise.delta(4.0) < 2e-4);
    /// ```
    ///
    /// # References
    /// Canonne, Kamath and Steinke 2020, Proposition 12.
    pub fn delta(&self, epsilon: f64) -> f64 {
        let inside = if self.rho == 0.0 { 0.0 } else { rdp::delta(|alpha| up(alpha * self.rho), epsilon) };
        up(inside + self.delta_outside).min(1.0)
    }
}

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
