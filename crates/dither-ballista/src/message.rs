//! A plan as the message that carries it: some plans fit none.

use ballista_core::serde::BallistaPhysicalExtensionCodec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::AsExecutionPlan;
use datafusion_proto::protobuf::physical_plan_node::PhysicalPlanType;
use datafusion_proto::protobuf::{CoalescePartitionsExecNode, PhysicalPlanNode};
use dither_query::{Code, Refusal};
use std::sync::Arc;

/// How much deeper the plan over files may be than the one over made-up rows that is tried first, in nodes: a scan of a file
/// carries the expressions by which its columns are read. A node is two levels of a message, of which a reader takes 100.
pub(crate) const SPARE: usize = 10;

/// The longest message that clusters take.
const LONGEST: usize = 16 << 20;

/// Refuses a plan that no scheduler could read, or none with so many more nodes in it.
pub(crate) fn check(plan: &Arc<dyn ExecutionPlan>, spare: usize) -> Result<(), Refusal> {
    let codec = BallistaPhysicalExtensionCodec::default();
    let mut node = PhysicalPlanNode::try_from_physical_plan(Arc::clone(plan), &codec).map_err(|_| {
        Refusal::new(Code::Unsupported, "this question cannot be sent to a cluster").hint("ask without --engine")
    })?;
    for _ in 0..spare {
        let around = CoalescePartitionsExecNode { input: Some(Box::new(node)), fetch: None };
        node = PhysicalPlanNode { physical_plan_type: Some(PhysicalPlanType::Merge(Box::new(around))) };
    }
    let mut bytes = Vec::new();
    let readable = node.try_encode(&mut bytes).is_ok() && PhysicalPlanNode::try_decode(&bytes).is_ok();
    if !readable || bytes.len() > LONGEST {
        let hint = "nest expressions and sub-queries less, list fewer keys, or ask without --engine";
        return Err(Refusal::new(Code::TooLarge, "this question is too large or too deep for a cluster").hint(hint));
    }
    Ok(())
}
