//! Products of matrices.

use std::ops::Range;

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, Axis};

/// A matrix that lies row by row in a slice, or a part of one.
pub type View<'a> = ArrayView2<'a, f32>;

/// The same, to write into.
pub type ViewMut<'a> = ArrayViewMut2<'a, f32>;

/// Views numbers as rows of a width.
pub fn view(numbers: &[f32], width: usize) -> View<'_> {
    let rows = numbers.len() / width.max(1);
    ArrayView2::from_shape((rows, width), &numbers[..rows * width]).unwrap_or_else(|_| unreachable!("rows fit"))
}

/// Views numbers as rows of a width, to write into.
pub fn view_mut(numbers: &mut [f32], width: usize) -> ViewMut<'_> {
    let rows = numbers.len() / width.max(1);
    ArrayViewMut2::from_shape((rows, width), &mut numbers[..rows * width]).unwrap_or_else(|_| unreachable!("rows fit"))
}

/// Some rows and columns of a matrix.
pub fn part<'a>(matrix: &View<'a>, rows: Range<usize>, columns: Range<usize>) -> View<'a> {
    let mut part = *matrix;
    part.slice_axis_inplace(Axis(0), rows.into());
    part.slice_axis_inplace(Axis(1), columns.into());
    part
}

/// Some rows and columns of a matrix, to write into.
pub fn part_mut<'a>(matrix: &'a mut ViewMut<'_>, rows: Range<usize>, columns: Range<usize>) -> ViewMut<'a> {
    let mut part = matrix.view_mut();
    part.slice_axis_inplace(Axis(0), rows.into());
    part.slice_axis_inplace(Axis(1), columns.into());
    part
}

/// out = a·b.
pub fn product(a: &View<'_>, b: &View<'_>, out: &mut ViewMut<'_>) {
    general_mat_mul(1.0, a, b, 0.0, out);
}

/// out += a·b.
pub fn add_product(a: &View<'_>, b: &View<'_>, out: &mut ViewMut<'_>) {
    general_mat_mul(1.0, a, b, 1.0, out);
}

/// a·b as new rows.
pub fn multiply(a: &View<'_>, b: &View<'_>) -> Vec<f32> {
    let mut out = vec![0.0; a.nrows() * b.ncols()];
    product(a, b, &mut view_mut(&mut out, b.ncols()));
    out
}
