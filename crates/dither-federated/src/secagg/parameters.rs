//! What all parties of a session agree on.

use std::fmt;

use dither_noise::NoiseSource;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::ProtocolError;

/// The number of a client in one session, from zero on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientId(pub u32);

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The public parameters of one session.
///
/// Every key is derived from a digest of all of them, so that parties which disagree on any cannot read each other.
///
/// ```
/// use dither_federated::secagg::Parameters;
/// use dither_noise::NoiseSource;
/// let mut source = NoiseSource::from_os()?;
/// let parameters = Parameters::new(10, 7, 2, 1_000, &mut source)?;
/// assert_eq!((parameters.threshold(), parameters.honest()), (7, 5));
/// // 2 · 6 is not more than 10 + 2.
/// assert!(Parameters::new(10, 6, 2, 1_000, &mut source).is_err());
/// # Ok::<(), dither_federated::secagg::ProtocolError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Fields", into = "Fields")]
pub struct Parameters {
    fields: Fields,
    digest: [u8; 32],
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    session: [u8; 32],
    clients: u32,
    threshold: u32,
    colluding: u32,
    dimension: u32,
}

impl Parameters {
    /// The most clients of one session: the work of each grows with their number, that of the server with its square.
    pub const MAX_CLIENTS: u32 = 1 << 12;
    /// The longest vector, a gibibyte of it.
    pub const MAX_DIMENSION: u32 = 1 << 28;

    /// Parameters of a fresh session.
    ///
    /// `clients` are asked to take part and `threshold` of them, t, must be left until the end. At most `colluding` of them
    /// may share what they know with the server. `dimension` is the length of every vector.
    ///
    /// # Errors
    /// [`ProtocolError::InvalidParameters`] unless all of these hold: t ≤ `clients` ≤ [`Self::MAX_CLIENTS`];
    /// t ≥ `colluding` + 2, so that the sum hides at least two honest inputs in each other;
    /// 2t > `clients` + `colluding`, so that nobody gets t shares of both secrets of a client by telling different clients
    /// different things; 1 ≤ `dimension` ≤ [`Self::MAX_DIMENSION`].
    pub fn new(
        clients: u32,
        threshold: u32,
        colluding: u32,
        dimension: u32,
        source: &mut NoiseSource,
    ) -> Result<Self, ProtocolError> {
        let session = *source.secret().as_bytes();
        Self::try_from(Fields { session, clients, threshold, colluding, dimension })
    }

    /// How many clients are asked to take part.
    pub fn clients(&self) -> u32 {
        self.fields.clients
    }

    /// How many clients must be left until the end.
    pub fn threshold(&self) -> u32 {
        self.fields.threshold
    }

    /// How many clients may collude with the server.
    pub fn colluding(&self) -> u32 {
        self.fields.colluding
    }

    /// The length of every vector.
    pub fn dimension(&self) -> u32 {
        self.fields.dimension
    }

    /// How many honest clients every sum has at least: threshold less colluding.
    pub fn honest(&self) -> u32 {
        self.fields.threshold - self.fields.colluding
    }

    /// What names the session in every message: a digest of all parameters.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Checks that a message is of this session.
    pub(crate) fn check_session(&self, session: &[u8; 32]) -> Result<(), ProtocolError> {
        if *session == self.digest { Ok(()) } else { Err(ProtocolError::ForeignSession) }
    }

    /// Checks that so many clients are enough.
    pub(super) fn check_enough(&self, found: usize) -> Result<(), ProtocolError> {
        let needed = self.fields.threshold as usize;
        if found >= needed { Ok(()) } else { Err(ProtocolError::TooFew { found, needed }) }
    }

    /// Checks that a client has a number of this session.
    pub(crate) fn check_client(&self, client: ClientId) -> Result<(), ProtocolError> {
        if client.0 < self.fields.clients { Ok(()) } else { Err(ProtocolError::UnknownClient(client)) }
    }

    /// Checks that a vector has the right length.
    pub(crate) fn check_vector(&self, found: usize) -> Result<(), ProtocolError> {
        let expected = self.fields.dimension as usize;
        if found == expected { Ok(()) } else { Err(ProtocolError::WrongSize { expected, found }) }
    }
}

impl TryFrom<Fields> for Parameters {
    type Error = ProtocolError;
    fn try_from(fields: Fields) -> Result<Self, ProtocolError> {
        let wrong = |field, problem| Err(ProtocolError::InvalidParameters { field, problem });
        let Fields { session, clients, threshold, colluding, dimension } = fields;
        if clients > Self::MAX_CLIENTS {
            return wrong("clients", "at most 4096");
        }
        if threshold > clients {
            return wrong("threshold", "at most the number of clients");
        }
        // Not more than the number of clients each, so that nothing below overflows.
        if colluding > clients || threshold < colluding + 2 {
            return wrong("threshold", "at least two more than the number of colluding clients");
        }
        if 2 * threshold <= clients + colluding {
            return wrong("threshold", "more than half of the clients and the colluding ones together");
        }
        if dimension == 0 || dimension > Self::MAX_DIMENSION {
            return wrong("dimension", "between 1 and 2^28");
        }
        let mut hasher = Sha256::new();
        hasher.update(b"dither secure aggregation 1");
        hasher.update(session);
        [clients, threshold, colluding, dimension].iter().for_each(|number| hasher.update(number.to_le_bytes()));
        Ok(Self { fields, digest: hasher.finalize().into() })
    }
}

impl From<Parameters> for Fields {
    fn from(parameters: Parameters) -> Self {
        parameters.fields
    }
}
