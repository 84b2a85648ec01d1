//! Noise of training runs: once in every step, as wide as is charged, and never the same twice.
//!
//! Keys come from the system, so the verdicts are random: each bound is seven standard deviations.

use dither_core::{GateError, Neighbors};
use dither_noise::{JobKey, NoiseTable, Purpose};

use super::*;
use crate::{Exact, Noisy, Steps, Training};

const COORDINATES: usize = 40_000;
const STEPS: u64 = 4;
const SIGMA: f64 = 1000.0;

/// Gives sums that the test knows, and keeps the noisy ones.
#[derive(Default)]
struct Recorder {
    first: u64,
    noisy: Vec<Vec<i64>>,
    /// Steps whose noisy sums were taken.
    finished: Vec<u64>,
}

/// Step 2 has an empty sample.
fn exact(step: u64) -> i64 {
    if step == 2 { 0 } else { 100_000 * (step as i64 + 1) }
}

impl Steps for Recorder {
    fn first(&self) -> u64 {
        self.first
    }
    fn exact(&mut self, step: u64) -> Result<Exact, GateError> {
        Ok(Box::new(move |_, sums| sums.fill(exact(step))))
    }
    fn noisy(&mut self, _: u64) -> Noisy<'_> {
        self.noisy.push(vec![0; COORDINATES]);
        let all = self.noisy.last_mut().unwrap();
        Box::new(move |from, noisy| {
            let place = &mut all[from..from + noisy.len()];
            assert!(place.iter().all(|sum| *sum == 0), "taken twice");
            place.copy_from_slice(noisy);
        })
    }
    fn finish(&mut self, step: u64) -> Result<(), GateError> {
        self.finished.push(step);
        Ok(())
    }
}

fn variance() -> Ratio {
    Ratio::new((SIGMA * SIGMA) as u128, 1).unwrap()
}

fn training() -> Training<Recorder> {
    let rate = Ratio::new(1, 10).unwrap();
    let sensitivity = L2Sensitivity::from_squared(1_000_000);
    Training::new(rate, sensitivity, variance(), COORDINATES, STEPS, Neighbors::AddOrRemoveUnit).unwrap()
}

/// Noisy sums of a run, one vector for each step.
fn healthy(key: &JobKey) -> Vec<Vec<i64>> {
    let mut recorder = Recorder::default();
    assert_eq!(training().run(&mut recorder, key).unwrap(), STEPS);
    assert_eq!(recorder.finished, (0..STEPS).collect::<Vec<_>>());
    recorder.noisy
}

/// What goes wrong in a run that is not ours.
#[derive(Clone, Copy, Debug)]
enum Bug {
    Off,
    Halved,
    /// Divided by the size of a batch once more.
    OnTheMean,
    /// None for a sample without a unit.
    EmptySkipped,
    /// For every one of four physical batches.
    PerBatch,
    /// One stream for all steps.
    StreamReused,
    /// One stream for all layers.
    LayersAlike,
}

fn broken(bug: Bug, key: &JobKey) -> Vec<Vec<i64>> {
    let table = NoiseTable::gaussian(variance()).unwrap();
    let draw = |step: u64, part: u64| {
        let mut noise = vec![0; COORDINATES];
        table.fill(&mut key.stream(Purpose::Noise, step, part), &mut noise).unwrap();
        noise
    };
    let noise = |step: u64| match bug {
        Bug::Off => vec![0; COORDINATES],
        Bug::Halved => draw(step, 0).iter().map(|noise| noise / 2).collect(),
        Bug::OnTheMean => draw(step, 0).iter().map(|noise| noise / 64).collect(),
        Bug::EmptySkipped if exact(step) == 0 => vec![0; COORDINATES],
        Bug::EmptySkipped => draw(step, 0),
        Bug::PerBatch => (0..4)
            .map(|part| draw(step, part))
            .fold(vec![0; COORDINATES], |sum, noise| sum.iter().zip(noise).map(|(sum, noise)| sum + noise).collect()),
        Bug::StreamReused => draw(0, 0),
        Bug::LayersAlike => draw(step, 0)[..COORDINATES / 2].repeat(2),
    };
    (0..STEPS).map(|step| noise(step).iter().map(|noise| noise + exact(step)).collect()).collect()
}

/// The noise of every step has the mean and the deviation it must have, and is related to no other.
fn check(noisy: &[Vec<i64>]) -> Result<(), String> {
    let count = COORDINATES as f64;
    let noise: Vec<Vec<f64>> = (0..)
        .zip(noisy)
        .map(|(step, sums)| sums.iter().map(|sum| (sum - exact(step)) as f64 / SIGMA).collect())
        .collect();
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / a.len() as f64;
    for (step, one) in noise.iter().enumerate() {
        let (mean, square) = (one.iter().sum::<f64>() / count, product(one, one));
        // The square of a normal number has variance 2.
        if mean.abs() > 7.0 / count.sqrt() || (square - 1.0).abs() > 7.0 * (2.0 / count).sqrt() {
            return Err(format!("step {step}: mean {mean}, square {square}"));
        }
        let (first, second) = one.split_at(COORDINATES / 2);
        let halves = product(first, second);
        if halves.abs() > 7.0 / (count / 2.0).sqrt() {
            return Err(format!("step {step}: its halves are related: {halves}"));
        }
        for (earlier, other) in noise[..step].iter().enumerate() {
            let related = product(one, other);
            if related.abs() > 7.0 / count.sqrt() {
                return Err(format!("steps {earlier} and {step} are related: {related}"));
            }
        }
    }
    (noise.len() as u64 == STEPS).then_some(()).ok_or_else(|| format!("{} steps", noise.len()))
}

#[test]
fn tr_02_tr_04_and_tr_11_every_step_has_its_own_noise_and_mutants_are_caught() {
    let key = JobKey::from_os().unwrap();
    assert_eq!(check(&healthy(&key)), Ok(()));
    let bugs =
        [Bug::Off, Bug::Halved, Bug::OnTheMean, Bug::EmptySkipped, Bug::PerBatch, Bug::StreamReused, Bug::LayersAlike];
    for bug in bugs {
        assert!(check(&broken(bug, &key)).is_err(), "{bug:?}");
    }
}

#[test]
fn a_run_that_goes_on_or_has_more_threads_has_the_noise_that_it_had_and_another_key_has_other_noise() {
    let key = JobKey::from_os().unwrap();
    let mut recorder = Recorder { first: 2, ..Recorder::default() };
    training().run(&mut recorder, &key).unwrap();
    assert_eq!(recorder.noisy, healthy(&key)[2..]);
    assert_ne!(healthy(&JobKey::from_os().unwrap())[0], healthy(&key)[0]);
    let mut recorder = Recorder::default();
    training().with_threads(3).run(&mut recorder, &key).unwrap();
    assert_eq!(recorder.noisy, healthy(&key));
}

#[test]
fn a_step_that_fails_ends_the_run() {
    struct Failing(usize);
    impl Steps for Failing {
        fn first(&self) -> u64 {
            0
        }
        fn exact(&mut self, step: u64) -> Result<Exact, GateError> {
            if step == 1 { Err(GateError::Failed) } else { Ok(Box::new(|_, sums| sums.fill(0))) }
        }
        fn noisy(&mut self, _: u64) -> Noisy<'_> {
            Box::new(|_, noisy| self.0 += noisy.len())
        }
        fn finish(&mut self, _: u64) -> Result<(), GateError> {
            Ok(())
        }
    }
    let (rate, sensitivity) = (Ratio::new(1, 1).unwrap(), L2Sensitivity::from_squared(1));
    let training = Training::new(rate, sensitivity, variance(), 3, 5, Neighbors::AddOrRemoveUnit).unwrap();
    let mut failing = Failing(0);
    assert_eq!(training.run(&mut failing, &JobKey::from_os().unwrap()), Err(GateError::Failed));
    assert_eq!(failing.0, 3);
}
