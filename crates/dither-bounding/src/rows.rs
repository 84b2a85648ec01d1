//! Rows in flat arrays.

use crate::names::{Texts, write_integer};

/// The integer that stands for NULL in a value column. No lattice reaches it.
pub const NULL: i64 = i64::MIN;
/// The key of rows that do not count.
pub const DROPPED: u32 = u32::MAX;

/// How the integers of a row are kept: each in as many bytes as the range of its column needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    slots: Vec<Slot>,
    /// The bytes of a row.
    width: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    least: i64,
    most: i64,
    width: Width,
}

/// The greatest number of so many bytes stands for NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Width {
    One,
    Two,
    Three,
    Four,
    /// As it is.
    Eight,
}

impl Layout {
    /// A layout of columns with these least and greatest integers; `None` for any integer.
    pub fn new(ranges: impl IntoIterator<Item = Option<(i64, i64)>>) -> Self {
        let slots: Vec<Slot> = ranges.into_iter().map(Slot::of).collect();
        let width = slots.iter().map(|slot| slot.bytes()).sum();
        Self { slots, width }
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.slots.len()
    }

    /// The bytes that so many rows take, with their units and keys.
    pub fn bytes(&self, rows: usize) -> usize {
        rows * (size_of::<u64>() + size_of::<u32>() + self.width)
    }

    /// The bytes of the integers of a row.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    fn write(&self, values: impl Iterator<Item = i64>, into: &mut Vec<u8>) {
        let start = into.len();
        into.resize(start + self.width, 0);
        let mut row = &mut into[start..];
        for (slot, value) in self.slots.iter().zip(values) {
            let (place, rest) = row.split_at_mut(slot.bytes());
            slot.write(value, place);
            row = rest;
        }
    }

    /// The integers of a row.
    pub(crate) fn read<'a>(&'a self, mut row: &'a [u8]) -> impl Iterator<Item = i64> + 'a {
        self.slots.iter().map(move |slot| {
            let (value, rest) = row.split_at(slot.bytes());
            row = rest;
            slot.read(value)
        })
    }
}

impl Slot {
    fn of(range: Option<(i64, i64)>) -> Self {
        let any = Self { least: i64::MIN, most: i64::MAX, width: Width::Eight };
        let Some((least, most)) = range else { return any };
        let width = match most.abs_diff(least) {
            0..=0xfe => Width::One,
            0xff..=0xfffe => Width::Two,
            0xffff..=0xff_fffe => Width::Three,
            0xff_ffff..=0xffff_fffe => Width::Four,
            _ => return any,
        };
        Self { least, most, width }
    }

    fn bytes(self) -> usize {
        match self.width {
            Width::One => 1,
            Width::Two => 2,
            Width::Three => 3,
            Width::Four => 4,
            Width::Eight => 8,
        }
    }

    /// Writes an integer to its place; one outside of the range is moved to its end.
    fn write(self, value: i64, place: &mut [u8]) {
        let above = match value {
            NULL => u64::MAX,
            value => value.clamp(self.least, self.most).abs_diff(self.least),
        };
        match self.width {
            Width::One => place.copy_from_slice(&[above as u8]),
            Width::Two => place.copy_from_slice(&(above as u16).to_le_bytes()),
            Width::Three => place.copy_from_slice(&(above as u32).to_le_bytes()[..3]),
            Width::Four => place.copy_from_slice(&(above as u32).to_le_bytes()),
            Width::Eight => place.copy_from_slice(&value.to_le_bytes()),
        }
    }

    fn read(self, bytes: &[u8]) -> i64 {
        let (above, null) = match *bytes {
            [a] => (a.into(), u8::MAX.into()),
            [a, b] => (u16::from_le_bytes([a, b]).into(), u16::MAX.into()),
            [a, b, c] => (u32::from_le_bytes([a, b, c, 0]).into(), 0xff_ffff),
            [a, b, c, d] => (u32::from_le_bytes([a, b, c, d]).into(), u32::MAX.into()),
            _ => return bytes.as_array().map_or(NULL, |bytes| i64::from_le_bytes(*bytes)),
        };
        if above == null { NULL } else { self.least.saturating_add_unsigned(above) }
    }
}

/// Rows of a unit, a key and some integers each.
#[derive(Debug, Default, Clone)]
pub struct Rows {
    pub(crate) units: Vec<u64>,
    pub(crate) keys: Vec<u32>,
    /// Row by row, as a layout has them.
    pub(crate) values: Vec<u8>,
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
    pub keys: Vec<u32>,
    /// The same for each value column; `None` where integers are themselves.
    pub values: Vec<Option<Vec<i64>>>,
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
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.units.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Their bytes, with what their units stand for.
    pub fn size(&self, layout: &Layout) -> usize {
        layout.bytes(self.len()) + self.texts.size()
    }

    /// Adds a row of these units.
    pub(crate) fn push_of(
        &mut self,
        layout: &Layout,
        units: Units<'_>,
        row: usize,
        key: u32,
        values: impl Iterator<Item = i64>,
    ) {
        let unit = match units {
            Units::Integers(units) => units[row],
            Units::Texts { hashes, text } => self.texts.number(hashes[row], text(row).as_bytes()).into(),
        };
        self.push(layout, unit, key, values);
    }

    pub(crate) fn push(&mut self, layout: &Layout, unit: u64, key: u32, values: impl Iterator<Item = i64>) {
        self.make_room(layout);
        self.units.push(unit);
        self.keys.push(key);
        layout.write(values, &mut self.values);
    }

    /// Adds a row whose integers are written already.
    pub(crate) fn push_written(&mut self, unit: u64, key: u32, values: &[u8]) {
        self.units.push(unit);
        self.keys.push(key);
        self.values.extend_from_slice(values);
    }

    /// Grows by a quarter: most of the memory of a question is here, and twice of it would be half empty.
    fn make_room(&mut self, layout: &Layout) {
        if self.units.len() == self.units.capacity() {
            let more = 16.max(self.units.len() / 4);
            self.units.reserve_exact(more);
            self.keys.reserve_exact(more);
            self.values.reserve_exact(more * layout.width());
        }
    }

    /// Writes the unit with a number as it is hashed.
    pub(crate) fn write_unit(&self, unit: u64, text: &mut Vec<u8>) {
        match self.texts.len() {
            0 => write_integer(unit as i64, text),
            _ => self.texts.write(unit as usize, text),
        }
    }

    pub(crate) fn row(&self, row: usize, layout: &Layout) -> &[u8] {
        &self.values[row * layout.width()..(row + 1) * layout.width()]
    }

    /// Forgets all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.units.clear();
        self.keys.clear();
        self.values.clear();
        self.texts.clear();
    }

    /// Appends the rows of a share of the units under new numbers; rows whose key is dropped are left out.
    pub fn append(&mut self, other: &Self, layout: &Layout, mapping: &Mapping, share: Share) {
        let mapped = mapping.values.iter().any(Option::is_some);
        let texts: Vec<Option<u64>> = (0..other.texts.len())
            .map(|number| {
                let hash = other.texts.hash(number);
                share.holds(hash).then(|| self.texts.number(hash, other.texts.text(number)).into())
            })
            .collect();
        for row in 0..other.len() {
            let unit = match (other.units[row], texts.is_empty()) {
                (unit, true) => share.holds(unit).then_some(unit),
                (unit, false) => texts[unit as usize],
            };
            let key = mapping.keys[other.keys[row] as usize];
            let Some(unit) = unit.filter(|_| key != DROPPED) else { continue };
            self.make_room(layout);
            self.units.push(unit);
            self.keys.push(key);
            let values = other.row(row, layout);
            if mapped {
                let renamed = layout.read(values).zip(&mapping.values).map(|(value, names)| match names {
                    Some(names) if value != NULL => names[value as usize],
                    _ => value,
                });
                layout.write(renamed, &mut self.values);
            } else {
                self.values.extend_from_slice(values);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            columns in proptest::collection::vec((any::<i64>(), prop_oneof![0..300_u64, 65_000..66_000_u64, 0xff_fff0..0x100_000f_u64, any::<u64>()], any::<u64>()), 0..6),
        ) {
            let range = |(least, span, _): &(i64, u64, u64)| (*least, least.saturating_add_unsigned(*span));
            let layout = Layout::new(columns.iter().map(|column| Some(range(column))));
            let values: Vec<i64> = columns.iter().map(|column| {
                let (least, most) = range(column);
                match column.2 % 5 {
                    0 => NULL,
                    1 => most,
                    2 => least,
                    _ => least.saturating_add_unsigned(column.2 % (most.abs_diff(least).max(1))),
                }
            }).collect();
            let mut rows = Rows::default();
            rows.push(&layout, 1, 2, values.iter().copied());
            rows.push(&layout, 1, 2, values.iter().copied());
            prop_assert_eq!(rows.values.len(), 2 * layout.width());
            prop_assert_eq!(layout.read(rows.row(1, &layout)).collect::<Vec<_>>(), values);
        }
    }

    #[test]
    fn integers_are_moved_into_their_range_and_take_no_more_bytes_than_that_needs() {
        let layout = Layout::new([
            Some((-3, 251)),
            Some((0, 255)),
            Some((0, 1 << 20)),
            Some((0, 1 << 24)),
            Some((0, 1 << 40)),
            None,
        ]);
        assert_eq!((layout.width(), layout.bytes(2), layout.columns()), (1 + 2 + 3 + 4 + 8 + 8, 2 * 38, 6));
        let mut rows = Rows::default();
        rows.push(&layout, 0, 0, [300, -1, NULL, 1 << 30, -7, i64::MAX].into_iter());
        assert_eq!(layout.read(rows.row(0, &layout)).collect::<Vec<_>>(), [251, 0, NULL, 1 << 24, -7, i64::MAX]);
    }
}
