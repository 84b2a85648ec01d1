//! A grid of coloured cells with its scale.
//!
//! Twelve colours with equal steps of OKLab lightness, from yellowish cyan to violet, so that the order is seen
//! with any colour vision and in grey. On a light page more is darker, on a dark page more is lighter: what is
//! low recedes into the page. The scale carries a typical interval, so that a difference of colour can be
//! compared with the noise.

use std::collections::{BTreeMap, BTreeSet};

use dither_core::{Answer, Cell, Estimate, Key, Role};
use maud::{Markup, html};

use crate::document::{Plot, Section};
use crate::format::{Decimals, MISSING, estimates, half_width, pretty, visible};
use crate::language::Words;
use crate::plot::{in_words, value_column};
use crate::postprocess::{numeric, places};

/// The number of colours in the style sheet, `h0` to `h11`.
const COLOURS: usize = 12;

/// Beyond so many places in one direction a grid with gaps is drawn without them.
const WIDEST: i64 = 400;

/// Up to so many places every one is labelled, beyond that the first, the middle and the last.
const LABELS: usize = 12;

/// One direction of a grid.
struct Axis {
    name: String,
    /// The place of every row of the answer.
    places: Vec<usize>,
    /// The label of every place that has one.
    labels: BTreeMap<usize, String>,
    count: usize,
    numeric: bool,
}

/// The heat map of a section; nothing for another plot or one that does not fit the answer.
pub(crate) fn figure(plot: &Plot, section: &Section, words: &Words) -> Markup {
    let Plot::HeatMap { x, y, value } = plot else { return html! {} };
    let answer = &section.answer;
    let (Some(x), Some(y), Some(value)) =
        (Axis::of(answer, x), Axis::of(answer, y), value_column(answer, value.as_deref()))
    else {
        return html! {};
    };
    let decimals = Decimals::of_column(answer, value);
    let numbers = estimates(answer, value).filter_map(|estimate| estimate.value).filter(|value| value.is_finite());
    let (low, high) = numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
    if low > high {
        return html! { p.empty { (words.missing) } };
    }
    let name = words.heading(&answer.columns[value].name);
    html! {
        @for (title, rows) in layers(answer, &x, &y) {
            figure.heat {
                @if !title.is_empty() { h3 { bdi { (title) } } }
                (grid(answer, value, &rows, &x, &y, (low, high), words))
                (legend(answer, value, (low, high), decimals, words))
                @if rows.len() < x.count * y.count {
                    p.muted { span.void-key {} (words.not_released) }
                }
                figcaption { b { bdi { (name) } } (words.stop) (words.grid_note) }
            }
        }
    }
}

impl Axis {
    fn of(answer: &Answer, name: &str) -> Option<Self> {
        let column = answer.columns.iter().position(|c| c.name == name && c.role == Role::Key)?;
        let key = |row: &Vec<Cell>| match row.get(column) {
            Some(Cell::Key(key)) => key.clone(),
            _ => Key::Null,
        };
        let keys: Vec<Key> = answer.rows.iter().map(key).collect();
        let is_numeric = keys.iter().all(|key| numeric(Some(key)).is_some());
        let mut places = places(answer, column);
        if places.iter().any(|place| *place >= WIDEST) {
            let distinct: Vec<i64> = places.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
            places = places.iter().map(|p| distinct.partition_point(|known| known < p) as i64).collect();
        }
        let places: Vec<usize> = places.iter().map(|place| usize::try_from(*place).unwrap_or(0)).collect();
        let count = places.iter().max().map_or(0, |last| last + 1);
        let labels = places.iter().zip(&keys).map(|(place, key)| (*place, visible(&key.to_string()))).collect();
        Some(Self { name: visible(name), places, labels, count, numeric: is_numeric })
    }

    /// The places that are labelled, in the order of the page.
    fn shown(&self) -> Vec<String> {
        let label = |place: usize| self.labels.get(&place).cloned().unwrap_or_default();
        match self.count {
            0 => vec![],
            count if count <= LABELS => (0..count).map(label).collect(),
            count => [0, (count - 1) / 2, count - 1].map(label).to_vec(),
        }
    }
}

/// The rows by the keys that are not of the grid: one picture each.
fn layers(answer: &Answer, x: &Axis, y: &Axis) -> BTreeMap<String, Vec<usize>> {
    let mut layers: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, row) in answer.rows.iter().enumerate() {
        let others = answer.columns.iter().zip(row).filter_map(|(column, cell)| match cell {
            Cell::Key(key) if visible(&column.name) != x.name && visible(&column.name) != y.name => {
                Some(visible(&key.to_string()))
            }
            _ => None,
        });
        layers.entry(others.collect::<Vec<_>>().join(" · ")).or_default().push(index);
    }
    layers
}

fn colour(value: f64, (low, high): (f64, f64)) -> usize {
    let place = if high > low { (value - low) / (high - low) } else { 0.5 };
    ((place * COLOURS as f64) as usize).min(COLOURS - 1)
}

fn grid(answer: &Answer, value: usize, rows: &[usize], x: &Axis, y: &Axis, range: (f64, f64), words: &Words) -> Markup {
    let decimals = Decimals::of_column(answer, value);
    let estimate = |row: usize| match answer.rows[row].get(value) {
        Some(Cell::Value(estimate)) => *estimate,
        _ => Estimate { value: None, low: None, high: None },
    };
    // Numbers grow upwards as on a map or an axis; everything else reads downwards.
    let down = |place: usize| if y.numeric { y.count - 1 - place } else { place };
    let mut labels = y.shown();
    if y.numeric {
        labels.reverse();
    }
    let wide = if x.count > LABELS { "heat-x ends" } else { "heat-x each" };
    let tall = if y.count > LABELS { "heat-y ends" } else { "heat-y each" };
    // Few cells stay small, many fill the width.
    let size = match x.count {
        0..=6 => "s",
        7..=16 => "m",
        _ => "l",
    };
    html! {
        div class={ "heat-grid " (size) } {
            div class=(tall) aria-hidden="true" { @for label in &labels { span { bdi { (label) } } } }
            svg.cells viewBox={ "0 0 " (x.count) " " (y.count) } role="group" shape-rendering="crispEdges" {
                rect.void width=(x.count) height=(y.count) { title { (words.not_released) } }
                @for &row in rows {
                    @let (across, place) = (x.places[row], y.places[row]);
                    @let text = format!("{} = {}, {} = {}: {}", x.name, x.labels[&across], y.name, y.labels[&place],
                        in_words(estimate(row), decimals));
                    @if let Some(value) = estimate(row).value.filter(|value| value.is_finite()) {
                        rect class={ "h" (colour(value, range)) } x=(across) y=(down(place)) width="1" height="1" {
                            title { (text) }
                        }
                    }
                }
            }
            span {}
            div class=(wide) aria-hidden="true" { @for label in x.shown() { span { bdi { (label) } } } }
        }
        p.axes.muted { "→ " bdi { (x.name) } "  " (if y.numeric { "↑ " } else { "↓ " }) bdi { (y.name) } }
    }
}

/// The colours with their numbers, and below them a typical interval to the same scale.
fn legend(answer: &Answer, value: usize, (low, high): (f64, f64), decimals: Decimals, words: &Words) -> Markup {
    let mut halves: Vec<f64> = estimates(answer, value).filter_map(half_width).collect();
    halves.sort_by(f64::total_cmp);
    let typical = halves.get(halves.len() / 2).copied();
    let width = 100.0 / COLOURS as f64;
    let length = typical.map(|half| if high > low { (200.0 * half / (high - low)).min(100.0) } else { 100.0 });
    let text = |value: f64| pretty(&decimals.number(Some(value)));
    html! {
        div.scale {
            svg width="100%" height="24" role="img" aria-label={ (text(low)) " – " (text(high)) } {
                @for index in 0..COLOURS {
                    rect class={ "h" (index) } x={ (format!("{:.3}", width * index as f64)) "%" } height="14"
                        width={ (format!("{:.3}", width + 0.05)) "%" } {}
                }
                @if let Some(length) = length {
                    line.error x1="0" x2={ (format!("{length:.2}")) "%" } y1="20" y2="20" {}
                    line.error x1="0.5" x2="0.5" y1="17" y2="23" {}
                    line.error x1={ (format!("{length:.2}")) "%" } x2={ (format!("{length:.2}")) "%" } y1="17" y2="23" {}
                }
            }
            div.ends { span { (text(low)) } span { (text((low + high) / 2.0)) } span { (text(high)) } }
            p.muted {
                (words.typical_error) (words.colon)
                (typical.map_or(MISSING.to_owned(), |half| pretty(&format!("± {}", decimals.number(Some(half))))))
            }
        }
    }
}
