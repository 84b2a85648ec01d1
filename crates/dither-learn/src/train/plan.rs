//! The plan of a run: every number that its guarantee depends on, fixed before anything is charged.

use dither_accounting::{Statement, calibrate, statement};
use dither_core::{Delta, Epsilon, GateError, Mechanism, Neighbors, PrivacyEvent, PrivacyUnit, Ratio};
use dither_mechanisms::{Exact, Noisy, Steps, Training};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::model::Clipping;
use crate::train::adaptive::Adaptive;
use crate::train::error::TrainError;
use crate::train::noise::{FEWER_UNITS_PER_PART, Lattice, UNITS_PER_PART, most_in_part};
pub use crate::train::warning::Warning;

/// How much noise there is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NoiseGoal {
    /// The least that keeps the run within this ε.
    Epsilon(Epsilon),
    /// σ divided by the clipping norm.
    Multiplier(f64),
}

/// How large a sample is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SampleGoal {
    /// The probability that a unit enters the sample of a step.
    Rate(f64),
    /// So many units on average. The rate is this over the number of units, which becomes public by it.
    Units(f64),
}

/// What is asked of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanRequest {
    /// Who is protected.
    pub unit: PrivacyUnit,
    /// Which tables must be indistinguishable.
    pub neighbors: Neighbors,
    /// How many units there are, where that is public.
    pub units: Option<u64>,
    /// How many rows of a unit take part at most, in the whole run.
    pub rows_per_unit: u32,
    /// Whether layers of the model may see several positions of a unit: tokens, places of an image, or several rows.
    pub several_positions: bool,
    /// How large a sample is.
    pub sample: SampleGoal,
    /// How many steps.
    pub steps: u64,
    /// How the gradient of a unit is clipped.
    pub clipping: Clipping,
    /// How the norm of flat clipping changes from step to step; `clipping` has the first one.
    pub adaptive: Option<Adaptive>,
    /// How much noise.
    pub noise: NoiseGoal,
    /// δ of the whole run.
    pub delta: Delta,
    /// What noisy sums are divided by; the expected size of a sample where the number of units is public.
    pub divisor: Option<f64>,
}

/// Every number that the guarantee of a run depends on.
///
/// There is no setter. The event that is charged, the noise and the sampler are made from the same fields, so they
/// cannot disagree; [`DpPlan::hash`] is part of the name under which the run is charged, and of every checkpoint.
///
/// # Privacy
/// For the unit and the neighbours it names: (ε, δ) with the ε of [`DpPlan::price`]. Public are all numbers in it: none
/// may have been read off the table without a charge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DpPlan {
    version: u32,
    unit: PrivacyUnit,
    neighbors: Neighbors,
    units: Option<u64>,
    rows_per_unit: u32,
    clipping: Clip,
    #[serde(skip_serializing_if = "Option::is_none")]
    adaptive: Option<Adaptive>,
    noise_multiplier: f64,
    divisor: f64,
    parts: u32,
    weights: usize,
    lattice_step: f64,
    delta: Delta,
    event: PrivacyEvent,
    #[serde(skip)]
    lattice: Lattice,
    #[serde(skip)]
    rate: Ratio,
    #[serde(skip)]
    steps: u64,
    #[serde(skip)]
    most_in_part: usize,
}

/// [`Clipping`], as it is written down.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Clip {
    Flat { bound: f64 },
    PerLayer { bounds: Vec<f64> },
    Automatic { bound: f64 },
}

impl DpPlan {
    /// Plans a run of a model with so many weights. Where the goal is an ε, this takes seconds.
    ///
    /// # Errors
    /// [`TrainError::Field`] with the field and what to write instead, and what calibration says.
    pub fn new(request: &PlanRequest, weights: usize) -> Result<Self, TrainError> {
        let rate = rate(request)?;
        if request.steps == 0 || request.steps > 1 << 40 {
            return Err(TrainError::field("steps", format!("{} steps", request.steps), "train 1 to 2^40 steps"));
        }
        if request.rows_per_unit == 0 {
            return Err(TrainError::field("unit.rows", "no row of a unit takes part", "use at least 1"));
        }
        let expected = request.units.map(|units| rate.as_f64() * units as f64);
        let divisor = request.divisor.or(expected).ok_or_else(|| {
            let problem = "there is no divisor, and the number of units is not public";
            TrainError::field("sample.divisor", problem, "write about the size of a sample, or declare `units`")
        })?;
        if !(1e-6..=1e15).contains(&divisor) {
            return Err(TrainError::field("sample.divisor", format!("{divisor}"), "use about the size of a sample"));
        }
        check_delta(request, rate, divisor)?;
        let norm = norm(&request.clipping)?;
        if let Some(adaptive) = &request.adaptive {
            adaptive.check()?;
            if !matches!(request.clipping, Clipping::Flat { .. }) {
                return Err(TrainError::field("clipping", "only flat clipping follows a quantile", "use `adaptive`"));
            }
        }
        let coordinates = weights + usize::from(request.adaptive.is_some());
        let lattice_of = |multiplier: f64| match request.adaptive {
            Some(Adaptive { count_noise, .. }) => Lattice::counting(multiplier, count_noise, weights, request.steps),
            None => Lattice::new(norm, multiplier, weights, request.steps),
        };
        let event_of = |lattice: &Lattice| event(request, rate, lattice, coordinates, request.steps);
        let multiplier = match request.noise {
            NoiseGoal::Multiplier(multiplier) => multiplier,
            NoiseGoal::Epsilon(epsilon) => {
                let price = |multiplier: f64| {
                    // More noise than a count leaves room for is refused below; it has a price all the same, so that the
                    // search goes on.
                    let lattice = lattice_of(multiplier);
                    let lattice = lattice.or_else(|_| Lattice::new(norm, multiplier, weights, request.steps));
                    let event = lattice.and_then(|lattice| event_of(&lattice)).ok();
                    let statement = event.and_then(|event| statement(&event, request.delta).ok());
                    statement.map_or(f64::INFINITY, |statement| statement.best as f64)
                };
                calibrate::noise_multiplier(epsilon.nanos() as f64, price).ok_or_else(|| {
                    let problem = format!("no noise reaches {epsilon} at delta {}", request.delta);
                    TrainError::field("privacy.epsilon", problem, "raise epsilon or delta, or train fewer steps")
                })?
            }
        };
        let lattice = lattice_of(multiplier)?;
        let per_part = units_per_part(request);
        let clipping = match request.clipping.clone() {
            Clipping::Flat { bound } => Clip::Flat { bound },
            Clipping::PerLayer { bounds } => Clip::PerLayer { bounds },
            Clipping::Automatic { bound } => Clip::Automatic { bound },
        };
        Ok(Self {
            version: 1,
            unit: request.unit.clone(),
            neighbors: request.neighbors,
            units: request.units,
            rows_per_unit: request.rows_per_unit,
            clipping,
            adaptive: request.adaptive,
            noise_multiplier: multiplier,
            divisor,
            parts: (expected.unwrap_or(divisor) / per_part).ceil().clamp(1.0, f64::from(u32::MAX)) as u32,
            weights,
            lattice_step: lattice.step(),
            delta: request.delta,
            event: event_of(&lattice)?,
            lattice,
            rate,
            steps: request.steps,
            most_in_part: most_in_part(per_part),
        })
    }

    /// Who is protected.
    pub fn unit(&self) -> &PrivacyUnit {
        &self.unit
    }

    /// Which tables are indistinguishable.
    pub fn neighbors(&self) -> Neighbors {
        self.neighbors
    }

    /// How many units there are, where that is public.
    pub fn units(&self) -> Option<u64> {
        self.units
    }

    /// How many rows of a unit take part at most.
    pub fn rows_per_unit(&self) -> u32 {
        self.rows_per_unit
    }

    /// The probability that a unit enters the sample of a step.
    pub fn rate(&self) -> Ratio {
        self.rate
    }

    /// How many units are in a sample on average, as far as that is public.
    pub fn expected_units(&self) -> f64 {
        self.units.map_or(self.divisor, |units| units as f64 * self.rate.as_f64())
    }

    /// How many steps are planned, and charged.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// How the gradient of a unit is clipped.
    pub fn clipping(&self) -> Clipping {
        match self.clipping.clone() {
            Clip::Flat { bound } => Clipping::Flat { bound },
            Clip::PerLayer { bounds } => Clipping::PerLayer { bounds },
            Clip::Automatic { bound } => Clipping::Automatic { bound },
        }
    }

    /// How the clipping norm changes, if it does.
    pub fn adaptive(&self) -> Option<&Adaptive> {
        self.adaptive.as_ref()
    }

    /// The clipping with another norm, which a step of adaptive clipping has.
    pub(crate) fn clipping_to(&self, bound: f64) -> Clipping {
        if self.adaptive.is_some() { Clipping::Flat { bound } } else { self.clipping() }
    }

    /// The largest norm of a clipped gradient: of all layers together, and in the first step if it changes.
    pub fn norm(&self) -> f64 {
        norm(&self.clipping()).unwrap_or(f64::INFINITY)
    }

    /// σ, in clipping norms.
    pub fn noise_multiplier(&self) -> f64 {
        self.noise_multiplier
    }

    /// What every noisy sum is divided by, whatever its sample.
    pub fn divisor(&self) -> f64 {
        self.divisor
    }

    /// Into how many parts a sample is dealt.
    pub fn parts(&self) -> u32 {
        self.parts
    }

    /// How many units a part has at most, however many there are in the table: a larger one is halved.
    pub fn most_in_part(&self) -> usize {
        self.most_in_part
    }

    /// How many weights are trained.
    pub fn weights(&self) -> usize {
        self.weights
    }

    /// How many integers get noise in a step: one for each weight, and the count of adaptive clipping.
    pub fn coordinates(&self) -> usize {
        self.weights + usize::from(self.adaptive.is_some())
    }

    /// δ of the run.
    pub fn delta(&self) -> Delta {
        self.delta
    }

    /// The lattice that sums are brought to.
    pub fn lattice(&self) -> Lattice {
        self.lattice
    }

    /// What is charged: the whole run.
    pub fn event(&self) -> &PrivacyEvent {
        &self.event
    }

    /// The noise of the run, as a mechanism of the gate.
    ///
    /// # Errors
    /// What [`Training::new`] refuses.
    pub fn mechanism<S: Steps>(&self) -> Result<Training<S>, TrainError> {
        let (sensitivity, variance) = (self.lattice.sensitivity(), self.lattice.variance());
        let training = Training::new(self.rate, sensitivity, variance, self.coordinates(), self.steps, self.neighbors)?;
        debug_assert_eq!(training.event(), self.event);
        Ok(training)
    }

    /// What the whole run costs at its δ, under each accountant: `basic` is numerical composition (PLD), an upper bound.
    ///
    /// # Errors
    /// What has no price.
    pub fn price(&self) -> Result<Statement, TrainError> {
        Ok(statement(&self.event, self.delta)?)
    }

    /// What the steps that were executed cost by themselves, at the δ of the run. The charge is for all that are planned.
    ///
    /// # Errors
    /// What has no price.
    pub fn price_of(&self, executed: u64) -> Result<Statement, TrainError> {
        let mut event = self.event.clone();
        if let PrivacyEvent::SampledGaussian { steps, .. } = &mut event {
            *steps = executed;
        }
        Ok(statement(&event, self.delta)?)
    }

    /// The plan as one line of JSON, in an order that never changes.
    pub fn json(&self) -> String {
        // Every field has a form in JSON: floats are finite.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// SHA-256 of [`DpPlan::json`], in hexadecimal.
    pub fn hash(&self) -> String {
        Sha256::digest(self.json()).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// How long the noise of a step is beside the longest sum: σ√d clipping norms for d weights, over as many clipping norms
    /// as the public divisor says, the size of a sample on average.
    pub fn noise_to_signal(&self) -> f64 {
        self.noise_multiplier * (self.weights as f64).sqrt() / self.divisor
    }

    /// What somebody should look at before the run is charged.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let ratio = self.noise_to_signal();
        if let Some(units) = self.units {
            if units < 1_000 {
                warnings.push(Warning::FewUnits { units });
            }
            let rule = (units as f64).sqrt();
            if self.divisor < rule / 2.0 {
                warnings.push(Warning::SmallSample { expected: self.divisor, rule });
            }
            if self.delta.as_f64() * units as f64 > 0.1 {
                warnings.push(Warning::LargeDelta { units });
            }
        } else {
            warnings.push(Warning::UnitsNotPublic);
        }
        if ratio > 10.0 {
            warnings.push(Warning::MostlyNoise { ratio });
        }
        match self.price() {
            Ok(price) if price.best > 10_000_000_000 => {
                warnings.push(Warning::LargeEpsilon { epsilon: price.best as f64 / 1e9 });
            }
            _ => {}
        }
        warnings
    }
}

/// How many units a part has on average.
fn units_per_part(request: &PlanRequest) -> f64 {
    let few = request.several_positions || request.rows_per_unit > 1 || request.adaptive.is_some();
    if few { FEWER_UNITS_PER_PART } else { UNITS_PER_PART }
}

/// The rate, rounded up to a multiple of 2^-62, which the sampler meets exactly.
fn rate(request: &PlanRequest) -> Result<Ratio, TrainError> {
    let (field, rate) = match (request.sample, request.units) {
        (SampleGoal::Rate(rate), _) => ("sample.rate", rate),
        (SampleGoal::Units(expected), Some(units)) => ("sample.units", expected / units as f64),
        (SampleGoal::Units(_), None) => {
            let problem = "a rate follows from it only where the number of units is public";
            return Err(TrainError::field("sample.units", problem, "declare `units`, or write `sample.rate`"));
        }
    };
    if !(rate > 0.0 && rate <= 1.0) {
        return Err(TrainError::field(field, format!("a rate of {rate}"), "use a rate above 0 and at most 1"));
    }
    let numerator = (rate * 2f64.powi(62)).ceil() as u128;
    Ratio::new(numerator, 1 << 62).ok_or_else(|| TrainError::field(field, "a rate of 0", "use a rate above 0"))
}

/// δ must be below one over the number of units: above, publishing one unit at random would be private.
fn check_delta(request: &PlanRequest, rate: Ratio, divisor: f64) -> Result<(), TrainError> {
    let units = request.units.map_or(divisor / rate.as_f64(), |units| units as f64);
    let delta = request.delta.as_f64();
    if request.units == Some(0) {
        return Err(TrainError::field("units", "there are no units", "write how many there are"));
    }
    if delta <= 0.0 {
        return Err(TrainError::field("privacy.delta", "Gaussian noise needs a delta", "use a decimal such as 1e-6"));
    }
    if delta * units >= 1.0 {
        let problem = format!("{:e} is not below one in {units:.0} units", delta);
        let hint = format!("use {:e} or less, a tenth of one in {units:.0} units", one_digit(0.1 / units));
        return Err(TrainError::field("privacy.delta", problem, hint));
    }
    Ok(())
}

/// A positive number rounded down to one digit.
fn one_digit(value: f64) -> f64 {
    let exponent = value.log10().floor() as i32;
    let digit = (value / 10f64.powi(exponent) * (1.0 + 1e-12)).floor();
    format!("{digit}e{exponent}").parse().unwrap_or(value)
}

/// The norm of the whole clipped gradient, rounded up.
fn norm(clipping: &Clipping) -> Result<f64, TrainError> {
    let bounds = match clipping {
        Clipping::Flat { bound } | Clipping::Automatic { bound } => std::slice::from_ref(bound),
        Clipping::PerLayer { bounds } => bounds,
    };
    if bounds.is_empty() || bounds.iter().any(|bound| !(1e-9..=1e9).contains(bound)) {
        return Err(TrainError::field("clipping.bound", format!("{bounds:?}"), "use positive norms, about 1"));
    }
    let squares: f64 = bounds.iter().map(|bound| bound * bound).sum();
    Ok(if bounds.len() == 1 { bounds[0] } else { squares.sqrt() * (1.0 + 1e-12) })
}

fn event(
    request: &PlanRequest,
    rate: Ratio,
    lattice: &Lattice,
    coordinates: usize,
    steps: u64,
) -> Result<PrivacyEvent, TrainError> {
    let (sensitivity, variance) = (lattice.sensitivity(), lattice.variance());
    let training: Training<NoSteps> =
        Training::new(rate, sensitivity, variance, coordinates, steps, request.neighbors)?;
    Ok(training.event())
}

/// Nobody: an event needs nobody who takes the steps.
enum NoSteps {}

impl Steps for NoSteps {
    fn first(&self) -> u64 {
        match *self {}
    }
    fn exact(&mut self, _: u64) -> Result<Exact, GateError> {
        match *self {}
    }
    fn noisy(&mut self, _: u64) -> Noisy<'_> {
        match *self {}
    }
    fn finish(&mut self, _: u64) -> Result<(), GateError> {
        match *self {}
    }
}
