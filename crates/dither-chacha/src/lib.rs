//! ChaCha20, sixteen blocks at a time where registers hold sixteen words.
//!
//! The bytes are those of [`ChaCha20Rng`], whatever the machine. Noise is drawn from such a stream, and rows that wait on disk
//! are enciphered with one.
//!
//! # What this crate does not do
//! It makes no keys and authenticates nothing. Whoever enciphers takes a key and stream that were never used before.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Words of a block, and blocks that are made at a time.
const WORDS: usize = 16;

/// Bytes that are made at a time.
const REFILL: usize = 4 * WORDS * WORDS;

/// One stream of a key, from its beginning.
///
/// ```
/// use dither_chacha::ChaCha;
/// let (key, mut text) = ([7; 32], *b"a row of somebody");
/// ChaCha::new(&key, 1).encipher(&mut text);
/// assert_ne!(text, *b"a row of somebody");
/// ChaCha::new(&key, 1).encipher(&mut text);
/// assert_eq!(text, *b"a row of somebody");
/// ```
///
/// # References
/// Bernstein, *ChaCha, a variant of Salsa20*, 2008.
pub struct ChaCha {
    generator: Generator,
    buffer: [u8; REFILL],
    /// Bytes of the buffer that were given out.
    given: usize,
}

enum Generator {
    /// Constants, the key, the number of the next block, and that of the stream.
    #[cfg(target_arch = "x86_64")]
    Wide(pulp::x86::V4, [u32; WORDS]),
    Narrow(Box<ChaCha20Rng>),
}

impl ChaCha {
    /// The stream with a number under a key.
    pub fn new(key: &[u8; 32], stream: u64) -> Self {
        Self { generator: Generator::new(key, stream), buffer: [0; REFILL], given: REFILL }
    }

    /// The next bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        let (head, rest) = out.split_at_mut(out.len().min(REFILL - self.given));
        self.give(head);
        let (whole, tail) = rest.as_chunks_mut::<REFILL>();
        whole.iter_mut().for_each(|bytes| self.generator.fill(bytes));
        if !tail.is_empty() {
            self.generator.fill(&mut self.buffer);
            self.given = 0;
            self.give(tail);
        }
    }

    /// Adds the next bytes to a text, bit by bit, which enciphers and deciphers it.
    pub fn encipher(&mut self, text: &mut [u8]) {
        let mut pad = Zeroizing::new([0; REFILL]);
        for text in text.chunks_mut(REFILL) {
            let pad = &mut pad[..text.len()];
            self.fill(pad);
            text.iter_mut().zip(pad).for_each(|(byte, pad)| *byte ^= *pad);
        }
    }

    fn give(&mut self, out: &mut [u8]) {
        out.copy_from_slice(&self.buffer[self.given..self.given + out.len()]);
        self.given += out.len();
    }
}

impl Drop for ChaCha {
    fn drop(&mut self) {
        self.buffer.zeroize();
    }
}

impl ZeroizeOnDrop for ChaCha {}

// The narrow generator overwrites itself by the `zeroize` feature of its crate.
const _: fn() = || {
    fn overwritten<T: ZeroizeOnDrop>() {}
    overwritten::<ChaCha20Rng>();
};

impl Generator {
    fn new(key: &[u8; 32], stream: u64) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = pulp::x86::V4::try_new() {
            return Self::Wide(simd, wide::start(key, stream));
        }
        Self::narrow(key, stream)
    }

    fn narrow(key: &[u8; 32], stream: u64) -> Self {
        let mut narrow = ChaCha20Rng::from_seed(*key);
        narrow.set_stream(stream);
        Self::Narrow(Box::new(narrow))
    }

    fn fill(&mut self, out: &mut [u8; REFILL]) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Wide(simd, state) => wide::fill(*simd, state, out),
            Self::Narrow(narrow) => narrow.fill_bytes(out),
        }
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Wide(_, state) => state.zeroize(),
            Self::Narrow(_) => {}
        }
    }
}

/// The same word of sixteen blocks in a register.
#[cfg(target_arch = "x86_64")]
mod wide {
    use pulp::x86::V4;
    use pulp::{cast, u32x16};

    use super::{REFILL, WORDS};

    /// The state before the first block.
    pub fn start(key: &[u8; 32], stream: u64) -> [u32; WORDS] {
        let mut state = [0; WORDS];
        for (word, bytes) in
            state.iter_mut().zip(b"expand 32-byte k".as_chunks::<4>().0.iter().chain(key.as_chunks::<4>().0))
        {
            *word = u32::from_le_bytes(*bytes);
        }
        (state[14], state[15]) = (stream as u32, (stream >> 32) as u32);
        state
    }

    /// Sixteen blocks.
    pub fn fill(simd: V4, state: &mut [u32; WORDS], out: &mut [u8; REFILL]) {
        simd.vectorize(
            #[inline(always)]
            || blocks(simd, state, out),
        );
        let next = (u64::from(state[13]) << 32 | u64::from(state[12])).wrapping_add(WORDS as u64);
        (state[12], state[13]) = (next as u32, (next >> 32) as u32);
    }

    #[inline(always)]
    fn blocks(simd: V4, state: &[u32; WORDS], out: &mut [u8; REFILL]) {
        let mut first = [simd.splat_u32x16(0); WORDS];
        for (first, word) in first.iter_mut().zip(state) {
            *first = simd.splat_u32x16(*word);
        }
        let block = u64::from(state[13]) << 32 | u64::from(state[12]);
        let number = |lane: usize| block.wrapping_add(lane as u64);
        first[12] = cast(std::array::from_fn::<u32, WORDS, _>(|lane| number(lane) as u32));
        first[13] = cast(std::array::from_fn::<u32, WORDS, _>(|lane| (number(lane) >> 32) as u32));
        let mut x = first;
        for _ in 0..10 {
            // Columns, then diagonals.
            quarter::<0, 4, 8, 12>(simd, &mut x);
            quarter::<1, 5, 9, 13>(simd, &mut x);
            quarter::<2, 6, 10, 14>(simd, &mut x);
            quarter::<3, 7, 11, 15>(simd, &mut x);
            quarter::<0, 5, 10, 15>(simd, &mut x);
            quarter::<1, 6, 11, 12>(simd, &mut x);
            quarter::<2, 7, 8, 13>(simd, &mut x);
            quarter::<3, 4, 9, 14>(simd, &mut x);
        }
        for (x, first) in x.iter_mut().zip(first) {
            *x = simd.wrapping_add_u32x16(*x, first);
        }
        turned::<1>(simd, &mut x);
        turned::<2>(simd, &mut x);
        turned::<4>(simd, &mut x);
        turned::<8>(simd, &mut x);
        for (x, out) in x.into_iter().zip(out.as_chunks_mut::<64>().0) {
            *out = cast(x);
        }
    }

    #[inline(always)]
    fn quarter<const A: usize, const B: usize, const C: usize, const D: usize>(simd: V4, x: &mut [u32x16; WORDS]) {
        half::<A, B, D, 16>(simd, x);
        half::<C, D, B, 12>(simd, x);
        half::<A, B, D, 8>(simd, x);
        half::<C, D, B, 7>(simd, x);
    }

    #[inline(always)]
    fn half<const A: usize, const B: usize, const D: usize, const BITS: i32>(simd: V4, x: &mut [u32x16; WORDS]) {
        x[A] = simd.wrapping_add_u32x16(x[A], x[B]);
        x[D] = cast(simd.avx512f._mm512_rol_epi32::<BITS>(cast(simd.xor_u32x16(x[D], x[A]))));
    }

    /// Squares of so many words beside the diagonal change places. With 1, 2, 4 and 8 rows become columns.
    #[inline(always)]
    fn turned<const SIDE: usize>(simd: V4, x: &mut [u32x16; WORDS]) {
        let pick = |a: u32x16, b: u32x16, lanes: [u32; WORDS]| {
            cast(simd.avx512f._mm512_permutex2var_epi32(cast(a), cast(lanes), cast(b)))
        };
        for pair in 0..WORDS / 2 {
            let row = pair / SIDE * 2 * SIDE + pair % SIDE;
            let (a, b) = (x[row], x[row + SIDE]);
            x[row] = pick(a, b, const { lanes(SIDE, 0) });
            x[row + SIDE] = pick(a, b, const { lanes(SIDE, SIDE) });
        }
    }

    /// Where the upper row of a pair (`from` 0) and the lower one (`from` the side) come from: lanes of the upper, then
    /// of the lower.
    const fn lanes(side: usize, from: usize) -> [u32; WORDS] {
        let (mut lanes, mut lane) = ([0; WORDS], 0);
        while lane < WORDS {
            lanes[lane] = (if lane & side == 0 { lane + from } else { WORDS + lane + from - side }) as u32;
            lane += 1;
        }
        lanes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stream of the crate, in pieces of the sizes that are asked for.
    #[test]
    fn bytes_are_those_of_the_crate_in_pieces_of_any_size() {
        for (key, stream) in [([0; 32], 0), ([7; 32], 1), (std::array::from_fn(|i| i as u8), u64::MAX - 3)] {
            let mut whole = vec![0u8; 20_000];
            let mut narrow = ChaCha20Rng::from_seed(key);
            narrow.set_stream(stream);
            narrow.fill_bytes(&mut whole);
            for (piece, wide) in
                [1, 5, 24, 1000, 1024, 1025, 5120, 20_000].into_iter().flat_map(|n| [(n, true), (n, false)])
            {
                let (mut ours, mut bytes) = (ChaCha::new(&key, stream), vec![0u8; 20_000]);
                if !wide {
                    ours.generator = Generator::narrow(&key, stream);
                }
                bytes.chunks_mut(piece).for_each(|piece| ours.fill(piece));
                assert!(bytes == whole, "pieces of {piece} bytes");
            }
        }
    }

    #[test]
    fn a_text_is_enciphered_by_the_stream_whatever_its_length() {
        for length in [0, 1, 1023, 1024, 1025, 5000] {
            let (mut text, mut stream) = (vec![0x5a; length], vec![0; length]);
            ChaCha::new(&[3; 32], 8).encipher(&mut text);
            ChaCha::new(&[3; 32], 8).fill(&mut stream);
            assert!(text.iter().zip(&stream).all(|(text, byte)| text ^ byte == 0x5a), "{length} bytes");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_number_of_a_block_has_64_bits() {
        let Generator::Wide(simd, mut state) = Generator::new(&[3; 32], 9) else {
            println!("skipped: registers are narrow here");
            return;
        };
        let mut narrow = ChaCha20Rng::from_seed([3; 32]);
        narrow.set_stream(9);
        // Block 2^32 - 5.
        narrow.set_word_pos(((1 << 32) - 5) * 16);
        (state[12], state[13]) = (u32::MAX - 4, 0);
        let (mut ours, mut theirs) = ([0; REFILL], [0; REFILL]);
        for _ in 0..2 {
            wide::fill(simd, &mut state, &mut ours);
            narrow.fill_bytes(&mut theirs);
            assert_eq!(ours, theirs);
        }
    }
}
