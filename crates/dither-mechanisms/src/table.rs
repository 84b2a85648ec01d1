//! A table of exact integers becomes a table of noisy ones.

use dither_core::{GateError, Key, Mechanism, OpenGate, PrivacyEvent, Sensitive, hazmat};
use dither_noise::{BitSource, NoiseError, NoiseSource};
use serde::{Deserialize, Serialize};

use crate::gaussian::Gaussian;
use crate::laplace::Laplace;
use crate::quantile::{Histogram, Quantiles};
use crate::sampler::Samplers;
use crate::threshold::Threshold;

/// The whole private step of a query: which rows are kept, and noise on every cell of them or a choice for it.
///
/// # Privacy
/// The composition of its blocks, its quantiles and its key rule, for the neighbours that the sensitivities were derived for.
/// With [`KeyRule::Public`] the keys and their order must be functions of public things alone: every row is
/// kept, in the given order. With [`KeyRule::Threshold`] the caller must sort the rows canonically, by key.
/// Noise is drawn for each cell by itself, after the keys are joined, so an absent key gets noise like any other.
///
/// ```
/// use dither_core::{Epsilon, L1Sensitivity, Measurement, Mechanism, PrivacyEvent, RequestId};
/// use dither_mechanisms::{Block, KeyRule, Laplace, Noise, TableMechanism};
/// let count = Laplace::for_epsilon(L1Sensitivity::new(1), "0.5".parse::<Epsilon>()?)?;
/// let blocks = vec![Block { width: 1, noise: Noise::Laplace(count) }];
/// let mechanism = TableMechanism { blocks, quantiles: Vec::new(), keys: KeyRule::Public };
/// let measurement = Measurement::new(mechanism, RequestId::digest([b"how many?".as_slice()]));
/// assert_eq!(measurement.event(), PrivacyEvent::Composed(vec![count.event()]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableMechanism {
    /// The columns from left to right, in blocks.
    pub blocks: Vec<Block>,
    /// The quantiles, whose answers stand right of the blocks.
    pub quantiles: Vec<Quantiles>,
    /// Which rows are kept.
    pub keys: KeyRule,
}

/// Adjacent columns that are measured jointly: their sensitivity is that of the columns taken together.
///
/// A mean, for example, is a block of two, Σ(upper − x) and Σ(x − lower): a row adds exactly one range to their
/// sum, so both together have the l1 sensitivity of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// The number of columns.
    pub width: usize,
    /// The noise on each of their cells.
    pub noise: Noise,
}

/// Which noise a block gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noise {
    /// Discrete Laplace.
    Laplace(Laplace),
    /// Discrete Gaussian, on a refined lattice.
    Gaussian(Gaussian),
}

/// Which rows are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRule {
    /// All: the keys are public, and each has a row whether somebody has it or not.
    Public,
    /// Those with enough units.
    Threshold(Threshold),
}

impl Noise {
    /// What is charged.
    pub fn event(&self) -> PrivacyEvent {
        match self {
            Self::Laplace(laplace) => laplace.event(),
            Self::Gaussian(gaussian) => gaussian.event(),
        }
    }

    /// Outputs count steps of size 2^-`refinement`; zero for Laplace noise.
    pub fn refinement(&self) -> u32 {
        match self {
            Self::Laplace(_) => 0,
            Self::Gaussian(gaussian) => gaussian.refinement(),
        }
    }

    /// The error that one cell stays within with this probability, either way, in lattice steps (not refined).
    /// `None` unless the probability lies in [0, 1).
    pub fn error_quantile(&self, probability: f64) -> Option<f64> {
        match self {
            Self::Laplace(laplace) => laplace.error_quantile(probability),
            Self::Gaussian(gaussian) => gaussian.error_quantile(probability),
        }
    }

    /// The standard deviation of the noise of one cell, in lattice steps (not refined).
    pub fn standard_deviation(&self) -> f64 {
        match self {
            Self::Laplace(laplace) => laplace.standard_deviation(),
            Self::Gaussian(gaussian) => gaussian.standard_deviation(),
        }
    }
}

/// What is computed from the rows, exactly. Its debug form shows nothing.
#[derive(Clone, PartialEq)]
pub struct ExactTable {
    /// One row per key.
    pub rows: Vec<ExactRow>,
}

/// One row of an [`ExactTable`]. Its debug form shows nothing.
#[derive(Clone, PartialEq)]
pub struct ExactRow {
    /// The key; empty for a query without groups.
    pub key: Vec<Key>,
    /// One integer per column, in steps of the lattice of its column.
    pub values: Vec<i128>,
    /// The number of distinct units under the key, for the threshold.
    pub units: i64,
    /// One histogram for each of the quantiles of the mechanism.
    pub histograms: Vec<Histogram>,
}

impl std::fmt::Debug for ExactTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ExactTable(..)")
    }
}

impl std::fmt::Debug for ExactRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ExactRow(..)")
    }
}

/// What may be seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NoisyTable {
    /// The kept rows, in the order of the exact ones.
    pub rows: Vec<NoisyRow>,
}

/// One row of a [`NoisyTable`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NoisyRow {
    /// The key.
    pub key: Vec<Key>,
    /// One integer per column, in refined steps of the lattice of its column; then one point per quantile; then the noisy
    /// number of units, in refined steps, where the key rule releases it.
    pub values: Vec<i128>,
}

impl Mechanism for TableMechanism {
    type Exact = ExactTable;
    type Noise = NoiseSource;
    type Output = NoisyTable;

    fn event(&self) -> PrivacyEvent {
        let blocks = self.blocks.iter().map(|block| block.noise.event());
        let keys = match &self.keys {
            KeyRule::Public => None,
            KeyRule::Threshold(threshold) => Some(threshold.event()),
        };
        let quantiles = self.quantiles.iter().map(Quantiles::event);
        PrivacyEvent::Composed(blocks.chain(quantiles).chain(keys).collect())
    }

    fn apply(
        &self,
        exact: Sensitive<ExactTable>,
        noise: &mut NoiseSource,
        _gate: OpenGate,
    ) -> Result<NoisyTable, GateError> {
        self.add_noise(hazmat::reveal(exact), noise)
    }
}

impl TableMechanism {
    /// [`Mechanism::apply`] for any source of bits, so that tests can replay it.
    pub(crate) fn add_noise<S: BitSource>(&self, exact: ExactTable, source: &mut S) -> Result<NoisyTable, GateError> {
        let columns: Vec<Noise> =
            self.blocks.iter().flat_map(|block| std::iter::repeat_n(block.noise, block.width)).collect();
        let width = (columns.len(), self.quantiles.len());
        if exact.rows.iter().any(|row| (row.values.len(), row.histograms.len()) != width) {
            return Err(GateError::Failed);
        }
        self.draw(exact, &columns, source).map_err(|_| GateError::Failed)
    }

    fn draw<S: BitSource>(
        &self,
        exact: ExactTable,
        columns: &[Noise],
        source: &mut S,
    ) -> Result<NoisyTable, NoiseError> {
        let samplers = Samplers::new(columns);
        let rule = match &self.keys {
            KeyRule::Public => None,
            KeyRule::Threshold(threshold) => Some((threshold, threshold.sampler())),
        };
        let mut rows = Vec::new();
        for ExactRow { key, values, units, histograms } in exact.rows {
            let count = match &rule {
                None => None,
                Some((threshold, sampler)) => match threshold.admitted(units, sampler, source)? {
                    Some(count) => Some(count).filter(|_| threshold.releases_counts()),
                    None => continue,
                },
            };
            let mut values = samplers.add(&values, source)?;
            for (quantiles, histogram) in self.quantiles.iter().zip(&histograms) {
                values.extend(quantiles.draw(histogram, source)?);
            }
            values.extend(count);
            rows.push(NoisyRow { key, values });
        }
        Ok(NoisyTable { rows })
    }
}
