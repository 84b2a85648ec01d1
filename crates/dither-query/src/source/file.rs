//! A file on disk to a stream of UTF-8 text: regular files only, decompressed and decoded as they are read.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use encoding_rs::{CoderResult, Decoder, Encoding};

use super::{Compression, Progress, SourceError};

/// How many bytes are decoded at once.
const CHUNK: usize = 64 << 10;

/// The encoding of this name, if a line break is the same byte in it wherever it stands.
///
/// # Privacy
/// One byte of one person's row must not change how the rows of others are read. In UTF-16 a missing byte shifts all
/// that follows, in ISO-2022-JP an escape sequence holds until the next one: neither is offered.
pub(crate) fn encoding(label: &str) -> Option<&'static Encoding> {
    Encoding::for_label_no_replacement(label.as_bytes()).filter(|encoding| encoding.is_ascii_compatible())
}

/// Opens a regular file. Folders, pipes and devices are refused before they are opened.
pub(super) fn open(path: &Path) -> Result<File, SourceError> {
    let failed = |source: io::Error| SourceError::Open { path: path.to_owned(), source: source.into() };
    let regular = |is_file: bool| {
        if is_file { Ok(()) } else { Err(SourceError::NotAFile { path: path.to_owned() }) }
    };
    regular(std::fs::metadata(path).map_err(failed)?.is_file())?;
    let file = File::open(path).map_err(failed)?;
    // Once more on the open file: the path may lead elsewhere by now.
    regular(file.metadata().map_err(failed)?.is_file())?;
    Ok(file)
}

/// The decompressed bytes of a file. An archive that breaks off is an error, not an end.
pub(super) fn decompress(
    file: File,
    compression: Compression,
    progress: Arc<Progress>,
) -> io::Result<Box<dyn BufRead + Send>> {
    progress.total_bytes.fetch_add(file.metadata()?.len(), Relaxed);
    let counted = Counted { file, progress };
    Ok(match compression {
        Compression::None => Box::new(BufReader::with_capacity(CHUNK, counted)),
        Compression::Gzip => Box::new(BufReader::with_capacity(CHUNK, flate2::read::MultiGzDecoder::new(counted))),
        Compression::Zstd => Box::new(BufReader::with_capacity(CHUNK, zstd::Decoder::new(counted)?)),
    })
}

/// Of a file that is not compressed the lines that begin within a range of its bytes. Of ranges that meet, each line is in one.
pub(super) fn lines(
    mut file: File,
    range: &Range<u64>,
    progress: Arc<Progress>,
) -> io::Result<Box<dyn BufRead + Send>> {
    let (start, end) = (line_from(&mut file, range.start)?, line_from(&mut file, range.end)?);
    progress.total_bytes.fetch_add(end.min(file.metadata()?.len()).saturating_sub(start), Relaxed);
    file.seek(SeekFrom::Start(start))?;
    let counted = Counted { file, progress };
    Ok(Box::new(BufReader::with_capacity(CHUNK, counted.take(end.saturating_sub(start)))))
}

/// Where the first line begins that does not begin before a byte.
fn line_from(file: &mut File, byte: u64) -> io::Result<u64> {
    if byte == 0 || byte == u64::MAX {
        return Ok(byte);
    }
    file.seek(SeekFrom::Start(byte - 1))?;
    let passed = BufReader::with_capacity(CHUNK, file).skip_until(b'\n')?;
    Ok(byte - 1 + passed as u64)
}

/// Counts the bytes that are read from a file.
struct Counted {
    file: File,
    progress: Arc<Progress>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.progress.bytes_read.fetch_add(count as u64, Relaxed);
        Ok(count)
    }
}

/// Decodes to UTF-8 as it is read. A byte-order mark is removed; broken sequences become U+FFFD.
pub(super) struct Decoded<R> {
    input: R,
    decoder: Decoder,
    text: Vec<u8>,
    at: usize,
    filled: usize,
    finished: bool,
}

impl<R: BufRead> Decoded<R> {
    pub(super) fn new(input: R, encoding: &'static Encoding) -> Self {
        Self::with(input, encoding.new_decoder_with_bom_removal())
    }

    /// Decodes a text from within, where nothing is a byte-order mark.
    pub(super) fn inside(input: R, encoding: &'static Encoding) -> Self {
        Self::with(input, encoding.new_decoder_without_bom_handling())
    }

    fn with(input: R, decoder: Decoder) -> Self {
        Self { input, decoder, text: vec![0; CHUNK], at: 0, filled: 0, finished: false }
    }
}

impl<R: BufRead> BufRead for Decoded<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.at == self.filled && !self.finished {
            let bytes = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                bytes => bytes?,
            };
            let last = bytes.is_empty();
            let (result, read, written, _) = self.decoder.decode_to_utf8(bytes, &mut self.text, last);
            self.input.consume(read);
            (self.at, self.filled) = (0, written);
            self.finished = last && result == CoderResult::InputEmpty;
        }
        Ok(&self.text[self.at..self.filled])
    }

    fn consume(&mut self, amount: usize) {
        self.at = (self.at + amount).min(self.filled);
    }
}

impl<R: BufRead> Read for Decoded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::super::lexer::{Lexer, Row};
    use super::*;
    use proptest::prelude::*;

    fn decode(bytes: &[u8], label: &str, capacity: usize) -> String {
        let encoding = Encoding::for_label(label.as_bytes()).unwrap();
        let mut text = String::new();
        Decoded::new(BufReader::with_capacity(capacity, bytes), encoding).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn marks_are_removed_and_broken_bytes_replaced() {
        assert_eq!(decode(b"\xEF\xBB\xBFa", "utf-8", 1), "a");
        assert_eq!(decode(b"\xFF\xFEa\0\xE9\0", "utf-16le", 1), "aé");
        assert_eq!(decode(b"a\xFFb", "utf-8", 2), "a\u{FFFD}b");
        assert_eq!(decode(b"\x80", "windows-1252", 2), "€");
        assert_eq!(decode(&[0xD2, 0xBD, 0xD4], "gbk", 1), "医\u{FFFD}");
    }

    /// Every encoding of the standard by one of its labels.
    const LABELS: [&str; 39] = [
        "utf-8",
        "ibm866",
        "iso-8859-2",
        "iso-8859-3",
        "iso-8859-4",
        "iso-8859-5",
        "iso-8859-6",
        "iso-8859-7",
        "iso-8859-8",
        "iso-8859-8-i",
        "iso-8859-10",
        "iso-8859-13",
        "iso-8859-14",
        "iso-8859-15",
        "iso-8859-16",
        "koi8-r",
        "koi8-u",
        "macintosh",
        "windows-874",
        "windows-1250",
        "windows-1251",
        "windows-1252",
        "windows-1253",
        "windows-1254",
        "windows-1255",
        "windows-1256",
        "windows-1257",
        "windows-1258",
        "x-mac-cyrillic",
        "gbk",
        "gb18030",
        "big5",
        "euc-jp",
        "iso-2022-jp",
        "shift_jis",
        "euc-kr",
        "utf-16be",
        "utf-16le",
        "x-user-defined",
    ];

    /// The rows of a file as the lexer gives them.
    fn rows(bytes: &[u8], encoding: &'static Encoding) -> Vec<Vec<String>> {
        let mut lexer = Lexer::new(Decoded::new(bytes, encoding), b',', b'"').single_lines();
        let (mut row, mut rows) = (Row::default(), Vec::new());
        while lexer.read(&mut row, |_| true).unwrap() {
            rows.push(row.cells().map(|cell| cell.unwrap().to_owned()).collect());
        }
        rows
    }

    /// Whether one row with these bytes somewhere leaves each of the rows around it as it was, in one encoding.
    fn leaves_others_alone(encoding: &'static Encoding, odd: &[u8]) -> bool {
        let other = |n: usize| format!("{n},A,30\n");
        let (before, after): (String, String) = ((0..3).map(other).collect(), (3..6).map(other).collect());
        let others = rows((before.clone() + &after).as_bytes(), encoding);
        // At the end of the row, inside a cell, and behind an open quote.
        [[odd, b""].concat(), [odd, b",5"].concat(), [b"\"", odd].concat()].iter().all(|tail| {
            let with = rows(&[before.as_bytes(), b"7,B", tail, b"\n", after.as_bytes()].concat(), encoding);
            with.len() == 7 && with[..3] == others[..3] && with[4..] == others[3..]
        })
    }

    /// Bytes that begin something which they do not end: every byte alone, with a second one, and escape sequences.
    fn dangling() -> Vec<Vec<u8>> {
        let line_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        let all = || (0..=255_u8).filter(|byte| !line_end(byte));
        let seconds = [0x1B, 0x24, 0x30, 0x40, 0x7C, 0x80, 0x8F, 0x9F, 0xA1, 0xFE];
        let pairs = all().flat_map(|first| seconds.map(|second| vec![first, second]));
        let longer: [&[u8]; 8] =
            [b"\x1B$B", b"\x1B(J", b"\x1B$@a", b"\x1B(I", b"\x81\x30\x81", b"\xF0\x9F\x98", b"\x8F\xA1", b"~{"];
        all().map(|byte| vec![byte]).chain(pairs).chain(longer.map(<[u8]>::to_vec)).collect()
    }

    /// One person's row must not change how the rows of others are read, whatever its bytes. The encodings that are
    /// refused are the control: each of them fails.
    #[test]
    fn sq_24_no_row_changes_the_rows_of_others_in_any_accepted_encoding() {
        let odd = dangling();
        let mut refused = Vec::new();
        for label in LABELS {
            let sound = |known| odd.iter().all(|bytes| leaves_others_alone(known, bytes));
            match encoding(label) {
                Some(accepted) => assert!(sound(accepted), "{label}"),
                None => {
                    assert!(!sound(Encoding::for_label(label.as_bytes()).unwrap()), "{label}");
                    refused.push(label);
                }
            }
        }
        assert_eq!(refused, ["iso-2022-jp", "utf-16be", "utf-16le"]);
        assert!(encoding("replacement").is_none() && encoding("hz-gb-2312").is_none() && encoding("utf-7").is_none());
    }

    proptest! {
        #[test]
        fn sq_24_any_bytes_decode_the_same_in_any_pieces(
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
            capacity in 1usize..70,
            label in proptest::sample::select(vec!["utf-8", "gbk", "big5", "shift_jis", "utf-16le", "iso-2022-jp"]),
        ) {
            let whole = decode(&bytes, label, 1000);
            prop_assert_eq!(decode(&bytes, label, capacity), whole);
        }
    }
}
