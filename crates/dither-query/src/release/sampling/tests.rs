//! Samples drawn from known populations: every kind of interval covers what it says.

use dither_noise::NoiseSource;
use dither_testing::Random;

use super::*;
use crate::plan::{Measure, MechanismChoice, Values, price, shape};
use crate::release::CONFIDENCE;
use crate::testing::{ROWS, noisy, policy};

mod units;

async fn plan(sql: &str, epsilon: &str, choice: MechanismChoice) -> QueryPlan {
    let policy = policy(ROWS, "x = { type = \"integer\", bounds = [-20, 100] }");
    let (shape, _) = shape(sql, &policy).await.unwrap();
    let shape = shape.with_sampling().unwrap();
    price(shape, epsilon.parse().unwrap(), "1e-6".parse().unwrap(), choice).unwrap()
}

/// The exact integers of a sample, in the order of the blocks.
fn exact(plan: &QueryPlan, sample: &[i64]) -> Vec<i128> {
    let mut values = Vec::new();
    for measure in &plan.measures {
        match *measure {
            Measure::Rows => values.push(sample.len() as i128),
            Measure::Pair(Values::Summand(index)) => {
                let bounds = plan.summands[index].bounds;
                assert_eq!((bounds.lower(), bounds.upper()), (-20, 100));
                values.push(sample.iter().map(|x| i128::from(100 - x)).sum());
                values.push(sample.iter().map(|x| i128::from(x + 20)).sum());
            }
            // (x − 40)² in quarters: twice the distance, squared.
            Measure::Sum(index) => {
                let step = plan.summands[index].bounds.lattice().step();
                let steps = (4.0 * step).recip();
                let sum: i128 = sample.iter().map(|x| i128::from((2 * x - 80).pow(2))).sum();
                values.push((sum as f64 * steps).round() as i128);
            }
            other => panic!("{other:?}"),
        }
    }
    values
}

/// A population: a few values and how often each occurs, in percent.
const POPULATIONS: [&[(i64, u64)]; 4] = [
    &[(-20, 20), (10, 20), (40, 20), (70, 20), (100, 20)],
    &[(0, 50), (5, 25), (20, 15), (60, 10)],
    &[(100, 70), (-20, 30)],
    &[(30, 100)],
];

fn mean(population: &[(i64, u64)]) -> f64 {
    population.iter().map(|(value, percent)| *value as f64 * *percent as f64 / 100.0).sum()
}

fn draw(random: &mut Random, population: &[(i64, u64)]) -> i64 {
    let mut at = random.below(100);
    for (value, percent) in population {
        match at.checked_sub(*percent) {
            Some(rest) => at = rest,
            None => return *value,
        }
    }
    unreachable!("percents add up to a hundred")
}

/// A sample of a large population, of which each unit takes part by a chance of its own: so many on average.
fn sample(random: &mut Random, population: &[(i64, u64)], expected: u64) -> Vec<i64> {
    let count = (0..20 * expected).filter(|_| random.below(20) == 0).count();
    (0..count).map(|_| draw(random, population)).collect()
}

const TRIALS: usize = 1_500;
/// With 5 % of misses, more in so many trials have probability below 1e-9: six standard deviations.
const MOST: usize = 126;

/// How often the intervals of a population's value miss it: with sampling, and of the noise alone.
fn misses(plan: &QueryPlan, population: &[(i64, u64)], expected: u64, truth: f64, random: &mut Random) -> [usize; 2] {
    let mut source = NoiseSource::from_os().unwrap();
    let mut missed = [0, 0];
    for _ in 0..TRIALS {
        let row = noisy(plan, &exact(plan, &sample(random, population, expected)), &mut source);
        let noise = estimate(plan, plan.derivations[0], &row, CONFIDENCE);
        let both = interval(plan, 0, &row, CONFIDENCE);
        assert_eq!(both.value, noise.value);
        let ends = |of: Estimate| (of.low.unwrap(), of.high.unwrap());
        let ((low, high), (least, most)) = (ends(noise), ends(both));
        assert!(
            least.is_finite() && most.is_finite() && least <= low + 1e-9 && most >= high - 1e-9,
            "{noise:?} {both:?}"
        );
        for (missed, (low, high)) in missed.iter_mut().zip([(least, most), (low, high)]) {
            *missed += usize::from(!(low - 1e-9..=high + 1e-9).contains(&truth));
        }
    }
    missed
}

#[tokio::test]
async fn fp_14_intervals_with_sampling_cover_the_population() {
    let mut random = Random(61);
    for sql in ["SELECT AVG(x) FROM t", "SELECT SUM(x) FROM t", "SELECT COUNT(*) FROM t"] {
        for (epsilon, choice) in
            [("1", MechanismChoice::Laplace), ("1", MechanismChoice::Gaussian), ("20", MechanismChoice::Laplace)]
        {
            let plan = plan(sql, epsilon, choice).await;
            for expected in [60, 400] {
                // A count does not depend on the values.
                let populations = if sql.contains("COUNT") { &POPULATIONS[..1] } else { &POPULATIONS[..] };
                for population in populations {
                    let truth = match sql {
                        "SELECT AVG(x) FROM t" => mean(population),
                        "SELECT SUM(x) FROM t" => mean(population) * expected as f64,
                        _ => expected as f64,
                    };
                    let [missed, _] = misses(&plan, population, expected, truth, &mut random);
                    let of = format!("{sql}, ε {epsilon}, {choice:?}, {expected} of {population:?}");
                    println!("{missed} of {TRIALS} missed: {of}");
                    assert!(missed <= MOST, "{missed} of {TRIALS}: {of}");
                }
            }
        }
    }
}

/// The control: on a small sample with little noise, the interval of the noise alone misses the population mostly.
#[tokio::test]
async fn fp_14_control_intervals_of_the_noise_alone_do_not_cover_the_population() {
    let mut random = Random(62);
    for (sql, truth) in [
        ("SELECT AVG(x) FROM t", mean(POPULATIONS[0])),
        ("SELECT SUM(x) FROM t", mean(POPULATIONS[0]) * 60.0),
        ("SELECT COUNT(*) FROM t", 60.0),
    ] {
        let plan = plan(sql, "100", MechanismChoice::Laplace).await;
        let [missed, of_noise] = misses(&plan, POPULATIONS[0], 60, truth, &mut random);
        assert!(missed <= MOST && of_noise > TRIALS / 2, "{sql}: {missed}, {of_noise} of {TRIALS}");
    }
}

/// An interval for sampling is not much wider than need be: with little noise about that of a textbook.
#[tokio::test]
async fn intervals_with_sampling_are_those_of_textbooks_where_noise_is_small() {
    let plan = plan("SELECT AVG(x) FROM t", "500", MechanismChoice::Laplace).await;
    let table: Vec<i64> = (0..2_000).map(|index| [-20, 10, 40, 70, 100][index % 5]).collect();
    let row = exact(&plan, &table);
    let found = interval(&plan, 0, &row, CONFIDENCE);
    let half = (found.high.unwrap() - found.low.unwrap()) / 2.0;
    let textbook = 1.96 * (1_800.0_f64 / 2_000.0).sqrt();
    assert!(half >= textbook && half <= textbook * 1.05, "{half} {textbook}");
    let quantile = |freedom| Sampling { deviation: 1.0, freedom }.quantile(0.95);
    // Tables of Student's t: 2.228 for 10 and 2.000 for 60 degrees of freedom.
    assert!((quantile(None) - 1.959_964).abs() < 1e-4, "{}", quantile(None));
    assert!((quantile(Some(10.0)) - 2.228).abs() < 0.004 && (quantile(Some(60.0)) - 2.000).abs() < 0.001);
}

#[tokio::test]
async fn a_share_of_epsilon_is_for_the_squares_and_none_for_counts() {
    let shares = async |sql: &str| {
        let plan = plan(sql, "1", MechanismChoice::Laplace).await;
        let cost = plan.cost().unwrap().epsilon_nanos;
        assert!(cost <= 1_000_000_000 && cost > 990_000_000, "{sql}: {cost}");
        plan.explain_outputs().iter().map(|output| (output.epsilon, output.sampling)).collect::<Vec<_>>()
    };
    assert_eq!(shares("SELECT AVG(x) FROM t").await, [(0.5, Some(0.5))]);
    assert_eq!(shares("SELECT COUNT(*) FROM t").await, [(1.0, Some(0.0))]);
    // A sum, a mean and a variance of the same values share what is measured.
    let third = 1.0 / 3.0;
    for (epsilon, sampling) in shares("SELECT AVG(x), SUM(x), COUNT(*) FROM t").await {
        assert!((epsilon - third).abs() < 1e-6 && [0.0, third].iter().any(|s| (s - sampling.unwrap()).abs() < 1e-6));
    }
}

/// Two labelled columns come out, and arithmetic carries both intervals.
#[tokio::test]
async fn an_answer_has_a_column_for_each_interval() {
    use dither_core::Cell;
    use dither_mechanisms::{NoisyRow, NoisyTable};
    let plan =
        plan("SELECT AVG(x) AS m, SUM(x) / COUNT(*) AS r, COUNT(*) AS n FROM t", "1", MechanismChoice::Laplace).await;
    let table: Vec<i64> = (0..1_000).map(|index| [-20, 10, 40, 70, 100][index % 5]).collect();
    let noisy =
        NoisyTable { bounds: Vec::new(), rows: vec![NoisyRow { key: Vec::new(), values: exact(&plan, &table) }] };
    let answer = crate::release::answer(&plan, &noisy).await.unwrap();
    let names: Vec<&str> = answer.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["m", "m (with sampling)", "r", "r (with sampling)", "n", "n (with sampling)"]);
    let cells: Vec<Estimate> = answer.rows[0]
        .iter()
        .map(|cell| match cell {
            Cell::Value(estimate) => *estimate,
            Cell::Key(key) => panic!("{key:?}"),
        })
        .collect();
    for pair in cells.chunks(2) {
        assert_eq!(pair[0].value, pair[1].value);
        assert!(pair[1].low < pair[0].low && pair[1].high > pair[0].high, "{pair:?}");
    }
    assert_eq!(crate::release::columns(&plan).await.unwrap(), answer.columns);
}
