//! The developer's door: `cargo xtask check` is everything that CI runs.

mod check;
mod command;
mod long;
mod tidy;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Context;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run everything that CI runs, cheapest first
    Check {
        /// Only these steps
        steps: Vec<String>,
    },
    /// Check what the compiler cannot: layers, the gate, documents and their tests
    Tidy,
    /// Run one of the long test campaigns, or name them
    Long {
        /// Which one; all of them are named if there is none
        name: Option<String>,
    },
    /// Run a benchmark of `benches/`, or name them
    Bench {
        /// The name and its options; `--json` for machines
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    let result = match Args::parse().verb {
        Verb::Check { steps } => check::run(&steps),
        Verb::Tidy => tidy::run(),
        Verb::Long { name } => long::run(name.as_deref()),
        Verb::Bench { arguments } => bench(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Builds with the whole workspace: with this package alone the engine would have other features and be built again.
fn bench(arguments: &[String]) -> anyhow::Result<()> {
    command::succeed(command::cargo(&["build", "--release", "--workspace", "--bin", "dither-bench"]))?;
    let target = command::metadata()?["target_directory"].as_str().map(PathBuf::from).context("cargo has a target")?;
    let mut bench = Command::new(target.join("release/dither-bench"));
    bench.current_dir(command::root());
    match arguments {
        [] => bench.arg("--help"),
        _ => bench.args(arguments),
    };
    command::succeed(bench)
}
