//! How units, keys and values are written in the texts that are hashed.

use hashbrown::HashTable;

use crate::text::Text;

/// A value as it is written in the texts that are hashed: self-delimiting for readers who know which columns hold integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// `N`.
    Null,
    /// The decimal digits of an integer, after a space.
    Integer(&'a str),
    /// Any other text, after its number of letters.
    Text(&'a str),
}

/// Texts that are parts of what is hashed, by number.
#[derive(Debug, Default, Clone)]
pub struct Dictionary {
    text: Text,
    ends: Vec<usize>,
}

impl Dictionary {
    /// Adds the text of the next number, made of these parts.
    ///
    /// ```
    /// use dither_bounding::{Dictionary, Part};
    /// let mut dictionary = Dictionary::default();
    /// dictionary.push([Part::Text("été"), Part::Null, Part::Integer("-7")]);
    /// assert_eq!(dictionary.text(0), " 3:étéN -7".as_bytes());
    /// ```
    pub fn push<'a>(&mut self, parts: impl IntoIterator<Item = Part<'a>>) {
        for part in parts {
            match part {
                Part::Null => self.text.null(),
                Part::Integer(digits) => {
                    self.text.extend(b" ");
                    self.text.extend(digits.as_bytes());
                }
                Part::Text(text) => self.text.delimited(text.chars().count(), text.as_bytes()),
            }
        }
        self.ends.push(self.text.len());
    }

    /// The text of a number that was given one.
    pub fn text(&self, number: usize) -> &[u8] {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.text.as_bytes()[start..self.ends[number]]
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
        self.text.size() + self.ends.capacity() * size_of::<usize>()
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
    pub(crate) fn write(&self, value: i64, text: &mut Text) {
        match self {
            Self::Integers => text.integer(value),
            Self::Texts(dictionary) => text.extend(dictionary.text(value as usize)),
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
    pub(crate) fn write(&self, number: usize, into: &mut Text) {
        let text = self.text(number);
        // Letters are counted by their first bytes.
        into.delimited(text.iter().filter(|byte| **byte & 0xc0 != 0x80).count(), text);
    }
}
