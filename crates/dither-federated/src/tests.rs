//! Tests of clipping, noise, guarantees and rounds.

use std::cell::Cell;

use dither_accounting::{Event, gaussian};
use dither_core::{Delta, PrivacyEvent, Ratio};
use dither_noise::{BitSource, NoiseError, NoiseSource, discrete_gaussian};
use dither_testing::fit::{CAUGHT, Misfit, check_events, check_scale, deviations};
use dither_testing::{FALSE_ALARM, SeededBytes, StubBytes, binomial};
use proptest::prelude::*;

use crate::rounds::cohort;
use crate::secagg::{ClientId, Dropouts, Parameters, ProtocolError};
use crate::*;

struct Seeded(SeededBytes);

impl BitSource for Seeded {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), NoiseError> {
        self.0.fill(buffer);
        Ok(())
    }
}

fn seeded(seed: u64) -> Seeded {
    Seeded(SeededBytes::new(seed))
}

fn os() -> NoiseSource {
    NoiseSource::from_os().unwrap()
}

/// A client that answers the same every time.
struct Fixed(Vec<f32>);

impl Client for Fixed {
    fn update(&self, _global: &[f32], _round: u32) -> Vec<f32> {
        self.0.clone()
    }
}

fn settings(trust: Trust) -> Settings {
    Settings { dimension: 3, rounds: 1, clip: 1.0, noise_multiplier: 1.0, divisor: 1.0, trust }
}

fn squared(vector: &[i64]) -> u128 {
    vector.iter().map(|x| u128::from(x.unsigned_abs()).pow(2)).sum()
}

// Clipping.

proptest! {
    #[test]
    fn tr_01_no_update_moves_a_sum_by_more_than_the_clip(
        bits in prop::collection::vec(any::<u32>(), 0..300),
        small in any::<bool>(),
        clip in prop::sample::select(vec![1e-30, 1e-3, 1.0, 7.3, 1e30]),
        steps in prop::sample::select(vec![1u64, 2, 3, 1000, 1 << 24, (1 << 24) - 1, 1 << 32]),
    ) {
        // Any bits at all, or numbers of about the size of a step.
        let number = |bits: u32| if small { bits as f32 / 1e9 * clip as f32 } else { f32::from_bits(bits) };
        let update: Vec<f32> = bits.into_iter().map(number).collect();
        let clipped = clip_to_lattice(&update, update.len(), clip, steps);
        prop_assert_eq!(clipped.len(), update.len());
        prop_assert!(squared(&clipped) <= u128::from(steps).pow(2));
    }
}

#[test]
fn tr_01_the_norm_bound_holds_where_rounding_to_the_nearest_breaks_it() {
    // The worst of vectors: each number rounds up by nearly half a step, 10,000 of them.
    let (dimension, steps) = (10_000, 199);
    let worst = vec![0.0151f32; dimension];
    let clipped = clip_to_lattice(&worst, dimension, 2.0, steps);
    assert!(squared(&clipped) <= u128::from(steps).pow(2) && squared(&clipped) > 0);
    let nearest: Vec<i64> = worst.iter().map(|x| (f64::from(*x) / 2.0 * steps as f64).round() as i64).collect();
    let norm = worst.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    assert!(norm < 2.0 && squared(&nearest) > u128::from(steps).pow(2), "the control is within the bound");
}

#[test]
fn tr_01_a_huge_update_counts_as_one_of_the_clip_and_keeps_its_direction() {
    for size in [1.5f32, 1e6, 1e30, f32::MAX] {
        let clipped = clip_to_lattice(&[size * 0.6, -size * 0.8], 2, 1.0, 1_000_000);
        assert!((clipped[0] - 600_000).abs() <= 2 && (clipped[1] + 800_000).abs() <= 2, "{size}: {clipped:?}");
    }
    assert_eq!(clip_to_lattice(&[0.5], 1, 1.0, 1_000_000), [499_999], "a small update stays what it is");
}

#[test]
fn tr_05_what_is_no_update_counts_as_zeros() {
    for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert_eq!(clip_to_lattice(&[0.5, odd, 0.5], 3, 1.0, 100), [0; 3]);
    }
    assert_eq!(clip_to_lattice(&[0.5; 2], 3, 1.0, 100), [0; 3]);
    assert_eq!(clip_to_lattice(&[0.5; 4], 3, 1.0, 100), [0; 3]);
    assert_eq!(clip_to_lattice(&[], 3, 1.0, 100), [0; 3]);
    assert_eq!(clip_to_lattice(&[-0.0, f32::from_bits(1)], 2, 1.0, 100), [0; 2]);
}

// Noise.

const BINS: usize = 64;

/// The law of |X|/σ₁ in bins of a sixteenth, for Gaussian noise of deviation σ where σ₁ is expected.
fn law(expected: f64) -> impl Fn(f64) -> Vec<f64> {
    move |sigma: f64| {
        let below = |bin: usize| libm::erf(bin as f64 / 16.0 * expected / sigma / std::f64::consts::SQRT_2);
        (0..BINS).map(|bin| below(bin + 1) - below(bin)).collect()
    }
}

/// Tests draws for a Gaussian of this deviation, so wide that steps do not show, of either sign as often.
fn check_deviation(draws: &[f64], sigma: f64) -> Result<(), Misfit> {
    let (mut counts, mut positive) = (vec![0; BINS], 0);
    for draw in draws {
        counts.get_mut((draw.abs() / sigma * 16.0) as usize).into_iter().for_each(|count| *count += 1);
        positive += u64::from(*draw > 0.0);
    }
    let total = draws.len() as u64;
    check_scale(&counts, law(sigma), sigma, total, FALSE_ALARM / 3.0)?;
    check_events(&counts, &law(sigma)(sigma), total, FALSE_ALARM / 3.0)?;
    check_events(&[positive], &[0.5], total, FALSE_ALARM / 3.0)
}

const WIDE: u32 = 1_000_000;

/// The sum of so many clients' noise, without updates, in units of the clip.
fn distributed_noise(mechanism: &DistributedGaussian, clients: usize, source: &mut Seeded) -> Vec<f64> {
    let mut sum = vec![0u32; mechanism.dimension() as usize];
    for _ in 0..clients {
        let share = mechanism.encode_from(&[], source).unwrap();
        sum.iter_mut().zip(&share).for_each(|(sum, x)| *sum = sum.wrapping_add(*x));
    }
    mechanism.decode(&sum)
}

#[test]
fn tr_02_the_shares_of_the_least_honest_clients_are_all_of_the_noise() {
    let mechanism = DistributedGaussian::new(WIDE, 8, 5, 2.0, 1.5).unwrap();
    assert!(deviations(law(3.0), 3.0, WIDE.into()) > CAUGHT, "1 % would be caught");
    let noise = distributed_noise(&mechanism, 5, &mut seeded(20));
    assert_eq!(check_deviation(&noise, 3.0), Ok(()));
    assert!(check_deviation(&noise, 3.03).is_err() && check_deviation(&noise, 2.97).is_err(), "1 % is caught");
    // With all eight there is more, never less.
    let noise = distributed_noise(&mechanism, 8, &mut seeded(21));
    assert_eq!(check_deviation(&noise, 3.0 * (8.0f64 / 5.0).sqrt()), Ok(()));
}

#[test]
fn tr_02_control_shares_for_all_clients_are_too_little_for_the_least() {
    // The variance divided by the number of clients, of whom some drop out; and not divided at all.
    for honest in [8, 1] {
        let mutant = DistributedGaussian::new(WIDE, 8, honest, 2.0, 1.5).unwrap();
        assert!(check_deviation(&distributed_noise(&mutant, 5, &mut seeded(22)), 3.0).is_err(), "{honest}");
    }
}

/// The models of single rounds from zero, where nobody has anything to say.
fn central_noise(rate: f64, clip: f64, noise_multiplier: f64, divisor: f64) -> Vec<f64> {
    let trust = Trust::Server { rate };
    let dimension = WIDE;
    let plan = Plan::new(Settings { dimension, rounds: 1, clip, noise_multiplier, divisor, trust }).unwrap();
    let nobody: [Fixed; 0] = [];
    let model = plan.simulate(&nobody, vec![0.0; WIDE as usize], &mut os()).unwrap();
    model.into_iter().map(f64::from).collect()
}

#[test]
fn tr_02_and_tr_04_a_round_without_clients_has_all_of_its_noise() {
    // Fresh randomness: a correct plan fails once in 10⁹ runs.
    let noise = central_noise(0.01, 0.5, 1.2, 10.0);
    assert_eq!(check_deviation(&noise, 0.06), Ok(()));
    assert!(check_deviation(&noise, 0.0606).is_err() && check_deviation(&noise, 0.0594).is_err(), "1 % is caught");
}

#[test]
fn tr_03_control_noise_that_is_divided_twice_is_caught() {
    let noise: Vec<f64> = central_noise(0.01, 0.5, 1.2, 10.0).iter().map(|x| x / 10.0).collect();
    assert!(check_deviation(&noise, 0.06).is_err());
}

#[test]
fn fp_03_models_lie_on_one_public_lattice_whatever_the_updates_are() {
    // A step of 2^-32 and a divisor of one: multiples of it, up to what a float of a model can say.
    for update in [vec![0.1f32, -0.2, 1e-9], vec![0.0; 3], vec![f32::NAN; 3]] {
        let plan = Plan::new(settings(Trust::Server { rate: 1.0 })).unwrap();
        let clients: Vec<Fixed> = (0..5).map(|_| Fixed(update.clone())).collect();
        let model = plan.simulate(&clients, vec![0.0; 3], &mut os()).unwrap();
        assert!(model.iter().all(|x| (f64::from(*x) * 4_294_967_296.0).fract() == 0.0), "{model:?}");
    }
    let mechanism = DistributedGaussian::new(3, 5, 4, 1.0, 1.0).unwrap();
    let sum = mechanism.decode(&mechanism.encode(&[0.1, -0.2, 1e-9], &mut os()).unwrap());
    assert!(sum.iter().all(|x| (x / mechanism.step() - (x / mechanism.step()).round()).abs() < 1e-6), "{sum:?}");
}

/// How often the noise of two vectors has the same sign.
fn agreements(a: &[f64], b: &[f64]) -> u64 {
    a.iter().zip(b).filter(|(a, b)| (**a > 0.0) == (**b > 0.0)).count() as u64
}

#[test]
fn tr_11_no_two_clients_rounds_or_coordinates_share_their_noise() {
    let mechanism = DistributedGaussian::new(100_000, 4, 4, 1.0, 1.0).unwrap();
    let fits = |a: &[f64], b: &[f64]| check_events(&[agreements(a, b)], &[0.5], a.len() as u64, FALSE_ALARM).is_ok();
    let mut source = os();
    let mut noise = || mechanism.decode(&mechanism.encode(&[], &mut source).unwrap());
    let (first, second) = (noise(), noise());
    assert!(fits(&first, &second), "clients");
    let (even, odd): (Vec<_>, Vec<_>) = first.chunks_exact(2).map(|pair| (pair[0], pair[1])).unzip();
    assert!(fits(&even, &odd), "coordinates");
    assert!(fits(&central_noise(0.5, 1.0, 1.0, 1.0), &central_noise(0.5, 1.0, 1.0, 1.0)), "rounds");
    // The mistake: every client is seeded alike.
    let mutant = |seed| mechanism.decode(&mechanism.encode_from(&[], &mut seeded(seed)).unwrap());
    assert!(!fits(&mutant(0), &mutant(0)) && fits(&mutant(0), &mutant(1)));
}

#[test]
fn fp_08_a_broken_generator_sends_no_update() {
    struct Stub(StubBytes);
    impl BitSource for Stub {
        fn fill(&mut self, buffer: &mut [u8]) -> Result<(), NoiseError> {
            if self.0.fill(buffer) { Ok(()) } else { Err(NoiseError::Unavailable) }
        }
    }
    let mechanism = DistributedGaussian::new(100, 4, 4, 1.0, 1.0).unwrap();
    for stub in StubBytes::ALL {
        // A constant generator gives a constant, not the bare update; a failing one gives nothing.
        match mechanism.encode_from(&[0.1; 100], &mut Stub(stub)) {
            Ok(sent) => assert_ne!(mechanism.decode(&sent)[0], 0.1),
            Err(error) => assert!(matches!(error, NoiseError::Unavailable | NoiseError::Exhausted)),
        }
        assert!(stub != StubBytes::Failing || cohort(&[1, 2], 0.5, &mut Stub(stub)).is_err());
    }
}

// The ring.

proptest! {
    #[test]
    fn sums_of_all_clients_at_the_clip_fit_the_ring(
        dimension in 1u32..1 << 28, clients in 1u32..4096, part in 0.01f64..1.0, clip in 1e-3f64..1e3, z in prop::sample::select(vec![1e-3, 0.1, 1.0, 7.5, 1e3, 1e5]),
    ) {
        let honest = ((f64::from(clients) * part) as u32).max(1);
        let mechanism = DistributedGaussian::new(dimension, clients, honest, clip, z).unwrap();
        prop_assert!(u64::from(clients) * mechanism.steps() < 1 << 31);
        prop_assert!(mechanism.wrap_probability() < 1e-19);
        // The variance is never less than was asked for, and hardly more.
        let (asked, made) = (
            z * z * (mechanism.steps() as f64).powi(2) / f64::from(honest),
            mechanism.share_variance().as_f64(),
        );
        prop_assert!(made >= asked && made <= asked * (1.0 + 1e-6));
    }
}

#[test]
fn sums_are_signed_and_wrap_like_the_ring() {
    let mechanism = DistributedGaussian::new(4, 3, 3, 1.0, 1.0).unwrap();
    let steps = mechanism.steps() as u32;
    let sum = mechanism.decode(&[steps, steps.wrapping_neg(), 0, u32::MAX]);
    assert_eq!(sum, [1.0, -1.0, 0.0, -mechanism.step()]);
    // Partial sums may wrap as they like, the end counts: (3·2^30 − 2^31) − 2^30 = 0.
    let parts = [3u32 << 30, (1u32 << 31).wrapping_neg(), (1u32 << 30).wrapping_neg()];
    assert_eq!(parts.iter().fold(0u32, |sum, x| sum.wrapping_add(*x)), 0);
    // A sum that leaves the ring is wrong by 2^32 steps; the bound says when that can happen at all.
    assert!(mechanism.decode(&[1 << 31])[0] < 0.0);
}

// The guarantee.

/// The probability of each of 2r + 1 integers under the discrete Gaussian of this variance.
fn discrete(variance: f64, r: i64) -> Vec<f64> {
    let weight = |x: i64| (-(x * x) as f64 / 2.0 / variance).exp();
    let total: f64 = (-40 * r..=40 * r).map(weight).sum();
    (-r..=r).map(|x| weight(x) / total).collect()
}

#[test]
fn ac_08_sums_of_discrete_noise_are_as_close_to_discrete_noise_as_is_claimed() {
    // Narrower than any share that is drawn, so that there is a gap to see at all.
    for variance in [0.5, 0.75, 1.0] {
        for honest in [2usize, 3, 5] {
            let (r, share) = (60i64, discrete(variance, 60));
            let mut sum = vec![0.0; 121];
            sum[60] = 1.0;
            for _ in 0..honest {
                let at = |x: i64| sum.get((x + r) as usize).copied().unwrap_or(0.0);
                let next = (-r..=r).map(|z| {
                    (-r..=r).map(|x| share[(x + r) as usize] * if (z - x).abs() <= r { at(z - x) } else { 0.0 }).sum()
                });
                sum = next.collect();
            }
            let whole = discrete(variance * honest as f64, r);
            let tau: f64 = (1..honest)
                .map(|k| 10.0 * (-2.0 * std::f64::consts::PI.powi(2) * variance * k as f64 / (k as f64 + 1.0)).exp())
                .sum();
            let gap = (45..=75).map(|at| (sum[at] / whole[at]).ln().abs()).fold(0.0, f64::max);
            assert!(gap <= tau, "{variance} {honest}: {gap} > {tau}");
            assert!(gap > tau / 1e3, "{variance} {honest}: {gap} has nothing to do with {tau}");
        }
    }
}

#[test]
fn ac_08_a_discrete_sum_costs_no_more_than_is_claimed() {
    // One coordinate, sensitivity 1024, σ 1024: the loss of discrete noise by its exact probabilities.
    let (sigma, shift) = (1024.0, 1024i64);
    let weight = |x: i64| (-(x as f64).powi(2) / 2.0 / sigma / sigma).exp();
    let total: f64 = (-20_000..=20_000).map(weight).sum();
    let delta_at = |epsilon: f64| -> f64 {
        (-20_000..=20_000i64).map(|x| (weight(x - shift) - epsilon.exp() * weight(x)).max(0.0)).sum::<f64>() / total
    };
    let event = Event::Gaussian { noise_multiplier: 1.0 };
    for delta in [1e-3, 1e-5, 1e-8] {
        let epsilon = Guarantee::new(event.clone(), None, 1.0, sigma, 0.0).epsilon(delta).unwrap();
        assert!(delta_at(epsilon) <= delta, "{delta}");
        assert!(delta_at(epsilon - 0.01) > delta, "{delta}: not close");
        // What the lattice and the gap may cost shows.
        let more = Guarantee::new(event.clone(), None, 1e6, sigma, 0.0).epsilon(delta).unwrap();
        let gap = Guarantee::new(event.clone(), None, 1.0, sigma, 1e-3).epsilon(delta).unwrap();
        assert!(more > epsilon + 0.1 && gap > epsilon + 1e-3);
    }
}

#[test]
fn ac_07_guarantees_of_both_modes_are_those_of_the_accountants() {
    // Poisson-sampled Gaussian noise, rate 0.01, multiplier 4, 10,000 rounds, at 1e-5: the certified interval of
    // dither-accounting, which its own tests compare with others, is [0.9468, 0.9469].
    let central = |rate, rounds, noise_multiplier| {
        let trust = Trust::Server { rate };
        Plan::new(Settings { dimension: 100_000, rounds, noise_multiplier, ..settings(trust) }).unwrap().guarantee()
    };
    let epsilon = central(0.01, 10_000, 4.0).epsilon(1e-5).unwrap();
    assert!((0.9468..0.9471).contains(&epsilon), "{epsilon}");
    // Without sampling: Gaussian differential privacy with μ = √T/z.
    let exact = gaussian::epsilon(1e-5, 1.0).unwrap();
    let epsilon = central(1.0, 100, 10.0).epsilon(1e-5).unwrap();
    assert!(epsilon >= exact && epsilon < exact + 1e-4, "{epsilon}");
    let distributed = DistributedGaussian::new(100_000, 50, 30, 1.0, 10.0).unwrap().guarantee(100);
    let epsilon = distributed.epsilon(1e-5).unwrap();
    assert!(epsilon >= exact && epsilon < exact + 1e-3, "{epsilon}");
    // The concentrated event is a looser way to say the same.
    let Some(Event::SelfComposed { count: 100, event }) = distributed.concentrated() else { panic!("no such event") };
    assert!(matches!(**event, Event::ZeroConcentrated { rho } if (0.005..0.005_001).contains(&rho)));
    // A narrow lattice leaves that way alone.
    let narrow = Guarantee::new(distributed.event().clone(), distributed.concentrated().cloned(), 1e7, 100.0, 0.0);
    let epsilon = narrow.epsilon(1e-5).unwrap();
    assert!((epsilon - 4.7285).abs() < 1e-3, "{epsilon}");
}

#[test]
fn a_charge_covers_the_price_and_more_noise_costs_less() {
    let delta: Delta = "1e-6".parse().unwrap();
    let of = |honest, z| DistributedGaussian::new(1_000, 50, honest, 1.0, z).unwrap().guarantee(10);
    let PrivacyEvent::Approximate { epsilon, delta: charged, count } = of(30, 4.0).charge(delta).unwrap() else {
        panic!("another event")
    };
    let price = of(30, 4.0).epsilon(1e-6).unwrap();
    assert!((charged, count.get()) == (delta, 1) && epsilon.as_f64() >= price && epsilon.as_f64() < price + 1e-6);
    assert!(of(30, 5.0).epsilon(1e-6).unwrap() < price);
    for odd in [0.0, -1.0, f64::NAN] {
        assert!(of(30, 4.0).epsilon(odd).is_err(), "{odd}");
    }
    assert!(of(30, 4.0).charge(Delta::ZERO).is_err());
}

#[test]
fn a_share_costs_much_more_than_the_sum() {
    // What colluding or missing clients would leave: the reason to count honest survivors only.
    let sum = DistributedGaussian::new(10, 50, 30, 1.0, 4.0).unwrap();
    let alone = sum.steps() as f64 / sum.share_variance().as_f64().sqrt();
    assert!((alone - 30f64.sqrt() / 4.0).abs() < 1e-3);
}

// The sampler.

const CLIENTS: usize = 200;
const ROUNDS: u64 = 20_000;

/// Tests a sampler of cohorts at a rate of 0.1: each client, pairs, and the law of the size.
fn check_sampler(mut draw: impl FnMut() -> Vec<usize>) -> Result<(), Misfit> {
    let (mut each, mut pairs, mut sizes) = (vec![0; CLIENTS], vec![0; CLIENTS / 2], vec![0; 64]);
    for _ in 0..ROUNDS {
        let cohort = draw();
        let mut asked = [false; CLIENTS];
        cohort.iter().for_each(|client| asked[*client] = true);
        for client in 0..CLIENTS {
            each[client] += u64::from(asked[client]);
        }
        for pair in 0..CLIENTS / 2 {
            pairs[pair] += u64::from(asked[2 * pair] && asked[2 * pair + 1]);
        }
        sizes[cohort.len().min(63)] += 1;
    }
    let binomial = |k: usize| {
        let (n, k) = (CLIENTS as f64, k as f64);
        let choose = libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0);
        (choose + k * 0.1f64.ln() + (n - k) * 0.9f64.ln()).exp()
    };
    let sizes_expected: Vec<f64> = (0..63).map(binomial).collect();
    check_events(&each, &[0.1; CLIENTS], ROUNDS, FALSE_ALARM / 3.0)?;
    check_events(&pairs, &[0.01; CLIENTS / 2], ROUNDS, FALSE_ALARM / 3.0)?;
    check_events(&sizes[..63], &sizes_expected, ROUNDS, FALSE_ALARM / 3.0)
}

#[test]
fn ac_10_cohorts_are_poisson_samples_of_the_rate_that_is_priced() {
    let (clients, mut source): (Vec<usize>, _) = ((0..CLIENTS).collect(), seeded(30));
    let poisson = || cohort(&clients, 0.1, &mut source).unwrap().into_iter().copied().collect();
    assert_eq!(check_sampler(poisson), Ok(()));
    let mut source = os();
    assert_eq!(cohort(&clients, 1.0, &mut source).unwrap().len(), CLIENTS);
    assert!(cohort(&clients, 1e-300, &mut source).unwrap().is_empty());
}

#[test]
fn ac_10_control_shuffled_and_fixed_cohorts_are_caught() {
    let mut stream = SeededBytes::new(31);
    let mut below = |bound: usize| (stream.unit() * bound as f64) as usize;
    // Clients in a shuffled order, 20 after 20.
    let mut order: Vec<usize> = Vec::new();
    let shuffled = || {
        if order.is_empty() {
            order = (0..CLIENTS).collect();
            (1..CLIENTS).rev().for_each(|last| order.swap(last, below(last + 1)));
        }
        order.split_off(order.len() - 20)
    };
    assert!(check_sampler(shuffled).is_err(), "shuffled");
    // A rate that is 10 % too large, and one coin for two clients.
    let (clients, mut source): (Vec<usize>, _) = ((0..CLIENTS).collect(), seeded(32));
    let faster = || cohort(&clients, 0.11, &mut source).unwrap().into_iter().copied().collect();
    assert!(check_sampler(faster).is_err(), "faster");
    let mut source = seeded(33);
    let twins = || {
        cohort(&clients[..CLIENTS / 2], 0.1, &mut source).unwrap().iter().flat_map(|c| [2 * **c, 2 * **c + 1]).collect()
    };
    assert!(check_sampler(twins).is_err(), "twins");
}

// Rounds.

#[test]
fn tr_01_and_tr_05_one_client_moves_a_model_by_the_clip_at_most() {
    let trust = Trust::Server { rate: 1.0 };
    // So little noise that the update shows.
    let plan = Plan::new(Settings { noise_multiplier: 1e-3, ..settings(trust) }).unwrap();
    let model = |update: Vec<f32>| plan.simulate(&[Fixed(update)], vec![0.0; 3], &mut os()).unwrap();
    for update in [vec![1e30, 0.0, 0.0], vec![f32::NAN; 3], vec![f32::INFINITY, 0.0, 0.0], vec![], vec![9.0; 5]] {
        let model = model(update.clone());
        let norm = model.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        // Three numbers beyond 10 deviations happen once in 10^22.
        assert!(norm < 1.0 + 0.02, "{update:?}: {model:?}");
    }
    assert!((model(vec![0.0, 0.3, 0.0])[1] - 0.3).abs() < 0.02);
}

#[test]
fn the_divisor_is_public_and_not_the_size_of_the_cohort() {
    let trust = Trust::Server { rate: 1.0 };
    let plan = Plan::new(Settings { noise_multiplier: 1e-3, divisor: 10.0, ..settings(trust) }).unwrap();
    for clients in [1, 2, 40] {
        let clients: Vec<Fixed> = (0..clients).map(|_| Fixed(vec![0.5, 0.0, 0.0])).collect();
        let model = plan.simulate(&clients, vec![0.0; 3], &mut os()).unwrap();
        assert!((model[0] - 0.05 * clients.len() as f32).abs() < 0.002, "{model:?}");
    }
}

#[test]
fn every_round_sees_the_model_before_it() {
    struct Counting<'a>(&'a Cell<u32>);
    impl Client for Counting<'_> {
        fn update(&self, global: &[f32], round: u32) -> Vec<f32> {
            assert_eq!(round, self.0.get());
            self.0.set(round + 1);
            // The model so far is a half for every round, up to noise of a thousandth of the clip.
            assert!((global[0] - 0.5 * round as f32).abs() < 0.1, "{round}: {global:?}");
            vec![0.5]
        }
    }
    let asked = Cell::new(0);
    let trust = Trust::Server { rate: 1.0 };
    let plan = Plan::new(Settings { dimension: 1, rounds: 5, noise_multiplier: 1e-3, ..settings(trust) }).unwrap();
    plan.simulate(&[Counting(&asked)], vec![0.0], &mut os()).unwrap();
    assert_eq!(asked.get(), 5);
}

#[test]
fn both_modes_learn_the_same_mean() {
    struct Towards(f32);
    impl Client for Towards {
        fn update(&self, global: &[f32], _round: u32) -> Vec<f32> {
            global.iter().map(|x| 0.5 * (self.0 - x)).collect()
        }
    }
    let clients: Vec<Towards> = (0..20).map(|client| Towards(client as f32 / 10.0)).collect();
    for trust in [Trust::Server { rate: 0.9 }, Trust::Threshold { clients: 20, threshold: 14, colluding: 2 }] {
        let rate = if let Trust::Server { rate } = trust { rate } else { 1.0 };
        let (dimension, rounds, divisor) = (4, 12, 20.0 * rate);
        let plan =
            Plan::new(Settings { dimension, rounds, clip: 3.0, noise_multiplier: 0.05, divisor, trust }).unwrap();
        let model = plan.simulate(&clients, vec![0.0; 4], &mut os()).unwrap();
        // The mean is 0.95; noise, sampling and the start leave less than 0.15 in all but one of millions of runs.
        assert!(model.iter().all(|x| (x - 0.95).abs() < 0.3), "{trust:?}: {model:?}");
        assert!(plan.guarantee().epsilon(1e-5).is_ok());
    }
}

#[test]
fn dropouts_down_to_the_threshold_leave_a_noisy_sum_and_more_leave_nothing() {
    let mechanism = DistributedGaussian::new(2, 6, 3, 1.0, 1e-3).unwrap();
    let updates: Vec<Vec<f32>> = (0..6).map(|client| vec![0.1 * client as f32, -0.1]).collect();
    let session = |clients, threshold, colluding, dimension| {
        Parameters::new(clients, threshold, colluding, dimension, &mut os()).unwrap()
    };
    let silent = |clients: &[u32]| Dropouts {
        before_input: clients.iter().map(|client| ClientId(*client)).collect(),
        ..Dropouts::default()
    };
    let sum = secure_round(&mechanism, &session(6, 4, 1, 2), &updates, &silent(&[0, 5]), &mut os()).unwrap();
    assert!((sum[0] - 1.0).abs() < 0.05 && (sum[1] + 0.4).abs() < 0.05, "{sum:?}");
    let error = secure_round(&mechanism, &session(6, 4, 1, 2), &updates, &silent(&[0, 5, 1]), &mut os());
    assert_eq!(error, Err(RoundError::Protocol(ProtocolError::TooFew { found: 3, needed: 4 })));
    // A session that promises less than the noise was made for is refused before anybody sends anything.
    for weaker in [session(6, 5, 3, 2), session(7, 5, 1, 2), session(6, 4, 1, 3)] {
        let refused = secure_round(&mechanism, &weaker, &updates, &Dropouts::default(), &mut os());
        assert!(matches!(refused, Err(RoundError::Protocol(ProtocolError::InvalidParameters { .. }))));
    }
}

#[test]
fn fp_06_odd_plans_are_refused() {
    let good = settings(Trust::Server { rate: 0.5 });
    assert!(Plan::new(good).is_ok());
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0, 5e-324, 1e300];
    for value in odd {
        assert!(Plan::new(Settings { clip: value, ..good }).is_err(), "clip {value}");
        assert!(Plan::new(Settings { noise_multiplier: value, ..good }).is_err(), "multiplier {value}");
        assert!(Plan::new(Settings { divisor: value, ..good }).is_err(), "divisor {value}");
        assert!(DistributedGaussian::new(1, 3, 3, value, 1.0).is_err(), "clip {value}");
        assert!(DistributedGaussian::new(1, 3, 3, 1.0, value).is_err(), "multiplier {value}");
        if value != 5e-324 {
            assert!(Plan::new(Settings { trust: Trust::Server { rate: value }, ..good }).is_err(), "rate {value}");
        }
    }
    for settings in [
        Settings { dimension: 0, ..good },
        Settings { dimension: u32::MAX, ..good },
        Settings { rounds: 0, ..good },
        Settings { trust: Trust::Server { rate: 1.1 }, ..good },
        Settings { trust: Trust::Threshold { clients: 3, threshold: 4, colluding: 0 }, ..good },
        Settings { trust: Trust::Threshold { clients: 10, threshold: 5, colluding: 0 }, ..good },
    ] {
        assert!(Plan::new(settings).is_err(), "{settings:?}");
    }
    for (clients, honest) in [(0, 0), (3, 0), (3, 4), (5000, 3)] {
        assert!(DistributedGaussian::new(1, clients, honest, 1.0, 1.0).is_err(), "{clients} {honest}");
    }
    let plan = Plan::new(good).unwrap();
    for model in [vec![0.0; 2], vec![0.0; 4], vec![0.0, f32::NAN, 0.0]] {
        let refused = plan.simulate(&[Fixed(vec![0.0; 3])], model, &mut os());
        assert_eq!(refused, Err(RoundError::WrongModel { dimension: 3 }));
    }
    let trust = Trust::Threshold { clients: 3, threshold: 3, colluding: 0 };
    let refused = Plan::new(settings(trust)).unwrap().simulate(&[Fixed(vec![])], vec![0.0; 3], &mut os());
    assert_eq!(refused, Err(RoundError::WrongCohort { planned: 3, found: 1 }));
}

#[test]
fn fp_05_shares_are_discrete_gaussians_of_their_variance() {
    // Narrow shares, so that every integer shows: the mechanism's table against the exact law.
    let mechanism = DistributedGaussian::new(WIDE, 2000, 1000, 1.0, 0.0145).unwrap();
    let variance = mechanism.share_variance();
    assert!(variance.as_f64() < 1e6, "{variance:?}");
    let sigma = variance.as_f64().sqrt();
    let noise: Vec<f64> =
        mechanism.encode_from(&[], &mut seeded(40)).unwrap().iter().map(|x| f64::from(x.cast_signed())).collect();
    assert_eq!(check_deviation_of_integers(&noise, sigma), Ok(()));
    let mutant: Vec<f64> =
        (0..WIDE).map(|place| noise[place as usize] * if place % 4 == 0 { 1.1 } else { 1.0 }).collect();
    assert!(check_deviation_of_integers(&mutant, sigma).is_err());
    // The scalar sampler draws the same.
    let mut source = seeded(41);
    let exact = Ratio::new(variance.numerator(), variance.denominator()).unwrap();
    let scalar: Vec<f64> = (0..100_000).map(|_| discrete_gaussian(&mut source, exact).unwrap() as f64).collect();
    assert_eq!(check_deviation_of_integers(&scalar, sigma), Ok(()));
}

/// As [`check_deviation`], with ends of bins half way between integers.
fn check_deviation_of_integers(draws: &[f64], sigma: f64) -> Result<(), Misfit> {
    let ends: Vec<f64> = (1..=32).map(|bin| (f64::from(bin) * sigma / 8.0).floor() + 0.5).collect();
    let inside =
        |sigma: f64| ends.iter().map(|end| libm::erf(end / sigma / std::f64::consts::SQRT_2)).collect::<Vec<_>>();
    let counts: Vec<u64> = ends.iter().map(|end| draws.iter().filter(|x| x.abs() < *end).count() as u64).collect();
    check_events(&counts, &inside(sigma), draws.len() as u64, FALSE_ALARM)
}

// Audit.

const AUDIT: u64 = 200_000;

/// A lower bound of ε at this δ, from outcomes with and without a canary: the best of sixteen thresholds, wrong once in
/// 10⁹ audits.
fn audited(with: &[f64], without: &[f64], delta: f64) -> f64 {
    let alarm = FALSE_ALARM / 32.0;
    let above = |outcomes: &[f64], threshold: f64| outcomes.iter().filter(|x| **x > threshold).count() as u64;
    let bounds = (0..16).map(|step| {
        let threshold = -1.0 + 0.375 * f64::from(step);
        let hit = binomial::lower(above(with, threshold), with.len() as u64, alarm) - delta;
        let miss = binomial::upper(above(without, threshold), without.len() as u64, alarm);
        if hit > 0.0 { (hit / miss).ln() } else { 0.0 }
    });
    bounds.fold(0.0, f64::max)
}

#[test]
fn tr_12_a_canary_in_the_sum_is_no_easier_to_see_than_is_claimed() {
    let delta = 1e-5;
    let trust = Trust::Server { rate: 1.0 };
    let plan = |noise_multiplier| Plan::new(Settings { dimension: 1, noise_multiplier, ..settings(trust) }).unwrap();
    let mut source = os();
    let mut central = |plan: &Plan, canary: f32| -> Vec<f64> {
        let client = [Fixed(vec![canary])];
        (0..AUDIT).map(|_| f64::from(plan.simulate(&client, vec![0.0], &mut source).unwrap()[0])).collect()
    };
    let claimed = plan(1.0).guarantee().epsilon(delta).unwrap();
    let bound = audited(&central(&plan(1.0), 1.0), &central(&plan(1.0), 0.0), delta);
    assert!(bound <= claimed && bound > 0.4 * claimed, "{bound} of {claimed}");
    // Half of the noise that is priced.
    let half = plan(0.5);
    let bound = audited(&central(&half, 1.0), &central(&half, 0.0), delta);
    assert!(bound > claimed, "the mutant passes: {bound} of {claimed}");

    let honest = 3;
    let mechanism = |noise_multiplier| DistributedGaussian::new(1, 4, honest, 1.0, noise_multiplier).unwrap();
    let mut source = seeded(50);
    let mut distributed = |mechanism: &DistributedGaussian, canary: f32| -> Vec<f64> {
        let mut share = |update| mechanism.encode_from(&[update], &mut source).unwrap()[0];
        let sums = (0..AUDIT).map(|_| (1..honest).fold(share(canary), |sum, _| sum.wrapping_add(share(0.0))));
        sums.map(|sum| mechanism.decode(&[sum])[0]).collect()
    };
    let claimed = mechanism(1.0).guarantee(1).epsilon(delta).unwrap();
    let bound = audited(&distributed(&mechanism(1.0), 1.0), &distributed(&mechanism(1.0), 0.0), delta);
    assert!(bound <= claimed && bound > 0.4 * claimed, "{bound} of {claimed}");
    let bound = audited(&distributed(&mechanism(0.5), 1.0), &distributed(&mechanism(0.5), 0.0), delta);
    assert!(bound > claimed, "the mutant passes: {bound} of {claimed}");
}
