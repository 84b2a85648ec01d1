//! Attacks on the low bits.

use dither_core::Lattice;
use dither_testing::lattice::first_off;
use dither_testing::neighbours::refuted;
use dither_testing::{FALSE_ALARM, SeededBytes, naive};

use super::*;

const DRAWS: u64 = 200_000;

/// How often y · 2^53 is not an integer.
fn fine(outputs: impl Iterator<Item = f64>) -> u64 {
    outputs.filter(|y| (y * 2f64.powi(53)).fract() != 0.0).count() as u64
}

#[test]
fn fp_01_low_bits_do_not_tell_zero_from_one() {
    let ours = |exact: i128| {
        let noisy = answers(Noise::Laplace(laplace(1, "1")), exact, DRAWS as usize, &mut Seeded::new(1));
        fine(noisy.into_iter().map(|y| Lattice::UNIT.value(y)))
    };
    assert_eq!((ours(0), ours(1)), (0, 0));
    // The control leaks at every ε that people use: the paper's 27.1 % against 0 % at ε = 1.
    for (loss, share) in [(1.0, 0.271), (0.1, 0.0294)] {
        let mut stream = SeededBytes::new(2);
        let [zero, one] = [0.0, 1.0].map(|f| fine((0..DRAWS).map(|_| f + naive::laplace(&mut stream, 1.0 / loss))));
        assert!((zero as f64 / DRAWS as f64 - share).abs() < 0.02, "{zero} of {DRAWS}");
        assert!(refuted(zero, one, DRAWS, loss, 0.0, FALSE_ALARM), "the naive sampler must fail");
    }
}

/// The exact values of the attack, in steps of 2^-10: 0, 1, 2^40, 2^40 + 1, -10^12 and 0.1 (rounded).
const STEP: f64 = 1.0 / 1024.0;
const EXACT: [i128; 6] = [0, 1 << 10, 1 << 50, (1 << 50) + 1024, -1_024_000_000_000_000, 102];

/// Every output lies on the public grid, and the noise is the same whatever it is added to.
fn check_support(noise: Noise) {
    let (step, refinement) = (STEP / f64::from(1u32 << noise.refinement()), noise.refinement());
    let lattice = Lattice::new(step).unwrap();
    let reference = answers(noise, 0, DRAWS as usize, &mut Seeded::new(3));
    for exact in EXACT {
        let noisy = answers(noise, exact, DRAWS as usize, &mut Seeded::new(3));
        assert_eq!(first_off(noisy.iter().map(|&y| lattice.value(y)), step), None, "exact {exact}");
        assert!(noisy.iter().zip(&reference).all(|(y, noise)| y - (exact << refinement) == *noise), "exact {exact}");
    }
}

#[test]
fn fp_02_laplace_outputs_lie_on_one_public_grid() {
    check_support(Noise::Laplace(laplace(1024, "1")));
    let mut stream = SeededBytes::new(4);
    assert!(first_off((0..100).map(|_| naive::laplace(&mut stream, 1.0)), STEP).is_some());
}

#[test]
fn fp_03_gaussian_outputs_lie_on_one_public_grid() {
    let noise = gaussian(1 << 20, (100 << 20, 1));
    assert_eq!(noise.refinement(), 7, "sigma is 10240 steps");
    check_support(Noise::Gaussian(noise));
    let mut stream = SeededBytes::new(5);
    assert!(first_off((0..100).map(|_| naive::gaussian(&mut stream, 10.0)), STEP / 128.0).is_some());
}

#[test]
fn fp_04_adding_up_float_samples_is_no_cure() {
    let mut stream = SeededBytes::new(6);
    let laplace: Vec<f64> = (0..100).map(|_| (0..4).map(|_| naive::laplace(&mut stream, 0.25)).sum()).collect();
    let gaussian: Vec<f64> = (0..100).map(|_| (0..4).map(|_| naive::gaussian(&mut stream, 0.5)).sum()).collect();
    for cured in [laplace, gaussian] {
        assert!(first_off(cured, STEP / 1024.0).is_some());
    }
}
