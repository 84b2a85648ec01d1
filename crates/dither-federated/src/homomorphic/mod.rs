//! The sum under homomorphic encryption: for three parties of which two do not collude.
//!
//! ```text
//! key holder   keys of one session ── PublicKey ─────▶ clients
//! clients      clip, add a share of the noise, encrypt
//!              ───────────────────── Contribution ───▶ aggregator
//! aggregator   adds up what it cannot read, counts; below the threshold nothing leaves it
//!              ───────────────────── EncryptedSum ───▶ key holder
//! key holder   decrypts one sum and forgets the key ──▶ the noisy sum
//! ```
//!
//! A client speaks once, and whoever does not is simply missing: there are no masks that somebody else must open. A session
//! has the [`Parameters`] of [`secagg`](crate::secagg), so that a sum of less than the threshold is refused here as there, and
//! the noise that every sum has is that of [`Parameters::honest`] clients.
//!
//! # The scheme
//! BFV without products, over polynomials modulo x^4096 + 1 and q = Δ·t, both primes: (b, a) = (e − a·s, a) is the public key
//! to s, and (b·u + e₁ + Δ·x, a·u + e₂) is x encrypted, with a uniform and s, e, u, e₁, e₂ small. Then c₀ + c₁·s is Δ·x and
//! the noise e·u + e₁ + e₂·s; sums add both. Polynomials and their sampling are those of the crate `fhe-math`; in
//! `docs/federated.md` stands why no more of it is used. A block of 4,096 numbers takes 81,920 bytes.
//!
//! *Size.* q has 74 bits. For n = 4096 and 128 bits of security the Homomorphic Encryption Standard allows 109 bits (75 for 192
//! bits of security), and 101 against quantum computers; the newer guidelines allow 106 and 80. All of these are for secrets in
//! {−1, 0, 1} and noise of deviation 3.2; here both are centred binomial of deviation 4, for which they allow no less.
//!
//! *Sums are exact.* All small numbers are at most 32 in magnitude, always. So the noise of one encryption is at most
//! 4096·32² + 32 + 4096·32² = 8,388,640, and that of 4,096 of them, which is the most clients there are, below 2^35.01. It is
//! rounded away as long as it is below Δ/2 > 2^36.99. So honest sums never decrypt wrongly, and no rare failure can tell
//! about the key. Numbers are modulo t: a sum is right from −[`MAX_SUM`] to [`MAX_SUM`].
//!
//! # What is protected
//! **Against the key holder**, with clients that collude: it learns the sum and the number of contributions, and nothing else,
//! whatever power it has and however it chose its keys. *Proof.* Δ divides q, so that encrypting is adding (Δ·x, 0) to an
//! encryption of zero: there is no rounding of x, by which the noise would depend on it. The sum of n contributions is
//! (Δ·Σx, 0) plus the sum of n encryptions of zero, and the randomness of those is independent of everything. So whoever knows
//! Σx mod t can draw what the key holder sees. ∎ Since this is the sum of integers that
//! [`DistributedGaussian::guarantee`](crate::DistributedGaussian::guarantee) is for, it is the same guarantee, with no δ added.
//!
//! **Against the aggregator**, with clients that collude: it sees ciphertexts, and afterwards the noisy sum if that is made public.
//! The first is computational: ring learning with errors is as hard as believed. Decryption never fails in honest sums, so
//! that seeing the result adds nothing to what the noisy sum says.
//!
//! # What is not
//! **Both together** read everything. So does anybody who decrypts a single contribution.
//!
//! **An aggregator that lies.** Both servers must follow the protocol. A ciphertext does not tell how many contributions are in it:
//! given one for the sum of all, the key holder decrypts that client's vector, and there the client's own share of the noise is all
//! that protects: a noise multiplier of z/√h in the place of z. Given a ciphertext that was made up, it decrypts its own
//! key, and whoever sees the result can read all contributions. Nothing is authenticated: an altered ciphertext is a wrong sum,
//! not an error. Sessions have keys of their own, and the key is gone after one sum.
//!
//! **A key of somebody else.** Keys are not signed, here as in [`secagg`](crate::secagg): clients must know from elsewhere that
//! the key is the key holder's.
//!
//! **Clients that send nonsense** spoil the sum, and learn nothing about others.
//!
//! # References
//! Lyubashevsky, Peikert and Regev, *On Ideal Lattices and Learning with Errors over Rings*, EUROCRYPT 2010 (the encryption).
//! Fan and Vercauteren, *Somewhat Practical Fully Homomorphic Encryption*, 2012 (ePrint 2012/144). Albrecht et al.,
//! *Homomorphic Encryption Standard*, 2018, section 2.1 (tables of q). Bossuat et al., *Security Guidelines for Implementing
//! Homomorphic Encryption*, 2024 (ePrint 2024/463). Li and Micciancio, *On the Security of Homomorphic Encryption on
//! Approximate Numbers*, EUROCRYPT 2021 (what decrypted results can tell, and why not where decryption is exact).

mod error;
mod parties;
mod ring;
mod round;
#[cfg(test)]
mod tests;

#[cfg(doc)]
use crate::secagg::Parameters;

pub use error::SumError;
pub use parties::{Aggregator, Contribution, EncryptedSum, KeyHolder, PublicKey};
pub use round::round;

/// The largest sum, and so the largest number, in magnitude.
pub const MAX_SUM: i64 = (ring::MESSAGE_MODULUS / 2).cast_signed();
