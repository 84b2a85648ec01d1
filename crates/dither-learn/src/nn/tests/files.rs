//! Weights that leave and come back.

use safetensors::SafeTensors;

use super::cases::{batch, descriptions, encoder, network};
use crate::model::Model;
use crate::nn::{Description, Lora, Network, Train};

#[test]
fn what_is_exported_comes_back() {
    for (name, description) in descriptions() {
        let one = network(&description, 3);
        let mut other = Network::new(&description, 4).unwrap();
        assert_ne!(one.trainable(), other.trainable(), "{name}");
        assert_eq!(other.import(&one.export().unwrap()).unwrap(), Vec::<String>::new(), "{name}");
        assert_eq!(one.trainable(), other.trainable(), "{name}");
        assert_eq!(one.parameters.frozen, other.parameters.frozen, "{name}");
    }
}

#[test]
fn adapters_have_the_layout_of_peft() {
    let description = encoder(Train::Lora(Lora::new(2)));
    let one = network(&description, 3);
    let files = one.export_adapters().unwrap();
    let tensors = SafeTensors::deserialize(&files.weights).unwrap();
    let down = tensors.tensor("base_model.model.encoder.layer.1.attention.self.query.lora_A.weight").unwrap();
    let up = tensors.tensor("base_model.model.encoder.layer.0.attention.self.value.lora_B.weight").unwrap();
    assert_eq!((down.shape(), up.shape()), (&[2, 8][..], &[8, 2][..]));
    assert_eq!(tensors.len(), 2 * 2 * 2 + 2, "two blocks, two targets, A and B; and the head");
    let config: serde_json::Value = serde_json::from_str(&files.config).unwrap();
    assert_eq!((config["r"].as_u64(), config["lora_alpha"].as_f64()), (Some(2), Some(4.0)));
    assert_eq!(config["target_modules"][0], "encoder.layer.0.attention.self.query");
    // The frozen weights stay what they were.
    let mut other = Network::new(&description, 4).unwrap();
    let frozen = other.parameters.frozen.clone();
    let missing = other.import(&files.weights).unwrap();
    assert_eq!(missing.len(), other.parameters.frozen_layers.len());
    assert_eq!((one.trainable(), &frozen), (other.trainable(), &other.parameters.frozen));
    assert!(network(&Description::softmax(2, 2), 1).export_adapters().is_err());
}

#[test]
fn a_pretrained_trunk_takes_adapters_and_a_head() {
    // A twin of a published encoder with random weights: its names have a prefix, or none.
    let trunk = network(&encoder(Train::All), 5);
    let file = trunk.export().unwrap();
    let description = encoder(Train::Lora(Lora::new(2)));
    let mut adapted = Network::new(&description, 6).unwrap();
    let missing = adapted.import(&file).unwrap();
    assert!(!missing.is_empty() && missing.iter().all(|name| name.contains("lora_")), "{missing:?}");
    // B starts with zeros, so adapters change nothing yet.
    let inputs = batch(&description, &[1, 1, 1], 7).inputs;
    assert_eq!(adapted.predict(&inputs).unwrap(), trunk.clone().predict(&inputs).unwrap());
}

#[test]
fn only_what_a_file_lacks_is_drawn_and_it_is_what_it_would_have_been() {
    for (name, description) in descriptions() {
        let whole = network(&description, 3);
        let names: Vec<String> = whole.parameters.tensors().map(|(layer, _)| layer.name.clone()).collect();
        let bytes = whole.export().unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        // Every third tensor, then all but those, then none.
        for kept in [|n: usize| n.is_multiple_of(3), |n: usize| !n.is_multiple_of(3), |_: usize| false] {
            let some = names.iter().enumerate().filter(|(n, _)| kept(*n));
            let file = safetensors::serialize(some.map(|(_, name)| (name, tensors.tensor(name).unwrap())), None);
            let file = file.unwrap();
            let mut expected = Network::new(&description, 8).unwrap();
            let missing = expected.import(&file).unwrap();
            let (found, lacking) = Network::with_weights(&description, 8, &file).unwrap();
            assert_eq!((found.trainable(), &lacking), (expected.trainable(), &missing), "{name}");
            assert_eq!(found.parameters.frozen, expected.parameters.frozen, "{name}");
        }
    }
}

#[test]
fn files_that_do_not_fit_change_nothing() {
    let mut network = network(&Description::softmax(4, 3), 1);
    let before = network.trainable().to_vec();
    let other = Network::new(&Description::softmax(5, 3), 1).unwrap().export().unwrap();
    let mut odd = Network::new(&Description::softmax(4, 3), 1).unwrap();
    odd.trainable_mut()[2] = f32::NAN;
    for file in [&b"nothing"[..], &[], &other, &odd.export().unwrap(), &other[..other.len() - 1]] {
        assert!(network.import(file).is_err());
    }
    assert_eq!(network.trainable(), before);
}
