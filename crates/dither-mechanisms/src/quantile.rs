//! Several quantiles of numbers on a public grid.

use std::num::NonZeroU32;
use std::ops::Range;

use dither_core::{Epsilon, PrivacyEvent, Ratio};
use dither_noise::{BitSource, NoiseError, exponential_choice_by_distance};

use crate::error::MechanismError;

/// How many of the rows lie below a quantile, in billionths.
///
/// ```
/// use dither_mechanisms::Fraction;
/// assert_eq!(Fraction::new(0.5), Some(Fraction::MEDIAN));
/// assert!(Fraction::new(1.5).is_none() && Fraction::new(f64::NAN).is_none());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fraction(u32);

impl Fraction {
    const WHOLE: u32 = 1_000_000_000;
    /// The least value, or what stands in for it: see [`Quantiles::margin`].
    pub const LEAST: Self = Self(0);
    /// The value in the middle.
    pub const MEDIAN: Self = Self(Self::WHOLE / 2);
    /// The greatest value, or what stands in for it: see [`Quantiles::margin`].
    pub const GREATEST: Self = Self(Self::WHOLE);

    /// The nearest billionth; `None` unless the number lies in [0, 1].
    pub fn new(part: f64) -> Option<Self> {
        (0.0..=1.0).contains(&part).then(|| Self((part * f64::from(Self::WHOLE)).round() as u32))
    }

    /// The number.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::WHOLE)
    }
}

/// The histogram of one group: the points of the grid that rows lie on, counted from 0, and how many lie there.
pub type Histogram = Vec<(u32, u64)>;

/// Several quantiles of the values of a group, for one charge, in ascending order.
///
/// The quantile in the middle is chosen first, by the exponential mechanism over all points of the grid. It splits the
/// rows: those below decide about the smaller quantiles and those above about the larger ones. So ⌈log₂(m + 1)⌉
/// *levels* of choices give m quantiles, and each row takes part in one choice of each level.
///
/// *Equal values.* A split must put so many of the rows of one point on either side as belong there. For two quantiles
/// and more, each point is therefore cut into 2^16 parts, and the i-th row of a point lies in the part whose number
/// is i with its bits reversed (van der Corput): the rows of a point are spread evenly over it, however many they are,
/// and one row more moves none of the others. A split is off by the rows of one part, 1/65536 of those of its point.
///
/// *Utility.* Let F(p) be the number of rows in the parts before p, N that of all rows of the sub-problem, and t the rank
/// that is asked for. A part takes the ranks from F(p) to F(p + 1) and is worse than the best by the distance of t
/// to these. In a sub-problem between the fractions a and b, the fraction q is the rank (q − a)/(b − a) · N.
///
/// *Ends.* The least and the greatest value are somebody's, and no rank beyond them holds an answer back. What is asked
/// for instead is the rank [`margin`](Quantiles::margin) rows from the end, which is public: with probability 95 % the
/// choice then lies among the values. Of fewer rows than twice that, the one in the middle is asked for.
///
/// # Privacy
/// Every unit must have at most `rows` rows in each of at most `groups` groups, for replaced units twice as many. Then
/// the answer is ε-differentially private, as the composition of one ε/(levels · groups)-bounded-range event for each
/// level and group. The grid, the fractions and both numbers must be public.
///
/// *Proof.* (1) One row more, at a part r. F grows by one behind r and stays elsewhere, since no other row moves. All
/// numbers below are multiplied by C = b − a and A = q − a in billionths, so that ranks are integers: the target t =
/// A·N moves by z = A, the ranks of parts behind r by C − z relative to the target, those before r by −z, and
/// those of r itself grow by one at their end. Each distance moves by at most max(A, C − A), and any two differ in their
/// move by at most twice that. With a rate of ε′/(2 · max(A, C − A)) for each step, the losses of any two parts differ by
/// at most ε′, so the choice has ε′-bounded range; r rows of a unit have r times that. A constant in the target changes
/// nothing. For the ends z lies between 0 and C, since the target is min(k, N/2) rows or that from above, and
/// max(A, C − A) = C there.
/// (2) Given all splits so far, the parts of the sub-problems of one level are disjoint, and so are the rows in them:
/// of the rows of a unit in one group, r₁ are in the first, r₂ in the second, with r₁ + r₂ + … ≤ R. The choices
/// are independent, so together they have (r₁ + r₂ + …)ε′ ≤ Rε′-bounded range. That holds for each group and level.
/// (3) The choices of one level depend on the answers of those above only, so levels compose adaptively. ∎
///
/// ```
/// use std::num::NonZeroU32;
/// use dither_core::PrivacyEvent;
/// use dither_mechanisms::{Fraction, Quantiles};
/// let (points, groups) = (NonZeroU32::new(111).unwrap(), NonZeroU32::MIN);
/// let quartiles = [0.25, 0.5, 0.75].map(|part| Fraction::new(part).unwrap());
/// let quantiles = Quantiles::for_epsilon(&quartiles, points, 1, groups, "1".parse()?)?;
/// let half = PrivacyEvent::BoundedRange { epsilon: "0.5".parse()? };
/// assert_eq!(quantiles.event(), PrivacyEvent::Composed(vec![half.clone(), half]));
/// // With 95 %, the median has about half the rows below it: at most so many too few or too many.
/// assert!(quantiles.rank_error(Fraction::MEDIAN, 0.95).unwrap() < 45.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// Kaplan, Schnapp and Stemmer, *Differentially Private Approximate Quantiles*, ICML 2022, Algorithm 1 and Theorem 3.1.
/// Smith, *Privacy-preserving statistical estimation with optimal convergence rates*, STOC 2011, Algorithm 2 (one
/// quantile by the exponential mechanism). Dong, Durfee and Rogers, *Optimal Differential Privacy Composition for
/// Exponential Mechanisms*, 2020 (bounded range). Van der Corput, *Verteilungsfunktionen*, 1935.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantiles {
    /// Ascending, each once.
    fractions: Vec<Fraction>,
    points: NonZeroU32,
    rows: u64,
    /// The bounded range of one event, and the number of events.
    each: Epsilon,
    events: usize,
    /// How many groups of a unit one event stands for: one, or all.
    together: u32,
    /// How many rows from the end the least and the greatest are taken.
    margin: u64,
    /// Each point is cut into 2^`bits` parts.
    bits: u32,
}

/// Parts of a point, where there is more than one quantile: 2^16.
const BITS: u32 = 16;
/// An event for each level and group goes into the ledger, up to so many; beyond, one for each level.
const MAX_EVENTS: usize = 256;
/// How certain the least and the greatest are to lie among the values.
const MARGIN: f64 = 0.95;

impl Quantiles {
    /// The finest grid: 2^20 points.
    pub const MAX_POINTS: u32 = 1 << 20;

    /// Quantiles at a total loss of ε for units of at most so many rows in each of so many groups.
    ///
    /// # Errors
    /// [`MechanismError::NoSensitivity`] for no quantiles or no rows, [`MechanismError::OutOfRange`] for more than 2^20
    /// points, an ε too small to be split, and sensitivities beyond exact arithmetic.
    pub fn for_epsilon(
        fractions: &[Fraction],
        points: NonZeroU32,
        rows: u64,
        groups: NonZeroU32,
        epsilon: Epsilon,
    ) -> Result<Self, MechanismError> {
        let out_of_range = |what| MechanismError::OutOfRange { what };
        let mut fractions = fractions.to_vec();
        fractions.sort_unstable();
        fractions.dedup();
        if fractions.is_empty() || rows == 0 {
            return Err(MechanismError::NoSensitivity);
        }
        if points.get() > Self::MAX_POINTS {
            return Err(out_of_range("number of points"));
        }
        let bits = if fractions.len() == 1 { 0 } else { BITS };
        let levels = levels(fractions.len());
        let by_group = levels.saturating_mul(groups.get() as usize);
        let (events, together) = if by_group <= MAX_EVENTS { (by_group, 1) } else { (levels, groups.get()) };
        let each = Epsilon::from_nanos(epsilon.nanos() / events as u64).map_err(|_| out_of_range("epsilon"))?;
        let mut quantiles = Self { fractions, points, rows, each, events, together, margin: 0, bits };
        // The widest rate there is; all others fit if it does.
        if quantiles.rate(0, Fraction::WHOLE).is_none_or(|rate| rate.denominator() >= 1 << 112) {
            return Err(out_of_range("sensitivity"));
        }
        quantiles.margin = quantiles.error_of_choice(0, Fraction::WHOLE, 1.0 - MARGIN).ceil() as u64;
        Ok(quantiles)
    }

    /// The quantiles, in the order of the answers.
    pub fn fractions(&self) -> &[Fraction] {
        &self.fractions
    }

    /// The number of points of the grid.
    pub fn points(&self) -> NonZeroU32 {
        self.points
    }

    /// How many rows of a group one unit can move.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// How many rows from the end the least and the greatest value are taken: a public number.
    pub fn margin(&self) -> u64 {
        self.margin
    }

    /// By how many rows the rank differs whose part is chosen e times less often, for this fraction alone.
    pub fn rank_scale(&self, fraction: Fraction) -> f64 {
        let path = self.path(fraction);
        path.last().map_or(f64::INFINITY, |&(above, whole)| self.rows_of(above, whole))
    }

    /// How many rows the rank of a quantile stays within from the one that is asked for, with this probability,
    /// whatever the rows are. `None` unless the probability lies in [0, 1).
    ///
    /// *Proof.* Of T parts, those that are worse than the best by more than s weigh at most T · e^(−rate · s) against
    /// the best one, and are chosen with at most that probability. A target within a sub-problem moves by no more than
    /// the ends of the sub-problem do, so the errors of the choices on the way add up, and one row for each split. ∎
    pub fn rank_error(&self, fraction: Fraction, probability: f64) -> Option<f64> {
        let outside = (0.0..1.0).contains(&probability).then_some(1.0 - probability)?;
        let path = self.path(fraction);
        let each = outside / path.len() as f64;
        let choices = path.iter().map(|&(above, whole)| self.error_of_choice(above, whole, each));
        Some(choices.sum::<f64>() + (path.len() - 1) as f64)
    }

    /// What is charged.
    pub fn event(&self) -> PrivacyEvent {
        PrivacyEvent::Composed(vec![PrivacyEvent::BoundedRange { epsilon: self.each }; self.events])
    }

    fn parts(&self) -> u64 {
        u64::from(self.points.get()) << self.bits
    }

    /// The rate for each step, where a rank is `whole` steps and the target takes `above` of them for each row.
    fn rate(&self, above: u32, whole: u32) -> Option<Ratio> {
        let steps = 2 * u128::from(above.max(whole - above));
        let rows = u128::from(self.rows) * u128::from(self.together);
        let denominator = rows.checked_mul(steps)?.checked_mul(Epsilon::NANOS.into())?;
        Ratio::new(self.each.nanos().into(), denominator)
    }

    /// The number of rows that make a part e times less likely.
    fn rows_of(&self, above: u32, whole: u32) -> f64 {
        let rate = self.rate(above, whole).map_or(0.0, Ratio::as_f64);
        1.0 / (rate * f64::from(whole))
    }

    /// How many rows one choice is off by with at most this probability.
    fn error_of_choice(&self, above: u32, whole: u32, outside: f64) -> f64 {
        libm::log(self.parts() as f64 / outside) * self.rows_of(above, whole)
    }

    /// What a target is made of: the fractions around a sub-problem.
    fn around(&self, quantiles: &Range<usize>) -> [Fraction; 2] {
        let below = quantiles.start.checked_sub(1).map_or(Fraction::LEAST, |index| self.fractions[index]);
        [below, self.fractions.get(quantiles.end).copied().unwrap_or(Fraction::GREATEST)]
    }

    /// The choices that lead to a fraction: `above` and `whole` of each.
    fn path(&self, fraction: Fraction) -> Vec<(u32, u32)> {
        let mut open = 0..self.fractions.len();
        let mut path = Vec::new();
        while !open.is_empty() {
            let (middle, [below, over]) = (middle(&open), self.around(&open));
            let chosen = self.fractions[middle];
            path.push((chosen.0 - below.0, over.0 - below.0));
            match fraction.cmp(&chosen) {
                std::cmp::Ordering::Less => open.end = middle,
                std::cmp::Ordering::Equal => break,
                std::cmp::Ordering::Greater => open.start = middle + 1,
            }
        }
        path
    }

    /// The quantiles of one group, as points of the grid.
    pub(crate) fn draw<S: BitSource>(&self, histogram: &Histogram, source: &mut S) -> Result<Vec<i128>, NoiseError> {
        let rows = Rows::new(histogram, self.points, self.bits);
        let mut answers = vec![0; self.fractions.len()];
        let mut open = vec![(0..self.fractions.len(), 0..self.parts())];
        while let Some((quantiles, parts)) = open.pop() {
            if quantiles.is_empty() {
                continue;
            }
            let middle = middle(&quantiles);
            let chosen = match parts.is_empty() {
                // Nothing is left below the split before.
                true => parts.start,
                false => self.problem(&rows, &quantiles, parts.clone())?.choose(source)?,
            };
            answers[middle] = i128::from(chosen >> self.bits);
            open.push((quantiles.start..middle, parts.start..chosen));
            open.push((middle + 1..quantiles.end, chosen..parts.end));
        }
        Ok(answers)
    }

    /// The choice of the quantile in the middle.
    fn problem<'a>(
        &self,
        rows: &'a Rows,
        quantiles: &Range<usize>,
        parts: Range<u64>,
    ) -> Result<Problem<'a>, NoiseError> {
        let (chosen, [below, over]) = (self.fractions[middle(quantiles)], self.around(quantiles));
        let (above, whole) = (chosen.0 - below.0, over.0 - below.0);
        let before = rows.before(parts.start);
        let count = rows.before(parts.end) - before;
        let (a, c, n) = (i128::from(above), i128::from(whole), i128::from(count));
        let margin = i128::from(self.margin);
        // The ends stand for a rank that is so many rows off.
        let off = |fraction: Fraction| match fraction {
            Fraction::LEAST => margin,
            Fraction::GREATEST => -margin,
            _ => 0,
        };
        let start = if quantiles.start == 0 { 0 } else { off(below) };
        let end = if quantiles.end == self.fractions.len() { 0 } else { off(over) };
        let target = match chosen {
            Fraction::LEAST => (c * margin).min(c * n / 2),
            Fraction::GREATEST => c * n - (c * margin).min(c * n / 2),
            _ => a * n - a * (end - start) - c * start,
        };
        // Beyond the first and the last rank, all distances grow by the same.
        let offset = (-target).max(target - c * n).max(0);
        let rate = self.rate(above, whole).ok_or(NoiseError::OutOfRange)?;
        Ok(Problem { rows, parts, before, count, whole: c, target, offset, rate })
    }
}

/// The quantile that is chosen first.
fn middle(quantiles: &Range<usize>) -> usize {
    quantiles.start + quantiles.len() / 2
}

/// ⌈log₂(m + 1)⌉.
fn levels(quantiles: usize) -> usize {
    (usize::BITS - quantiles.leading_zeros()) as usize
}

/// One choice: the part whose ranks are nearest to a target.
struct Problem<'a> {
    rows: &'a Rows,
    parts: Range<u64>,
    /// The rows before the first part, and those in the parts.
    before: u64,
    count: u64,
    /// The steps of one rank, and the target in steps.
    whole: i128,
    target: i128,
    /// The distance of the best part.
    offset: i128,
    rate: Ratio,
}

impl Problem<'_> {
    fn choose<S: BitSource>(&self, source: &mut S) -> Result<u64, NoiseError> {
        let within = |steps| self.within(steps);
        exponential_choice_by_distance(source, self.parts.clone(), self.rate, within, |part| self.distance(part))
    }

    /// By how many steps a part is worse than the best.
    fn distance(&self, part: u64) -> u128 {
        let steps = |part: u64| i128::from(self.rows.before(part) - self.before) * self.whole;
        let distance = (steps(part) - self.target).max(self.target - steps(part + 1)).max(0);
        (distance - self.offset).unsigned_abs()
    }

    /// The parts that are worse than the best by at most so many steps.
    fn within(&self, steps: u128) -> Range<u64> {
        let reach = i128::try_from(steps).map_or(i128::MAX / 4, |steps| steps.min(i128::MAX / 4)) + self.offset;
        // The first part that ends at this rank or later, and the last that begins at that one or before.
        let first = -(reach - self.target).div_euclid(self.whole);
        let last = (self.target + reach).div_euclid(self.whole);
        let start = if first <= 0 { self.parts.start } else { self.part_of(first) };
        let end = if last >= i128::from(self.count) { self.parts.end } else { self.part_of(last + 1) + 1 };
        start..end
    }

    /// The part of the row of this rank, counted from 1.
    fn part_of(&self, rank: i128) -> u64 {
        let rank = u64::try_from(rank).unwrap_or(u64::MAX).clamp(1, self.count.max(1));
        self.rows.part_of(self.before + rank).clamp(self.parts.start, self.parts.end - 1)
    }
}

/// The rows of a group, each in its part.
struct Rows {
    points: Vec<u32>,
    /// The number of rows before each of the points, and that of all.
    sums: Vec<u64>,
    bits: u32,
}

impl Rows {
    fn new(histogram: &Histogram, points: NonZeroU32, bits: u32) -> Self {
        // More rows than any table has; a count beyond moves no two tables apart.
        const MOST: u64 = 1 << 62;
        let mut sorted: Vec<(u32, u64)> = histogram
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|&(point, n)| (point.min(points.get() - 1), n))
            .collect();
        sorted.sort_unstable();
        let mut rows = Self { points: Vec::with_capacity(sorted.len()), sums: vec![0], bits };
        for (point, count) in sorted {
            let sum = rows.sums.last().map_or(0, |sum| sum.saturating_add(count)).min(MOST);
            if rows.points.last() == Some(&point) {
                rows.sums.pop();
            } else {
                rows.points.push(point);
            }
            rows.sums.push(sum);
        }
        rows
    }

    /// The number of rows in the parts before this one.
    fn before(&self, part: u64) -> u64 {
        let point = part >> self.bits;
        let index = self.points.partition_point(|known| u64::from(*known) < point);
        if self.points.get(index).is_none_or(|known| u64::from(*known) != point) {
            return self.sums[index];
        }
        // Rows of even numbers lie in the first half of a point, those of odd ones in the second, and so on.
        let (mut here, mut before) = (self.sums[index + 1] - self.sums[index], self.sums[index]);
        for bit in (0..self.bits).rev() {
            let even = here.div_ceil(2);
            if part >> bit & 1 == 1 {
                before += even;
                here -= even;
            } else {
                here = even;
            }
        }
        before
    }

    /// The part of the row of this rank, counted from 1; the last for ranks beyond.
    fn part_of(&self, rank: u64) -> u64 {
        let index = self.sums.partition_point(|sum| *sum < rank).clamp(1, self.points.len().max(1)) - 1;
        let Some(point) = self.points.get(index) else { return 0 };
        let (mut here, mut rank) = (self.sums[index + 1] - self.sums[index], rank - self.sums[index]);
        let mut part = u64::from(*point);
        for _ in 0..self.bits {
            let even = here.div_ceil(2);
            part <<= 1;
            if rank <= even {
                here = even;
            } else {
                part += 1;
                rank -= even;
                here -= even;
            }
        }
        part
    }
}

#[cfg(test)]
impl Quantiles {
    /// The same with points that are cut into fewer parts, so that a test can list them.
    pub(crate) fn with_bits(mut self, bits: u32) -> Self {
        self.bits = bits;
        self.margin = self.error_of_choice(0, Fraction::WHOLE, 1.0 - MARGIN).ceil() as u64;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of all rows, by the definition.
    fn listed(histogram: &Histogram, bits: u32) -> Vec<u64> {
        let place = |row: u64| (0..bits).fold(0, |part, bit| part << 1 | (row >> bit & 1));
        let parts = |&(point, count): &(u32, u64)| (0..count).map(move |row| u64::from(point) << bits | place(row));
        let mut listed: Vec<u64> = histogram.iter().flat_map(parts).collect();
        listed.sort_unstable();
        listed
    }

    /// All histograms on three points with at most three rows on each.
    fn histograms() -> impl Iterator<Item = Histogram> {
        (0..64u64).map(|index| (0..3).map(|point| (point, index >> (2 * point) & 3)).collect())
    }

    #[test]
    fn ranks_and_parts_are_those_of_a_list() {
        for bits in 0..=3 {
            for histogram in histograms() {
                let (rows, list) = (Rows::new(&histogram, NonZeroU32::new(3).unwrap(), bits), listed(&histogram, bits));
                for part in 0..=3 << bits {
                    assert_eq!(rows.before(part), list.iter().filter(|row| **row < part).count() as u64);
                }
                for (rank, part) in list.iter().enumerate() {
                    assert_eq!(rows.part_of(rank as u64 + 1), *part, "{histogram:?} {rank}");
                }
            }
        }
    }

    /// Every choice by its definition: which parts are how much worse than the best.
    #[test]
    fn the_parts_within_a_distance_are_those_of_a_list() {
        let part = |value| Fraction::new(value).unwrap();
        let asked = [part(0.0), part(0.2), part(0.5), part(0.9), part(1.0)];
        let (points, loss) = (NonZeroU32::new(3).unwrap(), "50".parse().unwrap());
        for bits in 0..=2 {
            let quantiles = Quantiles::for_epsilon(&asked, points, 1, NonZeroU32::MIN, loss).unwrap().with_bits(bits);
            for histogram in histograms() {
                let (rows, list) = (Rows::new(&histogram, points, bits), listed(&histogram, bits));
                for (first, last) in [(0, 5), (0, 2), (3, 5), (0, 1), (1, 2), (4, 5)] {
                    for (from, to) in [(0, 3 << bits), (0, 1 << bits), (1, 3 << bits)] {
                        let problem = quantiles.problem(&rows, &(first..last), from..to).unwrap();
                        let before = |part: u64| list.iter().filter(|row| (from..part).contains(*row)).count() as i128;
                        let away = |part: u64| {
                            let [low, high] = [before(part), before(part + 1)].map(|rank| rank * problem.whole);
                            (low - problem.target).max(problem.target - high).max(0)
                        };
                        let best = (from..to).map(away).min().unwrap();
                        let mut seen = std::collections::BTreeSet::from([0]);
                        for place in from..to {
                            assert_eq!(problem.distance(place), (away(place) - best).unsigned_abs());
                            seen.extend([problem.distance(place), problem.distance(place) + 1]);
                        }
                        for steps in seen {
                            let within = (from..to).filter(|place| problem.distance(*place) <= steps);
                            assert_eq!(problem.within(steps).collect::<Vec<_>>(), within.collect::<Vec<_>>());
                        }
                    }
                }
            }
        }
    }
}
