//! Seeded bugs of the trainer: tests switch one on to show that they would notice it. The product has none.

/// What can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A step whose sample is empty changes nothing.
    EmptySkipped,
    /// Noisy sums are divided by the size of the sample.
    DividedBySample,
    /// The rows of a unit are units of their own.
    UnitsApart,
    /// The gradient of a unit is added as it is.
    NotClipped,
    /// A gradient that is not finite is added.
    NotFiniteCounts,
    /// Two steps share one stream of coins.
    CoinsReused,
}

#[cfg(test)]
thread_local! {
    /// What is broken in this thread.
    pub static ACTIVE: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Whether this is broken now.
#[cfg(test)]
pub fn is(mutant: Mutant) -> bool {
    ACTIVE.get() == Some(mutant)
}

/// Whether this is broken now: never.
#[cfg(not(test))]
#[inline(always)]
pub fn is(_: Mutant) -> bool {
    false
}
