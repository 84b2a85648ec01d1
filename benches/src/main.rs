//! Measurements of Dither. Nothing here fails because something was slow or far off; figures are printed, not judged.
//!
//! One name is one file. Every name returns [`figures::Section`]s, printed as Markdown or as JSON lines.

mod accounting;
mod accuracy;
mod engine;
mod examples;
mod figures;
mod keys;
mod learn;
mod noise;
mod peers;
mod score;
mod truth;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask bench")]
struct Args {
    #[command(subcommand)]
    name: Name,
    /// Print one JSON object per figure instead of tables
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Name {
    /// Publish the report of each example many times and compare with the truth
    Examples {
        /// How often
        #[arg(long, default_value_t = 20)]
        runs: usize,
        /// Only this example
        #[arg(long)]
        only: Option<String>,
    },
    /// Draws per second, and the raw random stream
    Noise,
    /// Prices and calibrations per second
    Accounting,
    /// Training steps against the same steps without privacy, PyTorch and Opacus
    Learn {
        #[command(flatten)]
        setting: learn::Setting,
        /// Only steps of one kind, on request
        #[arg(long, hide = true)]
        step: Option<learn::step::One>,
    },
    /// Units that a group needs under each rule for keys from the data
    Keys,
    /// Errors of four questions about a table of visits, as other libraries were measured
    Accuracy {
        /// The Parquet file of the visits
        data: std::path::PathBuf,
        /// How often each is asked
        #[arg(long, default_value_t = 5)]
        runs: usize,
    },
    /// Private questions against the same questions without privacy, on generated tables
    Engine {
        #[command(flatten)]
        setting: engine::Setting,
        /// Only one way of one case, once, for its memory
        #[arg(long, hide = true, value_parser = pair)]
        alone: Option<engine::One>,
        /// Where its table is
        #[arg(long, hide = true, default_value = ".")]
        folder: std::path::PathBuf,
    },
}

/// Two numbers with a comma between them.
fn pair(text: &str) -> Result<engine::One, String> {
    let parts = text.split_once(',').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    parts.ok_or_else(|| "two numbers with a comma between them".to_owned())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let sections = match args.name {
        Name::Examples { runs, only } => examples::run(runs.max(1), only.as_deref()).await?,
        Name::Noise => noise::run()?,
        Name::Accounting => accounting::run()?,
        Name::Learn { step: Some(one), .. } => return learn::step::serve(one).await,
        Name::Learn { setting, .. } => learn::run(&setting)?,
        Name::Keys => keys::run()?,
        Name::Accuracy { data, runs } => accuracy::run(&std::path::absolute(data)?, runs.max(1)).await?,
        Name::Engine { setting, alone: Some(one), folder } => return engine::run_alone(&setting, one, &folder).await,
        Name::Engine { setting, .. } => engine::run(&setting).await?,
    };
    Ok(figures::print(&sections, args.json)?)
}
