//! The gate: nothing is looked at before it is charged, nothing is seen before it is stored.
//!
//! ```text
//! Measurement ──authorize(Charge)──▶ Charged ──release(exact, noise)──▶ Sealed ──ledger──▶ Release
//! ```
//!
//! Each step consumes the one before it, so that releasing uncharged, releasing twice and forging a charge do
//! not compile.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::error::{Audience, Explain};
use crate::event::PrivacyEvent;
use crate::receipt::Receipt;
use crate::sensitive::Sensitive;

/// The name of a request: a digest of everything that it asks for.
///
/// The ledger charges one request once and answers it once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId([u8; 32]);

impl RequestId {
    /// The bytes of the digest.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The digest of these parts, each delimited by its length so that no two lists of parts collide.
    pub fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    /// Reads the hexadecimal form.
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestId({self})")
    }
}

/// A randomised algorithm that says what it costs and adds its own noise.
///
/// # Privacy
/// An implementation claims that `apply`, on any two neighbouring tables, is as private as `event` says. Both
/// must read the same parameters. Only `dither-mechanisms` implements this trait.
pub trait Mechanism {
    /// What is computed from the rows, exactly.
    type Exact;
    /// Where the randomness comes from.
    type Noise;
    /// What may be seen.
    type Output;

    /// What applying the mechanism does to the data.
    fn event(&self) -> PrivacyEvent;

    /// Adds the noise. It takes an open gate, so that nothing but [`Charged::release`] can call it.
    ///
    /// # Errors
    /// [`GateError::Failed`] when the source of randomness failed or the exact answer has the wrong shape.
    fn apply(
        &self,
        exact: Sensitive<Self::Exact>,
        noise: &mut Self::Noise,
        gate: OpenGate,
    ) -> Result<Self::Output, GateError>;
}

/// Proof that what is being applied was charged. The gate makes one for one release.
pub struct OpenGate(());

/// Why the gate stayed shut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// The charge was for another request or another event.
    #[error("the charge does not belong to this measurement")]
    WrongCharge,
    /// The release failed after the charge. The text is constant on purpose.
    #[error("the release failed; the charge stands")]
    Failed,
}

impl Explain for GateError {
    fn code(&self) -> &'static str {
        match self {
            Self::WrongCharge => "wrong-charge",
            Self::Failed => "release-failed",
        }
    }
    fn hint(&self) -> Option<String> {
        match self {
            Self::WrongCharge => None,
            Self::Failed => Some("ask again: the same request is not charged twice".into()),
        }
    }
    fn audience(&self) -> Audience {
        Audience::Analyst
    }
}

/// A planned measurement: priced, not charged, nothing drawn, and without a way to draw.
pub struct Measurement<M> {
    mechanism: M,
    request: RequestId,
}

impl<M: Mechanism> Measurement<M> {
    /// Plans to apply a mechanism for a request.
    pub fn new(mechanism: M, request: RequestId) -> Self {
        Self { mechanism, request }
    }

    /// What it will do to the data.
    pub fn event(&self) -> PrivacyEvent {
        self.mechanism.event()
    }

    /// Which request it answers.
    pub fn request(&self) -> RequestId {
        self.request
    }

    /// The mechanism that will be applied.
    pub fn mechanism(&self) -> &M {
        &self.mechanism
    }

    /// Opens the gate with the charge for exactly this measurement.
    ///
    /// # Errors
    /// [`GateError::WrongCharge`] if the charge is for another request or another event.
    pub fn authorize(self, charge: Charge) -> Result<Charged<M>, GateError> {
        if charge.request != self.request || charge.event != self.event() {
            return Err(GateError::WrongCharge);
        }
        Ok(Charged { mechanism: self.mechanism, receipt: charge.receipt })
    }
}

/// Proof that an event is durably charged. Only the ledger makes one.
pub struct Charge {
    pub(crate) request: RequestId,
    pub(crate) event: PrivacyEvent,
    pub(crate) receipt: Receipt,
}

impl Charge {
    /// Where the charge stands in the ledger.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }
}

/// A measurement that is paid for and may look at the data, once.
pub struct Charged<M> {
    mechanism: M,
    receipt: Receipt,
}

impl<M: Mechanism> Charged<M> {
    /// The mechanism that will be applied.
    pub fn mechanism(&self) -> &M {
        &self.mechanism
    }

    /// Adds the noise. The answer stays sealed until the ledger has stored it.
    ///
    /// # Errors
    /// [`GateError::Failed`] when the mechanism failed; the charge stands.
    pub fn release(self, exact: Sensitive<M::Exact>, noise: &mut M::Noise) -> Result<Sealed<M::Output>, GateError> {
        let value = self.mechanism.apply(exact, noise, OpenGate(()))?;
        Ok(Sealed { value, receipt: self.receipt })
    }
}

/// An answer that is drawn and not yet durable. It cannot be read.
pub struct Sealed<T> {
    pub(crate) value: T,
    pub(crate) receipt: Receipt,
}

impl<T> Sealed<T> {
    /// Transforms the answer, which is post-processing and free.
    pub fn map<U>(self, transform: impl FnOnce(T) -> U) -> Sealed<U> {
        Sealed { value: transform(self.value), receipt: self.receipt }
    }
}

/// A durable private answer. Whatever is done with it is post-processing, and free.
///
/// # References
/// Dwork and Roth, *The Algorithmic Foundations of Differential Privacy*, 2014, Proposition 2.1.
#[derive(Debug, Clone, PartialEq)]
pub struct Release<T> {
    pub(crate) value: T,
    pub(crate) receipt: Receipt,
}

impl<T> Release<T> {
    /// The answer.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// What paid for it.
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// Transforms the answer and keeps the receipt.
    pub fn map<U>(self, transform: impl FnOnce(T) -> U) -> Release<U> {
        Release { value: transform(self.value), receipt: self.receipt }
    }
}
