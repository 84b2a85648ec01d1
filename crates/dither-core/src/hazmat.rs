//! The few functions that could break the guarantee.
//!
//! Each names the only crate that may call it; `cargo xtask tidy` fails on any other caller.

use crate::event::PrivacyEvent;
use crate::gate::{Charge, Release, RequestId, Sealed};
use crate::receipt::Receipt;
use crate::sensitive::Sensitive;

/// Reads a sensitive value. Only `dither-mechanisms` may, on the way to adding noise.
pub fn reveal<T>(value: Sensitive<T>) -> T {
    value.0
}

/// Mints the proof that an event was charged. Only `dither-ledger` may, after the charge is durable.
pub fn mint_charge(request: RequestId, event: PrivacyEvent, receipt: Receipt) -> Charge {
    Charge { request, event, receipt }
}

/// Opens a sealed answer for storing. Only `dither-ledger` may; what becomes visible is what it stored.
pub fn open<T>(sealed: Sealed<T>) -> (T, Receipt) {
    (sealed.value, sealed.receipt)
}

/// Makes a release of what the ledger holds. Only `dither-ledger` may.
pub fn release<T>(value: T, receipt: Receipt) -> Release<T> {
    Release { value, receipt }
}
