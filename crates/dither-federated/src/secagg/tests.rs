//! Tests of the protocol: sums, dropouts, refusals, and what the server sees.

use std::collections::{BTreeMap, BTreeSet};

use dither_noise::{BitSource, NoiseError, NoiseSource};
use dither_testing::fit::check_events;
use dither_testing::{FALSE_ALARM, SeededBytes};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::key::Secret;
use super::mask::{Sign, apply};
use super::shamir::{Sharing, combine, weights};
use super::*;

struct Seeded(SeededBytes);

impl BitSource for Seeded {
    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), NoiseError> {
        self.0.fill(buffer);
        Ok(())
    }
}

fn seeded(seed: u64) -> Seeded {
    Seeded(SeededBytes::new(seed))
}

fn os() -> NoiseSource {
    NoiseSource::from_os().unwrap()
}

/// The parameters of a session that is the same in every run.
fn fixed(clients: u32, threshold: u32, colluding: u32, dimension: u32) -> Parameters {
    let session = [7u8; 32];
    let fields = serde_json::json!({
        "session": session, "clients": clients, "threshold": threshold, "colluding": colluding, "dimension": dimension,
    });
    serde_json::from_value(fields).unwrap()
}

fn ids(clients: impl IntoIterator<Item = u32>) -> Vec<ClientId> {
    clients.into_iter().map(ClientId).collect()
}

/// A session up to the point where every client holds the shares of all others.
struct Opened {
    server: CollectingInputs,
    clients: BTreeMap<ClientId, Shared>,
    deliveries: BTreeMap<ClientId, ShareDelivery>,
    advertisements: Vec<KeyAdvertisement>,
    shares: Vec<EncryptedShares>,
}

fn open(parameters: &Parameters, source: &mut Seeded) -> Opened {
    let mut server = CollectingKeys::new(parameters);
    let (mut keyed, mut advertisements) = (Vec::new(), Vec::new());
    for id in (0..parameters.clients()).map(ClientId) {
        let (client, message) = Keyed::from_bits(parameters, id, source).unwrap();
        server.receive(message.clone()).unwrap();
        keyed.push((id, client));
        advertisements.push(message);
    }
    let (mut server, roster) = server.close().unwrap();
    let (mut clients, mut shares) = (BTreeMap::new(), Vec::new());
    for (id, client) in keyed {
        let (client, message) = client.share_with(&roster, source).unwrap();
        server.receive(message.clone()).unwrap();
        clients.insert(id, client);
        shares.push(message);
    }
    let (server, deliveries) = server.close().unwrap();
    let deliveries = deliveries.into_iter().map(|delivery| (delivery.to, delivery)).collect();
    Opened { server, clients, deliveries, advertisements, shares }
}

impl Opened {
    /// Lets one client mask an input.
    fn mask(&mut self, client: u32, input: &[u32]) -> (Masked, MaskedInput) {
        let id = ClientId(client);
        self.clients.remove(&id).unwrap().mask(&self.deliveries[&id], input).unwrap()
    }
}

/// Lets all of these clients confirm a request, and the server pass it on.
fn confirm(
    mut server: CollectingConfirmations,
    states: Vec<Masked>,
    request: &UnmaskRequest,
) -> (CollectingUnmasking, Vec<UnmaskShares>) {
    let mut confirmed = Vec::new();
    for state in states {
        let (state, message) = state.confirm(request).unwrap();
        server.receive(message).unwrap();
        confirmed.push(state);
    }
    let (server, deliveries) = server.close().unwrap();
    let answers = confirmed.into_iter().zip(&deliveries).map(|(state, delivery)| state.unmask(delivery).unwrap());
    (server, answers.collect())
}

fn plain_sum(inputs: &[Vec<u32>], survivors: impl Fn(ClientId) -> bool, dimension: usize) -> Vec<u32> {
    let mut sum = vec![0u32; dimension];
    for (_, input) in (0..).map(ClientId).zip(inputs).filter(|(id, _)| survivors(*id)) {
        sum.iter_mut().zip(input).for_each(|(sum, x)| *sum = sum.wrapping_add(*x));
    }
    sum
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_masked_sum_is_the_plain_sum_whoever_drops_out(
        clients in 3u32..9,
        colluding in 0u32..2,
        slack in 0u32..3,
        dimension in 1usize..40,
        stages in prop::collection::vec(0u32..15, 9),
        numbers in any::<[u32; 32]>(),
    ) {
        let least = ((clients + colluding) / 2 + 1).max(colluding + 2);
        let threshold = (least + slack).min(clients);
        let parameters = Parameters::new(clients, threshold, colluding, dimension as u32, &mut os()).unwrap();
        let number = |client: u32, place: usize| numbers[(client as usize * 7 + place) % 32].wrapping_mul(place as u32 | 1);
        let inputs: Vec<Vec<u32>> =
            (0..clients).map(|client| (0..dimension).map(|place| number(client, place)).collect()).collect();
        // Two thirds of the clients stay until the end.
        let silent = |stage: u32| ids((0..clients).filter(|client| stages[*client as usize] == stage)).into_iter().collect();
        let dropouts = Dropouts {
            before_keys: silent(0),
            before_shares: silent(1),
            before_input: silent(2),
            before_confirmation: silent(3),
            before_unmasking: silent(4),
        };
        let gone = |client: &ClientId| {
            [&dropouts.before_keys, &dropouts.before_shares, &dropouts.before_input].iter().any(|gone| gone.contains(client))
        };
        let survivors = ids(0..clients).iter().filter(|client| !gone(client)).count();
        let answers = survivors - dropouts.before_confirmation.len() - dropouts.before_unmasking.len();
        match run(&parameters, &inputs, &dropouts, &mut os()) {
            Ok(sum) => {
                prop_assert!(answers >= threshold as usize);
                prop_assert_eq!(sum, plain_sum(&inputs, |client| !gone(&client), dimension));
            }
            Err(error) => {
                prop_assert!(answers < threshold as usize, "{error}");
                let too_few = matches!(error, ProtocolError::TooFew { .. });
                prop_assert!(too_few, "{error}");
            }
        }
    }
}

#[test]
fn thresholds_that_protect_nobody_are_refused() {
    for (clients, threshold, colluding, dimension) in [
        (0, 0, 0, 1),
        (1, 1, 0, 1),
        (3, 4, 0, 1),
        (10, 5, 0, 1),
        (10, 6, 2, 1),
        (10, 7, 6, 1),
        (10, 10, 9, 1),
        (10, 10, u32::MAX, 1),
        (u32::MAX, u32::MAX, 0, 1),
        (4097, 4097, 0, 1),
        (3, 3, 0, 0),
        (3, 3, 0, u32::MAX),
    ] {
        let refused = Parameters::new(clients, threshold, colluding, dimension, &mut os());
        let odd = matches!(refused, Err(ProtocolError::InvalidParameters { .. }));
        assert!(odd, "{clients} {threshold} {colluding} {dimension}");
    }
    for (clients, threshold, colluding) in [(2, 2, 0), (3, 2, 0), (3, 3, 1), (10, 6, 1), (10, 7, 3), (4096, 4096, 4094)]
    {
        let parameters = Parameters::new(clients, threshold, colluding, 1, &mut os());
        assert!(parameters.is_ok_and(|parameters| parameters.honest() >= 2), "{clients} {threshold} {colluding}");
    }
}

#[test]
fn nobody_gets_the_shares_of_both_secrets_by_telling_different_lists() {
    // Each honest client hands out one kind for each client, colluding ones both: t of either need 2t ≤ (n − c) + 2c.
    for clients in 2u32..40 {
        for (threshold, colluding) in (0..=clients).flat_map(|t| (0..=clients).map(move |c| (t, c))) {
            if Parameters::new(clients, threshold, colluding, 1, &mut os()).is_ok() {
                assert!(clients - colluding + 2 * colluding < 2 * threshold);
            }
        }
    }
}

/// Counts of every value of every byte.
fn byte_counts(values: &[u32]) -> (Vec<u64>, u64) {
    let mut counts = vec![0; 1024];
    for value in values {
        value.to_le_bytes().iter().enumerate().for_each(|(place, byte)| counts[256 * place + usize::from(*byte)] += 1);
    }
    (counts, values.len() as u64)
}

/// Whether numbers pass for independent, uniform ones: each byte, and the differences of neighbours.
fn looks_uniform(values: &[u32]) -> bool {
    let differences: Vec<u32> = values.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
    // Differences that do not overlap are independent.
    let apart: Vec<u32> = differences.iter().step_by(2).copied().collect();
    [values, &apart].iter().all(|values| {
        let (counts, draws) = byte_counts(values);
        check_events(&counts, &vec![1.0 / 256.0; 1024], draws, FALSE_ALARM / 2.0).is_ok()
    })
}

const WIDE: u32 = 100_000;

/// An input with everything that a sum of clipped numbers has: small, signed, slowly changing.
fn plain() -> Vec<u32> {
    (0..WIDE).map(|place| (place / 100) % 50).collect()
}

#[test]
fn one_masked_input_looks_uniform_to_the_server() {
    let mut session = open(&fixed(4, 3, 0, WIDE), &mut seeded(1));
    let (_, message) = session.mask(2, &plain());
    assert!(looks_uniform(&message.values));
    // Under other keys the same input gives something else, as good as independent.
    let mut again = open(&fixed(4, 3, 0, WIDE), &mut seeded(2));
    let (_, other) = again.mask(2, &plain());
    let difference: Vec<u32> = message.values.iter().zip(&other.values).map(|(a, b)| a.wrapping_sub(*b)).collect();
    assert!(looks_uniform(&difference));
}

#[test]
fn control_an_input_without_a_mask_does_not_look_uniform() {
    assert!(!looks_uniform(&plain()));
    // Neither does one under a mask that repeats itself.
    let mut values = plain();
    values.chunks_mut(1000).for_each(|chunk| apply(&[1; 32], Sign::Plus, chunk));
    assert!(!looks_uniform(&values));
}

/// What a server makes of an input that arrives after its sender was declared to have dropped out: the pair masks come
/// off, with the mask key that the survivors handed out.
fn without_pair_masks(
    parameters: &Parameters,
    values: &[u32],
    late: ClientId,
    seed: &Secret,
    publics: &[KeyAdvertisement],
) -> Vec<u32> {
    let pair = seed.pair(parameters, late);
    let mut values = values.to_vec();
    for other in publics.iter().filter(|keys| keys.client != late) {
        let key = pair.pair_mask(parameters, late, other.client, &other.mask).unwrap();
        apply(&key, Sign::of_pair(late, other.client).opposite(), &mut values);
    }
    values
}

#[test]
fn an_input_that_comes_too_late_stays_under_the_own_mask() {
    let parameters = fixed(4, 3, 0, WIDE);
    let mut session = open(&parameters, &mut seeded(3));
    let late = ClientId(1);
    let (_, late_message) = session.mask(late.0, &plain());
    let mut survivors = Vec::new();
    for client in [0, 2, 3] {
        let (state, message) = session.mask(client, &plain());
        session.server.receive(&message).unwrap();
        survivors.push(state);
    }
    let Opened { server, advertisements, .. } = session;
    let (server, request) = server.close().unwrap();
    assert_eq!(request.dropped, [late]);
    // Everything the server gets: t shares of the mask key.
    let (_, answers) = confirm(server, survivors, &request);
    assert!(answers.iter().all(|answer| answer.own_masks.iter().all(|share| share.of != late)));
    let shares: Vec<Secret> = answers.iter().map(|answer| Secret::read(answer.mask_keys[0].share).unwrap()).collect();
    let seed = combine(&weights(&ids([0, 2, 3])), shares.iter());
    assert_eq!(seed.pair(&parameters, late).public, advertisements[1].mask, "the server does have the mask key");
    let left = without_pair_masks(&parameters, &late_message.values, late, &seed, &advertisements);
    assert!(looks_uniform(&left));
}

/// Masked inputs made from the same parts as the product's, with what a mutant does otherwise.
fn masked_by(
    sign: fn(ClientId, ClientId) -> Sign,
    own_masks: bool,
) -> (Parameters, Vec<Secret>, Vec<Secret>, Vec<Vec<u32>>) {
    let (parameters, mut source) = (fixed(4, 3, 0, WIDE), seeded(4));
    let mut seeds = || -> Vec<Secret> { (0..4).map(|_| Secret::random(&mut source).unwrap()).collect() };
    let (own, keys) = (seeds(), seeds());
    let public = |client: ClientId| keys[client.0 as usize].pair(&parameters, client).public;
    let masked = ids(0..4).into_iter().map(|client| {
        let mut values = plain();
        if own_masks {
            apply(&own[client.0 as usize].own_mask(&parameters, client), Sign::Plus, &mut values);
        }
        for other in ids(0..4).into_iter().filter(|other| *other != client) {
            let pair = keys[client.0 as usize].pair(&parameters, client);
            let key = pair.pair_mask(&parameters, client, other, &public(other)).unwrap();
            apply(&key, sign(client, other), &mut values);
        }
        values
    });
    let masked = masked.collect();
    (parameters, own, keys, masked)
}

/// Whether the sum of masked inputs, less all own masks, is the plain sum.
fn sums_up(sign: fn(ClientId, ClientId) -> Sign) -> bool {
    let (parameters, own, _, masked) = masked_by(sign, true);
    let mut sum = plain_sum(&masked, |_| true, WIDE as usize);
    for (client, own) in ids(0..4).into_iter().zip(&own) {
        apply(&own.own_mask(&parameters, client), Sign::Minus, &mut sum);
    }
    sum == plain_sum(&vec![plain(); 4], |_| true, WIDE as usize)
}

#[test]
fn control_pair_masks_of_one_sign_do_not_cancel() {
    assert!(sums_up(Sign::of_pair));
    assert!(!sums_up(|_, _| Sign::Plus), "both add");
    assert!(!sums_up(|own, other| if own.0 % 2 == other.0 % 2 { Sign::Plus } else { Sign::of_pair(own, other) }));
}

#[test]
fn control_without_an_own_mask_a_late_input_is_bare() {
    for own_masks in [true, false] {
        let (parameters, _, keys, masked) = masked_by(Sign::of_pair, own_masks);
        let publics: Vec<KeyAdvertisement> = ids(0..4)
            .into_iter()
            .map(|client| KeyAdvertisement {
                session: *parameters.digest(),
                client,
                encryption: [0; 32],
                mask: keys[client.0 as usize].pair(&parameters, client).public,
                commitment: [0; 32],
            })
            .collect();
        let left = without_pair_masks(&parameters, &masked[1], ClientId(1), &keys[1], &publics);
        assert_eq!(looks_uniform(&left), own_masks);
        assert_eq!(left == plain(), !own_masks);
    }
}

#[test]
fn a_request_for_both_secrets_of_a_client_is_refused() {
    let requests: [(&[u32], &[u32], ProtocolError); 9] = [
        (&[0, 1, 2, 3], &[1], ProtocolError::BothSecrets(ClientId(1))),
        (&[0, 1, 2, 3], &[0, 1, 2, 3], ProtocolError::BothSecrets(ClientId(0))),
        (&[0, 1, 2], &[], ProtocolError::WrongMembers),
        (&[1, 2, 3], &[0], ProtocolError::WrongMembers),
        (&[0, 1, 2, 3, 4], &[], ProtocolError::UnknownClient(ClientId(4))),
        (&[0, 1, 2], &[4], ProtocolError::UnknownClient(ClientId(4))),
        (&[0, 2, 1, 3], &[], ProtocolError::Unordered),
        (&[0, 1, 1, 2, 3], &[], ProtocolError::Unordered),
        (&[0, 1], &[2, 3], ProtocolError::TooFew { found: 2, needed: 3 }),
    ];
    for (survivors, dropped, expected) in requests {
        let parameters = fixed(4, 3, 0, 2);
        let mut session = open(&parameters, &mut seeded(5));
        let (client, _) = session.mask(0, &[1, 2]);
        let (survivors, dropped) = (ids(survivors.iter().copied()), ids(dropped.iter().copied()));
        let request = UnmaskRequest { session: *parameters.digest(), survivors, dropped };
        assert_eq!(client.confirm(&request).err(), Some(expected));
    }
    let mut session = open(&fixed(4, 3, 0, 2), &mut seeded(5));
    let (client, _) = session.mask(0, &[1, 2]);
    let request = UnmaskRequest { session: [7; 32], survivors: ids(0..4), dropped: Vec::new() };
    assert_eq!(client.confirm(&request).err(), Some(ProtocolError::ForeignSession));
}

#[test]
fn with_fewer_than_t_survivors_nothing_is_unmasked() {
    let parameters = fixed(5, 4, 1, 2);
    let mut session = open(&parameters, &mut seeded(6));
    let mut survivors = Vec::new();
    for client in 0..3 {
        let (state, message) = session.mask(client, &[1, 2]);
        session.server.receive(&message).unwrap();
        survivors.push(state);
    }
    // An honest server gives up, and its state, the masked sum, is gone.
    assert_eq!(session.server.close().err(), Some(ProtocolError::TooFew { found: 3, needed: 4 }));
    // One that goes on all the same gets no share from anybody.
    for state in survivors {
        let request = UnmaskRequest { session: *parameters.digest(), survivors: ids(0..3), dropped: ids(3..5) };
        assert_eq!(state.confirm(&request).err(), Some(ProtocolError::TooFew { found: 3, needed: 4 }));
    }
    // With too few answers it does not get the sum either.
    let dropouts = Dropouts { before_unmasking: ids([0, 1]).into_iter().collect(), ..Dropouts::default() };
    let sum = run(&parameters, &vec![vec![1, 2]; 5], &dropouts, &mut os());
    assert_eq!(sum, Err(ProtocolError::TooFew { found: 3, needed: 4 }));
}

#[test]
fn any_t_shares_are_the_secret_and_fewer_say_nothing() {
    let mut source = seeded(7);
    let secret = Secret::random(&mut source).unwrap();
    let sharing = Sharing::new(&secret, 3, &mut source).unwrap();
    let shares: Vec<Secret> = (0..5).map(|client| sharing.share(ClientId(client))).collect();
    for subset in [[0, 1, 2], [0, 2, 4], [4, 3, 1], [2, 1, 0]] {
        let chosen = subset.iter().map(|client| &shares[*client as usize]);
        assert_eq!(combine(&weights(&ids(subset)), chosen).bytes(), secret.bytes());
    }
    // Two shares go with every secret: whatever it is, some third share completes them to it.
    let weights = weights(&ids([0, 1, 2]));
    for _ in 0..8 {
        let wanted = Secret::random(&mut source).unwrap();
        let known = weights[0] * *shares[0].0 + weights[1] * *shares[1].0;
        let third = Secret(((*wanted.0 - known) * weights[2].invert()).into());
        let forged = [&shares[0], &shares[1], &third];
        assert_eq!(combine(&weights, forged.into_iter()).bytes(), wanted.bytes());
    }
    // And each share by itself is uniform over many sharings of one secret; with a threshold of one it is the secret.
    for (threshold, uniform) in [(2, true), (3, true), (1, false)] {
        let words: Vec<u32> = (0..20_000)
            .map(|_| {
                let share = Sharing::new(&secret, threshold, &mut source).unwrap().share(ClientId(3)).bytes();
                u32::from_le_bytes([share[0], share[1], share[2], share[3]])
            })
            .collect();
        assert_eq!(looks_uniform(&words), uniform, "threshold {threshold}");
    }
}

#[test]
fn both_ends_of_a_pair_have_the_same_mask_and_no_two_pairs_or_sessions_do() {
    let mut source = seeded(8);
    let sessions = [fixed(4, 3, 0, 2), fixed(4, 3, 0, 3), fixed(4, 4, 0, 2)];
    let seeds: Vec<Secret> = (0..4).map(|_| Secret::random(&mut source).unwrap()).collect();
    let mut keys = BTreeSet::new();
    for parameters in &sessions {
        let pairs: Vec<_> =
            ids(0..4).into_iter().zip(&seeds).map(|(id, seed)| (id, seed.pair(parameters, id))).collect();
        for (a, pair_a) in &pairs {
            keys.insert(*seeds[a.0 as usize].own_mask(parameters, *a));
            for (b, pair_b) in pairs.iter().filter(|(b, _)| a < b) {
                let key = pair_a.pair_mask(parameters, *a, *b, &pair_b.public).unwrap();
                assert_eq!(*key, *pair_b.pair_mask(parameters, *b, *a, &pair_a.public).unwrap());
                keys.insert(*key);
            }
        }
    }
    assert_eq!(keys.len(), 3 * (4 + 6));
}

#[test]
fn keys_of_small_order_and_keys_used_twice_are_refused() {
    let parameters = fixed(3, 3, 0, 1);
    let mut source = seeded(9);
    let made: Vec<_> =
        ids(0..3).into_iter().map(|id| Keyed::from_bits(&parameters, id, &mut source).unwrap()).collect();
    let keys: Vec<KeyAdvertisement> = made.iter().map(|(_, keys)| keys.clone()).collect();
    let mut server = CollectingKeys::new(&parameters);
    server.receive(keys[0].clone()).unwrap();
    for (encryption, mask) in [(keys[0].mask, keys[1].mask), (keys[1].encryption, keys[0].mask), ([5; 32], [5; 32])] {
        let copy = KeyAdvertisement { encryption, mask, ..keys[1].clone() };
        assert_eq!(server.receive(copy), Err(ProtocolError::BadKey(ClientId(1))));
    }
    for (change, expected) in [
        // Zero and one are points of small order: what is agreed on is known to everybody.
        (Some((1, [0; 32])), ProtocolError::BadKey(ClientId(1))),
        (
            Some((1, {
                let mut one = [0; 32];
                one[0] = 1;
                one
            })),
            ProtocolError::BadKey(ClientId(1)),
        ),
        // A server in the middle replaces the client's own key.
        (Some((0, [9; 32])), ProtocolError::BadKey(ClientId(0))),
        (None, ProtocolError::BadKey(ClientId(2))),
    ] {
        let mut roster = Roster { session: *parameters.digest(), keys: keys.clone() };
        match change {
            Some((client, key)) => roster.keys[client].encryption = key,
            None => roster.keys[2].mask = keys[1].mask,
        }
        let (client, _) = Keyed::from_bits(&parameters, ClientId(0), &mut seeded(9)).unwrap();
        assert_eq!(client.share_with(&roster, &mut source).err(), Some(expected));
    }
}

#[test]
fn replayed_reordered_and_foreign_messages_are_refused() {
    let (parameters, foreign) = (fixed(4, 3, 0, 2), fixed(4, 3, 0, 3));
    let mut source = seeded(10);
    let first = open(&parameters, &mut source);
    let mut second = open(&parameters, &mut source);

    let mut server = CollectingKeys::new(&parameters);
    server.receive(first.advertisements[0].clone()).unwrap();
    assert_eq!(server.receive(first.advertisements[0].clone()), Err(ProtocolError::Duplicate(ClientId(0))));
    let stranger = KeyAdvertisement { client: ClientId(4), ..first.advertisements[1].clone() };
    assert_eq!(server.receive(stranger), Err(ProtocolError::UnknownClient(ClientId(4))));
    let elsewhere = KeyAdvertisement { session: *foreign.digest(), ..first.advertisements[1].clone() };
    assert_eq!(server.receive(elsewhere), Err(ProtocolError::ForeignSession));
    // What was refused changed nothing.
    for keys in &first.advertisements[1..] {
        server.receive(keys.clone()).unwrap();
    }
    let (mut server, _) = server.close().unwrap();

    let good = &first.shares[0];
    let mut odd = good.clone();
    odd.shares.swap(0, 1);
    assert!(matches!(server.receive(odd), Err(ProtocolError::WrongReceiver(_))));
    let mut odd = good.clone();
    odd.shares.pop();
    assert_eq!(server.receive(odd), Err(ProtocolError::WrongSize { expected: 3, found: 2 }));
    let mut odd = good.clone();
    odd.shares[1].ciphertext.push(0);
    assert_eq!(server.receive(odd), Err(ProtocolError::WrongSize { expected: 80, found: 81 }));
    let odd = EncryptedShares { from: ClientId(1), ..good.clone() };
    assert!(server.receive(odd).is_err(), "shares under another name");
    server.receive(good.clone()).unwrap();
    assert_eq!(server.receive(good.clone()), Err(ProtocolError::Duplicate(ClientId(0))));
    assert_eq!(server.close().err(), Some(ProtocolError::TooFew { found: 1, needed: 3 }));

    // Shares of another run of the same session: other keys.
    let replayed = first.deliveries[&ClientId(0)].clone();
    let client = second.clients.remove(&ClientId(0)).unwrap();
    assert_eq!(client.mask(&replayed, &[1, 2]).err(), Some(ProtocolError::NotAuthentic(ClientId(1))));

    let (_, input) = second.mask(1, &[1, 2]);
    second.server.receive(&input).unwrap();
    assert_eq!(second.server.receive(&input), Err(ProtocolError::Duplicate(ClientId(1))));
    let short = MaskedInput { from: ClientId(2), values: vec![1], session: input.session };
    assert_eq!(second.server.receive(&short), Err(ProtocolError::WrongSize { expected: 2, found: 1 }));
    let elsewhere = MaskedInput { session: *foreign.digest(), ..input.clone() };
    assert_eq!(second.server.receive(&elsewhere), Err(ProtocolError::ForeignSession));
    let stranger = MaskedInput { from: ClientId(9), ..input };
    assert_eq!(second.server.receive(&stranger), Err(ProtocolError::UnknownClient(ClientId(9))));
}

#[test]
fn altered_shares_and_wrong_lengths_are_refused_by_clients() {
    let parameters = fixed(4, 3, 0, 2);
    type Change = fn(&mut ShareDelivery);
    let changes: [(Change, ProtocolError); 8] = [
        (|delivery| delivery.shares[0].ciphertext[5] ^= 1, ProtocolError::NotAuthentic(ClientId(1))),
        (|delivery| delivery.shares[0].ciphertext.clear(), ProtocolError::NotAuthentic(ClientId(1))),
        (
            |delivery| delivery.shares[0].ciphertext = delivery.shares[1].ciphertext.clone(),
            ProtocolError::NotAuthentic(ClientId(1)),
        ),
        (|delivery| delivery.shares.swap(0, 1), ProtocolError::Unordered),
        (|delivery| delivery.to = ClientId(1), ProtocolError::WrongReceiver(ClientId(1))),
        (|delivery| delivery.shares[0].from = ClientId(0), ProtocolError::UnknownClient(ClientId(0))),
        (|delivery| delivery.shares[2].to = ClientId(1), ProtocolError::WrongReceiver(ClientId(1))),
        (|delivery| delivery.shares.truncate(1), ProtocolError::TooFew { found: 2, needed: 3 }),
    ];
    for (change, expected) in changes {
        let mut session = open(&parameters, &mut seeded(11));
        let mut delivery = session.deliveries[&ClientId(0)].clone();
        change(&mut delivery);
        let client = session.clients.remove(&ClientId(0)).unwrap();
        assert_eq!(client.mask(&delivery, &[1, 2]).err(), Some(expected));
    }
    let mut session = open(&parameters, &mut seeded(11));
    let client = session.clients.remove(&ClientId(0)).unwrap();
    let refused = client.mask(&session.deliveries[&ClientId(0)], &[1, 2, 3]).err();
    assert_eq!(refused, Some(ProtocolError::WrongSize { expected: 2, found: 3 }));
}

/// Clients of one session that have masked their inputs, and what each would confirm of a request of its own.
fn confirmed_each(requests: &[UnmaskRequest]) -> (Vec<Confirmed>, Vec<Confirmations>) {
    let mut session = open(&fixed(5, 4, 1, 2), &mut seeded(14));
    let states: Vec<Masked> = (0..requests.len() as u32).map(|client| session.mask(client, &[1, 2]).0).collect();
    states.into_iter().zip(requests).map(|(state, request)| state.confirm(request).unwrap()).unzip()
}

/// What a server that passes everything on delivers to one client.
fn delivered(to: u32, messages: &[Confirmations]) -> ConfirmationDelivery {
    let all = messages.iter().flat_map(|message| &message.confirmations);
    let confirmations = all.filter(|one| one.to == ClientId(to)).cloned().collect();
    ConfirmationDelivery { session: messages[0].session, to: ClientId(to), confirmations }
}

#[test]
fn a_server_that_tells_different_lists_gets_no_share() {
    let parameters = fixed(5, 4, 1, 2);
    let request = |survivors: Vec<ClientId>, dropped: Vec<ClientId>| UnmaskRequest {
        session: *parameters.digest(),
        survivors,
        dropped,
    };
    let all = request(ids(0..5), Vec::new());
    let without_last = request(ids(0..4), ids([4]));
    // Three are told one thing, two another: four of five must agree.
    let (states, messages) = confirmed_each(&[all.clone(), all.clone(), all.clone(), without_last.clone()]);
    for (client, state) in (0..).zip(states) {
        let refused = state.unmask(&delivered(client, &messages)).err();
        let found = if client == 3 { 1 } else { 3 };
        assert_eq!(refused, Some(ProtocolError::Inconsistent { found, needed: 4 }), "client {client}");
    }
    // All four told the same: the tags say so, and each answers.
    let (states, messages) = confirmed_each(&vec![without_last.clone(); 4]);
    for (client, state) in (0..).zip(states) {
        assert!(state.unmask(&delivered(client, &messages)).is_ok(), "client {client}");
    }
    // A client that stays away is no confirmation, and neither is a wrong tag or one that was made for somebody else.
    type Change = fn(&mut ConfirmationDelivery);
    let changes: [(Change, ProtocolError); 8] = [
        (|delivery| delivery.confirmations.truncate(2), ProtocolError::Inconsistent { found: 3, needed: 4 }),
        (|delivery| delivery.confirmations[0].tag[31] ^= 1, ProtocolError::Inconsistent { found: 3, needed: 4 }),
        (
            |delivery| delivery.confirmations[0].tag = delivery.confirmations[1].tag,
            ProtocolError::Inconsistent { found: 3, needed: 4 },
        ),
        (|delivery| delivery.confirmations[1] = delivery.confirmations[0].clone(), ProtocolError::Unordered),
        (|delivery| delivery.confirmations[0].from = ClientId(0), ProtocolError::UnknownClient(ClientId(0))),
        (|delivery| delivery.confirmations[2].from = ClientId(4), ProtocolError::UnknownClient(ClientId(4))),
        (|delivery| delivery.to = ClientId(1), ProtocolError::WrongReceiver(ClientId(1))),
        (|delivery| delivery.session = [0; 32], ProtocolError::ForeignSession),
    ];
    for (change, expected) in changes {
        let (states, messages) = confirmed_each(&vec![without_last.clone(); 4]);
        let mut delivery = delivered(0, &messages);
        change(&mut delivery);
        assert_eq!(states.into_iter().next().unwrap().unmask(&delivery).err(), Some(expected));
    }
    // One liar among five does not keep the others from their sum.
    let (states, mut messages) = confirmed_each(&vec![all.clone(); 5]);
    messages[4].confirmations.iter_mut().for_each(|one| one.tag = [0; 32]);
    assert!(states.into_iter().next().unwrap().unmask(&delivered(0, &messages)).is_ok());
}

#[test]
fn confirmations_of_strangers_and_repeated_ones_are_refused_by_the_server() {
    let parameters = fixed(5, 4, 1, 2);
    let mut session = open(&parameters, &mut seeded(15));
    let mut states = Vec::new();
    for client in 0..5 {
        let (state, message) = session.mask(client, &[1, 2]);
        session.server.receive(&message).unwrap();
        states.push(state);
    }
    let (mut server, request) = session.server.close().unwrap();
    let mut messages = states.into_iter().map(|state| state.confirm(&request).unwrap().1);
    let (first, second) = (messages.next().unwrap(), messages.next().unwrap());
    let mut odd = first.clone();
    odd.confirmations.pop();
    assert_eq!(server.receive(odd), Err(ProtocolError::WrongSize { expected: 4, found: 3 }));
    let mut odd = first.clone();
    odd.confirmations.swap(0, 1);
    assert!(matches!(server.receive(odd), Err(ProtocolError::WrongReceiver(_))));
    let odd = Confirmations { session: [0; 32], ..first.clone() };
    assert_eq!(server.receive(odd), Err(ProtocolError::ForeignSession));
    let odd = Confirmations { from: ClientId(7), ..first.clone() };
    assert_eq!(server.receive(odd), Err(ProtocolError::UnknownClient(ClientId(7))));
    let odd = Confirmations { from: ClientId(1), ..first.clone() };
    assert!(server.receive(odd).is_err(), "under another name");
    server.receive(first.clone()).unwrap();
    assert_eq!(server.receive(first), Err(ProtocolError::Duplicate(ClientId(0))));
    server.receive(second).unwrap();
    assert_eq!(server.close().err(), Some(ProtocolError::TooFew { found: 2, needed: 4 }));
}

/// A session at its last round, with the answers of all survivors.
fn answered(dropped: &[u32]) -> (CollectingUnmasking, Vec<UnmaskShares>) {
    let mut session = open(&fixed(5, 3, 0, 2), &mut seeded(12));
    let mut states = Vec::new();
    for client in (0..5).filter(|client| !dropped.contains(client)) {
        let (state, message) = session.mask(client, &[client, 10]);
        session.server.receive(&message).unwrap();
        states.push(state);
    }
    let (server, request) = session.server.close().unwrap();
    confirm(server, states, &request)
}

#[test]
fn wrong_shares_are_noticed_and_nothing_is_summed() {
    type Change = fn(&mut UnmaskShares);
    let early: [(Change, ProtocolError); 6] = [
        (|answer| answer.session = [0; 32], ProtocolError::ForeignSession),
        (|answer| answer.from = ClientId(4), ProtocolError::UnknownClient(ClientId(4))),
        (|answer| answer.own_masks.swap(0, 1), ProtocolError::WrongMembers),
        (|answer| answer.mask_keys.clear(), ProtocolError::WrongSize { expected: 1, found: 0 }),
        (|answer| answer.own_masks[0].share = [0xFF; 32], ProtocolError::BadShare(ClientId(0))),
        (
            |answer| answer.mask_keys.push(answer.own_masks[0].clone()),
            ProtocolError::WrongSize { expected: 1, found: 2 },
        ),
    ];
    for (change, expected) in early {
        let (mut server, mut answers) = answered(&[4]);
        change(&mut answers[0]);
        assert_eq!(server.receive(&answers[0]), Err(expected));
    }
    let late: [(Change, ProtocolError); 3] = [
        (|answer| answer.own_masks[1].share[0] ^= 1, ProtocolError::WrongSecret(ClientId(1))),
        (|answer| answer.mask_keys[0].share[0] ^= 1, ProtocolError::WrongSecret(ClientId(4))),
        (|answer| answer.mask_keys[0].share = answer.own_masks[0].share, ProtocolError::WrongSecret(ClientId(4))),
    ];
    for (change, expected) in late {
        let (mut server, mut answers) = answered(&[4]);
        change(&mut answers[0]);
        answers.iter().for_each(|answer| server.receive(answer).unwrap());
        assert_eq!(server.receive(&answers[1]), Err(ProtocolError::Duplicate(answers[1].from)));
        assert_eq!(server.close(), Err(expected));
    }
    let (mut server, answers) = answered(&[4, 2]);
    answers.iter().rev().for_each(|answer| server.receive(answer).unwrap());
    assert_eq!(server.close(), Ok(vec![1 + 3, 30]));
}

#[test]
fn messages_survive_serialisation_and_broken_ones_never_panic() {
    fn check<T: Serialize + DeserializeOwned>(message: &T, source: &mut Seeded) {
        let json = serde_json::to_string(message).unwrap();
        let read: T = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), json);
        let extra = json.replacen('{', r#"{"seed":0,"#, 1);
        assert!(serde_json::from_str::<T>(&extra).is_err(), "an unknown field was read");
        for _ in 0..200 {
            let (mut bytes, mut change) = (json.clone().into_bytes(), [0; 3]);
            source.fill(&mut change).unwrap();
            let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % bytes.len();
            bytes[place] = change[2];
            let _ = serde_json::from_slice::<T>(&bytes);
        }
    }
    let mut source = seeded(13);
    let parameters = fixed(3, 3, 0, 2);
    let mut session = open(&parameters, &mut source);
    check(&session.advertisements[0].clone(), &mut source);
    check(&Roster { session: *parameters.digest(), keys: session.advertisements.clone() }, &mut source);
    check(&session.shares[0].clone(), &mut source);
    check(&session.deliveries[&ClientId(1)].clone(), &mut source);
    let mut states = Vec::new();
    for client in 0..3 {
        let (state, message) = session.mask(client, &[u32::MAX, 1]);
        check(&message, &mut source);
        session.server.receive(&message).unwrap();
        states.push(state);
    }
    let (mut server, request) = session.server.close().unwrap();
    check(&request, &mut source);
    let mut confirmed = Vec::new();
    for state in states {
        let (state, message) = state.confirm(&request).unwrap();
        check(&message, &mut source);
        server.receive(message).unwrap();
        confirmed.push(state);
    }
    let (mut server, deliveries) = server.close().unwrap();
    for (state, delivery) in confirmed.into_iter().zip(&deliveries) {
        check(delivery, &mut source);
        let answer = state.unmask(delivery).unwrap();
        check(&answer, &mut source);
        server.receive(&answer).unwrap();
    }
    assert_eq!(server.close(), Ok(vec![u32::MAX - 2, 3]));
    // Parameters are checked when they are read.
    let odd = r#"{"session":[0],"clients":10,"threshold":2,"colluding":0,"dimension":1}"#;
    assert!(serde_json::from_str::<Parameters>(odd).is_err());
    let json = serde_json::to_string(&parameters).unwrap();
    assert_eq!(serde_json::from_str::<Parameters>(&json).unwrap(), parameters);
    assert!(serde_json::from_str::<Parameters>(&json.replace("\"threshold\":3", "\"threshold\":1")).is_err());
}

#[test]
fn fp_08_without_randomness_there_are_no_keys() {
    struct Failing;
    impl BitSource for Failing {
        fn fill(&mut self, _: &mut [u8]) -> Result<(), NoiseError> {
            Err(NoiseError::Unavailable)
        }
    }
    let refused = Keyed::from_bits(&fixed(3, 3, 0, 1), ClientId(0), &mut Failing).err();
    assert_eq!(refused, Some(ProtocolError::Noise(NoiseError::Unavailable)));
}
