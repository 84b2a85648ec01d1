//! `dither report`: pages, tables and a certificate from one charge.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::Context;
use dither::{Published, ReportSpec};
use dither_report::visible;

use crate::args::Report;
use crate::commands::{placed, plan, session};
use crate::{output, progress};

/// What is written beside one table for each question.
const PAGES: [&str; 4] = ["report.html", "report.json", "certificate.html", "certificate.json"];

/// How many rows of an answer fit on a terminal.
const ROWS_SHOWN: usize = 25;

/// Plans or publishes a report.
pub async fn run(command: &Report) -> anyhow::Result<()> {
    let spec = ReportSpec::load(&command.file)?;
    let session = placed(session(&spec.policy, spec.scope.as_deref())?, &command.place)?;
    if command.plan {
        let preview = session.priced_report(&spec).await?.preview().await?;
        let mut text = String::new();
        for (title, explanation) in &preview.questions {
            text += &format!("# {title}\n{}\n", plan::explain(explanation));
        }
        text += &plan::total(&preview, "report", "published");
        return output::write(None, text.as_bytes());
    }
    let beside = command.file.parent().unwrap_or(Path::new(".")).join("out");
    let out = command.out.as_deref().unwrap_or(&beside);
    fs::create_dir_all(out).with_context(|| format!("cannot make the folder {}", out.display()))?;
    let kept = [session.files(), vec![spec.policy.clone(), command.file.clone()]].concat();
    let tables = spec.questions.iter().map(|question| format!("{}.csv", question.id));
    for name in PAGES.into_iter().map(String::from).chain(tables) {
        output::check(Some(&out.join(name)), &kept)?;
    }
    let priced = session.priced_report(&spec).await?;
    for (title, warning) in priced.warnings() {
        output::tell(&format!("warning: {}: {}", visible(title), visible(&warning)));
    }
    let generated = chrono::Utc::now().format("%Y-%m-%d %H:%M UTC").to_string();
    let published = progress::shown(session.progress(), priced.publish(&generated)).await?;
    write(out, &published)?;
    let mut text = String::new();
    for section in &published.document.sections {
        let mut head = section.answer.clone();
        let more = head.rows.len().saturating_sub(ROWS_SHOWN);
        head.rows.truncate(ROWS_SHOWN);
        let _ = writeln!(text, "{}\n{}", section.title, dither::table(&head));
        if more > 0 {
            let _ = writeln!(text, "… and {more} rows more in {}.csv\n", section.id);
        }
        for noise in &section.share.noise {
            let Some(rank) = noise.rank else { continue };
            let _ = writeln!(text, "{}\n", visible(&published.document.language.rank_of(&noise.column, rank)));
        }
        for between in &section.found {
            let _ = writeln!(text, "{}\n", published.document.language.found(between));
        }
    }
    let charged = output::charge(&published.charged, "published", published.first_published, published.first_charged);
    let (left, receipt) = (output::amounts(&published.remaining), &published.document.receipt);
    let _ = writeln!(text, "{charged} · left {left} · receipt {receipt}");
    let (page, certificate) = (out.join("report.html"), out.join("certificate.html"));
    let _ = writeln!(text, "wrote {} and {}", page.display(), certificate.display());
    output::write(None, text.as_bytes())
}

fn write(out: &Path, published: &Published) -> anyhow::Result<()> {
    let Published { document, certificate, .. } = published;
    let pretty = |value: &serde_json::Value| serde_json::to_string_pretty(value).map(|text| text + "\n");
    let texts = [
        dither_report::html::page(document),
        pretty(&dither_report::json::document_json(document))?,
        dither_report::certificate::page(certificate),
        pretty(&dither_report::certificate::json(certificate))?,
    ];
    for (name, text) in PAGES.into_iter().zip(texts) {
        output::write(Some(&out.join(name)), text.as_bytes())?;
    }
    for section in &document.sections {
        let mut bytes = Vec::new();
        dither::write_csv(&section.answer, &mut bytes)?;
        output::write(Some(&out.join(format!("{}.csv", section.id))), &bytes)?;
    }
    Ok(())
}
