//! A job from its file to a model in a folder.

use std::error::Error;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use dither_ledger::{Ledger, LedgerError};
use sha2::{Digest, Sha256};

use crate::model::{Batch, Clipping, Inputs, Layer, Model, Targets};
use crate::nn::{Network, NetworkError};
use crate::train::card;
use crate::train::error::TrainError;
use crate::train::evaluation::{Accuracy, Place, evaluate};
use crate::train::folder::{CARD, Form, WEIGHTS, WORDS, describe};
use crate::train::job::{Job, ModelPart};
use crate::train::key::{JobFile, unusable};
use crate::train::linear::Linear;
use crate::train::load::{Data, Label, Source};
use crate::train::memory;
use crate::train::plan::DpPlan;
use crate::train::reader::Reader;
use crate::train::trainer::{Progress, Run, Trained};

/// One job: planned, and then trained.
pub struct TrainingSession {
    job: Job,
    base: PathBuf,
    plan: DpPlan,
    model: Trainable,
    accuracy: Option<Accuracy>,
    reader: Option<Reader>,
    threads: usize,
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
    pub fn new(job: Job, base: &Path, reader: Option<Reader>) -> Result<Self, TrainError> {
        let base = base.to_owned();
        memory::check_model(&job)?;
        let mut model = Trainable::new(&job, &base)?;
        let plan = DpPlan::new(&job.plan_request()?, model.model().trainable().len())?;
        memory::check_run(&job, plan.weights(), model.frozen())?;
        rehearse(&job, &base, &plan, model.model())?;
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        Ok(Self { job, base, plan, model, accuracy: None, reader, threads })
    }

    /// Has at most so many threads work instead of as many as there are cores. The model is the same, bit by bit.
    pub fn limit_threads(&mut self, threads: NonZero<usize>) {
        self.threads = threads.get();
    }

    /// The plan.
    pub fn plan(&self) -> &DpPlan {
        &self.plan
    }

    /// The job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The model; its weights are those it begins with until [`TrainingSession::train`] has returned.
    pub fn model(&mut self) -> &mut dyn Model {
        self.model.model()
    }

    /// How often the model was right, if the job says that it is measured and it was trained.
    pub fn accuracy(&self) -> Option<&Accuracy> {
        self.accuracy.as_ref()
    }

    /// Where the model goes.
    pub fn folder(&self) -> PathBuf {
        self.base.join(&self.job.output.folder)
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
             ε {} at δ {:e}, for {}: PLD {}, RDP {}\n",
            plan.weights(),
            plan.steps(),
            plan.units().map_or(plan.divisor(), |units| units as f64 * plan.rate().as_f64()),
            plan.parts(),
            plan.noise_multiplier(),
            card::clipping_norm(plan),
            plan.divisor(),
            card::rounded_up(price.best),
            plan.delta().as_f64(),
            card::neighbors(plan.neighbors()),
            amount(price.basic),
            amount(price.rdp),
        );
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
        let (ledger_path, name) = (self.base.join(&self.job.ledger.file), self.job.name());
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
        let open = |data: &Data| Source::open_with(data, &self.base, unit, self.reader);
        let source = open(&self.job.data)?;
        let measured = self.job.evaluation.as_ref().map(|part| open(&part.data)).transpose()?;
        let folder = self.folder();
        std::fs::create_dir_all(&folder).map_err(|error| unusable(&folder, error))?;
        let limits = self.job.limits();
        let mut description = serde_json::to_string(&self.job).map_err(|error| TrainError::Job(error.to_string()))?;
        if let Trainable::Network(_, weights) = &self.model {
            description.push_str(weights);
        }
        description.push_str(source.vocabulary());
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
            physical: self.job.training.physical,
            threads: self.threads,
            source: &source,
            job: &mut key,
            ledger: &ledger,
            scope: self.job.ledger.scope.clone(),
            limits: &limits,
            checkpoint: folder.join("checkpoint"),
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
        ledger.close().await;
        if let (Err(TrainError::Ledger(LedgerError::Refused { .. })), false) = (&trained, resume) {
            // Nothing was charged, and the key was used for nothing: the job was not begun.
            key.remove()?;
        }
        let trained = trained?;
        let receipt = format!("{}:{}", trained.receipt.sequence, trained.receipt.head);
        self.model.write(&folder, &receipt)?;
        let accuracy = self.accuracy.as_ref();
        let mut json = card::json(&self.plan, &trained, accuracy)?;
        describe(&mut json, &self.model.form(), &folder.join(WEIGHTS))?;
        let json = format!("{json:#}\n");
        for (name, text) in [(WORDS, card::markdown(&self.plan, &trained, accuracy)?), (CARD, json)] {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(|error| unusable(&path, error))?;
        }
        Ok(trained)
    }
}

/// Has the model clip the gradient of a made-up row, so that a model that does not fit the table is found out before the
/// charge.
fn rehearse(job: &Job, base: &Path, plan: &DpPlan, model: &mut dyn Model) -> Result<(), TrainError> {
    let wrong = |problem: String| TrainError::field("model", problem, "make its inputs and outputs those of `data`");
    let (inputs, outputs) = job.shape(base)?;
    let last = (outputs.max(1) - 1) as u32;
    let label = |label: &Label| match label {
        Label::Class { .. } => Targets::Classes(vec![last]),
        Label::Number { .. } => Targets::Numbers(vec![0.5]),
    };
    let numbers = || Inputs::Numbers { values: vec![0.5; inputs], width: inputs };
    let (inputs, targets) = match &job.data {
        Data::Table { label: kind, .. } => (numbers(), label(kind)),
        Data::Images { .. } => (numbers(), Targets::Classes(vec![last])),
        Data::Text { length, label: kind, .. } => {
            // All different where there are enough: attention to the same thing everywhere has no gradient.
            let ids = (0..*length).map(|place| last_of(inputs, place)).collect();
            let targets = kind.as_ref().map_or(Targets::NextToken, label);
            (Inputs::Tokens { ids, length: *length, lengths: vec![*length] }, targets)
        }
    };
    let mut sum = vec![0.0; plan.weights()];
    let batch = Batch { inputs, targets, offsets: vec![0, 1] };
    let seen = model.add_clipped(&batch, &plan.clipping(), &mut sum).map_err(|error| wrong(error.to_string()))?;
    let mut integers = vec![0; plan.weights()];
    let untold = plan.adaptive().is_some() && seen.norms.is_empty();
    if untold || seen.not_finite > 0 || plan.lattice().add(&sum, 1, plan.norm(), &mut integers).is_err() {
        return Err(wrong("it does not clip the gradient of a made-up row".into()));
    }
    let still = unmoved(model, &batch, &plan.clipping(), &sum).map_err(|error| wrong(error.to_string()))?;
    still.map_or(Ok(()), |name| Err(wrong(format!("{name} has no gradient, so noise alone would move it"))))
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

/// The model of a job.
enum Trainable {
    Linear(Linear),
    /// With the digest of the file that its first weights come from.
    Network(Box<Network>, String),
}

impl Trainable {
    fn new(job: &Job, base: &Path) -> Result<Self, TrainError> {
        let refused = |error: NetworkError| TrainError::field("model", error.to_string(), "see docs/networks.md");
        match &job.model {
            ModelPart::Linear {} if matches!(job.data, Data::Text { label: None, .. }) => {
                Err(TrainError::field("model", "a linear model has no next token", "declare a `label`"))
            }
            ModelPart::Linear {} => {
                let (inputs, outputs) = job.shape(base)?;
                Ok(Self::Linear(Linear::new(inputs, outputs)?))
            }
            ModelPart::Network { network, weights, sha256 } => {
                // First weights are public: a number that follows from the job makes them the same when it is resumed.
                let seed = u64::from_str_radix(&job.name()[..16], 16).unwrap_or_default();
                let mut network = Network::new(network, seed).map_err(refused)?;
                let mut digest = String::new();
                if let Some(file) = weights {
                    let path = base.join(file);
                    let bytes = std::fs::read(&path).map_err(|error| unusable(&path, error))?;
                    digest = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
                    if let Some(wanted) = sha256.as_ref().filter(|wanted| !wanted.eq_ignore_ascii_case(&digest)) {
                        return Err(unusable(&path, format!("its SHA-256 is {digest}, and the job says {wanted}")));
                    }
                    network.import(&bytes).map_err(|error| unusable(&path, error))?;
                }
                Ok(Self::Network(Box::new(network), digest))
            }
        }
    }

    fn model(&mut self) -> &mut dyn Model {
        match self {
            Self::Linear(linear) => linear,
            Self::Network(network, _) => network.as_mut(),
        }
    }

    /// How many weights are not trained.
    fn frozen(&self) -> usize {
        match self {
            Self::Linear(_) => 0,
            Self::Network(network, _) => network.parameters.frozen.len(),
        }
    }

    /// What it looks like, for its card.
    fn form(&self) -> Form {
        match self {
            Self::Linear(linear) => {
                let [outputs, inputs] = linear.shape();
                Form::Linear { inputs, outputs }
            }
            Self::Network(network, _) => Form::Network { network: network.description().clone() },
        }
    }

    /// Writes all weights, and adapters by themselves where there are some.
    fn write(&self, folder: &Path, receipt: &str) -> Result<(), TrainError> {
        let path = folder.join(WEIGHTS);
        let write = |path: PathBuf, bytes: &[u8]| std::fs::write(&path, bytes).map_err(|error| unusable(&path, error));
        match self {
            Self::Linear(linear) => card::write_weights(&path, linear, receipt),
            Self::Network(network, _) => {
                let bytes = network.export().map_err(|error| unusable(&path, error))?;
                write(path, &bytes)?;
                // Only a network with adapters has any to write.
                let Ok(adapters) = network.export_adapters() else { return Ok(()) };
                write(folder.join("adapter_model.safetensors"), &adapters.weights)?;
                write(folder.join("adapter_config.json"), adapters.config.as_bytes())
            }
        }
    }
}
