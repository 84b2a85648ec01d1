//! How fast events are priced and noise is calibrated.

use anyhow::{Context, Result};
use dither_accounting::calibrate::{Part, gaussian_variance, noise_multiplier, plan, refined};
use dither_accounting::{Accountant, Cost, Event};
use dither_core::{Budget, Delta, Epsilon, L1Sensitivity, L2Sensitivity, Neighbors, PrivacyEvent, Ratio};

use crate::figures::{Figure, Section, rate};
use crate::peers;

/// Prices a few events and calibrates a few times.
pub fn run() -> Result<Vec<Section>> {
    let (epsilon, delta): (Epsilon, Delta) = ("1".parse()?, "1e-6".parse()?);
    let one = L2Sensitivity::from_squared(1);
    let laplace = PrivacyEvent::Laplace {
        sensitivity: L1Sensitivity::new(1),
        scale: Ratio::new(100, 1).context("a scale is positive")?,
    };
    let variance = Ratio::new(1_000, 1).context("a variance is positive")?;
    let gaussian = PrivacyEvent::Gaussian { sensitivity: one, variance, coordinates: 12 };
    let (gaussian, _) = refined(&gaussian).context("the event can be refined")?;
    let mixed = PrivacyEvent::Composed([vec![laplace.clone(); 8], vec![gaussian.clone(); 8]].concat());
    let many = PrivacyEvent::Composed(vec![laplace.clone(); 100]);
    let events = [
        ("price of one Laplace event", &laplace),
        ("price of one Gaussian event", &gaussian),
        ("price of 8 Laplace and 8 Gaussian events", &mixed),
        ("price of 100 Laplace events", &many),
    ];
    let mut figures = Vec::new();
    let mut push = |row: &str, rate: f64| {
        figures.push(Figure::new(row, "rate", rate, "per second"));
        figures.push(Figure::new(row, "time", 1e6 / rate, "µs"));
    };
    for (row, event) in events {
        push(row, rate(|| Cost::of(event, delta).map(drop).map_err(Into::into))?);
    }
    push(
        "calibration of Gaussian noise, 12 coordinates",
        rate(|| gaussian_variance(one, 12, epsilon, delta).map(drop).map_err(Into::into))?,
    );
    let parts = [
        Part::Laplace { sensitivity: L1Sensitivity::new(13), weight: 2 },
        Part::Gaussian { sensitivity: one, coordinates: 12, weight: 2 },
        Part::Threshold,
    ];
    push(
        "calibration of a plan: Laplace, Gaussian, threshold",
        rate(|| plan(&parts, Budget { epsilon, delta }).map(drop).map_err(Into::into))?,
    );
    Ok(vec![Section { title: "Accounting".into(), figures }, composition()?])
}

/// A case that the other libraries know as well: its name, the event, and δ.
fn cases() -> [(&'static str, Event, f64); 3] {
    let step = |noise_multiplier: f64, rate: f64| Event::PoissonSampled {
        rate,
        event: Box::new(Event::Gaussian { noise_multiplier }),
    };
    let training = |noise, rate, count| Event::SelfComposed { count, event: Box::new(step(noise, rate)) };
    // Evenly spaced from the first to the last, both included.
    let spaced = |from: f64, to: f64, count: u32| {
        (0..count).map(move |i| from + (to - from) * f64::from(i) / f64::from(count - 1))
    };
    let laplaces = spaced(0.001, 0.01, 400).map(|epsilon| Event::Laplace { noise_multiplier: 1.0 / epsilon });
    let gaussians = spaced(50.0, 200.0, 400).map(|noise_multiplier| Event::Gaussian { noise_multiplier });
    let steps = spaced(1.0, 4.0, 200).zip(spaced(0.001, 0.01, 200)).map(|(noise, rate)| step(noise, rate));
    [
        ("training", training(1.1, 256.0 / 60_000.0, 14_063), 1e-5),
        ("steep", training(0.8, 0.01, 10_000), 1e-6),
        ("mixed", Event::Composed(laplaces.chain(gaussians).chain(steps).collect()), 1e-6),
    ]
}

/// Tight composition of long plans, beside the other libraries in the same run.
fn composition() -> Result<Section> {
    let (neighbors, mut figures) = (Neighbors::AddOrRemoveUnit, Vec::new());
    let mut ours = Vec::new();
    for (case, event, delta) in cases() {
        for accountant in [Accountant::Pld, Accountant::Rdp] {
            let seconds = 1.0 / rate(|| accountant.epsilon(&event, neighbors, delta).map(drop).map_err(Into::into))?;
            let bounds = accountant.epsilon(&event, neighbors, delta)?;
            let row = format!("{case}: Dither, {}", accountant.title());
            figures.push(Figure::new(&row, "time (× that of Dither, PLD)", 1e3 * seconds, "ms"));
            figures.push(Figure::new(&row, "upper", bounds.upper, ""));
            if bounds.lower > 0.0 {
                figures.push(Figure::new(&row, "lower", bounds.lower, ""));
            }
            if accountant == Accountant::Pld {
                ours.push((case, seconds));
            }
        }
    }
    let price = |noise: f64| {
        let step = Event::PoissonSampled { rate: 0.01, event: Box::new(Event::Gaussian { noise_multiplier: noise }) };
        let training = Event::SelfComposed { count: 5_000, event: Box::new(step) };
        Accountant::Pld.epsilon(&training, neighbors, 1e-5).map_or(f64::INFINITY, |bounds| bounds.upper)
    };
    let start = std::time::Instant::now();
    let noise = noise_multiplier(1.0, price).context("some noise is enough")?;
    ours.push(("calibration", start.elapsed().as_secs_f64()));
    let row = "calibration: Dither, PLD";
    figures.push(Figure::new(row, "time (× that of Dither, PLD)", 1e3 * start.elapsed().as_secs_f64(), "ms"));
    figures.push(Figure::new(row, "upper", noise, ""));
    for peer in peers::run("accounting") {
        let row = format!("{}: {}", peer.case, peer.tool);
        let known = ours.iter().find(|(case, _)| *case == peer.case);
        let (Some(seconds), Some((_, own))) = (peer.number("seconds"), known) else { continue };
        let figure = Figure::new(&row, "time (× that of Dither, PLD)", 1e3 * seconds, "ms");
        figures.push(figure.against(1e3 * own));
        let value = ["upper", "epsilon", "noise"].iter().find_map(|name| peer.number(name));
        figures.extend(value.map(|value| Figure::new(&row, "upper", value, "")));
        figures.extend(peer.number("lower").map(|value| Figure::new(&row, "lower", value, "")));
    }
    Ok(Section { title: "Composition (ε, or the noise multiplier of the calibration)".into(), figures })
}
