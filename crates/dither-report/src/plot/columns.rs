//! Many marks, such as a time series: narrow columns side by side.

use maud::{Markup, html};

use super::scale::Scale;
use super::{Mark, Style, percent};

/// The height of the plot in pixels.
const HEIGHT: f64 = 220.0;

pub(super) fn draw(marks: &[Mark], style: Style) -> Markup {
    let scale = Scale::of(marks, style, 5);
    let y = |value: f64| format!("{:.1}", 8.0 + (HEIGHT - 16.0) * (1.0 - scale.place(value)));
    let slot = 100.0 / marks.len().max(1) as f64;
    let texts: Vec<String> = scale.ticks.iter().map(|tick| Scale::text(*tick)).collect();
    // Digits of the axis font are at most 7 pixels wide.
    let gutter = 7 * texts.iter().map(|text| text.chars().count()).max().unwrap_or(0) + 8;
    let radius = if marks.len() > 150 { "1.5" } else { "2.5" };
    html! {
        div.columns {
            svg.axis width=(gutter) height=(HEIGHT) aria-hidden="true" {
                @for (tick, text) in scale.ticks.iter().zip(&texts) {
                    text.end x=(gutter - 6) y=(y(*tick)) dy="4" { (text) }
                }
            }
            svg.many width="100%" height=(HEIGHT) role="group" {
                @for tick in &scale.ticks {
                    line class=(if *tick == 0.0 { "zero" } else { "grid" }) x1="0" x2="100%" y1=(y(*tick)) y2=(y(*tick)) {}
                }
                @for (index, mark) in marks.iter().enumerate() {
                    @let centre = percent(slot * (index as f64 + 0.5));
                    g {
                        title { (mark.title) }
                        @if let Some(value) = mark.estimate.value.filter(|value| value.is_finite()) {
                            @if style == Style::Bars { (bar(&scale, value, slot, index)) }
                            @if let (Some(low), Some(high)) = (mark.estimate.low, mark.estimate.high) {
                                line.error x1=(centre) x2=(centre) y1=(y(low)) y2=(y(high)) {}
                            }
                            @if style == Style::Points { circle.point cx=(centre) cy=(y(value)) r=(radius) {} }
                        }
                    }
                }
            }
            span {}
            div.ends {
                @for index in ends(marks.len()) { span { bdi { (marks[index].label) } } }
            }
        }
    }
}

fn bar(scale: &Scale, value: f64, slot: f64, index: usize) -> Markup {
    let (zero, end) = (scale.place(0.0), scale.place(value));
    let (low, high) = (zero.min(end), zero.max(end));
    let length = |part: f64| format!("{:.1}", (HEIGHT - 16.0) * part);
    let top = format!("{:.1}", 8.0 + (HEIGHT - 16.0) * (1.0 - high));
    html! {
        rect.bar x=(percent(slot * (index as f64 + 0.1))) width=(percent(slot * 0.8)) y=(top) height=(length(high - low)) {}
    }
}

/// The first, the middle and the last of so many.
fn ends(count: usize) -> Vec<usize> {
    match count {
        0 => vec![],
        1 => vec![0],
        2 => vec![0, 1],
        _ => vec![0, (count - 1) / 2, count - 1],
    }
}
