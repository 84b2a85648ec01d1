//! Attacks on choices among candidates.

use dither_testing::binomial::upper;
use dither_testing::fit::{CAUGHT, check_events, check_scale, deviations};
use dither_testing::neighbours::refuted;
use dither_testing::{FALSE_ALARM, naive};

use super::*;
use crate::{
    ExactVector, ExponentialMechanism, MaxNoise, MaxSensitivity, MechanismError, NoisyMax, PermuteAndFlip, Selection,
    TopK,
};

const DRAWS: u64 = 200_000;

fn selection(candidates: usize, sensitivity: MaxSensitivity, loss: &str) -> Selection {
    Selection::new(groups(candidates as u32), sensitivity, epsilon(loss)).unwrap()
}

/// Utilities that move one way, so that a loss of ε is a rate of ε.
fn monotone(candidates: usize, loss: &str) -> Selection {
    selection(candidates, MaxSensitivity::monotone(1), loss)
}

fn exact(values: &[i128]) -> ExactVector {
    ExactVector { values: values.to_vec() }
}

type Choose<'a> = &'a dyn Fn(ExactVector, &mut Seeded) -> usize;

/// How often each candidate is chosen.
fn chosen(candidates: usize, draws: u64, mut choose: impl FnMut() -> usize) -> Vec<u64> {
    let mut counts = vec![0; candidates];
    (0..draws).for_each(|_| counts[choose()] += 1);
    counts
}

/// The exact law of report-noisy-max: noisy values are summed over, ties are shared evenly.
fn noisy_max_pmf(utilities: &[i128], mass: impl Fn(i128) -> f64) -> Vec<f64> {
    let reach = 100;
    let below = |utility: i128, value: i128| (-reach..value - utility).map(&mass).sum::<f64>();
    let mut pmf = vec![0.0; utilities.len()];
    for value in -reach..=reach {
        let others = |skip: usize| utilities.iter().enumerate().filter(move |&(j, _)| j != skip);
        for (i, &utility) in utilities.iter().enumerate() {
            // The probability that m of the others tie at this value and the rest is below it, for each m.
            let mut ties = vec![1.0];
            for (_, &other) in others(i) {
                let (tie, less) = (mass(value - other), below(other, value));
                let mut next = vec![0.0; ties.len() + 1];
                for (m, p) in ties.iter().enumerate() {
                    next[m] += p * less;
                    next[m + 1] += p * tie;
                }
                ties = next;
            }
            let share: f64 = ties.iter().enumerate().map(|(m, p)| p / (m + 1) as f64).sum();
            pmf[i] += mass(value - utility) * share;
        }
    }
    pmf
}

fn exponential_mass(rate: f64) -> impl Fn(i128) -> f64 {
    move |x| if x < 0 { 0.0 } else { -(-rate).exp_m1() * (-rate * x as f64).exp() }
}

fn laplace_mass(rate: f64) -> impl Fn(i128) -> f64 {
    move |x| (rate / 2.0).tanh() * (-rate * x.abs() as f64).exp()
}

#[test]
fn fp_05_noisy_max_fits_with_its_ties() {
    for utilities in [vec![0, 0], vec![0, 3], vec![3, 3, 0, 1]] {
        for noise in [MaxNoise::Exponential, MaxNoise::Laplace] {
            let mechanism = NoisyMax::new(monotone(utilities.len(), "0.7"), noise);
            let mut source = Seeded::new(50);
            let counts = chosen(utilities.len(), DRAWS, || mechanism.choose(exact(&utilities), &mut source).unwrap());
            let fits = |rate| {
                let pmf = match noise {
                    MaxNoise::Exponential => noisy_max_pmf(&utilities, exponential_mass(rate)),
                    MaxNoise::Laplace => noisy_max_pmf(&utilities, laplace_mass(rate)),
                };
                check_events(&counts, &pmf, DRAWS, FALSE_ALARM)
            };
            assert_eq!(fits(0.7), Ok(()), "{utilities:?} {noise:?}");
        }
    }
    // The control: ties that go to the first candidate.
    let (mut source, rate) = (Seeded::new(51), Ratio::new(10, 7).unwrap());
    let counts = chosen(2, DRAWS, || {
        let [a, b] = [(); 2].map(|()| dither_noise::discrete_exponential(&mut source, rate).unwrap());
        usize::from(b > a)
    });
    let pmf = noisy_max_pmf(&[0, 0], exponential_mass(0.7));
    assert!(check_events(&counts, &pmf, DRAWS, FALSE_ALARM).is_err());
}

/// A good candidate that is about as likely as eight poor ones together, and their rate. Two candidates alone would show
/// a rate that is 1 % off with at most 6.6 deviations in a million choices.
const CROWD: [i128; 9] = [0, 0, 0, 0, 0, 4, 0, 0, 0];
const RATE: f64 = 0.7;
const MILLION: u64 = 1_000_000;

/// Counts fit a law at its rate, and at no rate that is 1 % off.
fn is_sharp(counts: &[u64], law: impl Fn(f64) -> Vec<f64> + Copy) {
    assert!(deviations(law, RATE, MILLION) > CAUGHT, "the power");
    assert_eq!(check_events(counts, &law(RATE), MILLION, FALSE_ALARM / 2.0), Ok(()));
    assert_eq!(check_scale(counts, law, RATE, MILLION, FALSE_ALARM / 2.0), Ok(()));
    for mutant in [RATE * 0.99, RATE * 1.01] {
        assert!(check_scale(counts, law, mutant, MILLION, FALSE_ALARM / 2.0).is_err(), "{mutant}");
    }
}

#[test]
fn fp_05_a_noisy_max_with_a_rate_off_by_one_percent_is_rejected() {
    for noise in [MaxNoise::Exponential, MaxNoise::Laplace] {
        let crowd = &CROWD[..7];
        let (mechanism, mut source) = (NoisyMax::new(monotone(7, "0.7"), noise), Seeded::new(59));
        let counts = chosen(7, MILLION, || mechanism.choose(exact(crowd), &mut source).unwrap());
        is_sharp(&counts, |rate| match noise {
            MaxNoise::Exponential => noisy_max_pmf(crowd, exponential_mass(rate)),
            MaxNoise::Laplace => noisy_max_pmf(crowd, laplace_mass(rate)),
        });
    }
}

#[test]
fn fp_05_choices_with_a_rate_off_by_one_percent_are_rejected() {
    let mut source = Seeded::new(60);
    let mechanism = ExponentialMechanism::new(monotone(9, "0.7"));
    let counts = chosen(9, MILLION, || mechanism.choose(exact(&CROWD), &mut source).unwrap());
    is_sharp(&counts, |rate| {
        let weights = CROWD.map(|utility| (rate * utility as f64).exp());
        weights.map(|weight| weight / weights.iter().sum::<f64>()).to_vec()
    });
    // Permute-and-flip is report-noisy-max with exponential noise (Ding et al. 2021), in the reals; ties of integer
    // noise make another law. Here a poor candidate is reached before the good one and taken: of n poor ones with
    // weight w the good one is taken with probability (1 − (1 − w)^(n + 1))/((n + 1)w).
    let mechanism = PermuteAndFlip::new(monotone(9, "0.7"));
    let counts = chosen(9, MILLION, || mechanism.choose(exact(&CROWD), &mut source).unwrap());
    is_sharp(&counts, |rate| {
        let weight = (-4.0 * rate).exp();
        let good = (1.0 - (1.0 - weight).powi(9)) / (9.0 * weight);
        CROWD.map(|utility| if utility == 4 { good } else { (1.0 - good) / 8.0 }).to_vec()
    });
}

#[test]
fn fp_05_a_top_k_with_a_rate_off_by_one_percent_is_rejected() {
    let mechanism = TopK::new(monotone(9, "0.7"), groups(2)).unwrap();
    let mut source = Seeded::new(61);
    let counts = chosen(81, MILLION, || {
        let pair = mechanism.choose(exact(&CROWD), &mut source).unwrap();
        pair[0] * 9 + pair[1]
    });
    is_sharp(&counts, |rate| pairs_pmf(&CROWD, rate));
}

/// The exact law of an ordered pair by peeling.
fn pairs_pmf(utilities: &[i128], rate: f64) -> Vec<f64> {
    let weights: Vec<f64> = utilities.iter().map(|&u| (rate * u as f64).exp()).collect();
    let total: f64 = weights.iter().sum();
    let pair = |i: usize, j: usize| if i == j { 0.0 } else { weights[i] / total * weights[j] / (total - weights[i]) };
    (0..weights.len()).flat_map(|i| (0..weights.len()).map(move |j| (i, j))).map(|(i, j)| pair(i, j)).collect()
}

#[test]
fn top_k_is_peeling_and_equals_gumbel_noise_in_one_shot() {
    let utilities = [0, 1, 2, 4];
    let place = |pair: &[usize]| pair[0] * 4 + pair[1];
    let mechanism = TopK::new(monotone(4, "0.7"), groups(2)).unwrap();
    let mut source = Seeded::new(52);
    let counts = chosen(16, DRAWS, || place(&mechanism.choose(exact(&utilities), &mut source).unwrap()));
    assert_eq!(check_events(&counts, &pairs_pmf(&utilities, 0.7), DRAWS, FALSE_ALARM), Ok(()));
    // Durfee and Rogers: the same law from one Gumbel noise for each candidate, here in floating point.
    let mut stream = SeededBytes::new(53);
    let counts = chosen(16, DRAWS, || {
        let mut noisy: Vec<(f64, usize)> =
            utilities.iter().map(|&u| 0.7 * u as f64 - (-(1.0 - stream.unit()).ln()).ln()).zip(0..).collect();
        noisy.sort_by(|a, b| b.0.total_cmp(&a.0));
        place(&[noisy[0].1, noisy[1].1])
    });
    assert_eq!(check_events(&counts, &pairs_pmf(&utilities, 0.7), DRAWS, FALSE_ALARM), Ok(()));
    // The control: Laplace noise in one shot is something else.
    let counts = chosen(16, DRAWS, || {
        let mut noisy: Vec<(f64, usize)> =
            utilities.iter().map(|&u| 0.7 * u as f64 + naive::laplace(&mut stream, 1.0)).zip(0..).collect();
        noisy.sort_by(|a, b| b.0.total_cmp(&a.0));
        place(&[noisy[0].1, noisy[1].1])
    });
    assert!(check_events(&counts, &pairs_pmf(&utilities, 0.7), DRAWS, FALSE_ALARM).is_err());
}

/// P(the first of two is chosen) on neighbours whose utilities move in opposite directions, at a claimed ε of 1.
fn opposite_moves_refute(sensitivity: MaxSensitivity) -> bool {
    let mechanism = PermuteAndFlip::new(selection(2, sensitivity, "1"));
    let mut source = Seeded::new(54);
    let mut first =
        |utilities: [i128; 2]| chosen(2, DRAWS, || mechanism.choose(exact(&utilities), &mut source).unwrap())[0];
    let (even, worse) = (first([0, 0]), first([-1, 1]));
    refuted(even, worse, DRAWS, 1.0, 0.0, FALSE_ALARM)
}

#[test]
fn the_sharper_scale_is_for_utilities_that_move_one_way_only() {
    assert!(!opposite_moves_refute(MaxSensitivity::new(1)));
    assert!(opposite_moves_refute(MaxSensitivity::monotone(1)), "the control: a replaced unit is not monotone");
    // One way, the sharper scale keeps its claim, and attains it.
    let one_way = |loss: &str| {
        let mechanism = PermuteAndFlip::new(monotone(2, loss));
        let mut source = Seeded::new(55);
        let mut first = |u: [i128; 2]| chosen(2, DRAWS, || mechanism.choose(exact(&u), &mut source).unwrap())[0];
        let (even, worse) = (first([0, 0]), first([0, 1]));
        refuted(even, worse, DRAWS, 1.0, 0.0, FALSE_ALARM)
    };
    assert!(!one_way("1") && one_way("1.05"));
}

#[test]
fn fp_14_error_quantiles_of_choices_cover_the_worst_utilities() {
    let candidates = 10;
    let selection = monotone(candidates, "0.5");
    for probability in [0.5, 0.9, 0.99] {
        let mechanisms: [(&str, Option<u128>, Choose); 4] = [
            ("EM", ExponentialMechanism::new(selection).error_quantile(probability), &|u, source| {
                ExponentialMechanism::new(selection).choose(u, source).unwrap()
            }),
            ("PF", PermuteAndFlip::new(selection).error_quantile(probability), &|u, source| {
                PermuteAndFlip::new(selection).choose(u, source).unwrap()
            }),
            ("E", NoisyMax::new(selection, MaxNoise::Exponential).error_quantile(probability), &|u, source| {
                NoisyMax::new(selection, MaxNoise::Exponential).choose(u, source).unwrap()
            }),
            ("L", NoisyMax::new(selection, MaxNoise::Laplace).error_quantile(probability), &|u, source| {
                NoisyMax::new(selection, MaxNoise::Laplace).choose(u, source).unwrap()
            }),
        ];
        for (name, quantile, choose) in mechanisms {
            let quantile = quantile.unwrap();
            let (draws, mut source) = (12_000, Seeded::new(56));
            // The others just beyond the quantile: the worst there is.
            let mut covered = |distance: u128| {
                let mut utilities = vec![-(distance as i128); candidates];
                utilities[7] = 0;
                chosen(candidates, draws, || choose(exact(&utilities), &mut source))[7]
            };
            assert!(upper(covered(quantile + 1), draws, FALSE_ALARM) >= probability, "{name} {probability}");
            // The one of the exponential mechanism is the smallest that covers.
            let tight = name != "EM" || upper(covered(quantile.saturating_sub(1)), draws, FALSE_ALARM) < probability;
            assert!(tight, "{name} {probability}");
        }
    }
    for odd in [-0.1, 1.0, f64::NAN] {
        assert_eq!(ExponentialMechanism::new(selection).error_quantile(odd), None);
    }
    assert_eq!(ExponentialMechanism::new(monotone(1, "1")).error_quantile(0.999), Some(0), "there is no other");
}

#[test]
fn permute_and_flip_is_never_worse_than_the_exponential_mechanism() {
    let utilities = [5, 4, 4, 1, 0, 0, 0, 0];
    let mut source = Seeded::new(57);
    let selection = monotone(8, "0.5");
    let [mut flip, mut exponential] = [0, 0];
    for _ in 0..DRAWS {
        flip += 5 - utilities[PermuteAndFlip::new(selection).choose(exact(&utilities), &mut source).unwrap()];
        exponential +=
            5 - utilities[ExponentialMechanism::new(selection).choose(exact(&utilities), &mut source).unwrap()];
    }
    assert!((flip as f64) < 0.95 * exponential as f64, "{flip} {exponential}");
}

#[test]
fn fp_06_odd_parameters_of_choices_never_become_a_mechanism() {
    let two = groups(2);
    let new = |sensitivity| Selection::new(two, sensitivity, epsilon("1"));
    assert_eq!(new(MaxSensitivity::new(0)), Err(MechanismError::NoSensitivity));
    for steps in [(1 << 80) + 1, u128::MAX] {
        let refused = Err(MechanismError::OutOfRange { what: "sensitivity" });
        assert_eq!((new(MaxSensitivity::new(steps)), new(MaxSensitivity::monotone(steps))), (refused, refused));
    }
    for (candidates, choices) in [(2, 3), (20_000, 10_001)] {
        let each = monotone(candidates, "1");
        assert_eq!(TopK::new(each, groups(choices)), Err(MechanismError::OutOfRange { what: "number of choices" }));
    }
    // The widest parameters that are accepted work, with every noise.
    for loss in ["0.000000001", "1000000"] {
        let widest = Selection::new(two, MaxSensitivity::new(1 << 80), epsilon(loss)).unwrap();
        let (mut source, ends) = (Seeded::new(58), exact(&[i128::MIN, i128::MAX]));
        assert_eq!(ExponentialMechanism::new(widest).choose(ends.clone(), &mut source), Ok(1));
        assert_eq!(PermuteAndFlip::new(widest).choose(ends.clone(), &mut source), Ok(1));
        for noise in [MaxNoise::Exponential, MaxNoise::Laplace] {
            assert!(NoisyMax::new(widest, noise).choose(ends.clone(), &mut source).is_ok());
        }
    }
}
