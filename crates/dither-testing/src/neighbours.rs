//! Two neighbouring tables and one event: is the claimed loss refuted?

use crate::binomial::{lower, upper};

/// Whether P(event on a) ≤ e^ε · P(event on b) + δ is refuted by so many occurrences in `trials` runs each.
///
/// Wrong with probability at most `false_alarm`: each of the two rates gets a one-sided bound of half of it.
///
/// ```
/// use dither_testing::neighbours::refuted;
/// assert!(!refuted(600, 300, 1_000, 1.0, 0.0, 1e-9));
/// assert!(refuted(600, 20, 1_000, 1.0, 0.0, 1e-9));
/// ```
pub fn refuted(on_a: u64, on_b: u64, trials: u64, epsilon: f64, delta: f64, false_alarm: f64) -> bool {
    let (low, high) = (lower(on_a, trials, false_alarm / 2.0), upper(on_b, trials, false_alarm / 2.0));
    low > epsilon.exp() * high + delta
}
