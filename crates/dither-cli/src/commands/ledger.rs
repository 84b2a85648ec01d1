//! `dither ledger`: the budget, its history, and whether it holds.

use std::fmt::Write;

use dither::{Amounts, Ledger, Receipt, Session};
use dither_core::PrivacyEvent;
use dither_ledger::{ChargeRecord, Entry, Record};

use crate::args::{Amend, Ledger as Command, LedgerCommand, Verify};
use crate::output;

/// How many characters of a question are shown.
const LABEL: usize = 200;

/// Shows, verifies, exports or amends a ledger.
pub async fn run(command: &Command) -> anyhow::Result<()> {
    let (policy, file) = match &command.command {
        LedgerCommand::Show(path) | LedgerCommand::Export(path) => (path.policy.as_ref(), path.ledger.as_ref()),
        LedgerCommand::Verify(command) => (command.path.policy.as_ref(), command.path.ledger.as_ref()),
        LedgerCommand::Amend(command) => (Some(&command.policy), None),
    };
    let session = policy.map(Session::open).transpose()?;
    let ledger = match (&session, file) {
        (Some(session), _) => session.existing_ledger().await?,
        (None, Some(file)) => Some(Ledger::open_existing(file).await.map_err(dither::Error::from)?),
        (None, None) => anyhow::bail!("name a policy or a ledger"),
    };
    let Some(ledger) = ledger else {
        return nothing(session.as_ref().filter(|_| matches!(command.command, LedgerCommand::Show(_))));
    };
    let text = match (&command.command, &session) {
        (LedgerCommand::Show(_), _) => show(&ledger).await,
        (LedgerCommand::Verify(command), _) => verify(&ledger, command).await,
        (LedgerCommand::Export(_), _) => export(&ledger).await,
        (LedgerCommand::Amend(command), Some(session)) => amend(session, &ledger, command).await,
        (LedgerCommand::Amend(_), None) => Err(anyhow::anyhow!("name the policy whose limits are set")),
    };
    ledger.close().await;
    output::write(None, text?.as_bytes())
}

/// What is shown of a ledger that is not there yet: the limit of the policy, where that was asked for.
fn nothing(shown: Option<&Session>) -> anyhow::Result<()> {
    let nothing = "there is no ledger yet: nothing was ever charged";
    let Some(session) = shown else { anyhow::bail!(nothing) };
    let (dataset, limit) = (&session.policy().dataset, session.policy().budget.limit());
    let text = format!("{nothing}\nlimit of `{dataset}`: ε {}, δ {}\n", limit.epsilon, limit.delta);
    output::write(None, text.as_bytes())
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
    let _ = writeln!(text, "\nhead {head}");
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
            let cost = output::amounts(&Amounts::from(&charge.cost));
            format!("charge   {} {cost} · {}", charge.scope, what(charge))
        }
        Record::Key { key, .. } => format!("key      {key}"),
        Record::Release { charge, .. } => format!("release  answers charge {charge}"),
        other => format!("{other:?}"),
    };
    // Labels and keys are what an analyst typed; control characters must not reach the terminal.
    let what: String = what.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    format!("{:>5}  {time}  {what}", entry.sequence)
}

/// What was charged, on one line and not much longer; of a training run, whose label is its whole plan, how long it is. An
/// export has all of it.
fn what(charge: &ChargeRecord) -> String {
    if let (PrivacyEvent::SampledGaussian { steps, .. }, true) = (&charge.event, charge.label.starts_with("train ")) {
        return format!("train: {steps} steps");
    }
    let words = charge.label.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(LABEL) {
        Some((end, _)) => format!("{} …", &words[..end]),
        None => words,
    }
}

async fn verify(ledger: &Ledger, command: &Verify) -> anyhow::Result<String> {
    let seen = command.receipt.as_deref().map(str::parse::<Receipt>).transpose()?;
    let verified = ledger.verify(seen.as_ref()).await.map_err(dither::Error::from)?;
    let counted = |count, what| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let [charges, answers] = [counted(verified.charges, "charge"), counted(verified.answers, "answer")];
    Ok(format!("the chain holds: {charges}, {answers}\nhead {}\n", verified.head))
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
    Ok(if text.is_empty() { "nothing to amend: the ledger has the limits of the policy\n".into() } else { text })
}
