//! `dither account`: what a private computation costs, whoever ran it.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, bail};
use dither_accounting::{Accountant, AccountingError, Event, EventDocument, Interval, Pld, dp_event};
use dither_core::Neighbors;
use dither_report::curves::{Axis, Chart, Curve, svg};
use serde_json::{Map, Value, json};

use crate::args::{Account, Described};
use crate::output;

/// What is asked of every accountant.
#[derive(Clone, Copy)]
enum Ask {
    /// ε at a δ.
    Epsilon(f64),
    /// δ at an ε.
    Delta(f64),
}

/// Prices an event.
pub fn run(command: &Account) -> anyhow::Result<()> {
    let (event, neighbors) = match (&command.event, &command.file) {
        (Some(event), _) => (described(event), command.shown.neighbors),
        (None, Some(file)) => read(file, command.shown.neighbors)?,
        (None, None) => bail!("name a file of events, or one of dp-sgd, gaussian and laplace"),
    };
    event.validate()?;
    let ask = match (command.delta, command.epsilon) {
        (Some(delta), _) => Ask::Epsilon(delta),
        (_, Some(epsilon)) => Ask::Delta(epsilon),
        _ => bail!("name a δ, as --delta 1e-6, to find ε, or an ε to find δ"),
    };
    let accounts = Accounts::of(&event, neighbors, ask);
    if let Some(file) = &command.shown.plot {
        output::write(Some(file), svg(&charts(&event, neighbors, ask)?).as_bytes())?;
    }
    let text = if command.shown.json { accounts.json()? } else { accounts.text()? };
    output::write(None, text.as_bytes())
}

/// An event in a few words as an event.
fn described(event: &Described) -> Event {
    let repeated = |event: Event, count: u64| Event::SelfComposed { count, event: Box::new(event) };
    match *event {
        Described::DpSgd { noise_multiplier, sampling_rate, steps } => {
            repeated(training_step(noise_multiplier, sampling_rate), steps)
        }
        Described::Gaussian { noise_multiplier, count } => repeated(Event::Gaussian { noise_multiplier }, count),
        Described::Laplace { noise_multiplier, count } => repeated(Event::Laplace { noise_multiplier }, count),
    }
}

/// Gaussian noise on the sum over a Poisson sample.
pub fn training_step(noise_multiplier: f64, rate: f64) -> Event {
    Event::PoissonSampled { rate, event: Box::new(Event::Gaussian { noise_multiplier }) }
}

/// A document of events says whom it protects; a DpEvent does not.
fn read(file: &Path, neighbors: Neighbors) -> anyhow::Result<(Event, Neighbors)> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let foreign = serde_json::from_str::<Value>(&text).is_ok_and(|json| json.get("version").is_none());
    if foreign {
        return Ok((dp_event::from_json(&text, neighbors)?, neighbors));
    }
    let document = EventDocument::from_json(&text)?;
    Ok((document.event, document.neighbors))
}

/// What each accountant says.
struct Accounts {
    neighbors: Neighbors,
    ask: Ask,
    said: Vec<(Accountant, Result<Interval, AccountingError>)>,
}

impl Accounts {
    fn of(event: &Event, neighbors: Neighbors, ask: Ask) -> Self {
        let said = Accountant::ALL.map(|accountant| {
            let answer = match ask {
                Ask::Epsilon(delta) => accountant.epsilon(event, neighbors, delta),
                Ask::Delta(epsilon) => accountant.delta(event, neighbors, epsilon),
            };
            (accountant, answer)
        });
        Self { neighbors, ask, said: said.into() }
    }

    /// The smallest proven loss. All upper ends hold, so the smallest does.
    fn best(&self) -> anyhow::Result<(Accountant, Interval)> {
        let finite = self.said.iter().filter_map(|(accountant, answer)| Some((*accountant, *answer.as_ref().ok()?)));
        let best = finite.filter(|(_, bounds)| bounds.upper.is_finite()).min_by(|a, b| a.1.upper.total_cmp(&b.1.upper));
        if let Some(best) = best {
            return Ok(best);
        }
        // One that covers the event and finds no bound says more than those that do not cover it.
        let errors: Vec<_> = self.said.iter().filter_map(|(_, answer)| answer.as_ref().err()).collect();
        if errors.len() == self.said.len() {
            return Err(errors[0].clone().into());
        }
        bail!("no finite ε holds at this δ; raise δ")
    }

    fn json(&self) -> anyhow::Result<String> {
        let (accountant, bounds) = self.best()?;
        let name = |upper: &str| format!("{upper}_lower");
        let (found, given, value) = match self.ask {
            Ask::Epsilon(delta) => ("epsilon", "delta", delta),
            Ask::Delta(epsilon) => ("delta", "epsilon", epsilon),
        };
        let each: Map<String, Value> = self
            .said
            .iter()
            .map(|(accountant, answer)| {
                let value = match answer {
                    Ok(bounds) => json!({ found: bounds.upper, name(found): bounds.lower }),
                    Err(error) => json!({ "refused": error.to_string() }),
                };
                (accountant.name().to_owned(), value)
            })
            .collect();
        let account = json!({
            found: bounds.upper,
            name(found): bounds.lower,
            given: value,
            "accountant": accountant.name(),
            "neighbors": self.neighbors,
            "accountants": each,
        });
        Ok(serde_json::to_string_pretty(&account)? + "\n")
    }

    fn text(&self) -> anyhow::Result<String> {
        let (accountant, bounds) = self.best()?;
        let (found, given) = match self.ask {
            Ask::Epsilon(delta) => ("ε", format!("δ {}", small(delta))),
            Ask::Delta(epsilon) => ("δ", format!("ε {epsilon}")),
        };
        let whom = whom(self.neighbors);
        let mut text = format!("{found} {} at {given}, by {}, for {whom}\n\n", up(bounds.upper), accountant.title());
        for (accountant, answer) in &self.said {
            let title = accountant.title();
            let _ = match answer {
                Ok(bounds) if !bounds.upper.is_finite() => writeln!(text, "{title:6} no finite {found}"),
                Ok(bounds) if bounds.lower > 0.0 => {
                    writeln!(text, "{title:6} {:12} and no less than {}", up(bounds.upper), down(bounds.lower))
                }
                Ok(bounds) => writeln!(text, "{title:6} {}", up(bounds.upper)),
                Err(error) => writeln!(text, "{title:6} {error}"),
            };
        }
        Ok(text)
    }
}

/// A δ as people write it.
pub fn small(delta: f64) -> String {
    if delta == 0.0 { "0".into() } else { format!("{delta:e}") }
}

/// The neighbour relation in words.
pub fn whom(neighbors: Neighbors) -> &'static str {
    match neighbors {
        Neighbors::AddOrRemoveUnit => "one unit added or removed",
        Neighbors::ReplaceUnit => "one unit replaced by another",
    }
}

/// Seven significant digits, rounded towards more loss.
pub fn up(value: f64) -> String {
    rounded(value, f64::ceil)
}

/// Seven significant digits, rounded down.
fn down(value: f64) -> String {
    rounded(value, f64::floor)
}

fn rounded(value: f64, round: fn(f64) -> f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let exponent = value.abs().log10().floor() as i32;
    if (-4..15).contains(&exponent) {
        let places = (6 - exponent).max(0);
        let text = format!("{:.*}", places as usize, round(value * 10f64.powi(places)) / 10f64.powi(places));
        return if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text };
    }
    // The digits before their exponent: a product of both would be a neighbour of what is meant.
    format!("{}e{exponent}", round(value / 10f64.powi(exponent - 6)) / 1e6)
}

/// ε against δ, and the distribution of the privacy loss.
fn charts(event: &Event, neighbors: Neighbors, ask: Ask) -> anyhow::Result<Vec<Chart>> {
    let logarithmic = |label: &str| Axis { label: label.into(), logarithmic: true };
    let linear = |label: &str| Axis { label: label.into(), logarithmic: false };
    let deltas: Vec<f64> = (4..=48).map(|step| 10f64.powf(-f64::from(step) / 4.0)).collect();
    let curve = |accountant: Accountant| {
        let points = deltas.iter().filter_map(|&delta| {
            let bounds = accountant.epsilon(event, neighbors, delta).ok()?;
            bounds.upper.is_finite().then_some((delta, bounds.upper))
        });
        Curve { name: accountant.title().to_owned(), points: points.collect() }
    };
    let mut curves: Vec<Curve> = Accountant::ALL.map(curve).into();
    // A bound far above the best one would leave nothing to see of the others.
    let largest = |curve: &Curve| curve.points.last().map_or(f64::INFINITY, |point| point.1);
    let least = curves.iter().map(largest).fold(f64::INFINITY, f64::min);
    curves.retain(|curve| largest(curve) <= 5.0 * least && !curve.points.is_empty());
    let marks = match ask {
        Ask::Epsilon(delta) => Accountant::Pld.epsilon(event, neighbors, delta).map(|bounds| (delta, bounds.upper)),
        Ask::Delta(epsilon) => Accountant::Pld.delta(event, neighbors, epsilon).map(|bounds| (bounds.upper, epsilon)),
    };
    let marks = marks.map(|(delta, epsilon)| (delta, epsilon, format!("ε {epsilon:.4} at δ {}", small(delta))));
    let mut charts = vec![Chart {
        title: "What is guaranteed: ε for every δ".into(),
        x: logarithmic("δ"),
        y: linear("ε"),
        curves,
        marks: marks.into_iter().collect(),
    }];
    let points = Pld::of(event, neighbors).map(|pld| densities(&pld)).unwrap_or_default();
    if !points.is_empty() {
        charts.push(Chart {
            title: "How the privacy loss is distributed".into(),
            x: linear("privacy loss"),
            y: linear("probability density"),
            curves: vec![Curve { name: "with the unit against without".into(), points }],
            marks: Vec::new(),
        });
    }
    Ok(charts)
}

/// The density of the privacy loss, where most of it lies.
fn densities(pld: &Pld) -> Vec<(f64, f64)> {
    // Losses around the ε of a large δ are those that usually occur.
    let masses = pld.distribution(0.2, 400);
    masses.windows(2).map(|pair| (pair[0].0, pair[0].1 / (pair[1].0 - pair[0].0))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ac_08_what_is_printed_is_no_less_than_what_is_lost() {
        assert_eq!((up(2.38169_01), down(2.38169_01)), ("2.381691".into(), "2.38169".into()));
        assert_eq!((up(0.0), up(1.0), up(12_345_678.2)), ("0".into(), "1".into(), "12345679".into()));
        assert_eq!((up(1.234_567_89e-9), down(1.234_567_89e-9)), ("1.234568e-9".into(), "1.234567e-9".into()));
    }
}
