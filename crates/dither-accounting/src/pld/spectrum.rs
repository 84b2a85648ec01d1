//! Powers and products of characteristic functions, each with a bound of its error.

use std::f64::consts::TAU;

use super::fft::{ERROR_PER_LEVEL, Roots, times};
use super::pair::U;
use crate::round::{exp, ln, sqrt};

/// One step's tilted probabilities at multiples of the mesh, ascending: those of the curve above and of that below.
pub(super) struct Tilted {
    pub at: Vec<i64>,
    pub masses: [Vec<f64>; 2],
    pub count: u64,
}

/// The product of characteristic functions at one frequency, with a bound of its error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Product {
    pub value: (f64, f64),
    pub error: f64,
}

impl Product {
    const ONE: Self = Self { value: (1.0, 0.0), error: 0.0 };

    /// Times the `count`-th power of a factor that is known up to `error`.
    fn times_power(&mut self, factor: (f64, f64), error: f64, count: u64) {
        let size = modulus(factor.0, factor.1);
        // Every multiplication adds 3u at most, and squaring doubles what there was.
        let error = error + 4.0 * U * size;
        let times_f = count as f64;
        let rest = if count == 1 { 1.0 } else { exp((times_f - 1.0) * ln(size + error)) };
        let change = 1.01 * times_f * error * rest;
        let power = power(factor, count);
        let before = modulus(self.value.0, self.value.1);
        self.error = self.error * (modulus(power.0, power.1) + change) + before * change;
        self.value = times(self.value, power);
    }

    fn size(&self) -> f64 {
        modulus(self.value.0, self.value.1) + self.error
    }
}

/// The absolute value of a complex number, never less but for rounding.
#[inline]
pub(super) fn modulus(re: f64, im: f64) -> f64 {
    // What vanishes when it is squared is covered.
    sqrt(re * re + im * im) + 1e-150
}

fn power(mut base: (f64, f64), mut count: u64) -> (f64, f64) {
    let mut result = (1.0, 0.0);
    while count > 0 {
        if count & 1 == 1 {
            result = times(result, base);
        }
        base = times(base, base);
        count >>= 1;
    }
    result
}

/// The products at the frequencies where they are not negligible, of those from 0 to half the length of the circle.
#[derive(Debug)]
pub(super) struct Spectrum {
    pub frequencies: Vec<usize>,
    pub products: [Vec<Product>; 2],
    /// What the product is below at all others.
    pub negligible: f64,
}

/// Composes the steps on a circle of `length` points, a power of two. The first step should be the smoothest.
///
/// Frequencies at which the product is below `negligible` are left out. `None` if that would need a transform of more than `most` points.
pub(super) fn compose(steps: &[Tilted], length: usize, most: usize, negligible: f64) -> Option<Spectrum> {
    let mut spectrum = Spectrum { frequencies: Vec::new(), products: [Vec::new(), Vec::new()], negligible };
    let mut rest = steps;
    if let Some((first, others)) = steps.split_first()
        && spectrum.start(first, length)
    {
        rest = others;
    } else if length > most {
        return None;
    } else {
        spectrum.frequencies = (0..=length / 2).collect();
        spectrum.products = [0, 1].map(|_| vec![Product::ONE; length / 2 + 1]);
    }
    let points: usize = rest.iter().map(|step| step.at.len()).sum();
    let roots = (length <= most && spectrum.frequencies.len() * points > length).then(|| Roots::new(length));
    for step in rest {
        spectrum.multiply(step, roots.as_ref(), length);
    }
    Some(spectrum)
}

impl Spectrum {
    /// The first step, by sums at the frequencies that matter alone; false if these are too many.
    ///
    /// Summed by parts, Σ pⱼ e^(iφj) over a run of consecutive j is at most Σ |pⱼ − pⱼ₋₁| / 2 sin(φ/2): for smooth
    /// probabilities, high frequencies are negligible without a look at them. Below, the characteristic function
    /// changes by at most the mean distance from any centre per unit of φ, and what is far below the limit stays so
    /// for a while.
    fn start(&mut self, step: &Tilted, length: usize) -> bool {
        let limit = exp(ln(self.negligible) / step.count as f64) * (1.0 - 1e-9);
        let [above, below] = [0, 1].map(|side| run_bound(&step.at, &step.masses[side], limit));
        let sine = above.max(below);
        if sine.is_nan() || sine >= 1.0 {
            return false;
        }
        let cut = (2.0 * libm::asin(sine) / TAU * length as f64).ceil() as usize + 1;
        if cut > length / 2 {
            return false;
        }
        let slopes = [0, 1].map(|side| mean_distance(&step.at, &step.masses[side]));
        let per_frequency = slopes[0].max(slopes[1]) * TAU / length as f64 * (1.0 + 1e-9);
        let relative = summation_error(step, BLOCK);
        let mut budget = 16 * length / step.at.len().max(1) + 64;
        let mut k = 0;
        while k <= cut {
            budget = match budget.checked_sub(1) {
                Some(left) => left,
                None => {
                    self.clear();
                    return false;
                }
            };
            let values = at_one_frequency(step, None, length, k);
            let mut products = [Product::ONE; 2];
            for (product, value) in products.iter_mut().zip(values) {
                product.times_power(value, relative, step.count);
            }
            let size = values.iter().map(|z| modulus(z.0, z.1)).fold(0.0, f64::max) + relative;
            if size < limit {
                k += (((limit - size) / per_frequency).floor() as usize).max(1);
                continue;
            }
            self.frequencies.push(k);
            self.products[0].push(products[0]);
            self.products[1].push(products[1]);
            k += 1;
        }
        true
    }

    fn clear(&mut self) {
        self.frequencies.clear();
        self.products.iter_mut().for_each(Vec::clear);
    }

    /// One more step, by a transform while many frequencies are left, and by sums at these alone otherwise.
    fn multiply(&mut self, step: &Tilted, roots: Option<&Roots>, length: usize) {
        let direct = |frequencies: &[usize]| frequencies.len() * step.at.len() <= 8 * length;
        let mut transformed = None;
        if let Some(roots) = roots
            && !direct(&self.frequencies)
        {
            let transform = Transformed::new(step, roots);
            let limit = exp(ln(self.negligible) / step.count as f64) * (1.0 - 1e-9);
            let kept: Vec<bool> = self
                .frequencies
                .iter()
                .map(|&k| transform.at(k).iter().any(|z| modulus(z.0, z.1) + transform.error > limit))
                .collect();
            self.keep(&kept);
            transformed = Some(transform);
        }
        let exact = direct(&self.frequencies);
        let count = self.frequencies.len();
        // The frequencies ascend: these are all from zero on.
        let low = (exact && count <= 1024 && self.frequencies.last().is_some_and(|&last| last + 1 == count))
            .then(|| at_low_frequencies(step, roots, length, count));
        let relative = summation_error(step, if low.is_some() { count } else { BLOCK });
        for (i, &k) in self.frequencies.iter().enumerate() {
            let (values, error) = match (&transformed, &low) {
                (_, Some(low)) => (low[i], relative),
                (Some(transform), _) if !exact => (transform.at(k), transform.error),
                _ => (at_one_frequency(step, roots, length, k), relative),
            };
            for (products, value) in self.products.iter_mut().zip(values) {
                products[i].times_power(value, error, step.count);
            }
        }
        let kept: Vec<bool> = (0..self.frequencies.len())
            .map(|i| self.products.iter().any(|each| each[i].size() > self.negligible))
            .collect();
        self.keep(&kept);
    }

    fn keep(&mut self, kept: &[bool]) {
        retain(&mut self.frequencies, kept);
        self.products.iter_mut().for_each(|products| retain(products, kept));
    }
}

fn retain<T>(values: &mut Vec<T>, kept: &[bool]) {
    let mut flags = kept.iter();
    values.retain(|_| *flags.next().unwrap_or(&true));
}

/// A bound of sin(φ/2) from which on the characteristic function is below the limit; above one if there is none.
fn run_bound(at: &[i64], masses: &[f64], limit: f64) -> f64 {
    // The longest run of consecutive points; the rest counts in full.
    let (mut best, mut start) = (0..0, 0);
    for i in 1..=at.len() {
        if i == at.len() || at[i] != at[i - 1] + 1 {
            if i - start > best.len() {
                best = start..i;
            }
            start = i;
        }
    }
    let rest: f64 = masses[..best.start].iter().chain(&masses[best.end..]).sum();
    let run = &masses[best];
    let ends = run.first().unwrap_or(&0.0) + run.last().unwrap_or(&0.0);
    let variation = ends + run.windows(2).map(|pair| (pair[1] - pair[0]).abs()).sum::<f64>();
    if rest < limit { (1.0 + 1e-9) * variation / (2.0 * (limit - rest)) } else { 2.0 }
}

/// Σ pⱼ |j − c| for a c in the middle, rounded up.
fn mean_distance(at: &[i64], masses: &[f64]) -> f64 {
    let total: f64 = masses.iter().sum();
    let centre = at.iter().zip(masses).map(|(&j, p)| j as f64 * p).sum::<f64>() / total.max(1e-300);
    at.iter().zip(masses).map(|(&j, p)| (j as f64 - centre).abs() * p).sum::<f64>() * (1.0 + 1e-9)
}

/// Points are summed in blocks of so many, which keeps rounding small.
const BLOCK: usize = 32;

/// The error of the sums below: that of the sums over blocks and in them, and of so many powers of a root.
fn summation_error(step: &Tilted, powers: usize) -> f64 {
    let total = step.masses.iter().map(|masses| masses.iter().sum::<f64>()).fold(0.0, f64::max);
    let mut blocks = 1 + step.at.len() / BLOCK;
    blocks += step.at.windows(3).filter(|at| at[1] - at[0] != at[2] - at[1]).count();
    2.0 * (4.0 * powers as f64 + BLOCK as f64 + blocks as f64 + 16.0) * U * total
}

/// e^(−2πijk/n), from a table if there is one.
fn root(roots: Option<&Roots>, length: usize, j: i64, k: usize) -> (f64, f64) {
    let turn = (j.rem_euclid(length as i64) as usize).wrapping_mul(k) & (length - 1);
    match roots {
        Some(roots) => (roots.cos[turn], -roots.sin[turn]),
        None => {
            let (sin, cos) = libm::sincos(TAU * (turn as f64 / length as f64));
            (cos, -sin)
        }
    }
}

/// [`at_one_frequency`] for all k below `count`, by powers of one root for each point.
fn at_low_frequencies(step: &Tilted, roots: Option<&Roots>, length: usize, count: usize) -> Vec<[(f64, f64); 2]> {
    let mut totals = vec![[(0.0, 0.0); 2]; count];
    for start in (0..step.at.len()).step_by(BLOCK) {
        let end = (start + BLOCK).min(step.at.len());
        let (mut once, mut z) = ([[0.0; BLOCK]; 2], [[1.0; BLOCK], [0.0; BLOCK]]);
        let mut masses = [[0.0; BLOCK]; 2];
        for (i, &j) in step.at[start..end].iter().enumerate() {
            (once[0][i], once[1][i]) = root(roots, length, j, 1);
            (masses[0][i], masses[1][i]) = (step.masses[0][start + i], step.masses[1][start + i]);
        }
        for total in &mut totals {
            let mut block = [(0.0, 0.0); 2];
            for i in 0..BLOCK {
                let (re, im) = (z[0][i], z[1][i]);
                for side in 0..2 {
                    block[side].0 += masses[side][i] * re;
                    block[side].1 += masses[side][i] * im;
                }
                (z[0][i], z[1][i]) = times((re, im), (once[0][i], once[1][i]));
            }
            for (total, block) in total.iter_mut().zip(block) {
                total.0 += block.0;
                total.1 += block.1;
            }
        }
    }
    totals
}

/// Σ pⱼ e^(−2πijk/n), for both curves.
fn at_one_frequency(step: &Tilted, roots: Option<&Roots>, length: usize, k: usize) -> [(f64, f64); 2] {
    let root = |j: i64| root(roots, length, j, k);
    let mut totals = [(0.0, 0.0); 2];
    let mut start = 0;
    while start < step.at.len() {
        // A block of equidistant points.
        let stride = step.at.get(start + 1).map_or(1, |next| next - step.at[start]);
        let most = (start + BLOCK).min(step.at.len());
        let end = (start + 1..most).find(|&i| step.at[i] - step.at[i - 1] != stride).unwrap_or(most);
        let (mut z, once) = (root(step.at[start]), root(stride));
        let mut block = [(0.0, 0.0); 2];
        for (above, below) in step.masses[0][start..end].iter().zip(&step.masses[1][start..end]) {
            block[0].0 += above * z.0;
            block[0].1 += above * z.1;
            block[1].0 += below * z.0;
            block[1].1 += below * z.1;
            z = times(z, once);
        }
        for (total, block) in totals.iter_mut().zip(block) {
            total.0 += block.0;
            total.1 += block.1;
        }
        start = end;
    }
    totals
}

/// The two characteristic functions of one step, packed into the real and the imaginary part of one transform.
struct Transformed {
    re: Vec<f64>,
    im: Vec<f64>,
    /// The error at any frequency, bounded by the 2-norm over all.
    error: f64,
}

impl Transformed {
    fn new(step: &Tilted, roots: &Roots) -> Self {
        let length = roots.cos.len();
        let (mut re, mut im) = (vec![0.0; length], vec![0.0; length]);
        for ((&at, above), below) in step.at.iter().zip(&step.masses[0]).zip(&step.masses[1]) {
            let at = at.rem_euclid(length as i64) as usize;
            re[at] += above;
            im[at] += below;
        }
        let norm = sqrt(re.iter().chain(&im).map(|x| x * x).sum::<f64>());
        roots.transform(&mut re, &mut im);
        let levels = f64::from(length.trailing_zeros()) + 1.0;
        Self { re, im, error: 1.01 * ERROR_PER_LEVEL * levels * norm * sqrt(length as f64) }
    }

    fn at(&self, k: usize) -> [(f64, f64); 2] {
        let mirror = (self.re.len() - k) % self.re.len();
        let (a, b) = ((self.re[k], self.im[k]), (self.re[mirror], self.im[mirror]));
        [((a.0 + b.0) / 2.0, (a.1 - b.1) / 2.0), ((a.1 + b.1) / 2.0, (b.0 - a.0) / 2.0)]
    }
}
