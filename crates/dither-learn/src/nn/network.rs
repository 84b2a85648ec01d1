//! A network behind the face that trainers know.

use std::error::Error;

use super::description::{Description, Objective};
use super::error::NetworkError;
use super::factors::{self, Factors};
use super::feedforward::Feedforward;
use super::loss::{cross_entropy, squared_error};
use super::parameters::{Builder, Parameters};
use super::spans::Spans;
use super::tape::Tape;
use super::transformer::{Packed, Transformer};
use super::weights::WeightFile;
use crate::model::{Batch, Clipping, Inputs, Layer, Model, Observed, Targets};

/// A network with its weights.
///
/// ```
/// use dither_learn::model::{Batch, Clipping, Inputs, Model, Targets};
/// use dither_learn::nn::{Description, Network};
///
/// let mut network = Network::new(&Description::softmax(2, 3), 7)?;
/// let inputs = Inputs::Numbers { values: vec![0.5, -1.0, 2.0, 0.0], width: 2 };
/// let batch = Batch { inputs, targets: Targets::Classes(vec![0, 2]), offsets: vec![0, 1, 2] };
/// let mut sum = vec![0.0; network.trainable().len()];
/// let observed = network.add_clipped(&batch, &Clipping::Flat { bound: 1.0 }, &mut sum)?;
/// assert_eq!(observed.norms.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Network {
    description: Description,
    objective: Option<Objective>,
    pub(crate) parameters: Parameters,
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    Layers(Feedforward),
    Transformer(Box<Transformer>),
}

/// How many rows are predicted at once.
const PREDICTED: usize = 64;

impl Network {
    /// A network with first weights that follow from a seed. They are public, as the trained ones will be.
    ///
    /// # Errors
    /// A description that makes no sense, or has layers that mix samples.
    pub fn new(description: &Description, seed: u64) -> Result<Self, NetworkError> {
        Self::build(description, &mut Builder::new(seed))
    }

    /// The same with the weights of a file, as [`Network::import`] takes them, and the names of those that it lacks. Only
    /// these are made from the seed, which saves seconds where there are a hundred million others.
    ///
    /// # Errors
    /// As for both.
    pub fn with_weights(
        description: &Description,
        seed: u64,
        file: &[u8],
    ) -> Result<(Self, Vec<String>), NetworkError> {
        let file = WeightFile::read(file, description)?;
        let mut builder = Builder::putting_off(seed);
        let mut network = Self::build(description, &mut builder)?;
        let missing = file.fill(&mut network.parameters)?;
        builder.draw(&missing, &mut network.parameters);
        Ok((network, missing))
    }

    fn build(description: &Description, builder: &mut Builder) -> Result<Self, NetworkError> {
        let (body, objective, outputs) = match description {
            Description::Layers(layers) => {
                let body = Feedforward::new(builder, layers)?;
                let outputs = body.outputs;
                (Body::Layers(body), Some(layers.objective), outputs)
            }
            Description::Encoder(encoder) => {
                let body = Transformer::encoder(builder, encoder)?;
                (Body::Transformer(body.into()), Some(encoder.objective), encoder.outputs)
            }
            Description::Decoder(decoder) => {
                (Body::Transformer(Transformer::decoder(builder, decoder)?.into()), None, decoder.vocabulary)
            }
            Description::Llama(llama) => {
                (Body::Transformer(Transformer::llama(builder, llama)?.into()), None, llama.vocabulary)
            }
        };
        if objective == Some(Objective::Number) && outputs != 1 {
            return Err(NetworkError::Description(format!("a number has one score, and there are {outputs}")));
        }
        if objective == Some(Objective::Classes) && outputs < 2 {
            return Err(NetworkError::Description("classes need two scores or more".into()));
        }
        if builder.parameters.trainable.is_empty() {
            return Err(NetworkError::Description("nothing can be trained".into()));
        }
        let parameters = std::mem::take(&mut builder.parameters);
        Ok(Self { description: description.clone(), objective, parameters, body })
    }

    /// What it looks like.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Rows × tokens: scores of what comes after each row, of a network that predicts the next token.
    ///
    /// # Errors
    /// Another network, or inputs that do not fit.
    pub fn next_token(&self, inputs: &Inputs) -> Result<Vec<f32>, NetworkError> {
        self.rows(inputs)?;
        let (Body::Transformer(body), None, Inputs::Tokens { ids, length, lengths }) =
            (&self.body, self.objective, inputs)
        else {
            return Err(NetworkError::Batch("the network predicts no next token"));
        };
        let rows = ids.chunks(PREDICTED * length).zip(lengths.chunks(PREDICTED));
        Ok(rows.flat_map(|(ids, real)| body.next(&self.parameters, &Packed::new(ids, *length, real))).collect())
    }

    /// One pass forward and back. Returns the loss of every sample.
    fn pass(&self, batch: &Batch, samples: &Spans, tape: &mut Tape<'_>) -> Result<Vec<f32>, NetworkError> {
        // The gradient of a sample is that of the mean over its rows.
        let weights: Vec<f32> =
            samples.iter().flat_map(|rows| std::iter::repeat_n(1.0 / rows.len() as f32, rows.len())).collect();
        let rows = samples.total();
        let classes = match (&batch.targets, self.objective) {
            (Targets::Classes(classes), Some(Objective::Classes)) if classes.len() == rows => {
                classes.iter().copied().map(Some).collect()
            }
            (Targets::Numbers(numbers), Some(Objective::Number)) if numbers.len() == rows => Vec::new(),
            (Targets::NextToken, None) => Vec::new(),
            _ => return Err(NetworkError::Batch("its targets are of another kind or number")),
        };
        let loss = |scores: &mut [f32]| match &batch.targets {
            Targets::Numbers(numbers) => squared_error(scores, numbers, &weights),
            _ => cross_entropy(scores, scores.len() / rows, &classes, &weights),
        };
        let losses = match (&self.body, &batch.inputs) {
            _ if rows == 0 => Vec::new(),
            (Body::Layers(body), Inputs::Numbers { values, .. }) => {
                body.pass(&self.parameters, values, samples, tape, loss)
            }
            (Body::Transformer(body), Inputs::Tokens { ids, length, lengths }) => {
                let packed = Packed::new(ids, *length, lengths);
                body.pass(&self.parameters, &packed, samples, tape, &weights, loss)
            }
            _ => return Err(OTHER_KIND),
        };
        let mean = |rows: std::ops::Range<usize>| match rows.len() {
            0 => 0.0,
            count => losses[rows].iter().sum::<f32>() / count as f32,
        };
        Ok(samples.iter().map(mean).collect())
    }

    /// How many rows there are, if they fit.
    fn rows(&self, inputs: &Inputs) -> Result<usize, NetworkError> {
        match (&self.body, inputs) {
            (Body::Layers(body), Inputs::Numbers { values, width }) => {
                let fits = *width == body.inputs && values.len() % width == 0;
                fits.then(|| values.len() / width).ok_or(NetworkError::Batch("its rows have another width"))
            }
            (Body::Transformer(body), Inputs::Tokens { ids, length, lengths }) => {
                let fits =
                    (1..=body.positions).contains(length) && lengths.len().checked_mul(*length) == Some(ids.len());
                fits.then_some(lengths.len())
                    .ok_or(NetworkError::Batch("its texts are longer, or their number differs"))
            }
            _ => Err(OTHER_KIND),
        }
    }

    /// Samples of a batch, if everything in it fits.
    fn samples(&self, batch: &Batch, sum: &[f32]) -> Result<Spans, NetworkError> {
        let samples =
            Spans::new(&batch.offsets).ok_or(NetworkError::Batch("its offsets do not begin with 0 or fall"))?;
        if samples.total() != self.rows(&batch.inputs)? {
            return Err(NetworkError::Batch("its offsets end elsewhere than its rows"));
        }
        if sum.len() != self.parameters.trainable.len() {
            return Err(NetworkError::Batch("the sum is not as long as the weights"));
        }
        Ok(samples)
    }
}

const OTHER_KIND: NetworkError = NetworkError::Batch("it has numbers where tokens are due, or the reverse");

impl Model for Network {
    fn trainable(&self) -> &[f32] {
        &self.parameters.trainable
    }

    fn trainable_mut(&mut self) -> &mut [f32] {
        &mut self.parameters.trainable
    }

    fn layers(&self) -> &[Layer] {
        &self.parameters.layers
    }

    fn add_clipped(
        &self,
        batch: &Batch,
        clipping: &Clipping,
        sum: &mut [f32],
    ) -> Result<Observed, Box<dyn Error + Send + Sync>> {
        let samples = self.samples(batch, sum)?;
        let layers = self.parameters.layers.len();
        factors::check(clipping, layers)?;
        let mut tape = Tape::clipped(sum, layers, samples.len());
        let losses = self.pass(batch, &samples, &mut tape)?;
        let factors = Factors::new(tape.squares(), samples.len(), clipping)?;
        tape.add(&factors);
        Ok(Observed { losses, not_finite: factors.dropped(), norms: factors.norms })
    }

    fn add_gradients(&self, batch: &Batch, sum: &mut [f32]) -> Result<Observed, Box<dyn Error + Send + Sync>> {
        let samples = self.samples(batch, sum)?;
        let losses = self.pass(batch, &samples, &mut Tape::plain(sum))?;
        Ok(Observed { losses, ..Observed::default() })
    }

    fn predict(&self, inputs: &Inputs) -> Result<Vec<f32>, Box<dyn Error + Send + Sync>> {
        self.rows(inputs)?;
        let predicted = match (&self.body, inputs) {
            (Body::Layers(body), Inputs::Numbers { values, width }) => {
                let rows = values.chunks(PREDICTED * width);
                rows.flat_map(|rows| body.predict(&self.parameters, rows)).collect()
            }
            (Body::Transformer(body), Inputs::Tokens { ids, length, lengths }) => {
                let rows = ids.chunks(PREDICTED * length).zip(lengths.chunks(PREDICTED));
                let packed = rows.map(|(ids, lengths)| Packed::new(ids, *length, lengths));
                packed.flat_map(|rows| body.predict(&self.parameters, &rows)).collect()
            }
            _ => return Err(OTHER_KIND.into()),
        };
        Ok(predicted)
    }
}
