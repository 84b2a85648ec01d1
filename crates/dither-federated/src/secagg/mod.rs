//! Secure aggregation: a server learns the sum of vectors of 32-bit integers and nothing else about any of them.
//!
//! ```text
//!             client                                        server
//! Keyed       two key pairs ───── KeyAdvertisement ───────▶ CollectingKeys      n clients asked, n₁ answer
//! Keyed       ◀────────────────── Roster ────────────────── (n₁ ≥ t)
//! Shared      shares of both secrets, one for each other,
//!             encrypted to them ─ EncryptedShares ────────▶ CollectingShares    n₂ of n₁
//! Shared      ◀────────────────── ShareDelivery ─────────── (n₂ ≥ t)
//! Masked      input + own mask ± pair masks
//!             ─────────────────── MaskedInput ────────────▶ CollectingInputs    n₃ of n₂
//! Masked      ◀────────────────── UnmaskRequest ─────────── (n₃ ≥ t)
//! done        for each survivor a share of its own mask,
//!             for each dropout one of its mask key
//!             ─────────────────── UnmaskShares ───────────▶ CollectingUnmasking n₄ of n₃, n₄ ≥ t
//!                                                           the sum over the n₃
//! ```
//!
//! Pair masks cancel in the sum. Those of a client that dropped out after round two do not; the survivors hand out shares
//! of its mask key, so that the server can compute them. Its input, should it arrive after all, stays hidden under its own
//! mask: a client answers one request, and that names each client as survivor or as dropout, never as both. Each state is
//! a type that the next message consumes, so that an answer cannot be given twice.
//!
//! # What is protected
//! Let at most `colluding` clients share all they know with the server. If the server follows the protocol (*honest but
//! curious*), they learn the sum of the honest survivors' inputs, who took part and who dropped out when, and nothing else:
//! with t > `colluding` their shares of a secret say nothing about it, so one honest survivor's mask, or the pair masks
//! among honest survivors, hide everything but that sum. Fewer than t survivors: nobody hands out a share, and nothing at
//! all is learned. The sum itself is *not* noised here: see [`DistributedGaussian`](crate::DistributedGaussian).
//!
//! # What is not
//! **A server that breaks the protocol.** Keys are not signed, so that it could answer in the place of clients: invent all
//! but one, or stand between two. That takes a public-key infrastructure, which this crate does not have, and neither is
//! there the consistency check of the paper (a round of signatures over the list of survivors), which needs one. What
//! holds all the same: 2t > n + `colluding`, so that a server which names a client as survivor to some and as dropout to
//! others does not get t shares of both its secrets; each share is encrypted for, and bound to, one session, sender and
//! receiver; a client refuses a roster without its own keys. What does not: by telling different lists to different clients
//! such a server can make the set of those whose inputs it sums smaller than t.
//!
//! **Clients that send nonsense.** A client can put any vector under its masks; nobody sees it. This spoils the sum, and
//! tells nothing about others. Wrong shares are noticed where the secret is put together.
//!
//! # References
//! Bonawitz et al., *Practical Secure Aggregation for Privacy-Preserving Machine Learning*, CCS 2017: Figure 4 without the
//! round "ConsistencyCheck"; Theorem 6.3 for an honest-but-curious server with colluding clients. Shamir, *How to Share a
//! Secret*, 1979. RFC 7748 (X25519), RFC 5869 (HKDF), RFC 8439 (ChaCha20-Poly1305).

mod client;
mod error;
mod key;
mod mask;
mod message;
mod parameters;
mod run;
mod server;
mod shamir;
#[cfg(test)]
mod tests;

pub use client::{Keyed, Masked, Shared};
pub use error::ProtocolError;
pub use message::{
    EncryptedShare, EncryptedShares, KeyAdvertisement, MaskedInput, Roster, SecretShare, ShareDelivery, UnmaskRequest,
    UnmaskShares,
};
pub use parameters::{ClientId, Parameters};
pub use run::{Dropouts, run};
pub use server::{CollectingInputs, CollectingKeys, CollectingShares, CollectingUnmasking};
