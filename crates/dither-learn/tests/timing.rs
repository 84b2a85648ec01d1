//! Time of a clipped step against a plain one. Printed, never judged.

#![allow(clippy::unwrap_used)]

use std::time::Instant;

use dither_learn::model::{Batch, Clipping, Inputs, Model, Targets};
use dither_learn::nn::{Activation, Description, Encoder, Lora, Network, Objective, Train};

/// The time of the fastest step without clipping and with it, in seconds; both take turns.
fn measure(network: &mut Network, batch: &Batch, seconds: f64) -> [f64; 2] {
    let mut best = [f64::INFINITY; 2];
    let mut sum = vec![0.0f32; network.trainable().len()];
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < seconds || best[1].is_infinite() {
        for (private, best) in best.iter_mut().enumerate() {
            for _ in 0..3 {
                let step = Instant::now();
                sum.fill(0.0);
                match private {
                    0 => network.add_gradients(batch, &mut sum).unwrap(),
                    _ => network.add_clipped(batch, &Clipping::Flat { bound: 1.0 }, &mut sum).unwrap(),
                };
                network.trainable_mut().iter_mut().zip(&sum).for_each(|(weight, g)| *weight -= 1e-5 * g);
                *best = best.min(step.elapsed().as_secs_f64());
            }
        }
    }
    best
}

fn numbers(rows: usize, width: usize) -> Inputs {
    let values = (0..rows * width).map(|i| ((i * 7919) % 1000) as f32 / 500.0 - 1.0).collect();
    Inputs::Numbers { values, width }
}

fn tokens(rows: usize, length: usize, vocabulary: usize) -> Inputs {
    let ids = (0..rows * length).map(|i| ((i * 7919 + i / 3) % vocabulary) as u32).collect();
    Inputs::Tokens { ids, length, lengths: vec![length; rows] }
}

fn encoder(vocabulary: usize, width: usize, heads: usize, positions: usize, train: Train) -> Description {
    Description::Encoder(Encoder {
        vocabulary,
        positions,
        width,
        blocks: 6,
        heads,
        hidden: 4 * width,
        outputs: 2,
        objective: Objective::Classes,
        train,
    })
}

#[test]
#[ignore = "measures time"]
fn steps() {
    let mlp = Description::mlp(784, &[512, 256], 10, Activation::Relu, Objective::Classes);
    let cases = [
        ("perceptron 784-512-256-10, 256 rows", mlp, numbers(256, 784), 10),
        ("convolutions 28 x 28, 256 rows", Description::small_cnn(10), numbers(256, 784), 10),
        ("encoder 6 x 256, 32 x 64 tokens", encoder(8000, 256, 8, 64, Train::All), tokens(32, 64, 8000), 2),
        (
            "adapters 6 x 384, 32 x 128 tokens",
            encoder(30522, 384, 6, 128, Train::Lora(Lora::new(8))),
            tokens(32, 128, 30522),
            2,
        ),
    ];
    for (name, description, inputs, classes) in cases {
        let rows = match &inputs {
            Inputs::Numbers { values, width } => values.len() / width,
            Inputs::Tokens { lengths, .. } => lengths.len(),
        };
        let targets = Targets::Classes((0..rows).map(|row| (row % classes) as u32).collect());
        let batch = Batch { inputs, targets, offsets: (0..=rows).collect() };
        let mut network = Network::new(&description, 1).unwrap();
        let [plain, private] = measure(&mut network, &batch, 6.0);
        println!(
            "{name}: {:.0} plain, {:.0} clipped examples/s, ratio {:.3}",
            rows as f64 / plain,
            rows as f64 / private,
            private / plain
        );
    }
}
