//! Everything that can go wrong, for whom, and what to do about it.

use std::path::PathBuf;

use dither_accounting::{AccountingError, Refusal};
use dither_core::{Audience, Budget, Explain, RequestId};

use crate::scope::ScopePath;

/// Why the ledger did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// A limit on the way up has no room for the charge; nothing was charged anywhere.
    #[error("`{scope}` refuses: {refusal}")]
    Refused {
        /// The outermost scope that refused.
        scope: ScopePath,
        /// What was requested and what remains.
        refusal: Refusal,
    },
    /// The event has no price.
    #[error("the request cannot be priced: {0}")]
    Unpriced(AccountingError),
    /// The scope was never declared.
    #[error("the scope `{scope}` is not declared")]
    UnknownScope {
        /// Which scope.
        scope: ScopePath,
    },
    /// The idempotency key names another request of the same scope.
    #[error("the key `{key}` was used for another request")]
    KeyConflict {
        /// The key.
        key: String,
    },
    /// The request was charged with another event or in another scope.
    #[error("the request {request} was charged with another event or in another scope")]
    RequestConflict {
        /// The request.
        request: RequestId,
    },
    /// An answer was offered for which this ledger holds no charge.
    #[error("the request {request} holds no such charge in this ledger")]
    NotCharged {
        /// The request.
        request: RequestId,
    },
    /// A text is longer than the ledger stores.
    #[error("the {what} has {length} bytes; at most {limit} are stored")]
    TooLong {
        /// `key`, `label` or `answer`.
        what: &'static str,
        /// Its length in bytes.
        length: usize,
        /// The most that is stored, in bytes.
        limit: usize,
    },
    /// A declaration asks for more than the limit in force.
    #[error("the limit of `{scope}` can only be raised by an amendment")]
    RaiseNeedsAmendment {
        /// Which scope.
        scope: ScopePath,
        /// The limit in force.
        current: Budget,
    },
    /// The way in which charges add up is fixed by the first declaration.
    #[error("the composition of `{scope}` cannot change")]
    CompositionChanged {
        /// Which scope.
        scope: ScopePath,
    },
    /// Who is protected in a table is fixed by the first declaration.
    #[error(
        "who is protected in {} cannot change: the ledger says \"{unit}\", the policy \"{declared}\"",
        named(table)
    )]
    ProtectionChanged {
        /// Which table, or `tables of` and the column of the unit.
        table: String,
        /// The unit and the neighbour relation that the ledger has.
        unit: String,
        /// Those that are declared now.
        declared: String,
    },
    /// An amendment needs two different people.
    #[error("an amendment of `{scope}` needs the names of two different stewards")]
    StewardsMissing {
        /// Which scope.
        scope: ScopePath,
    },
    /// There is no file to open.
    #[error("there is no ledger at {}", path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// There is no folder for the file.
    #[error("there is no folder {} for the ledger", path.display())]
    NoFolder {
        /// The folder.
        path: PathBuf,
    },
    /// The file is something else, or a ledger whose beginning is gone.
    #[error("{} is not a ledger", path.display())]
    NotALedger {
        /// Where it lies.
        path: PathBuf,
    },
    /// The file was written in a format that this version does not know.
    #[error("the ledger has format {found}; this version reads format {supported}")]
    UnknownFormat {
        /// The format of the file.
        found: i64,
        /// The format of this version.
        supported: i64,
    },
    /// The content contradicts itself: it was edited, or the medium lost a part.
    #[error("the ledger is damaged at entry {sequence}: {finding}")]
    Damaged {
        /// The first entry that is wrong; 0 is the beginning of the ledger.
        sequence: u64,
        /// What is wrong with it.
        finding: &'static str,
    },
    /// The ledger is sound but older than a head that was seen before.
    #[error("the ledger ends at entry {found}, but entry {expected} was seen before: it was rolled back")]
    RolledBack {
        /// The entry that was seen before.
        expected: u64,
        /// The last entry now.
        found: u64,
    },
    /// The ledger is sound but has another history than a head that was seen before.
    #[error("entry {sequence} is not the one that was seen before: this is a fork, or another ledger")]
    Forked {
        /// The entry that was seen before.
        sequence: u64,
    },
    /// The disk or the quota is full.
    #[error("the disk is full")]
    DiskFull(#[source] sqlx::Error),
    /// The file or its folder cannot be written.
    #[error("the ledger cannot be written")]
    ReadOnly(#[source] sqlx::Error),
    /// Another process held the ledger for too long.
    #[error("the ledger is busy")]
    Busy(#[source] sqlx::Error),
    /// The storage engine found its file malformed.
    #[error("the ledger file is malformed")]
    Malformed(#[source] sqlx::Error),
    /// The storage failed in another way.
    #[error("the storage failed")]
    Storage(#[source] sqlx::Error),
    /// The file system failed.
    #[error("the file system failed at {}", path.display())]
    File {
        /// Where.
        path: PathBuf,
        /// How.
        #[source]
        source: std::io::Error,
    },
    /// The target of an export cannot be written. The ledger is not affected.
    #[error("the export cannot be written")]
    Export(#[source] std::io::Error),
    /// The storage engine would report commits before they are on the disk.
    #[error("the storage engine does not promise durable commits")]
    NotDurable,
    /// An earlier failure left the state of the disk unknown; this handle refuses everything from then on.
    #[error("the ledger stopped after a storage failure")]
    Poisoned,
    /// Two writers met in one place in spite of the lock.
    #[error("another writer changed `{scope}` in between")]
    LostUpdate {
        /// Which scope.
        scope: ScopePath,
    },
    /// An answer or a record cannot be written as JSON, or a stored one cannot be read as the expected type.
    #[error("a record cannot be written or read as JSON")]
    Json(#[from] serde_json::Error),
    /// The system has no randomness for the identity of a new ledger.
    #[error("the system has no randomness")]
    NoRandomness,
}

impl Explain for LedgerError {
    fn code(&self) -> &'static str {
        match self {
            Self::Refused { refusal, .. } => refusal.code(),
            Self::Unpriced(error) => error.code(),
            Self::UnknownScope { .. } => "scope-unknown",
            Self::KeyConflict { .. } => "key-conflict",
            Self::RequestConflict { .. } => "request-conflict",
            Self::NotCharged { .. } => "not-charged",
            Self::TooLong { .. } => "text-too-long",
            Self::RaiseNeedsAmendment { .. } => "raise-needs-amendment",
            Self::CompositionChanged { .. } => "composition-changed",
            Self::ProtectionChanged { .. } => "protection-changed",
            Self::StewardsMissing { .. } => "stewards-missing",
            Self::Missing { .. } => "ledger-missing",
            Self::NoFolder { .. } => "ledger-no-folder",
            Self::NotALedger { .. } => "not-a-ledger",
            Self::UnknownFormat { .. } => "ledger-format-unknown",
            Self::Damaged { .. } => "ledger-damaged",
            Self::RolledBack { .. } => "ledger-rolled-back",
            Self::Forked { .. } => "ledger-forked",
            Self::DiskFull(_) => "disk-full",
            Self::ReadOnly(_) => "ledger-read-only",
            Self::Busy(_) => "ledger-busy",
            Self::Malformed(_) => "ledger-malformed",
            Self::Storage(_) => "ledger-storage",
            Self::File { .. } => "ledger-file",
            Self::Export(_) => "export-failed",
            Self::NotDurable => "ledger-not-durable",
            Self::Poisoned => "ledger-stopped",
            Self::LostUpdate { .. } => "ledger-lost-update",
            Self::Json(_) => "ledger-json",
            Self::NoRandomness => "no-randomness",
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Refused { refusal, .. } => return refusal.hint(),
            Self::Unpriced(error) => return error.hint(),
            Self::UnknownScope { scope } => match scope.parent() {
                Some(parent) => match scope.as_str().split_once('/') {
                    Some((_, path)) => format!("declare [scopes.\"{path}\"] in the policy, inside `{parent}`"),
                    None => format!("declare `{scope}`, after `{parent}`"),
                },
                None => format!("declare `{scope}`"),
            },
            Self::KeyConflict { .. } => "use a new key for a new question".into(),
            Self::TooLong { what, limit, .. } => format!("shorten the {what} to {limit} bytes"),
            Self::RaiseNeedsAmendment { current, .. } => format!(
                "declare at most epsilon {} and delta {}, or run `dither ledger amend` with two stewards",
                current.epsilon, current.delta
            ),
            Self::CompositionChanged { .. } => "declare the composition that the ledger has".into(),
            Self::ProtectionChanged { .. } => {
                "declare what the ledger has in `privacy_unit` and `neighbors`: what was charged holds for those people only"
                    .into()
            }
            Self::StewardsMissing { .. } => "give two different names".into(),
            Self::Missing { .. } => "check the path, or declare the data set first".into(),
            Self::NoFolder { .. } => "make the folder, or correct `ledger` in the policy".into(),
            Self::NotALedger { .. } => {
                "check the path; if the ledger was here, restore it and verify it against a receipt".into()
            }
            Self::UnknownFormat { .. } => "use the version of Dither that wrote the ledger, or a newer one".into(),
            Self::Damaged { .. } | Self::Malformed(_) => {
                "stop, keep the file, restore a backup and verify it against the newest receipt".into()
            }
            Self::RolledBack { .. } | Self::Forked { .. } => {
                "stop; find the ledger with the newest head; charges that are missing here were spent".into()
            }
            Self::DiskFull(_) => "free space on the disk of the ledger, then open it again".into(),
            Self::ReadOnly(_) => "make the file and its folder writable for this user".into(),
            Self::Busy(_) => "ask again; if it lasts, look for a process that holds the ledger".into(),
            Self::NotDurable | Self::Storage(_) | Self::File { .. } => {
                "check the disk, then open the ledger again".into()
            }
            Self::Export(_) => "make room at the target and export again".into(),
            Self::Poisoned => "check the disk, then restart; unanswered charges stand and are not charged twice".into(),
            Self::RequestConflict { .. }
            | Self::NotCharged { .. }
            | Self::LostUpdate { .. }
            | Self::Json(_)
            | Self::NoRandomness => return None,
        })
    }

    fn audience(&self) -> Audience {
        match self {
            Self::Refused { .. }
            | Self::Unpriced(_)
            | Self::UnknownScope { .. }
            | Self::KeyConflict { .. }
            | Self::RequestConflict { .. }
            | Self::TooLong { .. }
            | Self::RaiseNeedsAmendment { .. }
            | Self::CompositionChanged { .. }
            | Self::ProtectionChanged { .. }
            | Self::StewardsMissing { .. } => Audience::Analyst,
            _ => Audience::Operator,
        }
    }
}

/// A table by its name, or all tables of the same people.
fn named(table: &str) -> String {
    match table.strip_prefix("tables of ") {
        Some(column) => format!("the tables of `{column}`"),
        None => format!("`{table}`"),
    }
}

impl From<sqlx::Error> for LedgerError {
    /// Sorts by the primary result code of SQLite, <https://www.sqlite.org/rescode.html>.
    fn from(error: sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(|e| e.code()).and_then(|code| code.parse::<i32>().ok());
        match code.map(|code| code & 0xff) {
            Some(13) => Self::DiskFull(error),
            Some(8 | 14) => Self::ReadOnly(error),
            Some(5 | 6) => Self::Busy(error),
            Some(11 | 26) => Self::Malformed(error),
            _ if matches!(error, sqlx::Error::PoolTimedOut) => Self::Busy(error),
            _ => Self::Storage(error),
        }
    }
}

impl LedgerError {
    /// Whether the file can no longer be relied on after this error.
    pub(crate) fn poisons(&self) -> bool {
        matches!(
            self,
            Self::DiskFull(_)
                | Self::Malformed(_)
                | Self::Storage(_)
                | Self::NotDurable
                | Self::LostUpdate { .. }
                | Self::Damaged { .. }
                | Self::RolledBack { .. }
                | Self::Forked { .. }
        )
    }
}
