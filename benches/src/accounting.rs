//! How fast events are priced and noise is calibrated.

use anyhow::{Context, Result};
use dither_accounting::Cost;
use dither_accounting::calibrate::{Part, gaussian_variance, plan, refined};
use dither_core::{Budget, Delta, Epsilon, L1Sensitivity, L2Sensitivity, PrivacyEvent, Ratio};

use crate::figures::{Figure, Section, rate};

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
    Ok(vec![Section { title: "Accounting".into(), figures }])
}
