//! Answers as HTML tables.

use dither_core::{Answer, Cell, Column, Key, Role};
use maud::{Markup, html};

use crate::document::{Plot, Section};
use crate::format::{Decimals, MISSING, pretty, short, visible};
use crate::language::{Language, Words};
use crate::plot::value_column;

/// More rows than this scroll on a screen.
const TALL: usize = 40;

/// More rows than this, some three sheets, are not printed.
const HUGE: usize = 120;

/// All numbers of an answer with their error and interval.
pub(super) fn table(section: &Section, language: Language) -> Markup {
    let (answer, words) = (&section.answer, language.words());
    // What a quantile has in the place of an interval.
    let rank = |column: &Column| section.share.noise.iter().find(|noise| noise.column == column.name)?.rank;
    let ranks: Vec<_> = answer.columns.iter().map(|column| rank(column).map(|rank| language.rank(rank))).collect();
    let decimals: Vec<Decimals> = (0..answer.columns.len()).map(|index| Decimals::of_column(answer, index)).collect();
    let missing = answer.rows.iter().flatten().any(|cell| matches!(cell, Cell::Value(e) if e.value.is_none()));
    let (tall, huge) = (answer.rows.len() > TALL, answer.rows.len() > HUGE);
    html! {
        div.scroll.tall[tall].huge[huge] tabindex="0" role="region" aria-label=(visible(&section.title)) {
            table {
                thead { tr {
                    @for column in &answer.columns { @match column.role {
                        Role::Key => { th scope="col" { bdi { (visible(&column.name)) } } },
                        Role::Value => {
                            th.num scope="col" { bdi { (words.heading(&column.name)) } }
                            td.error {}
                            th.interval scope="col" { (words.interval) }
                        },
                    } }
                } }
                tbody { @for row in &answer.rows { tr {
                    @for ((cell, decimals), rank) in row.iter().zip(&decimals).zip(&ranks) {
                        (one(cell, *decimals, rank.as_deref()))
                    }
                } } }
            }
        }
        @if tall {
            p.muted {
                (pretty(&answer.rows.len().to_string())) " " (words.rows)
                @if huge { span.on-paper { (words.stop) (words.see_csv) } }
            }
        }
        @if missing { p.muted { (words.missing) } }
    }
}

fn one(cell: &Cell, decimals: Decimals, rank: Option<&str>) -> Markup {
    match cell {
        Cell::Key(key @ (Key::Integer(_) | Key::Number(_))) => html! { th scope="row" { (key) } },
        Cell::Key(key) => {
            let text = visible(&key.to_string());
            html! { th.short[short(&text)] scope="row" { bdi { (text) } } }
        }
        Cell::Value(estimate) => html! {
            td.num { (pretty(&decimals.number(estimate.value))) }
            td.error { (decimals.error(*estimate).map(|error| pretty(&error)).unwrap_or_default()) }
            td.interval { @if estimate.low.is_some() || estimate.high.is_some() {
                "[" (pretty(&decimals.number(estimate.low))) ", " (pretty(&decimals.number(estimate.high))) "]"
            } @else if estimate.value.is_some() { (rank.unwrap_or_default()) } }
        },
    }
}

/// The text of one key of a row.
fn key(answer: &Answer, row: usize, column: usize) -> String {
    match answer.rows.get(row).and_then(|cells| cells.get(column)) {
        Some(Cell::Key(key)) => visible(&key.to_string()),
        _ => MISSING.to_owned(),
    }
}

/// Two keys as rows and columns; other keys stand beside the rows.
pub(super) fn cross_table(plot: &Plot, section: &Section, words: &Words) -> Markup {
    let Plot::Table { rows, columns, value } = plot else { return html! {} };
    let answer = &section.answer;
    let find = |name: &str| answer.columns.iter().position(|column| column.name == name && column.role == Role::Key);
    let (Some(down), Some(across), Some(value)) = (find(rows), find(columns), value_column(answer, value.as_deref()))
    else {
        return html! {};
    };
    let is_other = |index: &usize| *index == down || (answer.columns[*index].role == Role::Key && *index != across);
    let mut beside: Vec<usize> = (0..answer.columns.len()).filter(is_other).collect();
    beside.sort_by_key(|index| *index != down);
    let label = |row: usize| beside.iter().map(|&index| key(answer, row, index)).collect::<Vec<_>>().join(" · ");

    let (mut heads, mut sides): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut cells = std::collections::BTreeMap::new();
    for row in 0..answer.rows.len() {
        let (head, side) = (key(answer, row, across), label(row));
        let at = |names: &mut Vec<String>, name: String| {
            names.iter().position(|known| *known == name).unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            })
        };
        let place = (at(&mut sides, side), at(&mut heads, head));
        if let Some(Cell::Value(estimate)) = answer.rows[row].get(value) {
            cells.insert(place, *estimate);
        }
    }
    let decimals = Decimals::of_column(answer, value);
    html! {
        div.scroll tabindex="0" role="region" aria-label=(visible(&section.title)) {
            table.cross {
                caption { bdi { (words.heading(&answer.columns[value].name)) } }
                thead { tr {
                    th scope="col" { bdi { (visible(rows)) } " \\ " bdi { (visible(columns)) } }
                    @for head in &heads { th.num scope="col" { bdi { (head) } } }
                } }
                tbody { @for (down, side) in sides.iter().enumerate() { tr {
                    th.short[short(side)] scope="row" { bdi { (side) } }
                    @for across in 0..heads.len() {
                        td.num { @match cells.get(&(down, across)) {
                            Some(estimate) => {
                                (pretty(&decimals.number(estimate.value)))
                                @if let Some(error) = decimals.error(*estimate) { br; span.muted { (pretty(&error)) } }
                            },
                            None => (MISSING),
                        } }
                    }
                } } }
            }
        }
    }
}
