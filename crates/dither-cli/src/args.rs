//! What can be typed. Validation happens where the types live.

mod cluster;
mod model;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use dither::{Delta, Epsilon, MechanismChoice, TargetError};
use dither_core::Neighbors;

pub use cluster::{Cluster, ClusterCommand};
pub use model::{Model, ModelCommand, Quantize};

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
    /// Take a first look at a table, for one charge: sizes, quartiles and frequent values of every column
    Profile(Profile),
    /// Publish a report: several questions under one budget
    Report(Report),
    /// Train a model under differential privacy; the whole run is charged before a row is read
    Train(Train),
    /// Work on a model that was trained; nothing is charged
    Model(Model),
    /// Show, verify, export or amend the budget
    Ledger(Ledger),
    /// Run a process of a Ballista cluster, on which --engine ballista://… counts
    Cluster(Cluster),
    /// Say what a private computation costs, under every accountant; no data, no budget
    Account(Account),
    /// Find the noise, the number of rounds or the ε that a goal needs; no data, no budget
    Calibrate(Calibrate),
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
    #[command(flatten)]
    pub terms: Terms,
    /// The question, in SQL
    pub sql: String,
}

/// Of which policy, and for how much.
#[derive(ClapArgs)]
pub struct Terms {
    /// The policy file
    #[arg(short, long)]
    pub policy: PathBuf,
    /// ε of the whole question, split inside
    #[arg(short, long, allow_hyphen_values = true)]
    pub epsilon: Option<Epsilon>,
    /// δ of the whole question
    #[arg(short, long, allow_hyphen_values = true)]
    pub delta: Option<Delta>,
    /// Find the smallest ε whose expected error is at most this: 0.3 or 2%
    #[arg(long, value_name = "ERROR", conflicts_with = "epsilon", value_parser = target_error, allow_hyphen_values = true)]
    pub target_error: Option<TargetError>,
    /// Which noise
    #[arg(long, default_value = "auto")]
    pub mechanism: Mechanism,
    /// Add intervals for noise and sampling together, as columns of their own: for COUNT, SUM and AVG of rows or units
    /// that are a sample. A share of ε is for how far the values spread
    #[arg(long)]
    pub sampling: bool,
    /// A scope of the policy to charge, as in research/alice
    #[arg(long)]
    pub scope: Option<String>,
}

fn target_error(text: &str) -> Result<TargetError, String> {
    text.parse().map_err(|refusal: dither::Refusal| refusal.to_string())
}

impl Terms {
    pub fn request(&self, sql: &str) -> dither::Request {
        dither::Request {
            sql: sql.to_owned(),
            epsilon: self.epsilon,
            delta: self.delta,
            mechanism: self.mechanism.into(),
            sampling: self.sampling,
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

/// Where the tables lie.
#[derive(ClapArgs)]
pub struct Elsewhere {
    /// Where the tables are counted: the PostgreSQL server in which they lie, as in postgres://user@localhost/clinic
    /// (a password is better in PGPASSWORD than here), or a Ballista cluster that reads the same Parquet files, as in
    /// ballista://127.0.0.1:50050
    #[arg(long, value_name = "URL")]
    pub engine: Option<String>,
}

/// Where and within what the table is read.
#[derive(ClapArgs)]
pub struct Where {
    /// The memory for rows, as in 512MB or 2GB; what does not fit is pruned and put on disk
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "engine")]
    pub memory: Option<usize>,
    /// How long rows may be read, as in 30s, 10min or 2h; after that the question fails, and the charge stands
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub timeout: Option<Duration>,
    #[command(flatten)]
    pub elsewhere: Elsewhere,
}

/// A time: `30s`, `10min`, `2h`.
fn time(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let seconds = match text[digits.len()..].trim() {
        "s" => 1,
        "min" => 60,
        "h" => 3600,
        _ => return Err("a time is a whole number and a unit: 30s, 10min or 2h".into()),
    };
    let number: u64 = digits.parse().map_err(|_| "a time begins with a whole number".to_owned())?;
    match number.checked_mul(seconds) {
        Some(0) => Err("at least 1s is needed".into()),
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => Err("this is longer than anybody waits".into()),
    }
}

/// A number of bytes: `64MB`, `2GB`, in powers of 1024.
fn size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let scale = match text[digits.len()..].trim().to_ascii_uppercase().as_str() {
        "KB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        _ => return Err("a size is a whole number and a unit: 512MB or 2GB".into()),
    };
    let number: usize = digits.parse().map_err(|_| "a size begins with a whole number".to_owned())?;
    match number.checked_mul(scale) {
        Some(bytes) if bytes >= 1 << 20 => Ok(bytes),
        Some(_) => Err("at least 1MB is needed".into()),
        None => Err("this is more than a computer can have".into()),
    }
}

#[derive(ClapArgs)]
pub struct Plan {
    #[command(flatten)]
    pub terms: Terms,
    #[command(flatten)]
    pub elsewhere: Elsewhere,
    /// The question, in SQL
    #[arg(required_unless_present = "file")]
    pub sql: Option<String>,
    /// A file of questions that end with `;`, planned together; -- @epsilon 0.5 or -- @target-error 2% may stand in front of each
    #[arg(long, conflicts_with = "sql")]
    pub file: Option<PathBuf>,
    /// Print the plan as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs)]
pub struct Query {
    #[command(flatten)]
    pub ask: Ask,
    #[command(flatten)]
    pub place: Where,
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
pub struct Profile {
    /// The table, by its name in the policy
    pub table: String,
    /// The policy file
    #[arg(short, long)]
    pub policy: PathBuf,
    /// ε of the whole profile, split over its parts
    #[arg(short, long, allow_hyphen_values = true)]
    pub epsilon: Epsilon,
    /// δ of the whole profile; frequent values that are not declared need one
    #[arg(short, long, allow_hyphen_values = true)]
    pub delta: Option<Delta>,
    /// The columns, as in age,city; all by default
    #[arg(long, value_delimiter = ',')]
    pub columns: Vec<String>,
    /// How many frequent values of a column are shown; 0 asks for none
    #[arg(long, default_value_t = 5)]
    pub top: usize,
    /// A scope of the policy to charge, as in research/alice
    #[arg(long)]
    pub scope: Option<String>,
    /// Show what it would cost; nothing is charged
    #[arg(long, conflicts_with = "json")]
    pub plan: bool,
    /// Print the profile as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub place: Where,
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
    #[command(flatten)]
    pub place: Where,
}

#[derive(ClapArgs)]
pub struct Train {
    /// The file that describes the job
    pub job: PathBuf,
    /// Show what it would cost, leave, need and last; nothing is charged
    #[arg(long)]
    pub plan: bool,
    /// The plan as JSON
    #[arg(long, requires = "plan")]
    pub json: bool,
    /// Go on with a job that was begun, for free
    #[arg(long, conflicts_with = "plan")]
    pub resume: bool,
    /// Show losses and clipped shares of every step: private, for whoever may see the table
    #[arg(long, conflicts_with = "plan")]
    pub operator: bool,
    /// Train at each of these ε on a table that the job says is `public`, and draw how good models are; nothing is charged
    #[arg(long, value_name = "EPSILON,…", value_delimiter = ',', conflicts_with_all = ["plan", "resume", "operator"])]
    pub sweep: Vec<Epsilon>,
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

#[derive(ClapArgs)]
#[command(subcommand_precedence_over_arg = true)]
pub struct Account {
    #[command(subcommand)]
    pub event: Option<Described>,
    /// A file of events: a document of Dither, or a DpEvent of dp-accounting
    pub file: Option<PathBuf>,
    /// Find ε at this δ
    #[arg(short, long, global = true, value_parser = probability)]
    pub delta: Option<f64>,
    /// Find δ at this ε
    #[arg(short, long, global = true, value_parser = positive, conflicts_with = "delta")]
    pub epsilon: Option<f64>,
    #[command(flatten)]
    pub shown: Shown,
}

#[derive(ClapArgs)]
pub struct Calibrate {
    #[command(subcommand)]
    pub goal: Goal,
    /// The δ to reach
    #[arg(short, long, global = true, value_parser = probability)]
    pub delta: Option<f64>,
    /// The ε to reach
    #[arg(short, long, global = true, value_parser = positive)]
    pub epsilon: Option<f64>,
    #[command(flatten)]
    pub shown: Shown,
}

/// How an account is shown.
#[derive(ClapArgs)]
pub struct Shown {
    /// Whose change must not matter
    #[arg(long, global = true, default_value = "add-or-remove-unit", value_parser = neighbors)]
    pub neighbors: Neighbors,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Draw the curves as SVG into this file
    #[arg(long, global = true, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

/// An event in a few words.
#[derive(Subcommand)]
pub enum Described {
    /// Steps of training with Gaussian noise on Poisson samples
    DpSgd {
        /// σ divided by the clipping norm
        #[arg(long, value_parser = positive)]
        noise_multiplier: f64,
        /// The probability that a unit is in a batch, as 0.01 or 256/60000
        #[arg(long, value_parser = probability)]
        sampling_rate: f64,
        /// How many steps
        #[arg(long)]
        steps: u64,
    },
    /// Gaussian noise
    Gaussian {
        /// σ divided by the l2 sensitivity
        #[arg(long, value_parser = positive)]
        noise_multiplier: f64,
        /// How many times
        #[arg(long, default_value_t = 1)]
        count: u64,
    },
    /// Laplace noise
    Laplace {
        /// The scale divided by the sensitivity
        #[arg(long, value_parser = positive)]
        noise_multiplier: f64,
        /// How many times
        #[arg(long, default_value_t = 1)]
        count: u64,
    },
}

/// What is looked for.
#[derive(Subcommand)]
pub enum Goal {
    /// The noise multiplier of a training run, or how many steps fit if the noise is given
    DpSgd {
        /// The probability that a unit is in a batch, as 0.01 or 256/60000
        #[arg(long, value_parser = probability)]
        sampling_rate: f64,
        /// How many steps; the noise is found
        #[arg(long, required_unless_present = "noise_multiplier", conflicts_with = "noise_multiplier")]
        steps: Option<u64>,
        /// σ divided by the clipping norm; the number of steps is found
        #[arg(long, value_parser = positive)]
        noise_multiplier: Option<f64>,
    },
    /// The σ of Gaussian noise, or the ε for a target error
    Gaussian(Noise),
    /// The scale of Laplace noise, or the ε for a target error
    Laplace(Noise),
}

#[derive(ClapArgs)]
pub struct Noise {
    /// How far one unit moves one number
    #[arg(long, default_value = "1", value_parser = positive)]
    pub sensitivity: f64,
    /// How many numbers of this sensitivity one unit moves at once
    #[arg(long, default_value_t = 1)]
    pub columns: u32,
    /// How many times, under one ε and δ
    #[arg(long, default_value_t = 1)]
    pub count: u64,
    /// The error of one number that 95 of 100 draws stay within; the smallest ε is found
    #[arg(long, value_name = "ERROR", value_parser = positive)]
    pub target_error: Option<f64>,
}

/// A number or a quotient of two.
fn number(text: &str) -> Result<f64, String> {
    let parse = |part: &str| part.trim().parse::<f64>().map_err(|_| format!("`{part}` is not a number"));
    match text.split_once('/') {
        Some((above, below)) => Ok(parse(above)? / parse(below)?),
        None => parse(text),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    let value = number(text)?;
    if value > 0.0 && value.is_finite() { Ok(value) } else { Err("use a number above 0".into()) }
}

fn probability(text: &str) -> Result<f64, String> {
    let value = number(text)?;
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err("use a number from 0 to 1".into()) }
}

fn neighbors(text: &str) -> Result<Neighbors, String> {
    match text {
        "add-or-remove-unit" => Ok(Neighbors::AddOrRemoveUnit),
        "replace-unit" => Ok(Neighbors::ReplaceUnit),
        _ => Err("use add-or-remove-unit or replace-unit".into()),
    }
}
