//! Floats to integers on a public lattice.

use dither_core::ValueBounds;

use crate::rows::NULL;

/// The number of lattice steps nearest to a value, clamped; [`NULL`] for NaN.
///
/// The same operations as in the portable plan: ⌊value / step + 1/2⌋, then the bounds. Bounds are whole numbers of steps,
/// so that they may be applied before the floor.
///
/// ```
/// # use dither_bounding::{NULL, lattice::steps};
/// # use dither_core::{Lattice, ValueBounds};
/// let bounds = ValueBounds::new(-1.0, 2.0, Lattice::new(0.25).unwrap()).unwrap();
/// assert_eq!([0.3, -0.3, 9.0, f64::NEG_INFINITY].map(|value| steps(value, &bounds)), [1, -1, 8, -4]);
/// assert_eq!(steps(f64::NAN, &bounds), NULL);
/// ```
#[inline]
pub fn steps(value: f64, bounds: &ValueBounds) -> i64 {
    let exact = value / bounds.lattice().step() + 0.5;
    if exact.is_nan() {
        return NULL;
    }
    let inside = exact.max(bounds.lower() as f64).min(bounds.upper() as f64);
    // Within 2^53 the cast is exact; it cuts towards zero.
    let cut = inside as i64;
    cut - i64::from(cut as f64 > inside)
}

/// [`steps`] of many values; `present` says which are not NULL, all where it is `None`.
pub fn fill(values: &[f64], present: Option<&dyn Fn(usize) -> bool>, bounds: &ValueBounds, into: &mut Vec<i64>) {
    into.clear();
    if bounds.lower().unsigned_abs().max(bounds.upper().unsigned_abs()) <= NEAR {
        into.extend(values.iter().map(|value| near_steps(*value, bounds)));
    } else {
        into.extend(values.iter().map(|value| steps(*value, bounds)));
    }
    if let Some(present) = present {
        for (index, step) in into.iter_mut().enumerate() {
            if !present(index) {
                *step = NULL;
            }
        }
    }
}

/// Up to here [`SHIFT`] rounds to whole numbers.
const NEAR: u64 = 1 << 51;

/// Added to a number within 2^51 of zero it gives one between 2^52 and 2^53, where floats are the whole numbers.
const SHIFT: f64 = 6_755_399_441_055_744.0;

/// [`steps`] between bounds within [`NEAR`], without branches and without casts, so that processors take several at a time.
#[inline]
fn near_steps(value: f64, bounds: &ValueBounds) -> i64 {
    let exact = value / bounds.lattice().step() + 0.5;
    let (lower, upper) = (bounds.lower() as f64, bounds.upper() as f64);
    let inside = if exact > lower { exact } else { lower };
    let inside = if inside < upper { inside } else { upper };
    let shifted = inside + SHIFT;
    // Whole numbers within one binade are as far apart as their bits.
    let nearest = (shifted.to_bits() as i64).wrapping_sub(SHIFT.to_bits() as i64);
    let steps = nearest.wrapping_sub(i64::from(shifted - SHIFT > inside));
    if exact.is_nan() { NULL } else { steps }
}

#[cfg(test)]
mod tests {
    use dither_core::Lattice;
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = f64> {
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 5e-324, -5e-324, 1e308];
        // Halves of steps are ties, and their neighbours are not.
        let halves = (-9_i64..9).prop_map(|n| n as f64 / 8.0);
        let beside = halves.clone().prop_flat_map(|x| prop::sample::select(vec![x.next_up(), x.next_down()]));
        let far = (-4.6e15..4.6e15).prop_map(|x: f64| x.round() / 2.0);
        prop_oneof![prop::sample::select(odd.to_vec()), halves, beside, far, any::<f64>(), -99.0..99.0]
    }

    proptest! {
        /// Many values give what each of them gives, at both sides of the bounds where the fast way ends.
        #[test]
        fn many_values_become_the_integers_of_each(
            values in prop::collection::vec(value(), 0..40),
            step in prop::sample::select(vec![0.25, 0.01, 1.0, 1e-3, 3.0]),
            ends in prop::sample::select(vec![
                (0_i64, 100_i64), (-7, 7), (-(1 << 51), 1 << 51), (5, 5), (-(1 << 53), 1 << 53), (0, (1 << 51) + 1),
            ]),
        ) {
            let lattice = Lattice::new(step).unwrap();
            let bounds = ValueBounds::new(ends.0 as f64 * step, ends.1 as f64 * step, lattice).unwrap();
            let mut filled = Vec::new();
            fill(&values, None, &bounds, &mut filled);
            let expected: Vec<i64> = values.iter().map(|value| steps(*value, &bounds)).collect();
            prop_assert_eq!(filled, expected);
        }
    }
}
