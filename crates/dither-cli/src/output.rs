//! Writing to the terminal and to files.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use dither::Amounts;

/// Writes to a file, or to standard output without one.
///
/// A file is written under another name beside it and renamed, so that a failure leaves the old one whole.
pub fn write(out: Option<&Path>, bytes: &[u8]) -> anyhow::Result<()> {
    match out {
        Some(path) => replace(path, bytes).with_context(|| format!("cannot write {}", path.display())),
        None => {
            let mut terminal = std::io::stdout().lock();
            terminal.write_all(bytes)?;
            Ok(terminal.flush()?)
        }
    }
}

/// Writes a line to standard error. Nobody may be there to read it, which is no failure.
pub fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let target = canonical(path);
    let known = std::fs::metadata(&target).ok();
    if known.as_ref().is_some_and(|known| !known.is_file()) {
        // A pipe or a device cannot be replaced, and holds nothing that could be lost.
        return std::fs::write(target, bytes);
    }
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".new-{}", std::process::id()));
    let draft = target.with_file_name(name);
    let written = std::fs::write(&draft, bytes)
        .and_then(|()| known.map_or(Ok(()), |known| std::fs::set_permissions(&draft, known.permissions())))
        .and_then(|()| std::fs::rename(&draft, &target));
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written
}

/// Whether a file can be written there, as far as that shows before anything is charged. What a session reads or keeps
/// is not overwritten.
pub fn check(out: Option<&Path>, kept: &[PathBuf]) -> anyhow::Result<()> {
    let Some(out) = out else { return Ok(()) };
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        anyhow::bail!("there is no folder {}; nothing was charged", folder.display());
    }
    if out.is_dir() {
        anyhow::bail!("{} is a folder, not a file; nothing was charged", out.display());
    }
    let target = canonical(out);
    if let Some(kept) = kept.iter().find(|kept| canonical(kept) == target) {
        let (out, kept) = (out.display(), kept.display());
        anyhow::bail!("{out} would overwrite {kept}, which is still needed; nothing was charged");
    }
    Ok(())
}

/// The path without links and detours, also of a file that is not there yet.
fn canonical(path: &Path) -> PathBuf {
    if let Ok(path) = std::fs::canonicalize(path) {
        return path;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (std::fs::canonicalize(folder), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
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

/// What was charged, or since when that is so: when it was answered, and when it was charged, if that was before.
pub fn charge(charged: &Amounts, done: &str, answered: Option<i64>, before: Option<i64>) -> String {
    let day = |time| chrono::DateTime::from_timestamp(time, 0).unwrap_or_default().format("%Y-%m-%d");
    match (answered, before) {
        (Some(time), _) => format!("charged nothing: this was {done} before, on {}", day(time)),
        (None, Some(time)) => format!("charged nothing: this was charged before, on {}, and had no answer", day(time)),
        (None, None) => format!("charged {}", amounts(charged)),
    }
}

/// What is left after something that may have been charged before.
pub fn left_then(after: Option<&Amounts>, charged: bool, answered: bool, done: &str) -> String {
    let words = match (after, charged) {
        (_, true) if answered => format!("the same: this was {done} before and is free"),
        (_, true) => "the same: this was charged before and had no answer; asking again is free".into(),
        (Some(after), false) => amounts(after),
        (None, false) => "it does not fit and would be refused".into(),
    };
    format!("left then  {words}\n")
}
