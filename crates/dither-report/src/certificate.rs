//! The compliance certificate: what was done to the data, and what it amounts to.

use maud::{Markup, html};
use serde_json::Value;

use crate::document::{Certificate, Guarantee, TableBounds};
use crate::format::{significant, visible};
use crate::html::{footer, header, loss, privacy, shell, visible_lines};
use crate::language::{Language, Words};

/// The certificate as an HTML page in the style of the report, one or two sheets on paper, to be signed.
pub fn page(certificate: &Certificate) -> String {
    let language = certificate.language;
    let words = language.words();
    let body = html! {
        (header(words.certificate, &certificate.title, &certificate.dataset, ""))
        main {
            section.facts {
                (privacy(&certificate.privacy, language))
                dl.card {
                    dt { (words.charged) }
                    dd.large { (loss(certificate.charged)) }
                    @if !certificate.charged_on.is_empty() { dd { (visible(&certificate.charged_on)) } }
                    dt { (words.limit) }
                    dd { (loss(certificate.total)) }
                }
            }
            (guarantees(&certificate.guarantees, words))
            (events(certificate, words))
            @if !certificate.bounds.is_empty() {
                section {
                    h2 { (words.bounds) }
                    @for table in &certificate.bounds { (bounds(table, language)) }
                }
            }
            section {
                h2 { (words.ledger) }
                dl.made {
                    dt { (words.entry) }
                    dd { code { (certificate.receipt) } }
                    dt { (words.head) }
                    dd { code { (certificate.head) } }
                    dt { (words.policy) }
                    dd { code { (visible(&certificate.policy)) } }
                    dt { (words.versions) }
                    dd { @for version in &certificate.versions {
                        div { (visible(&version.name)) " " (visible(&version.version)) }
                    } }
                }
            }
            section.sign { @for line in [words.steward, words.date, words.signature] { p { span { (line) } } } }
        }
        (footer(words, &certificate.generated, &certificate.receipt))
    };
    shell(language, &certificate.title, &body)
}

/// The certificate as JSON: every field, and each event in plain words beside its parameters.
pub fn json(certificate: &Certificate) -> Value {
    let mut json = serde_json::to_value(certificate).unwrap_or_default();
    for (index, line) in certificate.events.iter().enumerate() {
        if let Some(Value::Object(target)) = json.pointer_mut(&format!("/events/{index}")) {
            target.insert("meaning".into(), certificate.language.event(&line.event).into());
        }
    }
    json
}

fn guarantees(guarantees: &[Guarantee], words: &Words) -> Markup {
    html! {
        section {
            h2 { (words.guarantees) }
            p.note { (words.guarantee_text) }
            div.scroll tabindex="0" role="region" aria-label=(words.guarantees) { table {
                thead { tr {
                    th scope="col" { (words.accountant) }
                    th.num scope="col" { "ε" }
                    th.num scope="col" { "δ" }
                } }
                tbody { @for guarantee in guarantees { tr {
                    th scope="row" { (visible(&guarantee.accountant)) }
                    td.num { @match guarantee.epsilon.filter(|epsilon| epsilon.is_finite()) {
                        Some(epsilon) => (up(epsilon)),
                        None => (words.unbounded),
                    } }
                    td.num { (significant(guarantee.delta, 6)) }
                } } }
            } }
        }
    }
}

/// A bound with six decimals, rounded up: a certificate never states less than was computed.
fn up(epsilon: f64) -> String {
    let shown = significant((epsilon * 1e6).ceil() / 1e6, 12);
    // A number that already has six decimals may be one rounding error above itself.
    let nearest = significant(epsilon, 12);
    if nearest.len() <= shown.len() { nearest } else { shown }
}

fn events(certificate: &Certificate, words: &Words) -> Markup {
    html! {
        section {
            h2 { (words.events) }
            div.scroll tabindex="0" role="region" aria-label=(words.events) { table.events {
                thead { tr {
                    th.num scope="col" { "#" }
                    th scope="col" { (words.question) }
                    th scope="col" { (words.event) }
                } }
                tbody { @for (index, line) in certificate.events.iter().enumerate() { tr {
                    td.num { (index + 1) }
                    th scope="row" { (visible(&line.purpose)) }
                    td {
                        @if !line.question.is_empty() { pre { code { (visible_lines(&line.question)) } } }
                        (certificate.language.event(&line.event))
                        br;
                        @for between in &line.found { (visible(&certificate.language.found(between))) br; }
                        code { (serde_json::to_string(&line.event).unwrap_or_default()) }
                    }
                } } }
            } }
        }
    }
}

fn bounds(table: &TableBounds, language: Language) -> Markup {
    let words = language.words();
    html! {
        h3 {
            bdi { (visible(&table.table)) }
            @if !table.file.is_empty() { " · " bdi { (visible(&table.file)) } }
        }
        p { (language.contribution(table.contribution)) }
        @if table.columns.is_empty() { p.muted { (words.no_bounds) } } @else {
            div.scroll tabindex="0" role="region" aria-label=(visible(&table.table)) { table {
                thead { tr {
                    th scope="col" { (words.column) }
                    th.num scope="col" { (words.range) }
                    th.num scope="col" { (words.step) }
                } }
                tbody { @for column in &table.columns { tr {
                    th scope="row" { bdi { (visible(&column.column)) } }
                    td.num { "[" (significant(column.lower, 9)) ", " (significant(column.upper, 9)) "]" }
                    td.num { (significant(column.step, 9)) }
                } } }
            } }
        }
    }
}
