//! A public grid for numbers of any magnitude.

/// Zero, and on either side of it the magnitudes from 2^-20 to 2^63, with 4,096 even steps from each power of two to the
/// next. A value counts as the step that it lies in, towards zero: step 1 begins at 2^-20, and −1 is its mirror image.
///
/// ```
/// use dither_mechanisms::Magnitudes;
/// assert_eq!(Magnitudes::beginning(1 + 20 * 4_096), 1.0);
/// assert_eq!(Magnitudes::beginning(-1 - 20 * 4_096), -1.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Magnitudes;

impl Magnitudes {
    /// Magnitudes below 2^-20, about a millionth, count as zero.
    pub const LEAST: i32 = -20;
    /// Magnitudes from 2^63 on, beyond 64-bit integers, count as the greatest.
    pub const GREATEST: i32 = 63;
    /// Steps between one power of two and the next: 2^12, so that a step is at most 1/4,096 of what lies in it.
    pub const STEPS: i64 = 1 << 12;
    /// The number of steps on either side of zero.
    pub const SIDE: i64 = (Self::GREATEST - Self::LEAST) as i64 * Self::STEPS;

    /// Half the width of the finest step, in which all beginnings and middles are integers: 2^-33.
    pub(crate) const UNIT: f64 = 1.0 / (1u64 << 33) as f64;
    /// One in units.
    const ONE: i128 = 1 << 33;

    /// What a step begins with, on the side of zero.
    pub fn beginning(number: i64) -> f64 {
        Self::units(number).0 as f64 * Self::UNIT
    }

    /// Where a step begins and ends, in units: both ends of zero are zero.
    pub(crate) fn units(number: i64) -> (i128, i128) {
        let size = number.unsigned_abs().min(Self::SIDE.unsigned_abs()) as i64;
        if size == 0 {
            return (0, 0);
        }
        let (octave, rest) = ((size - 1) / Self::STEPS, (size - 1) % Self::STEPS);
        // At most 2^13 · 2^83.
        let begin = i128::from(Self::STEPS + rest) << (octave + 1);
        let end = begin + (2_i128 << octave);
        if number < 0 { (-begin, -end) } else { (begin, end) }
    }

    /// What the values of a step count as, in units: the middle, and of whole numbers the middle of those in it.
    pub(crate) fn middle(number: i64, whole: bool) -> i128 {
        let (begin, end) = Self::units(number);
        let width = (end - begin).abs();
        let inward = match whole {
            false => width / 2,
            // A step that is not wider than one holds one whole number at most, at its beginning.
            true => (width - Self::ONE).max(0) / 2,
        };
        begin + inward * begin.signum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_follow_each_other_and_middles_lie_in_them() {
        for number in (1..=Magnitudes::SIDE).step_by(37).chain([Magnitudes::SIDE]) {
            let (begin, end) = Magnitudes::units(number);
            assert_eq!(Magnitudes::units(-number), (-begin, -end));
            assert!(number == Magnitudes::SIDE || Magnitudes::units(number + 1).0 == end);
            assert!((end - begin) * 4_096 <= begin, "a step is at most 1/4096 of its beginning");
            for whole in [false, true] {
                let middle = Magnitudes::middle(number, whole);
                assert!(begin <= middle && middle < end);
                assert_eq!(Magnitudes::middle(-number, whole), -middle);
            }
        }
        assert_eq!(Magnitudes::middle(0, false), 0);
    }

    #[test]
    fn whole_numbers_count_as_the_mean_of_those_in_their_step() {
        let step = |value: i128| {
            let octave = value.ilog2() as i64;
            1 + (octave + 20) * 4_096 + (((value << 12) >> octave) as i64 - 4_096)
        };
        for start in [1, 5, 4_095, 8_191, 8_192, 20_000, 1 << 20, (1 << 40) + 12_345] {
            let number = step(start);
            let inside: Vec<i128> =
                (0..1 << 29).map(|more| start + more).take_while(|value| step(*value) == number).collect();
            let below: Vec<i128> = (1..=1 << 29)
                .map(|less| start - less)
                .take_while(|value| *value > 0 && step(*value) == number)
                .collect();
            let (count, sum) = ((inside.len() + below.len()) as i128, inside.iter().chain(&below).sum::<i128>());
            assert_eq!(2 * Magnitudes::middle(number, true) * count, 2 * sum * Magnitudes::ONE, "{start}");
        }
    }
}
