//! How units, keys and values are written in the texts that are hashed.

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

fn write_integer(value: i64, text: &mut Vec<u8>) {
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

/// The most characters of a 64-bit integer, with its sign.
const DIGITS: usize = 20;

/// A number in decimal digits, at the end of a buffer; written for every group that is hashed, so without a formatter.
fn digits(mut rest: u64, negative: bool, buffer: &mut [u8; DIGITS]) -> &[u8] {
    let mut start = DIGITS;
    loop {
        start -= 1;
        buffer[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if negative {
        start -= 1;
        buffer[start] = b'-';
    }
    &buffer[start..]
}
