//! Losses and norms of gradients as PyTorch computes them.
//!
//! `torch.json` comes from PyTorch 2.15.0 in float64: `torch.nn` layers, `F.scaled_dot_product_attention`,
//! `F.rms_norm`, `F.silu`, `F.cross_entropy` and `autograd`, one sample at a time. Number j of the i-th tensor, by name, is
//! 0.4·sin(0.7j + 1.3i + 0.2), that of the inputs 1.5·cos(1.1j).

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde::Deserialize;

use super::{norm, plain, some};
use crate::model::{Batch, Inputs, Model, Targets};
use crate::nn::{Description, Input, Network, Objective};

#[derive(Deserialize)]
struct Case {
    name: String,
    description: Description,
    names: Vec<String>,
    losses: Vec<f64>,
    norms: Vec<Vec<f64>>,
}

/// The network with the weights of the formula, given in the layout of files.
fn network(case: &Case) -> Network {
    let mut network = Network::new(&case.description, 1).unwrap();
    let file = network.export().unwrap();
    let shapes = SafeTensors::deserialize(&file).unwrap();
    assert_eq!(shapes.len(), case.names.len(), "{}", case.name);
    let tensors: Vec<(&String, Vec<usize>, Vec<u8>)> = (0..)
        .zip(&case.names)
        .map(|(index, name)| {
            let shape = shapes.tensor(name).unwrap().shape().to_vec();
            let number = |j: usize| (0.4 * (0.7 * j as f64 + 1.3 * f64::from(index) + 0.2).sin()) as f32;
            let numbers = (0..shape.iter().product::<usize>()).flat_map(|j| number(j).to_le_bytes());
            (name, shape, numbers.collect())
        })
        .collect();
    let view = |shape: &Vec<usize>, bytes| TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap();
    let views = tensors.iter().map(|(name, shape, bytes)| (name, view(shape, bytes)));
    assert!(network.import(&safetensors::serialize(views, None).unwrap()).unwrap().is_empty());
    network
}

fn batch(description: &Description) -> Batch {
    let tokens = Inputs::Tokens { ids: vec![1, 4, 4, 0, 2, 3, 3, 1, 5, 0], length: 5, lengths: vec![5, 3] };
    let (inputs, targets) = match description {
        Description::Layers(layers) => {
            let width = match layers.input {
                Input::Numbers(width) => width,
                Input::Image { channels, height, width } => channels * height * width,
            };
            let targets = match layers.objective {
                Objective::Classes => Targets::Classes(vec![2, 0]),
                Objective::Number => Targets::Numbers(vec![0.5, -1.0]),
            };
            let values = (0..2 * width).map(|j| ((1.1 * j as f64).cos() * 1.5) as f32).collect();
            (Inputs::Numbers { values, width }, targets)
        }
        Description::Encoder(_) => (tokens, Targets::Classes(vec![1, 2])),
        Description::Decoder(_) | Description::Llama(_) => (tokens, Targets::NextToken),
    };
    Batch { inputs, targets, offsets: vec![0, 1, 2] }
}

#[test]
fn losses_and_gradients_are_those_of_pytorch() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("torch.json")).unwrap();
    for case in cases {
        let mut network = network(&case);
        let batch = batch(&case.description);
        for sample in 0..2 {
            let (gradient, observed) = plain(&mut network, &some(&batch, sample..sample + 1));
            let loss = f64::from(observed.losses[0]);
            let expected = case.losses[sample];
            assert!((loss - expected).abs() < 3e-6 * (1.0 + expected), "{}: {loss}, not {expected}", case.name);
            for layer in network.layers() {
                let index = case.names.iter().position(|name| *name == layer.name).unwrap();
                let length: usize = layer.shape.iter().product();
                let (found, expected) = (norm(&gradient[layer.start..][..length]), case.norms[sample][index]);
                let close = (found - expected).abs() < 1e-5 * expected + 1e-6;
                assert!(close, "{}, {}: {found}, not {expected}", case.name, layer.name);
            }
        }
    }
}
