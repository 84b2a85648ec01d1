//! Do the tables draw from the distributions that are charged, and the samplers one at a time from the same?
//! False-alarm rate 1e-9 per test and parameter.

#![allow(clippy::unwrap_used, reason = "a failed draw is a failed test")]

mod common;

use std::f64::consts::PI;

use common::{Seeded, Stub, check, gaussian_sample, laplace_sample, ratio};
use dither_core::Ratio;
use dither_noise::{BitSource, NoiseError, NoiseTable, discrete_laplace};
use dither_testing::fit::{Misfit, check_cdf, check_events};
use dither_testing::pmf::{gaussian_cdf, laplace_cdf};
use dither_testing::{FALSE_ALARM, StubBytes};
use proptest::prelude::*;

const MILLION: usize = 1_000_000;

/// Scales, and σ.
const WIDTHS: [(u128, u128); 9] =
    [(3, 10), (1, 1), (37, 10), (10, 1), (2001, 2), (1 << 20, 1), (1 << 27, 1), (1 << 40, 1), (1 << 50, 1)];

#[derive(Clone, Copy, Debug)]
enum Noise {
    Laplace,
    Gaussian,
}

use Noise::{Gaussian, Laplace};

impl Noise {
    fn table(self, (n, d): (u128, u128)) -> NoiseTable {
        match self {
            Laplace => NoiseTable::laplace(ratio(n, d)).unwrap(),
            Gaussian => NoiseTable::gaussian(ratio(n * n, d * d)).unwrap(),
        }
    }

    /// Draws of a table.
    fn bulk(self, seed: u64, width: (u128, u128), draws: usize) -> Vec<i128> {
        let mut buffer = vec![0; draws];
        self.table(width).fill(&mut Seeded::new(seed), &mut buffer).unwrap();
        buffer.into_iter().map(i128::from).collect()
    }

    fn one_by_one(self, seed: u64, width: (u128, u128), draws: usize) -> Vec<i128> {
        let (table, mut source) = (self.table(width), Seeded::new(seed));
        (0..draws).map(|_| table.draw(&mut source).unwrap().into()).collect()
    }

    fn reference(self, seed: u64, (n, d): (u128, u128), draws: usize) -> Vec<i128> {
        match self {
            Laplace => laplace_sample(seed, ratio(n, d), draws),
            Gaussian => gaussian_sample(seed, ratio(n * n, d * d), draws),
        }
    }

    fn cdf(self, width: f64) -> Box<dyn Fn(i128) -> f64> {
        match self {
            Laplace => Box::new(move |x| laplace_cdf(x, width)),
            Gaussian => Box::new(gaussian_cdf(width * width)),
        }
    }

    /// The mean of |x|/scale, or of x²/σ².
    fn spread(self, sample: &[i128], width: f64) -> f64 {
        let size = |x: f64| match self {
            Laplace => x.abs(),
            Gaussian => x * x,
        };
        sample.iter().map(|&x| size(x as f64 / width)).sum::<f64>() / sample.len() as f64
    }

    /// ln E exp(λ · |X|/scale) or ln E exp(λ · X²/σ²), for the X that is claimed.
    fn cumulant(self, lambda: f64, width: f64) -> f64 {
        match self {
            // With q = exp(−1/scale), the sum over the masses is tanh(1/2s) · (1 + q^(1−λ))/(1 − q^(1−λ)).
            Laplace => (0.5 / width).tanh().ln() - ((1.0 - lambda) / (2.0 * width)).tanh().ln(),
            Gaussian => {
                let variance = width * width;
                gaussian_sum(variance / (1.0 - 2.0 * lambda)).ln() - gaussian_sum(variance).ln()
            }
        }
    }

    /// Tests the spread, which sees a change of the width best, by the bound of Chernoff on either side:
    /// P(mean ≥ a) ≤ exp(−n · sup over λ of (λa − ln E exp(λY))).
    fn check_spread(self, sample: &[i128], width: f64) -> Result<(), Misfit> {
        let observed = self.spread(sample, width);
        let rate = |lambda: f64| lambda * observed - self.cumulant(lambda, width);
        // Concave; what is found is a lower bound of the supremum, which only makes the test milder.
        let (mut low, mut high) = (-1.0, 0.49);
        for _ in 0..100 {
            let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
            if rate(a) < rate(b) { low = a } else { high = b }
        }
        match sample.len() as f64 * rate(low) > (2.0 / FALSE_ALARM).ln() {
            true => Err(Misfit { place: 0, observed, expected: 1.0 }),
            false => Ok(()),
        }
    }

    fn fits(self, sample: &[i128], width: f64) -> Result<(), Misfit> {
        self.check_spread(sample, width)?;
        check(sample.to_vec(), self.cdf(width))
    }
}

/// Σ exp(−x²/2v), by Poisson summation where v is large.
fn gaussian_sum(v: f64) -> f64 {
    if v >= 1.0 {
        return (2.0 * PI * v).sqrt() * (1.0 + 2.0 * (-2.0 * PI * PI * v).exp());
    }
    1.0 + 2.0 * (1..=20).map(|x| (-f64::from(x * x) / (2.0 * v)).exp()).sum::<f64>()
}

fn float((n, d): (u128, u128)) -> f64 {
    n as f64 / d as f64
}

#[test]
fn fp_05_bulk_noise_fits_at_every_scale() {
    for (seed, width) in (0..).zip(WIDTHS) {
        for noise in [Laplace, Gaussian] {
            let sample = noise.bulk(seed, width, MILLION);
            assert_eq!(noise.fits(&sample, float(width)), Ok(()), "{noise:?} {width:?}");
            let sample = noise.one_by_one(100 + seed, width, MILLION / 5);
            assert_eq!(noise.fits(&sample, float(width)), Ok(()), "{noise:?} {width:?}, one by one");
        }
    }
}

#[test]
fn fp_05_the_reference_fits_at_the_same_scales() {
    for (seed, width) in (200..).zip(WIDTHS) {
        for noise in [Laplace, Gaussian] {
            let sample = noise.reference(seed, width, MILLION / 4);
            assert_eq!(noise.fits(&sample, float(width)), Ok(()), "{noise:?} {width:?}");
        }
    }
}

#[test]
fn fp_05_mutants_of_bulk_noise_are_rejected() {
    for (seed, width) in (300..).zip(WIDTHS) {
        for noise in [Laplace, Gaussian] {
            let sample = noise.bulk(seed, width, MILLION);
            for off in [0.99, 1.01] {
                let claimed = float(width) * off;
                assert!(noise.check_spread(&sample, claimed).is_err(), "{noise:?} {width:?} × {off}");
            }
            if seed % 3 != 0 {
                continue;
            }
            // A shift by three hundredths of the width, at least by one.
            let by = (float(width) * 0.03).ceil() as i128;
            let shifted = sample.iter().map(|x| x + by).collect();
            assert!(check(shifted, noise.cdf(float(width))).is_err(), "{noise:?} {width:?} shifted");
        }
    }
}

/// Tests the frequency of every integer up to `reach`, and of those beyond.
fn check_masses(sample: &[i128], cdf: impl Fn(i128) -> f64, reach: i128) -> Result<(), Misfit> {
    let mut counts = vec![0; 2 * reach as usize + 2];
    for &x in sample {
        let place = if x.abs() <= reach { x + reach } else { 2 * reach + 1 };
        counts[place as usize] += 1;
    }
    let mut masses: Vec<f64> = (-reach..=reach).map(|x| cdf(x) - cdf(x - 1)).collect();
    masses.push(2.0 * cdf(-reach - 1));
    check_events(&counts, &masses, sample.len() as u64, FALSE_ALARM)
}

#[test]
fn fp_05_every_integer_has_its_mass() {
    for (seed, width) in (400..).zip([(3, 10), (1, 1), (37, 10), (10, 1), (60, 1), (100, 1)]) {
        for noise in [Laplace, Gaussian] {
            // The tail begins at about seven scales or four σ.
            let reach = (9.0 * float(width)).ceil() as i128;
            let sample = noise.bulk(seed, width, 4 * MILLION);
            let (cdf, claim) = (noise.cdf(float(width)), noise.cdf(float(width) * 1.01));
            // The cdf of wide Gaussians is that of the continuous one, too coarse for single integers.
            let exact = |x: i128| (-((x * x) as f64) / (2.0 * float(width).powi(2))).exp();
            let wide = matches!(noise, Gaussian) && float(width) > 64.0;
            let masses = |x: i128| if wide { (-1000..=x).map(exact).sum::<f64>() / gaussian_sum(1e4) } else { cdf(x) };
            assert_eq!(check_masses(&sample, masses, reach), Ok(()), "{noise:?} {width:?}");
            assert!(wide || check_masses(&sample, claim, reach).is_err() || float(width) > 4.0);
        }
    }
}

#[test]
fn fp_05_cells_and_tails_join_without_a_seam() {
    // Cells of wide tables are powers of two: the parts of the axis between multiples of 16 have their masses.
    for noise in [Laplace, Gaussian] {
        let width = 1000.5;
        let sample = noise.bulk(500, (2001, 2), 8 * MILLION);
        let parts: Vec<i128> = sample.iter().map(|x| x.div_euclid(16)).collect();
        let cdf = noise.cdf(width);
        assert_eq!(check_masses(&parts, |part| cdf(16 * part + 15), 600), Ok(()));
        // The tail by itself: of the draws beyond seven widths or four, those from there on.
        let start = if matches!(noise, Laplace) { 7.0 * width } else { 4.0 * width } as i128;
        let beyond = 1.0 - cdf(start - 1);
        let mut tail: Vec<i128> = sample.into_iter().filter(|&x| x >= start).collect();
        assert!(tail.len() > 100);
        assert_eq!(check_cdf(&mut tail, |x| 1.0 - (1.0 - cdf(x)) / beyond, FALSE_ALARM), Ok(()));
    }
}

/// The frequencies of the remainders of large noise, which are equally likely to far more digits than are seen.
fn check_remainders(sample: &[i128], modulus: i128) -> Result<(), Misfit> {
    let mut counts = vec![0; modulus as usize];
    sample.iter().for_each(|x| counts[x.rem_euclid(modulus) as usize] += 1);
    check_events(&counts, &vec![1.0 / modulus as f64; modulus as usize], sample.len() as u64, FALSE_ALARM)
}

#[test]
fn fp_01_no_low_bit_and_no_lattice_shows() {
    for (seed, width) in (600..).zip([(1 << 20, 1), (1 << 27, 1), (1 << 40, 1), (1 << 50, 1)]) {
        for noise in [Laplace, Gaussian] {
            let sample = noise.bulk(seed, width, MILLION);
            for modulus in [2, 3, 5, 7, 16, 64, 1000, 4096] {
                assert_eq!(check_remainders(&sample, modulus), Ok(()), "{noise:?} {width:?} mod {modulus}");
            }
            // Every bit that a cell has, and the first above it.
            let bits: Vec<u64> =
                (0..18).map(|bit| sample.iter().filter(|&x| x >> bit & 1 == 1).count() as u64).collect();
            assert_eq!(check_events(&bits, &[0.5; 18], MILLION as u64, FALSE_ALARM), Ok(()));
            // Controls: the lowest bit is lost; every third integer is a little rarer.
            let even: Vec<i128> = sample.iter().map(|x| x & !1).collect();
            assert!(check_remainders(&even, 2).is_err());
            let uneven: Vec<i128> = sample.iter().map(|x| if x % 150 == 0 { x + 1 } else { *x }).collect();
            assert!(check_remainders(&uneven, 3).is_err());
        }
    }
}

#[test]
fn fp_01_parity_of_small_noise_and_both_signs() {
    for (seed, width) in (700..).zip(WIDTHS) {
        for noise in [Laplace, Gaussian] {
            let sample = noise.bulk(seed, width, MILLION);
            // Σ(−1)^x P(x): even minus odd, in closed form.
            let s = float(width);
            let excess = match noise {
                Laplace => (0.5 / s).tanh().powi(2),
                Gaussian if s < 4.0 => {
                    let sign = |x: i32| if x % 2 == 0 { 2.0 } else { -2.0 };
                    let sum: f64 = (1..=40).map(|x| sign(x) * (-f64::from(x * x) / (2.0 * s * s)).exp()).sum();
                    (1.0 + sum) / gaussian_sum(s * s)
                }
                Gaussian => 0.0,
            };
            let even = sample.iter().filter(|&x| x % 2 == 0).count() as u64;
            assert_eq!(check_events(&[even], &[0.5 + excess / 2.0], MILLION as u64, FALSE_ALARM), Ok(()));
            let (above, below) = (sample.iter().filter(|&&x| x > 0).count(), sample.iter().filter(|&&x| x < 0).count());
            let signs = |above: usize, draws: usize| check_events(&[above as u64], &[0.5], draws as u64, FALSE_ALARM);
            assert_eq!(signs(above, above + below), Ok(()), "{noise:?} {width:?}");
            assert!(signs(above + above / 4, above + below).is_err(), "the control passes");
        }
    }
}

/// Counts the bytes that are drawn.
struct Counting(Seeded, usize);

impl BitSource for Counting {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), NoiseError> {
        self.1 += buffer.len();
        self.0.fill(buffer)
    }
}

/// How much more often one of the larger half of the draws takes more than the fewest bytes than one of the
/// smaller half, and by how much it may do so by chance (Hoeffding, *Probability inequalities*, 1963, Theorem 2).
fn difference(mut draw: impl FnMut(&mut Counting) -> u64) -> (f64, f64) {
    let mut source = Counting(Seeded::new(800), 0);
    let drawn: Vec<(u64, usize)> = (0..MILLION / 2)
        .map(|_| {
            let before = source.1;
            (draw(&mut source), source.1 - before)
        })
        .collect();
    let fewest = drawn.iter().map(|&(_, bytes)| bytes).min().unwrap();
    let (large, small): (Vec<_>, Vec<_>) = drawn.iter().partition(|&&(size, _)| size > 7);
    let more =
        |part: &[(u64, usize)]| part.iter().filter(|&&(_, bytes)| bytes > fewest).count() as f64 / part.len() as f64;
    let chance = (2.0 / FALSE_ALARM).ln() / 2.0 * (1.0 / large.len() as f64 + 1.0 / small.len() as f64);
    (more(&large) - more(&small), chance.sqrt())
}

#[test]
fn tm_01_the_bytes_of_a_draw_do_not_tell_its_size() {
    for noise in [Laplace, Gaussian] {
        let table = noise.table((10, 1));
        let (difference, chance) = difference(|source| table.draw(source).unwrap().unsigned_abs());
        assert!(difference.abs() <= chance, "{noise:?}: {difference}");
    }
    // The control: without a table a large draw takes more bytes.
    let (difference, chance) =
        difference(|source| discrete_laplace(source, ratio(10, 1)).unwrap().unsigned_abs() as u64);
    assert!(difference > 2.0 * chance, "{difference}");
}

#[test]
fn fp_08_a_broken_generator_leaves_zeros_and_an_error() {
    for width in WIDTHS.into_iter().step_by(2) {
        for noise in [Laplace, Gaussian] {
            let table = noise.table(width);
            for stub in StubBytes::ALL {
                let mut buffer = [7; 3000];
                let filled = table.fill(&mut Stub(stub), &mut buffer);
                assert!(filled.is_ok() || buffer == [0; 3000]);
                let _ = table.draw(&mut Stub(stub));
            }
            for (byte, error) in
                [(Some(0), NoiseError::Exhausted), (Some(0xFF), NoiseError::Exhausted), (None, NoiseError::Unavailable)]
            {
                let stub = byte.map_or(StubBytes::Failing, StubBytes::Constant);
                let mut buffer = [7; 1500];
                assert_eq!(table.fill(&mut Stub(stub), &mut buffer), Err(error));
                assert_eq!(buffer, [0; 1500]);
                assert_eq!(table.draw(&mut Stub(stub)), Err(error));
            }
        }
    }
}

#[test]
fn a_generator_that_fails_later_leaves_nothing_behind() {
    struct Ending(Seeded, usize);
    impl BitSource for Ending {
        fn fill(&mut self, buffer: &mut [u8]) -> Result<(), NoiseError> {
            self.1 = self.1.checked_sub(1).ok_or(NoiseError::Unavailable)?;
            self.0.fill(buffer)
        }
    }
    for calls in 0..20 {
        let mut buffer = vec![7; 100_000];
        let filled = Laplace.table((10, 1)).fill(&mut Ending(Seeded::new(1), calls), &mut buffer);
        assert_eq!((filled, buffer), (Err(NoiseError::Unavailable), vec![0; 100_000]));
    }
}

#[test]
fn buffers_of_any_length_are_filled() {
    let table = Gaussian.table((1 << 30, 1));
    for length in [0, 1, 2, 63, 64, 65, 1023, 1024, 1025, 5000] {
        let mut buffer = vec![i64::MAX; length];
        table.fill(&mut Seeded::new(3), &mut buffer).unwrap();
        assert!(buffer.iter().all(|x| x.abs() < 20 << 30));
    }
}

proptest! {
    #[test]
    fn fp_08_no_table_panics(seed in 0u64.., n in 1u128.., d in 1u128.., shift in 0u32..120) {
        let parameter = ratio(n >> shift | 1, d);
        for table in [NoiseTable::laplace(parameter), NoiseTable::gaussian(parameter)] {
            match table {
                Ok(table) => {
                    let mut buffer = [0; 100];
                    table.fill(&mut Seeded::new(seed), &mut buffer).unwrap();
                    let reach = 60.0 * parameter.as_f64().max(parameter.as_f64().sqrt()) + 3.0;
                    prop_assert!(buffer.iter().all(|&x| (x.abs() as f64) < reach));
                }
                Err(error) => prop_assert!(error == NoiseError::OutOfRange && parameter.as_f64() >= 2f64.powi(50)),
            }
        }
    }
}

#[test]
fn fp_06_scales_that_are_too_large_are_refused() {
    let refused = |table: Result<NoiseTable, NoiseError>| table.err() == Some(NoiseError::OutOfRange);
    let parameter = |n, d| Ratio::new(n, d).unwrap();
    assert!(refused(NoiseTable::laplace(parameter((1 << 50) + 1, 1))));
    assert!(
        refused(NoiseTable::laplace(parameter(u128::MAX, 1))) && refused(NoiseTable::gaussian(parameter(u128::MAX, 1)))
    );
    assert!(
        NoiseTable::laplace(parameter(1, u128::MAX)).is_ok() && NoiseTable::gaussian(parameter(1, u128::MAX)).is_ok()
    );
}
