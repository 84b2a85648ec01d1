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
    use dither_federated::homomorphic::{Aggregator, Contribution, KeyHolder};

    /// Milliseconds that this thread has had a processor, where Linux counts them, else those that have passed.
    fn milliseconds(start: Instant) -> f64 {
        let counted = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
        let nanoseconds = counted.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
        nanoseconds.map_or_else(|| start.elapsed().as_secs_f64() * 1e3, |nanoseconds| nanoseconds / 1e6)
    }

    /// The mean of so many times, as Linux counts no finer than some milliseconds, and what was computed first.
    fn mean<T>(times: u32, mut work: impl FnMut() -> T) -> (f64, T) {
        let (first, start) = (work(), Instant::now());
        let before = milliseconds(start);
        (0..times).for_each(|_| drop(work()));
        ((milliseconds(start) - before) / f64::from(times), first)
    }

    let mut source = NoiseSource::from_os().unwrap();
    for dimension in [10_000, 100_000] {
        let session = Parameters::new(50, 34, 2, dimension, &mut source).unwrap();
        let numbers: Vec<i64> = (0..i64::from(dimension)).map(|x| x * 1_000).collect();
        let (keys, (_, key)) = mean(100, || KeyHolder::new(&session, &mut source).unwrap());
        let (encrypting, one) = mean(30, || key.encrypt(&session, ClientId(0), &numbers, &mut source).unwrap());
        let mut aggregator = Aggregator::new(&session);
        let mut senders = (0..50).map(ClientId);
        let (adding, ()) = mean(49, || {
            let contribution = Contribution { from: senders.next().unwrap(), ..one.clone() };
            aggregator.receive(&contribution).unwrap();
        });
        let sum = aggregator.close().unwrap();
        let mut holders: Vec<KeyHolder> = (0..31).map(|_| KeyHolder::new(&session, &mut source).unwrap().0).collect();
        let (decrypting, _) = mean(30, || holders.pop().unwrap().decrypt(&sum).unwrap());
        println!(
            "{dimension} numbers: keys {keys:.2} ms, encrypting {encrypting:.2} ms and {} bytes, adding {adding:.2} ms, \
             decrypting {decrypting:.2} ms",
            one.ciphertext.len()
        );
        let mechanism = DistributedGaussian::new(dimension, 50, session.honest(), 1.0, 1.0).unwrap();
        let update = vec![1e-4; dimension as usize];
        let (noising, _) = mean(100, || mechanism.encode(&update, &mut source).unwrap());
        let updates = vec![update; 50];
        let (masks, _) =
            mean(3, || secure_round(&mechanism, &session, &updates, &Dropouts::default(), &mut source).unwrap());
        println!(
            "clipping and noise {noising:.2} ms; with masks {:.2} ms per client, everything included",
            masks / 50.0
        );
    }
}
