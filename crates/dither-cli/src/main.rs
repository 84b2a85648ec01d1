//! The `dither` binary. One verb, one file; no privacy logic.

mod args;
mod bug;
mod commands;
mod failure;
mod output;
mod progress;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};

#[tokio::main]
async fn main() -> ExitCode {
    bug::report_to_the_operator();
    let args = Args::parse();
    let done = match &args.command {
        Command::Init(command) => commands::init::run(command),
        Command::Plan(command) => commands::plan::run(command).await,
        Command::Query(command) => commands::query::run(command).await,
        Command::Profile(command) => commands::profile::run(command).await,
        Command::Report(command) => commands::report::run(command).await,
        Command::Train(command) => commands::train::run(command).await,
        Command::Model(command) => commands::model::run(command),
        Command::Ledger(command) => commands::ledger::run(command).await,
        Command::Cluster(command) => commands::cluster::run(&command.command).await,
        Command::Account(command) => commands::account::run(command),
        Command::Calibrate(command) => commands::calibrate::run(command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            failure::print(&error);
            ExitCode::FAILURE
        }
    }
}
