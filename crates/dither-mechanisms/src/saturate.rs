//! Keeping sums inside 128 bits without a failure that depends on the data.

/// Room for noise beside an exact value: noise stays below 2^110 (see the limits of each mechanism).
const LIMIT: i128 = 1 << 126;

/// `exact` · 2^`refinement`, after clamping it to what leaves room for noise.
///
/// # Privacy
/// Clamping moves no two integers apart, so every sensitivity stands. No table reaches the clamp: a sum of
/// 2^33 values of 2^53 steps is 2^86, where the finest refinement clamps.
pub(crate) fn refined(exact: i128, refinement: u32) -> i128 {
    let limit = LIMIT >> refinement;
    exact.clamp(-limit, limit) << refinement
}
