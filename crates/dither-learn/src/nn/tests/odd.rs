//! Gradients, numbers and descriptions that make no sense.

use super::cases::{batch, descriptions, network};
use super::{clipped, distance, norm, some};
use crate::model::{Batch, Clipping, Inputs, Model, Targets};
use crate::nn::{Description, Input, Layers, Network, NetworkError, Objective, Stage};

const BOUND: Clipping = Clipping::Flat { bound: 1.0 };

#[test]
fn tr_01_one_huge_gradient_moves_the_sum_by_the_bound_only() {
    let mut network = network(&Description::linear(5), 1);
    let mut batch = batch(&Description::linear(5), &[1, 1, 1, 1], 2);
    let Inputs::Numbers { values, .. } = &mut batch.inputs else { unreachable!() };
    values[15..].copy_from_slice(&[300.0, -200.0, 100.0, 400.0, -900.0]);
    let Targets::Numbers(targets) = &mut batch.targets else { unreachable!() };
    targets[3] = 1e3;
    let (with, observed) = clipped(&mut network, &batch, &BOUND);
    let (without, _) = clipped(&mut network, &some(&batch, 0..3), &BOUND);
    assert!(observed.norms[3] > 1e6, "{:?}", observed.norms);
    let change = distance(&with, &without);
    assert!(change <= 1.0 + 1e-6 && change > 0.999, "{change}");
    // The same where all rows of one person do it.
    let owned = Batch { offsets: vec![0, 1, 4], ..batch };
    let (with, _) = clipped(&mut network, &owned, &BOUND);
    let (without, _) = clipped(&mut network, &some(&owned, 0..1), &BOUND);
    assert!(distance(&with, &without) <= 1.0 + 1e-6);
}

#[test]
fn tr_05_a_sample_that_is_not_finite_counts_nothing() {
    for (name, description) in descriptions() {
        let mut network = network(&description, 1);
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut batch = batch(&description, &[2, 2, 1], 2);
            match &mut batch.inputs {
                Inputs::Numbers { values, width } => values[2 * *width + 1] = odd,
                // A token that does not exist.
                Inputs::Tokens { ids, length, .. } => ids[2 * *length] = u32::MAX,
            }
            let (sum, observed) = clipped(&mut network, &batch, &BOUND);
            assert_eq!(observed.not_finite, 1, "{name}");
            let mut rest = clipped(&mut network, &some(&batch, 0..1), &BOUND).0;
            network.add_clipped(&some(&batch, 2..3), &BOUND, &mut rest).unwrap();
            assert!(sum.iter().all(|g| g.is_finite()), "{name}");
            assert!(distance(&sum, &rest) <= 1e-6, "{name}");
            // The same in every layer, where each is clipped by itself.
            let bounds = vec![0.3; network.layers().len()];
            let (sum, observed) = clipped(&mut network, &batch, &Clipping::PerLayer { bounds });
            assert!(observed.not_finite == 1 && sum.iter().all(|g| g.is_finite()), "{name}");
            assert!(clipped(&mut network, &some(&batch, 1..2), &BOUND).0.iter().all(|&g| g == 0.0), "{name}");
        }
    }
}

#[test]
fn tr_05_targets_that_do_not_exist_count_nothing() {
    for (name, description) in descriptions() {
        let mut network = network(&description, 1);
        let mut batch = batch(&description, &[2, 2, 1], 2);
        match &mut batch.targets {
            Targets::Classes(classes) => classes[2] = 77,
            Targets::Numbers(numbers) => numbers[2] = f32::INFINITY,
            Targets::NextToken => continue,
        }
        let (sum, observed) = clipped(&mut network, &batch, &BOUND);
        assert!(observed.not_finite == 1 && sum.iter().all(|g| g.is_finite()), "{name}");
    }
}

#[test]
fn tr_05_squares_beyond_32_bits_are_no_reason_to_drop_or_to_let_pass() {
    // Gradients of 1e25: their squares overflow 32 bits, the clipped ones have norm 1.
    let mut network = network(&Description::linear(5), 1);
    for rows in [vec![1, 1], vec![2, 2]] {
        let mut batch = batch(&Description::linear(5), &rows, 2);
        let Targets::Numbers(targets) = &mut batch.targets else { unreachable!() };
        targets.iter_mut().for_each(|target| *target = 1e25);
        let (sum, observed) = clipped(&mut network, &some(&batch, 0..1), &BOUND);
        assert_eq!(observed.not_finite, 0);
        assert!((norm(&sum) - 1.0).abs() < 1e-5, "{}", norm(&sum));
    }
}

#[test]
fn rows_that_cancel_are_not_underestimated() {
    // Two rows of one person, nearly the same with nearly opposite errors: inner products of 32 bits see nothing of what
    // is left over, and what is left over is above the bound.
    let description = Description::linear(4096);
    let mut network = network(&description, 1);
    network.trainable_mut().fill(0.0);
    let mut values = vec![1000.0; 8192];
    values[4096] = 1001.0;
    let batch = |targets: Vec<f32>| Batch {
        inputs: Inputs::Numbers { values: values.clone(), width: 4096 },
        targets: Targets::Numbers(targets),
        offsets: vec![0, 2],
    };
    for other in [-1000.0, -1000.1, -1001.0] {
        let (sum, observed) = clipped(&mut network, &batch(vec![1000.0, other]), &BOUND);
        assert!(norm(&sum) <= 1.0, "{} with a norm of {:?}", norm(&sum), observed.norms);
    }
}

#[test]
fn tr_06_batch_normalisation_is_refused_and_group_norm_named() {
    let json = r#"{"model": "layers", "input": 4, "objective": "classes",
        "layers": [{"layer": "linear", "outputs": 3}, {"layer": "batch_norm"}]}"#;
    let description: Description = serde_json::from_str(json).unwrap();
    let error = Network::new(&description, 1).unwrap_err();
    let NetworkError::Description(text) = error else { panic!("{error:?}") };
    assert!(text.contains("GroupNorm") && text.contains("layer 1"), "{text}");
}

#[test]
fn descriptions_that_make_no_sense_are_refused() {
    let layers =
        |input, stages: &[Stage], objective| Description::Layers(Layers { input, layers: stages.to_vec(), objective });
    let linear = |outputs| Stage::Linear { outputs, bias: true };
    let image = Input::Image { channels: 3, height: 4, width: 4 };
    let conv = |kernel, stride, padding| Stage::Conv2d { channels: 2, kernel, stride, padding };
    let huge = Input::Image { channels: usize::MAX, height: usize::MAX, width: 2 };
    for description in [
        layers(Input::Numbers(0), &[linear(2)], Objective::Classes),
        layers(huge, &[linear(2)], Objective::Classes),
        layers(Input::Numbers(3), &[linear(usize::MAX)], Objective::Classes),
        layers(Input::Numbers(3), &[linear(2)], Objective::Number),
        layers(Input::Numbers(3), &[linear(1)], Objective::Classes),
        layers(Input::Numbers(3), &[], Objective::Classes),
        layers(Input::Numbers(3), &[conv(1, 1, 0)], Objective::Classes),
        layers(image, &[conv(5, 1, 0)], Objective::Classes),
        layers(image, &[conv(2, 0, 0)], Objective::Classes),
        layers(image, &[conv(0, 1, 0)], Objective::Classes),
        layers(image, &[conv(2, 1, usize::MAX)], Objective::Classes),
        layers(image, &[Stage::MaxPool { kernel: 9, stride: 1 }], Objective::Classes),
        layers(image, &[Stage::GroupNorm { groups: 2 }, linear(2)], Objective::Classes),
    ] {
        let error = Network::new(&description, 1).unwrap_err();
        assert!(matches!(error, NetworkError::Description(_)), "{description:?}: {error}");
    }
}

#[test]
fn fields_that_nobody_knows_are_refused() {
    let parse = |text: &str| serde_json::from_str::<Description>(text);
    let good =
        r#"{"model": "layers", "input": 4, "objective": "classes", "layers": [{"layer": "linear", "outputs": 3}]}"#;
    assert!(parse(good).is_ok());
    for (from, to) in [
        (r#""input": 4"#, r#""input": 4, "dropout": 0.1"#),
        (r#""outputs": 3"#, r#""outputs": 3, "units": 2"#),
        (r#""layer": "linear""#, r#""layer": "recurrent""#),
        (r#""model": "layers""#, r#""model": "forest""#),
    ] {
        assert!(parse(&good.replace(from, to)).is_err(), "{to}");
    }
}

#[test]
fn descriptions_keep_their_form() {
    for (name, description) in descriptions() {
        let text = serde_json::to_string(&description).unwrap();
        assert_eq!(serde_json::from_str::<Description>(&text).unwrap(), description, "{name}: {text}");
    }
}

#[test]
fn batches_of_the_wrong_form_are_refused() {
    let network = network(&Description::softmax(6, 3), 1);
    let good = batch(&Description::softmax(6, 3), &[1, 2], 2);
    let values = |count| Inputs::Numbers { values: vec![0.0; count], width: 6 };
    let tokens = Inputs::Tokens { ids: vec![0; 3], length: 1, lengths: vec![1; 3] };
    let mut sum = vec![0.0; network.trainable().len()];
    for bad in [
        Batch { offsets: vec![0, 1, 2], ..good.clone() },
        Batch { offsets: vec![0, 3, 2, 3], ..good.clone() },
        Batch { offsets: vec![], ..good.clone() },
        Batch { inputs: values(17), ..good.clone() },
        Batch { inputs: tokens, ..good.clone() },
        Batch { targets: Targets::Classes(vec![0, 1]), ..good.clone() },
        Batch { targets: Targets::NextToken, ..good.clone() },
    ] {
        assert!(network.add_clipped(&bad, &BOUND, &mut sum).is_err(), "{bad:?}");
        assert!(network.add_gradients(&bad, &mut sum).is_err(), "{bad:?}");
    }
    assert!(network.add_clipped(&good, &BOUND, &mut sum[1..]).is_err());
    for bound in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(network.add_clipped(&good, &Clipping::Flat { bound }, &mut sum).is_err());
    }
    assert!(network.add_clipped(&good, &Clipping::PerLayer { bounds: vec![1.0] }, &mut sum).is_err());
    assert!(sum.iter().all(|&g| g == 0.0), "what is refused changes nothing");
    assert!(network.add_clipped(&some(&good, 0..0), &BOUND, &mut sum).is_ok(), "nobody is there");
}
