//! Rows on disk, enciphered in a file without a name.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use dither_chacha::ChaCha;
use zeroize::Zeroizing;

use crate::hash::KeyedHash;
use crate::names::Texts;
use crate::rows::{Layout, Mapping, Rows, Share};

/// The buckets that did not fit memory.
///
/// # Privacy
/// The file has no name and no other process can open it; the space is free soon after it is dropped or the process dies.
/// What stays on the disk says nothing without the key, which is in memory only.
pub(crate) struct Spill {
    /// There until it is dropped.
    file: Mutex<Option<File>>,
    layout: Arc<Layout>,
    key: Zeroizing<[u8; 32]>,
    end: u64,
    /// For each bucket its parts.
    parts: Vec<Vec<Part>>,
}

/// Where rows begin, their stream, how many they are, and how many texts of so many bytes their units have.
struct Part {
    start: u64,
    stream: u64,
    rows: usize,
    texts: usize,
    bytes: usize,
    /// Whether units take eight bytes instead of four.
    wide: bool,
}

/// No two parts of any file have the same stream of a key: each takes two numbers, for rows and for texts.
static STREAMS: AtomicU64 = AtomicU64::new(0);

impl Spill {
    /// An empty file for so many buckets of such rows; the key follows from the secret of a request.
    pub(crate) fn new(buckets: usize, layout: Arc<Layout>, secret: &KeyedHash) -> io::Result<Self> {
        let mut key = Zeroizing::new([0; 32]);
        key[..16].copy_from_slice(&secret.of(b"first half").to_be_bytes());
        key[16..].copy_from_slice(&secret.of(b"second half").to_be_bytes());
        let parts = (0..buckets).map(|_| Vec::new()).collect();
        Ok(Self { file: Mutex::new(Some(tempfile::tempfile()?)), layout, key, end: 0, parts })
    }

    /// The number of rows of a bucket.
    pub(crate) fn len(&self, bucket: usize) -> usize {
        self.parts[bucket].iter().map(|part| part.rows).sum()
    }

    /// Their bytes, with what their units stand for.
    pub(crate) fn size(&self, bucket: usize) -> usize {
        let size = |part: &Part| part.rows * self.layout.width(part.wide) + Texts::bytes(part.texts, part.bytes);
        self.parts[bucket].iter().map(size).sum()
    }

    /// Writes rows to a bucket and forgets them. Where that fails they stay.
    ///
    /// # Errors
    /// A full disk.
    pub(crate) fn write(&mut self, bucket: usize, rows: &mut Rows) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut texts = Vec::new();
        let (hashes, ends, letters) = rows.texts.parts();
        hashes.iter().for_each(|hash| texts.extend_from_slice(&hash.to_le_bytes()));
        ends.iter().for_each(|end| texts.extend_from_slice(&(*end as u64).to_le_bytes()));
        texts.extend_from_slice(letters);
        let (start, wide) = (self.end, rows.is_wide());
        let stream = STREAMS.fetch_add(2, Ordering::Relaxed);
        let part = Part { start, stream, rows: rows.len(), texts: ends.len(), bytes: letters.len(), wide };
        // Enciphered where they are, which spares the memory of a copy.
        let written = rows.written(&self.layout);
        let end = start + written.len() as u64;
        self.stream(stream).encipher(written);
        self.stream(stream + 1).encipher(&mut texts);
        if let Err(full) = self.append(&[written, &texts]) {
            self.stream(stream).encipher(written);
            return Err(full);
        }
        self.end = end + texts.len() as u64;
        self.parts[bucket].push(part);
        rows.clear();
        Ok(())
    }

    fn stream(&self, number: u64) -> ChaCha {
        ChaCha::new(&self.key, number)
    }

    /// Writes bytes to the end of the file.
    fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let file = self.file.get_mut().ok().and_then(Option::as_mut).ok_or_else(poisoned)?;
        file.seek(SeekFrom::Start(self.end))?;
        parts.iter().try_for_each(|part| file.write_all(part))
    }

    /// Adds the rows of a bucket to others, as [`Rows::append`] does, and calls after each part.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn read(
        &self,
        bucket: usize,
        into: &mut Rows,
        mapping: &Mapping,
        share: Share,
        mut after: impl FnMut(&mut Rows),
    ) -> io::Result<()> {
        for part in &self.parts[bucket] {
            if part.texts == 0 && into.takes_all(part.wide, mapping, share) {
                self.read_at(part.start, part.stream, into.room_for(&self.layout, part.rows))?;
            } else {
                into.append(&self.rows(part)?, &self.layout, mapping, share);
            }
            after(into);
        }
        Ok(())
    }

    /// The rows of a part.
    fn rows(&self, part: &Part) -> io::Result<Rows> {
        let mut rows = Rows::of_width(part.wide);
        let written = rows.room_for(&self.layout, part.rows);
        self.read_at(part.start, part.stream, written)?;
        let end = part.start + written.len() as u64;
        let mut texts = vec![0; size_of::<u64>() * 2 * part.texts + part.bytes];
        self.read_at(end, part.stream + 1, &mut texts)?;
        let (hashes, rest) = texts.split_at(part.texts * size_of::<u64>());
        let (ends, letters) = rest.split_at(part.texts * size_of::<u64>());
        let ends = integers(ends).map(|end| end as usize).collect();
        rows.texts = Texts::of(integers(hashes).collect(), ends, letters);
        Ok(rows)
    }

    /// Reads what stands at a place and deciphers it.
    fn read_at(&self, start: u64, stream: u64, bytes: &mut [u8]) -> io::Result<()> {
        {
            let mut file = self.file.lock().map_err(|_| poisoned())?;
            let file = file.as_mut().ok_or_else(poisoned)?;
            file.seek(SeekFrom::Start(start))?;
            file.read_exact(bytes)?;
        }
        self.stream(stream).encipher(bytes);
        Ok(())
    }
}

impl Drop for Spill {
    /// To free a hundred megabytes takes ten milliseconds, for which no answer waits.
    fn drop(&mut self) {
        let file = self.file.get_mut().ok().and_then(Option::take);
        // Without a thread it is freed here.
        let _ = std::thread::Builder::new().spawn(move || drop(file));
    }
}

fn integers(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes))
}

fn poisoned() -> io::Error {
    io::Error::other("another thread failed while it read spilled rows")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Units;

    const NAME: &str = "Ada Lovelace, born 1815";

    fn holds(bytes: &[u8]) -> bool {
        bytes.windows(NAME.len()).any(|some| some == NAME.as_bytes())
    }

    /// The rows of a bucket as they come back.
    fn back(spill: &Spill, bucket: usize, keys: u32) -> Rows {
        let mut rows = Rows::default();
        let mapping = Mapping::new((0..keys).collect(), vec![None]);
        spill.read(bucket, &mut rows, &mapping, Share::ALL, |_| {}).unwrap();
        rows
    }

    /// What lies on the disk names nobody, no two files and parts have the same stream, and it is read as it was written.
    #[test]
    fn spilled_rows_cannot_be_read_without_the_key() {
        let (layout, secret) = (Arc::new(Layout::new(None, [Some((0, 9))])), KeyedHash::new("secret", "spill"));
        let mut rows = Rows::default();
        let unit = rows.unit_of(Units::Texts { hashes: &[7], text: &|_| NAME }, 0);
        rows.push(&layout, unit, 3, [5].into_iter());
        let mut files = [0, 1].map(|_| Spill::new(2, Arc::clone(&layout), &secret).unwrap());
        let mut written = Vec::new();
        for spill in &mut files {
            spill.write(1, &mut rows.clone()).unwrap();
            spill.write(1, &mut rows.clone()).unwrap();
            assert_eq!((spill.len(0), spill.len(1)), (0, 2));
            let mut bytes = Vec::new();
            let file = spill.file.get_mut().unwrap().as_mut().unwrap();
            file.seek(SeekFrom::Start(0)).unwrap();
            file.read_to_end(&mut bytes).unwrap();
            assert!(!holds(&bytes));
            let (one, two) = bytes.split_at(bytes.len() / 2);
            written.extend([one.to_vec(), two.to_vec()]);
            let mut read = back(spill, 1, 4);
            assert_eq!((read.len(), read.texts.text(0), read.texts.hash(0)), (2, NAME.as_bytes(), 7));
            assert_eq!(*read.written(&layout), rows.written(&layout).repeat(2));
            // The control: with the key the name is there.
            let part = &spill.parts[1][0];
            let texts = rows.written(&layout).len();
            spill.stream(part.stream + 1).encipher(&mut bytes[texts..texts + 2 * size_of::<u64>() + NAME.len()]);
            assert!(holds(&bytes));
        }
        for (index, bytes) in written.iter().enumerate() {
            assert!(written[..index].iter().all(|other| other != bytes));
        }
    }

    /// Units of every width come back, whatever else is in their part.
    #[test]
    fn rows_come_back_in_every_width() {
        let (layout, secret) = (Arc::new(Layout::new(None, [None])), KeyedHash::new("secret", "spill"));
        let mut spill = Spill::new(1, Arc::clone(&layout), &secret).unwrap();
        let units = [(1_u64 << 32) - 1, 1_u64 << 32, 7, u64::MAX];
        let mut expected = Vec::new();
        for unit in units {
            let mut rows = Rows::default();
            rows.push(&layout, 5, 6, [i64::MAX].into_iter());
            rows.push(&layout, unit, 255, [-1].into_iter());
            spill.write(0, &mut rows).unwrap();
            assert!(rows.is_empty());
            expected.extend([(5, 6, i64::MAX), (unit, 255, -1)]);
        }
        let rows = back(&spill, 0, 256);
        let row = |row| {
            (rows.unit(row, &layout), rows.key(row, &layout), layout.read(rows.row(row, &layout)).next().unwrap())
        };
        assert_eq!((0..rows.len()).map(row).collect::<Vec<_>>(), expected);
    }

    /// An answer that was charged for is not given up where the disk is full: the rows are there as they were.
    #[test]
    fn rows_that_cannot_be_written_stay() {
        let (layout, secret) = (Arc::new(Layout::new(None, [None])), KeyedHash::new("secret", "spill"));
        let mut spill = Spill::new(1, Arc::clone(&layout), &secret).unwrap();
        let unwritable = tempfile::NamedTempFile::new().unwrap();
        spill.file = Mutex::new(Some(File::open(unwritable.path()).unwrap()));
        let mut rows = Rows::default();
        rows.push(&layout, 5, 6, [7].into_iter());
        let before = rows.written(&layout).to_vec();
        assert!(spill.write(0, &mut rows).is_err());
        assert_eq!((spill.len(0), *rows.written(&layout) == before), (0, true));
    }
}
