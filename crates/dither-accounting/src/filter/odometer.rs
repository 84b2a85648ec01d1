//! A privacy odometer: how much has been lost so far, without a budget.

use dither_core::Delta;
use serde::{Deserialize, Serialize};

use crate::cost::{ORDERS, UNBOUNDED};
use crate::filter::Spent;
use crate::round::{delta_down, ln, nanos_up};

/// A privacy odometer over Rényi losses: a bound on the privacy loss that holds at every moment.
///
/// A [`Filter`](crate::Filter) says when to stop; an odometer says where one is, and may be read as often as one likes,
/// also to decide whether to go on.
///
/// # Privacy
/// Whatever an analyst asks, choosing every event and its parameters after seeing all earlier answers: with probability at
/// least 1 − δ over the answers, the privacy loss of the transcript is at most [`Odometer::epsilon_nanos`] *at all times
/// at once*, for both neighbours in turn. That includes every time at which somebody decides to stop because of what
/// the odometer shows. It says more than (ε, δ)-privacy of a transcript of fixed length, and costs more.
///
/// Let L be the privacy loss of the transcript so far and D the sum of the losses of order α of the events in it, each a
/// function of the transcript before it. E exp((α−1)(L − D)) never rises above 1, event by event, so by Ville's inequality
/// L ever exceeds D + ln(1/w)/(α−1) with probability at most w. The orders of the grid get equal shares w of δ, so that all of
/// them hold together and the smallest may be read; the infinite order always holds. Thresholds are bad cases
/// outside, whose probability [`Odometer::delta_attos`] adds.
///
/// ```
/// use dither_accounting::{Cost, Odometer, Spent};
/// use dither_core::{Delta, L1Sensitivity, PrivacyEvent, Ratio};
/// let delta: Delta = "1e-6".parse().unwrap();
/// let event = PrivacyEvent::Laplace { sensitivity: L1Sensitivity::new(1), scale: Ratio::new(100, 1).unwrap() };
/// let cost = Cost::of(&event, delta).unwrap();
/// let spent = (0..1_000).fold(Spent::default(), |spent, _| spent.plus(&cost).unwrap());
/// let shown = Odometer { delta }.epsilon_nanos(&spent).unwrap();
/// assert!(shown < 2_000_000_000); // the sum of the losses is ten
/// ```
///
/// # References
/// Rogers, Roth, Ullman and Vadhan, *Privacy Odometers and Filters: Pay-as-you-Go Composition*, 2016, for what an
/// odometer is. Whitehouse, Ramdas, Rogers and Wu, *Fully-Adaptive Composition in Differential Privacy*, 2023, and Feldman
/// and Zrnic 2021, for odometers from supermartingales; the bound here is Ville's inequality for each order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Odometer {
    /// The probability with which the loss may exceed what is shown, at any time. Without any, pure losses are added.
    pub delta: Delta,
}

impl Odometer {
    /// The bound on the privacy loss so far, in nano-units, rounded up; `None` where no order can be counted.
    pub fn epsilon_nanos(&self, spent: &Spent) -> Option<u64> {
        let finite = ORDERS.iter().filter(|order| order.is_finite()).count() as f64;
        let share = delta_down(self.delta.attos()) / finite;
        let at = |(order, sum): (&f64, u64)| {
            if sum == UNBOUNDED {
                return None;
            }
            // A share of zero makes every finite order infinite.
            let tail = if order.is_finite() { nanos_up(-ln(share) / (order - 1.0))? } else { 0 };
            sum.checked_add(tail)
        };
        ORDERS.iter().zip(spent.renyi_nanos).filter_map(at).min()
    }

    /// The probability with which the bound may fail, in units of 10⁻¹⁸: δ, and what thresholds have added.
    pub fn delta_attos(&self, spent: &Spent) -> u64 {
        self.delta.attos().saturating_add(spent.threshold_attos)
    }
}
