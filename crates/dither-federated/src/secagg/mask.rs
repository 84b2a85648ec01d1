//! Masks: key streams added to vectors modulo 2^32.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use zeroize::Zeroizing;

use super::parameters::ClientId;

/// Whether a mask is added or taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Plus,
    Minus,
}

impl Sign {
    /// The sign of the pair mask in the vector of `own`: of two clients one adds what the other takes away.
    pub fn of_pair(own: ClientId, other: ClientId) -> Self {
        if own < other { Self::Plus } else { Self::Minus }
    }

    pub fn opposite(self) -> Self {
        match self {
            Self::Plus => Self::Minus,
            Self::Minus => Self::Plus,
        }
    }
}

/// Adds the mask of a key to a vector, or takes it away.
pub(super) fn apply(key: &[u8; 32], sign: Sign, values: &mut [u32]) {
    let mut stream = ChaCha20Rng::from_seed(*key);
    let mut buffer = Zeroizing::new([0; 4096]);
    for chunk in values.chunks_mut(buffer.len() / 4) {
        let bytes = &mut buffer[..4 * chunk.len()];
        stream.fill_bytes(bytes);
        for (value, word) in chunk.iter_mut().zip(bytes.chunks_exact(4)) {
            let mask = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            *value = match sign {
                Sign::Plus => value.wrapping_add(mask),
                Sign::Minus => value.wrapping_sub(mask),
            };
        }
    }
}
