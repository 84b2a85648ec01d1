//! Memory of one batch that serves the next one.
//!
//! A step needs the same arrays again and again. The system takes large ones back when they are dropped, and fills the
//! next ones with zeros page by page, which took up to half of the time of a step. So they are kept here, and never more
//! of them than were in use at once.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

/// Numbers that are kept for others when they are dropped.
#[derive(Debug, Default)]
pub struct Buffer(Vec<f32>);

/// What is kept.
struct Kept {
    /// By capacity.
    free: BTreeMap<usize, Vec<Vec<f32>>>,
    /// Numbers that fit into what is kept.
    kept: usize,
    /// Numbers that fit into what is in use.
    used: usize,
    /// The most that was in use.
    most: usize,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept { free: BTreeMap::new(), kept: 0, used: 0, most: 0 });

/// Smaller ones are left to the allocator: 64 KiB.
const SMALLEST: usize = 1 << 14;

impl Buffer {
    /// So many zeros.
    pub fn zeros(length: usize) -> Self {
        let mut buffer = Self::with_capacity(length);
        buffer.resize(length, 0.0);
        buffer
    }

    /// So many numbers, whatever they are, for somebody who overwrites all of them.
    ///
    /// They may be those of another batch. Tests get NaN, so that one who reads them is noticed.
    pub fn dirty(length: usize) -> Self {
        let mut buffer = Self::with_room(length);
        buffer.resize(length, 0.0);
        if cfg!(test) {
            buffer.fill(f32::NAN);
        }
        buffer
    }

    /// A copy.
    pub fn copy(numbers: &[f32]) -> Self {
        Self::repeat(numbers, 1)
    }

    /// Copies, one after the other.
    pub fn repeat(numbers: &[f32], times: usize) -> Self {
        let mut buffer = Self::with_capacity(numbers.len() * times);
        (0..times).for_each(|_| buffer.extend_from_slice(numbers));
        buffer
    }

    /// Nothing yet, with room for so many.
    pub fn with_capacity(length: usize) -> Self {
        let mut buffer = Self::with_room(length);
        buffer.clear();
        buffer
    }

    /// Room for so many, with what was left there.
    fn with_room(length: usize) -> Self {
        if length < SMALLEST {
            return Self(Vec::with_capacity(length));
        }
        // An eighth more at most, so that batches of about one size share them.
        let capacity = length.next_multiple_of(1 << (length.ilog2() - 3));
        Self(with(|kept| kept.take(capacity)))
    }
}

/// Gives what is kept back to the system.
pub fn give_back() {
    with(|kept| {
        kept.free.clear();
        (kept.kept, kept.most) = (0, kept.used);
    });
}

fn with<R>(run: impl FnOnce(&mut Kept) -> R) -> R {
    run(&mut KEPT.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Kept {
    fn take(&mut self, capacity: usize) -> Vec<f32> {
        self.used += capacity;
        self.most = self.most.max(self.used);
        if let Some(numbers) = self.free.get_mut(&capacity).and_then(Vec::pop) {
            self.kept -= capacity;
            return numbers;
        }
        // Of other sizes, as much as is in use now beyond the most that ever was.
        while self.used + self.kept > self.most {
            let Some(mut largest) = self.free.last_entry() else { break };
            match largest.get_mut().pop() {
                Some(_) => self.kept -= *largest.key(),
                None => drop(largest.remove()),
            }
        }
        Vec::with_capacity(capacity)
    }

    fn give(&mut self, numbers: Vec<f32>) {
        let capacity = numbers.capacity();
        // Others can only have grown by what was added to them.
        self.used = self.used.saturating_sub(capacity);
        if self.used + self.kept + capacity <= self.most {
            self.kept += capacity;
            self.free.entry(capacity).or_default().push(numbers);
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.0.capacity() >= SMALLEST {
            let numbers = std::mem::take(&mut self.0);
            with(|kept| kept.give(numbers));
        }
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        Self::copy(self)
    }
}

impl Deref for Buffer {
    type Target = Vec<f32>;

    fn deref(&self) -> &Vec<f32> {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Vec<f32> {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_as_they_are_asked_for_and_no_more_are_kept_than_were_in_use() {
        let mut kept = Kept { free: BTreeMap::new(), kept: 0, used: 0, most: 0 };
        let (a, b) = (kept.take(100), kept.take(50));
        kept.give(a);
        assert_eq!((kept.kept, kept.used, kept.most), (100, 50, 150));
        // Another size: what was kept makes room for it.
        let c = kept.take(120);
        assert_eq!((kept.kept, kept.used, kept.most), (0, 170, 170));
        kept.give(b);
        kept.give(c);
        assert_eq!((kept.kept, kept.take(50).capacity(), kept.kept), (170, 50, 120));

        let mut buffer = Buffer::zeros(100_000);
        buffer.fill(1.0);
        drop(buffer);
        assert!(Buffer::zeros(100_001).iter().all(|x| *x == 0.0));
        assert!(Buffer::dirty(100_000).iter().all(|x| x.is_nan()) && Buffer::with_capacity(100_000).is_empty());
        assert_eq!(**Buffer::repeat(&[1.0, 2.0], 2), [1.0, 2.0, 1.0, 2.0]);
    }
}
