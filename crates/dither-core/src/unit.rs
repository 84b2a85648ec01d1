//! Who is protected: the privacy unit and the neighbour relation.

use serde::{Deserialize, Serialize};

/// Which pairs of tables must be indistinguishable.
///
/// Every ε that Dither prints stands beside one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbors {
    /// All rows of one unit are added or removed. The default; it protects the number of units as well.
    #[default]
    AddOrRemoveUnit,
    /// All rows of one unit are replaced by those of another: a removal and an addition, so every
    /// sensitivity doubles.
    ReplaceUnit,
}

impl Neighbors {
    /// How many additions or removals of a unit one step is: the factor on every sensitivity.
    pub fn distance(self) -> u32 {
        match self {
            Self::AddOrRemoveUnit => 1,
            Self::ReplaceUnit => 2,
        }
    }
}

/// What is protected as a whole: every row with one value of a column, or each row by itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrivacyUnit {
    /// All rows that share a value of this column belong to one unit; rows without a value are dropped.
    Column(String),
    /// Each row is a unit of its own.
    Row,
}
