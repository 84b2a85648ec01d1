//! Exact one-sided bounds on a rate.

/// The largest rate that `successes` in `trials` do not refute at this false-alarm rate.
///
/// ```
/// use dither_testing::binomial::upper;
/// // No success in 20 trials: 1 - 0.05^(1/20).
/// assert!((upper(0, 20, 0.05) - 0.139_108_3).abs() < 1e-6);
/// ```
///
/// # References
/// Clopper and Pearson, *The use of confidence or fiducial limits illustrated in the case of the binomial*, 1934.
pub fn upper(successes: u64, trials: u64, false_alarm: f64) -> f64 {
    1.0 - lower(trials - successes, trials, false_alarm)
}

/// The smallest rate that `successes` in `trials` do not refute at this false-alarm rate.
///
/// ```
/// use dither_testing::binomial::lower;
/// assert_eq!(lower(0, 20, 0.05), 0.0);
/// assert!((lower(20, 20, 0.05) - 0.05f64.powf(1.0 / 20.0)).abs() < 1e-9);
/// ```
///
/// # References
/// Clopper and Pearson, as for [`upper`].
pub fn lower(successes: u64, trials: u64, false_alarm: f64) -> f64 {
    let (mut low, mut high) = (0.0, successes as f64 / trials as f64);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if at_least(successes, trials, middle) < false_alarm {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// P(Bin(n, p) ≥ k) for p ≤ k/n, where the terms fall from k on.
fn at_least(k: u64, n: u64, p: f64) -> f64 {
    if k == 0 {
        return 1.0;
    }
    if p <= 0.0 {
        return 0.0;
    }
    let (kf, nf) = (k as f64, n as f64);
    let choose = libm::lgamma(nf + 1.0) - libm::lgamma(kf + 1.0) - libm::lgamma(nf - kf + 1.0);
    let tail = if k == n { 0.0 } else { (nf - kf) * (-p).ln_1p() };
    let mut term = (choose + kf * p.ln() + tail).exp();
    let mut sum = 0.0;
    for i in k..=n {
        sum += term;
        term *= (n - i) as f64 / (i + 1) as f64 * p / (1.0 - p);
        if term < sum * 1e-17 {
            break;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_agree_with_published_ones() {
        // R 4.3, binom.test(10, 100)$conf.int: 0.04900469 0.17622260 (two-sided 95 %).
        assert!((lower(10, 100, 0.025) - 0.049_004_69).abs() < 1e-7);
        assert!((upper(10, 100, 0.025) - 0.176_222_60).abs() < 1e-7);
    }

    #[test]
    fn a_rate_of_one_percent_in_a_million_is_bounded_at_six_deviations() {
        assert!((lower(10_600, 1_000_000, 1e-9) - 0.01).abs() < 1e-5);
    }
}
