//! Gradients of tables whose rows are looked up.

use super::ghost::{self, Sum};
use super::matrix::{View, multiply};
use super::mutant::{Mutant, is};
use super::simd::{add_scaled, sum_of_squares, wide};

/// Adds the output gradients of all positions to the rows that they took.
pub fn add(table: &mut [f32], ids: &[u32], gradients: &[f32], width: usize) {
    wide(
        #[inline(always)]
        || {
            for (&id, g) in ids.iter().zip(gradients.chunks(width)) {
                let start = (id as usize).saturating_mul(width);
                if let Some(row) = table.get_mut(start..start.saturating_add(width)) {
                    add_scaled(row, 1.0, g);
                }
            }
        },
    );
}

/// The squared norm of the gradient of one sample: positions that took the same row add up before they are squared.
pub fn square(ids: &[u32], gradients: &[f32], rows: usize) -> f64 {
    let Some(width) = gradients.len().checked_div(ids.len()) else { return 0.0 };
    if ids.iter().any(|&id| id as usize >= rows) {
        return f64::NAN;
    }
    let mut order: Vec<(u32, usize)> = ids.iter().copied().zip(0..).collect();
    order.sort_unstable();
    let same = |a: &(u32, usize), b: &(u32, usize)| a.0 == b.0 && !is(Mutant::TokensTwice);
    let mut total = vec![0.0; width];
    let (mut squares, mut lengths) = (0.0, 0.0);
    wide(
        #[inline(always)]
        || {
            for positions in order.chunk_by(same) {
                let row = |&(_, position): &(u32, usize)| &gradients[position * width..(position + 1) * width];
                let [first, rest @ ..] = positions else { continue };
                if rest.is_empty() {
                    squares += sum_of_squares(row(first));
                    continue;
                }
                total.copy_from_slice(row(first));
                rest.iter().for_each(|position| add_scaled(&mut total, 1.0, row(position)));
                squares += sum_of_squares(&total);
                lengths += positions.iter().map(|position| sum_of_squares(row(position)).sqrt()).sum::<f64>();
            }
        },
    );
    ghost::rounded_up(squares, lengths)
}

/// The squared norm where the same table was also multiplied with `x`, and `g` is the gradient of that product.
///
/// ‖G + H‖² = ‖G‖² + ‖H‖² + 2⟨G, H⟩, and ⟨G, H⟩ = Σ (e_t · x_s) · g_s[id_t] over all pairs of positions.
pub fn tied_square(ids: &[u32], looked_up: &[f32], x: &View<'_>, g: &View<'_>) -> f64 {
    let (positions, width, rows) = (x.nrows(), x.ncols(), g.ncols());
    let alone = square(ids, looked_up, rows);
    if positions == 0 || alone.is_nan() {
        return alone;
    }
    let lengths: f64 = looked_up
        .chunks(width)
        .map(|row| {
            wide(
                #[inline(always)]
                || sum_of_squares(row),
            )
            .sqrt()
        })
        .sum();
    if ghost::pays(positions, rows * width) {
        let mut sum = Sum::of(&multiply(x, &x.transpose()), &multiply(g, &g.transpose()), positions);
        let e = super::matrix::view(looked_up, width);
        let cross = multiply(&e, &x.transpose());
        let (mut value, mut magnitude) = (0.0, 0.0);
        for (&id, row) in ids.iter().zip(cross.chunks(positions)) {
            for (&product, &g) in row.iter().zip(g.col(id as usize).iter()) {
                let term = f64::from(product) * f64::from(g);
                value += term;
                magnitude += term.abs();
            }
        }
        if is(Mutant::NoCrossTerm) {
            value = 0.0;
        }
        sum.value += alone + 2.0 * value;
        sum.lengths += lengths;
        sum.magnitude += alone + 2.0 * magnitude;
        if let Some(square) = sum.checked() {
            return square;
        }
    }
    let mut table = multiply(&g.transpose(), x);
    add(&mut table, ids, looked_up, width);
    ghost::rounded_up(
        wide(
            #[inline(always)]
            || sum_of_squares(&table),
        ),
        ghost::lengths(x, g) + lengths,
    )
}
