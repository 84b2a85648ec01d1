//! `dither model`: work on a trained model that its guarantee survives, for free.

use dither_learn::train::folder::TrainedModel;

use crate::args::{Model, ModelCommand, Quantize};
use crate::output;

/// Reads a model with its card, and writes what becomes of both.
pub fn run(command: &Model) -> anyhow::Result<()> {
    match &command.command {
        ModelCommand::Quantize(command) => quantize(command),
    }
}

fn quantize(command: &Quantize) -> anyhow::Result<()> {
    let done = TrainedModel::open_beside(&command.model, command.base.as_deref())?.quantize(&command.out)?;
    let [before, after] = done.bytes;
    let text = format!(
        "{} weights of 8 bits, {} left as they are, {before} bytes before and {after} now\n\
         charged nothing: it reads released weights only · receipt of the run {}\nwritten to {}\n",
        done.integers,
        done.floats,
        done.receipt,
        command.out.display(),
    );
    output::write(None, text.as_bytes())
}
