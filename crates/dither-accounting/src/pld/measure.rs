//! A pair on a grid of losses, once with too much loss and once with too little.
//!
//! Both are curves H that are piecewise linear in u = e^y with kinks on grid points only. Such a curve is the pair
//! with, at each kink, as much probability under Q as the slope changes there. Replacing one step of a composition
//! by a curve above (below) its own raises (lowers) δ at every ε: for fixed outcomes of all other steps, δ is an
//! average of (cL − e^ε)₊ over this step's Q, which is c H(e^ε/c). Neither curve needs to be that of a probability
//! distribution.
//!
//! Above lies the curve through H at the grid points: Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, *Connect the
//! Dots: Tighter Discrete Approximations of Privacy Loss Distributions*, 2022. Below lies a curve through points that
//! are lowered by the depth of the wedge between a cell's chord and the chords of the cells next to it, which a convex
//! H cannot leave. Errors of floats are in the bounds of H: the lower convex hull of points above a convex curve lies
//! above its chords, and that of lowered points lies below what each cell allows.

use libm::{exp, expm1};

use super::interval::Interval;
use super::pair::{Pair, U, Way};

/// Probabilities at multiples of a mesh, all moved by an offset.
#[derive(Debug, Clone)]
pub(super) struct Measure {
    /// Which multiples.
    pub at: Vec<i64>,
    /// P of the curve above.
    pub upper: Vec<f64>,
    /// P of the curve below.
    pub lower: Vec<f64>,
    /// The probability of an infinite loss. From below it is that of the pair, from above also what lies beyond the
    /// last point.
    pub infinite: Interval,
}

impl Measure {
    /// The measure with kinks at `offset` plus these multiples of `mesh`, in ascending order and at least two.
    ///
    /// The bounds of H allow for a rounding of the loss.
    pub fn new(pair: &Pair, way: Way, mesh: f64, offset: f64, at: Vec<i64>) -> Self {
        let dots = Dots::new(at.iter().map(|&j| j as f64 * mesh + offset).collect());
        let curve: Vec<Interval> = dots.losses.iter().map(|&y| pair.hockey_stick(way, y)).collect();
        let above = curve.iter().map(|h| h.upper).collect();
        let upper = masses(&dots, 1.0, above, true);
        // What has an infinite loss is a constant part of H, and taken by itself.
        let certain = pair.hockey_stick(way, f64::INFINITY);
        let certain =
            Interval { lower: certain.lower, upper: certain.upper.min(curve.last().map_or(1.0, |h| h.upper)) };
        let finite: Vec<Interval> = curve
            .iter()
            .map(|h| Interval { lower: (h.lower - certain.upper).max(0.0), upper: h.upper - certain.lower })
            .collect();
        let whole = Interval { lower: 1.0 - certain.upper, upper: 1.0 - certain.lower };
        let lower = masses(&dots, whole.lower, lowered(&dots, &finite, whole, pair.losses(way).0), false);
        let infinite = Interval { lower: certain.lower, upper: curve.last().map_or(1.0, |last| last.upper) };
        Self { at, upper, lower, infinite }
    }
}

/// Losses, and e^w − 1 for the width w of each cell between two.
struct Dots {
    losses: Vec<f64>,
    growths: Vec<f64>,
}

impl Dots {
    fn new(losses: Vec<f64>) -> Self {
        let growths = losses.windows(2).map(|pair| expm1(pair[1] - pair[0])).collect();
        Self { losses, growths }
    }

    /// e^w − 1 for the width from one loss to a later one.
    fn growth(&self, from: usize, to: usize) -> f64 {
        if to == from + 1 { self.growths[from] } else { expm1(self.losses[to] - self.losses[from]) }
    }
}

/// 1 − e^(−w), from e^w − 1.
fn shrinkage(growth: f64) -> f64 {
    if growth < 1e300 { growth / (1.0 + growth) } else { 1.0 }
}

/// Points under the curve, whose chords all lie under it. `whole` is H at u = 0.
///
/// In cell i, from u to u + Δ, H lies above the chord of the cell before, drawn on, and above that of the cell after.
/// With all slopes counted downwards, α = the former minus this cell's, β = this cell's minus the latter, the wedge is
/// Δαβ/(α + β) deep. All is multiplied by e^y at the left end of the cell, so that nothing leaves the range of floats.
fn lowered(dots: &Dots, curve: &[Interval], whole: Interval, smallest_loss: f64) -> Vec<f64> {
    let last = curve.len() - 1;
    let mut depths = vec![0.0; last];
    for i in 0..last {
        let growth = dots.growths[i];
        let before = match i.checked_sub(1) {
            Some(before) => (curve[before].upper - curve[i].lower) / shrinkage(dots.growths[before]),
            None => whole.upper - curve[i].lower,
        };
        let here = (curve[i].lower - curve[i + 1].lower) / growth;
        let after = match curve.get(i + 2) {
            Some(after) => (curve[i + 1].lower - after.upper) / (dots.growths[i + 1] * (growth + 1.0)),
            None => 0.0,
        };
        let (alpha, beta) = (before - here, here - after.max(0.0));
        if alpha > 0.0 && beta > 0.0 {
            depths[i] = growth * (alpha / (alpha + beta)) * beta;
        }
        depths[i] += 16.0 * U * (before.abs().min(1.0 / U) * growth + curve[i].upper + depths[i]);
    }
    // Left of the first dot H is a line if no loss lies there; at any rate it is above `whole` − u.
    let start = dots.losses[0];
    let first =
        if start <= smallest_loss { 0.0 } else { (curve[0].lower - whole.lower + exp(start)).max(0.0) + 8.0 * U };
    let mut points: Vec<f64> = (0..=last)
        .map(|i| {
            let depth = [i.checked_sub(1).map_or(first, |before| depths[before]), *depths.get(i).unwrap_or(&0.0)];
            curve[i].lower - depth[0].max(depth[1])
        })
        .collect();
    // The curve ends where it would go below zero, and stays at zero.
    let end = points.iter().position(|&point| point <= 0.0).map_or(last, |below| below.saturating_sub(1));
    points[end..].fill(0.0);
    points
}

/// P at the kinks of the lower convex hull of points (e^y, H), rounded up or down.
///
/// The hull starts at (0, `whole`). With S the slope of a cell, downwards and times e^y at its left end, P at a kink is the
/// drop of H over the cell before it plus the difference of the two S. Slopes carry a relative error of 4u, which is
/// one of H; the two differences are exact but for a relative u.
fn masses(dots: &Dots, whole: f64, points: Vec<f64>, up: bool) -> Vec<f64> {
    // The drop into a dot from another one before it, or from u = 0, and its slope times e^y at either end.
    let drop = |from: Option<usize>, to: usize| from.map_or(whole, |from| points[from]) - points[to];
    let slope_at_end =
        |from: Option<usize>, to: usize| drop(from, to) / from.map_or(1.0, |from| shrinkage(dots.growth(from, to)));
    let slope_at_start = |from: usize, to: usize| (points[from] - points[to]) / dots.growth(from, to);
    let mut hull: Vec<usize> = Vec::with_capacity(points.len());
    for next in 0..points.len() {
        while let Some(&top) = hull.last() {
            let before = hull.len().checked_sub(2).map(|i| hull[i]);
            if slope_at_end(before, top) >= slope_at_start(top, next) {
                break;
            }
            hull.pop();
        }
        hull.push(next);
    }
    let mut masses = vec![0.0; points.len()];
    for (i, &dot) in hull.iter().enumerate() {
        let before = i.checked_sub(1).map(|i| hull[i]);
        let after = hull.get(i + 1).map_or(0.0, |&after| slope_at_start(dot, after));
        let (drop, change) = match before {
            Some(from) => (drop(before, dot), slope_at_start(from, dot) - after),
            None => (drop(None, dot), -after),
        };
        let error = 4.0 * U * (drop.abs() + change.abs() + if before.is_none() { 1.0 } else { 0.0 });
        let mass = drop + change;
        masses[dot] = if !mass.is_finite() {
            // Nothing weighs more than all.
            f64::from(u8::from(up))
        } else if up {
            (mass.max(0.0) + error) * (1.0 + 8.0 * U)
        } else {
            (mass - error).max(0.0) * (1.0 - 8.0 * U)
        };
    }
    masses
}

/// A pair on few losses that are spread over all scales: good enough to plan with, and no bound of anything.
#[derive(Debug, Clone)]
pub(super) struct Sketch {
    /// Losses, ascending.
    pub losses: Vec<f64>,
    /// P at the losses.
    pub masses: Vec<f64>,
}

impl Sketch {
    pub fn new(pair: &Pair, way: Way) -> Self {
        const RATIO: f64 = 1.12;
        let at = |y: f64| pair.hockey_stick(way, y);
        let (low, high) = pair.losses(way);
        // Twice the total variation distance is at most the mean absolute loss.
        let start = (at(0.0).upper / 20.0).clamp(1e-200, 1.0);
        let grid = |end: f64, done: &dyn Fn(f64) -> bool| {
            let mut points = Vec::new();
            let mut y = start;
            while y < end && !done(y) && points.len() < 8000 {
                points.push(y);
                y *= RATIO;
            }
            points.push(y.min(end));
            points
        };
        let right = grid(high, &|y| at(y).upper < 1e-250);
        // How far H is above 1 − u is known best from the other side: e^y H(−y) with the roles exchanged.
        let left = grid(-low, &|y| exp(-y) * pair.hockey_stick(way.other(), y).upper < 1e-17);
        let losses: Vec<f64> = left.iter().rev().map(|y| -y).chain([0.0]).chain(right).collect();
        let curve = losses.iter().map(|&y| at(y).upper).collect();
        let dots = Dots::new(losses);
        let masses = masses(&dots, 1.0, curve, false);
        Self { losses: dots.losses, masses }
    }
}
