//! What is wanted, as a file: `dither train job.toml`.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use dither_accounting::Composition;
use dither_core::{Budget, Delta, Epsilon, Neighbors, PrivacyUnit};
use dither_ledger::{ScopeLimit, ScopePath};
use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::model::Clipping;
use crate::nn::Description;
use crate::train::adaptive::Adaptive;
use crate::train::error::TrainError;
use crate::train::files::PublicFiles;
use crate::train::load::{Data, Label};
use crate::train::optimizer::{Method, Schedule};
use crate::train::plan::{NoiseGoal, PlanRequest, SampleGoal};

/// A training run, as it is described in TOML. Unknown fields are errors.
///
/// ```
/// use dither_learn::train::job::Job;
/// let job = Job::parse(r#"
///     run = "first"
///     [ledger]
///     file = "ledger.db"
///     scope = "adult"
///     epsilon = 8
///     delta = 1e-5
///     [data]
///     kind = "table"
///     file = "adult.csv"
///     features = [{ column = "age", lower = 17, upper = 90 }, { column = "sex", values = ["Male", "Female"] }]
///     label = { column = "income", classes = ["<=50K", ">50K"] }
///     [unit]
///     count = 48842
///     [model]
///     kind = "linear"
///     [privacy]
///     epsilon = 1
///     delta = 1e-6
///     [sample]
///     units = 1024
///     [training]
///     epochs = 5
///     [clipping]
///     kind = "flat"
///     bound = 1.0
///     [optimizer]
///     kind = "sgd"
///     learning_rate = 0.5
///     [output]
///     folder = "model"
/// "#)?;
/// assert_eq!(job.plan_request()?.steps, 239);
/// # Ok::<(), dither_learn::train::error::TrainError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// A name: another one is another run with another key, and is charged again.
    #[serde(default = "first")]
    pub run: String,
    /// Whether the table is about nobody, as its steward says: only then may a sweep train on it without a charge.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub public: bool,
    /// Where the run is charged.
    pub ledger: LedgerPart,
    /// Which rows.
    pub data: Data,
    /// Who is protected.
    #[serde(default)]
    pub unit: UnitPart,
    /// What is trained.
    pub model: ModelPart,
    /// How much may be lost.
    pub privacy: PrivacyPart,
    /// How large samples are.
    pub sample: SamplePart,
    /// How long.
    pub training: TrainingPart,
    /// How gradients are clipped.
    pub clipping: ClippingPart,
    /// How weights follow from gradients.
    pub optimizer: OptimizerPart,
    /// A charged measurement of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<EvaluationPart>,
    /// Where the model goes.
    pub output: OutputPart,
}

fn first() -> String {
    "1".into()
}

/// Where a run is charged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerPart {
    /// The ledger of the people in the table: the one that questions about them are charged in.
    pub file: PathBuf,
    /// The scope, such as the name of the data set.
    pub scope: ScopePath,
    /// The limit of the scope on ε.
    pub epsilon: Epsilon,
    /// The limit of the scope on δ.
    pub delta: Delta,
    /// How charges in it add up.
    #[serde(default)]
    pub composition: Composition,
    /// The name under which the ledger knows the table; that of the scope if there is none.
    pub table: Option<String>,
}

/// Who is protected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnitPart {
    /// The column that says whose a row is; without one, each row is a unit.
    pub column: Option<String>,
    /// How many rows of a unit take part.
    #[serde(default = "one")]
    pub rows: u32,
    /// Which tables must be indistinguishable.
    #[serde(default)]
    pub neighbors: Neighbors,
    /// How many units there are; writing it makes it public.
    pub count: Option<u64>,
}

fn one() -> u32 {
    1
}

impl Default for UnitPart {
    fn default() -> Self {
        Self { column: None, rows: 1, neighbors: Neighbors::default(), count: None }
    }
}

/// What is trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ModelPart {
    /// Softmax or linear regression.
    Linear {},
    /// A network.
    Network {
        /// What it looks like.
        network: Description,
        /// Public weights that it begins with, as a file of safetensors or GGUF; what the file lacks is made from the job.
        #[serde(skip_serializing_if = "Option::is_none")]
        weights: Option<PathBuf>,
        /// SHA-256 of that file, which is refused if it has another.
        #[serde(skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
    },
}

/// How much may be lost: an ε, or the noise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrivacyPart {
    /// ε of the run; the noise is found.
    pub epsilon: Option<Epsilon>,
    /// σ over the clipping norm; ε follows.
    pub noise_multiplier: Option<f64>,
    /// δ of the run.
    pub delta: Delta,
}

/// How large samples are: a rate, or units on average.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplePart {
    /// The probability that a unit enters a sample.
    pub rate: Option<f64>,
    /// So many units on average; needs `unit.count`.
    pub units: Option<f64>,
    /// What noisy sums are divided by; the expected size of a sample if there is none.
    pub divisor: Option<f64>,
}

/// How long: steps, or so many times the table on average.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingPart {
    /// How many steps.
    pub steps: Option<u64>,
    /// How often a unit takes part on average.
    pub epochs: Option<f64>,
    /// How many units are handed to the model at once: 32, up to 64 where they take less memory than a sum of gradients, or as
    /// many as fit into `memory` if those are fewer.
    #[serde(default, serialize_with = "or_usual")]
    pub physical: Option<usize>,
    /// After how many steps a checkpoint is written.
    #[serde(default = "hundred")]
    pub checkpoint_every: NonZeroU64,
    /// How much memory model and batches may take, such as `2GB`. It is no part of what the job is.
    #[serde(default, skip_serializing)]
    pub memory: Option<String>,
}

/// How many units are handed to a model at once where nothing speaks against it.
pub(crate) const USUAL_PHYSICAL: usize = 32;
/// The same where they take less memory than a sum of gradients, of which every batch makes one.
pub(crate) const MOST_PHYSICAL: usize = 64;

fn or_usual<S: Serializer>(physical: &Option<usize>, serializer: S) -> Result<S::Ok, S::Error> {
    physical.unwrap_or(USUAL_PHYSICAL).serialize(serializer)
}
fn hundred() -> NonZeroU64 {
    NonZeroU64::MIN.saturating_add(99)
}

fn half() -> f64 {
    0.5
}
fn fifth() -> f64 {
    0.2
}

/// How gradients are clipped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ClippingPart {
    /// All layers together.
    Flat {
        /// The largest norm.
        bound: f64,
    },
    /// Each layer by itself.
    PerLayer {
        /// The largest norm of each.
        bounds: Vec<f64>,
    },
    /// Every gradient to nearly this norm.
    Automatic {
        /// The norm.
        bound: f64,
    },
    /// All layers together, to a norm that follows a quantile of the norms of gradients.
    Adaptive {
        /// The norm of the first step.
        bound: f64,
        /// The share of gradients that should not be clipped.
        #[serde(default = "half")]
        quantile: f64,
        /// How fast the norm moves.
        #[serde(default = "fifth")]
        learning_rate: f64,
        /// The deviation of the noise on the number of units that are not clipped; about a twentieth of a sample.
        count_noise: f64,
    },
}

/// How weights follow from gradients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OptimizerPart {
    /// The method, with its parameters.
    #[serde(flatten)]
    pub method: Method,
    /// The largest learning rate.
    pub learning_rate: f64,
    /// How many steps it rises in.
    #[serde(default)]
    pub warmup_steps: u64,
    /// Whether it falls to zero afterwards.
    #[serde(default)]
    pub cosine: bool,
    /// How much of the average of weights is kept in a step.
    pub average: Option<f64>,
}

/// How often the model is right on a table, with a charge of its own in the same scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvaluationPart {
    /// ε of the measurement; its δ is zero.
    pub epsilon: Epsilon,
    /// The rows, of people of the same kind as those of the run.
    pub data: Data,
}

/// Where the model goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputPart {
    /// A folder for weights, checkpoint and model card.
    pub folder: PathBuf,
}

impl Job {
    /// Reads a job.
    ///
    /// # Errors
    /// [`TrainError::Job`] with line and column.
    pub fn parse(text: &str) -> Result<Self, TrainError> {
        toml::from_str(text).map_err(|error| TrainError::Job(error.to_string()))
    }

    /// Reads a job from a file.
    ///
    /// # Errors
    /// [`TrainError::File`] and [`TrainError::Job`].
    pub fn load(path: &Path) -> Result<Self, TrainError> {
        let text = std::fs::read_to_string(path).map_err(|error| crate::train::key::unusable(path, error))?;
        Self::parse(&text)
    }

    /// Checks what it says of data and optimiser by itself, so that nothing of it is refused only when training begins.
    pub(crate) fn check(&self) -> Result<(), TrainError> {
        let unit = self.unit.column.as_deref();
        let measured = self.evaluation.iter().map(|part| &part.data);
        [&self.data].into_iter().chain(measured).try_for_each(|data| data.check(unit))?;
        self.schedule().check()
    }

    /// The name of its key: a digest of everything it says.
    pub fn name(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        Sha256::digest(text).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// What the guarantee depends on.
    ///
    /// # Errors
    /// [`TrainError::Field`] where two fields contradict each other or one of two is missing.
    pub fn plan_request(&self) -> Result<PlanRequest, TrainError> {
        let either = "write one of the two";
        let noise = match (self.privacy.epsilon, self.privacy.noise_multiplier) {
            (Some(epsilon), None) => NoiseGoal::Epsilon(epsilon),
            (None, Some(multiplier)) => NoiseGoal::Multiplier(multiplier),
            _ => return Err(TrainError::field("privacy", "`epsilon` or `noise_multiplier`", either)),
        };
        let sample = match (self.sample.rate, self.sample.units) {
            (Some(rate), None) => SampleGoal::Rate(rate),
            (None, Some(units)) => SampleGoal::Units(units),
            _ => return Err(TrainError::field("sample", "`rate` or `units`", either)),
        };
        let rate = match (sample, self.unit.count) {
            (SampleGoal::Rate(rate), _) => rate,
            (SampleGoal::Units(units), Some(count)) => units / count as f64,
            (SampleGoal::Units(_), None) => f64::NAN,
        };
        let steps = match (self.training.steps, self.training.epochs) {
            (Some(steps), None) => steps,
            (None, Some(epochs)) if (0.0..=1e9).contains(&epochs) => (epochs / rate).ceil() as u64,
            _ => return Err(TrainError::field("training", "`steps` or `epochs`", either)),
        };
        let (clipping, adaptive) = match self.clipping.clone() {
            ClippingPart::Flat { bound } => (Clipping::Flat { bound }, None),
            ClippingPart::PerLayer { bounds } => (Clipping::PerLayer { bounds }, None),
            ClippingPart::Automatic { bound } => (Clipping::Automatic { bound }, None),
            ClippingPart::Adaptive { bound, quantile, learning_rate, count_noise } => {
                (Clipping::Flat { bound }, Some(Adaptive { quantile, learning_rate, count_noise }))
            }
        };
        Ok(PlanRequest {
            unit: self.unit.column.clone().map_or(PrivacyUnit::Row, PrivacyUnit::Column),
            neighbors: self.unit.neighbors,
            units: self.unit.count,
            rows_per_unit: self.unit.rows,
            several_positions: matches!(&self.model, ModelPart::Network { network, .. } if network.several_positions()),
            sample,
            steps,
            clipping,
            adaptive,
            noise,
            delta: self.privacy.delta,
            divisor: self.sample.divisor,
        })
    }

    /// How weights follow from gradients.
    pub fn schedule(&self) -> Schedule {
        let OptimizerPart { method, learning_rate, warmup_steps, cosine, average } = self.optimizer.clone();
        Schedule { method, learning_rate, warmup_steps, cosine, average }
    }

    /// The limit of the scope, with who is protected in words that the ledger holds on to.
    pub fn limits(&self) -> Vec<ScopeLimit> {
        let verb = match self.unit.neighbors {
            Neighbors::AddOrRemoveUnit => "add or remove one",
            Neighbors::ReplaceUnit => "replace one",
        };
        let unit = self.unit.column.as_ref().map_or("row".to_owned(), |column| format!("`{column}`"));
        let table = self.ledger.table.clone().unwrap_or_else(|| self.ledger.scope.as_str().to_owned());
        vec![ScopeLimit {
            path: self.ledger.scope.clone(),
            budget: Budget { epsilon: self.ledger.epsilon, delta: self.ledger.delta },
            composition: self.ledger.composition,
            protects: [(table, format!("{verb} {unit}"))].into(),
        }]
    }

    /// How many inputs and outputs the model has. Paths are relative to `base`.
    ///
    /// # Errors
    /// A vocabulary that cannot be read.
    pub fn shape(&self, base: &Path) -> Result<(usize, usize), TrainError> {
        self.shape_among(&mut PublicFiles::default(), base)
    }

    /// The same, where public files that were read already are not read again.
    pub(crate) fn shape_among(&self, files: &mut PublicFiles, base: &Path) -> Result<(usize, usize), TrainError> {
        let outputs = |label: &Label| match label {
            Label::Class { classes, .. } => classes.len(),
            Label::Number { .. } => 1,
        };
        Ok(match &self.data {
            Data::Table { features, label, .. } => (features.iter().map(|f| f.width()).sum(), outputs(label)),
            Data::Text { label, .. } => {
                let count = files.vocabulary(&self.data, base)?.map_or(0, |vocabulary| vocabulary.count()) as usize;
                (count, label.as_ref().map_or(count, outputs))
            }
            Data::Images { classes, pixels, .. } => (*pixels, *classes as usize),
        })
    }
}
