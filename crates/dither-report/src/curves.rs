//! Line charts as one SVG file that needs no page around it: privacy curves for papers, slides and terminals' users.
//!
//! Colours follow the reader's light or dark mode; lines differ in dashes as well, so they survive black and white.

use maud::{Markup, PreEscaped, html};

use crate::format::{pretty, significant};
use crate::plot::Scale;

/// One chart: some curves over one pair of axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// What is shown.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves.
    pub curves: Vec<Curve>,
    /// Points with a text, such as a crossover.
    pub marks: Vec<(f64, f64, String)>,
}

/// An axis: its label and whether it is logarithmic.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// The label, with units.
    pub label: String,
    /// Powers of ten at equal distances.
    pub logarithmic: bool,
}

/// A named line through points, in order of x.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The name in the legend.
    pub name: String,
    /// The points; those that are not finite, or not positive on a logarithmic axis, are left out.
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
/// Room for labels: left, right, top, bottom.
const MARGINS: [f64; 4] = [76.0, 20.0, 66.0, 52.0];
/// As many kinds of lines as a reader can tell apart.
const KINDS: usize = 4;

const STYLE: &str = "
svg{font:14px system-ui,sans-serif;background:#fff;color:#1f2430}
text{fill:currentColor}.title{font-size:17px;font-weight:600}.end{text-anchor:end}.middle{text-anchor:middle}
.grid{stroke:currentColor;stroke-opacity:.15}.axis{stroke:currentColor;stroke-opacity:.6}
.curve{fill:none;stroke-width:2.5;stroke-linejoin:round}.mark{fill:currentColor}
.k0{stroke:#0b62a4}.k1{stroke:#b4490b;stroke-dasharray:8 4}.k2{stroke:#2b7a3d;stroke-dasharray:2 4}.k3{stroke:#7a3fa0;stroke-dasharray:10 3 2 3}
@media (prefers-color-scheme:dark){svg{background:#14171d;color:#e8eaf0}.k0{stroke:#6db6f2}.k1{stroke:#f2a265}.k2{stroke:#7fd08f}.k3{stroke:#cfa1ee}}
";

/// The charts below one another, as the text of an SVG file.
///
/// ```
/// use dither_report::curves::{Axis, Chart, Curve, svg};
/// let axis = |label: &str| Axis { label: label.into(), logarithmic: false };
/// let line = Curve { name: "ρ = 1".into(), points: vec![(0.0, 0.0), (1.0, 2.0)] };
/// let chart = Chart { title: "ε".into(), x: axis("δ"), y: axis("ε"), curves: vec![line], marks: vec![] };
/// assert!(svg(&[chart]).starts_with("<svg"));
/// ```
pub fn svg(charts: &[Chart]) -> String {
    let height = HEIGHT * charts.len() as f64;
    let body = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (height) } role="img" {
            style { (PreEscaped(STYLE)) }
            @for (index, chart) in charts.iter().enumerate() {
                g transform={ "translate(0 " (HEIGHT * index as f64) ")" } { (draw(chart)) }
            }
        }
    };
    body.into_string()
}

fn draw(chart: &Chart) -> Markup {
    let drawn = chart.curves.iter().flat_map(|curve| &curve.points);
    let shown: Vec<(f64, f64)> =
        drawn.copied().filter_map(|(x, y)| Some((chart.x.value(x)?, chart.y.value(y)?))).collect();
    let across = chart.x.scale(shown.iter().map(|point| point.0));
    let up = chart.y.scale(shown.iter().map(|point| point.1));
    let [left, right, top, bottom] = MARGINS;
    let (width, height) = (WIDTH - left - right, HEIGHT - top - bottom);
    let place = |x: f64, y: f64| {
        let (x, y) = (chart.x.value(x)?, chart.y.value(y)?);
        Some((left + width * across.place(x), top + height * (1.0 - up.place(y))))
    };
    let path = |curve: &Curve| {
        let points = curve.points.iter().filter_map(|&(x, y)| place(x, y));
        points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
    };
    html! {
        text.title x=(left) y="24" { (chart.title) }
        @for (index, curve) in chart.curves.iter().enumerate() {
            @let x = left + width * index as f64 / chart.curves.len() as f64;
            polyline class={ "curve k" (index % KINDS) } points=(format!("{x},44 {},44", x + 28.0)) {}
            text x=(x + 34.0) y="49" { (curve.name) }
        }
        @for &tick in &across.ticks {
            @let x = left + width * across.place(tick);
            line.grid x1=(x) x2=(x) y1=(top) y2=(top + height) {}
            text.middle x=(x) y=(top + height + 19.0) { (chart.x.text(tick)) }
        }
        @for &tick in &up.ticks {
            @let y = top + height * (1.0 - up.place(tick));
            line.grid x1=(left) x2=(left + width) y1=(y) y2=(y) {}
            text.end x=(left - 8.0) y=(y + 5.0) { (chart.y.text(tick)) }
        }
        line.axis x1=(left) x2=(left + width) y1=(top + height) y2=(top + height) {}
        line.axis x1=(left) x2=(left) y1=(top) y2=(top + height) {}
        text.middle x=(left + width / 2.0) y=(HEIGHT - 10.0) { (chart.x.label) }
        text.middle x="18" y=(top + height / 2.0) transform={ "rotate(-90 18 " (top + height / 2.0) ")" } { (chart.y.label) }
        @for (index, curve) in chart.curves.iter().enumerate() {
            polyline class={ "curve k" (index % KINDS) } points=(path(curve)) {}
        }
        @for (x, y, text) in &chart.marks {
            @if let Some((x, y)) = place(*x, *y) {
                circle.mark cx=(x) cy=(y) r="4.5" {}
                @if x < left + width * 0.8 { text x=(x + 9.0) y=(y - 8.0) { (text) } }
                @else { text.end x=(x - 9.0) y=(y - 8.0) { (text) } }
            }
        }
    }
}

impl Axis {
    /// Where a number lies on the scale, if it can be drawn.
    fn value(&self, number: f64) -> Option<f64> {
        let value = if self.logarithmic { number.log10() } else { number };
        value.is_finite().then_some(value)
    }

    fn scale(&self, values: impl Iterator<Item = f64>) -> Scale {
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        let wide = high - low > 1e-9 * high.abs().max(low.abs()).max(1e-300);
        let (low, high) = if wide { (low, high) } else { (low - 1.0, high + 1.0) };
        let mut scale = Scale::new(low, high, 6);
        if self.logarithmic {
            // Fractions of a power of ten are no round numbers.
            scale.ticks.retain(|tick| (tick - tick.round()).abs() < 1e-9);
        }
        scale
    }

    fn text(&self, tick: f64) -> String {
        match self.logarithmic {
            true if (-3.0..=3.0).contains(&tick) => significant(10f64.powf(tick), 3),
            true => format!("1e{tick:.0}"),
            false => pretty(&significant(tick, 6)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>, logarithmic: bool) -> Chart {
        let axis = |label: &str| Axis { label: label.into(), logarithmic };
        let curves = vec![Curve { name: "a < b".into(), points }];
        Chart { title: "<title>".into(), x: axis("x"), y: axis("y"), curves, marks: vec![(1.0, 1.0, "here".into())] }
    }

    #[test]
    fn odd_points_are_left_out_and_texts_are_escaped() {
        for logarithmic in [false, true] {
            for points in [
                vec![],
                vec![(f64::NAN, 1.0), (1.0, f64::INFINITY), (-1.0, 0.0)],
                vec![(1e-300, 1e300), (1.0, 1.0)],
                vec![(2.0, 2.0)],
            ] {
                let text = svg(&[chart(points, logarithmic)]);
                assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
                assert!(text.contains("&lt;title&gt;") && text.contains("a &lt; b"));
            }
        }
    }

    #[test]
    fn a_line_spans_its_axes() {
        let text = svg(&[chart(vec![(0.0, 0.0), (10.0, 100.0)], false)]);
        assert!(text.contains("76.0,348.0 700.0,66.0"), "{text}");
    }
}
