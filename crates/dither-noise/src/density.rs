//! The unnormalised masses exp(−|x|/scale) and exp(−x²/2σ²): as a float with a proven margin, and exactly.

use dashu_int::UBig;
use dashu_int::ops::BitTest;
use dither_core::Ratio;

/// Largest relative error of [`Density::float`] that its users allow for.
///
/// An exponent goes through at most eight roundings, each by a relative 2^-53, and is at most [`LARGEST`] = 2^7,
/// so the mass moves by less than a relative 2^-42.9; the exponential itself adds less than 2^-48.
pub(crate) const MARGIN: f64 = 1.0 / (1u64 << 40) as f64;

/// The largest exponent for which floats are used.
const LARGEST: f64 = 128.0;

/// More than exp(−[`LARGEST`]): 128 · log₂ e = 184.66….
const BEYOND: f64 = f64::from_bits((1023 - 184) << 52);

/// Which of the two noises.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// exp(−|x|/scale).
    Laplace,
    /// exp(−x²/2σ²).
    Gaussian,
}

/// A mass function that is 1 at zero, even, and log-concave.
pub(crate) struct Density {
    shape: Shape,
    /// The scale, or σ².
    parameter: Ratio,
    /// What |x| or x² is multiplied with.
    rate: f64,
}

/// `value` ± `error`, both in units of 2^-`bits`.
pub(crate) struct Enclosure {
    pub(crate) value: UBig,
    pub(crate) error: UBig,
    pub(crate) bits: usize,
}

impl Density {
    pub(crate) fn new(shape: Shape, parameter: Ratio) -> Self {
        let inverse = parameter.denominator() as f64 / parameter.numerator() as f64;
        let rate = match shape {
            Shape::Laplace => inverse,
            Shape::Gaussian => inverse / 2.0,
        };
        Self { shape, parameter, rate }
    }

    /// The scale or σ, roughly.
    pub(crate) fn width(&self) -> f64 {
        match self.shape {
            Shape::Laplace => self.parameter.as_f64(),
            Shape::Gaussian => self.parameter.as_f64().sqrt(),
        }
    }

    /// −ln of the mass, to a relative 2^-49.9.
    #[inline(always)]
    pub(crate) fn exponent(&self, magnitude: u64) -> f64 {
        let x = magnitude as f64;
        match self.shape {
            Shape::Laplace => x * self.rate,
            Shape::Gaussian => x * x * self.rate,
        }
    }

    /// The mass at ±`magnitude` to a relative [`MARGIN`], and whether it is that: not where it is too small.
    ///
    /// Takes the same steps for every magnitude, so that its time tells nothing.
    #[inline(always)]
    pub(crate) fn float(&self, magnitude: u64) -> (f64, bool) {
        let exponent = self.exponent(magnitude);
        (exp_minus(exponent.min(LARGEST)), exponent <= LARGEST)
    }

    /// A lower and an upper bound of the mass at ±`magnitude`.
    ///
    /// They lie [`MARGIN`] from the float, which is wrong by less than an eighth of that: there is room for the
    /// rounding of a quotient of theirs.
    pub(crate) fn bounds(&self, magnitude: u64) -> (f64, f64) {
        match self.float(magnitude) {
            (mass, true) => (mass * (1.0 - MARGIN), mass * (1.0 + MARGIN)),
            (_, false) => (0.0, BEYOND),
        }
    }

    /// Encloses the mass at ±`magnitude` with an absolute error of at most 2^-`bits`.
    pub(crate) fn enclose(&self, magnitude: u64, bits: usize) -> Enclosure {
        let (n, d) = (UBig::from(self.parameter.numerator()), UBig::from(self.parameter.denominator()));
        let x = UBig::from(magnitude);
        match self.shape {
            Shape::Laplace => enclose_exp_minus(&(x * d), &n, bits),
            Shape::Gaussian => enclose_exp_minus(&(&x * &x * d), &(n * UBig::from(2u8)), bits),
        }
    }
}

/// exp(−`exponent`) for 0 ≤ exponent ≤ [`LARGEST`] to a relative 2^-48, without a branch.
///
/// exponent = k·ln 2 + r with |r| ≤ 0.35, and the series of exp(−r) up to r¹² leaves 0.35¹³/13! < 2^-51.
#[inline(always)]
fn exp_minus(exponent: f64) -> f64 {
    // ln 2 in two parts; the first has 32 trailing zeros, so that its product with k is exact.
    const LN_2_HIGH: f64 = f64::from_bits(0x3FE6_2E42_FEE0_0000);
    const LN_2_LOW: f64 = f64::from_bits(0x3DEA_39EF_3579_3C76);
    const INVERSE_FACTORIALS: [f64; 13] = inverse_factorials();
    let k = (exponent * std::f64::consts::LOG2_E + 0.5) as u32;
    let r = f64::from(k) * LN_2_LOW - (exponent - f64::from(k) * LN_2_HIGH);
    // Four short sums side by side instead of one long one.
    let [c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12] = INVERSE_FACTORIALS;
    let (r2, r4) = (r * r, (r * r) * (r * r));
    let even = (c0 + r2 * c2) + r4 * ((c4 + r2 * c6) + r4 * (c8 + r2 * c10 + r4 * c12));
    let odd = (c1 + r2 * c3) + r4 * ((c5 + r2 * c7) + r4 * (c9 + r2 * c11));
    let series = even + r * odd;
    series * power_of_half(k)
}

/// 2^-`k` for k ≤ 1022, without a branch.
#[inline(always)]
pub(crate) fn power_of_half(k: u32) -> f64 {
    f64::from_bits(u64::from(1023u32.saturating_sub(k)) << 52)
}

const fn inverse_factorials() -> [f64; 13] {
    let mut inverses = [1.0; 13];
    let (mut k, mut factorial) = (1, 1.0);
    while k < inverses.len() {
        factorial *= k as f64;
        inverses[k] = 1.0 / factorial;
        k += 1;
    }
    inverses
}

/// Encloses exp(−`numerator / denominator`) with an absolute error of at most 2^-`bits`.
///
/// exp(−z) is exp(−z/2^h) squared h times with z/2^h ≤ ½. In units u of the working precision: the argument is
/// wrong by one u and moves the result by at most one; a term of the series is wrong by less than 2 u, and
/// there are at most as many as bits; what is cut off is smaller than the last term, which is below one u.
/// A square doubles the error of a number of at most one and adds one u for its own rounding.
fn enclose_exp_minus(numerator: &UBig, denominator: &UBig, bits: usize) -> Enclosure {
    let whole = numerator / denominator;
    // exp(−bits − 1) < 2^-bits.
    if whole > UBig::from(bits) {
        return Enclosure { value: UBig::ZERO, error: UBig::ONE, bits };
    }
    let halvings = whole.bit_len() + 1;
    // The final error is below (2·precision + 4)·2^halvings u; 2^16 is more than the first factor.
    let precision = bits + halvings + 16;
    let argument = (numerator << (precision - halvings)) / denominator;
    let one = UBig::ONE << precision;
    let (mut plus, mut minus, mut term, mut k) = (one, UBig::ZERO, UBig::ONE << precision, 1u32);
    while !term.is_zero() {
        term = ((term * &argument) >> precision) / UBig::from(k);
        if k % 2 == 1 {
            minus += &term;
        } else {
            plus += &term;
        }
        k += 1;
    }
    let mut value = plus - minus;
    let mut error = UBig::from(2 * k + 2);
    for _ in 0..halvings {
        value = (&value * &value) >> precision;
        error = error * UBig::from(2u8) + UBig::ONE;
    }
    Enclosure { value, error, bits: precision }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What an enclosure allows, as floats far more exact than what they are compared with.
    fn float(enclosure: &Enclosure) -> f64 {
        enclosure.value.to_f64().value() * 2f64.powi(-(enclosure.bits as i32))
    }

    proptest! {
        #[test]
        fn a_float_keeps_far_within_its_margin(n in 1u128.., d in 1u128.., part in 0.0f64..1.0, gaussian: bool) {
            let shape = if gaussian { Shape::Gaussian } else { Shape::Laplace };
            let density = Density::new(shape, Ratio::new(n, d).unwrap());
            let reach = if gaussian { 16.0 } else { 128.0 };
            let magnitude = (part * reach * density.width()).min(2f64.powi(62)) as u64;
            if let (mass, true) = density.float(magnitude) {
                let exact = float(&density.enclose(magnitude, 300));
                prop_assert!((mass / exact - 1.0).abs() < MARGIN / 7.0, "{mass} {exact}");
                let (low, high) = density.bounds(magnitude);
                prop_assert!(low < exact && exact < high);
            }
        }

        #[test]
        fn the_exponential_keeps_its_own_bound(thousandths in 0u32..128_000) {
            // The exponent is a float without error here.
            let exponent = f64::from(thousandths) / 1024.0;
            let exact = float(&enclose_exp_minus(&UBig::from(thousandths), &UBig::from(1024u32), 300));
            prop_assert!((exp_minus(exponent) / exact - 1.0).abs() < 2f64.powi(-48));
        }

        #[test]
        fn enclosures_of_all_precisions_overlap_and_are_as_narrow_as_asked(n in 0u64.., d in 1u64.., bits in 1usize..300) {
            let (n, d) = (UBig::from(n), UBig::from(d));
            let rough = enclose_exp_minus(&n, &d, bits);
            let fine = enclose_exp_minus(&n, &d, bits + 200);
            prop_assert!(&rough.error << bits <= UBig::ONE << rough.bits);
            let shift = fine.bits - rough.bits;
            let (value, error) = (rough.value << shift, rough.error << shift);
            prop_assert!(&value + &error >= &fine.value + &fine.error || value.is_zero());
            prop_assert!(&value + &error >= fine.value && fine.value.clone() + error >= value);
        }
    }

    #[test]
    fn known_exponentials() {
        // e^-1 and e^-10, from a table of constants: 0.36787944117144232159…, 4.5399929762484851536…e-5.
        let one = enclose_exp_minus(&UBig::ONE, &UBig::ONE, 62);
        let scaled = |e: &Enclosure, by: u128| (&e.value * UBig::from(by)) >> e.bits;
        assert_eq!(scaled(&one, 10u128.pow(18)), UBig::from(367_879_441_171_442_321u128));
        let ten = enclose_exp_minus(&UBig::from(20u8), &UBig::from(2u8), 100);
        assert_eq!(scaled(&ten, 10u128.pow(24)), UBig::from(45_399_929_762_484_851_535u128));
        assert_eq!(Density::new(Shape::Laplace, Ratio::new(1, 1 << 100).unwrap()).bounds(1), (0.0, BEYOND));
        assert!(BEYOND > (-LARGEST).exp());
    }
}
