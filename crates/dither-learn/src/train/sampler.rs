//! Who takes part in a step: every unit by a coin of its own.

use dither_core::Ratio;
use dither_noise::{BitSource, JobKey, NoiseError, Purpose, uniform_below};

use crate::train::mutant::{Mutant, is};

/// How many coins are drawn at a time.
const COINS: usize = 512;

/// Draws the sample of every step, and deals it into parts, none of which is larger than a sum of floats may be.
///
/// # Privacy
/// Every unit enters the sample of a step with a probability of ⌊rate·2⁶⁴⌋/2⁶⁴ ≤ rate, independently of all others and of
/// all other steps, and is dealt to one of the parts with equal probability, independently as well. So the sample of
/// the other units has the same law with and without one of them: what Poisson sampling needs. The coins of a step are
/// a stream of the key of the job: a step that is executed again has the sample that it had.
///
/// A part that is too large, because a table has more units than its plan expects, is halved by further fair coins of
/// its units until none is. That is as if each unit had a row of coins from the beginning, of which only as many are
/// looked at as are needed. Given the coins of all others, one unit more either joins a part, or makes one too large
/// that was full. That one becomes two, since the other half is empty until two of its units fall apart. All other
/// parts stay as they are.
///
/// # References
/// Zhu, Dong and Wang, *Optimal Accounting of Differential Privacy via Characteristic Function*, 2022, Theorem 11. Chua
/// et al., *How Private are DP-SGD Implementations?*, 2024: what goes wrong where batches are shuffled instead.
pub struct Sampler {
    key: JobKey,
    /// A coin below this enters; 2^64 is always.
    threshold: u128,
    parts: u32,
    /// How many units a part has at most.
    most: usize,
}

impl Sampler {
    /// A sampler of this rate, at most one, and so many parts, at least one, of at most so many units, at least one.
    pub fn new(key: JobKey, rate: Ratio, parts: u32, most: usize) -> Self {
        // A numerator of more than 64 bits would be a rate above one, but for denominators of as many.
        let shift = rate.denominator().max(rate.numerator()).ilog2().saturating_sub(62);
        let (numerator, denominator) =
            (rate.numerator() >> shift, (rate.denominator() >> shift) + u128::from(shift > 0));
        let threshold = ((numerator << 64) / denominator).min(1 << 64);
        Self { key, threshold, parts: parts.max(1), most: most.max(1) }
    }

    /// The sample of a step out of so many units: the numbers of its units in rising order, part by part. Where
    /// parts are halved there are more of them.
    ///
    /// # Errors
    /// What the source reports.
    pub fn sample(&self, step: u64, units: usize) -> Result<Vec<Vec<u32>>, NoiseError> {
        let step = if is(Mutant::CoinsReused) { step / 2 } else { step };
        let mut parts = vec![Vec::new(); self.parts as usize];
        let (mut coins, mut deal) =
            (self.key.stream(Purpose::Sample, step, 0), self.key.stream(Purpose::Deal, step, 0));
        let mut bytes = [0; 8 * COINS];
        for start in (0..units).step_by(COINS) {
            let here = COINS.min(units - start);
            coins.fill(&mut bytes[..8 * here])?;
            for (unit, coin) in (start..).zip(bytes[..8 * here].as_chunks::<8>().0) {
                if u128::from(u64::from_le_bytes(*coin)) < self.threshold {
                    let part = uniform_below(&mut deal, u128::from(self.parts))?;
                    // A table has fewer than 2^32 units, and there are fewer parts.
                    parts[part as usize].push(unit as u32);
                }
            }
        }
        self.halve(&mut parts, &mut deal)?;
        Ok(parts)
    }

    /// Halves parts that are too large until none is: by a coin each of their units stays or goes to a new part.
    fn halve(&self, parts: &mut Vec<Vec<u32>>, coins: &mut impl BitSource) -> Result<(), NoiseError> {
        let mut index = 0;
        while index < parts.len() {
            if parts[index].len() <= self.most {
                index += 1;
                continue;
            }
            let new = parts.len();
            parts.push(Vec::new());
            for unit in std::mem::take(&mut parts[index]) {
                let half = if uniform_below(coins, 2)? == 0 { index } else { new };
                parts[half].push(unit);
            }
        }
        Ok(())
    }
}
