//! Models that are read back, and quantised, with their cards.

use super::*;
use crate::train::checkpoint;
use crate::train::folder::{CARD, TrainedModel, WEIGHTS, WORDS};
use crate::train::session::TrainingSession;

const NETWORK: &str = r#"
    kind = "network"
    [model.network]
    model = "layers"
    input = 6
    objective = "classes"
    layers = [
        { layer = "linear", outputs = 24 },
        { layer = "activation", function = "tanh" },
        { layer = "layer_norm" },
        { layer = "linear", outputs = 4 },
    ]"#;

/// Rows of four classes, each around a corner of its own; the class follows from the row but for some noise.
fn corners(rows: usize, seed: u64) -> (String, Vec<f32>, Vec<u32>) {
    let mut stream = dither_testing::SeededBytes::new(seed);
    let (mut text, mut numbers, mut classes) = ("a,b,c,d,e,f,y\n".to_owned(), Vec::new(), Vec::new());
    for row in 0..rows {
        let class = row % 4;
        for i in 0..6 {
            let middle = if (class >> (i % 2)) & 1 == 1 { 0.3 } else { -0.3 };
            let value = (middle + 1.2 * (stream.unit() - 0.5)).clamp(-1.0, 1.0);
            write!(text, "{value},").unwrap();
            numbers.push(value as f32);
        }
        writeln!(text, "c{class}").unwrap();
        classes.push(class as u32);
    }
    (text, numbers, classes)
}

/// Trains a model of this kind, and gives the folder with `model` in it.
async fn trained(kind: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("table.csv"), corners(2000, 1).0).unwrap();
    let features: String =
        "abcdef".chars().map(|c| format!(r#"{{ column = "{c}", lower = -1, upper = 1 }},"#)).collect();
    let job = format!(
        r#"
        [ledger]
        file = "ledger.db"
        scope = "people"
        epsilon = 100
        delta = 1e-3
        [data]
        kind = "table"
        file = "table.csv"
        features = [{features}]
        label = {{ column = "y", classes = ["c0", "c1", "c2", "c3"] }}
        [unit]
        count = 2000
        [model]
        {kind}
        [privacy]
        noise_multiplier = 1.0
        delta = 1e-5
        [sample]
        units = 400
        [training]
        steps = 60
        [clipping]
        kind = "flat"
        bound = 1
        [optimizer]
        kind = "adamw"
        learning_rate = 0.05
        [output]
        folder = "model"
        "#
    );
    std::fs::write(folder.path().join("job.toml"), job).unwrap();
    let mut session = TrainingSession::open(&folder.path().join("job.toml")).unwrap();
    session.train(false, false, &mut |_| true).await.unwrap();
    folder
}

/// The share of rows of a public table that a model is right on.
fn accuracy(model: &mut dyn Model) -> f64 {
    let (_, values, classes) = corners(2000, 2);
    let scores = model.predict(&Inputs::Numbers { values, width: 6 }).unwrap();
    let best = |scores: &[f32]| (0..4).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap();
    let right = scores.chunks(4).zip(&classes).filter(|(scores, class)| best(scores) == **class as usize).count();
    right as f64 / classes.len() as f64
}

fn card(folder: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(folder.join(CARD)).unwrap()).unwrap()
}

#[tokio::test]
async fn a_model_is_quantised_for_free_and_its_card_leads_back_to_the_charged_run() {
    for kind in [r#"kind = "linear""#, NETWORK] {
        let folder = trained(kind).await;
        let (source, small) = (folder.path().join("model"), folder.path().join("small"));
        let ledger = std::fs::read(folder.path().join("ledger.db")).unwrap();
        let mut whole = TrainedModel::open(&source).unwrap();
        let done = whole.quantize(&small).unwrap();
        assert!(done.integers > done.floats, "{done:?}");
        assert_eq!(std::fs::read(folder.path().join("ledger.db")).unwrap(), ledger, "nothing is charged");
        // The guarantee, the plan and the receipt stay; what is new says what was done, of which file.
        let (before, after) = (card(&source), card(&small));
        for kept in ["guarantee", "steps", "plan", "plan_sha256", "receipt", "weights_sha256", "model"] {
            assert_eq!(before[kept], after[kept], "{kept}");
            assert!(!after[kept].is_null(), "{kept}");
        }
        assert_eq!(after["post_processing"][0]["source_file_sha256"], before["file_sha256"]);
        assert_ne!(after["file_sha256"], before["file_sha256"]);
        let words = std::fs::read_to_string(small.join(WORDS)).unwrap();
        assert!(words.starts_with(&std::fs::read_to_string(source.join(WORDS)).unwrap()));
        for told in ["Post-processing", "nothing was charged"].into_iter().chain(
            [&after["weights_sha256"], &after["file_sha256"], &before["file_sha256"]]
                .map(|digest| digest.as_str().unwrap()),
        ) {
            assert!(words.contains(told), "{told}: {words}");
        }
        // The ledger holds that digest as the answer to the charge of the receipt, and the source has these weights.
        assert_eq!(checkpoint::digest(whole.model().trainable()), after["weights_sha256"].as_str().unwrap());
        let digest = after["weights_sha256"].as_str().unwrap();
        assert!(ledger.windows(64).any(|window| window == digest.as_bytes()), "the answer in the ledger");
        // It predicts nearly as well, and whoever repeats it gets the same bytes.
        let mut read = TrainedModel::open(&small).unwrap();
        let (exact, near) = (accuracy(whole.model()), accuracy(read.model()));
        assert!(exact > 0.7 && (exact - near).abs() < 0.01, "{exact} {near}");
        let again = folder.path().join("again");
        whole.quantize(&again).unwrap();
        assert_eq!(std::fs::read(small.join(WEIGHTS)).unwrap(), std::fs::read(again.join(WEIGHTS)).unwrap());
    }
}

#[tokio::test]
async fn cards_and_weights_that_do_not_belong_together_are_refused() {
    let (one, other) = (trained(r#"kind = "linear""#).await, trained(r#"kind = "linear""#).await);
    let (source, small) = (one.path().join("model"), one.path().join("small"));
    TrainedModel::open(&source).unwrap().quantize(&small).unwrap();
    for folder in [&source, &small] {
        let whole: Vec<(&str, Vec<u8>)> =
            [WEIGHTS, CARD, WORDS].map(|name| (name, std::fs::read(folder.join(name)).unwrap())).into();
        let refused = |said: &str, name: &str, bytes: Option<Vec<u8>>| {
            let path = folder.join(name);
            match bytes {
                Some(bytes) => std::fs::write(&path, bytes).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
            let error = TrainedModel::open(folder).err().unwrap_or_else(|| panic!("{name}: {said}")).to_string();
            assert!(error.contains(said) && error.contains(name), "{said}: {error}");
            whole.iter().for_each(|(name, bytes)| std::fs::write(folder.join(name), bytes).unwrap());
        };
        let of = |name: &str| whole.iter().find(|(known, _)| *known == name).unwrap().1.clone();
        let foreign = |name: &str| std::fs::read(other.path().join("model").join(name)).unwrap();
        let edited = |name: &str, from: &str, to: &str| {
            let text = String::from_utf8(of(name)).unwrap();
            assert!(text.contains(from), "{from}");
            Some(text.replace(from, to).into_bytes())
        };
        let digest = card(folder)["weights_sha256"].as_str().unwrap().to_owned();
        for name in [WEIGHTS, CARD, WORDS] {
            refused("No such file", name, None);
        }
        for length in [0, 7, 40, of(WEIGHTS).len() - 1] {
            refused("not the file that card.json", WEIGHTS, Some(of(WEIGHTS)[..length].to_vec()));
        }
        for at in (0..of(WEIGHTS).len()).step_by(31) {
            let mut flipped = of(WEIGHTS);
            flipped[at] ^= 1;
            refused("not the file that card.json", WEIGHTS, Some(flipped));
        }
        refused("not the file that card.json", WEIGHTS, Some(foreign(WEIGHTS)));
        refused("no card of a trained model", CARD, Some(of(CARD)[..100].to_vec()));
        refused("no card of a trained model", CARD, Some(b"{}".to_vec()));
        refused("no card of a trained model", CARD, Some(b"[1]".to_vec()));
        refused("it is the card of another run", WORDS, Some(foreign(WORDS)));
        refused("it is the card of another run", WORDS, edited(WORDS, &digest, &"0".repeat(64)));
        std::fs::write(folder.join(CARD), foreign(CARD)).unwrap();
        assert!(TrainedModel::open(folder).err().unwrap().to_string().contains("not the file that card.json"));
        std::fs::write(folder.join(CARD), of(CARD)).unwrap();
        // A form that is another one.
        std::fs::write(folder.join(CARD), edited(CARD, r#""inputs": 6"#, r#""inputs": 7"#).unwrap()).unwrap();
        assert!(TrainedModel::open(folder).err().unwrap().to_string().contains("should be [4, 7]"));
        std::fs::write(folder.join(CARD), of(CARD)).unwrap();
        TrainedModel::open(folder).unwrap();
    }
    // Foreign weights whose file the card was edited for: their digest is another one than that of the run.
    let (mine, theirs) = (card(&source), card(&other.path().join("model")));
    let mut forged = mine.clone();
    forged["file_sha256"] = theirs["file_sha256"].clone();
    std::fs::copy(other.path().join("model").join(WEIGHTS), source.join(WEIGHTS)).unwrap();
    std::fs::write(source.join(CARD), forged.to_string()).unwrap();
    let error = TrainedModel::open(&source).err().unwrap().to_string();
    assert!(error.contains("not those of the run that card.json tells of"), "{error}");
}

#[tokio::test]
async fn nothing_is_overwritten_and_nothing_quantised_twice() {
    let folder = trained(r#"kind = "linear""#).await;
    let (source, small) = (folder.path().join("model"), folder.path().join("small"));
    let model = TrainedModel::open(&source).unwrap();
    model.quantize(&small).unwrap();
    for taken in [&source, &small] {
        let error = model.quantize(taken).unwrap_err().to_string();
        assert!(error.contains("exists already"), "{error}");
    }
    let error = TrainedModel::open(&small).unwrap().quantize(&folder.path().join("smaller")).unwrap_err().to_string();
    assert!(error.contains("integers already") && !folder.path().join("smaller").exists(), "{error}");
}
