//! Rows on disk, in a file without a name.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex};

use crate::rows::{Layout, Rows};

/// The buckets that did not fit memory.
///
/// # Privacy
/// The file has no name and no other process can open it; the space is free as soon as it is dropped or the process dies.
pub struct Spill {
    file: Mutex<File>,
    layout: Arc<Layout>,
    end: u64,
    /// For each bucket where its parts begin and how many rows they have.
    parts: Vec<Vec<(u64, usize)>>,
}

impl Spill {
    /// An empty file for so many buckets of rows with such value columns.
    ///
    /// # Errors
    /// A temporary folder that cannot be written.
    pub fn new(buckets: usize, layout: Arc<Layout>) -> io::Result<Self> {
        Ok(Self { file: Mutex::new(tempfile::tempfile()?), layout, end: 0, parts: vec![Vec::new(); buckets] })
    }

    /// The number of rows of a bucket.
    pub fn len(&self, bucket: usize) -> usize {
        self.parts[bucket].iter().map(|(_, rows)| rows).sum()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.end == 0
    }

    /// Appends rows to a bucket.
    ///
    /// # Errors
    /// A full disk.
    pub fn write(&mut self, bucket: usize, rows: &Rows) -> io::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let file = self.file.get_mut().map_err(|_| poisoned())?;
        file.seek(SeekFrom::Start(self.end))?;
        let mut file = BufWriter::with_capacity(1 << 16, file);
        rows.units.iter().try_for_each(|unit| file.write_all(&unit.to_le_bytes()))?;
        rows.keys.iter().try_for_each(|key| file.write_all(&key.to_le_bytes()))?;
        file.write_all(&rows.values)?;
        file.flush()?;
        self.parts[bucket].push((self.end, rows.len()));
        self.end += self.layout.bytes(rows.len()) as u64;
        Ok(())
    }

    /// Calls with each part of a bucket.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn read(&self, bucket: usize, mut each: impl FnMut(&Rows)) -> io::Result<()> {
        for (start, rows) in &self.parts[bucket] {
            let mut bytes = vec![0; self.layout.bytes(*rows)];
            {
                let mut file = self.file.lock().map_err(|_| poisoned())?;
                file.seek(SeekFrom::Start(*start))?;
                file.read_exact(&mut bytes)?;
            }
            let (units, rest) = bytes.split_at(rows * size_of::<u64>());
            let (keys, values) = rest.split_at(rows * size_of::<u32>());
            each(&Rows {
                units: units.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect(),
                keys: keys.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect(),
                values: values.to_vec(),
            });
        }
        Ok(())
    }
}

fn poisoned() -> io::Error {
    io::Error::other("another thread failed while it read spilled rows")
}
