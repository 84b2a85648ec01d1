//! A privacy filter for zero-concentrated losses.

use dither_core::{Budget, Delta, Neighbors};
use serde::{Deserialize, Serialize};

use crate::error::AccountingError;
use crate::event::Event;
use crate::filter::Refusal;
use crate::round::{bisect, delta_down, down, epsilon_down, up};
use crate::zcdp::{self, Concentrated};

/// Units of ρ in one.
const PICOS: f64 = 1e12;

/// A loss in ρ and δ, of one event or of several: charges are added up component by component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConcentratedLoss {
    /// ρ in units of 10⁻¹², rounded up.
    pub rho_picos: u64,
    /// The δ outside, in units of 10⁻¹⁸, rounded up.
    pub delta_attos: u64,
}

impl ConcentratedLoss {
    /// What an event charges.
    ///
    /// # Errors
    /// As for [`Concentrated::of`]; [`AccountingError::LossTooLarge`] where 64 bits cannot hold it.
    ///
    /// ```
    /// use dither_accounting::{ConcentratedLoss, Event};
    /// use dither_core::Neighbors;
    /// let loss = ConcentratedLoss::of(&Event::ZeroConcentrated { rho: 0.25 }, Neighbors::AddOrRemoveUnit).unwrap();
    /// assert_eq!(loss, ConcentratedLoss { rho_picos: 250_000_000_000, delta_attos: 0 });
    /// ```
    pub fn of(event: &Event, neighbors: Neighbors) -> Result<Self, AccountingError> {
        let Concentrated { rho, delta_outside } = Concentrated::of(event, neighbors)?;
        let units = |value: f64, unit: f64| {
            // An integer stays what it is, unless the product was rounded down to it.
            let product = value * unit;
            let whole = product == product.round() && libm::fma(value, unit, -product) <= 0.0;
            let units = if whole { product } else { up(product).ceil() };
            if units < 1.8e19 { Ok(units as u64) } else { Err(AccountingError::LossTooLarge) }
        };
        Ok(Self { rho_picos: units(rho, PICOS)?, delta_attos: units(delta_outside, Delta::ATTOS as f64)? })
    }

    /// The sum; `None` if it leaves 64 bits.
    pub fn plus(self, more: Self) -> Option<Self> {
        Some(Self {
            rho_picos: self.rho_picos.checked_add(more.rho_picos)?,
            delta_attos: self.delta_attos.checked_add(more.delta_attos)?,
        })
    }
}

/// A privacy filter that adds up ρ: a cap on the sum of ρ, and one on the sum of δ outside.
///
/// Best where most noise is Gaussian: against [`Composition::Renyi`](crate::Composition) no δ is divided over orders. Pure
/// losses of more than a few tenths are better off there.
///
/// # Privacy
/// Whatever an analyst asks, choosing every event and its parameters after seeing all earlier answers, the
/// transcript of all admitted events is (ε, δ)-private for the budget the filter was made for, under the neighbour relation
/// of the charges. The caller makes each charge durable before the event runs and never takes one back.
///
/// Let L be the privacy loss of the transcript so far and R the sum of ρ of the events in it, each a function of the
/// transcript before it. For every α, E exp((α−1)(L − αR)) never rises above 1, event by event, and R stays within the cap.
/// So the transcript is (α, α·cap)-Rényi private, for all α at once: there is one condition, hence no order that the
/// analyst could steer, and the best order for the conversion is free. Events with a δ outside are of such a kind but for a
/// bad case of that conditional probability; the bad cases of one transcript sum to at most the other cap.
///
/// ```
/// use dither_accounting::{ConcentratedFilter, ConcentratedLoss, Event};
/// use dither_core::{Budget, Delta, Neighbors};
/// let budget = Budget { epsilon: "1".parse().unwrap(), delta: "1e-6".parse().unwrap() };
/// let filter = ConcentratedFilter::new(budget, Delta::ZERO).unwrap();
/// let query = ConcentratedLoss::of(&Event::Gaussian { noise_multiplier: 100.0 }, Neighbors::AddOrRemoveUnit).unwrap();
/// let mut spent = ConcentratedLoss::default();
/// let admitted = (0..1_000).take_while(|_| filter.admit(spent, query).map(|sum| spent = sum).is_ok()).count();
/// assert_eq!(admitted, 487); // (100/4.5309)², the noise that one query would need by the same conversion
/// ```
///
/// # References
/// Whitehouse, Ramdas, Rogers and Wu, *Fully-Adaptive Composition in Differential Privacy*, 2023, the filter for
/// approximate zCDP; Feldman and Zrnic, *Individual Privacy Accounting via a Rényi Filter*, 2021, for each order. The
/// conversion is Canonne, Kamath and Steinke 2020, Proposition 12.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConcentratedFilter {
    /// The cap on each sum.
    cap: ConcentratedLoss,
}

impl ConcentratedFilter {
    /// The filter of a budget, of whose δ so much is kept for what is outside ρ, such as thresholds.
    ///
    /// # Errors
    /// [`AccountingError::DeltaTooSmall`] if nothing of δ is left for the conversion.
    pub fn new(budget: Budget, outside: Delta) -> Result<Self, AccountingError> {
        let too_small = AccountingError::DeltaTooSmall { delta: budget.delta };
        let left = budget.delta.attos().checked_sub(outside.attos()).filter(|left| *left > 0).ok_or(too_small)?;
        let fits = |rho: f64| zcdp::epsilon(rho, delta_down(left)) <= epsilon_down(budget.epsilon.nanos());
        // ρ alone is a part of ε, so ε is more than any ρ that fits.
        let rho = bisect(0.0, budget.epsilon.as_f64(), fits);
        let rho_picos = (down(rho) * PICOS) as u64;
        Ok(Self { cap: ConcentratedLoss { rho_picos, delta_attos: outside.attos() } })
    }

    /// The sums after one more event, if it fits.
    ///
    /// # Errors
    /// [`Refusal::ConcentratedExceeded`] with what still fits; [`Refusal::Overflow`].
    pub fn admit(&self, spent: ConcentratedLoss, charge: ConcentratedLoss) -> Result<ConcentratedLoss, Refusal> {
        let sum = spent.plus(charge).ok_or(Refusal::Overflow)?;
        if sum.rho_picos <= self.cap.rho_picos && sum.delta_attos <= self.cap.delta_attos {
            return Ok(sum);
        }
        Err(Refusal::ConcentratedExceeded { requested: charge, remaining: self.remaining(spent) })
    }

    /// The largest charge that still fits.
    ///
    /// ```
    /// use dither_accounting::{ConcentratedFilter, ConcentratedLoss};
    /// use dither_core::{Budget, Delta};
    /// let budget = Budget { epsilon: "1".parse().unwrap(), delta: "1e-6".parse().unwrap() };
    /// let filter = ConcentratedFilter::new(budget, Delta::ZERO).unwrap();
    /// let all = filter.remaining(ConcentratedLoss::default());
    /// assert_eq!(filter.remaining(all), ConcentratedLoss::default());
    /// ```
    pub fn remaining(&self, spent: ConcentratedLoss) -> ConcentratedLoss {
        ConcentratedLoss {
            rho_picos: self.cap.rho_picos.saturating_sub(spent.rho_picos),
            delta_attos: self.cap.delta_attos.saturating_sub(spent.delta_attos),
        }
    }
}
