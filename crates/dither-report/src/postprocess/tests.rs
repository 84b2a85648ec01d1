use super::*;
use crate::format::tests::{TestRow, answer};
use dither_core::Key;
use proptest::prelude::*;

fn run(steps: &[Step], answer: Answer) -> Answer {
    apply(steps, answer, &Sections::new(), Language::En).unwrap().0
}

fn estimate(answer: &Answer, row: usize) -> Estimate {
    match answer.rows[row].last().unwrap() {
        Cell::Value(estimate) => *estimate,
        Cell::Key(_) => unreachable!(),
    }
}

fn one(value: f64, half: f64) -> Answer {
    answer(&["k"], &["n"], &[(&["A"], &[(value, half)])])
}

fn sum_to(total: Total, by: Option<&str>) -> Step {
    Step::SumToTotal { column: "n".into(), total, by: by.map(str::to_owned) }
}

#[test]
fn clamping_carries_the_interval_and_never_claims_certainty() {
    let clamp = |value, half| {
        let step = Step::Clamp { column: "n".into(), min: Some(0.0), max: Some(10.0) };
        estimate(&run(&[step], one(value, half)), 0)
    };
    assert_eq!(clamp(4.0, 2.0), Estimate::new(4.0, 2.0, 6.0));
    assert_eq!(clamp(-1.0, 2.0), Estimate::new(0.0, 0.0, 1.0));
    assert_eq!(clamp(-9.0, 2.0), Estimate::new(0.0, 0.0, 2.0));
    assert_eq!(clamp(19.0, 4.0), Estimate::new(10.0, 6.0, 10.0));
}

#[test]
fn rounding_moves_the_interval_outwards() {
    let round = |digits| estimate(&run(&[Step::Round { column: "n".into(), digits }], one(12.34, 1.0)), 0);
    assert_eq!(round(0), Estimate::new(12.0, 11.0, 14.0));
    assert_eq!(round(1), Estimate::new(12.3, 11.3, 13.4));
    assert_eq!(round(-1), Estimate::new(10.0, 10.0, 20.0));
}

#[test]
fn converting_turns_and_renames() {
    let convert = |multiply, add, rename: Option<&str>| Step::Convert {
        column: "n".into(),
        multiply,
        add,
        rename: rename.map(str::to_owned),
    };
    let shown = run(&[convert(-2.0, 1.0, Some("m"))], one(3.0, 1.0));
    assert_eq!((estimate(&shown, 0), shown.columns[1].name.as_str()), (Estimate::new(-5.0, -7.0, -3.0), "m"));
    let taken = apply(&[convert(1.0, 0.0, Some("k"))], one(3.0, 1.0), &Sections::new(), Language::En);
    assert!(matches!(taken, Err(StepError::NameTaken { .. })));
}

#[test]
fn counts_stay_whole_and_sum_to_the_released_total() {
    let parts = answer(&["k"], &["n"], &[(&["A"], &[(10.0, 3.0)]), (&["B"], &[(20.0, 3.0)]), (&["C"], &[(-3.0, 3.0)])]);
    let sections = Sections::from([("all".to_owned(), answer(&[], &["m"], &[(&[], &[(31.0, 3.0)])]))]);
    let total = Total::Released { section: "all".into(), column: "m".into() };
    let (shown, labels) = apply(&[sum_to(total, None)], parts, &sections, Language::En).unwrap();
    // The gap of 4 is 1⅓ for each; one unit goes to the first of three equal remainders.
    let values: Vec<_> = (0..3).map(|row| estimate(&shown, row).value.unwrap()).collect();
    assert_eq!(values, [12.0, 21.0, -2.0]);
    // 9 − (1/3)²·(27 − 9) = 7: half-width 2.65 around 11.33, which holds the whole numbers from 9 to 13.
    assert_eq!(estimate(&shown, 0), Estimate::new(12.0, 9.0, 13.0));
    assert!(labels[0].effect.ends_with("3 before, 2 after."), "{}", labels[0].effect);
}

#[test]
fn each_group_sums_to_its_own_total() {
    let keys = ["h", "k"];
    let rows: [TestRow; 4] = [
        (&["1", "a"], &[(1.5, 1.0)]),
        (&["2", "a"], &[(5.0, 1.0)]),
        (&["1", "b"], &[(2.5, 2.0)]),
        (&["3", "a"], &[(7.5, 1.0)]),
    ];
    let totals = answer(&["h"], &["n"], &[(&["1"], &[(9.0, 0.0)]), (&["2"], &[(4.0, 0.0)])]);
    let sections = Sections::from([("by".to_owned(), totals)]);
    let total = Total::Released { section: "by".into(), column: "n".into() };
    let (shown, _) = apply(&[sum_to(total, Some("h"))], answer(&keys, &["n"], &rows), &sections, Language::En).unwrap();
    let values: Vec<_> = (0..4).map(|row| estimate(&shown, row).value.unwrap()).collect();
    // The gap of 5 goes 1:4 to the rows of group 1; group 3 has no total and stays.
    assert_eq!(values, [2.5, 4.0, 6.5, 7.5]);
}

#[test]
fn a_total_without_intervals_claims_none() {
    let mut parts = one(1.0, 1.0);
    parts.rows[0][1] = Cell::Value(Estimate { value: Some(1.0), low: None, high: None });
    let shown = run(&[sum_to(Total::Public(4.0), None)], parts);
    assert_eq!(estimate(&shown, 0), Estimate { value: Some(4.0), low: None, high: None });
}

#[test]
fn wrong_names_are_refused_with_the_nearest_one_before_anything_is_charged() {
    let columns = answer(&["ward"], &["patients"], &[]).columns;
    let step = Step::NonNegative { column: "patient".into() };
    let error = check(std::slice::from_ref(&step), columns.clone(), &Sections::new()).unwrap_err();
    assert_eq!(error.hint().unwrap(), "did you mean `patients`?");
    for (step, code) in [
        (Step::NonNegative { column: "ward".into() }, "step-wrong-column"),
        (Step::Round { column: "patients".into(), digits: 10 }, "step-parameter"),
        (Step::Clamp { column: "patients".into(), min: None, max: None }, "step-parameter"),
        (Step::Clamp { column: "patients".into(), min: Some(f64::NAN), max: None }, "step-parameter"),
        (Step::Smooth { x: "ward".into(), y: "ward".into(), value: "patients".into(), sigma: 1.0 }, "step-parameter"),
        (
            Step::Smooth { x: "ward".into(), y: "ward".into(), value: "patients".into(), sigma: f64::NAN },
            "step-parameter",
        ),
        (
            Step::SumToTotal {
                column: "patients".into(),
                total: Total::Released { section: "x".into(), column: "n".into() },
                by: None,
            },
            "step-unknown-section",
        ),
    ] {
        assert_eq!(check(&[step], columns.clone(), &Sections::new()).unwrap_err().code(), code);
    }
    let sections = Sections::from([("x".to_owned(), answer(&["a", "b"], &["n"], &[]))]);
    let step = Step::SumToTotal {
        column: "patients".into(),
        total: Total::Released { section: "x".into(), column: "n".into() },
        by: Some("ward".into()),
    };
    assert_eq!(check(&[step], columns, &sections).unwrap_err().code(), "step-not-one-total");
}

#[test]
fn declarations_refuse_unknown_fields() {
    for text in [
        "step = 'round'\ncolumn = 'n'\ndigit = 1",
        "step = 'sum-to-total'\ncolumn = 'n'\ntotal = { section = 'a', colum = 'n' }",
        "step = 'deblur'\ncolumn = 'n'",
    ] {
        assert!(toml::from_str::<Step>(text).is_err(), "{text}");
    }
    let step = toml::from_str::<Step>("step = 'sum-to-total'\ncolumn = 'n'\ntotal = 100").unwrap();
    assert_eq!(step, sum_to(Total::Public(100.0), None));
}

fn grid(rows: &[(i64, i64, f64, f64)]) -> Answer {
    let mut grid = answer(&["x", "y"], &["n"], &[]);
    grid.rows.extend(rows.iter().map(|&(x, y, value, half)| {
        let number = Cell::Value(Estimate::new(value, value - half, value + half));
        vec![Cell::Key(Key::Integer(x)), Cell::Key(Key::Integer(y)), number]
    }));
    grid
}

fn smooth(sigma: f64) -> Step {
    Step::Smooth { x: "x".into(), y: "y".into(), value: "n".into(), sigma }
}

#[test]
fn smoothing_averages_released_neighbours_only() {
    // Two neighbours ten apart on the axis, and a cell out of reach.
    let shown = run(&[smooth(1.0)], grid(&[(0, 0, 0.0, 2.0), (10, 0, 8.0, 2.0), (100, 0, 5.0, 2.0)]));
    let weight = (-0.5f64).exp();
    let expected = 8.0 * weight / (1.0 + weight);
    assert!((estimate(&shown, 0).value.unwrap() - expected).abs() < 1e-12);
    let half = 2.0 * (1.0 + weight * weight).sqrt() / (1.0 + weight);
    assert!((crate::format::half_width(estimate(&shown, 0)).unwrap() - half).abs() < 1e-12);
    assert_eq!(estimate(&shown, 2), Estimate::new(5.0, 3.0, 7.0));
}

#[test]
fn layers_of_other_keys_do_not_mix() {
    let rows: [TestRow; 2] = [(&["a", "a", "1"], &[(0.0, 1.0)]), (&["a", "a", "2"], &[(9.0, 1.0)])];
    let grid = answer(&["x", "y", "year"], &["n"], &rows);
    assert_eq!(run(&[smooth(2.0)], grid.clone()), grid);
}

/// The tail of X + wY for independent Laplace variables of scale 1, at the quadrature of their 95 % points.
#[test]
fn quadrature_is_conservative_for_laplace_noise() {
    for step in 1..100 {
        let w = f64::from(step) / 100.0;
        let t = 20f64.ln() * (1.0 + w * w).sqrt();
        let tail = ((-t).exp() - w * w * (-t / w).exp()) / (1.0 - w * w);
        assert!(tail <= 0.05, "w = {w}: {tail}");
    }
}

/// A cross-tabulation of 3 × 4 cells, its margins and its total, from the numbers that are measured.
fn tabulation(mut number: impl FnMut(f64, f64) -> Cell) -> Sections {
    let exact = |r: usize, c: usize| (10 * r + 3 * c * c) as f64;
    let key = |name: &str, at: usize| Cell::Key(Key::Text(format!("{name}{at}")));
    let sum = |rows: std::ops::Range<usize>, columns: std::ops::Range<usize>| -> f64 {
        rows.flat_map(|r| columns.clone().map(move |c| exact(r, c))).sum()
    };
    // The margins are noisier than the cells, and the total less noisy than all.
    let mut sections = Sections::new();
    let mut cells = answer(&["r", "c"], &["n"], &[]);
    cells.rows = (0..12).map(|i| vec![key("r", i / 4), key("c", i % 4), number(exact(i / 4, i % 4), 2.0)]).collect();
    sections.insert("cells".into(), cells);
    let mut rows = answer(&["r"], &["n"], &[]);
    rows.rows = (0..3).map(|r| vec![key("r", r), number(sum(r..r + 1, 0..4), 3.0)]).collect();
    sections.insert("rows".into(), rows);
    // In another order than the cells.
    let mut columns = answer(&["c"], &["n"], &[]);
    columns.rows = (0..4).rev().map(|c| vec![key("c", c), number(sum(0..3, c..c + 1), 3.0)]).collect();
    sections.insert("columns".into(), columns);
    let mut all = answer(&[], &["n"], &[]);
    all.rows = vec![vec![number(sum(0..3, 0..4), 1.0)]];
    sections.insert("all".into(), all);
    sections
}

fn consistent(sections: &[&str]) -> Consistent {
    Consistent { column: "n".into(), sections: sections.iter().map(|&id| id.to_owned()).collect() }
}

const ALL: [&str; 4] = ["all", "rows", "cells", "columns"];

/// How often of so many runs the exact cell, the exact margin and the exact total lie in their intervals, times a factor.
fn covered(runs: u64, factor: f64, quantile: f64, mut noise: impl FnMut(f64) -> f64) -> [u64; 3] {
    let mut counts = [0; 3];
    for _ in 0..runs {
        let mut sections = tabulation(|exact, scale| {
            let (value, half) = (exact + noise(scale), quantile * scale);
            Cell::Value(Estimate::new(value, value - half, value + half))
        });
        consistent(&ALL).run(&mut sections, Language::En).unwrap();
        // Cell (1, 2), row 1, and the total.
        let places = [("cells", 6, 22.0), ("rows", 1, 82.0), ("all", 0, 246.0)];
        for (count, (section, row, exact)) in counts.iter_mut().zip(places) {
            let shown = estimate(&sections[section], row);
            let half = crate::format::half_width(shown).unwrap() * factor;
            *count += u64::from((shown.value.unwrap() - exact).abs() <= half);
        }
    }
    counts
}

#[test]
fn intervals_of_consistent_numbers_cover_as_promised() {
    use dither_testing::binomial::{lower, upper};
    use dither_testing::{FALSE_ALARM, SeededBytes, naive};
    let (runs, mut stream) = (6_000, SeededBytes::new(1));
    // Gaussian noise: exactly 95 %, which intervals that are a tenth narrower miss.
    for count in covered(runs, 1.0, 1.959_964, |sigma| naive::gaussian(&mut stream, sigma)) {
        assert!(lower(count, runs, FALSE_ALARM) <= 0.95 && upper(count, runs, FALSE_ALARM) >= 0.95, "{count}");
    }
    for count in covered(runs, 0.9, 1.959_964, |sigma| naive::gaussian(&mut stream, sigma)) {
        assert!(upper(count, runs, FALSE_ALARM) < 0.95, "the control: {count}");
    }
    // Laplace noise: 95 % or more.
    for count in covered(runs, 1.0, 20f64.ln(), |scale| naive::laplace(&mut stream, scale)) {
        assert!(upper(count, runs, FALSE_ALARM) >= 0.95, "{count}");
    }
}

#[test]
fn consistent_numbers_are_the_least_squares_solution() {
    // Twelve cells of one variance and a total of another, v and t: each cell takes v/(12v + t) of the gap, and its variance
    // becomes v − v²/(12v + t).
    let mut at = 0;
    let mut sections = tabulation(|exact, half| {
        at += 1;
        let value = exact + f64::from(at % 5) - 2.5;
        Cell::Value(Estimate::new(value, value - half, value + half))
    });
    let before = sections.clone();
    let labels = consistent(&["all", "cells"]).run(&mut sections, Language::En).unwrap();
    assert_eq!(labels.keys().collect::<Vec<_>>(), ["all", "cells"]);
    let value = |sections: &Sections, id: &str, row| estimate(&sections[id], row).value.unwrap();
    let gap = value(&before, "all", 0) - (0..12).map(|row| value(&before, "cells", row)).sum::<f64>();
    for row in 0..12 {
        let moved = value(&sections, "cells", row) - value(&before, "cells", row);
        assert!((moved - gap * 4.0 / 49.0).abs() < 1e-9, "{row}: {moved}");
        let half = crate::format::half_width(estimate(&sections["cells"], row)).unwrap();
        assert!((half * half - (4.0 - 16.0 / 49.0)).abs() < 1e-9, "{half}");
    }
    assert!((value(&sections, "all", 0) - (value(&before, "all", 0) - gap / 49.0)).abs() < 1e-9);
    assert_eq!(sections["rows"], before["rows"], "what is not listed stays");
}

#[test]
fn whole_numbers_stay_whole_and_rows_columns_and_the_total_agree() {
    for shift in 0..20 {
        let mut at = shift;
        let mut sections = tabulation(|exact, half| {
            at = (at * 7 + 3) % 11;
            let value = exact + f64::from(at) - 5.0;
            Cell::Value(Estimate::new(value, value - 3.0 * half, value + 3.0 * half))
        });
        let before = sections.clone();
        consistent(&ALL).run(&mut sections, Language::Zh).unwrap();
        let shown = |id: &str, row| estimate(&sections[id], row).value.unwrap();
        let sum = |places: &[usize]| places.iter().map(|&place| shown("cells", place)).sum::<f64>();
        assert_eq!(shown("all", 0), sum(&(0..12).collect::<Vec<_>>()));
        assert_eq!(shown("rows", 2), sum(&[8, 9, 10, 11]));
        assert_eq!(shown("columns", 1), sum(&[2, 6, 10]), "columns are in the opposite order");
        for (id, answer) in &sections {
            for row in 0..answer.rows.len() {
                let (new, old) = (estimate(answer, row), estimate(&before[id], row));
                assert!([new.value, new.low, new.high].iter().all(|part| part.unwrap().fract() == 0.0), "{id} {row}");
                let width = |e: Estimate| e.high.unwrap() - e.low.unwrap();
                assert!(width(new) <= width(old), "{id} {row}: {new:?} {old:?}");
            }
        }
    }
}

#[test]
fn what_cannot_be_consistent_is_refused_or_left_alone() {
    let number = |value: f64| Cell::Value(Estimate::new(value, value - 1.0, value + 1.0));
    let sections = tabulation(|exact, _| number(exact));
    for (wrong, code) in [
        (consistent(&["all", "row"]), "step-unknown-section"),
        (consistent(&["all"]), "step-parameter"),
        (consistent(&["all", "rows", "all"]), "step-parameter"),
        (consistent(&["rows", "columns"]), "step-not-nested"),
        (Consistent { column: "r".into(), ..consistent(&["rows", "cells"]) }, "step-wrong-column"),
    ] {
        assert_eq!(wrong.check(&sections).unwrap_err().code(), code, "{wrong:?}");
    }
    // A number that is missing, a row without cells, an interval of no width.
    let spoilt: [fn(&mut Sections); 3] = [
        |sections| {
            sections.get_mut("cells").unwrap().rows[3][2] = Cell::Value(Estimate { value: None, low: None, high: None })
        },
        |sections| drop(sections.get_mut("cells").unwrap().rows.drain(0..4)),
        |sections| sections.get_mut("all").unwrap().rows[0][0] = Cell::Value(Estimate::new(5.0, 5.0, 5.0)),
    ];
    for spoil in spoilt {
        let mut odd = sections.clone();
        spoil(&mut odd);
        let before = odd.clone();
        assert_eq!(consistent(&ALL).run(&mut odd, Language::En).unwrap(), BTreeMap::new());
        assert_eq!(odd, before);
    }
}

fn rows() -> impl Strategy<Value = Vec<(f64, f64)>> {
    prop::collection::vec((-1e6f64..1e6, 0.1f64..1e3), 1..40)
}

fn parts(rows: &[(f64, f64)]) -> Answer {
    let mut parts = answer(&[], &["n"], &[]);
    let cell = |&(value, half): &(f64, f64)| vec![Cell::Value(Estimate::new(value, value - half, value + half))];
    parts.rows.extend(rows.iter().map(cell));
    parts
}

proptest! {
    #[test]
    fn rows_sum_to_the_total_and_intervals_never_widen(rows in rows(), total in -1e6f64..1e6) {
        let shown = run(&[sum_to(Total::Public(total), None)], parts(&rows));
        let sum: f64 = (0..rows.len()).map(|row| estimate(&shown, row).value.unwrap()).sum();
        prop_assert!((sum - total).abs() < 1e-6, "{sum} instead of {total}");
        for (row, (_, half)) in rows.iter().enumerate() {
            let after = crate::format::half_width(estimate(&shown, row)).unwrap();
            prop_assert!(after <= half * (1.0 + 1e-6) + 1e-6, "{half} became {after}");
        }
    }

    #[test]
    fn whole_rows_sum_to_a_whole_total_exactly_and_stay_whole(
        rows in prop::collection::vec((-1000i32..100_000, 1i32..50), 1..60), total in -1000i32..1_000_000,
    ) {
        let rows: Vec<_> = rows.iter().map(|&(value, half)| (f64::from(value), f64::from(half))).collect();
        let shown = run(&[sum_to(Total::Public(f64::from(total)), None)], parts(&rows));
        let moved: Vec<_> = (0..rows.len()).map(|row| estimate(&shown, row)).collect();
        prop_assert_eq!(moved.iter().map(|e| e.value.unwrap()).sum::<f64>(), f64::from(total));
        for (e, (_, half)) in moved.iter().zip(&rows) {
            let parts = [e.value, e.low, e.high].map(Option::unwrap);
            prop_assert!(parts.iter().all(|part| part.fract() == 0.0));
            prop_assert!(parts[1] <= parts[0] && parts[0] <= parts[2]);
            prop_assert!(parts[2] - parts[1] <= 2.0 * half);
        }
    }

    #[test]
    fn equally_noisy_rows_keep_their_order(values in prop::collection::vec(-500i32..500, 2..30), total in -500i32..5000) {
        let rows: Vec<_> = values.iter().map(|&value| (f64::from(value), 7.0)).collect();
        let shown = run(&[sum_to(Total::Public(f64::from(total)), None)], parts(&rows));
        for a in 0..rows.len() {
            for b in 0..rows.len() {
                let (after_a, after_b) = (estimate(&shown, a).value.unwrap(), estimate(&shown, b).value.unwrap());
                prop_assert!(rows[a].0 >= rows[b].0 || after_a <= after_b);
            }
        }
    }

    #[test]
    fn smoothing_stays_within_the_values_and_never_widens(
        values in prop::collection::vec(-100f64..100.0, 1..30), sigma in 0.1f64..4.0,
    ) {
        let rows: Vec<_> = values.iter().zip(0i64..).map(|(&value, at)| (at % 6, at / 6, value, 3.0)).collect();
        let shown = run(&[smooth(sigma)], grid(&rows));
        let (min, max) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), &v| (a.min(v), b.max(v)));
        for row in 0..rows.len() {
            let after = estimate(&shown, row);
            prop_assert!(after.value.unwrap() >= min - 1e-9 && after.value.unwrap() <= max + 1e-9);
            prop_assert!(crate::format::half_width(after).unwrap() <= 3.0 + 1e-9);
        }
    }
}

/// A number with two intervals stays one number, whichever of its columns a step names.
#[test]
fn a_step_changes_both_intervals_of_a_number() {
    let column = |name: &str| Column { name: name.into(), role: Role::Value };
    let cell = |half: f64| Cell::Value(Estimate::new(-5.14, -5.14 - half, -5.14 + half));
    let answer =
        Answer { columns: vec![column("n"), column("n (with sampling)")], rows: vec![vec![cell(1.0), cell(5.0)]] };
    for name in ["n", "n (with sampling)"] {
        let steps = [
            Step::Round { column: name.into(), digits: 1 },
            Step::Convert { column: name.into(), multiply: -1.0, add: 0.0, rename: Some("turned".into()) },
        ];
        let shown = run(&steps, answer.clone());
        let [one, other] = [0, 1].map(|column| match shown.rows[0][column] {
            Cell::Value(estimate) => estimate,
            Cell::Key(_) => panic!("a key"),
        });
        assert_eq!((one.value, other.value), (Some(5.1), Some(5.1)));
        assert!(other.low < one.low && other.high > one.high);
        let names: Vec<&str> = shown.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["turned", "turned (with sampling)"]);
    }
    let total = Step::SumToTotal { column: "n".into(), total: Total::Public(1.0), by: None };
    let refused = check(&[total], answer.columns, &Sections::default()).unwrap_err();
    assert!(refused.to_string().contains("ask without `sampling`"), "{refused}");
}
