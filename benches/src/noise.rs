//! Draws per second of the exact samplers, from tables and one at a time, beside numpy's floats, the raw stream of
//! the generator and plain writes to memory, all in the same run on one core.

use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use dither_core::Ratio;
use dither_noise::{BitSource, NoiseSource, NoiseTable, discrete_gaussian, discrete_laplace};

use crate::figures::{Figure, Section, rate};
use crate::peers;

/// Draws in a buffer: 128 KiB, where numpy is fastest as well.
const DRAWS: usize = 1 << 14;

/// How often everything is measured in turns; the best counts, since others may use the machine.
const ROUNDS: usize = 20;

/// Prints draws per second of numpy's Laplace, normal, and normal rounded to integers.
const NUMPY: &str = "
import time, numpy
draws, rng = 1 << 14, numpy.random.default_rng()
def rate(draw):
    start = time.perf_counter()
    draw()
    return draws / (time.perf_counter() - start)
for draw in (lambda: rng.laplace(0, 1024, draws), lambda: rng.normal(0, 1024, draws),
             lambda: numpy.rint(rng.normal(0, 1024, draws)).astype(numpy.int64)):
    print(max(rate(draw) for _ in range(20)))
";

/// Best rates so far, in draws per second.
struct Best {
    tables: Vec<(String, NoiseTable, f64)>,
    numpy: Option<[f64; 3]>,
    /// Bytes per second.
    raw: f64,
    written: f64,
}

/// Measures tables at five widths, and both samplers of single draws at three.
pub fn run() -> Result<Vec<Section>> {
    let mut source = NoiseSource::from_os()?;
    let best = bulk(&mut source)?;
    let mut figures = vec![
        Figure::new("raw ChaCha20 stream", "rate", best.raw, "bytes/s"),
        Figure::new("writing integers to the same buffer", "rate", best.written, "bytes/s"),
    ];
    match best.numpy {
        Some([laplace, normal, rounded]) => {
            for (row, value) in [("laplace", laplace), ("normal", normal), ("normal, rounded to int64", rounded)] {
                figures.push(Figure::new(format!("numpy {row} (floats, not private)"), "rate", value, "draws/s"));
            }
        }
        None => eprintln!("python3 with numpy is not installed: the comparison with numpy is left out"),
    }
    for (row, _, draws) in &best.tables {
        let gaussian = row.contains("Gaussian");
        let floats = best.numpy.map(|[laplace, normal, _]| if gaussian { normal } else { laplace });
        figures.push(Figure { against: floats, ..Figure::new(row, "rate (× numpy's floats)", *draws, "draws/s") });
        figures.push(Figure::new(row, "raw bytes in the time of one draw", best.raw / draws, "bytes"));
        figures.push(Figure::new(row, "bytes drawn (× writing)", draws * 8.0, "bytes/s").against(best.written));
    }
    for exponent in [0_u32, 10, 20] {
        let (scale, variance) = parameters(exponent)?;
        let laplace = rate(|| discrete_laplace(&mut source, scale).map(drop).map_err(Into::into))?;
        let gaussian = rate(|| discrete_gaussian(&mut source, variance).map(drop).map_err(Into::into))?;
        for (name, draws) in [("Laplace", laplace), ("Gaussian", gaussian)] {
            let row = format!("discrete {name}, width 2^{exponent}, one at a time");
            figures.push(Figure::new(&row, "rate", draws, "draws/s"));
            figures.push(Figure::new(&row, "raw bytes in the time of one draw", best.raw / draws, "bytes"));
        }
    }
    for peer in peers::run("noise") {
        let Some(draws) = peer.number("rate") else { continue };
        let ours = best.tables.iter().find(|(row, ..)| row.starts_with(&format!("discrete {},", peer.case)));
        let row = format!("{}, discrete {}", peer.tool, peer.case);
        let figure = Figure::new(&row, "rate (× numpy's floats)", draws, "draws/s");
        figures.push(figure);
        if let Some((.., table)) = ours {
            figures.push(Figure::new(&row, "rate of a table (× this)", *table, "draws/s").against(draws));
        }
    }
    Ok(vec![Section { title: "Noise".into(), figures }])
}

fn parameters(exponent: u32) -> Result<(Ratio, Ratio)> {
    let power = |exponent: u32| Ratio::new(1 << exponent, 1).context("a power of two is positive");
    Ok((power(exponent)?, power(2 * exponent)?))
}

fn bulk(source: &mut NoiseSource) -> Result<Best> {
    let mut best = Best { tables: Vec::new(), numpy: None, raw: 0.0, written: 0.0 };
    for exponent in [0, 5, 10, 20, 40] {
        let (scale, variance) = parameters(exponent)?;
        for (name, table) in [("Laplace", NoiseTable::laplace(scale)?), ("Gaussian", NoiseTable::gaussian(variance)?)] {
            best.tables.push((format!("discrete {name}, width 2^{exponent}, from a table"), table, 0.0));
        }
    }
    let mut out = vec![0_i64; DRAWS];
    let mut bytes = vec![0; DRAWS];
    for round in 0..ROUNDS {
        if let Some(now) = numpy() {
            best.numpy = Some(best.numpy.map_or(now, |before| [0, 1, 2].map(|index| before[index].max(now[index]))));
        }
        for _ in 0..ROUNDS {
            best.raw = best.raw.max(per_second(DRAWS, || Ok(source.fill(&mut bytes)?))?);
            best.written = best.written.max(per_second(8 * DRAWS, || {
                black_box(&mut out).fill(black_box(round as i64));
                Ok(())
            })?);
            for (_, table, best) in &mut best.tables {
                *best = best.max(per_second(DRAWS, || Ok(table.fill(source, &mut out)?))?);
            }
        }
    }
    Ok(best)
}

/// How many of `things` come per second when so many are made at once.
fn per_second(things: usize, mut make: impl FnMut() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    make()?;
    Ok(things as f64 / start.elapsed().as_secs_f64())
}

/// Laplace, normal, and rounded normal draws per second; `None` without python3 or numpy.
fn numpy() -> Option<[f64; 3]> {
    let output = Command::new("python3").args(["-c", NUMPY]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let rates: Vec<f64> = text.lines().filter_map(|line| line.parse().ok()).collect();
    rates.try_into().ok()
}
