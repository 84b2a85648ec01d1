//! Texts to tokens.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::train::error::TrainError;
use crate::train::files::PublicFiles;
use crate::train::published::Published;

/// How a text becomes tokens. All ways are public: no vocabulary is read off the data.
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
    /// The vocabulary of a published model: a `tokenizer.json`, or a GGUF file that holds one. What pads is not a token.
    File(PathBuf),
}

/// Tokens whose file, if there is one, was read.
pub struct Vocabulary(Kind);

enum Kind {
    Bytes,
    Words(u32),
    Published(Box<Published>),
}

impl Tokens {
    /// Reads the vocabulary, for texts of at most so many tokens. Paths are relative to `base`.
    ///
    /// # Errors
    /// [`TrainError::Field`] and [`TrainError::File`]: a file that is none or that has no room for a token of a text.
    pub fn open(&self, base: &Path, length: usize) -> Result<Vocabulary, TrainError> {
        self.open_among(&mut PublicFiles::default(), base, length)
    }

    /// The same, where files that were read already are not read again.
    pub(crate) fn open_among(
        &self,
        files: &mut PublicFiles,
        base: &Path,
        length: usize,
    ) -> Result<Vocabulary, TrainError> {
        if !(1..=1 << 16).contains(&length) || matches!(self, Self::Words { buckets: 0 }) {
            return Err(TrainError::field("data.length", "no token is read", "use 1 to 65536 tokens"));
        }
        Ok(Vocabulary(match self {
            Self::Bytes => Kind::Bytes,
            Self::Words { buckets } => Kind::Words(*buckets),
            Self::File(file) => {
                let path = base.join(file);
                Kind::Published(Box::new(Published::new(&path, &*files.read(&path)?, length)?))
            }
        }))
    }
}

impl Vocabulary {
    /// How many tokens there are, the padding included.
    pub fn count(&self) -> u32 {
        match &self.0 {
            Kind::Bytes => 257,
            Kind::Words(buckets) => buckets.saturating_add(1),
            Kind::Published(published) => published.count(),
        }
    }

    /// SHA-256 of the file; empty where there is none.
    pub fn digest(&self) -> &str {
        match &self.0 {
            Kind::Published(published) => published.digest(),
            _ => "",
        }
    }

    /// The tokens of a text, padded to `length`, and how many are real: at least one, which is 0 for a text without any.
    pub fn of(&self, text: &str, length: usize) -> (Vec<u32>, u32) {
        let mut ids: Vec<u32> = match &self.0 {
            Kind::Bytes => text.bytes().take(length).map(|byte| u32::from(byte) + 1).collect(),
            Kind::Words(buckets) => {
                // FNV-1a, which is the same everywhere.
                let hash = |word: &str| {
                    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
                    word.to_lowercase().bytes().fold(0xcbf2_9ce4_8422_2325, step)
                };
                let id = |word: &str| (hash(word) % u64::from(*buckets)) as u32 + 1;
                text.split_whitespace().take(length).map(id).collect()
            }
            Kind::Published(published) => published.of(text),
        };
        let real = ids.len().max(1) as u32;
        ids.resize(length, 0);
        (ids, real)
    }
}
