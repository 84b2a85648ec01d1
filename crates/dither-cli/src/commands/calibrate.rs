//! `dither calibrate`: from a goal back to the noise, the number of rounds or the ε.

use std::fmt::Write;

use anyhow::{Context, bail};
use dither_accounting::{Accountant, AccountingError, Event, calibrate, gaussian};
use dither_core::Neighbors;
use dither_report::curves::{Axis, Chart, Curve, svg};
use serde_json::json;

use super::account::{small, training_step, up};
use crate::args::{Calibrate, Goal, Noise};
use crate::output;

/// 95 of 100 draws of Gaussian noise lie within so many standard deviations: √2 erf⁻¹(0.95).
const GAUSSIAN_95: f64 = 1.959_963_984_540_054;
/// 95 of 100 draws of Laplace noise lie within so many scales: ln 20.
const LAPLACE_95: f64 = 2.995_732_273_553_991;

/// Finds what the goal needs.
pub fn run(command: &Calibrate) -> anyhow::Result<()> {
    let found = Found::of(command)?;
    if let Some(file) = &command.shown.plot {
        let delta = command.delta.filter(|delta| *delta > 0.0).unwrap_or(1e-6);
        let columns = match &command.goal {
            Goal::Gaussian(noise) | Goal::Laplace(noise) => noise.columns,
            Goal::DpSgd { .. } => bail!("a plot shows errors against ε: it needs gaussian or laplace"),
        };
        output::write(Some(file), svg(&[errors(columns, delta)]).as_bytes())?;
    }
    let text = if command.shown.json { found.json(command)? } else { found.text(command.shown.neighbors) };
    output::write(None, text.as_bytes())
}

/// What was found for which goal.
struct Found {
    /// The name of the number, as JSON has it.
    name: &'static str,
    value: f64,
    /// The event that was priced, and its price at the δ.
    event: Event,
    epsilon: f64,
    delta: f64,
    accountant: Accountant,
    /// The error of one number that 95 of 100 draws stay within.
    error: Option<f64>,
}

impl Found {
    fn of(command: &Calibrate) -> anyhow::Result<Self> {
        let neighbors = command.shown.neighbors;
        match &command.goal {
            Goal::DpSgd { sampling_rate, steps, noise_multiplier } => {
                let (epsilon, delta) = goal(command)?;
                let event = |noise: f64, count: u64| Event::SelfComposed {
                    count,
                    event: Box::new(training_step(noise, *sampling_rate)),
                };
                match (steps, noise_multiplier) {
                    (Some(steps), _) => {
                        let found = find_noise(epsilon, |noise| event(noise, *steps), neighbors, delta)?;
                        Self::priced("noise_multiplier", found, event(found, *steps), neighbors, delta)
                    }
                    (None, Some(noise)) => {
                        event(*noise, 1).validate()?;
                        let price = |count: u64| price(&event(*noise, count), neighbors, delta);
                        let found = calibrate::rounds(epsilon, price);
                        Self::priced("steps", found as f64, event(*noise, found), neighbors, delta)
                    }
                    (None, None) => bail!("name the number of --steps, or the --noise-multiplier"),
                }
            }
            Goal::Gaussian(noise) => {
                Self::of_noise(command, noise, GAUSSIAN_95, |noise_multiplier| Event::Gaussian { noise_multiplier })
            }
            Goal::Laplace(noise) => {
                Self::of_noise(command, noise, LAPLACE_95, |noise_multiplier| Event::Laplace { noise_multiplier })
            }
        }
    }

    /// The noise that a budget allows, or the ε that a target error needs.
    fn of_noise(
        command: &Calibrate,
        noise: &Noise,
        quantile: f64,
        event: impl Fn(f64) -> Event,
    ) -> anyhow::Result<Self> {
        let (neighbors, columns) = (command.shown.neighbors, f64::from(noise.columns));
        let gaussian = matches!(command.goal, Goal::Gaussian(_));
        // All columns move at once: the l1 norm of a vector with equal entries, or its l2 norm.
        let sensitivity = noise.sensitivity * if gaussian { columns.sqrt() } else { columns };
        let delta = command.delta.unwrap_or(0.0);
        if gaussian && delta == 0.0 {
            bail!("Gaussian noise needs a δ, as --delta 1e-6; Laplace noise does not");
        }
        let repeated = |multiplier: f64| Event::SelfComposed { count: noise.count, event: Box::new(event(multiplier)) };
        let (name, multiplier) = match (noise.target_error, command.epsilon) {
            (Some(_), Some(_)) => bail!("name an ε or a target error, not both"),
            (Some(error), None) => ("epsilon", error / quantile / sensitivity),
            (None, Some(epsilon)) => ("scale", find_noise(epsilon, repeated, neighbors, delta)?),
            (None, None) => bail!("name an ε, as --epsilon 1, or a --target-error"),
        };
        let mut found = Self::priced(name, 0.0, repeated(multiplier), neighbors, delta)?;
        found.value = if name == "scale" { multiplier * sensitivity } else { found.epsilon };
        found.error = Some(quantile * multiplier * sensitivity);
        Ok(found)
    }

    fn priced(name: &'static str, value: f64, event: Event, neighbors: Neighbors, delta: f64) -> anyhow::Result<Self> {
        event.validate()?;
        let (accountant, epsilon) = best(&event, neighbors, delta)?;
        Ok(Self { name, value, event, epsilon, delta, accountant, error: None })
    }

    fn json(&self, command: &Calibrate) -> anyhow::Result<String> {
        let mut found = json!({
            self.name: self.value,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "accountant": self.accountant.name(),
            "neighbors": command.shown.neighbors,
            "event": self.event,
        });
        if let Some(error) = self.error {
            found["error_95"] = error.into();
        }
        Ok(serde_json::to_string_pretty(&found)? + "\n")
    }

    fn text(&self, neighbors: Neighbors) -> String {
        let name = self.name.replace('_', " ");
        let mut text = match self.name {
            "epsilon" => String::new(),
            "steps" => format!("{name} {}\n", self.value),
            _ => format!("{name} {}\n", up(self.value)),
        };
        let title = self.accountant.title();
        let whom = super::account::whom(neighbors);
        let _ = writeln!(text, "ε {} at δ {}, by {title}, for {whom}", up(self.epsilon), small(self.delta));
        if let Some(error) = self.error {
            let _ = writeln!(text, "± {} in 95 of 100 draws", up(error));
        }
        text
    }
}

/// The budget that the noise must fit.
fn goal(command: &Calibrate) -> anyhow::Result<(f64, f64)> {
    let epsilon = command.epsilon.context("name the ε to reach, as --epsilon 1")?;
    Ok((epsilon, command.delta.context("name the δ to reach, as --delta 1e-6")?))
}

fn find_noise(epsilon: f64, event: impl Fn(f64) -> Event, neighbors: Neighbors, delta: f64) -> anyhow::Result<f64> {
    event(1.0).validate()?;
    calibrate::noise_multiplier(epsilon, |noise| price(&event(noise), neighbors, delta))
        .context("no noise reaches this ε at this δ; raise one of them")
}

/// The smallest proven ε; infinite where none is.
fn price(event: &Event, neighbors: Neighbors, delta: f64) -> f64 {
    best(event, neighbors, delta).map_or(f64::INFINITY, |(_, epsilon)| epsilon)
}

fn best(event: &Event, neighbors: Neighbors, delta: f64) -> Result<(Accountant, f64), AccountingError> {
    Accountant::best_epsilon(event, neighbors, delta).map(|(accountant, bounds)| (accountant, bounds.upper))
}

/// The error of one number against ε for both kinds of noise, and where they cross.
fn errors(columns: u32, delta: f64) -> Chart {
    let columns = f64::from(columns);
    let laplace = |epsilon: f64| LAPLACE_95 * columns / epsilon;
    let normal =
        |epsilon: f64| gaussian::calibrate(epsilon, delta).map_or(f64::NAN, |mu| GAUSSIAN_95 * columns.sqrt() / mu);
    let epsilons: Vec<f64> = (0..=200).map(|step| 10f64.powf(-2.0 + f64::from(step) / 40.0)).collect();
    let curve = |name: &str, error: &dyn Fn(f64) -> f64| Curve {
        name: name.into(),
        points: epsilons.iter().map(|&epsilon| (epsilon, error(epsilon))).collect(),
    };
    let crossing = epsilons.windows(2).find(|pair| {
        let larger = |epsilon: f64| laplace(epsilon) > normal(epsilon);
        larger(pair[0]) != larger(pair[1])
    });
    let mark = crossing.map(|pair| (pair[0], laplace(pair[0]), format!("crossing at ε {:.2}", pair[0])));
    Chart {
        title: format!("Error of one of {columns} numbers, each of sensitivity 1"),
        x: Axis { label: "ε".into(), logarithmic: true },
        y: Axis { label: "error in 95 of 100 draws".into(), logarithmic: true },
        curves: vec![curve("Laplace, δ = 0", &laplace), curve(&format!("Gaussian, δ = {delta:e}"), &normal)],
        marks: mark.into_iter().collect(),
    }
}
