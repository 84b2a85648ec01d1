//! Secrets of clients, and the keys that pairs of them derive.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce};
use curve25519_dalek::Scalar;
use dither_noise::{BitSource, NoiseError};
use hkdf::Hkdf;
use sha2::Sha256;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use super::error::ProtocolError;
use super::parameters::{ClientId, Parameters};

/// A secret number of the field of 2^252 + 27742317777372353535851937790883648493 elements; overwritten when dropped.
///
/// Both secrets of a client are of this kind: they can be shared as they are, and keys are derived from them.
pub(super) struct Secret(pub(super) Zeroizing<Scalar>);

/// The length of two shares and a tag.
pub(super) const CIPHERTEXT_BYTES: usize = 2 * 32 + 16;

impl Secret {
    /// A uniform one: 512 bits modulo the order leave a bias below 2^-259.
    pub fn random<S: BitSource + ?Sized>(source: &mut S) -> Result<Self, NoiseError> {
        let mut wide = Zeroizing::new([0; 64]);
        source.fill(wide.as_mut())?;
        Ok(Self(Zeroizing::new(Scalar::from_bytes_mod_order_wide(&wide))))
    }

    /// Reads one; `None` if the bytes are not the only form of a number.
    pub fn read(bytes: [u8; 32]) -> Option<Self> {
        Option::from(Scalar::from_canonical_bytes(bytes)).map(|scalar| Self(Zeroizing::new(scalar)))
    }

    /// The bytes of it.
    pub fn bytes(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// The key from which a client's own mask is expanded.
    pub fn own_mask(&self, parameters: &Parameters, client: ClientId) -> Zeroizing<[u8; 32]> {
        derive(parameters, self.0.as_bytes(), "own mask", [client, client])
    }

    /// What is published about the seed of a mask; under another label than the mask, and as good as independent of it.
    pub fn commitment(&self, parameters: &Parameters, client: ClientId) -> [u8; 32] {
        *derive(parameters, self.0.as_bytes(), "commitment", [client, client])
    }

    /// The X25519 key pair of a secret.
    pub fn pair(&self, parameters: &Parameters, client: ClientId) -> KeyPair {
        let seed = derive(parameters, self.0.as_bytes(), "key pair", [client, client]);
        let secret = StaticSecret::from(*seed);
        KeyPair { public: PublicKey::from(&secret).to_bytes(), secret }
    }
}

/// An X25519 key pair.
pub(super) struct KeyPair {
    pub public: [u8; 32],
    secret: StaticSecret,
}

impl KeyPair {
    /// The key of the pair mask of two clients, the same for both.
    pub fn pair_mask(
        &self,
        parameters: &Parameters,
        own: ClientId,
        other: ClientId,
        public: &[u8; 32],
    ) -> Result<Zeroizing<[u8; 32]>, ProtocolError> {
        self.agree(parameters, "pair mask", [own.min(other), own.max(other)], other, public)
    }

    /// The secret of two clients from which the keys of the shares between them come, the same for both.
    pub fn share_key(
        &self,
        parameters: &Parameters,
        own: ClientId,
        other: ClientId,
        public: &[u8; 32],
    ) -> Result<Zeroizing<[u8; 32]>, ProtocolError> {
        self.agree(parameters, "shares", [own.min(other), own.max(other)], other, public)
    }

    /// A key that only the owners of both pairs know.
    fn agree(
        &self,
        parameters: &Parameters,
        label: &str,
        clients: [ClientId; 2],
        other: ClientId,
        public: &[u8; 32],
    ) -> Result<Zeroizing<[u8; 32]>, ProtocolError> {
        let shared = self.secret.diffie_hellman(&PublicKey::from(*public));
        // A point of small order: everybody knows what comes out.
        if !shared.was_contributory() {
            return Err(ProtocolError::BadKey(other));
        }
        Ok(derive(parameters, shared.as_bytes(), label, clients))
    }
}

/// Encrypts the shares that one client made for another, under the secret of both.
///
/// Each direction has its own key, for one message, since secrets are made anew for each session: the nonce may be constant.
pub(super) fn seal(
    parameters: &Parameters,
    secret: &[u8; 32],
    [from, to]: [ClientId; 2],
    shares: &[u8; 64],
) -> Result<Vec<u8>, ProtocolError> {
    let key = derive(parameters, secret, "shares from to", [from, to]);
    let payload = Payload { msg: shares, aad: parameters.digest() };
    let sealed = ChaCha20Poly1305::new(&Key::from(*key)).encrypt(&Nonce::default(), payload);
    sealed.map_err(|_| ProtocolError::NotAuthentic(from))
}

/// Decrypts the shares that one client made for another.
pub(super) fn open(
    parameters: &Parameters,
    secret: &[u8; 32],
    [from, to]: [ClientId; 2],
    ciphertext: &[u8],
) -> Result<Zeroizing<Vec<u8>>, ProtocolError> {
    let key = derive(parameters, secret, "shares from to", [from, to]);
    let payload = Payload { msg: ciphertext, aad: parameters.digest() };
    let opened = ChaCha20Poly1305::new(&Key::from(*key)).decrypt(&Nonce::default(), payload);
    opened.map(Zeroizing::new).map_err(|_| ProtocolError::NotAuthentic(from))
}

/// What tells a receiver that a sender saw a request with this digest, under the secret of both: HKDF is a
/// pseudorandom function of what it is asked for.
pub(super) fn tag(
    parameters: &Parameters,
    secret: &[u8; 32],
    clients: [ClientId; 2],
    digest: &[u8; 32],
) -> Zeroizing<[u8; 32]> {
    derive_for(parameters, secret, "confirmation", clients, digest)
}

/// Whether two tags are the same, in a time that does not depend on where they differ.
pub(super) fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

fn derive(parameters: &Parameters, secret: &[u8], label: &str, clients: [ClientId; 2]) -> Zeroizing<[u8; 32]> {
    derive_for(parameters, secret, label, clients, &[])
}

/// HKDF-SHA256, salted with the session, for one purpose, an ordered pair of clients, and some content.
fn derive_for(
    parameters: &Parameters,
    secret: &[u8],
    label: &str,
    clients: [ClientId; 2],
    content: &[u8],
) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; 32]);
    let [first, second] = clients.map(|client| client.0.to_le_bytes());
    let info = [b"dither secagg ".as_slice(), label.as_bytes(), &[0], &first, &second, content];
    let expanded = Hkdf::<Sha256>::new(Some(parameters.digest()), secret).expand_multi_info(&info, key.as_mut());
    // 32 bytes are one block; the limit is 255.
    debug_assert!(expanded.is_ok());
    key
}
