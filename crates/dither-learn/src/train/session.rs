//! A job from its file to a model in a folder.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dither_ledger::{Ledger, LedgerError};

use crate::model::Model;
use crate::train::card;
use crate::train::error::TrainError;
use crate::train::evaluation::{Accuracy, Place, evaluate};
use crate::train::files::PublicFiles;
use crate::train::folder::{CARD, WORDS, describe};
use crate::train::forecast::Amounts;
use crate::train::job::{Job, MOST_PHYSICAL};
use crate::train::key::{JobFile, unusable};
use crate::train::load::{Data, Source, Vocabulary};
use crate::train::memory::{self, Memory};
use crate::train::plan::DpPlan;
use crate::train::reader::Reader;
use crate::train::rehearsal::{rehearse, seconds_of_empty_step, seconds_of_unit};
use crate::train::trainable::Trainable;
use crate::train::trainer::{Progress, Run, Trained};

/// One job: planned, and then trained.
pub struct TrainingSession {
    job: Job,
    base: PathBuf,
    plan: DpPlan,
    model: Trainable,
    /// Inputs and outputs of the model.
    shape: (usize, usize),
    memory: Memory,
    files: PublicFiles,
    vocabulary: Option<Arc<Vocabulary>>,
    accuracy: Option<Accuracy>,
    left: Option<Amounts>,
    reader: Option<Reader>,
}

impl TrainingSession {
    /// Reads a job and plans it. Nothing is charged, no row is read; where the goal is an ε, this takes seconds.
    ///
    /// # Errors
    /// What the job says that cannot be.
    pub fn open(path: &Path) -> Result<Self, TrainError> {
        Self::open_with(path, None)
    }

    /// The same, with tables of one more format.
    ///
    /// # Errors
    /// What the job says that cannot be.
    pub fn open_with(path: &Path, reader: Option<Reader>) -> Result<Self, TrainError> {
        Self::new(Job::load(path)?, path.parent().unwrap_or(Path::new("")), reader)
    }

    /// Plans a job whose paths are relative to a folder.
    ///
    /// # Errors
    /// As [`TrainingSession::open`].
    pub fn new(mut job: Job, base: &Path, reader: Option<Reader>) -> Result<Self, TrainError> {
        job.check()?;
        let base = base.to_owned();
        let mut files = PublicFiles::default();
        let shape = job.shape_among(&mut files, &base)?;
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        // A job goes on with the batches that it was begun with, whatever the limit of memory is now.
        let begun = if job.training.physical.is_none() { begun(&job, &base) } else { None };
        let memory = memory::settle(&job, begun, shape, threads)?;
        // From here on it is part of what the job is.
        job.training.physical = Some(memory.physical);
        let mut model = Trainable::new(&job, &base, &mut files, shape)?;
        let vocabulary = files.vocabulary(&job.data, &base)?;
        files.forget_bytes();
        let plan = DpPlan::new(&job.plan_request()?, model.model().trainable().len())?;
        rehearse(&job, &plan, model.model(), shape)?;
        Ok(Self { job, base, plan, model, shape, memory, files, vocabulary, accuracy: None, left: None, reader })
    }

    /// Has at most so many threads work instead of as many as there are cores. The model is the same, bit by bit.
    pub fn limit_threads(&mut self, threads: NonZero<usize>) {
        self.memory.threads = self.memory.threads.min(threads.get());
    }

    /// The plan.
    pub fn plan(&self) -> &DpPlan {
        &self.plan
    }

    /// The job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// About how much memory it takes, with the units and threads that work at once.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The model; its weights are those it begins with until [`TrainingSession::train`] has returned.
    pub fn model(&mut self) -> &mut dyn Model {
        self.model.model()
    }

    /// How often the model was right, if the job says that it is measured and it was trained.
    pub fn accuracy(&self) -> Option<&Accuracy> {
        self.accuracy.as_ref()
    }

    /// What was left of the budget, in the tightest scope, when it had been trained.
    pub fn left(&self) -> Option<Amounts> {
        self.left
    }

    /// Where the model goes.
    pub fn folder(&self) -> PathBuf {
        self.base.join(&self.job.output.folder)
    }

    pub(crate) fn checkpoint(&self) -> PathBuf {
        self.folder().join("checkpoint")
    }

    pub(crate) fn ledger_path(&self) -> PathBuf {
        self.base.join(&self.job.ledger.file)
    }

    /// What the result depends on besides plan and schedule, in words that do not change.
    pub(crate) fn description(&self) -> Result<String, TrainError> {
        let mut text = serde_json::to_string(&self.job).map_err(|error| TrainError::Job(error.to_string()))?;
        text.push_str(self.model.digest());
        text.push_str(self.vocabulary.as_deref().map_or("", Vocabulary::digest));
        Ok(text)
    }

    /// How long the gradient of a unit takes on one thread, and a step without a unit.
    pub(crate) async fn timed(&mut self) -> Result<(f64, f64), TrainError> {
        let Memory { physical, threads, .. } = self.memory;
        let unit = seconds_of_unit(&self.job, &self.plan, self.model.model(), self.shape, physical)?;
        let schedule = self.job.schedule();
        Ok((unit, seconds_of_empty_step(&self.plan, schedule, self.model.model(), threads).await?))
    }

    /// The plan in words, with its warnings.
    ///
    /// # Errors
    /// What has no price.
    pub fn summary(&self) -> Result<String, TrainError> {
        let (plan, price) = (&self.plan, self.plan.price()?);
        let amount = |nanos: Option<u64>| nanos.map_or("none".into(), card::rounded_up);
        let mut text = format!(
            "{} weights, {} steps, {:.1} units in a sample on average, in {} parts\n\
             noise multiplier {:.5}, clipping norm {}, divisor {}\n\
             the noise of a step is {:.3} times as long as the longest sum can be\n\
             ε {} at δ {:e}, for {}: PLD {}, RDP {}\n",
            plan.weights(),
            plan.steps(),
            plan.expected_units(),
            plan.parts(),
            plan.noise_multiplier(),
            card::clipping_norm(plan),
            plan.divisor(),
            plan.noise_to_signal(),
            card::rounded_up(price.best),
            plan.delta().as_f64(),
            card::neighbors(plan.neighbors()),
            amount(price.basic),
            amount(price.rdp),
        );
        if let Some(part) = &self.job.evaluation {
            text.push_str(&format!(
                "evaluation: a further ε {} for noisy counts of right and wrong rows\n",
                part.epsilon
            ));
        }
        plan.warnings().iter().for_each(|warning| text.push_str(&format!("warning: {warning}\n")));
        Ok(text)
    }

    /// Charges the job and trains: `model.safetensors`, `card.md`, `card.json` and the checkpoint in its folder.
    ///
    /// A job that was begun goes on only with `resume`, and one that was not begins only without: nothing is charged anew
    /// by a slip.
    ///
    /// # Errors
    /// As [`Run::train`]; a file that cannot be written leaves the charge, and resuming is free.
    ///
    /// # Privacy
    /// As [`Run::train`]. With `operator`, what is watched is private.
    pub async fn train(
        &mut self,
        resume: bool,
        operator: bool,
        watch: &mut dyn FnMut(Progress<'_>) -> bool,
    ) -> Result<Trained, TrainError> {
        let (ledger_path, name) = (self.ledger_path(), self.job.name());
        match (JobFile::exists(&ledger_path, &name), resume) {
            (true, false) => {
                let hint = "add --resume to go on for free, or give it another `run` name to charge it anew";
                return Err(TrainError::field("run", "this job was begun before", hint));
            }
            (false, true) => {
                let hint = "check the file of the job; without --resume it is charged as a new run";
                return Err(TrainError::field("run", "there is no such job to resume", hint));
            }
            _ => {}
        }
        let unit = self.job.unit.column.as_deref();
        let files = &mut self.files;
        let mut open = |data: &Data| Source::open_among(files, data, &self.base, unit, self.reader);
        let source = open(&self.job.data)?;
        let measured = self.job.evaluation.as_ref().map(|part| open(&part.data)).transpose()?;
        let (folder, checkpoint) = (self.folder(), self.checkpoint());
        std::fs::create_dir_all(&folder).map_err(|error| unusable(&folder, error))?;
        let limits = self.job.limits();
        let description = self.description()?;
        let ledger = Ledger::open(&ledger_path).await?;
        let mut key = match JobFile::open(&ledger_path, &name) {
            Ok(key) => key,
            Err(error) => {
                ledger.close().await;
                return Err(error);
            }
        };
        let run = Run {
            model: self.model.model(),
            plan: &self.plan,
            schedule: self.job.schedule(),
            description: &description,
            physical: self.memory.physical,
            threads: self.memory.threads,
            source: &source,
            job: &mut key,
            ledger: &ledger,
            scope: self.job.ledger.scope.clone(),
            limits: &limits,
            checkpoint,
            every: self.job.training.checkpoint_every.get(),
            operator,
        };
        let trained = run.train(watch).await;
        if let (Ok(_), Some(part), Some(source)) = (&trained, &self.job.evaluation, &measured) {
            let place = Place {
                ledger: &ledger,
                scope: self.job.ledger.scope.clone(),
                limits: &limits,
                rows_per_unit: self.plan.rows_per_unit(),
                distance: self.plan.neighbors().distance(),
            };
            let accuracy = evaluate(self.model.model(), part, source, &key, place).await;
            if let Err(error) = accuracy.map(|accuracy| self.accuracy = Some(accuracy)) {
                ledger.close().await;
                return Err(error);
            }
        }
        if trained.is_ok() {
            self.left = Some(ledger.remaining(&self.job.ledger.scope).await?.into());
        }
        ledger.close().await;
        if let (Err(TrainError::Ledger(LedgerError::Refused { .. }) | TrainError::Field { .. }), false) =
            (&trained, resume)
        {
            // Nothing was charged, and the key was used for nothing: the job was not begun.
            key.remove()?;
        }
        let trained = trained?;
        let receipt = format!("{}:{}", trained.receipt.sequence, trained.receipt.head);
        let (file, beside) = self.model.write(&folder, &receipt)?;
        let accuracy = self.accuracy.as_ref();
        let mut json = card::json(&self.plan, &trained, accuracy)?;
        let mut words = card::markdown(&self.plan, &trained, accuracy)?;
        describe(&mut json, &mut words, &self.model.form(), &file, beside)?;
        for (name, text) in [(WORDS, words), (CARD, format!("{json:#}\n"))] {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(|error| unusable(&path, error))?;
        }
        Ok(trained)
    }
}

/// How many units at once a job was begun with that leaves it open.
fn begun(job: &Job, base: &Path) -> Option<usize> {
    let mut job = job.clone();
    (1..=MOST_PHYSICAL).find(|physical| {
        job.training.physical = Some(*physical);
        JobFile::exists(&base.join(&job.ledger.file), &job.name())
    })
}
