//! Texts that are hashed, written for millions of rows.

/// A text and room for more. Digits are written as whole words: what a word has beyond them is overwritten by what comes next.
#[derive(Debug, Default, Clone)]
pub(crate) struct Text {
    bytes: Vec<u8>,
    end: usize,
}

const WORD: usize = size_of::<u64>();

/// More than a sign, the twenty digits of 64 bits, and a word.
const ROOM: usize = 4 * WORD;

impl Text {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.end]
    }

    pub(crate) fn len(&self) -> usize {
        self.end
    }

    /// Its size in bytes.
    pub(crate) fn size(&self) -> usize {
        self.bytes.capacity()
    }

    /// Forgets what comes after so many bytes.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.end = self.end.min(length);
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len());
        self.bytes[self.end..][..bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }

    /// A value that is not there.
    pub(crate) fn null(&mut self) {
        self.extend(b"N");
    }

    /// The decimal digits of an integer after a space, without a formatter.
    pub(crate) fn integer(&mut self, value: i64) {
        self.make_room(ROOM);
        match value < 0 {
            true => self.put(u16::from_le_bytes(*b" -").into(), 2),
            false => self.put(b' '.into(), 1),
        }
        self.digits(value.unsigned_abs());
    }

    /// A text of so many letters after their number.
    pub(crate) fn delimited(&mut self, letters: usize, text: &[u8]) {
        self.make_room(ROOM);
        self.put(b' '.into(), 1);
        self.digits(letters as u64);
        self.put(b':'.into(), 1);
        self.extend(text);
    }

    fn digits(&mut self, number: u64) {
        if number < EIGHT_DIGITS {
            let digits = eight_digits(number as u32);
            // Those before the first digit that counts, which may be a zero itself.
            let zeros = (digits.trailing_zeros() / 8).min(7);
            self.put((digits | ZEROS) >> (8 * zeros), WORD - zeros as usize);
        } else {
            self.digits(number / EIGHT_DIGITS);
            self.put(eight_digits((number % EIGHT_DIGITS) as u32) | ZEROS, WORD);
        }
    }

    /// The first bytes of a word; there is room for all of it.
    fn put(&mut self, word: u64, bytes: usize) {
        if let Some(next) = self.bytes[self.end..].first_chunk_mut() {
            *next = word.to_le_bytes();
        }
        self.end += bytes;
    }

    fn make_room(&mut self, bytes: usize) {
        if self.bytes.len() < self.end + bytes {
            self.bytes.resize(2 * (self.end + bytes), 0);
        }
    }
}

const EIGHT_DIGITS: u64 = 100_000_000;
/// Eight digits zero.
const ZEROS: u64 = u64::from_le_bytes(*b"00000000");

/// Eight digits of a number, a byte each, the first in the lowest: halves, then quarters, then digits side by side. None of
/// these products and sums is greater than its place.
fn eight_digits(number: u32) -> u64 {
    let fours = u64::from(number / 10_000) | u64::from(number % 10_000) << 32;
    // Quotients by 100 of numbers below 10,000, and by 10 of numbers below 100.
    let hundreds = (fours.wrapping_mul(10_486) >> 20) & 0x7f_0000_007f;
    let twos = hundreds | fours.wrapping_sub(hundreds.wrapping_mul(100)) << 16;
    let tens = (twos.wrapping_mul(103) >> 10) & 0x000f_000f_000f_000f;
    tens | twos.wrapping_sub(tens.wrapping_mul(10)) << 8
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(value: i64) -> String {
        let mut text = Text::default();
        text.integer(value);
        String::from_utf8(text.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn numbers_below_a_hundred_thousand_are_written_as_they_are() {
        for value in 0..100_000 {
            assert_eq!(written(value), format!(" {value}"));
        }
    }

    proptest! {
        #[test]
        fn integers_are_written_as_they_are(value in any::<i64>(), digits in 0..19_u32, near in -2..3_i64) {
            let power = 10_i64.pow(digits);
            for value in [value, value % power, power + near, -power + near, i64::MIN, i64::MAX] {
                prop_assert_eq!(written(value), format!(" {value}"));
            }
        }
    }
}
