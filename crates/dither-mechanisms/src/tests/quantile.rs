//! Attacks on quantiles: against the law by its definition, on grids that are small enough to be listed.

use std::collections::BTreeMap;
use std::ops::Range;

use dither_core::PrivacyEvent;
use dither_testing::FALSE_ALARM;
use dither_testing::binomial::upper;
use dither_testing::fit::check_events;

use super::*;
use crate::{Fraction, Histogram, MechanismError, Quantiles};

fn fractions(parts: &[f64]) -> Vec<Fraction> {
    parts.iter().map(|&part| Fraction::new(part).unwrap()).collect()
}

fn quantiles(parts: &[f64], points: u32, loss: &str) -> Quantiles {
    Quantiles::for_epsilon(&fractions(parts), groups(points), 1, groups(1), epsilon(loss)).unwrap()
}

fn histogram(counts: &[u64]) -> Histogram {
    (0..).zip(counts.iter().copied()).filter(|(_, count)| *count > 0).collect()
}

/// Where the rows of one point lie in it, of so many parts.
type Spread = fn(count: u64, bits: u32) -> Vec<u64>;

/// The i-th row in the part of the bits of i reversed.
fn reversed(count: u64, bits: u32) -> Vec<u64> {
    (0..count).map(|row| (0..bits).fold(0, |part, bit| part << 1 | (row >> bit & 1))).collect()
}

/// At equal distances: what one row more moves.
fn even(count: u64, bits: u32) -> Vec<u64> {
    (0..count).map(|row| (row << bits) / count).collect()
}

/// The law by its definition, in floating point and by listing everything.
struct Law<'a> {
    quantiles: &'a Quantiles,
    bits: u32,
    /// The loss of one row in one choice.
    loss: f64,
    spread: Spread,
    /// Whether the part that is chosen counts on both sides: a bug.
    shared: bool,
}

impl<'a> Law<'a> {
    fn new(quantiles: &'a Quantiles, bits: u32) -> Self {
        let PrivacyEvent::Composed(events) = quantiles.event() else { panic!("events are composed") };
        let Some(PrivacyEvent::BoundedRange { epsilon }) = events.first() else { panic!("events have bounded range") };
        let loss = epsilon.as_f64() / quantiles.rows() as f64;
        Self { quantiles, bits, loss, spread: reversed, shared: false }
    }

    /// The probability of each list of parts.
    fn of(&self, counts: &[u64]) -> BTreeMap<Vec<u64>, f64> {
        let rows = |(point, &count): (usize, &u64)| {
            (self.spread)(count, self.bits).into_iter().map(move |part| (point as u64) << self.bits | part)
        };
        let rows: Vec<u64> = counts.iter().enumerate().flat_map(rows).collect();
        let all = 0..(counts.len() as u64) << self.bits;
        self.choices(&rows, 0..self.quantiles.fractions().len(), all).into_iter().collect()
    }

    fn choices(&self, rows: &[u64], asked: Range<usize>, parts: Range<u64>) -> Vec<(Vec<u64>, f64)> {
        let known = self.quantiles.fractions();
        if asked.is_empty() {
            return vec![(Vec::new(), 1.0)];
        }
        if parts.is_empty() {
            return vec![(vec![parts.start; asked.len()], 1.0)];
        }
        let margin = self.quantiles.margin() as f64;
        let off = |fraction: Fraction| match fraction {
            Fraction::LEAST => margin,
            Fraction::GREATEST => -margin,
            _ => 0.0,
        };
        let middle = asked.start + asked.len() / 2;
        let (below, start) = asked.start.checked_sub(1).map_or((0.0, 0.0), |i| (known[i].as_f64(), off(known[i])));
        let (over, end) = known.get(asked.end).map_or((1.0, 0.0), |after| (after.as_f64(), off(*after)));
        let share = (known[middle].as_f64() - below) / (over - below);
        let before = |part: u64| rows.iter().filter(|row| (parts.start..part).contains(*row)).count() as f64;
        let n = before(parts.end);
        let target = match known[middle] {
            Fraction::LEAST => margin.min(n / 2.0),
            Fraction::GREATEST => n - margin.min(n / 2.0),
            _ => share * (n - (end - start)) - start,
        };
        let rate = self.loss / (2.0 * share.max(1.0 - share));
        let distance = |part: u64| (before(part) - target).max(target - before(part + 1)).max(0.0);
        let weights: Vec<f64> = parts.clone().map(|part| (-rate * distance(part)).exp()).collect();
        let total: f64 = weights.iter().sum();
        let mut all = Vec::new();
        for (part, weight) in parts.clone().zip(&weights) {
            let left = self.choices(rows, asked.start..middle, parts.start..part + u64::from(self.shared));
            let right = self.choices(rows, middle + 1..asked.end, part..parts.end);
            for (smaller, p) in &left {
                for (larger, q) in &right {
                    all.push(([smaller.as_slice(), &[part], larger].concat(), weight / total * p * q));
                }
            }
        }
        all
    }

    /// The largest loss of any list of parts when one row is added to any of these tables, either way.
    fn loss_of_a_row(&self, tables: &[Vec<u64>]) -> f64 {
        let mut worst = 0.0_f64;
        for counts in tables {
            let law = self.of(counts);
            for point in 0..counts.len() {
                let mut more = counts.clone();
                more[point] += 1;
                let other = self.of(&more);
                worst = law.iter().map(|(parts, p)| (p / other[parts]).ln().abs()).fold(worst, f64::max);
            }
        }
        worst
    }
}

/// All tables of at most two rows on each of three points.
fn tables() -> Vec<Vec<u64>> {
    (0..27).map(|index| vec![index % 3, index / 3 % 3, index / 9]).collect()
}

#[test]
fn one_row_moves_no_probability_by_more_than_is_charged() {
    for parts in [&[0.5][..], &[0.25, 0.75], &[0.25, 0.5, 0.75], &[0.0, 0.3, 1.0], &[0.9]] {
        for bits in 0..=1 {
            let quantiles = quantiles(parts, 3, "2").with_bits(bits);
            let law = Law::new(&quantiles, bits);
            let worst = law.loss_of_a_row(&tables());
            assert!(worst <= 2.0 + 1e-9, "{parts:?} {bits}: {worst}");
            assert!(worst > 0.4, "{parts:?} {bits}: {worst} would prove nothing");
        }
    }
}

#[test]
fn the_rows_of_a_unit_add_up() {
    // Two rows at a loss of 2 each cost no more than one at 2 and one at 2.
    let asked = fractions(&[0.25, 0.5]);
    let quantiles = Quantiles::for_epsilon(&asked, groups(3), 2, groups(1), epsilon("2")).unwrap().with_bits(1);
    let law = Law::new(&quantiles, 1);
    for counts in tables() {
        let before = law.of(&counts);
        for (first, second) in [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)] {
            let mut more = counts.clone();
            more[first] += 1;
            more[second] += 1;
            let after = law.of(&more);
            assert!(before.iter().all(|(parts, p)| (p / after[parts]).ln().abs() <= 2.0 + 1e-9));
        }
    }
}

#[test]
fn control_bugs_of_the_split_and_of_the_rate_are_noticed() {
    let quantiles = quantiles(&[0.2, 0.5, 0.8], 3, "2").with_bits(2);
    let honest = Law::new(&quantiles, 2);
    let tables: Vec<Vec<u64>> =
        (0..8).map(|index| vec![4 * (index % 2), 4 * (index / 2 % 2), 4 * (index / 4)]).collect();
    let worst = honest.loss_of_a_row(&tables);
    assert!(worst <= 2.0, "{worst}");
    let loud = Law { loss: 4.0 * honest.loss, ..Law::new(&quantiles, 2) };
    assert!(loud.loss_of_a_row(&tables) > 2.0);
}

/// One row more that moves the others costs more than one row.
#[test]
fn control_rows_at_equal_distances_are_noticed() {
    let quantiles = quantiles(&[0.25, 0.5, 0.75], 1, "2").with_bits(5);
    let tables: Vec<Vec<u64>> = (6..20).map(|count| vec![count]).collect();
    let worst = Law::new(&quantiles, 5).loss_of_a_row(&tables);
    let moving = Law { spread: even, ..Law::new(&quantiles, 5) }.loss_of_a_row(&tables);
    assert!(worst <= 2.0 && moving > 2.0, "{worst} {moving}");
}

/// Draws from the mechanism, as often as each list of points.
fn drawn(quantiles: &Quantiles, counts: &[u64], draws: u64, seed: u64) -> BTreeMap<Vec<u64>, u64> {
    let (mut source, histogram) = (Seeded::new(seed), histogram(counts));
    let mut seen = BTreeMap::new();
    for _ in 0..draws {
        let points: Vec<u64> =
            quantiles.draw(&histogram, &mut source).unwrap().into_iter().map(|point| point as u64).collect();
        *seen.entry(points).or_default() += 1;
    }
    seen
}

#[test]
fn fp_05_quantiles_fit_their_law() {
    let draws = 100_000;
    let (crowd, single) = (vec![3, 0, 5, 1], vec![0, 0, 0, 1]);
    for (parts, counts, bits) in [
        (&[0.5][..], &crowd, 0),
        (&[0.1], &crowd, 0),
        (&[0.25, 0.5, 0.75], &crowd, 2),
        (&[0.0, 1.0], &crowd, 2),
        (&[0.0, 0.5, 1.0], &crowd, 1),
        (&[0.4, 0.5], &single, 2),
        (&[0.4, 0.6], &vec![0; 4], 1),
    ] {
        let quantiles = quantiles(parts, 4, "3").with_bits(bits);
        let seen = drawn(&quantiles, counts, draws, 60);
        let fits = |factor: f64| {
            let honest = Law::new(&quantiles, bits);
            let law = Law { loss: factor * honest.loss, ..honest };
            let mut points: BTreeMap<Vec<u64>, f64> = BTreeMap::new();
            for (parts, p) in law.of(counts) {
                *points.entry(parts.into_iter().map(|part| part >> bits).collect()).or_default() += p;
            }
            assert!(seen.keys().all(|answer| points.contains_key(answer)), "something impossible was drawn");
            let counts: Vec<u64> = points.keys().map(|answer| seen.get(answer).copied().unwrap_or(0)).collect();
            check_events(&counts, &points.into_values().collect::<Vec<_>>(), draws, FALSE_ALARM)
        };
        assert_eq!(fits(1.0), Ok(()), "{parts:?} {counts:?}");
        // The seeded bug: a factor of two in the exponent. Without rows there is nothing to exponentiate.
        assert!(counts.iter().sum::<u64>() == 0 || fits(2.0).is_err(), "{parts:?} {counts:?}");
    }
}

/// The points that the fractions of a table have, exactly.
fn exact(counts: &[u64], parts: &[f64]) -> Vec<u64> {
    let total: u64 = counts.iter().sum();
    let point = |part: &f64| {
        let mut sum = 0;
        counts.iter().position(|count| {
            sum += count;
            sum as f64 > part * total as f64
        })
    };
    parts.iter().map(|part| point(part).unwrap() as u64).collect()
}

/// Many equal values, and fractions just beside the steps of their distribution.
#[test]
fn no_bias_stays_as_tables_grow() {
    let parts = [0.1, 0.248, 0.252, 0.5, 0.847, 0.853, 0.95];
    let shape = [200, 50, 600, 0, 50, 100];
    let right = |factor: u64, quantiles: &Quantiles| {
        let counts: Vec<u64> = shape.iter().map(|count| count * factor).collect();
        let truth = exact(&counts, &parts);
        drawn(quantiles, &counts, 300, 61).get(&truth).copied().unwrap_or(0)
    };
    let honest = quantiles(&parts, 6, "1");
    assert!(right(3, &honest) < 200, "small tables are noisy");
    assert_eq!(right(10_000, &honest), 300);
    // The control: all rows of a point on one side of a split are a bias that stays.
    assert_eq!(right(10_000, &honest.with_bits(0)), 0);
}

#[test]
fn fp_14_the_error_of_ranks_is_kept() {
    let parts = [0.05, 0.5, 0.75];
    let quantiles = quantiles(&parts, 1_000, "2");
    let spread: Vec<u64> = vec![3; 1_000];
    // The median lies 13 rows within the heap at the end, and before the heap there is much room.
    let mut ends = vec![0; 1_000];
    (ends[0], ends[999]) = (1_487, 1_513);
    let heap: Vec<u64> = (0..1_000).map(|point| if point == 300 { 3_000 } else { 0 }).collect();
    let draws = 2_000;
    let mut loosest = 0.0_f64;
    for counts in [&spread, &ends, &heap] {
        let seen = drawn(&quantiles, counts, draws, 62);
        for (index, fraction) in fractions(&parts).into_iter().enumerate() {
            let limit = quantiles.rank_error(fraction, 0.95).unwrap();
            let covered = |limit: f64| -> u64 {
                let off = |point: u64| {
                    let below: u64 = counts[..point as usize].iter().sum();
                    let target = fraction.as_f64() * 3_000.0;
                    (below as f64 - target).max(target - (below + counts[point as usize]) as f64).max(0.0)
                };
                seen.iter().filter(|(points, _)| off(points[index]) <= limit).map(|(_, count)| count).sum()
            };
            assert!(upper(covered(limit), draws, FALSE_ALARM) >= 0.95, "{fraction:?}");
            loosest = loosest.max(1.0 - covered(limit / 2.0) as f64 / draws as f64);
        }
    }
    assert!(loosest > 0.2, "the control: half of the limit is not kept, {loosest}");
    assert_eq!(quantiles.rank_error(Fraction::MEDIAN, 1.0), None);
    assert_eq!(quantiles.rank_error(Fraction::MEDIAN, f64::NAN), None);
}

/// Where all values lie between 500 and 600 of 1,000 points, so do the least and the greatest.
#[test]
fn the_ends_lie_among_the_values() {
    let counts: Vec<u64> = (0..1_000).map(|point| if (500..600).contains(&point) { 20 } else { 0 }).collect();
    let draws = 2_000;
    let inside = |parts: &[f64]| -> u64 {
        let seen = drawn(&quantiles(parts, 1_000, "1"), &counts, draws, 63);
        seen.iter().filter(|(points, _)| points.iter().all(|p| (500..600).contains(p))).map(|(_, count)| count).sum()
    };
    for parts in [&[0.0][..], &[1.0]] {
        assert!(upper(inside(parts), draws, FALSE_ALARM) >= 0.95, "{parts:?}");
    }
    assert!(inside(&[0.0, 0.5, 1.0]) > 1_700);
    // The control: the very first rank says nothing.
    assert!(inside(&[1e-9]) < 200);
    assert!(inside(&[1.0 - 1e-9]) < 200);
}

#[test]
fn several_quantiles_never_cross() {
    let parts = [0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0];
    for counts in [vec![0; 50], vec![1; 50], (0..50).map(|point| point % 7).collect()] {
        for points in drawn(&quantiles(&parts, 50, "0.5"), &counts, 500, 64).into_keys() {
            assert!(points.is_sorted() && points.len() == parts.len() && points.iter().all(|p| *p < 50));
        }
    }
}

#[test]
fn quantiles_charge_for_every_level_and_group() {
    let asked = |count: usize, rows: u64, in_groups: u32| {
        let parts: Vec<f64> = (1..=count).map(|i| i as f64 / (count + 1) as f64).collect();
        Quantiles::for_epsilon(&fractions(&parts), groups(100), rows, groups(in_groups), epsilon("1")).unwrap()
    };
    let events = |quantiles: &Quantiles| match quantiles.event() {
        PrivacyEvent::Composed(events) => events.len(),
        other => panic!("{other:?}"),
    };
    for (count, levels) in [(1, 1), (2, 2), (3, 2), (4, 3), (7, 3), (8, 4), (100, 7)] {
        assert_eq!(events(&asked(count, 1, 1)), levels, "{count}");
        assert_eq!(events(&asked(count, 5, 3)), 3 * levels, "{count}");
        // The ledger does not hold a million events; one for each level is worth as much under basic composition.
        assert_eq!(events(&asked(count, 5, 1_000_000)), levels);
    }
    for quantiles in [asked(5, 1, 1), asked(5, 2, 7), asked(5, 2, 1_000_000)] {
        let PrivacyEvent::Composed(events) = quantiles.event() else { panic!("composed") };
        let sum: u64 = events
            .iter()
            .map(|event| match event {
                PrivacyEvent::BoundedRange { epsilon } => epsilon.nanos(),
                other => panic!("{other:?}"),
            })
            .sum();
        assert!(sum <= epsilon("1").nanos() && sum > epsilon("0.999").nanos());
    }
    // The rank of a unit with twice as many rows, or in twice as many groups, is twice as far off.
    let error = |quantiles: Quantiles| quantiles.rank_error(Fraction::MEDIAN, 0.95).unwrap();
    let one = error(asked(1, 1, 1));
    for more in [asked(1, 2, 1), asked(1, 1, 2)] {
        assert!((error(more) / one - 2.0).abs() < 1e-6);
    }
}

#[test]
fn fp_06_odd_parameters_never_become_quantiles() {
    let make = |parts: &[f64], points: u32, rows: u64, loss: &str| {
        Quantiles::for_epsilon(&fractions(parts), groups(points), rows, groups(1), epsilon(loss))
    };
    assert_eq!(make(&[], 10, 1, "1"), Err(MechanismError::NoSensitivity));
    assert_eq!(make(&[0.5], 10, 0, "1"), Err(MechanismError::NoSensitivity));
    assert_eq!(make(&[0.5], 1 << 21, 1, "1"), Err(MechanismError::OutOfRange { what: "number of points" }));
    assert_eq!(make(&[0.5], 10, u64::MAX, "0.999999999"), Err(MechanismError::OutOfRange { what: "sensitivity" }));
    assert_eq!(make(&[0.1, 0.2], 10, 1, "1e-9"), Err(MechanismError::OutOfRange { what: "epsilon" }));
    for odd in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        assert_eq!(Fraction::new(odd), None);
    }
    // The widest and the narrowest that are accepted answer for every histogram.
    for (points, rows, loss) in [(1, 1, "1000000"), (1 << 20, 1 << 33, "0.00000001"), (1 << 20, 1, "1000000")] {
        let quantiles = make(&[0.0, 0.3, 0.5, 1.0], points, rows, loss).unwrap();
        let odd: Histogram = vec![(u32::MAX, u64::MAX), (0, u64::MAX), (0, 1), (5, 0), (5, 7)];
        for histogram in [Histogram::new(), vec![(0, 1)], odd] {
            let answer = quantiles.draw(&histogram, &mut Seeded::new(65)).unwrap();
            assert!(answer.iter().all(|point| (0..i128::from(points)).contains(point)));
        }
    }
}

#[test]
fn a_table_answers_quantiles_beside_its_blocks() {
    let median = quantiles(&[0.5], 10, "1000");
    let count = Noise::Laplace(laplace(1, "1000"));
    let blocks = vec![Block { width: 1, noise: count }];
    let mechanism =
        TableMechanism { blocks, quantiles: vec![median.clone()], found: Vec::new(), keys: KeyRule::Public };
    let table = |histograms: Vec<Histogram>| ExactTable {
        rows: vec![ExactRow { key: Vec::new(), values: vec![9], units: 9, histograms }],
    };
    let noisy = mechanism.add_noise(table(vec![histogram(&[0, 0, 0, 9])]), &mut Seeded::new(66)).unwrap();
    assert_eq!(noisy.rows[0].values, [9, 3]);
    let event = dither_core::Mechanism::event(&mechanism);
    assert_eq!(event, PrivacyEvent::Composed(vec![count.event(), median.event()]));
    for wrong in [Vec::new(), vec![Histogram::new(); 2]] {
        assert!(mechanism.add_noise(table(wrong), &mut Seeded::new(67)).is_err());
    }
}
