//! The only source of privacy randomness.
//!
//! # Why it exists
//! A guarantee is worth what its noise is worth. Noise from floating point leaves marks in the low bits that
//! undo it (Mironov 2012), noise from a weak or repeated seed can be subtracted. Here every draw is an exact
//! integer from an exact distribution with rational parameters, made of bits from a CSPRNG that the operating
//! system seeds once per request.
//!
//! # What this crate does not do
//! It knows no data, no sensitivity and no ε: `dither-mechanisms` decides which noise is enough. It offers no
//! seed. A job that must go on after a crash with the noise it would have drawn has a [`JobKey`], which comes from the
//! system as well. Sampling without a table takes a time that depends on the draw; [`NoiseTable::draw`] does not.
//!
//! # Where to start
//! [`NoiseSource::from_os`] for the randomness, [`discrete_laplace`] and [`discrete_gaussian`] for noise of any
//! width, [`NoiseTable`] for much of it or where it is timed, [`exponential_choice`] and [`bernoulli_odds`] for choices,
//! [`laplace_tail`], [`laplace_quantile`] and [`gaussian_quantile`] for the size of its errors.
//!
//! ```
//! use dither_core::Ratio;
//! use dither_noise::{NoiseSource, discrete_laplace};
//! let mut source = NoiseSource::from_os()?;
//! let noise: i128 = discrete_laplace(&mut source, Ratio::new(5, 2).unwrap())?;
//! # let _ = noise;
//! # Ok::<(), dither_noise::NoiseError>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod bernoulli;
mod choice;
mod density;
mod error;
mod exponential;
mod gaussian;
pub mod hazmat;
mod job;
mod laplace;
mod source;
mod staircase;
mod table;
mod tails;
mod uniform;

pub use bernoulli::{bernoulli, bernoulli_exp};
pub use choice::{bernoulli_odds, exponential_choice, exponential_choice_by_distance, permute_and_flip};
pub use error::NoiseError;
pub use exponential::discrete_exponential;
pub use gaussian::discrete_gaussian;
pub use job::{JobKey, JobStream, Purpose};
pub use laplace::discrete_laplace;
pub use source::{BitSource, NoiseSource, Secret};
pub use staircase::discrete_staircase;
pub use table::NoiseTable;
pub use tails::{first_integer, gaussian_quantile, gaussian_tail, laplace_quantile, laplace_tail};
pub use uniform::uniform_below;

/// How often any loop of a sampler tries before it gives up with [`NoiseError::Exhausted`].
///
/// The loops end by chance; a stuck generator would keep them going forever. With working randomness the most
/// persistent of them goes on with probability below 0.72 per round (see [`discrete_gaussian`]), so that a
/// healthy draw fails with probability below 0.72^512 < 2^-242.
pub const MAX_TRIES: u32 = 512;
