//! Public tables whose unique columns are unique are read as they are.
//!
//! The portable plan sorts a public table and numbers its rows, so that of several with one key the same one is met
//! everywhere. In this process the table is read first; where each key has one row, which the rows show and nobody has to
//! promise, all of them are the first, and filters reach them before a join does.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, ExprSchema};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::prelude::{DataFrame, SessionContext};
use futures::StreamExt;

use super::keys::Numbers;
use crate::relation::{RANK, is_first};

/// The plan without the choice of a row for each key, where it is one and there is nothing to choose; `None` otherwise, and
/// where there is no memory for the table. What is held is added to the reservations.
///
/// # Errors
/// What reading the table fails with.
pub(super) async fn unranked(
    context: &SessionContext,
    plan: &LogicalPlan,
    held: &mut Vec<MemoryReservation>,
) -> Result<Option<LogicalPlan>> {
    let Some((rows, key)) = ranked(plan) else { return Ok(None) };
    let mut numbers = Numbers::of_type(rows.schema().data_type(key)?)?;
    let reservation = MemoryConsumer::new("public").register(context.task_ctx().memory_pool());
    let mut stream = DataFrame::new(context.state(), rows.clone()).execute_stream().await?;
    let schema = stream.schema();
    let place = schema.index_of(&key.name)?;
    let mut batches: Vec<RecordBatch> = Vec::new();
    let (mut numbered, mut different, mut bytes) = (Vec::new(), 0, 0);
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        numbers.number(&[Arc::clone(batch.column(place))], &mut numbered)?;
        different += batch.num_rows();
        bytes += batch.get_array_memory_size();
        batches.push(batch);
        if numbers.len() < different || reservation.try_resize(bytes + numbers.size()).is_err() {
            return Ok(None);
        }
    }
    reservation.resize(bytes);
    held.push(reservation);
    let parts = context.state().config().target_partitions();
    let share = batches.len().div_ceil(parts).max(1);
    let mut parts: Vec<Vec<RecordBatch>> = batches.chunks(share).map(<[RecordBatch]>::to_vec).collect();
    if parts.is_empty() {
        parts.push(Vec::new());
    }
    let table = Arc::new(MemTable::try_new(schema, parts)?);
    let columns = rows.schema().columns().into_iter().map(|column| Expr::Column(Column::from_name(column.name)));
    let scan = LogicalPlanBuilder::scan("public", provider_as_source(table), None)?;
    // Named as they were, without the name of the table.
    let names = columns.map(|column| column.clone().alias(column.qualified_name().1));
    scan.project(names.chain([lit(1_u64).alias(RANK)]))?.build().map(Some)
}

/// The rows of which the first for each key is kept, and the key, if the plan is that of
/// [`Relation::Public`](crate::relation::Relation::Public) and its key is one that is equal where its bits are.
fn ranked(plan: &LogicalPlan) -> Option<(&LogicalPlan, &Column)> {
    let LogicalPlan::Filter(filter) = plan else { return None };
    let LogicalPlan::Window(window) = filter.input.as_ref() else { return None };
    let [Expr::Alias(rank)] = window.window_expr.as_slice() else { return None };
    let Expr::WindowFunction(function) = rank.expr.as_ref() else { return None };
    let [Expr::Column(key)] = function.params.partition_by.as_slice() else { return None };
    let rows = window.input.as_ref();
    let plain = rows.schema().columns().iter().all(|column| column.relation.is_none());
    let kind = rows.schema().data_type(key).ok()?;
    let whole = matches!(kind, DataType::Int64 | DataType::Utf8 | DataType::LargeUtf8);
    (filter.predicate == is_first() && plain && whole).then_some((rows, key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use datafusion::arrow::array::{ArrayRef, Int64Array};
    use datafusion::arrow::datatypes::{Field, Schema};

    use crate::relation::Relation;
    use crate::source::{Table, Tables};

    fn tables(keys: &[Option<i64>]) -> Tables {
        let keys: ArrayRef = Arc::new(keys.iter().copied().collect::<Int64Array>());
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(10..10 + keys.len() as i64));
        let field = |name| Field::new(name, DataType::Int64, true);
        let schema = Arc::new(Schema::new(vec![field("key"), field("value")]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![keys, values]).unwrap();
        let table: Table = Arc::new(MemTable::try_new(schema, vec![vec![batch]]).unwrap());
        BTreeMap::from([("public".to_owned(), table)])
    }

    async fn rows(context: &SessionContext, plan: LogicalPlan) -> String {
        let frame = DataFrame::new(context.state(), plan).sort_by(vec![datafusion::prelude::col("value")]).unwrap();
        let batches = frame.collect().await.unwrap();
        datafusion::arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string()
    }

    #[tokio::test]
    async fn keys_that_are_unique_need_no_choice_and_others_keep_it() {
        let context = SessionContext::new();
        let field = |name: &str| (name.to_owned(), DataType::Int64);
        let columns = vec![field("key"), field("value")];
        let relation = Relation::Public { name: "public".into(), columns, unique: vec!["key".into()] };
        for (keys, choice) in [
            (vec![Some(3), Some(1), None], false),
            (vec![Some(3), Some(1), Some(3)], true),
            (vec![None, Some(1), None], true),
            (Vec::new(), false),
        ] {
            let plan = relation.build(&tables(&keys)).unwrap().build().unwrap();
            let quick = super::super::rewrite::rewritten(&context, plan.clone(), &mut Vec::new()).await.unwrap();
            assert_eq!(quick.display_indent().to_string().contains("WindowAggr"), choice, "{keys:?}");
            assert_eq!(plan.schema().fields(), quick.schema().fields());
            assert_eq!(rows(&context, quick).await, rows(&context, plan).await, "{keys:?}");
        }
    }
}
