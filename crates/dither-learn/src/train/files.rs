//! The public files of a job, weights and vocabularies: each is read, hashed and parsed once.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::train::error::TrainError;
use crate::train::key::unusable;
use crate::train::lines::open;
use crate::train::load::Data;
use crate::train::tokens::{Tokens, Vocabulary};

/// A file that was read.
pub(crate) struct PublicFile {
    pub bytes: Vec<u8>,
    /// SHA-256 of the bytes, in hexadecimal.
    pub digest: String,
}

/// What was read so far.
#[derive(Default)]
pub(crate) struct PublicFiles {
    files: Vec<(PathBuf, Arc<PublicFile>)>,
    vocabularies: Vec<(Tokens, usize, Arc<Vocabulary>)>,
}

impl PublicFiles {
    /// A file, unpacked if it is packed.
    pub fn read(&mut self, path: &Path) -> Result<Arc<PublicFile>, TrainError> {
        if let Some((_, file)) = self.files.iter().find(|(known, _)| known == path) {
            return Ok(file.clone());
        }
        let mut bytes = Vec::new();
        open(path)?.read_to_end(&mut bytes).map_err(|error| unusable(path, error))?;
        let digest = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let file = Arc::new(PublicFile { bytes, digest });
        self.files.push((path.to_owned(), file.clone()));
        Ok(file)
    }

    /// The vocabulary that texts are read with; none for data of another kind. Paths are relative to `base`.
    pub fn vocabulary(&mut self, data: &Data, base: &Path) -> Result<Option<Arc<Vocabulary>>, TrainError> {
        let Data::Text { tokens, length, .. } = data else { return Ok(None) };
        let known = self.vocabularies.iter().find(|(known, long, _)| (known, long) == (tokens, length));
        if let Some((.., vocabulary)) = known {
            return Ok(Some(vocabulary.clone()));
        }
        let vocabulary = Arc::new(tokens.open_among(self, base, *length)?);
        self.vocabularies.push((tokens.clone(), *length, vocabulary.clone()));
        Ok(Some(vocabulary))
    }

    /// Gives back the memory of all bytes. Vocabularies stay.
    pub fn forget_bytes(&mut self) {
        self.files.clear();
    }
}
