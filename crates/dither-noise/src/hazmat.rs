//! Storing the key of a job and reading it back: the only ways to randomness that is not fresh.
//!
//! Only `dither-learn` may call them; `cargo xtask tidy` fails on any other caller. Whoever holds the bytes can take the
//! noise of the job away again: they belong into a file that only the owner of the data can read.

use crate::job::JobKey;

/// The bytes of a key, to store them.
pub fn key_bytes(key: &JobKey) -> &[u8; 32] {
    &key.0
}

/// The key that was stored.
pub fn restore_key(bytes: [u8; 32]) -> JobKey {
    JobKey(bytes)
}
