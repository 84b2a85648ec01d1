//! Timing, measured and printed, never asserted: a shared machine decides too much of it.

#![allow(clippy::unwrap_used, reason = "a failed draw is a failed test")]

mod common;

use std::time::Instant;

use common::{Seeded, ratio};
use dither_noise::{discrete_gaussian, discrete_laplace};
use dither_testing::welch::t_statistic;

/// Welch's t between the times of the largest and the smallest tenth of the draws.
fn leak(mut draw: impl FnMut() -> i128) -> f64 {
    let mut timed: Vec<(u128, f64)> = (0..1_000_000)
        .map(|_| {
            let start = Instant::now();
            let size = draw().unsigned_abs();
            (size, start.elapsed().as_nanos() as f64)
        })
        .collect();
    timed.sort_by_key(|&(size, _)| size);
    let tenth = timed.len() / 10;
    let times = |part: &[(u128, f64)]| part.iter().map(|&(_, time)| time).collect::<Vec<_>>();
    t_statistic(&times(&timed[timed.len() - tenth..]), &times(&timed[..tenth]))
}

/// The samplers are exact, not constant in time: a rejection loop takes longer for some draws, and Laplace
/// noise takes a step more for each further scale. What an analyst can time is the request, whose answer is
/// held back to a public grid of release times and which draws the noise of a whole table.
#[test]
#[ignore = "a long run that prints; see the comment"]
fn tm_01_time_of_a_draw_against_its_size() {
    let mut source = Seeded::new(1);
    let laplace = leak(|| discrete_laplace(&mut source, ratio(10, 1)).unwrap());
    let gaussian = leak(|| discrete_gaussian(&mut source, ratio(100, 1)).unwrap());
    println!("Welch t, largest against smallest tenth: Laplace {laplace:.1}, Gaussian {gaussian:.1}");
}
