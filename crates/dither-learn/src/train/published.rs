//! Vocabularies of published models: WordPiece, byte-level BPE, and what else a `tokenizer.json` describes.
//!
//! # References
//! The format and what it means are those of the `tokenizers` library of Hugging Face, which does the work.

use std::path::Path;

use tokenizers::utils::truncation::TruncationParams;
use tokenizers::{PostProcessor, Tokenizer};

use crate::nn::Gguf;
use crate::train::error::TrainError;
use crate::train::files::PublicFile;
use crate::train::guarded::guarded;
use crate::train::key::unusable;

/// Of a text so many bytes are read for each token that is wanted.
const BYTES_PER_TOKEN: usize = 64;

/// A vocabulary that was read.
pub(crate) struct Published {
    tokenizer: Tokenizer,
    count: u32,
    length: usize,
    digest: String,
}

impl Published {
    /// The vocabulary in a file that lies there, for texts of so many tokens.
    pub fn new(path: &Path, file: &PublicFile, length: usize) -> Result<Self, TrainError> {
        let bytes = &file.bytes[..];
        let json = match Gguf::is(bytes) {
            true => Gguf::read(bytes).and_then(|file| file.tokenizer()).map_err(|error| unusable(path, error))?,
            false => String::new(),
        };
        let text = if json.is_empty() { bytes } else { json.as_bytes() };
        let mut tokenizer = Tokenizer::from_bytes(text).map_err(|error| unusable(path, error))?;
        let special = tokenizer.get_post_processor().map_or(0, |processor| processor.added_tokens(false));
        if special >= length {
            let problem = format!("{special} of {length} tokens are the marks of the vocabulary");
            return Err(TrainError::field("data.length", problem, "allow more tokens"));
        }
        // What the file says about lengths is for another use; and the text of a row holds no marks.
        tokenizer.with_padding(None).set_encode_special_tokens(true);
        let cut = TruncationParams { max_length: length, stride: 0, ..TruncationParams::default() };
        tokenizer.with_truncation(Some(cut)).map_err(|error| unusable(path, error))?;
        let ids = tokenizer.get_vocab(true).into_values();
        let count = ids.max().and_then(|last| last.checked_add(1)).ok_or_else(|| unusable(path, "it has no tokens"))?;
        let published = Self { tokenizer, count, length, digest: file.digest.clone() };
        match published.of("a").is_empty() {
            true => Err(unusable(path, "it finds no token in a text")),
            false => Ok(published),
        }
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// At most `length` tokens.
    ///
    /// # Privacy
    /// A function of the text alone, for every text: what the library fails or panics on has no tokens.
    pub fn of(&self, text: &str) -> Vec<u32> {
        let text = &text[..text.floor_char_boundary(self.length * BYTES_PER_TOKEN)];
        let ids = guarded(|| {
            let encoding = self.tokenizer.encode_fast(text, true).ok()?;
            Some(encoding.get_ids().to_vec())
        });
        let mut ids = ids.flatten().unwrap_or_default();
        ids.truncate(self.length);
        ids
    }
}
