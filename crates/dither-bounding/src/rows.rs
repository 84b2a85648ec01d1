//! Rows in flat arrays.

use crate::names::Texts;
use crate::text::Text;

/// The integer that stands for NULL in a value column. No lattice reaches it.
pub const NULL: i64 = i64::MIN;
/// The key of rows that do not count.
pub const DROPPED: u32 = u32::MAX;

/// How a row is kept: key and integers in as many bytes as their ranges need, then the unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    key: Low,
    slots: Vec<Slot>,
    /// The bytes of key and integers, where the unit begins.
    width: usize,
}

/// The place of an integer in a row. The greatest number of its bytes stands for NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    at: usize,
    low: Low,
    least: i64,
    most: i64,
}

/// The low bytes of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Low {
    bytes: usize,
    mask: u64,
}

impl Low {
    /// As many bytes as numbers up to this one take.
    fn of(most: u64) -> Self {
        let bytes = (u64::BITS - most.leading_zeros()).div_ceil(8).max(1) as usize;
        Self { bytes, mask: u64::MAX >> (u64::BITS as usize - 8 * bytes) }
    }
}

/// The bytes of a word. All numbers are written and read as whole words: what a word writes beyond its own bytes is
/// overwritten by what comes next, and behind the last row there is room.
const WORD: usize = size_of::<u64>();

/// The bytes after the last row: as many as [`copy`] takes at once.
const ROOM: usize = 4 * WORD;

/// Copies the first bytes of a row; more of them where that is quicker, as whatever follows is not written yet.
fn copy(bytes: usize, from: &[u8], to: &mut [u8]) {
    match (from.first_chunk::<ROOM>(), to.first_chunk_mut()) {
        (Some(from), Some(to)) if bytes <= ROOM => *to = *from,
        _ => to[..bytes].copy_from_slice(&from[..bytes]),
    }
}

fn word(row: &[u8], at: usize) -> u64 {
    row[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

fn put(row: &mut [u8], at: usize, number: u64) {
    if let Some(word) = row[at..].first_chunk_mut() {
        *word = number.to_le_bytes();
    }
}

impl Layout {
    /// A layout of rows with one of so many keys, if that is known, and of columns with these least and greatest integers;
    /// `None` for any integer.
    pub fn new(keys: Option<usize>, ranges: impl IntoIterator<Item = Option<(i64, i64)>>) -> Self {
        let key = Low::of(keys.map_or(u32::MAX.into(), |keys| keys.saturating_sub(1) as u64));
        let mut width = key.bytes;
        let slots = ranges.into_iter().map(|range| {
            let slot = Slot::of(range, width);
            width += slot.low.bytes;
            slot
        });
        let slots = slots.collect();
        Self { key, slots, width }
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.slots.len()
    }

    /// The bytes of a row whose unit takes eight bytes or four.
    pub(crate) fn width(&self, wide: bool) -> usize {
        self.width + if wide { WORD } else { WORD / 2 }
    }

    /// Keys and integers of many rows, as far apart as this returns: whole words fit between them.
    pub(crate) fn write_all(&self, keys: &[u32], columns: &[Vec<i64>], rows: &mut Vec<u8>) -> usize {
        let apart = self.width + WORD;
        rows.resize(keys.len() * apart + ROOM, 0);
        for (key, row) in keys.iter().zip(rows.chunks_exact_mut(apart)) {
            put(row, 0, (*key).into());
        }
        for (slot, column) in self.slots.iter().zip(columns) {
            for (value, row) in column.iter().zip(rows.chunks_exact_mut(apart)) {
                put(row, slot.at, slot.written(*value));
            }
        }
        apart
    }

    fn write(&self, key: u32, values: impl Iterator<Item = i64>, row: &mut [u8]) {
        put(row, 0, key.into());
        for (slot, value) in self.slots.iter().zip(values) {
            put(row, slot.at, slot.written(value));
        }
    }

    /// The integer of a column of a row.
    pub(crate) fn read_one(&self, column: usize, row: &[u8]) -> i64 {
        let slot = self.slots[column];
        slot.read(word(row, slot.at) & slot.low.mask)
    }

    /// The integers of a row.
    pub(crate) fn read<'a>(&'a self, row: &'a [u8]) -> impl Iterator<Item = i64> + 'a {
        self.slots.iter().map(|slot| slot.read(word(row, slot.at) & slot.low.mask))
    }
}

impl Slot {
    fn of(range: Option<(i64, i64)>, at: usize) -> Self {
        // One number more, for NULL.
        let span = range.and_then(|(least, most)| most.abs_diff(least).checked_add(1));
        match (range, span.map(Low::of)) {
            (Some((least, most)), Some(low)) if low.bytes < WORD => Self { at, low, least, most },
            // As it is.
            _ => Self { at, low: Low::of(u64::MAX), least: i64::MIN, most: i64::MAX },
        }
    }

    /// An integer as it is written; one outside of the range is moved to its end.
    fn written(self, value: i64) -> u64 {
        match value {
            _ if self.low.bytes == WORD => value as u64,
            NULL => self.low.mask,
            value => value.clamp(self.least, self.most).abs_diff(self.least),
        }
    }

    fn read(self, written: u64) -> i64 {
        match written {
            _ if self.low.bytes == WORD => written as i64,
            written if written == self.low.mask => NULL,
            written => self.least.saturating_add_unsigned(written),
        }
    }
}

/// Rows of a unit, a key and some integers each.
#[derive(Debug, Default, Clone)]
pub struct Rows {
    /// Row by row, as a layout has them; then room for more, [`ROOM`] at least where there is a row.
    bytes: Vec<u8>,
    count: usize,
    /// Whether units take eight bytes instead of four.
    wide: bool,
    /// What the units are the numbers of; empty where they are integers that stand for themselves.
    pub(crate) texts: Texts,
}

/// The units of some rows.
#[derive(Clone, Copy)]
pub enum Units<'a> {
    /// Integers.
    Integers(&'a [u64]),
    /// Texts.
    Texts {
        /// For each row a hash of the text, the same for equal texts in all readers.
        hashes: &'a [u64],
        /// The text of a row.
        text: &'a dyn Fn(usize) -> &'a str,
    },
}

impl Units<'_> {
    /// What decides the bucket of a row: the same for all rows of a unit, in all readers.
    pub(crate) fn spread(&self) -> &[u64] {
        match self {
            Self::Integers(units) => units,
            Self::Texts { hashes, .. } => hashes,
        }
    }
}

/// How the numbers of one dictionary are written in another.
#[derive(Debug, Default)]
pub struct Mapping {
    /// For each number of a key its new one, or [`DROPPED`].
    keys: Vec<u32>,
    /// The same for each value column; `None` where integers are themselves.
    values: Vec<Option<Vec<i64>>>,
    /// Whether every number stays what it is.
    identity: bool,
}

impl Mapping {
    /// Gives each number of a key a new one or [`DROPPED`], and the same for each value column that is numbered.
    pub fn new(keys: Vec<u32>, values: Vec<Option<Vec<i64>>>) -> Self {
        let same = keys.iter().enumerate().all(|(number, new)| number == *new as usize);
        let identity = same && values.iter().all(Option::is_none);
        Self { keys, values, identity }
    }
}

/// A share of the units: those whose mixed bits leave a remainder.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// Which one.
    pub number: u64,
    /// Of how many.
    pub of: u64,
}

impl Share {
    /// All units.
    pub const ALL: Self = Self { number: 0, of: 1 };

    fn holds(self, spread: u64) -> bool {
        // Bits that decide neither the bucket nor, within it, the order of the sort.
        self.of == 1 || (spread.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32) % self.of == self.number
    }
}

impl Rows {
    /// No rows, and units that take eight bytes or four.
    pub(crate) fn of_width(wide: bool) -> Self {
        Self { wide, ..Self::default() }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether units take eight bytes instead of four.
    pub(crate) fn is_wide(&self) -> bool {
        self.wide
    }

    /// Their bytes, with what their units stand for.
    pub fn size(&self, layout: &Layout) -> usize {
        self.count * layout.width(self.wide) + self.texts.size()
    }

    /// The rows as they are written.
    pub(crate) fn written(&mut self, layout: &Layout) -> &mut [u8] {
        &mut self.bytes[..self.count * layout.width(self.wide)]
    }

    /// Adds so many rows, whose units are as wide, to be written by somebody else.
    pub(crate) fn room_for(&mut self, layout: &Layout, count: usize) -> &mut [u8] {
        let width = layout.width(self.wide);
        let start = self.count * width;
        self.count += count;
        let end = self.count * width;
        if self.bytes.len() < end + ROOM {
            self.grow(end + ROOM);
        }
        &mut self.bytes[start..end]
    }

    /// Whether rows whose units are so wide, and integers, can be added as they are written.
    pub(crate) fn takes_all(&mut self, wide: bool, mapping: &Mapping, share: Share) -> bool {
        if self.is_empty() {
            self.wide = wide;
        }
        self.wide == wide && self.texts.len() == 0 && mapping.identity && share.of == 1
    }

    /// Gives room. All of it is there at once: to fill it row by row would take longer.
    fn grow(&mut self, to: usize) {
        self.bytes.reserve_exact(to - self.bytes.len());
        self.bytes.resize(to, 0);
    }

    /// The number of the unit of a row.
    pub(crate) fn unit_of(&mut self, units: Units<'_>, row: usize) -> u64 {
        match units {
            Units::Integers(units) => units[row],
            Units::Texts { hashes, text } => self.texts.number(hashes[row], text(row).as_bytes()).into(),
        }
    }

    /// Adds a row of a unit, its key and integers as they are written, with room after them.
    pub(crate) fn push_of(&mut self, layout: &Layout, unit: u64, written: &[u8]) {
        let row = self.next(layout, unit);
        copy(layout.width, written, row);
        put(row, layout.width, unit);
    }

    pub(crate) fn push(&mut self, layout: &Layout, unit: u64, key: u32, values: impl Iterator<Item = i64>) {
        let row = self.next(layout, unit);
        layout.write(key, values, row);
        put(row, layout.width, unit);
    }

    /// Adds a row that is written already, among rows whose units are as wide.
    pub(crate) fn push_written(&mut self, layout: &Layout, row: &[u8]) {
        copy(layout.width(self.wide), row, self.next(layout, 0));
    }

    /// Room for one more row of a unit, and more after it.
    fn next(&mut self, layout: &Layout, unit: u64) -> &mut [u8] {
        if !self.wide && u32::try_from(unit).is_err() {
            self.widen(layout);
        }
        let width = layout.width(self.wide);
        let start = self.count * width;
        let end = start + width + ROOM;
        if end > self.bytes.len() {
            // By a quarter: most of the memory of a question is here, and twice of it would be half empty.
            self.grow(end + width * 16.max(self.count / 4));
        }
        self.count += 1;
        &mut self.bytes[start..end]
    }

    /// Gives all units eight bytes.
    fn widen(&mut self, layout: &Layout) {
        let mut wide = Self { wide: true, texts: std::mem::take(&mut self.texts), ..Self::default() };
        for row in 0..self.count {
            let unit = self.unit(row, layout);
            let new = wide.next(layout, unit);
            copy(layout.width, self.row(row, layout), new);
            put(new, layout.width, unit);
        }
        *self = wide;
    }

    /// Writes the unit with a number as it is hashed.
    pub(crate) fn write_unit(&self, unit: u64, text: &mut Text) {
        match self.texts.len() {
            0 => text.integer(unit as i64),
            _ => self.texts.write(unit as usize, text),
        }
    }

    /// A row as it is written, and what comes after it.
    pub(crate) fn row(&self, row: usize, layout: &Layout) -> &[u8] {
        &self.bytes[row * layout.width(self.wide)..]
    }

    pub(crate) fn unit(&self, row: usize, layout: &Layout) -> u64 {
        word(self.row(row, layout), layout.width) & if self.wide { u64::MAX } else { u32::MAX.into() }
    }

    pub(crate) fn key(&self, row: usize, layout: &Layout) -> u32 {
        (word(self.row(row, layout), 0) & layout.key.mask) as u32
    }

    /// Forgets all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.count = 0;
        self.wide = false;
        self.texts.clear();
    }

    /// Appends the rows of a share of the units under new numbers; rows whose key is dropped are left out.
    pub fn append(&mut self, other: &Self, layout: &Layout, mapping: &Mapping, share: Share) {
        if other.texts.len() == 0 && self.takes_all(other.wide, mapping, share) {
            let bytes = other.count * layout.width(other.wide);
            self.room_for(layout, other.count).copy_from_slice(&other.bytes[..bytes]);
        } else {
            self.append_some(other, layout, mapping, share);
        }
    }

    fn append_some(&mut self, other: &Self, layout: &Layout, mapping: &Mapping, share: Share) {
        let mapped = mapping.values.iter().any(Option::is_some);
        let texts: Vec<Option<u64>> = (0..other.texts.len())
            .map(|number| {
                let hash = other.texts.hash(number);
                share.holds(hash).then(|| self.texts.number(hash, other.texts.text(number)).into())
            })
            .collect();
        for row in 0..other.len() {
            let unit = match (other.unit(row, layout), texts.is_empty()) {
                (unit, true) => share.holds(unit).then_some(unit),
                (unit, false) => texts[unit as usize],
            };
            let key = mapping.keys[other.key(row, layout) as usize];
            let Some(unit) = unit.filter(|_| key != DROPPED) else { continue };
            let written = other.row(row, layout);
            if mapped {
                let renamed = layout.read(written).zip(&mapping.values).map(|(value, names)| match names {
                    Some(names) if value != NULL => names[value as usize],
                    _ => value,
                });
                self.push(layout, unit, key, renamed);
            } else {
                let new = self.next(layout, unit);
                put(new, 0, key.into());
                let at = layout.key.bytes;
                copy(layout.width - at, &written[at..], &mut new[at..]);
                put(new, layout.width, unit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span() -> impl Strategy<Value = u64> {
        let ends = [8, 16, 24, 32, 40, 48, 56].map(|bits| (1_u64 << bits) - 3);
        prop_oneof![
            0..300_u64,
            (prop::sample::select(ends.to_vec()), 0..6_u64).prop_map(|(end, more)| end + more),
            any::<u64>()
        ]
    }

    fn unit() -> impl Strategy<Value = u64> {
        prop_oneof![0..9_u64, any::<u32>().prop_map(u64::from), Just(u64::from(u32::MAX) + 1), any::<u64>()]
    }

    proptest! {
        /// Also after units came that need more bytes than those before, and in rows that were appended as they are.
        #[test]
        fn what_is_written_is_read(
            columns in prop::collection::vec((any::<i64>(), span()), 0..6),
            picks in prop::collection::vec(any::<u64>(), 6),
            keys in prop::sample::select(vec![None, Some(0), Some(1), Some(256), Some(257), Some(100_000)]),
            units in prop::collection::vec(unit(), 1..9),
            cut in any::<prop::sample::Index>(),
        ) {
            let ranges: Vec<(i64, i64)> =
                columns.iter().map(|(least, span)| (*least, least.saturating_add_unsigned(*span))).collect();
            let layout = Layout::new(keys, ranges.iter().copied().map(Some));
            let value = |(index, (least, most)): (usize, &(i64, i64)), row: usize| match (picks[index] + row as u64 % 7) % 5 {
                0 => NULL,
                1 => *most,
                2 => *least,
                _ => least.saturating_add_unsigned(picks[index] % most.abs_diff(*least).max(1)),
            };
            let expected = |row: usize| -> (u64, u32, Vec<i64>) {
                let key = (keys.unwrap_or(DROPPED as usize).max(1) - 1).saturating_sub(row);
                (units[row], key as u32, ranges.iter().enumerate().map(|column| value(column, row)).collect())
            };
            let read = |rows: &Rows| -> Vec<(u64, u32, Vec<i64>)> {
                let row = |row| {
                    (rows.unit(row, &layout), rows.key(row, &layout), layout.read(rows.row(row, &layout)).collect())
                };
                (0..rows.len()).map(row).collect()
            };
            let all: Vec<_> = (0..units.len()).map(expected).collect();
            let mut halves = [Rows::default(), Rows::default()];
            let cut = cut.index(units.len());
            for (row, (unit, key, values)) in all.iter().enumerate() {
                halves[usize::from(row >= cut)].push(&layout, *unit, *key, values.iter().copied());
            }
            let keys = keys.unwrap_or(0).max(1) as u32;
            let mapping = Mapping { keys: (0..keys).collect(), values: vec![None; ranges.len()], identity: true };
            let mut rows = Rows::default();
            halves.iter().for_each(|half| {
                let same = rows.is_empty() || half.is_empty() || rows.wide == half.wide;
                if same { rows.append(half, &layout, &mapping, Share::ALL) } else { rows.clear() }
            });
            if rows.len() == units.len() {
                prop_assert_eq!(read(&rows), all.clone());
            }
            prop_assert_eq!([read(&halves[0]), read(&halves[1])].concat(), all);
        }
    }

    #[test]
    fn integers_are_moved_into_their_range_and_take_no_more_bytes_than_that_needs() {
        let ranges = [(-3, 251), (0, 255), (0, 1 << 20), (0, 1 << 24), (0, 1 << 40), (0, 1 << 60)];
        let layout = Layout::new(Some(300), ranges.map(Some).into_iter().chain([None]));
        let width = 2 + 1 + 2 + 3 + 4 + 6 + 8 + 8;
        assert_eq!((layout.width(false), layout.width(true), layout.columns()), (width + 4, width + 8, 7));
        let mut rows = Rows::default();
        rows.push(&layout, 0, 0, [300, -1, NULL, 1 << 30, -7, -7, i64::MAX].into_iter());
        rows.push(&layout, 0, 0, [0; 7].into_iter());
        let expected = [251, 0, NULL, 1 << 24, 0, -7, i64::MAX];
        assert_eq!(layout.read(rows.row(0, &layout)).collect::<Vec<_>>(), expected);
        assert_eq!(rows.size(&layout), 2 * layout.width(false));
    }
}
