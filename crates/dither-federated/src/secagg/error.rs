//! Why a message was refused or a session given up.

use dither_core::{Audience, Explain};
use dither_noise::NoiseError;

use super::parameters::ClientId;

/// Why a message was refused or a session given up.
///
/// It names clients and sizes, which the server knows anyway, and never a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The parameters of a session are inconsistent.
    #[error("{field} must be {problem}")]
    InvalidParameters {
        /// The parameter.
        field: &'static str,
        /// What a valid value would be.
        problem: &'static str,
    },
    /// The message is of another session, such as an earlier one.
    #[error("the message belongs to another session")]
    ForeignSession,
    /// The message names a client that does not take part at this point.
    #[error("client {0} does not take part")]
    UnknownClient(ClientId),
    /// The message is for another client.
    #[error("the message is for client {0}")]
    WrongReceiver(ClientId),
    /// A second message of one kind from one client.
    #[error("client {0} has sent its message already")]
    Duplicate(ClientId),
    /// A list is not in strictly ascending order of clients.
    #[error("a list of clients is not in strictly ascending order")]
    Unordered,
    /// A message has the wrong length.
    #[error("a message has {found} entries in place of {expected}")]
    WrongSize {
        /// How many there should be.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// A public key that others can compute the secret of, that two clients use, or that is not the client's own.
    #[error("a public key of client {0} is degenerate, used twice or replaced")]
    BadKey(ClientId),
    /// An encrypted share was altered, or is not for this pair of clients and this session.
    #[error("a share from client {0} was altered, or is not for this client and session")]
    NotAuthentic(ClientId),
    /// A number that is not one of the field.
    #[error("a share from client {0} is not a number of the field")]
    BadShare(ClientId),
    /// Shares that do not belong to the secret that was announced.
    #[error("the shares of a secret of client {0} do not fit together")]
    WrongSecret(ClientId),
    /// Too few clients are left. Nothing is unmasked.
    #[error("{found} clients are left and {needed} are needed; nothing is unmasked")]
    TooFew {
        /// How many are left.
        found: usize,
        /// The threshold.
        needed: usize,
    },
    /// Somebody asked for both secrets of one client, which together unmask its input.
    #[error("both secrets of client {0} were asked for")]
    BothSecrets(ClientId),
    /// A request to unmask does not name exactly the clients that take part.
    #[error("the request does not name each client that takes part as survivor or as dropout")]
    WrongMembers,
    /// Too few survivors saw the same request. Nothing is unmasked.
    #[error("{found} survivors confirm the request and {needed} are needed; nothing is unmasked")]
    Inconsistent {
        /// How many confirm it, the client itself included.
        found: usize,
        /// The threshold.
        needed: usize,
    },
    /// No randomness.
    #[error(transparent)]
    Noise(#[from] NoiseError),
}

impl Explain for ProtocolError {
    fn code(&self) -> &'static str {
        match self {
            Self::InvalidParameters { .. } => "secagg-parameters",
            Self::ForeignSession => "secagg-foreign-session",
            Self::UnknownClient(_) => "secagg-unknown-client",
            Self::WrongReceiver(_) => "secagg-wrong-receiver",
            Self::Duplicate(_) => "secagg-duplicate",
            Self::Unordered => "secagg-unordered",
            Self::WrongSize { .. } => "secagg-wrong-size",
            Self::BadKey(_) => "secagg-bad-key",
            Self::NotAuthentic(_) => "secagg-not-authentic",
            Self::BadShare(_) => "secagg-bad-share",
            Self::WrongSecret(_) => "secagg-wrong-secret",
            Self::TooFew { .. } => "secagg-too-few",
            Self::BothSecrets(_) => "secagg-both-secrets",
            Self::WrongMembers => "secagg-wrong-members",
            Self::Inconsistent { .. } => "secagg-inconsistent",
            Self::Noise(error) => error.code(),
        }
    }
    fn hint(&self) -> Option<String> {
        match self {
            Self::InvalidParameters { field, problem } => Some(format!("give {field} a value that is {problem}")),
            Self::TooFew { .. } => Some("start a new session, with more clients or a lower threshold".into()),
            Self::Noise(error) => error.hint(),
            Self::Duplicate(_) => None,
            _ => Some("drop the client, or start a new session".into()),
        }
    }
    fn audience(&self) -> Audience {
        Audience::Operator
    }
}
