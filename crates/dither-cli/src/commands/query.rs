//! `dither query`: charge, answer, show.

use dither::{Answered, rows_json};
use serde_json::json;

use crate::args::{Format, Query};
use crate::commands::{placed, session};
use crate::{output, progress};

/// Asks a question.
pub async fn run(command: &Query) -> anyhow::Result<()> {
    let format = if command.json { Format::Json } else { command.format };
    if format == Format::Parquet && command.out.is_none() {
        anyhow::bail!("parquet is written to a file: add --out answer.parquet");
    }
    let session = placed(session(&command.ask.terms.policy, command.ask.terms.scope.as_deref())?, &command.place)?;
    let kept = [session.files(), vec![command.ask.terms.policy.clone()]].concat();
    output::check(command.out.as_deref(), &kept)?;
    let request = command.ask.terms.request(&command.ask.sql);
    let priced = session.priced(&request, command.ask.terms.target_error).await?;
    for warning in priced.warnings() {
        output::tell(&format!("warning: {}", dither_report::visible(&warning)));
    }
    let answered = progress::shown(session.progress(), priced.ask(command.key.clone())).await?;
    let out = command.out.as_deref();
    match format {
        Format::Table => {
            let empty = match answered.answer.rows.is_empty() {
                true => "no row: no group reached the threshold, none passed HAVING, or OFFSET skipped all\n",
                false => "",
            };
            let (table, notes) = (dither::table(&answered.answer), notes(&answered));
            let text = format!("{table}{empty}\n{notes}{}\n", summary(&answered));
            output::write(out, text.as_bytes())
        }
        Format::Csv => {
            let mut bytes = Vec::new();
            dither::write_csv(&answered.answer, &mut bytes)?;
            output::write(out, &bytes)?;
            output::tell(&format!("{}{}", notes(&answered), summary(&answered)));
            Ok(())
        }
        Format::Json => output::write(out, format!("{}\n", contract(&answered)).as_bytes()),
        Format::Parquet => {
            output::write(out, &dither_query::export::parquet(&answered.answer)?)?;
            output::tell(&format!("{}{}", notes(&answered), summary(&answered)));
            Ok(())
        }
    }
}

fn summary(answered: &Answered) -> String {
    let charged = output::charge(&answered.charged, "answered", answered.first_answered, answered.first_charged);
    format!("{charged} · left {} · receipt {}", output::amounts(&answered.remaining), answered.receipt)
}

/// What belongs to the answer and stands in no cell, a line each: how far ranks may be off, and the bounds that were found.
fn notes(answered: &Answered) -> String {
    let english = dither_report::Language::En;
    let ranks = answered.ranks.iter().map(|(column, rank)| english.rank_of(column, *rank));
    let bounds = answered.bounds.iter().map(|between| english.found(between));
    ranks.chain(bounds).map(|line| dither_report::visible(&line) + "\n").collect()
}

/// The stable JSON contract of docs/json.md.
fn contract(answered: &Answered) -> String {
    let mut object = json!({
        "rows": rows_json(&answered.answer),
        "charged": answered.charged,
        "remaining": answered.remaining,
        "receipt": answered.receipt,
        "free": answered.first_answered.is_some() || answered.first_charged.is_some(),
        "first_answered": answered.first_answered,
        "first_charged": answered.first_charged,
    });
    if !answered.bounds.is_empty() {
        object["bounds"] = json!(answered.bounds);
    }
    if !answered.ranks.is_empty() {
        let rank = |(column, rank): &(String, dither::RankError)| json!({ "column": column, "rank_error": rank.rows, "from_end": rank.from_end });
        object["ranks"] = answered.ranks.iter().map(rank).collect();
    }
    object.to_string()
}
