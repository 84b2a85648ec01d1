//! A table that lies in a database: how the policy names it, and what an engine there may take its values for.
//!
//! `source = "postgres:clinic.visits"` is the relation `visits` of the schema `clinic`; without a schema it is in
//! `public`. Which server is meant is for the session to say, not for the policy.

use std::path::Path;

/// The first and the last day of a database, of the years 1 and 9999, in days since 1970. Another one is NULL.
pub const DAYS: (i32, i32) = (-719_162, 2_932_896);

/// The largest number of a database, 2^256; what is larger counts as this. With [`SMALLEST`] it leaves room for
/// arithmetic: databases raise where a float overflows or vanishes.
pub const LARGEST: f64 = 1.157_920_892_373_162e77;

/// The number of a database next to zero, 2^-128; what is closer counts as zero.
pub const SMALLEST: f64 = 2.938_735_877_055_719e-39;

/// The longest text in bytes; a longer one is NULL, as in a file.
pub const MAX_TEXT: usize = super::lexer::MAX_CELL;

/// A relation of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseRelation {
    /// The schema.
    pub schema: String,
    /// The table or view.
    pub name: String,
}

impl std::fmt::Display for DatabaseRelation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.schema, self.name)
    }
}

/// The relation that a source names; `None` for a file.
///
/// ```
/// use dither_query::source::relation_of;
/// assert_eq!(relation_of("postgres:clinic.visits".as_ref()).unwrap().to_string(), "clinic.visits");
/// assert_eq!(relation_of("postgres:visits".as_ref()).unwrap().schema, "public");
/// assert!(relation_of("visits.csv".as_ref()).is_none());
/// ```
pub fn relation_of(source: &Path) -> Option<DatabaseRelation> {
    let name = source.to_str()?.strip_prefix("postgres:")?;
    let (schema, name) = name.split_once('.').unwrap_or(("public", name));
    let is_name = |name: &str| !name.is_empty() && !name.contains(['\0', '/', ':']);
    (is_name(schema) && is_name(name)).then(|| DatabaseRelation { schema: schema.into(), name: name.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_are_powers_of_two() {
        assert_eq!((LARGEST, SMALLEST), (256_f64.exp2(), (-128_f64).exp2()));
    }

    #[test]
    fn what_is_no_name_of_a_relation_is_none() {
        for odd in ["postgres:", "postgres:.t", "postgres:a.", "postgres://host/db", "postgres:a/b.csv", "postgresql:a"]
        {
            assert_eq!(relation_of(odd.as_ref()), None, "{odd}");
        }
    }
}
