//! Training runs as they are charged: discrete Gaussian noise on Poisson samples, many times.

use std::fmt;

use dither_core::{Neighbors, PrivacyEvent};

use crate::error::AccountingError;
use crate::event::Event;
use crate::gaussian::GAUSSIAN_MIN_SIGMA;
use crate::pld::Pld;
use crate::rdp::Curve;
use crate::round::{down, exp, ln, quotient_up, sqrt, up};

/// One [`PrivacyEvent::SampledGaussian`], as the accountants see it.
pub(crate) struct Training {
    rate: f64,
    /// Δ/σ, squared, rounded up.
    mu_squared: f64,
    /// σ in lattice steps, rounded down.
    sigma: f64,
    coordinates: f64,
    steps: u64,
    neighbors: Neighbors,
    /// The Rényi curve of its continuous counterpart.
    curve: Curve,
}

impl fmt::Debug for Training {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Training({:?})", self.key())
    }
}

impl Training {
    /// The run of an event; `None` for another kind of event and for one that moves nothing.
    pub fn of(event: &PrivacyEvent) -> Result<Option<Self>, AccountingError> {
        let PrivacyEvent::SampledGaussian { rate, sensitivity, variance, coordinates, steps, neighbors } = event else {
            return Ok(None);
        };
        if rate.numerator() > rate.denominator() {
            let path = "event.sampled-gaussian.rate".into();
            return Err(AccountingError::InvalidEvent { path, problem: "is between 0 and 1" });
        }
        if sensitivity.squared() == 0 || *steps == 0 {
            return Ok(None);
        }
        let mu_squared = quotient_up([sensitivity.squared(), variance.denominator()], variance.numerator());
        let (rate, neighbors) = (up(rate.as_f64()).min(1.0), *neighbors);
        let curve = Curve::of(&continuous(rate, mu_squared, *steps), neighbors)?;
        let (sigma, coordinates) = (down(sqrt(variance.as_f64())), up((*coordinates).max(1) as f64));
        Ok(Some(Self { rate, mu_squared, sigma, coordinates, steps: *steps, neighbors, curve }))
    }

    /// What runs are sorted by.
    pub fn key(&self) -> [f64; 6] {
        let replaced = f64::from(self.neighbors.distance());
        [self.rate, self.mu_squared, self.sigma, self.coordinates, self.steps as f64, replaced]
    }

    /// The Rényi loss of order α, rounded up.
    ///
    /// # Privacy
    /// At a whole order it is that of continuous noise, exactly: for a shift by integers Δ the moment E_Q (P/Q)^k of
    /// two discrete Gaussians of parameter σ is e^(k(k−1)‖Δ‖²/2σ²), since Σ exp(−‖x − kΔ‖²/2σ²) over the integers does
    /// not change with kΔ; and the moments of a sampled mechanism are sums of these with binomial weights. The map
    /// x → Δ − x swaps P and Q, so that sample against no sample is the worse direction here as well (Mironov, Talwar and
    /// Zhang 2019, Theorems 4 and 5). The loss grows with the order, so any other order is rounded up to a whole one.
    pub fn renyi(&self, alpha: f64) -> f64 {
        self.curve.at(if alpha.is_finite() { alpha.ceil().max(2.0) } else { alpha })
    }

    /// Over how many coordinates and steps the lattice adds up.
    fn draws(&self) -> f64 {
        up(self.coordinates * self.steps as f64)
    }
}

fn continuous(rate: f64, mu_squared: f64, steps: u64) -> Event {
    let noise = Event::Gaussian { noise_multiplier: down(1.0 / sqrt(mu_squared)) };
    Event::SelfComposed { count: steps, event: Box::new(Event::PoissonSampled { rate, event: Box::new(noise) }) }
}

/// The smallest ε at which the runs are (ε, δ)-private together by numerical composition, rounded up; `None` where no
/// ε is enough, where their neighbours differ, or where a lattice is too coarse.
///
/// # Privacy
/// Each run has noise on the integers; the numerical composition is of continuous noise. Let P be the law of all answers
/// and all samples, and R that of continuous noise rounded to the integers instead, which is post-processing of
/// continuous noise, since adding integers and rounding commute. N draws of noise are made in all, one for each
/// coordinate of each step. Given the samples and the answers before, a draw k has (see
/// [`composed_epsilon`](crate::gaussian), where σ ≥ 2 makes the normalisers agree to 10⁻³³)
///
/// - P ≤ e^η R with η = 1/24σ², everywhere, and
/// - R ≤ e^(k²/24σ⁴) P.
///
/// Both hold for all draws together with Nη and Σk²/24σ⁴ in the exponents, and for the mixture over samples. Let G be
/// where Σk² ≤ Kσ². For every set S of answers and neighbours x, x′,
///
/// P(x,S) ≤ e^(Nη) R(x,S) ≤ e^(Nη) (e^ε R(x′,S∩G) + e^ε τ + δ) ≤ e^(ε+Nη+K/24σ²) P(x′,S) + e^(Nη) (δ + e^ε τ),
///
/// with τ the probability that R(x′) leaves G. Rounding moves a draw by at most ½, so √Σk² ≤ σ√χ² + √N/2 for a χ² of N
/// degrees of freedom, which exceeds N + 2√(Nz) + 2z with probability at most e^−z (Laurent and Massart 2000, Lemma 1).
/// z is chosen so that e^ε τ is 10⁻⁹ δ. Several runs add their Nη, K/24σ² and τ.
///
/// # References
/// Canonne, Kamath and Steinke, *The Discrete Gaussian for Differential Privacy*, 2020, for the noise. Laurent and
/// Massart, *Adaptive estimation of a quadratic functional by model selection*, 2000, Lemma 1. [`Pld`] for the rest.
pub(crate) fn composed_epsilon(runs: &[Training], delta: f64) -> Option<f64> {
    const TAIL: f64 = 1e-9;
    let neighbors = runs.first()?.neighbors;
    let fine = runs.iter().all(|run| run.sigma >= GAUSSIAN_MIN_SIGMA && run.neighbors == neighbors);
    let eta = |run: &Training| run.draws() / (24.0 * run.sigma * run.sigma);
    let etas = up(runs.iter().map(eta).sum());
    // Below this bound e^(Nη) · 10⁻⁹ is less than the 2·10⁻⁹ that are kept for it.
    if !(fine && delta > 0.0 && etas < 0.5) {
        return None;
    }
    let left = down(delta * exp(-etas) * (1.0 - 2.0 * TAIL));
    let all = runs.iter().map(|run| continuous(run.rate, run.mu_squared, run.steps)).collect();
    let epsilon = Pld::of(&Event::Composed(all), neighbors).ok()?.epsilon(left).upper;
    let z = up(epsilon + ln(runs.len() as f64 / (TAIL * delta)));
    let spread = |run: &Training| {
        let draws = run.draws();
        let root = sqrt(draws + 2.0 * sqrt(draws * z) + 2.0 * z) + sqrt(draws) / (2.0 * run.sigma);
        root * root / (24.0 * run.sigma * run.sigma)
    };
    let lattice = up(etas + runs.iter().map(spread).sum::<f64>());
    (epsilon.is_finite() && lattice.is_finite()).then(|| up(epsilon + lattice))
}

#[cfg(test)]
mod tests {
    use dither_core::{Delta, L2Sensitivity, Ratio};

    use super::*;
    use crate::{Cost, Filter, Spent, statement};

    /// A run with this multiplier on a lattice with σ = 2^20 · multiplier.
    fn run(rate: (u128, u128), multiplier: f64, coordinates: u64, steps: u64, neighbors: Neighbors) -> PrivacyEvent {
        let sensitivity: u128 = 1 << 20;
        let sigma = multiplier * sensitivity as f64;
        PrivacyEvent::SampledGaussian {
            rate: Ratio::new(rate.0, rate.1).unwrap(),
            sensitivity: L2Sensitivity::from_squared(sensitivity * sensitivity),
            variance: Ratio::at_least(sigma * sigma).unwrap(),
            coordinates,
            steps,
            neighbors,
        }
    }

    fn price(event: &PrivacyEvent, delta: &str) -> (f64, f64) {
        let statement = statement(event, delta.parse().unwrap()).unwrap();
        let amount = |nanos: Option<u64>| nanos.map_or(f64::INFINITY, |nanos| nanos as f64 / 1e9);
        (amount(statement.basic), amount(statement.rdp))
    }

    #[test]
    fn training_runs_have_their_published_prices() {
        // dp-accounting 0.6.0, PLD at mesh 1e-4, and Opacus 1.6.0, RDP on a finer grid of orders than whole ones.
        for (rate, multiplier, steps, delta, pld, rdp) in [
            ((256, 60_000), 1.1, 14_063, "1e-5", 2.381779, 2.596656),
            ((1, 100), 4.0, 10_000, "1e-5", 0.946999, 1.035490),
            ((1000, 67_349), 0.7, 202, "1e-5", 3.724759, 4.559437),
            ((1, 1), 10.0, 100, "1e-5", 4.377178, 4.728507),
        ] {
            let (ours, renyi) = price(&run(rate, multiplier, 1_000, steps, Neighbors::AddOrRemoveUnit), delta);
            assert!(ours <= pld + 1e-6 && ours > pld - 2e-4, "{ours} {pld}");
            assert!(renyi < rdp * 1.04 && renyi > rdp * 0.98, "{renyi} {rdp}");
        }
        // Replacing a unit: REPLACE_ONE of dp-accounting 0.6.0.
        let (ours, _) = price(&run((256, 60_000), 1.1, 1_000, 14_063, Neighbors::ReplaceUnit), "1e-5");
        assert!((ours - 4.221531).abs() < 2e-3, "{ours}");
    }

    #[test]
    fn a_coarse_lattice_costs_more_and_one_that_is_too_coarse_has_no_numerical_price() {
        let at =
            |coordinates, steps| price(&run((1, 100), 1.0, coordinates, steps, Neighbors::AddOrRemoveUnit), "1e-5");
        let (small, large) = (at(1, 1000).0, at(100_000_000, 1000).0);
        // 10^11 draws at σ = 2^20: 2N/24σ² = 0.0076.
        assert!(large > small + 0.0075 && large < small + 0.0085, "{small} {large}");
        assert_eq!(at(100_000_000, 1000).1, at(1, 1000).1, "whole orders do not see the lattice");
        assert_eq!(at(u64::MAX, 1000).0, f64::INFINITY);
    }

    #[test]
    fn fewer_steps_never_cost_more_and_none_cost_nothing() {
        let cost =
            |steps| Cost::of(&run((1, 50), 1.0, 100, steps, Neighbors::AddOrRemoveUnit), "1e-5".parse().unwrap());
        let costs: Vec<u64> = [0, 1, 10, 100, 1000].map(|steps| cost(steps).unwrap().epsilon_nanos).to_vec();
        assert!(costs.is_sorted() && costs[0] == 0, "{costs:?}");
        let filter = Filter {
            budget: dither_core::Budget { epsilon: "8".parse().unwrap(), delta: "1e-4".parse().unwrap() },
            composition: crate::Composition::Renyi,
        };
        assert!(filter.admit(&Spent::default(), &cost(100).unwrap()).is_ok());
    }

    #[test]
    fn odd_runs_are_refused() {
        let delta: Delta = "1e-5".parse().unwrap();
        assert!(Cost::of(&run((3, 2), 1.0, 1, 1, Neighbors::AddOrRemoveUnit), delta).is_err());
        assert!(Cost::of(&run((1, 2), 1.0, 1, 1, Neighbors::AddOrRemoveUnit), Delta::ZERO).is_err());
    }
}
