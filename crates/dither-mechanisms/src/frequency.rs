//! From local reports to numbers of users: post-processing.

/// Estimates how many users hold a value from how many reports support it.
///
/// A report supports a value with probability p if its user holds it and q < p if not. The estimate is
/// (supporting − q · reports)/(p − q); it is not biased, and may be negative or above the number of reports.
///
/// # Privacy
/// Post-processing: it reads reports, which are private already, and costs nothing. Its error bounds hold for whatever
/// the users hold, so that they are public.
///
/// ```
/// use dither_mechanisms::UnaryEncoding;
/// let estimator = UnaryEncoding::optimized(50, "2".parse()?)?.estimator();
/// // 4e^ε/(e^ε − 1)² for each of 10,000 users who do not hold the value.
/// assert!((estimator.variance(0, 10_000) - 7_240.6).abs() < 0.1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// Wang, Blocki, Li and Jha, *Locally Differentially Private Protocols for Frequency Estimation*, 2017, Theorem 2 (the
/// variance). Boucheron, Lugosi and Massart, *Concentration Inequalities*, 2013, Theorems 2.8 and 2.10 (Hoeffding and
/// Bernstein).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrequencyEstimator {
    /// p.
    holder: f64,
    /// q.
    other: f64,
    /// p − q, computed without cancellation.
    gap: f64,
}

impl FrequencyEstimator {
    pub(crate) fn new(holder: f64, other: f64, gap: f64) -> Self {
        Self { holder, other, gap }
    }

    /// The number of users who hold a value that so many of all reports support.
    pub fn estimate(&self, supporting: u64, reports: u64) -> f64 {
        (supporting as f64 - self.other * reports as f64) / self.gap
    }

    /// The variance of the estimate if so many of all users hold the value.
    pub fn variance(&self, holders: u64, reports: u64) -> f64 {
        let holders = holders.min(reports);
        self.support_variance(holders as f64, (reports - holders) as f64) / (self.gap * self.gap)
    }

    /// The error that the estimate of one value stays within with this probability, either way, in users, whoever
    /// holds it. `None` unless the probability lies in [0, 1).
    ///
    /// The smaller of the bounds of Hoeffding and of Bernstein for a sum of independent bits: valid for every number
    /// of reports, and at 95 % some 40 % above what a normal distribution would say.
    pub fn error_quantile(&self, reports: u64, probability: f64) -> Option<f64> {
        let outside = (0.0..1.0).contains(&probability).then_some((1.0 - probability) * (1.0 - 1e-12))?;
        let (log, count) = (libm::log(2.0 / outside), reports as f64);
        let variance = self.support_variance(count, 0.0).max(self.support_variance(0.0, count));
        let hoeffding = libm::sqrt(count * log / 2.0);
        let bernstein = log / 3.0 + libm::sqrt(log * log / 9.0 + 2.0 * variance * log);
        Some(hoeffding.min(bernstein) / self.gap)
    }

    /// The variance of the number of supporting reports.
    fn support_variance(&self, holders: f64, others: f64) -> f64 {
        holders * self.holder * (1.0 - self.holder) + others * self.other * (1.0 - self.other)
    }
}
