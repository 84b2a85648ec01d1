//! Streams of the testing crate as sources of bits.
#![allow(dead_code, reason = "each test binary uses its own part")]

use dither_core::Ratio;
use dither_noise::{BitSource, NoiseError, discrete_gaussian, discrete_laplace};
use dither_testing::fit::{Misfit, check_cdf, check_events};
use dither_testing::{FALSE_ALARM, SeededBytes, StubBytes};

pub struct Seeded(pub SeededBytes);

impl Seeded {
    pub fn new(seed: u64) -> Self {
        Self(SeededBytes::new(seed))
    }
}

impl BitSource for Seeded {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), NoiseError> {
        self.0.fill(buffer);
        Ok(())
    }
}

pub struct Stub(pub StubBytes);

impl BitSource for Stub {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), NoiseError> {
        if self.0.fill(buffer) { Ok(()) } else { Err(NoiseError::Unavailable) }
    }
}

pub fn ratio(numerator: u128, denominator: u128) -> Ratio {
    Ratio::new(numerator, denominator).unwrap()
}

pub fn laplace_sample(seed: u64, scale: Ratio, draws: usize) -> Vec<i128> {
    let mut source = Seeded::new(seed);
    (0..draws).map(|_| discrete_laplace(&mut source, scale).unwrap()).collect()
}

pub fn gaussian_sample(seed: u64, variance: Ratio, draws: usize) -> Vec<i128> {
    let mut source = Seeded::new(seed);
    (0..draws).map(|_| discrete_gaussian(&mut source, variance).unwrap()).collect()
}

/// Tests a sample twice: its whole distribution by a band, and the events |X| ≤ k at fixed quantiles, which see
/// a change of the scale best.
pub fn check(mut sample: Vec<i128>, cdf: impl Fn(i128) -> f64) -> Result<(), Misfit> {
    let widest = (1..127).map(|power| 1i128 << power).find(|&k| cdf(k) > 0.999).unwrap();
    let ends: Vec<i128> = (0..=32).map(|part| widest * part / 32).collect();
    let counts: Vec<u64> = ends.iter().map(|&end| sample.iter().filter(|x| x.abs() <= end).count() as u64).collect();
    let inside: Vec<f64> = ends.iter().map(|&end| (cdf(end) - cdf(-end - 1)).min(1.0)).collect();
    let draws = sample.len() as u64;
    check_cdf(&mut sample, cdf, FALSE_ALARM / 2.0)?;
    check_events(&counts, &inside, draws, FALSE_ALARM / 2.0)
}

/// How often each magnitude below a limit was drawn.
pub fn magnitudes(sample: &[i128], limit: usize) -> Vec<u64> {
    let mut counts = vec![0; limit];
    for x in sample {
        usize::try_from(x.unsigned_abs())
            .ok()
            .and_then(|x| counts.get_mut(x))
            .into_iter()
            .for_each(|count| *count += 1);
    }
    counts
}

/// The exact probabilities of these magnitudes.
pub fn magnitude_law(cdf: impl Fn(i128) -> f64, limit: usize) -> Vec<f64> {
    let within = |x: i128| cdf(x) - cdf(-x - 1);
    (0..limit as i128).map(|x| if x == 0 { within(0) } else { within(x) - within(x - 1) }).collect()
}
