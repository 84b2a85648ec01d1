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
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::prelude::SessionConfig;

use crate::error::{Code, Refusal};
use crate::policy::{Policy, TablePolicy};
use crate::source::arrow_type;

/// The aggregates, by their names in SQL.
pub(super) const AGGREGATES: [&str; 17] = [
    "count",
    "sum",
    "avg",
    "mean",
    "var_pop",
    "var_samp",
    "variance",
    "stddev_pop",
    "stddev_samp",
    "stddev",
    "covar_pop",
    "covar_samp",
    "corr",
    "median",
    "percentile_cont",
    "min",
    "max",
];

/// Those that are ours alone: their names, other names, and how many arguments they take.
const STATISTICS: [(&str, &[&str], usize); 11] = [
    ("var_pop", &[], 1),
    ("var_samp", &["variance"], 1),
    ("stddev_pop", &[], 1),
    ("stddev_samp", &["stddev"], 1),
    ("covar_pop", &[], 2),
    ("covar_samp", &[], 2),
    ("corr", &[], 2),
    ("median", &[], 1),
    ("percentile_cont", &[], 2),
    ("min", &[], 1),
    ("max", &[], 1),
];

/// Further aggregates within the rows of one unit, which only sub-queries may use.
pub(super) const UNIT_AGGREGATES: [&str; 2] = ["min", "max"];

/// The row-local functions. Each is total once [`total`](super::total) has treated its arguments.
pub(super) const SCALARS: [&str; 24] = [
    BUCKET,
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

/// `bucket(x, e1, …, en)`: which of the ranges between constant edges a number lies in, as a text.
pub(super) const BUCKET: &str = "bucket";

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
        .chain([
            Rewritten::function(
                CLAMP,
                Signature::exact(vec![DataType::Float64; 3], Volatility::Immutable),
                DataType::Float64,
            ),
            Rewritten::function(BUCKET, Signature::variadic_any(Volatility::Immutable), DataType::Utf8),
        ])
        .collect();
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_scalar_functions(scalars)
        .with_aggregate_functions([count_udaf(), sum_udaf(), avg_udaf()].into_iter().chain(statistics()).collect())
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

/// The planner's view of a function of ours. It is always rewritten before anything runs.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Rewritten {
    name: &'static str,
    signature: Signature,
    returns: DataType,
}

impl Rewritten {
    fn function(name: &'static str, signature: Signature, returns: DataType) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::from(Self { name, signature, returns }))
    }
}

impl ScalarUDFImpl for Rewritten {
    fn name(&self) -> &str {
        self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.returns.clone())
    }
    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        exec_err!("{} is rewritten before execution", self.name)
    }
}

fn statistics() -> impl Iterator<Item = Arc<AggregateUDF>> {
    STATISTICS.into_iter().map(|(name, aliases, arguments)| {
        Arc::new(AggregateUDF::from(Statistic {
            name,
            aliases: aliases.iter().map(ToString::to_string).collect(),
            // What the arguments are is for `lower` to say.
            signature: Signature::any(arguments, Volatility::Immutable),
        }))
    })
}

/// The planner's view of an aggregate that is not run by the engine: it follows from integers that are.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Statistic {
    name: &'static str,
    aliases: Vec<String>,
    signature: Signature,
}

impl AggregateUDFImpl for Statistic {
    fn name(&self) -> &str {
        self.name
    }
    fn aliases(&self) -> &[String] {
        &self.aliases
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn return_type(&self, arguments: &[DataType]) -> DfResult<DataType> {
        // Within a unit the extremes of days are days.
        Ok(match (self.name, arguments) {
            ("min" | "max", [kind]) => kind.clone(),
            _ => DataType::Float64,
        })
    }
    fn accumulator(&self, _: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        exec_err!("{} is measured, not run", self.name)
    }
}
