//! Tests of the sum under encryption: that it is the sum, what its parties see, and what they refuse.

use std::collections::BTreeSet;
use std::sync::Arc;

use dither_noise::NoiseSource;
use dither_testing::fit::check_events;
use dither_testing::{FALSE_ALARM, Random};
use fhe_math::rq::traits::TryConvertFrom;
use fhe_math::rq::{Context, Poly, Representation};
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ring::{DEGREE, LARGEST_NOISE, MESSAGE_MODULUS, NOISE_MODULUS, PAIR_BYTES, Pair, Ring};
use super::*;
use crate::secagg::{ClientId, Dropouts, Parameters, ProtocolError, run};
use crate::{DistributedGaussian, Guarantee};

fn os() -> NoiseSource {
    NoiseSource::from_os().unwrap()
}

fn seeded(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

fn session(clients: u32, threshold: u32, dimension: u32) -> Parameters {
    Parameters::new(clients, threshold, 0, dimension, &mut os()).unwrap()
}

/// The sum of all vectors but those of missing clients, by all three parties.
fn sum(session: &Parameters, inputs: &[Vec<i64>], missing: &[u32]) -> Result<Vec<i64>, SumError> {
    let mut source = os();
    let (holder, key) = KeyHolder::new(session, &mut source)?;
    let mut aggregator = Aggregator::new(session);
    for (client, input) in (0..).zip(inputs).filter(|(client, _)| !missing.contains(client)) {
        aggregator.receive(&key.encrypt(session, ClientId(client), input, &mut source)?)?;
    }
    holder.decrypt(&aggregator.close()?)
}

fn plain_sum(inputs: &[Vec<i64>], missing: &[u32], dimension: usize) -> Vec<i64> {
    let mut sum = vec![0; dimension];
    for (_, input) in (0..).zip(inputs).filter(|(client, _)| !missing.contains(client)) {
        sum.iter_mut().zip(input).for_each(|(sum, x)| *sum += x);
    }
    sum
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_decrypted_sum_is_the_plain_sum_of_whoever_is_there(
        clients in 3u32..8,
        missing in 0u32..8,
        dimension in prop_oneof![1usize..40, 4095usize..4098],
        extreme in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let largest = MAX_SUM / i64::from(clients);
        let mut random = Random(seed);
        let mut number = || match extreme {
            true => [largest, -largest, 0][random.below(3) as usize],
            false => random.below(2 * largest as u64 + 1) as i64 - largest,
        };
        let inputs: Vec<Vec<i64>> = (0..clients).map(|_| (0..dimension).map(|_| number()).collect()).collect();
        let missing: Vec<u32> = (missing < clients).then_some(missing).into_iter().collect();
        let session = session(clients, clients - 1, dimension as u32);
        prop_assert_eq!(sum(&session, &inputs, &missing).unwrap(), plain_sum(&inputs, &missing, dimension));
    }

    #[test]
    fn no_bytes_make_a_party_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>()) {
        let session = session(3, 2, 5);
        let mut source = os();
        let (_, key) = KeyHolder::new(&session, &mut source).unwrap();
        let good = key.encrypt(&session, ClientId(0), &[1, 2, 3, 4, 5], &mut source).unwrap();
        // As they are, as the start of a message of the right length, and somewhere inside of a good one.
        let mut padded = bytes.clone();
        padded.resize(PAIR_BYTES, 0);
        let mut inside = good.ciphertext.clone();
        let start = at.index(inside.len() - bytes.len());
        inside[start..start + bytes.len()].copy_from_slice(&bytes);
        for ciphertext in [bytes, padded, inside] {
            let lengths = [ciphertext.len(), PAIR_BYTES];
            let contribution = Contribution { ciphertext: ciphertext.clone(), ..good.clone() };
            let received = Aggregator::new(&session).receive(&contribution);
            let bad_key = PublicKey { key: ciphertext.clone(), ..key.clone() };
            let encrypted = bad_key.encrypt(&session, ClientId(0), &[0; 5], &mut source).map(|_| ());
            let (holder, _) = KeyHolder::new(&session, &mut source).unwrap();
            let encrypted_sum = EncryptedSum { session: *session.digest(), contributions: 3, ciphertext };
            let decrypted = holder.decrypt(&encrypted_sum).map(|numbers| assert_eq!(numbers.len(), 5));
            // All three read alike, and nothing of the wrong length is read.
            prop_assert!(received == encrypted && encrypted == decrypted);
            prop_assert!(received == Ok(()) || received == Err(SumError::Malformed));
            prop_assert!(received.is_err() || lengths[0] == lengths[1]);
        }
    }
}

#[test]
fn sums_up_to_the_largest_are_right_and_one_more_wraps() {
    let session = session(3, 2, 2);
    let sum = |x: i64, y: i64| sum(&session, &[vec![x, -x], vec![y, -y], vec![0, 0]], &[]).unwrap();
    assert_eq!(sum(MAX_SUM, 0), [MAX_SUM, -MAX_SUM]);
    assert_eq!(sum(MAX_SUM - 5, 5), [MAX_SUM, -MAX_SUM]);
    assert_eq!(sum(MAX_SUM, 1), [-MAX_SUM, MAX_SUM]);
}

#[test]
fn the_sum_under_encryption_is_the_sum_under_masks() {
    let session = session(6, 4, 300);
    let mut random = Random(7);
    let inputs: Vec<Vec<i64>> =
        (0..6).map(|_| (0..300).map(|_| random.below(1 << 30) as i64 - (1 << 29)).collect()).collect();
    let masked: Vec<Vec<u32>> = inputs.iter().map(|input| input.iter().map(|&x| x as u32).collect()).collect();
    let dropouts = Dropouts { before_input: [ClientId(2)].into(), ..Dropouts::default() };
    let decrypted = sum(&session, &inputs, &[2]).unwrap();
    assert_eq!(
        decrypted.iter().map(|&x| x as u32).collect::<Vec<_>>(),
        run(&session, &masked, &dropouts, &mut os()).unwrap()
    );
    assert_eq!(decrypted, plain_sum(&inputs, &[2], 300));
}

fn context() -> Arc<Context> {
    Context::new_arc(&[NOISE_MODULUS, MESSAGE_MODULUS], DEGREE).unwrap()
}

/// A block of a polynomial that is one number everywhere, as it is or transformed, and of zeros.
fn block(number: i128, representation: Representation) -> Pair {
    let residue = |modulus: u64| number.rem_euclid(i128::from(modulus)) as u64;
    let residues = [residue(NOISE_MODULUS), residue(MESSAGE_MODULUS)].map(|residue| vec![residue; DEGREE]).concat();
    let mut first = Poly::try_convert_from(residues, &context(), false, representation).unwrap();
    first.change_representation(Representation::Ntt);
    let mut bytes = Vec::new();
    first.coefficients().iter().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()[..5]));
    bytes.resize(PAIR_BYTES, 0);
    Ring::get().unwrap().read(&bytes).unwrap()
}

/// A block whose phase is the same number everywhere, whatever the key.
fn phase(number: i128) -> Pair {
    block(number, Representation::PowerBasis)
}

#[test]
fn the_most_clients_with_the_most_noise_decrypt_right_and_noise_beyond_half_a_step_does_not() {
    let ring = Ring::get().unwrap();
    let (secret, _) = ring.keys(&mut seeded(1)).unwrap();
    let decrypted = |number: i64, noise: i128| {
        let numbers = ring.decrypt(&secret, &phase(i128::from(number) * i128::from(NOISE_MODULUS) + noise)).unwrap();
        assert!(numbers.iter().all(|&x| x == numbers[0]));
        numbers[0]
    };
    let most = i128::from(Parameters::MAX_CLIENTS) * i128::from(LARGEST_NOISE);
    let half = i128::from(NOISE_MODULUS / 2);
    for number in [0, 1, -1, 12_345, MAX_SUM, -MAX_SUM] {
        for noise in [most, -most, half, -half] {
            assert_eq!(decrypted(number, noise), number, "{number} {noise}");
        }
    }
    // Control: the bound is where it is said to be.
    assert_eq!([decrypted(7, half + 1), decrypted(7, -half - 1)], [8, 6]);
}

#[test]
fn the_most_clients_add_up() {
    let ring = Ring::get().unwrap();
    let (secret, key) = ring.keys(&mut seeded(2)).unwrap();
    let numbers: Vec<i64> = (0..DEGREE as i64).map(|i| (i - 2_000) * 4_000).collect();
    // 64 encryptions, each 64 times over: at least as much noise as that of 4,096 different ones.
    let mut generator = seeded(3);
    let once: Vec<Pair> = (0..64).map(|_| ring.encrypt(&key, &numbers, &mut generator).unwrap()).collect();
    let mut sum = phase(0);
    (0..64).for_each(|_| once.iter().for_each(|block| sum.add(block)));
    assert_eq!(*ring.decrypt(&secret, &sum).unwrap(), numbers.iter().map(|x| 4_096 * x).collect::<Vec<_>>());
    // Control: doubled often enough, noise spoils the sum.
    let mut sum = ring.encrypt(&key, &[], &mut generator).unwrap();
    let clean = |sum: &Pair| ring.decrypt(&secret, sum).unwrap().iter().all(|&x| x == 0);
    assert!(clean(&sum));
    for _ in 0..30 {
        let mut bytes = Vec::new();
        sum.write(&mut bytes);
        sum.add(&ring.read(&bytes).unwrap());
    }
    assert!(!clean(&sum));
}

#[test]
fn the_key_holder_sees_a_function_of_the_sum_and_of_coins() {
    let ring = Ring::get().unwrap();
    let (_, key) = ring.keys(&mut seeded(4)).unwrap();
    let sum = |inputs: [i64; 2]| {
        let encrypt = |seed, x| ring.encrypt(&key, &[x; DEGREE], &mut seeded(seed)).unwrap();
        let mut sum = encrypt(5, inputs[0]);
        sum.add(&encrypt(6, inputs[1]));
        let mut bytes = Vec::new();
        sum.write(&mut bytes);
        bytes
    };
    // The same coins and the same sum are the same bytes, however the sum is made up.
    let bytes = sum([1_000, -7]);
    for x in [0, 1, 993, MAX_SUM, -MAX_SUM + 2_000] {
        assert!(sum([x, 993 - x]) == bytes, "{x}");
    }
    assert!(sum([1_000, -6]) != bytes);
}

#[test]
fn control_an_encoding_that_rounds_tells_the_key_holder_more_than_the_sum() {
    // ⌊q·x/t⌋ with a power of two for t, as is usual: what is rounded off stays in the noise.
    let q = u128::from(NOISE_MODULUS) * u128::from(MESSAGE_MODULUS);
    let rounded = |x: i64| (q * u128::from(x as u32)) >> 32;
    let sum = |x: i64| (rounded(x) + rounded(993 - x)) % q;
    assert!((1..500).any(|x| sum(x) != sum(0)));
}

#[test]
fn two_encryptions_of_one_vector_differ_and_another_key_reads_nothing() {
    let session = session(3, 2, 5);
    let mut source = os();
    let (_, key) = KeyHolder::new(&session, &mut source).unwrap();
    let [once, again] = [(); 2].map(|()| key.encrypt(&session, ClientId(0), &[1; 5], &mut source).unwrap());
    let equal = once.ciphertext.iter().zip(&again.ciphertext).filter(|(x, y)| x == y).count();
    // One byte in 256, but for the highest of each residue.
    assert!(equal < PAIR_BYTES / 20, "{equal}");
    let (stranger, _) = KeyHolder::new(&session, &mut source).unwrap();
    let sum = EncryptedSum { session: *session.digest(), contributions: 3, ciphertext: once.ciphertext };
    assert!(stranger.decrypt(&sum).unwrap().iter().any(|x| x.abs() > 1_000));
}

/// Both polynomials of a block, transformed.
fn polynomials(block: &Pair) -> [Poly; 2] {
    let mut bytes = Vec::new();
    block.write(&mut bytes);
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, &byte| (number << 8) | u64::from(byte));
    let residues: Vec<u64> = bytes.chunks_exact(5).map(number).collect();
    [0, 1].map(|i| {
        let residues = &residues[2 * DEGREE * i..][..2 * DEGREE];
        Poly::try_convert_from(residues, &context(), false, Representation::Ntt).unwrap()
    })
}

/// Whether the coefficients of a polynomial have a variance and a largest magnitude. It errs once in 10⁹ times, and off by
/// a third they have not.
fn spread(polynomial: &Poly, variance: f64, largest: i64) -> bool {
    let mut polynomial = polynomial.clone();
    polynomial.change_representation(Representation::PowerBasis);
    let centred = |&x: &u64| if x > NOISE_MODULUS / 2 { x as i64 - NOISE_MODULUS as i64 } else { x as i64 };
    let numbers: Vec<i64> = Vec::<u64>::from(&polynomial)[..DEGREE].iter().map(centred).collect();
    // A mean of 4,096 squares has a relative deviation of about 2.2 %.
    let mean = numbers.iter().map(|&x| (x as f64).powi(2)).sum::<f64>() / numbers.len() as f64;
    (mean / variance - 1.0).abs() < 0.15 && numbers.iter().all(|x| x.abs() <= largest)
}

#[test]
fn keys_and_ciphertexts_have_fresh_noise_in_every_place() {
    let ring = Ring::get().unwrap();
    let encrypted = |key: &Pair, seed| polynomials(&ring.encrypt(key, &[], &mut seeded(seed)).unwrap());
    // Under a key of zeros nothing but e₁ and e₂ is left; under (1, 0) there is u + e₁.
    let ([first, second], [again, _]) = (encrypted(&phase(0), 10), encrypted(&phase(0), 11));
    let [blinded, _] = encrypted(&block(1, Representation::Ntt), 12);
    assert!(spread(&first, 16.0, 32) && spread(&second, 16.0, 32) && spread(&blinded, 32.0, 64));
    assert!(first != second && first != again);
    // Of keys s and e, and the whole noise of an encryption.
    let (secret, key) = ring.keys(&mut seeded(13)).unwrap();
    let rest = |[first, second]: &[Poly; 2]| first + &(second * &*secret);
    assert!(spread(&secret, 16.0, 32) && spread(&rest(&polynomials(&key)), 16.0, 32));
    let noise = rest(&encrypted(&key, 14));
    assert!(spread(&noise, 2.0 * DEGREE as f64 * 256.0 + 16.0, LARGEST_NOISE as i64));
    // Controls: without one part of it, and with one part for all of it.
    assert!(!spread(&blinded, 16.0, 64) && !spread(&Poly::zero(&context(), Representation::Ntt), 16.0, 32));
    assert!(!spread(&noise, DEGREE as f64 * 256.0, LARGEST_NOISE as i64));
}

/// Whether the bytes below the highest of all residues of both polynomials look uniform.
fn looks_uniform(block: &Pair) -> bool {
    let mut bytes = Vec::new();
    block.write(&mut bytes);
    let mut counts = vec![0u64; 256];
    bytes.chunks_exact(5).flat_map(|residue| &residue[..4]).for_each(|&byte| counts[usize::from(byte)] += 1);
    let draws = counts.iter().sum();
    check_events(&counts, &[1.0 / 256.0; 256], draws, FALSE_ALARM).is_ok()
}

#[test]
fn a_ciphertext_looks_uniform_to_the_aggregator() {
    let ring = Ring::get().unwrap();
    let (_, key) = ring.keys(&mut seeded(8)).unwrap();
    let numbers: Vec<i64> = (0..DEGREE as i64).map(|i| i / 100 % 50).collect();
    assert!(looks_uniform(&ring.encrypt(&key, &numbers, &mut seeded(9)).unwrap()) && looks_uniform(&key));
    // Control: what is not encrypted does not.
    assert!(!looks_uniform(&phase(12_345)));
}

#[test]
fn what_is_not_of_the_session_is_refused_and_changes_nothing() {
    let (ours, theirs) = (session(3, 2, 5), session(3, 2, 5));
    let mut source = os();
    let (holder, key) = KeyHolder::new(&ours, &mut source).unwrap();
    let mut encrypt = |client, numbers: &[i64]| key.encrypt(&ours, ClientId(client), numbers, &mut source);
    let good = encrypt(0, &[1, 2, 3, 4, 5]).unwrap();
    fn refused<T>(error: ProtocolError) -> Result<T, SumError> {
        Err(error.into())
    }
    assert_eq!(encrypt(3, &[0; 5]), refused(ProtocolError::UnknownClient(ClientId(3))));
    assert_eq!(encrypt(0, &[0; 4]), refused(ProtocolError::WrongSize { expected: 5, found: 4 }));
    for beyond in [MAX_SUM + 1, -MAX_SUM - 1, i64::MAX, i64::MIN] {
        assert_eq!(encrypt(0, &[0, 0, beyond, 0, 0]), Err(SumError::OutOfRange));
    }
    let second = encrypt(1, &[10; 5]).unwrap();
    assert_eq!(key.encrypt(&theirs, ClientId(0), &[0; 5], &mut os()), refused(ProtocolError::ForeignSession));

    let mut aggregator = Aggregator::new(&ours);
    aggregator.receive(&good).unwrap();
    let altered = |alter: fn(&mut Contribution)| {
        let mut altered = second.clone();
        alter(&mut altered);
        altered
    };
    let strange = altered(|message| message.from = ClientId(3));
    assert_eq!(aggregator.receive(&strange), refused(ProtocolError::UnknownClient(ClientId(3))));
    assert_eq!(aggregator.receive(&good), refused(ProtocolError::Duplicate(ClientId(0))));
    assert_eq!(aggregator.receive(&altered(|message| message.session[0] ^= 1)), refused(ProtocolError::ForeignSession));
    for malformed in [
        altered(|message| message.ciphertext.truncate(PAIR_BYTES - 1)),
        altered(|message| message.ciphertext.push(0)),
        altered(|message| message.ciphertext.clear()),
        // Not smaller than its modulus.
        altered(|message| message.ciphertext[..5].fill(0xff)),
        altered(|message| message.ciphertext[PAIR_BYTES - 5..].copy_from_slice(&MESSAGE_MODULUS.to_le_bytes()[..5])),
    ] {
        assert_eq!(aggregator.receive(&malformed), Err(SumError::Malformed));
    }
    aggregator.receive(&second).unwrap();
    let sum = aggregator.close().unwrap();
    assert_eq!(sum.contributions, 2);
    assert_eq!(holder.decrypt(&sum).unwrap(), [11, 12, 13, 14, 15]);
}

#[test]
fn a_sum_of_too_few_or_too_many_is_not_decrypted() {
    let session = session(4, 3, 5);
    let mut source = os();
    let (_, key) = KeyHolder::new(&session, &mut source).unwrap();
    let mut aggregator = Aggregator::new(&session);
    for client in 0..2 {
        aggregator.receive(&key.encrypt(&session, ClientId(client), &[1; 5], &mut source).unwrap()).unwrap();
    }
    assert_eq!(aggregator.close(), Err(SumError::TooFew { found: 2, needed: 3 }));
    let mut decrypt = |contributions, digest| {
        let (holder, _) = KeyHolder::new(&session, &mut source).unwrap();
        holder.decrypt(&EncryptedSum { session: digest, contributions, ciphertext: vec![0; PAIR_BYTES] }).map(|_| ())
    };
    let digest = *session.digest();
    assert_eq!(decrypt(2, digest), Err(SumError::TooFew { found: 2, needed: 3 }));
    assert_eq!(decrypt(5, digest), Err(SumError::TooMany { found: 5, most: 4 }));
    assert_eq!(decrypt(3, [0; 32]), Err(ProtocolError::ForeignSession.into()));
    assert_eq!(decrypt(3, digest), Ok(()));
}

#[test]
fn an_altered_ciphertext_is_a_wrong_sum_and_a_made_up_one_is_the_key() {
    // What the documentation says is not protected, so that nobody relies on it.
    let session = session(3, 2, DEGREE as u32);
    let mut source = os();
    let (holder, key) = KeyHolder::new(&session, &mut source).unwrap();
    let mut ciphertext = key.encrypt(&session, ClientId(0), &[1; DEGREE], &mut source).unwrap().ciphertext;
    ciphertext[0] ^= 1;
    let sum = EncryptedSum { session: *session.digest(), contributions: 3, ciphertext };
    assert_ne!(holder.decrypt(&sum).unwrap(), [1; DEGREE]);

    let (holder, key) = KeyHolder::new(&session, &mut source).unwrap();
    // (0, Δ) has the phase Δ·s.
    let mut bytes = Vec::new();
    block(NOISE_MODULUS.into(), Representation::Ntt).write(&mut bytes);
    let (step, zero) = bytes.split_at(PAIR_BYTES / 2);
    let ciphertext = [zero, step].concat();
    let sum = EncryptedSum { session: *session.digest(), contributions: 3, ciphertext };
    let secret = holder.decrypt(&sum).unwrap();
    assert!(secret.iter().all(|x| x.abs() <= 32) && secret.iter().any(|&x| x != 0));
    // With it b + a·s is small, which decrypts to zeros: it is the key.
    let ring = Ring::get().unwrap();
    let mut secret = Poly::try_convert_from(&secret, &context(), false, Representation::PowerBasis).unwrap();
    secret.change_representation(Representation::Ntt);
    assert!(ring.decrypt(&secret, &ring.read(&key.key).unwrap()).unwrap().iter().all(|&x| x == 0));
}

fn broken_json_is_refused<M: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(message: &M) {
    let json = serde_json::to_string(message).unwrap();
    assert_eq!(&serde_json::from_str::<M>(&json).unwrap(), message);
    for end in [0, 1, json.len() / 2, json.len() - 1] {
        assert!(serde_json::from_str::<M>(&json[..end]).is_err());
    }
    assert!(serde_json::from_str::<M>(&json.replacen('{', "{\"more\":1,", 1)).is_err());
}

#[test]
fn messages_of_all_parties_survive_serialisation() {
    let session = session(3, 2, 5);
    let mut source = os();
    let (_, key) = KeyHolder::new(&session, &mut source).unwrap();
    broken_json_is_refused(&key);
    let mut aggregator = Aggregator::new(&session);
    for client in 0..2 {
        let contribution = key.encrypt(&session, ClientId(client), &[1; 5], &mut source).unwrap();
        broken_json_is_refused(&contribution);
        aggregator.receive(&contribution).unwrap();
    }
    broken_json_is_refused(&aggregator.close().unwrap());
}

#[test]
fn tr_02_a_round_under_encryption_has_the_noise_of_its_guarantee() {
    const WIDE: u32 = 100_000;
    let session = Parameters::new(6, 5, 1, WIDE, &mut os()).unwrap();
    let mechanism = DistributedGaussian::new(WIDE, 6, session.honest(), 2.0, 1.5).unwrap();
    // Nobody has anything to say. Fresh randomness: a correct round fails once in 10⁹ runs.
    let noise = round(&mechanism, &session, &vec![vec![]; 6], &[ClientId(4)].into(), &mut os()).unwrap();
    let sigma = 3.0 * (5.0f64 / 4.0).sqrt();
    let squares: f64 = noise.iter().map(|x| x * x).sum::<f64>() / f64::from(WIDE);
    // The relative deviation of a mean of squares is √(2/100,000): six of them are 2.7 %.
    assert!((squares / (sigma * sigma) - 1.0).abs() < 0.028, "{squares}");
    // Control: the noise of one client less would be caught.
    assert!((squares / 9.0 - 1.0).abs() > 0.028);

    // One missing client more, and there is no sum.
    let missing: BTreeSet<ClientId> = [ClientId(4), ClientId(0)].into();
    let refused = round(&mechanism, &session, &vec![vec![]; 6], &missing, &mut os());
    assert_eq!(refused, Err(SumError::TooFew { found: 4, needed: 5 }));
    // A session that promises less noise than the mechanism prices, or has another length, is refused.
    for (clients, colluding, dimension) in [(6, 2, WIDE), (6, 1, WIDE - 1), (7, 1, WIDE)] {
        let other = Parameters::new(clients, 5, colluding, dimension, &mut os()).unwrap();
        let refused = round(&mechanism, &other, &vec![vec![]; clients as usize], &BTreeSet::new(), &mut os());
        assert!(matches!(refused, Err(SumError::Protocol(ProtocolError::InvalidParameters { .. }))));
    }
}

#[test]
fn a_round_under_encryption_is_the_clipped_sum_and_costs_what_one_under_masks_does() {
    let session = Parameters::new(5, 4, 1, 3, &mut os()).unwrap();
    let mechanism = DistributedGaussian::new(3, 5, session.honest(), 1.0, 0.001).unwrap();
    let updates =
        vec![vec![0.3, -0.4, 0.0], vec![3.0, 4.0, 0.0], vec![f32::NAN; 3], vec![0.0, 0.0, -9.0], vec![0.0; 3]];
    let sum = round(&mechanism, &session, &updates, &BTreeSet::new(), &mut os()).unwrap();
    for (sum, expected) in sum.iter().zip([0.9, 0.4, -1.0]) {
        assert!((sum - expected).abs() < 0.02, "{sum} {expected}");
    }
    let wrong = round(&mechanism, &session, &updates[1..], &BTreeSet::new(), &mut os());
    assert_eq!(wrong, Err(ProtocolError::WrongSize { expected: 5, found: 4 }.into()));
    // The guarantee is that of the mechanism, which does not know how its sums are made.
    let epsilon = |guarantee: Guarantee| guarantee.epsilon(1e-5).unwrap();
    let strong = DistributedGaussian::new(3, 50, 30, 1.0, 1.0).unwrap();
    assert!((epsilon(strong.guarantee(1)) - 4.3772).abs() < 1e-3);
}
