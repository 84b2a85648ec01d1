//! Directed rounding: every float that stands for a privacy loss passes through here.
//!
//! The elementary functions come from `libm`, compiled from the same source everywhere, so that one event has
//! one price on every machine. Each is accurate to a few units in the last place; a formula of this crate
//! chains a few dozen operations without cancellation, an error below 10⁻¹⁴. [`up`] and [`down`] move a result
//! by a hundred times that, which costs nothing anybody can notice.

pub(crate) use libm::{cosh, erfc, exp, log as ln, log1p as ln_1p, sinh, sqrt};

/// The relative width of a directed rounding.
const MARGIN: f64 = 1e-12;

/// Rounds towards plus infinity; zero stays zero.
pub(crate) fn up(value: f64) -> f64 {
    value + value.abs() * MARGIN
}

/// Rounds towards minus infinity; zero stays zero.
pub(crate) fn down(value: f64) -> f64 {
    value - value.abs() * MARGIN
}

/// A loss in nano-units, never less than `value`; `None` where 64 bits cannot hold it, NaN included.
pub(crate) fn nanos_up(value: f64) -> Option<u64> {
    let nanos = up(value.max(0.0) * 1e9).ceil();
    (!value.is_nan() && nanos < 1.8e19).then_some(nanos as u64)
}

/// A limit on the loss as a float, never more than so many nano-units.
pub(crate) fn epsilon_down(nanos: u64) -> f64 {
    down(nanos as f64 / 1e9)
}

/// A limit on the failure probability as a float, never more than so many units of 10⁻¹⁸.
pub(crate) fn delta_down(attos: u64) -> f64 {
    down(attos as f64 / 1e18)
}

/// The quotient of two products of integers, rounded up.
pub(crate) fn quotient_up(numerator: [u128; 2], denominator: u128) -> f64 {
    up(numerator[0] as f64 * numerator[1] as f64 / denominator as f64)
}

/// The end `good` of an interval after bisection towards `bad`; `holds` is true of every value returned.
///
/// Ends when the two are closer than one part in 10¹².
pub(crate) fn bisect(mut good: f64, mut bad: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..200 {
        let middle = good + (bad - good) / 2.0;
        if (bad - good).abs() <= 1e-12 * good.abs() || middle == good || middle == bad {
            break;
        }
        *(if holds(middle) { &mut good } else { &mut bad }) = middle;
    }
    good
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ac_08_rounding_moves_away_from_the_claim() {
        assert!(up(1.0) > 1.0 && down(1.0) < 1.0 && up(-1.0) > -1.0 && down(-1.0) < -1.0);
        assert_eq!((up(0.0), down(0.0)), (0.0, 0.0));
    }

    #[test]
    fn bg_18_what_does_not_fit_is_none() {
        for odd in [f64::NAN, f64::INFINITY, 1e300, 1.9e10] {
            assert_eq!(nanos_up(odd), None, "{odd}");
        }
        assert_eq!((nanos_up(0.0), nanos_up(-3.0), nanos_up(1e-300)), (Some(0), Some(0), Some(1)));
        assert!(nanos_up(0.5).unwrap() > 500_000_000);
    }
}
