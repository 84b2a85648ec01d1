//! Exact amounts of privacy loss: [`Epsilon`] in nano-units, [`Delta`] in units of 10⁻¹⁸.
//!
//! Budgets are integers so that ten charges of 0.1 fit a cap of 1 exactly and the eleventh does not.
//! A request is rounded *down* to the grid when it is read; the noise is calibrated to the rounded value, so
//! the charge for it is exact and the sum of charges never understates the loss.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Audience, Explain};

/// Why an amount of ε or δ was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// Not a plain decimal number.
    #[error("{what} must be a plain decimal number, not `{text}`")]
    NotDecimal {
        /// `epsilon` or `delta`.
        what: &'static str,
        /// What was given, as the caller wrote it.
        text: String,
    },
    /// Outside the range that the type can hold.
    #[error("{what} must lie in {range}, not {text}")]
    OutOfRange {
        /// `epsilon` or `delta`.
        what: &'static str,
        /// The range in words.
        range: &'static str,
        /// What was given, as the caller wrote it.
        text: String,
    },
    /// A sum left the range of exact arithmetic.
    #[error("the sum of {what} is too large to be counted")]
    Overflow {
        /// `epsilon` or `delta`.
        what: &'static str,
    },
}

impl Explain for AmountError {
    fn code(&self) -> &'static str {
        match self {
            Self::NotDecimal { .. } => "amount-not-decimal",
            Self::OutOfRange { .. } => "amount-out-of-range",
            Self::Overflow { .. } => "amount-overflow",
        }
    }
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotDecimal { what, .. } | Self::OutOfRange { what, .. } if *what == "delta" => {
                "write a small decimal such as 1e-6".into()
            }
            Self::NotDecimal { .. } | Self::OutOfRange { .. } => "write a decimal such as 0.5".into(),
            Self::Overflow { .. } => "use smaller amounts".into(),
        })
    }
    fn audience(&self) -> Audience {
        Audience::Analyst
    }
}

/// A plain decimal number, `digits × 10^exponent`, read without floating point.
fn parse_decimal(text: &str) -> Option<(u128, i32)> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    // 30 digits stay far inside u128 after the scaling below; nobody writes more.
    if !all_digits(whole) || !all_digits(fraction) || whole.len() + fraction.len() > 30 {
        return None;
    }
    let digits = format!("{whole}{fraction}");
    let shift = i32::try_from(fraction.len()).ok()?;
    Some((digits.parse().ok()?, exponent.checked_sub(shift)?))
}

/// `digits × 10^exponent` in units of `10^-places`, rounded down; `None` if it does not fit.
fn scale_down(digits: u128, exponent: i32, places: i32) -> Option<u64> {
    let power = exponent.checked_add(places)?;
    if digits == 0 {
        return Some(0);
    }
    let scaled = if power >= 0 {
        digits.checked_mul(10u128.checked_pow(u32::try_from(power).ok()?)?)?
    } else {
        // A power beyond 38 divides every u128 of 30 digits to zero.
        10u128.checked_pow(power.unsigned_abs()).map_or(0, |divisor| digits / divisor)
    };
    u64::try_from(scaled).ok()
}

/// A privacy loss ε > 0, exact in nano-units.
///
/// # Privacy
/// Reading rounds down: a request for 1/3 becomes 0.333333333, and the noise is drawn for that value.
///
/// ```
/// use dither_core::Epsilon;
/// let tenth: Epsilon = "0.1".parse()?;
/// assert_eq!(tenth.nanos(), 100_000_000);
/// assert!("0".parse::<Epsilon>().is_err() && "NaN".parse::<Epsilon>().is_err());
/// # Ok::<(), dither_core::AmountError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epsilon(u64);

impl Epsilon {
    /// Nano-units in one unit.
    pub const NANOS: u64 = 1_000_000_000;
    /// The largest ε: a million, far beyond any meaning, and 10⁴ such charges still fit the sum.
    pub const MAX: Self = Self(1_000_000 * Self::NANOS);

    /// An ε of so many nano-units.
    ///
    /// # Errors
    /// Zero, and more than [`Epsilon::MAX`].
    pub fn from_nanos(nanos: u64) -> Result<Self, AmountError> {
        if nanos == 0 || nanos > Self::MAX.0 {
            let text = format!("{nanos} nano-units");
            return Err(AmountError::OutOfRange { what: "epsilon", range: "[1e-9, 1e6]", text });
        }
        Ok(Self(nanos))
    }

    /// Reads a float through its shortest decimal, so that `0.1` means one tenth.
    ///
    /// # Errors
    /// NaN, infinities, and whatever `parse` refuses.
    pub fn from_f64(value: f64) -> Result<Self, AmountError> {
        format!("{value:e}").parse()
    }

    /// The amount in nano-units.
    pub fn nanos(self) -> u64 {
        self.0
    }

    /// The amount as a float, for display and prediction only.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / Self::NANOS as f64
    }
}

impl std::str::FromStr for Epsilon {
    type Err = AmountError;
    fn from_str(text: &str) -> Result<Self, AmountError> {
        let (digits, exponent) =
            parse_decimal(text).ok_or_else(|| AmountError::NotDecimal { what: "epsilon", text: text.to_owned() })?;
        scale_down(digits, exponent, 9)
            .and_then(|nanos| Self::from_nanos(nanos).ok())
            .ok_or_else(|| AmountError::OutOfRange { what: "epsilon", range: "[1e-9, 1e6]", text: text.to_owned() })
    }
}

impl fmt::Display for Epsilon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&fixed_point(self.0, 9))
    }
}

/// A failure probability δ in [0, 1), exact in units of 10⁻¹⁸.
///
/// ```
/// use dither_core::Delta;
/// assert_eq!("1e-6".parse::<Delta>()?.attos(), 1_000_000_000_000);
/// assert!("1".parse::<Delta>().is_err() && "-0.1".parse::<Delta>().is_err());
/// # Ok::<(), dither_core::AmountError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Delta(u64);

impl Delta {
    /// No failure probability: pure differential privacy.
    pub const ZERO: Self = Self(0);
    /// Units in one.
    pub const ATTOS: u64 = 1_000_000_000_000_000_000;

    /// A δ of so many units of 10⁻¹⁸.
    ///
    /// # Errors
    /// One or more.
    pub fn from_attos(attos: u64) -> Result<Self, AmountError> {
        if attos >= Self::ATTOS {
            return Err(AmountError::OutOfRange { what: "delta", range: "[0, 1)", text: fixed_point(attos, 18) });
        }
        Ok(Self(attos))
    }

    /// Reads a float through its shortest decimal.
    ///
    /// # Errors
    /// NaN, infinities, and whatever `parse` refuses.
    pub fn from_f64(value: f64) -> Result<Self, AmountError> {
        format!("{value:e}").parse()
    }

    /// The amount in units of 10⁻¹⁸.
    pub fn attos(self) -> u64 {
        self.0
    }

    /// The amount as a float, for display and calibration.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / Self::ATTOS as f64
    }

    /// Whether this is exactly zero.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl std::str::FromStr for Delta {
    type Err = AmountError;
    fn from_str(text: &str) -> Result<Self, AmountError> {
        let (digits, exponent) =
            parse_decimal(text).ok_or_else(|| AmountError::NotDecimal { what: "delta", text: text.to_owned() })?;
        let refused = || AmountError::OutOfRange { what: "delta", range: "{0} or [1e-18, 1)", text: text.to_owned() };
        let attos = scale_down(digits, exponent, 18).ok_or_else(refused)?;
        // A positive δ too small for the grid is refused rather than quietly turned into pure privacy.
        if attos == 0 && digits != 0 {
            return Err(refused());
        }
        Self::from_attos(attos).map_err(|_| refused())
    }
}

impl fmt::Display for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Small numbers read best in scientific notation; the digits are exact up to 15 significant ones.
        if self.0 == 0 { f.pad("0") } else { f.pad(&format!("{:e}", self.as_f64())) }
    }
}

/// A limit on privacy loss: the pair (ε, δ). The word means the limit only, never what was charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Budget {
    /// The limit on ε.
    pub epsilon: Epsilon,
    /// The limit on δ.
    #[serde(default)]
    pub delta: Delta,
}

/// `value × 10^-places` without trailing zeros.
fn fixed_point(value: u64, places: usize) -> String {
    let digits = format!("{value:0width$}", width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
}

/// Writes an amount as a number where that reads back as the same amount, and as a decimal string elsewhere.
fn serialize_exactly<S: Serializer, T: PartialEq>(
    number: f64,
    read: impl Fn(f64) -> Result<T, AmountError>,
    amount: &T,
    text: String,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match read(number) {
        Ok(same) if same == *amount => serializer.serialize_f64(number),
        _ => serializer.serialize_str(&text),
    }
}

/// Amounts are read from numbers or decimal strings.
#[derive(Deserialize)]
#[serde(untagged, expecting = "an amount must be a number or a decimal string")]
enum Decimal {
    Text(String),
    Integer(u64),
    Float(f64),
}

impl Decimal {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Integer(value) => value.to_string(),
            Self::Float(value) => format!("{value:e}"),
        }
    }
}

impl Serialize for Epsilon {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_exactly(self.as_f64(), Self::from_f64, self, fixed_point(self.0, 9), serializer)
    }
}

impl<'de> Deserialize<'de> for Epsilon {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Decimal::deserialize(deserializer)?.into_text().parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for Delta {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_exactly(self.as_f64(), Self::from_f64, self, fixed_point(self.0, 18), serializer)
    }
}

impl<'de> Deserialize<'de> for Delta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Decimal::deserialize(deserializer)?.into_text().parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bg_01_every_odd_epsilon_is_refused() {
        for text in [
            "NaN",
            "inf",
            "-inf",
            "-1",
            "-0.0",
            "1e400",
            "5e-324",
            "0x1p3",
            "",
            "null",
            "true",
            "1e-12",
            "0",
            "+1",
            " 1",
            "1 ",
            "1_000",
            "１",
            ".",
            "e5",
            "1e",
            "1e99999999999",
            "0.0000000009",
        ] {
            assert!(text.parse::<Epsilon>().is_err(), "{text:?} was accepted");
        }
        for value in [f64::NAN, f64::INFINITY, -1.0, -0.0, 0.0, 5e-324, 1e-12, f64::MAX] {
            assert!(Epsilon::from_f64(value).is_err(), "{value} was accepted");
        }
    }

    #[test]
    fn bg_06_delta_must_lie_below_one() {
        for text in ["-1e-6", "1", "1.0", "2", "NaN", "1e-19", "0.0000000000000000001"] {
            assert!(text.parse::<Delta>().is_err(), "{text:?} was accepted");
        }
        assert_eq!("0".parse::<Delta>(), Ok(Delta::ZERO));
    }

    #[test]
    fn bg_05_a_third_rounds_down_so_three_fit_into_one() {
        let third = Epsilon::from_f64(1.0 / 3.0).unwrap();
        assert_eq!(third.nanos(), 333_333_333);
        assert!(third.nanos() * 3 <= Epsilon::NANOS);
    }

    #[test]
    fn amounts_print_as_people_write_them() {
        assert_eq!("0.50".parse::<Epsilon>().unwrap().to_string(), "0.5");
        assert_eq!("12".parse::<Epsilon>().unwrap().to_string(), "12");
        assert_eq!("1e-6".parse::<Delta>().unwrap().to_string(), "1e-6");
        assert_eq!(serde_json::to_string(&"0.5".parse::<Epsilon>().unwrap()).unwrap(), "0.5");
    }

    proptest! {
        #[test]
        fn epsilon_round_trips_through_text_and_json(nanos in 1..=Epsilon::MAX.nanos()) {
            let epsilon = Epsilon::from_nanos(nanos).unwrap();
            prop_assert_eq!(epsilon.to_string().parse::<Epsilon>().unwrap(), epsilon);
        }

        #[test]
        fn delta_round_trips_through_json(attos in 0..Delta::ATTOS) {
            let delta = Delta::from_attos(attos).unwrap();
            let json = serde_json::to_string(&delta).unwrap();
            prop_assert_eq!(serde_json::from_str::<Delta>(&json).unwrap(), delta);
        }

        #[test]
        fn reading_never_rounds_up(value in 1e-9f64..1e6) {
            let nanos = Epsilon::from_f64(value).unwrap().nanos();
            prop_assert!(nanos as f64 <= value * 1e9 * (1.0 + 1e-15));
        }

        #[test]
        fn bad_text_never_panics(text in ".{0,40}") {
            let _ = text.parse::<Epsilon>();
            let _ = text.parse::<Delta>();
        }
    }
}
