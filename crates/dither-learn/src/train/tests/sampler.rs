//! Samples: every unit by itself, every step anew.

use dither_core::Ratio;
use dither_testing::FALSE_ALARM;
use dither_testing::fit::{Misfit, check_events};

use super::*;
use crate::train::sampler::Sampler;

const UNITS: usize = 60;
const STEPS: u64 = 40_000;
const RATE: f64 = 0.1;

/// Tests marginals, pairs of units within a step, pairs of steps of a unit, and sizes.
fn check(sample: impl Fn(u64) -> Vec<u32>) -> Result<(), Misfit> {
    let mut marginal = vec![0u64; UNITS];
    let mut pairs = vec![0u64; UNITS * (UNITS - 1) / 2];
    let mut later = vec![0u64; 2 * UNITS];
    let mut sizes = vec![0u64; UNITS + 1];
    let mut before: [Vec<bool>; 2] = [vec![false; UNITS], vec![false; UNITS]];
    for step in 0..STEPS {
        let chosen = sample(step);
        let mut inside = vec![false; UNITS];
        chosen.iter().for_each(|unit| inside[*unit as usize] = true);
        sizes[chosen.len()] += 1;
        let mut pair = 0;
        for i in 0..UNITS {
            marginal[i] += u64::from(inside[i]);
            for (lag, before) in before.iter().enumerate() {
                later[2 * i + lag] += u64::from(inside[i] && before[i]);
            }
            for j in 0..i {
                pairs[pair] += u64::from(inside[i] && inside[j]);
                pair += 1;
            }
        }
        before.rotate_right(1);
        before[0] = inside;
    }
    let each = FALSE_ALARM / 4.0;
    check_events(&marginal, &vec![RATE; UNITS], STEPS, each)?;
    check_events(&pairs, &vec![RATE * RATE; pairs.len()], STEPS, each)?;
    // The pairs of the first two steps are missing: two of 40,000 are nothing beside the band.
    check_events(&later, &vec![RATE * RATE; later.len()], STEPS, each)?;
    let mut mass = (1.0 - RATE).powi(UNITS as i32);
    let mut law = Vec::new();
    for size in 0..=UNITS {
        law.push(mass);
        mass *= (UNITS - size) as f64 / (size + 1) as f64 * RATE / (1.0 - RATE);
    }
    check_events(&sizes, &law, STEPS, each)
}

fn sampler(parts: u32) -> Sampler {
    // The largest multiple of 2^-62 that is no more than a tenth.
    Sampler::new(known_key(1), Ratio::new((RATE * 2f64.powi(62)) as u128, 1 << 62).unwrap(), parts, UNITS)
}

fn flat(parts: Vec<Vec<u32>>) -> Vec<u32> {
    let mut all = parts.concat();
    all.sort_unstable();
    all
}

#[test]
pub(super) fn every_unit_enters_by_a_coin_of_its_own() {
    let sampler = sampler(3);
    assert_eq!(check(|step| flat(sampler.sample(step, UNITS).unwrap())), Ok(()));
}

#[test]
fn ac_10_mutants_of_the_sampler_are_caught() {
    let sampler = sampler(1);
    // Epochs over a shuffled table: batches of one size, and no unit twice in an epoch.
    let per_epoch = (1.0 / RATE) as u64;
    let shuffled = |step: u64| {
        let mut order: Vec<u32> = (0..UNITS as u32).collect();
        let mut stream = known_key(2).stream(dither_noise::Purpose::Sample, step / per_epoch, 0);
        for i in (1..UNITS).rev() {
            let j = dither_noise::uniform_below(&mut stream, i as u128 + 1).unwrap() as usize;
            order.swap(i, j);
        }
        let size = UNITS / per_epoch as usize;
        order[(step % per_epoch) as usize * size..][..size].to_vec()
    };
    assert!(check(shuffled).is_err());
    // One stream for two steps.
    assert!(check(|step| flat(sampler.sample(step / 2, UNITS).unwrap())).is_err());
    // One coin for two units.
    let twins = |step| -> Vec<u32> {
        flat(sampler.sample(step, UNITS / 2).unwrap()).into_iter().flat_map(|unit| [2 * unit, 2 * unit + 1]).collect()
    };
    assert!(check(twins).is_err());
    // A rate that is a tenth too large.
    let larger = Sampler::new(known_key(1), Ratio::new(11, 100).unwrap(), 1, 1000);
    assert!(check(|step| flat(larger.sample(step, UNITS).unwrap())).is_err());
}

#[test]
fn parts_are_dealt_evenly_and_by_themselves() {
    let sampler = sampler(4);
    let (mut alone, mut together, mut drawn, mut both) = ([0u64; 4], 0u64, 0u64, 0u64);
    for step in 0..STEPS {
        let parts = sampler.sample(step, UNITS).unwrap();
        let place = |unit| parts.iter().position(|part| part.contains(&unit));
        for (part, units) in parts.iter().enumerate() {
            assert!(units.is_sorted());
            alone[part] += units.len() as u64;
            drawn += units.len() as u64;
        }
        if let (Some(a), Some(b)) = (place(3), place(4)) {
            both += 1;
            together += u64::from(a == b);
        }
    }
    assert_eq!(check_events(&alone, &[0.25; 4], drawn, FALSE_ALARM), Ok(()));
    assert_eq!(check_events(&[together], &[0.25], both, FALSE_ALARM), Ok(()));
}

#[test]
fn rates_at_the_ends_are_exact() {
    let all = Sampler::new(known_key(1), Ratio::new(1, 1).unwrap(), 1, 1000);
    assert_eq!(all.sample(0, 1000).unwrap()[0].len(), 1000);
    assert_eq!(all.sample(0, 0).unwrap(), vec![Vec::<u32>::new()]);
    let least = Sampler::new(known_key(1), Ratio::new(1, u128::MAX).unwrap(), 1, 1000);
    assert!((0..100).all(|step| least.sample(step, 1000).unwrap()[0].is_empty()));
    let most = Sampler::new(known_key(1), Ratio::new(u128::MAX - 1, u128::MAX).unwrap(), 1, 1000);
    assert_eq!(most.sample(0, 1000).unwrap()[0].len(), 1000);
}

#[test]
fn a_step_that_is_repeated_has_the_same_sample() {
    let again = sampler(4);
    assert_eq!(sampler(4).sample(17, 500), again.sample(17, 500));
    assert_ne!(again.sample(17, 500), again.sample(18, 500));
    let other = Sampler::new(known_key(9), Ratio::new(1, 10).unwrap(), 4, 1000);
    assert_ne!(other.sample(17, 500), again.sample(17, 500));
}

#[test]
fn parts_that_are_too_large_are_halved_by_a_coin_of_each_unit() {
    let sampler = Sampler::new(known_key(1), Ratio::new(1, 1).unwrap(), 1, 2);
    let mut together = [0; 6];
    for step in 0..STEPS {
        let parts = sampler.sample(step, 4).unwrap();
        assert!(parts.iter().all(|part| part.len() <= 2 && part.is_sorted()));
        assert_eq!(flat(parts.clone()), [0, 1, 2, 3]);
        let pairs = (0..4u32).flat_map(|i| (0..i).map(move |j| [j, i]));
        pairs.zip(&mut together).for_each(|(pair, count)| *count += u64::from(parts.iter().any(|part| *part == pair)));
    }
    // Four units fall apart two and two with 3/7, so that a unit stays with one of three others; or three and one with
    // 4/7, of which three two stay together: 3/7 · 1/3 + 4/7 · 1/2 · 1/3.
    assert_eq!(check_events(&together, &[5.0 / 21.0; 6], STEPS, FALSE_ALARM), Ok(()));
}
