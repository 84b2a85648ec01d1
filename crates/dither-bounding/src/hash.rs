//! The keyed hash that decides what is kept.

use sha2::block_api::compress256;

/// SHA-256 over a secret, a purpose and a text; of the digest the first 128 bits, big-endian, which order as it does.
///
/// Two different texts agree in them with probability 2^-128, so the order is that of the whole digest. The padding is
/// done here, so that a text costs its compressions and nothing else.
///
/// # References
/// FIPS 180-4, sections 5.1.1 and 6.2. A secret prefix of a fixed length of 64 bytes, one block, followed by
/// self-delimiting parts: no text is the extension of another, which is where the plain prefix construction is weak.
#[derive(Clone)]
pub struct KeyedHash {
    /// The state after all whole blocks of the prefix.
    state: [u32; 8],
    /// The rest of the prefix, and how long it is.
    block: [u8; BLOCK],
    filled: usize,
    /// The bytes of the whole prefix.
    prefix: usize,
}

const BLOCK: usize = 64;
/// The last block ends with the length of the message in bits, in so many bytes, after a bit that is set.
const LENGTH: usize = 8;
/// The hash value that everything starts from (FIPS 180-4, section 5.3.3).
const START: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

impl KeyedHash {
    /// A hash under a secret for a purpose: `"{secret} {purpose}"` stands before every text.
    pub fn new(secret: &str, purpose: &str) -> Self {
        let prefix = format!("{secret} {purpose}");
        let (whole, rest) = prefix.as_bytes().as_chunks();
        let (mut state, mut block) = (START, [0; BLOCK]);
        compress256(&mut state, whole);
        block[..rest.len()].copy_from_slice(rest);
        Self { state, block, filled: rest.len(), prefix: prefix.len() }
    }

    /// The hash of a text.
    ///
    /// ```
    /// let hash = dither_bounding::KeyedHash::new("secret", "group");
    /// // sha256("secret group 7")
    /// assert_eq!(hash.of(b" 7") >> 96, 0x50ed_8af4);
    /// ```
    pub fn of(&self, text: &[u8]) -> u128 {
        let (mut state, mut block, mut filled, mut rest) = (self.state, self.block, self.filled, text);
        while let Some((now, later)) = rest.split_at_checked(BLOCK - filled) {
            block[filled..].copy_from_slice(now);
            compress256(&mut state, &[block]);
            (filled, rest) = (0, later);
        }
        let end = filled + rest.len();
        block[filled..end].copy_from_slice(rest);
        block[end] = 0x80;
        block[end + 1..].fill(0);
        if end + LENGTH >= BLOCK {
            compress256(&mut state, &[block]);
            block.fill(0);
        }
        let bits = (self.prefix + text.len()) as u64 * 8;
        block[BLOCK - LENGTH..].copy_from_slice(&bits.to_be_bytes());
        compress256(&mut state, &[block]);
        state[..4].iter().fold(0, |hash, word| hash << 32 | u128::from(*word))
    }
}
