//! What a page must hold, whatever is in the answer.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use dither_core::{
    Answer, Between, Cell, Column, ContributionBounds, Estimate, Key, Neighbors, PrivacyEvent, PrivacyUnit, RankError,
    Receipt, Role, UnitPeriod,
};
use dither_report::{
    BudgetLine, Certificate, ColumnBounds, Document, EventLine, Guarantee, Language, Loss, Noise, NoiseKind, Plot,
    PrivacyStatement, Protected, Section, Share, Step, TableBounds, Window, certificate, html, json, postprocess,
};

const ATTACK: &str = "\"><img src=x onerror=alert(1)><script>alert(2)</script>\u{202e}";

fn answer(rows: usize, label: &str) -> Answer {
    let names = [("k", Role::Key), ("x", Role::Key), ("y", Role::Key), ("n", Role::Value)];
    let columns = names.map(|(name, role)| Column { name: name.into(), role }).to_vec();
    let row = |index: usize| {
        let key = |value: usize| Cell::Key(Key::Integer(value as i64));
        let number = Cell::Value(Estimate::new(index as f64, index as f64 - 3.0, index as f64 + 3.0));
        vec![Cell::Key(Key::Text(format!("{label}{}", index / 100))), key(index % 10), key(index / 10 % 10), number]
    };
    Answer { columns, rows: (0..rows).map(row).collect() }
}

fn section(answer: Answer, plot: Option<Plot>) -> Section {
    let noise =
        Noise { column: "n".into(), kind: NoiseKind::Laplace, scale: Some(1.0), expected_error: Some(1.0), rank: None };
    Section {
        id: ATTACK.into(),
        title: ATTACK.into(),
        note: ATTACK.into(),
        question: ATTACK.into(),
        answer,
        share: Share { epsilon: 1.0, delta: 0.0, percent: 100.0, noise: vec![noise], threshold: None },
        found: vec![found()],
        postprocessing: vec![],
        plot,
    }
}

fn found() -> Between {
    Between { column: ATTACK.into(), lower: -2.125, upper: 3_072.0, rows_beyond: 41, share_beyond: Some(0.82) }
}

fn protected(table: &str, neighbors: Neighbors, unit: PrivacyUnit) -> Protected {
    let windows = vec![
        Window { days: 31, units: 6, loss: Some(Loss { epsilon: 6.0, delta: 1e-5 }) },
        Window { days: 92, units: 14, loss: Some(Loss { epsilon: 14.0, delta: 0.0 }) },
        Window { days: 366, units: 54, loss: None },
    ];
    Protected { tables: vec![table.into()], unit, neighbors, windows }
}

fn privacy(unit: &str) -> PrivacyStatement {
    PrivacyStatement {
        protected: vec![
            protected(unit, Neighbors::ReplaceUnit, PrivacyUnit::Column(unit.into())),
            protected(
                unit,
                Neighbors::AddOrRemoveUnit,
                PrivacyUnit::Period { column: unit.into(), per: UnitPeriod::Week },
            ),
        ],
        composition: unit.into(),
    }
}

fn document(sections: Vec<Section>, language: Language) -> Document {
    let loss = |epsilon| Loss { epsilon, delta: 0.0 };
    Document {
        title: ATTACK.into(),
        language,
        dataset: ATTACK.into(),
        summary: ATTACK.into(),
        privacy: privacy(ATTACK),
        budget: BudgetLine { total: loss(2.0), charged: loss(1.0), remaining: loss(1.0) },
        sections,
        receipt: Receipt { sequence: 1, head: "ab".repeat(32) },
        generated: ATTACK.into(),
    }
}

fn plots() -> Vec<Option<Plot>> {
    let (k, x, y) = (|| "k".to_owned(), || "x".to_owned(), || "y".to_owned());
    vec![
        None,
        Some(Plot::Bars { key: None, value: None }),
        Some(Plot::Points { key: Some(k()), value: Some("n".into()) }),
        Some(Plot::HeatMap { x: x(), y: y(), value: None }),
        Some(Plot::HeatMap { x: k(), y: y(), value: None }),
        Some(Plot::Table { rows: k(), columns: x(), value: None }),
        // Names that do not fit the answer draw nothing and fail nothing.
        Some(Plot::Table { rows: "?".into(), columns: x(), value: None }),
        Some(Plot::HeatMap { x: x(), y: "n".into(), value: Some("k".into()) }),
    ]
}

/// Nothing on the page can run, load, or hide.
fn assert_inert(page: &str) {
    for forbidden in
        ["<script", "<img", "<link", "<iframe", "http://", "https://", "style=\"", "@import", "url(", "\u{202e}"]
    {
        assert!(!page.contains(forbidden), "the page contains {forbidden}");
    }
    assert!(page.contains("default-src 'none'"));
    // What stands in quotes is a value; outside of them no attribute may begin with `on`.
    let tags = page.split('<').filter_map(|tag| tag.split('>').next());
    let names = tags.map(|tag| tag.split('"').step_by(2).collect::<String>());
    assert_eq!(names.filter(|names| names.contains(" on")).collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn sv_07_no_text_becomes_markup_in_any_plot_of_any_size() {
    for language in [Language::En, Language::Zh] {
        for rows in [0, 1, 7, 300] {
            let sections = plots().into_iter().map(|plot| section(answer(rows, ATTACK), plot)).collect();
            let page = html::page(&document(sections, language));
            assert_inert(&page);
            assert!(!page.contains("NaN") && !page.contains("inf%"), "{rows} rows");
        }
    }
}

#[test]
fn what_is_missing_is_a_dash_and_draws_nothing() {
    let mut empty = answer(2, "A");
    empty.rows[0][3] = Cell::Value(Estimate { value: None, low: None, high: None });
    empty.rows[1][3] = Cell::Value(Estimate { value: Some(f64::NAN), low: Some(f64::INFINITY), high: None });
    for plot in plots() {
        let page = html::page(&document(vec![section(empty.clone(), plot)], Language::En));
        assert!(page.contains('—') && !page.contains("NaN") && !page.contains("inf"));
    }
}

#[test]
fn every_section_says_its_noise_its_share_and_that_post_processing_is_free() {
    let steps = [Step::NonNegative { column: "n".into() }];
    let (answer, labels) = postprocess::apply(&steps, answer(3, "A"), &Default::default(), Language::En).unwrap();
    let shown = Section { postprocessing: labels, ..section(answer, Some(Plot::Bars { key: None, value: None })) };
    let page = html::page(&document(vec![shown], Language::En));
    for said in [
        "discrete Laplace noise, b = 1; expected error ±\u{a0}1",
        "ε = 1 (100%)",
        "n: negative numbers moved to 0",
        "<span class=\"free\"",
        "replacing one unit with another",
    ] {
        assert!(page.contains(said), "{said}");
    }
    let page = html::page(&document(vec![], Language::Zh));
    assert!(page.contains("lang=\"zh-Hans\"") && page.contains("隐私预算"));
}

#[test]
fn shares_above_the_whole_are_explained_and_short_keys_stay_whole() {
    let mut one = section(answer(3, "[0-10)"), None);
    let page = |sections| html::page(&document(sections, Language::En));
    assert!(page(vec![one.clone()]).contains("<th class=\"short\" scope=\"row\"><bdi>"));
    assert!(!page(vec![one.clone()]).contains("more than 100%"));
    one.share.percent = 60.0;
    one.share.noise[0].expected_error = Some(4722.0);
    one.share.noise[0].scale = Some(1_204_667.0);
    let both = page(vec![one.clone(), Section { id: "other".into(), ..one }]);
    for said in ["more than 100%", "±\u{a0}4,722", "b = 1,204,667"] {
        assert!(both.contains(said), "{said}");
    }
}

#[test]
fn plots_are_checked_by_name_before_anything_is_charged() {
    use dither_core::Explain;
    let columns = answer(0, "").columns;
    let plot = Plot::HeatMap { x: "x".into(), y: "yy".into(), value: None };
    assert_eq!(plot.check(&columns).unwrap_err().hint().unwrap(), "did you mean `y`?");
    for plot in [
        Plot::HeatMap { x: "x".into(), y: "x".into(), value: None },
        Plot::Table { rows: "y".into(), columns: "y".into(), value: None },
    ] {
        assert_eq!(plot.check(&columns).unwrap_err().code(), "plot-one-direction");
    }
    let plot = Plot::Bars { key: Some("n".into()), value: None };
    assert_eq!(plot.check(&columns).unwrap_err().code(), "step-wrong-column");
    assert!(Plot::Bars { key: None, value: Some("n".into()) }.check(&columns).is_ok());
}

#[test]
fn documents_round_trip_and_their_json_keeps_the_row_contract() {
    let document = document(vec![section(answer(1, "A"), plots().remove(3))], Language::Zh);
    let text = serde_json::to_string(&document).unwrap();
    assert_eq!(serde_json::from_str::<Document>(&text).unwrap(), document);
    let json = json::document_json(&document);
    assert_eq!(
        json["sections"][0]["rows"].to_string(),
        r#"[{"k":"A0","x":0,"y":0,"n":{"value":0,"low":-3,"high":3}}]"#
    );
    assert_eq!(json["sections"][0]["columns"][3], serde_json::json!({ "name": "n", "role": "value" }));
}

fn certificate(language: Language) -> Certificate {
    let threshold = PrivacyEvent::Threshold { delta: "1e-7".parse().unwrap() };
    Certificate {
        title: ATTACK.into(),
        language,
        dataset: ATTACK.into(),
        privacy: privacy(ATTACK),
        bounds: vec![TableBounds {
            table: ATTACK.into(),
            file: ATTACK.into(),
            contribution: ContributionBounds::ONE,
            columns: vec![ColumnBounds { column: ATTACK.into(), lower: 0.0, upper: 5.0, step: 1.0 }],
        }],
        events: vec![EventLine {
            purpose: ATTACK.into(),
            question: format!("{ATTACK}\nSELECT 1"),
            event: PrivacyEvent::Composed(vec![threshold]),
            found: vec![found()],
        }],
        guarantees: vec![Guarantee { accountant: "PLD".into(), epsilon: Some(0.9634510001), delta: 1e-7 }],
        total: Loss { epsilon: 4.0, delta: 1e-6 },
        charged: Loss { epsilon: 1.0, delta: 1e-7 },
        head: Receipt { sequence: 9, head: "feed".into() },
        receipt: Receipt { sequence: 7, head: "cafe".repeat(16) },
        policy: ATTACK.into(),
        versions: vec![],
        charged_on: ATTACK.into(),
        generated: ATTACK.into(),
    }
}

#[test]
fn a_certificate_is_inert_and_never_rounds_a_loss_down() {
    for language in [Language::En, Language::Zh] {
        let certificate = certificate(language);
        let page = certificate::page(&certificate);
        assert_inert(&page);
        assert!(page.contains("0.963452") && page.contains("feed") && page.contains("cafe"));
        let json = certificate::json(&certificate);
        assert_eq!(json["guarantees"][0]["epsilon"], 0.9634510001);
        assert!(json["events"][0]["meaning"].as_str().unwrap().contains("1e-7"));
    }
}

/// Bounds from the data stand beside the answer and in what is signed: which, that values beyond count as the bound, and that
/// no interval knows.
#[test]
fn bounds_that_were_found_are_named_wherever_the_answer_is_shown() {
    for (language, said) in [
        (
            Language::En,
            [
                "[-2.125, 3072]",
                "about 41 rows at each end, about 82% of all values",
                "counted as -2.125 or 3072",
                "bias is in no interval",
            ],
        ),
        (
            Language::Zh,
            [
                "[-2.125, 3072]",
                "两端各约 41 行，约占全部取值的 82%",
                "超出者按 -2.125 或 3072 计入",
                "偏差不在任何置信区间之内",
            ],
        ),
    ] {
        let document = document(vec![section(answer(0, "A"), None)], language);
        let certificate = certificate(language);
        for page in [html::page(&document), certificate::page(&certificate)] {
            assert_eq!(said.map(|words| page.matches(words).count()), [1; 4], "{page}");
        }
        for json in [&json::document_json(&document)["sections"][0], &certificate::json(&certificate)["events"][0]] {
            assert_eq!(
                json["found"].to_string(),
                serde_json::json!([{ "column": ATTACK, "lower": -2.125, "upper": 3072.0, "rows_beyond": 41, "share_beyond": 0.82 }])
                    .to_string()
            );
        }
        // Where all bounds are declared, nothing is said of others.
        let mut declared = document;
        declared.sections[0].found.clear();
        assert!(!html::page(&declared).contains(said[2]));
        assert!(json::document_json(&declared)["sections"][0].get("found").is_none());
    }
}

/// The relative luminance of `#rrggbb`, as WCAG 2.2 defines it.
fn luminance(colour: &str) -> f64 {
    let channel = |at: usize| {
        let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
}

#[test]
fn text_has_contrast_and_the_colours_of_a_heat_map_are_in_order() {
    let style = include_str!("../src/style.css");
    let themes: Vec<&str> = style.split(":root {").skip(1).take(2).collect();
    for theme in themes {
        let colour = |name: &str| {
            let value = theme.split(&format!("--{name}: ")).nth(1).unwrap();
            luminance(value.split(';').next().unwrap())
        };
        let contrast = |a: f64, b: f64| (a.max(b) + 0.05) / (a.min(b) + 0.05);
        for back in ["page", "card"] {
            for text in ["ink", "muted", "accent"] {
                assert!(contrast(colour(text), colour(back)) >= 4.5, "{text} on {back}");
            }
            for mark in ["bar", "now", "mark"] {
                assert!(contrast(colour(mark), colour(back)) >= 3.0, "{mark} on {back}");
            }
        }
        assert!(contrast(colour("good"), colour("good-page")) >= 4.5);
        let ramp: Vec<f64> = (0..12).map(|index| colour(&format!("h{index}"))).collect();
        let upwards = ramp[0] < ramp[11];
        assert!(ramp.windows(2).all(|pair| (pair[0] < pair[1]) == upwards));
    }
}

/// Of a quantile the page says what is known: by how many rows its rank may be off; and no line of an interval is promised.
#[test]
fn a_quantile_shows_its_rank_and_no_interval() {
    for (language, said, lines) in [
        (
            Language::En,
            ["rank ±\u{a0}45 rows in 95 of 100 cases, counted 96 rows from the end", "rank ±\u{a0}45"],
            "Lines show",
        ),
        (Language::Zh, ["名次 ±\u{a0}45 行（95% 的情形），所取名次距末端 96 行", "名次 ±\u{a0}45"], "线段表示"),
    ] {
        let mut chosen = section(answer(2, "A"), Some(Plot::Bars { key: None, value: None }));
        chosen.share.noise[0].rank = Some(RankError { rows: 45, from_end: Some(96) });
        chosen.share.noise[0].expected_error = None;
        let drawn = html::page(&document(vec![chosen.clone()], language));
        assert!(drawn.contains(lines), "the control: with intervals there are lines");
        for cell in chosen.answer.rows.iter_mut().flatten() {
            if let Cell::Value(estimate) = cell {
                (estimate.low, estimate.high) = (None, None);
            }
        }
        let page = html::page(&document(vec![chosen], language));
        // In the overview, in both rows of the table, in the sentence below and beside the noise.
        assert_eq!(said.map(|words| page.matches(words).count()), [1, 5], "{page}");
        assert!(!page.contains(lines), "{page}");
    }
}

/// All that a budget is counted in is shown, so that what is left and what was charged add up.
#[test]
fn no_digit_of_a_budget_is_cut() {
    let mut document = document(vec![section(answer(1, "A"), None)], Language::En);
    document.budget.remaining = Loss { epsilon: 1_234.500_000_001, delta: 9.999_999e-7 };
    assert!(html::page(&document).contains("ε = 1234.500000001, δ = 9.999999e-7"), "{}", html::page(&document));
}
