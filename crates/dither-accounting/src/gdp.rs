//! Gaussian differential privacy: one number μ, exact for Gaussian noise and its composition.
//!
//! [`gaussian::epsilon`](crate::gaussian::epsilon), [`gaussian::delta`](crate::gaussian::delta) and
//! [`gaussian::calibrate`](crate::gaussian::calibrate) translate between μ and (ε, δ), exactly.
//!
//! # What this module does not do
//! There is a limit theorem that gives sampled Gaussian noise a μ as the number of steps grows. It is a limit, not a
//! bound: for the noise multiplier 1.1, rate 256/60000 and 14,063 steps it says ε = 2.3244 at δ = 10⁻⁵, where a proven
//! *lower* bound on ε is 2.3715. So sampled events have no μ here; [`rdp::Curve`](crate::rdp::Curve) prices them.

use dither_core::Neighbors;

use crate::error::AccountingError;
use crate::event::Event;
use crate::round::{sqrt, up};

/// The μ of an event, rounded up: Gaussian noise, and what is composed of it.
///
/// # Errors
/// [`AccountingError::InvalidEvent`]; [`AccountingError::NotCovered`] for every other kind, sampled ones included.
///
/// # Privacy
/// The event is μ-GDP for the neighbour relation: no test tells neighbours apart better than it tells N(0, 1) from
/// N(μ, 1). Composed events may be chosen adaptively; their parameters are fixed in advance.
///
/// ```
/// use dither_accounting::{Event, gaussian, gdp};
/// use dither_core::Neighbors;
/// let round = Event::Gaussian { noise_multiplier: 10.0 };
/// let rounds = Event::SelfComposed { count: 100, event: Box::new(round) };
/// let mu = gdp::mu(&rounds, Neighbors::AddOrRemoveUnit).unwrap();
/// assert!((mu - 1.0).abs() < 1e-9);
/// assert!((gaussian::epsilon(1e-5, mu).unwrap() - 4.377178).abs() < 1e-6);
/// ```
///
/// # References
/// Dong, Roth and Su, *Gaussian Differential Privacy*, 2022, Theorem 2.7 and Corollary 3.3. Balle and Wang, *Improving the
/// Gaussian Mechanism for Differential Privacy*, 2018, Theorem 8, for (ε, δ).
pub fn mu(event: &Event, neighbors: Neighbors) -> Result<f64, AccountingError> {
    event.validate()?;
    let mu = up(sqrt(squared(event, neighbors)?));
    if mu.is_finite() { Ok(mu) } else { Err(not_covered(event)) }
}

fn not_covered(event: &Event) -> AccountingError {
    AccountingError::NotCovered { accountant: "gdp", event: event.kind() }
}

/// μ², rounded up.
fn squared(event: &Event, neighbors: Neighbors) -> Result<f64, AccountingError> {
    let parts = |parts: &[Event]| parts.iter().map(|part| squared(part, neighbors)).collect::<Result<Vec<_>, _>>();
    match event {
        Event::NoOp => Ok(0.0),
        Event::Gaussian { noise_multiplier } => {
            let mu = 1.0 / noise_multiplier;
            Ok(up(mu * mu).max(f64::MIN_POSITIVE))
        }
        Event::Composed(list) => Ok(up(parts(list)?.iter().sum())),
        Event::SelfComposed { count: 0, .. } => Ok(0.0),
        Event::SelfComposed { count, event } => Ok(up(*count as f64 * squared(event, neighbors)?)),
        Event::Parallel(list) => {
            let mut parts = parts(list)?;
            parts.sort_by(|a, b| b.total_cmp(a));
            Ok(up(parts.iter().take(neighbors.distance() as usize).sum()))
        }
        Event::PostProcessed(event) => squared(event, neighbors),
        other => Err(not_covered(other)),
    }
}
