//! Broken and copied generators.

#![allow(clippy::unwrap_used, reason = "a failed draw is a failed test")]

mod common;

use common::{Seeded, Stub, ratio};
use dither_noise::{
    BitSource, NoiseError, NoiseSource, bernoulli, bernoulli_exp, discrete_gaussian, discrete_laplace, uniform_below,
};
use dither_testing::StubBytes;
use proptest::prelude::*;

/// Runs every sampler; each must return, with a draw or with an error.
fn run_all(stub: StubBytes, n: u128, d: u128) -> [Option<NoiseError>; 4] {
    let parameter = ratio(n, d);
    [
        uniform_below(&mut Stub(stub), n).err(),
        bernoulli_exp(&mut Stub(stub), n, d).err(),
        discrete_laplace(&mut Stub(stub), parameter).err(),
        discrete_gaussian(&mut Stub(stub), parameter).err(),
    ]
}

#[test]
fn fp_08_a_broken_generator_ends_in_a_draw_or_an_error() {
    let parameters = [1, 2, 3, 1 << 20, (1 << 50) + 1, (1 << 100) - 1, u128::MAX];
    for stub in StubBytes::ALL {
        for n in parameters {
            for d in parameters {
                let _ = run_all(stub, n, d);
            }
        }
    }
}

#[test]
fn fp_08_a_failing_generator_fails_every_draw() {
    for (n, d) in [(5, 3), ((1 << 120) + 1, (1 << 20) + 1)] {
        let errors = run_all(StubBytes::Failing, n, d);
        assert_eq!(errors, [Some(NoiseError::Unavailable); 4]);
    }
}

#[test]
fn fp_08_zeros_never_pass_for_noise() {
    // All-zero bits ask the geometric part to go on for ever.
    let drawn = discrete_laplace(&mut Stub(StubBytes::Constant(0)), ratio(5, 1));
    assert_eq!(drawn, Err(NoiseError::Exhausted));
    assert_eq!(discrete_gaussian(&mut Stub(StubBytes::Constant(0)), ratio(5, 1)), Err(NoiseError::Exhausted));
}

proptest! {
    #[test]
    fn fp_08_no_parameter_panics(seed in 0u64.., n in 1u128.., d in 1u128.., byte in 0u8..) {
        let _ = discrete_laplace(&mut Seeded::new(seed), ratio(n, d));
        let _ = discrete_gaussian(&mut Seeded::new(seed), ratio(n, d));
        let _ = run_all(StubBytes::Constant(byte), n, d);
    }
}

#[test]
fn fp_06_odd_parameters_are_refused() {
    let mut source = Seeded::new(1);
    assert_eq!(uniform_below(&mut source, 0), Err(NoiseError::OutOfRange));
    assert_eq!(bernoulli(&mut source, 3, 2), Err(NoiseError::OutOfRange));
    assert_eq!(bernoulli(&mut source, 0, 0), Err(NoiseError::OutOfRange));
    assert_eq!(bernoulli_exp(&mut source, 1, 0), Err(NoiseError::OutOfRange));
}

fn bytes(source: &mut NoiseSource) -> [u8; 32] {
    let mut buffer = [0; 32];
    source.fill(&mut buffer).unwrap();
    buffer
}

#[test]
fn fp_11_two_requests_draw_different_noise() {
    let (mut a, mut b) = (NoiseSource::from_os().unwrap(), NoiseSource::from_os().unwrap());
    assert_ne!(bytes(&mut a), bytes(&mut b));
    assert_ne!(a.secret().as_bytes(), b.secret().as_bytes());
    // The control: a source that is seeded once and copied repeats itself.
    let noise = |seed| discrete_laplace(&mut Seeded::new(seed), ratio(1 << 60, 1));
    assert_eq!(noise(9), noise(9));
}

#[test]
fn fp_11_a_child_process_draws_its_own_noise() {
    const CHILD: &str = "FP_11_CHILD";
    if std::env::var_os(CHILD).is_some() {
        println!("noise={:?}", bytes(&mut NoiseSource::from_os().unwrap()));
        return;
    }
    let run = || {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "fp_11_a_child_process_draws_its_own_noise", "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().find(|line| line.contains("noise=")).unwrap().to_owned()
    };
    assert_ne!(run(), run());
}
