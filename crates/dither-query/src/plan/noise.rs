//! Which noise a question gets, and how much of it.

use dither_accounting::Cost;
use dither_accounting::calibrate::gaussian_variance;
use dither_core::{Delta, Epsilon, L2Sensitivity, Mechanism, Ratio};
use dither_mechanisms::{Block, Gaussian, KeyRule, Laplace, Noise, TableMechanism};

use super::shares::{BOUNDS, EVEN, lowest_terms, split};
use super::{MechanismChoice, QueryPlan, Shape, keys, range, too_wide, top};
use crate::error::{Code, Refusal};
use crate::ir::Domain;

/// Fixes the noise of a question for an ε and a δ.
///
/// # Errors
/// A [`Refusal`] where δ is missing or the amounts leave the range of exact arithmetic.
pub fn price(shape: Shape, epsilon: Epsilon, delta: Delta, choice: MechanismChoice) -> Result<QueryPlan, Refusal> {
    if shape.has_private_keys() && delta.is_zero() {
        let names: Vec<_> = shape.question.keys.iter().filter(|key| key.domain == Domain::Private).collect();
        let name = names.first().map_or("", |key| key.name.as_str());
        return Err(Refusal::new(
            Code::MissingDelta,
            format!("the keys of `{name}` come from the data, which needs delta > 0"),
        )
        .hint("add --delta 1e-6, set `delta_per_query`, or declare `keys` of the column in the policy"));
    }
    let noise = noised(shape, epsilon, delta, choice)?;
    let chosen = if choice == MechanismChoice::Auto { top::instead_of(&noise, epsilon) } else { None };
    Ok(chosen.unwrap_or(noise))
}

/// Laplace noise may be wider by this factor before Gaussian noise, which spends δ as well, is taken.
const WORTH_DELTA: f64 = 1.02;

/// Fixes the noise, or that of the kind with the smaller error.
fn noised(shape: Shape, epsilon: Epsilon, delta: Delta, choice: MechanismChoice) -> Result<QueryPlan, Refusal> {
    match choice {
        _ if shape.measures.is_empty() => laplace(shape, epsilon, delta, String::new()),
        MechanismChoice::Laplace => laplace(shape, epsilon, delta, "as asked".into()),
        MechanismChoice::Gaussian if delta.is_zero() => {
            Err(Refusal::new(Code::MissingDelta, "Gaussian noise needs delta > 0")
                .hint("add --delta 1e-6, or set `delta_per_query` in the policy"))
        }
        MechanismChoice::Gaussian => gaussian(shape, epsilon, delta, "as asked".into()),
        MechanismChoice::Auto if delta.is_zero() => laplace(shape, epsilon, delta, "delta is 0".into()),
        MechanismChoice::Auto => {
            let exact = laplace(shape.clone(), epsilon, delta, String::new())?;
            let normal = gaussian(shape, epsilon, delta, String::new())?;
            let (a, b) = (exact.deviation(), normal.deviation());
            let little = a <= WORTH_DELTA * b;
            let (mut best, other, ratio) = if little { (exact, "Gaussian", b / a) } else { (normal, "Laplace", a / b) };
            best.why = format!("{other} noise would be {ratio:.2} times as wide");
            Ok(best)
        }
    }
}

impl QueryPlan {
    /// The geometric mean of the standard deviations of all blocks, each in its own steps.
    fn deviation(&self) -> f64 {
        let selected = match &self.mechanism.keys {
            KeyRule::Threshold(rule) if rule.releases_counts() => Some(rule.noise().standard_deviation()),
            _ => None,
        };
        let blocks = self.mechanism.blocks.iter().map(|block| block.noise.standard_deviation());
        let logs: Vec<f64> = blocks.chain(selected).map(f64::ln).collect();
        (logs.iter().sum::<f64>() / logs.len() as f64).exp()
    }
}

/// The weights of what is measured, then of quantiles, bounds that are found and the selection of keys, which has that of a count as well where
/// it is one.
fn weights(shape: &Shape, power: f64) -> Vec<u64> {
    let selection = shape.has_private_keys().then_some(if shape.counts_by_selection() { 2 * EVEN } else { EVEN });
    let quantiles = std::iter::repeat_n(EVEN, shape.ranks.len());
    let found = std::iter::repeat_n(BOUNDS, shape.found.len());
    shape.weights(power).into_iter().chain(quantiles).chain(found).chain(selection).collect()
}

fn laplace(shape: Shape, epsilon: Epsilon, delta: Delta, why: String) -> Result<QueryPlan, Refusal> {
    let shares = split(epsilon, &weights(&shape, 1.0 / 2.0))?;
    let quantiles = shape.quantiles(&shares[shape.measures.len()..])?;
    let found = shape.found_bounds(&shares[shape.measures.len() + shape.ranks.len()..])?;
    let blocks = shape
        .measures
        .iter()
        .zip(&shares)
        .map(|(measure, share)| {
            let (l1, _) = shape.sensitivity(measure).ok_or_else(too_wide)?;
            let noise = Laplace::for_epsilon(l1, *share).map_err(|error| range(&error))?;
            Ok(Block { width: measure.width(), noise: Noise::Laplace(noise) })
        })
        .collect::<Result<_, Refusal>>()?;
    let (keys, why_keys) = keys::rule(&shape, shares.last().copied(), delta)?;
    // Laplace noise on public keys uses no δ at all.
    let delta = if !shape.has_private_keys() { Delta::ZERO } else { delta };
    Ok(QueryPlan { shape, mechanism: TableMechanism { blocks, quantiles, found, keys }, why, why_keys, shares, delta })
}

fn gaussian(shape: Shape, epsilon: Epsilon, delta: Delta, why: String) -> Result<QueryPlan, Refusal> {
    let selection = usize::from(shape.has_private_keys());
    let mut shares = split(epsilon, &weights(&shape, 2.0 / 3.0))?;
    let chosen = &shares[shape.measures.len()..];
    let quantiles = shape.quantiles(chosen)?;
    let found = shape.found_bounds(&chosen[shape.ranks.len()..])?;
    // What is left of ε is for the noise.
    let mut nanos = epsilon.nanos() - chosen.iter().map(|share| share.nanos()).sum::<u64>();
    // Half of δ is for the keys where keys are selected, the rest for the noise.
    let for_keys = if selection == 0 { 0 } else { delta.attos() / 2 };
    let for_noise = Delta::from_attos(delta.attos() - for_keys).map_err(|error| range(&error))?;
    let for_keys = Delta::from_attos(for_keys).map_err(|error| range(&error))?;
    let selection_share = if selection == 0 { None } else { shares.last().copied() };
    let (keys, why_keys) = keys::rule(&shape, selection_share, for_keys)?;
    // The blocks are one Gaussian vector: each gets its part of the squared ratio of sensitivity to noise.
    let weights = lowest_terms(shape.weights(2.0 / 3.0));
    let total: u64 = weights.iter().sum();
    let coordinates = shape.measures.iter().map(|measure| shape.coordinates(measure)).sum();
    for _ in 0..8 {
        let together = Epsilon::from_nanos(nanos).map_err(|error| range(&error))?;
        let blocks = shape
            .measures
            .iter()
            .zip(&weights)
            .map(|(measure, weight)| {
                let (_, l2) = shape.sensitivity(measure).ok_or_else(too_wide)?;
                let whole =
                    l2.squared().checked_mul(total.into()).map(L2Sensitivity::from_squared).ok_or_else(too_wide)?;
                let variance = gaussian_variance(whole, coordinates, together, for_noise).map_err(|e| range(&e))?;
                // Variances are in proportion to squared sensitivities; the price of all blocks is computed below.
                let part = variance.numerator().div_ceil(u128::from(*weight));
                let variance = Ratio::new(part, variance.denominator()).ok_or_else(too_wide)?;
                let noise = Gaussian::new(l2, variance, shape.coordinates(measure));
                Ok(Block { width: measure.width(), noise: Noise::Gaussian(noise.map_err(|error| range(&error))?) })
            })
            .collect::<Result<_, Refusal>>()?;
        let mechanism = TableMechanism { blocks, quantiles: quantiles.clone(), found: found.clone(), keys };
        let cost = Cost::of(&mechanism.event(), delta).map_err(|error| range(&error))?;
        if cost.epsilon_nanos <= epsilon.nanos() {
            shares[..shape.measures.len()].clone_from_slice(&split(together, &weights)?);
            return Ok(QueryPlan { shape, mechanism, why, why_keys, shares, delta });
        }
        // Rounding of the parts can add a nano-unit or two; ask for a little less.
        nanos = nanos.saturating_sub(2 * (cost.epsilon_nanos - epsilon.nanos())).max(1);
    }
    Err(Refusal::new(Code::Range, "no Gaussian noise fits this epsilon and delta").hint("use --mechanism laplace"))
}
