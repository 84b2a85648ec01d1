//! Why no noise could be drawn.

use dither_core::{Audience, Explain};

/// Why no noise could be drawn. Nothing may be released then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoiseError {
    /// The operating system or the generator gave no random bits.
    #[error("no randomness is available")]
    Unavailable,
    /// The random bits repeat themselves: a loop that ends with overwhelming probability did not end.
    #[error("the source of randomness is stuck")]
    Exhausted,
    /// A parameter is not a probability or a range, or a draw leaves 128 bits.
    #[error("a noise parameter is out of range")]
    OutOfRange,
}

impl Explain for NoiseError {
    fn code(&self) -> &'static str {
        match self {
            Self::Unavailable => "noise-unavailable",
            Self::Exhausted => "noise-exhausted",
            Self::OutOfRange => "noise-out-of-range",
        }
    }
    fn hint(&self) -> Option<String> {
        match self {
            Self::Unavailable | Self::Exhausted => Some("check the random number source of this machine".into()),
            Self::OutOfRange => Some("use a larger epsilon or smaller bounds".into()),
        }
    }
    fn audience(&self) -> Audience {
        Audience::Operator
    }
}
