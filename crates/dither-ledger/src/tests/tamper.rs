//! Forgeries: edits of the file, old copies, forks.

use std::path::Path;

use sqlx::{AnyConnection, Connection};

use super::crash::keyed;
use super::*;
use crate::schema::OBJECTS;

/// Runs SQL on the file as somebody with access to it would, and closes it.
pub(super) async fn edit(path: &Path, sql: &str) {
    sqlx::any::install_default_drivers();
    let url = format!("sqlite://{}?mode=rw", path.display());
    let mut connection = AnyConnection::connect(&url).await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("PRAGMA foreign_keys = OFF; {sql}")))
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}

/// Edits what the triggers protect, and leaves the triggers as they were.
async fn forge(path: &Path, sql: &str) {
    let triggers: Vec<_> = OBJECTS.iter().filter(|(_, sql)| sql.starts_with("CREATE TRIGGER")).collect();
    let drop: String = triggers.iter().map(|(name, _)| format!("DROP TRIGGER {name};")).collect();
    let create: String = triggers.iter().map(|(_, sql)| format!("{sql};")).collect();
    edit(path, &format!("{drop} {sql}; {create}")).await;
}

/// A closed ledger with three charges, two of them answered: entries 2 to 6.
async fn sample(path: &Path) {
    let ledger = with_budget(path, "1000").await;
    ask(&ledger, &keyed("a"), 1.0).await.unwrap();
    ask(&ledger, &keyed("b"), 2.0).await.unwrap();
    ledger.charge(&keyed("c")).await.unwrap();
    close(ledger).await;
}

/// Moves everything into the one file.
async fn close(ledger: Ledger) {
    ledger.close().await;
}

#[tokio::test]
async fn bg_16_the_file_itself_refuses_edits() {
    let folder = Folder::new();
    sample(&folder.ledger()).await;
    let url = format!("sqlite://{}?mode=rw", folder.ledger().display());
    let mut connection = AnyConnection::connect(&url).await.unwrap();
    for sql in [
        "UPDATE entries SET body = '{}' WHERE sequence = 2",
        "DELETE FROM entries WHERE sequence = 6",
        "INSERT INTO entries SELECT 9, kind, 'r', scope, NULL, body, hash FROM entries WHERE sequence = 2",
        "INSERT OR REPLACE INTO entries SELECT 2, kind, 'r', scope, NULL, body, hash FROM entries WHERE sequence = 2",
        "UPDATE answers SET bytes = '5'",
        "DELETE FROM answers",
        "DELETE FROM scopes",
        "UPDATE scopes SET spent = '{}'",
        "UPDATE ledger SET id = 'x'",
        "DELETE FROM ledger",
        "INSERT INTO ledger VALUES (1, 'x')",
    ] {
        assert!(sqlx::raw_sql(sql).execute(&mut connection).await.is_err(), "{sql}");
    }
}

const EDITS: [&str; 19] = [
    "UPDATE entries SET body = replace(body, 'SELECT', 'select') WHERE sequence = 2",
    "UPDATE entries SET body = replace(body, '\"epsilon_nanos\":1', '\"epsilon_nanos\":0') WHERE sequence = 4",
    "UPDATE entries SET hash = (SELECT hash FROM entries WHERE sequence = 2) WHERE sequence = 3",
    "UPDATE entries SET request = 'other' WHERE sequence = 2",
    "UPDATE entries SET key = 'other' WHERE sequence = 2",
    "UPDATE entries SET kind = 'key' WHERE sequence = 2",
    "DELETE FROM entries WHERE sequence = 2",
    "DELETE FROM entries WHERE sequence = 4",
    "UPDATE entries SET sequence = -sequence WHERE sequence IN (2, 4); \
     UPDATE entries SET sequence = 6 + sequence WHERE sequence < 0",
    "UPDATE entries SET body = CASE sequence WHEN 2 THEN (SELECT body FROM entries WHERE sequence = 4) \
     ELSE (SELECT body FROM entries WHERE sequence = 2) END WHERE sequence IN (2, 4)",
    "INSERT INTO entries SELECT 7, kind, 'r', scope, NULL, body, hash FROM entries WHERE sequence = 6",
    "UPDATE scopes SET spent = replace(spent, '\"epsilon_nanos\":3', '\"epsilon_nanos\":0')",
    "UPDATE scopes SET declared = replace(declared, '1000000000000', '9000000000000')",
    "DELETE FROM scopes",
    "DELETE FROM answers WHERE bytes = '1.0'",
    "UPDATE answers SET bytes = '5.0' WHERE bytes = '1.0'",
    "UPDATE answers SET bytes = CASE bytes WHEN '1.0' THEN '2.0' ELSE '1.0' END",
    "UPDATE ledger SET id = 'other'",
    "DROP INDEX one_charge",
];

#[tokio::test]
async fn du_07_every_edit_is_found() {
    for sql in EDITS {
        let folder = Folder::new();
        sample(&folder.ledger()).await;
        forge(&folder.ledger(), sql).await;
        let found = match Ledger::open_existing(folder.ledger()).await {
            Err(LedgerError::Damaged { .. }) => true,
            Err(error) => panic!("{sql}: {error}"),
            Ok(ledger) => {
                let found = matches!(ledger.verify(None).await, Err(LedgerError::Damaged { .. }));
                // A handle that found damage serves nobody any more.
                found && matches!(ledger.charge(&keyed("d")).await, Err(LedgerError::Poisoned))
            }
        };
        assert!(found, "not found: {sql}");
    }
    // An edit without a change is none, so what was found above was the change.
    let folder = Folder::new();
    sample(&folder.ledger()).await;
    forge(&folder.ledger(), "UPDATE entries SET body = body").await;
    Ledger::open_existing(folder.ledger()).await.unwrap().verify(None).await.unwrap();
}

/// The limit of what the file alone can show: a forger who recomputes every hash is found by a receipt only.
#[tokio::test]
async fn du_07_control_a_recomputed_chain_is_found_by_a_receipt_only() {
    let folder = Folder::new();
    sample(&folder.ledger()).await;
    let ledger = Ledger::open_existing(folder.ledger()).await.unwrap();
    let (seen, id, entries) = (ledger.head().await.unwrap(), ledger.id().to_owned(), bodies(&ledger).await);
    close(ledger).await;
    let mut head = crate::chain::genesis(&id);
    let mut sql = String::new();
    for (sequence, body) in (1..).zip(entries) {
        let body = body.replace("SELECT", "select");
        head = crate::chain::link(&head, sequence, &body);
        let body = body.replace('\'', "''");
        sql += &format!("UPDATE entries SET body = '{body}', hash = '{head}' WHERE sequence = {sequence};");
    }
    forge(&folder.ledger(), &sql).await;
    let ledger = Ledger::open_existing(folder.ledger()).await.unwrap();
    ledger.verify(None).await.unwrap();
    assert!(matches!(ledger.verify(Some(&seen)).await, Err(LedgerError::Forked { sequence: 6 })));
}

async fn bodies(ledger: &Ledger) -> Vec<String> {
    let mut out = Vec::new();
    ledger.export(&mut out).await.unwrap();
    let lines = String::from_utf8(out).unwrap();
    let body =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["body"].as_str().unwrap().to_owned();
    lines.lines().skip(1).map(body).collect()
}

#[tokio::test]
async fn du_07_an_old_copy_is_found_by_a_receipt() {
    let folder = Folder::new();
    sample(&folder.ledger()).await;
    let old = folder.0.join("old.db");
    std::fs::copy(folder.ledger(), &old).unwrap();
    let ledger = Ledger::open_existing(folder.ledger()).await.unwrap();
    let charge = charged(ledger.charge(&keyed("d")).await.unwrap());
    let seen = charge.receipt().clone();
    ledger.verify(Some(&seen)).await.unwrap();

    let ledger = Ledger::open_existing(&old).await.unwrap();
    // The control: without the receipt the old copy is a sound ledger.
    ledger.verify(None).await.unwrap();
    let rolled_back = ledger.verify(Some(&seen)).await;
    assert!(matches!(rolled_back, Err(LedgerError::RolledBack { expected: 7, found: 6 })), "{rolled_back:?}");
    assert!(matches!(ledger.charge(&keyed("d")).await, Err(LedgerError::Poisoned)));

    // A fresh ledger in its place is no younger self of it.
    let fresh = Ledger::open(folder.0.join("fresh.db")).await.unwrap();
    assert!(matches!(fresh.verify(Some(&seen)).await, Err(LedgerError::RolledBack { .. })));
}

#[tokio::test]
async fn du_08_of_two_copies_that_went_on_each_is_a_fork_of_the_other() {
    let folder = Folder::new();
    sample(&folder.ledger()).await;
    let copy = folder.0.join("copy.db");
    std::fs::copy(folder.ledger(), &copy).unwrap();
    let mut heads = Vec::new();
    for (path, names) in [(folder.ledger(), ["d", "e"]), (copy.clone(), ["e", "d"])] {
        let ledger = Ledger::open_existing(path).await.unwrap();
        for name in names {
            ledger.charge(&keyed(name)).await.unwrap();
        }
        heads.push(ledger.head().await.unwrap());
        close(ledger).await;
    }
    for (path, own, other) in [(folder.ledger(), &heads[0], &heads[1]), (copy, &heads[1], &heads[0])] {
        let ledger = Ledger::open_existing(path).await.unwrap();
        ledger.verify(Some(own)).await.unwrap();
        assert!(matches!(ledger.verify(Some(other)).await, Err(LedgerError::Forked { sequence: 8 })));
    }
}

/// A flipped bit is found, or it lies where nothing is stored and changes nothing that can be read.
#[tokio::test]
async fn du_07_flipped_bits_are_found_or_change_nothing() {
    let folder = Folder::new();
    sample(&folder.ledger()).await;
    let sound = std::fs::read(folder.ledger()).unwrap();
    let ledger = Ledger::open_existing(folder.ledger()).await.unwrap();
    let (bodies_before, scopes_before) = (bodies(&ledger).await, ledger.scopes().await.unwrap());
    close(ledger).await;
    let mut random = dither_testing::SeededBytes::new(7);
    let (mut found, flips) = (0, size(400, 100_000));
    for _ in 0..flips {
        let bit = (random.unit() * (sound.len() * 8) as f64) as usize;
        let mut flipped = sound.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let path = folder.0.join("flipped.db");
        let _ = std::fs::remove_file(folder.0.join("flipped.db-wal"));
        let _ = std::fs::remove_file(folder.0.join("flipped.db-shm"));
        std::fs::write(&path, &flipped).unwrap();
        let Ok(ledger) = Ledger::open_existing(&path).await else {
            found += 1;
            continue;
        };
        match ledger.verify(None).await {
            Err(_) => found += 1,
            Ok(_) => {
                assert_eq!(bodies(&ledger).await, bodies_before, "bit {bit}");
                assert_eq!(ledger.scopes().await.unwrap(), scopes_before, "bit {bit}");
                assert_eq!(ask(&ledger, &keyed("a"), -1.0).await.unwrap(), 1.0, "bit {bit}");
            }
        }
        close(ledger).await;
    }
    assert!(found * 20 > flips, "only {found} of {flips} were found");
}
