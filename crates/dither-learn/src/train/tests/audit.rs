//! A lower bound on ε by attack: canaries in the gradient, one run.

use dither_testing::{SeededBytes, binomial};

use super::*;

/// P(Bin(n, p) = k), for all k.
fn masses(n: usize, p: f64) -> Vec<f64> {
    let p = p.clamp(1e-300, 1.0 - 1e-16);
    let mut factorial = vec![0.0; n + 1];
    for i in 1..=n {
        factorial[i] = factorial[i - 1] + (i as f64).ln();
    }
    (0..=n)
        .map(|k| {
            (factorial[n] - factorial[k] - factorial[n - k] + k as f64 * p.ln() + (n - k) as f64 * (1.0 - p).ln()).exp()
        })
        .collect()
}

/// The largest probability of so many right guesses, or more, under (ε, δ)-privacy with m canaries.
///
/// Steinke, Nasr and Jagielski, *Privacy Auditing with One (1) Training Run*, 2023, Theorem 5.2, in the form of
/// jax_privacy 2.2 `auditing.py`: β + 2mδα.
fn p_value(canaries: usize, guesses: usize, right: usize, delta: f64, epsilon: f64) -> f64 {
    let masses = masses(guesses, 1.0 / (1.0 + (-epsilon).exp()));
    let beta: f64 = masses[right..].iter().sum();
    let (mut below, mut alpha) = (0.0, 0.0f64);
    for i in 1..=right.min(canaries) {
        below += masses[right - i];
        alpha = alpha.max(below / i as f64);
    }
    (beta + 2.0 * canaries as f64 * delta * alpha).min(1.0)
}

/// The largest ε that so many right guesses refute with confidence 1 − p.
fn lower_bound(canaries: usize, guesses: usize, right: usize, delta: f64, p: f64) -> f64 {
    let refuted = |epsilon: f64| p_value(canaries, guesses, right, delta, epsilon) <= p;
    if !refuted(0.0) {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, 50.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if refuted(middle) { low = middle } else { high = middle }
    }
    low
}

#[test]
fn lower_bounds_are_the_published_ones() {
    // jax_privacy 2.2, auditing.py: canaries, guesses, right ones, δ; p = 0.05.
    for (m, guesses, right, delta, expected) in [
        (1000, 1000, 600, 0.0, 0.29747),
        (1000, 1000, 700, 0.0, 0.73201),
        (1000, 100, 90, 0.0, 1.63082),
        (1000, 100, 90, 1e-5, 1.62614),
        (1000, 100, 100, 1e-5, 3.46538),
        (5000, 5000, 3000, 1e-5, 0.35737),
        (10_000, 1000, 800, 1e-5, 1.25079),
        (1000, 1000, 1000, 1e-5, 5.78228),
        (1000, 1000, 500, 0.0, 0.0),
    ] {
        let found = lower_bound(m, guesses, right, delta, 0.05);
        assert!((found - expected).abs() < 2e-5, "{m} {guesses} {right} {delta}: {found} {expected}");
    }
}

const DELTA: &str = "1e-6";
/// For audits in one run.
const CANARIES: usize = 100_000;

/// Trains with a coin for each canary, and gives the coins and the scores.
///
/// Each canary has a direction of its own, and its clipped gradient is all of the clipping norm. No float is added to
/// another, so that one part is enough.
async fn scores(epsilon: &str, steps: u64, rate: f64, canaries: usize) -> (Vec<bool>, Vec<f64>) {
    let folder = tempfile::tempdir().unwrap();
    let mut coins = SeededBytes::new(5);
    let inside: Vec<bool> = (0..canaries).map(|_| coins.unit() < 0.5).collect();
    let mut text = "x,y\n".to_owned();
    (0..canaries).filter(|i| inside[*i]).for_each(|i| writeln!(text, "{i},a").unwrap());
    let mut setup = Setup::new(folder.path(), steps).with_table(&text).with_key(11);
    let last = canaries as f64 - 1.0;
    if let Data::Table { features, .. } = &mut setup.data {
        *features = vec![Feature::Number { column: "x".into(), lower: 0.0, upper: last, missing: None }];
    }
    setup.request.units = None;
    setup.request.sample = SampleGoal::Rate(rate);
    setup.request.delta = DELTA.parse().unwrap();
    setup.request.noise = NoiseGoal::Epsilon(epsilon.parse().unwrap());
    setup.request.divisor = Some(1.0);
    (setup.every, setup.physical) = (steps, 1024);
    let mut model = Scripted::new(canaries, |batch, sum| {
        let Inputs::Numbers { values, .. } = &batch.inputs else { return };
        values.iter().for_each(|x| sum[((f64::from(*x) + 1.0) / 2.0 * last).round() as usize] += 1.0);
    });
    setup.run(&mut model, &mut |_| true).await.unwrap();
    (inside, model.weights.iter().map(|weight| -f64::from(*weight)).collect())
}

fn delta() -> f64 {
    DELTA.parse::<dither_core::Delta>().unwrap().as_f64()
}

/// Scores of a single step as if the noise were so many times as wide: a score is the canary's share of the sum, and noise.
fn with_noise(factor: f64, inside: &[bool], scores: &[f64]) -> Vec<f64> {
    let signal = |i: usize| if inside[i] { 1.0 } else { 0.0 };
    scores.iter().enumerate().map(|(i, score)| signal(i) + factor * (score - signal(i))).collect()
}

/// Guesses that the highest scores are in and the lowest are out, as many as were registered beforehand.
fn audit(inside: &[bool], scores: &[f64], guesses: usize) -> f64 {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    let half = guesses / 2;
    let right = order[..half].iter().filter(|i| !inside[**i]).count()
        + order[order.len() - half..].iter().filter(|i| inside[**i]).count();
    lower_bound(inside.len(), guesses, right, delta(), 0.05)
}

/// The largest ε that canaries refute which are independent of each other, as those with a direction each are.
///
/// Each is then a trial of its own of the test "in, if the score is above the threshold": (ε, δ)-privacy allows no more
/// right than e^ε·wrong + δ (Clopper and Pearson for both shares, 97.5 % each). The threshold is fixed beforehand.
fn independent_bound(inside: &[bool], scores: &[f64], threshold: f64) -> f64 {
    let count = |kind: bool| {
        let all = inside.iter().filter(|inside| **inside == kind).count() as u64;
        let above = inside.iter().zip(scores).filter(|(inside, score)| **inside == kind && **score > threshold);
        (above.count() as u64, all)
    };
    let ((right, members), (wrong, others)) = (count(true), count(false));
    let (right, wrong) = (binomial::lower(right, members, 0.025), binomial::upper(wrong, others, 0.025));
    ((right - delta()).max(f64::MIN_POSITIVE) / wrong).ln().max(0.0)
}

#[tokio::test]
async fn tr_12_no_audit_of_the_healthy_build_exceeds_its_claim_and_mutants_do() {
    for (epsilon, steps, rate) in [("1", 1, 1.0), ("4", 1, 1.0), ("8", 1, 1.0), ("1", 8, 0.5)] {
        let (inside, healthy) = scores(epsilon, steps, rate, CANARIES).await;
        let claim: f64 = epsilon.parse().unwrap();
        let found = audit(&inside, &healthy, 1000);
        assert!(found <= claim, "{found} > {claim}");
        assert!(found > 0.2 * claim.min(2.0), "the audit sees next to nothing: {found} of {claim}");
        if steps > 1 {
            continue;
        }
        let off = audit(&inside, &with_noise(0.0, &inside, &healthy), 50_000);
        assert!(off > claim, "noise off: {off} of {claim}");
        let halved = audit(&inside, &with_noise(0.5, &inside, &healthy), 1000);
        println!("claim {claim}: healthy {found:.2}, noise halved {halved:.2}, noise off {off:.2}");
        // At 8 so many canaries do not hold the information: see the next test.
        assert!(claim == 8.0 || halved > claim, "half the noise: {halved} of {claim}");
    }
}

#[tokio::test]
async fn tr_12_half_the_noise_is_found_at_8_by_a_million_canaries() {
    let (inside, healthy) = scores("8", 1, 1.0, 1_000_000).await;
    let halved = with_noise(0.5, &inside, &healthy);
    // (8, 1e-6) is σ = 0.653 (analytic Gaussian): 4.4 deviations of half of it, which two others of a million pass.
    let threshold = 4.4 * 0.653 / 2.0;
    let (found, control) =
        (independent_bound(&inside, &healthy, threshold), independent_bound(&inside, &halved, threshold));
    let one_run = [10_000, 30_000, 100_000].map(|guesses| audit(&inside, &halved, guesses));
    println!("claim 8: healthy {found:.2}, noise halved {control:.2}; without independence {one_run:.2?}");
    assert!(found <= 8.0, "{found}");
    assert!(control > 8.0, "half the noise: {control}");
}
