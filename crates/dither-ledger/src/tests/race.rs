//! Many clients at once: tasks of one process, and processes.

use std::path::Path;

use dither_core::Explain;
use tokio::task::JoinSet;

use super::child::{note, spawn, wait_for};
use super::*;
use crate::declare::update;
use crate::entry::{ChargeRecord, Record};
use crate::ledger::lineage;

const PIECE: u128 = 10_000_000;
/// The budget of each round holds this many pieces; twice as many are asked for.
const ROOM: usize = 50;

/// How a client charges: through the ledger, or through a copy of it that looks before it takes the lock.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Lock {
    Taken,
    Skipped,
}

/// The defect that the lock prevents: totals are read outside of it, and written back without looking again.
async fn charge_unlocked(ledger: &Ledger, request: &ChargeRequest) -> bool {
    let cost = dither_accounting::Cost::of(&request.event, request.delta).unwrap();
    let mut rows = lineage(&mut ledger.store.read().await.unwrap(), &request.scope).await.unwrap();
    for row in &mut rows {
        match row.filter().admit(&row.spent, &cost) {
            Ok(spent) => row.spent = spent,
            Err(_) => return false,
        }
    }
    tokio::task::yield_now().await;
    let mut write = ledger.store.write().await.unwrap();
    let (name, label) = (request.request.to_string(), request.label.clone());
    let (scope, event) = (request.scope.clone(), request.event.clone());
    let record = ChargeRecord { request: name, key: None, scope, event, cost, label };
    let entry = write.append(Record::Charge(record)).await.unwrap();
    for (row, now) in rows.iter_mut().zip(lineage(&mut write.tx, &request.scope).await.unwrap()) {
        row.last = now.last;
        update(&mut write, row, entry.sequence).await.unwrap();
    }
    write.commit().await.unwrap();
    true
}

async fn charge(ledger: &Ledger, how: Lock, request: ChargeRequest) -> bool {
    match how {
        Lock::Taken => match ledger.charge(&request).await {
            Ok(_) => true,
            Err(LedgerError::Refused { .. }) => false,
            Err(error) => panic!("{error}"),
        },
        Lock::Skipped => charge_unlocked(ledger, &request).await,
    }
}

/// How many of `count` charges by as many tasks behind a barrier succeed.
async fn stampede(ledger: &Ledger, how: Lock, name: &str, count: usize) -> usize {
    let barrier = Arc::new(tokio::sync::Barrier::new(count));
    let mut tasks = JoinSet::new();
    for number in 0..count {
        let (ledger, barrier) = (ledger.clone(), barrier.clone());
        let request = request(&format!("{name}-{number}"), "d/p", PIECE);
        tasks.spawn(async move {
            barrier.wait().await;
            charge(&ledger, how, request).await
        });
    }
    tasks.join_all().await.into_iter().filter(|charged| *charged).count()
}

async fn fresh(path: &Path) -> Ledger {
    let ledger = Ledger::open(path).await.unwrap();
    ledger.declare(&[limit("d", "0.5", "0"), limit("d/p", "0.7", "0")]).await.unwrap();
    ledger
}

/// In how many rounds exactly the budget was charged, and in how many more.
async fn rounds_of_tasks(how: Lock, rounds: usize) -> (usize, usize) {
    let (mut exact, mut over) = (0, 0);
    for _ in 0..rounds {
        let folder = Folder::new();
        let ledger = fresh(&folder.ledger()).await;
        let charged = stampede(&ledger, how, "task", 2 * ROOM).await;
        exact += usize::from(charged == ROOM);
        over += usize::from(charged > ROOM);
        assert_eq!(ledger.verify(None).await.is_ok(), charged == ROOM, "{charged} charges");
    }
    (exact, over)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn bg_07_tasks_cannot_overspend() {
    let rounds = size(20, 10_000);
    assert_eq!(rounds_of_tasks(Lock::Taken, rounds).await, (rounds, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn bg_07_control_tasks_without_the_lock_overspend() {
    let rounds = size(5, 100);
    let (_, over) = rounds_of_tasks(Lock::Skipped, rounds).await;
    assert!(over * 100 >= rounds * 99, "only {over} of {rounds} rounds went over");
}

const PROCESSES: usize = 4;

/// What one process does in all rounds: waits for the start, charges, says how many succeeded.
pub(super) async fn process(folder: &Path, how: &str, rounds: usize) {
    let how = if how == "taken" { Lock::Taken } else { Lock::Skipped };
    let name = std::process::id().to_string();
    for round in 0..rounds {
        let path = folder.join(format!("{round}.db"));
        wait_for(|| folder.join(format!("{round}.ready")).exists());
        let ledger = Ledger::open_existing(&path).await.unwrap();
        note(&folder.join(round.to_string()), "here");
        wait_for(|| super::child::diary(&folder.join(round.to_string())).len() >= PROCESSES);
        let charged = stampede(&ledger, how, &name, 2 * ROOM / PROCESSES).await;
        note(&folder.join(round.to_string()), &format!("charged {charged}"));
    }
}

async fn rounds_of_processes(how: Lock, rounds: usize) -> (usize, usize) {
    let folder = Folder::new();
    let text = if how == Lock::Taken { "taken" } else { "skipped" };
    let mut children: Vec<_> = (0..PROCESSES).map(|_| spawn("race", &folder.0, text, rounds)).collect();
    let (mut exact, mut over) = (0, 0);
    for round in 0..rounds {
        let ledger = fresh(&folder.0.join(format!("{round}.db"))).await;
        let place = folder.0.join(round.to_string());
        std::fs::create_dir(&place).unwrap();
        std::fs::write(folder.0.join(format!("{round}.ready")), "").unwrap();
        wait_for(|| super::child::diary(&place).len() == 2 * PROCESSES);
        let counts = super::child::diary(&place);
        let counts = counts.iter().filter_map(|line| line.strip_prefix("charged ")?.parse::<usize>().ok());
        let charged: usize = counts.sum();
        exact += usize::from(charged == ROOM);
        over += usize::from(charged > ROOM);
        assert_eq!(ledger.verify(None).await.is_ok(), charged == ROOM, "{charged} charges");
    }
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    (exact, over)
}

/// Several processes share one ledger by design: SQLite's write lock makes them take turns.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn bg_07_du_06_processes_cannot_overspend() {
    let rounds = size(20, 1000);
    assert_eq!(rounds_of_processes(Lock::Taken, rounds).await, (rounds, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn bg_07_du_06_control_processes_without_the_lock_overspend() {
    let rounds = size(5, 100);
    let (_, over) = rounds_of_processes(Lock::Skipped, rounds).await;
    assert!(over * 100 >= rounds * 99, "only {over} of {rounds} rounds went over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn bg_10_clients_that_go_away_are_charged_once_or_not_at_all() {
    let folder = Folder::new();
    let ledger = with_budget(&folder.ledger(), "10").await;
    let mut random = dither_testing::SeededBytes::new(10);
    let count = size(100, 1000);
    for number in 0..count {
        let (clone, request) = (ledger.clone(), request(&number.to_string(), "d", 1));
        let task = tokio::spawn(async move { ask(&clone, &request, number as f64).await });
        tokio::time::sleep(std::time::Duration::from_micros((random.unit() * 4000.0) as u64)).await;
        task.abort();
    }
    // Asking again completes each; those that were charged are not charged again.
    for number in 0..count {
        let answer = ask(&ledger, &request(&number.to_string(), "d", 1), -1.0).await.unwrap();
        assert!(answer == number as f64 || answer == -1.0);
    }
    let verified = ledger.verify(None).await.unwrap();
    assert_eq!((verified.charges, verified.answers), (count as u64, count as u64));
    assert_eq!(left(&ledger, "d").await, 10_000_000_000 - count as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn bg_19_one_key_is_one_charge_and_one_answer() {
    let folder = Folder::new();
    let ledger = with_budget(&folder.ledger(), "1").await;
    let keyed = |name: &str| ChargeRequest { key: Some("key".into()), ..request(name, "d", PIECE) };
    let barrier = Arc::new(tokio::sync::Barrier::new(100));
    let mut tasks = JoinSet::new();
    for number in 0..100 {
        let (ledger, request, barrier) = (ledger.clone(), keyed("x"), barrier.clone());
        tasks.spawn(async move {
            barrier.wait().await;
            // Each would have drawn other noise.
            let answer = ask(&ledger, &request, f64::from(number)).await.unwrap();
            let bytes = ledger.answer_bytes(request.request).await.unwrap().unwrap();
            (answer.to_bits(), bytes.bytes().to_vec())
        });
    }
    let answers = tasks.join_all().await;
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(u128::from(left(&ledger, "d").await), 1_000_000_000 - PIECE);
    let verified = ledger.verify(None).await.unwrap();
    assert_eq!((verified.charges, verified.answers), (1, 1));

    // The key with another question is a conflict, and so is a further key once it is bound.
    assert_eq!(ledger.charge(&keyed("y")).await.err().unwrap().code(), "key-conflict");
    let further = |name: &str| ChargeRequest { key: Some("further".into()), ..keyed(name) };
    assert!(matches!(ledger.charge(&further("x")).await.unwrap(), Outcome::Answered(_)));
    assert_eq!(ledger.charge(&further("y")).await.err().unwrap().code(), "key-conflict");
    // Another scope has keys of its own.
    ledger.declare(&[limit("d/p", "1", "0")]).await.unwrap();
    charged(ledger.charge(&ChargeRequest { key: Some("key".into()), ..request("z", "d/p", 1) }).await.unwrap());
    ledger.verify(None).await.unwrap();
}
