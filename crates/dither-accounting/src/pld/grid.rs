//! Where to compose: the tilt, the mesh and the window, planned on sketches.
//!
//! Nothing here is a bound. A bad plan makes the bounds of the result wide and nothing else.

use super::measure::Sketch;
use super::pair::{Pair, Way};
use super::window::weight_norm;
use crate::round::{exp, ln, sqrt};

/// What the window is for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Target {
    /// The ε at this δ.
    Delta(f64),
    /// The δ at this ε.
    Epsilon(f64),
}

/// A step on few losses, ready for sums of exponentials.
pub(super) struct Planned {
    losses: Vec<f64>,
    logs: Vec<f64>,
    count: f64,
    /// What decides how the step is laid on the grid.
    smooth: bool,
}

/// How to compose.
#[derive(Debug)]
pub(super) struct Layout {
    pub tilt: f64,
    pub mesh: f64,
    /// Number of points, a power of two.
    pub length: usize,
    /// The first point, in meshes.
    pub first: i64,
    /// How far all grids are moved, together.
    pub offset: f64,
    /// The offset of each step.
    pub offsets: Vec<f64>,
    /// The widest cell that a step may have where its mass is.
    pub width: f64,
    /// Further tilts at which the tails beyond the two ends are bounded.
    pub left: f64,
    pub right: f64,
    /// Which step has the most variance of those without probabilities at one loss.
    pub smoothest: usize,
    /// Where the sum is expected.
    pub mean: f64,
    /// The standard deviation of the tilted sum, roughly.
    pub spread: f64,
    /// Below which a frequency does not matter.
    pub negligible: f64,
}

/// From so many equal smooth steps on, sums at few frequencies are likely to do.
pub(super) const MANY: f64 = 30.0;
/// What the grid may add to ε, or to a smaller ε in proportion.
const ACCURACY: f64 = 3e-7;
/// The longest circle for transforms.
pub(super) const MAX_LENGTH: f64 = 524288.0;
/// The longest circle for sums at few frequencies.
pub(super) const MAX_FINE_LENGTH: f64 = 67108864.0;
const MIN_LENGTH: f64 = 1024.0;
/// At most e^−14.5 of what δ amounts to under the tilt should lie beyond the left end of the window.
const OUTSIDE: f64 = 14.5;
/// The same on the right, where it only costs the lower bound.
const OUTSIDE_RIGHT: f64 = 11.5;

impl Planned {
    pub fn new(pair: &Pair, way: Way, count: u64) -> Self {
        let Sketch { losses, masses } = Sketch::new(pair, way);
        let logs = masses.into_iter().map(ln).collect();
        Self { losses, logs, count: count as f64, smooth: pair.atoms(way).is_empty() }
    }

    /// ln of the moment generating function of one step, and the mean and variance under its tilt.
    fn cumulants(&self, tilt: f64) -> [f64; 3] {
        let exponent = |i: usize| self.logs[i] + tilt * self.losses[i];
        let largest = (0..self.logs.len()).map(exponent).fold(f64::NEG_INFINITY, f64::max);
        if largest == f64::NEG_INFINITY {
            return [0.0; 3];
        }
        let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
        for i in 0..self.logs.len() {
            let difference = exponent(i) - largest;
            if difference > -60.0 {
                let weight = exp(difference);
                sum += weight;
                first += weight * self.losses[i];
                second += weight * self.losses[i] * self.losses[i];
            }
        }
        let mean = first / sum;
        [largest + ln(sum), mean, (second / sum - mean * mean).max(0.0)]
    }

    /// How wide cells may be from each loss of the sketch to the next.
    ///
    /// The error that cells of width w add is the mass times w². It is smallest, for a number of cells, where w is the
    /// density to the power of −⅓.
    pub fn widths(&self, layout: &Layout, smoothest: bool) -> Vec<(f64, f64)> {
        let [log_moment, _, variance] = self.cumulants(layout.tilt);
        let weight = |i: usize| exp(self.logs[i] + layout.tilt * self.losses[i] - log_moment);
        // Unequal cells have high frequencies. The step that is to damp all others must have none.
        let share = if smoothest && self.count < MANY { 1e-12 } else { 0.02 };
        let reference = share / sqrt(variance).max(layout.width);
        let range = self.losses.last().unwrap_or(&0.0) - self.losses.first().unwrap_or(&0.0);
        let base = layout.width.max(range / 4e6);
        let widest = (0.5 / (1.0 + layout.tilt)).max(base);
        (1..self.losses.len())
            .map(|i| {
                let cell = self.losses[i] - self.losses[i - 1];
                let density = ((weight(i - 1) + weight(i)) / cell).max(1e-300);
                let coarser = libm::cbrt(reference / density).max(1.0);
                let widest = if density * cell > 1e-16 { widest } else { f64::INFINITY };
                (
                    self.losses[i],
                    (base * coarser).min(widest).min((cell / if density * cell > 1e-16 { 4.0 } else { 1.5 }).max(base)),
                )
            })
            .collect()
    }

    pub fn range(&self) -> (f64, f64) {
        (*self.losses.first().unwrap_or(&0.0), *self.losses.last().unwrap_or(&0.0))
    }
}

fn total(steps: &[Planned], tilt: f64) -> [f64; 3] {
    steps.iter().fold([0.0; 3], |sum, step| {
        let next = step.cumulants(tilt);
        [0, 1, 2].map(|i| sum[i] + step.count * next[i])
    })
}

impl Layout {
    /// `most` is the largest length, if the mesh is free. `None` where floats cannot tell the points apart.
    pub fn new(steps: &[Planned], parts: &[(Pair, u64)], target: Target, most: f64) -> Option<Self> {
        let plain = total(steps, 0.0);
        let deviation = sqrt(plain[2]).max(1e-280);
        let tilt = solve(1e-3 / deviation, 1e7 / deviation, |tilt| {
            let [log_moment, mean, variance] = total(steps, tilt);
            match target {
                Target::Epsilon(epsilon) => mean >= epsilon,
                Target::Delta(delta) => log_moment - tilt * mean + ln(typical(tilt, sqrt(variance))) <= ln(delta),
            }
        });
        let [_, mean, variance] = total(steps, tilt);
        // A little less tilt moves the sum by at most its spread, and far fewer rare large losses come to the fore.
        let tilt = tilt - (0.2 * tilt).min(1.0 / sqrt(variance).max(1e-3 * deviation));
        let [log_moment, _, variance] = total(steps, tilt);
        let spread = sqrt(variance).max(1e-3 * deviation);
        let value = typical(tilt, spread);
        let ease = ln(value * (1.0 + tilt));
        // Chernoff: beyond x lies at most exp(K(θ+s) − K(θ) − sx), for every s.
        let tail = |sign: f64| {
            let outside = if sign > 0.0 { OUTSIDE_RIGHT } else { OUTSIDE } - ease;
            let bound = |extra: f64| (total(steps, tilt + sign * extra)[0] - log_moment + outside) / extra;
            let start = 4.0 / spread;
            let (mut best, mut extra) = (bound(start), start);
            for factor in [0.8, 1.25] {
                let mut next = extra * factor;
                while next * spread > 1e-3 && next * spread < 1e6 && bound(next) < best {
                    (best, extra) = (bound(next), next);
                    next *= factor;
                }
            }
            (extra, sign * best + sign * 0.1 * spread)
        };
        let ((right, end), (left, start)) = (tail(1.0), tail(-1.0));
        let count: f64 = steps.iter().map(|step| step.count).sum();
        // A cell of width w adds about w²/6 to the variance of a step, which costs (1 + θ)/11 times the sum of w² in ε; if the
        // spread of the sum is so small that it counts, its inverse takes the place of θ.
        let accurate = sqrt(11.0 * ACCURACY * mean.clamp(1e-250, 1.0) / (count * (1.0 + tilt.max(1.0 / spread))));
        let width = (sqrt(plain[2] / count) / 30.0).min(accurate).max(1e-290);
        let aligned = Aligned::new(parts, width);
        // A probability at a loss between two points costs the curve below up to a mesh.
        let rough: f64 = steps.iter().filter(|step| !step.smooth).map(|step| step.count).sum();
        let window = (end - start).max(16.0 * width);
        let (mesh, length, offset) = match aligned {
            Some(aligned) if window / aligned.mesh <= most => {
                (aligned.mesh, power_of_two(window / aligned.mesh), aligned.offset)
            }
            _ => {
                let fine = if rough > 0.0 { width.min(1e-3 * spread / rough) } else { width };
                // Where nothing is smooth all frequencies count, and each takes its time.
                let most = if steps.iter().any(|step| step.smooth) { most } else { MAX_LENGTH / 4.0 };
                let length = power_of_two(window / fine).min(most);
                (window / length, length, 0.0)
            }
        };
        let offsets: Vec<f64> = steps.iter().map(|step| if step.smooth { 0.0 } else { offset }).collect();
        let total_offset: f64 = steps.iter().zip(&offsets).map(|(step, offset)| step.count * offset).sum();
        let rank = |step: &Planned| (step.smooth, step.count >= MANY, step.count * step.cumulants(0.0)[2]);
        let smoothest = (0..steps.len())
            .max_by(|&a, &b| rank(&steps[a]).partial_cmp(&rank(&steps[b])).unwrap_or(std::cmp::Ordering::Equal))
            .unwrap_or(0);
        let first = ((start - total_offset) / mesh).floor();
        // Points and their numbers must be told apart.
        let sane = mesh > 1e-280 && tilt.is_finite() && total_offset.is_finite() && first.abs() < 1e13;
        let ranges = steps.iter().all(|step| step.range().0.abs().max(step.range().1) / mesh < 1e13);
        (sane && ranges).then_some(Self {
            tilt,
            mesh,
            length: length as usize,
            first: first as i64,
            offset: total_offset,
            offsets,
            width: width.max(mesh),
            left,
            right,
            smoothest,
            mean,
            spread,
            // A small share of δ. The noise of floats in the probabilities of a single step is above a smaller one.
            negligible: (if steps[smoothest].count >= MANY { 4e-8 } else { 8e-7 } * value
                / weight_norm(tilt, mesh, length))
            .clamp(1e-13, 1e-7),
        })
    }
}

fn power_of_two(least: f64) -> f64 {
    libm::exp2(libm::log2(least).ceil()).clamp(MIN_LENGTH, MAX_FINE_LENGTH)
}

/// A mesh on which all losses that have a probability of their own lie, if there is one kind of them.
struct Aligned {
    mesh: f64,
    offset: f64,
}

impl Aligned {
    /// How far above a point they lie, in meshes. On the point itself, rounding could move them to the one below.
    const ABOVE: f64 = 0.02;

    fn new(parts: &[(Pair, u64)], width: f64) -> Option<Self> {
        let mut rough = parts.iter().map(|(pair, _)| pair).filter(|pair| !pair.atoms(Way::Remove).is_empty());
        let (top, spacing) = match (rough.next()?, rough.next()) {
            (Pair::Laplace { epsilon } | Pair::Response { epsilon, others: 0.0, .. }, None) => {
                (*epsilon, 2.0 * epsilon)
            }
            (Pair::Response { epsilon, .. }, None) => (*epsilon, *epsilon),
            (Pair::DiscreteLaplace { steps, scale }, None) => (steps / scale, 2.0 / scale),
            (Pair::DiscreteGaussian { steps, sigma, .. }, None) => {
                let unit = steps / sigma / sigma;
                (-unit * steps / 2.0, unit)
            }
            _ => return None,
        };
        let mesh = spacing / (spacing / width).ceil();
        // Where losses lie closer than the mesh should be, the distance is as good as any.
        let offset = top - Self::ABOVE * mesh;
        (mesh > 0.0 && mesh >= width / 16.0).then(|| Self { mesh, offset: offset - (offset / mesh).round() * mesh })
    }
}

/// What δ is before the tilt is undone, but for a factor of about one: the mean of e^(−θx) (1 − e^(−x)) over positive
/// x with a density of 1/spread, if it does not end before.
fn typical(tilt: f64, spread: f64) -> f64 {
    1.0 / ((1.0 + tilt.max(1.0 / spread)) * (1.0 + tilt * spread))
}

/// Where a condition begins to hold that holds from some point on, within a few per cent; an end if it is outside.
fn solve(low: f64, high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    if holds(low) {
        return low;
    }
    let (mut low, mut high) = (ln(low), ln(high));
    while high - low > 0.02 {
        let middle = (low + high) / 2.0;
        *(if holds(exp(middle)) { &mut high } else { &mut low }) = middle;
    }
    exp(high)
}

/// The multiples of the mesh that a step has probabilities at.
pub(super) fn dots(pair: &Pair, way: Way, step: &Planned, layout: &Layout, index: usize) -> Vec<i64> {
    let (mesh, offset) = (layout.mesh, layout.offsets[index]);
    let widths = step.widths(layout, index == layout.smoothest);
    let (low, high) = step.range();
    let point = |loss: f64| ((loss - offset) / mesh).floor() as i64;
    let mut at = Vec::new();
    // One below, so that nothing but rounding lies before the first.
    let mut j = point(low) - 1;
    let mut cells = widths.iter().peekable();
    let end = point(high) + 2;
    while j < end {
        at.push(j);
        let loss = j as f64 * mesh + offset;
        while cells.peek().is_some_and(|(until, _)| *until <= loss) {
            cells.next();
        }
        let width = cells.peek().map_or(layout.width, |(_, width)| *width);
        j += ((width / mesh).floor() as i64).max(1);
    }
    at.push(end);
    // A probability at one loss is caught between the two points next to it.
    let mut close: Vec<i64> = pair.atoms(way).into_iter().map(point).flat_map(|j| [j - 1, j, j + 1, j + 2]).collect();
    close.retain(|j| (at[0]..=end).contains(j));
    at.append(&mut close);
    at.sort_unstable();
    at.dedup();
    at
}
