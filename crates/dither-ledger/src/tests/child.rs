//! A second process: this test binary again, with a role.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::*;

/// The command that runs a role in another process. Its arguments are a folder, a text and a number.
pub(super) fn command(role: &str, folder: &Path, text: &str, number: usize) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "tests::child::act", "--nocapture", "--test-threads=1"]);
    command.env("DITHER_TEST_ROLE", role).env("DITHER_TEST_FOLDER", folder);
    command.env("DITHER_TEST_TEXT", text).env("DITHER_TEST_NUMBER", number.to_string());
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    command
}

pub(super) fn spawn(role: &str, folder: &Path, text: &str, number: usize) -> Child {
    command(role, folder, text, number).spawn().unwrap()
}

/// Does what the environment says; nothing when it is run as a test of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn act() {
    let Ok(role) = std::env::var("DITHER_TEST_ROLE") else { return };
    let read = |name| std::env::var(name).unwrap();
    let folder = PathBuf::from(read("DITHER_TEST_FOLDER"));
    let (text, number) = (read("DITHER_TEST_TEXT"), read("DITHER_TEST_NUMBER").parse::<usize>().unwrap());
    match role.as_str() {
        "create" => with_budget(&folder.join("ledger.db"), "1000").await.close().await,
        "race" => super::race::process(&folder, &text, number).await,
        "ask" | "ask-boasting" => super::crash::process(&folder, &text, number, role == "ask-boasting").await,
        "fault" | "fault-boasting" => super::fault::process(&folder, role == "fault-boasting").await,
        other => panic!("no role {other}"),
    }
}

/// Appends a line to the diary, which survives the death of the process that wrote it.
pub(super) fn note(folder: &Path, line: &str) {
    let mut diary = OpenOptions::new().create(true).append(true).open(folder.join("diary")).unwrap();
    diary.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// The complete lines of the diary.
pub(super) fn diary(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("diary")).unwrap_or_default();
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    complete.lines().map(str::to_owned).collect()
}

/// Waits until a condition holds.
pub(super) fn wait_for(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "the other process did not come");
        std::thread::sleep(Duration::from_micros(200));
    }
}
