//! Noise for training: one charge, many noisy sums.

use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dither_core::{GateError, L2Sensitivity, Mechanism, Neighbors, OpenGate, PrivacyEvent, Ratio, Sensitive, hazmat};
use dither_noise::{JobKey, JobStream, NoiseTable, Purpose};

use crate::error::MechanismError;

/// How many coordinates get their noise at a time, from one stream: few enough for the caches.
const BLOCK: usize = 1 << 15;

/// The exact sum over a sample, on the lattice: overwrites integers with its coordinates from a place on.
pub type Exact = Box<dyn Fn(usize, &mut [i64]) + Sync>;

/// Takes coordinates of the noisy sum from a place on. What is done with them is post-processing.
pub type Noisy<'a> = Box<dyn FnMut(usize, &[i64]) + Send + 'a>;

/// Who computes the exact sums of a training run and takes the noisy ones.
pub trait Steps {
    /// The first step that is to be executed: 0, or where an interrupted run goes on.
    fn first(&self) -> u64;

    /// The exact sum over the sample of a step. All of it is settled here, before noise is drawn.
    ///
    /// # Errors
    /// Whatever keeps the sum from being computed; the run ends, and the charge stands.
    fn exact(&mut self, step: u64) -> Result<Exact, GateError>;

    /// Who takes the noisy sum: every coordinate once, block by block in any order.
    fn noisy(&mut self, step: u64) -> Noisy<'_>;

    /// The noisy sum of a step was taken.
    ///
    /// # Errors
    /// Whatever keeps the run from going on.
    fn finish(&mut self, step: u64) -> Result<(), GateError>;
}

impl<S: Steps + ?Sized> Steps for &mut S {
    fn first(&self) -> u64 {
        (**self).first()
    }
    fn exact(&mut self, step: u64) -> Result<Exact, GateError> {
        (**self).exact(step)
    }
    fn noisy(&mut self, step: u64) -> Noisy<'_> {
        (**self).noisy(step)
    }
    fn finish(&mut self, step: u64) -> Result<(), GateError> {
        (**self).finish(step)
    }
}

/// Discrete Gaussian noise on the sum over a Poisson sample, step after step.
///
/// One charge pays for all steps. Each adds noise once, to the sum over the whole sample, whatever the parts are in
/// which it was computed; a sample without a unit gets noise as well. The noise of a step is a stream of the key of the
/// job, so that a step that is executed again after a crash draws what it drew before.
///
/// # Privacy
/// That of [`PrivacyEvent::SampledGaussian`], for the neighbours it names, if [`Steps::exact`] draws its samples with
/// [`Training::rate`] and one unit in a sample moves the sum by at most [`Training::sensitivity`] in the l2 norm; and if
/// the key is used for one charged request on one table.
///
/// # References
/// Abadi et al., *Deep Learning with Differential Privacy*, 2016, Algorithm 1. Canonne, Kamath and Steinke, *The
/// Discrete Gaussian for Differential Privacy*, 2020, Theorem 4.
pub struct Training<S> {
    rate: Ratio,
    sensitivity: L2Sensitivity,
    variance: Ratio,
    coordinates: usize,
    steps: u64,
    neighbors: Neighbors,
    threads: usize,
    run: PhantomData<fn(S)>,
}

impl<S> Training<S> {
    /// Noise with the parameter σ² = `variance`, in lattice steps squared, on vectors of so many `coordinates`.
    ///
    /// # Errors
    /// [`MechanismError::NoSensitivity`], and [`MechanismError::OutOfRange`] for a rate above one, no coordinates, no
    /// steps, and a σ of more than 2⁵⁰ lattice steps.
    pub fn new(
        rate: Ratio,
        sensitivity: L2Sensitivity,
        variance: Ratio,
        coordinates: usize,
        steps: u64,
        neighbors: Neighbors,
    ) -> Result<Self, MechanismError> {
        let out_of_range = |what| Err(MechanismError::OutOfRange { what });
        if sensitivity.squared() == 0 {
            return Err(MechanismError::NoSensitivity);
        }
        if rate.numerator() > rate.denominator() {
            return out_of_range("sampling rate");
        }
        if coordinates == 0 || steps == 0 {
            return out_of_range("size of the training run");
        }
        if variance.numerator() / variance.denominator() >= 1 << 100 {
            return out_of_range("noise variance");
        }
        Ok(Self { rate, sensitivity, variance, coordinates, steps, neighbors, threads: 1, run: PhantomData })
    }

    /// Has so many threads draw the noise, at most. What is drawn does not depend on it.
    pub fn with_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// The probability that a unit enters a sample.
    pub fn rate(&self) -> Ratio {
        self.rate
    }

    /// How far one unit in a sample may move the sum, in lattice steps.
    pub fn sensitivity(&self) -> L2Sensitivity {
        self.sensitivity
    }

    /// How many steps are charged.
    pub fn steps(&self) -> u64 {
        self.steps
    }
}

impl<S: Steps> Mechanism for Training<S> {
    type Exact = S;
    type Noise = JobKey;
    /// How many steps have been executed, from the first.
    type Output = u64;

    fn event(&self) -> PrivacyEvent {
        PrivacyEvent::SampledGaussian {
            rate: self.rate,
            sensitivity: self.sensitivity,
            variance: self.variance,
            coordinates: self.coordinates as u64,
            steps: self.steps,
            neighbors: self.neighbors,
        }
    }

    fn apply(&self, exact: Sensitive<S>, key: &mut JobKey, _gate: OpenGate) -> Result<u64, GateError> {
        self.run(&mut hazmat::reveal(exact), key)
    }
}

impl<S: Steps> Training<S> {
    /// Every step from the first: the exact sum, and noise once.
    pub(crate) fn run(&self, run: &mut S, key: &JobKey) -> Result<u64, GateError> {
        let table = NoiseTable::gaussian(self.variance).map_err(|_| GateError::Failed)?;
        for step in run.first()..self.steps {
            let exact = run.exact(step)?;
            self.add_noise(&table, |block| key.stream(Purpose::Noise, step, block), exact, run.noisy(step))?;
            run.finish(step)?;
        }
        Ok(self.steps)
    }

    /// Adds the noise of a step, and hands the sums on. Every block of coordinates has a stream of its own, so that threads
    /// take them in any order, and what is in the caches at once is a block and not the whole sum.
    fn add_noise(
        &self,
        table: &NoiseTable,
        stream: impl Fn(u64) -> JobStream + Sync,
        exact: Exact,
        noisy: Noisy<'_>,
    ) -> Result<(), GateError> {
        let starts = (0..self.coordinates).step_by(BLOCK);
        let others = self.threads.min(starts.len()).saturating_sub(1);
        let (blocks, noisy) = (Mutex::new((0u64..).zip(starts)), Mutex::new(noisy));
        let work = || {
            let mut sums = vec![0i64; BLOCK.min(self.coordinates)];
            loop {
                let block = lock(&blocks).next();
                let Some((block, from)) = block else { return Ok(()) };
                let sums = &mut sums[..BLOCK.min(self.coordinates - from)];
                exact(from, sums);
                // A sum at the end of the range stays there, as every function of the noisy sum is free.
                table.add(&mut stream(block), sums).map_err(|_| GateError::Failed)?;
                lock(&noisy)(from, sums);
            }
        };
        std::thread::scope(|scope| {
            // Where the system has no more threads, the others do all the work.
            let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
            let others: Vec<_> = (0..others).filter_map(spawn).collect();
            let mine = work();
            others.into_iter().map(|other| other.join().unwrap_or(Err(GateError::Failed))).fold(mine, Result::and)
        })
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
