//! What makes two questions the same one, so that the second is answered for nothing.

use std::borrow::Cow;

use super::QueryPlan;
use crate::policy::{KeysPolicy, Policy, PublicFacts, TablePolicy};
use crate::relation::Relation;

impl QueryPlan {
    /// A text that is the same for two plans exactly if the same is asked of the same tables in the same way.
    ///
    /// What the policy says about budgets and public magnitudes is not part of it: it changes no answer.
    pub fn fingerprint(&self, policy: &Policy) -> String {
        let cleaned = |name: &str| {
            let mut table = policy.readable(name)?.into_owned();
            table.public = PublicFacts::default();
            table.columns.values_mut().for_each(|column| column.typical = None);
            Some(table)
        };
        let (name, question) = (&self.question.table, &self.question.canonical);
        // The form of a question about one table is that of earlier versions, whose answers stay free.
        let text = if matches!(self.question.relation, Relation::Table { .. }) {
            serde_json::to_string(&(&policy.dataset, question, cleaned(name), self.bounds, self.event()))
        } else {
            let tables = self.question.relation.tables().into_iter();
            let tables: Vec<_> = tables.map(|name| (name, cleaned(name))).collect();
            serde_json::to_string(&(&policy.dataset, question, name, tables, self.bounds, self.event()))
        };
        let text = text.unwrap_or_default() + &self.listed_keys(policy);
        // What intervals for sampling need is measured: the numbers before them stand at other places.
        let squares = self.sampling.iter().flatten().any(Option::is_some);
        let text = if squares { text + " sampling" } else { text };
        // What costs nothing is in no event.
        match self.key_choice.min_units.filter(|_| self.has_private_keys()) {
            Some(least) => format!("{text} min_units {least}"),
            None => text,
        }
    }

    /// The public keys, if some column of a table that is read has them from a public table: with others in its file the
    /// question is another one.
    fn listed_keys(&self, policy: &Policy) -> String {
        let read = self.question.relation.tables().into_iter().filter_map(|name| policy.readable(name));
        let elsewhere = |table: Cow<'_, TablePolicy>| {
            table.columns.values().any(|column| matches!(column.keys, Some(KeysPolicy::Column { .. })))
        };
        if self.question.keys.is_empty() || !read.into_iter().any(elsewhere) {
            return String::new();
        }
        let lists: Vec<_> = self.question.keys.iter().map(|key| key.domain.public()).collect();
        format!(" keys {}", serde_json::to_string(&lists).unwrap_or_default())
    }
}
