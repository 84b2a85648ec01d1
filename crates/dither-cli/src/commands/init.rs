//! `dither init`: a starter policy from a header.

use std::path::Path;

use crate::args::Init;
use crate::output;

/// Writes the starter.
pub fn run(command: &Init) -> anyhow::Result<()> {
    let out = command.out.as_deref();
    output::check(out, std::slice::from_ref(&command.file))?;
    // Paths in a policy are relative to its folder.
    let elsewhere = out.and_then(Path::parent).is_some_and(|folder| !folder.as_os_str().is_empty());
    let file = if elsewhere { std::path::absolute(&command.file)? } else { command.file.clone() };
    let starter = dither_query::policy::starter(&file).map_err(dither::Error::from)?;
    if let Some(path) = out.filter(|path| path.exists()) {
        anyhow::bail!("{} exists already; nothing was written", path.display());
    }
    output::write(out, starter.as_bytes())
}
