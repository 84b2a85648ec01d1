//! Rows in flat arrays.

/// The integer that stands for NULL in a value column. No lattice reaches it.
pub const NULL: i64 = i64::MIN;
/// The key of rows that do not count.
pub const DROPPED: u32 = u32::MAX;

/// Rows of a unit, a key and some integers each.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Rows {
    pub(crate) units: Vec<u64>,
    pub(crate) keys: Vec<u32>,
    /// Row by row.
    pub(crate) values: Vec<i64>,
}

/// How the numbers of one dictionary are written in another.
#[derive(Debug, Default)]
pub struct Mapping {
    /// For each number of a unit its new one; `None` where units are themselves.
    pub units: Option<Vec<u64>>,
    /// For each number of a key its new one, or [`DROPPED`].
    pub keys: Vec<u32>,
    /// The same for each value column.
    pub values: Vec<Option<Vec<i64>>>,
}

impl Rows {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.units.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// The bytes that so many rows take.
    pub fn bytes(rows: usize, columns: usize) -> usize {
        rows * (size_of::<u64>() + size_of::<u32>() + columns * size_of::<i64>())
    }

    pub(crate) fn push(&mut self, unit: u64, key: u32, values: impl Iterator<Item = i64>) {
        self.units.push(unit);
        self.keys.push(key);
        self.values.extend(values);
    }

    pub(crate) fn row(&self, row: usize, columns: usize) -> &[i64] {
        &self.values[row * columns..(row + 1) * columns]
    }

    /// Forgets all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.units.clear();
        self.keys.clear();
        self.values.clear();
    }

    /// Appends rows under new numbers; rows whose key is dropped are left out.
    pub fn append(&mut self, other: &Self, mapping: &Mapping) {
        let columns = if other.is_empty() { 0 } else { other.values.len() / other.len() };
        let mapped = mapping.values.iter().any(Option::is_some);
        self.units.reserve(other.len());
        self.keys.reserve(other.len());
        self.values.reserve(other.values.len());
        for row in 0..other.len() {
            let key = mapping.keys[other.keys[row] as usize];
            if key == DROPPED {
                continue;
            }
            let unit = other.units[row];
            self.units.push(mapping.units.as_ref().map_or(unit, |units| units[unit as usize]));
            self.keys.push(key);
            let values = other.row(row, columns);
            if mapped {
                let renamed = values.iter().zip(&mapping.values).map(|(value, names)| match names {
                    Some(names) if *value != NULL => names[*value as usize],
                    _ => *value,
                });
                self.values.extend(renamed);
            } else {
                self.values.extend_from_slice(values);
            }
        }
    }
}
