//! A table of exact integers becomes a table of noisy ones.

use dither_core::{GateError, Key, Mechanism, OpenGate, PrivacyEvent, Sensitive, hazmat};
use dither_noise::{BitSource, NoiseError, NoiseSource};
use serde::{Deserialize, Serialize};

use crate::found::{Bounds, FoundBounds};
use crate::gaussian::Gaussian;
use crate::laplace::Laplace;
use crate::quantile::{Histogram, Quantiles};
use crate::sampler::Samplers;
use crate::selection::ExactVector;
use crate::threshold::Threshold;
use crate::top_k::TopK;

/// The whole private step of a query: which rows are kept, and noise on every cell of them or a choice for it.
///
/// # Privacy
/// The composition of its blocks, its quantiles, the choices of its bounds and its key rule, for the neighbours that the sensitivities were derived for.
/// With [`KeyRule::Public`] the keys and their order must be functions of public things alone: every row is
/// kept, in the given order. So they must with [`KeyRule::Top`]; which are kept, and in which order, is what is charged. With [`KeyRule::Threshold`] the caller must sort the rows canonically, by key.
/// Noise is drawn for each cell by itself, after the keys are joined, so an absent key gets noise like any other.
///
/// ```
/// use dither_core::{Epsilon, L1Sensitivity, Measurement, Mechanism, PrivacyEvent, RequestId};
/// use dither_mechanisms::{Block, KeyRule, Laplace, Noise, TableMechanism};
/// let count = Laplace::for_epsilon(L1Sensitivity::new(1), "0.5".parse::<Epsilon>()?)?;
/// let blocks = vec![Block { width: 1, noise: Noise::Laplace(count) }];
/// let mechanism = TableMechanism { blocks, quantiles: Vec::new(), found: Vec::new(), keys: KeyRule::Public };
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
    /// The bounds that are found from the data, and the columns that follow from them.
    pub found: Vec<FoundBounds>,
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
    /// The best few by [`ExactRow::units`], the best first. The keys are public.
    Top(TopK),
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
    /// One integer per column, in steps of the lattice of its column; what stands in a column that follows from bounds which
    /// are found is not looked at.
    pub values: Vec<i128>,
    /// The number of distinct units under the key, for the threshold; or what the best keys have most of.
    pub units: i64,
    /// One histogram for each of the quantiles of the mechanism, then one for each of the bounds that are found.
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
    /// The bounds that were found, in the order of the mechanism.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<Bounds>,
}

/// One row of a [`NoisyTable`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NoisyRow {
    /// The key.
    pub key: Vec<Key>,
    /// One integer per column, in refined steps of the lattice of its column; then one point per quantile; then the noisy
    /// number of units, in refined steps, where the key rule releases it; of the best few the place, counted from the last.
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
            KeyRule::Top(top) => Some(top.event()),
        };
        let quantiles = self.quantiles.iter().map(Quantiles::event);
        let found = self.found.iter().map(FoundBounds::event);
        PrivacyEvent::Composed(blocks.chain(quantiles).chain(found).chain(keys).collect())
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
        let width = (columns.len(), self.quantiles.len() + self.found.len());
        if self.found.iter().any(|found| found.width() > columns.len()) {
            return Err(GateError::Failed);
        }
        if exact.rows.iter().any(|row| (row.values.len(), row.histograms.len()) != width) {
            return Err(GateError::Failed);
        }
        let exact = match &self.keys {
            KeyRule::Top(top) => best(top, exact, source)?,
            KeyRule::Public | KeyRule::Threshold(_) => exact,
        };
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
            KeyRule::Public | KeyRule::Top(_) => None,
            KeyRule::Threshold(threshold) => Some((threshold, threshold.sampler())),
        };
        let mut place = match &self.keys {
            KeyRule::Top(top) => Some(i128::from(top.count().get())),
            KeyRule::Public | KeyRule::Threshold(_) => None,
        };
        let bounds = self.bounds(&exact, source)?;
        let mut rows = Vec::new();
        for ExactRow { key, mut values, units, histograms } in exact.rows {
            let count = match &rule {
                None => {
                    let here = place;
                    place = place.map(|place| place - 1);
                    here
                }
                Some((threshold, sampler)) => match threshold.admitted(units, sampler, source)? {
                    Some(count) => Some(count).filter(|_| threshold.releases_counts()),
                    None => continue,
                },
            };
            for ((found, bounds), histogram) in self.found.iter().zip(&bounds).zip(&histograms[self.quantiles.len()..])
            {
                found.fill(*bounds, histogram, &mut values);
            }
            let mut values = samplers.add(&values, source)?;
            for (quantiles, histogram) in self.quantiles.iter().zip(&histograms) {
                values.extend(quantiles.draw(histogram, source)?);
            }
            values.extend(count);
            rows.push(NoisyRow { key, values });
        }
        Ok(NoisyTable { rows, bounds })
    }

    /// Chooses the bounds, from the rows of all groups, whether they are kept or not.
    fn bounds<S: BitSource>(&self, exact: &ExactTable, source: &mut S) -> Result<Vec<Bounds>, NoiseError> {
        let chosen = self.found.iter().enumerate().map(|(index, found)| {
            let place = self.quantiles.len() + index;
            found.choose(exact.rows.iter().map(|row| &row.histograms[place]), source)
        });
        chosen.collect()
    }
}

/// The rows of the best keys, in the order of the choices.
fn best<S: BitSource>(top: &TopK, exact: ExactTable, source: &mut S) -> Result<ExactTable, GateError> {
    let utilities = ExactVector { values: exact.rows.iter().map(|row| row.units.into()).collect() };
    let mut rows: Vec<Option<ExactRow>> = exact.rows.into_iter().map(Some).collect();
    let chosen = top.choose(utilities, source)?.into_iter();
    let rows = chosen.map(|index| rows.get_mut(index).and_then(Option::take).ok_or(GateError::Failed));
    Ok(ExactTable { rows: rows.collect::<Result<_, _>>()? })
}
