//! Writes a sample report and a sample certificate, in English and in Chinese, into a folder.
//!
//! `cargo run -p dither-report --example sample -- FOLDER`. The numbers are made up.

use std::path::PathBuf;

use dither_core::{
    Answer, Cell, Column, ContributionBounds, Delta, Estimate, Key, L1Sensitivity, L2Sensitivity, Neighbors,
    PrivacyEvent, PrivacyUnit, Ratio, Receipt, Role,
};
use dither_report::postprocess::{Sections, Total, apply};
use dither_report::{
    BudgetLine, Certificate, ColumnBounds, Document, EventLine, Guarantee, Language, Loss, Noise, NoiseKind, Plot,
    PrivacyStatement, Protected, Section, Share, Step, StepError, TableBounds, Version, certificate, csv, html, json,
    table,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder: PathBuf = std::env::args().nth(1).unwrap_or_else(|| ".".into()).into();
    std::fs::create_dir_all(&folder)?;
    for language in [Language::En, Language::Zh] {
        let document = document(language)?;
        let name = |kind: &str| folder.join(format!("{kind}-{}", language.tag()));
        std::fs::write(name("report").with_extension("html"), html::page(&document))?;
        std::fs::write(name("report").with_extension("json"), json::document_json(&document).to_string())?;
        let certificate = certificate(language);
        std::fs::write(name("certificate").with_extension("html"), certificate::page(&certificate))?;
        std::fs::write(name("certificate").with_extension("json"), certificate::json(&certificate).to_string())?;
        for section in &document.sections {
            csv::write(&section.answer, std::fs::File::create(name(&section.id).with_extension("csv"))?)?;
        }
        print!("{}", table::render(&document.sections[1].answer));
    }
    Ok(())
}

fn say(language: Language, en: &str, zh: &str) -> String {
    match language {
        Language::En => en.into(),
        Language::Zh => zh.into(),
    }
}

fn answer(keys: &[&str], values: &[&str], rows: Vec<(Vec<Key>, Vec<Estimate>)>) -> Answer {
    let column = |role| move |name: &&str| Column { name: (*name).into(), role };
    let columns = keys.iter().map(column(Role::Key)).chain(values.iter().map(column(Role::Value))).collect();
    let row = |(keys, values): (Vec<Key>, Vec<Estimate>)| {
        keys.into_iter().map(Cell::Key).chain(values.into_iter().map(Cell::Value)).collect()
    };
    Answer { columns, rows: rows.into_iter().map(row).collect() }
}

fn around(value: f64, half: f64) -> Estimate {
    Estimate::new(value, value - half, value + half)
}

fn text(text: &str) -> Key {
    Key::Text(text.into())
}

/// A small deterministic disturbance between -1 and 1.
fn wobble(seed: usize) -> f64 {
    let mixed = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    f64::from((mixed >> 40) as u32) / f64::from(1u32 << 23) - 1.0
}

fn share(epsilon: f64, column: &str, kind: NoiseKind, scale: Option<f64>, error: f64) -> Share {
    let noise = vec![Noise { column: column.into(), kind, scale, expected_error: Some(error), rank: None }];
    Share { epsilon, delta: 0.0, percent: epsilon * 100.0, noise, threshold: None }
}

fn wards(language: Language) -> Answer {
    let names = [
        say(language, "Emergency", "急诊科"),
        say(language, "Cardiology", "心内科"),
        say(language, "Traumatology and orthopaedic surgery, including rehabilitation", "创伤与骨科（含康复病区）"),
        "<img src=x onerror=alert(1)>".into(),
        say(language, "Neurology", "神经内科"),
        say(language, "Palliative care", "安宁疗护"),
    ];
    let counts = [1412.0, 803.0, 655.0, 240.0, 121.0, -6.0];
    let rows = names.iter().zip(counts).enumerate().map(|(index, (name, count))| {
        let days = around(6.1 + wobble(index), 0.21 + 0.1 * index as f64);
        let days = if count < 0.0 { Estimate { value: None, low: None, high: None } } else { days };
        (vec![text(name)], vec![around(count, 24.0), days])
    });
    answer(&["ward"], &["n", "days"], rows.collect())
}

fn series() -> Answer {
    let row = |day: usize| {
        let season = 180.0 + 60.0 * (day as f64 / 48.0).sin() + 14.0 * wobble(day);
        (vec![Key::Text(format!("2025-{:02}-{:02}", day / 28 + 1, day % 28 + 1))], vec![around(season.round(), 18.0)])
    };
    answer(&["day"], &["visits"], (0..300).map(row).collect())
}

fn grid(width: usize, height: usize, gaps: bool) -> Answer {
    let row = |index: usize| {
        let (x, y) = (index % width, index / width);
        let hill = |cx: f64, cy: f64, size: f64| {
            (-((x as f64 - cx * width as f64).powi(2) + (y as f64 - cy * height as f64).powi(2)) / size).exp()
        };
        let value = 220.0 * hill(0.3, 0.6, 90.0) + 140.0 * hill(0.7, 0.35, 40.0) + 25.0 * wobble(index);
        (vec![Key::Integer(x as i64), Key::Integer(y as i64)], vec![around(value.round(), 30.0)])
    };
    let cells = (0..width * height).filter(|index| !gaps || index % 23 != 5);
    answer(&["column", "row"], &["trips"], cells.map(row).collect())
}

fn cross() -> Answer {
    let rows = (0..12).map(|index| {
        let (age, year) = (["0–17", "18–64", "65+"][index / 4], 2022 + (index % 4) as i64);
        (vec![text(age), Key::Integer(year)], vec![around((300.0 + 90.0 * wobble(index)).round(), 12.0)])
    });
    answer(&["age", "year"], &["n"], rows.collect())
}

fn document(language: Language) -> Result<Document, StepError> {
    let say = |en, zh| say(language, en, zh);
    let total = answer(&[], &["n"], vec![(vec![], vec![around(3254.0, 24.0)])]);
    let totals = Sections::from([("all".to_owned(), total.clone())]);
    let n = || "n".to_owned();
    let sum = Step::SumToTotal { column: n(), total: Total::Released { section: "all".into(), column: n() }, by: None };
    let smooth = Step::Smooth { x: "column".into(), y: "row".into(), value: "trips".into(), sigma: 1.5 };
    let bars = || Some(Plot::Bars { key: None, value: None });
    let heat = || Some(Plot::HeatMap { x: "column".into(), y: "row".into(), value: None });
    let laplace = |epsilon, column| share(epsilon, column, NoiseKind::Laplace, Some(8.0), 8.0);
    let mut by_ward = laplace(0.2, "n");
    by_ward.noise.push(Noise {
        column: "days".into(),
        kind: NoiseKind::Laplace,
        scale: None,
        expected_error: Some(0.3),
        rank: None,
    });
    let small = Share { threshold: Some(83.0), ..laplace(0.05, "n") };
    let section = |id: &str, title, sql: &str, share, plot, released, steps: &[Step]| {
        let (answer, postprocessing) = apply(steps, released, &totals, language)?;
        let question = sql.to_owned();
        let (id, note) = (id.into(), String::new());
        Ok(Section { id, title, note, question, answer, share, found: Vec::new(), postprocessing, plot })
    };
    let points = Plot::Points { key: None, value: Some("days".into()) };
    let table = Plot::Table { rows: "age".into(), columns: "year".into(), value: None };
    let sections = vec![
        section(
            "all",
            say("All stays", "住院总数"),
            "SELECT COUNT(*) AS n FROM stays",
            laplace(0.1, "n"),
            bars(),
            total,
            &[],
        )?,
        section(
            "wards",
            say("Stays by ward", "各科室住院数"),
            "SELECT ward, COUNT(*) AS n, AVG(days) AS days\nFROM stays\nGROUP BY ward",
            by_ward.clone(),
            bars(),
            wards(language),
            &[sum, Step::NonNegative { column: n() }],
        )?,
        section(
            "days",
            say("Mean length of stay", "平均住院日"),
            "SELECT ward, COUNT(*) AS n, AVG(days) AS days FROM stays GROUP BY ward",
            by_ward,
            Some(points),
            wards(language),
            &[Step::Clamp { column: "days".into(), min: Some(1.0), max: Some(14.0) }],
        )?,
        section(
            "visits",
            say("Visits per day", "每日就诊量"),
            "SELECT day, COUNT(*) AS visits FROM visits GROUP BY day",
            share(0.2, "visits", NoiseKind::Gaussian, Some(9.2), 7.3),
            Some(Plot::Points { key: None, value: None }),
            series(),
            &[],
        )?,
        section(
            "age",
            say("Age and year", "年龄与年份"),
            "SELECT age, year, COUNT(*) AS n FROM stays GROUP BY age, year",
            laplace(0.1, "n"),
            Some(table),
            cross(),
            &[Step::Round { column: n(), digits: -1 }],
        )?,
        section(
            "city",
            say("Pick-ups over the city", "全市上车点"),
            "SELECT column, row, COUNT(*) AS trips FROM trips GROUP BY column, row",
            share(0.25, "trips", NoiseKind::Gaussian, Some(15.3), 12.2),
            heat(),
            grid(45, 56, false),
            &[smooth],
        )?,
        section(
            "district",
            say("A small grid, as released", "小网格（未平滑）"),
            "SELECT column, row, COUNT(*) AS trips FROM trips WHERE zone = 3 GROUP BY column, row",
            Share { threshold: Some(83.0), ..share(0.1, "trips", NoiseKind::Gaussian, Some(15.3), 12.2) },
            heat(),
            grid(9, 7, true),
            &[],
        )?,
        section(
            "rare",
            say("Rare diagnoses", "罕见诊断"),
            "SELECT diagnosis, COUNT(*) AS n FROM stays GROUP BY diagnosis",
            small,
            bars(),
            answer(&["diagnosis"], &["n"], vec![]),
            &[],
        )?,
    ];
    Ok(Document {
        title: say("Hospital year 2025", "2025 年医院年度统计"),
        language,
        dataset: "stays".into(),
        summary: say(
            "Stays, visits and ambulance trips of three hospitals, for the public.",
            "三家医院的住院、门诊与救护车出行统计，面向公众发布。",
        ),
        privacy: privacy(language),
        budget: BudgetLine {
            total: Loss { epsilon: 4.0, delta: 1e-6 },
            charged: Loss { epsilon: 1.0, delta: 1e-7 },
            remaining: Loss { epsilon: 2.5, delta: 9e-7 },
        },
        sections,
        receipt: Receipt {
            sequence: 42,
            head: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".into(),
        },
        generated: "2026-01-31 12:00 UTC".into(),
    })
}

fn privacy(language: Language) -> PrivacyStatement {
    PrivacyStatement {
        protected: vec![Protected {
            tables: vec!["stays".into()],
            unit: PrivacyUnit::Column("patient_id".into()),
            neighbors: Neighbors::AddOrRemoveUnit,
            windows: Vec::new(),
        }],
        composition: say(
            language,
            "All questions were fixed in advance and composed as one plan.",
            "全部查询事先确定，作为一个整体方案组合核算。",
        ),
    }
}

fn certificate(language: Language) -> Certificate {
    let ratio = |a, b| Ratio::new(a, b).into_iter();
    let laplace = ratio(8, 1).map(|scale| PrivacyEvent::Laplace { sensitivity: L1Sensitivity::new(1), scale });
    let gaussian = ratio(847, 10).map(|variance| PrivacyEvent::Gaussian {
        sensitivity: L2Sensitivity::from_squared(1),
        variance,
        coordinates: 1,
    });
    let threshold = Delta::from_f64(1e-7).into_iter().map(|delta| PrivacyEvent::Threshold { delta });
    let purposes = ["SELECT COUNT(*) AS n FROM stays", "SELECT day, COUNT(*) …", "SELECT diagnosis, COUNT(*) …"];
    let events = laplace.chain(gaussian).chain(threshold).zip(purposes);
    let guarantee = |accountant: &str, epsilon, delta| Guarantee { accountant: accountant.into(), epsilon, delta };
    let three = std::num::NonZeroU32::MIN.saturating_add(2);
    Certificate {
        title: say(language, "Hospital year 2025", "2025 年医院年度统计"),
        language,
        dataset: "stays".into(),
        privacy: privacy(language),
        bounds: vec![TableBounds {
            table: "stays".into(),
            file: "stays.csv".into(),
            contribution: ContributionBounds { max_groups_per_unit: three, max_rows_per_group: three },
            columns: vec![ColumnBounds { column: "days".into(), lower: 1.0, upper: 14.0, step: 1.0 }],
        }],
        events: events
            .map(|(event, purpose)| EventLine {
                purpose: purpose.into(),
                question: String::new(),
                event,
                found: Vec::new(),
            })
            .collect(),
        guarantees: vec![
            guarantee("pure", None, 0.0),
            guarantee("RDP", Some(1.0821), 1e-7),
            guarantee("PLD", Some(0.9634512345), 1e-7),
        ],
        total: Loss { epsilon: 4.0, delta: 1e-6 },
        charged: Loss { epsilon: 1.0, delta: 1e-7 },
        charged_on: "2026-01-31".into(),
        head: Receipt { sequence: 57, head: "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752".into() },
        receipt: Receipt {
            sequence: 42,
            head: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".into(),
        },
        policy: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855".into(),
        versions: vec![Version { name: "dither".into(), version: "0.1.0".into() }],
        generated: "2026-01-31 12:00 UTC".into(),
    }
}
