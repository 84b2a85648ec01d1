//! Variances, covariances and correlations from noisy sums of squares and products.
//!
//! With the count n, the means x̄ and ȳ and the sum P = Σ(x − a)(y − b) around the middles a and b of the bounds, the
//! covariance of the rows is exactly P/n − (x̄ − a)(ȳ − b). Each of the sums comes with an interval; interval arithmetic
//! carries them through, and by the union bound the result holds if each misses with its part of 5 %.

use dither_core::{Estimate, ValueBounds};
use dither_mechanisms::Noise;

use super::estimate::{mean, offsets, pair_bounds, step_of};
use super::width::half_width;
use crate::ir::Over;
use crate::plan::{Derivation, QueryPlan};

/// A number and the range that it lies in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Span {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Span {
    fn around(value: f64, half: f64) -> Self {
        Self { value, low: value - half, high: value + half }
    }

    /// What is left within limits that the exact number keeps.
    fn within(self, least: f64, most: f64) -> Self {
        let [value, low, high] = [self.value, self.low, self.high].map(|end| end.clamp(least, most));
        Self { value: value.clamp(low, high), low, high }
    }

    fn times(self, other: Self) -> Self {
        let corners = [self.low * other.low, self.low * other.high, self.high * other.low, self.high * other.high];
        let ends = |(low, high): (f64, f64), corner: f64| (low.min(corner), high.max(corner));
        let (low, high) = corners.into_iter().fold((f64::INFINITY, f64::NEG_INFINITY), ends);
        Self { value: self.value * other.value, low, high }
    }

    /// The square, which is at least zero.
    fn squared(self) -> Self {
        let product = self.times(self);
        let low = if self.low <= 0.0 && self.high >= 0.0 { 0.0 } else { product.low };
        Self { low, ..product }
    }

    fn minus(self, other: Self) -> Self {
        Self { value: self.value - other.value, low: self.low - other.high, high: self.high - other.low }
    }

    /// A quotient by something above zero.
    fn over(self, other: Self) -> Self {
        let inverse = Self { value: 1.0 / other.value, low: 1.0 / other.high, high: 1.0 / other.low };
        self.times(inverse)
    }

    fn map(self, function: impl Fn(f64) -> f64) -> Self {
        Self { value: function(self.value), low: function(self.low), high: function(self.high) }
    }

    /// What both ranges have in common, with the mean of both values; the first where they have nothing.
    fn and(self, other: Self) -> Self {
        let (low, high) = (self.low.max(other.low), self.high.min(other.high));
        if low > high {
            return self;
        }
        Self { value: f64::midpoint(self.value, other.value).clamp(low, high), low, high }
    }

    fn estimate(self) -> Estimate {
        Estimate::new(self.value, self.low, self.high)
    }
}

/// The noisy sums of one row of the answer.
pub(super) struct Moments<'a> {
    plan: &'a QueryPlan,
    row: &'a [i128],
    /// How certain each of the intervals is, so that all of them together are as certain as was asked.
    pub each: f64,
}

impl<'a> Moments<'a> {
    pub fn new(plan: &'a QueryPlan, row: &'a [i128], confidence: f64, derivation: Derivation) -> Self {
        Self { plan, row, each: 1.0 - (1.0 - confidence) / events(derivation) }
    }

    pub fn estimate(&self, derivation: Derivation) -> Estimate {
        match derivation {
            Derivation::Variance { pair, squares, over } => self.variance(pair, squares, over).estimate(),
            Derivation::Deviation { pair, squares, over } => {
                self.variance(pair, squares, over).map(f64::sqrt).estimate()
            }
            Derivation::Covariance { pairs, products, over } => {
                let count = self.count(pairs);
                let most = pairs.map(|pair| self.reach(pair)).iter().product::<f64>();
                let covariance = self.centred(pairs, products, count).within(-most, most);
                sampled(covariance, count, over, -2.0 * most, 2.0 * most).estimate()
            }
            Derivation::Correlation { pairs, products, squares } => self.correlation(pairs, products, squares),
            Derivation::Count(_)
            | Derivation::Sum(_)
            | Derivation::PairCount(_)
            | Derivation::TripleCount(_)
            | Derivation::Selected
            | Derivation::Place
            | Derivation::PairSum(_)
            | Derivation::PairMean(_)
            | Derivation::Quantile { .. } => Estimate { value: None, low: None, high: None },
        }
    }

    pub fn noise(&self, block: usize) -> &'a Noise {
        &self.plan.mechanism.blocks[block].noise
    }

    /// A noisy integer of a block, in steps.
    pub fn steps(&self, block: usize, index: usize) -> f64 {
        self.row[offsets(self.plan)[block] + index] as f64 / f64::from(self.noise(block).refinement()).exp2()
    }

    /// Half the range of a value, in its unit.
    fn reach(&self, pair: usize) -> f64 {
        let bounds = pair_bounds(self.plan, pair);
        bounds.range() as f64 * bounds.lattice().step() / 2.0
    }

    /// A sum of squares or products, in their unit.
    pub fn sum(&self, block: usize) -> Span {
        let step = step_of(self.plan, block);
        Span::around(self.steps(block, 0), half_width(self.noise(block), &[1.0], self.each)).map(|end| end * step)
    }

    /// The number of values: at least one, since an answer about none says nothing.
    pub fn count(&self, pairs: [usize; 2]) -> Span {
        let one = |pair: usize| {
            let range = pair_bounds(self.plan, pair).range() as f64;
            let weights = [1.0 / range, 1.0 / range];
            let count = (self.steps(pair, 0) + self.steps(pair, 1)) / range;
            Span::around(count, half_width(self.noise(pair), &weights, self.each))
        };
        let [first, second] = pairs;
        let both = if first == second { one(first) } else { one(first).and(one(second)) };
        both.map(|end| end.max(1.0))
    }

    /// The mean less the middle of the bounds.
    fn deviation(&self, pair: usize) -> Span {
        let bounds: ValueBounds = pair_bounds(self.plan, pair);
        let middle = (bounds.lower() as f64 + bounds.upper() as f64) / 2.0 * bounds.lattice().step();
        let mean = mean(&bounds, self.steps(pair, 0), self.steps(pair, 1), self.noise(pair), self.each);
        let reach = self.reach(pair);
        let end = |end: Option<f64>, otherwise: f64| end.map_or(otherwise, |end| end - middle);
        Span { value: end(mean.value, 0.0), low: end(mean.low, -reach), high: end(mean.high, reach) }
    }

    /// P/n − (x̄ − a)(ȳ − b).
    fn centred(&self, [x, y]: [usize; 2], products: usize, count: Span) -> Span {
        let most = self.reach(x) * self.reach(y);
        let means = if x == y { self.deviation(x).squared() } else { self.deviation(x).times(self.deviation(y)) };
        self.sum(products).over(count).within(-most, most).minus(means)
    }

    pub fn variance(&self, pair: usize, squares: usize, over: Over) -> Span {
        let (count, most) = (self.count([pair; 2]), self.reach(pair).powi(2));
        sampled(self.centred([pair; 2], squares, count).within(0.0, most), count, over, 0.0, 2.0 * most)
    }

    fn correlation(&self, pairs: [usize; 2], products: usize, squares: [usize; 2]) -> Estimate {
        let count = self.count(pairs);
        let [a, b] = [0, 1].map(|side| {
            let most = self.reach(pairs[side]).powi(2);
            self.centred([pairs[side]; 2], squares[side], count).within(0.0, most)
        });
        let both = a.times(b).map(f64::sqrt);
        let covariance = self.centred(pairs, products, count);
        if both.value <= 0.0 {
            // A value that is always the same is correlated with nothing.
            return Estimate { value: None, low: Some(-1.0), high: Some(1.0) };
        }
        // The quotient is furthest from zero where the divisor is smallest.
        let end = |end: f64, away: bool| match if away { both.low } else { both.high } {
            divisor if divisor > 0.0 => end / divisor,
            _ if end == 0.0 => 0.0,
            _ => end.signum(),
        };
        let low = end(covariance.low, covariance.low < 0.0);
        let high = end(covariance.high, covariance.high > 0.0);
        Span { value: covariance.value / both.value, low, high }.within(-1.0, 1.0).estimate()
    }
}

/// How many intervals must hold for a result to hold.
pub(super) fn events(derivation: Derivation) -> f64 {
    match derivation {
        // A count, a mean, a sum of squares.
        Derivation::Variance { .. } | Derivation::Deviation { .. } => 3.0,
        // Two counts, two means, a sum of products.
        Derivation::Covariance { .. } => 5.0,
        Derivation::Correlation { .. } => 7.0,
        _ => 1.0,
    }
}

/// n/(n − 1) times a moment where a sample is asked for; of two values at least.
fn sampled(moment: Span, count: Span, over: Over, least: f64, most: f64) -> Span {
    match over {
        Over::Population => moment,
        Over::Sample => {
            let factor = |count: f64| count.max(2.0) / (count.max(2.0) - 1.0);
            let factor = Span { value: factor(count.value), low: factor(count.high), high: factor(count.low) };
            moment.times(factor).within(least, most)
        }
    }
}

#[cfg(test)]
mod tests;
