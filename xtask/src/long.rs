//! Long campaigns: the tests that also have a longer form, or only that.

use anyhow::{Context, bail};

use crate::command;

/// A campaign: its name, what it is about, and the arguments of `cargo test --release`.
struct Campaign {
    name: &'static str,
    about: &'static str,
    arguments: &'static [&'static str],
}

/// Every campaign runs with `DITHER_LONG=1`, which the tests read, and with its output shown.
const CAMPAIGNS: &[Campaign] = &[
    Campaign {
        name: "crash",
        about: "kill a charging process 5,000 times, and tear the log at every 64th byte",
        arguments: &["--package", "dither-ledger", "--lib", "tests::crash"],
    },
    Campaign {
        name: "race",
        about: "64 tasks in 10,000 rounds and processes in 1,000 rounds against one budget",
        arguments: &["--package", "dither-ledger", "--lib", "tests::race"],
    },
    Campaign {
        name: "fault",
        about: "let every single system call fail that the ledger makes",
        arguments: &["--package", "dither-ledger", "--lib", "tests::fault"],
    },
    Campaign {
        name: "tamper",
        about: "flip 100,000 bits of a ledger",
        arguments: &["--package", "dither-ledger", "--lib", "tests::tamper"],
    },
    Campaign {
        name: "model",
        about: "1,000 random histories of a ledger against its model",
        arguments: &["--package", "dither-ledger", "--lib", "tests::model"],
    },
    Campaign {
        name: "timing",
        about: "time a million draws; printed, never judged",
        arguments: &["--package", "dither-noise", "--test", "timing", "--", "--ignored"],
    },
];

/// Runs a campaign, or names all.
pub fn run(name: Option<&str>) -> anyhow::Result<()> {
    let Some(name) = name else {
        for campaign in CAMPAIGNS {
            println!("{:8} {}", campaign.name, campaign.about);
        }
        return Ok(());
    };
    let Some(campaign) = CAMPAIGNS.iter().find(|campaign| campaign.name == name) else {
        let names: Vec<_> = CAMPAIGNS.iter().map(|campaign| campaign.name).collect();
        bail!("no campaign is named {name}; there are {}", names.join(", "));
    };
    let mut cargo = command::cargo(&["test", "--release"]);
    cargo.args(campaign.arguments).env("DITHER_LONG", "1");
    if !campaign.arguments.contains(&"--") {
        cargo.arg("--");
    }
    cargo.arg("--nocapture");
    println!("DITHER_LONG=1 {}", command::shown(&cargo));
    command::succeed(cargo).with_context(|| format!("the campaign {name} failed"))
}
