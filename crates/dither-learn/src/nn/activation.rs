//! Functions of single numbers.

use serde::{Deserialize, Serialize};

use super::buffer::Buffer;
use super::simd::{exp, normal, wide};

/// A function of single numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// max(0, x).
    Relu,
    /// x·Φ(x).
    Gelu,
    /// tanh x; bounded, which helps when gradients are clipped.
    Tanh,
    /// x/(1 + e^−x).
    Silu,
}

impl Activation {
    /// f of every number.
    pub(crate) fn forward(self, inputs: &[f32]) -> Buffer {
        let mut outputs = Buffer::dirty(inputs.len());
        let pairs = outputs.iter_mut().zip(inputs);
        match self {
            // Written so that NaN stays NaN.
            Self::Relu => wide(
                #[inline(always)]
                || pairs.for_each(|(y, &x)| *y = if x < 0.0 { 0.0 } else { x }),
            ),
            Self::Gelu => wide(
                #[inline(always)]
                || pairs.for_each(|(y, &x)| *y = x * normal(x).0),
            ),
            Self::Tanh => wide(
                #[inline(always)]
                || pairs.for_each(|(y, &x)| *y = tanh(x)),
            ),
            Self::Silu => wide(
                #[inline(always)]
                || pairs.for_each(|(y, &x)| *y = x * sigmoid(x)),
            ),
        }
        outputs
    }

    /// Multiplies gradients by f′ of the inputs.
    pub(crate) fn backward(self, inputs: &[f32], gradients: &mut [f32]) {
        let pairs = gradients.iter_mut().zip(inputs);
        match self {
            Self::Relu => wide(
                #[inline(always)]
                || pairs.for_each(|(g, &x)| *g = if x <= 0.0 { 0.0 } else { *g }),
            ),
            Self::Gelu => wide(
                #[inline(always)]
                || {
                    pairs.for_each(|(g, &x)| {
                        let (below, density) = normal(x);
                        *g *= below + x * density;
                    });
                },
            ),
            Self::Tanh => wide(
                #[inline(always)]
                || {
                    pairs.for_each(|(g, &x)| {
                        let y = tanh(x);
                        *g *= 1.0 - y * y;
                    });
                },
            ),
            Self::Silu => wide(
                #[inline(always)]
                || {
                    pairs.for_each(|(g, &x)| {
                        let y = sigmoid(x);
                        *g *= y + x * y * (1.0 - y);
                    });
                },
            ),
        }
    }
}

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

#[inline(always)]
fn tanh(x: f32) -> f32 {
    1.0 - 2.0 / (exp(2.0 * x) + 1.0)
}

/// silu(gate)·up, where every position has `hidden` numbers of the gate and then as many of the other (SwiGLU).
///
/// # References
/// Shazeer, *GLU Variants Improve Transformer* (2020).
pub(crate) fn gated(inputs: &[f32], hidden: usize) -> Buffer {
    let mut outputs = Buffer::dirty(inputs.len() / 2);
    wide(
        #[inline(always)]
        || {
            for (out, row) in outputs.chunks_exact_mut(hidden).zip(inputs.chunks_exact(2 * hidden)) {
                let (gate, up) = row.split_at(hidden);
                for ((y, &gate), &up) in out.iter_mut().zip(gate).zip(up) {
                    *y = gate * sigmoid(gate) * up;
                }
            }
        },
    );
    outputs
}

/// The gradient of the inputs of [`gated`].
pub(crate) fn gated_back(inputs: &[f32], gradients: &[f32], hidden: usize) -> Buffer {
    let mut back = Buffer::dirty(inputs.len());
    wide(
        #[inline(always)]
        || {
            let rows = inputs.chunks_exact(2 * hidden).zip(gradients.chunks_exact(hidden));
            for (back, (row, g)) in back.chunks_exact_mut(2 * hidden).zip(rows) {
                let ((gate, up), (to_gate, to_up)) = (row.split_at(hidden), back.split_at_mut(hidden));
                for (((&x, &up), &g), (to_gate, to_up)) in gate.iter().zip(up).zip(g).zip(to_gate.iter_mut().zip(to_up))
                {
                    let y = sigmoid(x);
                    *to_gate = g * up * (y + x * y * (1.0 - y));
                    *to_up = g * x * y;
                }
            }
        },
    );
    back
}
