//! Plots as SVG that a style sheet can colour.
//!
//! They are written here rather than by a plotting library because of what a page needs: colours from CSS
//! variables (light, dark and paper from one file), labels as HTML that wraps and keeps its size on a phone, and
//! any script. `kuva` 0.6, the closest library, fixes the colours of its marks in the file, for example `#1a1a1a`
//! for error bars, places text by counting characters at 0.6 em, which Chinese overflows, and scales the text of
//! a picture with the picture.
//!
//! Positions across are percentages, positions down are pixels: a plot fills any width without distortion.

mod columns;
mod lanes;
mod scale;

pub(crate) use scale::Scale;

use dither_core::{Answer, Cell, Column, Estimate, Role};
use maud::{Markup, html};

use crate::document::{Plot, Section};
use crate::format::{Decimals, pretty, visible};
use crate::language::Words;
use crate::postprocess::{StepError, find};

/// Up to so many rows are drawn as horizontal lanes with a label each; more become narrow columns.
const LANES: usize = 32;

/// What is drawn at one label.
struct Mark {
    label: String,
    estimate: Estimate,
    /// The label and the number in words.
    title: String,
}

/// How marks are drawn.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    /// Bars from zero.
    Bars,
    /// Points.
    Points,
}

impl Plot {
    /// Finds wrong column names before anything is charged.
    ///
    /// # Errors
    /// [`StepError::UnknownColumn`] with the nearest name, [`StepError::WrongRole`], and [`StepError::OneDirection`].
    pub fn check(&self, columns: &[Column]) -> Result<(), StepError> {
        let answer = Answer { columns: columns.to_vec(), rows: Vec::new() };
        let (keys, value) = match self {
            Self::Bars { key, value } | Self::Points { key, value } => (Vec::from_iter(key), value),
            Self::HeatMap { x, y, value } => (vec![x, y], value),
            Self::Table { rows, columns, value } => (vec![rows, columns], value),
        };
        for key in &keys {
            find(&answer, "plot", key, Role::Key)?;
        }
        if let [one, other] = keys[..]
            && one == other
        {
            return Err(StepError::OneDirection { column: one.clone() });
        }
        value.iter().try_for_each(|value| find(&answer, "plot", value, Role::Value).map(|_| ()))
    }
}

/// Bars or points; nothing for another plot or one that does not fit the answer.
pub(crate) fn figure(plot: &Plot, section: &Section, words: &Words) -> Markup {
    let (key, value, style) = match plot {
        Plot::Bars { key, value } => (key, value, Style::Bars),
        Plot::Points { key, value } => (key, value, Style::Points),
        Plot::HeatMap { .. } | Plot::Table { .. } => return html! {},
    };
    let answer = &section.answer;
    let Some(value) = value_column(answer, value.as_deref()) else { return html! {} };
    let marks = marks(answer, key.as_deref(), value);
    let name = words.heading(&answer.columns[value].name);
    let lines = marks.iter().any(|mark| mark.estimate.low.is_some() || mark.estimate.high.is_some());
    html! {
        figure {
            @if marks.len() > LANES { (columns::draw(&marks, style)) } @else { (lanes::draw(&marks, style)) }
            figcaption { b { bdi { (name) } } (words.stop) (if lines { words.error_bars } else { words.no_error_bars }) }
        }
    }
}

/// A value column by name, or the first.
pub(crate) fn value_column(answer: &Answer, name: Option<&str>) -> Option<usize> {
    let fits = |column: &Column| column.role == Role::Value && name.is_none_or(|name| column.name == name);
    answer.columns.iter().position(fits)
}

fn marks(answer: &Answer, key: Option<&str>, value: usize) -> Vec<Mark> {
    let decimals = Decimals::of_column(answer, value);
    let labels: Vec<usize> = (0..answer.columns.len())
        .filter(|&index| answer.columns[index].role == Role::Key)
        .filter(|&index| key.is_none_or(|key| answer.columns[index].name == key))
        .collect();
    let mark = |row: &Vec<Cell>| {
        let keys = labels.iter().filter_map(|&index| match row.get(index) {
            Some(Cell::Key(key)) => Some(visible(&key.to_string())),
            _ => None,
        });
        let label = keys.collect::<Vec<_>>().join(" · ");
        let Some(Cell::Value(estimate)) = row.get(value) else { return None };
        let title = format!("{label}: {}", in_words(*estimate, decimals));
        Some(Mark { label, estimate: *estimate, title })
    };
    answer.rows.iter().filter_map(mark).collect()
}

/// `1,204 ± 12`.
pub(crate) fn in_words(estimate: Estimate, decimals: Decimals) -> String {
    let error = decimals.error(estimate).map(|error| format!(" {error}")).unwrap_or_default();
    pretty(&(decimals.number(estimate.value) + &error))
}

/// A percentage of the width as an SVG length.
fn percent(value: f64) -> String {
    format!("{:.3}%", if value.is_finite() { value } else { 0.0 })
}

/// The whole budget as one bar: what was charged before, the questions of this report, what is left.
pub(crate) fn budget_bar(earlier: f64, questions: &[(String, f64)], left: f64, words: &Words) -> Markup {
    let mut parts = vec![("earlier", words.earlier.to_owned(), earlier)];
    parts.extend(questions.iter().map(|(title, share)| ("now", visible(title), *share)));
    parts.push(("left", words.remaining.to_owned(), left));
    // A composition may charge less than the sum, so that the parts need not fill the bar; they never leave it.
    let sum: f64 = parts.iter().map(|(_, _, share)| share.max(0.0)).sum();
    let fit = if sum > 100.0 { 100.0 / sum } else { 1.0 };
    let placed = parts.into_iter().scan(0.0, |end, (class, title, share)| {
        let (from, width) = (*end, share.max(0.0) * fit);
        *end += width;
        Some((class, title, from, width))
    });
    html! {
        svg.budget width="100%" height="28" role="img" aria-label=(words.budget) {
            rect.frame width="100%" height="28" rx="3" {}
            @for (class, title, from, width) in placed.filter(|(.., width)| *width > 0.0) {
                rect class=(class) x=(percent(from)) width=(percent(width)) height="28" { title { (title) } }
                @if from > 0.0 { line.gap x1=(percent(from)) x2=(percent(from)) y1="0" y2="28" {} }
            }
        }
    }
}

/// A share of the report as a small bar with its number.
pub(crate) fn share_bar(share: f64) -> Markup {
    html! {
        div {
            svg width="100%" height="8" aria-hidden="true" {
                rect.frame width="100%" height="8" rx="2" {}
                rect.now width=(percent(share.clamp(0.0, 100.0))) height="8" rx="2" {}
            }
            span { (crate::format::significant(share, 3)) "%" }
        }
    }
}
