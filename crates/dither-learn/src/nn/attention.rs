//! Multi-head attention within sequences.

use super::buffer::Buffer;
use super::matrix::{add_product, part, part_mut, product, view, view_mut};
use super::simd::{exp, fold, largest, sum, wide};
use super::spans::Spans;

/// softmax(q·kᵀ/√w)·v in every head, within every sequence. Nothing of another sequence is seen.
#[derive(Clone, Debug)]
pub struct Attention {
    pub heads: usize,
    /// Heads of keys and values; each serves heads/groups heads of queries.
    pub groups: usize,
    /// Width of a head.
    pub width: usize,
    /// Whether a position sees only those before it, and itself.
    pub causal: bool,
}

impl Attention {
    /// Numbers of a position: its queries, its keys, its values.
    pub fn inputs(&self) -> usize {
        (self.heads + 2 * self.groups) * self.width
    }

    /// Columns of a head's queries, keys and values.
    fn columns(&self, head: usize) -> [std::ops::Range<usize>; 3] {
        let of = |index: usize| index * self.width..(index + 1) * self.width;
        let group = head / (self.heads / self.groups);
        [of(head), of(self.heads + group), of(self.heads + self.groups + group)]
    }

    fn scale(&self) -> f32 {
        1.0 / (self.width as f32).sqrt()
    }

    /// Outputs of all heads side by side, and the weights of every sequence and head.
    pub fn forward(&self, inputs: &[f32], sequences: &Spans) -> (Buffer, Buffer) {
        let outputs = self.heads * self.width;
        let mut out = Buffer::dirty(sequences.total() * outputs);
        let squares: usize = sequences.iter().map(|span| span.len() * span.len()).sum();
        let mut weights = Buffer::dirty(squares * self.heads);
        let all = view(inputs, self.inputs());
        let mut y = view_mut(&mut out, outputs);
        let mut rest = &mut weights[..];
        for (span, head) in sequences.iter().flat_map(|span| (0..self.heads).map(move |head| (span.clone(), head))) {
            let length = span.len();
            let (weights, after) = rest.split_at_mut(length * length);
            rest = after;
            let [q, k, v] = self.columns(head).map(|columns| part(&all, span.clone(), columns));
            product(&q, &k.transpose(), &mut view_mut(weights, length));
            wide(
                #[inline(always)]
                || {
                    for (position, row) in weights.chunks_exact_mut(length).enumerate() {
                        let seen = if self.causal { position + 1 } else { length };
                        softmax(&mut row[..seen], self.scale());
                        row[seen..].fill(0.0);
                    }
                },
            );
            let [columns, ..] = self.columns(head);
            product(&view(weights, length), &v, &mut part_mut(&mut y, span, columns));
        }
        (out, weights)
    }

    /// The gradient of the inputs.
    pub fn backward(&self, inputs: &[f32], weights: &[f32], gradients: &[f32], sequences: &Spans) -> Buffer {
        let mut back = Buffer::zeros(inputs.len());
        let (all, gradients) = (view(inputs, self.inputs()), view(gradients, self.heads * self.width));
        let mut out = view_mut(&mut back, self.inputs());
        let longest = sequences.iter().map(|span| span.len()).max().unwrap_or(0);
        let (mut slopes, mut rest) = (Buffer::dirty(longest * longest), weights);
        for (span, head) in sequences.iter().flat_map(|span| (0..self.heads).map(move |head| (span.clone(), head))) {
            let length = span.len();
            let (weights, after) = rest.split_at(length * length);
            rest = after;
            let columns = self.columns(head);
            let [q, k, v] = columns.clone().map(|columns| part(&all, span.clone(), columns));
            let g = part(&gradients, span.clone(), columns[0].clone());
            let slopes = &mut slopes[..length * length];
            product(&g, &v.transpose(), &mut view_mut(slopes, length));
            wide(
                #[inline(always)]
                || {
                    for (slope, weight) in slopes.chunks_exact_mut(length).zip(weights.chunks_exact(length)) {
                        let mean = fold(slope, weight, |slope, weight| slope * weight);
                        for (slope, &weight) in slope.iter_mut().zip(weight) {
                            *slope = weight * (*slope - mean) * self.scale();
                        }
                    }
                },
            );
            let (slopes, weights) = (view(slopes, length), view(weights, length));
            let [to_q, to_k, to_v] = columns;
            product(&slopes, &k, &mut part_mut(&mut out, span.clone(), to_q));
            add_product(&slopes.transpose(), &q, &mut part_mut(&mut out, span.clone(), to_k));
            add_product(&weights.transpose(), &g, &mut part_mut(&mut out, span, to_v));
        }
        back
    }
}

/// softmax(scale·x) in place.
#[inline(always)]
pub fn softmax(row: &mut [f32], scale: f32) {
    // A score that is not a number is lost in the maximum, but not in the sum.
    let top = largest(row);
    row.iter_mut().for_each(|x| *x = exp((*x - top) * scale));
    let inverse = 1.0 / sum(row);
    row.iter_mut().for_each(|x| *x *= inverse);
}
