//! Small networks of every kind, and batches for them.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};

use crate::model::{Batch, Inputs, Model, Targets};
use crate::nn::{
    Activation, Decoder, Description, Encoder, Input, Layers, Llama, Lora, Network, Objective, Stage, Target, Train,
};

/// A stream for tests.
pub struct Stream(ChaCha20Rng);

impl Stream {
    pub fn new(seed: u64) -> Self {
        let mut key = [1; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Self(ChaCha20Rng::from_seed(key))
    }

    pub fn below(&mut self, end: usize) -> usize {
        self.0.next_u32() as usize % end
    }

    /// Between −1 and 1.
    pub fn number(&mut self) -> f32 {
        self.0.next_u32() as f32 / 2_147_483_648.0 - 1.0
    }

    pub fn numbers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.number()).collect()
    }
}

/// Every kind of layer is in one of these.
pub fn descriptions() -> Vec<(&'static str, Description)> {
    use Activation::{Gelu, Relu, Silu, Tanh};
    let function = |function| Stage::Activation { function };
    let linear = |outputs| Stage::Linear { outputs, bias: true };
    let image = Input::Image { channels: 2, height: 7, width: 6 };
    let layers =
        |input, layers: &[Stage], objective| Description::Layers(Layers { input, layers: layers.to_vec(), objective });
    let convolutions = [
        Stage::Conv2d { channels: 6, kernel: 3, stride: 1, padding: 1 },
        Stage::GroupNorm { groups: 3 },
        function(Silu),
        Stage::MaxPool { kernel: 2, stride: 1 },
        Stage::Conv2d { channels: 16, kernel: 3, stride: 2, padding: 0 },
        function(Gelu),
        Stage::AvgPool { kernel: 2, stride: 1 },
        linear(3),
    ];
    let norms = [
        linear(9),
        Stage::LayerNorm,
        function(Gelu),
        Stage::Linear { outputs: 8, bias: false },
        Stage::RmsNorm,
        function(Silu),
        linear(4),
    ];
    let lora_in =
        |targets: &[Target], blocks| Train::Lora(Lora { rank: 2, alpha: 6.0, targets: targets.to_vec(), blocks });
    let lora = |targets: &[Target]| lora_in(targets, None);
    let every = [Target::Query, Target::Key, Target::Value, Target::Output, Target::Up, Target::Down];
    vec![
        ("linear regression", Description::linear(5)),
        ("logistic regression", Description::softmax(6, 3)),
        ("perceptron", Description::mlp(6, &[7, 5], 3, Tanh, Objective::Classes)),
        ("perceptron for a number", Description::mlp(4, &[8], 1, Relu, Objective::Number)),
        ("norms", layers(Input::Numbers(7), &norms, Objective::Classes)),
        ("convolutions", layers(image, &convolutions, Objective::Classes)),
        ("encoder", encoder(Train::All)),
        ("encoder with a head", encoder(Train::Head)),
        ("encoder with adapters", encoder(lora(&every))),
        ("encoder with adapters in its last block", encoder(lora_in(&every, Some(1)))),
        ("decoder", decoder(None, Train::All)),
        ("decoder with groups", decoder(Some(2), Train::All)),
        ("decoder with adapters", decoder(None, lora(&[Target::Query, Target::Value]))),
        ("decoder with adapters in its last block", decoder(None, lora_in(&[Target::Query, Target::Value], Some(1)))),
        ("llama", llama(Train::All)),
        ("llama with adapters", llama(lora(&[&every[..], &[Target::Gate]].concat()))),
    ]
}

pub fn encoder(train: Train) -> Description {
    Description::Encoder(Encoder {
        vocabulary: 11,
        positions: 9,
        width: 8,
        blocks: 2,
        heads: 2,
        hidden: 12,
        outputs: 3,
        objective: Objective::Classes,
        train,
    })
}

pub fn decoder(groups: Option<usize>, train: Train) -> Description {
    Description::Decoder(Decoder {
        vocabulary: 13,
        positions: 7,
        width: 8,
        blocks: 2,
        heads: 4,
        groups,
        hidden: 16,
        train,
    })
}

pub fn llama(train: Train) -> Description {
    Description::Llama(Llama {
        vocabulary: 13,
        positions: 7,
        width: 8,
        blocks: 2,
        heads: 4,
        groups: 2,
        hidden: 12,
        rotary_base: 100.0,
        epsilon: 1e-5,
        train,
    })
}

/// A network whose weights are moved away from where they start, so that nothing is 0 or 1 by chance.
pub fn network(description: &Description, seed: u64) -> Network {
    let mut network = Network::new(description, seed).unwrap();
    let mut stream = Stream::new(seed);
    network.trainable_mut().iter_mut().for_each(|weight| *weight += 0.3 * stream.number());
    network.parameters.frozen.iter_mut().for_each(|weight| *weight += 0.3 * stream.number());
    network
}

/// A batch with so many rows in every sample.
pub fn batch(description: &Description, rows: &[usize], seed: u64) -> Batch {
    let mut stream = Stream::new(seed);
    let mut offsets = vec![0];
    rows.iter().for_each(|rows| offsets.push(offsets[offsets.len() - 1] + rows));
    let count = offsets[rows.len()];
    let tokens = |vocabulary: usize, positions: usize, stream: &mut Stream| {
        let length = 2 + stream.below(positions - 1);
        let lengths: Vec<usize> = (0..count).map(|_| 1 + stream.below(length)).collect();
        let ids = (0..count * length).map(|_| stream.below(vocabulary) as u32).collect();
        Inputs::Tokens { ids, length, lengths }
    };
    let (inputs, outputs, objective) = match description {
        Description::Layers(layers) => {
            let width = match layers.input {
                Input::Numbers(width) => width,
                Input::Image { channels, height, width } => channels * height * width,
            };
            let values = stream.numbers(count * width).iter().map(|x| 2.0 * x).collect();
            (Inputs::Numbers { values, width }, 3, Some(layers.objective))
        }
        Description::Encoder(encoder) => {
            (tokens(encoder.vocabulary, encoder.positions, &mut stream), encoder.outputs, Some(encoder.objective))
        }
        Description::Decoder(decoder) => (tokens(decoder.vocabulary, decoder.positions, &mut stream), 0, None),
        Description::Llama(llama) => (tokens(llama.vocabulary, llama.positions, &mut stream), 0, None),
    };
    let targets = match objective {
        Some(Objective::Classes) => Targets::Classes((0..count).map(|_| stream.below(outputs) as u32).collect()),
        Some(Objective::Number) => Targets::Numbers(stream.numbers(count)),
        None => Targets::NextToken,
    };
    Batch { inputs, targets, offsets }
}
