//! What can be typed. Validation happens where the types live.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use dither::{Delta, Epsilon, MechanismChoice, TargetError};

/// Answer questions about people without giving any of them away.
#[derive(Parser)]
#[command(name = "dither", version, max_term_width = 100)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Write a starter policy from the header of a CSV or Parquet file; no row is read
    Init(Init),
    /// Show what a question would cost and how well it would be answered; nothing is charged
    Plan(Plan),
    /// Charge a question and answer it; the identical question again is free
    Query(Query),
    /// Publish a report: several questions under one budget
    Report(Report),
    /// Show, verify, export or amend the budget
    Ledger(Ledger),
}

#[derive(ClapArgs)]
pub struct Init {
    /// A CSV or Parquet file
    pub file: PathBuf,
    /// Where to write the policy instead of the terminal
    #[arg(short, long)]
    pub out: Option<PathBuf>,
}

/// What is asked of which policy.
#[derive(ClapArgs)]
pub struct Ask {
    /// The policy file
    #[arg(short, long)]
    pub policy: PathBuf,
    /// The question, in SQL
    pub sql: String,
    /// ε of the whole question, split inside
    #[arg(short, long, allow_negative_numbers = true)]
    pub epsilon: Option<Epsilon>,
    /// δ of the whole question
    #[arg(short, long, allow_negative_numbers = true)]
    pub delta: Option<Delta>,
    /// Find the smallest ε whose expected error is at most this: 0.3 or 2%
    #[arg(long, value_name = "ERROR", conflicts_with = "epsilon", value_parser = target_error, allow_negative_numbers = true)]
    pub target_error: Option<TargetError>,
    /// Which noise
    #[arg(long, default_value = "auto")]
    pub mechanism: Mechanism,
    /// A scope of the policy to charge, as in research/alice
    #[arg(long)]
    pub scope: Option<String>,
}

fn target_error(text: &str) -> Result<TargetError, String> {
    text.parse().map_err(|refusal: dither::Refusal| refusal.to_string())
}

impl Ask {
    pub fn request(&self) -> dither::Request {
        dither::Request {
            sql: self.sql.clone(),
            epsilon: self.epsilon,
            delta: self.delta,
            mechanism: self.mechanism.into(),
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Mechanism {
    /// The one with the smaller expected error
    Auto,
    Laplace,
    Gaussian,
}

impl From<Mechanism> for MechanismChoice {
    fn from(choice: Mechanism) -> Self {
        match choice {
            Mechanism::Auto => Self::Auto,
            Mechanism::Laplace => Self::Laplace,
            Mechanism::Gaussian => Self::Gaussian,
        }
    }
}

#[derive(ClapArgs)]
pub struct Plan {
    #[command(flatten)]
    pub ask: Ask,
    /// Print the plan as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs)]
pub struct Query {
    #[command(flatten)]
    pub ask: Ask,
    /// How the answer is written
    #[arg(short, long, default_value = "table")]
    pub format: Format,
    /// Where the answer is written instead of the terminal; needed for parquet
    #[arg(short, long)]
    pub out: Option<PathBuf>,
    /// An idempotency key: the same key never charges twice, and never names two questions
    #[arg(long)]
    pub key: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Table,
    Csv,
    Json,
    Parquet,
}

#[derive(ClapArgs)]
pub struct Report {
    /// The report file
    pub file: PathBuf,
    /// The folder that the pages and tables are written to; `out` beside the report by default
    #[arg(short, long)]
    pub out: Option<PathBuf>,
    /// Show what it would cost; nothing is charged
    #[arg(long)]
    pub plan: bool,
}

#[derive(ClapArgs)]
pub struct Ledger {
    #[command(subcommand)]
    pub command: LedgerCommand,
}

#[derive(Subcommand)]
pub enum LedgerCommand {
    /// Show limits, charges and what is left
    Show(LedgerPath),
    /// Recompute the whole chain
    Verify(Verify),
    /// Write every entry as a line of JSON
    Export(LedgerPath),
    /// Set the limits of the policy, also higher ones; needs two stewards
    Amend(Amend),
}

#[derive(ClapArgs)]
pub struct LedgerPath {
    /// The policy whose ledger is meant
    #[arg(short, long)]
    pub policy: PathBuf,
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
    #[command(flatten)]
    pub path: LedgerPath,
    /// Who sets it; give it twice
    #[arg(long = "steward", required = true)]
    pub stewards: Vec<String>,
}
