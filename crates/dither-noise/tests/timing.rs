//! Timing, measured and printed, never asserted: a shared machine decides too much of it.

#![allow(clippy::unwrap_used, reason = "a failed draw is a failed test")]

mod common;

use std::hint::black_box;
use std::time::Instant;

use common::{Seeded, ratio};
use dither_noise::{NoiseTable, discrete_gaussian, discrete_laplace};
use dither_testing::welch::t_statistic;

const DRAWS: usize = 1_000_000;

/// The largest of Welch's t between the times of the largest and the smallest tenth of the draws, over all times
/// and over the shorter 99.9 %, 99 %, 90 % and 50 % of them: what takes long was interrupted.
fn leak<T>(mut draw: impl FnMut() -> T, size: impl Fn(&T) -> u128) -> f64 {
    // Caches and branches first.
    (0..DRAWS / 100).for_each(|_| drop(black_box(draw())));
    let mut timed: Vec<(u128, f64)> = (0..DRAWS)
        .map(|_| {
            let start = Instant::now();
            let drawn = black_box(draw());
            let time = start.elapsed().as_nanos() as f64;
            (size(&drawn), time)
        })
        .collect();
    // All draws of a size, not the first of them: the machine changes its speed in the course of a run.
    let mut sizes: Vec<u128> = timed.iter().map(|&(size, _)| size).collect();
    sizes.sort_unstable();
    let (small, large) = (sizes[sizes.len() / 10], sizes[sizes.len() - sizes.len() / 10]);
    timed.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let t = |share: f64| {
        let shorter = &timed[..(timed.len() as f64 * share) as usize];
        let times = |part: &dyn Fn(u128) -> bool| -> Vec<f64> {
            shorter.iter().filter(|&&(size, _)| part(size)).map(|&(_, time)| time).collect()
        };
        t_statistic(&times(&|size| size >= large), &times(&|size| size <= small))
    };
    [1.0, 0.999, 0.99, 0.9, 0.5].map(t).into_iter().max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap()
}

/// The samplers one at a time are exact, not constant in time: a rejection loop takes longer for some draws, and
/// Laplace noise takes a step more for each further scale. A draw from a table takes the same steps for all;
/// filling a whole buffer takes longer by some nanoseconds for each draw that was looked at, among thousands.
#[test]
#[ignore = "a long run that prints; see the comment"]
fn tm_01_time_of_a_draw_against_its_size() {
    let mut source = Seeded::new(1);
    let laplace = leak(|| discrete_laplace(&mut source, ratio(10, 1)).unwrap(), |x| x.unsigned_abs());
    let gaussian = leak(|| discrete_gaussian(&mut source, ratio(100, 1)).unwrap(), |x| x.unsigned_abs());
    println!("Welch t, largest against smallest tenth; |t| < 4.5 shows nothing");
    println!("one at a time, without a table: Laplace {laplace:.1}, Gaussian {gaussian:.1}");
    for (n, d) in [(1, 1), (10, 1), (1 << 20, 1)] {
        let tables = [NoiseTable::laplace(ratio(n, d)).unwrap(), NoiseTable::gaussian(ratio(n * n, d)).unwrap()];
        let draw =
            tables.each_ref().map(|table| leak(|| table.draw(&mut source).unwrap(), |x| x.unsigned_abs().into()));
        let fill = tables.each_ref().map(|table| {
            let mut buffer = [0; 100];
            let fill = || {
                table.fill(&mut source, &mut buffer).unwrap();
                buffer[0]
            };
            leak(fill, |x| x.unsigned_abs().into())
        });
        println!("width {n}: draw {draw:.1?}, the first of a buffer of 100 {fill:.1?} (Laplace, Gaussian)");
    }
}
