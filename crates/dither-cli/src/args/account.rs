//! What can be typed behind `dither account` and `dither calibrate`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use dither_core::Neighbors;

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
