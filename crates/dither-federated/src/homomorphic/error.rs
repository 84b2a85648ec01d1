//! Why a sum under encryption was refused or given up.

use dither_core::{Audience, Explain};
use dither_noise::NoiseError;

use super::MAX_SUM;
use crate::secagg::ProtocolError;

/// Why a sum under encryption was refused or given up.
///
/// It names clients and sizes, which the aggregator knows anyway, and never a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SumError {
    /// A message of another session, of a stranger, sent twice or of the wrong size.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// Too few clients sent a contribution. Nothing is decrypted.
    #[error("{found} contributions arrived and {needed} are needed; nothing is decrypted")]
    TooFew {
        /// How many arrived.
        found: u32,
        /// The threshold.
        needed: u32,
    },
    /// A sum of more contributions than the session has clients.
    #[error("a sum of {found} contributions in a session of {most} clients")]
    TooMany {
        /// How many there are said to be.
        found: u32,
        /// How many clients there are.
        most: u32,
    },
    /// A number that no sum can hold.
    #[error("a number is beyond ±{MAX_SUM}")]
    OutOfRange,
    /// Bytes that are no key or ciphertext of this scheme and length.
    #[error("the bytes are no key or ciphertext of these parameters")]
    Malformed,
    /// The library of rings refused its parameters, which are constants.
    #[error("the ring of ciphertexts cannot be set up")]
    Ring,
}

impl From<NoiseError> for SumError {
    fn from(error: NoiseError) -> Self {
        Self::Protocol(error.into())
    }
}

impl Explain for SumError {
    fn code(&self) -> &'static str {
        match self {
            Self::Protocol(error) => error.code(),
            Self::TooFew { .. } => "sum-too-few",
            Self::TooMany { .. } => "sum-too-many",
            Self::OutOfRange => "sum-out-of-range",
            Self::Malformed => "sum-malformed",
            Self::Ring => "sum-ring",
        }
    }
    fn hint(&self) -> Option<String> {
        match self {
            Self::Protocol(error) => error.hint(),
            Self::TooFew { .. } => Some("start a new session, with more clients or a lower threshold".into()),
            Self::TooMany { .. } | Self::Malformed => Some("drop the sender, or start a new session".into()),
            Self::OutOfRange => Some("use larger steps, or fewer of them".into()),
            Self::Ring => None,
        }
    }
    fn audience(&self) -> Audience {
        Audience::Operator
    }
}
