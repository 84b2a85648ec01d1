//! Products of matrices.

use std::ops::Range;

use faer::linalg::matmul::matmul;
use faer::reborrow::ReborrowMut;
use faer::{Accum, MatMut, MatRef, Par};

use super::buffer::Buffer;

/// A matrix that lies row by row in a slice, or a part of one.
pub type View<'a> = MatRef<'a, f32>;

/// The same, to write into.
pub type ViewMut<'a> = MatMut<'a, f32>;

/// Views numbers as rows of a width.
pub fn view(numbers: &[f32], width: usize) -> View<'_> {
    let rows = numbers.len() / width.max(1);
    MatRef::from_row_major_slice(&numbers[..rows * width], rows, width)
}

/// Views numbers as rows of a width, to write into.
pub fn view_mut(numbers: &mut [f32], width: usize) -> ViewMut<'_> {
    let rows = numbers.len() / width.max(1);
    MatMut::from_row_major_slice_mut(&mut numbers[..rows * width], rows, width)
}

/// Some rows and columns of a matrix.
pub fn part<'a>(matrix: &View<'a>, rows: Range<usize>, columns: Range<usize>) -> View<'a> {
    matrix.submatrix(rows.start, columns.start, rows.len(), columns.len())
}

/// Some rows and columns of a matrix, to write into.
pub fn part_mut<'a>(matrix: &'a mut ViewMut<'_>, rows: Range<usize>, columns: Range<usize>) -> ViewMut<'a> {
    matrix.rb_mut().submatrix_mut(rows.start, columns.start, rows.len(), columns.len())
}

/// out = a·b.
pub fn product(a: &View<'_>, b: &View<'_>, out: &mut ViewMut<'_>) {
    matmul(out, Accum::Replace, a, b, 1.0, Par::Seq);
}

/// out += a·b.
pub fn add_product(a: &View<'_>, b: &View<'_>, out: &mut ViewMut<'_>) {
    matmul(out, Accum::Add, a, b, 1.0, Par::Seq);
}

/// a·b as new rows.
pub fn multiply(a: &View<'_>, b: &View<'_>) -> Buffer {
    let mut out = Buffer::dirty(a.nrows() * b.ncols());
    product(a, b, &mut view_mut(&mut out, b.ncols()));
    out
}
