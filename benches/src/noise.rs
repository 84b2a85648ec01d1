//! Draws per second of the exact samplers, one at a time, against the raw stream of the generator in the same run.

use anyhow::{Context, Result};
use dither_core::Ratio;
use dither_noise::{BitSource, NoiseSource, discrete_gaussian, discrete_laplace};

use crate::figures::{Figure, Section, rate};

const CHUNK: usize = 1 << 16;

/// Measures both distributions at three scales.
pub fn run() -> Result<Vec<Section>> {
    let mut source = NoiseSource::from_os()?;
    let mut buffer = vec![0; CHUNK];
    let raw = rate(|| Ok(source.fill(&mut buffer)?))? * CHUNK as f64;
    let mut figures = vec![Figure::new("raw ChaCha20 stream", "rate", raw, "bytes/s")];
    for exponent in [0_u32, 10, 20] {
        let scale = Ratio::new(1 << exponent, 1).context("a scale is positive")?;
        let variance = Ratio::new(1 << (2 * exponent), 1).context("a variance is positive")?;
        let laplace = rate(|| discrete_laplace(&mut source, scale).map(drop).map_err(Into::into))?;
        let gaussian = rate(|| discrete_gaussian(&mut source, variance).map(drop).map_err(Into::into))?;
        for (name, draws) in [("Laplace", laplace), ("Gaussian", gaussian)] {
            let row = format!("discrete {name}, scale 2^{exponent}");
            figures.push(Figure::new(&row, "rate", draws, "draws/s").against(raw));
            figures.push(Figure::new(&row, "raw bytes in the time of one draw", raw / draws, "bytes"));
        }
    }
    Ok(vec![Section { title: "Noise".into(), figures }])
}
