//! Noise that is drawn many times: from a table, in a time that does not tell how large it is.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use dither_noise::{BitSource, NoiseError, NoiseTable, discrete_gaussian, discrete_laplace};

use crate::saturate::refined;
use crate::table::Noise;

/// A noise, ready to be drawn.
#[derive(Clone)]
pub(crate) struct Sampler {
    noise: Noise,
    /// None for noise so wide that no table holds it.
    table: Option<Arc<NoiseTable>>,
}

/// The samplers that were made last: a table takes a tenth of a millisecond and depends on public parameters alone.
static RECENT: Mutex<VecDeque<Sampler>> = Mutex::new(VecDeque::new());

/// So many tables take 8 MiB.
const KEPT: usize = 64;

impl Sampler {
    /// Finds the table of this noise, or makes it.
    pub fn new(noise: Noise) -> Self {
        let recent = || RECENT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = recent().iter().find(|sampler| sampler.noise == noise) {
            return known.clone();
        }
        let table = match &noise {
            Noise::Laplace(laplace) => NoiseTable::laplace(laplace.scale()),
            Noise::Gaussian(gaussian) => NoiseTable::gaussian(gaussian.refined_variance()),
        };
        let sampler = Self { noise, table: table.ok().map(Arc::new) };
        let mut recent = recent();
        recent.truncate(KEPT - 1);
        recent.push_front(sampler.clone());
        sampler
    }

    /// One noisy cell, in refined steps.
    pub fn add<S: BitSource>(&self, exact: i128, source: &mut S) -> Result<i128, NoiseError> {
        let noise = match (&self.table, &self.noise) {
            (Some(table), _) => table.draw(source).map(i128::from),
            (None, Noise::Laplace(laplace)) => discrete_laplace(source, laplace.scale()),
            (None, Noise::Gaussian(gaussian)) => discrete_gaussian(source, gaussian.refined_variance()),
        }?;
        refined(exact, self.noise.refinement()).checked_add(noise).ok_or(NoiseError::OutOfRange)
    }
}

/// The noises of several columns; equal ones share a table.
pub(crate) struct Samplers {
    samplers: Vec<Sampler>,
    /// For each column its sampler.
    which: Vec<usize>,
}

impl Samplers {
    /// Makes a table for each noise that occurs.
    pub fn new(columns: &[Noise]) -> Self {
        let (mut samplers, mut which): (Vec<Sampler>, Vec<usize>) = (Vec::new(), Vec::new());
        for noise in columns {
            let known = samplers.iter().position(|sampler| sampler.noise == *noise);
            which.push(known.unwrap_or(samplers.len()));
            if known.is_none() {
                samplers.push(Sampler::new(*noise));
            }
        }
        Self { samplers, which }
    }

    /// One noisy row, a cell for each column, in refined steps.
    pub fn add<S: BitSource>(&self, exact: &[i128], source: &mut S) -> Result<Vec<i128>, NoiseError> {
        self.which.iter().zip(exact).map(|(&which, &exact)| self.samplers[which].add(exact, source)).collect()
    }
}
