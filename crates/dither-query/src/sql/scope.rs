//! The columns that an expression of a question may use, and what becomes of it over them.

mod aggregate;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef, DataFusionError};
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::{Expr, ExprSchemable, lit, try_cast, when};

use super::calendar;
use super::from::Input;
use super::keys;
use super::lower::type_refusal;
use super::total::{in_words, place_of, total};
use super::width;
use crate::error::{Code, Refusal};
use crate::ir::{Domain, GroupKey};
use crate::policy::ColumnPolicy;

/// The columns that a row-local expression may use.
pub(super) struct Scope {
    /// What is known of each, by its name in the relation.
    known: BTreeMap<String, ColumnPolicy>,
    pub(super) schema: DFSchema,
    /// The computed columns, by name, in terms of those of the file.
    computed: HashMap<String, Expr>,
    /// The names that tables of the policy declare columns under, by those in the relation.
    declared: BTreeMap<String, String>,
    /// The columns that are the privacy unit of their row, or its person where units are cut to periods.
    units: Vec<String>,
    /// Whether units are cut to periods.
    periods: bool,
    /// The planner's columns, and at the same places their names in the relation.
    planned: (DFSchemaRef, Vec<String>),
}

impl Scope {
    pub(super) fn new(input: &Input, planned: &DFSchemaRef) -> Result<Self, Refusal> {
        let columns = &input.columns;
        Ok(Self {
            known: columns.iter().map(|column| (column.name.clone(), column.policy.clone())).collect(),
            schema: Self::schema_of(input)?.as_ref().clone(),
            computed: columns
                .iter()
                .filter_map(|column| Some((column.name.clone(), column.computed.clone()?)))
                .collect(),
            declared: columns
                .iter()
                .filter_map(|column| Some((column.name.clone(), column.declared()?.to_owned())))
                .collect(),
            units: columns.iter().filter(|column| column.unit).map(|column| column.name.clone()).collect(),
            periods: input.root.as_ref().is_some_and(|root| root.period().is_some()),
            planned: (Arc::clone(planned), columns.iter().map(|column| column.name.clone()).collect()),
        })
    }

    /// The columns with their names in the relation.
    pub(super) fn schema_of(input: &Input) -> Result<DFSchemaRef, Refusal> {
        let fields = input.columns.iter().map(|column| Field::new(&column.name, column.kind.clone(), true));
        let schema = DFSchema::try_from(Schema::new(fields.collect::<Vec<_>>()));
        schema.map(Arc::new).map_err(|error| type_refusal(&error))
    }

    /// What is known of every column, by name.
    pub(super) fn columns(&self) -> HashMap<&str, &ColumnPolicy> {
        self.known.iter().map(|(name, policy)| (name.as_str(), policy)).collect()
    }

    /// What is known of an expression that is a column.
    pub(super) fn known(&self, expr: &Expr) -> Option<&ColumnPolicy> {
        match expr {
            Expr::Column(column) => self.known.get(&column.name),
            _ => None,
        }
    }

    pub(super) fn type_of(&self, expr: &Expr) -> Result<DataType, Refusal> {
        expr.get_type(&self.schema).map_err(|error| type_refusal(&error))
    }

    /// The expression in the relation's names of its columns.
    pub(super) fn resolved(&self, expr: Expr) -> Result<Expr, Refusal> {
        let (planned, names) = &self.planned;
        expr.transform_up(|node| {
            Ok(match node {
                Expr::Column(column) => {
                    let place = planned.index_of_column(&column)?;
                    let name = names.get(place).cloned().unwrap_or_default();
                    Transformed::yes(Expr::Column(Column { relation: None, name, spans: column.spans }))
                }
                other => Transformed::no(other),
            })
        })
        .map(|transformed| transformed.data)
        .map_err(|error: DataFusionError| type_refusal(&error))
    }

    /// The expression, resolved already, as a total one.
    pub(super) fn total(&self, expr: Expr) -> Result<Expr, Refusal> {
        total(expr, &self.schema)
    }

    /// A row-local, total expression over the columns of the file.
    pub(super) fn row_local(&self, expr: Expr) -> Result<Expr, Refusal> {
        self.substitute(total(self.resolved(expr)?, &self.schema)?)
    }

    /// Replaces computed columns by their expressions.
    pub(super) fn substitute(&self, expr: Expr) -> Result<Expr, Refusal> {
        let expr = self.replaced(expr)?;
        width::check(&expr, &self.schema)?;
        Ok(expr)
    }

    fn replaced(&self, expr: Expr) -> Result<Expr, Refusal> {
        expr.transform_up(|node| {
            let replacement = match &node {
                Expr::Column(column) => self.computed.get(column.name()),
                _ => None,
            };
            Ok(replacement.map_or_else(|| Transformed::no(node.clone()), |expr| Transformed::yes(expr.clone())))
        })
        .map(|transformed| transformed.data)
        .map_err(|error: DataFusionError| type_refusal(&error))
    }

    pub(super) fn key(&self, expr: Expr) -> Result<GroupKey, Refusal> {
        let name = expr.schema_name().to_string();
        let total = self.key_type(total(self.resolved(expr)?, &self.schema)?)?;
        let kind = total.get_type(&self.schema).map_err(|error| type_refusal(&error))?;
        if self.known(&total).is_some_and(calendar::needs_a_unit) {
            return Err(Refusal::new(Code::Keys, format!("`{name}` holds moments, and the policy lists days"))
                .hint(format!("group by date_trunc('day', {name})"))
                .at(place_of(&total)));
        }
        let domain = keys::domain(&total, &kind, &self.columns());
        if kind.is_floating() && domain == Domain::Private {
            return Err(Refusal::new(Code::Type, format!("`{name}` is a number with a fraction and makes no groups"))
                .hint("group by CAST(FLOOR(x / width) AS BIGINT), or declare `keys`")
                .at(place_of(&total)));
        }
        Ok(GroupKey { expr: self.substitute(total)?, name, kind, domain })
    }

    /// The key in one of the types that keys have; -0.0 and 0.0 are one number.
    pub(super) fn key_type(&self, expr: Expr) -> Result<Expr, Refusal> {
        let kind = expr.get_type(&self.schema).map_err(|error| type_refusal(&error))?;
        Ok(match kind {
            DataType::Int32 | DataType::Int64 | DataType::Boolean | DataType::Utf8 | DataType::Date32 => expr,
            DataType::Timestamp(TimeUnit::Microsecond, None) => expr,
            DataType::Timestamp(TimeUnit::Nanosecond, None) => {
                try_cast(expr, DataType::Timestamp(TimeUnit::Microsecond, None))
            }
            kind if kind.is_integer() => try_cast(expr, DataType::Int64),
            DataType::Float64 | DataType::Float32 => try_cast(expr, DataType::Float64) + lit(0.0),
            kind => {
                return Err(Refusal::new(Code::Type, format!("`{expr}` is {} and makes no groups", in_words(&kind)))
                    .at(place_of(&expr)));
            }
        })
    }

    /// `expr` where the condition of a FILTER clause holds, NULL elsewhere.
    pub(super) fn where_true(&self, expr: Expr, condition: Option<Expr>) -> Result<Expr, Refusal> {
        match condition {
            None => Ok(expr),
            Some(condition) => when(self.row_local(condition)?, expr).end().map_err(|error| type_refusal(&error)),
        }
    }
}

pub(super) fn strip_alias(expr: Expr) -> Expr {
    match expr {
        Expr::Alias(Alias { expr, .. }) => strip_alias(*expr),
        expr => expr,
    }
}
