//! From a target back to a parameter, through any accountant.

/// How close to the boundary a search ends, relative to the result.
const TOLERANCE: f64 = 1e-7;

/// The smallest noise multiplier at which `epsilon_of` is at most `epsilon`; `None` if 2⁴⁰ is not enough.
///
/// `epsilon_of` is any accountant: the ε of the whole plan, at the δ of the caller, as a function of the multiplier. It
/// should fall as the noise grows. The result is within 10⁻⁶ of the smallest, relative to it, and at least 2⁻²⁰.
///
/// # Privacy
/// `epsilon_of` was called with the result and returned at most `epsilon`. So the result is as safe as the accountant,
/// even where that is not monotone.
///
/// ```
/// use dither_accounting::{Event, calibrate, rdp::Curve};
/// use dither_core::Neighbors;
/// let epsilon_of = |noise_multiplier| {
///     let step = Event::PoissonSampled { rate: 0.04, event: Box::new(Event::Gaussian { noise_multiplier }) };
///     let training = Event::SelfComposed { count: 2_250, event: Box::new(step) };
///     Curve::of(&training, Neighbors::AddOrRemoveUnit).map_or(f64::INFINITY, |curve| curve.epsilon(1e-5))
/// };
/// let noise = calibrate::noise_multiplier(8.0, epsilon_of).unwrap();
/// assert!(epsilon_of(noise) <= 8.0 && (noise - 1.4158).abs() < 1e-3);
/// ```
pub fn noise_multiplier(epsilon: f64, epsilon_of: impl Fn(f64) -> f64) -> Option<f64> {
    smallest(-20, 40, |multiplier| epsilon_of(multiplier) <= epsilon)
}

/// The largest number of rounds below 2⁶⁴ − 1 at which `epsilon_of` is at most `epsilon`; zero if one is too many.
///
/// `epsilon_of` is any accountant: the ε of so many rounds, at the δ of the caller. It should grow with the number.
///
/// # Privacy
/// `epsilon_of` was called with the result, unless that is zero, and returned at most `epsilon`.
///
/// ```
/// use dither_accounting::{calibrate, gaussian};
/// let rounds = calibrate::rounds(1.0, |count| gaussian::epsilon(1e-6, 0.01 * (count as f64).sqrt()).unwrap());
/// // The multiplier of one round that is (1, 10⁻⁶)-private is 4.2247; its square fits in 10⁴ as often as this.
/// assert_eq!(rounds, 560);
/// ```
pub fn rounds(epsilon: f64, epsilon_of: impl Fn(u64) -> f64) -> u64 {
    let fits = |count: u64| epsilon_of(count) <= epsilon;
    let Some(power) = (0..64).take_while(|&power| fits(1 << power)).last() else { return 0 };
    let mut low = 1u64 << power;
    // The first number that may not fit; beyond the last power of two there is none to try.
    let mut high = low.saturating_mul(2);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        *(if fits(middle) { &mut low } else { &mut high }) = middle;
    }
    low
}

/// The smallest ε at which `error_of` is at most `error`; `None` if 2²⁰ is not enough.
///
/// `error_of` is the quantile of the error that the caller cares about, in the units of `error`, as a function of ε. It
/// should fall as ε grows. The result is within 10⁻⁶ of the smallest, relative to it, and at least 2⁻³⁰.
///
/// ```
/// use dither_accounting::calibrate;
/// // Laplace noise of scale 1/ε is within ln(1/0.05)/ε in 95 of 100 cases.
/// let epsilon = calibrate::epsilon_for_error(10.0, |epsilon| 20f64.ln() / epsilon).unwrap();
/// assert!((epsilon - 0.29957).abs() < 1e-5 && 20f64.ln() / epsilon <= 10.0);
/// ```
pub fn epsilon_for_error(error: f64, error_of: impl Fn(f64) -> f64) -> Option<f64> {
    smallest(-30, 20, |epsilon| error_of(epsilon) <= error)
}

/// The smallest value between 2^`low` and 2^`high` that fits, to within [`TOLERANCE`]; what is returned does fit.
fn smallest(low: i32, high: i32, fits: impl Fn(f64) -> bool) -> Option<f64> {
    let power = |exponent: i32| libm::exp2(f64::from(exponent));
    // From one towards the boundary: the ends are extreme, and expensive for some accountants.
    let mut good = if fits(1.0) { 0 } else { (1..=high).find(|&exponent| fits(power(exponent)))? };
    while good > low && good <= 0 && fits(power(good - 1)) {
        good -= 1;
    }
    let (mut good, mut bad) = (power(good), power(good - 1));
    if good <= power(low) {
        return Some(good);
    }
    while good - bad > TOLERANCE * good {
        let middle = bad + (good - bad) / 2.0;
        *(if fits(middle) { &mut good } else { &mut bad }) = middle;
    }
    Some(good)
}
