//! What can be typed behind `dither ledger`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

#[derive(ClapArgs)]
pub struct Ledger {
    #[command(subcommand)]
    pub command: LedgerCommand,
}

#[derive(Subcommand)]
pub enum LedgerCommand {
    /// Show limits, charges and what is left, of questions and of training alike
    Show(LedgerPath),
    /// Recompute the whole chain
    Verify(Verify),
    /// Write every entry as a line of JSON
    Export(LedgerPath),
    /// Set the limits of the policy, also higher ones; needs two stewards
    Amend(Amend),
}

#[derive(ClapArgs)]
#[group(required = true, multiple = false)]
pub struct LedgerPath {
    /// The policy whose ledger is meant
    #[arg(short, long)]
    pub policy: Option<PathBuf>,
    /// The ledger itself, as the `file` of a training job
    #[arg(short, long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,
}

#[derive(ClapArgs)]
pub struct Verify {
    #[command(flatten)]
    pub path: LedgerPath,
    /// A receipt that was kept elsewhere, as NUMBER:HASH; detects a ledger that was rolled back
    #[arg(long)]
    pub receipt: Option<String>,
}

#[derive(ClapArgs)]
pub struct Amend {
    /// The policy whose limits are set
    #[arg(short, long)]
    pub policy: PathBuf,
    /// Who sets it; give it twice
    #[arg(long = "steward", required = true)]
    pub stewards: Vec<String>,
}
