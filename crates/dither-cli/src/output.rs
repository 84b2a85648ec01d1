//! Writing to the terminal and to files.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use dither::Amounts;

/// Writes to a file, or to standard output without one.
pub fn write(out: Option<&Path>, bytes: &[u8]) -> anyhow::Result<()> {
    match out {
        Some(path) => std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display())),
        None => Ok(std::io::stdout().lock().write_all(bytes)?),
    }
}

/// Whether a file can be written there, as far as that shows before anything is charged.
pub fn check(out: Option<&Path>) -> anyhow::Result<()> {
    let folder = out.and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => {
            anyhow::bail!("there is no folder {}; nothing was charged", folder.display())
        }
        _ => Ok(()),
    }
}

/// Whether the reader of our output went away, which is no failure.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// ε and δ as people write them.
pub fn amounts(amounts: &Amounts) -> String {
    match amounts.delta {
        0.0 => format!("ε {}", amounts.epsilon),
        delta => format!("ε {}, δ {delta:e}", amounts.epsilon),
    }
}
