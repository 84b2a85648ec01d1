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
mod tests {
    use super::super::estimate::{CONFIDENCE, estimate};
    use super::super::predicted::{error_where_values_spread, expected_error};
    use super::*;
    use crate::plan::{Measure, MechanismChoice, Values, price, shape};
    use crate::policy::Policy;
    use dither_core::PrivacyEvent;
    use dither_noise::{NoiseSource, discrete_gaussian, discrete_laplace};

    const POLICY: &str = r#"
        dataset = "test"
        [budget]
        epsilon = 1000
        delta = 1e-3
        [tables.t]
        source = "t.csv"
        privacy_unit = "row"
        [tables.t.columns]
        x = { type = "integer", bounds = [0, 100] }
        y = { type = "number", bounds = [-1, 3], step = 0.25 }
        "#;

    async fn plan(sql: &str, choice: MechanismChoice) -> QueryPlan {
        let policy = Policy::from_toml(POLICY, ".").unwrap();
        let (shape, _) = shape(sql, &policy).await.unwrap();
        price(shape, "1".parse().unwrap(), "1e-6".parse().unwrap(), choice).unwrap()
    }

    /// The exact integers of a plan over rows of x in steps of 1 and y in steps of 1/4, in the order of its blocks.
    fn exact(plan: &QueryPlan, rows: &[(i64, i64)]) -> Vec<i128> {
        let middle = |value: i64, bounds: (i64, i64)| f64::from(2 * value as i32 - (bounds.0 + bounds.1) as i32) / 2.0;
        let (x_bounds, y_bounds) = ((0, 100), (-4, 12));
        let mut values = Vec::new();
        for measure in &plan.measures {
            let (Measure::Pair(Values::Summand(index)) | Measure::Sum(index)) = *measure else {
                panic!("moments are pairs and sums")
            };
            let bounds = plan.summands[index].bounds;
            let sum = |of: &dyn Fn(&(i64, i64)) -> f64| rows.iter().map(of).sum::<f64>();
            match (measure, bounds.lower(), bounds.lattice().step()) {
                (Measure::Pair(_), lower, _) => {
                    let upper = bounds.upper();
                    let value = |row: &(i64, i64)| if lower == 0 { row.0 } else { row.1 };
                    values.push(rows.iter().map(|row| i128::from(upper - value(row))).sum());
                    values.push(rows.iter().map(|row| i128::from(value(row) - lower)).sum());
                }
                (_, 0, 0.25) => values.push((sum(&|row| middle(row.0, x_bounds).powi(2)) / 0.25).round() as i128),
                (_, 0, step) => {
                    let total = sum(&|row| middle(row.1, y_bounds).powi(2)) / 16.0;
                    values.push((total / step).round() as i128);
                }
                (_, _, step) => {
                    let total = sum(&|row| middle(row.0, x_bounds) * middle(row.1, y_bounds) / 4.0);
                    values.push((total / step).round() as i128);
                }
            }
        }
        values
    }

    /// The statistic as textbooks give it.
    fn truth(kind: &str, rows: &[(i64, i64)]) -> f64 {
        let n = rows.len() as f64;
        let x: Vec<f64> = rows.iter().map(|row| row.0 as f64).collect();
        let y: Vec<f64> = rows.iter().map(|row| row.1 as f64 / 4.0).collect();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / n;
        let covariance = |a: &[f64], b: &[f64]| {
            let (p, q) = (mean(a), mean(b));
            a.iter().zip(b).map(|(a, b)| (a - p) * (b - q)).sum::<f64>() / n
        };
        match kind {
            "VAR_POP(x)" => covariance(&x, &x),
            "VAR_SAMP(x)" => covariance(&x, &x) * n / (n - 1.0),
            "STDDEV_POP(x)" => covariance(&x, &x).sqrt(),
            "COVAR_POP(x, y)" => covariance(&x, &y),
            "COVAR_SAMP(x, y)" => covariance(&x, &y) * n / (n - 1.0),
            _ => covariance(&x, &y) / (covariance(&x, &x) * covariance(&y, &y)).sqrt(),
        }
    }

    const KINDS: [&str; 6] =
        ["VAR_POP(x)", "VAR_SAMP(x)", "STDDEV_POP(x)", "COVAR_POP(x, y)", "COVAR_SAMP(x, y)", "CORR(x, y)"];

    fn line(n: i64) -> Vec<(i64, i64)> {
        (0..n).map(|i| ((i * 37) % 101, ((i * 37) % 101 * 16 / 100) - 4)).collect()
    }

    fn tables() -> Vec<Vec<(i64, i64)>> {
        vec![
            line(3),
            line(40),
            line(1000),
            (0..200).map(|i| (if i % 2 == 0 { 0 } else { 100 }, if i % 2 == 0 { 12 } else { -4 })).collect(),
            (0..500).map(|i| (3 + i % 3, 12 - i % 2)).collect(),
        ]
    }

    /// Without noise the estimate is the statistic.
    #[tokio::test]
    async fn moments_are_exact_where_the_sums_are() {
        for kind in KINDS {
            let plan = plan(&format!("SELECT {kind} FROM t"), MechanismChoice::Laplace).await;
            for table in tables() {
                let value = estimate(&plan, plan.derivations[0], &[], &exact(&plan, &table), 0.95);
                let (value, truth) = (value.value.unwrap(), truth(kind, &table));
                assert!((value - truth).abs() <= 1e-9 * truth.abs().max(1.0), "{kind}: {value} {truth}");
            }
        }
    }

    /// The exact integers with noise.
    fn noisy(plan: &QueryPlan, exact: &[i128], source: &mut NoiseSource) -> Vec<i128> {
        let widths = plan.mechanism.blocks.iter().flat_map(|block| std::iter::repeat_n(block.noise, block.width));
        let add = |(value, noise): (&i128, Noise)| match noise.event() {
            PrivacyEvent::Laplace { scale, .. } => value + discrete_laplace(source, scale).unwrap(),
            PrivacyEvent::Gaussian { variance, .. } => {
                (value << noise.refinement()) + discrete_gaussian(source, variance).unwrap()
            }
            other => panic!("{other:?}"),
        };
        exact.iter().zip(widths).map(add).collect()
    }

    /// How often an interval misses, in 4,000 draws of the noise.
    fn misses(plan: &QueryPlan, kind: &str, table: &[(i64, i64)], shift: f64) -> usize {
        let (exact, truth) = (exact(plan, table), truth(kind, table));
        let mut source = NoiseSource::from_os().unwrap();
        (0..4_000)
            .filter(|_| {
                let noisy = noisy(plan, &exact, &mut source);
                let found = estimate(plan, plan.derivations[0], &[], &noisy, CONFIDENCE);
                let (low, high) = (found.low.unwrap(), found.high.unwrap());
                if let Some(value) = found.value {
                    assert!(low <= value && value <= high && value.is_finite(), "{found:?}");
                }
                assert!(!kind.starts_with("CORR") || (low >= -1.0 && high <= 1.0));
                assert!(!kind.starts_with("VAR_POP") || (low >= 0.0 && high <= 2_500.0));
                let slack = 1e-9 * truth.abs().max(1.0);
                !(low - slack..=high + slack).contains(&(truth + shift))
            })
            .count()
    }

    /// With 5 % of misses, more than 283 in 4,000 have probability below 1e-9 (six standard deviations).
    #[tokio::test]
    async fn fp_14_the_intervals_of_moments_cover_small_and_large_groups() {
        for kind in KINDS {
            for choice in [MechanismChoice::Laplace, MechanismChoice::Gaussian] {
                let plan = plan(&format!("SELECT {kind} FROM t"), choice).await;
                for table in tables() {
                    let missed = misses(&plan, kind, &table, 0.0);
                    assert!(missed < 283, "{missed} of 4000: {kind}, {choice:?}, {} rows", table.len());
                }
            }
        }
        // The control: the truth moved by four of the predicted errors is missed.
        let plan = plan("SELECT VAR_POP(x) FROM t", MechanismChoice::Laplace).await;
        let table = &tables()[2];
        let error = expected_error(&plan, plan.derivations[0], table.len() as f64, Some(0.5)).unwrap();
        assert!(misses(&plan, "VAR_POP(x)", table, 4.0 * error) > 3_000);
    }

    /// The predicted error is kept 95 times in 100, wherever values lie, and is no more than so many times too large where they
    /// lie in the middle.
    #[tokio::test]
    async fn the_errors_of_a_variance_and_of_a_deviation_are_predicted() {
        let two = |low: i64, part: i64| (0..1_000).map(move |i| (if i % part == 0 { 100 - low } else { low }, 0));
        let mut tables: Vec<Vec<(i64, i64)>> = tables().into_iter().filter(|table| table.len() > 100).collect();
        tables.extend([two(0, 20), two(100, 20), two(0, 2), two(40, 2)].map(Iterator::collect));
        for choice in [MechanismChoice::Laplace, MechanismChoice::Gaussian] {
            for (kind, least) in [("VAR_POP(x)", 0.0), ("STDDEV_POP(x)", 10.0)] {
                let plan = plan(&format!("SELECT {kind} FROM t"), choice).await;
                for table in tables.iter().filter(|table| truth("STDDEV_POP(x)", table) >= least) {
                    let rows = table.len() as f64;
                    let predicted = expected_error(&plan, plan.derivations[0], rows, None).unwrap();
                    is_predicted(&plan, kind, table, predicted, f64::INFINITY);
                }
                let times = if least > 0.0 { 6.0 } else { 2.5 };
                let predicted = expected_error(&plan, plan.derivations[0], 1_000.0, Some(0.5)).unwrap();
                is_predicted(&plan, kind, &line(1_000), predicted, times);
            }
        }
        // The control: of values that are all alike, the error of a deviation is larger.
        let deviation = plan("SELECT STDDEV_POP(x) FROM t", MechanismChoice::Laplace).await;
        let predicted = expected_error(&deviation, deviation.derivations[0], 1_000.0, Some(0.5)).unwrap();
        let alike: Vec<(i64, i64)> = (0..1_000).map(|_| (50, 0)).collect();
        assert!(errors(&deviation, "STDDEV_POP(x)", &alike)[1_900] > predicted);
    }

    /// So is that of a correlation, where values spread as the prediction says that it assumes.
    #[tokio::test]
    async fn the_error_of_a_correlation_is_predicted_for_values_that_spread() {
        // Deviations of 25 in [0, 100] and of 1 in [-1, 3], a correlation of a half.
        let row = |i: i64| (if i % 2 == 0 { 25 } else { 75 }, if (i % 2 == 0) == (i % 8 < 6) { 0 } else { 8 });
        let table: Vec<(i64, i64)> = (0..4_000).map(row).collect();
        let plan = plan("SELECT CORR(x, y) FROM t", MechanismChoice::Laplace).await;
        let predicted = error_where_values_spread(&plan, plan.derivations[0], table.len() as f64).unwrap();
        // Seven intervals add up to that of a correlation, each for values wherever they are worst.
        is_predicted(&plan, "CORR(x, y)", &table, predicted, 30.0);
    }

    /// Whether 95 of 100 errors are within the predicted one, which is no more than so many times too large.
    fn is_predicted(plan: &QueryPlan, kind: &str, table: &[(i64, i64)], predicted: f64, times: f64) {
        let errors = errors(plan, kind, table);
        assert!(errors[1_840] <= predicted, "{kind}: {} {predicted}", errors[1_840]);
        assert!(errors[1_900] * times > predicted, "{kind}: {} {predicted}", errors[1_900]);
    }

    /// How far 2,000 released values are off, from the best.
    fn errors(plan: &QueryPlan, kind: &str, table: &[(i64, i64)]) -> Vec<f64> {
        let (exact, truth) = (exact(plan, table), truth(kind, table));
        let mut source = NoiseSource::from_os().unwrap();
        let mut errors: Vec<f64> = (0..2_000)
            .map(|_| {
                let noisy = noisy(plan, &exact, &mut source);
                let found = estimate(plan, plan.derivations[0], &[], &noisy, CONFIDENCE);
                (found.value.unwrap() - truth).abs()
            })
            .collect();
        errors.sort_by(f64::total_cmp);
        errors
    }
}
