//! Tables that are no text, read by a crate that knows their format.

use std::path::Path;

/// Reads tables of one format, so that this crate need not know it: two functions, and how its files are called.
///
/// What they hand over is text, as a text file would have it. Then the same rules make inputs and labels of it.
#[derive(Debug, Clone, Copy)]
pub struct Reader {
    /// How the names of such files end, after a dot.
    pub extension: &'static str,
    /// The columns of a file that can be read. It must not look at rows.
    pub columns: fn(&Path) -> Result<Vec<String>, String>,
    /// Hands over the cells of these columns, row by row; what is missing is empty. No cell may make it fail.
    pub rows: fn(&Path, &[String], Take<'_>) -> Result<(), String>,
}

/// Takes the cells of a row.
pub type Take<'a> = &'a mut dyn FnMut(&[String]);

impl Reader {
    /// Whether a file is of this format, by its name.
    pub fn reads(&self, file: &Path) -> bool {
        file.extension().is_some_and(|ending| ending == self.extension)
    }
}
