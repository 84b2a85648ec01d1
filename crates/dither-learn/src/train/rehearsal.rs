//! Made-up rows, before the charge: what does not fit is found out on them, and how long a step takes.
//!
//! # Privacy
//! No row of a table is read here, and what is measured follows from the job and the machine alone.

use std::error::Error;
use std::time::Instant;

use dither_accounting::Composition;
use dither_core::{Budget, Epsilon};
use dither_ledger::{Ledger, LedgerError, ScopeLimit, ScopePath};

use crate::model::{Batch, Clipping, Inputs, Layer, Model, Targets};
use crate::nn::squared;
use crate::train::error::TrainError;
use crate::train::job::Job;
use crate::train::key::{JobFile, unusable};
use crate::train::load::{Data, Feature, Label, Source};
use crate::train::optimizer::Schedule;
use crate::train::plan::DpPlan;
use crate::train::trainer::{Progress, Run};

/// How long a batch takes at most by which the time of a unit is measured, in seconds; one unit may take longer.
const LONGEST: f64 = 2.0;
/// How many steps without a unit are timed. The first one makes tables and asks for memory.
const EMPTY_STEPS: usize = 3;

/// Has the model clip the gradient of a made-up row, so that a model that does not fit the table is found out before the
/// charge.
pub(crate) fn rehearse(
    job: &Job,
    plan: &DpPlan,
    model: &mut dyn Model,
    shape: (usize, usize),
) -> Result<(), TrainError> {
    let batch = made_up(job, shape, 1, 1);
    let mut sum = vec![0.0; plan.weights()];
    let seen = model.add_clipped(&batch, &plan.clipping(), &mut sum).map_err(wrong)?;
    let untold = plan.adaptive().is_some() && seen.norms.is_empty();
    if untold || seen.not_finite > 0 || plan.lattice().check(squared(&sum), (1, plan.norm())).is_err() {
        return Err(wrong("it does not clip the gradient of a made-up row"));
    }
    let still = unmoved(model, &batch, &plan.clipping(), &sum).map_err(wrong)?;
    still.map_or(Ok(()), |name| Err(wrong(format!("{name} has no gradient, so noise alone would move it"))))
}

fn wrong(problem: impl ToString) -> TrainError {
    TrainError::field("model", problem.to_string(), "make its inputs and outputs those of `data`")
}

/// A batch of so many units with so many rows each, as long as rows can be.
fn made_up(job: &Job, (inputs, outputs): (usize, usize), units: usize, rows: usize) -> Batch {
    let count = units * rows;
    let last = (outputs.max(1) - 1) as u32;
    let label = |label: &Label| match label {
        Label::Class { .. } => Targets::Classes(vec![last; count]),
        Label::Number { .. } => Targets::Numbers(vec![0.5; count]),
    };
    let numbers = || Inputs::Numbers { values: vec![0.5; count * inputs], width: inputs };
    let (inputs, targets) = match &job.data {
        Data::Table { label: kind, .. } => (numbers(), label(kind)),
        Data::Images { .. } => (numbers(), Targets::Classes(vec![last; count])),
        Data::Text { length, label: kind, .. } => {
            // All different where there are enough: attention to the same thing everywhere has no gradient.
            let text = (0..*length).map(|place| last_of(inputs, place));
            let ids = std::iter::repeat_n(text, count).flatten().collect();
            let targets = kind.as_ref().map_or(Targets::NextToken, label);
            (Inputs::Tokens { ids, length: *length, lengths: vec![*length; count] }, targets)
        }
    };
    Batch { inputs, targets, offsets: (0..=units).map(|unit| unit * rows).collect() }
}

/// The token as many places before the last one.
fn last_of(count: usize, place: usize) -> u32 {
    let count = count.max(1);
    (count - 1 - place % count) as u32
}

/// An adapter that a made-up row does not move. The second half of one starts with zeros, so that the first has a gradient
/// only after a step; the weights are put back after it.
fn unmoved(
    model: &mut dyn Model,
    batch: &Batch,
    clipping: &Clipping,
    first: &[f32],
) -> Result<Option<String>, Box<dyn Error + Send + Sync>> {
    let adapters: Vec<Layer> = model.layers().iter().filter(|layer| layer.name.contains(".lora_")).cloned().collect();
    if adapters.is_empty() {
        return Ok(None);
    }
    let weights = model.trainable().to_vec();
    model.trainable_mut().iter_mut().zip(first).for_each(|(weight, g)| *weight -= g);
    let mut second = vec![0.0; weights.len()];
    let seen = model.add_clipped(batch, clipping, &mut second);
    model.trainable_mut().copy_from_slice(&weights);
    seen?;
    let zero = |layer: &&Layer| {
        let length = layer.shape.iter().product::<usize>();
        second[layer.start..layer.start + length].iter().all(|g| *g == 0.0)
    };
    Ok(adapters.iter().find(zero).map(|layer| layer.name.clone()))
}

/// How long the clipped gradient of a unit takes on one thread, in seconds.
pub(crate) fn seconds_of_unit(
    job: &Job,
    plan: &DpPlan,
    model: &dyn Model,
    shape: (usize, usize),
    physical: usize,
) -> Result<f64, TrainError> {
    let mut sum = vec![0.0; plan.weights()];
    let mut seconds = |units: usize| -> Result<f64, TrainError> {
        let batch = made_up(job, shape, units, plan.rows_per_unit() as usize);
        let begin = Instant::now();
        model.add_clipped(&batch, &plan.clipping(), &mut sum).map_err(wrong)?;
        Ok(begin.elapsed().as_secs_f64() / units as f64)
    };
    // The first one asks for memory.
    seconds(1)?;
    let one = seconds(1)?;
    let units = ((LONGEST / one.max(1e-9)) as usize).min(physical);
    if units > 1 { seconds(units) } else { Ok(one) }
}

/// How long a step takes whose sample is empty, noise and all: a run without a table, in a ledger that is thrown away. The
/// weights are put back.
pub(crate) async fn seconds_of_empty_step(
    plan: &DpPlan,
    schedule: Schedule,
    model: &mut dyn Model,
    threads: usize,
) -> Result<f64, TrainError> {
    let place = tempfile::tempdir().map_err(|error| unusable(&std::env::temp_dir(), error))?;
    let table = place.path().join("empty.csv");
    std::fs::write(&table, "x,y\n").map_err(|error| unusable(&table, error))?;
    let label = Label::Class { column: "y".into(), classes: vec!["a".into()] };
    let features = vec![Feature::Category { column: "x".into(), values: vec!["a".into()] }];
    let data = Data::Table { file: table, delimiter: ',', columns: None, features, label };
    let source = Source::open(&data, place.path(), None)?;
    let path = place.path().join("ledger.db");
    let ledger = Ledger::open(&path).await?;
    let mut job = JobFile::open(&path, "empty")?;
    let scope: ScopePath = "empty".parse().map_err(|_| TrainError::Job("no scope".into()))?;
    let limit = ScopeLimit {
        path: scope.clone(),
        budget: Budget { epsilon: Epsilon::MAX, delta: plan.delta() },
        composition: Composition::Basic,
        protects: Default::default(),
    };
    let weights = model.trainable().to_vec();
    let mut times = vec![Instant::now()];
    let run = Run {
        model: &mut *model,
        plan,
        schedule,
        description: "",
        physical: 1,
        threads,
        source: &source,
        job: &mut job,
        ledger: &ledger,
        scope,
        limits: &[limit],
        checkpoint: place.path().join("checkpoint"),
        every: u64::MAX,
        operator: false,
    };
    let mut watch = |_: Progress<'_>| {
        times.push(Instant::now());
        times.len() <= EMPTY_STEPS
    };
    let ended = run.train(&mut watch).await;
    ledger.close().await;
    model.trainable_mut().copy_from_slice(&weights);
    match ended {
        // What no ledger admits takes no time.
        Ok(_) | Err(TrainError::Stopped { .. } | TrainError::Ledger(LedgerError::Refused { .. })) => {}
        Err(error) => return Err(error),
    }
    // All but the first, which began with the charge, where there is another one.
    let steps = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64());
    Ok(steps.skip(1).reduce(f64::min).unwrap_or(0.0))
}
