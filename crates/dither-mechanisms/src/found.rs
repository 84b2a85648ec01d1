//! Bounds that are found from the data, and exact sums of the values between them.

use std::num::NonZeroU32;

use dither_core::{Epsilon, PrivacyEvent};
use dither_noise::{BitSource, NoiseError};
use serde::{Deserialize, Serialize};

use crate::error::MechanismError;
use crate::magnitudes::Magnitudes;
use crate::quantile::{Fraction, Histogram, Quantiles};

/// Chooses a lower and an upper bound for the values of one column, over all groups together, and sums up the values of each
/// group between these bounds.
///
/// The values are histograms on the steps of [`Magnitudes`]. A bound is chosen among sixteen coarse steps for each power of
/// two, by the exponential mechanism, as the value some rows from the end: see [`Quantiles::margin`]. The empty space beyond
/// the last value is long, and that is what the margin is for. The lower bound is the beginning of its coarse step, and the
/// upper one the end. Then every value is clamped and put on a lattice that has 2^30 steps from one bound to the other,
/// whatever they are: what noise a sum needs is known before the bounds are.
///
/// # Privacy
/// Every unit must have at most `rows` rows in all groups together, for replaced units twice as many. Then both bounds are
/// chosen with a loss of ε, as two ε/2-bounded-range events. Given the bounds, one row moves a pair of sums by 2^30 steps in
/// the l1 norm and a sum of squares by at most 2^40 steps: [`STEPS`](Self::STEPS), [`SQUARES`](Self::SQUARES). The noise on
/// these columns is charged for by their blocks.
///
/// *Proof.* A bound is a quantile of the rows of all groups, of which one unit has `rows`. The sums are functions of the
/// bounds, which are released, and of the rows: an adaptive composition, whose second part has the same sensitivity and the same
/// noise for all bounds, so that its price does not depend on the first. ∎
///
/// # References
/// Smith, *Privacy-preserving statistical estimation with optimal convergence rates*, STOC 2011 (quantiles by the exponential
/// mechanism, then clamped sums). Wilson et al., *Differentially Private SQL with Bounded User Contribution*, 2020, section
/// 5.1.1 (bounds from a histogram on powers of two).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundBounds {
    lower: Quantiles,
    upper: Quantiles,
    whole: bool,
    columns: Vec<FoundSum>,
}

/// A column that is computed once the bounds are known, by its place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundSum {
    /// Σ(upper − x), and Σ(x − lower) in the next column.
    Pair(usize),
    /// Σ(x − middle)².
    Squares(usize),
}

/// Bounds that were chosen, as numbers of coarse steps. They are released. By default those of zeros alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Bounds(i64, i64);

/// Fine steps in a coarse one.
const COARSE: i64 = 256;
/// The number of coarse steps on either side of zero.
const SIDE: i64 = Magnitudes::SIDE / COARSE;

impl Bounds {
    /// The bounds of two points of the coarse grid, in any order.
    fn new(points: [i128; 2]) -> Self {
        let number = |point: i128| point.clamp(0, 2 * i128::from(SIDE)) as i64 - SIDE;
        let [a, b] = points.map(number);
        Self(a.min(b), a.max(b))
    }

    /// Both ends in units. The upper one is larger.
    fn units(self) -> (i128, i128) {
        // The fine steps nearest to zero and farthest from it.
        let ends = |number: i64| {
            let sign = number.signum();
            let (near, far) = ((number - sign) * COARSE + sign, number * COARSE);
            let (a, b) = (Magnitudes::units(near).0, Magnitudes::units(far).1);
            (a.min(b), a.max(b))
        };
        let (lower, upper) = (ends(self.0.clamp(-SIDE, SIDE)).0, ends(self.1.clamp(-SIDE, SIDE)).1);
        // Only of zeros alone are both ends equal; the least magnitude of all is beyond them.
        (lower, upper.max(lower + Magnitudes::units(1).0))
    }

    /// The lower bound.
    pub fn lower(self) -> f64 {
        self.units().0 as f64 * Magnitudes::UNIT
    }

    /// The upper bound, which is larger.
    pub fn upper(self) -> f64 {
        self.units().1 as f64 * Magnitudes::UNIT
    }
}

impl FoundBounds {
    /// The steps from one bound to the other.
    pub const STEPS: u64 = 1 << 30;
    /// The steps of the square of half of that.
    pub const SQUARES: u64 = 1 << 40;

    /// Bounds at a total loss of ε, for units with at most so many rows in all groups together. `whole` says that all values
    /// are whole numbers.
    ///
    /// # Errors
    /// Those of [`Quantiles::for_epsilon`].
    pub fn for_epsilon(
        rows: u64,
        whole: bool,
        columns: Vec<FoundSum>,
        epsilon: Epsilon,
    ) -> Result<Self, MechanismError> {
        let half = Epsilon::from_nanos(epsilon.nanos() / 2);
        let half = half.map_err(|_| MechanismError::OutOfRange { what: "epsilon" })?;
        let points = u32::try_from(2 * SIDE + 1).ok().and_then(NonZeroU32::new);
        let points = points.ok_or(MechanismError::OutOfRange { what: "number of points" })?;
        let one = |end| Quantiles::for_epsilon(&[end], points, rows, NonZeroU32::MIN, half);
        Ok(Self { lower: one(Fraction::LEAST)?, upper: one(Fraction::GREATEST)?, whole, columns })
    }

    /// How many rows from the end each bound is taken: a public number.
    pub fn margin(&self) -> u64 {
        self.lower.margin()
    }

    /// How many rows lie beyond both bounds together at most, with this probability, whatever the rows are. `None` unless the
    /// probability lies in [0, 1).
    ///
    /// *Proof.* A bound is asked for `margin` rows from its end at most, and chosen within the error of a rank of that, see
    /// [`Quantiles::rank_error`]. Beyond it lie the rows of the coarse steps behind the chosen one, which are no more than both
    /// together. Each of the two ends may miss with half of what is left. Where the bounds change places, fewer lie beyond. ∎
    pub fn most_beyond(&self, probability: f64) -> Option<f64> {
        let each = 1.0 - (1.0 - probability) / 2.0;
        let ends = [(&self.lower, Fraction::LEAST), (&self.upper, Fraction::GREATEST)];
        ends.iter().map(|(quantiles, end)| Some(quantiles.margin() as f64 + quantiles.rank_error(*end, each)?)).sum()
    }

    /// How many rows of all groups together one unit can move.
    pub fn rows(&self) -> u64 {
        self.lower.rows()
    }

    /// What is charged for the choice.
    pub fn event(&self) -> PrivacyEvent {
        PrivacyEvent::Composed(vec![self.lower.event(), self.upper.event()])
    }

    /// Chooses the bounds from the histograms of all groups, whose points are numbers of steps from the least one on.
    pub(crate) fn choose<'a, S: BitSource>(
        &self,
        groups: impl Iterator<Item = &'a Histogram>,
        source: &mut S,
    ) -> Result<Bounds, NoiseError> {
        let mut merged = vec![0_u64; 2 * SIDE as usize + 1];
        for &(point, count) in groups.flatten() {
            let number = number_of(point);
            // Away from zero, so that the steps next to it are not counted with it.
            let coarse = (number.abs() + COARSE - 1) / COARSE * number.signum();
            let place = (coarse + SIDE) as usize;
            merged[place] = merged[place].saturating_add(count);
        }
        let merged: Histogram = (0..).zip(merged).filter(|(_, count)| *count > 0).collect();
        let mut one = |quantiles: &Quantiles| {
            let drawn = quantiles.draw(&merged, source)?;
            drawn.first().copied().ok_or(NoiseError::OutOfRange)
        };
        Ok(Bounds::new([one(&self.lower)?, one(&self.upper)?]))
    }

    /// Puts the sums of a group into their columns.
    pub(crate) fn fill(&self, bounds: Bounds, histogram: &Histogram, values: &mut [i128]) {
        let (lower, upper) = bounds.units();
        let place = |point: u32| steps_between(Magnitudes::middle(number_of(point), self.whole), lower, upper);
        let sum = |of: &dyn Fn(i128) -> i128| {
            let terms = histogram.iter().map(|&(point, count)| of(place(point)).saturating_mul(count.into()));
            terms.fold(0_i128, i128::saturating_add)
        };
        let range = i128::from(Self::STEPS);
        for column in &self.columns {
            match *column {
                FoundSum::Pair(first) => {
                    values[first] = sum(&|x| range - x);
                    values[first + 1] = sum(&|x| x);
                }
                FoundSum::Squares(column) => values[column] = sum(&centred_square),
            }
        }
    }

    /// The width of the table that the columns stand in, at least.
    pub(crate) fn width(&self) -> usize {
        let end = |column: &FoundSum| match *column {
            FoundSum::Pair(first) => first + 2,
            FoundSum::Squares(column) => column + 1,
        };
        self.columns.iter().map(end).max().unwrap_or(0)
    }
}

/// The number of a step from its point, counted from the least one.
fn number_of(point: u32) -> i64 {
    (i64::from(point) - Magnitudes::SIDE).min(Magnitudes::SIDE)
}

/// Where between two bounds a value lies, clamped, in steps from 0 to 2^30; halves are rounded up.
fn steps_between(value: i128, lower: i128, upper: i128) -> i128 {
    let (range, above) = (upper - lower, value.clamp(lower, upper) - lower);
    // Bounds reach 2^97 on either side. Of a longer range than 2^90 what is cut off is far below a step.
    let shift = (128 - range.leading_zeros()).saturating_sub(90);
    let (range, above) = (range >> shift, above >> shift);
    ((above * (2 * i128::from(FoundBounds::STEPS)) / range + 1) / 2).min(FoundBounds::STEPS.into())
}

/// The square of the distance from the middle, from 0 to 2^40.
fn centred_square(steps: i128) -> i128 {
    let away = steps - i128::from(FoundBounds::STEPS / 2);
    // (2^29)² is 2^58: a step is 2^18.
    (away * away + (1 << 17)) >> 18
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_ends_of_coarse_steps_and_never_equal() {
        let of = |a: i64, b: i64| Bounds::new([a + SIDE, b + SIDE].map(i128::from));
        // Sixteen coarse steps for each power of two: 1 begins the 321st.
        let one = 20 * 16 + 1;
        assert_eq!((of(one, one).lower(), of(one, one).upper()), (1.0, 1.0625));
        assert_eq!((of(one, -one).lower(), of(one, -one).upper()), (-1.0625, 1.0625));
        assert_eq!((of(-one, -one).lower(), of(-one, -one).upper()), (-1.0625, -1.0));
        assert_eq!((of(0, one).lower(), of(0, one).upper()), (0.0, 1.0625));
        assert_eq!((of(0, 0).lower(), of(0, 0).upper()), (0.0, 2f64.powi(-20)));
        assert_eq!((of(-SIDE, SIDE).lower(), of(-SIDE, SIDE).upper()), (-(2f64.powi(63)), 2f64.powi(63)));
        for a in (-SIDE..=SIDE).step_by(13) {
            for b in (-SIDE..=SIDE).step_by(17) {
                let bounds = of(a, b);
                assert!(bounds.lower() < bounds.upper() && bounds == of(b, a));
            }
        }
    }

    #[test]
    fn values_lie_evenly_between_their_bounds() {
        let steps = |x: f64, lower: f64, upper: f64| {
            let [x, lower, upper] = [x, lower, upper].map(|value| (value / Magnitudes::UNIT) as i128);
            steps_between(x, lower, upper)
        };
        assert_eq!(steps(5.0, 0.0, 10.0), 1 << 29);
        assert_eq!((steps(-1.0, 0.0, 10.0), steps(11.0, 0.0, 10.0)), (0, 1 << 30));
        assert_eq!(steps(0.0, -(2f64.powi(63)), 2f64.powi(63)), 1 << 29);
        assert_eq!(steps(2f64.powi(62), -(2f64.powi(63)), 2f64.powi(63)), 3 << 28);
        assert_eq!([0, 1 << 29, 1 << 30].map(centred_square), [1 << 40, 0, 1 << 40]);
    }

    /// Whatever the bounds and the value, a row moves what it is charged for by no more, and both sums together by one range.
    #[test]
    fn se_14_a_row_of_any_value_moves_the_sums_by_a_range_at_most() {
        let columns = vec![FoundSum::Pair(0), FoundSum::Squares(2)];
        for whole in [false, true] {
            let found = FoundBounds::for_epsilon(1, whole, columns.clone(), "1".parse().unwrap()).unwrap();
            for a in (-SIDE..=SIDE).step_by(31) {
                let bounds = Bounds::new([i128::from(a + SIDE), i128::from((a * 7).rem_euclid(2 * SIDE + 1))]);
                for point in (0..=2 * Magnitudes::SIDE as u32).step_by(9_973).chain([u32::MAX]) {
                    let mut values = [0; 3];
                    found.fill(bounds, &vec![(point, 1)], &mut values);
                    assert_eq!(values[0] + values[1], FoundBounds::STEPS.into());
                    assert!(values.iter().all(|value| *value >= 0) && values[2] <= FoundBounds::SQUARES.into());
                }
            }
        }
    }

    #[test]
    fn counts_beyond_all_tables_neither_panic_nor_wrap() {
        let found =
            FoundBounds::for_epsilon(1, false, vec![FoundSum::Pair(0), FoundSum::Squares(2)], "1".parse().unwrap());
        let mut values = [0; 3];
        let histogram = (0..200).map(|point| (point * 3_000, u64::MAX)).collect();
        found.unwrap().fill(Bounds(-SIDE, SIDE), &histogram, &mut values);
        assert!(values.iter().all(|value| *value > 0));
    }
}
