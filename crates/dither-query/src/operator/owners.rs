//! Units of rows that belong to somebody through a key are looked up rather than joined.
//!
//! The portable plan joins rows with the different pairs of unit and key of their owners. Where every key has one owner,
//! looking it up gives the same rows, holds each pair once, and leaves the rows where they are read.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt64Array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{ExprSchema, JoinType, exec_datafusion_err};
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Distinct, Expr, Join, LogicalPlan, LogicalPlanBuilder, Operator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::{DataFrame, SessionContext};
use dither_bounding::{Owners, Pairs};
use futures::StreamExt;
use futures::future::try_join_all;

use super::keys::Numbers;
use crate::relation::{KEY, UNIT};

/// The plan with a lookup in the place of a join with owners, if it is one, all keys have one owner, and there is memory for
/// them.
///
/// # Errors
/// What reading the table of the owners fails with.
pub(super) async fn looked_up(context: &SessionContext, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let Some(owned) = Owned::of(plan) else { return Ok(None) };
    Lookup::read(context, owned.owners).await?.map(|lookup| owned.looked_up(lookup)).transpose()
}

/// A join of rows with their owners, as [`Relation::Owned`](crate::relation::Relation::Owned) builds it.
struct Owned<'a> {
    rows: &'a LogicalPlan,
    /// The column of the rows that holds a key.
    holds: &'a Expr,
    /// Pairs of unit and key, each perhaps several times.
    owners: &'a LogicalPlan,
}

impl<'a> Owned<'a> {
    fn of(plan: &'a LogicalPlan) -> Option<Self> {
        let LogicalPlan::Join(Join { left, right, filter: Some(filter), on, join_type: JoinType::Inner, .. }) = plan
        else {
            return None;
        };
        let LogicalPlan::Distinct(Distinct::All(owners)) = right.as_ref() else { return None };
        let Expr::BinaryExpr(BinaryExpr { left: holds, op: Operator::Eq, right: key }) = filter else { return None };
        let names = owners.schema().fields().iter().map(|field| field.name().as_str());
        let whole = |expr: &Expr, plan: &LogicalPlan| match expr {
            Expr::Column(column) => plan.schema().data_type(column).is_ok_and(|kind| *kind == DataType::Int64),
            _ => false,
        };
        let known = on.is_empty() && names.eq([UNIT, KEY]) && whole(holds, left) && whole(key, owners);
        known.then_some(Self { rows: left, holds, owners })
    }

    /// The rows with their unit and key, as the join has them.
    fn looked_up(&self, lookup: Lookup) -> Result<LogicalPlan> {
        let unit = ScalarUDF::new_from_impl(lookup).call(vec![self.holds.clone()]).alias(UNIT);
        let rows = self.rows.schema().columns().into_iter().map(Expr::Column);
        let columns = rows.chain([unit, self.holds.clone().alias(KEY)]);
        let found = LogicalPlanBuilder::from(self.rows.clone()).project(columns.collect::<Vec<_>>())?;
        found.filter(is_owned())?.build()
    }
}

/// Whether somebody owns a row.
pub(super) fn is_owned() -> Expr {
    crate::bound::column(UNIT).is_not_null()
}

/// Gives each key its unit, and NULL to a key that nobody owns.
struct Lookup {
    signature: Signature,
    kind: DataType,
    owners: Owners,
    /// The units by number, unless they are integers.
    units: Option<ArrayRef>,
    /// Keeps the owners accounted for as long as they are there.
    _reservation: MemoryReservation,
}

impl Lookup {
    /// Reads pairs of unit and key; `None` where a key has several units, or where the memory is too small.
    async fn read(context: &SessionContext, owners: &LogicalPlan) -> Result<Option<Self>> {
        let kind = owners.schema().field(0).data_type().clone();
        let environment = context.task_ctx();
        // Part by part: keys that are in order in a file stay in order, and are sorted quickly.
        let parts = DataFrame::new(context.state(), owners.clone()).execute_stream_partitioned().await?;
        let parts = parts.into_iter().map(|part| {
            let reservation = MemoryConsumer::new("owners").register(environment.memory_pool());
            SpawnedTask::spawn(Part::read(part, kind.clone(), reservation))
        });
        let parts = try_join_all(parts.collect::<Vec<_>>()).await.map_err(|error| exec_datafusion_err!("{error}"))?;
        let Some(parts) = parts.into_iter().collect::<Result<Option<Vec<Part>>>>()? else { return Ok(None) };
        let Some((mut all, rest)) = split(parts) else { return Ok(None) };
        for part in rest {
            if !all.append(part)? {
                return Ok(None);
            }
        }
        let Part { pairs, numbers, reservation } = all;
        let units = numbers.map(Numbers::into_values).transpose()?.and_then(|mut values| values.pop());
        let signature = Signature::exact(vec![DataType::Int64], Volatility::Volatile);
        let Some(owners) = Owners::new(pairs) else { return Ok(None) };
        reservation.resize(owners.size() + units.as_ref().map_or(0, |units| units.get_array_memory_size()));
        Ok(Some(Self { signature, kind, owners, units, _reservation: reservation }))
    }
}

/// The first one and the others.
fn split(mut parts: Vec<Part>) -> Option<(Part, Vec<Part>)> {
    let rest = parts.split_off(parts.len().min(1));
    Some((parts.pop()?, rest))
}

/// The pairs of a part of the owners.
struct Part {
    pairs: Pairs,
    /// The numbers of units that are not integers.
    numbers: Option<Numbers>,
    reservation: MemoryReservation,
}

impl Part {
    /// Reads a part; `None` where the memory is too small.
    async fn read(
        mut rows: SendableRecordBatchStream,
        kind: DataType,
        reservation: MemoryReservation,
    ) -> Result<Option<Self>> {
        let numbers = (kind != DataType::Int64).then(|| Numbers::of_type(&kind)).transpose()?;
        let mut part = Self { pairs: Pairs::default(), numbers, reservation };
        while let Some(batch) = rows.next().await {
            add(&batch?, &mut part.numbers, &mut part.pairs)?;
            if !part.fits() {
                return Ok(None);
            }
        }
        Ok(Some(part))
    }

    /// Whether there is memory for what is read.
    fn fits(&self) -> bool {
        let bytes = Owners::bytes(&self.pairs) + self.numbers.as_ref().map_or(0, Numbers::size);
        self.reservation.try_resize(bytes).is_ok()
    }

    /// Adds the pairs of another part, whose units have other numbers; says whether they fit the memory.
    fn append(&mut self, other: Self) -> Result<bool> {
        let mut renamed = Vec::new();
        if let (Some(numbers), Some(others)) = (&mut self.numbers, other.numbers) {
            numbers.number(&others.into_values()?, &mut renamed)?;
        }
        drop(other.reservation);
        self.pairs.append(other.pairs, |unit| renamed.get(unit as usize).map_or(unit, |unit| u64::from(*unit)));
        Ok(self.fits())
    }
}

/// Adds the pairs of a batch; units that are not integers by their number.
fn add(batch: &RecordBatch, numbers: &mut Option<Numbers>, pairs: &mut Pairs) -> Result<()> {
    let (units, keys) = (batch.column(0), batch.column(1).as_primitive::<Int64Type>());
    let mut numbered = Vec::new();
    if let Some(numbers) = numbers {
        numbers.number(std::slice::from_ref(units), &mut numbered)?;
    }
    let present = (0..batch.num_rows()).filter(|row| units.is_valid(*row) && keys.is_valid(*row));
    match (numbers, units.as_primitive_opt::<Int64Type>()) {
        (Some(_), _) => pairs.extend(present.map(|row| (keys.value(row), numbered[row].into()))),
        (None, Some(integers)) if integers.null_count() + keys.null_count() == 0 => {
            let units = integers.values().iter().map(|unit| *unit as u64);
            pairs.extend(keys.values().iter().copied().zip(units));
        }
        (None, Some(integers)) => pairs.extend(present.map(|row| (keys.value(row), integers.value(row) as u64))),
        (None, None) => return Err(exec_datafusion_err!("a unit is neither numbered nor an integer")),
    }
    Ok(())
}

/// What it holds comes from rows, and is not shown.
impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Two lookups are one if they are the same one: what they hold is not compared.
impl PartialEq for Lookup {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Lookup {}

impl Hash for Lookup {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::hash(self, state);
    }
}

impl ScalarUDFImpl for Lookup {
    fn name(&self) -> &str {
        "owner"
    }

    /// Not to be moved or repeated: where it stands it is called once for each row.
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.kind.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let keys = args.args.first().ok_or_else(|| exec_datafusion_err!("a key is missing"))?;
        let keys = keys.to_array(args.number_rows)?;
        let found = keys.as_primitive::<Int64Type>().iter().map(|key| self.owners.of(key?));
        let units: ArrayRef = match &self.units {
            None => Arc::new(found.map(|unit| unit.map(|unit| unit as i64)).collect::<Int64Array>()),
            Some(units) => take(units, &found.collect::<UInt64Array>(), None)?,
        };
        Ok(ColumnarValue::Array(units))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use datafusion::arrow::array::StringArray;
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::datasource::MemTable;

    use super::super::rewrite::rewritten;
    use crate::relation::{Relation, UnitKey};
    use crate::source::{Table, Tables};

    fn table(columns: Vec<(&str, ArrayRef)>) -> Table {
        let fields = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let arrays = columns.iter().map(|(_, array)| Arc::clone(array)).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).unwrap();
        Arc::new(MemTable::try_new(schema, vec![vec![batch]]).unwrap())
    }

    fn integers(values: &[Option<i64>]) -> ArrayRef {
        Arc::new(values.iter().copied().collect::<Int64Array>())
    }

    /// Lines of orders of people; whether units are texts, and whether one order has two owners.
    fn tables(texts: bool, shared: bool) -> Tables {
        let last = if shared { 1 } else { 2 };
        let keys = integers(&[Some(1), Some(2), Some(2), None, Some(last)]);
        let owners: ArrayRef = match texts {
            true => Arc::new(StringArray::from(vec![Some("ann"), Some("bob"), Some("Bob "), Some("eve"), Some("bob")])),
            false => integers(&[Some(7), Some(8), Some(8), Some(9), Some(8)]),
        };
        let lines = integers(&[Some(2), Some(1), Some(3), None, Some(2)]);
        let values = integers(&[Some(10), Some(20), Some(30), Some(40), Some(50)]);
        BTreeMap::from([
            ("orders".to_owned(), table(vec![("key", keys), ("person", owners)])),
            ("lines".to_owned(), table(vec![("order", lines), ("value", values)])),
        ])
    }

    fn owned(texts: bool) -> Relation {
        let kind = if texts { DataType::Utf8 } else { DataType::Int64 };
        let field = |name: &str, kind: &DataType| (name.to_owned(), kind.clone());
        let orders = Relation::Table {
            name: "orders".into(),
            unit: Some(UnitKey { column: field("person", &kind), period: None }),
            columns: vec![field("key", &DataType::Int64), field("person", &kind)],
        };
        Relation::Owned {
            name: "lines".into(),
            column: "order".into(),
            columns: vec![field("order", &DataType::Int64), field("value", &DataType::Int64)],
            parent: Box::new(orders),
            key: "key".into(),
        }
    }

    async fn rows(context: &SessionContext, plan: LogicalPlan) -> Vec<String> {
        let batches = DataFrame::new(context.state(), plan).collect().await.unwrap();
        let text = datafusion::arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    #[tokio::test]
    async fn owners_are_looked_up_unless_a_key_has_several() {
        let context = SessionContext::new();
        for (texts, shared) in [(false, false), (true, false), (false, true), (true, true)] {
            let plan = owned(texts).build(&tables(texts, shared)).unwrap().build().unwrap();
            let joins = |plan: &LogicalPlan| plan.display_indent().to_string().matches("Join").count();
            let quick = rewritten(&context, plan.clone(), &mut Vec::new()).await.unwrap();
            assert_eq!((joins(&plan), joins(&quick)), (1, usize::from(shared)));
            assert_eq!(plan.schema().fields(), quick.schema().fields());
            let expected = rows(&context, plan).await;
            assert_eq!(expected.len(), if shared { 8 } else { 7 }, "{expected:#?}");
            assert_eq!(rows(&context, quick).await, expected);
        }
    }

    #[tokio::test]
    async fn without_memory_for_the_owners_the_join_stays() {
        let pool = datafusion::execution::memory_pool::GreedyMemoryPool::new(16);
        let runtime = datafusion::execution::runtime_env::RuntimeEnvBuilder::new().with_memory_pool(Arc::new(pool));
        let config = datafusion::prelude::SessionConfig::new();
        let context = SessionContext::new_with_config_rt(config, runtime.build_arc().unwrap());
        let plan = owned(false).build(&tables(false, false)).unwrap().build().unwrap();
        assert_eq!(rewritten(&context, plan.clone(), &mut Vec::new()).await.unwrap(), plan);
    }
}
