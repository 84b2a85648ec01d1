//! Every mechanism through the same checks. A new one gets a line in [`cases`].

use std::collections::BTreeMap;

use dither_core::{Delta, GateError, Measurement, Mechanism, Neighbors, PrivacyEvent, RequestId};
use dither_testing::neighbours::refuted;
use dither_testing::{FALSE_ALARM, StubBytes};

use super::*;
use crate::{
    ExactVector, ExponentialMechanism, Fraction, MaxNoise, MaxSensitivity, MechanismError, NoisyMax, NoisyTable,
    PermuteAndFlip, Quantiles, RandomizedResponse, Selection, SparseVector, Staircase, Threshold, TopK, UnaryEncoding,
    VectorNoise,
};

/// Good or broken randomness, as one type.
enum Bits {
    Good(Box<Seeded>),
    Broken(Stub),
}

impl BitSource for Bits {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), NoiseError> {
        match self {
            Self::Good(seeded) => seeded.fill(buffer),
            Self::Broken(stub) => stub.fill(buffer),
        }
    }
}

/// A mechanism with its parameters: from exact integers to what is seen, as text.
type Run = Box<dyn Fn(&[i128], &mut Bits) -> Result<String, GateError>>;

struct Case {
    name: &'static str,
    /// The mechanism at this ε, and its event.
    make: fn(&str) -> (PrivacyEvent, Run),
    /// The event at ε = 1.
    event: PrivacyEvent,
    /// What two neighbours give, chosen so that the loss is large.
    neighbours: [&'static [i128]; 2],
    /// The claimed ε and δ at ε = 1.
    claim: (f64, f64),
    /// An ε for which the claim is wrong: the seeded bug.
    loud: &'static str,
    /// Whether another number of integers is an error. A user's own value has no other number.
    fixed_width: bool,
}

/// What a ledger is asked to charge.
fn charged<M: Mechanism + Clone>(mechanism: &M) -> PrivacyEvent {
    Measurement::new(mechanism.clone(), RequestId::digest([b"any".as_slice()])).event()
}

fn exact(values: &[i128]) -> ExactVector {
    ExactVector { values: values.to_vec() }
}

fn selection(candidates: u32, loss: &str) -> Selection {
    Selection::new(groups(candidates), MaxSensitivity::new(1), epsilon(loss)).unwrap()
}

fn pure() -> PrivacyEvent {
    PrivacyEvent::Pure { epsilon: epsilon("1") }
}

fn range() -> PrivacyEvent {
    PrivacyEvent::BoundedRange { epsilon: epsilon("1") }
}

/// What is seen of a table with one row and one column.
fn seen(table: NoisyTable, limit: i128) -> String {
    table.rows.first().map_or("nothing".into(), |row| (row.values[0] <= limit).to_string())
}

fn table(noise: Noise, limit: i128) -> (PrivacyEvent, Run) {
    let mechanism = column(noise, KeyRule::Public);
    let event = charged(&mechanism);
    let run = move |values: &[i128], bits: &mut Bits| {
        let rows = vec![ExactRow { key: Vec::new(), values: values.to_vec(), units: 1, histograms: Vec::new() }];
        mechanism.add_noise(ExactTable { rows }, bits).map(|table| seen(table, limit))
    };
    (event, Box::new(run))
}

/// A key that one unit has or nobody has; the δ is ten times as large for a loss of 10.
fn threshold(
    rule: fn(NonZeroU32, Neighbors, Delta) -> Result<Threshold, MechanismError>,
    loss: &str,
) -> (PrivacyEvent, Run) {
    let delta = if loss == "1" { "0.05" } else { "0.5" };
    let rule = rule(groups(1), Neighbors::AddOrRemoveUnit, delta.parse().unwrap()).unwrap();
    let mechanism =
        TableMechanism { blocks: Vec::new(), quantiles: Vec::new(), found: Vec::new(), keys: KeyRule::Threshold(rule) };
    let event = charged(&mechanism);
    let run = move |values: &[i128], bits: &mut Bits| {
        let rows = values.iter().filter(|&&units| units > 0);
        let rows = rows.map(|&units| row("a", &[], i64::try_from(units).unwrap_or(i64::MAX))).collect();
        mechanism.add_noise(ExactTable { rows }, bits).map(|table| {
            let counts: Vec<_> = table.rows.iter().map(|row| row.values.as_slice()).collect();
            format!("{counts:?}")
        })
    };
    (event, Box::new(run))
}

/// The median of the points 0 and 1, with so many rows on each.
fn median(loss: &str) -> (PrivacyEvent, Run) {
    let quantiles = Quantiles::for_epsilon(&[Fraction::MEDIAN], groups(2), 1, groups(1), epsilon(loss)).unwrap();
    let mechanism =
        TableMechanism { blocks: Vec::new(), quantiles: vec![quantiles], found: Vec::new(), keys: KeyRule::Public };
    let event = charged(&mechanism);
    let run = move |values: &[i128], bits: &mut Bits| {
        let histogram = (0..).zip(values).map(|(point, &n)| (point, u64::try_from(n.max(0)).unwrap_or(u64::MAX)));
        let histograms = vec![histogram.collect()];
        let rows = vec![ExactRow { key: Vec::new(), values: Vec::new(), units: 1, histograms }];
        mechanism.add_noise(ExactTable { rows }, bits).map(|table| table.rows[0].values[0].to_string())
    };
    (event, Box::new(run))
}

fn local_value(values: &[i128]) -> u64 {
    values.first().map_or(0, |&value| u64::try_from(value).unwrap_or(u64::MAX))
}

fn unary(encoding: UnaryEncoding) -> (PrivacyEvent, Run) {
    let run = move |values: &[i128], bits: &mut Bits| {
        let value = u32::try_from(local_value(values)).unwrap_or(u32::MAX);
        encoding.respond(value, bits).map(|report| format!("{report:?}")).map_err(|_| GateError::Failed)
    };
    (encoding.event(), Box::new(run))
}

/// Whether the weighted sum, which is the privacy loss up to a constant, exceeds a quantile.
fn gaussian_vector(loss: &str) -> (PrivacyEvent, Run) {
    let per_mille = 1_000.0 * loss.parse::<f64>().unwrap();
    let variance = Ratio::new(1_000_000, (per_mille * per_mille) as u128).unwrap();
    let noise = VectorNoise::gaussian(&[1, 4], variance).unwrap();
    let event = charged(&noise);
    let run = move |values: &[i128], bits: &mut Bits| {
        let noisy = noise.add(exact(values), bits)?;
        // With variances of 5 and 20: Δ/σ² is 1/5 in both coordinates; the losses at (1, 4) and at (0, 0) are N(±½, 1).
        let steps = noise.noises().iter().map(|each| (1u128 << each.refinement()) as f64);
        let sum: f64 = noisy.iter().zip(steps).map(|(&y, step)| y as f64 / step).sum();
        Ok((sum / 5.0 - 0.5 > 1.0).to_string())
    };
    (event, Box::new(run))
}

fn cases() -> Vec<Case> {
    let case = |name, make, event, neighbours, loud| Case {
        name,
        make,
        event,
        neighbours,
        claim: (1.0, 0.0),
        loud,
        fixed_width: true,
    };
    let one = laplace(1, "1").event();
    let vector = |pairs: [(u128, &str); 2]| PrivacyEvent::Composed(pairs.map(|(d, e)| laplace(d, e).event()).to_vec());
    let local = |name, make| Case { fixed_width: false, ..case(name, make, pure(), [&[0], &[1]], "1.25") };
    vec![
        case(
            "exponential mechanism",
            |loss| {
                let mechanism = ExponentialMechanism::new(selection(2, loss));
                (charged(&mechanism), Box::new(move |u, bits| mechanism.choose(exact(u), bits).map(|i| i.to_string())))
            },
            range(),
            [&[0, 0], &[-1, 1]],
            "2",
        ),
        case(
            "permute and flip",
            |loss| {
                let mechanism = PermuteAndFlip::new(selection(2, loss));
                (charged(&mechanism), Box::new(move |u, bits| mechanism.choose(exact(u), bits).map(|i| i.to_string())))
            },
            pure(),
            [&[0, 0], &[-1, 1]],
            "1.25",
        ),
        case(
            "noisy max, exponential",
            |loss| {
                let mechanism = NoisyMax::new(selection(2, loss), MaxNoise::Exponential);
                (charged(&mechanism), Box::new(move |u, bits| mechanism.choose(exact(u), bits).map(|i| i.to_string())))
            },
            pure(),
            [&[1, 0], &[2, -1]],
            "1.5",
        ),
        case(
            "noisy max, Laplace",
            |loss| {
                let mechanism = NoisyMax::new(selection(2, loss), MaxNoise::Laplace);
                (charged(&mechanism), Box::new(move |u, bits| mechanism.choose(exact(u), bits).map(|i| i.to_string())))
            },
            pure(),
            [&[1, 0], &[2, -1]],
            "2.5",
        ),
        Case {
            claim: (2.0, 0.0),
            ..case(
                "top k",
                |loss| {
                    let mechanism = TopK::new(selection(4, loss), groups(2)).unwrap();
                    (
                        charged(&mechanism),
                        Box::new(move |u, bits| Ok(format!("{:?}", mechanism.choose(exact(u), bits)?))),
                    )
                },
                PrivacyEvent::Composed(vec![range(), range()]),
                [&[0, 0, 0, 0], &[-1, -1, 1, 1]],
                "2",
            )
        },
        case(
            "sparse vector",
            |loss| {
                let sensitivity = MaxSensitivity::new(1);
                let mechanism = SparseVector::new(groups(6), sensitivity, 0, groups(1), epsilon(loss)).unwrap();
                (charged(&mechanism), Box::new(move |q, bits| Ok(format!("{:?}", mechanism.compare(exact(q), bits)?))))
            },
            pure(),
            [&[0, 0, 0, 0, 0, 0], &[1, 1, 1, 1, 1, -1]],
            "2",
        ),
        case(
            "staircase",
            |loss| {
                let mechanism = Staircase::new(L1Sensitivity::new(3), 2, epsilon(loss)).unwrap();
                let run =
                    move |x: &[i128], bits: &mut Bits| Ok((mechanism.add(&exact(x), bits)?.abs() < 2).to_string());
                (charged(&mechanism), Box::new(run))
            },
            pure(),
            [&[0], &[3]],
            "1.25",
        ),
        case(
            "Laplace noise on a vector",
            |loss| {
                let noise = VectorNoise::laplace(&[1, 8], epsilon(loss)).unwrap();
                let event = charged(&noise);
                let run = move |x: &[i128], bits: &mut Bits| {
                    Ok(noise.add(exact(x), bits)?.iter().all(|&y| y <= 0).to_string())
                };
                (event, Box::new(run))
            },
            // The shares are as 1 : 8^⅔, less a nano-unit for rounding.
            vector([(1, "0.199999999"), (8, "0.799999999")]),
            [&[0, 0], &[1, 8]],
            "1.25",
        ),
        Case {
            // The smallest δ of Gaussian noise for ε = 1 and μ = 1: Φ(−½) − e·Φ(−3/2).
            claim: (1.0, 0.126_937),
            ..case(
                "Gaussian noise on a vector",
                gaussian_vector,
                PrivacyEvent::Composed(vec![gaussian(1, (5, 1)).event(), gaussian(16, (20, 1)).event()]),
                [&[0, 0], &[1, 4]],
                "1.5",
            )
        },
        case(
            "Laplace noise on a table",
            |loss| table(Noise::Laplace(laplace(1, loss)), 0),
            PrivacyEvent::Composed(vec![one.clone()]),
            [&[0], &[1]],
            "1.25",
        ),
        Case {
            claim: (1.0, 0.126_937),
            ..case(
                "Gaussian noise on a table",
                |loss| {
                    // At σ = ½ the lattice is refined once more.
                    let noise = if loss == "1" { gaussian(1, (1, 1)) } else { gaussian(1, (1, 4)) };
                    table(Noise::Gaussian(noise), (3 << noise.refinement()) / 2)
                },
                PrivacyEvent::Composed(vec![gaussian(1, (1, 1)).event()]),
                [&[0], &[1]],
                "2",
            )
        },
        Case {
            claim: (1.0, 0.05),
            fixed_width: false,
            ..case(
                "threshold for keys",
                |loss| threshold(|groups, who, delta| Threshold::for_epsilon(groups, who, epsilon("1"), delta), loss),
                PrivacyEvent::Composed(vec![PrivacyEvent::Composed(vec![
                    one,
                    PrivacyEvent::Threshold { delta: "0.05".parse().unwrap() },
                ])]),
                [&[], &[1]],
                "10",
            )
        },
        Case {
            claim: (1.0, 0.05),
            fixed_width: false,
            ..case(
                "threshold for keys with their noisy numbers",
                |loss| {
                    let rule = |groups, who, delta| {
                        Ok(Threshold::truncated_geometric(groups, who, epsilon("1"), delta)?.releasing_counts())
                    };
                    threshold(rule, loss)
                },
                PrivacyEvent::Composed(vec![PrivacyEvent::Approximate {
                    epsilon: epsilon("1"),
                    delta: "0.05".parse().unwrap(),
                    count: groups(1),
                }]),
                [&[], &[1]],
                "10",
            )
        },
        Case {
            claim: (1.0, 0.05),
            fixed_width: false,
            ..case(
                "threshold for keys, truncated geometric",
                |loss| {
                    threshold(
                        |groups, who, delta| Threshold::truncated_geometric(groups, who, epsilon("1"), delta),
                        loss,
                    )
                },
                PrivacyEvent::Composed(vec![PrivacyEvent::Approximate {
                    epsilon: epsilon("1"),
                    delta: "0.05".parse().unwrap(),
                    count: groups(1),
                }]),
                [&[], &[1]],
                "10",
            )
        },
        Case {
            // The smallest δ of Gaussian noise for ε = 1 and μ = ½, Φ(−7/4) − e·Φ(−9/4) = 0.006829, and the threshold's.
            claim: (1.0, 0.05683),
            fixed_width: false,
            ..case(
                "threshold for keys, Gaussian",
                |loss| {
                    let four = |groups, who, delta| Threshold::gaussian(groups, who, Ratio::new(4, 1).unwrap(), delta);
                    threshold(four, loss)
                },
                PrivacyEvent::Composed(vec![PrivacyEvent::Composed(vec![
                    gaussian(1, (4, 1)).event(),
                    PrivacyEvent::Threshold { delta: "0.05".parse().unwrap() },
                ])]),
                [&[], &[1]],
                "10",
            )
        },
        Case {
            fixed_width: false,
            ..case(
                "quantiles of a table",
                median,
                PrivacyEvent::Composed(vec![PrivacyEvent::Composed(vec![range()])]),
                [&[0, 0], &[1, 0]],
                "5",
            )
        },
        local("randomised response", |loss| {
            let response = RandomizedResponse::new(3, epsilon(loss)).unwrap();
            let run = move |values: &[i128], bits: &mut Bits| {
                response.respond(local_value(values), bits).map(|r| r.to_string()).map_err(|_| GateError::Failed)
            };
            (response.event(), Box::new(run))
        }),
        local("unary encoding, symmetric", |loss| unary(UnaryEncoding::symmetric(2, epsilon(loss)).unwrap())),
        local("unary encoding, optimised", |loss| unary(UnaryEncoding::optimized(2, epsilon(loss)).unwrap())),
    ]
}

/// How often each answer is seen.
fn counts(run: &Run, values: &[i128], seed: u64, draws: u64) -> BTreeMap<String, u64> {
    let mut bits = Bits::Good(Box::new(Seeded::new(seed)));
    let mut counts = BTreeMap::new();
    for _ in 0..draws {
        *counts.entry(run(values, &mut bits).unwrap()).or_default() += 1;
    }
    counts
}

/// Whether any answer refutes the claim, either way.
fn is_refuted(case: &Case, run: &Run) -> bool {
    let draws = 40_000;
    let [left, right] = [(0, 40), (1, 41)].map(|(side, seed)| counts(run, case.neighbours[side], seed, draws));
    let answers: Vec<&String> = left.keys().chain(right.keys()).collect();
    let false_alarm = FALSE_ALARM / (2 * answers.len()) as f64;
    answers.iter().any(|&answer| {
        let [a, b] = [&left, &right].map(|counts| counts.get(answer).copied().unwrap_or(0));
        let beyond = |a, b| refuted(a, b, draws, case.claim.0, case.claim.1, false_alarm);
        beyond(a, b) || beyond(b, a)
    })
}

#[test]
fn every_mechanism_keeps_its_claim_on_neighbours_and_its_mutant_does_not() {
    for case in cases() {
        assert!(!is_refuted(&case, &(case.make)("1").1), "{}", case.name);
        assert!(is_refuted(&case, &(case.make)(case.loud).1), "{}: the seeded bug was accepted", case.name);
    }
}

#[test]
fn every_mechanism_charges_for_the_parameters_it_draws_with() {
    for case in cases() {
        assert_eq!((case.make)("1").0, case.event, "{}", case.name);
        assert_ne!((case.make)(case.loud).0, case.event, "{}: another loss is another event", case.name);
    }
}

#[test]
fn fp_08_every_mechanism_ends_or_fails_closed_with_a_broken_generator() {
    for case in cases() {
        let run = (case.make)("1").1;
        let values = case.neighbours[1];
        for stub in StubBytes::ALL {
            let _ = run(values, &mut Bits::Broken(Stub(stub)));
        }
        for stub in [StubBytes::Failing, StubBytes::Constant(0)] {
            assert_eq!(run(values, &mut Bits::Broken(Stub(stub))), Err(GateError::Failed), "{}: {stub:?}", case.name);
        }
    }
}

#[test]
fn se_02_every_mechanism_answers_for_the_largest_and_the_smallest_integers() {
    for case in cases() {
        let (run, width) = ((case.make)("1").1, case.neighbours[1].len());
        let mut bits = Bits::Good(Box::new(Seeded::new(42)));
        for value in [i128::MIN, i128::MIN + 1, -1, 0, 1, i128::MAX - 1, i128::MAX] {
            for others in [i128::MIN, 0, i128::MAX] {
                let mut values = vec![others; width];
                values[0] = value;
                assert!((0..20).all(|_| run(&values, &mut bits).is_ok()), "{}: {values:?}", case.name);
            }
        }
    }
}

#[test]
fn every_mechanism_has_one_error_for_every_wrong_width() {
    for case in cases().into_iter().filter(|case| case.fixed_width) {
        let (run, width) = ((case.make)("1").1, case.neighbours[0].len());
        for wrong in [0, width - 1, width + 1, 100] {
            if wrong != width {
                let answer = run(&vec![0; wrong], &mut Bits::Good(Box::new(Seeded::new(43))));
                assert_eq!(answer, Err(GateError::Failed), "{}: {wrong}", case.name);
            }
        }
    }
}

#[test]
fn exact_vectors_print_nothing() {
    assert_eq!(format!("{:?}", exact(&[42])), "ExactVector(..)");
}
