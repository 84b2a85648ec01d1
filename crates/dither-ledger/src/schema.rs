//! The tables of format 1. `docs/ledger.md` describes them.

/// The format that this version writes and reads.
pub(crate) const FORMAT: i64 = 1;

/// What runs on every connection. `FULL` makes a commit durable before it is reported; the others make waiting
/// fair to other processes, references checked, and Apple's disks flush their caches.
pub(crate) const CONNECTION: &str = "PRAGMA busy_timeout = 30000; PRAGMA synchronous = FULL; \
    PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA fullfsync = ON;";

/// The objects of the schema by name, in order of creation.
pub(crate) const OBJECTS: [(&str, &str); 17] = [
    ("ledger", "CREATE TABLE ledger (format INTEGER NOT NULL, id TEXT NOT NULL) STRICT"),
    (
        "entries",
        "CREATE TABLE entries (sequence INTEGER PRIMARY KEY, kind TEXT NOT NULL, request TEXT, scope TEXT, \
         key TEXT, body TEXT NOT NULL, hash TEXT NOT NULL) STRICT",
    ),
    (
        "scopes",
        "CREATE TABLE scopes (path TEXT PRIMARY KEY, declared TEXT NOT NULL, spent TEXT NOT NULL, \
         last INTEGER NOT NULL REFERENCES entries (sequence)) STRICT",
    ),
    (
        "answers",
        "CREATE TABLE answers (request TEXT PRIMARY KEY, \
         sequence INTEGER NOT NULL UNIQUE REFERENCES entries (sequence), bytes TEXT NOT NULL) STRICT",
    ),
    ("one_charge", "CREATE UNIQUE INDEX one_charge ON entries (request) WHERE kind = 'charge'"),
    ("one_release", "CREATE UNIQUE INDEX one_release ON entries (request) WHERE kind = 'release'"),
    ("one_key", "CREATE UNIQUE INDEX one_key ON entries (scope, key) WHERE key IS NOT NULL"),
    (
        "ledger_once",
        "CREATE TRIGGER ledger_once BEFORE INSERT ON ledger WHEN EXISTS (SELECT 1 FROM ledger) \
         BEGIN SELECT RAISE(ABORT, 'a ledger has one identity'); END",
    ),
    (
        "ledger_fixed",
        "CREATE TRIGGER ledger_fixed BEFORE UPDATE ON ledger \
         BEGIN SELECT RAISE(ABORT, 'a ledger has one identity'); END",
    ),
    (
        "ledger_kept",
        "CREATE TRIGGER ledger_kept BEFORE DELETE ON ledger \
         BEGIN SELECT RAISE(ABORT, 'a ledger has one identity'); END",
    ),
    (
        "entries_in_order",
        "CREATE TRIGGER entries_in_order BEFORE INSERT ON entries \
         WHEN NEW.sequence <> (SELECT COALESCE(MAX(sequence), 0) + 1 FROM entries) \
         BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
    ),
    (
        "entries_fixed",
        "CREATE TRIGGER entries_fixed BEFORE UPDATE ON entries \
         BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
    ),
    (
        "entries_kept",
        "CREATE TRIGGER entries_kept BEFORE DELETE ON entries \
         BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
    ),
    (
        "answers_fixed",
        "CREATE TRIGGER answers_fixed BEFORE UPDATE ON answers \
         BEGIN SELECT RAISE(ABORT, 'an answer is final'); END",
    ),
    (
        "answers_kept",
        "CREATE TRIGGER answers_kept BEFORE DELETE ON answers \
         BEGIN SELECT RAISE(ABORT, 'an answer is final'); END",
    ),
    (
        "scopes_forward",
        "CREATE TRIGGER scopes_forward BEFORE UPDATE ON scopes WHEN NEW.path <> OLD.path OR NEW.last <= OLD.last \
         BEGIN SELECT RAISE(ABORT, 'a scope only moves forward'); END",
    ),
    (
        "scopes_kept",
        "CREATE TRIGGER scopes_kept BEFORE DELETE ON scopes \
         BEGIN SELECT RAISE(ABORT, 'a scope cannot be deleted'); END",
    ),
];

/// Queries for the number of an entry that contradicts another one, and what is wrong with it.
pub(crate) const CONTRADICTIONS: [(&str, &str); 3] = [
    (
        "SELECT MAX(sequence) FROM entries WHERE kind IN ('charge', 'release') \
         GROUP BY kind, request HAVING COUNT(*) > 1 LIMIT 1",
        "its request has another entry of this kind",
    ),
    (
        "SELECT MAX(sequence) FROM entries WHERE key IS NOT NULL GROUP BY scope, key HAVING COUNT(*) > 1 LIMIT 1",
        "its key was used before",
    ),
    (
        "SELECT r.sequence FROM entries r WHERE r.kind IN ('release', 'key') AND NOT EXISTS (SELECT 1 FROM entries c \
         WHERE c.kind = 'charge' AND c.request = r.request AND c.sequence < r.sequence) LIMIT 1",
        "its request was not charged before",
    ),
];
