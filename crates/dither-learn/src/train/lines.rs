//! Lines of a file, and cells of a line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::train::error::TrainError;
use crate::train::key::unusable;

/// A row longer than this many bytes ends there.
const MAX_LINE: u64 = 1 << 20;

/// Opens a regular file, unpacking it if it is packed.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Read>, TrainError> {
    let file = File::open(path).map_err(|error| unusable(path, error))?;
    if !file.metadata().is_ok_and(|meta| meta.is_file()) {
        return Err(unusable(path, "it is no regular file"));
    }
    Ok(match path.extension().is_some_and(|ending| ending == "gz") {
        true => Box::new(MultiGzDecoder::new(file)),
        false => Box::new(file),
    })
}

/// Lines of a file. A line break ends a row, also between quotes, so that no row takes in others.
pub(crate) struct Lines(BufReader<Box<dyn Read>>);

impl Lines {
    pub fn open(path: &Path) -> Result<Self, TrainError> {
        Ok(Self(BufReader::new(open(path)?)))
    }

    pub fn next(&mut self, path: &Path) -> Result<Option<String>, TrainError> {
        let mut line = Vec::new();
        let error = |error| unusable(path, error);
        let read = (&mut self.0).take(MAX_LINE).read_until(b'\n', &mut line).map_err(error)?;
        if read == 0 {
            return Ok(None);
        }
        if read as u64 == MAX_LINE && line.last() != Some(&b'\n') {
            self.0.skip_until(b'\n').map_err(error)?;
        }
        Ok(Some(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned()))
    }
}

/// The cells of a line. A quote that is not closed ends with the line.
pub(crate) fn cells(line: &str, delimiter: char) -> Vec<String> {
    let mut cells = vec![String::new()];
    let (mut quoted, mut characters) = (false, line.chars().peekable());
    while let Some(character) = characters.next() {
        let cell = cells.len() - 1;
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cells[cell].push('"');
            }
            '"' if quoted => quoted = false,
            '"' if cells[cell].is_empty() => quoted = true,
            _ if character == delimiter && !quoted => cells.push(String::new()),
            _ => cells[cell].push(character),
        }
    }
    cells
}
