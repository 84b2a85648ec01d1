//! Noise that no single party adds: each client's share of it, on a lattice modulo 2^32.

use std::f64::consts::PI;

use dither_accounting::Event;
use dither_core::{Lattice, Ratio};
use dither_noise::{BitSource, NoiseError, NoiseSource, NoiseTable};
use libm::{exp, floor, log as ln, sqrt};

use crate::clip::clip_to_lattice;
use crate::error::PlanError;
use crate::guarantee::Guarantee;
use crate::secagg::Parameters;

/// Sums lie in [−2^31, 2^31).
const HALF: f64 = 2_147_483_648.0;

/// No more steps than a number of the update has digits.
const MAX_STEPS: f64 = 16_777_216.0;

/// The least variance of a share, in steps squared. The gap of [`DistributedGaussian`] is below n·10⁻⁶⁷ there.
const MIN_VARIANCE: f64 = 16.0;

/// The probability that any number of a round wraps is kept below 2^-64.
const WRAP: f64 = 5.4e-20;

/// The relative width of a directed rounding.
const MARGIN: f64 = 1e-12;

/// The distributed discrete Gaussian mechanism: a clipped sum, whose noise is the sum of the clients' shares.
///
/// The clip C is `steps` steps of a public lattice, as many as fit. Each client clips its update to them
/// ([`clip_to_lattice`]), adds to each number a discrete Gaussian of variance σ²/h, where h honest clients survive at least
/// and σ is the noise multiplier times C, and reduces modulo 2^32. The server learns the sum modulo 2^32, by
/// [`secagg`](crate::secagg), and reads it as a signed number.
///
/// # Privacy
/// *Sensitivity.* [`clip_to_lattice`] never exceeds `steps`, in any dimension. Neighbours are two sets of updates of which
/// one has zeros in the place of one client's update: that a client takes part is not hidden from the server.
///
/// *Noise.* Every sum has the shares of at least h honest clients in it, or there is none: with fewer survivors than the
/// threshold t, secure aggregation gives up before anything is unmasked, and h = t − `colluding`. What colluding clients
/// know of their own shares does not matter, nor do the shares of those beyond h: given those, the rest is the sum of h
/// shares. Wrapping is post-processing of it.
///
/// *Gap.* A sum of h discrete Gaussians of variance v is not quite one of variance hv: the logarithms of the probabilities
/// of any integer differ by at most τ = 10 Σ exp(−2π²v·k/(k+1)) over k from 1 to h − 1. *Proof.* For X of variance a and Y
/// of b, completing the square gives P(X+Y=z) = K·exp(−z²/2(a+b))·(1+ν(z)) with K independent of z and, by Poisson
/// summation, |ν(z)| ≤ θ := 2 Σ exp(−2π²sj²) over j ≥ 1 with 1/s = 1/a + 1/b. Both sides sum to one, so the quotient with
/// the discrete Gaussian lies between (1−θ)/(1+θ) and its inverse; for s ≥ 8 that is e^±5exp(−2π²s). Adding the shares one
/// after the other has s = v·k/(k+1). ∎
///
/// *Rounds.* [`Self::guarantee`] composes them without any amplification by sampling, since the server knows who takes part.
///
/// ```
/// use dither_federated::DistributedGaussian;
/// use dither_noise::NoiseSource;
/// // Of 50 clients at least 34 survive, of which 4 may collude with the server; σ = C.
/// let noise = DistributedGaussian::new(1_000, 50, 30, 1.0, 1.0)?;
/// assert!(noise.wrap_probability() < 1e-19);
/// assert!((noise.guarantee(1).epsilon(1e-5).unwrap() - 4.3772).abs() < 1e-3);
/// let masked = noise.encode(&[0.01; 1_000], &mut NoiseSource::from_os()?)?;
/// assert_eq!(masked.len(), 1_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// Kairouz, Liu and Steinke, *The Distributed Discrete Gaussian Mechanism for Federated Learning with Secure Aggregation*,
/// ICML 2021 (arXiv 2102.06387), Proposition 14 for the privacy of the sum, whose τ this is.
pub struct DistributedGaussian {
    dimension: u32,
    clients: u32,
    honest: u32,
    clip: f64,
    steps: u64,
    variance: Ratio,
    table: NoiseTable,
}

impl DistributedGaussian {
    /// The mechanism for vectors of length `dimension`, of at most `clients` clients of whom at least `honest` are honest
    /// and survive.
    ///
    /// `clip` is the largest l2 norm of an update, in its units; the noise multiplier has none.
    ///
    /// # Errors
    /// [`PlanError::OutOfRange`]; [`PlanError::RingTooSmall`] where 32 bits leave no room for shares of noise with a
    /// deviation of 4 steps.
    pub fn new(dimension: u32, clients: u32, honest: u32, clip: f64, noise_multiplier: f64) -> Result<Self, PlanError> {
        let wrong = |field, problem| Err(PlanError::OutOfRange { field, problem });
        if dimension == 0 || dimension > Parameters::MAX_DIMENSION {
            return wrong("dimension", "between 1 and 2^28");
        }
        if clients > Parameters::MAX_CLIENTS {
            return wrong("clients", "at most 4096");
        }
        if honest == 0 || honest > clients {
            return wrong("honest", "at least 1 and at most the number of clients");
        }
        check_clip(clip)?;
        check_multiplier(noise_multiplier)?;
        let (n, h) = (f64::from(clients), f64::from(honest));
        // |Σ| ≤ n·steps + tails, and all tails grow with the steps.
        let deviations = sqrt(2.0 * ln(2.0 * f64::from(dimension) / WRAP));
        let room = (HALF - 1.0) / (n + noise_multiplier * sqrt(n / h) * deviations) * (1.0 - 1e-9);
        let steps = floor(room.min(MAX_STEPS));
        let variance = noise_multiplier * noise_multiplier * steps * steps / h * (1.0 + MARGIN);
        if !(steps >= 1.0 && variance >= MIN_VARIANCE) {
            return Err(PlanError::RingTooSmall { clients });
        }
        let variance = Ratio::at_least(variance).ok_or(PlanError::RingTooSmall { clients })?;
        let table = NoiseTable::gaussian(variance)?;
        Ok(Self { dimension, clients, honest, clip, steps: steps as u64, variance, table })
    }

    /// The length of an update.
    pub fn dimension(&self) -> u32 {
        self.dimension
    }

    /// The most clients of a sum.
    pub fn clients(&self) -> u32 {
        self.clients
    }

    /// The least honest clients of a sum.
    pub fn honest(&self) -> u32 {
        self.honest
    }

    /// How many steps of the lattice the clip is: the l2 sensitivity of the sum.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The variance of one client's share, in steps squared.
    pub fn share_variance(&self) -> Ratio {
        self.variance
    }

    /// The lattice of updates and sums.
    pub fn step(&self) -> f64 {
        self.clip / self.steps as f64
    }

    /// What a client puts under its masks: its update, clipped, with its share of the noise.
    ///
    /// # Errors
    /// Where there is no randomness; nothing may be sent then.
    ///
    /// # Privacy
    /// By itself far less private than the sum: it leaves the client under masks only.
    pub fn encode(&self, update: &[f32], source: &mut NoiseSource) -> Result<Vec<u32>, NoiseError> {
        self.encode_from(update, source)
    }

    /// [`Self::encode`] with any source of bits.
    pub(crate) fn encode_from<S: BitSource + ?Sized>(
        &self,
        update: &[f32],
        source: &mut S,
    ) -> Result<Vec<u32>, NoiseError> {
        // Dropping the upper half of the two's complement is the remainder modulo 2^32.
        Ok(self.noisy(update, source)?.into_iter().map(|x| x as u32).collect())
    }

    /// One client's update, clipped, with its share of the noise, before any wrapping.
    pub(crate) fn noisy<S: BitSource + ?Sized>(&self, update: &[f32], source: &mut S) -> Result<Vec<i64>, NoiseError> {
        let mut noise = vec![0; self.dimension as usize];
        self.table.fill(source, &mut noise)?;
        let clipped = clip_to_lattice(update, noise.len(), self.clip, self.steps);
        Ok(clipped.iter().zip(&noise).map(|(x, noise)| x.wrapping_add(*noise)).collect())
    }

    /// The noisy sum of the clipped updates, in the units of the updates, from a sum modulo 2^32.
    pub fn decode(&self, sum: &[u32]) -> Vec<f64> {
        // A step is positive and finite, as `new` has checked.
        let lattice = Lattice::new(self.step()).unwrap_or(Lattice::UNIT);
        sum.iter().map(|&x| lattice.value(i128::from(x.cast_signed()))).collect()
    }

    /// A bound of the probability that any number of one round wraps, and is then wrong by 2^32 steps.
    ///
    /// With all n clients, each number is n·`steps` at most without its noise, and the noise X of variance parameter v has
    /// E e^(tX) = e^(t²v/2) Σ exp(−(x−tv)²/2v) / Σ exp(−x²/2v) ≤ e^(t²v/2), as no shift makes the sum larger (Poisson
    /// summation). So the sum of n shares exceeds a with probability at most exp(−a²/2nv) on either side.
    ///
    /// A client that does not follow the protocol can make any number wrap; see [`secagg`](crate::secagg).
    pub fn wrap_probability(&self) -> f64 {
        let n = f64::from(self.clients);
        let room = (HALF - 1.0 - n * self.steps as f64).max(0.0);
        let exponent = room * room / (2.0 * n * self.variance.as_f64());
        (2.0 * f64::from(self.dimension) * exp(-exponent * (1.0 - MARGIN)) * (1.0 + MARGIN)).min(1.0)
    }

    /// The privacy of so many rounds, in all of which a client may take part.
    ///
    /// # Privacy
    /// Against the server, up to the planned number of colluding clients, and everybody who sees the sums. See the type.
    ///
    /// # References
    /// Kairouz, Liu and Steinke 2021, Proposition 14: ½ε²-concentrated for ε = Δ/(√h·σ) + τ√d, which is
    /// [`Guarantee::concentrated`].
    pub fn guarantee(&self, rounds: u32) -> Guarantee {
        let honest = f64::from(self.honest);
        let variance = self.variance.as_f64() * (1.0 - MARGIN);
        let sigma = sqrt(variance * honest) * (1.0 - MARGIN);
        // Each of the h − 1 terms is largest at k = 1; never reported as nothing.
        let gap = (10.0 * (honest - 1.0) * exp(-PI * PI * variance)).max(f64::MIN_POSITIVE);
        let mu = self.steps as f64 / sigma * (1.0 + MARGIN) + gap * sqrt(f64::from(self.dimension));
        let repeated = |event| Event::SelfComposed { count: rounds.into(), event: Box::new(event) };
        let concentrated = repeated(Event::ZeroConcentrated { rho: mu * mu / 2.0 * (1.0 + MARGIN) });
        let event = repeated(Event::Gaussian { noise_multiplier: sigma / self.steps as f64 });
        let coordinates = f64::from(rounds) * f64::from(self.dimension);
        Guarantee::new(event, Some(concentrated), coordinates, sigma, gap)
    }
}

/// A clip must be a length for which neither it nor a part of it leaves the floats.
pub(crate) fn check_clip(clip: f64) -> Result<(), PlanError> {
    if (1e-30..=1e30).contains(&clip) {
        return Ok(());
    }
    Err(PlanError::OutOfRange { field: "clip", problem: "between 1e-30 and 1e30" })
}

/// A noise multiplier must leave noise that is wide and a guarantee that says something.
pub(crate) fn check_multiplier(noise_multiplier: f64) -> Result<(), PlanError> {
    if (1e-3..=1e5).contains(&noise_multiplier) {
        return Ok(());
    }
    Err(PlanError::OutOfRange { field: "noise_multiplier", problem: "between 0.001 and 100000" })
}
