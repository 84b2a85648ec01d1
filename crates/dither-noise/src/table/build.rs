//! Covers the masses with slots of one height.
//!
//! Every bound is rounded so that a stack is never too low and a slot that is called inside never pokes out.

use super::{HEIGHT_BITS, NoiseTable, SLOTS, position};
use crate::density::{Density, MARGIN, power_of_half};
use crate::error::NoiseError;

/// The level of slots that hold nothing: 65,535 heights are more than one, the largest mass, since that alone
/// takes fewer than [`SLOTS`] of them.
pub(super) const NOTHING: u16 = u16::MAX;

impl NoiseTable {
    /// A table with cells of about that part of the width.
    pub(super) fn new(density: Density, part: f64) -> Result<Self, NoiseError> {
        if density.width() > (1u64 << 50) as f64 {
            return Err(NoiseError::OutOfRange);
        }
        // The largest power of two that is no more than that part of the width.
        let cell_bits = ((density.width() * part) as u64).checked_ilog2().unwrap_or(0);
        // The tail begins where the mass is below 2^-10. There are some 400 cells on a side.
        let below = |cell: u64| density.bounds(cell << cell_bits).1 <= 1.0 / 1024.0;
        let cells = (1..SLOTS as u64).find(|&cell| below(cell)).ok_or(NoiseError::OutOfRange)?;
        let tail = cells << cell_bits;
        // A block is long enough for the mass to halve; 0.6932 is above ln 2 by more than the rounding. Since
        // the mass is log-concave it halves from each block to the next.
        let halves = |bits: u32| density.exponent(tail + (1 << bits)) - density.exponent(tail) >= 0.6932;
        let tail_bits = (cell_bits..=50).find(|&bits| halves(bits)).ok_or(NoiseError::OutOfRange)?;

        let stacks: Vec<Stack> = (0..cells).flat_map(|cell| Stack::both(&density, cell, cell_bits)).collect();
        // Block b of a tail slot holds 2^-(b+1) of its points, spread over 2^tail_bits integers.
        let edge = density.bounds(tail).1 * (1u64 << (tail_bits - cell_bits + 1)) as f64;
        // One slot stays empty, so that a generator of ones never passes.
        let fits = |height: u32| {
            let near: u64 = stacks.iter().map(|stack| stack.levels(height)).sum();
            near + 2 * levels(edge, height) < SLOTS as u64
        };
        let height = smallest(fits).ok_or(NoiseError::OutOfRange)?;

        let mut slots = Vec::with_capacity(SLOTS);
        // A generator of zeros takes the first slot, and stays in the tail for ever.
        for level in 0..levels(edge, height) {
            slots.extend([pack(cells as i64, level), pack(!(cells as i64), level)]);
        }
        for stack in &stacks {
            slots.extend((stack.inside(height)..stack.levels(height)).map(|level| pack(stack.cell, level)));
        }
        let first = slots.len();
        for stack in &stacks {
            slots.extend((0..stack.inside(height)).map(|level| pack(stack.cell, level)));
        }
        let inside = slots.len() - first;
        slots.resize(SLOTS, pack(0, NOTHING.into()));
        let (mut slot_cells, mut levels) = (Box::new([0; SLOTS]), Box::new([0; SLOTS]));
        for (slot, (cell, level)) in (0..).zip(slots) {
            let position = usize::from(position(slot));
            (slot_cells[position], levels[position]) = (cell, level);
        }
        let (cells, margin) = (cells as i64, MARGIN);
        Ok(Self { density, cell_bits, cells, tail_bits, height, first, inside, slot_cells, levels, margin })
    }
}

/// The slots over one cell.
struct Stack {
    cell: i64,
    /// A lower bound of the smallest mass in the cell.
    least: f64,
    /// An upper bound of the largest.
    most: f64,
}

impl Stack {
    /// Those of the integers from cell·2^bits on, and of as many from −1 − cell·2^bits down.
    fn both(density: &Density, cell: u64, bits: u32) -> [Self; 2] {
        let start = cell << bits;
        let end = start + (1 << bits) - 1;
        let stack = |id, from, to| Self { cell: id, least: density.bounds(to).0, most: density.bounds(from).1 };
        [stack(cell as i64, start, end), stack(!(cell as i64), start + 1, end + 1)]
    }

    /// How many slots cover all masses.
    fn levels(&self, height: u32) -> u64 {
        levels(self.most, height)
    }

    /// How many of them lie under all masses.
    fn inside(&self, height: u32) -> u64 {
        (self.least / (f64::from(height) * power_of_half(HEIGHT_BITS))).floor() as u64
    }
}

/// How many heights are at least `most`.
fn levels(most: f64, height: u32) -> u64 {
    (most / (f64::from(height) * power_of_half(HEIGHT_BITS))).ceil() as u64
}

/// The smallest height that is enough.
fn smallest(fits: impl Fn(u32) -> bool) -> Option<u32> {
    let (mut below, mut above) = (0, u32::MAX);
    if !fits(above) {
        return None;
    }
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if fits(middle) {
            above = middle;
        } else {
            below = middle;
        }
    }
    Some(above)
}

/// Levels are below [`SLOTS`], and cells above −[`SLOTS`].
fn pack(cell: i64, level: u64) -> (i16, u16) {
    (cell as i16, level as u16)
}
