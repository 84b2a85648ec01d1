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
