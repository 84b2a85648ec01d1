//! The one secret of a run, in a file beside the ledger.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use dither_noise::{JobKey, hazmat};
use serde::{Deserialize, Serialize};

use crate::train::error::TrainError;

/// The key of a run, and by what its table is recognised.
///
/// The file lies in the folder `….jobs` beside the ledger and is for its owner only (mode 0600): whoever reads it can take
/// the noise of the run away again. It is never part of a checkpoint, which may travel with the model. It is durable
/// before the run is charged. A run without its file cannot be resumed: a new key is a new name, and a new charge.
pub struct JobFile {
    path: PathBuf,
    key: JobKey,
    table: Option<String>,
}

/// The file as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    key: String,
    table: Option<String>,
}

impl Drop for Stored {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.key);
    }
}

impl JobFile {
    /// Whether there is a file of this name for a ledger.
    pub fn exists(ledger: &Path, name: &str) -> bool {
        place(ledger, name).exists()
    }

    /// Removes the file of a job that was refused, so that it can be begun later.
    pub(crate) fn remove(self) -> Result<(), TrainError> {
        fs::remove_file(&self.path).map_err(|error| unusable(&self.path, error))
    }

    /// The file of a job, after creating it with a fresh key if there is none. Two processes that create it get one key.
    ///
    /// # Errors
    /// [`TrainError::File`], and what the system says when it has no randomness.
    pub fn open(ledger: &Path, name: &str) -> Result<Self, TrainError> {
        let path = place(ledger, name);
        if !path.exists() {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(|error| unusable(folder, error))?;
            }
            let made = Self { path: path.clone(), key: JobKey::from_os()?, table: None };
            made.write(false)?;
        }
        let text = fs::read_to_string(&path).map_err(|error| unusable(&path, error))?;
        let text = zeroize::Zeroizing::new(text);
        let stored: Stored = serde_json::from_str(&text).map_err(|_| unusable(&path, "it is no key of a job"))?;
        let bytes = bytes_of(&stored.key).filter(|_| stored.version == 1);
        let key = hazmat::restore_key(bytes.ok_or_else(|| unusable(&path, "it is no key of a job"))?);
        Ok(Self { path, key, table: stored.table.clone() })
    }

    /// The key.
    pub fn key(&self) -> &JobKey {
        &self.key
    }

    /// The key, for the gate.
    pub(crate) fn key_mut(&mut self) -> &mut JobKey {
        &mut self.key
    }

    /// The key once more, for the sampler.
    pub(crate) fn copy(&self) -> JobKey {
        hazmat::restore_key(*hazmat::key_bytes(&self.key))
    }

    /// Recognises the table by a keyed digest of what was read, or remembers it the first time.
    ///
    /// # Privacy
    /// The same noise on two versions of a table would cancel in their difference. So a run goes on with the table that
    /// it began with, or not at all.
    ///
    /// # Errors
    /// [`TrainError::TableChanged`] and [`TrainError::File`].
    pub fn recognise(&mut self, table: &str) -> Result<(), TrainError> {
        match &self.table {
            Some(known) if known == table => Ok(()),
            Some(_) => Err(TrainError::TableChanged),
            None => {
                self.table = Some(table.to_owned());
                self.write(true)
            }
        }
    }

    /// Writes the file under another name, syncs it and puts it into place; an existing one is kept unless it is to be
    /// replaced.
    fn write(&self, replace: bool) -> Result<(), TrainError> {
        let error = |error: std::io::Error| unusable(&self.path, error);
        let hex: String = hazmat::key_bytes(&self.key).iter().map(|byte| format!("{byte:02x}")).collect();
        let stored = Stored { version: 1, key: hex, table: self.table.clone() };
        let text = zeroize::Zeroizing::new(serde_json::to_vec(&stored).map_err(|e| unusable(&self.path, e))?);
        let draft = self.path.with_extension(format!("new-{}", std::process::id()));
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft).map_err(error)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(error)?;
        if replace {
            fs::rename(&draft, &self.path).map_err(error)?;
        } else {
            // A link is refused where there is a file already: then that one counts.
            match fs::hard_link(&draft, &self.path) {
                Err(failed) if failed.kind() != std::io::ErrorKind::AlreadyExists => return Err(error(failed)),
                _ => fs::remove_file(&draft).map_err(error)?,
            }
        }
        sync_folder(&self.path)
    }
}

/// Makes the names in the folder of a file durable.
pub(crate) fn sync_folder(path: &Path) -> Result<(), TrainError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| unusable(folder, error))
}

/// A file that cannot be used.
pub(crate) fn unusable(path: &Path, problem: impl ToString) -> TrainError {
    TrainError::File { path: path.to_owned(), problem: problem.to_string() }
}

fn place(ledger: &Path, name: &str) -> PathBuf {
    let mut folder = ledger.as_os_str().to_owned();
    folder.push(".jobs");
    PathBuf::from(folder).join(format!("{name}.json"))
}

fn bytes_of(hex: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}
