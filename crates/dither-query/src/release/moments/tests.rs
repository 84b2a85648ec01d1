//! Moments of known tables: estimates, intervals and predicted errors.

use dither_noise::NoiseSource;

use super::super::estimate::{CONFIDENCE, estimate};
use super::super::predicted::{error_where_values_spread, expected_error};
use super::*;
use crate::plan::{Measure, MechanismChoice, Values, price, shape};
use crate::testing::{ROWS, noisy, policy};

const COLUMNS: &str = r#"
    x = { type = "integer", bounds = [0, 100] }
    y = { type = "number", bounds = [-1, 3], step = 0.25 }
    "#;

async fn plan(sql: &str, choice: MechanismChoice) -> QueryPlan {
    let policy = policy(ROWS, COLUMNS);
    let (shape, _) = shape(sql, &policy).await.unwrap();
    price(shape, "1".parse().unwrap(), "1e-6".parse().unwrap(), choice).unwrap()
}

/// The exact integers of a plan over rows of x in steps of 1 and y in steps of 1/4, in the order of its blocks.
fn exact(plan: &QueryPlan, rows: &[(i64, i64)]) -> Vec<i128> {
    let middle = |value: i64, bounds: (i64, i64)| f64::from(2 * value as i32 - (bounds.0 + bounds.1) as i32) / 2.0;
    let (x_bounds, y_bounds) = ((0, 100), (-4, 12));
    let mut values = Vec::new();
    for measure in &plan.measures {
        let (Measure::Pair(Values::Summand(index)) | Measure::Sum(index)) = *measure else {
            panic!("moments are pairs and sums")
        };
        let bounds = plan.summands[index].bounds;
        let sum = |of: &dyn Fn(&(i64, i64)) -> f64| rows.iter().map(of).sum::<f64>();
        match (measure, bounds.lower(), bounds.lattice().step()) {
            (Measure::Pair(_), lower, _) => {
                let upper = bounds.upper();
                let value = |row: &(i64, i64)| if lower == 0 { row.0 } else { row.1 };
                values.push(rows.iter().map(|row| i128::from(upper - value(row))).sum());
                values.push(rows.iter().map(|row| i128::from(value(row) - lower)).sum());
            }
            (_, 0, 0.25) => values.push((sum(&|row| middle(row.0, x_bounds).powi(2)) / 0.25).round() as i128),
            (_, 0, step) => {
                let total = sum(&|row| middle(row.1, y_bounds).powi(2)) / 16.0;
                values.push((total / step).round() as i128);
            }
            (_, _, step) => {
                let total = sum(&|row| middle(row.0, x_bounds) * middle(row.1, y_bounds) / 4.0);
                values.push((total / step).round() as i128);
            }
        }
    }
    values
}

/// The statistic as textbooks give it.
fn truth(kind: &str, rows: &[(i64, i64)]) -> f64 {
    let n = rows.len() as f64;
    let x: Vec<f64> = rows.iter().map(|row| row.0 as f64).collect();
    let y: Vec<f64> = rows.iter().map(|row| row.1 as f64 / 4.0).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / n;
    let covariance = |a: &[f64], b: &[f64]| {
        let (p, q) = (mean(a), mean(b));
        a.iter().zip(b).map(|(a, b)| (a - p) * (b - q)).sum::<f64>() / n
    };
    match kind {
        "VAR_POP(x)" => covariance(&x, &x),
        "VAR_SAMP(x)" => covariance(&x, &x) * n / (n - 1.0),
        "STDDEV_POP(x)" => covariance(&x, &x).sqrt(),
        "COVAR_POP(x, y)" => covariance(&x, &y),
        "COVAR_SAMP(x, y)" => covariance(&x, &y) * n / (n - 1.0),
        _ => covariance(&x, &y) / (covariance(&x, &x) * covariance(&y, &y)).sqrt(),
    }
}

const KINDS: [&str; 6] =
    ["VAR_POP(x)", "VAR_SAMP(x)", "STDDEV_POP(x)", "COVAR_POP(x, y)", "COVAR_SAMP(x, y)", "CORR(x, y)"];

fn line(n: i64) -> Vec<(i64, i64)> {
    (0..n).map(|i| ((i * 37) % 101, ((i * 37) % 101 * 16 / 100) - 4)).collect()
}

fn tables() -> Vec<Vec<(i64, i64)>> {
    vec![
        line(3),
        line(40),
        line(1000),
        (0..200).map(|i| (if i % 2 == 0 { 0 } else { 100 }, if i % 2 == 0 { 12 } else { -4 })).collect(),
        (0..500).map(|i| (3 + i % 3, 12 - i % 2)).collect(),
    ]
}

/// Without noise the estimate is the statistic.
#[tokio::test]
async fn moments_are_exact_where_the_sums_are() {
    for kind in KINDS {
        let plan = plan(&format!("SELECT {kind} FROM t"), MechanismChoice::Laplace).await;
        for table in tables() {
            let value = estimate(&plan, plan.derivations[0], &[], &exact(&plan, &table), 0.95);
            let (value, truth) = (value.value.unwrap(), truth(kind, &table));
            assert!((value - truth).abs() <= 1e-9 * truth.abs().max(1.0), "{kind}: {value} {truth}");
        }
    }
}

/// How often an interval misses, in 4,000 draws of the noise.
fn misses(plan: &QueryPlan, kind: &str, table: &[(i64, i64)], shift: f64) -> usize {
    let (exact, truth) = (exact(plan, table), truth(kind, table));
    let mut source = NoiseSource::from_os().unwrap();
    (0..4_000)
        .filter(|_| {
            let noisy = noisy(plan, &exact, &mut source);
            let found = estimate(plan, plan.derivations[0], &[], &noisy, CONFIDENCE);
            let (low, high) = (found.low.unwrap(), found.high.unwrap());
            if let Some(value) = found.value {
                assert!(low <= value && value <= high && value.is_finite(), "{found:?}");
            }
            assert!(!kind.starts_with("CORR") || (low >= -1.0 && high <= 1.0));
            assert!(!kind.starts_with("VAR_POP") || (low >= 0.0 && high <= 2_500.0));
            let slack = 1e-9 * truth.abs().max(1.0);
            !(low - slack..=high + slack).contains(&(truth + shift))
        })
        .count()
}

/// With 5 % of misses, more than 283 in 4,000 have probability below 1e-9 (six standard deviations).
#[tokio::test]
async fn fp_14_the_intervals_of_moments_cover_small_and_large_groups() {
    for kind in KINDS {
        for choice in [MechanismChoice::Laplace, MechanismChoice::Gaussian] {
            let plan = plan(&format!("SELECT {kind} FROM t"), choice).await;
            for table in tables() {
                let missed = misses(&plan, kind, &table, 0.0);
                assert!(missed < 283, "{missed} of 4000: {kind}, {choice:?}, {} rows", table.len());
            }
        }
    }
    // The control: the truth moved by four of the predicted errors is missed.
    let plan = plan("SELECT VAR_POP(x) FROM t", MechanismChoice::Laplace).await;
    let table = &tables()[2];
    let error = expected_error(&plan, plan.derivations[0], table.len() as f64, Some(0.5)).unwrap();
    assert!(misses(&plan, "VAR_POP(x)", table, 4.0 * error) > 3_000);
}

/// The predicted error is kept 95 times in 100, wherever values lie, and is no more than so many times too large where they
/// lie in the middle.
#[tokio::test]
async fn the_errors_of_a_variance_and_of_a_deviation_are_predicted() {
    let two = |low: i64, part: i64| (0..1_000).map(move |i| (if i % part == 0 { 100 - low } else { low }, 0));
    let mut tables: Vec<Vec<(i64, i64)>> = tables().into_iter().filter(|table| table.len() > 100).collect();
    tables.extend([two(0, 20), two(100, 20), two(0, 2), two(40, 2)].map(Iterator::collect));
    for choice in [MechanismChoice::Laplace, MechanismChoice::Gaussian] {
        for (kind, least) in [("VAR_POP(x)", 0.0), ("STDDEV_POP(x)", 10.0)] {
            let plan = plan(&format!("SELECT {kind} FROM t"), choice).await;
            for table in tables.iter().filter(|table| truth("STDDEV_POP(x)", table) >= least) {
                let rows = table.len() as f64;
                let predicted = expected_error(&plan, plan.derivations[0], rows, None).unwrap();
                is_predicted(&plan, kind, table, predicted, f64::INFINITY);
            }
            let times = if least > 0.0 { 8.0 } else { 2.5 };
            let predicted = expected_error(&plan, plan.derivations[0], 1_000.0, Some(0.5)).unwrap();
            is_predicted(&plan, kind, &line(1_000), predicted, times);
        }
    }
    // The control: of values that are all alike, the error of a deviation is larger.
    let deviation = plan("SELECT STDDEV_POP(x) FROM t", MechanismChoice::Laplace).await;
    let predicted = expected_error(&deviation, deviation.derivations[0], 1_000.0, Some(0.5)).unwrap();
    let alike: Vec<(i64, i64)> = (0..1_000).map(|_| (50, 0)).collect();
    assert!(errors(&deviation, "STDDEV_POP(x)", &alike)[1_900] > predicted);
}

/// So is that of a correlation, where values spread as the prediction says that it assumes.
#[tokio::test]
async fn the_error_of_a_correlation_is_predicted_for_values_that_spread() {
    // Deviations of 25 in [0, 100] and of 1 in [-1, 3], a correlation of a half.
    let row = |i: i64| (if i % 2 == 0 { 25 } else { 75 }, if (i % 2 == 0) == (i % 8 < 6) { 0 } else { 8 });
    let table: Vec<(i64, i64)> = (0..4_000).map(row).collect();
    let plan = plan("SELECT CORR(x, y) FROM t", MechanismChoice::Laplace).await;
    let predicted = error_where_values_spread(&plan, plan.derivations[0], table.len() as f64).unwrap();
    // Seven intervals add up to that of a correlation, each for values wherever they are worst.
    is_predicted(&plan, "CORR(x, y)", &table, predicted, 30.0);
}

/// Whether 95 of 100 errors are within the predicted one, which is no more than so many times too large.
fn is_predicted(plan: &QueryPlan, kind: &str, table: &[(i64, i64)], predicted: f64, times: f64) {
    let errors = errors(plan, kind, table);
    assert!(errors[1_840] <= predicted, "{kind}: {} {predicted}", errors[1_840]);
    assert!(errors[1_900] * times > predicted, "{kind}: {} {predicted}", errors[1_900]);
}

/// How far 2,000 released values are off, from the best.
fn errors(plan: &QueryPlan, kind: &str, table: &[(i64, i64)]) -> Vec<f64> {
    let (exact, truth) = (exact(plan, table), truth(kind, table));
    let mut source = NoiseSource::from_os().unwrap();
    let mut errors: Vec<f64> = (0..2_000)
        .map(|_| {
            let noisy = noisy(plan, &exact, &mut source);
            let found = estimate(plan, plan.derivations[0], &[], &noisy, CONFIDENCE);
            (found.value.unwrap() - truth).abs()
        })
        .collect();
    errors.sort_by(f64::total_cmp);
    errors
}
