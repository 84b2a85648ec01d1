//! What makes a policy unsafe or meaningless. Looks at the policy only.

use std::fmt::Write as _;

use chrono::NaiveDate;

use super::load::{Refusal, nearest, path};
use super::problem::article;
use super::{
    BudgetPolicy, ColumnPolicy, ColumnType, CsvPolicy, Policy, Problem, ScopePolicy, TablePolicy, UnitPolicy, keys,
    periods,
};
use crate::source::Kind;

pub(super) fn policy(policy: &Policy) -> Result<(), Refusal> {
    if !is_name(&policy.dataset) {
        return Err((path(&["dataset"]), Problem::Name));
    }
    budget(&policy.budget).map_err(|(key, problem)| (path(&["budget", key]), problem))?;
    for (scope, limit) in &policy.scopes {
        check_scope(policy, scope, limit).map_err(|problem| (path(&["scopes", scope]), problem))?;
    }
    if policy.tables.is_empty() {
        return Err((path(&["tables"]), Problem::Empty));
    }
    for (name, table) in &policy.tables {
        check_table(name, table).map_err(|(rest, problem)| {
            let start = ["tables".to_owned(), name.clone()];
            (start.into_iter().chain(rest).collect(), problem)
        })?;
        check_owner(policy, name, table)
            .and_then(|()| periods::check(policy, name, table))
            .map_err(|problem| (path(&["tables", name, "privacy_unit"]), problem))?;
        if let Some((column, _)) = table.columns.iter().find(|(_, column)| column.unique) {
            let what = "a table of people".into();
            return Err((path(&["tables", name, "columns", column, "unique"]), Problem::NotFor { what }));
        }
        keys::check_columns(policy, "tables", name)?;
    }
    for (name, table) in &policy.public {
        if policy.tables.contains_key(name) {
            return Err((path(&["public", name]), Problem::TwoTables { table: name.clone() }));
        }
        check_table(name, &table.as_table()).map_err(|(rest, problem)| {
            let start = ["public".to_owned(), name.clone()];
            (start.into_iter().chain(rest).collect(), problem)
        })?;
        let odd = |column: &ColumnPolicy| column.r#type == ColumnType::Number || column.expression.is_some();
        if let Some((column, policy)) = table.columns.iter().find(|(_, column)| column.unique && odd(column)) {
            let what = match &policy.expression {
                Some(_) => "an expression".into(),
                None => "a column of numbers with a fraction".into(),
            };
            return Err((path(&["public", name, "columns", column, "unique"]), Problem::NotFor { what }));
        }
        keys::check_columns(policy, "public", name)?;
    }
    Ok(())
}

/// The rows of a table belong to those of another through a key: the key exists, fits, and the chain ends.
fn check_owner(policy: &Policy, name: &str, table: &TablePolicy) -> Result<(), Problem> {
    let UnitPolicy::Through { column, through } = &table.privacy_unit else { return Ok(()) };
    let Some((parent, key)) = policy.key_of(through) else {
        let known: Vec<String> = policy
            .tables
            .iter()
            .flat_map(|(table, policy)| policy.columns.keys().map(move |column| format!("{table}.{column}")))
            .collect();
        return Err(Problem::ThroughUnknown { through: through.clone(), nearest: nearest(through, &known) });
    };
    let owner = &policy.tables[parent];
    let why = |why: &str| Err(Problem::Through { through: through.clone(), why: why.into() });
    let (own, other) = (&table.columns[column], &owner.columns[key]);
    if own.expression.is_some() || other.expression.is_some() {
        return why("and both sides of a key must be columns of a file");
    }
    if own.r#type != other.r#type {
        return why(&format!("{}, while `{column}` is {}", article(other.r#type), article(own.r#type)));
    }
    match policy.root(name) {
        None => why("and the chain of keys does not end at a unit column"),
        Some(root) if root.kind.is_none() => why("whose rows are units of their own"),
        Some(root) if root.neighbors != table.neighbors => why("under another neighbour relation"),
        // Each row would be there once for every period in which its owner has rows.
        Some(root) if root.period().is_some() && policy.is_unit(parent, key) => {
            why("the column of people that are protected within periods; this table needs `per` and `time` of its own")
        }
        Some(_) => Ok(()),
    }
}

/// Letters of any script, digits, `_` and `-`.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

fn budget(budget: &BudgetPolicy) -> Result<(), (&'static str, Problem)> {
    if let Some(cap) = budget.max_epsilon_per_query
        && cap > budget.epsilon
    {
        return Err(("max_epsilon_per_query", Problem::EpsilonAboveLimit { cap, limit: budget.epsilon }));
    }
    if let Some(cap) = budget.delta_per_query
        && cap > budget.delta
    {
        return Err(("delta_per_query", Problem::DeltaAboveLimit { cap, limit: budget.delta }));
    }
    Ok(())
}

/// A scope lies within the scope around it, or within the data set.
fn check_scope(policy: &Policy, scope: &str, limit: &ScopePolicy) -> Result<(), Problem> {
    if !scope.split('/').all(is_name) {
        return Err(Problem::Name);
    }
    let (epsilon, delta) = match scope.rsplit_once('/') {
        None => (policy.budget.epsilon, policy.budget.delta),
        Some((parent, _)) => {
            let around = policy.scopes.get(parent).ok_or_else(|| Problem::NoParent { parent: parent.to_owned() })?;
            (around.epsilon, around.delta)
        }
    };
    if limit.epsilon > epsilon {
        return Err(Problem::EpsilonAboveLimit { cap: limit.epsilon, limit: epsilon });
    }
    if limit.delta > delta {
        return Err(Problem::DeltaAboveLimit { cap: limit.delta, limit: delta });
    }
    Ok(())
}

fn check_table(name: &str, table: &TablePolicy) -> Result<(), Refusal> {
    if name.is_empty() {
        return Err((Vec::new(), Problem::Empty));
    }
    let kind =
        Kind::of(&table.source).ok_or_else(|| (path(&["source"]), Problem::Source { path: table.source.clone() }))?;
    if kind == Kind::Relation && table.csv != CsvPolicy::default() {
        return Err((path(&["csv"]), Problem::NotFor { what: "a relation of a database".into() }));
    }
    check_csv(&table.csv, kind).map_err(|(key, problem)| (path(&["csv", key]), problem))?;
    if table.columns.is_empty() {
        return Err((path(&["columns"]), Problem::Empty));
    }
    check_unit(table).map_err(|(key, problem)| (path(&[key]), problem))?;
    for (name, column) in &table.columns {
        if name.is_empty() {
            return Err((path(&["columns"]), Problem::Empty));
        }
        check_column(column, kind).map_err(|(key, problem)| (path(&["columns", name, key]), problem))?;
    }
    Ok(())
}

fn check_unit(table: &TablePolicy) -> Result<(), (&'static str, Problem)> {
    match &table.privacy_unit {
        UnitPolicy::Column { column: name }
        | UnitPolicy::Period { column: name, .. }
        | UnitPolicy::Through { column: name, .. } => {
            let unknown =
                || Problem::UnitUnknown { column: name.clone(), nearest: nearest(name, table.columns.keys()) };
            let column = table.columns.get(name).ok_or_else(|| ("privacy_unit", unknown()))?;
            if column.r#type == ColumnType::Number {
                return Err(("privacy_unit", Problem::UnitIsNumber { column: name.clone() }));
            }
        }
        UnitPolicy::Row(_) => {
            let useless = || Problem::NotFor { what: "rows that are units of their own".into() };
            if table.max_groups_per_unit.is_some_and(|groups| groups.get() > 1) {
                return Err(("max_groups_per_unit", useless()));
            }
            if table.max_rows_per_group.is_some_and(|rows| rows.get() > 1) {
                return Err(("max_rows_per_group", useless()));
            }
        }
    }
    Ok(())
}

fn check_csv(csv: &CsvPolicy, kind: Kind) -> Result<(), (&'static str, Problem)> {
    if crate::source::file::encoding(&csv.encoding).is_none() {
        let label = csv.encoding.clone();
        let known = encoding_rs::Encoding::for_label_no_replacement(label.as_bytes()).is_some();
        return Err(("encoding", if known { Problem::EncodingState { label } } else { Problem::Encoding { label } }));
    }
    // A letter, digit, or line end as a delimiter is a slip of the pen; so is one that opens quotes.
    let usable = |c: char| c.is_ascii() && !c.is_ascii_alphanumeric() && !matches!(c, '\n' | '\r' | '\0');
    if !usable(csv.quote) {
        return Err(("quote", Problem::Character { character: csv.quote }));
    }
    let delimiter = csv.delimiter.unwrap_or(kind.delimiter());
    if !usable(delimiter) || delimiter == csv.quote {
        return Err(("delimiter", Problem::Character { character: delimiter }));
    }
    Ok(())
}

fn check_column(column: &ColumnPolicy, kind: Kind) -> Result<(), (&'static str, Problem)> {
    let r#type = column.r#type;
    let numeric = matches!(r#type, ColumnType::Integer | ColumnType::Number);
    if column.name_in_source.as_ref().is_some_and(String::is_empty) {
        return Err(("name_in_source", Problem::Empty));
    }
    if let Some(expression) = &column.expression {
        if expression.trim().is_empty() {
            return Err(("expression", Problem::Empty));
        }
        if column.name_in_source.is_some() {
            return Err(("expression", Problem::Excludes { other: "name_in_source" }));
        }
    }
    let not_for = || Problem::NotFor { what: format!("a column of type {}", r#type.name()) };
    if column.bounds.is_some() && !numeric {
        return Err(("bounds", not_for()));
    }
    if column.approx_bounds && !numeric {
        return Err(("approx_bounds", not_for()));
    }
    if column.approx_bounds && column.bounds.is_some() {
        return Err(("approx_bounds", Problem::Excludes { other: "bounds" }));
    }
    if column.step.is_some() && !numeric {
        return Err(("step", not_for()));
    }
    if column.typical.is_some() && !numeric {
        return Err(("typical", not_for()));
    }
    check_numbers(column)?;
    if let Some(keys) = &column.keys {
        keys.check(r#type).map_err(|problem| ("keys", problem))?;
    }
    check_reading(column, kind, numeric)
}

fn check_numbers(column: &ColumnPolicy) -> Result<(), (&'static str, Problem)> {
    if let Some(value) = column.step.filter(|step| !(step.is_finite() && *step > 0.0)) {
        return Err(("step", Problem::Number { value }));
    }
    if let Some(value) = column.typical.filter(|typical| !typical.is_finite()) {
        return Err(("typical", Problem::Number { value }));
    }
    let Some([lower, upper]) = column.bounds else { return Ok(()) };
    let why = if !(lower.is_finite() && upper.is_finite()) {
        "which are not both finite"
    } else if lower == upper {
        "which are equal: the answer would be a constant"
    } else if lower > upper {
        "in descending order"
    } else if column.value_bounds().is_none() {
        "more than 2^53 steps from zero"
    } else {
        let beside = |value, why| Problem::BesideBounds { value, why, lower, upper };
        return match (column.step, column.typical) {
            (Some(step), _) if step > upper - lower => Err(("step", beside(step, "wider than"))),
            (_, Some(typical)) if !(lower..=upper).contains(&typical) => {
                Err(("typical", beside(typical, "outside of")))
            }
            _ => Ok(()),
        };
    };
    Err(("bounds", Problem::Bounds { lower, upper, why }))
}

/// The settings for reading text stand only at columns that are read from text and have something to read.
fn check_reading(column: &ColumnPolicy, kind: Kind, numeric: bool) -> Result<(), (&'static str, Problem)> {
    let moment = matches!(column.r#type, ColumnType::Date | ColumnType::Timestamp);
    let settings = [
        ("thousands", column.thousands.is_some(), numeric),
        ("decimal", column.decimal.is_some(), numeric),
        ("format", column.format.is_some(), moment),
    ];
    for (key, present, fitting) in settings {
        let what = match () {
            () if !present => continue,
            () if column.expression.is_some() => "an expression".into(),
            () if kind == Kind::Parquet => "a Parquet file".into(),
            () if kind == Kind::Relation => "a relation of a database".into(),
            () if !fitting => format!("a column of type {}", column.r#type.name()),
            () => continue,
        };
        return Err((key, Problem::NotFor { what }));
    }
    let decimal = column.decimal.unwrap_or('.');
    let odd = |c: char| c.is_alphanumeric() || matches!(c, '-' | '+' | '\n' | '\r');
    if let Some(character) = column.thousands.filter(|c| odd(*c) || *c == decimal) {
        return Err(("thousands", Problem::Character { character }));
    }
    if odd(decimal) {
        return Err(("decimal", Problem::Character { character: decimal }));
    }
    match &column.format {
        Some(format) if !reads(format, column.r#type) => {
            Err(("format", Problem::Format { format: format.clone(), r#type: column.r#type }))
        }
        _ => Ok(()),
    }
}

/// Whether a format reads back the date, and for a timestamp the hour, that it writes.
fn reads(format: &str, r#type: ColumnType) -> bool {
    let Some(sample) = NaiveDate::from_ymd_opt(2001, 2, 3).and_then(|date| date.and_hms_opt(16, 0, 0)) else {
        return false;
    };
    let mut text = String::new();
    if write!(text, "{}", sample.format(format)).is_err() {
        return false;
    }
    let Some(read) = crate::source::moment(&text, format) else { return false };
    if r#type == ColumnType::Date { read.date() == sample.date() } else { read == sample }
}
