//! About how much memory a network takes, from its description alone.

use super::description::{Decoder, Description, Encoder, Input, Layers, Llama, Stage, Target, Train};

/// Numbers of 32 bits, as floats so that no product overflows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Need {
    /// All weights but those of adapters.
    pub weights: f64,
    /// What is kept of one row between the way forward and the clipped sum; rather too much.
    pub row: f64,
}

impl Description {
    /// What it needs, with rows of so many tokens.
    pub(crate) fn need(&self, length: usize) -> Need {
        match self {
            Self::Layers(layers) => of_layers(layers),
            Self::Encoder(Encoder { vocabulary, positions, width, blocks, heads, hidden, outputs, .. }) => {
                let tables = (vocabulary + positions) as f64 * *width as f64;
                let head = (outputs * width) as f64;
                of_blocks(*blocks, *width, *hidden, *heads, length, tables + head, 0.0)
            }
            Self::Decoder(Decoder { vocabulary, positions, width, blocks, heads, hidden, .. }) => {
                let tables = (vocabulary + positions) as f64 * *width as f64;
                // Scores of every position, and their gradients.
                of_blocks(*blocks, *width, *hidden, *heads, length, tables, 2.0 * *vocabulary as f64)
            }
            Self::Llama(Llama { vocabulary, width, blocks, heads, hidden, .. }) => {
                let tables = *vocabulary as f64 * *width as f64;
                // The gate is a third product between width and hidden.
                let hidden = (3 * hidden).div_ceil(2);
                of_blocks(*blocks, *width, hidden, *heads, length, tables, 2.0 * *vocabulary as f64)
            }
        }
    }

    /// How many weights are trained, nearly.
    pub(crate) fn trained(&self) -> f64 {
        let all = self.need(1).weights;
        match self {
            Self::Layers(_) => all,
            Self::Encoder(Encoder { width, blocks, hidden, outputs, train, .. }) => {
                let head = ((width + 1) * outputs) as f64;
                of_training(train, [*width, *width, *hidden], *blocks, all, head)
            }
            Self::Decoder(Decoder { width, blocks, heads, groups, hidden, train, .. }) => {
                let narrow = width / heads.max(&1) * groups.unwrap_or(*heads);
                of_training(train, [*width, narrow, *hidden], *blocks, all, 0.0)
            }
            Self::Llama(Llama { width, blocks, heads, groups, hidden, train, .. }) => {
                of_training(train, [*width, width / heads.max(&1) * groups, *hidden], *blocks, all, 0.0)
            }
        }
    }
}

/// Of a transformer whose positions, keys and inner layers have these widths.
fn of_training(train: &Train, [width, narrow, hidden]: [usize; 3], blocks: usize, all: f64, head: f64) -> f64 {
    let lora = match train {
        Train::All => return all,
        Train::Head => return head,
        Train::Lora(lora) => lora,
    };
    let sides = |target: &Target| match target {
        Target::Query | Target::Output => 2 * width,
        Target::Key | Target::Value => width + narrow,
        Target::Gate | Target::Up | Target::Down => width + hidden,
    };
    let blocks = lora.blocks.unwrap_or(blocks).min(blocks) as f64;
    head + blocks * lora.rank as f64 * lora.targets.iter().map(sides).sum::<usize>() as f64
}

fn of_blocks(
    blocks: usize,
    width: usize,
    hidden: usize,
    heads: usize,
    length: usize,
    tables: f64,
    scores: f64,
) -> Need {
    let [blocks, width, hidden, heads, length] = [blocks, width, hidden, heads, length].map(|size| size as f64);
    let weights = 4.0 * width * width + 2.0 * width * hidden + 13.0 * width;
    // Inputs and outputs of four products and two norms, attention, and gradients where they are smaller than either. On the
    // way back gradients take the place of what was kept.
    let position = 10.0 * width + 2.0 * hidden + heads * length + 4.0 * (2.0 * length).min(weights / length.max(1.0));
    // One block more for what is there only while it is computed.
    Need { weights: tables + blocks * weights, row: length * ((blocks + 1.0) * position + scores + 4.0 * width) }
}

fn of_layers(layers: &Layers) -> Need {
    let (mut channels, mut height, mut width) = match layers.input {
        Input::Numbers(numbers) => (numbers as f64, 1.0, 1.0),
        Input::Image { channels, height, width } => (channels as f64, height as f64, width as f64),
    };
    let mut need = Need { weights: 0.0, row: channels * height * width };
    let windows = |size: f64, kernel: usize, stride: usize, padding: usize| {
        ((size + 2.0 * padding as f64 - kernel as f64) / stride.max(1) as f64).floor() + 1.0
    };
    for stage in &layers.layers {
        let before = channels * height * width;
        let (mut weights, mut kept) = (0.0, before);
        match *stage {
            Stage::Linear { outputs, .. } => {
                (channels, height, width) = (outputs as f64, 1.0, 1.0);
                weights = (before + 1.0) * channels;
            }
            Stage::Conv2d { channels: outputs, kernel, stride, padding } => {
                let inputs = (kernel * kernel) as f64 * channels;
                (height, width) = (windows(height, kernel, stride, padding), windows(width, kernel, stride, padding));
                channels = outputs as f64;
                weights = (inputs + 1.0) * channels;
                // Windows side by side, and a gradient where it is smaller than inner products.
                kept = height * width * inputs + weights;
            }
            Stage::MaxPool { kernel, stride } | Stage::AvgPool { kernel, stride } => {
                (height, width) = (windows(height, kernel, stride, 0), windows(width, kernel, stride, 0));
            }
            Stage::GroupNorm { .. } => weights = 2.0 * channels,
            Stage::LayerNorm | Stage::RmsNorm => weights = 2.0 * before,
            Stage::Activation { .. } | Stage::BatchNorm => {}
        }
        need.weights += weights;
        // What comes in, and the gradient of what comes out.
        need.row += kept + channels * height * width;
    }
    need
}

#[cfg(test)]
mod tests {
    use crate::nn::{Activation, Decoder, Description, Encoder, Llama, Lora, Network, Objective, Target, Train};

    #[test]
    fn weights_are_counted_without_being_made() {
        let (vocabulary, positions, width, blocks, heads, hidden) = (500, 32, 64, 3, 4, 256);
        let (outputs, objective, train) = (2, Objective::Classes, Train::All);
        let lora = |blocks| {
            let targets = vec![Target::Query, Target::Value, Target::Output, Target::Up, Target::Down];
            Train::Lora(Lora { targets, blocks, ..Lora::new(4) })
        };
        let encoder =
            Encoder { vocabulary, positions, width, blocks, heads, hidden, outputs, objective, train: train.clone() };
        let adapted = |train| Description::Encoder(Encoder { train, ..encoder.clone() });
        let decoder = Decoder { vocabulary, positions, width, blocks, heads, groups: None, hidden, train };
        let (rotary_base, epsilon, train) = (1e4, 1e-5, lora(None));
        let llama =
            Llama { vocabulary, positions, width, blocks, heads, groups: 2, hidden, rotary_base, epsilon, train };
        for description in [
            adapted(Train::Head),
            adapted(lora(Some(2))),
            Description::Decoder(Decoder { groups: Some(2), train: lora(Some(1)), ..decoder.clone() }),
            Description::Llama(llama),
            Description::small_cnn(10),
            Description::mlp(784, &[100, 50], 10, Activation::Tanh, Objective::Classes),
            Description::Encoder(encoder),
            Description::Decoder(decoder),
        ] {
            let made = Network::new(&description, 1).unwrap().parameters;
            let adapters = made.layers.iter().filter(|layer| layer.name.contains(".lora_"));
            let adapters: usize = adapters.map(|layer| layer.shape.iter().product::<usize>()).sum();
            let base = (made.trainable.len() + made.frozen.len() - adapters) as f64;
            let (need, trained) = (description.need(32), description.trained());
            // Fewer heads of keys than of queries are not counted as fewer.
            let too_many = if matches!(description, Description::Llama(_)) || adapters > 0 { 1.2 } else { 1.01 };
            assert!((0.99..too_many).contains(&(need.weights / base)), "{} for {base}: {description:?}", need.weights);
            assert!((trained / made.trainable.len() as f64 - 1.0).abs() < 0.01, "{trained}: {description:?}");
            assert!(need.row > 0.0 && description.need(16).row <= need.row);
        }
    }
}
