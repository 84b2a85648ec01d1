//! The budget of a report, split over its questions.

use dither_accounting::Cost;
use dither_core::{Delta, Epsilon, Mechanism};
use dither_mechanisms::PlanMechanism;
use dither_query::Refusal;
use dither_query::error::Code;
use dither_query::explain::{TargetError, solve};
use dither_query::plan::{MechanismChoice, QueryPlan, Shape, price};

use crate::error::Error;

use super::spec::{Question, ReportSpec};

/// The event of all questions, priced together.
pub(crate) fn compose(plans: &[QueryPlan], delta: Delta) -> Result<Cost, Refusal> {
    let mechanism = PlanMechanism { tables: plans.iter().map(|plan| plan.mechanism.clone()).collect() };
    Cost::of(&mechanism.event(), delta).map_err(|error| Refusal::new(Code::Range, error.to_string()))
}

/// Gives every question its share: first those that aim at an error, then the others by weight.
///
/// Shares that add up to the budget always fit it. Where the composition of all questions costs less than the sum of
/// its parts, the shares of the weighted questions grow by a common factor until the whole costs the budget.
pub(super) fn allot(spec: &ReportSpec, shapes: &[Shape]) -> Result<Vec<QueryPlan>, Error> {
    let delta = spec.budget.delta;
    let users = spec.questions.iter().zip(shapes).filter(|(question, shape)| uses_delta(question, shape)).count();
    let each = Delta::from_attos(delta.attos() / users.max(1) as u64)?;
    let delta_of = |question: &Question, shape: &Shape| if uses_delta(question, shape) { each } else { Delta::ZERO };
    let total = spec.budget.epsilon.nanos();
    let mut plans: Vec<Option<QueryPlan>> = vec![None; shapes.len()];
    let mut aimed = 0_u64;
    for ((question, shape), slot) in spec.questions.iter().zip(shapes).zip(&mut plans) {
        let Some(target) = &question.target_error else { continue };
        let refused = |refusal| Error::refused(refusal, &question.sql);
        let target: TargetError = target.parse().map_err(refused)?;
        let delta = delta_of(question, shape);
        let plan = solve(shape, target, delta, question.mechanism, spec.budget.epsilon).map_err(refused)?;
        aimed = aimed.saturating_add(plan.cost().map_err(refused)?.epsilon_nanos);
        *slot = Some(plan);
    }
    let weights: f64 =
        spec.questions.iter().zip(&plans).filter(|(_, plan)| plan.is_none()).map(|(q, _)| weight(q)).sum();
    let left = total.saturating_sub(aimed);
    if aimed > total || (weights > 0.0 && left == 0) {
        let needed = aimed as f64 / Epsilon::NANOS as f64;
        let refusal = Refusal::new(
            Code::TargetError,
            format!("the target errors need epsilon {needed}, the budget has {}", spec.budget.epsilon),
        )
        .hint("raise the budget of the report, or aim at larger errors");
        return Err(Error::refused(refusal, ""));
    }
    let at = |factor: f64| -> Result<Vec<QueryPlan>, Error> {
        let mut filled = Vec::new();
        for ((question, shape), plan) in spec.questions.iter().zip(shapes).zip(&plans) {
            filled.push(match plan {
                Some(plan) => plan.clone(),
                None => {
                    let nanos = (left as f64 * factor * weight(question) / weights).floor() as u64;
                    let delta = delta_of(question, shape);
                    price(shape.clone(), Epsilon::from_nanos(nanos)?, delta, question.mechanism)
                        .map_err(|refusal| Error::refused(refusal, &question.sql))?
                }
            });
        }
        Ok(filled)
    };
    let fits = |plans: &[QueryPlan]| {
        compose(plans, delta).is_ok_and(|cost| cost.epsilon_nanos <= total && cost.delta_attos <= delta.attos())
    };
    let mut best = at(1.0)?;
    if !fits(&best) {
        // A nano-unit of rounding in the parts can push the sum over the edge.
        best = at(1.0 - 1e-6)?;
        if !fits(&best) {
            let refusal = Refusal::new(Code::Range, "the questions do not fit the budget of the report");
            return Err(Error::refused(refusal.hint("raise the budget of the report"), ""));
        }
    }
    if weights == 0.0 {
        return Ok(best);
    }
    let (mut below, mut above) = (1.0, 8.0);
    for _ in 0..14 {
        let factor = f64::midpoint(below, above);
        match at(factor).ok().filter(|plans| fits(plans)) {
            Some(plans) => (below, best) = (factor, plans),
            None => above = factor,
        }
    }
    Ok(best)
}

fn weight(question: &Question) -> f64 {
    question.weight.unwrap_or(1.0)
}

/// Whether a question may use δ: for keys from the data, or for Gaussian noise that was asked for.
fn uses_delta(question: &Question, shape: &Shape) -> bool {
    shape.has_private_keys() || question.mechanism != MechanismChoice::Laplace
}
