//! Byte streams that tests can replay or break.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};

/// A predictable stream of good random bytes.
///
/// ```
/// use dither_testing::SeededBytes;
/// let (mut a, mut b) = ([0; 8], [0; 8]);
/// SeededBytes::new(7).fill(&mut a);
/// SeededBytes::new(7).fill(&mut b);
/// assert_eq!(a, b);
/// ```
pub struct SeededBytes(ChaCha20Rng);

impl SeededBytes {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(ChaCha20Rng::seed_from_u64(seed))
    }

    /// Fills the buffer with the next bytes.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        self.0.fill_bytes(buffer);
    }

    /// A uniform float in [0, 1) with 53 bits, as naive samplers use it.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A broken generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StubBytes {
    /// The same byte for ever.
    Constant(u8),
    /// The same two bytes in turns.
    Alternating(u8, u8),
    /// No bytes at all.
    Failing,
}

impl StubBytes {
    /// The broken generators that every sampler must survive.
    pub const ALL: [Self; 5] =
        [Self::Constant(0), Self::Constant(0xFF), Self::Constant(1), Self::Alternating(0, 0xFF), Self::Failing];

    /// Fills the buffer; `false` if there are no bytes.
    pub fn fill(&mut self, buffer: &mut [u8]) -> bool {
        match *self {
            Self::Constant(byte) => buffer.fill(byte),
            Self::Alternating(first, second) => {
                buffer.fill(first);
                *self = Self::Alternating(second, first);
            }
            Self::Failing => return false,
        }
        true
    }
}
