//! Privacy loss distributions: numerical composition with two-sided bounds.
//!
//! An ε from here is an interval. The true smallest ε of the composition lies in it, whatever was rounded, cut off or
//! put on a grid on the way; the upper end may be claimed.
//!
//! How it is done, file by file: `plan` flattens the event into pairs of distributions (`pair`), each known by its
//! hockey-stick divergence with bounds of its rounding. `measure` puts a pair on a grid, once with too much loss and once
//! with too little. `grid` chooses mesh, tilt and window; nothing depends on its being right. `spectrum` multiplies
//! characteristic functions, at the few frequencies that matter where it can and with `fft` where it cannot. `window`
//! turns the product into δ and adds what every step before may be off by.
//!
//! Nothing here depends on the machine: elementary functions come from `libm`, transforms from `fft`.

mod fft;
mod grid;
mod interval;
mod measure;
mod pair;
mod plan;
mod spectrum;
#[cfg(test)]
mod tests;
mod window;

use std::sync::{Arc, Mutex, PoisonError};

use dither_core::Neighbors;

use crate::error::AccountingError;
use crate::event::Event;
use grid::{Layout, MANY, MAX_FINE_LENGTH, MAX_LENGTH, Planned, Target, dots};
pub use interval::Interval;
use measure::Measure;
use pair::{Pair, Way};
use plan::Plan;
use window::Window;

/// The privacy loss distribution of an event.
///
/// ```
/// use dither_accounting::{Event, Pld};
/// use dither_core::Neighbors;
/// let step = Event::PoissonSampled { rate: 0.01, event: Box::new(Event::Gaussian { noise_multiplier: 4.0 }) };
/// let training = Event::SelfComposed { count: 10_000, event: Box::new(step) };
/// let pld = Pld::of(&training, Neighbors::AddOrRemoveUnit).unwrap();
/// let epsilon = pld.epsilon(1e-5);
/// assert!(epsilon.lower > 0.9468 && epsilon.upper < 0.9469);
/// assert!(pld.delta(epsilon.upper).lower <= 1e-5);
/// ```
#[derive(Debug)]
pub struct Pld {
    plan: Plan,
    directions: Vec<Direction>,
}

/// One order of the two neighbours, with the stretches of losses that were composed so far.
#[derive(Debug)]
struct Direction {
    way: Way,
    windows: Mutex<Vec<Arc<Window>>>,
}

/// So many stretches are kept.
const WINDOWS: usize = 16;

impl Pld {
    /// The distribution of an event between neighbours.
    ///
    /// What the kinds of events are taken for:
    ///
    /// - Gaussian, Laplace, discrete noise and randomised response: themselves, with the sensitivity of the relation
    ///   asked about. Gaussian events become one, exactly. A bounded range and (ε, δ) are taken for randomised
    ///   response with this ε, the latter with a failure of probability δ; a tighter pair is known for the former
    ///   (Dong, Durfee and Rogers 2020) and not used.
    /// - `Threshold`: a failure of probability δ.
    /// - `PoissonSampled`: add or remove, of one pair (a sample that several mechanisms see is not known). With
    ///   [`Neighbors::ReplaceUnit`] Gaussian noise only: at worst the replaced unit moves the sum by +1 in one table and by
    ///   −1 in the other, if it is in the sample.
    /// - `Parallel`: a unit is in one part, whichever costs most at each ε; each part must be a single mechanism, or
    ///   Gaussian throughout. A replaced unit leaves one part and enters another: that is counted twice, each with the
    ///   sensitivity given for the part.
    ///
    /// # Errors
    /// [`AccountingError::NotCovered`] for `ZeroConcentrated`, `SampledWithoutReplacement` and the
    /// combinations named above; [`AccountingError::InvalidEvent`]; [`AccountingError::LossTooLarge`] where one
    /// step loses more than floats can say.
    ///
    /// # Privacy
    /// The parameters of all parts must be fixed in advance; each part may depend on the answers of earlier ones.
    ///
    /// # References
    /// Zhu, Dong and Wang, *Optimal Accounting of Differential Privacy via Characteristic Function*, 2022, Theorem 10
    /// for adaptive composition of dominating pairs, Theorem 11 for Poisson sampling. Dong, Roth and Su 2022,
    /// Corollary 3.3, for Gaussians. Kairouz, Oh and Viswanath, *The Composition Theorem for Differential Privacy*,
    /// 2015, Theorem 3.3, for the pair of (ε, δ).
    pub fn of(event: &Event, neighbors: Neighbors) -> Result<Self, AccountingError> {
        event.validate()?;
        Ok(Self::compose(Plan::of(event, neighbors)?))
    }

    fn compose(plan: Plan) -> Self {
        let symmetric = plan.parts.iter().all(|(pair, _)| pair.is_symmetric());
        let ways = if symmetric { vec![Way::Remove] } else { vec![Way::Remove, Way::Add] };
        let directions = ways.into_iter().map(|way| Direction { way, windows: Mutex::default() }).collect();
        Self { plan, directions }
    }

    /// Bounds of the smallest δ at this ε, which is dimensionless; a negative one counts as zero, and what is no
    /// number gives one.
    ///
    /// Stretches of losses are composed once and kept, so that a curve costs little more than a point.
    ///
    /// # Privacy
    /// The event is (`epsilon`, `upper`)-private for the neighbours asked about, and not (`epsilon`, δ)-private for any
    /// δ below `lower` if its parts are the mechanisms it names, with nothing left to chance.
    pub fn delta(&self, epsilon: f64) -> Interval {
        if self.plan.broken || epsilon.is_nan() {
            return Interval::ONE;
        }
        let epsilon = epsilon.max(0.0);
        let unknown = Interval { lower: 0.0, upper: 1.0 };
        self.larger(unknown, |direction| direction.delta(&self.plan.parts, epsilon))
    }

    /// Bounds of the smallest ε at this δ. The upper one is infinite where no finite ε is known to hold.
    ///
    /// # Privacy
    /// The event is (`upper`, `delta`)-private for the neighbours asked about.
    pub fn epsilon(&self, delta: f64) -> Interval {
        if delta >= 1.0 {
            return Interval::ZERO;
        }
        if self.plan.broken || delta.is_nan() {
            let lower = if self.plan.broken { f64::INFINITY } else { 0.0 };
            return Interval { lower, upper: f64::INFINITY };
        }
        let delta = delta.max(0.0);
        let unknown = Interval { lower: 0.0, upper: f64::INFINITY };
        self.larger(unknown, |direction| direction.epsilon(&self.plan.parts, delta))
    }

    /// The bounds of the larger of both directions, which are computed side by side; `unknown` for one that ends early.
    fn larger(&self, unknown: Interval, bounds: impl Fn(&Direction) -> Interval + Sync) -> Interval {
        match &self.directions[..] {
            [first, second] => std::thread::scope(|scope| {
                let second = scope.spawn(|| bounds(second));
                bounds(first).max(second.join().unwrap_or(unknown))
            }),
            directions => directions.iter().map(bounds).fold(Interval::ZERO, Interval::max),
        }
    }

    /// Losses and their probabilities, for a picture: some `points` of the distribution of the loss with the unit in
    /// the data against without, around the ε at `delta`. No bound, and empty where nothing was composed.
    pub fn distribution(&self, delta: f64, points: usize) -> Vec<(f64, f64)> {
        let direction = self.directions.first().filter(|_| !self.plan.broken);
        let composed = direction.and_then(|direction| direction.compose(&self.plan.parts, Target::Delta(delta)));
        composed.map(|(window, _)| window.distribution(points)).unwrap_or_default()
    }
}

impl Direction {
    fn delta(&self, parts: &[(Pair, u64)], epsilon: f64) -> Interval {
        match parts {
            [] => Interval::ZERO,
            [(pair, 1)] => pair.hockey_stick(self.way, epsilon),
            _ if epsilon >= largest_loss(parts, self.way) => Interval::ZERO,
            _ => {
                let known = {
                    let windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
                    let found = windows.iter().map(|window| window.delta(epsilon));
                    found.min_by(|a, b| (a.upper - a.lower).total_cmp(&(b.upper - b.lower)))
                };
                if let Some(bounds) = known.filter(|bounds| bounds.upper - bounds.lower <= 0.01 * bounds.upper) {
                    return bounds;
                }
                let window = self.compose(parts, Target::Epsilon(epsilon));
                window.map_or(Interval { lower: 0.0, upper: 1.0 }, |(window, _)| window.delta(epsilon))
            }
        }
    }

    fn epsilon(&self, parts: &[(Pair, u64)], delta: f64) -> Interval {
        match parts {
            [] => Interval::ZERO,
            [(pair, 1)] => solve_one(pair, self.way, delta),
            _ => {
                let composed = self.compose(parts, Target::Delta(delta.max(1e-290)));
                let bounds = composed.map(|(window, guess)| window.epsilon(delta, guess));
                let Interval { lower, upper } = bounds.unwrap_or(Interval { lower: 0.0, upper: f64::INFINITY });
                // The sum of the largest losses always holds.
                let most = largest_loss(parts, self.way);
                Interval { lower: lower.min(most), upper: upper.min(most) }
            }
        }
    }

    /// Composes around the target, and says where ε is to be expected.
    fn compose(&self, parts: &[(Pair, u64)], target: Target) -> Option<(Arc<Window>, f64)> {
        let planned: Vec<Planned> = parts.iter().map(|(pair, count)| Planned::new(pair, self.way, *count)).collect();
        let attempt = |most: f64| {
            let layout = Layout::new(&planned, parts, target, most)?;
            let steps: Vec<(Measure, u64)> = parts
                .iter()
                .zip(&planned)
                .enumerate()
                .map(|(i, ((pair, count), step))| {
                    let at = dots(pair, self.way, step, &layout, i);
                    (Measure::new(pair, self.way, layout.mesh, layout.offsets[i], at), *count)
                })
                .collect();
            Window::new(&steps, &layout).map(|window| (Arc::new(window), layout.mean))
        };
        // Of many equal steps only few frequencies are left, and the mesh may be as fine as it likes.
        let many = parts.iter().any(|(pair, count)| *count as f64 >= MANY && pair.atoms(self.way).is_empty());
        let (window, guess) = many.then(|| attempt(MAX_FINE_LENGTH)).flatten().or_else(|| attempt(MAX_LENGTH))?;
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        if windows.len() == WINDOWS {
            windows.remove(0);
        }
        windows.push(window.clone());
        Some((window, guess))
    }
}

/// The sum of all largest losses, rounded up; infinite if something can happen with one neighbour only.
fn largest_loss(parts: &[(Pair, u64)], way: Way) -> f64 {
    let largest = |pair: &Pair| match pair.hockey_stick(way, f64::INFINITY).upper {
        0.0 => pair.losses(way).1,
        _ => f64::INFINITY,
    };
    parts.iter().map(|(pair, count)| largest(pair) * *count as f64).sum::<f64>() * (1.0 + 1e-12)
}

/// The ε at which H of one pair reaches δ, by bisection on its bounds.
fn solve_one(pair: &Pair, way: Way, delta: f64) -> Interval {
    let high = pair.losses(way).1.min(1e7);
    let at = |epsilon: f64| pair.hockey_stick(way, epsilon);
    let search = |fits: &dyn Fn(f64) -> bool, otherwise: f64| {
        if fits(0.0) {
            0.0
        } else if fits(high) {
            crate::round::bisect(high, 0.0, fits)
        } else {
            otherwise
        }
    };
    let upper = search(&|epsilon| at(epsilon).upper <= delta, f64::INFINITY);
    let lower = search(&|epsilon| at(epsilon).lower <= delta, high);
    Interval { lower: lower * (1.0 - 1e-11), upper }
}
