//! Randomised response over several values, in the local model.

use dither_core::{Epsilon, PrivacyEvent, Ratio};
use dither_noise::{BitSource, NoiseError, NoiseSource, bernoulli_odds, uniform_below};

use crate::error::MechanismError;
use crate::frequency::FrequencyEstimator;

/// A user reports the own value with probability e^ε/(e^ε + k − 1), and else each other value equally likely.
///
/// It runs where the value is; what leaves is the report. There is no ledger and no gate on that side: whoever asks a
/// user for several reports is told each of them, and they compose.
///
/// # Privacy
/// Each report is ε-locally differentially private: between any two values of one user, every report is at most e^ε
/// times as likely, since its probabilities are e^ε : 1 at most. A value outside of 0..k is reported as if it were
/// k − 1, so that no failure depends on it.
///
/// ```
/// use dither_mechanisms::RandomizedResponse;
/// use dither_noise::NoiseSource;
/// let response = RandomizedResponse::new(4, "1".parse()?)?;
/// let report = response.report(2, &mut NoiseSource::from_os()?)?;
/// assert!(report < 4);
/// // Of 1,000 reports, 300 name a value: post-processing, free.
/// let holders = response.estimator().estimate(300, 1_000);
/// assert!((holders - 416.4).abs() < 0.1, "{holders}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// Warner, *Randomized Response*, 1965. Kairouz, Bonawitz and Ramage, *Discrete Distribution Estimation under Local
/// Privacy*, 2016 (k values). Wang, Blocki, Li and Jha, *Locally Differentially Private Protocols for Frequency
/// Estimation*, 2017, section on direct encoding (the estimator).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RandomizedResponse {
    values: u64,
    epsilon: Epsilon,
}

impl RandomizedResponse {
    /// Reports over the values 0 to `values` − 1.
    ///
    /// # Errors
    /// [`MechanismError::NoSensitivity`] for fewer than two values: the report would be constant.
    pub fn new(values: u64, epsilon: Epsilon) -> Result<Self, MechanismError> {
        if values < 2 { Err(MechanismError::NoSensitivity) } else { Ok(Self { values, epsilon }) }
    }

    /// How many values there are.
    pub fn values(&self) -> u64 {
        self.values
    }

    /// The loss of one report.
    pub fn epsilon(&self) -> Epsilon {
        self.epsilon
    }

    /// What one report does to the value of its user.
    pub fn event(&self) -> PrivacyEvent {
        PrivacyEvent::Pure { epsilon: self.epsilon }
    }

    /// One report. Draw it once for each question and keep it: a second one costs ε again.
    ///
    /// # Errors
    /// What the source reports; nothing may be sent then.
    pub fn report(&self, value: u64, source: &mut NoiseSource) -> Result<u64, NoiseError> {
        self.respond(value, source)
    }

    /// [`RandomizedResponse::report`] for any source of bits, so that tests can replay it.
    pub(crate) fn respond<S: BitSource>(&self, value: u64, source: &mut S) -> Result<u64, NoiseError> {
        let (value, others) = (value.min(self.values - 1), self.values - 1);
        let epsilon = Ratio::new(self.epsilon.nanos().into(), Epsilon::NANOS.into()).ok_or(NoiseError::OutOfRange)?;
        if bernoulli_odds(source, 1, others.into(), epsilon)? {
            return Ok(value);
        }
        let other = u64::try_from(uniform_below(source, others.into())?).map_err(|_| NoiseError::OutOfRange)?;
        Ok(if other < value { other } else { other + 1 })
    }

    /// How many users hold a value, from the number of reports that name it. Post-processing.
    pub fn estimator(&self) -> FrequencyEstimator {
        let (epsilon, others) = (self.epsilon.as_f64(), (self.values - 1) as f64);
        // Both multiplied by e^-ε, which never overflows.
        let total = 1.0 + others * libm::exp(-epsilon);
        FrequencyEstimator::new(1.0 / total, libm::exp(-epsilon) / total, -libm::expm1(-epsilon) / total)
    }
}
