//! The report as one self-contained page: no script, nothing fetched, light and dark, phone and paper.
//!
//! All text is escaped by `maud`. As a second wall the page carries a content security policy that allows
//! nothing but its own style sheet, so that even a mistake could not run or load anything.

mod data;

use dither_core::{Neighbors, Receipt, Role};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::document::{BudgetLine, Document, Loss, NoiseKind, PrivacyStatement, Section, Share};
use crate::format::{self, MISSING, significant, visible};
use crate::language::{Language, Words};
use crate::{heatmap, plot};

const STYLE: &str = include_str!("style.css");

/// The report as an HTML page.
///
/// ```
/// # use dither_core::{Neighbors, PrivacyUnit, Receipt};
/// # use dither_report::{BudgetLine, Document, Language, Loss, PrivacyStatement, Protected};
/// # let loss = |epsilon| Loss { epsilon, delta: 0.0 };
/// let document = Document {
///     title: "Hospital year <2025>".into(),
///     language: Language::En,
///     dataset: "visits".into(),
///     summary: String::new(),
///     privacy: PrivacyStatement {
///         protected: vec![Protected {
///             tables: vec!["visits".into()],
///             unit: PrivacyUnit::Column("patient".into()),
///             neighbors: Neighbors::AddOrRemoveUnit,
///             windows: vec![],
///         }],
///         composition: "One plan, composed by PLD.".into(),
///     },
///     budget: BudgetLine { total: loss(4.0), charged: loss(1.0), remaining: loss(2.5) },
///     sections: vec![],
///     receipt: Receipt { sequence: 7, head: "c0ffee".into() },
///     generated: "2026-01-31".into(),
/// };
/// let page = dither_report::html::page(&document);
/// assert!(page.contains("<h1>Hospital year &lt;2025&gt;</h1>") && !page.contains("<script"));
/// ```
pub fn page(document: &Document) -> String {
    let words = document.language.words();
    let body = html! {
        (header(words.report, &document.title, &document.dataset, &document.summary))
        main {
            section.facts aria-label=(words.budget) {
                (budget(document, words))
                (privacy(&document.privacy, document.language))
            }
            @if !document.sections.is_empty() { (overview(&document.sections, document.language)) }
            @for section in &document.sections { (one(section, document.language)) }
            section.reading {
                h2 { (words.reading) }
                p { (words.reading_text) }
            }
        }
        (footer(words, &document.generated, &document.receipt))
    };
    shell(document.language, &document.title, &body)
}

/// The page around a body.
pub(crate) fn shell(language: Language, title: &str, body: &Markup) -> String {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
    html! {
        (DOCTYPE)
        html lang=(language.tag()) {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { (visible(title)) }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    }
    .into_string()
}

/// The head of a page: a dithered band, what this is, its title.
pub(crate) fn header(kind: &str, title: &str, dataset: &str, summary: &str) -> Markup {
    html! {
        header {
            (band())
            p.kind { (kind) " · " bdi { (visible(dataset)) } }
            h1 { (visible(title)) }
            @if !summary.is_empty() { p.summary { (visible(summary)) } }
        }
    }
}

pub(crate) fn footer(words: &Words, generated: &str, receipt: &Receipt) -> Markup {
    html! {
        footer {
            p { (words.generated) (words.colon) (visible(generated)) }
            p { (words.receipt) (words.colon) code { (receipt) } }
        }
    }
}

/// The neighbour relations that a statement is for, each once.
fn relations(privacy: &PrivacyStatement) -> Vec<Neighbors> {
    let mut relations: Vec<Neighbors> = Vec::new();
    for protected in &privacy.protected {
        if !relations.contains(&protected.neighbors) {
            relations.push(protected.neighbors);
        }
    }
    relations
}

/// Who is protected, as a list of terms.
pub(crate) fn privacy(privacy: &PrivacyStatement, language: Language) -> Markup {
    let words = language.words();
    html! {
        dl.card {
            dt { (words.who) }
            @for protected in &privacy.protected {
                dd {
                    @if privacy.protected.len() > 1 {
                        bdi { (visible(&protected.tables.join(words.comma))) } (words.colon)
                    }
                    (visible(&language.unit(&protected.unit)))
                    @for window in &protected.windows {
                        br; (visible(&language.person(&protected.unit, window)))
                    }
                }
            }
            dt { (words.neighbors) }
            @for neighbors in relations(privacy) { dd { (language.neighbors(neighbors)) } }
            @if !privacy.composition.is_empty() {
                dt { (words.composition) }
                dd { (visible(&privacy.composition)) }
            }
        }
    }
}

/// `ε = 0.5, δ = 1e-6`.
pub(crate) fn loss(loss: Loss) -> String {
    let delta = if loss.delta == 0.0 { String::new() } else { format!(", δ = {}", significant(loss.delta, 12)) };
    // A budget is counted in billionths, all of which are shown.
    let places = format!("{:.9}", loss.epsilon);
    let epsilon = places.trim_end_matches('0').trim_end_matches('.');
    format!("ε = {epsilon}{delta}")
}

fn budget(document: &Document, words: &Words) -> Markup {
    let BudgetLine { total, charged, remaining } = document.budget;
    let earlier = total.epsilon - charged.epsilon - remaining.epsilon;
    // Below the resolution of a budget it is rounding, or a composition that charges less than the sum.
    let earlier = if earlier > 5e-10 { earlier } else { 0.0 };
    let part = |epsilon: f64| if total.epsilon > 0.0 { 100.0 * epsilon / total.epsilon } else { 0.0 };
    let shares: Vec<(String, f64)> = document
        .sections
        .iter()
        .map(|section| (section.title.clone(), part(charged.epsilon) * section.share.percent / 100.0))
        .collect();
    let earlier_loss = Loss { epsilon: earlier, delta: (total.delta - charged.delta - remaining.delta).max(0.0) };
    html! {
        div.card {
            h2 { (words.budget) }
            (plot::budget_bar(part(earlier), &shares, part(remaining.epsilon), words))
            ul.legend {
                @if earlier > 0.0 { li.earlier { span { (words.earlier) } b { (loss(earlier_loss)) } } }
                li.now { span { (words.this_report) } b { (loss(charged)) } }
                li.left { span { (words.remaining) } b { (loss(remaining)) } }
                li { span { (words.limit) } b { (loss(total)) } }
            }
        }
    }
}

fn overview(sections: &[Section], language: Language) -> Markup {
    let words = language.words();
    html! {
        section.overview {
            h2 { (words.questions) }
            div.scroll tabindex="0" role="region" aria-label=(words.questions) {
                table {
                    thead { tr {
                        th scope="col" { (words.question) }
                        th.num scope="col" { "ε" }
                        th scope="col" { (words.share) }
                        th.num scope="col" { (words.expected_error) }
                    } }
                    tbody { @for section in sections { tr {
                        th scope="row" { a href={ "#" (anchor(&section.id)) } { (visible(&section.title)) } }
                        td.num { (significant(section.share.epsilon, 4)) }
                        td.share { (plot::share_bar(section.share.percent)) }
                        td.num { (expected(&section.share, language)) }
                    } } }
                }
            }
            @if sections.iter().map(|section| section.share.percent).sum::<f64>() > 100.05 {
                p.muted { (words.shares_overlap) }
            }
        }
    }
}

/// The expected errors of a question, column by column.
fn expected(share: &Share, language: Language) -> Markup {
    let several = share.noise.len() > 1;
    html! {
        @for noise in &share.noise {
            @let rank = || noise.rank.map(|rank| language.rank(rank));
            @let error = noise.expected_error.map(format::expected).or_else(rank).unwrap_or(MISSING.to_owned());
            div { @if several { span.muted { (visible(&noise.column)) } " " } (error) }
        }
        @if share.noise.is_empty() { (MISSING) }
    }
}

fn one(section: &Section, language: Language) -> Markup {
    let words = language.words();
    html! {
        section.question id=(anchor(&section.id)) {
            h2 { (visible(&section.title)) }
            @if !section.note.is_empty() { p.note { (visible(&section.note)) } }
            @if section.answer.rows.is_empty() {
                p.empty { (words.no_rows) }
            } @else {
                @if let Some(plot) = &section.plot {
                    (plot::figure(plot, section, words))
                    (heatmap::figure(plot, section, words))
                    (data::cross_table(plot, section, words))
                }
                (data::table(section, language))
            }
            @for noise in &section.share.noise { @if let Some(rank) = noise.rank {
                p.note { (visible(&language.rank_of(&noise.column, rank))) }
            } }
            @for between in &section.found { p.note.warning[between.is_narrow()] { (visible(&language.found(between))) } }
            @if !section.postprocessing.is_empty() { (postprocessing(section, words)) }
            (provenance(section, language))
        }
    }
}

fn postprocessing(section: &Section, words: &Words) -> Markup {
    html! {
        div.post {
            h3 { (words.postprocessing) }
            ol { @for label in &section.postprocessing { li {
                p { b { (words.heading(&label.step)) } " " span.free title=(label.cost) { (words.free) } }
                p.muted { (label.effect) }
            } } }
        }
    }
}

/// How an answer came about: its cost, its noise, its groups and its question.
fn provenance(section: &Section, language: Language) -> Markup {
    let words = language.words();
    let share = &section.share;
    html! {
        dl.made {
            dt { (words.share) }
            dd {
                (loss(Loss { epsilon: share.epsilon, delta: share.delta }))
                " (" (significant(share.percent, 3)) "%)"
            }
            @for noise in &share.noise {
                dt { (words.mechanism) (words.colon) bdi { (visible(&noise.column)) } }
                dd {
                    (language.noise(noise.kind))
                    @match (noise.scale, noise.kind) {
                        (Some(scale), kind) => { (words.comma) (Language::scale(kind, scale)) },
                        (None, NoiseKind::Choice) => {},
                        (None, _) => { (words.comma) (words.ratio) },
                    }
                    @if let Some(error) = noise.expected_error {
                        (words.semicolon) (words.expected_error.to_lowercase()) " " (format::expected(error))
                    }
                    @if let Some(rank) = noise.rank { (words.semicolon) (language.rank(rank)) }
                }
            }
            @if section.answer.columns.iter().any(|column| column.role == Role::Key) {
                dt { (words.keys) }
                dd { @match share.threshold {
                    Some(threshold) => { (words.threshold) (words.colon) (significant(threshold, 4)) },
                    None => (words.public_keys),
                } }
            }
            dt { "SQL" }
            dd { pre { code { (visible_lines(&section.question)) } } }
        }
    }
}

/// Like [`visible`], but a text of several lines stays one.
pub(crate) fn visible_lines(text: &str) -> String {
    text.lines().map(visible).collect::<Vec<_>>().join("\n")
}

/// A name that is safe in an address and a selector.
fn anchor(id: &str) -> String {
    let safe = |c: char| if c.is_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
    format!("q-{}", id.chars().map(safe).collect::<String>())
}

/// A band that dissolves from left to right, dithered with the 4 × 4 matrix of Bayer.
fn band() -> Markup {
    const BAYER: [[u32; 4]; 4] = [[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]];
    const WIDTH: u32 = 160;
    let mut path = String::new();
    for (y, row) in BAYER.iter().enumerate() {
        for x in 0..WIDTH {
            // 17 levels over the width; a dot stands where the level is above its threshold.
            if (WIDTH - x) * 17 / WIDTH > row[(x % 4) as usize] {
                path.push_str(&format!("M{x} {y}h1v1h-1z"));
            }
        }
    }
    html! {
        svg.band viewBox="0 0 160 4" aria-hidden="true" shape-rendering="crispEdges" { path d=(path) {} }
    }
}
