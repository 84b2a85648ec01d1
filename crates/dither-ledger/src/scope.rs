//! Where a charge counts: scopes that nest by path, each with a limit of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use dither_accounting::Composition;
use dither_core::{Audience, Budget, Explain};
use serde::{Deserialize, Serialize};

/// The path of a scope, outermost first: data set, project, analyst.
///
/// A charge in a scope counts in every scope above it as well.
///
/// # Errors
/// Parsing refuses empty segments, segments over 64 bytes, more than 8 segments, and characters other than
/// letters, digits, `_`, `-`, `.`, `@`.
///
/// ```
/// use dither_ledger::ScopePath;
/// let alice: ScopePath = "diabetes/research/alice".parse()?;
/// assert_eq!(alice.parent().unwrap().as_str(), "diabetes/research");
/// assert_eq!(alice.lineage().count(), 3);
/// assert!("diabetes//alice".parse::<ScopePath>().is_err());
/// # Ok::<(), dither_ledger::ScopeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ScopePath(String);

impl ScopePath {
    const MAX_DEPTH: usize = 8;
    const MAX_SEGMENT: usize = 64;

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The scope above, if there is one.
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.to_owned()))
    }

    /// This scope and all scopes above it, outermost first.
    pub fn lineage(&self) -> impl Iterator<Item = Self> + '_ {
        let ends = self.0.match_indices('/').map(|(end, _)| end).chain([self.0.len()]);
        ends.map(|end| Self(self.0[..end].to_owned()))
    }
}

impl FromStr for ScopePath {
    type Err = ScopeError;
    fn from_str(text: &str) -> Result<Self, ScopeError> {
        let allowed = |c: char| c.is_alphanumeric() || "_-.@".contains(c);
        let segment = |s: &str| !s.is_empty() && s.len() <= Self::MAX_SEGMENT && s.chars().all(allowed);
        if text.split('/').count() > Self::MAX_DEPTH || !text.split('/').all(segment) {
            return Err(ScopeError { text: text.chars().take(80).collect() });
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for ScopePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl TryFrom<String> for ScopePath {
    type Error = ScopeError;
    fn try_from(text: String) -> Result<Self, ScopeError> {
        text.parse()
    }
}

impl From<ScopePath> for String {
    fn from(path: ScopePath) -> Self {
        path.0
    }
}

/// A text that is no scope path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a scope: write up to 8 names of letters, digits, `_-.@`, separated by `/`")]
pub struct ScopeError {
    /// The beginning of what was given.
    pub text: String,
}

impl Explain for ScopeError {
    fn code(&self) -> &'static str {
        "scope-malformed"
    }
    fn hint(&self) -> Option<String> {
        Some("write a path such as diabetes/research/alice".into())
    }
    fn audience(&self) -> Audience {
        Audience::Analyst
    }
}

/// The limit of one scope and how charges in it add up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopeLimit {
    /// Which scope.
    pub path: ScopePath,
    /// The most that may be charged in it. Serialised as exact integers.
    #[serde(with = "exact")]
    pub budget: Budget,
    /// How charges add up.
    pub composition: Composition,
    /// Who is protected, by table: the unit and the neighbour relation in words. What was once declared for a table
    /// never changes, since amounts under different ones do not add up to a guarantee.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub protects: BTreeMap<String, String>,
}

/// A budget as integers: nano-units of ε and units of 10⁻¹⁸ of δ, because floats would round.
mod exact {
    use dither_core::{Budget, Delta, Epsilon};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    #[derive(Serialize, Deserialize)]
    struct Exact {
        epsilon_nanos: u64,
        delta_attos: u64,
    }

    pub(super) fn serialize<S: Serializer>(budget: &Budget, serializer: S) -> Result<S::Ok, S::Error> {
        Exact { epsilon_nanos: budget.epsilon.nanos(), delta_attos: budget.delta.attos() }.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Budget, D::Error> {
        let exact = Exact::deserialize(deserializer)?;
        Ok(Budget {
            epsilon: Epsilon::from_nanos(exact.epsilon_nanos).map_err(D::Error::custom)?,
            delta: Delta::from_attos(exact.delta_attos).map_err(D::Error::custom)?,
        })
    }
}
