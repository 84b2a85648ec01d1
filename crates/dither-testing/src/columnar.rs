//! Parquet files without a library: columns of 64-bit integers and of texts, plain and uncompressed, none of them NULL.
//!
//! The format is that of <https://github.com/apache/parquet-format>; its headers are in the compact protocol of Thrift.

use std::path::Path;

/// The values of a column.
pub enum Values {
    /// Integers.
    Integers(Vec<i64>),
    /// Texts.
    Texts(Vec<String>),
}

/// Writes a file of one row group.
///
/// # Panics
/// Columns of different lengths, and a file that cannot be written.
pub fn write_parquet(path: &Path, columns: &[(&str, Values)]) {
    let rows = columns.first().map_or(0, |(_, values)| values.len());
    assert!(columns.iter().all(|(_, values)| values.len() == rows), "columns have one length");
    let mut file = b"PAR1".to_vec();
    let mut chunks = Vec::new();
    for (name, values) in columns {
        let (start, data) = (file.len(), values.plain());
        file.extend(page_header(rows, data.len()));
        file.extend(data);
        chunks.push(chunk(name, values, rows, start, file.len() - start));
    }
    let footer = metadata(columns, rows, chunks);
    let length = u32::try_from(footer.len()).unwrap_or(u32::MAX);
    file.extend(footer);
    file.extend(length.to_le_bytes());
    file.extend(b"PAR1");
    std::fs::write(path, file).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::Integers(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    /// The number of the physical type: INT64 or BYTE_ARRAY.
    fn physical(&self) -> i64 {
        match self {
            Self::Integers(_) => 2,
            Self::Texts(_) => 6,
        }
    }

    fn plain(&self) -> Vec<u8> {
        match self {
            Self::Integers(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Self::Texts(values) => {
                let text = |text: &String| [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
                values.iter().flat_map(text).collect()
            }
        }
    }
}

/// A struct of Thrift: its fields in rising order of their numbers.
#[derive(Default)]
struct Fields {
    bytes: Vec<u8>,
    last: u8,
}

impl Fields {
    fn field(mut self, number: u8, kind: u8, value: &[u8]) -> Self {
        self.bytes.push((number - self.last) << 4 | kind);
        self.bytes.extend(value);
        self.last = number;
        self
    }

    /// A 32-bit integer or an enumeration, whose form is that of a 64-bit one.
    fn int(self, number: u8, value: i64) -> Self {
        self.field(number, 5, &zigzag(value))
    }

    fn long(self, number: u8, value: i64) -> Self {
        self.field(number, 6, &zigzag(value))
    }

    fn text(self, number: u8, text: &str) -> Self {
        self.field(number, 8, &binary(text))
    }

    fn list(self, number: u8, kind: u8, values: &[Vec<u8>]) -> Self {
        let head = match values.len() {
            few @ 0..=14 => vec![(few as u8) << 4 | kind],
            many => [vec![0xf0 | kind], varint(many as u64)].concat(),
        };
        self.field(number, 9, &[head, values.concat()].concat())
    }

    fn nested(self, number: u8, fields: Self) -> Self {
        self.field(number, 12, &fields.end())
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn zigzag(value: i64) -> Vec<u8> {
    varint(((value << 1) ^ (value >> 63)) as u64)
}

fn binary(text: &str) -> Vec<u8> {
    [varint(text.len() as u64), text.as_bytes().to_vec()].concat()
}

/// A data page of plain values; levels, of which there are none, in RLE.
fn page_header(rows: usize, bytes: usize) -> Vec<u8> {
    let page = Fields::default().int(1, rows as i64).int(2, 0).int(3, 3).int(4, 3);
    Fields::default().int(1, 0).int(2, bytes as i64).int(3, bytes as i64).nested(5, page).end()
}

fn chunk(name: &str, values: &Values, rows: usize, start: usize, bytes: usize) -> Vec<u8> {
    let column = Fields::default()
        .int(1, values.physical())
        .list(2, 5, &[zigzag(0)])
        .list(3, 8, &[binary(name)])
        .int(4, 0)
        .long(5, rows as i64)
        .long(6, bytes as i64)
        .long(7, bytes as i64)
        .long(9, start as i64);
    Fields::default().long(2, start as i64).nested(3, column).end()
}

fn metadata(columns: &[(&str, Values)], rows: usize, chunks: Vec<Vec<u8>>) -> Vec<u8> {
    let mut schema = vec![Fields::default().text(4, "schema").int(5, columns.len() as i64).end()];
    for (name, values) in columns {
        let required = Fields::default().int(1, values.physical()).int(3, 0).text(4, name);
        // Texts are in UTF-8.
        schema.push(if values.physical() == 6 { required.int(6, 0) } else { required }.end());
    }
    let bytes = chunks.iter().map(Vec::len).sum::<usize>() as i64;
    let group = Fields::default().list(1, 12, &chunks).long(2, bytes).long(3, rows as i64).end();
    Fields::default().int(1, 1).list(2, 12, &schema).long(3, rows as i64).list(4, 12, &[group]).end()
}
