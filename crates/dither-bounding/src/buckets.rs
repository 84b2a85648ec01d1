//! Rows by bucket: all rows of a unit meet in one.

use std::io;
use std::sync::Arc;

use crate::hash::KeyedHash;
use crate::rows::{DROPPED, Layout, Mapping, Rows, Share, Units};
use crate::select::{Rule, Scratch, prune};
use crate::spill::Spill;

/// The rows that one thread has read.
pub struct Buckets {
    layout: Arc<Layout>,
    buckets: Vec<Rows>,
    spill: Option<Spill>,
    /// The rows of a batch before they are dealt out.
    written: Vec<u8>,
}

impl Buckets {
    /// How many buckets there are: at ten million rows one fits a cache, and a hundred million make no large one.
    pub const COUNT: usize = 256;

    /// Empty buckets of rows with such value columns.
    pub fn new(layout: Arc<Layout>) -> Self {
        Self { layout, buckets: vec![Rows::default(); Self::COUNT], spill: None, written: Vec::new() }
    }

    /// Adds rows: their units, keys and one array for each value column. Dropped keys are left out.
    pub fn push(&mut self, units: Units<'_>, keys: &[u32], values: &[Vec<i64>]) {
        let apart = self.layout.write_all(keys, values, &mut self.written);
        for (row, (spread, key)) in units.spread().iter().zip(keys).enumerate() {
            if *key != DROPPED {
                let bucket = &mut self.buckets[bucket_of(*spread)];
                let unit = bucket.unit_of(units, row);
                bucket.push_of(&self.layout, unit, &self.written[row * apart..]);
            }
        }
    }

    /// The bytes of the rows in memory, with what their units stand for.
    pub fn size(&self) -> usize {
        self.buckets.iter().map(|rows| rows.size(&self.layout)).sum()
    }

    /// Leaves out rows that cannot be kept, unless one bucket of sixteen shows that it would not leave out half of them; all
    /// of a bucket stay where there are too many to be numbered.
    pub fn prune(&mut self, rule: &Rule<'_>, scratch: &mut Scratch) {
        let mut pruned = |buckets: &mut [Rows]| {
            let rows = |buckets: &[Rows]| buckets.iter().map(Rows::len).sum::<usize>();
            let before = rows(buckets);
            let numbered = buckets.iter_mut().filter(|rows| u32::try_from(rows.len()).is_ok());
            numbered.for_each(|rows| prune(rows, rule, scratch));
            rows(buckets) <= before / 2
        };
        let skewed = self.is_skewed();
        let (some, rest) = self.buckets.split_at_mut(Self::COUNT / 16);
        if pruned(some) || skewed {
            pruned(rest);
        }
    }

    /// Whether one bucket in memory is so much larger than the others that some unit must own much of it, and pruning
    /// pays: eight times the mean and more than chance makes of few rows.
    pub fn is_skewed(&self) -> bool {
        let largest = self.buckets.iter().map(Rows::len).max().unwrap_or(0);
        largest > 8 * self.mean() + 1024
    }

    /// The mean number of rows of a bucket in memory.
    fn mean(&self) -> usize {
        self.buckets.iter().map(Rows::len).sum::<usize>() / Self::COUNT
    }

    /// Writes all rows to a file without a name and forgets them. They are enciphered with a key that follows from the
    /// secret of the request.
    ///
    /// # Errors
    /// A full disk, and whatever else keeps a temporary file from being written.
    pub fn spill(&mut self, secret: &KeyedHash) -> io::Result<()> {
        let usual = 2 * self.mean();
        let spill = match &mut self.spill {
            Some(spill) => spill,
            None => self.spill.insert(Spill::new(Self::COUNT, Arc::clone(&self.layout), secret)?),
        };
        for (bucket, rows) in self.buckets.iter_mut().enumerate() {
            let large = rows.len() > usual;
            spill.write(bucket, rows)?;
            // The memory is needed again, but for what one large unit took.
            if large {
                *rows = Rows::default();
            }
        }
        Ok(())
    }

    /// The number of rows of a bucket, those on disk included.
    pub fn len(&self, bucket: usize) -> usize {
        self.buckets[bucket].len() + self.spill.as_ref().map_or(0, |spill| spill.len(bucket))
    }

    /// The bytes of the rows of a bucket, those on disk included.
    pub fn bucket_size(&self, bucket: usize) -> usize {
        self.buckets[bucket].size(&self.layout) + self.spill.as_ref().map_or(0, |spill| spill.size(bucket))
    }

    /// Whether a bucket has no rows.
    pub fn is_empty(&self, bucket: usize) -> bool {
        self.len(bucket) == 0
    }

    /// Adds a share of the rows of a bucket to others, as [`Rows::append`] does, and calls after each part.
    ///
    /// # Errors
    /// A temporary file that cannot be read.
    pub fn collect(
        &self,
        bucket: usize,
        mapping: &Mapping,
        share: Share,
        into: &mut Rows,
        mut after: impl FnMut(&mut Rows),
    ) -> io::Result<()> {
        if let Some(spill) = &self.spill {
            spill.read(bucket, into, mapping, share, &mut after)?;
        }
        into.append(&self.buckets[bucket], &self.layout, mapping, share);
        after(into);
        Ok(())
    }
}

/// The bucket of a number: the high bits of a product that mixes all bits (Knuth's multiplicative hashing).
fn bucket_of(spread: u64) -> usize {
    (spread.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}
