//! Many draws at once.

use zeroize::Zeroizing;

use super::{HEIGHT_BITS, NoiseTable, SLOT_BITS, SLOTS, low_bits, position, words};
use crate::error::NoiseError;
use crate::source::BitSource;

/// Integers that noise is added to lie within ± this. Draws lie within ±2^60.
const END: i64 = 1 << 62;

/// How many draws are made in a row before those that need more than a look are finished.
const BLOCK: usize = 2048;

/// Of those, how many are looked at between two calls of the source.
const GROUP: usize = 64;

/// Lanes of a register.
const LANES: usize = 16;

/// Places of draws, with room for a register behind the last.
type Places = [u16; BLOCK + LANES];

impl NoiseTable {
    /// Overwrites the buffer with independent draws.
    ///
    /// Takes four, five or eight random bytes per draw, as many as slot and cell need, and eight more for each of the
    /// few that have to be looked at, in blocks of two thousand draws. The time of a whole call depends a little on how
    /// many these were; where a single draw is timed use [`draw`](Self::draw).
    ///
    /// # Errors
    /// What the source reports, and [`NoiseError::Exhausted`] with probability below 2^-400; the buffer holds
    /// zeros then, and nothing may be released.
    pub fn fill<S: BitSource + ?Sized>(&self, source: &mut S, out: &mut [i64]) -> Result<(), NoiseError> {
        let mut work = Work::new(self.word_bytes(), out.len());
        let filled = out.chunks_mut(BLOCK).try_for_each(|chunk| self.fill_chunk(source, &mut work, chunk));
        if filled.is_err() {
            out.fill(0);
        }
        filled
    }

    /// Adds independent draws to all integers, which count as ±2^62 beyond that: no draw reaches the end of the range
    /// then, and no two integers are moved apart.
    ///
    /// What is added is what [`fill`](Self::fill) draws; it is added while the caches hold it.
    ///
    /// # Errors
    /// As [`fill`](Self::fill): all integers are zeros then, and nothing may be released.
    ///
    /// ```
    /// # use dither_core::Ratio;
    /// # use dither_noise::{NoiseSource, NoiseTable};
    /// let table = NoiseTable::gaussian(Ratio::new(100, 1).unwrap())?;
    /// let mut sums = [1000i64, -1000];
    /// table.add(&mut NoiseSource::from_os()?, &mut sums)?;
    /// // |noise| > 20 σ happens once in 10^88 draws.
    /// assert!((800..=1200).contains(&sums[0]) && (-1200..=-800).contains(&sums[1]));
    /// # Ok::<(), dither_noise::NoiseError>(())
    /// ```
    pub fn add<S: BitSource + ?Sized>(&self, source: &mut S, sums: &mut [i64]) -> Result<(), NoiseError> {
        let mut work = Work::new(self.word_bytes(), sums.len());
        let mut noise = Zeroizing::new(vec![0i64; sums.len().min(BLOCK)]);
        let added = sums.chunks_mut(BLOCK).try_for_each(|sums| {
            let noise = &mut noise[..sums.len()];
            self.fill_chunk(source, &mut work, noise)?;
            wide(
                #[inline(always)]
                || sums.iter_mut().zip(noise).for_each(|(sum, x)| *sum = (*sum).clamp(-END, END).wrapping_add(*x)),
            );
            Ok(())
        });
        if added.is_err() {
            sums.fill(0);
        }
        added
    }

    /// How many bytes are drawn for slot and cell: four, and none, one or four more.
    fn word_bytes(&self) -> usize {
        match SLOT_BITS + self.cell_bits {
            ..=32 => 4,
            33..=40 => 5,
            _ => 8,
        }
    }

    /// Up to [`BLOCK`] draws.
    fn fill_chunk<S: BitSource + ?Sized>(
        &self,
        source: &mut S,
        work: &mut Work,
        chunk: &mut [i64],
    ) -> Result<(), NoiseError> {
        let Work { words, places, others, anew } = work;
        // One in thirty is not kept. Of those drawn in its stead hardly any are left.
        let rejected = self.propose(source, words, chunk, places)?;
        let anew = &mut anew[..rejected];
        let left = self.propose(source, words, anew, others)?;
        for &place in &others[..left] {
            anew[usize::from(place)] = self.draw(source)?;
        }
        for (place, x) in places[..rejected].iter().zip(anew) {
            chunk[usize::from(*place)] = *x;
        }
        Ok(())
    }

    /// One attempt for each of up to [`BLOCK`] draws. Says how many are not kept, and where they are.
    fn propose<S: BitSource + ?Sized>(
        &self,
        source: &mut S,
        words: &mut Words,
        out: &mut [i64],
        places: &mut Places,
    ) -> Result<usize, NoiseError> {
        let Words { length, bytes, points, positions, cells } = words;
        let bytes = &mut bytes[..out.len() * *length];
        source.fill(bytes)?;
        // First four bytes of every word, then the others: registers take words side by side.
        let (low, high) = bytes.split_at(4 * out.len());
        let low = low.as_chunks::<4>().0;
        wide(
            #[inline(always)]
            || positions.iter_mut().zip(low).for_each(|(at, low)| *at = position(slot(*low))),
        );
        for (cell, at) in cells.iter_mut().zip(&positions[..low.len()]) {
            *cell = self.slot_cells[usize::from(*at) % SLOTS];
        }
        let pending = self.pending(low, places);
        match *length {
            4 => self.look(cells, low, std::iter::repeat(0), out),
            5 => self.look(cells, low, high.iter().map(|byte| u32::from(*byte)), out),
            _ => self.look(cells, low, high.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)), out),
        }
        let mut rejected = 0;
        for start in (0..pending).step_by(GROUP) {
            let mut group = [0; GROUP];
            let group = &mut group[..GROUP.min(pending - start)];
            group.copy_from_slice(&places[start..start + group.len()]);
            let kept = self.finish(source, points, low, out, group)?;
            for (place, kept) in group.iter().zip(kept) {
                places[rejected % BLOCK] = *place;
                rejected = rejected.wrapping_add(usize::from(!kept));
            }
        }
        Ok(rejected)
    }

    /// Which draws have to be looked at, in their order, and how many they are.
    pub(super) fn pending(&self, low: &[[u8; 4]], places: &mut Places) -> usize {
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = pulp::x86::V4::try_new() {
            let (whole, slots) = (low.len() / LANES * LANES, self.first..self.first + self.inside);
            let mut pending = 0;
            simd.vectorize(
                #[inline(always)]
                || by_lanes::pending(simd, slots, &low[..whole], places, &mut pending),
            );
            return self.pending_one_by_one(low, whole, pending, places);
        }
        self.pending_one_by_one(low, 0, 0, places)
    }

    /// The same from some draw on, behind so many that were found before.
    pub(super) fn pending_one_by_one(
        &self,
        low: &[[u8; 4]],
        from: usize,
        mut pending: usize,
        places: &mut Places,
    ) -> usize {
        // There are fewer than 2^16.
        for (place, low) in (from as u16..).zip(&low[from..]) {
            // No branch: it could not be predicted. There are never more than places.
            places[pending % BLOCK] = place;
            let slot = usize::from(slot(*low));
            pending = pending.wrapping_add(usize::from(slot.wrapping_sub(self.first) >= self.inside));
        }
        pending
    }

    /// The integers of all words in their cells, as if each slot lay under the mass.
    fn look(&self, cells: &[i16; BLOCK], low: &[[u8; 4]], high: impl Iterator<Item = u32>, out: &mut [i64]) {
        wide(
            #[inline(always)]
            || {
                for (((low, high), cell), x) in low.iter().zip(high).zip(cells).zip(out) {
                    let word = u64::from(high) << 32 | u64::from(u32::from_le_bytes(*low));
                    // Below 2^60: a cell begins below 7 widths.
                    *x = i64::from(*cell).wrapping_shl(self.cell_bits) | low_bits(word >> SLOT_BITS, self.cell_bits);
                }
            },
        );
    }

    /// Which of a group of integers are kept: a point over each is drawn. Those of the tail are drawn first.
    fn finish<S: BitSource + ?Sized>(
        &self,
        source: &mut S,
        points: &mut [[u8; 8]; GROUP],
        low: &[[u8; 4]],
        out: &mut [i64],
        group: &[u16],
    ) -> Result<[bool; GROUP], NoiseError> {
        let (mut levels, mut magnitudes, mut point) = ([0u32; GROUP], [0u64; GROUP], [0u64; GROUP]);
        let mut above = [0f64; GROUP];
        source.fill(points[..group.len()].as_flattened_mut())?;
        for (at, place) in group.iter().map(|place| usize::from(*place)).enumerate() {
            levels[at] = self.slot(slot(low[place])).1.into();
            magnitudes[at] = out[place].unsigned_abs();
            point[at] = u64::from_le_bytes(points[at]);
        }
        wide(
            #[inline(always)]
            || {
                for at in 0..GROUP {
                    above[at] = self.above(magnitudes[at], levels[at], point[at], HEIGHT_BITS);
                }
            },
        );
        let mut kept = [false; GROUP];
        for (at, place) in group.iter().map(|place| usize::from(*place)).enumerate() {
            let slot = slot(low[place]);
            if self.in_tail(slot) {
                // A block of the tail is longer than a cell: its place takes further bits.
                let [block, inner, _] = words(source)?;
                let block = block & !(SLOTS as u64 - 1) | u64::from(slot);
                (out[place], kept[at]) = self.attempt(source, [block, inner, point[at]])?;
            } else if above[at] == 0.0 {
                kept[at] = self.under_exactly(source, magnitudes[at], levels[at], point[at], HEIGHT_BITS as usize)?;
            } else {
                kept[at] = above[at] < 0.0;
            }
        }
        Ok(kept)
    }

    /// Whether a slot stands over the tail.
    fn in_tail(&self, slot: u16) -> bool {
        let cell = i64::from(self.slot(slot).0);
        cell ^ (cell >> 63) == self.cells
    }
}

/// Random bits of a block of draws.
struct Words {
    /// How many bytes are a word.
    length: usize,
    bytes: Zeroizing<Vec<u8>>,
    /// Where their slots are kept, and the cells of these.
    positions: [u16; BLOCK],
    cells: [i16; BLOCK],
    points: Zeroizing<[[u8; 8]; GROUP]>,
}

/// What a block of draws is made of.
struct Work {
    words: Words,
    /// Where those are that are not finished.
    places: Places,
    /// What is drawn in their stead, and where that is not finished.
    anew: [i64; BLOCK],
    others: Places,
}

impl Work {
    /// For so many draws from words of that length.
    fn new(length: usize, draws: usize) -> Self {
        let bytes = Zeroizing::new(vec![0; length * draws.min(BLOCK)]);
        let points = Zeroizing::new([[0; 8]; GROUP]);
        let words = Words { length, bytes, positions: [0; BLOCK], cells: [0; BLOCK], points };
        let places = [0; BLOCK + LANES];
        Self { words, places, anew: [0; BLOCK], others: places }
    }
}

/// Runs a closure in code for the widest registers there are. It must be marked `#[inline(always)]`.
#[inline(always)]
fn wide<R>(run: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(run)
}

/// The slot in the lowest bits of a word.
#[inline(always)]
fn slot(word: [u8; 4]) -> u16 {
    u32::from_le_bytes(word) as u16 % SLOTS as u16
}

/// Sixteen draws in a register.
#[cfg(target_arch = "x86_64")]
mod by_lanes {
    use std::ops::Range;

    use pulp::cast;
    use pulp::x86::V4;

    use super::{BLOCK, LANES, Places, SLOTS};

    /// Which draws have slots that are not `inside`, and how many they are.
    #[inline(always)]
    pub fn pending(simd: V4, inside: Range<usize>, low: &[[u8; 4]], places: &mut Places, pending: &mut usize) {
        let slots = simd.splat_u32x16(SLOTS as u32 - 1);
        let first = simd.splat_u32x16(inside.start as u32);
        let inside = simd.splat_u32x16(inside.len() as u32);
        let step = simd.splat_u32x16(LANES as u32);
        let mut numbers = cast([0u32, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        let mut found = 0usize;
        for low in low.as_chunks::<LANES>().0 {
            let slot = simd.and_u32x16(cast(*low), slots);
            let beyond = cast(simd.wrapping_sub_u32x16(slot, first));
            let looked_at = simd.avx512f._mm512_cmpge_epu32_mask(beyond, cast(inside));
            let chosen = simd.avx512f._mm512_maskz_compress_epi32(looked_at, cast(numbers));
            // There are never more than places, and behind these is room for a register.
            if let Some(room) = places[found.min(BLOCK)..].first_chunk_mut::<LANES>() {
                *room = cast(simd.avx512f._mm512_cvtepi32_epi16(chosen));
            }
            found = found.wrapping_add(looked_at.count_ones() as usize);
            numbers = simd.wrapping_add_u32x16(numbers, step);
        }
        *pending = found;
    }
}
