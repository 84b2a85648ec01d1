//! Rounds of federated averaging in which each client is protected as a whole.

use dither_accounting::Event;
use dither_core::Ratio;
use dither_noise::{BitSource, NoiseSource, NoiseTable, bernoulli};
use libm::{floor, sqrt};

use crate::clip::clip_to_lattice;
use crate::discrete::{DistributedGaussian, check_clip, check_multiplier};
use crate::error::{PlanError, RoundError};
use crate::guarantee::Guarantee;
use crate::secagg::{Dropouts, Parameters, ProtocolError, run};

/// The clip in steps where one party adds the noise: a sum of 2^24 such vectors and its noise fit 64 bits.
const CENTRAL_STEPS: u64 = 1 << 32;

/// The most clients of a plan whose server is trusted.
const MAX_CENTRAL_CLIENTS: usize = 1 << 24;

/// Rates are multiples of 2^-53, rounded down.
const RATE_DENOMINATOR: u128 = 1 << 53;

/// The relative width of a directed rounding.
const MARGIN: f64 = 1e-12;

/// Somebody who holds data and improves a model on it.
///
/// ```
/// use dither_federated::Client;
/// struct Mean(f32);
/// impl Client for Mean {
///     fn update(&self, global: &[f32], _round: u32) -> Vec<f32> {
///         global.iter().map(|x| self.0 - x).collect()
///     }
/// }
/// assert_eq!(Mean(3.0).update(&[1.0], 0), [2.0]);
/// ```
pub trait Client {
    /// The change that this client wants, for the current model and the number of the round from zero on.
    ///
    /// Anything may come back: it is clipped, or counts as zeros if it is no update.
    fn update(&self, global: &[f32], round: u32) -> Vec<f32>;
}

/// Who sees the updates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Trust {
    /// A server is trusted with all updates and with adding the noise. It asks each enrolled client with probability
    /// `rate`, independently of all others and of earlier rounds, and tells nobody whom it asked.
    Server {
        /// The probability, in (0, 1].
        rate: f64,
    },
    /// No server is trusted: clients mask their updates and share the noise. All of them are asked in every round.
    Threshold {
        /// How many clients there are.
        clients: u32,
        /// How many of them must be left at the end of a round.
        threshold: u32,
        /// How many of them may share what they know with the server.
        colluding: u32,
    },
}

/// The parameters of a plan; all of them are public.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// The length of the model.
    pub dimension: u32,
    /// How many rounds.
    pub rounds: u32,
    /// The largest l2 norm of an update, C.
    pub clip: f64,
    /// The deviation of the noise on the sum, divided by C.
    pub noise_multiplier: f64,
    /// What the noisy sum is divided by, for instance the expected number of clients in a round. Never the true number.
    pub divisor: f64,
    /// Who sees the updates.
    pub trust: Trust,
}

/// Rounds of federated averaging whose noise, sampling and price come from one set of parameters.
///
/// In each round the clients of the cohort improve the model; each change is clipped to C and counts the same; the sum gets
/// noise of deviation `noise_multiplier`·C, is divided by the public divisor, and is added to the model. A round with an
/// empty cohort is a round like any other: noise, and a step.
///
/// # Privacy
/// Neighbours differ by one client with all its data. With [`Trust::Server`] the models of all rounds are protected, not
/// the updates from the server; the sampling counts, because nobody but the server sees cohorts. With
/// [`Trust::Threshold`] see [`DistributedGaussian`]. In both [`Plan::guarantee`] says at which ε; charge
/// [`Guarantee::charge`] before the first round. A client is protected as one, however many rows it holds; two clients
/// that are the same person are not.
///
/// ```
/// use dither_federated::{Client, Plan, Settings, Trust};
/// use dither_noise::NoiseSource;
/// struct Nudge;
/// impl Client for Nudge {
///     fn update(&self, global: &[f32], _round: u32) -> Vec<f32> {
///         global.iter().map(|x| 1.0 - x).collect()
///     }
/// }
/// let trust = Trust::Server { rate: 0.1 };
/// let settings = Settings { dimension: 4, rounds: 20, clip: 2.0, noise_multiplier: 1.0, divisor: 100.0, trust };
/// let plan = Plan::new(settings)?;
/// let epsilon = plan.guarantee().epsilon(1e-5)?;
/// assert!((epsilon - 3.591).abs() < 0.001);
/// let clients: Vec<Nudge> = (0..1_000).map(|_| Nudge).collect();
/// let model = plan.simulate(&clients, vec![0.0; 4], &mut NoiseSource::from_os()?)?;
/// assert_eq!(model.len(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # References
/// McMahan, Ramage, Talwar and Zhang, *Learning Differentially Private Recurrent Language Models*, ICLR 2018, Algorithm 1
/// (with flat clipping, equal weights and a fixed divisor).
pub struct Plan {
    settings: Settings,
    noise: Noise,
}

enum Noise {
    Central { rate: f64, variance: Ratio, table: NoiseTable },
    Distributed(Box<DistributedGaussian>),
}

impl Plan {
    /// Checks the parameters and prepares the noise.
    ///
    /// # Errors
    /// [`PlanError`] with the parameter to change.
    pub fn new(settings: Settings) -> Result<Self, PlanError> {
        let wrong = |field, problem| Err(PlanError::OutOfRange { field, problem });
        let Settings { dimension, rounds, clip, noise_multiplier, divisor, trust } = settings;
        if dimension == 0 || dimension > Parameters::MAX_DIMENSION {
            return wrong("dimension", "between 1 and 2^28");
        }
        if rounds == 0 {
            return wrong("rounds", "at least 1");
        }
        if !(1e-30..=1e30).contains(&divisor) {
            return wrong("divisor", "between 1e-30 and 1e30");
        }
        check_clip(clip)?;
        check_multiplier(noise_multiplier)?;
        let noise = match trust {
            Trust::Server { rate } => {
                if !(rate > 0.0 && rate <= 1.0) {
                    return wrong("rate", "above 0 and at most 1");
                }
                let sigma = noise_multiplier * CENTRAL_STEPS as f64;
                let variance = Ratio::at_least(sigma * sigma * (1.0 + MARGIN))
                    .ok_or(PlanError::OutOfRange { field: "noise_multiplier", problem: "between 0.001 and 100000" })?;
                Noise::Central { rate, variance, table: NoiseTable::gaussian(variance)? }
            }
            Trust::Threshold { clients, threshold, colluding } => {
                // Refuses what every session would refuse.
                let check = Parameters::new(clients, threshold, colluding, dimension, &mut NoiseSource::from_os()?)?;
                let honest = check.honest();
                Noise::Distributed(Box::new(DistributedGaussian::new(
                    dimension,
                    clients,
                    honest,
                    clip,
                    noise_multiplier,
                )?))
            }
        };
        Ok(Self { settings, noise })
    }

    /// The parameters.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The privacy of all rounds together.
    ///
    /// # Privacy
    /// From the fields that noise and sampling are drawn with. The rate that is drawn is at most the one that is priced.
    pub fn guarantee(&self) -> Guarantee {
        let Settings { dimension, rounds, .. } = self.settings;
        let (rate, variance) = match &self.noise {
            Noise::Distributed(noise) => return noise.guarantee(rounds),
            Noise::Central { rate, variance, .. } => (*rate, variance),
        };
        let sigma = sqrt(variance.as_f64()) * (1.0 - MARGIN);
        let noise = Event::Gaussian { noise_multiplier: sigma / CENTRAL_STEPS as f64 };
        let step = Event::PoissonSampled { rate, event: Box::new(noise) };
        let event = Event::SelfComposed { count: rounds.into(), event: Box::new(step) };
        Guarantee::new(event, None, f64::from(rounds) * f64::from(dimension), sigma, 0.0)
    }

    /// Runs all rounds in this process, from a first model to the last.
    ///
    /// # Errors
    /// [`RoundError`]; the charge stands.
    ///
    /// # Privacy
    /// The models of all rounds may be seen, as far as [`Self::guarantee`] goes.
    pub fn simulate<C: Client>(
        &self,
        clients: &[C],
        initial: Vec<f32>,
        source: &mut NoiseSource,
    ) -> Result<Vec<f32>, RoundError> {
        let Settings { dimension, rounds, divisor, .. } = self.settings;
        if initial.len() != dimension as usize || !initial.iter().all(|x| x.is_finite()) {
            return Err(RoundError::WrongModel { dimension });
        }
        let mut global = initial;
        for round in 0..rounds {
            let update = |client: &C| client.update(&global, round);
            let sum = match &self.noise {
                Noise::Central { rate, table, .. } => {
                    if clients.len() > MAX_CENTRAL_CLIENTS {
                        let planned = MAX_CENTRAL_CLIENTS as u32;
                        return Err(RoundError::WrongCohort { planned, found: clients.len() });
                    }
                    let cohort = cohort(clients, *rate, source)?;
                    self.central_sum(cohort.into_iter().map(update), table, source)?
                }
                Noise::Distributed(noise) => {
                    let parameters = self.session(clients.len(), source)?;
                    let updates: Vec<Vec<f32>> = clients.iter().map(update).collect();
                    secure_round(noise, &parameters, &updates, &Dropouts::default(), source)?
                }
            };
            for (x, sum) in global.iter_mut().zip(&sum) {
                // Post-processing; a model that left the floats would be of no use.
                *x = ((f64::from(*x) + sum / divisor) as f32).clamp(f32::MIN, f32::MAX);
            }
        }
        Ok(global)
    }

    /// The noisy sum of the clipped updates of a cohort, in the units of the updates.
    fn central_sum<S: BitSource + ?Sized>(
        &self,
        updates: impl Iterator<Item = Vec<f32>>,
        table: &NoiseTable,
        source: &mut S,
    ) -> Result<Vec<f64>, RoundError> {
        let Settings { dimension, clip, .. } = self.settings;
        let mut sum = vec![0i64; dimension as usize];
        table.fill(source, &mut sum)?;
        for update in updates {
            for (sum, x) in sum.iter_mut().zip(clip_to_lattice(&update, dimension as usize, clip, CENTRAL_STEPS)) {
                // Far from the ends: 2^24 updates of 2^32, and noise of a deviation below 2^49.
                *sum = sum.saturating_add(x);
            }
        }
        Ok(sum.into_iter().map(|x| x as f64 * (clip / CENTRAL_STEPS as f64)).collect())
    }

    /// The parameters of secure aggregation for one round; keys are never used twice.
    fn session(&self, found: usize, source: &mut NoiseSource) -> Result<Parameters, RoundError> {
        let Settings { dimension, trust, .. } = self.settings;
        match trust {
            Trust::Threshold { clients, threshold, colluding } if clients as usize == found => {
                Ok(Parameters::new(clients, threshold, colluding, dimension, source)?)
            }
            Trust::Threshold { clients, .. } => Err(RoundError::WrongCohort { planned: clients, found }),
            Trust::Server { .. } => Err(RoundError::WrongCohort { planned: 0, found }),
        }
    }
}

/// One distributed round in this process: clip, share the noise, mask, drop out, unmask, decode.
///
/// The result is the noisy sum over the clients that sent their input, in the units of the updates.
///
/// # Errors
/// [`RoundError::Protocol`] if the session does not have the length of the mechanism, has more clients or promises fewer
/// honest ones, or if dropouts leave fewer than the threshold: nothing is unmasked then.
///
/// # Privacy
/// That of one round of [`DistributedGaussian::guarantee`].
///
/// ```
/// use dither_federated::secagg::{Dropouts, Parameters};
/// use dither_federated::{DistributedGaussian, secure_round};
/// use dither_noise::NoiseSource;
/// let mut source = NoiseSource::from_os()?;
/// let session = Parameters::new(5, 4, 1, 2, &mut source)?;
/// let noise = DistributedGaussian::new(2, 5, session.honest(), 1.0, 0.001)?;
/// let sum = secure_round(&noise, &session, &vec![vec![0.1, -0.2]; 5], &Dropouts::default(), &mut source)?;
/// assert!((sum[0] - 0.5).abs() < 0.1 && (sum[1] + 1.0).abs() < 0.1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn secure_round(
    noise: &DistributedGaussian,
    session: &Parameters,
    updates: &[Vec<f32>],
    dropouts: &Dropouts,
    source: &mut NoiseSource,
) -> Result<Vec<f64>, RoundError> {
    check_made_for(noise, session)?;
    let inputs = updates.iter().map(|update| noise.encode(update, source)).collect::<Result<Vec<_>, _>>()?;
    Ok(noise.decode(&run(session, &inputs, dropouts, source)?))
}

/// Checks that a session gives its sums all of the noise that the mechanism prices.
pub(crate) fn check_made_for(noise: &DistributedGaussian, session: &Parameters) -> Result<(), ProtocolError> {
    let wrong = |field, problem| Err(ProtocolError::InvalidParameters { field, problem });
    if session.dimension() != noise.dimension() {
        return wrong("dimension", "that of the mechanism");
    }
    if session.clients() > noise.clients() || session.honest() < noise.honest() {
        return wrong("threshold", "as large, and clients as few, as the mechanism is made for");
    }
    Ok(())
}

/// The clients of one round: each with the same probability, independently of all others.
pub(crate) fn cohort<'a, C, S: BitSource + ?Sized>(
    clients: &'a [C],
    rate: f64,
    source: &mut S,
) -> Result<Vec<&'a C>, RoundError> {
    // Rounded down: nobody is asked more often than is priced.
    let numerator = floor(rate * RATE_DENOMINATOR as f64) as u128;
    let mut cohort = Vec::new();
    for client in clients {
        if bernoulli(source, numerator, RATE_DENOMINATOR)? {
            cohort.push(client);
        }
    }
    Ok(cohort)
}
