//! What is known of the numbers that an expression gives, whatever the rows are.
//!
//! PostgreSQL raises where a float overflows or vanishes, and where it would divide by zero; DataFusion goes on with an
//! infinity or a zero. An expression for which neither can happen is the same in both, to the last bit, since both
//! follow IEEE 754. That is decided from the expression and from how far columns reach (`dither_query::source::database`).

use datafusion::arrow::datatypes::DataType;
use dither_query::Refusal;

use crate::expr::refusal;

/// What is known of a number: it is NULL, or a multiple of 2^grain of at most 2^reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fact {
    pub reach: i32,
    pub grain: i32,
    /// Whether it may be -0.0, which DataFusion takes for less than 0.0, and PostgreSQL does not.
    pub minus_zero: bool,
    /// Whether it is zero or more, and not -0.0.
    pub not_negative: bool,
    /// Whether it is greater than zero.
    pub positive: bool,
    /// Whether it is no zero of either sign.
    pub not_zero: bool,
}

impl Fact {
    /// An integer of 64 bits. Of what is no number, nothing is asked.
    pub(crate) const WHOLE: Self =
        Self { reach: 63, grain: 0, minus_zero: false, not_negative: false, positive: false, not_zero: false };
    /// A number of things.
    pub(crate) const COUNT: Self = Self { not_negative: true, ..Self::WHOLE };
    /// A number as it is read: zero, or from 2^-128, of which a float is a multiple of 2^-180, to 2^256.
    pub(crate) const NUMBER: Self = Self { reach: 256, grain: -180, ..Self::WHOLE };
    /// NULL.
    pub(crate) const NULL: Self = Self { reach: 0, positive: true, not_zero: true, ..Self::COUNT };
    /// Beyond every float.
    const INFINITE: i32 = 5000;

    /// What is known of any value of a type.
    pub(crate) fn of(kind: &DataType) -> Self {
        match kind {
            DataType::Float64 => Self::NUMBER,
            // A decimal digit is less than ten thirds of a bit.
            DataType::Decimal128(digits, _) => Self { reach: i32::from(*digits) * 10 / 3 + 1, ..Self::WHOLE },
            _ => Self::WHOLE,
        }
    }

    /// A constant.
    pub(crate) fn constant(value: f64) -> Self {
        let bits = value.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as i32;
        let fraction = bits & ((1 << 52) - 1);
        let minus_zero = value == 0.0 && value.is_sign_negative();
        let (not_negative, positive) = (value >= 0.0 && !minus_zero, value > 0.0);
        let sign = Self { minus_zero, not_negative, positive, not_zero: value != 0.0, ..Self::WHOLE };
        if !value.is_finite() {
            return Self { reach: Self::INFINITE, ..sign };
        }
        let (digits, shift) = if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
        if digits == 0 {
            return Self { reach: 0, ..sign };
        }
        let (reach, grain) = (shift + 64 - digits.leading_zeros() as i32, shift + digits.trailing_zeros() as i32);
        Self { reach, grain, ..sign }
    }

    /// One of both.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            reach: self.reach.max(other.reach),
            grain: self.grain.min(other.grain),
            minus_zero: self.minus_zero || other.minus_zero,
            not_negative: self.not_negative && other.not_negative,
            positive: self.positive && other.positive,
            not_zero: self.not_zero && other.not_zero,
        }
    }

    /// The same numbers within ±`most`.
    pub(crate) fn within(self, most: f64) -> Self {
        Self { reach: self.reach.min(Self::constant(most).reach), ..self }
    }

    /// An integer as a float, rounded to 53 bits.
    pub(crate) fn as_float(self) -> Self {
        Self { reach: self.reach + 1, ..self }
    }

    pub(crate) fn plus(self, other: Self) -> Result<Self, Refusal> {
        Self {
            reach: self.reach.max(other.reach) + 1,
            grain: self.grain.min(other.grain),
            minus_zero: self.minus_zero && other.minus_zero,
            not_zero: self.positive && other.positive,
            ..self.or(other)
        }
        .in_range()
    }

    pub(crate) fn minus(self, other: Self) -> Result<Self, Refusal> {
        let sum = self.plus(other)?;
        Ok(Self { reach: sum.reach, grain: sum.grain, minus_zero: self.minus_zero, ..Self::WHOLE })
    }

    /// A product is -0.0 where a zero meets a negative number.
    pub(crate) fn times(self, other: Self) -> Result<Self, Refusal> {
        let both = self.or(other);
        let minus_zero = both.minus_zero || !(self.positive || other.positive || both.not_negative);
        Self { reach: self.reach + other.reach, grain: self.grain + other.grain, minus_zero, ..both }.in_range()
    }

    /// A quotient by what is not zero. It is rounded to 53 bits. It is -0.0 where a zero meets a negative number.
    pub(crate) fn over(self, other: Self) -> Result<Self, Refusal> {
        let minus_zero = self.minus_zero || !(self.positive || other.not_negative);
        let (reach, grain) = (self.reach - other.grain + 1, self.grain - other.reach - 53);
        Self { reach, grain, minus_zero, not_zero: self.not_zero, ..self.or(other) }.in_range()
    }

    /// A whole number near by; -0.0 above a negative number, unless that is rounded down.
    pub(crate) fn rounded(self, down: bool) -> Self {
        let minus_zero = self.minus_zero || !(down || self.not_negative);
        let (reach, grain) = (self.reach.max(0) + 1, self.grain.max(0));
        Self { reach, grain, minus_zero, positive: false, not_zero: false, ..self }
    }

    /// Without its sign.
    pub(crate) fn absolute(self) -> Self {
        Self { minus_zero: false, not_negative: true, ..self }
    }

    /// Neither too large for a float nor so small that it would vanish.
    fn in_range(self) -> Result<Self, Refusal> {
        if self.reach > 1023 || self.grain < -1074 {
            return Err(refusal("a number may leave the range of a float, where PostgreSQL raises")
                .hint("multiply and divide fewer columns, or ask without --engine"));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_taken_apart() {
        let reach_and_grain = |value| (Fact::constant(value).reach, Fact::constant(value).grain);
        assert_eq!(reach_and_grain(1.0), (1, 0));
        assert_eq!(reach_and_grain(-0.75), (0, -2));
        assert_eq!(reach_and_grain(96.0), (7, 5));
        assert_eq!(reach_and_grain(f64::MAX), (1024, 971));
        assert_eq!(reach_and_grain(5e-324), (-1073, -1074));
        assert!(Fact::constant(-0.0).minus_zero && !Fact::constant(0.0).minus_zero);
        assert!(Fact::constant(f64::INFINITY).plus(Fact::WHOLE).is_err());
    }

    /// Numbers at the ends of what is known stay within what is said of their sums, products and quotients.
    #[test]
    fn facts_hold_at_the_ends() {
        let (least, most) = ((-128_f64).exp2(), 256_f64.exp2());
        let numbers = [least, most, -least, -most, least * 1.5, most * 0.999, 1.0 / 3.0, 0.0, 7e12];
        let holds = |fact: Fact, value: f64| {
            assert!(value.is_finite() && value.abs() <= f64::from(fact.reach).exp2(), "{fact:?} {value:e}");
            assert!(fact.minus_zero || !(value == 0.0 && value.is_sign_negative()), "{fact:?} {value:e}");
            assert!(!fact.positive || value > 0.0, "{fact:?} {value:e}");
            assert!(!fact.not_zero || value != 0.0, "{fact:?} {value:e}");
            let steps = value * f64::from(-fact.grain / 2).exp2() * f64::from(-fact.grain - -fact.grain / 2).exp2();
            assert!(steps.fract() == 0.0 || steps.is_infinite(), "{fact:?} {value:e}");
        };
        let fact = Fact::NUMBER;
        for a in numbers {
            for b in numbers {
                holds(fact.plus(fact).unwrap(), a + b);
                holds(fact.minus(fact).unwrap(), a - b);
                holds(fact.times(fact).unwrap(), a * b);
                assert!(a * b != 0.0 || a == 0.0 || b == 0.0, "a product never vanishes");
                if b != 0.0 {
                    holds(fact.over(fact).unwrap(), a / b);
                }
            }
        }
        let square = fact.times(fact).unwrap();
        assert!(square.times(square).is_err(), "a fourth power may be beyond every float");
    }
}
