//! What one unit can change: never more than the plan says.

use dither_testing::SeededBytes;

use super::*;
use crate::model::Targets;
use crate::train::noise::Lattice;

fn numbers(values: &[f32], offsets: &[usize], classes: &[u32]) -> Batch {
    Batch {
        inputs: Inputs::Numbers { values: values.to_vec(), width: 1 },
        targets: Targets::Classes(classes.to_vec()),
        offsets: offsets.to_vec(),
    }
}

fn norm(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().map(|value| value * value).sum::<f64>().sqrt()
}

#[test]
pub(super) fn tr_01_an_example_with_a_huge_gradient_moves_the_sum_by_the_clipping_norm() {
    let ways = [
        Clipping::Flat { bound: 0.7 },
        Clipping::Automatic { bound: 0.7 },
        Clipping::PerLayer { bounds: vec![0.6, 0.3] },
    ];
    for clipping in ways {
        let most = match &clipping {
            Clipping::PerLayer { bounds } => norm(bounds.iter().copied()),
            _ => 0.7,
        };
        for value in [1e6, -1e30, 0.5, 1e-30] {
            let model = Linear::new(1, 2).unwrap();
            let mut sum = vec![0.0; 4];
            model.add_clipped(&numbers(&[value], &[0, 1], &[1]), &clipping, &mut sum).unwrap();
            let norm = norm(sum.iter().map(|x| f64::from(*x)));
            assert!(norm <= most && norm > 0.0, "{clipping:?} {value}: {norm}");
        }
    }
}

#[test]
fn tr_01_neighbouring_samples_differ_by_no_more_than_the_plan_claims() {
    let mut stream = SeededBytes::new(1);
    for round in 0..200 {
        let (bound, weights) = ([0.01, 1.0, 50.0][round % 3], 4 + round);
        let lattice = Lattice::new(bound, 1.0, weights, 1000).unwrap();
        let units = 1 + round % 60;
        // Gradients on the sphere, as large as clipping lets them be.
        let mut gradients: Vec<Vec<f32>> = Vec::new();
        for _ in 0..units {
            let raw: Vec<f64> = (0..weights).map(|_| stream.unit() - 0.5).collect();
            let length = norm(raw.iter().copied());
            gradients.push(raw.iter().map(|x| (x / length * bound * (1.0 - 1e-6)) as f32).collect());
        }
        let sum = |gradients: &[Vec<f32>]| {
            let mut part = vec![0.0f32; weights];
            gradients.iter().for_each(|gradient| part.iter_mut().zip(gradient).for_each(|(sum, x)| *sum += x));
            let mut sum = vec![0; weights];
            lattice.add(&part, (gradients.len(), bound), &mut sum, false);
            sum
        };
        let all = sum(&gradients);
        for left_out in [0, units / 2, units - 1] {
            let mut others = gradients.clone();
            others.remove(left_out);
            let moved = norm(all.iter().zip(sum(&others)).map(|(a, b)| (a - b) as f64));
            assert!(moved <= lattice.sensitivity().as_f64(), "{moved}");
            // Not far above what is needed, either: half of it is caught.
            assert!(moved > lattice.sensitivity().as_f64() / 2.0);
        }
    }
}

#[tokio::test]
async fn tr_01_mutants_that_do_not_clip_or_clip_the_batch_are_refused_or_caught() {
    // Without clipping the sum is longer than units times the norm: the run ends, and nothing is released.
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::new(folder.path(), 2).with_rows(200);
    let mut model = Scripted::new(4, |batch, sum| sum[0] += 1e6 * (batch.offsets.len() - 1) as f32);
    let error = setup.run(&mut model, &mut |_| true).await.unwrap_err();
    assert_eq!(error.to_string(), "the run ended; the charge stands");
    assert!(error.operator_detail().unwrap().contains("clipped gradients cannot have"));
    assert!(model.weights.iter().all(|weight| *weight == 0.0), "nothing was released");
    // Clipping the mean of a batch: a unit that is ten times as long as the others moves it by more than C.
    let lattice = Lattice::new(1.0, 1.0, 2, 1).unwrap();
    let clipped_batch = |gradients: &[[f32; 2]]| {
        let total = gradients.iter().fold([0.0f32; 2], |sum, g| [sum[0] + g[0], sum[1] + g[1]]);
        let length = norm(total.map(f64::from)) as f32;
        let count = gradients.len() as f32;
        let part = total.map(|x| x / length * count);
        let mut sum = [0; 2];
        lattice.add(&part, (gradients.len(), 1.0), &mut sum, false);
        sum
    };
    let others = [[0.1, 0.0]; 10];
    let with: Vec<[f32; 2]> = others.into_iter().chain([[0.0, 100.0]]).collect();
    let (a, b) = (clipped_batch(&others), clipped_batch(&with));
    assert!(norm([(a[0] - b[0]) as f64, (a[1] - b[1]) as f64]) > lattice.sensitivity().as_f64());
}

#[test]
pub(super) fn tr_05_what_is_not_finite_contributes_nothing() {
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut model = Linear::new(1, 2).unwrap();
        model.trainable_mut()[0] = 1.0;
        let (mut alone, mut beside, mut without) = (vec![0.0; 4], vec![0.0; 4], vec![0.0; 4]);
        let clipping = Clipping::Flat { bound: 1.0 };
        let seen = model.add_clipped(&numbers(&[value], &[0, 1], &[1]), &clipping, &mut alone).unwrap();
        assert_eq!((seen.not_finite, &alone), (1, &vec![0.0; 4]));
        model.add_clipped(&numbers(&[0.3, value, -0.2], &[0, 1, 2, 3], &[1, 0, 0]), &clipping, &mut beside).unwrap();
        model.add_clipped(&numbers(&[0.3, -0.2], &[0, 1, 2], &[1, 0]), &clipping, &mut without).unwrap();
        assert_eq!(beside, without);
    }
}

#[tokio::test]
async fn tr_05_odd_cells_change_neither_status_nor_steps_and_weights_stay_finite() {
    let folder = tempfile::tempdir().unwrap();
    let odd = "x,y\nNaN,a\ninf,b\n-1e999,a\n,b\nabc,a\n0.5\n0.5,zzz\n\"0.5,a\n1e38,b\n";
    let setup = Setup::new(folder.path(), 5).with_table(odd);
    let weights = setup.trained().await;
    assert!(weights.iter().all(|weight| weight.is_finite()));
}

/// Physical batches round sums in other ways: with the same noise their difference would show how. That the sums are the same
/// but for the last bits is tested where gradients are clipped.
#[tokio::test]
async fn tr_07_runs_with_other_physical_batches_share_no_noise() {
    let mut all: Vec<Vec<f32>> = Vec::new();
    for physical in [1, 3, 32, 1000] {
        let folder = tempfile::tempdir().unwrap();
        let mut setup = Setup::new(folder.path(), 6).with_rows(200).with_key(5);
        setup.physical = physical;
        let weights = setup.trained().await;
        let apart = |other: &Vec<f32>| other.iter().zip(&weights).any(|(a, b)| (a - b).abs() > 1e-3);
        assert!(all.iter().all(apart), "{physical}: {all:?}");
        all.push(weights);
    }
    // The control: the same run has the same noise, and that of another key has not.
    for (key, same) in [(5, true), (6, false)] {
        let folder = tempfile::tempdir().unwrap();
        let mut setup = Setup::new(folder.path(), 6).with_rows(200).with_key(key);
        setup.physical = 32;
        assert_eq!(setup.trained().await == all[2], same);
    }
}

#[tokio::test]
pub(super) async fn tr_07_the_divisor_is_public_and_tells_no_size() {
    for rows in [20, 21] {
        let folder = tempfile::tempdir().unwrap();
        let mut setup = Setup::new(folder.path(), 1).with_rows(rows).with_key(5);
        setup.request.sample = SampleGoal::Rate(1.0);
        setup.request.noise = NoiseGoal::Multiplier(0.1);
        let mut model = Scripted::new(1, |batch, sum| sum[0] += 0.999 * (batch.offsets.len() - 1) as f32);
        setup.run(&mut model, &mut |_| true).await.unwrap();
        // 200 units are declared. The noise is 0.0005: 0.005 are ten deviations.
        let mean = -f64::from(model.weights[0]);
        assert!((mean - 0.999 * rows as f64 / 200.0).abs() < 0.005, "{mean}");
        // Control: over the size of the sample it is one, whatever that is.
        assert!((0.999 * rows as f64 / 200.0 - 0.999).abs() > 0.005);
    }
}

/// The sum of one step at rate 1, of one row for each of these people.
async fn sum_of(people: &[&str]) -> Vec<f32> {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = people.iter().map(|who| format!("1,a,{who}\n")).collect();
    let mut setup = Setup::new(folder.path(), 1).with_table(&format!("x,y,who\n{rows}")).with_key(7);
    setup.unit = Some("who".into());
    setup.request.unit = PrivacyUnit::Column("who".into());
    setup.request.sample = SampleGoal::Rate(1.0);
    setup.request.divisor = Some(1.0);
    setup.trained().await
}

#[tokio::test]
async fn sq_22_one_person_under_many_spellings_is_one_unit_of_training() {
    let one = sum_of(&["bob", "bob", "bob", "bob"]).await;
    assert_eq!(sum_of(&["bob", "BOB", "Bob ", " bOB"]).await, one);
    assert_eq!(sum_of(&["σίσυφος", "ΣΊΣΥΦΟΣ", "Σίσυφοσ", "σίσυφος"]).await, one);
    // Control: four people.
    assert_ne!(sum_of(&["bob", "eve", "ann", "tom"]).await, one);
}

#[tokio::test]
pub(super) async fn tr_08_a_person_with_many_rows_counts_as_one() {
    // The sums of one step at rate 1, without and with a person of 500 rows; the noise is the same and cancels.
    let sum = async |rows_of_the_last: usize| {
        let folder = tempfile::tempdir().unwrap();
        let mut text = "x,y,who\n".to_owned();
        (0..20).for_each(|i| writeln!(text, "{},{},p{i:02}", f64::from(i) / 20.0, ["a", "b"][i as usize % 2]).unwrap());
        (0..rows_of_the_last).for_each(|_| text.push_str("1,a,z\n"));
        let mut setup = Setup::new(folder.path(), 1).with_table(&text).with_key(7);
        setup.unit = Some("who".into());
        setup.request.unit = PrivacyUnit::Column("who".into());
        setup.request.rows_per_unit = 3;
        setup.request.sample = SampleGoal::Rate(1.0);
        setup.request.divisor = Some(1.0);
        setup.trained().await
    };
    let (without, with) = (sum(0).await, sum(500).await);
    let moved = norm(without.iter().zip(&with).map(|(a, b)| f64::from(a - b)));
    assert!(moved <= 1.0 + 1e-4 && moved > 0.5, "{moved}");
    // Control: the same rows as people of their own.
    let alone = async |rows: usize| {
        let folder = tempfile::tempdir().unwrap();
        let mut text = "x,y\n".to_owned();
        (0..20).for_each(|i| writeln!(text, "{},{}", f64::from(i) / 20.0, ["a", "b"][i as usize % 2]).unwrap());
        (0..rows).for_each(|_| text.push_str("1,a\n"));
        let mut setup = Setup::new(folder.path(), 1).with_table(&text).with_key(7);
        setup.request.sample = SampleGoal::Rate(1.0);
        setup.request.divisor = Some(1.0);
        setup.trained().await
    };
    let (without, with) = (alone(0).await, alone(500).await);
    assert!(norm(without.iter().zip(&with).map(|(a, b)| f64::from(a - b))) > 100.0);
}

#[tokio::test]
async fn tr_10_losses_and_norms_are_for_operators() {
    for operator in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let mut setup = Setup::new(folder.path(), 3).with_rows(200);
        setup.operator = operator;
        let mut seen = 0;
        let mut model = Linear::new(1, 2).unwrap();
        let mut watch = |progress: Progress<'_>| {
            seen += progress.observed.map_or(0, |observed| observed.losses.len());
            true
        };
        setup.run(&mut model, &mut watch).await.unwrap();
        assert_eq!(seen > 0, operator);
    }
}

#[tokio::test]
async fn tr_08_an_author_of_half_the_corpus_counts_as_one() {
    use crate::nn::{Decoder, Description, Network, Train};
    use crate::train::load::Tokens;
    let decoder = Decoder {
        vocabulary: 257,
        positions: 12,
        width: 8,
        blocks: 1,
        heads: 2,
        groups: None,
        hidden: 16,
        train: Train::All,
    };
    // One step of a language model at rate 1, without and with the author: the noise is the same, and cancels.
    let trained = async |of_the_author: usize, apart: bool| {
        let folder = tempfile::tempdir().unwrap();
        let mut text = "who\ttext\n".to_owned();
        (0..40).for_each(|i| writeln!(text, "p{i:02}\tline {i} of others").unwrap());
        (0..of_the_author).for_each(|i| writeln!(text, "z{}\tmine, {i}!", if apart { i } else { 0 }).unwrap());
        std::fs::write(folder.path().join("corpus.tsv"), text).unwrap();
        let mut setup = Setup::new(folder.path(), 1).with_key(7);
        setup.data = Data::Text {
            file: "corpus.tsv".into(),
            delimiter: '\t',
            columns: None,
            text: "text".into(),
            tokens: Tokens::Bytes,
            length: 12,
            label: None,
        };
        setup.unit = Some("who".into());
        setup.request.unit = PrivacyUnit::Column("who".into());
        setup.request.rows_per_unit = 5;
        setup.request.sample = SampleGoal::Rate(1.0);
        setup.request.clipping = Clipping::Flat { bound: 0.5 };
        setup.request.divisor = Some(1.0);
        let mut network = Network::new(&Description::Decoder(decoder.clone()), 3).unwrap();
        setup.run(&mut network, &mut |_| true).await.unwrap();
        network.trainable().to_vec()
    };
    let distance = |a: &[f32], b: &[f32]| norm(a.iter().zip(b).map(|(a, b)| f64::from(a - b)));
    let without = trained(0, false).await;
    let moved = distance(&without, &trained(40, false).await);
    assert!(moved <= 0.5 * 1.001 && moved > 0.4, "{moved}");
    // Control: forty authors of one line.
    let moved = distance(&without, &trained(40, true).await);
    assert!(moved > 5.0, "{moved}");
}
