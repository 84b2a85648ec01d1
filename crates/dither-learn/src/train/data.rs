//! The rows of a table as a trainer sees them: bounded by unit, and one batch at a time.

use std::collections::BTreeMap;

use dither_noise::{JobKey, Purpose};
use sha2::{Digest, Sha256};

use crate::model::{Batch, Inputs, Targets};
use crate::train::mutant::{Mutant, is};

/// Rows as they were read, each with its unit.
///
/// Every row is a function of its own text alone, under rules that were declared before: nothing in it can fail, and no
/// row changes another.
///
/// # Privacy
/// Rows as they are: there is no `Debug`, and they are never written anywhere.
#[derive(Default)]
pub struct Rows {
    /// Numbers or tokens of all rows, row by row.
    pub(crate) numbers: Vec<f32>,
    pub(crate) tokens: Vec<u32>,
    /// How many numbers or tokens are a row.
    pub(crate) width: usize,
    /// How many tokens of a row are real; empty for numbers.
    pub(crate) lengths: Vec<u32>,
    /// A class of each row, or a number; both are empty for language models.
    pub(crate) classes: Vec<u32>,
    pub(crate) targets: Vec<f32>,
    /// Whose each row is; empty where each row is a unit of its own.
    pub(crate) units: Vec<String>,
    /// How many rows there are.
    pub(crate) count: usize,
}

/// A table that is ready for training.
///
/// # Privacy
/// It holds rows as they are: it has no `Debug` and is never written anywhere. Each unit has at most so many rows as the
/// plan says. Which ones is decided by a hash of their content under a secret of the job, once for the whole run, so that
/// it depends neither on the order of rows nor on other units.
pub struct Table {
    rows: Rows,
    /// The rows of each unit.
    units: Vec<Vec<u32>>,
    digest: String,
}

impl Table {
    /// Bounds the rows of each unit.
    pub(crate) fn new(rows: Rows, rows_per_unit: u32, key: &JobKey) -> Self {
        let numbers = 0..u32::try_from(rows.count).unwrap_or(u32::MAX);
        let mut units: Vec<Vec<u32>> = if rows.units.is_empty() || is(Mutant::UnitsApart) {
            numbers.map(|row| vec![row]).collect()
        } else {
            let mut by_unit: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
            numbers.for_each(|row| by_unit.entry(&rows.units[row as usize]).or_default().push(row));
            by_unit.into_values().collect()
        };
        let secret = key.secret(Purpose::Rows);
        for unit in &mut units {
            unit.sort_by_cached_key(|row| {
                let mut hasher = Sha256::new();
                hasher.update(secret.as_bytes());
                rows.hash(*row, &mut hasher);
                <[u8; 32]>::from(hasher.finalize())
            });
            unit.truncate(rows_per_unit as usize);
        }
        let mut hasher = Sha256::new();
        hasher.update(key.secret(Purpose::Table).as_bytes());
        for unit in &units {
            hasher.update((unit.len() as u64).to_le_bytes());
            unit.iter().for_each(|row| rows.hash(*row, &mut hasher));
        }
        let digest = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Self { rows, units, digest }
    }

    /// How many units there are. Private, unless the plan declares it.
    pub(crate) fn units(&self) -> usize {
        self.units.len()
    }

    /// By what the table is recognised: a digest under a secret of the job.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// The rows of these units, as one batch with a sample for each.
    pub(crate) fn batch(&self, units: &[u32]) -> Batch {
        let mut offsets = vec![0];
        let mut chosen = Vec::new();
        for unit in units {
            chosen.extend_from_slice(&self.units[*unit as usize]);
            offsets.push(chosen.len());
        }
        Batch { inputs: self.rows.inputs(&chosen), targets: self.rows.targets(&chosen), offsets }
    }
}

impl Rows {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// What a model sees of these rows.
    pub fn inputs(&self, rows: &[u32]) -> Inputs {
        let width = self.width;
        if self.lengths.is_empty() {
            return Inputs::Numbers { values: chosen(&self.numbers, width, rows), width };
        }
        Inputs::Tokens {
            ids: chosen(&self.tokens, width, rows),
            length: width,
            lengths: rows.iter().map(|row| self.lengths[*row as usize] as usize).collect(),
        }
    }

    /// What it should say.
    pub fn targets(&self, rows: &[u32]) -> Targets {
        if !self.classes.is_empty() {
            Targets::Classes(rows.iter().map(|row| self.classes[*row as usize]).collect())
        } else if !self.targets.is_empty() {
            Targets::Numbers(rows.iter().map(|row| self.targets[*row as usize]).collect())
        } else {
            Targets::NextToken
        }
    }

    /// The content of a row, without its unit.
    fn hash(&self, row: u32, hasher: &mut Sha256) {
        let row = row as usize;
        let range = row * self.width..(row + 1) * self.width;
        if self.lengths.is_empty() {
            self.numbers[range].iter().for_each(|value| hasher.update(value.to_le_bytes()));
        } else {
            self.tokens[range].iter().for_each(|token| hasher.update(token.to_le_bytes()));
            hasher.update(self.lengths[row].to_le_bytes());
        }
        if let Some(class) = self.classes.get(row) {
            hasher.update(class.to_le_bytes());
        }
        if let Some(target) = self.targets.get(row) {
            hasher.update(target.to_le_bytes());
        }
    }
}

/// Some rows of a width, one after the other.
fn chosen<T: Copy>(all: &[T], width: usize, rows: &[u32]) -> Vec<T> {
    let mut chosen = Vec::with_capacity(rows.len() * width);
    for row in rows {
        chosen.extend_from_slice(&all[*row as usize * width..(*row as usize + 1) * width]);
    }
    chosen
}
