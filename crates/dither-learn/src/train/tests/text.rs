//! Texts: vocabularies of published models, adapters, and people with many texts.

use proptest::prelude::*;

use super::*;
use crate::nn::{Decoder, Description, Network, Train};
use crate::train::folder::{ADAPTERS, TrainedModel, WEIGHTS};
use crate::train::load::Tokens;
use crate::train::session::TrainingSession;

/// WordPiece with the marks of BERT, and padding and a length that are for another use.
const WORDPIECE: &str = r###"{
    "version": "1.0",
    "truncation": {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0},
    "padding": {"strategy": {"Fixed": 20}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0,
        "pad_token": "[PAD]"},
    "added_tokens": [
        {"id": 2, "content": "[CLS]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": true},
        {"id": 3, "content": "[SEP]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": true}
    ],
    "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
        "lowercase": true},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
    "decoder": null,
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
        "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "heart": 4, "##s": 5, "pain": 6, "[": 7, "]": 8}}
}"###;

/// Byte-level BPE without all bytes and without a token for what it does not know.
const BPE: &str = r#"{
    "version": "1.0",
    "added_tokens": [],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "post_processor": null,
    "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3, "Ġa": 4}, "merges": ["a b", "Ġ a"]}
}"#;

fn written(folder: &Path) -> [Tokens; 2] {
    std::fs::write(folder.join("wordpiece.json"), WORDPIECE).unwrap();
    std::fs::write(folder.join("bpe.json"), BPE).unwrap();
    ["wordpiece.json", "bpe.json"].map(|name| Tokens::File(name.into()))
}

#[test]
fn texts_are_read_with_vocabularies_of_published_models() {
    let folder = tempfile::tempdir().unwrap();
    let [wordpiece, bpe] = written(folder.path());
    let words = wordpiece.open(folder.path(), 6).unwrap();
    assert_eq!((words.count(), words.digest().len()), (9, 64));
    // The marks of the vocabulary around it, no padding but ours, and what the file says of lengths does not count.
    assert_eq!(words.of("Hearts pain", 6), (vec![2, 4, 5, 6, 3, 0], 5));
    assert_eq!(words.of("pain pain pain pain pain pain", 6), (vec![2, 6, 6, 6, 6, 3], 6));
    // The text of a person holds no marks.
    assert_eq!(words.of("[SEP]", 6), (vec![2, 7, 1, 8, 3, 0], 5));
    assert_eq!(words.of("", 6), (vec![2, 3, 0, 0, 0, 0], 2));
    let pairs = bpe.open(folder.path(), 4).unwrap();
    assert_eq!((pairs.count(), pairs.of("ab a", 4)), (5, (vec![2, 4, 0, 0], 2)));
    // A text without any token of the vocabulary has one that pads.
    assert_eq!(pairs.of("ZZZ", 4), (vec![0, 0, 0, 0], 1));
    let refused =
        |tokens: Tokens, length: usize| tokens.open(folder.path(), length).map(|_| ()).unwrap_err().to_string();
    assert!(refused(wordpiece, 2).contains("2 of 2 tokens are the marks"));
    assert!(refused(bpe, 0).contains("no token is read"));
    for odd in ["", "{}", "GGUF", r#"{"model": {"type": "BPE", "vocab": {}, "merges": []}}"#] {
        std::fs::write(folder.path().join("odd.json"), odd).unwrap();
        assert!(refused(Tokens::File("odd.json".into()), 4).contains("odd.json"), "{odd}");
    }
    let parsed: Tokens = serde_json::from_str(r#"{"file": "t.json"}"#).unwrap();
    assert_eq!(parsed, Tokens::File("t.json".into()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn tr_05_no_text_makes_a_vocabulary_fail(
        text in prop_oneof![".{0,60}", "(heart|pain|s| |\u{300}|[^a-z]){0,40}", "(ab| |a){0,300}"],
        length in 3usize..9,
    ) {
        let folder = tempfile::tempdir().unwrap();
        for tokens in written(folder.path()) {
            let vocabulary = tokens.open(folder.path(), length).unwrap();
            let (ids, real) = vocabulary.of(&text, length);
            prop_assert_eq!(ids.len(), length);
            prop_assert!((1..=length).contains(&(real as usize)));
            prop_assert!(ids.iter().all(|id| *id < vocabulary.count()));
        }
    }
}

#[test]
fn tr_05_texts_without_an_end_are_cut_at_a_public_length() {
    let folder = tempfile::tempdir().unwrap();
    for tokens in written(folder.path()) {
        let vocabulary = tokens.open(folder.path(), 8).unwrap();
        for text in ["a", "é", " ", "\u{fffd}", "[SEP]", "ab\u{0}"] {
            let (ids, real) = vocabulary.of(&text.repeat(200_000), 8);
            assert!(ids.len() == 8 && (1..=8).contains(&real));
        }
    }
}

/// A job on texts with a small decoder.
fn job(train: &str, length: usize) -> String {
    format!(
        r#"
        [ledger]
        file = "ledger.db"
        scope = "people"
        epsilon = 20
        delta = 1e-3
        [data]
        kind = "text"
        file = "texts.tsv"
        delimiter = "\t"
        columns = ["text"]
        text = "text"
        tokens = {{ file = "bpe.json" }}
        length = {length}
        [unit]
        count = 300
        [model]
        kind = "network"
        weights = "public.safetensors"
        [model.network]
        model = "llama"
        vocabulary = 5
        positions = 8
        width = 8
        blocks = 1
        heads = 2
        groups = 1
        hidden = 12
        rotary_base = 10000
        epsilon = 1e-5
        train = {train}
        [privacy]
        noise_multiplier = 1.0
        delta = 1e-4
        [sample]
        units = 30
        [training]
        steps = 3
        [clipping]
        kind = "flat"
        bound = 1
        [optimizer]
        kind = "adamw"
        learning_rate = 0.01
        [output]
        folder = "model"
        "#
    )
}

const LORA: &str =
    r#"{ lora = { rank = 2, alpha = 4, targets = ["query", "key", "value", "output", "gate", "up", "down"] } }"#;

/// Public weights, texts, a vocabulary and a job in a folder.
fn prepared(folder: &Path, job: &str) -> Result<TrainingSession, TrainError> {
    written(folder);
    let texts = ["ab a ab", "a b a", "b", "", "ab ab ab a", "zz ab"].map(|text| format!("{text}\n")).concat();
    std::fs::write(folder.join("texts.tsv"), texts.repeat(50)).unwrap();
    let all = job.split("train = ").next().unwrap().split("[model.network]").nth(1).unwrap();
    let description: Description = toml::from_str(&format!("{all}\ntrain = \"all\"")).unwrap();
    let public = Network::new(&description, 77).unwrap().export().unwrap();
    std::fs::write(folder.join("public.safetensors"), public).unwrap();
    std::fs::write(folder.join("job.toml"), job).unwrap();
    TrainingSession::open(&folder.join("job.toml"))
}

/// The tensors of a file by name.
fn tensors(path: &Path) -> std::collections::BTreeMap<String, Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    file.iter().map(|(name, tensor)| (name.to_owned(), tensor.data().to_vec())).collect()
}

#[tokio::test]
async fn tr_14_adapters_all_move_and_nothing_else_does() {
    // opacus#820: the loss fell and ε was charged while the weights that were exported were not those that were trained.
    let folder = tempfile::tempdir().unwrap();
    let mut session = prepared(folder.path(), &job(LORA, 8)).unwrap();
    let before = session.model().trainable().to_vec();
    session.train(false, false, &mut |_| true).await.unwrap();
    let after = session.model().trainable().to_vec();
    for layer in session.model().layers().to_vec() {
        let range = layer.start..layer.start + layer.shape.iter().product::<usize>();
        assert!(before[range.clone()].iter().zip(&after[range]).all(|(a, b)| a != b), "{}", layer.name);
    }
    // Only adapters are written, and they are what was trained: the public file has all the rest.
    let (model, public) = (folder.path().join("model"), folder.path().join("public.safetensors"));
    assert!(!model.join(WEIGHTS).exists());
    let adapters = tensors(&model.join(ADAPTERS));
    assert_eq!(adapters.len(), 2 * 7);
    for layer in session.model().layers() {
        let range = layer.start..layer.start + layer.shape.iter().product::<usize>();
        let bytes: Vec<u8> = after[range].iter().flat_map(|number| number.to_le_bytes()).collect();
        assert_eq!(adapters[&format!("base_model.model.{}", layer.name)], bytes, "{}", layer.name);
    }
    // Beside that file they are the whole model again; beside another one, or none, they are refused.
    let refused = |base: Option<&Path>| TrainedModel::open_beside(&model, base).err().unwrap().to_string();
    assert!(refused(None).contains("it needs the weights public.safetensors, SHA-256 "), "{}", refused(None));
    assert!(refused(Some(&model.join(ADAPTERS))).contains("is not the file that card.json names"));
    let mut read = TrainedModel::open_beside(&model, Some(&public)).unwrap();
    let texts = Inputs::Tokens { ids: vec![2, 3, 4, 1, 4, 4], length: 3, lengths: vec![3, 2] };
    assert_eq!(read.model().predict(&texts).unwrap(), session.model().predict(&texts).unwrap());
    // Rounded weights are a whole model.
    let small = folder.path().join("small");
    assert!(read.quantize(&small).unwrap().integers > 14);
    let mut rounded = TrainedModel::open(&small).unwrap();
    let close = |(a, b): (&f32, &f32)| (a - b).abs() < 0.05;
    assert!(rounded.model().predict(&texts).unwrap().iter().zip(&read.model().predict(&texts).unwrap()).all(close));
    // Control: adapters beside frozen weights that no file has are written with them.
    let alone = job(LORA, 8)
        .replace("weights = \"public.safetensors\"", "")
        .replace("scope = \"people\"", "scope = \"others\"");
    let mut session = prepared(folder.path(), &alone.replace("\"model\"", "\"alone\"")).unwrap();
    session.train(false, false, &mut |_| true).await.unwrap();
    let mut read = TrainedModel::open(&folder.path().join("alone")).unwrap();
    assert_eq!(read.model().predict(&texts).unwrap(), session.model().predict(&texts).unwrap());
}

#[test]
fn tr_14_adapters_that_nothing_can_move_are_refused_before_the_charge() {
    // With one token there is no next one, so there is no gradient; noise would move the weights all the same.
    let folder = tempfile::tempdir().unwrap();
    let error = prepared(folder.path(), &job(LORA, 1)).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("lora_A.weight has no gradient"), "{error}");
    // With two tokens, only the second position looks at anything but itself, and nothing is predicted from it.
    let value = r#"{ lora = { rank = 2, alpha = 4, targets = ["value"] } }"#;
    prepared(folder.path(), &job(value, 2)).unwrap();
    let query = r#"{ lora = { rank = 2, alpha = 4, targets = ["query"] } }"#;
    assert!(prepared(folder.path(), &job(query, 2)).is_err());
    prepared(folder.path(), &job(query, 3)).unwrap();
}

#[test]
fn weights_of_another_digest_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let with = |digest: &str| {
        let line = format!("weights = \"public.safetensors\"\nsha256 = \"{digest}\"");
        prepared(folder.path(), &job(LORA, 8).replace("weights = \"public.safetensors\"", &line)).map(|_| ())
    };
    let error = with(&"0".repeat(64)).unwrap_err().to_string();
    let right = error.split("its SHA-256 is ").nth(1).unwrap()[..64].to_owned();
    with(&right).unwrap();
    with(&right.to_uppercase()).unwrap();
}

#[test]
fn tr_08_an_author_of_half_the_corpus_counts_as_one() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path());
    let texts = |share: usize| {
        let others = (0..20).map(|author| format!("{author}\t{}\n", ["ab a b", "b a", "ab ab"][author % 3]));
        let many = (0..share).map(|text| format!("many\t{} b\n", "ab a ".repeat(1 + text % 3)));
        others.chain(many).collect::<String>()
    };
    let data = Data::Text {
        file: "texts.tsv".into(),
        delimiter: '\t',
        columns: Some(vec!["author".into(), "text".into()]),
        text: "text".into(),
        tokens: Tokens::File("bpe.json".into()),
        length: 8,
        label: None,
    };
    let description = Description::Decoder(Decoder {
        vocabulary: 5,
        positions: 8,
        width: 8,
        blocks: 1,
        heads: 2,
        groups: None,
        hidden: 16,
        train: Train::All,
    });
    let mut network = Network::new(&description, 3).unwrap();
    network.trainable_mut().iter_mut().for_each(|weight| *weight *= 20.0);
    let sum = |share: usize, rows: u32, clipping: &Clipping| {
        std::fs::write(folder.path().join("texts.tsv"), texts(share)).unwrap();
        let source = Source::open(&data, folder.path(), Some("author")).unwrap();
        let table = Table::new(source.read().unwrap(), rows, &known_key(1));
        let batch = table.batch(&(0..table.units() as u32).collect::<Vec<_>>());
        let mut sum = vec![0.0; network.trainable().len()];
        let seen = network.add_clipped(&batch, clipping, &mut sum).unwrap();
        (sum, seen.norms, *batch.offsets.last().unwrap())
    };
    let distance = |a: &[f32], b: &[f32]| {
        a.iter().zip(b).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum::<f64>().sqrt()
    };
    let clipping = Clipping::Flat { bound: 0.5 };
    for rows in [1, 3, 100] {
        let (without, norms, count) = sum(0, rows, &clipping);
        let (with, _, all) = sum(20, rows, &clipping);
        assert_eq!(all - count, 20.min(rows as usize));
        assert!(norms.iter().any(|norm| *norm > 0.5), "the bound binds: {norms:?}");
        let moved = distance(&with, &without);
        assert!(moved <= 0.5 * (1.0 + 1e-5), "{rows} rows: {moved}");
        assert!(moved > 0.1, "{rows} rows: {moved}");
    }
    // Control: clipping rows and not people lets the author count twenty times.
    std::fs::write(folder.path().join("texts.tsv"), texts(20)).unwrap();
    let source = Source::open(&data, folder.path(), None).unwrap();
    let table = Table::new(source.read().unwrap(), 1, &known_key(1));
    let of = |units: std::ops::Range<u32>| table.batch(&units.collect::<Vec<_>>());
    let (mut with, mut without) = (vec![0.0; network.trainable().len()], vec![0.0; network.trainable().len()]);
    network.add_clipped(&of(0..40), &clipping, &mut with).unwrap();
    network.add_clipped(&of(0..20), &clipping, &mut without).unwrap();
    assert!(distance(&with, &without) > 2.0, "the control is not noticed");
}

/// Texts of people with a secret each: `D:482604`. Digits are drawn one by one, so that those of one person say nothing about
/// those of another.
fn planted(people: usize) -> Vec<String> {
    let mut random = dither_testing::Random(17);
    let mut secret = || (0..6).map(|_| random.below(10).to_string()).collect::<String>();
    (0..people).map(|person| format!("{}:{}", char::from(b'A' + person as u8), secret())).collect()
}

/// How many secrets a model completes from the part before them.
fn extracted(network: &Network, texts: &[String]) -> usize {
    let completed = texts.iter().filter(|text| {
        let ids: Vec<u32> = text.bytes().map(|byte| u32::from(byte) + 1).collect();
        let mut found = ids[..2].to_vec();
        while found.len() < ids.len() {
            let inputs = Inputs::Tokens { ids: found.clone(), length: found.len(), lengths: vec![found.len()] };
            let scores = network.next_token(&inputs).unwrap();
            found.push((0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap() as u32);
        }
        found == ids
    });
    completed.count()
}

#[tokio::test]
async fn tr_17_planted_secrets_come_out_of_the_twin_and_not_out_of_the_model() {
    const PEOPLE: usize = 24;
    const STEPS: u64 = 400;
    let folder = tempfile::tempdir().unwrap();
    let texts = planted(PEOPLE);
    let mut setup = Setup::new(folder.path(), STEPS).with_table(&texts.join("\n"));
    setup.data = Data::Text {
        file: "table.csv".into(),
        delimiter: '\t',
        columns: Some(vec!["text".into()]),
        text: "text".into(),
        tokens: Tokens::Bytes,
        length: 8,
        label: None,
    };
    setup.request.units = Some(PEOPLE as u64);
    setup.request.sample = SampleGoal::Rate(0.5);
    setup.request.noise = NoiseGoal::Multiplier(13.0);
    setup.schedule.method = Method::Adamw { beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weight_decay: 0.0 };
    setup.schedule.learning_rate = 3e-3;
    setup.every = 1000;
    let (width, blocks, heads, hidden) = (32, 1, 4, 128);
    let llama = crate::nn::Llama {
        vocabulary: 257,
        positions: 8,
        width,
        blocks,
        heads,
        groups: 2,
        hidden,
        rotary_base: 1e4,
        epsilon: 1e-5,
        train: Train::All,
    };
    let first = Network::new(&Description::Llama(llama), 5).unwrap();
    let plan = DpPlan::new(&setup.request, first.trainable().len()).unwrap();
    assert!(plan.price().unwrap().best <= 4_000_000_000, "{:?}", plan.price());

    // The control: the same samples on average, as many steps, no clipping, no noise.
    let rows = Source::open(&setup.data, folder.path(), None).unwrap().public_rows().unwrap();
    let mut twin = first.clone();
    let mut optimizer = crate::train::optimizer::Optimizer::new(setup.schedule, STEPS, twin.trainable()).unwrap();
    for step in 0..STEPS {
        let sample: Vec<u32> = (0..PEOPLE as u32).filter(|row| (u64::from(*row) + step) % 2 == 0).collect();
        let batch = Batch {
            inputs: rows.inputs(&sample),
            targets: rows.targets(&sample),
            offsets: (0..=sample.len()).collect(),
        };
        let mut sum = vec![0.0; twin.trainable().len()];
        twin.add_gradients(&batch, &mut sum).unwrap();
        optimizer.update(step, 0, twin.trainable_mut(), sum.iter().map(|g| g / sample.len() as f32));
    }
    let remembered = extracted(&twin, &texts);
    assert!(remembered * 2 >= PEOPLE, "the twin remembers {remembered} of {PEOPLE}");

    let mut private = first;
    setup.run(&mut private, &mut |_| true).await.unwrap();
    // A model that never saw a person is right with a probability of 10^-6; (ε, δ) allows e^4 times that and δ more for each
    // of them, 0.2 % for all.
    assert_eq!(extracted(&private, &texts), 0);
}
