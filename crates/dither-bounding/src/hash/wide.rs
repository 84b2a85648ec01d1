//! SHA-256 of sixteen blocks at a time: the same word of all of them in a register.

use pulp::x86::V4;
use pulp::{cast, u32x16};

use super::{BLOCK, LANES};

/// Words of a block.
const WORDS: usize = 16;

/// The first 32 bits after the point of the cube roots of the first 64 primes (FIPS 180-4, section 4.2.2).
#[rustfmt::skip]
const ROUNDS: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];

/// The first 128 bits of what one state becomes by each of the blocks.
pub(super) fn compress(simd: V4, state: &[u32; 8], blocks: &[[u8; BLOCK]; LANES]) -> [u128; LANES] {
    let mut words = [[0; LANES]; WORDS];
    for (lane, block) in blocks.iter().enumerate() {
        for (word, bytes) in words.iter_mut().zip(block.as_chunks().0) {
            word[lane] = u32::from_be_bytes(*bytes);
        }
    }
    let hashes = simd.vectorize(
        #[inline(always)]
        || rounds(simd, state, words.map(cast)),
    );
    let hashes: [[u32; LANES]; 4] = hashes.map(cast);
    std::array::from_fn(|lane| hashes.iter().fold(0, |hash, word| hash << 32 | u128::from(word[lane])))
}

/// The first four words of the state after all rounds (FIPS 180-4, section 6.2.2).
#[inline(always)]
fn rounds(simd: V4, state: &[u32; 8], mut words: [u32x16; WORDS]) -> [u32x16; 4] {
    let start = state.map(|word| simd.splat_u32x16(word));
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = start;
    for (sixteen, constants) in ROUNDS.as_chunks::<WORDS>().0.iter().enumerate() {
        for round in 0..WORDS {
            if sixteen > 0 {
                words[round] = scheduled(simd, &words, round);
            }
            let sum1 = xor(simd, [rotated::<6>(simd, e), rotated::<11>(simd, e), rotated::<25>(simd, e)]);
            let sum0 = xor(simd, [rotated::<2>(simd, a), rotated::<13>(simd, a), rotated::<22>(simd, a)]);
            // Of each bit of e, f where it is set and g where not; and what most of a, b and c have.
            let (choice, majority) = (logic::<0xca>(simd, [e, f, g]), logic::<0xe8>(simd, [a, b, c]));
            let constant = add(simd, words[round], simd.splat_u32x16(constants[round]));
            let one = add(simd, add(simd, h, constant), add(simd, sum1, choice));
            (h, g, f, e) = (g, f, e, add(simd, d, one));
            (d, c, b, a) = (c, b, a, add(simd, one, add(simd, sum0, majority)));
        }
    }
    let [s0, s1, s2, s3, ..] = start;
    [add(simd, a, s0), add(simd, b, s1), add(simd, c, s2), add(simd, d, s3)]
}

/// The word that takes the place of one sixteen rounds before.
#[inline(always)]
fn scheduled(simd: V4, words: &[u32x16; WORDS], round: usize) -> u32x16 {
    let [before, two_before] = [1, 14].map(|back| words[(round + back) % WORDS]);
    let small0 = xor(simd, [rotated::<7>(simd, before), rotated::<18>(simd, before), shifted::<3>(simd, before)]);
    let small1 =
        xor(simd, [rotated::<17>(simd, two_before), rotated::<19>(simd, two_before), shifted::<10>(simd, two_before)]);
    add(simd, add(simd, words[round], small0), add(simd, words[(round + 9) % WORDS], small1))
}

#[inline(always)]
fn add(simd: V4, a: u32x16, b: u32x16) -> u32x16 {
    simd.wrapping_add_u32x16(a, b)
}

#[inline(always)]
fn xor(simd: V4, words: [u32x16; 3]) -> u32x16 {
    logic::<0x96>(simd, words)
}

/// What a truth table makes of three bits.
#[inline(always)]
fn logic<const TABLE: i32>(simd: V4, [a, b, c]: [u32x16; 3]) -> u32x16 {
    cast(simd.avx512f._mm512_ternarylogic_epi32::<TABLE>(cast(a), cast(b), cast(c)))
}

#[inline(always)]
fn rotated<const BITS: i32>(simd: V4, word: u32x16) -> u32x16 {
    cast(simd.avx512f._mm512_ror_epi32::<BITS>(cast(word)))
}

#[inline(always)]
fn shifted<const BITS: u32>(simd: V4, word: u32x16) -> u32x16 {
    cast(simd.avx512f._mm512_srli_epi32::<BITS>(cast(word)))
}
