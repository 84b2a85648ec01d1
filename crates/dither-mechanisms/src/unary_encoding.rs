//! Unary encoding, in the local model: symmetric (basic RAPPOR) and optimised.

use dither_core::{Epsilon, PrivacyEvent, Ratio};
use dither_noise::{BitSource, NoiseError, NoiseSource, bernoulli, bernoulli_odds};

use crate::error::MechanismError;
use crate::frequency::FrequencyEstimator;

/// A user encodes the own value as a row of bits of which one is set, and reports each bit by a coin of its own.
///
/// The error of an estimate does not grow with the number of values, as it does with
/// [`RandomizedResponse`](crate::RandomizedResponse); prefer this one from 3e^ε + 2 values on. It runs where the
/// value is; what leaves is the report.
///
/// # Privacy
/// Each report is ε-locally differentially private. A set bit is reported as set with probability p, another with
/// probability q. Two values differ in two bits, and a report is more likely under one of them by a factor of at most
/// p(1 − q)/((1 − p)q). That is e^ε for p = e^(ε/2)/(e^(ε/2) + 1) and q = 1 − p (symmetric), and for p = ½ and
/// q = 1/(e^ε + 1) (optimised). A value outside of the range is reported as if it were the last.
///
/// ```
/// use dither_mechanisms::UnaryEncoding;
/// use dither_noise::NoiseSource;
/// let encoding = UnaryEncoding::optimized(100, "1".parse()?)?;
/// let report: Vec<bool> = encoding.report(42, &mut NoiseSource::from_os()?)?;
/// assert_eq!(report.len(), 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// Erlingsson, Pihur and Korolova, *RAPPOR: Randomized Aggregatable Privacy-Preserving Ordinal Response*, 2014, section
/// on the basic one-time form. Wang, Blocki, Li and Jha, *Locally Differentially Private Protocols for Frequency
/// Estimation*, 2017, section on unary encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnaryEncoding {
    values: u32,
    epsilon: Epsilon,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Symmetric,
    Optimized,
}

impl UnaryEncoding {
    /// A report has a bit for every value.
    const MAX_VALUES: u32 = 1 << 24;

    /// Every bit is turned over with the same probability 1/(e^(ε/2) + 1), as in basic RAPPOR.
    ///
    /// # Errors
    /// [`MechanismError::NoSensitivity`] for fewer than two values, [`MechanismError::OutOfRange`] for more than 2^24.
    pub fn symmetric(values: u32, epsilon: Epsilon) -> Result<Self, MechanismError> {
        Self::new(values, epsilon, Form::Symmetric)
    }

    /// A set bit is reported by a fair coin, the others are set with probability 1/(e^ε + 1): the smallest error for
    /// values that few users hold.
    ///
    /// # Errors
    /// As [`UnaryEncoding::symmetric`].
    pub fn optimized(values: u32, epsilon: Epsilon) -> Result<Self, MechanismError> {
        Self::new(values, epsilon, Form::Optimized)
    }

    fn new(values: u32, epsilon: Epsilon, form: Form) -> Result<Self, MechanismError> {
        match values {
            0 | 1 => Err(MechanismError::NoSensitivity),
            _ if values > Self::MAX_VALUES => Err(MechanismError::OutOfRange { what: "number of values" }),
            _ => Ok(Self { values, epsilon, form }),
        }
    }

    /// How many values there are.
    pub fn values(&self) -> u32 {
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
    pub fn report(&self, value: u32, source: &mut NoiseSource) -> Result<Vec<bool>, NoiseError> {
        self.respond(value, source)
    }

    /// [`UnaryEncoding::report`] for any source of bits, so that tests can replay it.
    pub(crate) fn respond<S: BitSource>(&self, value: u32, source: &mut S) -> Result<Vec<bool>, NoiseError> {
        let value = value.min(self.values - 1);
        let halves = if self.form == Form::Symmetric { 2 } else { 1 };
        let loss = Ratio::new(self.epsilon.nanos().into(), halves * u128::from(Epsilon::NANOS));
        let loss = loss.ok_or(NoiseError::OutOfRange)?;
        let bit = |place: u32| match (self.form, place == value) {
            (Form::Optimized, true) => bernoulli(source, 1, 2),
            (_, set) => Ok(bernoulli_odds(source, 1, 1, loss)? == set),
        };
        (0..self.values).map(bit).collect()
    }

    /// How many users hold a value, from the number of reports whose bit for it is set. Post-processing.
    pub fn estimator(&self) -> FrequencyEstimator {
        let epsilon = self.epsilon.as_f64();
        match self.form {
            Form::Symmetric => {
                let flip = libm::exp(-epsilon / 2.0);
                FrequencyEstimator::new(1.0 / (1.0 + flip), flip / (1.0 + flip), libm::tanh(epsilon / 4.0))
            }
            Form::Optimized => {
                let flip = libm::exp(-epsilon);
                FrequencyEstimator::new(0.5, flip / (1.0 + flip), libm::tanh(epsilon / 2.0) / 2.0)
            }
        }
    }
}
