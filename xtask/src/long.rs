//! Long campaigns: the tests that also have a longer form, or only that.

use anyhow::{Context, bail};

use crate::command;

/// A campaign: its name, what it is about, and what `cargo test --release --workspace` runs of it.
///
/// The whole workspace is named each time: of one package alone, the engine would be built once more with other
/// features.
struct Campaign {
    name: &'static str,
    about: &'static str,
    arguments: &'static [&'static str],
}

/// Every campaign runs with these set, and with its output shown. What is set already stays.
const ENVIRONMENT: &[(&str, &str)] = &[("DITHER_LONG", "1"), ("DITHER_PAIRS", "200000"), ("DITHER_RELATIONS", "50000")];

const CAMPAIGNS: &[Campaign] = &[
    Campaign {
        name: "neighbours",
        about: "200,000 pairs of neighbouring tables under random questions, against a naive reference",
        arguments: &["--lib", "--", "differential"],
    },
    Campaign {
        name: "relations",
        about: "50,000 random databases under random joins and sub-queries, against nested loops",
        arguments: &["--lib", "--", "relation"],
    },
    Campaign {
        name: "crash",
        about: "kill a charging process 5,000 times, and tear the log at every 64th byte",
        arguments: &["--lib", "--", "tests::crash"],
    },
    Campaign {
        name: "race",
        about: "64 tasks in 10,000 rounds and processes in 1,000 rounds against one budget",
        arguments: &["--lib", "--", "tests::race"],
    },
    Campaign {
        name: "fault",
        about: "let every single system call fail that the ledger makes",
        arguments: &["--lib", "--", "tests::fault"],
    },
    Campaign { name: "tamper", about: "flip 100,000 bits of a ledger", arguments: &["--lib", "--", "tests::tamper"] },
    Campaign {
        name: "model",
        about: "1,000 random histories of a ledger against its model",
        arguments: &["--lib", "--", "tests::model"],
    },
    Campaign {
        name: "composition",
        about: "100,000 random compositions against closed forms",
        arguments: &["--lib", "--", "pld::tests"],
    },
    Campaign {
        name: "timing",
        about: "time a million draws; printed, never judged",
        arguments: &["--test", "timing", "--", "--ignored"],
    },
];

/// Runs a campaign, or names all.
pub fn run(name: Option<&str>) -> anyhow::Result<()> {
    let Some(name) = name else {
        for campaign in CAMPAIGNS {
            println!("{:10} {}", campaign.name, campaign.about);
        }
        return Ok(());
    };
    let Some(campaign) = CAMPAIGNS.iter().find(|campaign| campaign.name == name) else {
        let names: Vec<_> = CAMPAIGNS.iter().map(|campaign| campaign.name).collect();
        bail!("no campaign is named {name}; there are {}", names.join(", "));
    };
    let mut cargo = command::cargo(&["test", "--release", "--workspace"]);
    cargo.args(campaign.arguments).arg("--nocapture");
    for (key, value) in ENVIRONMENT {
        let value = std::env::var(key).unwrap_or_else(|_| (*value).to_owned());
        print!("{key}={value} ");
        cargo.env(key, value);
    }
    println!("{}", command::shown(&cargo));
    command::succeed(cargo).with_context(|| format!("the campaign {name} failed"))
}
