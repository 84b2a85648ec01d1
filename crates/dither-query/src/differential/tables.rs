//! The table that random questions are about, and random rows of it.

use std::sync::Arc;

use datafusion::arrow::array::{Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::datasource::MemTable;
use dither_testing::Random;

use crate::policy::Policy;

/// A row: unit, g, h, x, y.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) unit: Option<i64>,
    pub(super) g: Option<&'static str>,
    pub(super) h: Option<i64>,
    pub(super) x: Option<i64>,
    pub(super) y: Option<f64>,
}

const GROUPS: [&str; 4] = ["a", "b", "c", "zz"];

pub(super) fn policy(unit: &str, groups: u32, rows: u32) -> Policy {
    let bounds = match unit {
        "\"row\"" => String::new(),
        _ => format!("max_groups_per_unit = {groups}\nmax_rows_per_group = {rows}"),
    };
    let text = format!(
        r#"
        dataset = "test"
        [budget]
        epsilon = 100
        delta = 0.1
        [tables.t]
        source = "t.csv"
        privacy_unit = {unit}
        {bounds}
        [tables.t.columns]
        u = {{ type = "integer" }}
        g = {{ type = "text", keys = ["b", "a", "absent"] }}
        free = {{ type = "text", name_in_source = "g2" }}
        h = {{ type = "integer" }}
        x = {{ type = "integer", bounds = [-3, 50] }}
        y = {{ type = "number", bounds = [0, 1], step = 0.25 }}
        wide = {{ type = "number", expression = "y", approx_bounds = true }}
        "#
    );
    Policy::from_toml(&text, ".").unwrap()
}

pub(super) fn rows(random: &mut Random) -> Vec<Row> {
    let units = 1 + random.below(6) as i64;
    let count = random.below(40);
    let whale = random.below(3) == 0;
    (0..count)
        .map(|_| Row {
            // One unit may own half of all rows; some rows have no unit.
            unit: match random.below(12) {
                0 => None,
                n if whale && n % 2 == 0 => Some(0),
                _ => Some(random.below(units as u64) as i64),
            },
            g: (random.below(8) > 0).then(|| random.of(&GROUPS)),
            h: (random.below(8) > 0).then(|| random.below(3) as i64),
            x: random.of(&[None, Some(-7), Some(0), Some(1), Some(42), Some(50), Some(i64::MAX), Some(i64::MIN)]),
            y: random.of(&[None, Some(0.1), Some(0.5), Some(f64::NAN), Some(f64::INFINITY), Some(-0.0), Some(-1e308)]),
        })
        .collect()
}

pub(super) fn provider(rows: &[Row], partitions: usize) -> Arc<MemTable> {
    let schema = Arc::new(Schema::new(vec![
        Field::new("u", DataType::Int64, true),
        Field::new("g", DataType::Utf8, true),
        Field::new("free", DataType::Utf8, true),
        Field::new("h", DataType::Int64, true),
        Field::new("x", DataType::Int64, true),
        Field::new("y", DataType::Float64, true),
    ]));
    let batch = |rows: &[Row]| {
        RecordBatch::try_new(
            Arc::clone(&schema),
            vec![
                Arc::new(rows.iter().map(|row| row.unit).collect::<Int64Array>()),
                Arc::new(rows.iter().map(|row| row.g).collect::<StringArray>()),
                Arc::new(rows.iter().map(|row| row.g).collect::<StringArray>()),
                Arc::new(rows.iter().map(|row| row.h).collect::<Int64Array>()),
                Arc::new(rows.iter().map(|row| row.x).collect::<Int64Array>()),
                Arc::new(rows.iter().map(|row| row.y).collect::<Float64Array>()),
            ],
        )
        .unwrap()
    };
    let chunk = rows.len().div_ceil(partitions).max(1);
    let mut parts: Vec<Vec<RecordBatch>> = rows.chunks(chunk).map(|rows| vec![batch(rows)]).collect();
    if parts.is_empty() {
        parts.push(vec![batch(&[])]);
    }
    Arc::new(MemTable::try_new(schema, parts).unwrap())
}
