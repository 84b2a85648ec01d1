//! Answers and documents as JSON.

use dither_core::{Answer, Cell, Key, Role};
use serde_json::{Map, Value};

use crate::document::Document;
use crate::format::unique;

/// The rows of an answer as objects: keys are plain values, estimates are `{value, low, high}`.
///
/// No object has a name twice: a repeated column name gets a number.
///
/// ```
/// use dither_core::{Answer, Cell, Column, Estimate, Key, Role};
/// let answer = Answer {
///     columns: vec![
///         Column { name: "hospital".into(), role: Role::Key },
///         Column { name: "n".into(), role: Role::Value },
///     ],
///     rows: vec![vec![Cell::Key(Key::Text("A".into())), Cell::Value(Estimate::new(12.0, 8.0, 16.0))]],
/// };
/// let json = dither_report::json::rows_json(&answer);
/// assert_eq!(json.to_string(), r#"[{"hospital":"A","n":{"value":12,"low":8,"high":16}}]"#);
/// ```
pub fn rows_json(answer: &Answer) -> Value {
    let names = unique(answer.columns.iter().map(|column| column.name.clone()));
    let object = |row: &Vec<Cell>| {
        let cells = names.iter().cloned().zip(row.iter().map(cell));
        Value::Object(cells.collect::<Map<_, _>>())
    };
    Value::Array(answer.rows.iter().map(object).collect())
}

/// A whole report as JSON: the same facts as the page, each answer as [`rows_json`].
pub fn document_json(document: &Document) -> Value {
    let mut json = serde_json::to_value(document).unwrap_or_default();
    for (index, section) in document.sections.iter().enumerate() {
        let Some(target) = json.pointer_mut(&format!("/sections/{index}")) else { continue };
        let Value::Object(target) = target else { continue };
        let columns = section.answer.columns.iter().map(|column| {
            let role = match column.role {
                Role::Key => "key",
                Role::Value => "value",
            };
            serde_json::json!({ "name": column.name, "role": role })
        });
        target.insert("columns".into(), columns.collect());
        target.insert("rows".into(), rows_json(&section.answer));
        target.remove("answer");
    }
    json
}

fn cell(cell: &Cell) -> Value {
    match cell {
        // `Estimate` already writes whole numbers without a fraction and what is not finite as null.
        Cell::Value(estimate) => serde_json::to_value(estimate).unwrap_or_default(),
        Cell::Key(Key::Null) => Value::Null,
        Cell::Key(Key::Boolean(value)) => (*value).into(),
        Cell::Key(Key::Integer(value)) => (*value).into(),
        Cell::Key(Key::Number(value)) => (*value).into(),
        Cell::Key(Key::Text(value)) => value.as_str().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tests::answer;

    #[test]
    fn a_repeated_name_gets_a_number_and_nothing_is_lost() {
        let answer = answer(&["k"], &["n", "n"], &[(&["A"], &[(1.0, 1.0), (2.0, 1.5)])]);
        let expected = r#"[{"k":"A","n":{"value":1,"low":0,"high":2},"n_2":{"value":2,"low":0.5,"high":3.5}}]"#;
        assert_eq!(rows_json(&answer).to_string(), expected);
    }

    #[test]
    fn what_is_not_a_number_is_null() {
        let mut answer = answer(&["k"], &["n"], &[(&["A"], &[(f64::NAN, 1.0)])]);
        answer.rows[0][0] = Cell::Key(Key::Number(f64::INFINITY));
        assert_eq!(rows_json(&answer).to_string(), r#"[{"k":null,"n":{"value":null,"low":null,"high":null}}]"#);
    }
}
