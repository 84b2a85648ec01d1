//! Sharing a secret so that any t shares give it back and fewer say nothing.
//!
//! The field is that of the scalars of Curve25519, whose arithmetic is maintained, constant in time and here anyway. Its
//! 252 bits hold a whole secret, and it has room for any number of clients, where the usual sharing by bytes ends at 255.

use curve25519_dalek::Scalar;
use dither_noise::{BitSource, NoiseError};
use zeroize::Zeroizing;

use super::key::Secret;
use super::parameters::ClientId;

/// Where the share of a client lies; zero is where the secret lies.
fn place(client: ClientId) -> Scalar {
    Scalar::from(u64::from(client.0) + 1)
}

/// A random polynomial of degree t − 1 through the secret.
///
/// # References
/// Shamir, *How to Share a Secret*, 1979.
pub(super) struct Sharing(Zeroizing<Vec<Scalar>>);

impl Sharing {
    pub fn new<S: BitSource + ?Sized>(secret: &Secret, threshold: u32, source: &mut S) -> Result<Self, NoiseError> {
        // With its final capacity, so that no copy is left behind.
        let mut coefficients = Zeroizing::new(Vec::with_capacity(threshold as usize));
        coefficients.push(*secret.0);
        for _ in 1..threshold {
            coefficients.push(*Secret::random(source)?.0);
        }
        Ok(Self(coefficients))
    }

    /// The share of a client.
    pub fn share(&self, client: ClientId) -> Secret {
        let at = place(client);
        Secret(Zeroizing::new(self.0.iter().rev().fold(Scalar::ZERO, |sum, coefficient| sum * at + coefficient)))
    }
}

/// The weights with which the shares of these clients add up to the secret; the clients must differ.
pub(super) fn weights(clients: &[ClientId]) -> Vec<Scalar> {
    let product = |terms: &mut dyn Iterator<Item = Scalar>| terms.fold(Scalar::ONE, |product, term| product * term);
    let numerators =
        clients.iter().map(|own| product(&mut clients.iter().filter(|other| *other != own).map(|other| place(*other))));
    let numerators: Vec<Scalar> = numerators.collect();
    let mut inverses: Vec<Scalar> = clients
        .iter()
        .map(|own| product(&mut clients.iter().filter(|other| *other != own).map(|other| place(*other) - place(*own))))
        .collect();
    Scalar::batch_invert(&mut inverses);
    numerators.iter().zip(&inverses).map(|(numerator, inverse)| numerator * inverse).collect()
}

/// The secret, from as many shares as there are weights.
pub(super) fn combine<'a>(weights: &[Scalar], shares: impl Iterator<Item = &'a Secret>) -> Secret {
    Secret(Zeroizing::new(
        weights.iter().zip(shares).fold(Scalar::ZERO, |sum, (weight, share)| sum + weight * *share.0),
    ))
}
