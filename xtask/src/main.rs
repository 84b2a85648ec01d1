//! The developer's door: `cargo xtask check` is everything that CI runs.

mod check;
mod command;
mod long;
mod tidy;

use std::process::ExitCode;

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

fn bench(arguments: &[String]) -> anyhow::Result<()> {
    let mut cargo = command::cargo(&["run", "--release", "--package", "dither-bench", "--"]);
    match arguments {
        [] => cargo.arg("--help"),
        _ => cargo.args(arguments),
    };
    command::succeed(cargo)
}
