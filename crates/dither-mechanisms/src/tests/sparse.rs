//! Attacks on the sparse vector technique: the known broken variants must be caught, the right one must not.

use dither_noise::discrete_laplace;
use dither_testing::FALSE_ALARM;
use dither_testing::fit::{CAUGHT, check_events, check_scale, deviations};
use dither_testing::neighbours::refuted;

use super::*;
use crate::{ExactVector, MaxSensitivity, MechanismError, SparseVector};

/// A sparse vector technique with every part free, for sensitivity one and threshold zero.
#[derive(Clone, Copy)]
struct Variant {
    /// The scale of the threshold's noise; `None` leaves it out.
    threshold: Option<Ratio>,
    /// The scale of the queries' noise; `None` leaves it out.
    queries: Option<Ratio>,
    cutoff: u32,
    /// Releases the noisy value of what is above.
    numeric: bool,
}

impl Variant {
    fn run(&self, queries: &[i128], source: &mut Seeded) -> Vec<Option<i128>> {
        let mut noise = |scale: Option<Ratio>| scale.map_or(0, |scale| discrete_laplace(source, scale).unwrap());
        let threshold = noise(self.threshold);
        let (mut answers, mut left) = (Vec::new(), self.cutoff);
        for query in queries {
            let noisy = query + noise(self.queries);
            answers.push((noisy >= threshold).then_some(if self.numeric { noisy } else { 0 }));
            left -= u32::from(noisy >= threshold);
            if left == 0 {
                break;
            }
        }
        answers
    }

    /// Whether this output refutes ε = `loss` on these neighbours.
    fn refuted(&self, neighbours: [&[i128]; 2], output: &[Option<i128>], loss: f64, draws: u64) -> bool {
        let [a, b] = [(0, 60), (1, 61)].map(|(side, seed)| {
            let mut source = Seeded::new(seed);
            (0..draws).filter(|_| self.run(neighbours[side], &mut source) == output).count() as u64
        });
        refuted(a, b, draws, loss, 0.0, FALSE_ALARM / 2.0) || refuted(b, a, draws, loss, 0.0, FALSE_ALARM / 2.0)
    }
}

const BELOW: Option<i128> = None;
const ABOVE: Option<i128> = Some(0);
const DRAWS: u64 = 150_000;

/// The scale sensitivity/ε for a multiple of sensitivity one.
fn scale(multiple: u128, loss: u128) -> Option<Ratio> {
    Ratio::new(multiple, loss)
}

/// The parameters that [`SparseVector`] draws with, in the free form.
fn ours(sensitivity: MaxSensitivity, cutoff: u32, loss: &str) -> Variant {
    let mechanism = SparseVector::new(groups(10), sensitivity, 0, groups(cutoff), epsilon(loss)).unwrap();
    let [threshold, queries] = [mechanism.threshold_noise(), mechanism.query_noise()].map(|noise| Some(noise.scale()));
    Variant { threshold, queries, cutoff, numeric: false }
}

/// Neighbours, and an output that is much likelier on one of them.
type Attack = (Vec<i128>, Vec<i128>, Vec<Option<i128>>);

/// So many queries that rise from `start` and are below, then so many that fall and are above.
fn rise_and_fall_from(start: i128, below: usize, above: usize) -> Attack {
    let output = [vec![BELOW; below], vec![ABOVE; above]].concat();
    (vec![start; below + above], [vec![start + 1; below], vec![start - 1; above]].concat(), output)
}

fn rise_and_fall(below: usize, above: usize) -> Attack {
    rise_and_fall_from(0, below, above)
}

fn is_refuted(variant: Variant, (a, b, output): &Attack, loss: f64) -> bool {
    variant.refuted([a, b], output, loss, DRAWS)
}

#[test]
fn the_sparse_vector_technique_keeps_its_claim_under_every_attack_on_its_variants() {
    for (cutoff, below, above) in [(1, 1, 1), (1, 4, 0), (1, 3, 1), (4, 1, 4), (6, 3, 3)] {
        let variant = ours(MaxSensitivity::new(1), cutoff, "1");
        let (a, b, output) = rise_and_fall(below, above);
        assert!(!variant.refuted([&a, &b], &output, 1.0, DRAWS / 3), "{cutoff} {below} {above}");
    }
}

#[test]
fn control_without_noise_on_queries() {
    // Lyu et al., Algorithm 5: the answers on one neighbour are impossible on the other.
    let variant = Variant { threshold: scale(2, 1), queries: None, cutoff: 100, numeric: false };
    assert!(is_refuted(variant, &(vec![0, 1], vec![1, 0], vec![BELOW, ABOVE]), 1.0));
}

#[test]
fn control_noisy_values_are_released() {
    // Lyu et al., Algorithm 3: a released value tells that the noisy threshold is not above it.
    let variant = Variant { threshold: scale(2, 1), queries: scale(2, 1), cutoff: 1, numeric: true };
    let (a, b, output) = rise_and_fall(3, 1);
    assert!(variant.refuted([&a, &b], &output, 1.0, 3 * DRAWS));
}

#[test]
fn control_query_noise_does_not_grow_with_the_cutoff() {
    // Lyu et al., Algorithm 4: ε₁ = ε/4 and ε₂ = 3ε/4 without the factors 2 and c.
    let variant = Variant { threshold: scale(4, 1), queries: scale(4, 3), cutoff: 4, numeric: false };
    assert!(is_refuted(variant, &rise_and_fall(1, 4), 1.0));
}

#[test]
fn control_no_cutoff() {
    // Lyu et al., Algorithm 6: noise for one answer above, and any number of them.
    let variant = Variant { threshold: scale(2, 1), queries: scale(2, 1), cutoff: u32::MAX, numeric: false };
    assert!(is_refuted(variant, &rise_and_fall(3, 3), 1.0));
}

#[test]
fn control_no_noise_on_the_threshold() {
    // All of ε for the queries, and no answer above: each answer below costs something then.
    let variant = Variant { threshold: None, queries: scale(2, 1), cutoff: 1, numeric: false };
    assert!(is_refuted(variant, &rise_and_fall(4, 0), 1.0));
}

#[test]
fn control_queries_that_are_not_monotone_under_the_monotone_scale() {
    let attack = rise_and_fall_from(-1, 5, 1);
    assert!(!is_refuted(ours(MaxSensitivity::new(1), 1, "2"), &attack, 2.0));
    assert!(is_refuted(ours(MaxSensitivity::monotone(1), 1, "2"), &attack, 2.0));
}

/// P(output) for threshold noise and query noise of these scales, summed over the noisy threshold.
fn probability(queries: &[i128], output: &[bool], threshold: f64, query: f64) -> f64 {
    let mass = |x: i128| (0.5 / threshold).tanh() * (-(x.abs() as f64) / threshold).exp();
    let below = |value: i128| dither_testing::pmf::laplace_cdf(value - 1, query);
    let answer = |query: i128, above: bool, t: i128| if above { 1.0 - below(t - query) } else { below(t - query) };
    let given = |t: i128| queries.iter().zip(output).map(|(&q, &above)| answer(q, above, t)).product::<f64>();
    (-400..=400).map(|t| mass(t) * given(t)).sum()
}

#[test]
fn fp_05_the_sparse_vector_fits_its_exact_law() {
    let queries = [-3, 1, 0, 4];
    let mechanism = SparseVector::new(groups(4), MaxSensitivity::new(1), 0, groups(2), epsilon("2")).unwrap();
    let [threshold, query] = [mechanism.threshold_noise(), mechanism.query_noise()].map(|noise| noise.scale().as_f64());
    let outputs: Vec<Vec<bool>> = (0..16u32)
        .map(|bits| (0..4).map(|i| bits >> i & 1 == 1).collect())
        // All answers up to the second that is above.
        .map(|all: Vec<bool>| {
            let end = all.iter().enumerate().filter(|&(_, &above)| above).nth(1).map_or(4, |(place, _)| place + 1);
            all[..end].to_vec()
        })
        .collect();
    let (mut source, draws) = (Seeded::new(62), 300_000);
    let mut counts = vec![0; outputs.len()];
    for _ in 0..draws {
        let answers = mechanism.compare(ExactVector { values: queries.to_vec() }, &mut source).unwrap();
        outputs.iter().zip(&mut counts).filter(|(output, _)| **output == answers).for_each(|(_, count)| *count += 1);
    }
    let pmf = |threshold, query| -> Vec<f64> {
        outputs.iter().map(|output| probability(&queries, output, threshold, query)).collect()
    };
    assert_eq!(check_events(&counts, &pmf(threshold, query), draws, FALSE_ALARM), Ok(()));
}

/// The number above among four queries far below the threshold and four far above it, as 5 · first + second.
fn pairs_of_counts(mechanism: &SparseVector, queries: &[i128; 8], runs: u64, seed: u64) -> Vec<u64> {
    let (mut source, mut counts) = (Seeded::new(seed), vec![0; 25]);
    for _ in 0..runs {
        let answers = mechanism.compare(ExactVector { values: queries.to_vec() }, &mut source).unwrap();
        let above = |part: std::ops::Range<usize>| answers[part].iter().filter(|&&above| above).count();
        counts[5 * above(0..4) + above(4..8)] += 1;
    }
    counts
}

/// Its law: given the noisy threshold, the answers are independent coins.
fn law_of_counts(queries: &[i128; 8], threshold: f64, query: f64) -> Vec<f64> {
    let heads = |p: f64, k: i32| [1.0, 4.0, 6.0, 4.0, 1.0][k as usize] * p.powi(k) * (1.0 - p).powi(4 - k);
    let mut law = vec![0.0; 25];
    for t in -400..=400i128 {
        let mass = (0.5 / threshold).tanh() * (-(t.abs() as f64) / threshold).exp();
        let above = |q: i128| 1.0 - dither_testing::pmf::laplace_cdf(t - q - 1, query);
        let (low, high) = (above(queries[0]), above(queries[4]));
        for (place, probability) in law.iter_mut().enumerate() {
            *probability += mass * heads(low, place as i32 / 5) * heads(high, place as i32 % 5);
        }
    }
    law
}

/// Counts fit a law whose scales are multiplied by one, and by nothing else within 1 %.
fn is_sharp(counts: &[u64], law: impl Fn(f64) -> Vec<f64> + Copy, runs: u64) {
    assert!(deviations(law, 1.0, runs) > CAUGHT, "the power: {}", deviations(law, 1.0, runs));
    assert_eq!(check_events(counts, &law(1.0), runs, FALSE_ALARM / 2.0), Ok(()));
    assert_eq!(check_scale(counts, law, 1.0, runs, FALSE_ALARM / 2.0), Ok(()));
    assert!([0.99, 1.01].iter().all(|&mutant| check_scale(counts, law, mutant, runs, FALSE_ALARM / 2.0).is_err()));
}

#[test]
fn fp_05_a_sparse_vector_with_scales_off_by_one_percent_is_rejected() {
    // As many may be above as there are queries, so that no run stops early.
    let mechanism = SparseVector::new(groups(8), MaxSensitivity::monotone(1), 0, groups(8), epsilon("2")).unwrap();
    let [threshold, query] = [mechanism.threshold_noise(), mechanism.query_noise()].map(|noise| noise.scale().as_f64());
    let (queries, runs) = ([-8, -8, -8, -8, 8, 8, 8, 8], 1_000_000);
    let counts = pairs_of_counts(&mechanism, &queries, runs, 64);
    // Both scales, as if ε were another, and the scale of the queries alone: 16 and 13 deviations.
    is_sharp(&counts, |factor| law_of_counts(&queries, threshold * factor, query * factor), runs);
    is_sharp(&counts, |factor| law_of_counts(&queries, threshold, query * factor), runs);
}

#[test]
fn fp_05_a_threshold_with_a_scale_off_by_one_percent_is_rejected() {
    // The noise of the threshold is drawn once in a run and seen through that of the queries alone. If it were seen as
    // it is, a million runs would show 10 deviations; this way 5.6, and so it takes three times as many.
    let (queries, runs) = ([-4, 3, 4], 3_100_000);
    let mechanism = SparseVector::new(groups(3), MaxSensitivity::monotone(1), 0, groups(1), epsilon("1")).unwrap();
    let (mut source, mut counts) = (Seeded::new(65), vec![0; 4]);
    for _ in 0..runs {
        let answers = mechanism.compare(ExactVector { values: queries.to_vec() }, &mut source).unwrap();
        counts[answers.iter().position(|&above| above).unwrap_or(3)] += 1;
    }
    let [threshold, query] = [mechanism.threshold_noise(), mechanism.query_noise()].map(|noise| noise.scale().as_f64());
    // The first that is above is the last that is answered.
    let outputs = [&[true][..], &[false, true], &[false, false, true], &[false, false, false]];
    let law = |factor: f64| outputs.map(|output| probability(&queries, output, threshold * factor, query)).to_vec();
    is_sharp(&counts, law, runs);
}

#[test]
fn the_exact_loss_of_the_sparse_vector_is_within_its_claim_and_close() {
    let mut worst: f64 = 0.0;
    for (cutoff, loss) in [(1, "0.5"), (1, "2"), (3, "2")] {
        let variant = ours(MaxSensitivity::new(1), cutoff, loss);
        let [threshold, query] = [variant.threshold, variant.queries].map(|scale| scale.unwrap().as_f64());
        let claim: f64 = loss.parse().unwrap();
        for (below, above) in [(0, 1), (1, 1), (20, 1), (300, 1), (200, 3)] {
            let (a, b, output) = rise_and_fall(below, above.min(cutoff as usize));
            let output: Vec<bool> = output.iter().map(Option::is_some).collect();
            let exact = (probability(&a, &output, threshold, query) / probability(&b, &output, threshold, query)).ln();
            assert!(exact.abs() <= claim + 1e-9, "{cutoff} {loss} {below} {above}: {exact}");
            worst = worst.max(exact.abs() / claim);
        }
    }
    assert!(worst > 0.9, "the claim is not much too large: {worst}");
}

#[test]
fn fp_14_the_error_quantile_of_the_sparse_vector_covers() {
    let mechanism = SparseVector::new(groups(20), MaxSensitivity::monotone(1), 0, groups(1), epsilon("1")).unwrap();
    let (draws, mut source) = (20_000, Seeded::new(63));
    for probability in [0.5, 0.95] {
        let far = mechanism.error_quantile(probability).unwrap() as i128 + 1;
        let queries = [vec![-far; 19], vec![far]].concat();
        let right = [vec![false; 19], vec![true]].concat();
        let exact = || ExactVector { values: queries.clone() };
        let covered = (0..draws).filter(|_| mechanism.compare(exact(), &mut source).unwrap() == right).count() as u64;
        assert!(dither_testing::binomial::lower(covered, draws, FALSE_ALARM) > probability - 0.05);
    }
    assert_eq!(mechanism.error_quantile(1.0), None);
    assert!(mechanism.error_quantile(0.0).is_some());
}

#[test]
fn fp_06_odd_parameters_of_the_sparse_vector_are_refused() {
    let new = |sensitivity, loss| SparseVector::new(groups(1), sensitivity, i128::MIN, groups(u32::MAX), epsilon(loss));
    assert_eq!(new(MaxSensitivity::new(0), "1"), Err(MechanismError::NoSensitivity));
    let refused = |what| Err(MechanismError::OutOfRange { what });
    assert_eq!(new(MaxSensitivity::new(1), "0.000000001"), refused("epsilon"), "two parts need two nano-units");
    assert_eq!(new(MaxSensitivity::new(1 << 80), "1"), refused("noise scale"));
    assert!(new(MaxSensitivity::new(1 << 40), "1").is_ok());
}
