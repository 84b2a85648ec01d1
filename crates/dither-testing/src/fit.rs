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

/// Tests draws against one law of a family, along the parameter of the family: as sharply as such draws allow.
///
/// `law` gives the probabilities of the outcomes that `counts` counts; what is missing to one, and to `draws`, is one
/// outcome more. The statistic is the mean of the score, the derivative of ln P(outcome) by ln(parameter), which is the
/// most powerful one against nearby parameters. Its exact cumulant generating function K is a finite sum, and for every
/// λ > 0 P(mean ≥ m) ≤ exp(−n(λm − K(λ))) (Chernoff), as for λ < 0 on the other side: a fit is rejected wrongly with
/// probability at most `false_alarm`, for every n. Which score is used, to how many digits, changes the power only.
///
/// Against other errors than one of the parameter use [`check_events`] beside it.
///
/// # Errors
/// The observed and the expected mean of the score; or the place of an outcome that was seen and cannot be.
///
/// # References
/// Neyman and Pearson, *On the problem of the most efficient tests of statistical hypotheses*, 1933. Rao, *Large sample
/// tests of statistical hypotheses*, 1948 (the score). Chernoff, *A measure of asymptotic efficiency for tests of a
/// hypothesis based on the sum of observations*, 1952, Theorem 1.
///
/// ```
/// use dither_testing::fit::{check_scale, deviations};
/// // Heads with probability 1/(1 + e^-x).
/// let coin = |x: f64| vec![1.0 / (1.0 + (-x).exp())];
/// assert!(check_scale(&[880_797], coin, 2.0, 1_000_000, 1e-9).is_ok());
/// assert!(check_scale(&[884_000], coin, 2.0, 1_000_000, 1e-9).is_err());
/// // A coin of x = 2.02 looks like 6.5 deviations: too few for a test.
/// assert!((deviations(coin, 2.0, 1_000_000) - 6.48).abs() < 0.01);
/// ```
pub fn check_scale(
    counts: &[u64],
    law: impl Fn(f64) -> Vec<f64>,
    parameter: f64,
    draws: u64,
    false_alarm: f64,
) -> Result<(), Misfit> {
    let (probabilities, scores) = score(&law, parameter);
    assert_eq!(counts.len() + 1, probabilities.len(), "one probability per outcome");
    let rest = draws.checked_sub(counts.iter().sum()).expect("no more counts than draws");
    let frequencies = || counts.iter().chain([&rest]).map(|&count| count as f64 / draws as f64);
    let outcomes = || probabilities.iter().zip(&scores);
    if let Some((place, (observed, _))) =
        frequencies().zip(outcomes()).enumerate().find(|(_, (f, (p, _)))| *f > 0.0 && **p <= 0.0)
    {
        return Err(Misfit { place, observed, expected: 0.0 });
    }
    let observed: f64 = frequencies().zip(&scores).map(|(f, s)| f * s).sum();
    let expected: f64 = outcomes().map(|(p, s)| p * s).sum();
    let variance: f64 = outcomes().map(|(p, s)| p * (s - expected).powi(2)).sum();
    let shift = observed - expected;
    let exponent = |lambda: f64| {
        let sum: f64 = outcomes().filter(|(p, _)| **p > 0.0).map(|(p, s)| p * (lambda * (s - expected)).exp()).sum();
        lambda * shift - sum.ln()
    };
    // Any λ of the right sign is a bound; near the mean shift/variance is the best, far away a smaller one.
    let best = (0..60).map(|halvings| exponent(shift / variance / f64::from(halvings).exp2())).fold(0.0, f64::max);
    if draws as f64 * best > (2.0 / false_alarm).ln() { Err(Misfit { place: 0, observed, expected }) } else { Ok(()) }
}

/// By how many standard deviations the statistic of [`check_scale`] moves if the parameter is off by 1 %.
///
/// At a false-alarm rate α the test rejects from √(2 ln(2/α)) deviations on, 6.55 for α = 10⁻⁹ and 6.65 for the half of
/// it. At [`CAUGHT`] deviations the mutant is rejected with probability Φ(9.8 − 6.65) > 0.999: the statistic is a mean of
/// so many draws that it is normal there to far more digits than that.
pub fn deviations(law: impl Fn(f64) -> Vec<f64>, parameter: f64, draws: u64) -> f64 {
    let (probabilities, scores) = score(&law, parameter);
    let information: f64 = probabilities.iter().zip(&scores).map(|(p, s)| p * s * s).sum();
    0.01 * (information * draws as f64).sqrt()
}

/// As many [`deviations`] are caught with probability above 0.999, at half of [`FALSE_ALARM`](crate::FALSE_ALARM).
pub const CAUGHT: f64 = 9.8;

/// The law and its score at a parameter, with the outcome that is left as the last.
fn score(law: impl Fn(f64) -> Vec<f64>, parameter: f64) -> (Vec<f64>, Vec<f64>) {
    // The step of the central difference, relative to the parameter.
    const STEP: f64 = 1e-3;
    // What is left of one after rounding is nothing.
    const NOTHING: f64 = 1e-10;
    let whole = |parameter: f64| {
        let mut probabilities = law(parameter);
        let rest = 1.0 - probabilities.iter().sum::<f64>();
        assert!(rest > -NOTHING, "probabilities add up to at most one");
        probabilities.push(if rest > NOTHING { rest } else { 0.0 });
        probabilities
    };
    let (below, at, above) = (whole(parameter * (1.0 - STEP)), whole(parameter), whole(parameter * (1.0 + STEP)));
    let slope = |((below, at), above): ((&f64, &f64), &f64)| {
        let slope = (above - below) / (2.0 * STEP * at);
        if slope.is_finite() { slope } else { 0.0 }
    };
    let scores = below.iter().zip(&at).zip(&above).map(slope).collect();
    (at, scores)
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
    fn a_score_takes_the_right_parameter_and_catches_one_that_is_a_hundredth_off() {
        // The integer part of exponential waiting times, the parameter is their mean.
        let law = |scale: f64| (0..40).map(|k| (-f64::from(k) / scale).exp() * -(-1.0 / scale).exp_m1()).collect();
        let (mut stream, draws, mut counts) = (SeededBytes::new(3), 1_000_000, vec![0; 40]);
        for _ in 0..draws {
            let wait = -4.0 * (1.0 - stream.unit()).ln();
            counts.get_mut(wait as usize).into_iter().for_each(|count| *count += 1);
        }
        let check = |scale| check_scale(&counts, law, scale, draws, FALSE_ALARM / 2.0);
        assert_eq!(check(4.0), Ok(()));
        assert!(deviations(law, 4.0, draws) > CAUGHT && check(3.96).is_err() && check(4.04).is_err());
        assert!(check(0.1).is_err() && check(400.0).is_err(), "far away too");
        assert!(check_events(&counts, &law(4.04), draws, FALSE_ALARM).is_ok(), "which single events do not see");
    }

    #[test]
    fn the_critical_value_of_a_score_is_that_of_an_exact_coin() {
        // For two outcomes Chernoff's bound is the divergence of check_events.
        let coin = |x: f64| vec![1.0 / (1.0 + (-x).exp())];
        for count in (0..=1_000).step_by(5) {
            let [score, event] = [
                check_scale(&[count], coin, 1.0, 1_000, 1e-9).is_ok(),
                check_events(&[count], &coin(1.0), 1_000, 1e-9).is_ok(),
            ];
            let near = (
                check_events(&[count], &coin(1.0), 1_000, 1e-8).is_ok(),
                check_events(&[count], &coin(1.0), 1_000, 1e-10).is_ok(),
            );
            assert!(score == event || near.0 != near.1, "{count}");
        }
        assert!(check_scale(&[1, 0], |_| vec![0.0, 1.0], 1.0, 1, 1e-9).is_err(), "the impossible happened");
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
