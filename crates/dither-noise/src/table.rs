//! Exact noise in bulk: one look into a table for nearly every draw.

mod build;
mod bulk;

use dashu_int::UBig;
use dither_core::Ratio;

use crate::MAX_TRIES;
use crate::density::{Density, Shape, power_of_half};
use crate::error::NoiseError;
use crate::source::BitSource;

/// log₂ of the number of slots. Twice as many make a draw a few per cent faster, and the table twice as large.
const SLOT_BITS: u32 = 15;
const SLOTS: usize = 1 << SLOT_BITS;

/// Heights are integers in units of 2^-36.
const HEIGHT_BITS: u32 = 36;

/// A table for many exact draws of one distribution: what [`discrete_laplace`](crate::discrete_laplace) and
/// [`discrete_gaussian`](crate::discrete_gaussian) draw, twenty to a hundred times faster, for widths of up to 2^50.
///
/// It holds nothing secret and never changes; share it. It takes 128 KiB, and some 100 µs to make.
///
/// # How it works
/// The integers are cut into cells of 2^j. Over each stands a stack of slots, all of one height, that covers the
/// masses of its integers; two more piles of slots cover the tails. A draw takes a slot, each being as likely, an
/// integer of its cell, and keeps it if a uniform point of the slot over that integer lies under the mass. Nearly
/// all slots lie under it entirely, which is known beforehand.
///
/// For the others the mass is computed as a float with a margin of a relative 2^-40. The points within the margin,
/// one in 2^38, and those over masses below exp(−128) are decided by integer arithmetic. A point has 64 bits; with
/// probability below 2^-63 they do not tell on which side it lies, and more are drawn until they do. So the
/// distribution is exact: stacks that are too high and flags that are too careful make draws slower, never
/// different.
///
/// # Privacy
/// That of [`discrete_laplace`](crate::discrete_laplace) and [`discrete_gaussian`](crate::discrete_gaussian).
///
/// ```
/// use dither_core::Ratio;
/// use dither_noise::{NoiseSource, NoiseTable};
/// let table = NoiseTable::laplace(Ratio::new(5, 2).unwrap())?;
/// let mut noise = [0i64; 1000];
/// table.fill(&mut NoiseSource::from_os()?, &mut noise)?;
/// // |noise| > 200 happens once in 10^34 draws.
/// assert!(noise.iter().all(|x| x.abs() <= 200));
/// # Ok::<(), dither_noise::NoiseError>(())
/// ```
///
/// # References
/// Marsaglia and Tsang, *The Ziggurat Method for Generating Random Variables*, 2000 (covering by pieces of equal
/// mass). Von Neumann, *Various techniques used in connection with random digits*, 1951 (rejection).
pub struct NoiseTable {
    density: Density,
    /// log₂ of the integers in a cell.
    cell_bits: u32,
    /// The cells of either side; the tail begins behind them.
    cells: i64,
    /// log₂ of the integers in a block of the tail.
    tail_bits: u32,
    /// The height of a slot in units of 2^-[`HEIGHT_BITS`].
    height: u32,
    /// The slots that lie under the mass: `inside` of them from `first` on.
    first: usize,
    inside: usize,
    /// For each slot its cell. Most draws need no more of the table than this half.
    slot_cells: Box<[i16; SLOTS]>,
    /// For each slot its level in the stack.
    levels: Box<[u16; SLOTS]>,
    /// Relative half width of what the float does not decide.
    margin: f64,
}

impl NoiseTable {
    /// A table for P(x) ∝ exp(−|x|/`scale`).
    ///
    /// # Errors
    /// [`NoiseError::OutOfRange`] for a scale above 2^50.
    ///
    /// ```
    /// # use dither_core::Ratio;
    /// # use dither_noise::NoiseTable;
    /// assert!(NoiseTable::laplace(Ratio::new(1, 3).unwrap()).is_ok());
    /// assert!(NoiseTable::laplace(Ratio::new(1 << 51, 1).unwrap()).is_err());
    /// ```
    pub fn laplace(scale: Ratio) -> Result<Self, NoiseError> {
        // With cells of about this part of the width, the slots that the slope within a cell cuts and those that
        // the ends of the stacks cut are as many.
        Self::new(Density::new(Shape::Laplace, scale), 0.035)
    }

    /// A table for P(x) ∝ exp(−x²/(2 · `variance`)).
    ///
    /// # Errors
    /// [`NoiseError::OutOfRange`] for a variance above 2^100.
    ///
    /// ```
    /// # use dither_core::Ratio;
    /// # use dither_noise::NoiseTable;
    /// assert!(NoiseTable::gaussian(Ratio::new(1 << 100, 1).unwrap()).is_ok());
    /// ```
    pub fn gaussian(variance: Ratio) -> Result<Self, NoiseError> {
        Self::new(Density::new(Shape::Gaussian, variance), 0.028)
    }

    /// One draw, in a time that does not depend on it.
    ///
    /// Every attempt takes the same steps, whatever its slot, and how many attempts are rejected is independent
    /// of the integer that is kept in the end. All slots are used as often, and those of one size lie all over the
    /// table, so that caches serve all sizes alike. Left is the one attempt in 2^38 that floats do not decide.
    ///
    /// # Errors
    /// What the source reports, and [`NoiseError::Exhausted`] with probability below 2^-400.
    ///
    /// ```
    /// # use dither_core::Ratio;
    /// # use dither_noise::{NoiseSource, NoiseTable};
    /// let table = NoiseTable::gaussian(Ratio::new(100, 1).unwrap())?;
    /// // |noise| > 20 σ happens once in 10^88 draws.
    /// assert!(table.draw(&mut NoiseSource::from_os()?)?.abs() <= 200);
    /// # Ok::<(), dither_noise::NoiseError>(())
    /// ```
    pub fn draw<S: BitSource + ?Sized>(&self, source: &mut S) -> Result<i64, NoiseError> {
        for _ in 0..MAX_TRIES {
            let words = words(source)?;
            let (x, kept) = self.attempt(source, words)?;
            if kept {
                return Ok(x);
            }
        }
        Err(NoiseError::Exhausted)
    }

    /// Proposes an integer, and whether the point over it lies under its mass.
    ///
    /// The words hold the slot (lowest bits) and the block of the tail (the others), the place in the cell or
    /// block, and the point.
    #[inline]
    fn attempt<S: BitSource + ?Sized>(&self, source: &mut S, words: [u64; 3]) -> Result<(i64, bool), NoiseError> {
        let [slot, place, point] = words;
        let (cell, level) = self.slot(slot as u16);
        let cell = i64::from(cell);
        let side = cell >> 63;
        let near = (cell << self.cell_bits) | low_bits(place, self.cell_bits);
        let block = zeros(source, slot)?;
        // Block 560 of 2^50 integers, behind a tail that begins below 2^53, ends below 2^60.
        let from = (self.cells << self.cell_bits) + (i64::from(block) << self.tail_bits);
        let far = (from + low_bits(place, self.tail_bits)) ^ side;
        // All ones in the tail, no branch.
        let in_tail = -i64::from((cell ^ side) == self.cells);
        let x = near ^ ((near ^ far) & in_tail);
        let thinner = (self.tail_bits - self.cell_bits + 1 + block) & in_tail as u32;
        let under = self.under(source, x.unsigned_abs(), level.into(), point, HEIGHT_BITS + thinner)?;
        Ok((x, under))
    }

    /// The cell and the level of a slot, which the lowest bits of a word are.
    #[inline(always)]
    fn slot(&self, word: u16) -> (i16, u16) {
        let position = usize::from(position(word)) % SLOTS;
        (self.slot_cells[position], self.levels[position])
    }

    /// Whether (`level` + u) · height · 2^-`shift` lies under the mass at ±`magnitude`, where `point` holds the
    /// first 64 bits of the uniform u.
    #[inline]
    fn under<S: BitSource + ?Sized>(
        &self,
        source: &mut S,
        magnitude: u64,
        level: u32,
        point: u64,
        shift: u32,
    ) -> Result<bool, NoiseError> {
        let above = self.above(magnitude, level, point, shift);
        // One branch that can be predicted instead of one that cannot.
        match above == 0.0 {
            false => Ok(above < 0.0),
            true => self.under_exactly(source, magnitude, level, point, shift as usize),
        }
    }

    /// How far the point of [`under`](Self::under) lies above the mass, in floats; 0 where these do not decide.
    #[inline(always)]
    fn above(&self, magnitude: u64, level: u32, point: u64, shift: u32) -> f64 {
        let height = f64::from(self.height) * power_of_half(shift);
        // Wrong by a relative 2^-51 and by the bits of u that are not drawn, 2^-64 of a height.
        let y = (f64::from(level) + point as f64 * power_of_half(64)) * height;
        let (mass, trusted) = self.density.float(magnitude);
        let slack = mass * self.margin + height * power_of_half(60);
        if trusted & ((y - mass).abs() > slack) { y - mass } else { 0.0 }
    }

    /// [`under`](Self::under) without floats, with as many bits of u as it takes.
    #[cold]
    fn under_exactly<S: BitSource + ?Sized>(
        &self,
        source: &mut S,
        magnitude: u64,
        level: u32,
        point: u64,
        shift: usize,
    ) -> Result<bool, NoiseError> {
        let height = UBig::from(self.height);
        let mut drawn = 64;
        let mut y = (UBig::from(level) << drawn) + UBig::from(point);
        for _ in 0..MAX_TRIES {
            let mass = self.density.enclose(magnitude, shift + drawn);
            let align = mass.bits - shift - drawn;
            let low = (&y * &height) << align;
            if low >= &mass.value + &mass.error {
                return Ok(false);
            }
            let high = ((&y + UBig::ONE) * &height) << align;
            if high + &mass.error <= mass.value {
                return Ok(true);
            }
            let [more, ..] = words(source)?;
            y = (y << 64) + UBig::from(more);
            drawn += 64;
        }
        Err(NoiseError::Exhausted)
    }
}

/// Where a slot is kept. Slots of one cell lie all over the table, so that no part of the caches, of which some are
/// slower than others, belongs to draws of one size. A product with an odd number permutes; this one, near the
/// golden section of both 2^15 and 2^10, spreads any range of slots evenly over lines and sets of lines.
#[inline(always)]
fn position(slot: u16) -> u16 {
    slot.wrapping_mul(20_089) % SLOTS as u16
}

fn words<S: BitSource + ?Sized>(source: &mut S) -> Result<[u64; 3], NoiseError> {
    let mut bytes = [0; 24];
    source.fill(&mut bytes)?;
    Ok(split(&bytes))
}

#[inline]
fn split(bytes: &[u8; 24]) -> [u64; 3] {
    let (words, _) = bytes.as_chunks::<8>();
    [0, 1, 2].map(|place| u64::from_le_bytes(words[place]))
}

/// The lowest `bits` of a word; there are at most 50.
#[inline(always)]
fn low_bits(word: u64, bits: u32) -> i64 {
    (word & 1u64.wrapping_shl(bits).wrapping_sub(1)) as i64
}

/// The zeros before the first one in the stream of bits that begins with those of `word` above the slot.
#[inline]
fn zeros<S: BitSource + ?Sized>(source: &mut S, word: u64) -> Result<u32, NoiseError> {
    if word >= SLOTS as u64 { Ok(word.leading_zeros()) } else { more_zeros(source) }
}

/// [`zeros`] where the first word has no one: probability 2^-49.
#[cold]
fn more_zeros<S: BitSource + ?Sized>(source: &mut S) -> Result<u32, NoiseError> {
    let mut zeros = u64::BITS - SLOT_BITS;
    while zeros < MAX_TRIES {
        let [word, ..] = words(source)?;
        if word != 0 {
            return Ok(zeros + word.leading_zeros());
        }
        zeros += u64::BITS;
    }
    // Probability below 2^-512.
    Err(NoiseError::Exhausted)
}

#[cfg(test)]
mod tests;
