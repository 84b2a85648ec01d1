//! Adaptive clipping: what the count costs is in the one event, and it has its noise.

use dither_core::PrivacyEvent;
use proptest::prelude::*;

use super::*;
use crate::train::adaptive::Adaptive;
use crate::train::job::{ClippingPart, Job};
use crate::train::noise::Lattice;

fn adaptive(setup: &mut Setup, quantile: f64, learning_rate: f64, count_noise: f64) {
    setup.request.adaptive = Some(Adaptive { quantile, learning_rate, count_noise });
}

fn request(multiplier: f64, count_noise: f64) -> PlanRequest {
    let mut setup = Setup::new(Path::new("."), 100);
    setup.request.noise = NoiseGoal::Multiplier(multiplier);
    adaptive(&mut setup, 0.5, 0.2, count_noise);
    setup.request
}

/// The multiplier that the gradients have, and the deviation of the noise on the count.
fn shares(lattice: &Lattice, multiplier: f64, weights: usize) -> (f64, f64) {
    let gradients = Lattice::new(1.0, multiplier, weights, 100).unwrap().sensitivity().as_f64();
    let sigma = lattice.variance().as_f64().sqrt();
    (sigma / gradients, sigma / (2.0 * lattice.count().unwrap() as f64))
}

#[test]
fn gradients_and_count_have_the_published_shares_of_one_multiplier() {
    // Andrew et al. 2021, Theorem 1, with what is set aside: z_Δ = (z⁻² − (1.03125/2σ_b)²)^(−1/2); figures with 50 digits.
    for (multiplier, count_noise, gradients) in
        [(1.0, 1.0, 1.167113950), (1.0, 50.0, 1.000053178), (0.5, 0.3, 0.977811730), (3.0, 100.0, 3.000358988)]
    {
        let plan = DpPlan::new(&request(multiplier, count_noise), 1000).unwrap();
        let (found, count) = shares(&plan.lattice(), multiplier, 1000);
        assert!((found / gradients - 1.0).abs() < 1e-6, "{found} {gradients}");
        assert!(count >= count_noise * (1.0 - 1e-9) && count < count_noise * 1.001, "{count} {count_noise}");
        // What is charged is one vector with the multiplier of the plan.
        let PrivacyEvent::SampledGaussian { sensitivity, variance, coordinates, .. } = plan.event() else { panic!() };
        let joint = (variance.as_f64() / sensitivity.squared() as f64).sqrt();
        assert!((multiplier..multiplier * (1.0 + 1e-9)).contains(&joint), "{joint}");
        assert_eq!(*coordinates, 1001);
    }
}

#[test]
fn a_plan_with_a_count_keeps_its_goal_and_costs_what_one_without_costs() {
    let price = |request: &PlanRequest| {
        let plan = DpPlan::new(request, 1000).unwrap();
        (plan.price().unwrap().best, plan.noise_multiplier())
    };
    let (with, mut without) = (request(1.0, 2.0), request(1.0, 2.0));
    without.adaptive = None;
    assert!(price(&with).0.abs_diff(price(&without).0) < 10_000, "{:?} {:?}", price(&with), price(&without));
    let mut goal = request(1.0, 5.0);
    goal.noise = NoiseGoal::Epsilon("2".parse().unwrap());
    assert!(price(&goal).0 <= 2_000_000_000 && price(&goal).0 > 1_999_000_000);
}

#[test]
fn counts_that_cost_more_than_the_run_and_odd_numbers_are_refused() {
    let refused = |change: &dyn Fn(&mut PlanRequest)| {
        let mut request = request(1.0, 50.0);
        change(&mut request);
        DpPlan::new(&request, 10).unwrap_err().to_string()
    };
    let with = |quantile, learning_rate, count_noise| {
        refused(&move |r: &mut PlanRequest| r.adaptive = Some(Adaptive { quantile, learning_rate, count_noise }))
    };
    for count_noise in [0.5, 0.4, 0.0, -1.0, f64::NAN, f64::INFINITY, 1e12] {
        assert!(with(0.5, 0.2, count_noise).starts_with("clipping.count_noise"), "{count_noise}");
    }
    assert!(with(1.1, 0.2, 50.0).starts_with("clipping.quantile"));
    assert!(with(0.5, 0.0, 50.0).starts_with("clipping.learning_rate"));
    assert!(refused(&|r| r.clipping = Clipping::Automatic { bound: 1.0 }).starts_with("clipping"));
}

proptest! {
    /// A unit with the longest gradient there is, in the worst direction, that is counted.
    #[test]
    fn tr_01_one_unit_moves_gradients_and_count_together_by_the_charged_sensitivity(
        others in prop::collection::vec(-1.0f32..1.0, 0..20),
        direction in prop::collection::vec(-1.0f32..1.0, 4),
        bound in 1e-6f64..1e6,
        count_noise in 0.6f64..20.0,
        unclipped: bool,
    ) {
        let lattice = Lattice::counting(1.0, count_noise, 4, 100).unwrap();
        // A unit counts c, and what others count moves by a 32nd of that beside it; rounding makes one more.
        let c = i64::try_from(lattice.count().unwrap()).unwrap();
        let moved = c + c / 32 + 1;
        let length = direction.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt().max(1e-3);
        let unit: Vec<f32> = direction.iter().map(|x| (f64::from(*x) / length * bound * 0.999_999) as f32).collect();
        let rest: Vec<f32> = (0..4).map(|i| others.iter().skip(i).step_by(4).sum::<f32>() * bound as f32 * 0.4).collect();
        let integers = |part: &[f32], units: usize, count: i64| {
            let mut sum = vec![0; 5];
            lattice.check(crate::nn::squared(part), (units, bound)).unwrap();
            lattice.add(part, (units, bound), &mut sum[..4], false);
            sum[4] = count;
            sum
        };
        let both: Vec<f32> = rest.iter().zip(&unit).map(|(a, b)| a + b).collect();
        let without = integers(&rest, others.len() + 1, 7);
        let with = integers(&both, others.len() + 2, 7 + if unclipped { moved } else { -moved });
        let squared: u128 = with.iter().zip(&without).map(|(a, b)| u128::from(a.abs_diff(*b)).pow(2)).sum();
        prop_assert!(squared <= lattice.sensitivity().squared());
        // Mutants: the count left out of the sensitivity, and one whose units count twice.
        let gradients = Lattice::new(1.0, 1.0, 4, 100).unwrap().sensitivity().squared();
        let count = lattice.sensitivity().squared() - gradients;
        prop_assert!(count >= u128::try_from(moved).unwrap().pow(2) && count <= u128::try_from(moved + 2).unwrap().pow(2));
        if length > 0.1 && count_noise < 5.0 {
            prop_assert!(squared > gradients);
            prop_assert!(squared + 3 * count > lattice.sensitivity().squared());
        }
    }
}

/// The noise on the count of every step, in units, from how the norm moves where nobody is drawn.
async fn noise_of_counts(steps: u64, count_noise: f64) -> Vec<f64> {
    const RATE: f64 = 0.001;
    let folder = tempfile::tempdir().unwrap();
    let mut setup = Setup::new(folder.path(), steps).with_rows(20).with_key(3);
    setup.request.sample = SampleGoal::Rate(1e-12);
    setup.request.divisor = Some(50.0);
    setup.every = steps;
    adaptive(&mut setup, 0.5, RATE, count_noise);
    let mut bounds = Vec::new();
    let mut watch = |progress: Progress<'_>| {
        bounds.push(progress.bound);
        true
    };
    setup.run(&mut Scripted::new(1, |_, _| {}), &mut watch).await.unwrap();
    bounds.windows(2).map(|pair| -(pair[1] / pair[0]).ln() / RATE * 50.0).collect()
}

/// Whether 4,000 draws have this deviation: 9 % are eight standard errors, a false alarm below 10⁻¹⁴.
fn has_deviation(noise: &[f64], expected: f64) -> bool {
    let squares = noise.iter().map(|x| x * x).sum::<f64>() / noise.len() as f64;
    (squares.sqrt() / expected - 1.0).abs() < 0.09
}

#[tokio::test]
async fn tr_02_the_count_has_its_noise_in_every_step() {
    let noise = noise_of_counts(4000, 5.0).await;
    assert!(has_deviation(&noise, 5.0));
    // Mutants: no noise on the count, half of it, and that of a count that moves by one instead of a half.
    for factor in [0.0, 0.5, 2.0] {
        assert!(!has_deviation(&noise.iter().map(|x| factor * x).collect::<Vec<_>>(), 5.0));
    }
}

#[tokio::test]
async fn the_norm_goes_to_the_quantile_and_gradients_keep_their_scale() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = "x,y\n".to_owned();
    (0..200).for_each(|row| writeln!(text, "{},a", (f64::from(row) + 0.5) / 200.0).unwrap());
    let mut setup = Setup::new(folder.path(), 400).with_table(&text);
    (setup.request.sample, setup.request.units, setup.request.divisor) = (SampleGoal::Rate(1.0), Some(200), None);
    setup.request.noise = NoiseGoal::Multiplier(0.3);
    setup.request.clipping = Clipping::Flat { bound: 2.0 };
    setup.budget = "100000";
    adaptive(&mut setup, 0.7, 0.1, 2.0);
    let mut last = 0.0;
    let mut watch = |progress: Progress<'_>| {
        last = progress.bound;
        true
    };
    // Everybody pushes by a tenth.
    let mut model = Scripted::new(1, |batch, sum| sum[0] += 0.1 * (batch.offsets.len() - 1) as f32);
    setup.run(&mut model, &mut watch).await.unwrap();
    assert!((last - 0.7).abs() < 0.05, "{last}");
    assert!((model.weights[0] / -40.0 - 1.0).abs() < 0.01, "{}", model.weights[0]);
}

#[tokio::test]
async fn a_run_that_stops_goes_on_with_the_norm_that_it_had() {
    let run = async |stops: &[u64]| {
        let folder = tempfile::tempdir().unwrap();
        let mut setup = Setup::new(folder.path(), 10).with_rows(200).with_key(1);
        adaptive(&mut setup, 0.3, 0.5, 2.0);
        for at in stops {
            let mut model = Linear::new(1, 2).unwrap();
            let stopped = setup.run(&mut model, &mut |progress| progress.executed < *at).await;
            assert!(matches!(stopped, Err(TrainError::Stopped { .. })));
        }
        (setup.trained().await, setup.charges().await)
    };
    let whole = run(&[]).await;
    assert_eq!(run(&[5]).await, whole);
    assert_eq!(run(&[4, 8]).await, whole);
}

#[tokio::test]
async fn a_model_that_does_not_tell_norms_is_not_clipped_adaptively() {
    let folder = tempfile::tempdir().unwrap();
    let mut setup = Setup::new(folder.path(), 2).with_rows(200);
    adaptive(&mut setup, 0.5, 0.2, 10.0);
    if let Data::Table { features, .. } = &mut setup.data {
        // Of rows of two numbers, this model tells no norm.
        features.push(Feature::Number { column: "x".into(), lower: -1.0, upper: 1.0, missing: None });
    }
    let error = setup.run(&mut Scripted::new(4, |_, _| ()), &mut |_| true).await.unwrap_err();
    assert!(error.operator_detail().is_some_and(|detail| detail.contains("norms")), "{error}");
}

#[test]
fn jobs_say_it_in_one_line() {
    let text = super::session::JOB
        .replace("kind = \"flat\"\n    bound = 1", "kind = \"adaptive\"\nbound = 1\ncount_noise = 10");
    let job = Job::parse(&text).unwrap();
    assert!(matches!(job.clipping, ClippingPart::Adaptive { quantile: 0.5, learning_rate: 0.2, .. }));
    assert_eq!(job.plan_request().unwrap().adaptive.unwrap().count_noise, 10.0);
}
