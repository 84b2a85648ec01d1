//! What the trainer needs of a model, and nothing more.

use std::error::Error;

/// Rows of a physical batch, in the order of their samples.
///
/// A *sample* is what is clipped: all rows of one privacy unit in this batch. Rows of one sample lie side by side.
#[derive(Clone, Debug)]
pub struct Batch {
    /// What the model sees of every row.
    pub inputs: Inputs,
    /// What it should say.
    pub targets: Targets,
    /// Where the rows of each sample begin; the last entry is the number of rows, so there is one more than samples.
    pub offsets: Vec<usize>,
}

/// Inputs of the rows of a batch.
#[derive(Clone, Debug)]
pub enum Inputs {
    /// Rows × width numbers, row by row (images: channel, height, width).
    Numbers {
        /// The numbers.
        values: Vec<f32>,
        /// How many of them are a row.
        width: usize,
    },
    /// Rows × length tokens; a row shorter than `length` is padded, and `lengths` says how many tokens are real.
    Tokens {
        /// The tokens.
        ids: Vec<u32>,
        /// How many of them are a row.
        length: usize,
        /// How many of a row are real, at least 1.
        lengths: Vec<usize>,
    },
}

/// Targets of the rows of a batch.
#[derive(Clone, Debug)]
pub enum Targets {
    /// A class of each row.
    Classes(Vec<u32>),
    /// A number of each row (linear regression, squared error).
    Numbers(Vec<f32>),
    /// The next token of every position: the inputs shifted by one (language models).
    NextToken,
}

/// How gradients of samples are clipped.
#[derive(Clone, Debug, PartialEq)]
pub enum Clipping {
    /// g · min(1, bound / ‖g‖).
    Flat {
        /// The largest norm.
        bound: f64,
    },
    /// Every layer by itself; the norm of the whole is at most the root of the sum of squares.
    PerLayer {
        /// The largest norm of each trainable layer, in the order of [`Model::layers`].
        bounds: Vec<f64>,
    },
    /// g · bound / (‖g‖ + 0.01), of norm below `bound` (automatic clipping).
    Automatic {
        /// What the norm stays below.
        bound: f64,
    },
}

/// What was seen on the way. Private: only for an operator, or through a charged mechanism.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Loss of every sample: the mean of its rows.
    pub losses: Vec<f32>,
    /// Norm of the gradient of every sample before clipping.
    pub norms: Vec<f64>,
    /// Samples whose gradient was not finite; they contribute nothing.
    pub not_finite: usize,
}

impl Observed {
    /// What was seen of further samples.
    pub(crate) fn append(&mut self, other: Self) {
        self.losses.extend(other.losses);
        self.norms.extend(other.norms);
        self.not_finite += other.not_finite;
    }
}

/// A model whose trainable parameters are one flat vector.
///
/// Several threads ask it for gradients at once.
pub trait Model: Sync {
    /// The trainable parameters.
    fn trainable(&self) -> &[f32];

    /// The trainable parameters, to change them.
    fn trainable_mut(&mut self) -> &mut [f32];

    /// Names and ranges of the trainable layers in the flat vector.
    fn layers(&self) -> &[Layer];

    /// Adds the clipped gradients of all samples to `sum`, which is as long as [`Model::trainable`].
    ///
    /// The gradient of a sample is that of the mean loss of its rows.
    fn add_clipped(
        &self,
        batch: &Batch,
        clipping: &Clipping,
        sum: &mut [f32],
    ) -> Result<Observed, Box<dyn Error + Send + Sync>>;

    /// Adds the gradients of all samples, not clipped, to `sum`: the twin without privacy.
    fn add_gradients(&self, batch: &Batch, sum: &mut [f32]) -> Result<Observed, Box<dyn Error + Send + Sync>>;

    /// Rows × outputs: scores of classes, predicted numbers, or of a language model the loss of each row.
    fn predict(&self, inputs: &Inputs) -> Result<Vec<f32>, Box<dyn Error + Send + Sync>>;
}

/// A trainable layer in the flat vector of parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Its name, as it is exported.
    pub name: String,
    /// Its shape, outputs first.
    pub shape: Vec<usize>,
    /// Where it begins.
    pub start: usize,
}
