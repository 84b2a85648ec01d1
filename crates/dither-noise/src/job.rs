//! Randomness that a job can draw again after a crash.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use dither_chacha::ChaCha;
use zeroize::{ZeroizeOnDrop, Zeroizing};

use crate::error::NoiseError;
use crate::source::{BitSource, NoiseSource, Secret};

/// The secret key of one job, from the operating system, and from it any number of independent streams.
///
/// A training run makes thousands of draws over hours. Killed and resumed, it must come to the very same samples and
/// noise: a step that is executed twice with different noise is two releases, one of which nobody charged.
///
/// # Privacy
/// What the absence of a seed protects is that nobody can know or choose the noise, and that no two releases share it.
/// A key keeps both as long as it is secret, is used for one charged request on one table, and is never used for
/// another: the name of the request contains [`JobKey::name`], so that a new key is a new charge. Nothing here takes
/// bytes for a key; storing one and reading it back is in [`hazmat`](crate::hazmat), for the one crate that runs jobs.
///
/// ```
/// use dither_noise::{BitSource, JobKey, Purpose};
/// let key = JobKey::from_os()?;
/// let (mut a, mut b) = ([0; 8], [0; 8]);
/// key.stream(Purpose::Noise, 3, 0).fill(&mut a)?;
/// key.stream(Purpose::Noise, 3, 0).fill(&mut b)?;
/// assert_eq!(a, b, "a step that is repeated draws what it drew");
/// key.stream(Purpose::Noise, 4, 0).fill(&mut b)?;
/// assert_ne!(a, b);
/// # Ok::<(), dither_noise::NoiseError>(())
/// ```
///
/// ```compile_fail,E0277
/// println!("{:?}", dither_noise::JobKey::from_os().unwrap());
/// ```
///
/// # References
/// Bernstein, *ChaCha, a variant of Salsa20*, 2008: keys, streams and positions select independent blocks.
#[derive(ZeroizeOnDrop)]
pub struct JobKey(pub(crate) [u8; 32]);

/// What a stream is for. Streams of different purposes are independent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The public name of the job.
    Name = 0,
    /// Which rows of a unit take part.
    Rows = 1,
    /// Which units are in the sample of a step.
    Sample = 2,
    /// Which part of the sample a unit is dealt to.
    Deal = 3,
    /// The noise of a step.
    Noise = 4,
    /// The digest by which a table is recognised.
    Table = 5,
}

impl JobKey {
    /// A fresh key.
    ///
    /// # Errors
    /// [`NoiseError::Unavailable`] when the operating system refuses.
    pub fn from_os() -> Result<Self, NoiseError> {
        let mut key = Self([0; 32]);
        NoiseSource::from_os()?.fill(&mut key.0)?;
        Ok(key)
    }

    /// The stream of a purpose, a step and a part of the step.
    pub fn stream(&self, purpose: Purpose, step: u64, part: u64) -> JobStream {
        let mut outer = ChaCha20Rng::from_seed(self.0);
        outer.set_stream(purpose as u64);
        // Eight words of 32 bits are a key; a step is at most 2^64, far inside the 2^68 words of a stream.
        outer.set_word_pos(u128::from(step) * 8);
        let mut key = Zeroizing::new([0; 32]);
        outer.fill_bytes(key.as_mut());
        JobStream(ChaCha::new(&key, part))
    }

    /// The secret of a purpose, to key a hash with.
    pub fn secret(&self, purpose: Purpose) -> Secret {
        let mut secret = Secret::zero();
        self.stream(purpose, 0, 0).0.fill(secret.as_mut());
        secret
    }

    /// A public name: another key has another one, and it tells nothing about the key.
    pub fn name(&self) -> [u8; 16] {
        let mut name = [0; 16];
        self.stream(Purpose::Name, 0, 0).0.fill(&mut name);
        name
    }
}

/// One stream of a [`JobKey`].
pub struct JobStream(ChaCha);

impl BitSource for JobStream {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), NoiseError> {
        self.0.fill(buffer);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(key: &JobKey, purpose: Purpose, step: u64, part: u64) -> [u8; 16] {
        let mut bytes = [0; 16];
        key.stream(purpose, step, part).fill(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn fp_11_streams_of_a_job_differ_and_two_jobs_share_none() {
        let keys = [JobKey::from_os().unwrap(), JobKey::from_os().unwrap()];
        let purposes = [Purpose::Name, Purpose::Rows, Purpose::Sample, Purpose::Deal, Purpose::Noise, Purpose::Table];
        let mut seen = std::collections::BTreeSet::new();
        for key in &keys {
            for purpose in purposes {
                for step in [0, 1, 2, 1 << 32, u64::MAX] {
                    for part in [0, 1, u64::MAX] {
                        assert!(seen.insert(first(key, purpose, step, part)), "{purpose:?} {step} {part}");
                        assert_eq!(first(key, purpose, step, part), first(key, purpose, step, part));
                    }
                }
            }
        }
    }

    #[test]
    fn a_stored_key_is_the_same_key() {
        let key = JobKey::from_os().unwrap();
        let restored = crate::hazmat::restore_key(*crate::hazmat::key_bytes(&key));
        assert_eq!(
            (first(&key, Purpose::Noise, 7, 1), key.name()),
            (first(&restored, Purpose::Noise, 7, 1), restored.name())
        );
    }
}
