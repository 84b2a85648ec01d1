//! Which positions of a layer belong to which sample.

use std::ops::Range;

/// Consecutive ranges that begin with 0: those of samples, or of sequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spans(Vec<usize>);

impl Spans {
    /// Spans between these ends, which begin with 0 and do not fall.
    pub fn new(ends: &[usize]) -> Option<Self> {
        (ends.first() == Some(&0) && ends.is_sorted()).then(|| Self(ends.to_vec()))
    }

    /// Spans of these lengths.
    pub fn of_lengths(lengths: &[usize]) -> Self {
        let mut ends = vec![0];
        let mut end = 0;
        ends.extend(lengths.iter().map(|length| {
            end += length;
            end
        }));
        Self(ends)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len() - 1
    }

    /// Where the last ends.
    pub fn total(&self) -> usize {
        self.0[self.len()]
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Range<usize>> {
        self.0.windows(2).map(|pair| pair[0]..pair[1])
    }

    /// The same where every position is `factor` of them.
    pub fn times(&self, factor: usize) -> Self {
        Self(self.0.iter().map(|end| end * factor).collect())
    }

    /// The same where position i stands for all of `inner` i.
    pub fn over(&self, inner: &Spans) -> Self {
        Self(self.0.iter().map(|&end| inner.0[end]).collect())
    }
}
