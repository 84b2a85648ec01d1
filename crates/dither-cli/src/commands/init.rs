//! `dither init`: a starter policy from a header.

use crate::args::Init;
use crate::output;

/// Writes the starter.
pub fn run(command: &Init) -> anyhow::Result<()> {
    let out = command.out.as_deref();
    output::check(out, std::slice::from_ref(&command.file))?;
    let starter = dither_query::policy::starter(&command.file).map_err(dither::Error::from)?;
    if let Some(path) = out.filter(|path| path.exists()) {
        anyhow::bail!("{} exists already; nothing was written", path.display());
    }
    output::write(out, starter.as_bytes())
}
