//! What names mean: a catalog with the declared columns and a closed list of functions, and nothing else.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{Result as DfResult, exec_err};
use datafusion::datasource::empty::EmptyTable;
use datafusion::execution::SessionStateDefaults;
use datafusion::execution::context::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion::prelude::SessionConfig;

use crate::error::{Code, Refusal};
use crate::policy::{Policy, TablePolicy};
use crate::source::arrow_type;

/// The aggregates, by their names in SQL.
pub(super) const AGGREGATES: [&str; 4] = ["count", "sum", "avg", "mean"];

/// Further aggregates within the rows of one unit, which only sub-queries may use.
pub(super) const UNIT_AGGREGATES: [&str; 2] = ["min", "max"];

/// The row-local functions. Each is total once [`total`](super::total) has treated its arguments.
pub(super) const SCALARS: [&str; 23] = [
    CLAMP,
    "abs",
    "btrim",
    "ceil",
    "character_length",
    "coalesce",
    "concat",
    "date_part",
    "date_trunc",
    "ends_with",
    "floor",
    "greatest",
    "least",
    "left",
    "length",
    "lower",
    "ltrim",
    "nullif",
    "round",
    "rtrim",
    "starts_with",
    "substr",
    "upper",
];

/// `clamp(x, lower, upper)`: what `contribution_bounds_per_row` is rewritten to.
pub(super) const CLAMP: &str = "clamp";

/// All columns of a table, those of its file and the computed ones.
pub(super) fn full_schema(table: &TablePolicy) -> Schema {
    Schema::new(
        table
            .columns
            .iter()
            .map(|(name, column)| Field::new(name, arrow_type(column.r#type), true))
            .collect::<Vec<_>>(),
    )
}

/// A planner state that knows the tables of the policy, without their rows.
pub(super) fn state(policy: &Policy) -> Result<SessionState, Refusal> {
    let mut config = SessionConfig::new().with_information_schema(false);
    let options = &mut config.options_mut().sql_parser;
    options.collect_spans = true;
    options.enable_ident_normalization = false;
    options.map_string_types_to_utf8view = false;
    let scalars = datafusion::functions::all_default_functions()
        .into_iter()
        .filter(|function| SCALARS.contains(&function.name()))
        .chain([Arc::new(ScalarUDF::from(Clamp::new()))])
        .collect();
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_scalar_functions(scalars)
        .with_aggregate_functions(vec![count_udaf(), sum_udaf(), avg_udaf(), min_udaf(), max_udaf()])
        .with_expr_planners(SessionStateDefaults::default_expr_planners())
        .build();
    for name in policy.tables.keys().chain(policy.public.keys()) {
        let Some(table) = policy.readable(name) else { continue };
        let provider = Arc::new(EmptyTable::new(Arc::new(full_schema(&table))));
        state
            .schema_for_ref(datafusion::common::TableReference::bare(name.clone()))
            .and_then(|schema| schema.register_table(name.clone(), provider))
            .map_err(|_| Refusal::new(Code::UnknownTable, format!("the table `{name}` cannot be registered")))?;
    }
    Ok(state)
}

/// The planner's view of `clamp`. It is always rewritten before anything runs.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Clamp {
    signature: Signature,
}

impl Clamp {
    fn new() -> Self {
        let numbers = vec![DataType::Float64, DataType::Float64, DataType::Float64];
        Self { signature: Signature::exact(numbers, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Clamp {
    fn name(&self) -> &str {
        CLAMP
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Float64)
    }
    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        exec_err!("clamp is rewritten before execution")
    }
}
