//! A whole session in this process.

use std::collections::{BTreeMap, BTreeSet};

use dither_noise::NoiseSource;

use super::client::Keyed;
use super::error::ProtocolError;
use super::parameters::{ClientId, Parameters};
use super::server::CollectingKeys;

/// Which clients fall silent, and before which of their messages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dropouts {
    /// Before they tell their keys.
    pub before_keys: BTreeSet<ClientId>,
    /// Before they share their secrets.
    pub before_shares: BTreeSet<ClientId>,
    /// Before they send their masked input.
    pub before_input: BTreeSet<ClientId>,
    /// Before they confirm the request to unmask. Their inputs count.
    pub before_confirmation: BTreeSet<ClientId>,
    /// Before they answer it. Their inputs count.
    pub before_unmasking: BTreeSet<ClientId>,
}

/// The sum of the inputs of all clients that sent theirs, modulo 2^32, with all parties in this process.
///
/// # Errors
/// [`ProtocolError::TooFew`] where dropouts leave fewer than t clients in any round, inputs of the wrong length or number.
///
/// # Privacy
/// Client and server are one process here: this shows what a deployment computes, it hides nothing from whoever runs it.
///
/// ```
/// use dither_federated::secagg::{ClientId, Dropouts, Parameters, run};
/// use dither_noise::NoiseSource;
/// let mut source = NoiseSource::from_os()?;
/// let parameters = Parameters::new(4, 3, 0, 2, &mut source)?;
/// let inputs = vec![vec![1, 10], vec![2, 20], vec![3, 30], vec![u32::MAX, 40]];
/// let dropouts = Dropouts { before_input: [ClientId(1)].into(), ..Dropouts::default() };
/// assert_eq!(run(&parameters, &inputs, &dropouts, &mut source)?, [3, 80]);
/// # Ok::<(), dither_federated::secagg::ProtocolError>(())
/// ```
pub fn run(
    parameters: &Parameters,
    inputs: &[Vec<u32>],
    dropouts: &Dropouts,
    source: &mut NoiseSource,
) -> Result<Vec<u32>, ProtocolError> {
    let (expected, found) = (parameters.clients() as usize, inputs.len());
    if expected != found {
        return Err(ProtocolError::WrongSize { expected, found });
    }
    let mut server = CollectingKeys::new(parameters);
    let mut keyed = BTreeMap::new();
    for id in (0..parameters.clients()).map(ClientId).filter(|id| !dropouts.before_keys.contains(id)) {
        let (client, message) = Keyed::new(parameters, id, source)?;
        server.receive(message)?;
        keyed.insert(id, client);
    }
    let (mut server, roster) = server.close()?;
    let mut shared = BTreeMap::new();
    for (id, client) in keyed.into_iter().filter(|(id, _)| !dropouts.before_shares.contains(id)) {
        let (client, message) = client.share(&roster, source)?;
        server.receive(message)?;
        shared.insert(id, client);
    }
    let (mut server, deliveries) = server.close()?;
    let mut masked = BTreeMap::new();
    for delivery in deliveries.iter().filter(|delivery| !dropouts.before_input.contains(&delivery.to)) {
        let (Some(client), Some(input)) = (shared.remove(&delivery.to), inputs.get(delivery.to.0 as usize)) else {
            return Err(ProtocolError::UnknownClient(delivery.to));
        };
        let (client, message) = client.mask(delivery, input)?;
        server.receive(&message)?;
        masked.insert(delivery.to, client);
    }
    let (mut server, request) = server.close()?;
    let mut confirmed = BTreeMap::new();
    for (id, client) in masked.into_iter().filter(|(id, _)| !dropouts.before_confirmation.contains(id)) {
        let (client, message) = client.confirm(&request)?;
        server.receive(message)?;
        confirmed.insert(id, client);
    }
    let (mut server, deliveries) = server.close()?;
    for delivery in deliveries.iter().filter(|delivery| !dropouts.before_unmasking.contains(&delivery.to)) {
        let client = confirmed.remove(&delivery.to).ok_or(ProtocolError::UnknownClient(delivery.to))?;
        server.receive(&client.unmask(delivery)?)?;
    }
    server.close()
}
