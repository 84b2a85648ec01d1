//! How units, keys and values are written in the texts that are hashed.

use hashbrown::HashTable;

/// Texts that say how long they are, by number.
#[derive(Debug, Default, Clone)]
pub struct Dictionary {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Dictionary {
    /// Adds the text of the next number, made of these parts; `None` is NULL.
    ///
    /// ```
    /// let mut dictionary = dither_bounding::Dictionary::default();
    /// dictionary.push([Some("été"), None]);
    /// assert_eq!(dictionary.text(0), " 3:étéN".as_bytes());
    /// ```
    pub fn push<'a>(&mut self, parts: impl IntoIterator<Item = Option<&'a str>>) {
        for part in parts {
            match part {
                None => self.bytes.push(b'N'),
                Some(text) => {
                    delimit(text.chars().count(), &mut self.bytes);
                    self.bytes.extend_from_slice(text.as_bytes());
                }
            }
        }
        self.ends.push(self.bytes.len());
    }

    /// The text of a number that was given one.
    pub fn text(&self, number: usize) -> &[u8] {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.bytes[start..self.ends[number]]
    }

    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Its size in bytes.
    pub fn size(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}

/// What the integers of a column stand for.
#[derive(Debug, Clone)]
pub enum Names {
    /// Themselves.
    Integers,
    /// The texts of a dictionary.
    Texts(Dictionary),
}

impl Names {
    /// Writes what an integer stands for.
    pub(crate) fn write(&self, value: i64, text: &mut Vec<u8>) {
        match self {
            Self::Integers => write_integer(value, text),
            Self::Texts(dictionary) => text.extend_from_slice(dictionary.text(value as usize)),
        }
    }
}

/// The units of some rows that are texts, numbered in the order of their appearance.
#[derive(Debug, Default, Clone)]
pub(crate) struct Texts {
    bytes: Vec<u8>,
    /// For each number where its text ends, and the hash that it was found by.
    ends: Vec<usize>,
    hashes: Vec<u64>,
    numbers: HashTable<u32>,
}

impl Texts {
    /// The number of a text with this hash, which is the same wherever the text appears.
    pub(crate) fn number(&mut self, hash: u64, text: &[u8]) -> u32 {
        let known = self.numbers.find(hash, |number| {
            let number = *number as usize;
            self.hashes[number] == hash && self.text(number) == text
        });
        if let Some(number) = known {
            return *number;
        }
        // No bucket has 2^32 rows.
        let number = self.ends.len() as u32;
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
        self.hashes.push(hash);
        let Self { hashes, numbers, .. } = self;
        numbers.insert_unique(hash, number, |number| hashes[*number as usize]);
        number
    }

    pub(crate) fn text(&self, number: usize) -> &[u8] {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.bytes[start..self.ends[number]]
    }

    pub(crate) fn hash(&self, number: usize) -> u64 {
        self.hashes[number]
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Their size in bytes.
    pub(crate) fn size(&self) -> usize {
        Self::bytes(self.len(), self.bytes.len())
    }

    /// The size of so many texts that have so many bytes together.
    pub(crate) fn bytes(texts: usize, bytes: usize) -> usize {
        // Half of the places in the table are free, when it was just doubled even more.
        bytes + texts * (size_of::<usize>() + size_of::<u64>() + 2 * (size_of::<u32>() + 1))
    }

    /// Their hashes, where each ends, and all of them.
    pub(crate) fn parts(&self) -> (&[u64], &[usize], &[u8]) {
        (&self.hashes, &self.ends, &self.bytes)
    }

    /// Texts to be read, not to be added to.
    pub(crate) fn of(hashes: Vec<u64>, ends: Vec<usize>, bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), ends, hashes, numbers: HashTable::new() }
    }

    /// Forgets all of them and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.hashes.clear();
        self.numbers.clear();
    }

    /// Writes the text of a number as it is hashed.
    pub(crate) fn write(&self, number: usize, into: &mut Vec<u8>) {
        let text = self.text(number);
        // Letters are counted by their first bytes.
        delimit(text.iter().filter(|byte| **byte & 0xc0 != 0x80).count(), into);
        into.extend_from_slice(text);
    }
}

pub(crate) fn write_integer(value: i64, text: &mut Vec<u8>) {
    let mut buffer = [0; DIGITS];
    let digits = digits(value.unsigned_abs(), value < 0, &mut buffer);
    delimit(digits.len(), text);
    text.extend_from_slice(digits);
}

fn delimit(length: usize, text: &mut Vec<u8>) {
    text.push(b' ');
    text.extend_from_slice(digits(length as u64, false, &mut [0; DIGITS]));
    text.push(b':');
}

/// The most characters of a 64-bit integer: twenty digits, or nineteen with a sign, and one that is overwritten.
const DIGITS: usize = 21;

/// The digits of the numbers below a hundred.
const PAIRS: [u8; 200] = {
    let (mut pairs, mut number) = ([0; 200], 0);
    while number < 100 {
        pairs[2 * number] = b'0' + (number / 10) as u8;
        pairs[2 * number + 1] = b'0' + (number % 10) as u8;
        number += 1;
    }
    pairs
};

/// A number in decimal digits, at the end of a buffer; written for every group that is hashed, so without a formatter.
fn digits(mut rest: u64, negative: bool, buffer: &mut [u8; DIGITS]) -> &[u8] {
    let mut start = DIGITS;
    while rest >= 100 {
        let pair = 2 * (rest % 100) as usize;
        rest /= 100;
        start -= 2;
        buffer[start..start + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    let pair = 2 * rest as usize;
    buffer[start - 2..start].copy_from_slice(&PAIRS[pair..pair + 2]);
    start -= if rest < 10 { 1 } else { 2 };
    if negative {
        start -= 1;
        buffer[start] = b'-';
    }
    &buffer[start..]
}
