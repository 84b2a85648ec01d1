//! Files of llama.cpp.

use proptest::prelude::*;

use super::cases::{Stream, batch, llama, network};
use crate::model::{Clipping, Model};
use crate::nn::{Description, Gguf, Lora, Network, Train};

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

/// A file of these keys, each with its type and bytes, and tensors, each with its sizes, type and bytes.
fn file(keys: &[(&str, u32, Vec<u8>)], tensors: &[(String, Vec<u64>, u32, Vec<u8>)]) -> Vec<u8> {
    let mut out = b"GGUF".to_vec();
    out.extend(3u32.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((keys.len() as u64).to_le_bytes());
    for (key, code, value) in keys {
        text(&mut out, key);
        out.extend(code.to_le_bytes());
        out.extend(value);
    }
    let mut data = Vec::new();
    for (name, sizes, code, bytes) in tensors {
        text(&mut out, name);
        out.extend((sizes.len() as u32).to_le_bytes());
        sizes.iter().for_each(|size| out.extend(size.to_le_bytes()));
        out.extend(code.to_le_bytes());
        out.extend((data.len() as u64).to_le_bytes());
        data.extend(bytes);
        data.resize(data.len().next_multiple_of(32), 0);
    }
    out.resize(out.len().next_multiple_of(32), 0);
    out.extend(data);
    out
}

fn words(text_of: &[&str]) -> Vec<u8> {
    let mut out = 8u32.to_le_bytes().to_vec();
    out.extend((text_of.len() as u64).to_le_bytes());
    text_of.iter().for_each(|word| text(&mut out, word));
    out
}

/// The keys of the small network of `cases`, with a vocabulary.
fn keys() -> Vec<(&'static str, u32, Vec<u8>)> {
    let whole = |value: u32| value.to_le_bytes().to_vec();
    let word = |word: &str| {
        let mut out = Vec::new();
        text(&mut out, word);
        out
    };
    let tokens = ["<end>", "a", "b", "ab", "1", "2", "Ġ", "Ġa"];
    let mut kinds = 5u32.to_le_bytes().to_vec();
    kinds.extend(8u64.to_le_bytes());
    [3u32, 1, 1, 1, 1, 1, 1, 1].iter().for_each(|kind| kinds.extend(kind.to_le_bytes()));
    vec![
        ("general.architecture", 8, word("llama")),
        ("llama.block_count", 4, whole(2)),
        ("llama.context_length", 4, whole(64)),
        ("llama.embedding_length", 4, whole(8)),
        ("llama.feed_forward_length", 4, whole(12)),
        ("llama.attention.head_count", 4, whole(4)),
        ("llama.attention.head_count_kv", 4, whole(2)),
        ("llama.rope.freq_base", 6, 100f32.to_le_bytes().to_vec()),
        ("llama.attention.layer_norm_rms_epsilon", 6, 1e-5f32.to_le_bytes().to_vec()),
        ("tokenizer.ggml.model", 8, word("gpt2")),
        ("tokenizer.ggml.pre", 8, word("smollm")),
        ("tokenizer.ggml.tokens", 9, words(&tokens)),
        ("tokenizer.ggml.token_type", 9, kinds),
        ("tokenizer.ggml.merges", 9, words(&["a b", "Ġ a"])),
    ]
}

/// The tensors of a network as 32-bit numbers, queries and keys with pairs side by side.
fn tensors(network: &Network) -> Vec<(String, Vec<u64>, u32, Vec<u8>)> {
    let of = |(layer, numbers): (&crate::model::Layer, &[f32])| {
        let name = match layer.name.as_str() {
            "model.embed_tokens.weight" => "token_embd.weight".to_owned(),
            "model.norm.weight" => "output_norm.weight".to_owned(),
            name => name
                .replace("model.layers.", "blk.")
                .replace("self_attn.o_proj", "attn_output")
                .replace("self_attn.", "attn_")
                .replace("mlp.", "ffn_")
                .replace("post_attention_layernorm", "ffn_norm")
                .replace("input_layernorm", "attn_norm")
                .replace("_proj", ""),
        };
        let mut numbers = numbers.to_vec();
        if name.contains("attn_q") || name.contains("attn_k") {
            // The file's row (head, i, j) is row (head, j, i) here, for pairs i of which j is the half. A head has 2 rows, so
            // nothing moves; wider ones are in `heads_are_put_in_order`.
            assert_eq!(layer.shape[0] % 2, 0);
        }
        let bytes = numbers.drain(..).flat_map(f32::to_le_bytes).collect();
        (name, layer.shape.iter().rev().map(|size| *size as u64).collect(), 0, bytes)
    };
    network.parameters.tensors().filter(|(layer, _)| !layer.name.contains("lora_")).map(of).collect()
}

#[test]
fn a_network_comes_back_from_a_file() {
    let one = network(&llama(Train::All), 3);
    let bytes = file(&keys(), &tensors(&one));
    let gguf = Gguf::read(&bytes).unwrap();
    assert_eq!(gguf.description(7, Train::All).unwrap().train(), Some(&Train::All));
    let mut other = Network::new(&llama(Train::All), 4).unwrap();
    assert_eq!(other.import(&bytes).unwrap(), Vec::<String>::new());
    assert_eq!(one.trainable(), other.trainable());
    // Adapters are missing in it, and change nothing yet.
    let mut adapted = Network::new(&llama(Train::Lora(Lora::new(2))), 5).unwrap();
    let missing = adapted.import(&bytes).unwrap();
    assert!(missing.len() == 8 && missing.iter().all(|name| name.contains("lora_")), "{missing:?}");
    let inputs = batch(&llama(Train::All), &[1, 1, 1], 7).inputs;
    assert_eq!(adapted.predict(&inputs).unwrap(), other.predict(&inputs).unwrap());
}

#[test]
fn files_of_other_networks_are_refused() {
    let one = network(&llama(Train::All), 3);
    let before = one.trainable().to_vec();
    let mut one_again = one.clone();
    let mut refused = |file: Vec<u8>, what: &str| {
        let error = one_again.import(&file).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
        assert_eq!(one_again.trainable(), before);
    };
    let with = |key: &str, value: u32| {
        let mut keys = keys();
        keys.iter_mut().filter(|(name, ..)| *name == key).for_each(|entry| entry.2 = value.to_le_bytes().to_vec());
        file(&keys, &tensors(&one))
    };
    refused(with("llama.attention.head_count", 2), "another network");
    refused(with("llama.rope.freq_base", 1e4f32.to_bits()), "another network");
    refused(with("llama.context_length", 3), "shorter texts");
    refused(file(&keys()[1..], &tensors(&one)), "Llama family");
    let mut untied = tensors(&one);
    untied.push(("output.weight".into(), vec![8, 13], 0, vec![0; 8 * 13 * 4]));
    refused(file(&keys(), &untied), "its head");
    let mut odd = tensors(&one);
    odd[3].2 = 14;
    refused(file(&keys(), &odd), "type 14");
    let mut odd = tensors(&one);
    odd[0].3[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    refused(file(&keys(), &odd), "not finite");
    assert!(Network::new(&Description::softmax(2, 2), 1).unwrap().import(&file(&keys(), &tensors(&one))).is_err());
}

/// Blocks of 4 and 8 bits, by the definition of their layout in 64 bits.
#[test]
fn quantised_blocks_are_what_their_layout_says() {
    // 16-bit numbers: 0.5, −2, 2^−24 (the smallest), 65504 (the largest).
    let halves: [(u16, f64); 4] = [(0x3800, 0.5), (0xc000, -2.0), (1, 2f64.powi(-24)), (0x7bff, 65504.0)];
    let mut stream = Stream::new(3);
    let (mut narrow, mut wide, mut expected) = (Vec::new(), Vec::new(), (Vec::new(), Vec::new()));
    for (scale, d) in halves {
        for (least, m) in halves {
            let bytes: Vec<u8> = (0..16).map(|_| stream.below(256) as u8).collect();
            narrow.extend([scale.to_le_bytes(), least.to_le_bytes()].concat());
            narrow.extend(&bytes);
            expected.0.extend(bytes.iter().map(|byte| d * f64::from(byte % 16) + m));
            expected.0.extend(bytes.iter().map(|byte| d * f64::from(byte / 16) + m));
            let bytes: Vec<u8> = (0..32).map(|_| stream.below(256) as u8).collect();
            wide.extend(scale.to_le_bytes());
            wide.extend(&bytes);
            expected.1.extend(bytes.iter().map(|byte| d * f64::from(*byte as i8)));
        }
    }
    let bytes = file(
        &[],
        &[("blk.0.ffn_up.weight".into(), vec![128, 4], 3, narrow), ("token_embd.weight".into(), vec![64, 8], 8, wide)],
    );
    let gguf = Gguf::read(&bytes).unwrap();
    let up = gguf.tensor("model.layers.0.mlp.up_proj.weight", &[4, 128]).unwrap().unwrap();
    let table = gguf.tensor("model.embed_tokens.weight", &[8, 64]).unwrap().unwrap();
    for (found, expected) in up.iter().zip(&expected.0).chain(table.iter().zip(&expected.1)) {
        assert!((f64::from(*found) - expected).abs() <= 1e-6 * expected.abs() + 1e-6, "{found}, not {expected}");
    }
    assert_eq!((up.len(), table.len()), (512, 512));
}

#[test]
fn heads_are_put_in_order() {
    // Two heads of six rows of one number: pairs (0, 1), (2, 3), (4, 5) become numbers i and i + 3.
    let rows: Vec<u8> = (0..12).flat_map(|row| (row as f32).to_le_bytes()).collect();
    let heads = ("llama.attention.head_count", 4, 2u32.to_le_bytes().to_vec());
    let bytes = file(&[heads], &[("blk.0.attn_q.weight".into(), vec![1, 12], 0, rows)]);
    let found = Gguf::read(&bytes).unwrap().tensor("model.layers.0.self_attn.q_proj.weight", &[12, 1]).unwrap();
    assert_eq!(found.unwrap(), [0.0, 2.0, 4.0, 1.0, 3.0, 5.0, 6.0, 8.0, 10.0, 7.0, 9.0, 11.0]);
}

/// Everything that can be done with a file.
fn use_all(bytes: &[u8]) {
    let Ok(gguf) = Gguf::read(bytes) else { return };
    let _ = gguf.tokenizer();
    let _ = gguf.description(7, Train::All).map(|description| gguf.fits(&description));
    for name in ["model.embed_tokens.weight", "model.norm.weight", "model.layers.0.self_attn.q_proj.weight"] {
        let _ = gguf.tensor(name, &[8, 8]);
        let _ = gguf.tensor(name, &[8]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_the_reader_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        large in proptest::option::of((any::<prop::sample::Index>(), any::<u64>())),
        end in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = file(&keys(), &tensors(&network(&llama(Train::All), 3)));
        for (place, value) in changes {
            // The head of the file is where lengths stand.
            let place = place.index(2048);
            bytes[place] = value;
        }
        if let Some((place, value)) = large {
            let place = place.index(2048);
            bytes[place..place + 8].copy_from_slice(&value.to_le_bytes());
        }
        if cut {
            bytes.truncate(end.index(bytes.len()));
        }
        use_all(&bytes);
        let mut network = network(&llama(Train::All), 4);
        let _ = network.import(&bytes);
        prop_assert!(network.trainable().iter().all(|weight| weight.is_finite()));
    }

    #[test]
    fn nor_do_bytes_of_any_kind(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        use_all(&bytes);
        use_all(&[&b"GGUF\x03\0\0\0"[..], &bytes].concat());
    }
}

#[test]
fn adapters_of_it_have_the_names_of_peft() {
    let description = llama(Train::Lora(Lora::new(2)));
    let network = network(&description, 3);
    let files = network.export_adapters().unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&files.weights).unwrap();
    let name = |part: &str| format!("base_model.model.model.layers.1.self_attn.{part}.weight");
    let shape = |part: &str| tensors.tensor(&name(part)).unwrap().shape().to_vec();
    assert_eq!((shape("q_proj.lora_A"), shape("q_proj.lora_B")), (vec![2, 8], vec![8, 2]));
    // Values have two heads of two numbers.
    assert_eq!((shape("v_proj.lora_A"), shape("v_proj.lora_B")), (vec![2, 8], vec![4, 2]));
    assert_eq!(tensors.len(), 8);
    let config: serde_json::Value = serde_json::from_str(&files.config).unwrap();
    assert_eq!(config["target_modules"][3], "model.layers.1.self_attn.v_proj");
    assert_eq!(config["modules_to_save"], serde_json::Value::Null);
    // Nothing but adapters is trained.
    let batch = batch(&description, &[1, 2], 4);
    let mut sum = vec![0.0; network.trainable().len()];
    network.add_clipped(&batch, &Clipping::Flat { bound: 1.0 }, &mut sum).unwrap();
    assert!(network.layers().iter().all(|layer| layer.name.contains("lora_")));
}
