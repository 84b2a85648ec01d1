//! What this process does in another way than the portable plan, where the rows allow it.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;

use super::{owners, unique};

/// The plan without the filter of rows that nobody owns, if what comes after it looks at single rows: the reader drops them.
///
/// # Errors
/// None that a plan that was built before gives cause to.
pub(super) fn with_unowned(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Filter(filter) if filter.predicate == owners::is_owned() => Ok(Arc::unwrap_or_clone(filter.input)),
        LogicalPlan::Filter(_) | LogicalPlan::Projection(_) => {
            let inputs = plan.inputs().into_iter().map(|input| with_unowned(input.clone()));
            let inputs = inputs.collect::<Result<Vec<_>>>()?;
            plan.with_new_exprs(plan.expressions(), inputs)
        }
        _ => Ok(plan),
    }
}

/// A plan of the same rows: owners are looked up, and rows of public tables are not ranked. What is held for it is added to
/// the reservations.
///
/// # Errors
/// What reading the tables of owners, and public ones, fails with.
pub(super) async fn rewritten(
    context: &SessionContext,
    plan: LogicalPlan,
    held: &mut Vec<MemoryReservation>,
) -> Result<LogicalPlan> {
    // Those below first: owners may be owned themselves.
    let before: Vec<LogicalPlan> = plan.inputs().into_iter().cloned().collect();
    let mut inputs = Vec::with_capacity(before.len());
    for input in &before {
        inputs.push(Box::pin(rewritten(context, input.clone(), held)).await?);
    }
    let plan = if inputs == before { plan } else { plan.with_new_exprs(plan.expressions(), inputs)? };
    if let Some(looked_up) = owners::looked_up(context, &plan).await? {
        return Ok(looked_up);
    }
    Ok(unique::unranked(context, &plan, held).await?.unwrap_or(plan))
}
