//! Processes that die, and writes that never reach the disk.

use std::path::Path;
use std::time::Duration;

use super::child::{command, diary, note, spawn, wait_for};
use super::*;
use crate::Record;

/// What the dying process does: charges, writes it into the diary, answers, writes that into the diary.
///
/// The boasting one writes before it charges: the defect that these tests must find.
pub(super) async fn process(folder: &Path, name: &str, count: usize, boasting: bool) {
    let ledger = Ledger::open_existing(folder.join("ledger.db")).await.unwrap();
    for number in 0..count {
        let name = format!("{name}-{number}");
        let request = keyed(&name);
        if boasting {
            note(folder, &format!("charged {name}"));
        }
        let charge = charged(ledger.charge(&request).await.unwrap());
        note(folder, &format!("charged {name}"));
        let sealed = seal(&request, charge, f64::from(std::process::id()));
        let answer = ledger.publish(request.request, sealed).await.unwrap();
        note(folder, &format!("answered {name} {}", answer.value()));
    }
}

pub(super) fn keyed(name: &str) -> ChargeRequest {
    ChargeRequest { key: Some(name.into()), ..request(name, "d", 1) }
}

/// Whether everything that the diary promises is in the ledger, once, and the ledger is sound.
pub(super) async fn promises_kept(folder: &Path) -> Result<(), String> {
    let ledger = Ledger::open_existing(folder.join("ledger.db")).await.map_err(|e| e.to_string())?;
    let verified = ledger.verify(None).await.map_err(|e| e.to_string())?;
    let entries = ledger.entries(0, u32::MAX).await.unwrap();
    let charges: Vec<_> = entries
        .iter()
        .filter_map(|entry| match &entry.record {
            Record::Charge(charge) => Some(charge.request.as_str()),
            _ => None,
        })
        .collect();
    for line in diary(folder) {
        let words: Vec<&str> = line.split(' ').collect();
        let request = keyed(words.get(1).copied().unwrap_or_default()).request;
        let answer = ledger.answer::<f64>(request).await.unwrap().map(|release| *release.value());
        let kept = match words[..] {
            ["charged", _] => charges.iter().filter(|charge| **charge == request.to_string()).count() == 1,
            ["answered", _, value] => answer == value.parse().ok(),
            _ => true,
        };
        if !kept {
            return Err(format!("not kept: {line}"));
        }
    }
    let spent = 1_000_000_000_000 - left(&ledger, "d").await;
    if spent != verified.charges { Err(format!("{spent} spent by {} charges", verified.charges)) } else { Ok(()) }
}

#[tokio::test]
async fn du_01_a_process_killed_at_random_times_loses_nothing() {
    let folder = Folder::new();
    with_budget(&folder.ledger(), "1000").await.close().await;
    let mut random = dither_testing::SeededBytes::new(1);
    for round in 0..size(50, 5000) {
        let before = diary(&folder.0).len();
        let mut child = spawn("ask", &folder.0, &round.to_string(), 1000);
        wait_for(|| diary(&folder.0).len() > before || child.try_wait().unwrap().is_some());
        std::thread::sleep(Duration::from_micros((random.unit() * 20_000.0) as u64));
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success());
        promises_kept(&folder.0).await.unwrap();
        // Whatever was in flight is asked again: it is completed, and nothing is charged twice.
        let ledger = Ledger::open_existing(folder.ledger()).await.unwrap();
        let asked = diary(&folder.0).iter().skip(before).filter(|line| line.starts_with("charged")).count();
        for number in 0..=asked {
            let name = format!("{round}-{number}");
            let answer = ask(&ledger, &keyed(&name), -1.0).await.unwrap();
            let told = diary(&folder.0).contains(&format!("answered {name} {answer}"));
            assert!(told || number + 1 >= asked, "{name} was told as something else than {answer}");
        }
        let charges = ledger.verify(None).await.unwrap().charges;
        assert_eq!(left(&ledger, "d").await, 1_000_000_000_000 - charges);
    }
}

/// Each failpoint with how often it is passed before it kills: first by the charge, then by the answer.
const FAILPOINTS: [(&str, usize); 8] = [
    ("begun", 0),
    ("appended", 0),
    ("committing", 0),
    ("committed", 0),
    ("begun", 1),
    ("appended", 1),
    ("committing", 1),
    ("committed", 1),
];

/// Lets a process that asks one question die at a failpoint.
async fn die_at(folder: &Folder, role: &str, (failpoint, passes): (&str, usize)) {
    with_budget(&folder.ledger(), "1000").await.close().await;
    let mut command = command(role, &folder.0, "x", 1);
    let status = command.env("DITHER_TEST_FAILPOINT", format!("{failpoint} {passes}")).status().unwrap();
    assert!(status.code().is_none(), "the process was not killed at {failpoint}");
}

#[tokio::test]
async fn du_01_a_process_killed_at_any_failpoint_loses_nothing() {
    for failpoint in FAILPOINTS {
        let folder = Folder::new();
        die_at(&folder, "ask", failpoint).await;
        promises_kept(&folder.0).await.unwrap();
        let ledger = Ledger::open_existing(folder.ledger()).await.unwrap();
        let charges = ledger.verify(None).await.unwrap().charges;
        assert_eq!(charges, u64::from(failpoint == ("committed", 0) || failpoint.1 == 1), "{failpoint:?}");
        ask(&ledger, &keyed("x-0"), -1.0).await.unwrap();
        assert_eq!(left(&ledger, "d").await, 1_000_000_000_000 - 1, "{failpoint:?}");
    }
}

#[tokio::test]
async fn du_01_control_a_promise_before_the_commit_is_found_out() {
    for failpoint in [("begun", 0), ("appended", 0), ("committing", 0)] {
        let folder = Folder::new();
        die_at(&folder, "ask-boasting", failpoint).await;
        assert_eq!(promises_kept(&folder.0).await, Err("not kept: charged x-0".into()), "{failpoint:?}");
    }
}

#[tokio::test]
async fn du_01_a_process_killed_while_it_creates_leaves_a_ledger_or_none() {
    for (failpoint, exists) in [("drafted 0", false), ("linked 0", true)] {
        let folder = Folder::new();
        let mut command = command("create", &folder.0, "", 0);
        let status = command.env("DITHER_TEST_FAILPOINT", failpoint).status().unwrap();
        assert!(status.code().is_none(), "the process was not killed at {failpoint}");
        assert_eq!(Ledger::open_existing(folder.ledger()).await.is_ok(), exists);
        let ledger = with_budget(&folder.ledger(), "1").await;
        ask(&ledger, &keyed("x"), 1.0).await.unwrap();
        ledger.verify(None).await.unwrap();
    }
}

#[tokio::test]
async fn du_02_between_the_charge_and_the_answer_the_budget_is_gone_and_the_noise_is_not() {
    let folder = Folder::new();
    die_at(&folder, "ask", ("committed", 0)).await;
    let ledger = Ledger::open_existing(folder.ledger()).await.unwrap();
    assert_eq!(left(&ledger, "d").await, 1_000_000_000_000 - 1);
    // The retry gets the same charge; of two answers that are drawn for it, one becomes visible.
    let first = charged(ledger.charge(&keyed("x-0")).await.unwrap());
    let second = charged(ledger.charge(&keyed("x-0")).await.unwrap());
    assert_eq!(first.receipt(), second.receipt());
    let request = keyed("x-0");
    for charge in [(first, 1.5), (second, 2.5)] {
        let sealed = seal(&request, charge.0, charge.1);
        assert_eq!(*ledger.publish(request.request, sealed).await.unwrap().value(), 1.5);
    }
    assert_eq!(ask(&ledger, &request, 3.5).await.unwrap(), 1.5);
    assert_eq!(left(&ledger, "d").await, 1_000_000_000_000 - 1);

    // Killed after the answer was stored, before anybody saw it: it is the answer.
    let folder = Folder::new();
    die_at(&folder, "ask", ("committed", 1)).await;
    let ledger = Ledger::open_existing(folder.ledger()).await.unwrap();
    assert!(ask(&ledger, &request, -1.0).await.unwrap() > 0.0);
}

/// A power cut: the log is whole up to the last commit that was acknowledged, and anything behind that.
#[tokio::test]
async fn du_03_a_torn_log_keeps_every_acknowledged_charge() {
    let folder = Folder::new();
    let ledger = with_budget(&folder.ledger(), "1000").await;
    for number in 0..3 {
        ledger.charge(&keyed(&number.to_string())).await.unwrap();
    }
    let seen = ledger.head().await.unwrap();
    let log = folder.0.join("ledger.db-wal");
    let acknowledged = std::fs::read(&log).unwrap().len();
    ledger.charge(&keyed("unacknowledged")).await.unwrap();
    let (file, log) = (std::fs::read(folder.ledger()).unwrap(), std::fs::read(&log).unwrap());
    assert!(log.len() > acknowledged);

    let reopened = async |log: &[u8]| {
        let folder = Folder::new();
        std::fs::write(folder.ledger(), &file).unwrap();
        std::fs::write(folder.0.join("ledger.db-wal"), log).unwrap();
        let ledger = Ledger::open_existing(folder.ledger()).await?;
        Ok::<_, LedgerError>(ledger.verify(Some(&seen)).await?.charges)
    };
    assert_eq!(reopened(&log).await.unwrap(), 4);
    let step = size(1024, 64).max(64);
    for cut in (acknowledged..log.len()).step_by(step) {
        // The end is missing; or it is zeros; or the end arrived and the part before it did not.
        let mut zeros = log.clone();
        zeros[cut..].fill(0);
        let mut hole = log.clone();
        hole[acknowledged..=cut].fill(0);
        for torn in [&log[..cut], &zeros, &hole] {
            // Bytes that were zero anyway are not torn.
            let expected = if torn == log { 4 } else { 3 };
            assert_eq!(reopened(torn).await.unwrap(), expected, "torn at {cut}");
        }
    }
    // The control: a medium that loses what it said was durable is found out by the receipt.
    for cut in (0..acknowledged).step_by(8 * step) {
        assert!(reopened(&log[..cut]).await.is_err(), "the loss at {cut} was not found");
    }
}
