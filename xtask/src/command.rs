//! Child processes.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, bail};

/// The root of the repository.
pub fn root() -> PathBuf {
    let mut path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    path.pop();
    path
}

/// A cargo command in the root.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// Runs a command on this terminal.
pub fn succeed(mut command: Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{} ended with {status}", shown(&command));
    }
    Ok(())
}

/// Runs a command and keeps what it prints; errors pass through.
pub fn output(mut command: Command) -> anyhow::Result<Output> {
    command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start {command:?}"))
}

/// A command as one would type it.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let mut words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(name) = words[0].rsplit('/').next() {
        words[0] = name.to_owned();
    }
    words.join(" ")
}

/// What cargo knows about the workspace, without its dependencies.
pub fn metadata() -> anyhow::Result<serde_json::Value> {
    let output = output(cargo(&["metadata", "--no-deps", "--format-version", "1"]))?;
    if !output.status.success() {
        bail!("cargo metadata failed");
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
