//! Gradient inversion: a step on one row gives the row back, unless there is noise.
//!
//! Zhu, Liu and Han, *Deep Leakage from Gradients*, 2019; for a first layer the leak is exact, without any search (Phong et
//! al., *Privacy-Preserving Deep Learning via Additively Homomorphic Encryption*, 2018, section 3).

use super::*;
use crate::model::Targets;
use crate::nn::{Description, Encoder, Network, Objective, Train};
use crate::train::load::Tokens;

/// Trains one step at rate 1 on a table with one row, and gives minus its weights' movement; and the same gradient of the
/// row, clipped, without noise.
async fn gradients(setup: &Setup, mut model: impl Model, batch: &Batch) -> (Vec<f32>, Vec<f32>) {
    let before = model.trainable().to_vec();
    let mut bare = vec![0.0; before.len()];
    model.add_clipped(batch, &setup.request.clipping, &mut bare).unwrap();
    setup.run(&mut model, &mut |_| true).await.unwrap();
    let noisy = before.iter().zip(model.trainable()).map(|(before, after)| before - after).collect();
    (bare, noisy)
}

fn one_step(folder: &Path) -> Setup {
    let mut setup = Setup::new(folder, 1).with_key(9);
    setup.request.sample = SampleGoal::Rate(1.0);
    setup.request.divisor = Some(1.0);
    setup
}

#[tokio::test]
async fn a_gradient_gives_a_row_of_numbers_back_and_one_with_noise_does_not() {
    const WIDTH: usize = 1000;
    let folder = tempfile::tempdir().unwrap();
    let mut stream = dither_testing::SeededBytes::new(4);
    let row: Vec<f32> = (0..WIDTH).map(|_| (2.0 * stream.unit() - 1.0) as f32).collect();
    let names: Vec<String> = (0..WIDTH).map(|i| format!("x{i}")).collect();
    let cells: Vec<String> = row.iter().map(f32::to_string).collect();
    let mut setup = one_step(folder.path()).with_table(&format!("{},y\n{},a\n", names.join(","), cells.join(",")));
    if let Data::Table { features, .. } = &mut setup.data {
        let feature = |column| Feature::Number { column, lower: -1.0, upper: 1.0, missing: None };
        *features = names.into_iter().map(feature).collect();
    }
    let inputs = Inputs::Numbers { values: row.clone(), width: WIDTH };
    let batch = Batch { inputs, targets: Targets::Classes(vec![0]), offsets: vec![0, 1] };
    let (bare, noisy) = gradients(&setup, Linear::new(WIDTH, 2).unwrap(), &batch).await;
    // Both outputs see the row, with opposite signs.
    let guess = |gradient: &[f32]| -> Vec<f64> {
        (0..WIDTH).map(|i| f64::from(gradient[WIDTH + i]) - f64::from(gradient[i])).collect()
    };
    let likeness = |guess: &[f64]| {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let row: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
        dot(guess, &row) / (dot(guess, guess) * dot(&row, &row)).sqrt()
    };
    let signs = |guess: &[f64]| guess.iter().zip(&row).filter(|(a, b)| (**a > 0.0) == (**b > 0.0)).count();
    // Control: without noise the direction is that of the row, and every sign is right; the bias even gives its length.
    let exact = guess(&bare);
    assert!(likeness(&exact) > 0.999_999 && signs(&exact) == WIDTH, "{}", likeness(&exact));
    let bias = f64::from(bare[2 * WIDTH + 1]) - f64::from(bare[2 * WIDTH]);
    assert!(exact.iter().zip(&row).all(|(g, x)| (g / bias - f64::from(*x)).abs() < 1e-4));
    // With the noise of the plan the likeness is at most 1/√1000 and chance: 0.22 more are seven deviations.
    let guess = guess(&noisy);
    assert!(likeness(&guess) < 0.25, "{}", likeness(&guess));
    assert!(signs(&guess) < WIDTH / 2 + 130, "{}", signs(&guess));
}

#[tokio::test]
async fn a_gradient_gives_the_words_of_a_text_back_and_one_with_noise_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let text = "The quick brown fox jumps over a lazy dog, twice.";
    std::fs::write(folder.path().join("t.tsv"), format!("y\ttext\na\t{text}\n")).unwrap();
    let mut setup = one_step(folder.path());
    setup.data = Data::Text {
        file: "t.tsv".into(),
        delimiter: '\t',
        columns: None,
        text: "text".into(),
        tokens: Tokens::Bytes,
        length: 64,
        label: Some(Label::Class { column: "y".into(), classes: vec!["a".into(), "b".into()] }),
    };
    let encoder = Encoder {
        vocabulary: 257,
        positions: 64,
        width: 8,
        blocks: 1,
        heads: 2,
        hidden: 16,
        outputs: 2,
        objective: Objective::Classes,
        train: Train::All,
    };
    let network = Network::new(&Description::Encoder(encoder), 1).unwrap();
    let table = network.layers().iter().find(|layer| layer.shape == [257, 8]).unwrap().start;
    let rows = Source::open(&setup.data, folder.path(), None).unwrap().public_rows().unwrap();
    let batch = Batch { inputs: rows.inputs(&[0]), targets: rows.targets(&[0]), offsets: vec![0, 1] };
    let (bare, noisy) = gradients(&setup, network, &batch).await;
    let mut secret: Vec<usize> = text.bytes().map(|byte| usize::from(byte) + 1).collect();
    secret.sort_unstable();
    secret.dedup();
    // The tokens whose rows of the table move most.
    let guess = |gradient: &[f32]| {
        let length = |token: usize| gradient[table + 8 * token..][..8].iter().map(|g| g * g).sum::<f32>();
        let mut tokens: Vec<usize> = (0..257).collect();
        tokens.sort_by(|a, b| length(*b).total_cmp(&length(*a)));
        let silent = tokens.iter().filter(|token| length(**token) == 0.0).count();
        tokens.truncate(secret.len());
        tokens.sort_unstable();
        (tokens, silent)
    };
    // Control: exactly these move, and no others.
    assert_eq!(guess(&bare), (secret.clone(), 257 - secret.len()));
    let (tokens, silent) = guess(&noisy);
    let right = tokens.iter().filter(|token| secret.contains(token)).count();
    // By chance a tenth of them: 2.8 of 27, with a deviation of 1.5.
    assert!(silent == 0 && right < 14, "{right} of {}", secret.len());
}
