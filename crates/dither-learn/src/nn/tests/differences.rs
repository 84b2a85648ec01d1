//! Gradients against central differences of the loss.

use super::cases::{Stream, batch, descriptions, network};
use super::{norm, plain, samples};
use crate::model::{Batch, Model};
use crate::nn::Network;

/// How far the slope of the loss along a direction is from the gradient's, for the worst tensor.
fn worst(network: &mut Network, batch: &Batch) -> (f64, String) {
    let (gradient, _) = plain(network, batch);
    let weights = network.trainable().to_vec();
    let mut stream = Stream::new(5);
    let mut worst = (0.0, String::new());
    for layer in network.layers().to_vec() {
        let range = layer.start..layer.start + layer.shape.iter().product::<usize>();
        let part = &gradient[range.clone()];
        for _ in 0..3 {
            // Half along the gradient, so that there is a slope to see; half anywhere.
            let random = stream.numbers(part.len());
            let (length, other) = (norm(part).max(1e-12), norm(&random));
            let direction: Vec<f64> =
                part.iter().zip(&random).map(|(&g, &r)| f64::from(g) / length + f64::from(r) / other).collect();
            let mut loss = |step: f64| -> f64 {
                let moved = weights[range.clone()].iter().zip(&direction).map(|(&w, d)| w + (step * d) as f32);
                network.trainable_mut()[range.clone()]
                    .iter_mut()
                    .zip(moved)
                    .for_each(|(weight, moved)| *weight = moved);
                let loss = plain(network, batch).1.losses.iter().map(|&loss| f64::from(loss)).sum();
                network.trainable_mut().copy_from_slice(&weights);
                loss
            };
            const STEP: f64 = 2e-3;
            // Of fourth order, so that the step may be wide enough for 32 bits.
            let slope = (8.0 * (loss(STEP) - loss(-STEP)) - (loss(2.0 * STEP) - loss(-2.0 * STEP))) / (12.0 * STEP);
            let expected: f64 = part.iter().zip(&direction).map(|(&g, d)| f64::from(g) * d).sum();
            let error = (slope - expected).abs() / (length + 0.02 * samples(batch) as f64);
            if error > worst.0 {
                worst = (error, format!("{}: {slope} instead of {expected}", layer.name));
            }
        }
    }
    worst
}

#[test]
fn gradients_are_slopes_of_the_loss() {
    for (name, description) in descriptions() {
        let mut network = network(&description, 3);
        let batch = batch(&description, &[1, 2, 1], 4);
        let (error, place) = worst(&mut network, &batch);
        println!("{name}: {error:.1e} at {place}");
        assert!(error < 2e-2, "{name}: {error} at {place}");
    }
}
