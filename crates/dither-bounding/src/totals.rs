//! Exact sums per key.

use std::collections::HashMap;
use std::sync::Arc;

use dither_core::ValueBounds;

use crate::rows::{Layout, NULL, Rows};

/// What is done with the value columns of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Columns {
    /// The first so many are added up.
    pub summed: usize,
    /// Of the others it is counted how often each integer occurs.
    pub tallied: usize,
}

impl Columns {
    /// The number of value columns.
    pub fn count(self) -> usize {
        self.summed + self.tallied
    }
}

/// A column of which the totals of units are squared: with the total S of C values x of one unit, A = Σ(upper − x) and
/// B = Σ(x − lower).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Square {
    /// The column, one of those that are added up.
    pub column: usize,
    /// The least integer in it.
    pub lower: i64,
    /// The greatest integer in it.
    pub upper: i64,
}

impl Square {
    /// A², AB and B² of one unit.
    fn of(&self, sum: i128, count: i64) -> [i128; 3] {
        let (a, b) =
            (i128::from(self.upper) * i128::from(count) - sum, sum - i128::from(self.lower) * i128::from(count));
        [a * a, a * b, b * b]
    }
}

/// For each key the number of its units and rows, and the sum and number of the values of each column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totals {
    columns: Columns,
    squares: Arc<[Square]>,
    units: Vec<i64>,
    rows: Vec<i64>,
    sums: Vec<i128>,
    counts: Vec<i64>,
    squared: Vec<[i128; 3]>,
    tallies: Vec<HashMap<(u32, i64), u64>>,
    /// The totals of the squared columns before the rows of a unit are added; empty in between.
    before: Vec<(i128, i64)>,
}

impl Totals {
    /// Zeros for so many keys.
    pub fn new(columns: Columns, squares: Arc<[Square]>, keys: usize) -> Self {
        Self {
            columns,
            squared: vec![[0; 3]; keys * squares.len()],
            squares,
            before: Vec::new(),
            units: vec![0; keys],
            rows: vec![0; keys],
            sums: vec![0; keys * columns.summed],
            counts: vec![0; keys * columns.summed],
            tallies: vec![HashMap::new(); columns.tallied],
        }
    }

    /// The number of keys.
    pub fn keys(&self) -> usize {
        self.units.len()
    }

    /// The number of units that have a key.
    pub fn units(&self, key: usize) -> i64 {
        self.units[key]
    }

    /// The number of rows kept under a key.
    pub fn rows(&self, key: usize) -> i64 {
        self.rows[key]
    }

    /// The sum of a column under a key, and the number of values in it.
    pub fn sum(&self, key: usize, column: usize) -> (i128, i64) {
        let index = key * self.columns.summed + column;
        (self.sums[index], self.counts[index])
    }

    /// ΣA², ΣAB and ΣB² over the units that have a key, of the column of a [`Square`].
    pub fn squares(&self, key: usize, square: usize) -> [i128; 3] {
        self.squared[key * self.squares.len() + square]
    }

    /// How often each integer of a tallied column occurs under each key.
    pub fn tally(&self, column: usize) -> &HashMap<(u32, i64), u64> {
        &self.tallies[column]
    }

    /// Makes room for keys up to a number.
    pub fn grow(&mut self, keys: usize) {
        if keys > self.units.len() {
            self.units.resize(keys, 0);
            self.rows.resize(keys, 0);
            self.sums.resize(keys * self.columns.summed, 0);
            self.counts.resize(keys * self.columns.summed, 0);
            self.squared.resize(keys * self.squares.len(), [0; 3]);
        }
    }

    /// Its size in bytes, tallies at the size of their entries.
    pub fn size(&self) -> usize {
        let tallied: usize = self.tallies.iter().map(|tally| tally.capacity() * 32).sum();
        self.units.capacity() * 16 + self.sums.capacity() * 24 + self.squared.capacity() * 48 + tallied
    }

    /// Adds the rows at these places, all of one unit under one key.
    pub(crate) fn add(&mut self, rows: &Rows, layout: &Layout, key: u32, places: &[u32]) {
        let at = key as usize;
        self.units[at] += 1;
        self.rows[at] += places.len() as i64;
        if self.columns.count() == 0 {
            return;
        }
        self.before.extend(self.squares.iter().map(|square| {
            let index = at * self.columns.summed + square.column;
            (self.sums[index], self.counts[index])
        }));
        for places in places.chunks(CHUNK) {
            self.add_sums(at, rows, layout, places);
        }
        if self.columns.tallied > 0 {
            places.iter().for_each(|place| self.add_tallies(key, layout.read(rows.row(*place as usize, layout))));
        }
        let squared = &mut self.squared[at * self.squares.len()..];
        for ((square, squared), (sum, count)) in self.squares.iter().zip(squared).zip(self.before.drain(..)) {
            let index = at * self.columns.summed + square.column;
            let unit = square.of(self.sums[index] - sum, self.counts[index] - count);
            squared.iter_mut().zip(unit).for_each(|(total, unit)| *total += unit);
        }
    }

    /// Adds the sums of a chunk of rows, column by column in 64 bits.
    fn add_sums(&mut self, key: usize, rows: &Rows, layout: &Layout, places: &[u32]) {
        let (from, to) = (key * self.columns.summed, (key + 1) * self.columns.summed);
        let totals = self.sums[from..to].iter_mut().zip(&mut self.counts[from..to]);
        for (column, (total, counted)) in totals.enumerate() {
            let values = places.iter().map(|place| layout.read_one(column, rows.row(*place as usize, layout)));
            let (sum, count) = sum(values);
            *total += i128::from(sum);
            *counted += count;
        }
    }

    fn add_tallies(&mut self, key: u32, values: impl Iterator<Item = i64>) {
        for (tally, value) in self.tallies.iter_mut().zip(values.skip(self.columns.summed)) {
            if value != NULL {
                *tally.entry((key, value)).or_default() += 1;
            }
        }
    }

    /// Adds rows each of which is a unit of its own; `columns` holds one array for each value column. Of such units nothing
    /// is squared: their rows say as much.
    pub fn add_rows(&mut self, keys: &[u32], columns: &[Vec<i64>]) {
        let summed = self.columns.summed;
        match self.units.len() {
            1 => self.add_to_one(keys.len(), &columns[..summed]),
            few if few <= FEW => self.add_to_few(keys, &columns[..summed]),
            _ => self.add_to_many(keys, &columns[..summed]),
        }
        for (values, tally) in columns[summed..].iter().zip(&mut self.tallies) {
            for (key, value) in keys.iter().zip(values).filter(|(_, value)| **value != NULL) {
                *tally.entry((*key, *value)).or_default() += 1;
            }
        }
    }

    fn add_to_one(&mut self, rows: usize, columns: &[Vec<i64>]) {
        self.rows[0] += rows as i64;
        for (values, (total, counted)) in columns.iter().zip(self.sums.iter_mut().zip(&mut self.counts)) {
            for chunk in values.chunks(CHUNK) {
                let (sum, count) = sum(chunk.iter().copied());
                *total += i128::from(sum);
                *counted += count;
            }
        }
    }

    /// Chunk by chunk in 64 bits, side by side for each key.
    fn add_to_few(&mut self, keys: &[u32], columns: &[Vec<i64>]) {
        let mut partial = vec![(0_i64, 0_i64); self.units.len()];
        for (chunk, keys) in keys.chunks(CHUNK).enumerate() {
            let mut counted = false;
            for (column, values) in columns.iter().enumerate() {
                let values = &values[chunk * CHUNK..][..keys.len()];
                partial.fill((0, 0));
                let whole = !values.contains(&NULL);
                match whole {
                    true => add_partial(&mut partial, keys, values, |value| (value, 1)),
                    false => {
                        add_partial(&mut partial, keys, values, |value| if value == NULL { (0, 0) } else { (value, 1) })
                    }
                }
                for (key, (sum, count)) in partial.iter().enumerate() {
                    self.sums[key * columns.len() + column] += i128::from(*sum);
                    self.counts[key * columns.len() + column] += count;
                }
                // A value for every row counts the rows.
                if whole && !counted {
                    self.rows.iter_mut().zip(&partial).for_each(|(rows, (_, count))| *rows += count);
                    counted = true;
                }
            }
            if !counted {
                keys.iter().for_each(|key| self.rows[*key as usize] += 1);
            }
        }
    }

    fn add_to_many(&mut self, keys: &[u32], columns: &[Vec<i64>]) {
        for key in keys {
            self.rows[*key as usize] += 1;
        }
        for (column, values) in columns.iter().enumerate() {
            for (key, value) in keys.iter().zip(values).filter(|(_, value)| **value != NULL) {
                let index = *key as usize * columns.len() + column;
                self.sums[index] += i128::from(*value);
                self.counts[index] += 1;
            }
        }
    }

    /// Adds other totals, whose keys and tallied integers have other numbers; integers without a mapping are themselves.
    pub fn merge(&mut self, other: &Self, keys: &[u32], values: &[Option<Vec<i64>>]) {
        let summed = self.columns.summed;
        for (from, to) in keys.iter().enumerate().filter(|(from, to)| *from < other.keys() && **to != crate::DROPPED) {
            let to = *to as usize;
            self.units[to] += other.units[from];
            self.rows[to] += other.rows[from];
            for column in 0..summed {
                self.sums[to * summed + column] += other.sums[from * summed + column];
                self.counts[to * summed + column] += other.counts[from * summed + column];
            }
            let width = self.squares.len();
            let squared = self.squared[to * width..].iter_mut().zip(&other.squared[from * width..]).take(width);
            for (total, part) in squared.flat_map(|(total, part)| total.iter_mut().zip(part)) {
                *total += part;
            }
        }
        for (column, (tally, other)) in self.tallies.iter_mut().zip(&other.tallies).enumerate() {
            let names = values.get(summed + column).and_then(Option::as_ref);
            // The order of additions of integers changes nothing.
            #[allow(clippy::iter_over_hash_type)]
            for ((key, value), count) in other {
                let key = keys[*key as usize];
                if key != crate::DROPPED {
                    let value = names.map_or(*value, |names| names[*value as usize]);
                    *tally.entry((key, value)).or_default() += count;
                }
            }
        }
    }
}

/// So many integers of at most 2^53 add up within 62 bits.
const CHUNK: usize = 512;

/// Up to so many keys it costs little to add up each chunk by itself.
const FEW: usize = 128;

/// The sum and the number of the values of a chunk that are not NULL.
fn sum(chunk: impl Iterator<Item = i64>) -> (i64, i64) {
    chunk.fold((0, 0_i64), |(sum, count), value| {
        let present = value != NULL;
        (bounded(sum, if present { value } else { 0 }), count.wrapping_add(i64::from(present)))
    })
}

/// Adds the values of a chunk, and how often each counts, to those of their keys.
fn add_partial(partial: &mut [(i64, i64)], keys: &[u32], values: &[i64], counting: impl Fn(i64) -> (i64, i64)) {
    for (key, value) in keys.iter().zip(values) {
        let (sum, count) = &mut partial[*key as usize];
        let (value, counted) = counting(*value);
        *sum = bounded(*sum, value);
        *count = count.wrapping_add(counted);
    }
}

/// The sum of a chunk so far and a value more: 64 bits are enough, and a check of every addition would take them one by one.
fn bounded(sum: i64, value: i64) -> i64 {
    debug_assert!(value.unsigned_abs() <= ValueBounds::MAX_STEPS as u64, "within the bounds");
    sum.wrapping_add(value)
}
