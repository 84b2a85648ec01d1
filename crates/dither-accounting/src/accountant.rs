//! The accountants side by side: one question, several proven answers.

use dither_core::Neighbors;
use serde::{Deserialize, Serialize};

use crate::error::AccountingError;
use crate::event::Event;
use crate::pld::{Interval, Pld};
use crate::rdp::Curve;
use crate::zcdp::Concentrated;
use crate::{gaussian, gdp};

/// A way to bound the privacy loss of an [`Event`].
///
/// Every upper end is a proven bound, so the smallest of them may be claimed.
///
/// ```
/// use dither_accounting::{Accountant, Event};
/// use dither_core::Neighbors;
/// let event = Event::SelfComposed { count: 100, event: Box::new(Event::Gaussian { noise_multiplier: 10.0 }) };
/// let (accountant, bounds) = Accountant::best_epsilon(&event, Neighbors::AddOrRemoveUnit, 1e-5).unwrap();
/// assert!((bounds.upper - 4.377178).abs() < 1e-5 && bounds.lower <= bounds.upper);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accountant {
    /// Numerical composition of privacy loss distributions, with a certified lower end: [`Pld`].
    Pld,
    /// Rényi differential privacy over all real orders: [`Curve`].
    Rdp,
    /// Zero-concentrated differential privacy: [`Concentrated`].
    Zcdp,
    /// Gaussian differential privacy, where every part is Gaussian: [`gdp::mu`].
    Gdp,
    /// Pure losses, added up.
    Pure,
}

impl Accountant {
    /// All of them, the tightest first.
    pub const ALL: [Self; 5] = [Self::Pld, Self::Rdp, Self::Zcdp, Self::Gdp, Self::Pure];

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pld => "pld",
            Self::Rdp => "rdp",
            Self::Zcdp => "zcdp",
            Self::Gdp => "gdp",
            Self::Pure => "pure",
        }
    }

    /// The name that people use.
    pub fn title(self) -> &'static str {
        match self {
            Self::Pld => "PLD",
            Self::Rdp => "RDP",
            Self::Zcdp => "zCDP",
            Self::Gdp => "GDP",
            Self::Pure => "pure",
        }
    }

    /// Bounds of the smallest ε at this δ. The lower end is zero where an accountant has none.
    ///
    /// # Errors
    /// Events that this accountant cannot price, and parameters out of range.
    ///
    /// # Privacy
    /// The event is (`upper`, δ)-private for these neighbours; an infinite end says that no ε is proven.
    pub fn epsilon(self, event: &Event, neighbors: Neighbors, delta: f64) -> Result<Interval, AccountingError> {
        event.validate()?;
        let upper = match self {
            Self::Pld => return Ok(Pld::of(event, neighbors)?.epsilon(delta)),
            Self::Rdp => Curve::of(event, neighbors)?.epsilon(delta),
            Self::Zcdp => Concentrated::of(event, neighbors)?.epsilon(delta),
            Self::Gdp => gaussian::epsilon(delta, gdp::mu(event, neighbors)?).unwrap_or(f64::INFINITY),
            Self::Pure => {
                let curve = Curve::of(event, neighbors)?;
                if curve.delta_outside() <= delta { curve.at(f64::INFINITY) } else { f64::INFINITY }
            }
        };
        Ok(Interval { lower: 0.0, upper })
    }

    /// Bounds of the smallest δ at this ε. The lower end is zero where an accountant has none.
    ///
    /// # Errors
    /// As for [`epsilon`](Self::epsilon).
    ///
    /// # Privacy
    /// The event is (ε, `upper`)-private for these neighbours.
    pub fn delta(self, event: &Event, neighbors: Neighbors, epsilon: f64) -> Result<Interval, AccountingError> {
        event.validate()?;
        let upper = match self {
            Self::Pld => return Ok(Pld::of(event, neighbors)?.delta(epsilon)),
            Self::Rdp => Curve::of(event, neighbors)?.delta(epsilon),
            Self::Zcdp => Concentrated::of(event, neighbors)?.delta(epsilon),
            Self::Gdp => gaussian::delta(epsilon, gdp::mu(event, neighbors)?),
            Self::Pure => {
                let curve = Curve::of(event, neighbors)?;
                if curve.at(f64::INFINITY) <= epsilon { curve.delta_outside() } else { 1.0 }
            }
        };
        Ok(Interval { lower: 0.0, upper })
    }

    /// The smallest ε that any accountant proves at this δ.
    ///
    /// # Errors
    /// [`AccountingError::LossTooLarge`] if none is finite, and what is wrong with the event.
    pub fn best_epsilon(event: &Event, neighbors: Neighbors, delta: f64) -> Result<(Self, Interval), AccountingError> {
        event.validate()?;
        let finite = |accountant: Self| {
            let bounds = accountant.epsilon(event, neighbors, delta).ok()?;
            bounds.upper.is_finite().then_some((accountant, bounds))
        };
        let all = Self::ALL.into_iter().filter_map(finite);
        all.min_by(|a, b| a.1.upper.total_cmp(&b.1.upper)).ok_or(AccountingError::LossTooLarge)
    }
}
