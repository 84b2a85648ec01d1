//! Events of Google's `dp_accounting`, in and out.
//!
//! That library has no JSON of its own. It turns an event into a named tuple (`DpEvent.to_named_tuple`): the module, the
//! class, the fields of the class. The form here is that tuple, field by field, as `json.dumps` writes it once every
//! tuple has been replaced by its `_asdict()`; `tests/reference/dp_events.py` does it, in both directions.
//!
//! # What differs
//! A noise multiplier there is σ over the largest norm of *one* record, whatever the neighbours; here it is σ over the
//! sensitivity. So both are the same under add/remove and within a Poisson sample, and elsewhere when a unit is replaced, where a sum moves by two norms, the
//! one here is half of the one there. Taking it over unchanged would understate the Rényi loss fourfold.
//!
//! Written for dp_accounting 0.6.0.

use dither_core::Neighbors;
use serde_json::{Map, Value, json};

use crate::document::unreadable;
use crate::error::AccountingError;
use crate::event::Event;
use crate::round::{down, exp, ln_1p, sqrt, up};
use crate::validate::MAX_DEPTH;

const MODULE: &str = "dp_accounting.dp_event";

/// Reads an event of dp_accounting, for accounting under these neighbours.
///
/// `RandomizedResponseDpEvent` without noise becomes [`Event::NonPrivate`]. A `SingleEpochTreeAggregationDpEvent` becomes
/// Gaussian noise on the nodes above one leaf of its largest tree.
///
/// # Errors
/// [`AccountingError::Unreadable`] for other JSON, unknown classes and unknown or missing fields;
/// [`AccountingError::NotCovered`] for classes that have no event here: `UnsupportedDpEvent`, sampling with replacement,
/// repetition with selection, mixtures of Gaussians, truncated batches, and `ZCDpEvent` with ξ above 0;
/// [`AccountingError::InvalidEvent`] for parameters out of range.
///
/// # Privacy
/// The event costs at least as much as the one that was read, under the neighbour relation given; numbers that have to
/// be converted are rounded that way.
///
/// ```
/// use dither_accounting::{Event, dp_event};
/// use dither_core::Neighbors;
/// let json = r#"{"module_name": "dp_accounting.dp_event", "class_name": "GaussianDpEvent", "noise_multiplier": 1.5}"#;
/// let read = |neighbors| dp_event::from_json(json, neighbors).unwrap();
/// assert_eq!(read(Neighbors::AddOrRemoveUnit), Event::Gaussian { noise_multiplier: 1.5 });
/// assert_eq!(read(Neighbors::ReplaceUnit), Event::Gaussian { noise_multiplier: 0.75 });
/// ```
///
/// # References
/// The documentation of the classes in `dp_event.py` of dp_accounting 0.6.0. Trees: Kairouz, McMahan, Song, Thakkar,
/// Thakurta and Xu, *Practical and Private (Deep) Learning without Sampling or Shuffling*, 2021, Appendix D.
pub fn from_json(json: &str, neighbors: Neighbors) -> Result<Event, AccountingError> {
    let value = serde_json::from_str(json).map_err(unreadable)?;
    let event = read(value, f64::from(neighbors.distance()), "event", 0)?;
    event.validate()?;
    Ok(event)
}

/// Writes an event as one of dp_accounting, whose neighbours are these.
///
/// # Errors
/// [`AccountingError::InvalidEvent`]; [`AccountingError::NotCovered`] for thresholds, parallel events and δ above 0, for
/// which dp_accounting 0.6.0 has no class.
///
/// # Privacy
/// The event that is written costs at least as much as this one. A pure loss is written as randomised response over
/// two values, which is the worst of that loss; discrete Gaussian noise and bounded range by their ρ. These come back as
/// what they were written as.
///
/// ```
/// use dither_accounting::{Event, dp_event};
/// use dither_core::Neighbors;
/// let step = Event::PoissonSampled { rate: 0.01, event: Box::new(Event::Gaussian { noise_multiplier: 1.1 }) };
/// let json = dp_event::to_json(&step, Neighbors::AddOrRemoveUnit).unwrap();
/// assert_eq!(dp_event::from_json(&json, Neighbors::AddOrRemoveUnit).unwrap(), step);
/// ```
pub fn to_json(event: &Event, neighbors: Neighbors) -> Result<String, AccountingError> {
    event.validate()?;
    Ok(write(event, f64::from(neighbors.distance()))?.to_string())
}

/// The fields of one tuple that have not been read.
struct Fields {
    path: String,
    left: Map<String, Value>,
}

impl Fields {
    fn problem(&self, what: impl std::fmt::Display) -> AccountingError {
        AccountingError::Unreadable { reason: format!("{}: {what}", self.path) }
    }

    fn take(&mut self, name: &str) -> Result<Value, AccountingError> {
        // Shifting keeps the order of the rest, which is what an error names first.
        self.left.shift_remove(name).ok_or_else(|| self.problem(format_args!("the field {name} is missing")))
    }

    fn number(&mut self, name: &str) -> Result<f64, AccountingError> {
        self.take(name)?.as_f64().ok_or_else(|| self.problem(format_args!("the field {name} is not a number")))
    }

    fn count(&mut self, name: &str) -> Result<u64, AccountingError> {
        self.take(name)?.as_u64().ok_or_else(|| self.problem(format_args!("the field {name} is not a count")))
    }

    fn text(&mut self, name: &str) -> Result<String, AccountingError> {
        match self.take(name)? {
            Value::String(text) => Ok(text),
            _ => Err(self.problem(format_args!("the field {name} is not a text"))),
        }
    }
}

fn read(value: Value, distance: f64, path: &str, depth: usize) -> Result<Event, AccountingError> {
    let mut fields = Fields { path: path.into(), left: Map::new() };
    if depth >= MAX_DEPTH {
        return Err(fields.problem("nested too deep"));
    }
    let Value::Object(left) = value else { return Err(fields.problem("not an object")) };
    fields.left = left;
    let (module, class) = (fields.text("module_name")?, fields.text("class_name")?);
    if module != MODULE {
        return Err(fields.problem(format_args!("the module {module} is not {MODULE}")));
    }
    let inner = |fields: &mut Fields| {
        let value = fields.take("event")?;
        read(value, distance, &format!("{path}.event"), depth + 1).map(Box::new)
    };
    let not_covered = |event| Err(AccountingError::NotCovered { accountant: "this version", event });
    let event = match class.as_str() {
        "NoOpDpEvent" => Event::NoOp,
        "NonPrivateDpEvent" => Event::NonPrivate,
        "GaussianDpEvent" => Event::Gaussian { noise_multiplier: fields.number("noise_multiplier")? / distance },
        "LaplaceDpEvent" => Event::Laplace { noise_multiplier: fields.number("noise_multiplier")? / distance },
        "DiscreteLaplaceDpEvent" => {
            let (parameter, sensitivity) = (fields.number("noise_parameter")?, fields.count("sensitivity")?);
            let sensitivity = sensitivity.saturating_mul(distance as u64);
            Event::DiscreteLaplace { sensitivity, scale: reciprocal_down(parameter) }
        }
        "RandomizedResponseDpEvent" => {
            let (noise, values) = (fields.number("noise_parameter")?, fields.count("num_buckets")?);
            if !(0.0..=1.0).contains(&noise) {
                return Err(fields.problem("the noise parameter is not between 0 and 1"));
            }
            // (1 − p + p/k)/(p/k) = 1 + k(1 − p)/p.
            let epsilon = up(ln_1p(values as f64 * (1.0 - noise) / noise));
            if epsilon.is_finite() { Event::RandomizedResponse { epsilon, values } } else { Event::NonPrivate }
        }
        "ZCDpEvent" => {
            let (rho, xi) = (fields.number("rho")?, fields.number("xi")?);
            if xi != 0.0 {
                return not_covered("ZCDpEvent with xi above 0");
            }
            Event::ZeroConcentrated { rho }
        }
        "PoissonSampledDpEvent" => {
            // Within a Poisson sample, sensitivities are those of one record here as well.
            let (rate, value) = (fields.number("sampling_probability")?, fields.take("event")?);
            let event = Box::new(read(value, 1.0, &format!("{path}.event"), depth + 1)?);
            Event::PoissonSampled { rate, event }
        }
        "SampledWithoutReplacementDpEvent" => Event::SampledWithoutReplacement {
            source_size: fields.count("source_dataset_size")?,
            sample_size: fields.count("sample_size")?,
            event: inner(&mut fields)?,
        },
        "SelfComposedDpEvent" => Event::SelfComposed { count: fields.count("count")?, event: inner(&mut fields)? },
        "ComposedDpEvent" => {
            let Value::Array(parts) = fields.take("events")? else {
                return Err(fields.problem("events is not a list"));
            };
            let part = |(i, part)| read(part, distance, &format!("{path}.events[{i}]"), depth + 1);
            Event::Composed(parts.into_iter().enumerate().map(part).collect::<Result<_, _>>()?)
        }
        "SingleEpochTreeAggregationDpEvent" => {
            let multiplier = fields.number("noise_multiplier")? / distance;
            let steps = match fields.take("step_counts")? {
                Value::Array(trees) => {
                    trees.iter().map(Value::as_u64).max_by_key(|steps| steps.unwrap_or(u64::MAX)).flatten()
                }
                one => one.as_u64(),
            };
            // A leaf of a tree of n steps has at most as many nodes above it, itself included, as n has bits.
            let steps = steps.ok_or_else(|| fields.problem("step_counts is not a count or a list of counts"))?;
            match u64::BITS - steps.leading_zeros() {
                0 => Event::NoOp,
                depth => Event::Gaussian { noise_multiplier: down(multiplier / sqrt(f64::from(depth))) },
            }
        }
        "UnsupportedDpEvent" => return not_covered("UnsupportedDpEvent"),
        "SampledWithReplacementDpEvent" => return not_covered("SampledWithReplacementDpEvent"),
        "RepeatAndSelectDpEvent" => return not_covered("RepeatAndSelectDpEvent"),
        "MixtureOfGaussiansDpEvent" => return not_covered("MixtureOfGaussiansDpEvent"),
        "TruncatedSubsampledGaussianDpEvent" => return not_covered("TruncatedSubsampledGaussianDpEvent"),
        _ => return Err(fields.problem(format_args!("the class {class} is unknown"))),
    };
    match fields.left.keys().next() {
        None => Ok(event),
        Some(name) => Err(fields.problem(format_args!("the field {name} is unknown"))),
    }
}

fn write(event: &Event, distance: f64) -> Result<Value, AccountingError> {
    let tuple = |class: &str, fields: Value| {
        let mut tuple = Map::new();
        tuple.insert("module_name".into(), MODULE.into());
        tuple.insert("class_name".into(), class.into());
        if let Value::Object(fields) = fields {
            tuple.extend(fields);
        }
        Ok(Value::Object(tuple))
    };
    let concentrated = |rho: f64| tuple("ZCDpEvent", json!({ "rho": rho, "xi": 0.0 }));
    let response = |epsilon: f64, values: u64| {
        // p/k = 1/(e^ε + k − 1).
        let k = values as f64;
        let noise = down(k * exp(-epsilon) / (1.0 + (k - 1.0) * exp(-epsilon)));
        tuple("RandomizedResponseDpEvent", json!({ "noise_parameter": noise, "num_buckets": values }))
    };
    match event {
        Event::NoOp => tuple("NoOpDpEvent", json!({})),
        Event::NonPrivate => tuple("NonPrivateDpEvent", json!({})),
        Event::Gaussian { noise_multiplier } => {
            tuple("GaussianDpEvent", json!({ "noise_multiplier": finite(noise_multiplier * distance) }))
        }
        Event::Laplace { noise_multiplier } => {
            tuple("LaplaceDpEvent", json!({ "noise_multiplier": finite(noise_multiplier * distance) }))
        }
        Event::DiscreteGaussian { sensitivity, sigma } => {
            let mu = *sensitivity as f64 / sigma;
            concentrated(finite(up(mu * mu / 2.0)))
        }
        Event::DiscreteLaplace { sensitivity, scale } => {
            let (parameter, sensitivity) = (finite(reciprocal_up(*scale)), sensitivity.div_ceil(distance as u64));
            tuple("DiscreteLaplaceDpEvent", json!({ "noise_parameter": parameter, "sensitivity": sensitivity }))
        }
        Event::BoundedRange { epsilon } => {
            concentrated(finite(up(epsilon * epsilon / 8.0)).min(crate::zcdp::pure(*epsilon)))
        }
        Event::RandomizedResponse { epsilon, values } => response(*epsilon, *values),
        Event::EpsilonDelta { epsilon, delta: 0.0 } => response(*epsilon, 2),
        Event::ZeroConcentrated { rho } => concentrated(*rho),
        Event::PoissonSampled { rate, event } => {
            let event = write(event, 1.0)?;
            tuple("PoissonSampledDpEvent", json!({ "sampling_probability": rate, "event": event }))
        }
        Event::SampledWithoutReplacement { source_size, sample_size, event } => {
            let event = write(event, distance)?;
            let fields = json!({ "source_dataset_size": source_size, "sample_size": sample_size, "event": event });
            tuple("SampledWithoutReplacementDpEvent", fields)
        }
        Event::SelfComposed { count, event } => {
            tuple("SelfComposedDpEvent", json!({ "event": write(event, distance)?, "count": count }))
        }
        Event::Composed(parts) => {
            let parts = parts.iter().map(|part| write(part, distance)).collect::<Result<Vec<_>, _>>()?;
            tuple("ComposedDpEvent", json!({ "events": parts }))
        }
        Event::PostProcessed(event) => write(event, distance),
        Event::EpsilonDelta { .. } | Event::Threshold { .. } | Event::Parallel(_) => {
            Err(AccountingError::NotCovered { accountant: "dp_accounting 0.6.0", event: event.kind() })
        }
    }
}

/// JSON has no infinity; a number beyond the range of floats is as good as the largest.
fn finite(value: f64) -> f64 {
    value.min(f64::MAX)
}

/// The largest float that is at most 1/`value`.
fn reciprocal_down(value: f64) -> f64 {
    let quotient = 1.0 / value;
    if quotient.is_finite() && libm::fma(quotient, value, -1.0) > 0.0 { quotient.next_down() } else { quotient }
}

/// The smallest float that is at least 1/`value`.
fn reciprocal_up(value: f64) -> f64 {
    let quotient = 1.0 / value;
    if quotient.is_finite() && libm::fma(quotient, value, -1.0) < 0.0 { quotient.next_up() } else { quotient }
}
