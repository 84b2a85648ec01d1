//! A run: charge, then look; sample, clip, add up, add noise, step.

use std::path::{Path, PathBuf};

use dither_core::{GateError, Measurement, Receipt, RequestId, Sensitive};
use dither_ledger::{ChargeRequest, Ledger, Outcome, ScopeLimit, ScopePath};
use dither_mechanisms::Steps;
use serde::{Deserialize, Serialize};

use crate::model::{Clipping, Model, Observed};
use crate::nn::give_back;
use crate::train::checkpoint::{self, Header};
use crate::train::data::Table;
use crate::train::error::TrainError;
use crate::train::key::JobFile;
use crate::train::load::Source;
use crate::train::mutant::{Mutant, is};
use crate::train::optimizer::{Optimizer, Schedule};
use crate::train::plan::DpPlan;
use crate::train::sampler::Sampler;
use crate::train::sums::Adder;

/// Everything that a run is made of. What its result depends on besides the table is part of the name it is charged under.
pub struct Run<'run, M: ?Sized> {
    /// The model, with the weights that it begins with.
    pub model: &'run mut M,
    /// What the guarantee depends on.
    pub plan: &'run DpPlan,
    /// From noisy gradients to weights.
    pub schedule: Schedule,
    /// What else the result depends on, such as the shape of the model, in words that do not change.
    pub description: &'run str,
    /// How many units are handed to the model at once, at most.
    pub physical: usize,
    /// How many threads work, at most. The result does not depend on it.
    pub threads: usize,
    /// The table, with nothing read but its header.
    pub source: &'run Source,
    /// The key.
    pub job: &'run mut JobFile,
    /// Where the run is charged.
    pub ledger: &'run Ledger,
    /// In which scope.
    pub scope: ScopePath,
    /// The limits that are declared with the charge.
    pub limits: &'run [ScopeLimit],
    /// Where checkpoints lie.
    pub checkpoint: PathBuf,
    /// After how many steps one is written; after the last one always.
    pub every: u64,
    /// Whether the one who watches may see what is private: losses, norms, sizes of samples.
    pub operator: bool,
}

/// How far a run has come.
pub struct Progress<'a> {
    /// How many steps have been executed.
    pub executed: u64,
    /// How many are planned.
    pub planned: u64,
    /// The clipping norm of the step.
    pub bound: f64,
    /// What was seen on the way; nothing unless the run is watched by an operator.
    pub observed: Option<&'a Observed>,
}

/// What a run ends with; the ledger keeps it as the answer to the charge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// How many steps were executed.
    pub executed: u64,
    /// SHA-256 of the weights.
    pub weights: String,
}

/// A run that has ended well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trained {
    /// What the ledger keeps.
    pub finished: Finished,
    /// The charge.
    pub receipt: Receipt,
    /// Whether it had ended before, so that nothing was executed now.
    pub repeated: bool,
    /// Whether it had been charged before, so that nothing was charged now.
    pub charged_before: bool,
}

/// The name under which a run is charged: plan, schedule, description, and the public name of the key.
pub(crate) fn request(
    scope: &ScopePath,
    plan: &DpPlan,
    schedule: &Schedule,
    description: &str,
    physical: usize,
    job: &JobFile,
) -> Result<RequestId, TrainError> {
    let schedule = serde_json::to_string(schedule).map_err(|error| TrainError::Job(error.to_string()))?;
    // Other physical batches round sums of floats differently: the same noise must not be added to two of them.
    let (plan, physical) = (plan.json(), physical.to_string());
    let parts = ["dither training 6", scope.as_str(), &plan, &schedule, description, &physical].map(str::as_bytes);
    Ok(RequestId::digest(parts.into_iter().chain([job.key().name().as_slice()])))
}

/// Refuses the place of a checkpoint for a run that was never charged: what lies there is of another run.
pub(crate) fn unused(checkpoint: &Path) -> Result<(), TrainError> {
    if !checkpoint.exists() {
        return Ok(());
    }
    let problem = format!("another run has its checkpoint {} there", checkpoint.display());
    Err(TrainError::field("output.folder", problem, "choose another `output.folder`"))
}

impl<M: Model + ?Sized> Run<'_, M> {
    /// Charges the whole run, then trains: from the beginning, or from a checkpoint if there is one.
    ///
    /// The charge is durable before a row is read. A run that was charged is not charged again: killed at any point and
    /// started again, it goes on with the samples and the noise that it had, and ends with the same weights, bit by bit. A
    /// run that has ended gives its weights again. `watch` is called after every step and may stop the run by `false`: then
    /// a checkpoint is written.
    ///
    /// # Errors
    /// A ledger that refuses, a plan of another model, and a checkpoint of another run cost nothing. After the charge:
    /// [`TrainError::Table`], [`TrainError::TableChanged`], [`TrainError::Checkpoint`], [`TrainError::Stopped`],
    /// [`TrainError::Ended`]. The charge stands, for all steps: steps that were not executed are not refunded.
    ///
    /// # Privacy
    /// The weights, and all weights on the way, are as private as [`DpPlan::event`] says, for the neighbours and the unit of
    /// the plan, if the model keeps what [`Model::add_clipped`] promises. What an operator watches is not private.
    pub async fn train(self, watch: &mut dyn FnMut(Progress<'_>) -> bool) -> Result<Trained, TrainError> {
        if self.model.trainable().len() != self.plan.weights() {
            return Err(TrainError::field("model", "the plan is for another model", "plan with the weights it has"));
        }
        if let Clipping::PerLayer { bounds } = self.plan.clipping()
            && bounds.len() != self.model.layers().len()
        {
            let hint = format!("the model has {} trainable layers", self.model.layers().len());
            return Err(TrainError::field("clipping.bounds", format!("there are {}", bounds.len()), hint));
        }
        if self.physical == 0 || self.every == 0 {
            return Err(TrainError::field("physical", "0 units at a time", "use 1 or more"));
        }
        let mut optimizer = Optimizer::new(self.schedule, self.plan.steps(), self.model.trainable())?;
        let (scope, description) = (&self.scope, self.description);
        let request = request(scope, self.plan, &self.schedule, description, self.physical, self.job)?;
        self.job.bind(request)?;
        let charged_before = self.ledger.charge_of(request).await?.is_some();
        if !charged_before {
            unused(&self.checkpoint)?;
        }
        let (event, delta) = (self.plan.event().clone(), self.plan.delta());
        let label = format!("train {}", self.plan.json());
        let charge = ChargeRequest { request, key: None, scope: self.scope.clone(), event, delta, label };
        let outcome = self.ledger.charge_within(self.limits, &charge).await?;
        let (name, hash) = (request.to_string(), self.plan.hash());
        let charge = match outcome {
            Outcome::Charged(charge) => charge,
            Outcome::Answered(answer) => {
                let release = answer.decode::<Finished>()?;
                let weights = self.model.trainable_mut();
                checkpoint::read(&self.checkpoint, &name, &hash, weights, &mut optimizer)?;
                let weights = optimizer.result(weights).to_vec();
                if checkpoint::digest(&weights) != release.value().weights {
                    let problem = "does not hold the weights that the ledger knows";
                    return Err(TrainError::Checkpoint { path: self.checkpoint, problem });
                }
                self.model.trainable_mut().copy_from_slice(&weights);
                let (finished, receipt) = (release.value().clone(), release.receipt().clone());
                return Ok(Trained { finished, receipt, repeated: true, charged_before });
            }
        };
        // From here on rows may be read.
        let receipt = charge.receipt().clone();
        let mechanism = self.plan.mechanism::<&mut Trainer<'_, M>>()?.with_threads(self.threads);
        let charged = Measurement::new(mechanism, request).authorize(charge)?;
        let table = Table::new(self.source.read()?, self.plan.rows_per_unit(), self.job.key());
        self.job.recognise(table.digest())?;
        let (mut executed, mut bound) = (0, self.plan.norm());
        if self.checkpoint.exists() {
            let weights = self.model.trainable_mut();
            let header = checkpoint::read(&self.checkpoint, &name, &hash, weights, &mut optimizer)?;
            (executed, bound) = (header.executed, header.bound.unwrap_or(bound));
        }
        let mut key = self.job.of(request);
        let mut trainer = Trainer {
            sampler: Sampler::new(self.job.of(request), self.plan.rate(), self.plan.parts(), self.plan.most_in_part()),
            plan: self.plan,
            model: &mut *self.model,
            table,
            optimizer,
            physical: self.physical,
            threads: self.threads,
            executed,
            bound,
            header: Header {
                request: name,
                plan: hash,
                executed,
                charge: receipt.clone(),
                bound: None,
                lengths: [0; 4],
            },
            checkpoint: self.checkpoint,
            every: self.every,
            operator: self.operator,
            observed: Observed::default(),
            watch,
            failure: String::new(),
            stopped: false,
        };
        let sealed = charged.release(Sensitive::new(&mut trainer), &mut key);
        give_back();
        let Trainer { optimizer, failure, stopped, executed, checkpoint, .. } = trainer;
        let sealed = sealed.map_err(|_| match stopped {
            true => TrainError::Stopped { executed, planned: self.plan.steps(), checkpoint: checkpoint.clone() },
            false => TrainError::Ended { detail: failure },
        })?;
        let weights = optimizer.result(self.model.trainable()).to_vec();
        let digest = checkpoint::digest(&weights);
        let finished = sealed.map(|executed| Finished { executed, weights: digest.clone() });
        let release = self.ledger.publish(request, finished).await?;
        if release.value().weights != digest {
            let problem = "does not lead to the weights that the ledger knows";
            return Err(TrainError::Checkpoint { path: checkpoint, problem });
        }
        self.model.trainable_mut().copy_from_slice(&weights);
        Ok(Trained { finished: release.value().clone(), receipt, repeated: false, charged_before })
    }
}

/// Takes the steps of one run.
struct Trainer<'run, M: ?Sized> {
    plan: &'run DpPlan,
    model: &'run mut M,
    table: Table,
    sampler: Sampler,
    optimizer: Optimizer,
    physical: usize,
    threads: usize,
    executed: u64,
    /// The clipping norm of the step.
    bound: f64,
    header: Header,
    checkpoint: PathBuf,
    every: u64,
    operator: bool,
    observed: Observed,
    watch: &'run mut dyn FnMut(Progress<'_>) -> bool,
    failure: String,
    /// Whether the one who watches ended the run.
    stopped: bool,
}

impl<M: Model + ?Sized> Steps for Trainer<'_, M> {
    fn first(&self) -> u64 {
        self.executed
    }

    fn exact(&mut self, step: u64, sum: &mut [i64]) -> Result<(), GateError> {
        self.observed = Observed::default();
        let parts = self.sampler.sample(step, self.table.units()).map_err(|error| self.fail(error))?;
        let adder = Adder {
            model: &*self.model,
            table: &self.table,
            plan: self.plan,
            bound: self.bound,
            physical: self.physical,
            threads: self.threads,
        };
        let (gradients, count) = sum.split_at_mut(self.plan.weights());
        let (observed, counted) = adder.add(&parts, gradients).map_err(|error| self.fail(error))?;
        if let Some(count) = count.first_mut() {
            *count = self.plan.lattice().count_of(counted, parts.iter().map(Vec::len).sum());
        }
        if self.operator {
            self.observed = observed;
        }
        Ok(())
    }

    fn noisy(&mut self, step: u64, sum: &[i64]) -> Result<(), GateError> {
        let (lattice, mut divisor, bound) = (self.plan.lattice(), self.plan.divisor(), self.bound);
        if is(Mutant::DividedBySample) {
            divisor = self.sampled(step) as f64;
        }
        let (gradients, count) = sum.split_at(self.plan.weights());
        if !is(Mutant::EmptySkipped) || self.sampled(step) > 0 {
            let gradients = lattice.gradients(gradients, bound, divisor);
            self.optimizer.update(step, self.model.trainable_mut(), gradients);
        }
        if let (Some(adaptive), Some(noisy), Some(moved)) = (self.plan.adaptive(), count.first(), lattice.count()) {
            let count = *noisy as f64 / (2.0 * moved as f64);
            self.bound = adaptive.next(bound, self.plan.norm(), count, divisor);
        }
        self.executed = step + 1;
        let planned = self.plan.steps();
        if self.executed.is_multiple_of(self.every) || self.executed == planned {
            self.save().map_err(|error| self.fail(error))?;
        }
        let observed = self.operator.then_some(&self.observed);
        if (self.watch)(Progress { executed: self.executed, planned, bound, observed }) {
            return Ok(());
        }
        // What was executed is kept, so that nothing is executed twice.
        self.save().map_err(|error| self.fail(error))?;
        self.stopped = true;
        Err(GateError::Failed)
    }
}

impl<M: Model + ?Sized> Trainer<'_, M> {
    fn save(&mut self) -> Result<(), TrainError> {
        let (weights, optimizer) = (self.model.trainable(), &self.optimizer);
        self.header.executed = self.executed;
        self.header.bound = self.plan.adaptive().map(|_| self.bound);
        self.header.lengths = [weights.len(), optimizer.first.len(), optimizer.second.len(), optimizer.average.len()];
        checkpoint::write(&self.checkpoint, &self.header, weights, optimizer)
    }

    /// How many units are in the sample of a step. Only mutants make use of it: no step may depend on it.
    fn sampled(&self, step: u64) -> usize {
        self.sampler.sample(step, self.table.units()).map_or(0, |parts| parts.iter().map(Vec::len).sum())
    }

    fn fail(&mut self, error: impl ToString) -> GateError {
        self.failure = error.to_string();
        GateError::Failed
    }
}
