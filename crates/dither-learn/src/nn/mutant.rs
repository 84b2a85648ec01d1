//! Seeded bugs: tests switch one on to show that they would notice it. The product has none.

/// What can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The last layer is missing in the norm.
    LayerMissing,
    /// The two uses of a tied table are squared as if they were orthogonal.
    NoCrossTerm,
    /// A token that stands twice in a sample counts as two rows.
    TokensTwice,
    /// One factor for the whole batch, from the norm of its sum.
    BatchClipped,
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
