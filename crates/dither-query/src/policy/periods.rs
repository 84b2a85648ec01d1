//! Units that are cut to calendar periods: which columns say when, and that the same people are cut in one way.

use super::load::nearest;
use super::{ColumnType, Policy, Problem, TablePolicy, UnitPolicy};

/// Checks the unit of a table: its time is a column of dates of the file, and no other table protects the same people
/// within another period or as a whole. Amounts under different units do not add up, and a data set has one budget.
pub(super) fn check(policy: &Policy, name: &str, table: &TablePolicy) -> Result<(), Problem> {
    if let UnitPolicy::Period { column, time, .. } = &table.privacy_unit {
        let column_of = |name: &String| table.columns.get(name);
        let why = |why: &str| Err(Problem::UnitTime { column: time.clone(), why: why.into() });
        match column_of(time) {
            None => {
                let dates = table.columns.iter().filter(|(_, column)| is_time(column.r#type)).map(|(name, _)| name);
                let meant = nearest(time, dates).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                return why(&format!("which is not declared{meant}"));
            }
            Some(found) if !is_time(found.r#type) => return why("which is neither a date nor a timestamp"),
            Some(found) if found.expression.is_some() => return why("which is no column of the file"),
            Some(_) => {}
        }
        if column_of(column).is_some_and(|column| column.expression.is_some()) {
            return Err(Problem::NotFor { what: "a computed column".into() });
        }
    }
    let Some(root) = policy.root(name) else { return Ok(()) };
    let others = policy.tables.keys().filter_map(|other| policy.root(other));
    match others.into_iter().find(|other| other.is_of_the_people_of(&root) && other.unit != root.unit) {
        Some(other) => Err(Problem::UnitPeriods { table: other.table }),
        None => Ok(()),
    }
}

fn is_time(r#type: ColumnType) -> bool {
    matches!(r#type, ColumnType::Date | ColumnType::Timestamp)
}
