//! Choices with probabilities that are proportional to exponentials.
//!
//! A weight e^-x is never computed. It has a rational envelope, (53/144)^⌊x⌋ ≥ e^-x up to a level, from which
//! integers draw a proposal, and coins of probability 144/(53e) and e^-(x − ⌊x⌋) accept it.

use std::ops::Range;

use dashu_int::UBig;
use dither_core::Ratio;

use crate::MAX_TRIES;
use crate::bernoulli::{bernoulli_exp, bernoulli_exp_big, geometric};
use crate::error::NoiseError;
use crate::source::BitSource;
use crate::uniform::{uniform_below, uniform_below_big};

/// The envelope of e^-1: 1/2 − 1/6 + 1/24 − 1/120 + 1/720 = 53/144 = 0.36806, too large by a factor below 1.0005.
const ENVELOPE: (u8, u8) = (53, 144);

/// The level beyond which the envelope stays what it is, (53/144)^128 < 2^-184: less than any 2^128 candidates need.
const LAST_LEVEL: u8 = 128;

/// One of the candidates with P(i) = exp(`rate` · uᵢ) / Σⱼ exp(`rate` · uⱼ), exactly; its index.
///
/// `utilities` are integers in lattice steps, `rate` is per step. Takes two passes over the candidates and about
/// three more over one byte each, whatever the utilities are: no weight overflows or underflows.
///
/// *Law.* Let xᵢ = rate · (max u − uᵢ) and ℓᵢ = min(⌊xᵢ⌋, 128). A round proposes i with probability
/// (53/144)^ℓᵢ / T, where T is the sum over all candidates, by a uniform integer below 144^128 · T. It accepts with
/// probability (144/53e)^ℓᵢ · e^-(xᵢ − ℓᵢ), by ℓᵢ + 1 independent coins. A round thus ends in i with probability
/// e^-xᵢ / T, and the first round that ends, ends in i with a probability proportional to e^-xᵢ. ∎
///
/// *Rounds.* Σ e^-xᵢ is at least 1 and at least Σ e^-1 · e^-ℓᵢ over ℓᵢ < 128, so
/// T ≤ 1.0005^127 · e · Σ e^-xᵢ + 2^32 · 2^-184 · Σ e^-xᵢ: a round ends with probability above 0.34.
///
/// # Errors
/// [`NoiseError::OutOfRange`] without a candidate, with more than 2^32 of them, and for a rate with a denominator
/// of 2^120 or more; and what the source reports.
///
/// ```
/// use dither_core::Ratio;
/// use dither_noise::{NoiseSource, exponential_choice};
/// let mut source = NoiseSource::from_os()?;
/// let rate = Ratio::new(1, 2).unwrap();
/// // The others are less likely by factors of e^-250 and less.
/// assert_eq!(exponential_choice(&mut source, &[i128::MIN, 500, 0, i128::MIN], rate)?, 1);
/// # Ok::<(), dither_noise::NoiseError>(())
/// ```
///
/// # References
/// McSherry and Talwar, *Mechanism Design via Differential Privacy*, 2007 (the distribution). Von Neumann, *Various
/// techniques used in connection with random digits*, 1951 (coins for exponentials without an exponential).
pub fn exponential_choice<S: BitSource + ?Sized>(
    source: &mut S,
    utilities: &[i128],
    rate: Ratio,
) -> Result<usize, NoiseError> {
    end_if_stuck(source)?;
    let best = largest(utilities)?;
    let far = rate.denominator().checked_mul(LAST_LEVEL.into()).ok_or(NoiseError::OutOfRange)?;
    let far = far.div_ceil(rate.numerator());
    // Below `far`, rate · distance is below 128, so the product is below 128 denominators and fits.
    let level = |distance: u128| match distance < far {
        true => (distance * rate.numerator() / rate.denominator()) as u8,
        false => LAST_LEVEL,
    };
    let levels: Vec<u8> = utilities.iter().map(|&utility| level(best.abs_diff(utility))).collect();
    let mut counts = [0u32; LAST_LEVEL as usize + 1];
    for &level in &levels {
        let count = &mut counts[usize::from(level)];
        *count = count.checked_add(1).ok_or(NoiseError::OutOfRange)?;
    }
    let classes = classes(&counts);
    let total: UBig = classes.iter().map(|class| &class.weight * UBig::from(class.count)).sum();
    for _ in 0..MAX_TRIES {
        let (level, place) = place(uniform_below_big(source, &total)?, &classes)?;
        let proposed = levels.iter().enumerate().filter(|&(_, &each)| each == level).nth(place);
        let index = proposed.ok_or(NoiseError::OutOfRange)?.0;
        if accept(source, level, best.abs_diff(utilities[index]), rate)? {
            return Ok(index);
        }
    }
    Err(NoiseError::Exhausted)
}

/// One of the positions with P(p) proportional to exp(−`rate` · d(p)), exactly, where d(p) counts how many steps p is
/// worse than the best. Positions are not listed, so there may be 2^60 of them.
///
/// `within` tells for a number of steps the range of the positions that are worse by at most that; a larger number has a
/// range that contains those of all smaller ones. `distance` is d. Each is asked some hundred times.
///
/// *Law.* As for [`exponential_choice`], whose levels are here the differences of two such ranges: the positions with
/// ⌊rate · d⌋ = ℓ are those within ⌈(ℓ + 1)/rate⌉ − 1 steps and not within ⌈ℓ/rate⌉ − 1.
///
/// # Errors
/// [`NoiseError::OutOfRange`] for no positions, for ranges that do not contain one another or disagree with `distance`,
/// and for a rate with a denominator of 2^120 or more; and what the source reports.
///
/// ```
/// use dither_core::Ratio;
/// use dither_noise::{NoiseSource, exponential_choice_by_distance};
/// let mut source = NoiseSource::from_os()?;
/// // A million positions, of which those around 700,000 are best.
/// let best = 700_000u64;
/// let within = |steps: u128| {
///     let steps = u64::try_from(steps).unwrap_or(u64::MAX);
///     best.saturating_sub(steps)..best.saturating_add(steps).saturating_add(1).min(1_000_000)
/// };
/// let distance = |position: u64| u128::from(position.abs_diff(best));
/// let chosen = exponential_choice_by_distance(
///     &mut source, 0..1_000_000, Ratio::new(1, 10).unwrap(), within, distance)?;
/// assert!(chosen.abs_diff(best) < 1_000);
/// # Ok::<(), dither_noise::NoiseError>(())
/// ```
pub fn exponential_choice_by_distance<S: BitSource + ?Sized>(
    source: &mut S,
    positions: Range<u64>,
    rate: Ratio,
    within: impl Fn(u128) -> Range<u64>,
    distance: impl Fn(u64) -> u128,
) -> Result<u64, NoiseError> {
    end_if_stuck(source)?;
    let rings = rings(&positions, rate, within)?;
    let unit = rings.last().map_or(0, |ring| ring.level);
    let mass = |ring: &Ring| weight(ring.level, unit) * UBig::from(ring.len());
    let total: UBig = rings.iter().map(mass).sum();
    for _ in 0..MAX_TRIES {
        let mut number = uniform_below_big(source, &total)?;
        for ring in &rings {
            let mass = mass(ring);
            if number >= mass {
                number -= mass;
                continue;
            }
            let place = u64::try_from(number / weight(ring.level, unit)).map_err(|_| NoiseError::OutOfRange)?;
            let (position, steps) = (ring.at(place), distance(ring.at(place)));
            if level(steps, rate)? != ring.level {
                return Err(NoiseError::OutOfRange);
            }
            if accept(source, ring.level, steps, rate)? {
                return Ok(position);
            }
            break;
        }
    }
    Err(NoiseError::Exhausted)
}

/// The positions of one level: what is left of the better ones, and what is right of them.
struct Ring {
    level: u8,
    left: Range<u64>,
    right: Range<u64>,
}

impl Ring {
    fn len(&self) -> u64 {
        (self.left.end - self.left.start) + (self.right.end - self.right.start)
    }

    fn at(&self, place: u64) -> u64 {
        let left = self.left.end - self.left.start;
        if place < left { self.left.start + place } else { self.right.start + (place - left) }
    }
}

/// The levels that have positions.
fn rings(all: &Range<u64>, rate: Ratio, within: impl Fn(u128) -> Range<u64>) -> Result<Vec<Ring>, NoiseError> {
    if all.is_empty() {
        return Err(NoiseError::OutOfRange);
    }
    let mut rings: Vec<Ring> = Vec::new();
    let mut inner: Option<Range<u64>> = None;
    for level in 0..=LAST_LEVEL {
        let outer = match level {
            LAST_LEVEL => all.clone(),
            level => {
                let beyond = rate.denominator().checked_mul(u128::from(level) + 1).ok_or(NoiseError::OutOfRange)?;
                within(beyond.div_ceil(rate.numerator()) - 1)
            }
        };
        let (left, right) = match &inner {
            _ if outer.is_empty() && inner.is_none() => continue,
            None => (outer.start..outer.end, outer.end..outer.end),
            Some(inner) => (outer.start..inner.start, inner.end..outer.end),
        };
        if left.start > left.end || right.start > right.end || outer.start < all.start || outer.end > all.end {
            return Err(NoiseError::OutOfRange);
        }
        let ring = Ring { level, left, right };
        if ring.len() > 0 {
            rings.push(ring);
        }
        if outer == *all {
            break;
        }
        inner = Some(outer);
    }
    Ok(rings)
}

/// min(⌊rate · distance⌋, 128).
fn level(distance: u128, rate: Ratio) -> Result<u8, NoiseError> {
    let far = rate.denominator().checked_mul(LAST_LEVEL.into()).ok_or(NoiseError::OutOfRange)?;
    // Below, rate · distance is below 128, so the product is below 128 denominators and fits.
    Ok(match distance < far.div_ceil(rate.numerator()) {
        true => (distance * rate.numerator() / rate.denominator()) as u8,
        false => LAST_LEVEL,
    })
}

/// One of the candidates by permute-and-flip; its index.
///
/// Candidates are visited in uniformly random order, and each is taken with probability
/// exp(−`rate` · (max u − uᵢ)), exactly; a best one always is. Every visit is expected to take a handful of
/// coins, and there is at most one visit per candidate.
///
/// # Errors
/// [`NoiseError::OutOfRange`] without a candidate and with more than 2^32 of them, and what the source reports.
///
/// ```
/// use dither_core::Ratio;
/// use dither_noise::{NoiseSource, permute_and_flip};
/// let mut source = NoiseSource::from_os()?;
/// assert_eq!(permute_and_flip(&mut source, &[-1_000, 0, i128::MIN], Ratio::new(1, 1).unwrap())?, 1);
/// # Ok::<(), dither_noise::NoiseError>(())
/// ```
///
/// # References
/// McKenna and Sheldon, *Permute-and-Flip: A New Mechanism for Differentially Private Selection*, 2020, Algorithm 1.
pub fn permute_and_flip<S: BitSource + ?Sized>(
    source: &mut S,
    utilities: &[i128],
    rate: Ratio,
) -> Result<usize, NoiseError> {
    end_if_stuck(source)?;
    let best = largest(utilities)?;
    let count = u32::try_from(utilities.len()).map_err(|_| NoiseError::OutOfRange)?;
    // The order is drawn as far as it is needed: what was visited is swapped to the end.
    let mut order: Vec<u32> = (0..count).collect();
    while let Some(last) = order.len().checked_sub(1) {
        // An index below the length, which is a usize.
        let visited = order.swap_remove(uniform_below(source, last as u128 + 1)? as usize) as usize;
        if accept(source, 0, best.abs_diff(utilities[visited]), rate)? {
            return Ok(visited);
        }
    }
    // A best candidate is always taken.
    Err(NoiseError::Exhausted)
}

/// True with probability `heads` / (`heads` + `tails` · exp(−`exponent`)), exactly.
///
/// *Law.* A round comes to heads with probability `heads`/T and to tails with `tails` · exp(−`exponent`)/T, for the
/// envelope's T; it ends with probability above 0.34, as for [`exponential_choice`].
///
/// # Errors
/// [`NoiseError::OutOfRange`] if there are neither heads nor tails, and what the source reports.
///
/// ```
/// use dither_core::Ratio;
/// use dither_noise::{NoiseSource, bernoulli_odds};
/// let mut source = NoiseSource::from_os()?;
/// // Nine hundred to e^-900.
/// assert!(bernoulli_odds(&mut source, 900, 1, Ratio::new(900, 1).unwrap())?);
/// # Ok::<(), dither_noise::NoiseError>(())
/// ```
pub fn bernoulli_odds<S: BitSource + ?Sized>(
    source: &mut S,
    heads: u128,
    tails: u128,
    exponent: Ratio,
) -> Result<bool, NoiseError> {
    end_if_stuck(source)?;
    if heads == 0 || tails == 0 {
        return if heads == tails { Err(NoiseError::OutOfRange) } else { Ok(tails == 0) };
    }
    // At most 128.
    let level = (exponent.numerator() / exponent.denominator()).min(LAST_LEVEL.into()) as u8;
    let heads = weight(0, level) * UBig::from(heads);
    let total = &heads + weight(level, level) * UBig::from(tails);
    for _ in 0..MAX_TRIES {
        if uniform_below_big(source, &total)? < heads {
            return Ok(true);
        }
        if accept(source, level, 1, exponent)? {
            return Ok(false);
        }
    }
    Err(NoiseError::Exhausted)
}

/// An error for a generator that is stuck at zeros, which would always choose the most likely.
///
/// Throws a coin until it fails; with zeros it never does.
fn end_if_stuck<S: BitSource + ?Sized>(source: &mut S) -> Result<(), NoiseError> {
    geometric(source).map(|_| ())
}

fn largest(utilities: &[i128]) -> Result<i128, NoiseError> {
    utilities.iter().copied().max().ok_or(NoiseError::OutOfRange)
}

/// The candidates of one level.
struct Class {
    level: u8,
    count: u32,
    /// Of each of them.
    weight: UBig,
}

/// The levels that have candidates.
fn classes(counts: &[u32]) -> Vec<Class> {
    let used = || (0..=LAST_LEVEL).zip(counts).filter(|&(_, &count)| count > 0);
    let unit = used().map(|(level, _)| level).max().unwrap_or(0);
    used().map(|(level, &count)| Class { level, count, weight: weight(level, unit) }).collect()
}

/// (53/144)^level in units of 144^-unit, for `level` up to `unit`.
fn weight(level: u8, unit: u8) -> UBig {
    let (above, below) = (UBig::from(ENVELOPE.0), UBig::from(ENVELOPE.1));
    above.pow(level.into()) * below.pow((unit - level).into())
}

/// The level that a number below the total weight falls into, and which candidate of the level it is.
fn place(mut number: UBig, classes: &[Class]) -> Result<(u8, usize), NoiseError> {
    for Class { level, count, weight } in classes {
        let mass = weight * UBig::from(*count);
        if number < mass {
            return usize::try_from(number / weight).map(|place| (*level, place)).map_err(|_| NoiseError::OutOfRange);
        }
        number -= mass;
    }
    Err(NoiseError::OutOfRange)
}

/// True with probability (144/53)^level · exp(−rate · distance).
fn accept<S: BitSource + ?Sized>(source: &mut S, level: u8, distance: u128, rate: Ratio) -> Result<bool, NoiseError> {
    for _ in 0..level {
        if !below_envelope(source)? {
            return Ok(false);
        }
    }
    if let Some(scaled) = distance.checked_mul(rate.numerator()) {
        // The level is at most rate · distance.
        return bernoulli_exp(source, scaled - rate.denominator() * u128::from(level), rate.denominator());
    }
    let denominator = UBig::from(rate.denominator());
    let exponent = UBig::from(distance) * UBig::from(rate.numerator()) - &denominator * UBig::from(level);
    bernoulli_exp_big(source, &exponent, &denominator)
}

/// True with probability 144/(53e).
///
/// e^-1 = 53/144 − 1/7! + 1/8! − …, so the probability is 1 − 1/1855 + 1/(1855·8) − 1/(1855·8·9) + …: that of an odd
/// first failure among coins of 1/1855, 1/8, 1/9, …
fn below_envelope<S: BitSource + ?Sized>(source: &mut S) -> Result<bool, NoiseError> {
    let mut odd = true;
    for bound in std::iter::once(1855).chain(8..u128::from(MAX_TRIES)) {
        if uniform_below(source, bound)? != 0 {
            return Ok(odd);
        }
        odd = !odd;
    }
    Err(NoiseError::Exhausted)
}
