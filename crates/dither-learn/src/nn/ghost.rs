//! Norms of gradients that are never made.

use std::ops::Range;

use super::matrix::{View, multiply, part};
use super::simd::{dot, sum_of_squares, wide};

/// Whether inner products of positions cost less memory than a gradient: 2T² < p·d.
pub fn pays(positions: usize, weights: usize) -> bool {
    positions.saturating_mul(positions).saturating_mul(2) < weights
}

/// Squared norms of gᵀ·x, by ranges of columns of g.
///
/// ‖gᵀ·x‖² = ⟨x·xᵀ, g·gᵀ⟩: the inner products of inputs, times those of output gradients.
pub fn squares(x: &View<'_>, g: &View<'_>, columns: impl Iterator<Item = Range<usize>>) -> Vec<f64> {
    let rows = x.nrows();
    if rows == 1 {
        let input = square(x);
        return columns.map(|range| input * square(&part(g, 0..1, range))).collect();
    }
    let weights = x.ncols() * g.ncols();
    let inputs = (pays(rows, weights) && rows > 0).then(|| multiply(x, &x.transpose()));
    let norm = |range: Range<usize>| {
        let g = part(g, 0..rows, range);
        let ghost = inputs.as_ref().and_then(|inputs| Sum::of(inputs, &multiply(&g, &g.transpose()), rows).checked());
        ghost.unwrap_or_else(|| {
            rounded_up(
                wide(
                    #[inline(always)]
                    || sum_of_squares(&multiply(&g.transpose(), x)),
                ),
                lengths(x, &g),
            )
        })
    };
    columns.map(norm).collect()
}

/// Σ ‖x_t‖·‖g_t‖: how long a gradient would be if nothing in it cancelled.
pub fn lengths(x: &View<'_>, g: &View<'_>) -> f64 {
    (0..x.nrows())
        .map(|row| (square(&part(x, row..row + 1, 0..x.ncols())) * square(&part(g, row..row + 1, 0..g.ncols()))).sqrt())
        .sum()
}

/// The square of a norm that also covers what rounding adds when the positions of a sample are scaled and added up again
/// for the sum: a few units in the last place of what cancels.
pub fn rounded_up(square: f64, lengths: f64) -> f64 {
    (square.sqrt() + 2.0 * f64::from(f32::EPSILON) * lengths).powi(2)
}

fn square(row: &View<'_>) -> f64 {
    match row.row(0).try_as_row_major().map(|row| row.as_slice()) {
        Some(row) => wide(
            #[inline(always)]
            || sum_of_squares(row),
        ),
        None => row.row(0).iter().map(|&value| f64::from(value) * f64::from(value)).sum(),
    }
}

/// A sum of products that may cancel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    /// The sum.
    pub value: f64,
    /// The sum of magnitudes.
    pub magnitude: f64,
    /// The largest inner product of a position with itself, on either side.
    pub largest: f64,
    /// Σ ‖x_t‖·‖g_t‖.
    pub lengths: f64,
}

impl Sum {
    /// ⟨inputs, outputs⟩ of two square tables of inner products.
    pub fn of(inputs: &[f32], outputs: &[f32], rows: usize) -> Self {
        let (value, magnitude) = wide(
            #[inline(always)]
            || (dot(inputs, outputs), dot_of_magnitudes(inputs, outputs)),
        );
        let diagonal = |table: &[f32]| table.iter().step_by(rows + 1).fold(0.0, |a, &b| larger(a, f64::from(b)));
        let pairs = inputs.iter().zip(outputs).step_by(rows + 1);
        let lengths = pairs.map(|(&x, &g)| (f64::from(x) * f64::from(g)).sqrt()).sum();
        Self { value, magnitude, largest: larger(diagonal(inputs), diagonal(outputs)), lengths }
    }

    /// The squared norm rounded up, unless 32 bits are too few to tell.
    ///
    /// # Privacy
    /// Inner products of 32 bits are off by a few units in the last place of their magnitude. Where the sum is far below
    /// that of magnitudes, where one overflows, or where many could underflow, the gradient itself must be made.
    /// Otherwise the error is added.
    pub fn checked(self) -> Option<f64> {
        const CANCELLED: f64 = 1e-3;
        const LARGEST: f64 = 1e20;
        const ROUNDING: f64 = 4.0 * (f32::EPSILON as f64);
        let trusted = self.largest <= LARGEST && self.value >= CANCELLED * self.magnitude;
        trusted.then(|| rounded_up(self.value + ROUNDING * self.magnitude, self.lengths))
    }
}

/// NaN stays NaN.
fn larger(a: f64, b: f64) -> f64 {
    if a >= b || a.is_nan() { a } else { b }
}

#[inline(always)]
fn dot_of_magnitudes(x: &[f32], y: &[f32]) -> f64 {
    const LANES: usize = 16;
    let (mut sums, whole) = ([0.0f64; LANES], x.len() / LANES * LANES);
    for (x, y) in x.chunks_exact(LANES).zip(y.chunks_exact(LANES)) {
        for lane in 0..LANES {
            sums[lane] += f64::from(x[lane].abs()) * f64::from(y[lane].abs());
        }
    }
    let rest: f64 = x[whole..].iter().zip(&y[whole..]).map(|(&x, &y)| f64::from(x.abs()) * f64::from(y.abs())).sum();
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::super::matrix::view;
    use super::*;

    #[test]
    fn the_cheap_way_is_taken_and_gives_the_norm() {
        let numbers =
            |count: usize, step: usize| (0..count).map(|i| ((i * step) % 17) as f32 - 8.0).collect::<Vec<_>>();
        let (x, g) = (numbers(3 * 20, 5), numbers(3 * 10, 7));
        let (x, g) = (view(&x, 20), view(&g, 10));
        assert!(pays(3, 200) && !pays(10, 200));
        let found = squares(&x, &g, [0..4, 4..10].into_iter());
        let made = |range| sum_of_squares(&multiply(&part(&g, 0..3, range).transpose(), &x));
        for (found, made) in found.into_iter().zip([made(0..4), made(4..10)]) {
            assert!(found >= made && found < made * (1.0 + 1e-5), "{found} instead of {made}");
        }
    }

    #[test]
    fn what_cancels_overflows_or_is_not_a_number_is_not_trusted() {
        let of = |inputs: &[f32], outputs: &[f32]| Sum::of(inputs, outputs, 2).checked();
        assert!(of(&[1.0, 0.5, 0.5, 1.0], &[1.0, 0.0, 0.0, 1.0]).is_some());
        assert!(of(&[1.0, 1.0, 1.0, 1.0], &[1.0, -0.9999, -0.9999, 1.0]).is_none());
        assert!(of(&[f32::INFINITY, 0.0, 0.0, 1.0], &[1.0, 0.0, 0.0, 1.0]).is_none());
        assert!(of(&[1e30, 0.0, 0.0, 1.0], &[1e-30, 0.0, 0.0, 1.0]).is_none());
        assert!(of(&[1.0, 0.0, 0.0, 1.0], &[f32::NAN; 4]).is_none());
        assert_eq!(of(&[0.0; 4], &[0.0; 4]), Some(0.0));
    }
}
