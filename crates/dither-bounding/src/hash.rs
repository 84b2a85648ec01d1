//! The keyed hash that decides what is kept.

use sha2::block_api::compress256;

#[cfg(target_arch = "x86_64")]
mod wide;

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
/// What comes after the message: a bit that is set, and zeros.
const ENDED: u8 = 0x80;
/// The last block ends with the length of the message in bits, in so many bytes.
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
        if let Some(block) = self.only_block(text) {
            return self.of_block(&block);
        }
        let (mut state, mut block, mut filled, mut rest) = (self.state, self.block, self.filled, text);
        while let Some((now, later)) = rest.split_at_checked(BLOCK - filled) {
            block[filled..].copy_from_slice(now);
            compress256(&mut state, &[block]);
            (filled, rest) = (0, later);
        }
        let end = filled + rest.len();
        block[filled..end].copy_from_slice(rest);
        block[end] = ENDED;
        block[end + 1..].fill(0);
        if end + LENGTH >= BLOCK {
            compress256(&mut state, &[block]);
            block.fill(0);
        }
        self.write_length(text, &mut block);
        compress256(&mut state, &[block]);
        first_half(&state)
    }

    /// What is hashed after the whole blocks of the prefix, if the text is so short that it is one block.
    fn only_block(&self, text: &[u8]) -> Option<[u8; BLOCK]> {
        let filled = self.filled + text.len();
        if filled + LENGTH >= BLOCK {
            return None;
        }
        // Zeros from what is left of the prefix on.
        let mut block = self.block;
        block[self.filled..filled].copy_from_slice(text);
        block[filled] = ENDED;
        self.write_length(text, &mut block);
        Some(block)
    }

    fn of_block(&self, block: &[u8; BLOCK]) -> u128 {
        let mut state = self.state;
        compress256(&mut state, std::slice::from_ref(block));
        first_half(&state)
    }

    fn write_length(&self, text: &[u8], block: &mut [u8; BLOCK]) {
        let bits = (self.prefix + text.len()) as u64 * 8;
        block[BLOCK - LENGTH..].copy_from_slice(&bits.to_be_bytes());
    }
}

fn first_half(state: &[u32; 8]) -> u128 {
    state[..4].iter().fold(0, |hash, word| hash << 32 | u128::from(*word))
}

/// Hashes many texts in their order, sixteen at a time where registers hold sixteen words.
pub(crate) struct Batch<'a> {
    hash: &'a KeyedHash,
    hashes: &'a mut Vec<u128>,
    /// The blocks of texts that wait for others.
    blocks: [[u8; BLOCK]; LANES],
    waiting: usize,
}

/// Texts that are hashed at a time.
const LANES: usize = 16;

/// So few texts are hashed one by one in less time than sixteen at a time.
#[cfg(target_arch = "x86_64")]
const FEW: usize = 8;

impl<'a> Batch<'a> {
    /// Hashes into a list, which is emptied.
    pub(crate) fn new(hash: &'a KeyedHash, hashes: &'a mut Vec<u128>) -> Self {
        hashes.clear();
        Self { hash, hashes, blocks: [[0; BLOCK]; LANES], waiting: 0 }
    }

    pub(crate) fn push(&mut self, text: &[u8]) {
        match self.hash.only_block(text) {
            Some(block) => {
                self.blocks[self.waiting] = block;
                self.waiting += 1;
                if self.waiting == LANES {
                    self.hash_waiting();
                }
            }
            None => {
                self.hash_waiting();
                self.hashes.push(self.hash.of(text));
            }
        }
    }

    /// The last hashes.
    pub(crate) fn finish(mut self) {
        self.hash_waiting();
    }

    fn hash_waiting(&mut self) {
        let blocks = &self.blocks[..std::mem::take(&mut self.waiting)];
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = pulp::x86::V4::try_new().filter(|_| blocks.len() > FEW) {
            let hashes = wide::compress(simd, &self.hash.state, &self.blocks);
            self.hashes.extend_from_slice(&hashes[..blocks.len()]);
            return;
        }
        self.hashes.extend(blocks.iter().map(|block| self.hash.of_block(block)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of one block and of several, as many together as fill the lanes and not.
    #[test]
    fn a_batch_has_the_hashes_of_single_texts_in_their_order() {
        let letters: Vec<u8> = (0..=255).cycle().take(700).collect();
        for (purpose, count) in [("", 0), ("row", 1), ("group", 7), ("row", 9), ("group", 100)] {
            let hash = KeyedHash::new(&"s".repeat(64), purpose);
            for longest in [1, 40, 56, 130] {
                let texts: Vec<&[u8]> = (0..count).map(|text| &letters[text..][..text * 7 % longest]).collect();
                let mut hashes = vec![3];
                let mut batch = Batch::new(&hash, &mut hashes);
                texts.iter().for_each(|text| batch.push(text));
                batch.finish();
                assert_eq!(hashes, texts.iter().map(|text| hash.of(text)).collect::<Vec<_>>());
            }
        }
    }
}
