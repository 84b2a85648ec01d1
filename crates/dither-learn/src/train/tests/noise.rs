//! Noise: as wide as it says, once in a step, and never the same twice.

use super::*;

/// One step of a model without gradients: its weights are minus the noise over the divisor.
async fn noise_of_one_step(weights: usize, multiplier: f64, bound: f64, divisor: f64) -> Vec<f32> {
    let folder = tempfile::tempdir().unwrap();
    let mut setup = Setup::new(folder.path(), 1).with_rows(20).with_key(3);
    setup.request.noise = NoiseGoal::Multiplier(multiplier);
    setup.request.clipping = Clipping::Flat { bound };
    setup.request.divisor = Some(divisor);
    let mut model = Scripted::new(weights, |_, _| {});
    setup.run(&mut model, &mut |_| true).await.unwrap();
    model.weights
}

/// Mean, standard deviation, and the mean of products of neighbours over the variance.
fn moments(noise: &[f32]) -> (f64, f64, f64) {
    let count = noise.len() as f64;
    let mean = noise.iter().map(|x| f64::from(*x)).sum::<f64>() / count;
    let square = noise.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / count - mean * mean;
    let products = noise.windows(2).map(|pair| f64::from(pair[0]) * f64::from(pair[1])).sum::<f64>();
    (mean, square.sqrt(), products / count / square)
}

/// Whether a million draws have this deviation. The relative error of an estimate is 1/√(2·10⁶) = 0.07 %, so that 0.6 %
/// are 8.5 deviations: a false alarm has probability below 10⁻¹⁶.
fn has_deviation(noise: &[f32], expected: f64) -> bool {
    let (mean, deviation, _) = moments(noise);
    (deviation / expected - 1.0).abs() < 0.006 && mean.abs() < 7.0 * expected / 1000.0
}

#[tokio::test]
async fn tr_02_and_tr_03_noise_without_gradients_has_the_deviation_of_the_plan() {
    for (multiplier, bound, divisor) in [(1.0, 1.0, 50.0), (0.5, 0.1, 1.0), (7.3, 30.0, 1024.0)] {
        let noise = noise_of_one_step(1_000_000, multiplier, bound, divisor).await;
        // σC over the divisor, and what floats are allowed.
        let expected = multiplier * bound / divisor * (1.0 + crate::train::noise::FLOAT_ALLOWANCE);
        assert!(has_deviation(&noise, expected), "{:?}", moments(&noise));
        assert!(moments(&noise).2.abs() < 7e-3, "neighbours are correlated");
        // Control: divided twice, as in a bug that an audit of 2022 found; half the noise; 1 % less.
        let mutants =
            [1.0 / divisor, 0.5, 0.99].map(|factor| -> Vec<f32> { noise.iter().map(|x| x * factor as f32).collect() });
        assert!(mutants.iter().all(|mutant| divisor == 1.0 || !has_deviation(mutant, expected)));
    }
}

#[tokio::test]
pub(super) async fn tr_04_an_empty_sample_gets_noise_and_counts_as_a_step() {
    for rows in [0, 20] {
        let folder = tempfile::tempdir().unwrap();
        let mut setup = Setup::new(folder.path(), 4).with_rows(rows).with_key(3);
        // Nobody is ever drawn.
        setup.request.sample = SampleGoal::Rate(1e-12);
        setup.request.divisor = Some(50.0);
        let mut asked = 0;
        let mut model = Scripted::new(1000, |_, _| asked += 1);
        let mut steps = Vec::new();
        let mut watch = |progress: Progress<'_>| {
            steps.push(progress.executed);
            true
        };
        let trained = setup.run(&mut model, &mut watch).await.unwrap();
        assert_eq!((trained.finished.executed, steps), (4, vec![1, 2, 3, 4]));
        let (_, deviation, _) = moments(&model.weights);
        // Four draws: 2σC/50; 1000 weights tell it to 2.2 %, and 16 % are seven deviations.
        assert!((deviation / (2.0 / 50.0) - 1.0).abs() < 0.16, "{deviation}");
        assert_eq!(asked, 0);
    }
}

#[tokio::test]
async fn tr_11_noise_differs_between_steps_layers_and_runs() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::new(folder.path(), 3).with_rows(20);
    let mut model = Scripted::new(40_000, |_, _| {});
    setup.run(&mut model, &mut |_| true).await.unwrap();
    // Weights after each step are in no checkpoint of its own: noise of steps from the streams themselves.
    let table = dither_noise::NoiseTable::gaussian(dither_core::Ratio::new(1 << 40, 1).unwrap()).unwrap();
    let draw = |key: &JobKey, step, part| {
        let mut noise = vec![0i64; 20_000];
        table.fill(&mut key.stream(dither_noise::Purpose::Noise, step, part), &mut noise).unwrap();
        noise
    };
    let key = known_key(3);
    let streams = [draw(&key, 0, 0), draw(&key, 1, 0), draw(&key, 0, 1), draw(&known_key(4), 0, 0)];
    let correlation = |a: &[i64], b: &[i64]| {
        let product = |a: &[i64], b: &[i64]| a.iter().zip(b).map(|(a, b)| *a as f64 * *b as f64).sum::<f64>();
        product(a, b) / (product(a, a) * product(b, b)).sqrt()
    };
    for (i, a) in streams.iter().enumerate() {
        // 20,000 products: a correlation of 0.05 is seven deviations.
        assert!(streams[..i].iter().all(|b| correlation(a, b).abs() < 0.05));
        assert!(correlation(&a[..10_000], &a[10_000..]).abs() < 0.07);
    }
    // Control: one stream for two steps, or for two layers.
    assert!(correlation(&streams[0], &draw(&key, 0, 0)) > 0.99);
    // Two layers of a model: halves of its weights are not related.
    let (first, second) = model.weights.split_at(20_000);
    let product: f64 = first.iter().zip(second).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
    let deviation = moments(&model.weights).1;
    assert!((product / 20_000.0 / deviation.powi(2)).abs() < 0.05);
}

#[tokio::test]
async fn two_runs_of_one_job_draw_different_noise_unless_they_share_the_key() {
    let weights = async |seed| {
        let folder = tempfile::tempdir().unwrap();
        Setup::new(folder.path(), 2).with_rows(50).with_key(seed).trained().await
    };
    assert_eq!(weights(1).await, weights(1).await);
    assert_ne!(weights(1).await, weights(2).await);
}
