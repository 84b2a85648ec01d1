//! Which integers the values of rows become: buckets, different values, squares, odd numbers, long sums.

use std::collections::BTreeSet;

use dither_mechanisms::ExactTable;
use dither_testing::Random;

use super::{Row, integers, plan, policy, rows};
use crate::policy::Policy;

/// Every number is in one bucket; NULL and NaN are in none.
#[tokio::test]
async fn buckets_are_half_open() {
    let policy = policy("\"row\"", 1, 1);
    let plan = plan("SELECT bucket(y, -1, 0, 0.5) AS b, COUNT(*) FROM t GROUP BY b", &policy).await;
    let row = |y: Option<f64>| Row { unit: Some(1), g: None, h: None, x: None, y };
    let numbers = [f64::NEG_INFINITY, -2.0, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 1e308, f64::INFINITY];
    let odd = [None, Some(f64::NAN), Some(-f64::NAN)];
    let table: Vec<Row> = numbers.into_iter().map(Some).chain(odd).map(row).collect();
    let found = integers(&plan, &table, 2).await.rows;
    let found: Vec<(String, i128)> = found.iter().map(|row| (row.key[0].to_string(), row.values[0])).collect();
    let expected = [("< -1", 2), ("[-1, 0)", 2), ("[0, 0.5)", 3), (">= 0.5", 3)];
    assert_eq!(found, expected.map(|(label, count)| (label.to_owned(), count)));
}

/// Different values are counted once, NULL and NaN not at all; -0.0 is 0.0.
#[tokio::test]
async fn different_values_are_those_of_a_set() {
    let mut random = Random(19);
    let policy = policy("\"row\"", 1, 1);
    let plan = plan("SELECT COUNT(DISTINCT y), COUNT(DISTINCT x), COUNT(DISTINCT free) FROM t", &policy).await;
    for _ in 0..20 {
        let table = rows(&mut random);
        let y: BTreeSet<u64> =
            table.iter().filter_map(|row| row.y).filter(|y| !y.is_nan()).map(|y| (y + 0.0).to_bits()).collect();
        let x: BTreeSet<i64> = table.iter().filter_map(|row| row.x).collect();
        let free: BTreeSet<&str> = table.iter().filter_map(|row| row.g).collect();
        let expected = [y.len(), x.len(), free.len()].map(|count| count as i128);
        assert_eq!(integers(&plan, &table, 2).await.rows[0].values, expected);
    }
    let unit = self::policy("{ column = \"u\" }", 1, 2);
    let plan = self::plan("SELECT COUNT(DISTINCT x) FROM t", &unit).await;
    let row = |x: i64| Row { unit: Some(1), g: None, h: None, x: Some(x), y: None };
    let many: Vec<Row> = (0..20).map(row).collect();
    assert_eq!(integers(&plan, &many, 1).await.rows[0].values, [2], "a unit brings as many values as it has rows");
}

/// Squares and products are those of plain integers, of the rows where both are present.
#[tokio::test]
async fn the_sums_of_squares_and_products_are_exact() {
    let mut random = Random(13);
    let policy = policy("\"row\"", 1, 1);
    let plan = plan("SELECT CORR(x, y) FROM t", &policy).await;
    for _ in 0..20 {
        let table = rows(&mut random);
        let pairs: Vec<(i128, i128)> = table
            .iter()
            .filter_map(|row| {
                let y = row.y.filter(|y| !y.is_nan())?;
                Some((row.x?.clamp(-3, 50).into(), (y * 4.0 + 0.5).floor().clamp(0.0, 4.0) as i128))
            })
            .collect();
        let sum = |of: fn(&(i128, i128)) -> i128| pairs.iter().map(of).sum::<i128>();
        let expected = [
            sum(|(x, _)| 50 - x),
            sum(|(x, _)| x + 3),
            sum(|(_, y)| 4 - y),
            sum(|(_, y)| *y),
            sum(|(x, y)| (2 * x - 47) * (2 * y - 4)),
            sum(|(x, _)| (2 * x - 47).pow(2)),
            sum(|(_, y)| (2 * y - 4).pow(2)),
        ];
        assert_eq!(integers(&plan, &table, 2).await.rows[0].values, expected);
    }
}

#[tokio::test]
async fn se_01_and_se_02_sums_are_exact_beyond_64_bits() {
    let text = r#"
        dataset = "test"
        [budget]
        epsilon = 100
        [tables.t]
        source = "t.csv"
        privacy_unit = "row"
        [tables.t.columns]
        x = { type = "integer", bounds = [-9007199254740992, 9007199254740992] }
        "#;
    let policy = Policy::from_toml(text, ".").unwrap();
    let plan = plan("SELECT SUM(x) FROM t", &policy).await;
    let row = |x: i64| Row { unit: Some(1), g: None, h: None, x: Some(x), y: None };
    let table: Vec<Row> = (0..4000).map(|_| row(i64::MAX)).collect();
    let total = integers(&plan, &table, 2).await.rows[0].values[0];
    assert_eq!(total, 4000 * (1_i128 << 53), "clamped, and summed in 128 bits");
    let mixed = [row(i64::MAX), row(1), row(i64::MIN)];
    assert_eq!(integers(&plan, &mixed, 1).await.rows[0].values[0], 1);
}

#[tokio::test]
async fn fp_07_odd_numbers_become_null_or_a_bound() {
    let policy = policy("\"row\"", 1, 1);
    let plan = plan("SELECT COUNT(y), SUM(y) FROM t", &policy).await;
    let row = |y: f64| Row { unit: Some(1), g: None, h: None, x: None, y: Some(y) };
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e308, 5e-324, -0.0];
    let table: Vec<Row> = odd.into_iter().map(row).collect();
    let values = &integers(&plan, &table, 1).await.rows[0].values;
    // NaN counts for nothing in a sum; infinities and 1e308 are clamped to the bounds [0, 1] = [0, 4] steps.
    assert_eq!(values[1], 4 + 4);
}

/// A sum over 131,072 rows, ones and small alternating values, moves by exactly the one that goes.
#[tokio::test]
async fn se_03_a_long_sum_of_fractions_moves_by_one_bound_only() {
    let policy = policy("\"row\"", 1, 1);
    let plan = plan("SELECT SUM(y) FROM t", &policy).await;
    let row = |y: f64| Row { unit: Some(1), g: None, h: None, x: None, y: Some(y) };
    let table = |ones: usize| -> Vec<Row> {
        let small = (0..ones).map(|index| row(if index % 2 == 0 { 0.003_906_25 } else { -0.003_906_25 }));
        std::iter::repeat_n(row(1.0), ones).chain(small).collect()
    };
    let sum = |table: ExactTable| table.rows[0].values[0];
    let whole = sum(integers(&plan, &table(1 << 16), 2).await);
    let less = sum(integers(&plan, &table(1 << 16)[1..], 2).await);
    assert_eq!(whole - less, 4, "one row of 1.0 is four steps of 0.25");
    // The control: added up as floats in order, 2^24 swallows a thousand ones, and taking it away sets them free.
    let naive = |rows: &[f32]| rows.iter().fold(0.0_f32, |sum, value| sum + value);
    let swallowed: Vec<f32> = std::iter::once(16_777_216.0).chain(std::iter::repeat_n(1.0, 1000)).collect();
    assert_eq!(naive(&swallowed) - naive(&swallowed[1..]), 16_777_216.0 - 1000.0);
}
