//! Attacks on the mechanisms. Every statistical verdict has the false-alarm rate of the testing crate, and a
//! seeded bug that it must catch.

#![allow(clippy::unwrap_used, reason = "a failed draw is a failed test")]

mod conformance;
mod fit;
mod found;
mod keys;
mod lattice;
mod local;
mod numbers;
mod partitions;
mod quantile;
mod selection;
mod sparse;
mod table;
mod training;

use std::num::NonZeroU32;

use dither_core::{Epsilon, Key, L1Sensitivity, L2Sensitivity, Ratio};
use dither_noise::{BitSource, NoiseError};
use dither_testing::{SeededBytes, StubBytes};

use crate::{Block, ExactRow, ExactTable, Gaussian, KeyRule, Laplace, Noise, TableMechanism};

struct Seeded(SeededBytes);

impl Seeded {
    fn new(seed: u64) -> Self {
        Self(SeededBytes::new(seed))
    }
}

impl BitSource for Seeded {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), NoiseError> {
        self.0.fill(buffer);
        Ok(())
    }
}

struct Stub(StubBytes);

impl BitSource for Stub {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), NoiseError> {
        if self.0.fill(buffer) { Ok(()) } else { Err(NoiseError::Unavailable) }
    }
}

fn epsilon(text: &str) -> Epsilon {
    text.parse().unwrap()
}

fn groups(count: u32) -> NonZeroU32 {
    NonZeroU32::new(count).unwrap()
}

fn laplace(sensitivity: u128, loss: &str) -> Laplace {
    Laplace::for_epsilon(L1Sensitivity::new(sensitivity), epsilon(loss)).unwrap()
}

fn gaussian(squared: u128, variance: (u128, u128)) -> Gaussian {
    let variance = Ratio::new(variance.0, variance.1).unwrap();
    Gaussian::new(L2Sensitivity::from_squared(squared), variance, 1).unwrap()
}

/// One column of this noise.
fn column(noise: Noise, keys: KeyRule) -> TableMechanism {
    TableMechanism { blocks: vec![Block { width: 1, noise }], quantiles: Vec::new(), found: Vec::new(), keys }
}

fn row(key: &str, values: &[i128], units: i64) -> ExactRow {
    ExactRow { key: vec![Key::Text(key.into())], values: values.to_vec(), units, histograms: Vec::new() }
}

/// So many noisy answers to the same question.
fn answers(noise: Noise, exact: i128, draws: usize, source: &mut Seeded) -> Vec<i128> {
    let table = ExactTable {
        rows: vec![ExactRow { key: Vec::new(), values: vec![exact], units: 0, histograms: Vec::new() }; draws],
    };
    let noisy = column(noise, KeyRule::Public).add_noise(table, source).unwrap();
    noisy.rows.into_iter().map(|row| row.values[0]).collect()
}
