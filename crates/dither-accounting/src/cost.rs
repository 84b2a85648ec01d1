//! What an event costs, under each accountant and on the grid that the Rényi filter adds up.

use dither_core::{Delta, PrivacyEvent};
use serde::{Deserialize, Serialize};

use crate::error::AccountingError;
use crate::profile::Profile;
use crate::round::{delta_down, nanos_up};
use crate::{rdp, zcdp};

/// How many orders the grid has.
pub const ORDER_COUNT: usize = 24;

/// The orders α at which every cost is recorded. They are part of the ledger format and never change.
///
/// A budget (ε, δ) that is used up by many small events is served best by α − 1 ≈ 2 ln(1/δ)/ε while ε is
/// small and by √(ln(1/δ)/ε) while it is large: from 0.3 for ε = 100 to 4000 for ε = 0.01. Neighbours are a
/// factor of 1.5 apart up to 513 and of 2 beyond. For ε from 0.1 to 100 and δ from 10⁻¹² to 10⁻⁵ the best of
/// these orders admits at least 96 % of the events that the best real order admits; the filter's split of δ over
/// the orders costs it a few per cent more. The infinite order is the pure loss: Laplace events never cost more
/// than their sum.
pub const ORDERS: [f64; ORDER_COUNT] = [
    1.25,
    1.5,
    2.0,
    2.5,
    3.0,
    4.0,
    5.0,
    7.0,
    9.0,
    13.0,
    17.0,
    25.0,
    33.0,
    49.0,
    65.0,
    97.0,
    145.0,
    217.0,
    321.0,
    513.0,
    1025.0,
    2049.0,
    4097.0,
    f64::INFINITY,
];

/// A loss that cannot be counted, in place of nano-units. No budget admits it.
pub const UNBOUNDED: u64 = u64::MAX;

/// The smallest ε of one event at one δ, under each accountant, in nano-units rounded up.
///
/// # Privacy
/// The event is (`best`, `delta`)-private as a whole, whatever order its parts run in and however the later
/// parts depend on the answers of the earlier ones, as long as all parameters are fixed in advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// The total δ, thresholds included.
    pub delta: Delta,
    /// Pure losses added up, Gaussian events composed exactly; `None` where no ε holds.
    pub basic: Option<u64>,
    /// Zero-concentrated differential privacy; `None` where no ε holds.
    pub zcdp: Option<u64>,
    /// Rényi differential privacy over all real orders; `None` where no ε holds.
    pub rdp: Option<u64>,
    /// The smallest of them.
    pub best: u64,
}

/// States the loss of an event at a total δ under each accountant.
///
/// # Errors
/// [`AccountingError::UnknownEvent`]; [`AccountingError::DeltaTooSmall`] if `delta` is below that of the
/// thresholds, or leaves nothing to Gaussian noise; [`AccountingError::LossTooLarge`].
///
/// # Privacy
/// See [`Statement`]; for the neighbour relation that the sensitivities of the event are for.
///
/// ```
/// use dither_accounting::statement;
/// use dither_core::{Delta, L2Sensitivity, PrivacyEvent, Ratio};
/// let sigma = 1 << 20;
/// let event = PrivacyEvent::Gaussian {
///     sensitivity: L2Sensitivity::from_squared(sigma * sigma),
///     variance: Ratio::new(sigma * sigma, 1).unwrap(),
///     coordinates: 1,
/// };
/// let statement = statement(&event, "1e-5".parse().unwrap()).unwrap();
/// assert_eq!(statement.best / 1000, 4_377_178);
/// assert!(statement.rdp.unwrap() / 1000 <= 4_728_507);
/// ```
///
/// # References
/// Basic: Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022, Corollary 3.3; Dwork and Roth 2014, Theorem
/// 3.16. zCDP: Bun and Steinke 2016, Lemma 1.7; Canonne, Kamath and Steinke 2020, Theorem 14. RDP: Mironov,
/// *Rényi Differential Privacy*, 2017, Proposition 1; Canonne, Kamath and Steinke 2020, Proposition 12.
pub fn statement(event: &PrivacyEvent, delta: Delta) -> Result<Statement, AccountingError> {
    state(&Profile::of(event)?, delta)
}

fn state(profile: &Profile, delta: Delta) -> Result<Statement, AccountingError> {
    let too_small = AccountingError::DeltaTooSmall { delta };
    let thresholds = profile.threshold_attos.ok_or_else(|| too_small.clone())?;
    let left = delta.attos().checked_sub(thresholds).ok_or_else(|| too_small.clone())?;
    if left == 0 && !profile.is_pure() {
        return Err(too_small);
    }
    let left = delta_down(left);
    let basic = profile.basic_nanos(left);
    let zcdp = (left > 0.0).then(|| zcdp::epsilon(profile.rho(), left)).and_then(nanos_up);
    let rdp = (left > 0.0).then(|| rdp::epsilon(|alpha| profile.renyi(alpha), left)).and_then(nanos_up);
    let best = [basic, zcdp, rdp].into_iter().flatten().min().ok_or(AccountingError::LossTooLarge)?;
    Ok(Statement { delta, basic, zcdp, rdp, best })
}

/// What a ledger adds up: the price of one event under every composition that a [`Filter`](crate::Filter) knows.
///
/// # Privacy
/// The event is (`epsilon_nanos`·10⁻⁹, `delta_attos`·10⁻¹⁸)-private. Outside a bad case of probability
/// `threshold_attos`·10⁻¹⁸ it is (α, `renyi_nanos`·10⁻⁹)-Rényi private for each α of [`ORDERS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// The smallest ε at `delta_attos`, in nano-units, rounded up.
    pub epsilon_nanos: u64,
    /// The δ that goes with it, in units of 10⁻¹⁸; thresholds included.
    pub delta_attos: u64,
    /// The Rényi loss at each of [`ORDERS`], in nano-units, rounded up; [`UNBOUNDED`] where it is not finite.
    pub renyi_nanos: [u64; ORDER_COUNT],
    /// The δ of the thresholds alone, in units of 10⁻¹⁸.
    pub threshold_attos: u64,
}

impl Cost {
    /// Prices an event that may use this δ.
    ///
    /// A purely Laplace event uses none of it, unless that lowers its ε by more than a thousandth: then it
    /// uses all. Thresholds use theirs, Gaussian noise uses all.
    ///
    /// # Errors
    /// As for [`statement`].
    ///
    /// # Privacy
    /// See [`Cost`] and [`statement`].
    ///
    /// ```
    /// use dither_accounting::Cost;
    /// use dither_core::{Delta, L1Sensitivity, PrivacyEvent, Ratio};
    /// let event = PrivacyEvent::Laplace { sensitivity: L1Sensitivity::new(1), scale: Ratio::new(10, 1).unwrap() };
    /// let cost = Cost::of(&event, "1e-6".parse().unwrap()).unwrap();
    /// assert_eq!((cost.epsilon_nanos, cost.delta_attos), (100_000_000, 0));
    /// ```
    pub fn of(event: &PrivacyEvent, delta: Delta) -> Result<Self, AccountingError> {
        let profile = Profile::of(event)?;
        let statement = state(&profile, delta)?;
        let threshold_attos = profile.threshold_attos.ok_or(AccountingError::LossTooLarge)?;
        let without_delta = statement
            .basic
            .filter(|basic| profile.is_pure() && u128::from(*basic) * 1000 <= u128::from(statement.best) * 1001);
        let (epsilon_nanos, delta_attos) = match without_delta {
            Some(basic) => (basic, threshold_attos),
            None => (statement.best, delta.attos()),
        };
        Ok(Self { epsilon_nanos, delta_attos, renyi_nanos: renyi_grid(&profile), threshold_attos })
    }
}

/// The Rényi losses of a Laplace event of so many nano-units.
pub(crate) fn laplace_grid(nanos: u64) -> [u64; ORDER_COUNT] {
    renyi_grid(&Profile::laplace(nanos))
}

fn renyi_grid(profile: &Profile) -> [u64; ORDER_COUNT] {
    ORDERS.map(|order| {
        let pure = || profile.pure_nanos.filter(|_| profile.is_pure());
        let loss = if order.is_finite() { nanos_up(profile.renyi(order)) } else { pure() };
        loss.unwrap_or(UNBOUNDED)
    })
}
