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
    into.extend(values.iter().map(|value| steps(*value, bounds)));
    if let Some(present) = present {
        for (index, step) in into.iter_mut().enumerate() {
            if !present(index) {
                *step = NULL;
            }
        }
    }
}
