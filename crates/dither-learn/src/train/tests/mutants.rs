//! The trainer with one bug at a time: the test that must notice it does. `docs/testing.md` has the whole list.

use super::{bounds, noise, sampler};
use crate::train::mutant::{ACTIVE, Mutant};

/// Whether a test passes while this is broken. It runs in a thread of its own, which its failure ends.
fn passes(mutant: Option<Mutant>, test: fn()) -> bool {
    let broken = move || {
        ACTIVE.set(mutant);
        test();
    };
    std::thread::spawn(broken).join().is_ok()
}

#[test]
fn control_every_mutant_of_the_trainer_is_caught_by_its_test() {
    let table: [(Mutant, fn()); 6] = [
        (Mutant::EmptySkipped, noise::tr_04_an_empty_sample_gets_noise_and_counts_as_a_step),
        (Mutant::DividedBySample, bounds::tr_07_the_divisor_is_public_and_tells_no_size),
        (Mutant::UnitsApart, bounds::tr_08_a_person_with_many_rows_counts_as_one),
        (Mutant::NotClipped, bounds::tr_01_an_example_with_a_huge_gradient_moves_the_sum_by_the_clipping_norm),
        (Mutant::NotFiniteCounts, bounds::tr_05_what_is_not_finite_contributes_nothing),
        (Mutant::CoinsReused, sampler::every_unit_enters_by_a_coin_of_its_own),
    ];
    for (mutant, test) in table {
        assert!(!passes(Some(mutant), test), "{mutant:?} is not noticed");
        // The same test in the same way, with nothing broken.
        assert!(passes(None, test), "{mutant:?}: its test fails by itself");
    }
}
