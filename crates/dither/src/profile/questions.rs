//! The questions of a profile.

use dither_core::{Delta, Epsilon, Neighbors};
use dither_query::Refusal;
use dither_query::error::Code;
use dither_query::plan::{MechanismChoice, QueryPlan, Shape, price};
use dither_query::policy::{ColumnPolicy, ColumnType, Policy, UnitPolicy};
use dither_query::source::relation_of;

use super::ProfileSpec;
use crate::error::Error;
use crate::session::Amounts;

/// Days before and after 1970 that moments in nanoseconds reach: a public range of all dates, 1678 to 2261.
const DAYS: u32 = 106_650;

/// One question of a profile.
pub(super) struct Part {
    pub title: String,
    pub sql: String,
    pub asks: Asks,
}

/// What a part asks for.
pub(super) enum Asks {
    /// Rows, and units.
    Sizes { units: bool },
    /// Values and different values of a column.
    Column { name: String, r#type: ColumnType },
    /// Where the values of a column lie.
    Ranks { name: String },
    /// The values of a column and how often each occurs; whether they are public.
    Keys { name: String, public: bool },
}

impl Asks {
    /// How much of the budget it gets. A count is off by some rows for little; five quantiles are three levels of choices
    /// among some 2^20 points, and what is suggested rests on them.
    fn weight(&self) -> f64 {
        match self {
            Self::Sizes { .. } => 1.0,
            Self::Column { .. } | Self::Keys { .. } => 2.0,
            Self::Ranks { .. } => 6.0,
        }
    }
}

/// The questions about a table.
pub(super) fn parts(policy: &Policy, spec: &ProfileSpec) -> Result<Vec<Part>, Error> {
    let refused = |code, message: String, hint: String| Error::refused(Refusal::new(code, message).hint(hint), "");
    let Some(table) = policy.tables.get(&spec.table) else {
        let known: Vec<&str> = policy.tables.keys().map(String::as_str).collect();
        let message = format!("the policy declares no table of people `{}`", spec.table);
        return Err(refused(Code::UnknownTable, message, format!("one of {}", known.join(", "))));
    };
    let of_whom = table.privacy_unit.column();
    let columns: Vec<&String> = match spec.columns.as_slice() {
        [] => table.columns.keys().filter(|name| of_whom != Some(name.as_str())).collect(),
        named => named.iter().collect(),
    };
    let from = quoted(&spec.table);
    let counted = match &table.privacy_unit {
        UnitPolicy::Column { column } => Some(format!(", COUNT(DISTINCT {}) AS b", quoted(column))),
        _ => None,
    };
    let sql = format!("SELECT COUNT(*) AS a{} FROM {from}", counted.as_deref().unwrap_or_default());
    let title = if counted.is_some() { "rows and units" } else { "rows" };
    let mut parts = vec![Part { title: title.into(), sql, asks: Asks::Sizes { units: counted.is_some() } }];
    for (index, name) in columns.iter().enumerate() {
        let Some(column) = table.columns.get(*name) else {
            let message = format!("the table `{}` has no column `{name}`", spec.table);
            return Err(refused(Code::UnknownColumn, message, "name columns of the policy".into()));
        };
        if of_whom == Some(name.as_str()) || columns[..index].contains(name) {
            let message = format!("`{name}` tells whose a row is, or is named twice");
            return Err(refused(Code::Option, message, "leave it out".into()));
        }
        parts.extend(column_parts(&from, name, column, relation_of(&table.source).is_some()));
        if asks_for_keys(column, spec, table.neighbors) {
            let (key, title) = (quoted(name), format!("{name}: the most frequent values"));
            let sql = format!("SELECT {key}, COUNT(*) FROM {from} GROUP BY {key}");
            let public = column.keys.is_some() || column.r#type == ColumnType::Boolean;
            parts.push(Part { title, sql, asks: Asks::Keys { name: (*name).clone(), public } });
        }
    }
    Ok(parts)
}

fn column_parts(from: &str, name: &str, column: &ColumnPolicy, in_database: bool) -> impl Iterator<Item = Part> {
    let own = quoted(name);
    // A database writes numbers with a fraction in its own way, and what is written is what is counted.
    let (title, different) = match in_database && column.r#type == ColumnType::Number {
        true => ("values", String::new()),
        false => ("values and different ones", format!(", COUNT(DISTINCT {own}) AS b")),
    };
    let counts = Part {
        title: format!("{name}: {title}"),
        sql: format!("SELECT COUNT({own}) AS a{different} FROM {from}"),
        asks: Asks::Column { name: name.to_owned(), r#type: column.r#type },
    };
    let value = match column.r#type {
        ColumnType::Integer | ColumnType::Number => Some((own, String::new())),
        ColumnType::Date | ColumnType::Timestamp => {
            let bounds = format!(", contribution_bounds_per_row => (-{DAYS}, {DAYS})");
            Some((format!("EXTRACT(epoch FROM {own}) / 86400"), bounds))
        }
        ColumnType::Text | ColumnType::Boolean => None,
    };
    let ranks = value.map(|(value, bounds)| {
        let quartile = |part: &str| format!("PERCENTILE_CONT({value}, {part}{bounds})");
        let (first, third) = (quartile("0.25"), quartile("0.75"));
        let ends = format!("MIN({value}{bounds}) AS a, {first} AS b, MEDIAN({value}{bounds}) AS c, {third} AS d");
        Part {
            title: format!("{name}: range and quartiles"),
            sql: format!("SELECT {ends}, MAX({value}{bounds}) AS e FROM {from}"),
            asks: Asks::Ranks { name: name.to_owned() },
        }
    });
    std::iter::once(counts).chain(ranks)
}

/// Whether the values of a column are counted one by one: public ones always, others where a threshold can let them through.
fn asks_for_keys(column: &ColumnPolicy, spec: &ProfileSpec, neighbors: Neighbors) -> bool {
    let from_the_data = !spec.budget.delta.is_zero() && neighbors == Neighbors::AddOrRemoveUnit;
    spec.top > 0
        && match column.r#type {
            ColumnType::Boolean => true,
            ColumnType::Text | ColumnType::Integer => column.keys.is_some() || from_the_data,
            // Single numbers and days are seldom frequent; their quartiles say more.
            ColumnType::Number | ColumnType::Date | ColumnType::Timestamp => false,
        }
}

/// The policy under which values of all numbers are chosen from all magnitudes where no bounds are declared.
pub(super) fn without_bounds(policy: &Policy, table: &str) -> Policy {
    let mut policy = policy.clone();
    let columns = policy.tables.get_mut(table).into_iter().flat_map(|table| table.columns.values_mut());
    for column in columns {
        let number = matches!(column.r#type, ColumnType::Integer | ColumnType::Number);
        column.approx_bounds = number && column.bounds.is_none();
    }
    policy
}

/// The parts, priced: each gets its part of ε by weight, and those whose values come from the data share δ, which decides
/// how many of them are seen. What the parts get adds up to no more than the budget.
pub(super) fn priced(spec: &ProfileSpec, parts: &[Part], shapes: Vec<Shape>) -> Result<Vec<QueryPlan>, Error> {
    let total: f64 = parts.iter().map(|part| part.asks.weight()).sum();
    let private = |part: &&Part| matches!(part.asks, Asks::Keys { public: false, .. });
    let delta = spec.budget.delta.attos() / parts.iter().filter(private).count().max(1) as u64;
    let one = |(part, shape): (&Part, Shape)| {
        let nanos = (spec.budget.epsilon.nanos() as f64 * part.asks.weight() / total).floor() as u64;
        let (delta, choice) = match private(&part) {
            true => (Delta::from_attos(delta)?, MechanismChoice::Auto),
            false => (Delta::ZERO, MechanismChoice::Laplace),
        };
        let plan = price(shape, Epsilon::from_nanos(nanos)?, delta, choice);
        plan.map_err(|refusal| Error::refused(refusal, &part.sql))
    };
    parts.iter().zip(shapes).map(one).collect()
}

/// No part may use more than the policy allows one question. All of them together may: a profile of many columns is as many
/// questions, and what they cost together is the budget's to limit.
pub(super) fn check_cap(policy: &Policy, parts: &[Part], plans: &[QueryPlan]) -> Result<(), Error> {
    let Some(cap) = policy.budget.max_epsilon_per_query else { return Ok(()) };
    for (part, plan) in parts.iter().zip(plans) {
        let refused = |refusal| Error::refused(refusal, &part.sql);
        let cost = plan.cost().map_err(refused)?;
        if cost.epsilon_nanos > cap.nanos() {
            let share = Amounts::from(&cost).epsilon;
            let message = format!("`{}` would use epsilon {share}, more than one question may use, {cap}", part.title);
            return Err(refused(
                Refusal::new(Code::EpsilonOverCap, message)
                    .hint("use a smaller epsilon; the cap is for each part of a profile, not for all of them together"),
            ));
        }
    }
    Ok(())
}

/// A name as SQL writes it, whatever is in it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
