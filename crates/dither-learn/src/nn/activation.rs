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
        let mut outputs = Buffer::zeros(inputs.len());
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
