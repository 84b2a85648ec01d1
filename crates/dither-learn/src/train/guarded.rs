//! Work of other libraries that may panic on some texts: what it panics on has no result.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// The result of some work; nothing if it panics.
///
/// # Privacy
/// Whether it panics may depend on a row. A panic hook must say nothing of it: see [`is_guarded`].
pub fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    let before = GUARDED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work)).ok();
    GUARDED.set(before);
    result
}

/// Whether a panic of this thread would be caught by [`guarded`], so that nobody may see it.
pub fn is_guarded() -> bool {
    GUARDED.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_has_no_result_and_the_guard_ends_with_the_work() {
        assert_eq!(guarded(|| (1, is_guarded())), Some((1, true)));
        let inner = guarded(|| guarded(|| std::panic::resume_unwind(Box::new("a row"))).is_none() && is_guarded());
        assert_eq!((inner, is_guarded()), (Some(true), false));
    }
}
