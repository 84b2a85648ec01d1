//! What the ledger remembers, entry by entry.

use dither_core::{PrivacyEvent, Receipt};
use serde::{Deserialize, Serialize};

use crate::scope::{ScopeLimit, ScopePath};
use dither_accounting::Cost;

/// One entry of the ledger.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// Its number, from 1 without gaps. The order of the ledger; the time is not.
    pub sequence: u64,
    /// The hash of the chain up to and including this entry, in hexadecimal.
    pub hash: String,
    /// When the writer's clock said it was written, in seconds since 1970; information only.
    pub time: i64,
    /// What happened.
    pub record: Record,
}

impl Entry {
    /// Where the entry stands.
    pub fn receipt(&self) -> Receipt {
        Receipt { sequence: self.sequence, head: self.hash.clone() }
    }
}

/// What an entry says happened. Requests are in hexadecimal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "most entries are charges")]
pub enum Record {
    /// A scope was declared for the first time.
    Declare(ScopeLimit),
    /// A scope got a lower limit.
    Lower(ScopeLimit),
    /// Two or more stewards set another limit.
    Amend {
        /// The new limit.
        limit: ScopeLimit,
        /// Who set it.
        stewards: Vec<String>,
    },
    /// A request was charged in a scope and all scopes above it.
    Charge(ChargeRecord),
    /// A further idempotency key was bound to a request.
    Key {
        /// The request.
        request: String,
        /// The scope in which the key counts.
        scope: ScopePath,
        /// The key.
        key: String,
    },
    /// The answer to a charged request was stored.
    Release {
        /// The request.
        request: String,
        /// The number of the charge.
        charge: u64,
        /// The digest of the stored bytes, in hexadecimal.
        digest: String,
    },
}

/// What was charged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChargeRecord {
    /// The request.
    pub request: String,
    /// The idempotency key, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Where it was charged.
    pub scope: ScopePath,
    /// What was done to the data.
    pub event: PrivacyEvent,
    /// What that cost when it was charged.
    pub cost: Cost,
    /// The text of the question.
    pub label: String,
}

/// The text that the chain commits to.
#[derive(Serialize, Deserialize)]
pub(crate) struct Body {
    pub(crate) time: i64,
    pub(crate) record: Record,
}

/// Copies of parts of a record that the storage looks entries up by.
#[derive(Debug, PartialEq)]
pub(crate) struct Columns<'a> {
    pub(crate) kind: &'static str,
    pub(crate) request: Option<&'a str>,
    pub(crate) scope: Option<&'a str>,
    pub(crate) key: Option<&'a str>,
}

impl Record {
    pub(crate) fn columns(&self) -> Columns<'_> {
        let none = Columns { kind: "", request: None, scope: None, key: None };
        match self {
            Self::Declare(limit) => Columns { kind: "declare", scope: Some(limit.path.as_str()), ..none },
            Self::Lower(limit) => Columns { kind: "lower", scope: Some(limit.path.as_str()), ..none },
            Self::Amend { limit, .. } => Columns { kind: "amend", scope: Some(limit.path.as_str()), ..none },
            Self::Charge(charge) => Columns {
                kind: "charge",
                request: Some(&charge.request),
                scope: Some(charge.scope.as_str()),
                key: charge.key.as_deref(),
            },
            Self::Key { request, scope, key } => {
                Columns { kind: "key", request: Some(request), scope: Some(scope.as_str()), key: Some(key) }
            }
            Self::Release { request, .. } => Columns { kind: "release", request: Some(request), ..none },
        }
    }
}
