//! Few marks: one lane each, label on the left.

use maud::{Markup, html};

use super::scale::Scale;
use super::{Mark, Style, percent};
use crate::format::{MISSING, short};

/// The height of a lane in pixels.
const HEIGHT: u32 = 24;

pub(super) fn draw(marks: &[Mark], style: Style) -> Markup {
    let scale = Scale::of(marks, style, 4);
    // A margin of one per cent keeps caps and points at the ends whole.
    let x = |value: f64| percent(1.0 + 98.0 * scale.place(value));
    let middle = HEIGHT / 2;
    html! {
        div.lanes {
            @for mark in marks {
                span.label.short[short(&mark.label)] { bdi { (mark.label) } }
                svg.lane width="100%" height=(HEIGHT) role="img" aria-label=(mark.title) {
                    title { (mark.title) }
                    @for tick in &scale.ticks {
                        line class=(if *tick == 0.0 { "zero" } else { "grid" }) x1=(x(*tick)) x2=(x(*tick)) y1="0" y2=(HEIGHT) {}
                    }
                    @match mark.estimate.value.filter(|value| value.is_finite()) {
                        Some(value) => {
                            @if style == Style::Bars { (bar(&scale, value)) }
                            (error_bar(mark, &x))
                            @if style == Style::Points { circle.point cx=(x(value)) cy=(middle) r="4" {} }
                        },
                        None => { text.missing x="2%" y=(middle + 5) { (MISSING) } },
                    }
                }
            }
            span.label {}
            svg.axis width="100%" height="18" aria-hidden="true" {
                @for (index, tick) in scale.ticks.iter().enumerate() {
                    text x=(x(*tick)) y="13" class=(anchor(index, &scale.ticks)) { (Scale::text(*tick)) }
                }
            }
        }
    }
}

fn bar(scale: &Scale, value: f64) -> Markup {
    let (zero, end) = (scale.place(0.0), scale.place(value));
    let (from, to) = (zero.min(end), zero.max(end));
    html! { rect.bar x=(percent(1.0 + 98.0 * from)) width=(percent(98.0 * (to - from))) y="5" height=(HEIGHT - 10) {} }
}

fn error_bar(mark: &Mark, x: &impl Fn(f64) -> String) -> Markup {
    let (Some(low), Some(high)) = (mark.estimate.low, mark.estimate.high) else { return html! {} };
    let middle = HEIGHT / 2;
    html! {
        line.error x1=(x(low)) x2=(x(high)) y1=(middle) y2=(middle) {}
        @for end in [low, high] { line.error x1=(x(end)) x2=(x(end)) y1=(middle - 4) y2=(middle + 4) {} }
    }
}

/// The first and last label of an axis lean inwards. Between them, long labels make room on a phone.
fn anchor(index: usize, ticks: &[f64]) -> &'static str {
    let letters: usize = ticks.iter().map(|tick| Scale::text(*tick).len()).sum();
    match index {
        0 => "start",
        _ if index + 1 == ticks.len() => "end",
        _ if letters > 18 => "middle minor",
        _ => "middle",
    }
}
