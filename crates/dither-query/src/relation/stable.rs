//! What follows from a relation alone: that it is unit-stable, how many rows a unit can have, what sizes are public.

use std::collections::BTreeSet;

use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::common::DFSchema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

use super::{Owner, Relation};
use crate::policy::{Policy, PublicFacts};

impl Relation {
    /// Whether every operator is used as the proof requires. A question is refused otherwise, whatever led to it.
    ///
    /// That tables protect the same people is the policy's to say: it stands in no relation.
    pub fn is_unit_stable(&self) -> bool {
        match self {
            Self::Table { .. } | Self::Public { .. } => true,
            Self::Owned { parent, .. } => parent.owner() == Owner::Unit && parent.is_unit_stable(),
            Self::Filter { input, .. } | Self::Project { input, .. } => input.is_unit_stable(),
            Self::Join { left, right, outer, same_unit, .. } => {
                let stable = match (left.owner(), right.owner()) {
                    (Owner::Unit, Owner::Unit) => *same_unit,
                    (Owner::Unit | Owner::Nobody, Owner::Nobody) => !same_unit,
                    (Owner::Nobody, Owner::Unit) => !same_unit && !outer,
                    (Owner::Row, Owner::Nobody) => !same_unit && self.is_single(),
                    (Owner::Nobody, Owner::Row) => !same_unit && !outer && self.is_single(),
                    (Owner::Row, _) | (_, Owner::Row) => false,
                };
                stable && left.is_unit_stable() && right.is_unit_stable()
            }
            Self::PerUnit { input, .. } => input.owner() == Owner::Unit && input.is_unit_stable(),
            Self::Union { inputs, .. } => {
                inputs.iter().all(|input| input.owner() == Owner::Unit && input.is_unit_stable())
            }
        }
    }

    /// Whether a join gives each row one partner at most, because the condition names a unique column of a public
    /// relation and compares it in its own type.
    pub fn is_single(&self) -> bool {
        let Self::Join { left, right, on, .. } = self else { return false };
        let partners = match (left.owner(), right.owner()) {
            (_, Owner::Nobody) => right,
            (Owner::Nobody, _) => left,
            _ => return false,
        };
        let unique = partners.unique_columns();
        let theirs = partners.columns();
        let fields = self.columns().into_iter().map(|(name, kind)| Field::new(name, kind, true));
        let Ok(schema) = DFSchema::try_from(Schema::new(fields.collect::<Vec<_>>())) else { return false };
        let determines = |key: &Expr, value: &Expr| {
            let named = matches!(key, Expr::Column(column) if unique.contains(&column.name));
            let own = value.column_refs().iter().all(|used| theirs.iter().all(|(name, _)| *name != used.name));
            let types = (key.get_type(&schema), value.get_type(&schema));
            named && own && matches!(types, (Ok(one), Ok(other)) if one == other)
        };
        on.iter().any(|condition| match condition {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
                determines(left, right) || determines(right, left)
            }
            _ => false,
        })
    }

    /// The columns of a public relation in which no value occurs twice.
    fn unique_columns(&self) -> BTreeSet<String> {
        match self {
            Self::Public { unique, .. } => unique.iter().cloned().collect(),
            Self::Filter { input, .. } => input.unique_columns(),
            Self::Project { input, columns } => {
                let unique = input.unique_columns();
                let kept = columns
                    .iter()
                    .filter(|(_, expr)| matches!(expr, Expr::Column(column) if unique.contains(&column.name)));
                kept.map(|((name, _), _)| name.clone()).collect()
            }
            // A row on the left stays one row if it has one partner at most; one on the right may have many.
            Self::Join { left, .. } if self.is_single() => left.unique_columns(),
            _ => BTreeSet::new(),
        }
    }

    /// The most rows that a unit can have, where the relation itself bounds them.
    ///
    /// ```
    /// use dither_query::relation::Relation;
    /// let table = Relation::Table { name: "t".into(), unit: None, columns: Vec::new() };
    /// let (keys, measures) = (Vec::new(), Vec::new());
    /// let counts = Relation::PerUnit { input: Box::new(table), keys, measures, single: true };
    /// assert_eq!(counts.rows_per_unit(), Some(1));
    /// ```
    pub fn rows_per_unit(&self) -> Option<u32> {
        match self {
            Self::Table { .. } | Self::Owned { .. } | Self::Public { .. } => None,
            Self::Filter { input, .. } | Self::Project { input, .. } => input.rows_per_unit(),
            Self::Join { left, right, .. } => match (left.owner(), right.owner()) {
                (Owner::Unit, Owner::Unit) => left.rows_per_unit()?.checked_mul(right.rows_per_unit()?),
                (Owner::Unit, _) if self.is_single() => left.rows_per_unit(),
                (_, Owner::Unit) if self.is_single() => right.rows_per_unit(),
                _ => None,
            },
            Self::PerUnit { single, .. } => single.then_some(1),
            Self::Union { inputs, .. } => {
                inputs.iter().try_fold(0_u32, |sum, input| sum.checked_add(input.rows_per_unit()?))
            }
        }
    }

    /// What anybody may know about the sizes of the relation, as far as the policy of its tables says it.
    pub fn public_facts(&self, policy: &Policy) -> PublicFacts {
        match self {
            Self::Table { name, .. } | Self::Owned { name, .. } => {
                policy.tables.get(name).map(|table| table.public).unwrap_or_default()
            }
            Self::Filter { input, .. } | Self::Project { input, .. } => input.public_facts(policy),
            Self::Join { left, outer: true, .. } if self.is_single() => left.public_facts(policy),
            Self::PerUnit { input, single: true, .. } => {
                let units = input.public_facts(policy).units;
                PublicFacts { rows: units, units, rows_per_group: None }
            }
            _ => PublicFacts::default(),
        }
    }
}
