//! Do two groups of timings differ?

/// Welch's t between two samples; |t| ≥ 4.5 is read as a leak.
///
/// Timing is measured in long runs only and printed: a shared machine would make an assertion flaky.
///
/// # References
/// Goodwill, Jun, Jaffe and Rohatgi, *A testing methodology for side-channel resistance validation*, 2011.
///
/// ```
/// use dither_testing::welch::t_statistic;
/// assert!(t_statistic(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]).abs() < 1e-12);
/// ```
pub fn t_statistic(a: &[f64], b: &[f64]) -> f64 {
    let moments = |sample: &[f64]| {
        let n = sample.len() as f64;
        let mean = sample.iter().sum::<f64>() / n;
        let variance = sample.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (mean, variance / n)
    };
    let ((mean_a, error_a), (mean_b, error_b)) = (moments(a), moments(b));
    (mean_a - mean_b) / (error_a + error_b).sqrt()
}
