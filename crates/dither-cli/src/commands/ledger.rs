//! `dither ledger`: the budget, its history, and whether it holds.

use anyhow::Context;
use dither::{Amounts, Ledger, Receipt, Session};
use dither_ledger::{Entry, Record};

use crate::args::{Amend, Ledger as Command, LedgerCommand, LedgerPath, Verify};
use crate::output;

/// Shows, verifies, exports or amends a ledger.
pub async fn run(command: &Command) -> anyhow::Result<()> {
    match &command.command {
        LedgerCommand::Show(path) => show(path).await,
        LedgerCommand::Verify(command) => verify(command).await,
        LedgerCommand::Export(path) => {
            let mut bytes = Vec::new();
            open(path).await?.export(&mut bytes).await.map_err(dither::Error::from)?;
            output::write(None, &bytes)
        }
        LedgerCommand::Amend(command) => amend(command).await,
    }
}

async fn open(path: &LedgerPath) -> anyhow::Result<Ledger> {
    let session = Session::open(&path.policy)?;
    session.existing_ledger().await?.context("there is no ledger yet: nothing was ever charged")
}

async fn show(path: &LedgerPath) -> anyhow::Result<()> {
    let session = Session::open(&path.policy)?;
    let Some(ledger) = session.existing_ledger().await? else {
        println!("there is no ledger yet: nothing was ever charged");
        let limit = session.policy().budget.limit();
        println!("limit of `{}`: ε {}, δ {}", session.policy().dataset, limit.epsilon, limit.delta);
        return Ok(());
    };
    for status in ledger.scopes().await.map_err(dither::Error::from)? {
        let budget = status.limit.budget;
        let remaining = Amounts::from(status.remaining);
        println!(
            "{:<24} limit ε {}, δ {} · left {}",
            status.limit.path,
            budget.epsilon,
            budget.delta,
            output::amounts(&remaining)
        );
    }
    println!();
    let mut after = 0;
    loop {
        let page = ledger.entries(after, 500).await.map_err(dither::Error::from)?;
        let Some(last) = page.last() else { break };
        after = last.sequence;
        page.iter().for_each(|entry| println!("{}", line(entry)));
    }
    let head = ledger.head().await.map_err(dither::Error::from)?;
    println!("\nhead {}:{}", head.sequence, head.head);
    println!(
        "keep the head elsewhere: with it, `dither ledger verify --receipt` detects a ledger that was rolled back"
    );
    Ok(())
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

async fn verify(command: &Verify) -> anyhow::Result<()> {
    let seen = command.receipt.as_deref().map(receipt).transpose()?;
    let verified = open(&command.path).await?.verify(seen.as_ref()).await.map_err(dither::Error::from)?;
    println!("the chain holds: {} charges, {} answers", verified.charges, verified.answers);
    println!("head {}:{}", verified.head.sequence, verified.head.head);
    Ok(())
}

fn receipt(text: &str) -> anyhow::Result<Receipt> {
    let (sequence, head) = text.split_once(':').context("a receipt is NUMBER:HASH")?;
    let sequence = sequence.parse().context("a receipt begins with the number of an entry")?;
    Ok(Receipt { sequence, head: head.to_owned() })
}

async fn amend(command: &Amend) -> anyhow::Result<()> {
    let session = Session::open(&command.path.policy)?;
    let ledger = open(&command.path).await?;
    for limit in session.limits()? {
        let known = ledger.scopes().await.map_err(dither::Error::from)?;
        if known.iter().any(|status| status.limit == limit) {
            continue;
        }
        ledger.amend(&limit, &command.stewards).await.map_err(dither::Error::from)?;
        println!("{} now has ε {}, δ {}", limit.path, limit.budget.epsilon, limit.budget.delta);
    }
    Ok(())
}
