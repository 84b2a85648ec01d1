//! Parts of a sample: how large they are, and how far off the sum of one can be.

use super::*;
use crate::nn::{Activation, Description, Objective};
use crate::train::adaptive::Adaptive;
use crate::train::noise::FLOAT_ALLOWANCE;
use crate::train::sampler::Sampler;
use crate::train::sums::Adder;

/// How many units a part has at most.
const MOST: usize = 448;

#[test]
fn tr_01_a_part_is_added_up_within_its_allowance_and_one_long_chain_would_not_be() {
    let plan = DpPlan::new(&Setup::new(Path::new(""), 10).request, 1).unwrap();
    let model = Scripted::new(1, |batch, sum| {
        let Inputs::Numbers { values, .. } = &batch.inputs else { panic!("no numbers") };
        values.iter().for_each(|value| sum[0] += value);
    });
    let (mut worst, mut chain) = (0.0f64, 0.0f64);
    // Gradients that lie side by side, as long as clipping leaves them, whose sums are all rounded in one direction.
    for gradient in (1..90).map(|k| 1.0 - (k * 17) as f32 * 2f32.powi(-24)) {
        let rows = Rows {
            numbers: vec![gradient; MOST + 1],
            width: 1,
            classes: vec![0; MOST + 1],
            count: MOST + 1,
            ..Rows::default()
        };
        let table = Table::new(rows, 1, &known_key(1));
        let sum = |units: usize, physical: usize, threads: usize| {
            let adder = Adder { model: &model, table: &table, plan: &plan, bound: 1.0, physical, threads };
            // What was in it before counts nothing.
            let mut sum = [77];
            adder.add(&[(0..units as u32).collect()]).unwrap().0.copy(0, &mut sum);
            sum[0]
        };
        for physical in [1, 3, 4, 9, 32, 100, 128, 1000] {
            let (all, others) = (sum(MOST, physical, 1), sum(MOST - 1, physical, 3));
            assert!((all - others).unsigned_abs() as f64 <= plan.lattice().sensitivity().as_f64());
            // One unit more makes two of a full part.
            for half in [1, 100, MOST.div_ceil(2)] {
                let halves = sum(half, physical, 2) + sum(MOST + 1 - half, physical, 1);
                assert!((halves - all).unsigned_abs() as f64 <= plan.lattice().sensitivity().as_f64());
            }
            let off = all as f64 * plan.lattice().step() - MOST as f64 * f64::from(gradient);
            worst = worst.max(off.abs());
        }
        let one = (0..MOST).fold(0.0f32, |sum, _| sum + gradient);
        chain = chain.max((f64::from(one) - MOST as f64 * f64::from(gradient)).abs());
    }
    // With and without a unit, each has half.
    assert!(worst <= FLOAT_ALLOWANCE / 2.0 && worst > FLOAT_ALLOWANCE / 8.0, "{worst}");
    assert!(chain > FLOAT_ALLOWANCE / 2.0, "{chain}");
}

#[test]
fn parts_are_larger_where_a_sum_of_floats_has_one_term_for_each_unit() {
    let parts = |change: &dyn Fn(&mut PlanRequest)| {
        let mut request = Setup::new(Path::new(""), 10).request;
        (request.units, request.sample, request.delta) =
            (Some(10_000), SampleGoal::Units(1024.0), "1e-6".parse().unwrap());
        change(&mut request);
        let plan = DpPlan::new(&request, 10).unwrap();
        (plan.parts(), plan.most_in_part())
    };
    assert_eq!(parts(&|_| ()), (4, MOST));
    let fewer = (16, 112);
    assert_eq!(parts(&|r| r.several_positions = true), fewer);
    assert_eq!(parts(&|r| r.rows_per_unit = 2), fewer);
    assert_eq!(parts(&|r| r.adaptive = Some(Adaptive { quantile: 0.5, learning_rate: 0.2, count_noise: 50.0 })), fewer);
    assert!(!Description::mlp(4, &[3], 2, Activation::Tanh, Objective::Classes).several_positions());
    assert!(Description::small_cnn(10).several_positions());
}

#[test]
fn tr_01_no_part_is_larger_than_its_allowance_however_many_units_a_table_has() {
    let mut request = Setup::new(Path::new(""), 10).request;
    // A divisor of ten for samples of thousands.
    (request.units, request.sample, request.divisor) = (None, SampleGoal::Rate(0.5), Some(10.0));
    let plan = DpPlan::new(&request, 10).unwrap();
    let most_of = |most: usize| {
        let parts = Sampler::new(known_key(1), plan.rate(), plan.parts(), most).sample(0, 10_000).unwrap();
        parts.iter().map(Vec::len).max().unwrap()
    };
    assert!(most_of(plan.most_in_part()) <= MOST);
    assert!(most_of(usize::MAX) > 10 * MOST, "one part, if it were not halved");
}
