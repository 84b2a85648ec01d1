//! Normalisation within one position: LayerNorm, RMSNorm, and GroupNorm within one image.

use super::buffer::Buffer;
use super::parameters::{Builder, Parameters, Slot, Start};
use super::simd::{fold, sum, wide};
use super::spans::Spans;
use super::tape::Tape;

/// Every row of `width` numbers is brought to mean 0 and variance 1, or only to mean square 1, then scaled and shifted.
#[derive(Clone, Debug)]
pub struct Norm {
    pub width: usize,
    pub gamma: Slot,
    /// Without it the mean stays (RMSNorm).
    pub beta: Option<Slot>,
    pub epsilon: f32,
}

/// Normalised rows, and by what they were multiplied.
#[derive(Debug)]
pub struct Normalised {
    rows: Buffer,
    inverse: Vec<f32>,
}

impl Norm {
    pub fn new(builder: &mut Builder, name: &str, width: usize, centred: bool, trainable: bool, epsilon: f64) -> Self {
        let gamma = builder.tensor(format!("{name}.weight"), &[width], trainable, Start::Constant(1.0));
        let zeros =
            |builder: &mut Builder| builder.tensor(format!("{name}.bias"), &[width], trainable, Start::Constant(0.0));
        let beta = centred.then(|| zeros(builder));
        Self { width, gamma, beta, epsilon: epsilon as f32 }
    }

    pub fn forward(&self, parameters: &Parameters, mut rows: Buffer) -> (Buffer, Normalised) {
        let (gamma, beta) = (parameters.get(self.gamma), self.beta.map(|beta| parameters.get(beta)));
        let mut outputs = Buffer::zeros(rows.len());
        let mut inverse = Vec::with_capacity(rows.len() / self.width);
        wide(
            #[inline(always)]
            || {
                for (row, out) in rows.chunks_exact_mut(self.width).zip(outputs.chunks_exact_mut(self.width)) {
                    inverse.push(normalise(row, beta.is_some(), self.epsilon));
                    match beta {
                        Some(beta) => {
                            for (((out, &x), &gamma), &beta) in out.iter_mut().zip(&*row).zip(gamma).zip(beta) {
                                *out = x * gamma + beta;
                            }
                        }
                        None => {
                            for ((out, &x), &gamma) in out.iter_mut().zip(&*row).zip(gamma) {
                                *out = x * gamma;
                            }
                        }
                    }
                }
            },
        );
        (outputs, Normalised { rows, inverse })
    }

    /// Records the gradients of γ and β, and returns that of the inputs if it is wanted.
    pub fn backward(
        &self,
        parameters: &Parameters,
        saved: Normalised,
        mut gradients: Buffer,
        spans: &Spans,
        tape: &mut Tape<'_>,
        wanted: bool,
    ) -> Buffer {
        let width = self.width;
        tape.rows(self.gamma, spans, |rows, out| {
            let range = rows.start * width..rows.end * width;
            wide(
                #[inline(always)]
                || {
                    for (g, x) in
                        gradients[range.clone()].chunks_exact(width).zip(saved.rows[range].chunks_exact(width))
                    {
                        for ((out, &g), &x) in out.iter_mut().zip(g).zip(x) {
                            *out += g * x;
                        }
                    }
                },
            );
        });
        if let Some(beta) = self.beta {
            tape.rows(beta, spans, |rows, out| add_rows(&gradients[rows.start * width..rows.end * width], out));
        }
        if !wanted {
            return Buffer::default();
        }
        let gamma = parameters.get(self.gamma);
        wide(
            #[inline(always)]
            || {
                let rows = gradients.chunks_exact_mut(width).zip(saved.rows.chunks_exact(width));
                for ((g, x), &inverse) in rows.zip(&saved.inverse) {
                    for (g, &gamma) in g.iter_mut().zip(gamma) {
                        *g *= gamma;
                    }
                    back(g, x, inverse, self.beta.is_some());
                }
            },
        );
        gradients
    }
}

/// The channels of an image in groups, each brought to mean 0 and variance 1, then scaled and shifted by channel.
#[derive(Clone, Debug)]
pub struct GroupNorm {
    pub positions: usize,
    pub channels: usize,
    pub groups: usize,
    pub gamma: Slot,
    pub beta: Slot,
    pub epsilon: f32,
}

impl GroupNorm {
    /// One row is an image: positions × channels.
    pub fn forward(&self, parameters: &Parameters, rows: &[f32]) -> (Buffer, Normalised) {
        let mut grouped = self.gather(rows);
        let chunk = self.positions * self.channels / self.groups;
        let normalise = |row| {
            wide(
                #[inline(always)]
                || normalise(row, true, self.epsilon),
            )
        };
        let inverse = grouped.chunks_exact_mut(chunk).map(normalise).collect();
        let mut outputs = self.scatter(&grouped);
        let (gamma, beta) = (parameters.get(self.gamma), parameters.get(self.beta));
        for position in outputs.chunks_exact_mut(self.channels) {
            for ((out, &gamma), &beta) in position.iter_mut().zip(gamma).zip(beta) {
                *out = *out * gamma + beta;
            }
        }
        (outputs, Normalised { rows: grouped, inverse })
    }

    pub fn backward(
        &self,
        parameters: &Parameters,
        saved: Normalised,
        mut gradients: Buffer,
        spans: &Spans,
        tape: &mut Tape<'_>,
        wanted: bool,
    ) -> Buffer {
        let row = self.positions * self.channels;
        let normalised = self.scatter(&saved.rows);
        tape.rows(self.gamma, spans, |rows, out| {
            let range = rows.start * row..rows.end * row;
            let pairs =
                gradients[range.clone()].chunks_exact(self.channels).zip(normalised[range].chunks_exact(self.channels));
            for (g, x) in pairs {
                for ((out, &g), &x) in out.iter_mut().zip(g).zip(x) {
                    *out += g * x;
                }
            }
        });
        tape.rows(self.beta, spans, |rows, out| add_rows(&gradients[rows.start * row..rows.end * row], out));
        if !wanted {
            return Buffer::default();
        }
        for position in gradients.chunks_exact_mut(self.channels) {
            for (g, &gamma) in position.iter_mut().zip(parameters.get(self.gamma)) {
                *g *= gamma;
            }
        }
        let mut grouped = self.gather(&gradients);
        let chunk = row / self.groups;
        for ((g, x), &inverse) in
            grouped.chunks_exact_mut(chunk).zip(saved.rows.chunks_exact(chunk)).zip(&saved.inverse)
        {
            wide(
                #[inline(always)]
                || back(g, x, inverse, true),
            );
        }
        self.scatter(&grouped)
    }

    /// Channels of a group side by side: the order of images is (position, group, channel), that of groups the reverse
    /// of the first two.
    fn gather(&self, rows: &[f32]) -> Buffer {
        swap(rows, self.positions, self.groups, self.channels / self.groups)
    }

    fn scatter(&self, grouped: &[f32]) -> Buffer {
        swap(grouped, self.groups, self.positions, self.channels / self.groups)
    }
}

/// From (outer, inner, run) to (inner, outer, run), in every part of that size.
fn swap(numbers: &[f32], outer: usize, inner: usize, run: usize) -> Buffer {
    let mut out = Buffer::with_capacity(numbers.len());
    for part in numbers.chunks_exact(outer * inner * run) {
        for i in 0..inner {
            for o in 0..outer {
                out.extend_from_slice(&part[(o * inner + i) * run..][..run]);
            }
        }
    }
    out
}

/// Σ of rows as wide as `out`.
fn add_rows(rows: &[f32], out: &mut [f32]) {
    wide(
        #[inline(always)]
        || {
            for row in rows.chunks_exact(out.len()) {
                super::simd::add_scaled(out, 1.0, row);
            }
        },
    );
}

/// Normalises a row in place; returns by what it was multiplied.
#[inline(always)]
fn normalise(row: &mut [f32], centred: bool, epsilon: f32) -> f32 {
    let count = row.len() as f32;
    if centred {
        let mean = sum(row) / count;
        row.iter_mut().for_each(|x| *x -= mean);
    }
    let inverse = 1.0 / (fold(row, row, |x, y| x * y) / count + epsilon).sqrt();
    row.iter_mut().for_each(|x| *x *= inverse);
    inverse
}

/// From the gradient of a normalised row to that of the row, in place.
#[inline(always)]
fn back(g: &mut [f32], x: &[f32], inverse: f32, centred: bool) {
    let count = g.len() as f32;
    let mean = if centred { sum(g) / count } else { 0.0 };
    let slope = fold(g, x, |g, x| g * x) / count;
    for (g, &x) in g.iter_mut().zip(x) {
        *g = inverse * (*g - mean - x * slope);
    }
}
