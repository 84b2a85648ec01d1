//! Disks that fail, files that are not ledgers, and who may read them.

use std::path::Path;
use std::process::Command;

use dither_core::{Audience, Explain};

use super::child::{command, diary, note};
use super::crash::{keyed, promises_kept};
use super::*;

/// What the process with the failing disk does. The boasting one takes an error for a success.
pub(super) async fn process(folder: &Path, boasting: bool) {
    let ledger = match Ledger::open_existing(folder.join("ledger.db")).await {
        Ok(ledger) => ledger,
        Err(error) => return note(folder, &format!("unopened {}", error.code())),
    };
    for name in ["a", "b"] {
        let request = keyed(name);
        let result = match ledger.charge(&request).await {
            Ok(outcome) => {
                note(folder, &format!("charged {name}"));
                ledger.publish(request.request, seal(&request, charged(outcome), 7.0)).await
            }
            Err(_) if boasting => {
                note(folder, &format!("charged {name}"));
                continue;
            }
            Err(error) => Err(error),
        };
        match result {
            Ok(answer) => note(folder, &format!("answered {name} {}", answer.value())),
            Err(error) => {
                assert_eq!(error.audience(), Audience::Operator);
                note(folder, &format!("failed {}", error.code()));
                let next = ledger.charge(&keyed("next")).await.err().map(|error| error.code());
                return note(folder, &format!("then {}", next.unwrap_or("charged")));
            }
        }
    }
    // What closing syncs is counted as well, so that it must not race with the end of the process.
    ledger.close().await;
    note(folder, "done");
}

/// A disk on which one call fails.
#[derive(Clone, Copy)]
struct Fault {
    call: &'static str,
    errno: i32,
    stays: bool,
}

const FSYNC_EIO: Fault = Fault { call: "fsync", errno: 5, stays: false };
const WRITE_EIO: Fault = Fault { call: "write", errno: 5, stays: false };
const DISK_FULL: Fault = Fault { call: "write", errno: 28, stays: true };
const READ_ONLY: Fault = Fault { call: "open", errno: 30, stays: true };

/// Compiles the library that makes calls fail; SQLite itself needs the same compiler.
fn library(folder: &Folder) -> PathBuf {
    let library = folder.0.join("fault.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/fault.c");
    let status = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).status();
    assert!(status.unwrap().success());
    library
}

/// Runs the process on a fresh ledger with the fault at a call, and says what it wrote, how many such calls there
/// were, and whether its promises were kept.
async fn run(library: &Path, role: &str, fault: Fault, at: usize) -> (Vec<String>, usize, Result<(), String>) {
    let folder = Folder::new();
    with_budget(&folder.ledger(), "1000").await.close().await;
    let mut command = command(role, &folder.0, "", 0);
    command.env("LD_PRELOAD", library).env("DITHER_FAULT_CALL", fault.call).env("DITHER_FAULT_AT", at.to_string());
    command.env("DITHER_FAULT_ERRNO", fault.errno.to_string()).env("DITHER_FAULT_COUNT", folder.0.join("count"));
    if fault.stays {
        command.env("DITHER_FAULT_STAYS", "1");
    }
    assert!(command.status().unwrap().success(), "the process panicked at {} {at}", fault.call);
    let calls = std::fs::read_to_string(folder.0.join("count")).unwrap().parse().unwrap();
    (diary(&folder.0), calls, promises_kept(&folder.0).await)
}

/// Lets each call fail in turn. After a failed commit nothing more is charged; what was promised is there.
async fn every_call(fault: Fault) -> usize {
    let folder = Folder::new();
    let library = library(&folder);
    let (story, calls, kept) = run(&library, "fault", fault, usize::MAX >> 1).await;
    assert_eq!((story.last().map(String::as_str), kept), (Some("done"), Ok(())));
    assert!(calls > 5, "only {calls} calls of {} passed the library", fault.call);
    let mut failures = 0;
    for at in 0..calls {
        let (story, _, kept) = run(&library, "fault", fault, at).await;
        assert_eq!(kept, Ok(()), "{} {at}: {story:?}", fault.call);
        let last = story.last().unwrap();
        assert!(["done", "then ledger-stopped"].contains(&last.as_str()) || last.starts_with("unopened"), "{story:?}");
        failures += usize::from(last != "done");
    }
    failures
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn du_04_a_failed_fsync_stops_the_ledger() {
    assert!(every_call(FSYNC_EIO).await >= 4);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn du_04_control_going_on_after_a_failed_fsync_is_found_out() {
    let folder = Folder::new();
    let library = library(&folder);
    let mut lost = 0;
    for at in 0..6 {
        lost += usize::from(run(&library, "fault-boasting", FSYNC_EIO, at).await.2.is_err());
    }
    assert!(lost >= 1, "no promise was broken");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn du_05_a_failed_write_releases_nothing() {
    assert!(every_call(WRITE_EIO).await >= 10);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn du_05_a_full_disk_releases_nothing_and_says_so() {
    let folder = Folder::new();
    let library = library(&folder);
    assert!(every_call(DISK_FULL).await >= 10);
    let (story, ..) = run(&library, "fault", DISK_FULL, 20).await;
    assert!(story.contains(&"failed disk-full".to_owned()), "{story:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn du_05_a_read_only_file_says_so() {
    let folder = Folder::new();
    let (story, ..) = run(&library(&folder), "fault", READ_ONLY, 0).await;
    assert!(story[0].ends_with("ledger-read-only"), "{story:?}");
}

#[tokio::test]
async fn du_05_what_is_not_a_ledger_is_refused() {
    let folder = Folder::new();
    assert!(matches!(Ledger::open_existing(folder.ledger()).await, Err(LedgerError::Missing { .. })));
    let code = |opened: Result<Ledger, LedgerError>| opened.err().unwrap().code();
    assert_eq!(code(Ledger::open(folder.0.join("no/such/folder.db")).await), "ledger-no-folder");
    assert_eq!(code(Ledger::open(&folder.0).await), "not-a-ledger");
    for (content, code) in [(vec![], "not-a-ledger"), (vec![b'x'; 10_000], "not-a-ledger")] {
        std::fs::write(folder.ledger(), content).unwrap();
        let error = Ledger::open(folder.ledger()).await.err().unwrap();
        assert_eq!((error.code(), error.audience()), (code, Audience::Operator));
        assert!(error.hint().is_some());
    }
}

#[tokio::test]
async fn an_unknown_format_is_refused() {
    let folder = Folder::new();
    with_budget(&folder.ledger(), "1").await.close().await;
    super::tamper::edit(&folder.ledger(), "DROP TRIGGER ledger_fixed; UPDATE ledger SET format = 2").await;
    let error = Ledger::open(folder.ledger()).await.err().unwrap();
    assert!(matches!(error, LedgerError::UnknownFormat { found: 2, supported: 1 }), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn sv_13_only_the_owner_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let ledger = with_budget(&folder.ledger(), "1").await;
    ledger.charge(&keyed("x")).await.unwrap();
    let mut names = Vec::new();
    for file in std::fs::read_dir(&folder.0).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
        names.push(file.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(names, ["ledger.db", "ledger.db-shm", "ledger.db-wal"]);
    // The control: a file without the mode would be readable by others.
    std::fs::write(folder.0.join("plain"), "").unwrap();
    assert_ne!(std::fs::metadata(folder.0.join("plain")).unwrap().permissions().mode() & 0o777, 0o600);
}

/// Whoever closes a file last takes its log away, so that a log tells of a connection.
#[tokio::test]
async fn the_connection_that_was_checked_stays_open() {
    let folder = Folder::new();
    let log = folder.0.join("ledger.db-wal");
    with_budget(&folder.ledger(), "1").await.close().await;
    assert!(!log.exists());
    let ledger = Ledger::open_existing(folder.ledger()).await.unwrap();
    assert!(log.exists());
    ledger.close().await;
    assert!(!log.exists());
    // A file that is refused is let go.
    super::tamper::edit(&folder.ledger(), "DROP TRIGGER entries_fixed; UPDATE entries SET hash = 'x'").await;
    assert!(Ledger::open_existing(folder.ledger()).await.is_err());
    assert!(!log.exists());
}

#[tokio::test]
async fn odd_paths_are_one_file() {
    let folder = Folder::new();
    for name in ["a b", "50%", "50%25", "what?mode=memory", "x#y", ":memory:", "数据"] {
        let path = folder.0.join(name);
        let ledger = with_budget(&path, "1").await;
        ledger.charge(&keyed("x")).await.unwrap();
        drop(ledger);
        let ledger = Ledger::open_existing(&path).await.unwrap();
        assert_eq!(ledger.verify(None).await.unwrap().charges, 1, "{name}");
    }
}
