//! Clipped sums against gradients that are made one sample at a time.

use proptest::prelude::*;

use super::cases::{batch, descriptions, network};
use super::{clipped, distance, norm, plain, samples, some};
use crate::model::{Batch, Clipping, Inputs, Model, Targets};
use crate::nn::{Activation, Decoder, Description, Encoder, Llama, Lora, Network, Objective, Train};

/// What clipping says a sample counts, from its gradient.
fn reference(network: &Network, gradient: &[f32], clipping: &Clipping) -> Vec<f32> {
    let scaled = |part: &[f32], factor: f64| part.iter().map(|&g| (f64::from(g) * factor) as f32).collect::<Vec<f32>>();
    match clipping {
        Clipping::Flat { bound } => scaled(gradient, (bound / norm(gradient)).min(1.0)),
        Clipping::Automatic { bound } => scaled(gradient, bound / (norm(gradient) + 0.01)),
        Clipping::PerLayer { bounds } => {
            let parts = network.layers().iter().zip(bounds).flat_map(|(layer, bound)| {
                let part = &gradient[layer.start..layer.start + layer.shape.iter().product::<usize>()];
                scaled(part, (bound / norm(part)).min(1.0))
            });
            parts.collect()
        }
    }
}

/// Checks norms, sums, bounds and what one sample changes; says what is wrong.
pub fn check(network: &mut Network, batch: &Batch, clipping: &Clipping, total: f64) -> Result<(), String> {
    let (sum, observed) = clipped(network, batch, clipping);
    let mut expected = vec![0.0f32; sum.len()];
    for sample in 0..samples(batch) {
        let one = some(batch, sample..sample + 1);
        let (gradient, alone) = plain(network, &one);
        let wanted = norm(&gradient);
        let found = observed.norms[sample];
        // Rounding goes up; one row and several are multiplied by other kernels, and what cancels shows more of that.
        if found < wanted * (1.0 - 5e-6) || found > wanted * (1.0 + 1e-5) + 1e-6 {
            return Err(format!("sample {sample}: its norm is {wanted}, not {found}"));
        }
        if (observed.losses[sample] - alone.losses[0]).abs() > 1e-5 * (1.0 + alone.losses[0].abs()) {
            return Err(format!("sample {sample}: its loss is {}, not {}", alone.losses[0], observed.losses[sample]));
        }
        let counts = reference(network, &gradient, clipping);
        expected.iter_mut().zip(&counts).for_each(|(sum, g)| *sum += g);
        let (own, _) = clipped(network, &one, clipping);
        if norm(&own) > total {
            return Err(format!("sample {sample}: it counts {} and may count {total}", norm(&own)));
        }
        // The sum without it: what comes before it, and what comes after.
        let mut rest = clipped(network, &some(batch, 0..sample), clipping).0;
        network.add_clipped(&some(batch, sample + 1..samples(batch)), clipping, &mut rest).unwrap();
        let change = distance(&sum, &rest);
        if change > total * (1.0 + 1e-5) + 1e-6 * norm(&sum) {
            return Err(format!("sample {sample}: it changes the sum by {change} and may by {total}"));
        }
    }
    let error = distance(&sum, &expected);
    // Numbers around 1 may have cancelled to what is left.
    if error > 1e-5 * norm(&expected) + 2e-6 * total + 1e-6 {
        return Err(format!("the sum is off by {error} of {}", norm(&expected)));
    }
    Ok(())
}

/// Every kind of clipping, with bounds of which some bind.
fn clippings(network: &mut Network, batch: &Batch) -> Vec<(Clipping, f64)> {
    let (_, observed) = clipped(network, batch, &Clipping::Flat { bound: 1.0 });
    let mut norms = observed.norms.clone();
    norms.sort_by(f64::total_cmp);
    let bound = norms.get(norms.len() / 2).copied().unwrap_or(1.0).max(0.01);
    let bounds: Vec<f64> = (0..network.layers().len()).map(|layer| bound * 0.1 * (1 + layer % 5) as f64).collect();
    let total = bounds.iter().map(|bound| bound * bound).sum::<f64>().sqrt();
    vec![
        (Clipping::Flat { bound }, bound),
        (Clipping::Automatic { bound }, bound),
        (Clipping::PerLayer { bounds }, total),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn norms_and_sums_are_those_of_gradients_made_one_by_one(
        kind in 0..descriptions().len(),
        rows in proptest::collection::vec(0usize..5, 1..5),
        seed in any::<u64>(),
    ) {
        let (name, description) = descriptions().swap_remove(kind);
        let mut network = network(&description, seed);
        let batch = batch(&description, &rows, seed);
        for (clipping, total) in clippings(&mut network, &batch) {
            let result = check(&mut network, &batch, &clipping, total);
            prop_assert!(result.is_ok(), "{name}, {clipping:?}: {result:?}");
        }
    }

    #[test]
    fn any_split_of_a_batch_gives_the_same_sum(
        kind in 0..descriptions().len(),
        rows in proptest::collection::vec(0usize..4, 2..7),
        cut in any::<prop::sample::Index>(),
        seed in any::<u64>(),
    ) {
        let (name, description) = descriptions().swap_remove(kind);
        let mut network = network(&description, seed);
        let batch = batch(&description, &rows, seed);
        let clipping = Clipping::Flat { bound: 0.5 };
        let (whole, _) = clipped(&mut network, &batch, &clipping);
        let cut = cut.index(rows.len());
        let (mut parts, _) = clipped(&mut network, &some(&batch, 0..cut), &clipping);
        network.add_clipped(&some(&batch, cut..rows.len()), &clipping, &mut parts).unwrap();
        prop_assert!(distance(&whole, &parts) <= 1e-5 * norm(&whole) + 1e-6, "{name}");
    }
}

#[test]
fn every_kind_of_network_is_clipped_as_if_gradients_were_made() {
    // One person owns half of the rows, and one has none.
    for (kind, (name, description)) in descriptions().into_iter().enumerate() {
        for rows in [vec![1; 6], vec![1, 6, 0, 2, 3], vec![1]] {
            let mut network = network(&description, kind as u64);
            let batch = batch(&description, &rows, kind as u64 + 100);
            for (clipping, total) in clippings(&mut network, &batch) {
                let result = check(&mut network, &batch, &clipping, total);
                assert_eq!(result, Ok(()), "{name}, {rows:?}, {clipping:?}");
            }
        }
    }
}

#[test]
fn norms_of_wider_networks_are_as_exact() {
    let wider = |train| Encoder {
        vocabulary: 300,
        positions: 24,
        width: 64,
        blocks: 2,
        heads: 4,
        hidden: 256,
        outputs: 5,
        objective: Objective::Classes,
        train,
    };
    let Encoder { vocabulary, positions, width, blocks, heads, hidden, train, .. } = wider(Train::All);
    let decoder = Decoder { vocabulary, positions, width, blocks, heads, groups: None, hidden, train };
    let llama = |train| Llama {
        vocabulary,
        positions,
        width,
        blocks,
        heads,
        groups: 2,
        hidden,
        rotary_base: 1e4,
        epsilon: 1e-5,
        train,
    };
    for description in [
        Description::Encoder(wider(Train::All)),
        Description::Encoder(wider(Train::Lora(Lora::new(4)))),
        Description::Decoder(decoder),
        Description::Llama(llama(Train::All)),
        Description::Llama(llama(Train::Lora(Lora::new(4)))),
        Description::mlp(100, &[200, 50], 10, Activation::Gelu, Objective::Classes),
        Description::small_cnn(10),
    ] {
        let mut network = Network::new(&description, 1).unwrap();
        let batch = batch(&description, &[1, 2, 1, 0, 3], 2);
        for (clipping, total) in clippings(&mut network, &batch) {
            assert_eq!(check(&mut network, &batch, &clipping, total), Ok(()), "{description:?}, {clipping:?}");
        }
    }
}

#[test]
fn tr_16_padding_changes_nothing() {
    for (name, description) in descriptions() {
        let mut network = network(&description, 8);
        let mut batch = batch(&description, &[2, 1], 9);
        let Inputs::Tokens { ids, length, lengths } = &mut batch.inputs else { continue };
        lengths.iter_mut().for_each(|real| *real = (*real).clamp(2, 4));
        let shorter = *length.min(&mut 4);
        let cut: Vec<u32> = ids.chunks(*length).flat_map(|row| row[..shorter].to_vec()).collect();
        lengths.iter_mut().for_each(|real| *real = (*real).min(shorter));
        let (longer, garbage) = (7, 3);
        let padded = cut.chunks(shorter).flat_map(|row| [row, &vec![garbage; longer - shorter]].concat()).collect();
        let lengths = lengths.clone();
        let targets = batch.targets.clone();
        let of = |ids, length| Batch {
            inputs: Inputs::Tokens { ids, length, lengths: lengths.clone() },
            targets: targets.clone(),
            offsets: vec![0, 2, 3],
        };
        let clipping = Clipping::Flat { bound: 0.7 };
        let (a, b) = (of(cut, shorter), of(padded, longer));
        assert_eq!(clipped(&mut network, &a, &clipping).0, clipped(&mut network, &b, &clipping).0, "{name}");
        assert_eq!(network.predict(&a.inputs).unwrap(), network.predict(&b.inputs).unwrap(), "{name}");
        // Control: padding that counts as text is noticed.
        let mut counted = b.clone();
        if let Inputs::Tokens { lengths, .. } = &mut counted.inputs {
            lengths.fill(longer);
        }
        assert_ne!(clipped(&mut network, &a, &clipping).0, clipped(&mut network, &counted, &clipping).0, "{name}");
    }
}

#[test]
fn a_run_is_repeated_bit_by_bit() {
    for (name, description) in descriptions() {
        let batch = batch(&description, &[2, 1, 1], 9);
        let run = || clipped(&mut network(&description, 8), &batch, &Clipping::Flat { bound: 0.7 }).0;
        assert_eq!(run(), run(), "{name}");
    }
}

#[test]
fn the_sum_of_clipped_gradients_is_not_the_clipped_sum_of_gradients() {
    // What is clipped is a sample, and a sample is all rows of a person: two rows of one count less than one of two.
    let mut network = network(&super::cases::descriptions()[1].1, 1);
    let inputs = Inputs::Numbers { values: vec![3.0; 12], width: 6 };
    let together = Batch { inputs, targets: Targets::Classes(vec![0, 0]), offsets: vec![0, 2] };
    let apart = Batch { offsets: vec![0, 1, 2], ..together.clone() };
    let clipping = Clipping::Flat { bound: 0.1 };
    let (one, two) = (clipped(&mut network, &together, &clipping).0, clipped(&mut network, &apart, &clipping).0);
    assert!((norm(&one) - 0.1).abs() < 1e-5 && (norm(&two) - 0.2).abs() < 1e-5);
}
