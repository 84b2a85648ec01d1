//! The side of a client: states, each of which the next message consumes.

use std::collections::{BTreeMap, BTreeSet};

use dither_noise::{BitSource, NoiseSource};
use zeroize::Zeroizing;

use super::error::ProtocolError;
use super::key::{KeyPair, Secret, open, same, seal, tag};
use super::mask::{Sign, apply};
use super::message::{
    Confirmation, ConfirmationDelivery, Confirmations, EncryptedShare, EncryptedShares, KeyAdvertisement, MaskedInput,
    Roster, SecretShare, ShareDelivery, UnmaskRequest, UnmaskShares, check_ascending,
};
use super::parameters::{ClientId, Parameters};
use super::shamir::Sharing;

/// What a client knows of itself in all states.
struct Own {
    parameters: Parameters,
    id: ClientId,
    /// The seed of the own mask.
    mask_seed: Secret,
    /// The seed of the key pair of pair masks. It is what is shared.
    key_seed: Secret,
    mask: KeyPair,
    encryption: KeyPair,
    advertisement: KeyAdvertisement,
}

/// What a client knows of another in the roster.
struct Peer {
    /// From the encryption keys of both.
    share_key: Zeroizing<[u8; 32]>,
    /// Its public key.
    mask: [u8; 32],
}

/// Shares of both secrets of one client.
struct Shares {
    own_mask: Secret,
    mask_key: Secret,
}

/// A client that has told its public keys.
///
/// It holds secrets: it cannot be printed, copied or serialised, and they are overwritten when it is dropped.
///
/// ```compile_fail,E0277
/// # use dither_federated::secagg::{ClientId, Keyed, Parameters};
/// # use dither_noise::NoiseSource;
/// let mut source = NoiseSource::from_os().unwrap();
/// let parameters = Parameters::new(3, 3, 0, 1, &mut source).unwrap();
/// println!("{:?}", Keyed::new(&parameters, ClientId(0), &mut source).unwrap().0);
/// ```
pub struct Keyed(Own);

/// A client that has shared its secrets.
pub struct Shared {
    own: Own,
    peers: BTreeMap<ClientId, Peer>,
    /// Its shares of its own secrets.
    kept: Shares,
}

/// A client that has sent its masked input and can confirm one request.
pub struct Masked {
    parameters: Parameters,
    id: ClientId,
    peers: BTreeMap<ClientId, Peer>,
    /// Of everybody who shared, the client itself included.
    shares: BTreeMap<ClientId, Shares>,
}

/// A client that has confirmed a request and can answer it, once.
///
/// ```compile_fail,E0382
/// # use dither_federated::secagg::{ConfirmationDelivery, Confirmed};
/// fn twice(client: Confirmed, delivery: &ConfirmationDelivery) {
///     let _ = client.unmask(delivery);
///     let _ = client.unmask(delivery);
/// }
/// ```
pub struct Confirmed {
    state: Masked,
    request: UnmaskRequest,
}

impl Keyed {
    /// Makes the keys of a client for one session. They are never used again.
    ///
    /// # Errors
    /// [`ProtocolError::UnknownClient`] for a number that the session does not have; [`ProtocolError::Noise`].
    pub fn new(
        parameters: &Parameters,
        id: ClientId,
        source: &mut NoiseSource,
    ) -> Result<(Self, KeyAdvertisement), ProtocolError> {
        Self::from_bits(parameters, id, source)
    }

    /// [`Self::new`] with any source of bits, so that tests can repeat themselves.
    pub(super) fn from_bits<S: BitSource + ?Sized>(
        parameters: &Parameters,
        id: ClientId,
        source: &mut S,
    ) -> Result<(Self, KeyAdvertisement), ProtocolError> {
        parameters.check_client(id)?;
        let (mask_seed, key_seed) = (Secret::random(source)?, Secret::random(source)?);
        let (mask, encryption) = (key_seed.pair(parameters, id), Secret::random(source)?.pair(parameters, id));
        let advertisement = KeyAdvertisement {
            session: *parameters.digest(),
            client: id,
            encryption: encryption.public,
            mask: mask.public,
            commitment: mask_seed.commitment(parameters, id),
        };
        let own = Own {
            parameters: parameters.clone(),
            id,
            mask_seed,
            key_seed,
            mask,
            encryption,
            advertisement: advertisement.clone(),
        };
        Ok((Self(own), advertisement))
    }

    /// Shares both secrets among all clients of the roster, t of whom can put them together.
    ///
    /// # Errors
    /// A roster of another session, without this client's own keys, with fewer than t clients, with a key used twice, or out
    /// of order; [`ProtocolError::Noise`]. A client that gets an error has dropped out.
    pub fn share(self, roster: &Roster, source: &mut NoiseSource) -> Result<(Shared, EncryptedShares), ProtocolError> {
        self.share_with(roster, source)
    }

    /// [`Self::share`] with any source of bits.
    pub(super) fn share_with<S: BitSource + ?Sized>(
        self,
        roster: &Roster,
        source: &mut S,
    ) -> Result<(Shared, EncryptedShares), ProtocolError> {
        let Self(own) = self;
        let peers = own.peers(roster)?;
        let threshold = own.parameters.threshold();
        let mask_seed = Sharing::new(&own.mask_seed, threshold, source)?;
        let key_seed = Sharing::new(&own.key_seed, threshold, source)?;
        let both = |client| Shares { own_mask: mask_seed.share(client), mask_key: key_seed.share(client) };
        let mut shares = Vec::with_capacity(peers.len());
        for (&to, peer) in &peers {
            let ciphertext = seal(&own.parameters, &peer.share_key, [own.id, to], &both(to).bytes())?;
            shares.push(EncryptedShare { from: own.id, to, ciphertext });
        }
        let message = EncryptedShares { session: *own.parameters.digest(), from: own.id, shares };
        let kept = both(own.id);
        Ok((Shared { own, peers, kept }, message))
    }
}

impl Own {
    /// Everybody else in the roster.
    fn peers(&self, roster: &Roster) -> Result<BTreeMap<ClientId, Peer>, ProtocolError> {
        self.parameters.check_session(&roster.session)?;
        check_ascending(roster.keys.iter().map(|keys| keys.client))?;
        self.parameters.check_enough(roster.keys.len())?;
        // A server that replaced the own keys stands in the middle.
        if !roster.keys.contains(&self.advertisement) {
            return Err(ProtocolError::BadKey(self.id));
        }
        let mut seen = BTreeSet::new();
        let mut peers = BTreeMap::new();
        for keys in &roster.keys {
            self.parameters.check_session(&keys.session)?;
            self.parameters.check_client(keys.client)?;
            if !seen.insert(keys.encryption) || !seen.insert(keys.mask) {
                return Err(ProtocolError::BadKey(keys.client));
            }
            if keys.client != self.id {
                let share_key = self.encryption.share_key(&self.parameters, self.id, keys.client, &keys.encryption)?;
                peers.insert(keys.client, Peer { share_key, mask: keys.mask });
            }
        }
        Ok(peers)
    }
}

impl Shared {
    /// Masks an input, modulo 2^32, with the own mask and those of all pairs.
    ///
    /// # Errors
    /// A delivery of another session, for another client, from strangers, out of order, with shares that do not decrypt, or
    /// from fewer than t − 1 others; an input of the wrong length.
    pub fn mask(self, delivery: &ShareDelivery, input: &[u32]) -> Result<(Masked, MaskedInput), ProtocolError> {
        let Self { own, peers, kept } = self;
        let parameters = &own.parameters;
        parameters.check_session(&delivery.session)?;
        if delivery.to != own.id {
            return Err(ProtocolError::WrongReceiver(delivery.to));
        }
        check_ascending(delivery.shares.iter().map(|share| share.from))?;
        parameters.check_enough(delivery.shares.len() + 1)?;
        parameters.check_vector(input.len())?;
        let mut values = input.to_vec();
        apply(&own.mask_seed.own_mask(parameters, own.id), Sign::Plus, &mut values);
        let mut shares = BTreeMap::from([(own.id, kept)]);
        for EncryptedShare { from, to, ciphertext } in &delivery.shares {
            if *to != own.id {
                return Err(ProtocolError::WrongReceiver(*to));
            }
            let peer = peers.get(from).ok_or(ProtocolError::UnknownClient(*from))?;
            let plain = open(parameters, &peer.share_key, [*from, own.id], ciphertext)?;
            shares.insert(*from, Shares::read(&plain).ok_or(ProtocolError::BadShare(*from))?);
            let key = own.mask.pair_mask(parameters, own.id, *from, &peer.mask)?;
            apply(&key, Sign::of_pair(own.id, *from), &mut values);
        }
        let message = MaskedInput { session: *parameters.digest(), from: own.id, values };
        Ok((Masked { parameters: own.parameters, id: own.id, peers, shares }, message))
    }
}

impl Masked {
    /// Accepts the one request that this client will ever answer, and tells the other survivors which.
    ///
    /// # Errors
    /// [`ProtocolError::BothSecrets`] if a client is named as survivor and as dropout; [`ProtocolError::WrongMembers`]
    /// unless each client that shared is named and this one survives; [`ProtocolError::TooFew`] for fewer than t survivors;
    /// another session; lists out of order. Nothing is handed out then, and the state is gone.
    pub fn confirm(self, request: &UnmaskRequest) -> Result<(Confirmed, Confirmations), ProtocolError> {
        self.parameters.check_session(&request.session)?;
        let UnmaskRequest { survivors, dropped, .. } = request;
        check_ascending(survivors.iter().copied())?;
        check_ascending(dropped.iter().copied())?;
        if let Some(both) = survivors.iter().find(|client| dropped.binary_search(client).is_ok()) {
            return Err(ProtocolError::BothSecrets(*both));
        }
        let named = || survivors.iter().chain(dropped);
        if let Some(stranger) = named().find(|client| !self.shares.contains_key(client)) {
            return Err(ProtocolError::UnknownClient(*stranger));
        }
        if named().count() != self.shares.len() || survivors.binary_search(&self.id).is_err() {
            return Err(ProtocolError::WrongMembers);
        }
        self.parameters.check_enough(survivors.len())?;
        let (from, digest) = (self.id, request.digest());
        let others = survivors.iter().filter_map(|to| Some((*to, self.peers.get(to)?)));
        let confirmations = others
            .map(|(to, peer)| Confirmation {
                from,
                to,
                tag: *tag(&self.parameters, &peer.share_key, [from, to], &digest),
            })
            .collect();
        let message = Confirmations { session: request.session, from, confirmations };
        Ok((Confirmed { state: self, request: request.clone() }, message))
    }
}

impl Confirmed {
    /// Hands out the shares that unmask the sum, once t survivors are known to have confirmed the same request: one kind
    /// for each client, never both.
    ///
    /// A tag that does not fit counts as none, so that one client alone cannot keep the others from their sum.
    ///
    /// # Errors
    /// [`ProtocolError::Inconsistent`] if fewer than t − 1 others saw the same; a delivery of another session, for another
    /// client, from others than survivors or out of order. Nothing is handed out then, and the state is gone.
    pub fn unmask(self, delivery: &ConfirmationDelivery) -> Result<UnmaskShares, ProtocolError> {
        let Self { state, request } = self;
        state.parameters.check_session(&delivery.session)?;
        if delivery.to != state.id {
            return Err(ProtocolError::WrongReceiver(delivery.to));
        }
        check_ascending(delivery.confirmations.iter().map(|confirmation| confirmation.from))?;
        let digest = request.digest();
        let mut found = 1;
        for Confirmation { from, tag: claimed, .. } in &delivery.confirmations {
            let peer = state.peers.get(from).filter(|_| request.survivors.binary_search(from).is_ok());
            let peer = peer.ok_or(ProtocolError::UnknownClient(*from))?;
            let expected = tag(&state.parameters, &peer.share_key, [*from, state.id], &digest);
            found += usize::from(same(&expected, claimed));
        }
        let needed = state.parameters.threshold() as usize;
        if found < needed {
            return Err(ProtocolError::Inconsistent { found, needed });
        }
        let shares = |clients: &[ClientId], secret: fn(&Shares) -> &Secret| -> Vec<SecretShare> {
            let held = clients.iter().filter_map(|client| Some((*client, state.shares.get(client)?)));
            held.map(|(of, shares)| SecretShare { of, share: secret(shares).bytes() }).collect()
        };
        Ok(UnmaskShares {
            session: request.session,
            from: state.id,
            own_masks: shares(&request.survivors, |shares| &shares.own_mask),
            mask_keys: shares(&request.dropped, |shares| &shares.mask_key),
        })
    }
}

impl Shares {
    fn bytes(&self) -> Zeroizing<[u8; 64]> {
        let mut bytes = Zeroizing::new([0; 64]);
        bytes[..32].copy_from_slice(&self.own_mask.bytes());
        bytes[32..].copy_from_slice(&self.mask_key.bytes());
        bytes
    }

    fn read(plain: &[u8]) -> Option<Self> {
        let (own_mask, mask_key) = plain.split_first_chunk::<32>()?;
        let mask_key: [u8; 32] = mask_key.try_into().ok()?;
        Some(Self { own_mask: Secret::read(*own_mask)?, mask_key: Secret::read(mask_key)? })
    }
}
