//! The side of the server: five states, each of which is closed into the next.
//!
//! A state takes the messages of its round in any order. It refuses a message without changing, so that a bad one costs
//! nobody but its sender; a round ends when the server closes it, with whoever has spoken.

use std::collections::{BTreeMap, BTreeSet};

use super::error::ProtocolError;
use super::key::{CIPHERTEXT_BYTES, Secret};
use super::mask::{Sign, apply};
use super::message::{
    Confirmation, ConfirmationDelivery, Confirmations, EncryptedShare, EncryptedShares, KeyAdvertisement, MaskedInput,
    Roster, SecretShare, ShareDelivery, UnmaskRequest, UnmaskShares,
};
use super::parameters::{ClientId, Parameters};
use super::shamir::{combine, weights};

/// Waits for public keys.
pub struct CollectingKeys {
    parameters: Parameters,
    keys: BTreeMap<ClientId, KeyAdvertisement>,
    seen: BTreeSet<[u8; 32]>,
}

/// Waits for encrypted shares of secrets.
pub struct CollectingShares {
    parameters: Parameters,
    keys: BTreeMap<ClientId, KeyAdvertisement>,
    /// By sender.
    shares: BTreeMap<ClientId, Vec<EncryptedShare>>,
}

/// Waits for masked inputs.
pub struct CollectingInputs {
    parameters: Parameters,
    keys: BTreeMap<ClientId, KeyAdvertisement>,
    sum: Vec<u32>,
    survivors: BTreeSet<ClientId>,
}

/// Waits until the survivors confirm that they saw the same request.
pub struct CollectingConfirmations {
    masked: MaskedSum,
    confirmed: BTreeMap<ClientId, Vec<Confirmation>>,
}

/// Waits for the shares that unmask the sum.
pub struct CollectingUnmasking {
    masked: MaskedSum,
    confirmed: BTreeSet<ClientId>,
    answers: BTreeMap<ClientId, Answer>,
}

/// What is to be unmasked.
struct MaskedSum {
    parameters: Parameters,
    keys: BTreeMap<ClientId, KeyAdvertisement>,
    sum: Vec<u32>,
    survivors: Vec<ClientId>,
    dropped: Vec<ClientId>,
}

/// One client's shares, in the order of the request.
struct Answer {
    own_masks: Vec<Secret>,
    mask_keys: Vec<Secret>,
}

impl CollectingKeys {
    /// A server that waits for the keys of a session.
    pub fn new(parameters: &Parameters) -> Self {
        Self { parameters: parameters.clone(), keys: BTreeMap::new(), seen: BTreeSet::new() }
    }

    /// Takes the keys of one client.
    ///
    /// # Errors
    /// Another session, an unknown client, a second message, keys that another client has.
    pub fn receive(&mut self, message: KeyAdvertisement) -> Result<(), ProtocolError> {
        self.parameters.check_session(&message.session)?;
        self.parameters.check_client(message.client)?;
        if self.keys.contains_key(&message.client) {
            return Err(ProtocolError::Duplicate(message.client));
        }
        let keys = [message.encryption, message.mask];
        if keys[0] == keys[1] || keys.iter().any(|key| self.seen.contains(key)) {
            return Err(ProtocolError::BadKey(message.client));
        }
        self.seen.extend(keys);
        self.keys.insert(message.client, message);
        Ok(())
    }

    /// Ends the round; the roster goes to everybody on it.
    ///
    /// # Errors
    /// [`ProtocolError::TooFew`].
    pub fn close(self) -> Result<(CollectingShares, Roster), ProtocolError> {
        let Self { parameters, keys, .. } = self;
        parameters.check_enough(keys.len())?;
        let roster = Roster { session: *parameters.digest(), keys: keys.values().cloned().collect() };
        Ok((CollectingShares { parameters, keys, shares: BTreeMap::new() }, roster))
    }
}

impl CollectingShares {
    /// Takes one client's shares for all others.
    ///
    /// # Errors
    /// Another session, a client that is not on the roster, a second message, shares that are not for exactly the others on
    /// the roster in ascending order, or of the wrong size.
    pub fn receive(&mut self, message: EncryptedShares) -> Result<(), ProtocolError> {
        self.parameters.check_session(&message.session)?;
        let EncryptedShares { from, shares, .. } = message;
        check_member(from, |client| self.keys.contains_key(&client), self.shares.contains_key(&from))?;
        let (expected, found) = (self.keys.len() - 1, shares.len());
        if expected != found {
            return Err(ProtocolError::WrongSize { expected, found });
        }
        for (share, to) in shares.iter().zip(self.keys.keys().filter(|client| **client != from)) {
            if share.from != from || share.to != *to {
                return Err(ProtocolError::WrongReceiver(share.to));
            }
            let (expected, found) = (CIPHERTEXT_BYTES, share.ciphertext.len());
            if expected != found {
                return Err(ProtocolError::WrongSize { expected, found });
            }
        }
        self.shares.insert(from, shares);
        Ok(())
    }

    /// Ends the round; each delivery goes to its client.
    ///
    /// # Errors
    /// [`ProtocolError::TooFew`].
    pub fn close(self) -> Result<(CollectingInputs, Vec<ShareDelivery>), ProtocolError> {
        let Self { parameters, mut keys, shares } = self;
        parameters.check_enough(shares.len())?;
        keys.retain(|client, _| shares.contains_key(client));
        let mut by_receiver: BTreeMap<ClientId, Vec<EncryptedShare>> =
            keys.keys().map(|to| (*to, Vec::new())).collect();
        for share in shares.into_values().flatten() {
            if let Some(list) = by_receiver.get_mut(&share.to) {
                list.push(share);
            }
        }
        let session = *parameters.digest();
        let deliveries = by_receiver.into_iter().map(|(to, shares)| ShareDelivery { session, to, shares }).collect();
        let sum = vec![0; parameters.dimension() as usize];
        Ok((CollectingInputs { parameters, keys, sum, survivors: BTreeSet::new() }, deliveries))
    }
}

impl CollectingInputs {
    /// Adds one masked input.
    ///
    /// # Errors
    /// Another session, a client that has not shared its secrets, a second message, a vector of the wrong length.
    pub fn receive(&mut self, message: &MaskedInput) -> Result<(), ProtocolError> {
        self.parameters.check_session(&message.session)?;
        let known = |client| self.keys.contains_key(&client);
        check_member(message.from, known, self.survivors.contains(&message.from))?;
        self.parameters.check_vector(message.values.len())?;
        self.survivors.insert(message.from);
        for (sum, value) in self.sum.iter_mut().zip(&message.values) {
            *sum = sum.wrapping_add(*value);
        }
        Ok(())
    }

    /// Ends the round; the request goes to the survivors.
    ///
    /// # Errors
    /// [`ProtocolError::TooFew`].
    pub fn close(self) -> Result<(CollectingConfirmations, UnmaskRequest), ProtocolError> {
        let Self { parameters, keys, sum, survivors } = self;
        parameters.check_enough(survivors.len())?;
        let dropped: Vec<ClientId> = keys.keys().copied().filter(|client| !survivors.contains(client)).collect();
        let survivors: Vec<ClientId> = survivors.into_iter().collect();
        let session = *parameters.digest();
        let request = UnmaskRequest { session, survivors: survivors.clone(), dropped: dropped.clone() };
        let masked = MaskedSum { parameters, keys, sum, survivors, dropped };
        Ok((CollectingConfirmations { masked, confirmed: BTreeMap::new() }, request))
    }
}

impl CollectingConfirmations {
    /// Takes one survivor's confirmations for all others. Only their receivers can tell whether they are true.
    ///
    /// # Errors
    /// Another session, a client that did not survive, a second message, confirmations that are not for exactly the other
    /// survivors in ascending order.
    pub fn receive(&mut self, message: Confirmations) -> Result<(), ProtocolError> {
        let MaskedSum { parameters, survivors, .. } = &self.masked;
        parameters.check_session(&message.session)?;
        let Confirmations { from, confirmations, .. } = message;
        check_member(from, |client| survivors.contains(&client), self.confirmed.contains_key(&from))?;
        let (expected, found) = (survivors.len() - 1, confirmations.len());
        if expected != found {
            return Err(ProtocolError::WrongSize { expected, found });
        }
        let others = survivors.iter().filter(|client| **client != from);
        if let Some((odd, _)) = confirmations.iter().zip(others).find(|(one, to)| one.from != from || one.to != **to) {
            return Err(ProtocolError::WrongReceiver(odd.to));
        }
        self.confirmed.insert(from, confirmations);
        Ok(())
    }

    /// Ends the round; each delivery goes to its client.
    ///
    /// # Errors
    /// [`ProtocolError::TooFew`].
    pub fn close(self) -> Result<(CollectingUnmasking, Vec<ConfirmationDelivery>), ProtocolError> {
        let Self { masked, confirmed } = self;
        masked.parameters.check_enough(confirmed.len())?;
        let senders: BTreeSet<ClientId> = confirmed.keys().copied().collect();
        let mut by_receiver: BTreeMap<ClientId, Vec<Confirmation>> =
            senders.iter().map(|to| (*to, Vec::new())).collect();
        for confirmation in confirmed.into_values().flatten() {
            if let Some(list) = by_receiver.get_mut(&confirmation.to) {
                list.push(confirmation);
            }
        }
        let session = *masked.parameters.digest();
        let delivery = |(to, confirmations)| ConfirmationDelivery { session, to, confirmations };
        let deliveries = by_receiver.into_iter().map(delivery).collect();
        Ok((CollectingUnmasking { masked, confirmed: senders, answers: BTreeMap::new() }, deliveries))
    }
}

impl CollectingUnmasking {
    /// Takes one survivor's shares.
    ///
    /// # Errors
    /// Another session, a client that has not confirmed the request, a second message, shares of other secrets than were asked for, or
    /// that are no numbers of the field.
    pub fn receive(&mut self, message: &UnmaskShares) -> Result<(), ProtocolError> {
        self.masked.parameters.check_session(&message.session)?;
        let from = message.from;
        check_member(from, |client| self.confirmed.contains(&client), self.answers.contains_key(&from))?;
        let own_masks = read(&message.own_masks, &self.masked.survivors, from)?;
        let mask_keys = read(&message.mask_keys, &self.masked.dropped, from)?;
        self.answers.insert(from, Answer { own_masks, mask_keys });
        Ok(())
    }

    /// The sum of the survivors' inputs, modulo 2^32.
    ///
    /// # Errors
    /// [`ProtocolError::TooFew`] answers; [`ProtocolError::WrongSecret`] if shares are not those that were announced.
    ///
    /// # Privacy
    /// An exact sum: noise has to be in the inputs.
    pub fn close(self) -> Result<Vec<u32>, ProtocolError> {
        let Self { masked: MaskedSum { parameters, keys, mut sum, survivors, dropped }, answers, .. } = self;
        parameters.check_enough(answers.len())?;
        let used: Vec<(ClientId, &Answer)> =
            answers.iter().take(parameters.threshold() as usize).map(|(client, answer)| (*client, answer)).collect();
        let weights = weights(&used.iter().map(|(client, _)| *client).collect::<Vec<_>>());
        for (place, &client) in survivors.iter().enumerate() {
            let seed = combine(&weights, used.iter().filter_map(|(_, answer)| answer.own_masks.get(place)));
            if keys.get(&client).is_none_or(|keys| keys.commitment != seed.commitment(&parameters, client)) {
                return Err(ProtocolError::WrongSecret(client));
            }
            apply(&seed.own_mask(&parameters, client), Sign::Minus, &mut sum);
        }
        for (place, &client) in dropped.iter().enumerate() {
            let seed = combine(&weights, used.iter().filter_map(|(_, answer)| answer.mask_keys.get(place)));
            let pair = seed.pair(&parameters, client);
            if keys.get(&client).is_none_or(|keys| keys.mask != pair.public) {
                return Err(ProtocolError::WrongSecret(client));
            }
            for survivor in &survivors {
                let public = &keys.get(survivor).ok_or(ProtocolError::UnknownClient(*survivor))?.mask;
                let key = pair.pair_mask(&parameters, client, *survivor, public)?;
                apply(&key, Sign::of_pair(*survivor, client).opposite(), &mut sum);
            }
        }
        Ok(sum)
    }
}

/// Checks that a client takes part and has not spoken yet.
fn check_member(client: ClientId, known: impl Fn(ClientId) -> bool, spoken: bool) -> Result<(), ProtocolError> {
    if !known(client) {
        return Err(ProtocolError::UnknownClient(client));
    }
    if spoken { Err(ProtocolError::Duplicate(client)) } else { Ok(()) }
}

/// Reads the shares of exactly these clients' secrets.
fn read(shares: &[SecretShare], of: &[ClientId], from: ClientId) -> Result<Vec<Secret>, ProtocolError> {
    if shares.len() != of.len() {
        return Err(ProtocolError::WrongSize { expected: of.len(), found: shares.len() });
    }
    let read = |(share, of): (&SecretShare, &ClientId)| {
        if share.of != *of {
            return Err(ProtocolError::WrongMembers);
        }
        Secret::read(share.share).ok_or(ProtocolError::BadShare(from))
    };
    shares.iter().zip(of).map(read).collect()
}
