//! Exact cumulative distributions of the discrete noises, to compare samples with.

/// P(X ≤ `x`) for P(x) ∝ exp(−|x|/scale).
pub fn laplace_cdf(x: i128, scale: f64) -> f64 {
    let q = (-1.0 / scale).exp();
    if x >= 0 { 1.0 - tail(q, scale, x as f64 + 1.0) } else { tail(q, scale, -(x as f64)) }
}

/// q^k / (1 + q).
fn tail(q: f64, scale: f64, k: f64) -> f64 {
    (-k / scale).exp() / (1.0 + q)
}

/// P(X ≤ x) for P(x) ∝ exp(−x²/2σ²), as a function of x.
///
/// Up to σ = 64 from the sum of the masses. Beyond, as Φ((x + ½)/σ): the midpoint rule errs by less than
/// σ⁻²/24 · max|φ′| < 3·10⁻⁶, far inside the band of a million draws, and the normaliser by less than 10⁻³⁰⁰.
pub fn gaussian_cdf(variance: f64) -> impl Fn(i128) -> f64 {
    let sigma = variance.sqrt();
    let reach = if sigma <= 64.0 { (40.0 * sigma).ceil() as i128 + 2 } else { 0 };
    let masses: Vec<f64> = (-reach..=reach).map(|x| (-((x * x) as f64) / (2.0 * variance)).exp()).collect();
    let total: f64 = masses.iter().sum();
    let sums: Vec<f64> = masses
        .iter()
        .scan(0.0, |sum, mass| {
            *sum += mass / total;
            Some(*sum)
        })
        .collect();
    move |x| match reach {
        0 => 0.5 * libm::erfc(-(x as f64 + 0.5) / (sigma * std::f64::consts::SQRT_2)),
        _ => sums[(x.clamp(-reach, reach) + reach) as usize],
    }
}
