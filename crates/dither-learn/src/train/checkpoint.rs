//! What a run needs to go on after a crash: everything but the key.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use dither_core::Receipt;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::train::error::TrainError;
use crate::train::key::{sync_folder, unusable};
use crate::train::optimizer::Optimizer;

/// The first bytes of a checkpoint.
const MAGIC: &[u8; 8] = b"dithchk1";
/// SHA-256 over everything before it ends a checkpoint.
const DIGEST: usize = 32;

/// What a checkpoint says about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The request that the run was charged for: plan, job and name of the key.
    pub request: String,
    /// [`DpPlan::hash`](crate::train::plan::DpPlan::hash).
    pub plan: String,
    /// How many steps have been executed.
    pub executed: u64,
    /// The charge in the ledger.
    pub charge: Receipt,
    /// The clipping norm of the next step, where it changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<f64>,
    /// How many numbers follow: weights, first moment, second moment, average.
    pub lengths: [usize; 4],
}

/// Writes a checkpoint: under another name, synced, and then put into place. A crash leaves the old one or the new one.
///
/// # Privacy
/// Weights and moments follow from noisy sums alone. What a checkpoint holds is as private as the steps it counts.
///
/// # Errors
/// [`TrainError::File`].
pub fn write(path: &Path, header: &Header, weights: &[f32], optimizer: &Optimizer) -> Result<(), TrainError> {
    let error = |error: std::io::Error| unusable(path, error);
    let text = serde_json::to_vec(header).map_err(|e| unusable(path, e))?;
    let arrays = [weights, &optimizer.first, &optimizer.second, &optimizer.average];
    let mut bytes = Vec::with_capacity(64 + text.len() + 4 * arrays.iter().map(|array| array.len()).sum::<usize>());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&text);
    arrays.iter().flat_map(|array| array.iter()).for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
    let digest = Sha256::digest(&bytes);
    bytes.extend_from_slice(&digest);
    let draft = path.with_extension("new");
    let mut file = File::create(&draft).map_err(error)?;
    file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(error)?;
    fs::rename(&draft, path).map_err(error)?;
    sync_folder(path)
}

/// Reads a checkpoint of a run into its weights and its optimiser, and gives its header.
///
/// # Errors
/// [`TrainError::Checkpoint`] for one that is damaged or of another run; nothing is changed then. [`TrainError::File`].
pub fn read(
    path: &Path,
    request: &str,
    plan: &str,
    weights: &mut [f32],
    optimizer: &mut Optimizer,
) -> Result<Header, TrainError> {
    let bytes = fs::read(path).map_err(|error| unusable(path, error))?;
    let wrong = |problem| TrainError::Checkpoint { path: path.to_owned(), problem };
    let cut = "is damaged or was cut off";
    let content = bytes.len().checked_sub(DIGEST).ok_or_else(|| wrong(cut))?;
    let (content, digest) = bytes.split_at(content);
    if Sha256::digest(content).as_slice() != digest {
        return Err(wrong(cut));
    }
    let rest = content.strip_prefix(MAGIC).ok_or_else(|| wrong("is of another format"))?;
    let (length, rest) = rest.split_first_chunk::<8>().ok_or_else(|| wrong(cut))?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok().filter(|length| *length <= rest.len());
    let (text, numbers) = rest.split_at(length.ok_or_else(|| wrong(cut))?);
    let header: Header = serde_json::from_slice(text).map_err(|_| wrong("is of another format"))?;
    if header.plan != plan {
        return Err(wrong("belongs to another plan"));
    }
    if header.request != request {
        return Err(wrong("belongs to another run, or to another key of this one"));
    }
    let into = [weights, &mut optimizer.first[..], &mut optimizer.second[..], &mut optimizer.average[..]];
    let lengths = [into[0].len(), into[1].len(), into[2].len(), into[3].len()];
    let (values, left) = numbers.as_chunks::<4>();
    if header.lengths != lengths || values.len() != lengths.iter().sum::<usize>() || !left.is_empty() {
        return Err(wrong("is of another model or optimiser"));
    }
    let mut values = values.iter().map(|bytes| f32::from_le_bytes(*bytes));
    for (place, value) in into.into_iter().flatten().zip(&mut values) {
        *place = value;
    }
    Ok(header)
}

/// SHA-256 of weights, in hexadecimal.
pub fn digest(weights: &[f32]) -> String {
    let mut hasher = Sha256::new();
    weights.iter().for_each(|value| hasher.update(value.to_le_bytes()));
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
