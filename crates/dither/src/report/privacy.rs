//! What a report and a certificate say about who is protected, and how.

use std::collections::BTreeSet;

use dither_core::{Delta, Mechanism};
use dither_mechanisms::PlanMechanism;
use dither_query::explain::windows;
use dither_query::plan::QueryPlan;
use dither_query::policy::UnitPolicy;
use dither_report::{ColumnBounds, Language, Loss, PrivacyStatement, Protected, TableBounds, Window};

use super::ReportSpec;
use crate::session::Session;

impl Session {
    pub(super) fn privacy_statement(&self, spec: &ReportSpec, plans: &[QueryPlan]) -> PrivacyStatement {
        let count = spec.questions.len();
        let composition: String = match spec.language {
            Language::En if count == 1 => {
                "The question is priced as one event; the smallest valid bound is charged.".into()
            }
            Language::En => format!(
                "All {count} questions were fixed before anything was drawn and are priced as one event; the smallest \
                 valid bound is charged."
            ),
            Language::Zh => {
                format!("全部 {count} 个问题在抽取噪声之前就已确定，并作为一个事件整体计价，按其中最小的有效上界记账。")
            }
        };
        let composition = self.owned(plans, spec.language).fold(composition, |text, owned| text + &owned);
        PrivacyStatement { protected: self.protected(spec.budget.delta, plans), composition }
    }

    /// What is protected in which of the tables of people, and what all questions together cost a whole person where that
    /// is less. Tables of one unit stand together.
    pub(super) fn protected(&self, delta: Delta, plans: &[QueryPlan]) -> Vec<Protected> {
        let mechanism = PlanMechanism { tables: plans.iter().map(|plan| plan.mechanism.clone()).collect() };
        let event = mechanism.event();
        let mut protected: Vec<Protected> = Vec::new();
        let names: BTreeSet<&str> = plans.iter().flat_map(|plan| plan.question.relation.tables()).collect();
        for name in names {
            // A public table has no root.
            let Some(root) = self.policy().root(name) else { continue };
            let (unit, neighbors) = (root.unit, root.neighbors);
            match protected.iter_mut().find(|known| known.unit == unit && known.neighbors == neighbors) {
                Some(known) => known.tables.push(name.to_owned()),
                None => {
                    let windows = windows(&unit, &event, delta).into_iter().map(|window| Window {
                        days: window.days,
                        units: window.periods,
                        loss: window.epsilon.zip(window.delta).map(|(epsilon, delta)| Loss { epsilon, delta }),
                    });
                    let windows = windows.collect();
                    protected.push(Protected { tables: vec![name.to_owned()], unit, neighbors, windows });
                }
            }
        }
        protected
    }

    /// Whose rows those of the tables are that are owned through keys, a sentence for each.
    fn owned(&self, plans: &[QueryPlan], language: Language) -> impl Iterator<Item = String> {
        let tables: BTreeSet<&str> = plans.iter().flat_map(|plan| plan.question.relation.tables()).collect();
        let sentences: Vec<String> = tables
            .into_iter()
            .filter_map(|name| match &self.policy().tables.get(name)?.privacy_unit {
                UnitPolicy::Through { column, through } => Some(match language {
                    Language::En => {
                        format!(" A row of {name} belongs to whom {through} belongs to, by its {column}.")
                    }
                    Language::Zh => format!("{name} 的每一行按其 {column} 归属于 {through} 所属的隐私单元。"),
                }),
                _ => None,
            })
            .collect();
        sentences.into_iter()
    }

    /// What a unit may contribute to a table at most, in whichever of the questions, and the bounds of its columns.
    pub(super) fn table_bounds(&self, plans: &[QueryPlan]) -> Vec<TableBounds> {
        let mut bounds: Vec<TableBounds> = Vec::new();
        for plan in plans {
            for name in plan.question.relation.tables() {
                let Some(table) = self.policy().tables.get(name) else { continue };
                if let Some(known) = bounds.iter_mut().find(|known| known.table == *name) {
                    let most = &mut known.contribution;
                    most.max_groups_per_unit = most.max_groups_per_unit.max(plan.bounds.max_groups_per_unit);
                    most.max_rows_per_group = most.max_rows_per_group.max(plan.bounds.max_rows_per_group);
                    continue;
                }
                let columns = table.columns.iter().filter_map(|(column, policy)| {
                    let value = policy.value_bounds()?;
                    let step = value.lattice().step();
                    let (lower, upper) = (value.lower() as f64 * step, value.upper() as f64 * step);
                    Some(ColumnBounds { column: column.clone(), lower, upper, step })
                });
                let columns = columns.collect();
                // The folder is nobody's business.
                let file = table.source.file_name().map_or(String::new(), |file| file.to_string_lossy().into_owned());
                bounds.push(TableBounds { table: name.to_owned(), file, contribution: plan.bounds, columns });
            }
        }
        let declared = bounds.iter().flat_map(|table| table.columns.iter().map(|column| column.column.clone()));
        let declared: BTreeSet<String> = declared.collect();
        for plan in plans {
            if let Some(table) = bounds.iter_mut().find(|known| known.table == plan.question.table) {
                asked_bounds(plan, &declared, &mut table.columns);
            }
        }
        bounds
    }
}

/// Adds the bounds that a question states itself, or that follow for an expression: what is added up is clamped to these, where
/// the bounds of a column are wider or none. Of several questions about one expression the widest hold.
fn asked_bounds(plan: &QueryPlan, declared: &BTreeSet<String>, columns: &mut Vec<ColumnBounds>) {
    let aggregates = &plan.question.aggregates;
    for argument in aggregates.iter().flat_map(|aggregate| aggregate.argument.iter().chain(&aggregate.second)) {
        let bare = argument.written.rsplit('.').next().unwrap_or_default();
        let known = argument.is_column && declared.contains(bare);
        let Some(value) = argument.bounds.filter(|_| !known) else { continue };
        let step = value.lattice().step();
        let (lower, upper) = (value.lower() as f64 * step, value.upper() as f64 * step);
        let name = label(&argument.written, &plan.question.table);
        match columns.iter_mut().find(|known| known.column == name) {
            Some(known) => {
                (known.lower, known.upper) = (known.lower.min(lower), known.upper.max(upper));
                known.step = known.step.max(step);
            }
            None => columns.push(ColumnBounds { column: name, lower, upper, step }),
        }
    }
}

/// An expression as people wrote it, more or less: bounds per row have become a clamp.
fn label(written: &str, table: &str) -> String {
    let text = written.replace(&format!("{table}."), "");
    let clamped = text.strip_prefix("clamp(").and_then(|inner| inner.rsplitn(3, ',').nth(2));
    clamped.map_or_else(|| text.clone(), |value| format!("{value} (contribution_bounds_per_row)"))
}
