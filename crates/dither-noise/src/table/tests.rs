//! The table against exact arithmetic, and the exact path against the floats. False-alarm rate 1e-9 per test.

use std::collections::BTreeMap;

use dither_testing::fit::{Misfit, check_cdf, check_events};
use dither_testing::pmf::{gaussian_cdf, laplace_cdf};
use dither_testing::{FALSE_ALARM, SeededBytes, StubBytes};

use super::build::NOTHING;
use super::*;

struct Seeded(SeededBytes);

impl BitSource for Seeded {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), NoiseError> {
        self.0.fill(buffer);
        Ok(())
    }
}

struct Stub(StubBytes);

impl BitSource for Stub {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), NoiseError> {
        if self.0.fill(buffer) { Ok(()) } else { Err(NoiseError::Unavailable) }
    }
}

fn seeded(seed: u64) -> Seeded {
    Seeded(SeededBytes::new(seed))
}

/// Both noises at widths from next to nothing to the largest.
fn tables() -> Vec<NoiseTable> {
    let widths =
        [(1u128, 1u128 << 100), (3, 10), (1, 1), (37, 10), (56, 1), (71, 1), (2001, 2), (1 << 20, 1), (1 << 50, 1)];
    let ratio = |n, d| Ratio::new(n, d).unwrap();
    let laplace = widths.map(|(n, d)| NoiseTable::laplace(ratio(n, d)).unwrap());
    let gaussian = widths.map(|(n, d)| match d.checked_mul(d) {
        Some(square) => NoiseTable::gaussian(ratio(n * n, square)).unwrap(),
        None => NoiseTable::gaussian(ratio(n, d)).unwrap(),
    });
    laplace.into_iter().chain(gaussian).collect()
}

/// `levels` heights of a tail slot (shift > 0) or another one, in units of 2^-`bits`.
fn heights(table: &NoiseTable, levels: u64, bits: usize, shift: u32) -> UBig {
    (UBig::from(levels) * UBig::from(table.height)) << (bits - (HEIGHT_BITS + shift) as usize)
}

#[test]
fn every_slot_is_what_it_claims() {
    for table in tables() {
        let mut stacks: BTreeMap<i64, Vec<u64>> = BTreeMap::new();
        let mut inside: BTreeMap<i64, u64> = BTreeMap::new();
        for (slot, (cell, level)) in (0..SLOTS).map(|slot| (slot, table.slot(slot as u16))) {
            let (cell, level) = (i64::from(cell), u64::from(level));
            if level == u64::from(NOTHING) {
                assert!(slot >= table.first + table.inside, "nothing is never taken for something");
                continue;
            }
            stacks.entry(cell).or_default().push(level);
            if (table.first..table.first + table.inside).contains(&slot) {
                let most = inside.entry(cell).or_default();
                *most = (*most).max(level + 1);
            }
        }
        assert_eq!(table.slot(SLOTS as u16 - 1).1, NOTHING);
        assert!(heights(&table, NOTHING.into(), 100, 0) > UBig::ONE << 100, "nothing lies above every mass");

        let ids: Vec<i64> = stacks.keys().copied().collect();
        assert_eq!(ids, (!table.cells..=table.cells).collect::<Vec<_>>(), "no cell is missing");
        for (&cell, levels) in &mut stacks {
            levels.sort_unstable();
            assert_eq!(*levels, (0..levels.len() as u64).collect::<Vec<_>>(), "no level is missing or twice");
            let ends = [cell << table.cell_bits, ((cell + 1) << table.cell_bits) - 1].map(i64::unsigned_abs);
            let (near, far) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
            let tail = cell == table.cells || cell == !table.cells;
            let shift = if tail { table.tail_bits - table.cell_bits + 1 } else { 0 };
            let mass = table.density.enclose(near, 300);
            let covered = heights(&table, levels.len() as u64, mass.bits, shift);
            assert!(covered >= mass.value + mass.error, "the stack is too low");
            let least = table.density.enclose(far, 300);
            let under = inside.get(&cell).copied().unwrap_or(0);
            assert!(heights(&table, under, least.bits, 0) + least.error <= least.value || under == 0);
            assert!(!tail || under == 0);
        }
        // The mass halves from the first block of the tail to the next.
        let tail = (table.cells as u64) << table.cell_bits;
        let mass = table.density.enclose(tail, 300);
        let next = table.density.enclose(tail + (1 << table.tail_bits), 300);
        let (mass, bits) = (mass.value, mass.bits);
        let doubled = ((next.value + next.error) << 1) << bits >> next.bits;
        assert!(doubled <= mass || mass.is_zero(), "the mass falls too slowly");
    }
}

#[test]
fn floats_and_integers_decide_alike() {
    for (seed, mut table) in (0..).zip(tables()) {
        let draws = |table: &NoiseTable| -> Vec<i64> {
            let mut source = seeded(seed);
            let mut draws = vec![0; 3_000];
            table.fill(&mut source, &mut draws).unwrap();
            draws.extend((0..500).map(|_| table.draw(&mut source).unwrap()));
            draws
        };
        let by_floats = draws(&table);
        table.margin = f64::INFINITY;
        assert_eq!(by_floats, draws(&table));
    }
}

#[test]
fn a_point_on_the_edge_is_decided_by_further_bits() {
    for table in tables() {
        for magnitude in [0, 1, 5, 1 << table.cell_bits, (table.cells as u64) << table.cell_bits] {
            let mass = table.density.enclose(magnitude, 300);
            // The mass in units of 2^-64 of a height, rounded down: the point whose further bits decide.
            let edge = (mass.value << (HEIGHT_BITS as usize + 64)) / (UBig::from(table.height) << mass.bits);
            let Ok(edge) = u128::try_from(edge) else { panic!("a stack is higher than 64 bits") };
            let under =
                |at: u128, stub| table.under(&mut Stub(stub), magnitude, (at >> 64) as u32, at as u64, HEIGHT_BITS);
            // The mass at zero is one, and its edge the only one that can be met exactly.
            if magnitude > 0 {
                let zeros = under(edge, StubBytes::Constant(0));
                // No zeros are enough to go below exp(−2^100).
                let hopeless = table.density.exponent(magnitude) > 1e9;
                assert_eq!(zeros, if hopeless { Err(NoiseError::Exhausted) } else { Ok(true) });
                assert_eq!(under(edge, StubBytes::Constant(0xFF)), Ok(false));
                assert_eq!(under(edge, StubBytes::Failing), Err(NoiseError::Unavailable));
            }
            assert_eq!(under(edge + 1, StubBytes::Failing), Ok(false));
            assert_eq!(edge.checked_sub(1).map(|at| under(at, StubBytes::Failing)).unwrap_or(Ok(true)), Ok(true));
        }
    }
}

#[test]
fn the_tail_reaches_every_integer_of_its_blocks() {
    for table in tables() {
        let start = table.cells << table.cell_bits;
        for block in [0, 1, 30] {
            let begin = start + (block << table.tail_bits);
            let end = begin + (1 << table.tail_bits) - 1;
            for (slot, sign) in [(0, 0), (1, -1)] {
                let slot = slot | 1 << (63 - block);
                let propose = |place| table.attempt(&mut seeded(1), [slot, place, 0]).unwrap().0;
                assert_eq!([propose(0), propose(u64::MAX)], [begin ^ sign, end ^ sign]);
            }
        }
    }
}

#[test]
fn what_is_added_is_what_is_drawn_and_the_ends_hold() {
    for (seed, table) in (0..).zip(tables()) {
        let (mut draws, mut sums) = (vec![0; 5_000], (0..5_000).map(|i| i * 1_000_003 - 9).collect::<Vec<i64>>());
        table.fill(&mut seeded(seed), &mut draws).unwrap();
        let expected: Vec<i64> = sums.iter().zip(&draws).map(|(sum, draw)| sum + draw).collect();
        table.add(&mut seeded(seed), &mut sums).unwrap();
        assert!(sums == expected);
        let mut ends = [i64::MIN, i64::MAX];
        table.add(&mut seeded(seed), &mut ends).unwrap();
        assert_eq!(ends, [-(1 << 62) + draws_of(&table, seed)[0], (1 << 62) + draws_of(&table, seed)[1]]);
        assert!(table.add(&mut Stub(StubBytes::Failing), &mut sums).is_err() && sums.iter().all(|sum| *sum == 0));
    }
}

fn draws_of(table: &NoiseTable, seed: u64) -> [i64; 2] {
    let mut draws = [0; 2];
    table.fill(&mut seeded(seed), &mut draws).unwrap();
    draws
}

#[test]
fn registers_find_the_draws_that_are_looked_at_as_single_words_do() {
    for (seed, table) in (0..).zip(tables()) {
        let mut words = vec![[0; 4]; 2048];
        seeded(seed).fill(words.as_flattened_mut()).unwrap();
        // All of them, and none.
        words[..100].fill([0; 4]);
        words[100..200].fill((table.first as u32).to_le_bytes());
        for words in [&words[..], &words[..100], &words[..37], &words[100..200], &words[150..157], &[]] {
            let (mut one, mut other) = ([0; 2064], [0; 2064]);
            let found = table.pending(words, &mut one);
            assert_eq!(found, table.pending_one_by_one(words, 0, 0, &mut other));
            assert_eq!(one[..found], other[..found]);
        }
    }
}

#[test]
fn few_draws_are_looked_at() {
    for table in tables() {
        assert!(table.inside > SLOTS * 93 / 100, "only {} of {SLOTS} slots", table.inside);
    }
}

fn fit(table: &NoiseTable, cdf: impl Fn(i64) -> f64, draws: usize) -> Result<(), Misfit> {
    let mut sample = vec![0; draws];
    table.fill(&mut seeded(7), &mut sample).unwrap();
    let mut counts = [0; 161];
    sample.iter().filter(|x| x.abs() <= 80).for_each(|x| counts[(x + 80) as usize] += 1);
    let masses: Vec<f64> = (-80..=80).map(|x| cdf(x) - cdf(x - 1)).collect();
    check_events(&counts, &masses, draws as u64, FALSE_ALARM / 2.0)?;
    check_cdf(&mut sample, cdf, FALSE_ALARM / 2.0)
}

#[test]
fn fp_05_draws_that_only_integers_decide_fit() {
    let mut laplace = NoiseTable::laplace(Ratio::new(37, 10).unwrap()).unwrap();
    let mut gaussian = NoiseTable::gaussian(Ratio::new(100, 1).unwrap()).unwrap();
    (laplace.margin, gaussian.margin) = (f64::INFINITY, f64::INFINITY);
    assert_eq!(fit(&laplace, |x| laplace_cdf(x.into(), 3.7), 1_000_000), Ok(()));
    let cdf = gaussian_cdf(100.0);
    assert_eq!(fit(&gaussian, |x| cdf(x.into()), 1_000_000), Ok(()));
}

#[test]
fn fp_05_mutants_of_the_table_are_rejected() {
    let cdf = |x: i64| laplace_cdf(x.into(), 50.0);
    let table = || NoiseTable::laplace(Ratio::new(50, 1).unwrap()).unwrap();
    assert_eq!(fit(&table(), cdf, 4_000_000), Ok(()));
    // The slots on the edge are kept without a test.
    let mut mutant = table();
    mutant.inside += mutant.first - 2;
    mutant.first = 2;
    assert!(fit(&mutant, cdf, 4_000_000).is_err());
    // A thousandth of the slots stands over zero.
    let mut mutant = table();
    let inside = mutant.first..mutant.first + mutant.inside;
    for position in inside.step_by(1000).map(|slot| usize::from(position(slot as u16))) {
        (mutant.slot_cells[position], mutant.levels[position]) = (0, 0);
    }
    assert!(fit(&mutant, cdf, 4_000_000).is_err());
}
