//! Streams of the testing crate as sources of bits.
#![allow(dead_code, reason = "each test binary uses its own part")]

use dither_core::Ratio;
use dither_noise::{BitSource, NoiseError, discrete_gaussian, discrete_laplace};
use dither_testing::{SeededBytes, StubBytes};

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
