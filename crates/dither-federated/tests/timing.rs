//! Timing, measured and printed, never asserted.

#![allow(clippy::unwrap_used, reason = "a failed round is a failed test")]

use std::time::Instant;

use dither_federated::secagg::{ClientId, Dropouts, Parameters};
use dither_federated::{DistributedGaussian, clip_to_lattice, secure_round};
use dither_noise::NoiseSource;

#[test]
#[ignore = "long: times whole rounds; printed, never judged"]
fn rounds_of_secure_aggregation() {
    let mut source = NoiseSource::from_os().unwrap();
    for (clients, threshold, dimension) in
        [(10, 7, 100_000), (50, 34, 100_000), (50, 34, 1_000_000), (200, 134, 10_000)]
    {
        let session = Parameters::new(clients, threshold, 2, dimension, &mut source).unwrap();
        let mechanism = DistributedGaussian::new(dimension, clients, session.honest(), 1.0, 1.0).unwrap();
        let updates = vec![vec![1e-4; dimension as usize]; clients as usize];
        for dropped in [0, clients / 10] {
            let before_input = (0..dropped).map(ClientId).collect();
            let dropouts = Dropouts { before_input, ..Dropouts::default() };
            let best = (0..3)
                .map(|_| {
                    let start = Instant::now();
                    secure_round(&mechanism, &session, &updates, &dropouts, &mut source).unwrap();
                    start.elapsed().as_secs_f64()
                })
                .fold(f64::INFINITY, f64::min);
            println!(
                "n {clients}, t {threshold}, d {dimension}, {dropped} dropped: {best:.3} s, {:.0} clients/s",
                f64::from(clients) / best
            );
        }
    }
    let update = vec![1e-4f32; 1_000_000];
    let start = Instant::now();
    let clipped = clip_to_lattice(&update, update.len(), 0.05, 1 << 24);
    println!("clipping 1,000,000 numbers: {:.1} ms, {} steps", start.elapsed().as_secs_f64() * 1e3, clipped[0]);
}

#[cfg(feature = "homomorphic")]
#[test]
#[ignore = "long: times encryption; printed, never judged"]
fn the_sum_under_encryption_beside_masks() {
    use dither_federated::homomorphic::{Aggregator, KeyHolder};

    /// The least of some milliseconds, and what was computed last.
    fn best<T>(mut work: impl FnMut() -> T) -> (f64, T) {
        let mut time = || {
            let start = Instant::now();
            let result = work();
            (start.elapsed().as_secs_f64() * 1e3, result)
        };
        (0..6).fold(time(), |(least, _), _| {
            let (now, result) = time();
            (least.min(now), result)
        })
    }

    let mut source = NoiseSource::from_os().unwrap();
    for dimension in [10_000, 100_000] {
        let session = Parameters::new(50, 34, 2, dimension, &mut source).unwrap();
        let numbers: Vec<i64> = (0..i64::from(dimension)).map(|x| x * 1_000).collect();
        let (keys, (_, key)) = best(|| KeyHolder::new(&session, &mut source).unwrap());
        let (encrypting, one) = best(|| key.encrypt(&session, ClientId(0), &numbers, &mut source).unwrap());
        let mut aggregator = Aggregator::new(&session);
        let mut contributions = (0..34).map(|from| {
            let mut contribution = one.clone();
            contribution.from = ClientId(from);
            contribution
        });
        aggregator.receive(&contributions.next().unwrap()).unwrap();
        let (adding, ()) = best(|| aggregator.receive(&contributions.next().unwrap()).unwrap());
        contributions.for_each(|contribution| aggregator.receive(&contribution).unwrap());
        let sum = aggregator.close().unwrap();
        let mut holders: Vec<KeyHolder> = (0..8).map(|_| KeyHolder::new(&session, &mut source).unwrap().0).collect();
        let (decrypting, _) = best(|| holders.pop().unwrap().decrypt(&sum).unwrap());
        println!(
            "{dimension} numbers: keys {keys:.2} ms, encrypting {encrypting:.2} ms and {} bytes, adding {adding:.2} ms, \
             decrypting {decrypting:.2} ms",
            one.ciphertext.len()
        );
        let mechanism = DistributedGaussian::new(dimension, 50, session.honest(), 1.0, 1.0).unwrap();
        let update = vec![1e-4; dimension as usize];
        let (noising, _) = best(|| mechanism.encode(&update, &mut source).unwrap());
        let updates = vec![update; 50];
        let (masks, _) =
            best(|| secure_round(&mechanism, &session, &updates, &Dropouts::default(), &mut source).unwrap());
        println!(
            "clipping and noise {noising:.2} ms; with masks {:.2} ms per client, everything included",
            masks / 50.0
        );
    }
}
