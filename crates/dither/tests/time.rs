//! What an analyst can tell from how long a question runs, from what comes back, and from asking again.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may fail like tests")]

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dither::{Answered, Cell, Explain, Request, Session};
use dither_query::bound::Bounding;
use dither_query::engine::{Counting, Engine, LocalEngine};
use dither_query::source::Tables;

const POLICY: &str = r#"
dataset = "people"
budget = { epsilon = 2 }
[tables.people]
source = "people.csv"
privacy_unit = { column = "id" }
max_groups_per_unit = 2
max_rows_per_group = 3
[tables.people.columns]
id = { type = "integer" }
town = { type = "text", keys = ["A", "B", "absent"] }
age = { type = "integer", bounds = [0, 110] }
"#;

const SQL: &str = "SELECT town, COUNT(*) AS n, AVG(age) AS age FROM people GROUP BY town";

/// A table of people, in which one may own many rows.
fn table(whale: usize) -> tempfile::TempDir {
    let mut rows = String::from("id,town,age\n");
    let others = (0..300).map(|row| (row / 3, row));
    for (id, row) in others.chain((0..whale).map(|row| (7_000, row))) {
        let _ = writeln!(rows, "{id},{},{}", ["A", "B"][row % 2], row % 90);
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("people.csv"), rows).unwrap();
    std::fs::write(folder.path().join("policy.toml"), POLICY).unwrap();
    folder
}

fn session(folder: &tempfile::TempDir) -> Session {
    Session::open(folder.path().join("policy.toml")).unwrap()
}

fn request(epsilon: &str) -> Request {
    Request::new(SQL, epsilon.parse().unwrap())
}

/// How often an engine looked at rows, how often it was left before it had counted, and whether it ever ends.
#[derive(Default)]
struct Looks {
    begun: AtomicUsize,
    left: AtomicUsize,
}

struct Watched {
    looks: Arc<Looks>,
    ends: bool,
}

struct Left(Arc<Looks>, bool);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.left.fetch_add(usize::from(!self.1), Ordering::Relaxed);
    }
}

impl Engine for Watched {
    fn count<'a>(&'a self, bounding: &'a Bounding<'a>, tables: &'a Tables) -> Counting<'a> {
        Box::pin(async move {
            self.looks.begun.fetch_add(1, Ordering::Relaxed);
            let mut left = Left(Arc::clone(&self.looks), false);
            let counted = LocalEngine::new(1).count(bounding, tables).await;
            if !self.ends {
                // Everything is counted, and nothing of it may be shown.
                std::future::pending::<()>().await;
            }
            left.1 = true;
            counted
        })
    }
}

fn watched(folder: &tempfile::TempDir, ends: bool) -> (Session, Arc<Looks>) {
    let looks = Arc::<Looks>::default();
    (session(folder).with_engine(Box::new(Watched { looks: Arc::clone(&looks), ends })), looks)
}

/// What there is of an answer besides its noisy numbers: its keys in their order, and how many cells a row has.
fn shape(answered: &Answered) -> Vec<(Cell, usize)> {
    answered.answer.rows.iter().map(|row| (row[0].clone(), row.len())).collect()
}

#[tokio::test]
async fn tm_04_a_question_that_runs_out_of_time_keeps_its_charge_and_shows_nothing() {
    let folder = table(0);
    let (endless, looks) = watched(&folder, false);
    let endless = endless.with_timeout(Duration::from_millis(300));
    for _ in 0..2 {
        let error = endless.query(&request("0.5")).await.unwrap_err();
        assert_eq!(error.to_string(), "the question could not be answered; the charge stands");
        assert_eq!((error.code(), error.hint().as_deref()), ("engine-failed", Some(HINT)));
        let dither::Error::Engine(failure) = error else { panic!("a failure after the charge") };
        assert_eq!(failure.operator_detail(), "the limit of time was reached");
    }
    let counts = (looks.begun.load(Ordering::Relaxed), looks.left.load(Ordering::Relaxed));
    assert_eq!(counts, (2, 2), "the engine is dropped, not waited for");
    let preview = endless.plan(&request("0.5"), None).await.unwrap();
    assert_eq!((preview.remaining.epsilon, preview.answered_before), (1.5, false), "charged once, in full");
    // The control: within its time the same request is answered, under the same charge.
    let (quick, _) = watched(&folder, true);
    let answered = quick.with_timeout(Duration::from_secs(600)).query(&request("0.5")).await.unwrap();
    assert_eq!((answered.remaining.epsilon, answered.repeated), (1.5, false));
}

const HINT: &str = "the same request is not charged twice: ask again with more time or memory, or ask the operator";

/// Somebody with 100,000 rows changes neither the status nor the rows of an answer, a failure or a refusal; the length of a
/// number is that of a noisy one. That time differs is not denied: see docs/threat-model.md.
#[tokio::test]
async fn tm_02_a_unit_with_many_rows_changes_no_size_and_no_status() {
    let (with, without) = (table(100_000), table(0));
    let (a, b) = (session(&with), session(&without));
    let first = (a.query(&request("0.5")).await.unwrap(), b.query(&request("0.5")).await.unwrap());
    assert_eq!(shape(&first.0), shape(&first.1));
    assert_eq!(shape(&first.0).len(), 3);
    assert_eq!(first.0.answer.columns, first.1.answer.columns);
    assert_eq!((first.0.charged, first.0.remaining), (first.1.charged, first.1.remaining));
    let refused = (a.query(&request("1.6")).await.unwrap_err(), b.query(&request("1.6")).await.unwrap_err());
    assert_eq!(refused.0.to_string(), refused.1.to_string());
    let failed = |folder| watched(folder, false).0.with_timeout(Duration::from_millis(10));
    let (a, b) = (failed(&with).query(&request("0.25")).await, failed(&without).query(&request("0.25")).await);
    assert_eq!(a.unwrap_err().to_string(), b.unwrap_err().to_string());
    // The control: without bounds on what one person adds, the size would show it.
    let rows = |folder: &tempfile::TempDir| std::fs::read(folder.path().join("people.csv")).unwrap().len();
    assert!(rows(&with) > 100 * rows(&without));
}

/// The second identical question is answered from the ledger: no row is read for it, whatever the rows are by now.
#[tokio::test]
async fn tm_06_the_second_identical_question_reads_no_row() {
    let folder = table(0);
    let (watched, looks) = watched(&folder, true);
    let first = watched.query(&request("0.5")).await.unwrap();
    assert_eq!(looks.begun.load(Ordering::Relaxed), 1);
    std::fs::write(folder.path().join("people.csv"), "id,town,age\n1,B,3\n").unwrap();
    let second = watched.query(&request("0.5")).await.unwrap();
    assert!(second.repeated);
    assert_eq!((second.answer, second.receipt), (first.answer, first.receipt));
    assert_eq!(looks.begun.load(Ordering::Relaxed), 1, "no row was read");
    // The control: another question is another look.
    watched.query(&request("0.25")).await.unwrap();
    assert_eq!(looks.begun.load(Ordering::Relaxed), 2);
}
