//! The keyed hash that decides what is kept.

use sha2::{Digest, Sha256};

/// SHA-256 over a secret, a purpose and a text; of the digest the first 128 bits, big-endian, which order as it does.
///
/// Two different texts agree in them with probability 2^-128, so the order is that of the whole digest.
///
/// # References
/// FIPS 180-4. A secret prefix of a fixed length of 64 bytes, one block, followed by self-delimiting parts: no text is
/// the extension of another, which is where the plain prefix construction is weak.
#[derive(Clone)]
pub struct KeyedHash {
    prefix: Sha256,
}

impl KeyedHash {
    /// A hash under a secret for a purpose: `"{secret} {purpose}"` stands before every text.
    pub fn new(secret: &str, purpose: &str) -> Self {
        Self { prefix: Sha256::new().chain_update(secret).chain_update(" ").chain_update(purpose) }
    }

    /// The hash of a text.
    ///
    /// ```
    /// let hash = dither_bounding::KeyedHash::new("secret", "group");
    /// // sha256("secret group 1:7")
    /// assert_eq!(hash.of(b" 1:7") >> 96, 0x9854_c1b1);
    /// ```
    pub fn of(&self, text: &[u8]) -> u128 {
        let digest: [u8; 32] = self.prefix.clone().chain_update(text).finalize().into();
        let mut first = [0; 16];
        first.copy_from_slice(&digest[..16]);
        u128::from_be_bytes(first)
    }
}
