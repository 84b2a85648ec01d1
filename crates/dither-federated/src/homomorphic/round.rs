//! One round in this process.

use std::collections::BTreeSet;

use dither_noise::NoiseSource;

use super::error::SumError;
use super::parties::{Aggregator, KeyHolder};
use crate::discrete::DistributedGaussian;
use crate::rounds::check_made_for;
use crate::secagg::{ClientId, Parameters, ProtocolError};

/// One distributed round in this process: clip, share the noise, encrypt, add up, decrypt, decode.
///
/// The result is the noisy sum over the clients that are not missing, in the units of the updates.
///
/// # Errors
/// [`SumError`] if the session does not have the length of the mechanism, has more clients or promises fewer honest ones, or
/// if fewer than the threshold are left: nothing is decrypted then.
///
/// # Privacy
/// That of one round of [`DistributedGaussian::guarantee`], against the key holder and, computationally, the aggregator: see
/// [`super`]. All parties are one process here, which hides nothing from whoever runs it.
///
/// ```
/// use dither_federated::DistributedGaussian;
/// use dither_federated::homomorphic::round;
/// use dither_federated::secagg::{ClientId, Parameters};
/// use dither_noise::NoiseSource;
/// let mut source = NoiseSource::from_os()?;
/// let session = Parameters::new(5, 4, 1, 2, &mut source)?;
/// let noise = DistributedGaussian::new(2, 5, session.honest(), 1.0, 0.001)?;
/// let missing = [ClientId(3)].into();
/// let sum = round(&noise, &session, &vec![vec![0.1, -0.2]; 5], &missing, &mut source)?;
/// assert!((sum[0] - 0.4).abs() < 0.1 && (sum[1] + 0.8).abs() < 0.1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn round(
    noise: &DistributedGaussian,
    session: &Parameters,
    updates: &[Vec<f32>],
    missing: &BTreeSet<ClientId>,
    source: &mut NoiseSource,
) -> Result<Vec<f64>, SumError> {
    check_made_for(noise, session)?;
    let (expected, found) = (session.clients() as usize, updates.len());
    if expected != found {
        return Err(ProtocolError::WrongSize { expected, found }.into());
    }
    let (holder, key) = KeyHolder::new(session, source)?;
    let mut aggregator = Aggregator::new(session);
    for (client, update) in (0..).map(ClientId).zip(updates).filter(|(client, _)| !missing.contains(client)) {
        let numbers = noise.noisy(update, source)?;
        aggregator.receive(&key.encrypt(session, client, &numbers, source)?)?;
    }
    let sum = holder.decrypt(&aggregator.close()?)?;
    // Read modulo 2^32, as the sum under masks is.
    Ok(noise.decode(&sum.into_iter().map(|x| x as u32).collect::<Vec<_>>()))
}
