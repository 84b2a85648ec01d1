//! Bounding what one client can do to a sum.

/// The norm is computed in floats, with an error below n·2^-53 for n numbers; this part of it is given away, so that no
/// update of up to 2^32 numbers is ever over the bound.
const GUARD: f64 = 1e-6;

/// A client's update as integers whose l2 norm is at most `steps`, which stand for an l2 norm of `clip`.
///
/// An update of a larger norm is scaled down to it. What is not an update, of the wrong length or with a number that is
/// not finite, counts as zeros; whether that happened is not released. The numbers are rounded *towards zero*, so that
/// no number, and with it no norm, grows: the sensitivity is `steps`, whatever the dimension. The price is a bias of less
/// than one step per number, which the caller makes small against the noise by choosing `steps` large.
///
/// # Privacy
/// For any update the sum of squares of the result, which is computed exactly, is at most `steps`². So adding or removing a
/// client, or putting zeros in the place of its update, moves a sum of such vectors by an l2 norm of at most `steps`.
///
/// ```
/// use dither_federated::clip_to_lattice;
/// assert_eq!(clip_to_lattice(&[30.0, -40.0], 2, 1.0, 100), [59, -79]);
/// assert_eq!(clip_to_lattice(&[f32::NAN, 1.0], 2, 1.0, 100), [0, 0]);
/// ```
///
/// # References
/// McMahan et al., *Learning Differentially Private Recurrent Language Models*, 2018, Algorithm 1 (clipping whole updates).
/// Kairouz, Liu and Steinke 2021, section 4.1, round at random to few bits, which can grow the norm; with 32 bits there is
/// no need to.
pub fn clip_to_lattice(update: &[f32], dimension: usize, clip: f64, steps: u64) -> Vec<i64> {
    let nothing = || vec![0; dimension];
    if update.len() != dimension || !update.iter().all(|x| x.is_finite()) {
        return nothing();
    }
    // At most 2^28 squares of numbers below 2^128: finite.
    let norm = update.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
    // Divided twice: neither quotient can overflow while the norm is finite and the clip is not tiny.
    let (longest, per_longest) = (norm.max(clip), steps as f64 * (1.0 - GUARD));
    let clipped: Vec<i64> = update.iter().map(|&x| (f64::from(x) / longest * per_longest) as i64).collect();
    let squares = clipped.iter().try_fold(0u128, |sum, &x| {
        let magnitude = u128::from(x.unsigned_abs());
        sum.checked_add(magnitude.checked_mul(magnitude)?)
    });
    match squares {
        Some(sum) if sum <= u128::from(steps) * u128::from(steps) => clipped,
        _ => nothing(),
    }
}
