//! Texts to tokens.

use serde::{Deserialize, Serialize};

/// How a text becomes tokens. Both ways are public: no vocabulary is read off the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Tokens {
    /// A token for each byte, from 1 to 256; 0 pads.
    Bytes,
    /// A token for each word between blanks, by a hash of it in lower case into so many buckets, from 1; 0 pads.
    Words {
        /// How many buckets.
        buckets: u32,
    },
}

impl Tokens {
    /// How many tokens there are, the padding included.
    pub fn count(&self) -> u32 {
        match self {
            Self::Bytes => 257,
            Self::Words { buckets } => buckets.saturating_add(1),
        }
    }

    /// The tokens of a text, at most `length`; at least one, which is padding for an empty text.
    pub(crate) fn of(&self, text: &str, length: usize) -> (Vec<u32>, u32) {
        let mut ids: Vec<u32> = match self {
            Self::Bytes => text.bytes().take(length).map(|byte| u32::from(byte) + 1).collect(),
            Self::Words { buckets } => {
                // FNV-1a, which is the same everywhere.
                let hash = |word: &str| {
                    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
                    word.to_lowercase().bytes().fold(0xcbf2_9ce4_8422_2325, step)
                };
                let id = |word: &str| (hash(word) % u64::from(*buckets)) as u32 + 1;
                text.split_whitespace().take(length).map(id).collect()
            }
        };
        let real = ids.len().max(1) as u32;
        ids.resize(length, 0);
        (ids, real)
    }
}
