//! How much of every sample counts.

use super::error::NetworkError;
use super::mutant::{Mutant, is};
use super::parameters::Slot;
use crate::model::Clipping;

/// Covers the rounding of the factor, of its products, and of norms (those of samples are computed in 64 bits).
const GUARD: f64 = 1.0 - 1e-6;
/// Added to the norm by automatic clipping.
///
/// # References
/// Bu et al., *Automatic Clipping: Differentially Private Deep Learning Made Easier and Stronger* (2023), with the γ that
/// they use throughout.
const STABILITY: f64 = 0.01;
/// Bounds in which nothing underflows.
const BOUNDS: std::ops::RangeInclusive<f64> = 1e-9..=1e9;

/// A factor for every layer and sample.
#[derive(Debug)]
pub struct Factors {
    /// One list for all layers, or one for each.
    lists: Vec<Vec<f32>>,
    dropped: Vec<bool>,
    /// Norms of the whole gradients.
    pub norms: Vec<f64>,
}

impl Factors {
    /// From squared norms by layer and sample.
    pub fn new(squares: &[Vec<f64>], samples: usize, clipping: &Clipping) -> Result<Self, NetworkError> {
        check(clipping, squares.len())?;
        let counted = squares.len() - usize::from(is(Mutant::LayerMissing));
        let total = |sample: usize| squares[..counted].iter().map(|layer| layer[sample]).sum::<f64>().sqrt();
        let mut norms: Vec<f64> = (0..samples).map(total).collect();
        if is(Mutant::BatchClipped) {
            let largest = norms.iter().sum::<f64>() / samples as f64;
            norms.fill(largest);
        }
        let mut lists: Vec<Vec<f32>> = match clipping {
            Clipping::Flat { bound } => vec![norms.iter().map(|&norm| flat(*bound, norm)).collect()],
            Clipping::Automatic { bound } => vec![norms.iter().map(|&norm| automatic(*bound, norm)).collect()],
            Clipping::PerLayer { bounds } => {
                let layers = bounds.iter().zip(squares);
                layers
                    .map(|(bound, squares)| squares.iter().map(|&square| flat(*bound, square.sqrt())).collect())
                    .collect()
            }
        };
        // In no layer, if in one it is not finite.
        let dropped: Vec<bool> = norms.iter().map(|norm| !norm.is_finite()).collect();
        for list in &mut lists {
            for (factor, _) in list.iter_mut().zip(&dropped).filter(|(_, dropped)| **dropped) {
                *factor = 0.0;
            }
        }
        Ok(Self { lists, dropped, norms })
    }

    pub fn get(&self, slot: Slot, sample: usize) -> f32 {
        let list = if self.lists.len() == 1 { 0 } else { slot.layer.unwrap_or(0) };
        self.lists[list][sample]
    }

    /// Whether a sample counts nothing since its gradient is not finite.
    pub fn is_dropped(&self, sample: usize) -> bool {
        self.dropped[sample]
    }

    /// How many samples are dropped.
    pub fn dropped(&self) -> usize {
        self.dropped.iter().filter(|dropped| **dropped).count()
    }
}

/// Whether a clipping makes sense for so many layers.
pub fn check(clipping: &Clipping, layers: usize) -> Result<(), NetworkError> {
    let bounds = match clipping {
        Clipping::Flat { bound } | Clipping::Automatic { bound } => std::slice::from_ref(bound),
        Clipping::PerLayer { bounds } if bounds.len() == layers => bounds,
        Clipping::PerLayer { bounds } => {
            return Err(NetworkError::Clipping(format!("{} bounds for {layers} layers: give one each", bounds.len())));
        }
    };
    match bounds.iter().find(|bound| !BOUNDS.contains(bound)) {
        Some(bound) => Err(NetworkError::Clipping(format!("the bound {bound} is not between 1e-9 and 1e9"))),
        None => Ok(()),
    }
}

fn flat(bound: f64, norm: f64) -> f32 {
    rounded((bound / norm).min(1.0) * GUARD)
}

fn automatic(bound: f64, norm: f64) -> f32 {
    rounded(bound / (norm + STABILITY) * GUARD)
}

/// Factors that 32 bits cannot hold well are 0: the gradient is then beyond 1e20 times any bound.
fn rounded(factor: f64) -> f32 {
    if factor >= 1e-30 { factor as f32 } else { 0.0 }
}
