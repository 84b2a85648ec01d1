//! What can be typed. Validation happens where the types live.

mod account;
mod cluster;
mod ledger;
mod model;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args as ClapArgs, Parser, Subcommand, ValueEnum};
use dither::{Delta, Epsilon, MechanismChoice, TargetError};

pub use account::{Account, Calibrate, Described, Goal, Noise};
pub use cluster::{Cluster, ClusterCommand};
pub use ledger::{Amend, Ledger, LedgerCommand, Verify};
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
    /// Print a starter policy from the header of a CSV or Parquet file; no row is read
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
#[command(group(ArgGroup::new("question").required(true).args(["sql", "file"])))]
pub struct Plan {
    #[command(flatten)]
    pub terms: Terms,
    #[command(flatten)]
    pub elsewhere: Elsewhere,
    /// The question, in SQL
    pub sql: Option<String>,
    /// A file of questions that end with `;`, planned together; -- @epsilon 0.5 or -- @target-error 2% may stand in front of each
    #[arg(long)]
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
    /// For programs: the same as --format json, with receipt and what is left
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
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
    /// Train this other job, which says that its table is `public`, at the same ε and with hardly any noise: what ε costs there
    #[arg(long, value_name = "JOB", requires = "plan")]
    pub proxy: Option<PathBuf>,
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
