//! What a policy declares to the ledger: limits, and who is protected.

use std::collections::BTreeMap;

use dither_core::{Neighbors, PrivacyUnit};
use dither_ledger::ScopeLimit;
use dither_query::policy::UnitPolicy;

use super::Session;
use crate::error::Error;

impl Session {
    /// The limits of the policy, the data set first.
    ///
    /// # Errors
    /// A scope with an impossible name.
    pub fn limits(&self) -> Result<Vec<ScopeLimit>, Error> {
        let budget = &self.policy.budget;
        let mut limits = vec![ScopeLimit {
            path: self.policy.dataset.parse()?,
            budget: budget.limit(),
            composition: budget.composition,
            protects: self.protects(),
        }];
        for (path, scope) in &self.policy.scopes {
            limits.push(ScopeLimit {
                path: format!("{}/{path}", self.policy.dataset).parse()?,
                budget: dither_core::Budget { epsilon: scope.epsilon, delta: scope.delta },
                composition: budget.composition,
                protects: Default::default(),
            });
        }
        Ok(limits)
    }

    /// Who is protected, by table, in words that the ledger holds on to. A public table protects nobody, and can never
    /// become one of people, nor the other way round. How rows are owned is part of it, one key of the chain for each
    /// table: through another key other rows would be those of a unit.
    fn protects(&self) -> BTreeMap<String, String> {
        let words = |name: &String| {
            let table = &self.policy.tables[name];
            let verb = match table.neighbors {
                Neighbors::AddOrRemoveUnit => "add or remove one",
                Neighbors::ReplaceUnit => "replace one",
            };
            let unit = self.policy.root(name).map_or(PrivacyUnit::Row, |root| root.unit);
            match &table.privacy_unit {
                UnitPolicy::Through { column, through } => {
                    format!("{verb} {} through `{column}` of `{through}`", in_words(&unit))
                }
                UnitPolicy::Period { time, .. } => format!("{verb} {} of `{time}`", in_words(&unit)),
                UnitPolicy::Column { .. } | UnitPolicy::Row(_) => format!("{verb} {}", in_words(&unit)),
            }
        };
        // Under another name of its table, what one person has within a week is no other amount than under the first.
        let people = self.policy.tables.keys().filter_map(|name| {
            let unit = self.policy.root(name)?.unit;
            Some((format!("tables of {}", unit.column()?), format!("one {}", in_words(&unit))))
        });
        let private = self.policy.tables.keys().map(|name| (name.clone(), words(name)));
        let public = self.policy.public.keys().map(|name| (name.clone(), "nobody".to_owned()));
        private.chain(public).chain(people).collect()
    }
}

/// A unit in the words that the ledger holds on to.
fn in_words(unit: &PrivacyUnit) -> String {
    match unit {
        PrivacyUnit::Column(column) => format!("`{column}`"),
        PrivacyUnit::Period { column, per } => format!("`{column}` per {}", per.name()),
        PrivacyUnit::Row => "row".into(),
    }
}
