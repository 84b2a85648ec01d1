//! Attacks on the whole system, by an analyst who knows everything but one bit of each person.
//!
//! # References
//! Gadotti, Houssiau, Rocher, Livshits and de Montjoye, *When the Signal is in the Noise: Exploiting Diffix's Sticky
//! Noise*, 2019. Dinur and Nissim, *Revealing Information while Preserving Privacy*, 2003.

#![allow(clippy::unwrap_used, reason = "the helpers of tests may fail like tests")]

use dither::{Cell, Request, Session};
use dither_testing::{FALSE_ALARM, SeededBytes, binomial};

/// A table of people of whom the attacker knows the number; the secret is one bit of each.
struct World {
    folder: tempfile::TempDir,
    secrets: Vec<bool>,
}

impl World {
    fn new(people: usize, seed: u64) -> Self {
        let mut coins = SeededBytes::new(seed);
        let secrets: Vec<bool> = (0..people).map(|_| coins.unit() < 0.5).collect();
        let folder = tempfile::tempdir().unwrap();
        let rows: String = (0..people).map(|id| format!("{id},{id},{}\n", u8::from(secrets[id]))).collect();
        std::fs::write(folder.path().join("people.csv"), format!("id,home,ill\n{rows}")).unwrap();
        Self { folder, secrets }
    }

    /// A session with this total budget and a fresh ledger.
    fn session(&self, epsilon: u32) -> Session {
        let last = self.secrets.len() - 1;
        let policy = format!(
            r#"
            dataset = "people-{epsilon}"
            [budget]
            epsilon = {epsilon}
            delta = 0
            composition = "basic"
            [tables.people]
            source = "people.csv"
            privacy_unit = {{ column = "id" }}
            max_groups_per_unit = 1
            max_rows_per_group = 1
            [tables.people.columns]
            id = {{ type = "integer" }}
            home = {{ type = "integer", keys = {{ from = 0, to = {last} }} }}
            ill = {{ type = "integer", bounds = [0, 1] }}
            "#
        );
        let path = self.folder.path().join(format!("policy-{epsilon}.toml"));
        std::fs::write(&path, policy).unwrap();
        Session::open(path).unwrap()
    }

    /// How many of the guesses are right.
    fn right(&self, guesses: &[bool]) -> u64 {
        assert_eq!(guesses.len(), self.secrets.len());
        self.secrets.iter().zip(guesses).filter(|(secret, guess)| secret == guess).count() as u64
    }
}

/// The released numbers of the last column.
async fn ask(session: &Session, sql: String, epsilon: &str) -> Option<Vec<f64>> {
    let answered = session.query(&Request::new(sql, epsilon.parse().unwrap())).await.ok()?;
    let value = |row: &Vec<Cell>| match row.last() {
        Some(Cell::Value(estimate)) => estimate.value.unwrap(),
        other => panic!("a released number, not {other:?}"),
    };
    Some(answered.answer.rows.iter().map(value).collect())
}

/// Whether so many right guesses refute ε, at the false-alarm rate of all tests.
///
/// Who guesses a uniform bit of one person from an ε-private answer is right with probability at most
/// e^ε/(1 + e^ε). Secrets are independent, so the bound holds for each guess given all others.
fn refuted(right: u64, guesses: u64, epsilon: f64) -> bool {
    binomial::lower(right, guesses, FALSE_ALARM) > epsilon.exp() / (1.0 + epsilon.exp())
}

/// Asks as often about each home, each time in other words, adds up the answers, and guesses.
async fn clone_attack(world: &World, session: &Session, clones: u32, epsilon: &str) -> u64 {
    let mut sums = vec![0.0; world.secrets.len()];
    for clone in 0..clones {
        // Conditions that hold for everybody make the text another one, and the answer another draw.
        let sql = format!("SELECT home, COUNT(*) AS n FROM people WHERE ill = 1 AND id > -{} GROUP BY home", clone + 1);
        let answer = ask(session, sql, epsilon).await.unwrap();
        sums.iter_mut().zip(answer).for_each(|(sum, value)| *sum += value);
    }
    let guesses: Vec<bool> = sums.iter().map(|&sum| sum > f64::from(clones) / 2.0).collect();
    world.right(&guesses)
}

#[tokio::test]
async fn sq_29_clones_of_one_question_learn_what_the_budget_allows() {
    let world = World::new(2_000, 29);
    let people = world.secrets.len() as u64;
    let session = world.session(1);
    let right = clone_attack(&world, &session, 100, "0.01").await;
    assert!(!refuted(right, people, 1.0), "{right} of {people} with 100 clones");
    let one_more = "SELECT home, COUNT(*) AS n FROM people WHERE ill = 1 AND id > -1000 GROUP BY home".to_owned();
    assert_eq!(ask(&session, one_more, "0.01").await, None, "the budget is used up");
    let again = World::new(2_000, 29);
    // One question with all of the budget is the best the attacker can do, and learns something.
    let right = clone_attack(&again, &again.session(1), 1, "1").await;
    assert!(!refuted(right, people, 1.0), "{right} of {people} at once");
    assert!(refuted(right, people, 0.1), "{right} of {people}: the attack guesses");
    // The control is a system that has a budget for each question and none for all of them.
    let right = clone_attack(&world, &world.session(30), 30, "1").await;
    assert!(refuted(right, people, 1.0), "the control must be found: {right} of {people}");
}

/// Sums over random halves of all people, and the guess of least squares about each.
async fn reconstruct(
    world: &World,
    session: &Session,
    questions: usize,
    epsilon: &str,
    coins: &mut SeededBytes,
) -> u64 {
    let mut halves: Vec<Vec<f64>> = Vec::new();
    let mut answers = Vec::new();
    for _ in 0..questions {
        let members: Vec<bool> = world.secrets.iter().map(|_| coins.unit() < 0.5).collect();
        let ids: Vec<String> = (0..members.len()).filter(|&id| members[id]).map(|id| id.to_string()).collect();
        let sql = format!("SELECT SUM(ill) AS n FROM people WHERE id IN ({})", ids.join(", "));
        answers.extend(ask(session, sql, epsilon).await.unwrap());
        halves.push(members.iter().map(|&member| f64::from(u8::from(member))).collect());
    }
    let guesses: Vec<bool> = least_squares(&halves, &answers).iter().map(|&bit| bit > 0.5).collect();
    world.right(&guesses)
}

/// Conjugate gradients on the normal equations, from one half for everybody.
fn least_squares(rows: &[Vec<f64>], answers: &[f64]) -> Vec<f64> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let back = |residuals: &[f64]| {
        let mut sum = vec![0.0; rows[0].len()];
        for (row, residual) in rows.iter().zip(residuals) {
            sum.iter_mut().zip(row).for_each(|(sum, entry)| *sum += entry * residual);
        }
        sum
    };
    let mut solution = vec![0.5; rows[0].len()];
    let residuals: Vec<f64> = rows.iter().zip(answers).map(|(row, answer)| answer - dot(row, &solution)).collect();
    let mut gradient = back(&residuals);
    let mut direction = gradient.clone();
    for _ in 0..solution.len() {
        let norm = dot(&gradient, &gradient);
        let image: Vec<f64> = rows.iter().map(|row| dot(row, &direction)).collect();
        let step = norm / dot(&image, &image).max(f64::MIN_POSITIVE);
        solution.iter_mut().zip(&direction).for_each(|(entry, along)| *entry += step * along);
        let change = back(&image);
        gradient.iter_mut().zip(change).for_each(|(entry, change)| *entry -= step * change);
        let ratio = dot(&gradient, &gradient) / norm.max(f64::MIN_POSITIVE);
        direction.iter_mut().zip(&gradient).for_each(|(along, entry)| *along = entry + ratio * *along);
        if norm < 1e-12 {
            break;
        }
    }
    solution
}

#[tokio::test]
async fn sq_30_random_subsets_do_not_reconstruct_the_table() {
    let mut coins = SeededBytes::new(30);
    let world = World::new(200, 30);
    let people = world.secrets.len() as u64;
    let session = world.session(1);
    let right = reconstruct(&world, &session, 250, "0.004", &mut coins).await;
    assert!(!refuted(right, people, 1.0), "{right} of {people}");
    let one_more = "SELECT SUM(ill) AS n FROM people WHERE id IN (1, 2)".to_owned();
    assert_eq!(ask(&session, one_more, "0.004").await, None, "the subsets exhaust the budget");
    // The control is a system that has a budget for each question and none for all of them.
    let right = reconstruct(&world, &world.session(300), 300, "1", &mut coins).await;
    assert!(refuted(right, people, 1.0), "the control must be found: {right} of {people}");
}

/// What is computed of noisy numbers lies within its interval or has none, and whole numbers do not wrap around.
#[tokio::test]
async fn arithmetic_on_noisy_numbers_stays_within_its_interval() {
    let world = World::new(100, 5);
    let session = world.session(1_000);
    for (output, known) in [
        ("CAST(COUNT(*) / 7.0 AS BIGINT)", true),
        ("-CAST(COUNT(*) / 7.0 AS INTEGER)", true),
        ("CAST(COUNT(*) * 3 AS TINYINT)", false),
        ("CAST(COUNT(*) AS BIGINT) * 9223372036854775807", true),
    ] {
        let request = Request::new(format!("SELECT {output} AS x FROM people"), "1".parse().unwrap());
        let answered = session.query(&request).await.unwrap();
        let Cell::Value(estimate) = &answered.answer.rows[0][0] else { panic!("{answered:?}") };
        assert_eq!(estimate.value.is_some(), known, "{output}: {estimate:?}");
        assert!((estimate.low <= estimate.value) && (estimate.value <= estimate.high), "{output}: {estimate:?}");
        assert!(estimate.value.is_none_or(|value| (value < 0.0) == output.starts_with('-')), "{output}: {estimate:?}");
    }
}

/// A text that depends on noisy numbers may be one that is no number: that is said before the charge.
#[tokio::test]
async fn texts_made_of_noisy_numbers_are_refused_before_the_charge() {
    let world = World::new(100, 5);
    let session = world.session(10);
    for (sql, refused) in [
        ("SELECT CASE WHEN COUNT(*) > 50 THEN 'many' ELSE '1' END AS k FROM people", true),
        ("SELECT CASE WHEN COUNT(*) > 50 THEN 2 ELSE 1 END AS k FROM people", false),
    ] {
        let answered = session.query(&Request::new(sql, "1".parse().unwrap())).await;
        match answered {
            Err(error) => {
                assert!(refused && error.to_string().contains("`k` is made of noisy numbers"), "{sql}: {error}")
            }
            Ok(answered) => assert!(!refused && answered.remaining.epsilon == 9.0, "{sql}: {answered:?}"),
        }
    }
}
