//! What clients and server say to each other. Receivers check every part.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::error::ProtocolError;
use super::parameters::ClientId;

/// First word of a client: its two public keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyAdvertisement {
    /// [`Parameters::digest`](super::Parameters::digest).
    pub session: [u8; 32],
    /// Who speaks.
    pub client: ClientId,
    /// The X25519 key that shares are encrypted to.
    pub encryption: [u8; 32],
    /// The X25519 key that pair masks come from.
    pub mask: [u8; 32],
    /// A digest of the seed of the own mask, by which wrong shares of it are noticed.
    pub commitment: [u8; 32],
}

/// The server's answer to the advertisements: the keys of all who spoke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Roster {
    /// [`Parameters::digest`](super::Parameters::digest).
    pub session: [u8; 32],
    /// In ascending order of clients.
    pub keys: Vec<KeyAdvertisement>,
}

/// One client's shares for one other, encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncryptedShare {
    /// Whose secrets these are shares of.
    pub from: ClientId,
    /// Who can read them.
    pub to: ClientId,
    /// Two numbers of the field and a tag.
    pub ciphertext: Vec<u8>,
}

/// Second word of a client: shares of its two secrets, one of each for every other client of the roster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncryptedShares {
    /// [`Parameters::digest`](super::Parameters::digest).
    pub session: [u8; 32],
    /// Who speaks.
    pub from: ClientId,
    /// In ascending order of receivers.
    pub shares: Vec<EncryptedShare>,
}

/// What the server passes on to one client: the shares that all others made for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareDelivery {
    /// [`Parameters::digest`](super::Parameters::digest).
    pub session: [u8; 32],
    /// Who is spoken to.
    pub to: ClientId,
    /// In ascending order of senders.
    pub shares: Vec<EncryptedShare>,
}

/// Third word of a client: its vector under all its masks.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MaskedInput {
    /// [`Parameters::digest`](super::Parameters::digest).
    pub session: [u8; 32],
    /// Who speaks.
    pub from: ClientId,
    /// Modulo 2^32.
    pub values: Vec<u32>,
}

/// The server's last question: shares of which secret it needs of whom. It is confirmed before it is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnmaskRequest {
    /// [`Parameters::digest`](super::Parameters::digest).
    pub session: [u8; 32],
    /// Those whose vectors arrived: shares of the own mask are needed. In ascending order.
    pub survivors: Vec<ClientId>,
    /// Those whose vectors did not: shares of the mask key are needed. In ascending order.
    pub dropped: Vec<ClientId>,
}

/// That one client saw the request that another saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confirmation {
    /// Who saw it.
    pub from: ClientId,
    /// Who can check it.
    pub to: ClientId,
    /// A tag of the whole request under the secret of both.
    pub tag: [u8; 32],
}

/// Fourth word of a client: that it saw the request, once for every other survivor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confirmations {
    /// [`Parameters::digest`](super::Parameters::digest).
    pub session: [u8; 32],
    /// Who speaks.
    pub from: ClientId,
    /// In ascending order of receivers.
    pub confirmations: Vec<Confirmation>,
}

/// What the server passes on to one survivor: the confirmations that others made for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfirmationDelivery {
    /// [`Parameters::digest`](super::Parameters::digest).
    pub session: [u8; 32],
    /// Who is spoken to.
    pub to: ClientId,
    /// In ascending order of senders.
    pub confirmations: Vec<Confirmation>,
}

/// A share of one client's secret. It has no `Debug`: enough of them are the secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretShare {
    /// Whose secret.
    pub of: ClientId,
    /// A number of the field.
    pub share: [u8; 32],
}

/// Last word of a client. It has no `Debug`, as [`SecretShare`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnmaskShares {
    /// [`Parameters::digest`](super::Parameters::digest).
    pub session: [u8; 32],
    /// Who speaks.
    pub from: ClientId,
    /// Of the survivors' own masks, in their order.
    pub own_masks: Vec<SecretShare>,
    /// Of the dropouts' mask keys, in their order.
    pub mask_keys: Vec<SecretShare>,
}

impl UnmaskRequest {
    /// A digest of all that the request says.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(self.session);
        for list in [&self.survivors, &self.dropped] {
            hasher.update((list.len() as u64).to_le_bytes());
            list.iter().for_each(|client| hasher.update(client.0.to_le_bytes()));
        }
        hasher.finalize().into()
    }
}

/// Checks that clients stand in strictly ascending order.
pub(super) fn check_ascending(clients: impl IntoIterator<Item = ClientId>) -> Result<(), ProtocolError> {
    if clients.into_iter().is_sorted_by(|a, b| a < b) { Ok(()) } else { Err(ProtocolError::Unordered) }
}
