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
//! Masked      ◀────────────────── UnmaskRequest ─────────── (n₃ ≥ t) who survives, who dropped out
//! Confirmed   a tag of the request for each other survivor
//!             ─────────────────── Confirmations ──────────▶ CollectingConfirmations n₄ of n₃
//! Confirmed   ◀────────────────── ConfirmationDelivery ──── (n₄ ≥ t) t of the same request, or nothing
//! done        for each survivor a share of its own mask,
//!             for each dropout one of its mask key
//!             ─────────────────── UnmaskShares ───────────▶ CollectingUnmasking n₅ of n₄, n₅ ≥ t
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
//! # A server that breaks the protocol
//! Keys are not signed: that takes a public-key infrastructure, which this crate does not have. A server that answers in the
//! place of clients, inventing all but one or standing between two, learns an input. Whoever has an infrastructure checks
//! the keys of a [`Roster`] by it before [`Keyed::share`].
//!
//! If the keys are those of the clients, a server that lies otherwise learns the same sum or nothing, by the round of
//! confirmations: tags under secrets of pairs, in place of the signatures of the paper. *Proof*, with c for `colluding` and
//! keys, masks, encryption and tags as good as ideal. An honest client confirms one request, and answers once t
//! survivors have confirmed the same, at least t − c of them honest. Two requests cannot both be confirmed so, as that takes
//! 2(t − c) ≤ n − c, that is 2t ≤ n + c, which [`Parameters`] refuses. So all shares that honest clients hand out are for
//! one request, with survivors S and dropouts D, and give the own masks of S and the mask keys of D. Let K be honest
//! clients in S whose inputs can be unmasked together: none of them has a pair mask with an honest client outside of K
//! and D. If one of K confirmed the request, it has pair masks with all of S, and K is all honest survivors, t − c or
//! more. If none did, the deliveries that K masked with, of t clients or more, lie within K, D and the colluding clients,
//! so that K and the honest part of D have t − c clients or more, and those who confirmed are t − c others: 2t ≤ n + c
//! once more. ∎
//!
//! # What is not
//! **Clients that send nonsense.** A client can put any vector under its masks; nobody sees it. This spoils the sum, and
//! tells nothing about others. Wrong shares are noticed where the secret is put together.
//!
//! # References
//! Bonawitz et al., *Practical Secure Aggregation for Privacy-Preserving Machine Learning*, CCS 2017: Figure 4, with tags in
//! place of the signatures of the round "ConsistencyCheck" and no signatures of keys; Theorem 6.3 for an honest-but-curious
//! server with colluding clients. Shamir, *How to Share a Secret*, 1979. RFC 7748 (X25519), RFC 5869 (HKDF), RFC 8439
//! (ChaCha20-Poly1305).

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

pub use client::{Confirmed, Keyed, Masked, Shared};
pub use error::ProtocolError;
pub use message::{
    Confirmation, ConfirmationDelivery, Confirmations, EncryptedShare, EncryptedShares, KeyAdvertisement, MaskedInput,
    Roster, SecretShare, ShareDelivery, UnmaskRequest, UnmaskShares,
};
pub use parameters::{ClientId, Parameters};
pub use run::{Dropouts, run};
pub use server::{CollectingConfirmations, CollectingInputs, CollectingKeys, CollectingShares, CollectingUnmasking};
