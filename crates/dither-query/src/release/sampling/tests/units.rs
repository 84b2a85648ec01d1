//! Units with several rows, whose values go together: rows are no sample of their own.

use super::*;

const SEVERAL: &str = r#"
    privacy_unit = { column = "u" }
    max_groups_per_unit = 1
    max_rows_per_group = 3
    "#;
const COLUMNS: &str = r#"
    u = { type = "integer" }
    x = { type = "integer", bounds = [-20, 100] }
    "#;

async fn several(sql: &str, epsilon: &str, choice: MechanismChoice) -> QueryPlan {
    let policy = policy(SEVERAL, COLUMNS);
    let (shape, _) = shape(sql, &policy).await.unwrap();
    let shape = shape.with_sampling().unwrap();
    price(shape, epsilon.parse().unwrap(), "1e-6".parse().unwrap(), choice).unwrap()
}

/// A population of units: their rows, and how often each kind of unit occurs, in percent.
type Population = [(&'static [i64], u64)];

const UNITS: [&Population; 5] = [
    &[(&[-20, 10, 40], 40), (&[70], 40), (&[100, 100, 100], 20)],
    // All rows of a unit are alike.
    &[(&[100, 100, 100], 70), (&[-20, -20, -20], 30)],
    &[(&[0, 0, 0], 50), (&[20, 20, 20], 25), (&[5], 15), (&[60, 60], 10)],
    // Of a mean nothing varies, of counts and sums the number of rows.
    &[(&[30], 50), (&[30, 30, 30], 50)],
    // Few units have most of the rows and the largest values.
    &[(&[100, 100, 100], 20), (&[0], 80)],
];

/// Per unit of a population: the sum of its values and the number of its rows.
fn expectation(population: &Population) -> (f64, f64) {
    population.iter().fold((0.0, 0.0), |(sum, rows), (values, percent)| {
        let part = *percent as f64 / 100.0;
        (sum + part * values.iter().sum::<i64>() as f64, rows + part * values.len() as f64)
    })
}

fn sample_of_units(random: &mut Random, population: &Population, expected: u64) -> Vec<&'static [i64]> {
    let places: Vec<(i64, u64)> = population.iter().enumerate().map(|(at, (_, part))| (at as i64, *part)).collect();
    sample(random, &places, expected).into_iter().map(|at| population[at as usize].0).collect()
}

/// The exact integers of units.
fn exact_of_units(plan: &QueryPlan, units: &[&[i64]]) -> Vec<i128> {
    let total = |unit: &[i64]| {
        let [a, b] = [unit.iter().map(|x| 100 - x).sum::<i64>(), unit.iter().map(|x| x + 20).sum()];
        [a, b].map(i128::from)
    };
    let rows = |unit: &[i64]| unit.len() as i128;
    let mut values = Vec::new();
    for measure in &plan.measures {
        match *measure {
            Measure::Rows => values.push(units.iter().map(|unit| rows(unit)).sum()),
            Measure::Sum(_) => values.push(units.iter().map(|unit| rows(unit)).sum()),
            Measure::Pair(_) => values.extend([0, 1].map(|at| units.iter().map(|unit| total(unit)[at]).sum::<i128>())),
            Measure::UnitSquares(index) if plan.summands[index].bounds.range() == 1 => {
                values.extend([0, 0, units.iter().map(|unit| rows(unit).pow(2)).sum()]);
            }
            Measure::UnitSquares(_) => {
                let sum = |of: fn([i128; 2]) -> i128| units.iter().map(|unit| of(total(unit))).sum::<i128>();
                values.extend([sum(|[a, _]| a * a), sum(|[a, b]| 2 * a * b), sum(|[_, b]| b * b)]);
            }
            other => panic!("{other:?}"),
        }
    }
    values
}

const QUESTIONS: [&str; 5] = [
    "SELECT AVG(x) FROM t",
    "SELECT SUM(x) FROM t",
    "SELECT COUNT(*) FROM t",
    "SELECT COUNT(x) FROM t",
    "SELECT COUNT(x), AVG(x) FROM t",
];

fn truth(sql: &str, population: &Population, expected: u64) -> f64 {
    let (sum, rows) = expectation(population);
    match sql {
        "SELECT AVG(x) FROM t" => sum / rows,
        "SELECT SUM(x) FROM t" => sum * expected as f64,
        _ => rows * expected as f64,
    }
}

/// How often the intervals with sampling miss, and those of the noise alone, in so many trials.
fn missed(plan: &QueryPlan, population: &Population, expected: u64, truth: f64, random: &mut Random) -> [usize; 2] {
    let mut source = NoiseSource::from_os().unwrap();
    let mut missed = [0, 0];
    for _ in 0..TRIALS {
        let units = sample_of_units(random, population, expected);
        let row = noisy(plan, &exact_of_units(plan, &units), &mut source);
        let noise = estimate(plan, plan.derivations[0], &row, CONFIDENCE);
        let both = interval(plan, 0, &row, CONFIDENCE);
        for (missed, of) in missed.iter_mut().zip([both, noise]) {
            let (low, high) = (of.low.unwrap(), of.high.unwrap());
            assert!(
                low.is_finite() && high.is_finite() && both.low <= noise.low && both.high >= noise.high,
                "{both:?}"
            );
            *missed += usize::from(!(low - 1e-9..=high + 1e-9).contains(&truth));
        }
    }
    missed
}

#[tokio::test]
async fn fp_14_intervals_with_sampling_cover_the_population_where_units_have_several_rows() {
    let mut random = Random(63);
    for sql in QUESTIONS {
        for (epsilon, choice) in
            [("1", MechanismChoice::Laplace), ("1", MechanismChoice::Gaussian), ("40", MechanismChoice::Laplace)]
        {
            let plan = several(sql, epsilon, choice).await;
            for expected in [60, 400] {
                for population in UNITS {
                    let truth = truth(sql, population, expected);
                    let [missed, _] = missed(&plan, population, expected, truth, &mut random);
                    let of = format!("{sql}, ε {epsilon}, {choice:?}, {expected} of {population:?}");
                    println!("{missed} of {TRIALS} missed: {of}");
                    assert!(missed <= MOST, "{missed} of {TRIALS}: {of}");
                }
            }
        }
    }
}

/// The controls: on units whose rows are alike, an interval that takes rows for a sample misses too often, and one of the noise
/// alone mostly.
#[tokio::test]
async fn fp_14_control_rows_of_one_unit_taken_for_a_sample_do_not_cover_the_population() {
    let mut random = Random(64);
    let population = UNITS[1];
    for sql in &QUESTIONS[..3] {
        let truth = truth(sql, population, 400);
        let [of_units, of_noise] =
            missed(&several(sql, "400", MechanismChoice::Laplace).await, population, 400, truth, &mut random);
        assert!(of_units <= MOST && of_noise > TRIALS / 2, "{sql}: {of_units}, {of_noise} of {TRIALS}");
        let of_rows = plan(sql, "400", MechanismChoice::Laplace).await;
        let mut source = NoiseSource::from_os().unwrap();
        let misses = (0..TRIALS).filter(|_| {
            let rows = sample_of_units(&mut random, population, 400).concat();
            let found = interval(&of_rows, 0, &noisy(&of_rows, &exact(&of_rows, &rows), &mut source), CONFIDENCE);
            !(found.low.unwrap()..=found.high.unwrap()).contains(&truth)
        });
        let misses = misses.count();
        assert!(misses > 2 * MOST, "{sql}: {misses} of {TRIALS}");
    }
}

/// With little noise the interval of a mean is that of a textbook: the residual totals of units, squared.
#[tokio::test]
async fn intervals_of_units_are_those_of_textbooks_where_noise_is_small() {
    let plan = several("SELECT AVG(x) FROM t", "900", MechanismChoice::Laplace).await;
    let units: Vec<&[i64]> = (0..5_000).map(|index| UNITS[2][index % 4].0).collect();
    let rows: f64 = units.iter().map(|unit| unit.len() as f64).sum();
    let mean = units.iter().flat_map(|unit| *unit).sum::<i64>() as f64 / rows;
    let residual = |unit: &&[i64]| unit.iter().map(|x| *x as f64 - mean).sum::<f64>().powi(2);
    let textbook = 1.96 * units.iter().map(residual).sum::<f64>().sqrt() / rows;
    let found = interval(&plan, 0, &exact_of_units(&plan, &units), CONFIDENCE);
    let half = (found.high.unwrap() - found.low.unwrap()) / 2.0;
    assert!(half >= textbook && half <= textbook * 1.06, "{half} {textbook}");
}

/// What is measured for it has a share of ε of its own, of which `dither plan` knows; people are counted without.
#[tokio::test]
async fn a_share_of_epsilon_is_for_the_squares_of_totals() {
    for (sql, shares) in [
        ("SELECT AVG(x) FROM t", vec![Some(0.5)]),
        ("SELECT COUNT(*) FROM t", vec![Some(0.5)]),
        ("SELECT AVG(x), SUM(x), COUNT(x) FROM t", vec![Some(0.5); 3]),
        ("SELECT COUNT(DISTINCT u) FROM t", vec![Some(0.0)]),
    ] {
        for choice in [MechanismChoice::Laplace, MechanismChoice::Gaussian] {
            let plan = several(sql, "1", choice).await;
            let cost = plan.cost().unwrap().epsilon_nanos;
            assert!(cost <= 1_000_000_000 && cost > 990_000_000, "{sql}: {cost}");
            let found: Vec<Option<f64>> = plan.explain_outputs().iter().map(|output| output.sampling).collect();
            let close = |(a, b): (&Option<f64>, &Option<f64>)| (a.unwrap() - b.unwrap()).abs() < 1e-3;
            assert!(found.len() == shares.len() && found.iter().zip(&shares).all(close), "{sql}: {found:?}");
        }
    }
}
