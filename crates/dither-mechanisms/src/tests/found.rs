//! Attacks on bounds that are found from the data.

use dither_core::{Mechanism, PrivacyEvent};
use dither_testing::FALSE_ALARM;
use dither_testing::neighbours::refuted;

use super::*;
use crate::{Bounds, FoundBounds, FoundSum, Histogram, Magnitudes};

/// A pair of sums with bounds that are found for units of so many rows.
fn mechanism(rows: u64, loss: &str) -> TableMechanism {
    let found = FoundBounds::for_epsilon(rows, false, vec![FoundSum::Pair(0)], epsilon(loss)).unwrap();
    let noise = Noise::Laplace(laplace(u128::from(rows) * u128::from(FoundBounds::STEPS), "1"));
    TableMechanism {
        blocks: vec![Block { width: 2, noise }],
        quantiles: Vec::new(),
        found: vec![found],
        keys: KeyRule::Public,
    }
}

/// A table of groups with these histograms.
fn table(groups: &[Histogram]) -> ExactTable {
    let row = |histogram: &Histogram| ExactRow {
        key: vec![Key::Null],
        // What stands there must not matter.
        values: vec![77, -5],
        units: 1,
        histograms: vec![histogram.clone()],
    };
    ExactTable { rows: groups.iter().map(row).collect() }
}

/// The point of a value, from 2^-20 on.
fn point(value: f64) -> u32 {
    let octave = value.abs().log2().floor();
    let rest = (value.abs() / octave.exp2() - 1.0) * Magnitudes::STEPS as f64;
    let number = 1 + (octave as i64 - i64::from(Magnitudes::LEAST)) * Magnitudes::STEPS + rest as i64;
    assert!(Magnitudes::beginning(number) <= value.abs() && value.abs() < Magnitudes::beginning(number + 1));
    u32::try_from(if value < 0.0 { -number } else { number } + Magnitudes::SIDE).unwrap()
}

#[test]
fn the_event_names_both_choices_and_the_noise_whatever_the_data() {
    let mechanism = mechanism(12, "0.5");
    let quarter = PrivacyEvent::Composed(vec![PrivacyEvent::BoundedRange { epsilon: epsilon("0.25") }]);
    let choice = PrivacyEvent::Composed(vec![quarter.clone(), quarter]);
    assert_eq!(mechanism.event(), PrivacyEvent::Composed(vec![mechanism.blocks[0].noise.event(), choice]));
}

/// How often the lower bound lies above zero, where as many rows lie below the rank that is asked for as above, and one
/// unit more in four groups has `more` rows in each, or none.
fn above(mechanism: &TableMechanism, more: u64, source: &mut Seeded) -> u64 {
    let (margin, last) = (mechanism.found[0].margin(), 2 * Magnitudes::SIDE as u32);
    let middle = Magnitudes::SIDE as u32;
    // Four rows less than the rank at the least point, eight at zero, and more than enough at the greatest.
    let mut groups = vec![vec![(0, margin - 4), (middle, 8), (last, 4 * margin)], vec![], vec![], vec![]];
    for group in &mut groups {
        group.push((0, more));
    }
    let positive = |bounds: &Bounds| bounds.lower() > 0.0;
    (0..20_000).filter(|_| mechanism.add_noise(table(&groups), source).unwrap().bounds.iter().all(positive)).count()
        as u64
}

#[test]
fn se_14_bounds_move_by_what_a_unit_has_in_all_groups_and_a_price_for_one_group_is_refuted() {
    let mut source = Seeded::new(70);
    let honest = mechanism(4, "4");
    let [without, with] = [0, 1].map(|more| above(&honest, more, &mut source));
    // About one half, and 1/(1 + e²): the whole range of one choice.
    assert!((9_000..11_000).contains(&without) && (2_000..2_800).contains(&with), "{without} {with}");
    assert!(!refuted(without, with, 20_000, 2.0, 0.0, FALSE_ALARM));
    // The mutant forgets that a unit is in four groups.
    let mutant = mechanism(1, "4");
    let [without, with] = [0, 1].map(|more| above(&mutant, more, &mut source));
    assert!(refuted(without, with, 20_000, 2.0, 0.0, FALSE_ALARM), "{without} {with}");
}

#[test]
fn bounds_leave_out_few_rows_and_sums_are_those_of_clamped_values() {
    let mechanism = mechanism(2, "1");
    let (found, mut source) = (&mechanism.found[0], Seeded::new(71));
    // Magnitudes from 1 to 1,000 of both signs, some beyond all reason.
    let value = |i: u32| 10f64.powf(f64::from(i) / 1_000.0) * if i.is_multiple_of(4) { -1.0 } else { 1.0 };
    let values: Vec<f64> = (0..3_000).map(value).collect();
    let mut histogram: Histogram = values.iter().map(|value| (point(*value), 20)).collect();
    histogram.extend([(0, 5), (2 * Magnitudes::SIDE as u32, 5)]);
    let mut kept = 0;
    for _ in 0..100 {
        let noisy = mechanism.add_noise(table(&[histogram.clone(), vec![]]), &mut source).unwrap();
        let bounds = noisy.bounds[0];
        let outside = |value: &&f64| **value < bounds.lower() || **value > bounds.upper();
        let out = 20 * values.iter().filter(outside).count() as u64;
        if bounds.lower() < -1_200.0 || bounds.upper() > 1_200.0 {
            continue;
        }
        kept += u64::from(out <= 4 * found.margin());
        let mut sums = [0; 2];
        found.fill(bounds, &histogram, &mut sums);
        let range = bounds.upper() - bounds.lower();
        let above = |value: &f64| value.clamp(bounds.lower(), bounds.upper()) - bounds.lower();
        let exact = 20.0 * values.iter().map(above).sum::<f64>() + 5.0 * range;
        let sum = sums[1] as f64 / FoundBounds::STEPS as f64 * range;
        // A value is off by half a step of 1/4,096 at most, to either side.
        assert!(
            (sum - exact).abs() < 20.0 * values.iter().map(|value| value.abs()).sum::<f64>() / 16_384.0,
            "{sum} {exact}"
        );
        let wide = mechanism.blocks[0].noise.error_quantile(1.0 - 1e-12).unwrap() as i128;
        assert!(noisy.rows[0].values.iter().zip(&sums).all(|(noisy, exact)| (noisy - exact).abs() <= wide));
        assert!(noisy.rows[1].values.iter().all(|noisy| noisy.abs() <= wide && *noisy != 0), "{noisy:?}");
    }
    // Each end is among the values with probability 95 %.
    assert!(kept > 80, "{kept}");
}

#[test]
fn tables_of_nothing_and_of_zeros_have_bounds_as_well() {
    let mechanism = mechanism(1, "1");
    for histogram in [vec![], vec![(Magnitudes::SIDE as u32, 1_000_000)], vec![(u32::MAX, u64::MAX)]] {
        for seed in 0..50 {
            let noisy = mechanism.add_noise(table(std::slice::from_ref(&histogram)), &mut Seeded::new(seed)).unwrap();
            assert!(noisy.bounds[0].lower() < noisy.bounds[0].upper());
        }
    }
}

#[test]
fn a_row_without_its_histogram_fails_and_does_not_panic() {
    let mechanism = mechanism(1, "1");
    let mut odd = table(&[vec![]]);
    odd.rows[0].histograms.clear();
    assert!(mechanism.add_noise(odd, &mut Seeded::new(72)).is_err());
    let mut narrow = mechanism.clone();
    narrow.blocks[0].width = 1;
    let mut row = table(&[vec![]]);
    row.rows[0].values.truncate(1);
    assert!(narrow.add_noise(row, &mut Seeded::new(72)).is_err());
    assert_ne!(mechanism.event(), PrivacyEvent::Composed(Vec::new()));
}

/// What is said to lie beyond both bounds at most does so 95 times in 100. Of 1,000 draws more than 92 miss with probability
/// below 1e-8. The control: twice the margin, which is what lies there about, is too little in many of them.
#[test]
fn no_more_rows_lie_beyond_the_bounds_than_is_said() {
    let mut source = Seeded::new(46);
    let found = FoundBounds::for_epsilon(1, false, vec![FoundSum::Pair(0)], epsilon("1")).unwrap();
    // A row in the middle of each of 2,656 coarse steps, away from zero.
    let middle = |step: i64| u32::try_from(Magnitudes::SIDE + step * 256 - step.signum() * 128).unwrap();
    let histogram: Histogram = (-1328..=1328).filter(|step| *step != 0).map(|step| (middle(step), 1)).collect();
    let most = found.most_beyond(0.95).unwrap();
    let (mut missed, mut more) = (0, 0);
    for _ in 0..1_000 {
        let bounds = found.choose(std::iter::once(&histogram), &mut source).unwrap();
        let value =
            |point: u32| Magnitudes::middle(i64::from(point) - Magnitudes::SIDE, false) as f64 * Magnitudes::UNIT;
        let outside = |(point, _): &&(u32, u64)| value(*point) < bounds.lower() || value(*point) > bounds.upper();
        let beyond = histogram.iter().filter(outside).count() as f64;
        missed += u32::from(beyond > most);
        more += u32::from(beyond > 2.0 * found.margin() as f64);
    }
    assert!(missed < 92, "{missed} of 1000 beyond {most}");
    assert!(more > 100, "{more} of 1000");
    assert_eq!((found.most_beyond(1.0), found.most_beyond(f64::NAN)), (None, None));
}
