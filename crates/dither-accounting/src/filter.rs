//! Privacy filters: whether one more event, chosen after seeing all earlier answers, still fits a budget.

mod concentrated;
mod odometer;

pub use concentrated::{ConcentratedFilter, ConcentratedLoss};
pub use odometer::Odometer;

use dither_core::{Audience, Budget, Epsilon, Explain};
use serde::{Deserialize, Serialize};

use crate::cost::{self, Cost, ORDER_COUNT, ORDERS};
use crate::rdp;
use crate::round::{delta_down, nanos_up};

/// How a filter adds up costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Composition {
    /// ε and δ are summed, each against its cap. Exact, and best for a few events.
    #[default]
    Basic,
    /// Rényi losses are summed at a fixed grid of orders. Best for many events; needs a δ.
    Renyi,
}

/// Everything charged so far: the component-wise sums of [`Cost`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spent {
    /// Σ ε in nano-units.
    pub epsilon_nanos: u64,
    /// Σ δ in units of 10⁻¹⁸.
    pub delta_attos: u64,
    /// Σ of Rényi losses at each of [`ORDERS`], in nano-units; [`UNBOUNDED`](crate::UNBOUNDED) once a sum cannot be counted.
    pub renyi_nanos: [u64; ORDER_COUNT],
    /// Σ of thresholds' δ in units of 10⁻¹⁸.
    pub threshold_attos: u64,
}

impl Spent {
    /// The sums with one more cost; `None` if ε or δ leave 64 bits.
    ///
    /// A Rényi order whose sum leaves 64 bits becomes [`UNBOUNDED`](crate::UNBOUNDED) and stays so; the other orders go on.
    pub fn plus(&self, cost: &Cost) -> Option<Self> {
        let mut sum = Self {
            epsilon_nanos: self.epsilon_nanos.checked_add(cost.epsilon_nanos)?,
            delta_attos: self.delta_attos.checked_add(cost.delta_attos)?,
            threshold_attos: self.threshold_attos.checked_add(cost.threshold_attos)?,
            ..*self
        };
        for (total, more) in sum.renyi_nanos.iter_mut().zip(cost.renyi_nanos) {
            *total = total.saturating_add(more);
        }
        Some(sum)
    }
}

/// What a budget still admits, rounded down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remaining {
    /// The largest ε of one more Laplace event, in nano-units.
    pub epsilon_nanos: u64,
    /// The largest δ of one more event (basic) or of one more threshold (Rényi), in units of 10⁻¹⁸.
    pub delta_attos: u64,
}

/// Why a charge was refused. The sums are unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The event does not fit the budget.
    #[error(
        "the budget does not admit epsilon {} and delta {}", decimal(.requested.epsilon_nanos, 1e9),
        decimal(.requested.delta_attos, 1e18)
    )]
    BudgetExceeded {
        /// The ε and δ of the event.
        requested: Remaining,
        /// What the budget still admits.
        remaining: Remaining,
    },
    /// The event does not fit a budget in ρ.
    #[error(
        "the budget does not admit rho {} and delta {}", decimal(.requested.rho_picos, 1e12),
        decimal(.requested.delta_attos, 1e18)
    )]
    ConcentratedExceeded {
        /// The ρ and δ of the event.
        requested: ConcentratedLoss,
        /// What the budget still admits.
        remaining: ConcentratedLoss,
    },
    /// The sums would leave the range of exact arithmetic.
    #[error("the sum of charges is too large to be counted")]
    Overflow,
}

impl Explain for Refusal {
    fn code(&self) -> &'static str {
        match self {
            Self::BudgetExceeded { .. } | Self::ConcentratedExceeded { .. } => "budget-exceeded",
            Self::Overflow => "budget-overflow",
        }
    }
    fn hint(&self) -> Option<String> {
        let remaining = match self {
            Self::BudgetExceeded { remaining, .. } => remaining,
            Self::ConcentratedExceeded { remaining, .. } => {
                let rho = decimal(remaining.rho_picos, 1e12);
                return Some(format!("the budget still admits a rho of {rho}; more noise has less"));
            }
            Self::Overflow => return Some("ask for less".into()),
        };
        let (epsilon, delta) = (decimal(remaining.epsilon_nanos, 1e9), decimal(remaining.delta_attos, 1e18));
        Some(match remaining.epsilon_nanos {
            0 => "the budget is used up; only its owner can raise it".into(),
            _ => format!("set epsilon to at most {epsilon} and delta to at most {delta}"),
        })
    }
    fn audience(&self) -> Audience {
        Audience::Analyst
    }
}

/// The decimal form of an integer number of units; the float is exact to 15 digits.
fn decimal(amount: u64, units: f64) -> f64 {
    amount as f64 / units
}

/// A privacy filter: a budget, and how charges are added up against it.
///
/// # Privacy
/// Whatever an analyst asks, choosing every event and its parameters after seeing all earlier answers, the
/// transcript of all admitted events together is (ε, δ)-private for the budget's ε and δ, for the neighbour
/// relation that the sensitivities of the events are for. The caller makes each charge durable before the
/// event runs and never takes one back.
///
/// *Basic.* Admits while Σε and Σδ are within the caps.
///
/// *Rényi.* Half of δ belongs to thresholds. The other half is split over the finite orders with fixed weights
/// w summing to less than one; admits while *some* order α has Σ D_α + conversion(α, w_α·δ/2) ≤ ε, the
/// infinite order needing no δ.
///
/// One order: let L be the privacy loss of the transcript so far and D the sum of the Rényi losses of the
/// events in it, each a function of the transcript before it. E exp((α−1)(L − D)) never rises above 1, event
/// by event, and the filter keeps D ≤ ε − conversion; so the transcript is (α, ε − conversion)-Rényi private.
///
/// Several orders: the analyst may steer which one survives, so the split is needed. Let S be a set of final
/// transcripts and S_α those of its elements for which α is the first order that fits. Sums never fall, so a
/// transcript in S_α fitted α from beginning to end, and has the same probability under the filter of the
/// single order α, which is (ε, w_α·δ/2)-private. Hence P(S) = Σ P(S_α) ≤ Σ (e^ε P′(S_α) + w_α·δ/2)
/// ≤ e^ε P′(S) + δ/2. The weights depend on the budget alone.
///
/// Thresholds: let P̂ be the law when lone keys are never released. The noise that decides on a lone key must be
/// independent of all other noise; then P̂ and P′ are as private as the noise alone, P ≥ (1 − Σδ_T) P̂ point by
/// point, and P is at most P̂ plus a part of mass Σδ_T. Both directions follow with Σδ_T ≤ δ/2 added to δ.
///
/// ```
/// use dither_accounting::{Composition, Cost, Filter, Spent};
/// use dither_core::{Budget, Delta, L1Sensitivity, PrivacyEvent, Ratio};
/// let budget = Budget { epsilon: "1".parse().unwrap(), delta: Delta::ZERO };
/// let filter = Filter { budget, composition: Composition::Basic };
/// let event = PrivacyEvent::Laplace { sensitivity: L1Sensitivity::new(1), scale: Ratio::new(10, 1).unwrap() };
/// let tenth = Cost::of(&event, Delta::ZERO).unwrap();
///
/// let mut spent = Spent::default();
/// for _ in 0..10 {
///     spent = filter.admit(&spent, &tenth).unwrap();
/// }
/// assert_eq!(filter.remaining(&spent).epsilon_nanos, 0);
/// assert!(filter.admit(&spent, &tenth).is_err());
/// ```
///
/// # References
/// Basic: Rogers, Roth, Ullman and Vadhan, *Privacy Odometers and Filters: Pay-as-you-Go Composition*, 2016.
/// Rényi, for one order: Feldman and Zrnic, *Individual Privacy Accounting via a Rényi Filter*, 2021; Lécuyer,
/// *Practical Privacy Filters and Odometers with Rényi Differential Privacy*, 2021.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Filter {
    /// The limit.
    pub budget: Budget,
    /// How charges are added up.
    pub composition: Composition,
}

impl Filter {
    /// The sums after one more event, if it fits.
    ///
    /// # Errors
    /// [`Refusal::BudgetExceeded`] with what still fits; [`Refusal::Overflow`].
    pub fn admit(&self, spent: &Spent, cost: &Cost) -> Result<Spent, Refusal> {
        let sum = spent.plus(cost).ok_or(Refusal::Overflow)?;
        if self.fits(&sum) {
            return Ok(sum);
        }
        let delta_attos = match self.composition {
            Composition::Basic => cost.delta_attos,
            Composition::Renyi => cost.threshold_attos,
        };
        let requested = Remaining { epsilon_nanos: cost.epsilon_nanos, delta_attos };
        Err(Refusal::BudgetExceeded { requested, remaining: self.remaining(spent) })
    }

    /// What still fits after these charges.
    pub fn remaining(&self, spent: &Spent) -> Remaining {
        match self.composition {
            Composition::Basic => Remaining {
                epsilon_nanos: self.budget.epsilon.nanos().saturating_sub(spent.epsilon_nanos),
                delta_attos: self.budget.delta.attos().saturating_sub(spent.delta_attos),
            },
            Composition::Renyi => Remaining {
                epsilon_nanos: self.largest_laplace(spent),
                delta_attos: self.threshold_cap().saturating_sub(spent.threshold_attos),
            },
        }
    }

    fn fits(&self, sum: &Spent) -> bool {
        match self.composition {
            Composition::Basic => {
                sum.epsilon_nanos <= self.budget.epsilon.nanos() && sum.delta_attos <= self.budget.delta.attos()
            }
            Composition::Renyi => {
                let caps = self.renyi_caps();
                let some_order = sum.renyi_nanos.iter().zip(caps).any(|(sum, cap)| cap.is_some_and(|cap| *sum <= cap));
                some_order && sum.threshold_attos <= self.threshold_cap()
            }
        }
    }

    fn threshold_cap(&self) -> u64 {
        self.budget.delta.attos() / 2
    }

    /// The cap on the sum at each order, ε less the conversion; `None` where the conversion alone exceeds ε.
    ///
    /// The order that admits most Gaussian noise at this budget gets a third of the δ for conversion, and each
    /// step away from it along the grid half of that: a third, plus two geometric series of a third at most.
    fn renyi_caps(&self) -> [Option<u64>; ORDER_COUNT] {
        let (epsilon, delta) = (self.budget.epsilon, delta_down(self.budget.delta.attos() / 2));
        let rho = |order: f64| (epsilon.as_f64() - rdp::conversion(order - 1.0, delta / 3.0)) / order;
        let better = |best: usize, index: usize| if rho(ORDERS[index]) > rho(ORDERS[best]) { index } else { best };
        let best = (0..ORDER_COUNT - 1).reduce(better).unwrap_or(0);
        std::array::from_fn(|index| {
            let weight = libm::exp2(-(index.abs_diff(best) as f64)) / 3.0;
            let conversion = nanos_up(rdp::conversion(ORDERS[index] - 1.0, weight * delta))?;
            epsilon.nanos().checked_sub(conversion)
        })
    }

    fn largest_laplace(&self, spent: &Spent) -> u64 {
        let caps = self.renyi_caps();
        let fits = |nanos: u64| {
            let grid = cost::laplace_grid(nanos);
            spent
                .renyi_nanos
                .iter()
                .zip(grid)
                .zip(caps)
                .any(|((sum, more), cap)| cap.is_some_and(|cap| sum.saturating_add(more) <= cap))
        };
        let (mut low, mut high) = (0, Epsilon::MAX.nanos());
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(middle) { low = middle } else { high = middle - 1 }
        }
        low
    }
}
