//! δ at every ε of a stretch of losses, by composition on a circle under a tilted distribution.
//!
//! With p̃ⱼ = pⱼ e^(θjh)/M for every step, δ(ε) = Π M · Σ P̃ⱼ e^(−θjh) (1 − e^(ε−jh))₊ where P̃ is the distribution of
//! the sum. θ is chosen so that P̃ sits where ε is: then the sum is not far below one, and errors of floats that are
//! small against one are small against δ, however small δ is.

use super::fft::times;
use super::grid::{Layout, MAX_LENGTH};
use super::interval::Interval;
use super::measure::Measure;
use super::pair::U;
use super::spectrum::{self, Spectrum, Tilted, modulus};
use crate::round::{exp, ln, sqrt};
use libm::expm1;
use std::f64::consts::TAU;

/// δ at every ε of a window, above and below.
#[derive(Debug)]
pub(super) struct Window {
    mesh: f64,
    /// The first point of the window in meshes, and how many there are.
    first: i64,
    length: usize,
    /// What the offsets of all steps add to the loss.
    offset: f64,
    tilt: f64,
    /// The first step of a search.
    stride: f64,
    spectrum: Spectrum,
    /// ln Π M for the curves above and below, rounded up and down, and the error of what it multiplies.
    log_scales: [f64; 2],
    errors: [f64; 2],
    /// How much of the sum above lies beyond the window on the right.
    beyond: f64,
    /// The probability of an infinite loss.
    infinite: Interval,
}

const ABOVE: usize = 0;
const BELOW: usize = 1;

impl Window {
    /// `None` where the layout has more points than can be transformed, and needs a transform.
    pub fn new(steps: &[(Measure, u64)], layout: &Layout) -> Option<Self> {
        let (mesh, tilt, length) = (layout.mesh, layout.tilt, layout.length);
        let (mut tilted, mut logs, mut slack) = (Vec::with_capacity(steps.len()), [0.0; 2], 0.0);
        for (measure, count) in steps {
            let (above, log_above, error_above) = tilt_by(measure, &measure.upper, tilt * mesh);
            let (below, log_below, error_below) = tilt_by(measure, &measure.lower, tilt * mesh);
            let times = *count as f64;
            logs[ABOVE] += log_above * times;
            logs[BELOW] += log_below * times;
            slack += times * error_above.max(error_below) + 4.0 * U * times * (log_above.abs() + log_below.abs());
            tilted.push(Tilted { at: measure.at.clone(), masses: [above, below], count: *count });
        }
        slack += steps.len() as f64 * U * (logs[ABOVE].abs() + logs[BELOW].abs());
        // The step that leaves the fewest frequencies comes first.
        if layout.smoothest < tilted.len() {
            tilted.swap(0, layout.smoothest);
        }
        let spectrum = spectrum::compose(&tilted, length, MAX_LENGTH as usize, layout.negligible)?;
        let (end, start) = ((layout.first + length as i64) as f64 * mesh, layout.first as f64 * mesh);
        let right = |side: usize| outside(steps, side, layout, logs[side], end, 1.0);
        // The largest of e^(−θx) (1 − e^(−x)).
        let largest = 1.0 / (1.0 + tilt);
        let norm = weight_norm(tilt, mesh, length as f64);
        // What comes round the circle is too much above already; from below it must not count.
        let tails = [0.0, right(BELOW) + outside(steps, BELOW, layout, logs[BELOW], start, -1.0)];
        // No product is larger than the errors of its factors allow.
        let errors = tails.map(|tail| (layout.negligible * norm + tail * largest) * exp(1e-9 + slack));
        Some(Self {
            mesh,
            first: layout.first,
            length,
            offset: layout.offset,
            tilt,
            stride: (0.05 * layout.spread).max(16.0 * mesh),
            spectrum,
            log_scales: [logs[ABOVE] + slack, logs[BELOW] - slack],
            errors,
            beyond: right(ABOVE) * exp(1e-9 + slack),
            infinite: infinite(steps, slack),
        })
    }

    /// Bounds of δ at this ε: those of the nearest point, on one side, if it lies outside of the window.
    pub fn delta(&self, epsilon: f64) -> Interval {
        let (low, high) = self.range();
        let upper = if epsilon >= low { self.side(ABOVE, epsilon.min(high)) } else { 1.0 };
        let lower = if epsilon <= high { self.side(BELOW, epsilon.max(low)) } else { self.infinite.lower };
        Interval { lower: lower.min(upper), upper }
    }

    fn range(&self) -> (f64, f64) {
        let at = |j: i64| j as f64 * self.mesh + self.offset;
        (at(self.first), at(self.first + self.length as i64 - 2))
    }

    /// δ from above or below, at an ε in the window.
    fn side(&self, side: usize, epsilon: f64) -> f64 {
        let loss = epsilon - self.offset;
        let (value, rounding) = self.average(side, loss);
        // Where the sum has an atom just beyond ε, the function changes by as much as ε does.
        let rounding = rounding + 8.0 * U * (epsilon.abs() + self.offset.abs() + loss.abs() + self.mesh);
        let exponent = self.log_scales[side] - self.tilt * loss;
        // The loss is off by some units of ε, of the offset and of the position of the next point.
        let error = 1e-14 + 16.0 * U * (1.0 + self.tilt) * (epsilon.abs() + self.offset.abs() + loss.abs() + self.mesh);
        if side == ABOVE {
            let finite = exp(exponent + error) * {
                // What lies beyond the end counts e^(−θx) at most, at the distance x.
                let end = (self.first + self.length as i64) as f64 * self.mesh;
                let beyond = self.beyond * exp(-self.tilt * (end - loss).max(0.0)) * (1.0 + 1e-9);
                let sum = value + rounding + self.errors[side] + beyond;
                if sum >= 0.0 { sum } else { f64::INFINITY }
            };
            // What is no number bounds nothing.
            let bound = finite * (1.0 + error) + self.infinite.upper;
            if bound <= 1.0 { bound } else { 1.0 }
        } else {
            let bound = exp(exponent - error) * (value - rounding - self.errors[side]) * (1.0 - 4.0 * U);
            ((if bound >= 0.0 { bound } else { 0.0 }) + self.infinite.lower).min(1.0)
        }
    }

    /// Σ P̃ⱼ e^(−θ(jh−y)) (1 − e^(y−jh)) over the points beyond y, and a bound of its error.
    ///
    /// By Parseval's identity it is a sum over frequencies, in which the function is a difference of two geometric
    /// series.
    fn average(&self, side: usize, y: f64) -> (f64, f64) {
        let next = (y / self.mesh).floor() as i64 + 1;
        let gap = next as f64 * self.mesh - y;
        let terms = self.first + self.length as i64 - next;
        let parts = [self.tilt, self.tilt + 1.0].map(|rate| Series::new(rate, gap, self.mesh, terms));
        let mask = self.length - 1;
        let turns = next.rem_euclid(self.length as i64) as usize;
        let (mut sum, mut error) = (0.0, 0.0);
        for (&k, product) in self.spectrum.frequencies.iter().zip(&self.spectrum.products[side]) {
            let angle = |turn: usize| TAU * ((turn & mask) as f64 / self.length as f64);
            let (sin, cos) = libm::sincos(angle(turns.wrapping_mul(k)));
            let half = libm::sin(angle(k) / 2.0);
            let (full_sin, full_cos) = libm::sincos(angle(k));
            let end = libm::sincos(angle((terms as usize).wrapping_mul(k)));
            let [a, b] = [0, 1].map(|i| parts[i].at(half, (full_cos, full_sin), (end.1, end.0)));
            let weight = times((cos, sin), (a.0 - b.0, a.1 - b.1));
            let twice = if k == 0 || 2 * k == self.length { 1.0 } else { 2.0 };
            let (re, im) = product.value;
            sum += twice * (re * weight.0 - im * weight.1);
            let size = modulus(a.0, a.1) + modulus(b.0, b.1);
            error += twice * (product.error * modulus(weight.0, weight.1) + 64.0 * U * modulus(re, im) * size);
        }
        let points = self.length as f64;
        let rounding = self.spectrum.frequencies.len() as f64 * U;
        (sum / points, error * (1.0 + 1e-9 + rounding) / points + rounding * error.max(sum.abs()) / points)
    }

    /// Bounds of the smallest ε ≥ 0 at this δ, searched from a guess: infinite, or zero, where the window does not
    /// tell.
    pub fn epsilon(&self, delta: f64, guess: f64) -> Interval {
        let (low, high) = self.range();
        let low = low.max(0.0).min(high);
        let find = |side: usize| {
            let value = |epsilon: f64| ln(self.side(side, epsilon).max(1e-320)) - ln(delta);
            cross(value, low, high, guess.clamp(low, high), self.stride)
        };
        let upper = match find(ABOVE) {
            Crossing::Before => low,
            Crossing::Between(_, above) => above,
            Crossing::After => f64::INFINITY,
        };
        let lower = match find(BELOW) {
            Crossing::Before => 0.0,
            Crossing::Between(below, _) => below,
            Crossing::After => high,
        };
        Interval { lower: lower.max(0.0), upper }
    }

    /// Losses and their probabilities under P, of the curve above, at so many points.
    pub fn distribution(&self, points: usize) -> Vec<(f64, f64)> {
        let step = (self.length / points.max(1)).max(1);
        (0..self.length)
            .step_by(step)
            .map(|i| {
                let j = self.first + i as i64;
                let turns = j.rem_euclid(self.length as i64) as usize;
                let terms =
                    self.spectrum.frequencies.iter().zip(&self.spectrum.products[ABOVE]).map(|(&k, product)| {
                        let turn = turns.wrapping_mul(k) & (self.length - 1);
                        let (sin, cos) = libm::sincos(TAU * (turn as f64 / self.length as f64));
                        let twice = if k == 0 || 2 * k == self.length { 1.0 } else { 2.0 };
                        twice * (product.value.0 * cos - product.value.1 * sin)
                    });
                let tilted = terms.sum::<f64>() / self.length as f64;
                let loss = j as f64 * self.mesh;
                let probability = tilted.max(0.0) * exp(self.log_scales[ABOVE] - self.tilt * loss) * step as f64;
                (loss + self.offset, probability.min(1.0))
            })
            .collect()
    }
}

/// A bound of the 2-norm of e^(−θx) (1 − e^(−x)) on a grid of so many points, from the integral of its square.
pub(super) fn weight_norm(tilt: f64, mesh: f64, length: f64) -> f64 {
    let largest = 1.0 / (1.0 + tilt);
    let integral = 2.0 / (2.0 * tilt * (2.0 * tilt + 1.0) * (2.0 * tilt + 2.0));
    sqrt((integral / mesh + largest * largest).min(length * largest * largest)) * (1.0 + 1e-12)
}

/// Σ e^(−r(g+mh)) z^m over m from 0 to `terms` − 1.
struct Series {
    start: f64,
    ratio: f64,
    /// 1 − ratio.
    rest: f64,
    /// ratio^terms.
    end: f64,
}

impl Series {
    fn new(rate: f64, gap: f64, mesh: f64, terms: i64) -> Self {
        let step = rate * mesh;
        Self { start: exp(-rate * gap), ratio: exp(-step), rest: -expm1(-step), end: exp(-step * terms as f64) }
    }

    /// At z = e^(iφ), from sin(φ/2), z and the power of z that ends the series.
    fn at(&self, half: f64, z: (f64, f64), z_end: (f64, f64)) -> (f64, f64) {
        // 1 − ratio z, without cancellation.
        let (re, im) = (self.rest + 2.0 * self.ratio * half * half, -self.ratio * z.1);
        let scale = self.start / (re * re + im * im);
        times((1.0 - self.end * z_end.0, -self.end * z_end.1), (re * scale, -im * scale))
    }
}

/// Where a falling function crosses zero.
enum Crossing {
    Before,
    /// Not yet at the first, and at or below zero at the second.
    Between(f64, f64),
    After,
}

/// A bracket of the zero of a falling function, at most 10⁻⁹ of its position wide.
fn cross(value: impl Fn(f64) -> f64, low: f64, high: f64, guess: f64, step: f64) -> Crossing {
    let (mut left, mut right) = ((low, f64::NAN), (high, f64::NAN));
    let at_guess = value(guess);
    *(if at_guess > 0.0 { &mut left } else { &mut right }) = (guess, at_guess);
    // Steps that double until the other side is found.
    let mut stride = step;
    while left.1.is_nan() || right.1.is_nan() {
        let next = if right.1.is_nan() { (left.0 + stride).min(high) } else { (right.0 - stride).max(low) };
        let at = value(next);
        if at > 0.0 {
            if next >= high {
                return Crossing::After;
            }
            left = (next, at);
        } else {
            if next <= low {
                return Crossing::Before;
            }
            right = (next, at);
        }
        stride *= 2.0;
    }
    // The chord, with a bisection where it does not shrink the bracket.
    for round in 0..100 {
        let width = right.0 - left.0;
        if width <= 1e-9 * right.0 {
            break;
        }
        let share = (left.1 / (left.1 - right.1)).clamp(0.0, 1.0);
        let nudge = 0.25e-9 * right.0;
        let next = match round % 4 {
            3 => left.0 + width / 2.0,
            // A little to either side, so that both ends come close.
            1 => (left.0 + share * width + nudge).min(right.0 - nudge / 2.0),
            _ => (left.0 + share * width - nudge).max(left.0 + nudge / 2.0),
        };
        let at = value(next);
        *(if at > 0.0 { &mut left } else { &mut right }) = (next, at);
    }
    Crossing::Between(left.0, right.0)
}

/// The tilted probabilities, the logarithm of their sum before, and a relative error that covers both.
fn tilt_by(measure: &Measure, masses: &[f64], tilt: f64) -> (Vec<f64>, f64, f64) {
    let (mut largest, mut size) = (f64::NEG_INFINITY, 0.0f64);
    let mut weights: Vec<f64> = measure
        .at
        .iter()
        .zip(masses)
        .map(|(&j, &p)| {
            let (log, shift) = (ln(p), tilt * j as f64);
            if p > 0.0 {
                largest = largest.max(log + shift);
                size = size.max(log.abs() + shift.abs());
            }
            log + shift
        })
        .collect();
    if largest == f64::NEG_INFINITY {
        return (vec![0.0; masses.len()], 0.0, 0.0);
    }
    weights.iter_mut().for_each(|weight| *weight = exp(*weight - largest));
    let sum: f64 = weights.iter().sum();
    // A weight that became zero stands for one below 10⁻³⁰⁰; it must not vanish from above.
    weights.iter_mut().zip(masses).for_each(|(weight, p)| {
        *weight = if *p > 0.0 { (*weight / sum).max(1e-300) } else { 0.0 };
    });
    let rounding = 32.0 + 8.0 * size + 4.0 * largest.abs() + weights.len() as f64;
    (weights, largest + ln(sum), rounding * U)
}

/// ln Σ pⱼ e^(tjh), summed over all steps.
fn log_moment(steps: &[(Measure, u64)], side: usize, exponent: f64) -> f64 {
    steps
        .iter()
        .map(|(measure, count)| {
            let masses = if side == ABOVE { &measure.upper } else { &measure.lower };
            let terms = || measure.at.iter().zip(masses).filter(|(_, p)| **p > 0.0);
            let largest = terms().map(|(&j, _)| exponent * j as f64).fold(f64::NEG_INFINITY, f64::max);
            if largest == f64::NEG_INFINITY {
                return 0.0;
            }
            // The far end may be too heavy for the mean of the sum: the scale is that of the largest product.
            let sum: f64 = terms().map(|(&j, p)| p * exp((exponent * j as f64 - largest).max(-740.0))).sum();
            if sum > 0.0 { *count as f64 * (largest + ln(sum)) } else { f64::INFINITY }
        })
        .sum()
}

/// How much of the tilted distribution lies beyond the end of the window, by Chernoff's bound; `base` is the logarithm
/// of all of it.
fn outside(steps: &[(Measure, u64)], side: usize, layout: &Layout, base: f64, end: f64, sign: f64) -> f64 {
    let extra = sign * if sign > 0.0 { layout.right } else { layout.left };
    let moment = log_moment(steps, side, (layout.tilt + extra) * layout.mesh);
    let exponent = moment - base - extra * end;
    if exponent.is_nan() { 1.0 } else { exp(exponent + 1e-9 * (1.0 + base.abs() + moment.abs())).min(1.0) }
}

/// 1 − Π (1 − infinite)^count, where all probabilities together are off by a factor of e^slack at most.
fn infinite(steps: &[(Measure, u64)], slack: f64) -> Interval {
    let some = |infinite: fn(&Measure) -> f64| {
        let logs = steps.iter().map(|(measure, count)| crate::round::ln_1p(-infinite(measure)) * *count as f64);
        -expm1(logs.sum())
    };
    let slack = (slack + 1e-12 + 8.0 * U * steps.len() as f64).min(1.0);
    Interval {
        lower: some(|measure| measure.infinite.lower) * (1.0 - slack),
        upper: (some(|measure| measure.infinite.upper) * (1.0 + slack)).min(1.0),
    }
}
