//! Delimited text to rows of cells, in bounded memory.
//!
//! The rules are those of the `csv` crate, which the tests compare with: a quote opens a quoted cell only at its
//! start, two quotes inside one are a quote, what follows the closing quote belongs to the cell; CR, LF and CRLF
//! end a row, and a blank line is no row. Two things that crate does not do: only wanted cells are copied, and
//! neither a missing closing quote nor a giant cell can fill the memory.

use std::io::{self, BufRead};

/// The longest cell in bytes; a longer one counts as unreadable.
///
/// Public and the same for all: the engine holds 8,192 cells in one array of at most 2^31 bytes, so that whether a
/// text fits must not depend on the rows. See `sql::width`.
pub(crate) const MAX_CELL: usize = 8 << 10;
/// The most bytes of one row that are kept; the cells beyond count as unreadable.
const MAX_ROW: usize = 4 << 20;

/// The wanted cells of one row.
#[derive(Debug, Default)]
pub(super) struct Row {
    bytes: Vec<u8>,
    /// For each wanted cell that the row has, its end in `bytes`, or `None` if it was too long.
    ends: Vec<Option<usize>>,
    /// Where the current cell began.
    start: usize,
    too_long: bool,
}

impl Row {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.begin();
    }

    fn begin(&mut self) {
        self.start = self.bytes.len();
        self.too_long = false;
    }

    fn push(&mut self, bytes: &[u8]) {
        let room = MAX_CELL.min(MAX_ROW - self.start) - (self.bytes.len() - self.start);
        if self.too_long || bytes.len() > room {
            self.too_long = true;
            self.bytes.truncate(self.start);
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    fn end(&mut self) {
        self.ends.push((!self.too_long).then_some(self.bytes.len()));
        self.begin();
    }

    /// The wanted cells that the row has, in the order of the file; `None` for one that was too long.
    pub(super) fn cells(&self) -> impl Iterator<Item = Option<&str>> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let cell = self.bytes.get(start..(*end)?)?;
            start += cell.len();
            std::str::from_utf8(cell).ok()
        })
    }
}

/// Reads rows from UTF-8 text.
#[derive(Debug)]
pub(super) struct Lexer<R> {
    input: R,
    delimiter: u8,
    quote: u8,
    multiline: bool,
}

/// Where in a row the lexer stands.
#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Before the first byte of a row.
    Row,
    /// Before the first byte of a further cell.
    Cell,
    /// In a cell without quotes, or behind its quoted part.
    Plain,
    /// Between quotes.
    Quoted,
    /// Behind a quote inside a quoted cell: its end, or half of an escaped quote.
    Quote,
}

impl<R: BufRead> Lexer<R> {
    pub(super) fn new(input: R, delimiter: u8, quote: u8) -> Self {
        Self { input, delimiter, quote, multiline: true }
    }

    /// A line break ends the row between quotes as well, so that no cell of one row can take in the rows behind it.
    pub(super) fn single_lines(self) -> Self {
        Self { multiline: false, ..self }
    }

    /// Reads the next row and keeps the cells whose index is wanted; `false` at the end of the file.
    pub(super) fn read(&mut self, row: &mut Row, wanted: impl Fn(usize) -> bool) -> io::Result<bool> {
        row.clear();
        let (delimiter, quote, multiline) = (self.delimiter, self.quote, self.multiline);
        let (mut state, mut index) = (State::Row, 0);
        let mut keep = wanted(index);
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                if state != State::Row && keep {
                    row.end();
                }
                return Ok(state != State::Row);
            }
            let mut at = 0;
            while let Some(&byte) = buffer.get(at) {
                let line_end = byte == b'\n' || byte == b'\r';
                match state {
                    State::Row if line_end => at += 1,
                    State::Row | State::Cell if byte == quote => (state, at) = (State::Quoted, at + 1),
                    State::Quote if byte == quote => {
                        if keep {
                            row.push(&[quote]);
                        }
                        (state, at) = (State::Quoted, at + 1);
                    }
                    State::Quoted if byte == quote => (state, at) = (State::Quote, at + 1),
                    State::Quoted if multiline || !line_end => {
                        let ends = |b| b == quote || (!multiline && (b == b'\n' || b == b'\r'));
                        at += self::copy(row, keep, &buffer[at..], ends);
                    }
                    _ if byte == delimiter || line_end => {
                        if keep {
                            row.end();
                        }
                        at += 1;
                        if line_end {
                            self.input.consume(at);
                            return Ok(true);
                        }
                        (state, index) = (State::Cell, index + 1);
                        keep = wanted(index);
                    }
                    _ => {
                        let ends = |b| b == delimiter || b == b'\n' || b == b'\r';
                        at += self::copy(row, keep, &buffer[at..], ends);
                        state = State::Plain;
                    }
                }
            }
            let length = buffer.len();
            self.input.consume(length);
        }
    }
}

/// Copies bytes up to one that ends the run, and tells how many they were.
fn copy(row: &mut Row, keep: bool, bytes: &[u8], ends: impl Fn(u8) -> bool) -> usize {
    let length = bytes.iter().position(|byte| ends(*byte)).unwrap_or(bytes.len());
    if keep {
        row.push(&bytes[..length]);
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows(text: &[u8], capacity: usize) -> Vec<Vec<Vec<u8>>> {
        let mut lexer = Lexer::new(io::BufReader::with_capacity(capacity, text), b',', b'"');
        let (mut row, mut rows) = (Row::default(), Vec::new());
        while lexer.read(&mut row, |_| true).unwrap() {
            rows.push(row.cells().map(|cell| cell.unwrap().as_bytes().to_vec()).collect());
        }
        rows
    }

    fn reference(text: &[u8]) -> Vec<Vec<Vec<u8>>> {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text);
        reader.byte_records().map(|record| record.unwrap().iter().map(<[u8]>::to_vec).collect()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn rows_are_those_of_the_csv_crate(text in r#"[a,"\r\n é]{0,24}"#, capacity in 1usize..9) {
            prop_assert_eq!(rows(text.as_bytes(), capacity), reference(text.as_bytes()));
        }
    }

    #[test]
    fn only_wanted_cells_are_kept() {
        let mut lexer = Lexer::new("a,b,c\nd\ne,f".as_bytes(), b',', b'"');
        let mut row = Row::default();
        let mut seen = Vec::new();
        while lexer.read(&mut row, |index| index == 1).unwrap() {
            seen.push(row.cells().map(|cell| cell.map(str::to_owned)).collect::<Vec<_>>());
        }
        assert_eq!(seen, [vec![Some("b".into())], vec![], vec![Some("f".into())]]);
    }

    #[test]
    fn sq_24_a_missing_closing_quote_takes_in_no_other_row() {
        let mut lexer = Lexer::new("a,\"b\nc,\"d \"\"e\"\"\"\nf".as_bytes(), b',', b'"').single_lines();
        let (mut row, mut rows) = (Row::default(), Vec::new());
        while lexer.read(&mut row, |_| true).unwrap() {
            rows.push(row.cells().map(|cell| cell.unwrap().to_owned()).collect::<Vec<_>>());
        }
        assert_eq!(rows, [vec!["a", "b"], vec!["c", "d \"e\""], vec!["f"]]);
    }

    #[test]
    fn sq_24_a_missing_closing_quote_does_not_fill_the_memory() {
        let endless = io::BufReader::new(io::Read::chain("x,\"".as_bytes(), io::repeat(b'z').take_bytes(100 << 20)));
        let mut row = Row::default();
        assert!(Lexer::new(endless, b',', b'"').read(&mut row, |_| true).unwrap());
        assert_eq!(row.cells().collect::<Vec<_>>(), [Some("x"), None]);
        assert!(row.bytes.capacity() <= 4 * MAX_CELL, "{} bytes", row.bytes.capacity());
    }

    #[test]
    fn many_long_cells_stop_at_the_limit_of_the_row() {
        let text = format!("{}\n", vec!["y".repeat(MAX_CELL); 600].join(","));
        let mut row = Row::default();
        assert!(Lexer::new(text.as_bytes(), b',', b'"').read(&mut row, |_| true).unwrap());
        assert_eq!((row.cells().count(), row.cells().flatten().count()), (600, MAX_ROW / MAX_CELL));
    }

    trait TakeBytes: io::Read + Sized {
        fn take_bytes(self, count: u64) -> io::Take<Self> {
            self.take(count)
        }
    }
    impl<R: io::Read> TakeBytes for R {}
}
