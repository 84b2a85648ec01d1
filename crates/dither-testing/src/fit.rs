//! Goodness of fit with finite-sample false-alarm rates: no limit theorem, no minimal cell count.

/// How a sample failed to fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Misfit {
    /// Where: the index of the cell or of the point.
    pub place: usize,
    /// The observed frequency.
    pub observed: f64,
    /// The exact probability.
    pub expected: f64,
}

/// Tests the frequencies of events, which may overlap, against their exact probabilities.
///
/// An event of probability p seen with frequency f in n independent draws has
/// P(n · KL(f‖p) ≥ x) ≤ 2·e^-x (Chernoff, both sides), so with m events a fit is rejected wrongly with
/// probability at most `false_alarm` when x = ln(2m / `false_alarm`). Exact for every n and p.
///
/// # Errors
/// The first event that does not fit.
///
/// # References
/// Hoeffding, *Probability inequalities for sums of bounded random variables*, 1963, Theorem 1 (2.1).
pub fn check_events(counts: &[u64], probabilities: &[f64], draws: u64, false_alarm: f64) -> Result<(), Misfit> {
    assert_eq!(counts.len(), probabilities.len(), "one probability per event");
    let limit = (2.0 * counts.len() as f64 / false_alarm).ln();
    for (place, (&count, &expected)) in counts.iter().zip(probabilities).enumerate() {
        let observed = count as f64 / draws as f64;
        if draws as f64 * divergence(observed, expected) > limit {
            return Err(Misfit { place, observed, expected });
        }
    }
    Ok(())
}

/// Tests a sample against an exact cumulative distribution, at every point of the sample at once.
///
/// A sample of n draws leaves the band of half width √(ln(2/α)/2n) with probability at most α, for every
/// distribution, discrete ones included. Sorts the sample.
///
/// # Errors
/// The first point outside the band.
///
/// # References
/// Massart, *The tight constant in the Dvoretzky–Kiefer–Wolfowitz inequality*, 1990, Corollary 1.
pub fn check_cdf<T: PartialOrd + Copy>(
    sample: &mut [T],
    cdf: impl Fn(T) -> f64,
    false_alarm: f64,
) -> Result<(), Misfit> {
    sample.sort_by(|a, b| a.partial_cmp(b).expect("a sample has no NaN"));
    let draws = sample.len() as f64;
    let band = ((2.0 / false_alarm).ln() / (2.0 * draws)).sqrt();
    for (place, pair) in sample.windows(2).enumerate() {
        // The empirical distribution at a value counts all of its repetitions.
        if pair[0] == pair[1] {
            continue;
        }
        let (observed, expected) = ((place + 1) as f64 / draws, cdf(pair[0]));
        if (observed - expected).abs() > band {
            return Err(Misfit { place, observed, expected });
        }
    }
    Ok(())
}

/// KL(f‖p) of two coins.
fn divergence(f: f64, p: f64) -> f64 {
    let term = |a: f64, b: f64| if a == 0.0 { 0.0 } else { a * (a / b).ln() };
    term(f, p) + term(1.0 - f, 1.0 - p)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FALSE_ALARM, SeededBytes};

    fn uniform(seed: u64) -> Vec<f64> {
        let mut stream = SeededBytes::new(seed);
        (0..200_000).map(|_| stream.unit()).collect()
    }

    #[test]
    fn a_band_takes_the_right_distribution_and_catches_a_shift() {
        let mut sample = uniform(1);
        assert_eq!(check_cdf(&mut sample, |x| x, FALSE_ALARM), Ok(()));
        assert!(check_cdf(&mut sample, |x| (x - 0.01).max(0.0), FALSE_ALARM).is_err());
    }

    #[test]
    fn events_take_the_right_probability_and_catch_a_wrong_one() {
        let sample = uniform(2);
        let count = sample.iter().filter(|&&x| x < 0.1).count() as u64;
        assert_eq!(check_events(&[count], &[0.1], 200_000, FALSE_ALARM), Ok(()));
        assert!(check_events(&[count], &[0.105], 200_000, FALSE_ALARM).is_err());
        assert!(check_events(&[1], &[0.0], 200_000, FALSE_ALARM).is_err(), "the impossible happened");
    }
}
