//! A file on disk to a stream of UTF-8 text: regular files only, decompressed and decoded as they are read.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use encoding_rs::{CoderResult, Decoder, Encoding};

use super::{Compression, Progress, SourceError};

/// How many bytes are decoded at once.
const CHUNK: usize = 64 << 10;

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
        let decoder = encoding.new_decoder_with_bom_removal();
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
