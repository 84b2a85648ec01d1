//! Where random bits come from.

use dither_chacha::ChaCha;
use zeroize::{ZeroizeOnDrop, Zeroizing};

use crate::error::NoiseError;

/// A stream of independent, uniform random bits.
///
/// The samplers are generic over it so that tests can replay a stream. A release never is: its gate takes a
/// [`NoiseSource`] and nothing else.
pub trait BitSource {
    /// Fills the buffer with fresh random bytes.
    ///
    /// # Errors
    /// [`NoiseError::Unavailable`] when there are none; the contents of the buffer are then meaningless.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), NoiseError>;
}

/// ChaCha20 seeded by the operating system, for one request.
///
/// # Privacy
/// There is no other constructor, no seed can be given or read, and the state is neither printable nor
/// clonable and is overwritten when dropped. Make one per request: a copy of the process or of the machine
/// then draws different noise for the same request (a snapshot taken in the middle of one does not, which
/// the write-once answers of the ledger take care of).
///
/// ```
/// use dither_noise::{NoiseSource, uniform_below};
/// let mut source = NoiseSource::from_os()?;
/// assert!(uniform_below(&mut source, 6)? < 6);
/// # Ok::<(), dither_noise::NoiseError>(())
/// ```
///
/// ```compile_fail,E0277
/// println!("{:?}", dither_noise::NoiseSource::from_os().unwrap());
/// ```
///
/// # References
/// Bernstein, *ChaCha, a variant of Salsa20*, 2008. Garfinkel and Leclerc, *Randomness Concerns When Deploying
/// Differential Privacy*, 2020, section 4.
pub struct NoiseSource(ChaCha);

// The generator and its buffer are overwritten on drop.
const _: fn() = || {
    fn overwritten<T: ZeroizeOnDrop>() {}
    overwritten::<ChaCha>();
};

impl NoiseSource {
    /// A source with a fresh seed of 256 bits from the operating system.
    ///
    /// # Errors
    /// [`NoiseError::Unavailable`] when the operating system refuses.
    pub fn from_os() -> Result<Self, NoiseError> {
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(seed.as_mut()).map_err(|_| NoiseError::Unavailable)?;
        Ok(Self(ChaCha::new(&seed, 0)))
    }

    /// A fresh secret of the same quality, for the keyed hash that decides which rows of a unit are kept.
    ///
    /// ```
    /// use dither_noise::NoiseSource;
    /// let mut source = NoiseSource::from_os()?;
    /// assert_ne!(source.secret().as_bytes(), source.secret().as_bytes());
    /// # Ok::<(), dither_noise::NoiseError>(())
    /// ```
    pub fn secret(&mut self) -> Secret {
        let mut secret = Secret([0; 32]);
        self.0.fill(&mut secret.0);
        secret
    }
}

impl BitSource for NoiseSource {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), NoiseError> {
        self.0.fill(buffer);
        Ok(())
    }
}

/// 32 secret bytes that cannot be printed by accident and are overwritten when dropped.
#[derive(ZeroizeOnDrop)]
pub struct Secret([u8; 32]);

impl Secret {
    pub(crate) fn zero() -> Self {
        Self([0; 32])
    }

    pub(crate) fn as_mut(&mut self) -> &mut [u8; 32] {
        &mut self.0
    }

    /// The bytes, to key a hash with.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}
