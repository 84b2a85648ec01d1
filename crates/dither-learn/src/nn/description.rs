//! What a network looks like, as a file says it.

use serde::{Deserialize, Serialize};

use super::activation::Activation;

/// A network without its weights. It is public, and is released with the weights.
///
/// ```
/// use dither_learn::nn::{Activation, Description, Objective};
///
/// let text = r#"{"model": "layers", "input": 4, "objective": "number", "layers": [
///     {"layer": "linear", "outputs": 8}, {"layer": "activation", "function": "tanh"}, {"layer": "linear", "outputs": 1}]}"#;
/// let description: Description = serde_json::from_str(text)?;
/// assert_eq!(description, Description::mlp(4, &[8], 1, Activation::Tanh, Objective::Number));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "snake_case")]
pub enum Description {
    /// Layers one after the other.
    Layers(Layers),
    /// A transformer that reads a whole text and scores classes.
    Encoder(Encoder),
    /// A transformer that predicts the next token.
    Decoder(Decoder),
    /// The same, of the Llama family.
    Llama(Llama),
}

/// Layers one after the other, between numbers of a row and scores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layers {
    /// What a row is.
    pub input: Input,
    /// The layers. The width of the last is the number of scores.
    pub layers: Vec<Stage>,
    /// What the scores are for.
    pub objective: Objective,
}

/// What a row of numbers is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Input {
    /// So many numbers.
    Numbers(usize),
    /// An image, by channel, row, column.
    Image {
        /// Channels.
        channels: usize,
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
    },
}

/// One layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "layer", rename_all = "snake_case", deny_unknown_fields)]
pub enum Stage {
    /// All outputs from all inputs; an image is flattened first, channel by channel.
    Linear {
        /// Outputs.
        outputs: usize,
        /// Whether a constant is added.
        #[serde(default = "yes")]
        bias: bool,
    },
    /// A convolution of an image.
    Conv2d {
        /// Channels of its output.
        channels: usize,
        /// Height and width of a window.
        kernel: usize,
        /// From one window to the next.
        #[serde(default = "one")]
        stride: usize,
        /// Zeros on each side.
        #[serde(default)]
        padding: usize,
    },
    /// The largest number of every window of an image.
    MaxPool {
        /// Height and width of a window, at most 255.
        kernel: usize,
        /// From one window to the next.
        stride: usize,
    },
    /// The mean of every window of an image.
    AvgPool {
        /// Height and width of a window.
        kernel: usize,
        /// From one window to the next.
        stride: usize,
    },
    /// A function of every number.
    Activation {
        /// Which.
        function: Activation,
    },
    /// Channels of an image in groups, each normalised within its image.
    GroupNorm {
        /// How many groups; a divisor of the channels.
        groups: usize,
    },
    /// All numbers of a row normalised together.
    LayerNorm,
    /// The same, with the mean left as it is.
    RmsNorm,
    /// Always refused: it mixes the samples of a batch.
    BatchNorm,
}

/// What scores are for, and how wrong they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// One score per class; softmax and cross-entropy.
    Classes,
    /// A number; its squared error.
    Number,
}

/// A transformer of the BERT family: learned positions, normalisation after each half of a block, GELU, and the mean of
/// all positions before the head.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Encoder {
    /// How many tokens there are.
    pub vocabulary: usize,
    /// How long a text may be.
    pub positions: usize,
    /// Width of a position.
    pub width: usize,
    /// Blocks.
    pub blocks: usize,
    /// Heads of attention; a divisor of the width.
    pub heads: usize,
    /// Width between the two linear layers of a block.
    pub hidden: usize,
    /// Scores.
    pub outputs: usize,
    /// What the scores are for.
    pub objective: Objective,
    /// Which weights are trained. The head always is.
    pub train: Train,
}

/// A transformer of the GPT-2 family: learned positions, normalisation before each half of a block, GELU, and a head that
/// shares its weights with the table of tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decoder {
    /// How many tokens there are.
    pub vocabulary: usize,
    /// How long a text may be.
    pub positions: usize,
    /// Width of a position.
    pub width: usize,
    /// Blocks.
    pub blocks: usize,
    /// Heads of queries; a divisor of the width.
    pub heads: usize,
    /// Heads of keys and values; a divisor of the heads, which it is by default.
    #[serde(default)]
    pub groups: Option<usize>,
    /// Width between the two linear layers of a block.
    pub hidden: usize,
    /// Which weights are trained; a head alone there is not.
    pub train: Train,
}

/// A transformer of the Llama family: rotary positions, RMSNorm before each half of a block, SwiGLU, no constants, and a
/// head that shares its weights with the table of tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Llama {
    /// How many tokens there are.
    pub vocabulary: usize,
    /// How long a text may be.
    pub positions: usize,
    /// Width of a position.
    pub width: usize,
    /// Blocks.
    pub blocks: usize,
    /// Heads of queries; a divisor of the width, which leaves an even number.
    pub heads: usize,
    /// Heads of keys and values; a divisor of the heads.
    pub groups: usize,
    /// Width between the linear layers after attention.
    pub hidden: usize,
    /// The base of the angles of positions.
    pub rotary_base: f64,
    /// What is added to mean squares before the root.
    pub epsilon: f64,
    /// Which weights are trained; a head alone there is not.
    pub train: Train,
}

/// Which weights of a transformer are trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Train {
    /// All.
    All,
    /// The head.
    Head,
    /// Low-rank adapters beside frozen weights, and the head.
    Lora(Lora),
}

/// Low-rank adapters: y = W·x + (alpha/rank)·B·A·x.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lora {
    /// Rank of B·A.
    pub rank: usize,
    /// Its scale, times the rank.
    pub alpha: f64,
    /// Which linear layers have one.
    pub targets: Vec<Target>,
    /// In how many of the last blocks; in all by default. Gradients need not go below the first of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<usize>,
}

/// A linear layer of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Queries.
    Query,
    /// Keys.
    Key,
    /// Values.
    Value,
    /// The output of attention.
    Output,
    /// What the first of those that follow attention is multiplied with; of the Llama family only.
    Gate,
    /// The first of the two that follow attention.
    Up,
    /// The second.
    Down,
}

impl Description {
    /// Whether a layer sees several positions of one row: tokens, or places of an image.
    pub(crate) fn several_positions(&self) -> bool {
        !matches!(self, Self::Layers(Layers { input: Input::Numbers(_), .. }))
    }

    /// Linear regression on so many numbers.
    pub fn linear(inputs: usize) -> Self {
        Self::mlp(inputs, &[], 1, Activation::Relu, Objective::Number)
    }

    /// Logistic regression: one score per class.
    pub fn softmax(inputs: usize, classes: usize) -> Self {
        Self::mlp(inputs, &[], classes, Activation::Relu, Objective::Classes)
    }

    /// Linear layers with a function between them.
    pub fn mlp(inputs: usize, hidden: &[usize], outputs: usize, function: Activation, objective: Objective) -> Self {
        let linear = |outputs| Stage::Linear { outputs, bias: true };
        let inner = hidden.iter().flat_map(|&width| [linear(width), Stage::Activation { function }]);
        let layers = inner.chain([linear(outputs)]).collect();
        Self::Layers(Layers { input: Input::Numbers(inputs), layers, objective })
    }

    /// A small convolutional network for 28 × 28 images, the one that DP-SGD is usually measured on.
    ///
    /// # References
    /// Papernot et al., *Tempered Sigmoid Activations for Deep Learning with Differential Privacy* (2021), table 1.
    pub fn small_cnn(classes: usize) -> Self {
        let conv = |channels, kernel, padding| Stage::Conv2d { channels, kernel, stride: 2, padding };
        let relu = Stage::Activation { function: Activation::Relu };
        let pool = Stage::MaxPool { kernel: 2, stride: 1 };
        let linear = |outputs| Stage::Linear { outputs, bias: true };
        let layers = vec![conv(16, 8, 3), relu, pool, conv(32, 4, 0), relu, pool, linear(32), relu, linear(classes)];
        let input = Input::Image { channels: 1, height: 28, width: 28 };
        Self::Layers(Layers { input, layers, objective: Objective::Classes })
    }

    /// SmolLM2-135M, for texts of at most so many tokens.
    pub fn smollm2(positions: usize, train: Train) -> Self {
        Self::Llama(Llama {
            vocabulary: 49152,
            positions,
            width: 576,
            blocks: 30,
            heads: 9,
            groups: 3,
            hidden: 1536,
            rotary_base: 1e5,
            epsilon: 1e-5,
            train,
        })
    }

    /// Which weights are trained, of a transformer.
    pub(crate) fn train(&self) -> Option<&Train> {
        match self {
            Self::Layers(_) => None,
            Self::Encoder(encoder) => Some(&encoder.train),
            Self::Decoder(decoder) => Some(&decoder.train),
            Self::Llama(llama) => Some(&llama.train),
        }
    }

    /// The encoder of all-MiniLM-L6-v2, with so many scores.
    pub fn minilm(outputs: usize, train: Train) -> Self {
        Self::Encoder(Encoder {
            vocabulary: 30522,
            positions: 512,
            width: 384,
            blocks: 6,
            heads: 12,
            hidden: 1536,
            outputs,
            objective: Objective::Classes,
            train,
        })
    }
}

impl Lora {
    /// Adapters of queries and values, with a scale of 2.
    pub fn new(rank: usize) -> Self {
        Self { rank, alpha: 2.0 * rank as f64, targets: vec![Target::Query, Target::Value], blocks: None }
    }
}

fn yes() -> bool {
    true
}

fn one() -> usize {
    1
}
