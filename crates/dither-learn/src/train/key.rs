//! The one secret of a run, in a file beside the ledger.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dither_core::RequestId;
use dither_noise::{JobKey, hazmat};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::train::error::TrainError;

/// The key of a run, and by what its request and its table are recognised.
///
/// Whoever opens it has it alone until it is dropped. Samples and noise come from a key of their own for each charged
/// request.
///
/// The file lies in the folder `….jobs` beside the ledger and is for its owner only (mode 0600): whoever reads it can take
/// the noise of the run away again. It is never part of a checkpoint, which may travel with the model. It is durable
/// before the run is charged. A run without its file cannot be resumed: a new key is a new name, and a new charge.
pub struct JobFile {
    path: PathBuf,
    key: JobKey,
    request: Option<String>,
    table: Option<String>,
    /// Locked; the file itself is replaced when it is written.
    _alone: Option<File>,
}

/// The file as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    key: String,
    #[serde(default)]
    request: Option<String>,
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

    /// The file of a job, after creating it with a fresh key if there is none.
    ///
    /// # Errors
    /// [`TrainError::File`], also where another process has it open, and what the system says when it has no randomness.
    pub fn open(ledger: &Path, name: &str) -> Result<Self, TrainError> {
        let path = place(ledger, name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| unusable(folder, error))?;
        }
        let lock = path.with_extension("lock");
        let alone = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&lock);
        let alone = alone.map_err(|error| unusable(&lock, error))?;
        locked(&alone).map_err(|_| unusable(&lock, "this job is being run by another process: wait for its end"))?;
        if path.exists() {
            return Self::read(path, Some(alone));
        }
        let made = Self { path, key: JobKey::from_os()?, request: None, table: None, _alone: Some(alone) };
        made.write()?;
        Ok(made)
    }

    /// The file of a job that somebody else may have open, to look at.
    ///
    /// # Errors
    /// [`TrainError::File`].
    pub fn look(ledger: &Path, name: &str) -> Result<Self, TrainError> {
        Self::read(place(ledger, name), None)
    }

    fn read(path: PathBuf, alone: Option<File>) -> Result<Self, TrainError> {
        let text = fs::read_to_string(&path).map_err(|error| unusable(&path, error))?;
        let text = zeroize::Zeroizing::new(text);
        let stored: Stored = serde_json::from_str(&text).map_err(|_| unusable(&path, "it is no key of a job"))?;
        let bytes = bytes_of(&stored.key).filter(|_| stored.version == 1);
        let key = hazmat::restore_key(bytes.ok_or_else(|| unusable(&path, "it is no key of a job"))?);
        Ok(Self { path, key, request: stored.request.clone(), table: stored.table.clone(), _alone: alone })
    }

    /// The key.
    pub fn key(&self) -> &JobKey {
        &self.key
    }

    /// The key of the samples and the noise of a charged request: another request under this file has another.
    ///
    /// # Privacy
    /// Two releases with the same noise cancel in their difference. What a request is made of, such as the weights that a run
    /// begins with or the version of the program, is not in the name of the file, so that the file alone is not enough.
    ///
    /// # References
    /// SHA-256 of a secret and a name, each of 32 bytes, as a pseudorandom function (both lengths are fixed).
    pub(crate) fn of(&self, request: RequestId) -> JobKey {
        let mut hasher = Sha256::new();
        hasher.update(hazmat::key_bytes(&self.key));
        hasher.update(request.as_bytes());
        hazmat::restore_key(hasher.finalize().into())
    }

    /// Binds the job to its request before it is charged, or recognises it.
    ///
    /// # Errors
    /// [`TrainError::JobChanged`] for another request than the job was begun with, and [`TrainError::File`].
    pub(crate) fn bind(&mut self, request: RequestId) -> Result<(), TrainError> {
        let request = request.to_string();
        match &self.request {
            Some(known) if *known == request => Ok(()),
            Some(_) => Err(TrainError::JobChanged),
            None => {
                self.request = Some(request);
                self.write()
            }
        }
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
                self.write()
            }
        }
    }

    /// Writes the file under another name, syncs it and puts it into place.
    fn write(&self) -> Result<(), TrainError> {
        let error = |error: std::io::Error| unusable(&self.path, error);
        let hex: String = hazmat::key_bytes(&self.key).iter().map(|byte| format!("{byte:02x}")).collect();
        let stored = Stored { version: 1, key: hex, request: self.request.clone(), table: self.table.clone() };
        let text = zeroize::Zeroizing::new(serde_json::to_vec(&stored).map_err(|e| unusable(&self.path, e))?);
        let draft = self.path.with_extension("new");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft).map_err(error)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(error)?;
        fs::rename(&draft, &self.path).map_err(error)?;
        sync_folder(&self.path)
    }
}

/// Makes the names in the folder of a file durable.
pub(crate) fn sync_folder(path: &Path) -> Result<(), TrainError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| unusable(folder, error))
}

/// Locks a file; a process that is just being started may hold what is open here for a moment.
fn locked(file: &File) -> Result<(), TryLockError> {
    for _ in 0..50 {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(20)),
            other => return other,
        }
    }
    file.try_lock()
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
