//! Networks whose backward pass knows the norm of every sample's gradient without making it.
//!
//! ```text
//! batch ─▶ layers forward ─▶ loss ─▶ layers back ─▶ Tape: norms of samples ─▶ Factors ─▶ Tape: clipped sum
//! ```
//!
//! There is no automatic differentiation: every layer has its two directions, and hands to the tape what the gradient of
//! its weights is made of. Frozen layers hand in nothing.
//!
//! # What this module does not do
//! It draws no noise, samples nothing and knows no price. Layers that mix samples do not exist here.
//!
//! # Privacy
//! Taking one sample out of a batch, or adding one, moves the sum of `add_clipped` by the bound of the clipping at most in
//! the Euclidean norm, up to the rounding of 32 bits where samples are added up. Whoever adds the noise rounds the sum to a
//! lattice or leaves room for that. What else `add_clipped` returns, losses and norms, is private.
//!
//! # Where to start
//! [`Description`] says what a network looks like, [`Network::new`] builds it.

mod activation;
mod attention;
mod block;
mod buffer;
mod description;
mod error;
mod factors;
mod feedforward;
mod gguf;
mod ghost;
mod half;
mod images;
mod int8;
mod linear;
mod lookup;
mod loss;
mod matrix;
mod memory;
mod mutant;
mod network;
mod norm;
mod parameters;
mod rotary;
mod simd;
mod spans;
mod tape;
mod transformer;
pub(crate) mod weights;

#[cfg(test)]
mod tests;

pub use activation::Activation;
pub use description::{Decoder, Description, Encoder, Input, Layers, Llama, Lora, Objective, Stage, Target, Train};
pub use error::NetworkError;
pub use gguf::Gguf;
pub use int8::{Quantized, quantize};
pub use network::Network;
pub use weights::AdapterFiles;

pub(crate) use buffer::{Buffer, give_back};
pub(crate) use simd::wide;

/// sum += x.
pub(crate) fn add_to(sum: &mut [f32], x: &[f32]) {
    wide(
        #[inline(always)]
        || simd::add_scaled(sum, 1.0, x),
    );
}

/// Σx² in 64 bits.
pub(crate) fn squared(x: &[f32]) -> f64 {
    wide(
        #[inline(always)]
        || simd::sum_of_squares(x),
    )
}
