//! The hash chain: what each entry commits to.

use sha2::{Digest, Sha256};

const GENESIS: &[u8] = b"dither ledger genesis, format 1";
const ENTRY: &[u8] = b"dither ledger entry, format 1";
const ANSWER: &[u8] = b"dither ledger answer, format 1";

/// The head of an empty ledger: a commitment to its random identity.
pub(crate) fn genesis(ledger_id: &str) -> String {
    digest(&[GENESIS, ledger_id.as_bytes()])
}

/// The head after an entry: a commitment to its content and to everything before it.
pub(crate) fn link(previous: &str, sequence: u64, body: &str) -> String {
    digest(&[ENTRY, previous.as_bytes(), &sequence.to_be_bytes(), body.as_bytes()])
}

/// The digest of an answer, which its release entry commits to.
pub(crate) fn answer(bytes: &[u8]) -> String {
    digest(&[ANSWER, bytes])
}

/// SHA-256 of the fields, each behind its length, so that no two lists of fields collide.
fn digest(fields: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for field in fields {
        hasher.update((field.len() as u64).to_be_bytes());
        hasher.update(field);
    }
    hex(&hasher.finalize())
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|nibble| char::from(b"0123456789abcdef"[nibble as usize]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn du_09_fields_and_kinds_cannot_be_shifted_into_each_other() {
        assert_ne!(digest(&[b"ab", b"c"]), digest(&[b"a", b"bc"]));
        assert_ne!(genesis("x"), answer(b"x"));
        assert_ne!(link("p", 1, "12"), link("p1", 1, "2"));
    }

    /// Golden values, computed with `hashlib.sha256` of CPython 3 over the fields as documented.
    #[test]
    fn the_chain_of_format_1_never_changes() {
        assert_eq!(genesis("00"), "9657e68f0dddb1ffe53956d3e1caed6359205ed564b7f8280377190c0c65e7c1");
        assert_eq!(link(&genesis("00"), 1, "{}"), "2d2a9a0b3478449f712de877902246cb6724564607b33de7029871f8481db072");
    }
}
