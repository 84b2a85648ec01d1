//! What rounds of noisy sums cost.

use std::num::NonZeroU32;

use dither_accounting::{Accountant, AccountingError, Event, GAUSSIAN_MIN_SIGMA};
use dither_core::{Delta, Epsilon, Neighbors, PrivacyEvent};
use libm::{exp, log as ln, sqrt};

/// The relative width of a directed rounding: a hundred times what the few operations here lose.
const MARGIN: f64 = 1e-12;

/// The privacy of all rounds of a plan together, for each client as a whole.
///
/// The noise is discrete, on a lattice, and in the distributed mode a sum of such. [`Self::event`] is the same with
/// continuous noise, which accountants know best; [`Self::epsilon`] adds what the difference can cost at most.
///
/// # Privacy
/// Neighbours are two sets of clients that differ by one client. Let P be what is released, R the same with continuous
/// Gaussian noise rounded to the lattice, which is post-processing of [`Self::event`], m the number of coordinates of all
/// rounds, σ the deviation in steps, η₁ = 1/24σ², and τ the `gap` between one coordinate of a sum of discrete noise and
/// discrete noise, as logarithms. From `dither_accounting::gaussian` (there for coordinates that move; here all m are
/// counted, since with sampling any can): the probability of every integer under the discrete Gaussian is at most e^η₁
/// times that under the rounded one; and the latter at most e^η₂ times the former for integers within tσ, with
/// η₂ = t²/24σ² + ν and ν < 10⁻³⁰⁰.
///
/// Both hold given the cohort and all earlier answers, so they multiply, and may be averaged over cohorts: for every set S
/// of answers, with x and x′ neighbours,
///
/// - P(x,S) ≤ e^A R(x,S), A = m(η₁ + τ);
/// - R(x,S) ≤ e^ε R(x′,S) + δ₀, where ε is that of [`Self::event`] at δ₀;
/// - R(x′,S) ≤ e^B P(x′,S) + m·exp(−z²/2), B = m(η₂ + τ): either all noise lies within tσ, or some noise exceeds
///   (t − 1/2σ)σ =: zσ before rounding, which has probability at most m·2Q(z), whatever the cohorts are.
///
/// Together P is (ε + A + B, e^A δ₀ + e^(A+ε) m exp(−z²/2))-private. δ₀ is chosen as e^-A δ less a billionth of δ, and z so
/// that the last term is that billionth.
///
/// # References
/// Canonne, Kamath and Steinke, *The Discrete Gaussian for Differential Privacy*, 2020. Zhu, Dong and Wang 2022, Theorems
/// 10 and 11, for the event (see [`Pld`](dither_accounting::Pld)).
#[derive(Debug, Clone, PartialEq)]
pub struct Guarantee {
    event: Event,
    concentrated: Option<Event>,
    coordinates: f64,
    sigma: f64,
    gap: f64,
}

impl Guarantee {
    /// The guarantee of so many coordinates, over all rounds, with noise of deviation `sigma` in steps.
    pub(crate) fn new(event: Event, concentrated: Option<Event>, coordinates: f64, sigma: f64, gap: f64) -> Self {
        Self { event, concentrated, coordinates, sigma, gap }
    }

    /// All rounds, with continuous Gaussian noise of the same deviation.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// All rounds as they are, as zero-concentrated events; `None` with sampling, which these do not know.
    pub fn concentrated(&self) -> Option<&Event> {
        self.concentrated.as_ref()
    }

    /// The smallest ε at this δ that is proven, rounded up.
    ///
    /// # Errors
    /// [`AccountingError::LossTooLarge`] where no finite ε is; what is wrong with the event.
    ///
    /// # Privacy
    /// All rounds together are (result, `delta`)-private for one client.
    pub fn epsilon(&self, delta: f64) -> Result<f64, AccountingError> {
        let ways = [
            self.by_continuous_noise(delta),
            self.concentrated.as_ref().map_or(Err(AccountingError::LossTooLarge), |event| price(event, delta)),
        ];
        let proven = ways.iter().flatten().copied().filter(|epsilon| epsilon.is_finite()).reduce(f64::min);
        let [first, _] = ways;
        proven.ok_or(first.err().unwrap_or(AccountingError::LossTooLarge))
    }

    /// What to charge in a ledger before the first round: (ε, δ) of all rounds.
    ///
    /// # Errors
    /// As for [`Self::epsilon`].
    ///
    /// # Privacy
    /// ε is that of [`Self::epsilon`], rounded up to a nano-unit.
    pub fn charge(&self, delta: Delta) -> Result<PrivacyEvent, AccountingError> {
        let at = delta.attos() as f64 / Delta::ATTOS as f64 * (1.0 - MARGIN);
        let nanos = (self.epsilon(at)? * 1e9 * (1.0 + MARGIN)).ceil().max(1.0);
        // A float beyond the range of integers becomes the largest, which is refused.
        let epsilon = Epsilon::from_nanos(nanos as u64).map_err(|_| AccountingError::LossTooLarge)?;
        Ok(PrivacyEvent::Approximate { epsilon, delta, count: NonZeroU32::MIN })
    }

    fn by_continuous_noise(&self, delta: f64) -> Result<f64, AccountingError> {
        const TAIL: f64 = 1e-9;
        let (m, sigma) = (self.coordinates, self.sigma);
        // Also where either is no number.
        if !(sigma >= GAUSSIAN_MIN_SIGMA && delta > 0.0 && delta < 1.0) {
            return Err(AccountingError::LossTooLarge);
        }
        let unit = 1.0 / (24.0 * sigma * sigma);
        let above = m * (unit + self.gap) * (1.0 + MARGIN);
        let left = (delta * exp(-above) - delta * TAIL) * (1.0 - MARGIN);
        if left.is_nan() || left <= 0.0 {
            return Err(AccountingError::LossTooLarge);
        }
        let epsilon = price(&self.event, left)?;
        let z = sqrt(2.0 * (ln(m / (delta * TAIL)) + epsilon + above).max(0.0));
        let t = (z + 0.5 / sigma) * (1.0 + MARGIN);
        let below = m * (t * t * unit + self.gap + f64::MIN_POSITIVE);
        Ok((epsilon + above + below) * (1.0 + MARGIN))
    }
}

/// The smallest ε of an event that any accountant proves, for one client more or less.
fn price(event: &Event, delta: f64) -> Result<f64, AccountingError> {
    Ok(Accountant::best_epsilon(event, Neighbors::AddOrRemoveUnit, delta)?.1.upper)
}
