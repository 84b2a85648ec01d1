//! What units count for an adaptive clipping norm, beside others whose company changes the last bits of their norms.

use super::*;
use crate::model::Targets;
use crate::nn::{Activation, Description, Network, Objective};
use crate::train::adaptive::{Adaptive, WHOLE, counted};
use crate::train::noise::FLOAT_ALLOWANCE;
use crate::train::plan::DpPlan;
use crate::train::sums::Adder;

/// How many units a part has at most, but for a probability below 10⁻¹⁵.
const MOST: usize = 90;

#[test]
fn a_unit_counts_along_a_ramp_and_never_more_than_a_whole() {
    let of = |norm: f64| counted(norm, 2.0) as f64 / WHOLE as f64;
    assert_eq!([0.0, 1.5, 2.0, 2.5, 9.0, f64::INFINITY, f64::NAN].map(of), [1.0, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0]);
    for norm in (0..4000).map(|n| f64::from(n) / 1000.0) {
        for moved in [1e-12, 1e-7, 1e-3, 0.1] {
            let (less, more) = (of(norm), of(norm + moved));
            // The slope is 2 over the clipping norm, and rounding makes two halves of 2⁻³².
            assert!(less >= more && less - more <= moved * (1.0 + 1e-9) + 2.4e-10, "{norm} {moved}");
        }
    }
}

#[test]
fn tr_01_company_changes_norms_by_far_less_than_is_set_aside() {
    let mut stream = dither_testing::SeededBytes::new(3);
    for hidden in [7, 50, 300] {
        let description = Description::mlp(6, &[hidden, 40], 3, Activation::Tanh, Objective::Classes);
        let network = Network::new(&description, 5).unwrap();
        let values: Vec<f32> = (0..6 * MOST).map(|_| 4.0 * stream.unit() as f32 - 2.0).collect();
        let norms = |size: usize| -> Vec<f64> {
            let of = |values: &[f32]| {
                let units = values.len() / 6;
                let inputs = Inputs::Numbers { values: values.to_vec(), width: 6 };
                let targets = Targets::Classes((0..units as u32).map(|unit| unit % 3).collect());
                let batch = Batch { inputs, targets, offsets: (0..=units).collect() };
                let mut sum = vec![0.0; network.trainable().len()];
                network.add_clipped(&batch, &Clipping::Flat { bound: 1.0 }, &mut sum).unwrap().norms
            };
            // The first row of every chunk is of the first class, whatever the chunks are.
            values.chunks(6 * size).flat_map(of).collect()
        };
        let whole = norms(MOST);
        for size in [3, 6, 15, 30, 45] {
            let moved: f64 = norms(size).iter().zip(&whole).map(|(a, b)| ((a - b) / b).abs()).sum();
            // Norms of clipped length and a quarter more; a tenth of what the sums of these gradients have.
            assert!(moved * 1.25 < 0.1 * FLOAT_ALLOWANCE, "{hidden} {size}: {moved}");
        }
    }
}

/// A model that rounds norms in another way in batches of an odd size, as far as is set aside: in batches of others it
/// makes each longer by `moved`.
struct Rounding {
    weights: Vec<f32>,
    layers: Vec<Layer>,
    moved: f64,
}

impl Model for Rounding {
    fn trainable(&self) -> &[f32] {
        &self.weights
    }
    fn trainable_mut(&mut self) -> &mut [f32] {
        &mut self.weights
    }
    fn layers(&self) -> &[Layer] {
        &self.layers
    }
    fn add_clipped(
        &self,
        batch: &Batch,
        _: &Clipping,
        sum: &mut [f32],
    ) -> Result<Observed, Box<dyn Error + Send + Sync>> {
        let Inputs::Numbers { values, .. } = &batch.inputs else { return Err("no numbers".into()) };
        let moved = if values.len() % 2 == 1 { self.moved } else { 0.0 };
        // Only the one whose norm is far away has a gradient in the sum: the longest one there is.
        sum[0] += values.iter().filter(|value| **value != 1.0).count() as f32 * 0.999_999;
        let norm = |value: &f32| f64::from(*value) + if *value == 1.0 { moved } else { 0.0 };
        Ok(Observed { norms: values.iter().map(norm).collect(), ..Observed::default() })
    }
    fn add_gradients(&self, _: &Batch, _: &mut [f32]) -> Result<Observed, Box<dyn Error + Send + Sync>> {
        Err("not for tests".into())
    }
    fn predict(&self, _: &Inputs) -> Result<Vec<f32>, Box<dyn Error + Send + Sync>> {
        Err("not for tests".into())
    }
}

#[test]
fn tr_01_a_unit_that_moves_the_last_bits_of_all_others_moves_the_count_by_what_is_charged() {
    let mut setup = Setup::new(Path::new(""), 10);
    setup.request.adaptive = Some(Adaptive { quantile: 0.5, learning_rate: 0.2, count_noise: 1.0 });
    let plan = DpPlan::new(&setup.request, 2).unwrap();
    let lattice = plan.lattice();
    let c = lattice.count().unwrap();
    let bound = plan.norm();
    let (mut flipped, mut beyond) = (0, 0);
    for others in 1..MOST {
        // All norms of the others are the clipping norm, and move by C/128 in all, up or down.
        for moved in [1.0, -1.0].map(|sign| sign * bound / 128.0 / others as f64) {
            // A unit with a short gradient, or a long one.
            for unit in [0.0, 9.0] {
                let mut numbers = vec![1.0; others];
                numbers.push(unit);
                let count = numbers.len();
                let rows = Rows { numbers, width: 1, classes: vec![0; count], count, ..Rows::default() };
                let table = Table::new(rows, 1, &known_key(1));
                let layers = vec![Layer { name: "weights".into(), shape: vec![2], start: 0 }];
                let model = Rounding { weights: vec![0.0; 2], layers, moved };
                let integers = |units: usize| {
                    let adder = Adder { model: &model, table: &table, plan: &plan, bound, physical: 1000, threads: 1 };
                    let (found, observed, counted) = adder.add(&[(0..units as u32).collect()]).unwrap();
                    let mut sum = vec![0; 2];
                    found.copy(0, &mut sum);
                    let below = observed.norms.iter().filter(|norm| **norm <= bound).count();
                    (sum, lattice.count_of(counted, units), below)
                };
                let (without, with) = (integers(others), integers(others + 1));
                let gradients: u128 =
                    without.0.iter().zip(&with.0).map(|(a, b)| u128::from(a.abs_diff(*b)).pow(2)).sum();
                let change = with.1.abs_diff(without.1);
                assert!(gradients + u128::from(change).pow(2) <= lattice.sensitivity().squared(), "{others} {unit}");
                assert!(change <= c + c / 32 + 2, "{others} {unit}: {change} of {c}");
                // Mutants: whole units instead of the ramp, and nothing set aside for the others.
                flipped = flipped.max(with.2.abs_diff(without.2));
                beyond = beyond.max(change.saturating_sub(c + 1));
            }
        }
    }
    assert!(flipped > MOST / 2, "one unit pushes all others over the norm: {flipped}");
    assert!(beyond > c / 40, "without the allowance the charge is too small: {beyond}");
}

#[test]
fn networks_are_clipped_adaptively_through_a_job() {
    let folder = tempfile::tempdir().unwrap();
    let network = r#"kind = "network"
        [model.network]
        model = "layers"
        input = 1
        objective = "classes"
        layers = [{ layer = "linear", outputs = 8 }, { layer = "linear", outputs = 2 }]"#;
    let text = super::session::JOB
        .replace(r#"kind = "linear""#, network)
        .replace("kind = \"flat\"\n    bound = 1", "kind = \"adaptive\"\nbound = 50\ncount_noise = 10");
    Setup::new(folder.path(), 1).with_rows(2000);
    std::fs::write(folder.path().join("job.toml"), text).unwrap();
    let mut session = crate::train::session::TrainingSession::open(&folder.path().join("job.toml")).unwrap();
    let mut bounds = Vec::new();
    let mut watch = |progress: Progress<'_>| {
        bounds.push(progress.bound);
        true
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(session.train(false, false, &mut watch)).unwrap();
    // No gradient of this network is as long as 50: the norm goes down from there.
    assert!(bounds.windows(2).all(|pair| pair[1] < pair[0] || pair[0] < 10.0), "{bounds:?}");
    assert!(*bounds.last().unwrap() < 10.0, "{bounds:?}");
}
