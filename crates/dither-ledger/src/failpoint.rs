//! Places where the tests of this crate stop the process. Outside of them there are none.

/// Does nothing.
#[cfg(not(test))]
pub(crate) fn hit(_name: &str) {}

/// Dies on the spot if the environment asks for it here: `name passes`, where `passes` hits are let through.
#[cfg(test)]
pub(crate) fn hit(name: &str) {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static HITS: AtomicUsize = AtomicUsize::new(0);
    let Ok(wanted) = std::env::var("DITHER_TEST_FAILPOINT") else { return };
    if let Some((place, passes)) = wanted.split_once(' ')
        && place == name
        && passes == HITS.fetch_add(1, Ordering::SeqCst).to_string()
    {
        std::process::abort();
    }
}
