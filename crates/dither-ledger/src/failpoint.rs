//! Places where the tests of this crate stop the process. Outside of them there are none.

/// Does nothing.
#[cfg(not(test))]
pub(crate) fn hit(_name: &str) {}

/// Dies like `kill -9` if the environment asks for it at this place.
#[cfg(test)]
pub(crate) fn hit(name: &str) {
    if std::env::var("DITHER_TEST_FAILPOINT").is_ok_and(|wanted| wanted == name) {
        std::process::abort();
    }
}
