//! The three parties and what they say to each other.

use std::collections::BTreeSet;

use dither_noise::NoiseSource;
use fhe_math::rq::Poly;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::MAX_SUM;
use super::error::SumError;
use super::ring::{DEGREE, PAIR_BYTES, Pair, Ring, generator};
use crate::secagg::{ClientId, Parameters, ProtocolError};

/// What the key holder tells all clients. Whose key it is they must know from elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublicKey {
    /// [`Parameters::digest`].
    pub session: [u8; 32],
    /// Two polynomials.
    pub key: Vec<u8>,
}

/// What a client tells the aggregator: its vector, encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contribution {
    /// [`Parameters::digest`].
    pub session: [u8; 32],
    /// Who speaks.
    pub from: ClientId,
    /// Two polynomials for every 4,096 numbers.
    pub ciphertext: Vec<u8>,
}

/// What the aggregator tells the key holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncryptedSum {
    /// [`Parameters::digest`].
    pub session: [u8; 32],
    /// How many contributions were added up, as the aggregator says; nobody can check it.
    pub contributions: u32,
    /// Two polynomials for every 4,096 numbers.
    pub ciphertext: Vec<u8>,
}

impl PublicKey {
    /// Encrypts the vector of one client.
    ///
    /// # Errors
    /// [`SumError`] for a key or a vector that is not of this session, or a number beyond ±[`MAX_SUM`].
    ///
    /// # Privacy
    /// The vector must have the client's share of the noise in it already. Encrypting twice in one session is adding twice.
    pub fn encrypt(
        &self,
        parameters: &Parameters,
        from: ClientId,
        numbers: &[i64],
        source: &mut NoiseSource,
    ) -> Result<Contribution, SumError> {
        parameters.check_session(&self.session)?;
        parameters.check_client(from)?;
        parameters.check_vector(numbers.len())?;
        if numbers.iter().any(|x| x.unsigned_abs() > MAX_SUM.unsigned_abs()) {
            return Err(SumError::OutOfRange);
        }
        let (ring, mut generator) = (Ring::get()?, generator(source));
        let key = ring.read(&self.key)?;
        let mut ciphertext = Vec::with_capacity(blocks(parameters) * PAIR_BYTES);
        for block in numbers.chunks(DEGREE) {
            ring.encrypt(&key, block, &mut generator)?.write(&mut ciphertext);
        }
        Ok(Contribution { session: self.session, from, ciphertext })
    }
}

/// The party that can decrypt, and is given nothing but one sum.
///
/// It has no `Debug`: it is the secret key, which is overwritten when dropped.
pub struct KeyHolder {
    parameters: Parameters,
    secret: Zeroizing<Poly>,
}

impl KeyHolder {
    /// Draws the keys of one session.
    ///
    /// # Errors
    /// [`SumError::Ring`].
    pub fn new(parameters: &Parameters, source: &mut NoiseSource) -> Result<(Self, PublicKey), SumError> {
        let (secret, pair) = Ring::get()?.keys(&mut generator(source))?;
        let mut key = Vec::with_capacity(PAIR_BYTES);
        pair.write(&mut key);
        Ok((Self { parameters: parameters.clone(), secret }, PublicKey { session: *parameters.digest(), key }))
    }

    /// Decrypts the sum, and forgets the key: two sums of one session would tell what one client adds.
    ///
    /// The result is wrong, and nothing tells, if a true sum is beyond ±[`MAX_SUM`] or somebody altered a ciphertext.
    ///
    /// # Errors
    /// [`SumError`] for a sum of another session, of the wrong size, or of fewer clients than the threshold.
    ///
    /// # Privacy
    /// The guarantee is that of a sum of so many contributions as the aggregator says. See [`super`].
    pub fn decrypt(self, sum: &EncryptedSum) -> Result<Vec<i64>, SumError> {
        self.parameters.check_session(&sum.session)?;
        check_count(&self.parameters, sum.contributions)?;
        let ring = Ring::get()?;
        let mut numbers = Vec::with_capacity(blocks(&self.parameters) * DEGREE);
        for block in read(&self.parameters, &sum.ciphertext)? {
            numbers.extend_from_slice(&ring.decrypt(&self.secret, &block)?);
        }
        numbers.truncate(self.parameters.dimension() as usize);
        Ok(numbers)
    }
}

/// The party that adds up what it cannot read.
pub struct Aggregator {
    parameters: Parameters,
    heard: BTreeSet<ClientId>,
    sum: Vec<Pair>,
}

impl Aggregator {
    /// An aggregator of one session that has heard nobody.
    pub fn new(parameters: &Parameters) -> Self {
        Self { parameters: parameters.clone(), heard: BTreeSet::new(), sum: Vec::new() }
    }

    /// Adds the vector of one client.
    ///
    /// # Errors
    /// [`SumError`] for what is of another session, of a stranger, of a client that was heard already, or malformed. The
    /// sum is what it was.
    pub fn receive(&mut self, contribution: &Contribution) -> Result<(), SumError> {
        let Contribution { session, from, ciphertext } = contribution;
        self.parameters.check_session(session)?;
        self.parameters.check_client(*from)?;
        if self.heard.contains(from) {
            return Err(ProtocolError::Duplicate(*from).into());
        }
        let blocks = read(&self.parameters, ciphertext)?;
        if self.sum.is_empty() {
            self.sum = blocks;
        } else {
            self.sum.iter_mut().zip(&blocks).for_each(|(sum, block)| sum.add(block));
        }
        self.heard.insert(*from);
        Ok(())
    }

    /// The sum for the key holder. Whoever was not heard by now is not in it.
    ///
    /// # Errors
    /// [`SumError::TooFew`] below the threshold: the shares of noise in such a sum are less than what is priced.
    pub fn close(self) -> Result<EncryptedSum, SumError> {
        // At most as many as there are clients.
        let contributions = self.heard.len() as u32;
        check_count(&self.parameters, contributions)?;
        let mut ciphertext = Vec::with_capacity(self.sum.len() * PAIR_BYTES);
        self.sum.iter().for_each(|block| block.write(&mut ciphertext));
        Ok(EncryptedSum { session: *self.parameters.digest(), contributions, ciphertext })
    }
}

/// How many blocks a vector of a session takes.
fn blocks(parameters: &Parameters) -> usize {
    (parameters.dimension() as usize).div_ceil(DEGREE)
}

fn read(parameters: &Parameters, ciphertext: &[u8]) -> Result<Vec<Pair>, SumError> {
    let ring = Ring::get()?;
    if ciphertext.len() != blocks(parameters) * PAIR_BYTES {
        return Err(SumError::Malformed);
    }
    ciphertext.chunks_exact(PAIR_BYTES).map(|bytes| ring.read(bytes)).collect()
}

fn check_count(parameters: &Parameters, found: u32) -> Result<(), SumError> {
    let (needed, most) = (parameters.threshold(), parameters.clients());
    if found < needed {
        return Err(SumError::TooFew { found, needed });
    }
    if found > most {
        return Err(SumError::TooMany { found, most });
    }
    Ok(())
}
