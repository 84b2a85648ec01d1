//! The input of a question: a small algebra of tables, every operator of which is *unit-stable*.
//!
//! | operator | what it does |
//! | --- | --- |
//! | [`Relation::Table`] | the rows of a table that have a unit; or all rows, where each is a unit |
//! | [`Relation::Owned`] | the rows of a table, once for each unit that owns the row of another table whose key they hold |
//! | [`Relation::Public`] | the rows of a table about nobody |
//! | [`Relation::Filter`], [`Relation::Project`] | row-local conditions and expressions |
//! | [`Relation::Join`] | pairs of rows of the same unit, or of one that has a unit and one that is public |
//! | [`Relation::PerUnit`] | groups within a unit: counts, exact sums, extremes |
//! | [`Relation::Union`] | the rows of several relations of the same units, each as often as it occurs |
//!
//! # Privacy
//! Write R(D) for the rows of a relation over the database D, and D|u for what a unit u owns in D: its rows in the
//! tables with a unit column, and the rows in other tables whose chain of keys leads to one of these. A relation is
//! *unit-stable* if each of its rows carries one unit, and the rows that carry u are a function of D|u and of public
//! tables alone. Then taking u away takes exactly its rows away and leaves those of all others as they were: contribution
//! bounds that are enforced on the rows of each unit afterwards bound what u can change, as for one table.
//!
//! Every operator keeps this, by induction over the relation:
//!
//! - *Table*: the rows that carry u are those of D|u with u in the unit column, in canonical form. Where units are cut
//!   to calendar periods, u is a pair of a person and a period, both of which follow from the row alone ([`UnitKey`]);
//!   D|u are the person's rows in that period, and nothing below changes.
//! - *Owned*: a row c is there for u if a row of the parent that carries u holds c's key. The parent's rows of u follow
//!   from D|u, and c is in D|u. A row with several owners is there once for each; one with none is not there. Taking
//!   u away takes away its rows in the tables with a unit column, and leaves or takes the rows that nobody else owns:
//!   for every other unit the same rows remain.
//! - *Filter, Project*: what they make of a row depends on the row.
//! - *Join* of two relations with units carries the condition that both units are equal, whatever else the question
//!   asks for, so that the pairs of u, and in a left join the rows of u without a partner, follow from the rows of u on
//!   both sides. A join with a public relation makes of each row what follows from it and public rows. A left join
//!   keeps the rows on its left only, which must be those with the unit.
//! - *PerUnit* groups by the unit and possibly more, so that a group holds rows of one unit only.
//! - *Union*: the rows of u are those of u in all parts.
//!
//! Rows that are units of their own are never joined with each other, grouped or united. A join with a public table must
//! be on a column in which each value occurs once, so that one row stays one row.
//!
//! How many rows a unit has does not matter here; a join may multiply them. It is bounded afterwards.

mod build;
mod stable;
mod unit;

use std::collections::BTreeSet;

use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::Expr;
use dither_core::ValueBounds;

use crate::policy::ColumnType;

pub(crate) use build::{KEY, RANK, UNIT, is_first, scan};
pub use unit::UnitKey;

/// A column of a relation: its name, which no other column of the relation has, and its type.
///
/// Texts are `Utf8` here. A relation of more than a table holds them as `LargeUtf8`, since how many bytes a join or a
/// group holds together depends on the rows.
pub type Field = (String, DataType);

/// The declared type of which a column is; `None` for types that columns do not have.
pub(crate) fn column_type(kind: &DataType) -> Option<ColumnType> {
    Some(match kind {
        kind if kind.is_integer() => ColumnType::Integer,
        kind if kind.is_floating() => ColumnType::Number,
        DataType::Utf8 | DataType::LargeUtf8 => ColumnType::Text,
        DataType::Boolean => ColumnType::Boolean,
        DataType::Date32 => ColumnType::Date,
        DataType::Timestamp(_, None) => ColumnType::Timestamp,
        _ => return None,
    })
}

/// A relation.
#[derive(Debug, Clone, PartialEq)]
pub enum Relation {
    /// A table of people.
    Table {
        /// Its name in the policy.
        name: String,
        /// What the unit of a row is; `None` where each row is one.
        unit: Option<UnitKey>,
        /// The columns of the file.
        columns: Vec<Field>,
    },
    /// A table whose rows belong to the owners of the rows of another one.
    Owned {
        /// Its name in the policy.
        name: String,
        /// The column that holds a key of the other table.
        column: String,
        /// The columns of the file.
        columns: Vec<Field>,
        /// The other table, which may be owned as well.
        parent: Box<Relation>,
        /// The column of the other table that is the key.
        key: String,
    },
    /// A table about nobody.
    Public {
        /// Its name in the policy.
        name: String,
        /// The columns of the file.
        columns: Vec<Field>,
        /// The columns of which each value is read once: of several rows the least, column by column, is kept.
        unique: Vec<String>,
    },
    /// The rows for which a row-local condition holds.
    Filter {
        /// The rows.
        input: Box<Relation>,
        /// The condition.
        condition: Expr,
    },
    /// Row-local expressions.
    Project {
        /// The rows.
        input: Box<Relation>,
        /// What is computed of each, and under which name.
        columns: Vec<(Field, Expr)>,
    },
    /// Pairs of rows. Of two relations at most one is public, or both.
    Join {
        /// The first relation.
        left: Box<Relation>,
        /// The second relation; no column of it has the name of one of the first.
        right: Box<Relation>,
        /// Whether rows of the first without a partner stay, with NULL for the second.
        outer: bool,
        /// Row-local conditions on the pair, all of which must hold.
        on: Vec<Expr>,
        /// Whether both sides have units, which must be the same.
        same_unit: bool,
    },
    /// Groups within each unit.
    PerUnit {
        /// The rows.
        input: Box<Relation>,
        /// What to group by besides the unit, and the unit itself (`None`) where it is shown.
        keys: Vec<(Field, Option<Expr>)>,
        /// What to compute for each group.
        measures: Vec<(Field, UnitMeasure)>,
        /// Whether the keys say no more than the unit does, so that a unit has one group at most.
        single: bool,
    },
    /// The rows of several relations with as many columns of the same types.
    Union {
        /// The relations.
        inputs: Vec<Relation>,
        /// The columns of the union, in the order of those of each.
        columns: Vec<Field>,
    },
}

/// What is computed for one group of rows of one unit.
#[derive(Debug, Clone, PartialEq)]
pub enum UnitMeasure {
    /// The number of rows.
    Rows,
    /// The number of rows for which the expression is not NULL.
    Values(Expr),
    /// The sum of the values, clamped and rounded to their lattice, added up as integers.
    Sum(Expr, ValueBounds),
    /// The exact sum of such values divided by their number; NULL without a value.
    Mean(Expr, ValueBounds),
    /// The least value.
    Least(Expr),
    /// The greatest value.
    Greatest(Expr),
}

/// Whom the rows of a relation belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Each to one unit, which stands in a hidden column.
    Unit,
    /// Each to itself.
    Row,
    /// To nobody.
    Nobody,
}

impl Relation {
    /// Whom the rows belong to.
    pub fn owner(&self) -> Owner {
        match self {
            Self::Table { unit: Some(_), .. } | Self::Owned { .. } => Owner::Unit,
            Self::Table { unit: None, .. } => Owner::Row,
            Self::Public { .. } => Owner::Nobody,
            Self::Filter { input, .. } | Self::Project { input, .. } | Self::PerUnit { input, .. } => input.owner(),
            Self::Join { left, right, .. } => match left.owner() {
                Owner::Nobody => right.owner(),
                owner => owner,
            },
            Self::Union { inputs, .. } => inputs.first().map_or(Owner::Nobody, Self::owner),
        }
    }

    /// The columns, without the hidden one of the unit.
    pub fn columns(&self) -> Vec<Field> {
        match self {
            Self::Table { columns, .. }
            | Self::Owned { columns, .. }
            | Self::Public { columns, .. }
            | Self::Union { columns, .. } => columns.clone(),
            Self::Filter { input, .. } => input.columns(),
            Self::Project { columns, .. } => columns.iter().map(|(field, _)| field.clone()).collect(),
            Self::Join { left, right, .. } => [left.columns(), right.columns()].concat(),
            Self::PerUnit { keys, measures, .. } => {
                let measures = measures.iter().map(|(field, _)| field.clone());
                keys.iter().map(|(field, _)| field.clone()).chain(measures).collect()
            }
        }
    }

    /// The names of all tables that are read, those through which rows are owned included.
    pub fn tables(&self) -> BTreeSet<&str> {
        match self {
            Self::Table { name, .. } | Self::Public { name, .. } => BTreeSet::from([name.as_str()]),
            Self::Owned { name, parent, .. } => {
                let mut tables = parent.tables();
                tables.insert(name);
                tables
            }
            Self::Filter { input, .. } | Self::Project { input, .. } | Self::PerUnit { input, .. } => input.tables(),
            Self::Join { left, right, .. } => left.tables().into_iter().chain(right.tables()).collect(),
            Self::Union { inputs, .. } => inputs.iter().flat_map(Self::tables).collect(),
        }
    }

    /// Whether some rows belong to their units through keys.
    pub fn is_owned(&self) -> bool {
        match self {
            Self::Owned { .. } => true,
            Self::Table { .. } | Self::Public { .. } => false,
            Self::Filter { input, .. } | Self::Project { input, .. } | Self::PerUnit { input, .. } => input.is_owned(),
            Self::Join { left, right, .. } => left.is_owned() || right.is_owned(),
            Self::Union { inputs, .. } => inputs.iter().any(Self::is_owned),
        }
    }

    /// The first table of people, from the left.
    pub fn first_table(&self) -> Option<&str> {
        match self {
            Self::Table { name, .. } | Self::Owned { name, .. } => Some(name),
            Self::Public { .. } => None,
            Self::Filter { input, .. } | Self::Project { input, .. } | Self::PerUnit { input, .. } => {
                input.first_table()
            }
            Self::Join { left, right, .. } => left.first_table().or_else(|| right.first_table()),
            Self::Union { inputs, .. } => inputs.iter().find_map(Self::first_table),
        }
    }

    /// Visits all row-local expressions, with the columns that they are evaluated over.
    pub(crate) fn visit_expressions(&self, visit: &mut impl FnMut(Vec<Field>, Vec<Expr>)) {
        match self {
            Self::Table { .. } | Self::Public { .. } => {}
            Self::Owned { parent, .. } => parent.visit_expressions(visit),
            Self::Filter { input, condition } => {
                input.visit_expressions(visit);
                visit(input.columns(), vec![condition.clone()]);
            }
            Self::Project { input, columns } => {
                input.visit_expressions(visit);
                visit(input.columns(), columns.iter().map(|(_, expr)| expr.clone()).collect());
            }
            Self::Join { left, right, on, .. } => {
                left.visit_expressions(visit);
                right.visit_expressions(visit);
                visit(self.columns(), on.clone());
            }
            Self::PerUnit { input, keys, measures, .. } => {
                input.visit_expressions(visit);
                let keys = keys.iter().filter_map(|(_, key)| key.clone());
                let values = measures.iter().filter_map(|(_, measure)| measure.expr().cloned());
                visit(input.columns(), keys.chain(values).collect());
            }
            Self::Union { inputs, .. } => inputs.iter().for_each(|input| input.visit_expressions(visit)),
        }
    }
}

impl UnitMeasure {
    /// The row-local expression of which something is measured.
    fn expr(&self) -> Option<&Expr> {
        match self {
            Self::Rows => None,
            Self::Values(expr)
            | Self::Sum(expr, _)
            | Self::Mean(expr, _)
            | Self::Least(expr)
            | Self::Greatest(expr) => Some(expr),
        }
    }
}

#[cfg(test)]
mod tests;
