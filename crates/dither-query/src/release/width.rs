//! How far noisy integers, and weighted sums of them, stay from the exact ones.

use dither_mechanisms::Noise;

/// How far a weighted sum of independent noisy integers stays from the exact one with the given probability, in
/// steps. At most three weights.
///
/// ```
/// # use dither_core::{L1Sensitivity, Ratio};
/// # use dither_mechanisms::{Laplace, Noise};
/// let noise = Noise::Laplace(Laplace::new(L1Sensitivity::new(1), Ratio::new(100, 1).unwrap())?);
/// let one = dither_query::release::half_width(&noise, &[1.0], 0.95);
/// let both = dither_query::release::half_width(&noise, &[0.5, 0.5], 0.95);
/// assert!(one == 300.0 && both < one, "{one} {both}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn half_width(noise: &Noise, weights: &[f64], confidence: f64) -> f64 {
    let weights: Vec<f64> = weights.iter().map(|weight| weight.abs()).filter(|weight| *weight > 0.0).collect();
    match (noise, weights.as_slice()) {
        (_, []) => 0.0,
        (_, [weight]) => weight * noise.error_quantile(confidence).unwrap_or(f64::INFINITY),
        (Noise::Gaussian(_), many) => {
            let norm = many.iter().map(|weight| weight * weight).sum::<f64>().sqrt();
            norm * noise.error_quantile(confidence).unwrap_or(f64::INFINITY)
        }
        (Noise::Laplace(laplace), many) => {
            // A discrete Laplace variable is a continuous one rounded towards zero, which moves each by under a step.
            let steps: f64 = many.iter().sum();
            let scale = laplace.scale().as_f64();
            let outside = 1.0 - confidence;
            let half = match many {
                [a, b] => laplace_pair_quantile(a.max(*b), a.min(*b), outside),
                all => {
                    let most = all.iter().copied().fold(0.0, f64::max);
                    // All of them as large as the largest, or the smaller ones in one: of symmetric, log-concave variables that
                    // only spreads the sum (Proschan 1965).
                    let (one, others) = (most.max(steps - most), most.min(steps - most));
                    (most * laplace_triple_quantile(outside)).min(laplace_pair_quantile(one, others, outside))
                }
            };
            scale * half + steps
        }
    }
}

/// The t with P(|a·X + b·Y| > t) = `outside` for independent Laplace variables of scale 1 and a ≥ b > 0.
///
/// The tail is (a²·e^(−t/a) − b²·e^(−t/b)) / (a² − b²), and (1 + t/2a)·e^(−t/a) for a = b.
fn laplace_pair_quantile(a: f64, b: f64, outside: f64) -> f64 {
    quantile(outside, |t| {
        if a - b < 1e-6 * a {
            (1.0 + t / (2.0 * a)) * (-t / a).exp()
        } else {
            (a * a * (-t / a).exp() - b * b * (-t / b).exp()) / (a * a - b * b)
        }
    })
}

/// The t with P(|X + Y + Z| > t) = `outside` for independent Laplace variables of scale 1.
///
/// The density of the sum is (3 + 3|x| + x²)·e^(−|x|)/16, its tail (8 + 5t + t²)·e^−t/8.
fn laplace_triple_quantile(outside: f64) -> f64 {
    quantile(outside, |t| (8.0 + 5.0 * t + t * t) / 8.0 * (-t).exp())
}

/// Where a falling tail reaches a probability, from above.
fn quantile(outside: f64, tail: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while tail(high) > outside {
        high *= 2.0;
    }
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if tail(middle) > outside {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use dither_core::{L1Sensitivity, Ratio};
    use dither_mechanisms::Laplace;
    use dither_noise::{NoiseSource, discrete_laplace};

    use super::*;

    /// With 5 % of misses, more than 1,180 in 20,000 have probability below 1e-8 (5.8 standard deviations).
    #[test]
    fn fp_14_the_width_of_three_numbers_covers_and_is_not_too_wide() {
        let noise = Laplace::new(L1Sensitivity::new(1), Ratio::new(400, 1).unwrap()).unwrap();
        let half = half_width(&Noise::Laplace(noise), &[0.01; 3], 0.95);
        let mut source = NoiseSource::from_os().unwrap();
        let mut sum =
            || (0..3).map(|_| discrete_laplace(&mut source, noise.scale()).unwrap() as f64 / 100.0).sum::<f64>();
        let misses = (0..20_000).filter(|_| sum().abs() > half).count();
        assert!((800..1_180).contains(&misses), "{misses}");
        // The control: the width of two numbers.
        let two = half_width(&Noise::Laplace(noise), &[0.01; 2], 0.95);
        assert!((0..20_000).filter(|_| sum().abs() > two).count() > 1_180);
    }

    #[test]
    fn the_tail_of_two_laplace_variables_is_that_of_their_density() {
        // One numerical convolution as a reference: P(|aX + bY| > t) by the midpoint rule.
        for (a, b, t) in [(1.0, 0.5, 2.0), (0.74, 0.26, 1.5), (1.0, 1.0, 3.0)] {
            let (mut tail, step) = (0.0, 1e-3);
            let mut y = -40.0 + step / 2.0;
            while y < 40.0 {
                let density = 0.5 * f64::exp(-f64::abs(y));
                let beyond = |limit: f64| {
                    if limit >= 0.0 { 0.5 * (-limit / a).exp() } else { 1.0 - 0.5 * (limit / a).exp() }
                };
                tail += step * density * (beyond(t - b * y) + beyond(t + b * y));
                y += step;
            }
            assert!((laplace_pair_quantile(a, b, tail) - t).abs() < 1e-4, "{a} {b} {t}");
        }
    }
}
