//! The ring of ciphertexts, and encryption over it.

use std::sync::{Arc, LazyLock};

use dither_noise::NoiseSource;
use fhe_math::rq::traits::TryConvertFrom;
use fhe_math::rq::{Context, Poly, Representation};
use fhe_math::zq::Modulus;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use zeroize::Zeroizing;

use super::error::SumError;
use crate::secagg::Parameters;

/// How many integers a block holds: polynomials are modulo x^4096 + 1.
pub(super) const DEGREE: usize = 4096;

/// The largest prime of 38 bits that is 1 modulo 2·4096. Noise lives below it.
pub(super) const NOISE_MODULUS: u64 = 0x3f_fffe_a001;

/// The largest prime of 36 bits that is 1 modulo 2·4096. Sums are modulo it.
pub(super) const MESSAGE_MODULUS: u64 = 0xf_fffe_e001;

/// Of secrets and of noise: centred binomial, the most that the library has. Standards ask for 3.2² at least.
pub(super) const VARIANCE: usize = 16;

/// A centred binomial of variance v is a difference of two counts out of 2v coins.
pub(super) const LARGEST_SMALL: u64 = 2 * VARIANCE as u64;

/// The noise of one encryption, e·u + e₁ + e₂·s, is never beyond this.
pub(super) const LARGEST_NOISE: u64 = 2 * DEGREE as u64 * LARGEST_SMALL * LARGEST_SMALL + LARGEST_SMALL;

// That of the largest session is rounded away.
const _: () = assert!(Parameters::MAX_CLIENTS as u64 * LARGEST_NOISE <= NOISE_MODULUS / 2);

/// Residues of both primes fit five bytes.
const WIDTH: usize = 5;

const POLYNOMIAL_BYTES: usize = 2 * DEGREE * WIDTH;

/// The bytes of a key, and of a block of a ciphertext.
pub(super) const PAIR_BYTES: usize = 2 * POLYNOMIAL_BYTES;

/// Two polynomials: a public key or one block of a ciphertext. In the representation in which products are cheap.
pub(super) struct Pair {
    first: Poly,
    second: Poly,
}

impl Pair {
    /// The sum of two ciphertexts is a ciphertext of the sum.
    pub fn add(&mut self, other: &Self) {
        self.first += &other.first;
        self.second += &other.second;
    }

    pub fn write(&self, bytes: &mut Vec<u8>) {
        for polynomial in [&self.first, &self.second] {
            for residue in polynomial.coefficients() {
                bytes.extend_from_slice(&residue.to_le_bytes()[..WIDTH]);
            }
        }
    }
}

/// What everybody computes in. It is the same for all sessions.
pub(super) struct Ring {
    context: Arc<Context>,
    noise: Modulus,
    message: Modulus,
    /// The inverse of the noise modulus modulo the message modulus.
    unscale: u64,
}

static RING: LazyLock<Option<Ring>> = LazyLock::new(Ring::new);

/// A generator for one encryption, in the type that the library of rings asks for.
pub(super) fn generator(source: &mut NoiseSource) -> ChaCha20Rng {
    ChaCha20Rng::from_seed(*source.secret().as_bytes())
}

impl Ring {
    pub fn get() -> Result<&'static Self, SumError> {
        RING.as_ref().ok_or(SumError::Ring)
    }

    fn new() -> Option<Self> {
        let message = Modulus::new(MESSAGE_MODULUS).ok()?;
        Some(Self {
            context: Context::new_arc(&[NOISE_MODULUS, MESSAGE_MODULUS], DEGREE).ok()?,
            noise: Modulus::new(NOISE_MODULUS).ok()?,
            unscale: message.inv(NOISE_MODULUS % MESSAGE_MODULUS)?,
            message,
        })
    }

    /// A secret s, and its public key (e − a·s, a) with uniform a and small s and e.
    pub fn keys(&self, generator: &mut ChaCha20Rng) -> Result<(Zeroizing<Poly>, Pair), SumError> {
        let secret = self.small(generator)?;
        let second = Poly::random(&self.context, Representation::Ntt, generator);
        let mut first = -(&second * &*secret);
        first += &*self.small(generator)?;
        Ok((secret, Pair { first, second }))
    }

    /// (b·u + e₁ + Δ·x, a·u + e₂) for the key (b, a), with small u, e₁ and e₂, and Δ the noise modulus.
    ///
    /// Takes [`DEGREE`] numbers at most; those that lack are zeros.
    pub fn encrypt(&self, key: &Pair, numbers: &[i64], generator: &mut ChaCha20Rng) -> Result<Pair, SumError> {
        let blind = self.small(generator)?;
        let mut first = &key.first * &*blind;
        first += &*self.small(generator)?;
        first += &*self.scaled(numbers)?;
        let mut second = &key.second * &*blind;
        second += &*self.small(generator)?;
        Ok(Pair { first, second })
    }

    /// The sum in a block: what remains of the phase when the noise is rounded away.
    pub fn decrypt(&self, secret: &Poly, block: &Pair) -> Result<Zeroizing<Vec<i64>>, SumError> {
        let mut phase = Zeroizing::new(&block.second * secret);
        *phase += &block.first;
        phase.change_representation(Representation::PowerBasis);
        let residues = phase.coefficients();
        let (noise, message) = residues.as_slice().ok_or(SumError::Ring)?.split_at(DEGREE);
        // With half of the noise modulus added, rounding is flooring, which needs no branch: the phase less its residue
        // is a multiple of the noise modulus.
        let half = NOISE_MODULUS / 2;
        let sums = noise.iter().zip(message).map(|(&noise, &message)| {
            let rest = self.message.reduce(self.noise.add(noise, half));
            let multiple = self.message.sub(self.message.add(message, half % MESSAGE_MODULUS), rest);
            centred(self.message.mul(multiple, self.unscale))
        });
        Ok(Zeroizing::new(sums.collect()))
    }

    pub fn read(&self, bytes: &[u8]) -> Result<Pair, SumError> {
        if bytes.len() != PAIR_BYTES {
            return Err(SumError::Malformed);
        }
        let (first, second) = bytes.split_at(POLYNOMIAL_BYTES);
        Ok(Pair { first: self.polynomial(first)?, second: self.polynomial(second)? })
    }

    /// A polynomial from its residues, each of which must be smaller than its modulus.
    fn polynomial(&self, bytes: &[u8]) -> Result<Poly, SumError> {
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
        let residues: Vec<u64> = bytes.chunks_exact(WIDTH).map(number).collect();
        let (noise, message) = residues.split_at(DEGREE);
        if noise.iter().any(|&x| x >= NOISE_MODULUS) || message.iter().any(|&x| x >= MESSAGE_MODULUS) {
            return Err(SumError::Malformed);
        }
        Poly::try_convert_from(residues, &self.context, false, Representation::Ntt).map_err(|_| SumError::Ring)
    }

    /// A polynomial of fresh noise.
    fn small(&self, generator: &mut ChaCha20Rng) -> Result<Zeroizing<Poly>, SumError> {
        let small = Poly::small(&self.context, Representation::Ntt, VARIANCE, generator);
        small.map(Zeroizing::new).map_err(|_| SumError::Ring)
    }

    /// Δ·x. It is nothing modulo the noise modulus, which Δ is, so only residues modulo the other are computed.
    fn scaled(&self, numbers: &[i64]) -> Result<Zeroizing<Poly>, SumError> {
        let mut scaled = Zeroizing::new(self.message.reduce_vec_i64(numbers));
        self.message.scalar_mul_vec(&mut scaled, NOISE_MODULUS % MESSAGE_MODULUS);
        let mut residues = vec![0; 2 * DEGREE];
        residues[DEGREE..][..numbers.len()].copy_from_slice(&scaled);
        let scaled = Poly::try_convert_from(residues, &self.context, false, Representation::PowerBasis);
        let mut scaled = scaled.map(Zeroizing::new).map_err(|_| SumError::Ring)?;
        scaled.change_representation(Representation::Ntt);
        Ok(scaled)
    }
}

/// The representative of a residue of the message modulus that is nearest to zero.
fn centred(residue: u64) -> i64 {
    let (residue, modulus) = (residue.cast_signed(), MESSAGE_MODULUS.cast_signed());
    if residue > modulus / 2 { residue - modulus } else { residue }
}
