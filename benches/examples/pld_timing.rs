//! Prints what the accountant says about well-known training runs, next to dp_accounting's value, and how long it takes.
//!
//! The first argument picks rows by name; `RUNS` is how often each is timed, of which the best is shown.

use std::time::Instant;

use dither_accounting::{Event, Pld};
use dither_core::Neighbors;

fn run(noise_multiplier: f64, rate: f64, count: u64) -> Event {
    let step = Event::PoissonSampled { rate, event: Box::new(Event::Gaussian { noise_multiplier }) };
    Event::SelfComposed { count, event: Box::new(step) }
}

fn main() {
    let rows: &[(f64, f64, u64, f64, f64)] = &[
        (1.1, 256.0 / 60000.0, 14063, 1e-5, 2.381779),
        (1.1, 250.0 / 60000.0, 14400, 1e-5, 2.349645),
        (1.5, 0.04, 2250, 1e-5, 6.768787),
        (4.0, 0.01, 10000, 1e-5, 0.946999),
        (0.7, 240.0 / 60000.0, 11250, 1e-5, 5.431223),
        (1.1, 240.0 / 60000.0, 15000, 1e-5, 2.295468),
        (1.3, 240.0 / 60000.0, 3750, 1e-5, 0.833589),
        (0.7, 1000.0 / 67349.0, 202, 1e-5, 3.724759),
        (3.0, 4096.0 / 50000.0, 2468, 1e-5, 6.529288),
        (0.8, 0.001, 1000, 1e-6, 0.467695),
        (0.8, 0.05, 1000, 1e-6, 19.515033),
        (1.5, 0.05, 1000, 1e-6, 6.199695),
        (3.0, 0.001, 20000, 1e-6, 0.185361),
        (1.0, 1.0, 1, 1e-5, 4.377178),
        (0.8, 0.01, 10000, 1e-6, 11.183164),
    ];
    for &(sigma, rate, count, delta, other) in rows {
        time(&format!("{sigma} {rate:.5} {count}"), &run(sigma, rate, count), Neighbors::AddOrRemoveUnit, delta, other);
    }
    time("replace", &run(1.1, 256.0 / 60000.0, 14063), Neighbors::ReplaceUnit, 1e-5, 4.221531);
    let mixed = Event::Composed(vec![
        run(1.1, 256.0 / 60000.0, 1000),
        Event::SelfComposed { count: 3, event: Box::new(Event::Laplace { noise_multiplier: 4.0 }) },
        Event::SelfComposed { count: 2, event: Box::new(Event::Gaussian { noise_multiplier: 5.0 }) },
    ]);
    time("mixed ledger", &mixed, Neighbors::AddOrRemoveUnit, 1e-6, 2.011985);
    for (count, other) in [(1, 0.0999980), (10, 0.998978), (100, 4.692667)] {
        let laplace = Event::SelfComposed { count, event: Box::new(Event::Laplace { noise_multiplier: 10.0 }) };
        time(&format!("{count} laplace"), &laplace, Neighbors::AddOrRemoveUnit, 1e-6, other);
    }
    time("1000 mechanisms", &many(), Neighbors::AddOrRemoveUnit, 1e-6, 0.998215);
}

fn many() -> Event {
    let between = |from: f64, to: f64, i: usize, n: usize| from + (to - from) * i as f64 / (n - 1) as f64;
    let laplace = (0..400).map(|i| Event::Laplace { noise_multiplier: 1.0 / between(0.001, 0.01, i, 400) });
    let gaussian = (0..400).map(|i| Event::Gaussian { noise_multiplier: between(50.0, 200.0, i, 400) });
    let sampled = (0..200).map(|i| run(between(1.0, 4.0, i, 200), between(0.001, 0.01, i, 200), 1));
    Event::Composed(laplace.chain(gaussian).chain(sampled).collect())
}

fn time(name: &str, event: &Event, neighbors: Neighbors, delta: f64, other: f64) {
    let mut best = f64::INFINITY;
    let mut bounds = None;
    if std::env::args().nth(1).is_some_and(|only| !name.contains(&only)) {
        return;
    }
    for _ in 0..std::env::var("RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(3) {
        let start = Instant::now();
        let epsilon = Pld::of(event, neighbors).map(|pld| pld.epsilon(delta));
        best = best.min(start.elapsed().as_secs_f64());
        bounds = Some(epsilon);
    }
    match bounds {
        Some(Ok(bounds)) => println!(
            "{name:22} {:.6} .. {:.6} gap {:.1e}  other {other:.6} over {:+.1e}  {:.1} ms",
            bounds.lower,
            bounds.upper,
            (bounds.upper - bounds.lower) / bounds.upper,
            bounds.upper - other,
            1e3 * best
        ),
        other => println!("{name}: {other:?}"),
    }
}
