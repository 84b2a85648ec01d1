//! Does every output lie on one public grid?

/// The first value that is not an integer multiple of `step`, a power of two.
///
/// Division by a power of two is exact, so there is no tolerance and no false alarm.
///
/// ```
/// use dither_testing::lattice::first_off;
/// assert_eq!(first_off([0.5, -1.0, 3.5], 0.5), None);
/// assert_eq!(first_off([0.5, 0.75], 0.5), Some(0.75));
/// ```
pub fn first_off(values: impl IntoIterator<Item = f64>, step: f64) -> Option<f64> {
    values.into_iter().find(|value| !(value / step).is_finite() || (value / step).fract() != 0.0)
}
