//! Tests of training by the number of the attack they stage. False-alarm rate 1e-9 per test unless it says otherwise.

mod adaptive;
mod audit;
mod bounds;
mod counted;
mod data;
mod evaluation;
mod folder;
mod inversion;
mod mutants;
mod noise;
mod parts;
mod plan;
mod resume;
mod sampler;
mod session;
mod sweep;
mod text;

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use dither_accounting::Composition;
use dither_core::{Budget, Neighbors, PrivacyUnit};
use dither_ledger::{Ledger, Record, ScopeLimit};
use dither_noise::{JobKey, hazmat};

use crate::model::{Batch, Clipping, Inputs, Layer, Model, Observed};
use crate::train::data::{Rows, Table};
use crate::train::error::TrainError;
use crate::train::key::JobFile;
use crate::train::linear::Linear;
use crate::train::load::{Data, Feature, Label, Source};
use crate::train::optimizer::{Method, Schedule};
use crate::train::plan::{DpPlan, NoiseGoal, PlanRequest, SampleGoal};
use crate::train::trainer::{Progress, Run, Trained};

/// A key that tests know.
fn known_key(seed: u8) -> JobKey {
    hazmat::restore_key([seed; 32])
}

/// One run in a folder: a table, a ledger, a key, a checkpoint.
struct Setup {
    folder: PathBuf,
    request: PlanRequest,
    schedule: Schedule,
    data: Data,
    unit: Option<String>,
    physical: usize,
    threads: usize,
    every: u64,
    operator: bool,
    budget: &'static str,
    /// The name of the key file.
    job: &'static str,
}

impl Setup {
    /// Plain gradient descent with a learning rate of one, so that weights are minus the sum of noisy means.
    fn new(folder: &Path, steps: u64) -> Self {
        Self {
            folder: folder.to_owned(),
            request: PlanRequest {
                unit: PrivacyUnit::Row,
                neighbors: Neighbors::AddOrRemoveUnit,
                units: Some(200),
                rows_per_unit: 1,
                several_positions: false,
                sample: SampleGoal::Rate(0.25),
                steps,
                clipping: Clipping::Flat { bound: 1.0 },
                adaptive: None,
                noise: NoiseGoal::Multiplier(1.0),
                delta: "1e-4".parse().unwrap(),
                divisor: None,
            },
            schedule: Schedule {
                method: Method::Sgd { momentum: 0.0 },
                learning_rate: 1.0,
                warmup_steps: 0,
                cosine: false,
                average: None,
            },
            data: Data::Table {
                file: "table.csv".into(),
                delimiter: ',',
                columns: None,
                features: vec![Feature::Number { column: "x".into(), lower: -1.0, upper: 1.0, missing: None }],
                label: Label::Class { column: "y".into(), classes: vec!["a".into(), "b".into()] },
            },
            unit: None,
            physical: 8,
            threads: 2,
            every: 3,
            operator: false,
            budget: "1000",
            job: "job",
        }
    }

    /// A table whose label follows from its one feature.
    fn with_rows(self, rows: usize) -> Self {
        let mut text = "x,y\n".to_owned();
        for row in 0..rows {
            let x = (row as f64 * 0.37).sin();
            writeln!(text, "{x},{}", if x > 0.2 { "a" } else { "b" }).unwrap();
        }
        self.with_table(&text)
    }

    fn with_table(self, text: &str) -> Self {
        std::fs::write(self.folder.join("table.csv"), text).unwrap();
        self
    }

    fn ledger(&self) -> PathBuf {
        self.folder.join("ledger.db")
    }

    fn checkpoint(&self) -> PathBuf {
        self.folder.join("checkpoint")
    }

    /// Gives the job a key that is known.
    fn with_key(self, seed: u8) -> Self {
        let folder = self.folder.join("ledger.db.jobs");
        std::fs::create_dir_all(&folder).unwrap();
        let hex = format!("{seed:02x}").repeat(32);
        std::fs::write(folder.join("job.json"), format!(r#"{{"version":1,"key":"{hex}","table":null}}"#)).unwrap();
        self
    }

    async fn run(
        &self,
        model: &mut impl Model,
        watch: &mut dyn FnMut(Progress<'_>) -> bool,
    ) -> Result<Trained, TrainError> {
        let plan = DpPlan::new(&self.request, model.trainable().len())?;
        let source = Source::open(&self.data, &self.folder, self.unit.as_deref())?;
        let mut job = JobFile::open(&self.ledger(), self.job)?;
        let ledger = Ledger::open(&self.ledger()).await?;
        let limit = ScopeLimit {
            path: "data".parse().unwrap(),
            budget: Budget { epsilon: self.budget.parse().unwrap(), delta: "0.01".parse().unwrap() },
            composition: Composition::Basic,
            protects: Default::default(),
        };
        let run = Run {
            model,
            plan: &plan,
            schedule: self.schedule,
            description: "test",
            physical: self.physical,
            threads: self.threads,
            source: &source,
            job: &mut job,
            ledger: &ledger,
            scope: "data".parse().unwrap(),
            limits: &[limit],
            checkpoint: self.checkpoint(),
            every: self.every,
            operator: self.operator,
        };
        let trained = run.train(watch).await;
        ledger.close().await;
        trained
    }

    /// The weights that linear training ends with.
    async fn trained(&self) -> Vec<f32> {
        let mut model = Linear::new(1, 2).unwrap();
        self.run(&mut model, &mut |_| true).await.unwrap();
        model.trainable().to_vec()
    }

    /// How many runs were charged.
    async fn charges(&self) -> usize {
        let ledger = Ledger::open(&self.ledger()).await.unwrap();
        ledger.verify(None).await.unwrap();
        let entries = ledger.entries(0, u32::MAX).await.unwrap();
        ledger.close().await;
        entries.iter().filter(|entry| matches!(entry.record, Record::Charge(_))).count()
    }
}

/// A model whose gradient is what the test says, whatever its weights are.
struct Scripted<F> {
    weights: Vec<f32>,
    layers: Vec<Layer>,
    /// Adds the clipped gradient of each sample.
    add: std::sync::Mutex<F>,
}

impl<F: FnMut(&Batch, &mut [f32]) + Send> Scripted<F> {
    fn new(weights: usize, add: F) -> Self {
        let layers = vec![Layer { name: "weights".into(), shape: vec![weights], start: 0 }];
        Self { weights: vec![0.0; weights], layers, add: add.into() }
    }
}

impl<F: FnMut(&Batch, &mut [f32]) + Send> Model for Scripted<F> {
    fn trainable(&self) -> &[f32] {
        &self.weights
    }
    fn trainable_mut(&mut self) -> &mut [f32] {
        &mut self.weights
    }
    fn layers(&self) -> &[Layer] {
        &self.layers
    }
    fn add_clipped(
        &self,
        batch: &Batch,
        _: &Clipping,
        sum: &mut [f32],
    ) -> Result<Observed, Box<dyn Error + Send + Sync>> {
        (self.add.lock().unwrap())(batch, sum);
        // Of rows of one number, that is the norm.
        let norms = match &batch.inputs {
            Inputs::Numbers { values, width: 1 } => values.iter().map(|x| f64::from(x.abs())).collect(),
            _ => Vec::new(),
        };
        Ok(Observed { norms, ..Observed::default() })
    }
    fn add_gradients(&self, _: &Batch, _: &mut [f32]) -> Result<Observed, Box<dyn Error + Send + Sync>> {
        Err("not for tests".into())
    }
    fn predict(&self, _: &Inputs) -> Result<Vec<f32>, Box<dyn Error + Send + Sync>> {
        Err("not for tests".into())
    }
}
