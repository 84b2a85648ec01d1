//! Samplers as textbooks give them, in floating point: the seeded bugs of this project.

use crate::SeededBytes;

/// Laplace noise by inversion, −scale · sgn(u) · ln(1 − 2|u|): its low bits betray what it was added to.
///
/// # References
/// Mironov, *On significance of the least significant bits for differential privacy*, 2012, section 4.
pub fn laplace(stream: &mut SeededBytes, scale: f64) -> f64 {
    let u = stream.unit() - 0.5;
    -scale * u.signum() * (1.0 - 2.0 * u.abs()).ln()
}

/// Gaussian noise by Box and Muller.
pub fn gaussian(stream: &mut SeededBytes, sigma: f64) -> f64 {
    let (radius, angle) = (1.0 - stream.unit(), std::f64::consts::TAU * stream.unit());
    sigma * (-2.0 * radius.ln()).sqrt() * angle.cos()
}
