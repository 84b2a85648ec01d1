//! The discrete Fourier transform with an error bound, from the same source on every machine.
//!
//! Libraries choose vector instructions and trigonometric functions of the machine at hand, and then the last bits
//! of a price would depend on it. Lengths are powers of two, real and imaginary parts lie in arrays of their own.

use std::f64::consts::TAU;

/// What one of the log₂ n levels adds to the relative error in the 2-norm, at most.
///
/// A level multiplies by roots of unity, accurate to μ < 2 units u of rounding, and adds: its error is at
/// most μ + γ₄(√2 + μ) < 7.7 u. Two levels done as one multiply less.
///
/// Higham, *Accuracy and Stability of Numerical Algorithms*, 2002, Theorem 24.2.
pub(super) const ERROR_PER_LEVEL: f64 = 4.0 * f64::EPSILON;

/// exp(2πik/n) for k from 0 to n−1.
pub(super) struct Roots {
    pub cos: Vec<f64>,
    pub sin: Vec<f64>,
}

impl Roots {
    /// The roots of a power of two of at least 8.
    pub fn new(n: usize) -> Self {
        let (mut cos, mut sin) = (vec![0.0; n], vec![0.0; n]);
        let eighth = n / 8;
        for k in 0..=eighth {
            // `k / n` is exact.
            let (s, c) = libm::sincos(TAU * (k as f64 / n as f64));
            (cos[k], sin[k]) = (c, s);
            (cos[2 * eighth - k], sin[2 * eighth - k]) = (s, c);
        }
        for quarter in 1..4 {
            let from = (quarter - 1) * 2 * eighth;
            for k in from..from + 2 * eighth {
                (cos[k + 2 * eighth], sin[k + 2 * eighth]) = (-sin[k], cos[k]);
            }
        }
        Self { cos, sin }
    }

    /// Σ zⱼ exp(−2πijk/n) for every k, in place; `re` and `im` have length n.
    pub fn transform(&self, re: &mut Vec<f64>, im: &mut Vec<f64>) {
        let total = re.len();
        let (mut to_re, mut to_im) = (vec![0.0; total], vec![0.0; total]);
        let (mut length, mut stride) = (total, 1);
        // Stockham's order: every level writes what the next one reads in sequence.
        while length > 1 {
            if length == 2 {
                last_level(re, im, &mut to_re, &mut to_im);
                (length, stride) = (1, 2 * stride);
            } else {
                self.two_levels(length, stride, [re, im], [&mut to_re, &mut to_im]);
                (length, stride) = (length / 4, 4 * stride);
            }
            std::mem::swap(re, &mut to_re);
            std::mem::swap(im, &mut to_im);
        }
    }

    fn two_levels(&self, length: usize, stride: usize, from: [&[f64]; 2], to: [&mut [f64]; 2]) {
        let quarter = length / 4;
        let block = quarter * stride;
        let [re, im] = from;
        let (a_re, b_re, c_re, d_re) =
            (&re[..block], &re[block..2 * block], &re[2 * block..3 * block], &re[3 * block..]);
        let (a_im, b_im, c_im, d_im) =
            (&im[..block], &im[block..2 * block], &im[2 * block..3 * block], &im[3 * block..]);
        let [to_re, to_im] = to;
        for p in 0..quarter {
            let root = |times: usize| (self.cos[times * p * stride], -self.sin[times * p * stride]);
            let (w1, w2, w3) = (root(1), root(2), root(3));
            let at = p * stride..(p + 1) * stride;
            let (a_re, b_re, c_re, d_re) = (&a_re[at.clone()], &b_re[at.clone()], &c_re[at.clone()], &d_re[at.clone()]);
            let (a_im, b_im, c_im, d_im) = (&a_im[at.clone()], &b_im[at.clone()], &c_im[at.clone()], &d_im[at]);
            let out = 4 * p * stride..4 * (p + 1) * stride;
            let (out_re, out_im) = (&mut to_re[out.clone()], &mut to_im[out]);
            let (r0, rest) = out_re.split_at_mut(stride);
            let (r1, rest) = rest.split_at_mut(stride);
            let (r2, r3) = rest.split_at_mut(stride);
            let (i0, rest) = out_im.split_at_mut(stride);
            let (i1, rest) = rest.split_at_mut(stride);
            let (i2, i3) = rest.split_at_mut(stride);
            for q in 0..stride {
                let (sum_re, sum_im) = (a_re[q] + c_re[q], a_im[q] + c_im[q]);
                let (gap_re, gap_im) = (a_re[q] - c_re[q], a_im[q] - c_im[q]);
                let (other_re, other_im) = (b_re[q] + d_re[q], b_im[q] + d_im[q]);
                // −i times the difference of the second pair.
                let (turned_re, turned_im) = (b_im[q] - d_im[q], d_re[q] - b_re[q]);
                (r0[q], i0[q]) = (sum_re + other_re, sum_im + other_im);
                (r1[q], i1[q]) = times(w1, (gap_re + turned_re, gap_im + turned_im));
                (r2[q], i2[q]) = times(w2, (sum_re - other_re, sum_im - other_im));
                (r3[q], i3[q]) = times(w3, (gap_re - turned_re, gap_im - turned_im));
            }
        }
    }
}

fn last_level(re: &[f64], im: &[f64], to_re: &mut [f64], to_im: &mut [f64]) {
    let half = re.len() / 2;
    for q in 0..half {
        (to_re[q], to_im[q]) = (re[q] + re[q + half], im[q] + im[q + half]);
        (to_re[q + half], to_im[q + half]) = (re[q] - re[q + half], im[q] - im[q + half]);
    }
}

/// The product of two complex numbers.
#[inline]
pub(super) fn times(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transform_is_the_sum_that_defines_it() {
        for n in [8, 16, 32, 64, 1024] {
            let roots = Roots::new(n);
            let original: Vec<(f64, f64)> = (0..n).map(|j| (1.0 / (1 + j) as f64, libm::sin(j as f64))).collect();
            let (mut re, mut im): (Vec<_>, Vec<_>) = original.iter().copied().unzip();
            roots.transform(&mut re, &mut im);
            for k in 0..n {
                let exact = original.iter().enumerate().fold((0.0, 0.0), |sum, (j, &z)| {
                    let at = j * k % n;
                    let term = times((roots.cos[at], -roots.sin[at]), z);
                    (sum.0 + term.0, sum.1 + term.1)
                });
                assert!((re[k] - exact.0).abs() + (im[k] - exact.1).abs() < 1e-12 * n as f64, "{n} {k}");
            }
        }
    }

    #[test]
    fn every_root_is_where_it_belongs() {
        let roots = Roots::new(1 << 12);
        for k in 0..1 << 12 {
            let (s, c) = libm::sincos(TAU * k as f64 / 4096.0);
            assert!((roots.cos[k] - c).abs() + (roots.sin[k] - s).abs() < 1e-15 * 4.0, "{k}");
        }
    }
}
