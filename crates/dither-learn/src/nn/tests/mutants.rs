//! Seeded bugs that the checks of this module must notice.

use super::cases::{batch, decoder, descriptions, encoder, llama, network};
use super::clipped::check;
use super::{clipped, norm, plain, samples, some};
use crate::model::Clipping;
use crate::nn::mutant::{ACTIVE, Mutant};
use crate::nn::{Description, Train};

/// What the check says of a network with, and without, a bug.
fn verdicts(description: &Description, mutant: Mutant) -> (Result<(), String>, Result<(), String>) {
    let mut network = network(description, 7);
    let batch = batch(description, &[1, 3, 1], 8);
    let clipping = Clipping::Flat { bound: 0.4 };
    ACTIVE.set(Some(mutant));
    let broken = check(&mut network, &batch, &clipping, 0.4);
    ACTIVE.set(None);
    (broken, check(&mut network, &batch, &clipping, 0.4))
}

#[test]
fn control_every_seeded_bug_is_noticed() {
    let mut all: Vec<(Description, Mutant)> = Vec::new();
    all.extend(descriptions().into_iter().map(|(_, description)| (description, Mutant::LayerMissing)));
    all.extend(descriptions().into_iter().map(|(_, description)| (description, Mutant::BatchClipped)));
    all.extend([None, Some(2)].map(|groups| (decoder(groups, Train::All), Mutant::NoCrossTerm)));
    all.push((llama(Train::All), Mutant::NoCrossTerm));
    all.extend([encoder(Train::All), decoder(None, Train::All)].map(|network| (network, Mutant::TokensTwice)));
    for (description, mutant) in all {
        let (broken, healthy) = verdicts(&description, mutant);
        assert!(broken.is_err(), "{mutant:?} passes in {description:?}");
        assert_eq!(healthy, Ok(()), "{description:?}");
    }
}

#[test]
fn tr_15_both_uses_of_a_tied_table_count_together() {
    let clipping = Clipping::Flat { bound: 0.4 };
    for description in [decoder(None, Train::All), llama(Train::All)] {
        let mut network = network(&description, 7);
        let mut worst: f64 = 1.0;
        for seed in 0..20 {
            let batch = batch(&description, &[1; 6], seed);
            let (_, healthy) = clipped(&mut network, &batch, &clipping);
            ACTIVE.set(Some(Mutant::NoCrossTerm));
            let (_, broken) = clipped(&mut network, &batch, &clipping);
            ACTIVE.set(None);
            for sample in 0..samples(&batch) {
                let made = norm(&plain(&mut network, &some(&batch, sample..sample + 1)).0);
                assert!(healthy.norms[sample] >= made * (1.0 - 1e-6), "{} of {made}", healthy.norms[sample]);
                worst = worst.min(broken.norms[sample] / made.max(1e-9));
            }
        }
        // The control: without the cross term somebody's gradient seems shorter than it is, and counts too much.
        assert!(worst < 0.995, "{worst}");
    }
}
