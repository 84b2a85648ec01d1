//! `dither model`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

#[derive(ClapArgs)]
pub struct Model {
    #[command(subcommand)]
    pub command: ModelCommand,
}

#[derive(Subcommand)]
pub enum ModelCommand {
    /// Round the weights to integers of 8 bits, and carry the card on with its receipt
    Quantize(Quantize),
}

#[derive(ClapArgs)]
pub struct Quantize {
    /// The folder of the model: model.safetensors or adapters, card.json and card.md
    pub model: PathBuf,
    /// The file of the public weights that adapters stand beside
    #[arg(long)]
    pub base: Option<PathBuf>,
    /// Another folder for the rounded model and its card
    #[arg(short, long)]
    pub out: PathBuf,
}
