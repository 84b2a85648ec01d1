//! Rows on disk, enciphered in a file without a name.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use chacha20::{ChaCha20, Key};

use crate::hash::KeyedHash;
use crate::names::Texts;
use crate::rows::{Layout, Rows};

/// The buckets that did not fit memory.
///
/// # Privacy
/// The file has no name and no other process can open it; the space is free as soon as it is dropped or the process dies.
/// What stays on the disk says nothing without the key, which is in memory only.
pub(crate) struct Spill {
    file: Mutex<File>,
    layout: Arc<Layout>,
    stream: Stream,
    end: u64,
    /// For each bucket its parts.
    parts: Vec<Vec<Part>>,
    buffer: Vec<u8>,
}

/// Where rows begin, how many they are, and how many texts of so many bytes their units have.
struct Part {
    start: u64,
    rows: usize,
    texts: usize,
    bytes: usize,
    /// Whether units and keys are all so small that they take four bytes and one.
    small: (bool, bool),
}

/// What is added to the bytes of a file: a stream of ChaCha20 that no other file has, by their places, each of which is
/// written once.
struct Stream {
    key: Key,
    nonce: [u8; 12],
}

/// Under one key no two files may have the same stream.
static FILES: AtomicU64 = AtomicU64::new(0);

impl Stream {
    fn new(secret: &KeyedHash) -> Self {
        let (mut key, mut nonce) = ([0; 32], [0; 12]);
        key[..16].copy_from_slice(&secret.of(b"first half").to_be_bytes());
        key[16..].copy_from_slice(&secret.of(b"second half").to_be_bytes());
        nonce[..8].copy_from_slice(&FILES.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        Self { key: key.into(), nonce }
    }

    /// Enciphers what stands at a place of the file, or deciphers it.
    fn apply(&self, start: u64, bytes: &mut [u8]) -> io::Result<()> {
        let mut cipher = ChaCha20::new(&self.key, &self.nonce.into());
        let enciphered =
            cipher.try_seek(start).map_err(drop).and_then(|()| cipher.try_apply_keystream(bytes).map_err(drop));
        enciphered.map_err(|()| io::Error::other("more is spilled than one key enciphers"))
    }
}

impl Spill {
    /// An empty file for so many buckets of such rows; the key follows from the secret of a request.
    pub(crate) fn new(buckets: usize, layout: Arc<Layout>, secret: &KeyedHash) -> io::Result<Self> {
        Ok(Self {
            file: Mutex::new(tempfile::tempfile()?),
            layout,
            stream: Stream::new(secret),
            end: 0,
            parts: (0..buckets).map(|_| Vec::new()).collect(),
            buffer: Vec::new(),
        })
    }

    /// The number of rows of a bucket.
    pub(crate) fn len(&self, bucket: usize) -> usize {
        self.parts[bucket].iter().map(|part| part.rows).sum()
    }

    /// Their bytes, with what their units stand for.
    pub(crate) fn size(&self, bucket: usize) -> usize {
        self.parts[bucket].iter().map(|part| self.layout.bytes(part.rows) + Texts::bytes(part.texts, part.bytes)).sum()
    }

    /// Appends rows to a bucket.
    ///
    /// # Errors
    /// A full disk.
    pub(crate) fn write(&mut self, bucket: usize, rows: &Rows) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let Self { file, stream, end, buffer, .. } = self;
        buffer.clear();
        let units = rows.units.iter().all(|unit| u32::try_from(*unit).is_ok());
        let keys = rows.keys.iter().all(|key| u8::try_from(*key).is_ok());
        match units {
            true => rows.units.iter().for_each(|unit| buffer.extend_from_slice(&(*unit as u32).to_le_bytes())),
            false => rows.units.iter().for_each(|unit| buffer.extend_from_slice(&unit.to_le_bytes())),
        }
        match keys {
            true => buffer.extend(rows.keys.iter().map(|key| *key as u8)),
            false => rows.keys.iter().for_each(|key| buffer.extend_from_slice(&key.to_le_bytes())),
        }
        buffer.extend_from_slice(&rows.values);
        let (hashes, ends, texts) = rows.texts.parts();
        hashes.iter().for_each(|hash| buffer.extend_from_slice(&hash.to_le_bytes()));
        ends.iter().for_each(|end| buffer.extend_from_slice(&(*end as u64).to_le_bytes()));
        buffer.extend_from_slice(texts);
        stream.apply(*end, buffer)?;
        let file = file.get_mut().map_err(|_| poisoned())?;
        file.seek(SeekFrom::Start(*end))?;
        file.write_all(buffer)?;
        let part = Part { start: *end, rows: rows.len(), texts: ends.len(), bytes: texts.len(), small: (units, keys) };
        self.parts[bucket].push(part);
        *end += buffer.len() as u64;
        Ok(())
    }

    /// Calls with each part of a bucket.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn read(&self, bucket: usize, mut each: impl FnMut(&Rows)) -> io::Result<()> {
        let mut bytes = Vec::new();
        for part in &self.parts[bucket] {
            let (unit, key) = (if part.small.0 { 4 } else { 8 }, if part.small.1 { 1 } else { 4 });
            let row = unit + key + self.layout.width();
            bytes.resize(part.rows * row + size_of::<u64>() * 2 * part.texts + part.bytes, 0);
            {
                let mut file = self.file.lock().map_err(|_| poisoned())?;
                file.seek(SeekFrom::Start(part.start))?;
                file.read_exact(&mut bytes)?;
            }
            self.stream.apply(part.start, &mut bytes)?;
            let (units, rest) = bytes.split_at(part.rows * unit);
            let (keys, rest) = rest.split_at(part.rows * key);
            let (values, rest) = rest.split_at(part.rows * self.layout.width());
            let (hashes, rest) = rest.split_at(part.texts * size_of::<u64>());
            let (ends, texts) = rest.split_at(part.texts * size_of::<u64>());
            each(&Rows {
                units: match part.small.0 {
                    true => small(units).map(u64::from).collect(),
                    false => integers(units).collect(),
                },
                keys: match part.small.1 {
                    true => keys.iter().copied().map(u32::from).collect(),
                    false => small(keys).collect(),
                },
                values: values.to_vec(),
                texts: Texts::of(integers(hashes).collect(), integers(ends).map(|end| end as usize).collect(), texts),
            });
        }
        Ok(())
    }
}

fn small(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes))
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

    /// What lies on the disk names nobody, no two files and parts have the same stream, and it is read as it was written.
    #[test]
    fn spilled_rows_cannot_be_read_without_the_key() {
        let (layout, secret) = (Arc::new(Layout::new([Some((0, 9))])), KeyedHash::new("secret", "spill"));
        let mut rows = Rows::default();
        rows.push_of(&layout, Units::Texts { hashes: &[7], text: &|_| NAME }, 0, 3, [5].into_iter());
        let mut files = [0, 1].map(|_| Spill::new(2, Arc::clone(&layout), &secret).unwrap());
        let mut written = Vec::new();
        for spill in &mut files {
            spill.write(1, &rows).unwrap();
            spill.write(1, &rows).unwrap();
            assert_eq!((spill.len(0), spill.len(1)), (0, 2));
            let mut bytes = Vec::new();
            spill.file.get_mut().unwrap().seek(SeekFrom::Start(0)).unwrap();
            spill.file.get_mut().unwrap().read_to_end(&mut bytes).unwrap();
            assert!(!holds(&bytes));
            let (one, two) = bytes.split_at(bytes.len() / 2);
            written.extend([one.to_vec(), two.to_vec()]);
            let mut read = 0;
            let each = |some: &Rows| {
                assert_eq!(
                    (some.units.as_slice(), some.keys.as_slice(), some.values.as_slice()),
                    (&[0][..], &[3][..], &[5][..])
                );
                assert_eq!((some.texts.text(0), some.texts.hash(0)), (NAME.as_bytes(), 7));
                read += 1;
            };
            spill.read(1, each).unwrap();
            assert_eq!(read, 2);
            // The control: with the key the name is there.
            spill.stream.apply(0, &mut bytes).unwrap();
            assert!(holds(&bytes));
        }
        for (index, bytes) in written.iter().enumerate() {
            assert!(written[..index].iter().all(|other| other != bytes));
        }
    }

    /// Units and keys of every width come back, whatever else is in their part.
    #[test]
    fn rows_come_back_in_every_width() {
        let (layout, secret) = (Arc::new(Layout::new([None])), KeyedHash::new("secret", "spill"));
        let mut spill = Spill::new(1, Arc::clone(&layout), &secret).unwrap();
        let parts = [(1_u64 << 32, 255_u32), ((1 << 32) - 1, 256), (u64::MAX, u32::MAX - 1), (0, 0)];
        let mut expected = Vec::new();
        for (unit, key) in parts {
            let mut rows = Rows::default();
            rows.push(&layout, 5, 6, [i64::MAX].into_iter());
            rows.push(&layout, unit, key, [-1].into_iter());
            spill.write(0, &rows).unwrap();
            expected.push((vec![5, unit], vec![6, key], rows.values));
        }
        let mut read = Vec::new();
        spill.read(0, |rows| read.push((rows.units.clone(), rows.keys.clone(), rows.values.clone()))).unwrap();
        assert_eq!(read, expected);
    }
}
