//! Rows by bucket: all rows of a unit meet in one.

use std::io;
use std::sync::Arc;

use crate::rows::{DROPPED, Layout, Rows};
use crate::select::{Rule, Scratch, prune};
use crate::spill::Spill;

/// The rows that one thread has read.
pub struct Buckets {
    layout: Arc<Layout>,
    buckets: Vec<Rows>,
    rows: usize,
    spill: Option<Spill>,
}

impl Buckets {
    /// How many buckets there are: at ten million rows one fits a cache, and a hundred million make no large one.
    pub const COUNT: usize = 256;

    /// Empty buckets of rows with such value columns.
    pub fn new(layout: Arc<Layout>) -> Self {
        Self { layout, buckets: vec![Rows::default(); Self::COUNT], rows: 0, spill: None }
    }

    /// Adds rows: their units, keys and one array for each value column. Dropped keys are left out.
    ///
    /// `spread` decides the buckets. It must be the same for all rows of a unit, in all readers: where units have other
    /// numbers in other readers it is not the number, but a hash of what the number stands for.
    pub fn push(&mut self, units: &[u64], spread: &[u64], keys: &[u32], values: &[Vec<i64>]) {
        for (row, ((unit, spread), key)) in units.iter().zip(spread).zip(keys).enumerate() {
            if *key != DROPPED {
                self.buckets[bucket_of(*spread)].push(
                    &self.layout,
                    *unit,
                    *key,
                    values.iter().map(|column| column[row]),
                );
                self.rows += 1;
            }
        }
    }

    /// The bytes of the rows in memory.
    pub fn size(&self) -> usize {
        self.layout.bytes(self.rows)
    }

    /// Leaves out rows that cannot be kept; all of a bucket stay where there are too many to be numbered.
    pub fn prune(&mut self, rule: &Rule<'_>, scratch: &mut Scratch) {
        let numbered = self.buckets.iter_mut().filter(|rows| u32::try_from(rows.len()).is_ok());
        numbered.for_each(|rows| prune(rows, rule, scratch));
        self.rows = self.buckets.iter().map(Rows::len).sum();
    }

    /// Whether one bucket in memory is so much larger than the others that some unit must own much of it, and pruning
    /// pays: eight times the mean and more than chance makes of few rows.
    pub fn is_skewed(&self) -> bool {
        let largest = self.buckets.iter().map(Rows::len).max().unwrap_or(0);
        largest > 8 * (self.rows / Self::COUNT) + 1024
    }

    /// Writes all rows to a file without a name and forgets them.
    ///
    /// # Errors
    /// A full disk, and whatever else keeps a temporary file from being written.
    pub fn spill(&mut self) -> io::Result<()> {
        let spill = match &mut self.spill {
            Some(spill) => spill,
            None => self.spill.insert(Spill::new(Self::COUNT, Arc::clone(&self.layout))?),
        };
        for (bucket, rows) in self.buckets.iter_mut().enumerate() {
            spill.write(bucket, rows)?;
            *rows = Rows::default();
        }
        self.rows = 0;
        Ok(())
    }

    /// The number of rows of a bucket, those on disk included.
    pub fn len(&self, bucket: usize) -> usize {
        self.buckets[bucket].len() + self.spill.as_ref().map_or(0, |spill| spill.len(bucket))
    }

    /// Whether a bucket has no rows.
    pub fn is_empty(&self, bucket: usize) -> bool {
        self.len(bucket) == 0
    }

    /// Calls with the rows of a bucket, part by part.
    ///
    /// # Errors
    /// A temporary file that cannot be read.
    pub fn for_each(&self, bucket: usize, mut each: impl FnMut(&Rows)) -> io::Result<()> {
        if let Some(spill) = &self.spill {
            spill.read(bucket, &mut each)?;
        }
        each(&self.buckets[bucket]);
        Ok(())
    }
}

/// The bucket of a number: the high bits of a product that mixes all bits (Knuth's multiplicative hashing).
fn bucket_of(spread: u64) -> usize {
    (spread.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}
