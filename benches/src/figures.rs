//! What was measured, and how it is printed.

use std::io::{self, Write};
use std::time::{Duration, Instant};

/// One measured number.
pub struct Figure {
    /// What was measured: a row of the table.
    pub row: String,
    /// What about it was measured: a column of the table.
    pub measure: &'static str,
    /// The number.
    pub value: f64,
    /// Its unit; empty for plain numbers.
    pub unit: &'static str,
    /// What it is compared with, in the same unit.
    pub against: Option<f64>,
}

impl Figure {
    /// A number that is compared with nothing.
    pub fn new(row: impl Into<String>, measure: &'static str, value: f64, unit: &'static str) -> Self {
        Self { row: row.into(), measure, value, unit, against: None }
    }

    /// The same number beside another one.
    pub fn against(mut self, other: f64) -> Self {
        self.against = Some(other);
        self
    }

    fn ratio(&self) -> Option<f64> {
        self.against.map(|other| self.value / other).filter(|ratio| ratio.is_finite())
    }
}

/// Figures that belong into one table.
pub struct Section {
    /// The heading.
    pub title: String,
    /// The figures, in the order of rows.
    pub figures: Vec<Figure>,
}

/// Prints JSON lines or Markdown.
pub fn print(sections: &[Section], json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for section in sections {
        match json {
            true => lines(section, &mut out)?,
            false => table(section, &mut out)?,
        }
    }
    Ok(())
}

fn lines(section: &Section, out: &mut impl Write) -> io::Result<()> {
    for figure in &section.figures {
        // What the ratio is to stands in the heading of a table only.
        let measure = figure.measure.split(" (").next().unwrap_or_default();
        let line = serde_json::json!({
            "name": format!("{}: {}: {}", section.title, figure.row, measure),
            "value": figure.value,
            "unit": figure.unit,
            "against": figure.against,
            "ratio": figure.ratio(),
        });
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// One row for what was measured, one column for what about it; `×` is the ratio to what it is compared with.
fn table(section: &Section, out: &mut impl Write) -> io::Result<()> {
    let mut rows: Vec<&str> = Vec::new();
    let mut measures: Vec<&str> = Vec::new();
    for figure in &section.figures {
        if !rows.contains(&figure.row.as_str()) {
            rows.push(&figure.row);
        }
        if !measures.contains(&figure.measure) {
            measures.push(figure.measure);
        }
    }
    writeln!(out, "### {}\n\n| | {} |", section.title, measures.join(" | "))?;
    writeln!(out, "| --- |{}", " ---: |".repeat(measures.len()))?;
    for row in rows {
        let cells = measures.iter().map(|measure| {
            let found = section.figures.iter().find(|figure| figure.row == row && figure.measure == *measure);
            found.map_or(String::new(), |figure| {
                let ratio = figure.ratio().map_or(String::new(), |ratio| format!(" (×{})", short(ratio)));
                format!("{} {}{ratio}", short(figure.value), figure.unit).trim_end().replace("  ", " ")
            })
        });
        writeln!(out, "| {row} | {} |", cells.collect::<Vec<_>>().join(" | "))?;
    }
    writeln!(out)
}

/// Five significant digits.
pub fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let magnitude = value.abs().log10().floor();
    match value.fract() == 0.0 || magnitude >= 4.0 {
        true => format!("{value:.0}"),
        false if magnitude < -6.0 => format!("{value:.2e}"),
        false => format!("{value:.0$}", (4.0 - magnitude) as usize),
    }
}

/// The middle one of some numbers; NaN of none.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The number below which this share lies; NaN of none.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let index = (share * sorted.len() as f64).ceil().max(1.0) as usize - 1;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

/// How often per second something can be done: it is repeated for about a second.
pub fn rate(mut work: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let (start, mut times) = (Instant::now(), 0_u64);
    let mut batch = 1_u64;
    while start.elapsed() < Duration::from_secs(1) {
        for _ in 0..batch {
            work()?;
        }
        times += batch;
        batch = (batch * 2).min(4096);
    }
    Ok(times as f64 / start.elapsed().as_secs_f64())
}
