//! `dither ledger`: the budget, its history, and whether it holds.

use std::fmt::Write;

use anyhow::Context;
use dither::{Amounts, Ledger, Receipt, Session};
use dither_ledger::{Entry, Record};

use crate::args::{Amend, Ledger as Command, LedgerCommand, Verify};
use crate::output;

/// Shows, verifies, exports or amends a ledger.
pub async fn run(command: &Command) -> anyhow::Result<()> {
    let path = match &command.command {
        LedgerCommand::Show(path) | LedgerCommand::Export(path) => path,
        LedgerCommand::Verify(command) => &command.path,
        LedgerCommand::Amend(command) => &command.path,
    };
    let session = Session::open(&path.policy)?;
    let Some(ledger) = session.existing_ledger().await? else {
        let nothing = "there is no ledger yet: nothing was ever charged";
        anyhow::ensure!(matches!(command.command, LedgerCommand::Show(_)), nothing);
        let (dataset, limit) = (&session.policy().dataset, session.policy().budget.limit());
        let text = format!("{nothing}\nlimit of `{dataset}`: ε {}, δ {}\n", limit.epsilon, limit.delta);
        return output::write(None, text.as_bytes());
    };
    let text = match &command.command {
        LedgerCommand::Show(_) => show(&ledger).await,
        LedgerCommand::Verify(command) => verify(&ledger, command).await,
        LedgerCommand::Export(_) => export(&ledger).await,
        LedgerCommand::Amend(command) => amend(&session, &ledger, command).await,
    };
    ledger.close().await;
    output::write(None, text?.as_bytes())
}

async fn export(ledger: &Ledger) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    ledger.export(&mut bytes).await.map_err(dither::Error::from)?;
    Ok(String::from_utf8(bytes)?)
}

async fn show(ledger: &Ledger) -> anyhow::Result<String> {
    let mut text = String::new();
    for status in ledger.scopes().await.map_err(dither::Error::from)? {
        let (path, budget) = (&status.limit.path, status.limit.budget);
        // What its own limit leaves may be more than the scopes above it do.
        let left = ledger.remaining(path).await.map_err(dither::Error::from)?;
        let left = output::amounts(&Amounts::from(left));
        let _ = writeln!(text, "{path:<24} limit ε {}, δ {} · left {left}", budget.epsilon, budget.delta);
    }
    text.push('\n');
    let mut after = 0;
    loop {
        let page = ledger.entries(after, 500).await.map_err(dither::Error::from)?;
        let Some(last) = page.last() else { break };
        after = last.sequence;
        page.iter().for_each(|entry| text += &(line(entry) + "\n"));
    }
    let head = ledger.head().await.map_err(dither::Error::from)?;
    let _ = writeln!(text, "\nhead {}:{}", head.sequence, head.head);
    text +=
        "keep the head elsewhere: with it, `dither ledger verify --receipt` detects a ledger that was rolled back\n";
    Ok(text)
}

fn line(entry: &Entry) -> String {
    let time = chrono::DateTime::from_timestamp(entry.time, 0).unwrap_or_default().format("%Y-%m-%d %H:%M");
    let what = match &entry.record {
        Record::Declare(limit) => {
            format!("declare  {} ε {}, δ {}", limit.path, limit.budget.epsilon, limit.budget.delta)
        }
        Record::Lower(limit) => format!("lower    {} ε {}, δ {}", limit.path, limit.budget.epsilon, limit.budget.delta),
        Record::Amend { limit, stewards } => {
            let (budget, names) = (limit.budget, stewards.join(" and "));
            format!("amend    {} ε {}, δ {} by {names}", limit.path, budget.epsilon, budget.delta)
        }
        Record::Charge(charge) => {
            let label: String = charge.label.split_whitespace().collect::<Vec<_>>().join(" ");
            format!("charge   {} {} · {label}", charge.scope, output::amounts(&Amounts::from(&charge.cost)))
        }
        Record::Key { key, .. } => format!("key      {key}"),
        Record::Release { charge, .. } => format!("release  answers charge {charge}"),
        other => format!("{other:?}"),
    };
    // Labels and keys are what an analyst typed; control characters must not reach the terminal.
    let what: String = what.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    format!("{:>5}  {time}  {what}", entry.sequence)
}

async fn verify(ledger: &Ledger, command: &Verify) -> anyhow::Result<String> {
    let seen = command.receipt.as_deref().map(receipt).transpose()?;
    let verified = ledger.verify(seen.as_ref()).await.map_err(dither::Error::from)?;
    let (charges, answers, head) = (verified.charges, verified.answers, verified.head);
    Ok(format!("the chain holds: {charges} charges, {answers} answers\nhead {}:{}\n", head.sequence, head.head))
}

fn receipt(text: &str) -> anyhow::Result<Receipt> {
    let form = "a receipt is NUMBER:HASH with all 64 digits of the hash";
    let (sequence, head) = text.trim().split_once(':').context(form)?;
    let head = head.to_ascii_lowercase();
    anyhow::ensure!(head.len() == 64 && head.chars().all(|c| c.is_ascii_hexdigit()), form);
    Ok(Receipt { sequence: sequence.parse().context(form)?, head })
}

async fn amend(session: &Session, ledger: &Ledger, command: &Amend) -> anyhow::Result<String> {
    let mut text = String::new();
    for limit in session.limits()? {
        let known = ledger.scopes().await.map_err(dither::Error::from)?;
        if known.iter().any(|status| status.limit == limit) {
            continue;
        }
        ledger.amend(&limit, &command.stewards).await.map_err(dither::Error::from)?;
        let _ = writeln!(text, "{} now has ε {}, δ {}", limit.path, limit.budget.epsilon, limit.budget.delta);
    }
    Ok(text)
}
