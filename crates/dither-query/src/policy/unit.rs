//! Who owns the rows of a table: the value of a column, a row of another table, or nobody but the row itself.

use std::borrow::Cow;
use std::fmt;

use dither_core::{Neighbors, PrivacyUnit, UnitPeriod};
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{ColumnType, Policy, PublicFacts, PublicTablePolicy, TablePolicy};

/// Who is protected in a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum UnitPolicy {
    /// All rows that share a value of the column: `{ column = "patient" }`.
    Column {
        /// The column.
        column: String,
    },
    /// All rows that share a value of the column and lie in one calendar period:
    /// `{ column = "patient", per = "week", time = "admitted" }`.
    Period {
        /// The column.
        column: String,
        /// The period.
        per: UnitPeriod,
        /// The column of dates or moments that says in which period a row lies.
        time: String,
    },
    /// The row belongs to whom the rows of another table belong to whose key it holds:
    /// `{ column = "visit_id", through = "visits.id" }`.
    Through {
        /// The column that holds the key.
        column: String,
        /// Table and column of the key.
        through: String,
    },
    /// Each row by itself: `"row"`.
    Row(RowWord),
}

/// The word `"row"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RowWord {
    /// `"row"`.
    Row,
}

impl UnitPolicy {
    /// Each row by itself.
    pub const ROW: Self = Self::Row(RowWord::Row);

    /// The column that says whose a row is, directly or through a key.
    pub fn column(&self) -> Option<&str> {
        match self {
            Self::Column { column } | Self::Period { column, .. } | Self::Through { column, .. } => Some(column),
            Self::Row(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for UnitPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;

        impl<'de> Visitor<'de> for Form {
            type Value = UnitPolicy;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("{ column = \"patient\" }, { column = \"visit_id\", through = \"visits.id\" }, or \"row\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<UnitPolicy, E> {
                match text {
                    "row" => Ok(UnitPolicy::ROW),
                    other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<UnitPolicy, A::Error> {
                #[derive(Deserialize)]
                #[serde(deny_unknown_fields)]
                struct Named {
                    column: String,
                    #[serde(default)]
                    through: Option<String>,
                    #[serde(default)]
                    per: Option<UnitPeriod>,
                    #[serde(default)]
                    time: Option<String>,
                }
                let Named { column, through, per, time } = Named::deserialize(MapAccessDeserializer::new(map))?;
                match (through, per, time) {
                    (None, None, None) => Ok(UnitPolicy::Column { column }),
                    (Some(through), None, None) => Ok(UnitPolicy::Through { column, through }),
                    (None, Some(per), Some(time)) => Ok(UnitPolicy::Period { column, per, time }),
                    (Some(_), ..) => {
                        Err(de::Error::custom("rows that are owned have the period of their owner: leave `per` out"))
                    }
                    (None, Some(_), None) => {
                        Err(de::Error::custom("`per` needs `time`, a column of dates or timestamps"))
                    }
                    (None, None, Some(_)) => {
                        Err(de::Error::custom("`time` needs `per`: \"day\", \"week\" or \"month\""))
                    }
                }
            }
        }

        deserializer.deserialize_any(Form)
    }
}

/// How the schema shows the privacy unit.
#[derive(JsonSchema)]
#[allow(dead_code)]
#[schemars(untagged, deny_unknown_fields)]
pub(super) enum UnitSchema {
    /// By a column of the table, or through the key of another table.
    Named {
        /// The column.
        column: String,
        /// Table and column of the key, where the rows of that table say whose this row is.
        #[serde(default)]
        through: Option<String>,
        /// The calendar period within which rows of one value of the column are protected together.
        #[serde(default)]
        per: Option<PeriodSchema>,
        /// The column of dates or timestamps that says in which period a row lies.
        #[serde(default)]
        time: Option<String>,
    },
    /// Each row by itself.
    Row(RowWord),
}

/// How the schema shows the period of a unit.
#[derive(JsonSchema)]
#[allow(dead_code)]
#[schemars(rename_all = "kebab-case")]
pub(super) enum PeriodSchema {
    /// A day.
    Day,
    /// A week from Monday to Sunday.
    Week,
    /// A month.
    Month,
}

/// Whom the rows of a table belong to in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// The table at the end of the chain of keys.
    pub table: String,
    /// The unit.
    pub unit: PrivacyUnit,
    /// The type of the unit column; `None` where a row is a unit.
    pub kind: Option<ColumnType>,
    /// The neighbour relation.
    pub neighbors: Neighbors,
}

impl Root {
    /// Whether the units of two tables are the same people: one table at the end of both chains, or two whose unit
    /// columns have one name and one type, within one kind of period. Rows that are units of their own are never those
    /// of another table.
    pub fn is_shared_with(&self, other: &Self) -> bool {
        self.unit != PrivacyUnit::Row && self.unit == other.unit && self.kind == other.kind
    }

    /// Whether the unit columns of two tables name the same people, cut to periods or not.
    pub(super) fn is_of_the_people_of(&self, other: &Self) -> bool {
        let column = |root: &Self| root.unit.column().map(str::to_owned);
        column(self).is_some() && column(self) == column(other) && self.kind == other.kind
    }

    /// The period that units are cut to.
    pub fn period(&self) -> Option<UnitPeriod> {
        match self.unit {
            PrivacyUnit::Period { per, .. } => Some(per),
            PrivacyUnit::Column(_) | PrivacyUnit::Row => None,
        }
    }
}

impl Policy {
    /// A table of people or a public one, as a table that can be read.
    pub fn readable(&self, name: &str) -> Option<Cow<'_, TablePolicy>> {
        let private = self.tables.get(name).map(Cow::Borrowed);
        private.or_else(|| Some(Cow::Owned(self.public.get(name)?.as_table())))
    }

    /// The table and the column that `through` names.
    pub fn key_of<'a>(&'a self, through: &'a str) -> Option<(&'a str, &'a str)> {
        let splits = through.match_indices('.').map(|(dot, _)| (&through[..dot], &through[dot + 1..]));
        splits
            .into_iter()
            .find(|(table, column)| self.tables.get(*table).is_some_and(|table| table.columns.contains_key(*column)))
    }

    /// Whether a column of a table of people says whose its rows are: the unit column, or a column that holds the key
    /// of a table whose key is that.
    pub fn is_unit(&self, table: &str, column: &str) -> bool {
        let (mut table, mut column) = (table, column);
        for _ in 0..=self.tables.len() {
            match self.tables.get(table).map(|table| &table.privacy_unit) {
                Some(UnitPolicy::Column { column: unit } | UnitPolicy::Period { column: unit, .. }) => {
                    return unit == column;
                }
                Some(UnitPolicy::Through { column: holds, through }) if holds == column => match self.key_of(through) {
                    Some((parent, key)) => (table, column) = (parent, key),
                    None => return false,
                },
                _ => return false,
            }
        }
        false
    }

    /// Follows the keys of a table to whom its rows belong to. `None` for a table that is not declared and for a chain
    /// that does not end, which no checked policy has.
    pub fn root(&self, table: &str) -> Option<Root> {
        let mut name = table;
        for _ in 0..=self.tables.len() {
            let policy = self.tables.get(name)?;
            let root = |unit, kind| Root { table: name.to_owned(), unit, kind, neighbors: policy.neighbors };
            match &policy.privacy_unit {
                UnitPolicy::Row(_) => return Some(root(PrivacyUnit::Row, None)),
                UnitPolicy::Column { column } => {
                    let kind = policy.columns.get(column)?.r#type;
                    return Some(root(PrivacyUnit::Column(column.clone()), Some(kind)));
                }
                UnitPolicy::Period { column, per, .. } => {
                    let kind = policy.columns.get(column)?.r#type;
                    return Some(root(PrivacyUnit::Period { column: column.clone(), per: *per }, Some(kind)));
                }
                UnitPolicy::Through { through, .. } => name = self.key_of(through)?.0,
            }
        }
        None
    }
}

impl PublicTablePolicy {
    /// The table as one that can be read; nobody is protected in it.
    pub fn as_table(&self) -> TablePolicy {
        TablePolicy {
            source: self.source.clone(),
            csv: self.csv.clone(),
            privacy_unit: UnitPolicy::ROW,
            neighbors: Neighbors::default(),
            max_groups_per_unit: None,
            max_rows_per_group: None,
            min_units: None,
            public: PublicFacts::default(),
            columns: self.columns.clone(),
        }
    }
}
