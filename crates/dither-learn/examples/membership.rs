//! Who took part? An attack on federated models: with client-level privacy, and without.
//!
//! ```sh
//! cargo run --release -p dither-learn --example membership -- examples/training/adult.toml 3
//! cargo run --release -p dither-learn --example membership -- examples/training/adult.toml 1 3 overfitted long
//! ```
//!
//! The arguments are a job, of which only the rows of `data` are used, how often to train, the first seed, and the kinds of
//! models if not all. Rows are shuffled with a seed and dealt: 500 clients with eight rows each take part, 500 others do
//! not, 500 more are the attacker's own, and the rest measures the area under the curve (AUC). Models of four kinds come of
//! the same first weights:
//!
//! - *private*: 20 rounds of a trusted server, client-level privacy;
//! - *twin*: the same rounds and steps, neither clipped nor noised;
//! - *overfitted*: 2,000 rounds of one step, with momentum and a rate that falls, neither clipped nor noised;
//! - *long*: as many steps with the same momentum and the same fall of the rate, as a private run of the trainer whose units
//!   are clients, at the ε of *private*. Against *overfitted* it shows what privacy does where so many steps would remember.
//!
//! The attacker has the final model and all rows of a client, and says whether it took part; members and others are as
//! many. It compares the mean loss of the client with a threshold; or that loss less the loss under a model that the
//! attacker trained in the same way on clients of its own, which tells easy clients from known ones (Watson et al., *On the
//! Importance of Difficulty Calibration in Membership Inference Attacks*, 2022). The threshold is the best one on one half
//! of the clients of either kind, and judged on the other half, both ways round.

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use dither_federated::{Client, Plan, Settings, Trust};
use dither_learn::model::{Batch, Inputs, Model, Targets};
use dither_learn::nn::{Activation, Description, Network, Objective};
use dither_learn::train::card::rounded_up;
use dither_learn::train::data::Rows;
use dither_learn::train::job::{Job, ModelPart};
use dither_learn::train::load::Source;
use dither_learn::train::optimizer::{Method, Optimizer, Schedule};
use dither_learn::train::session::TrainingSession;
use dither_noise::NoiseSource;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

const CLIENTS: usize = 500;
/// Rows of a client.
const ROWS: usize = 8;
/// Units between inputs and scores.
const HIDDEN: usize = 128;
const ROUNDS: u32 = 20;
const DELTA: f64 = 1e-5;
const NOISE_MULTIPLIER: f64 = 6.25;
const CLIP: f64 = 1.0;
/// Steps of a client on all its rows in a round, and their learning rate.
const LOCAL: (u32, f32) = (5, 0.5);
/// Rounds, first learning rate and momentum of the models that take as many steps as it takes to overfit. The rate falls
/// along a cosine: one that stays blows up now and then, and a model that just did remembers little.
const OVERFITTED: (u32, f64, f64) = (2000, 0.5, 0.98);
/// Clipping norm, noise multiplier and learning rate of the same steps with privacy. A hundred times the rounds and ten times
/// the noise multiplier cost what the private model costs.
const LONG: (f64, f64, f64) = (0.05, 62.5, 0.008);

/// A client with its rows.
struct Holder<'a> {
    rows: &'a Rows,
    /// What the model looks like; its weights are those of the round.
    model: &'a Network,
    own: Vec<u32>,
}

impl Client for Holder<'_> {
    fn update(&self, global: &[f32], _round: u32) -> Vec<f32> {
        // What fails is no update, and counts as zeros.
        self.improve(global).unwrap_or_default()
    }
}

impl Holder<'_> {
    fn improve(&self, global: &[f32]) -> Fallible<Vec<f32>> {
        let (steps, rate) = LOCAL;
        let mut model = self.model.clone();
        model.trainable_mut().copy_from_slice(global);
        for _ in 0..steps {
            let mut gradient = vec![0.0; global.len()];
            model.add_gradients(&batch(self.rows, &self.own), &mut gradient)?;
            model.trainable_mut().iter_mut().zip(&gradient).for_each(|(weight, g)| *weight -= rate * g);
        }
        Ok(model.trainable().iter().zip(global).map(|(new, old)| new - old).collect())
    }
}

/// How often an attack was right.
#[derive(Default, Clone, Copy)]
struct Score {
    right: usize,
    asked: usize,
}

impl Score {
    fn add(&mut self, other: Self) {
        self.right += other.right;
        self.asked += other.asked;
    }

    /// The share of right answers with half the width of its 95 % interval (normal approximation).
    fn percent(self) -> String {
        let (share, asked) = (self.right as f64 / self.asked as f64, self.asked as f64);
        format!("{:.1} ± {:.1} %", 100.0 * share, 196.0 * (share * (1.0 - share) / asked).sqrt())
    }
}

/// What is known of one kind of model.
#[derive(Default)]
struct Found {
    areas: Vec<f64>,
    by_loss: Score,
    calibrated: Score,
}

fn main() -> Fallible<()> {
    let mut words = std::env::args().skip(1);
    let path = PathBuf::from(words.next().ok_or("membership JOB [RUNS [FIRST SEED [KIND…]]]")?);
    let mut number = |usual: u64| words.next().map_or(Ok(usual), |word| word.parse());
    let (runs, seed) = (number(3)?, number(1)?);
    let chosen: Vec<String> = words.collect();
    let job = Job::load(&path)?;
    let base = path.parent().unwrap_or(Path::new(""));
    let rows = Source::open(&job.data, base, None)?.public_rows()?;
    let (inputs, outputs) = job.shape(base)?;
    let description = Description::mlp(inputs, &[HIDDEN], outputs, Activation::Relu, Objective::Classes);
    let model = Network::new(&description, 0)?;
    let first = model.trainable().to_vec();
    let plan = Plan::new(Settings {
        dimension: first.len() as u32,
        rounds: ROUNDS,
        clip: CLIP,
        noise_multiplier: NOISE_MULTIPLIER,
        divisor: CLIENTS as f64,
        trust: Trust::Server { rate: 1.0 },
    })?;
    let epsilon = plan.guarantee().epsilon(DELTA)?;
    println!("{CLIENTS} clients, {} weights, {ROUNDS} rounds, ε {epsilon:.4} at δ {DELTA:e}", first.len());
    let mut source = NoiseSource::from_os()?;
    let kinds = ["private", "twin", "overfitted", "long"].into_iter();
    let asked = kinds.filter(|kind| chosen.is_empty() || chosen.iter().any(|name| name == kind));
    let mut found: Vec<(&str, Found)> = asked.map(|kind| (kind, Found::default())).collect();
    for seed in seed..seed + runs {
        let order = shuffled(rows.count(), seed);
        let dealt = |part: usize| -> Vec<Holder<'_>> {
            let own = order[part * CLIENTS * ROWS..(part + 1) * CLIENTS * ROWS].chunks(ROWS);
            own.map(|own| Holder { rows: &rows, model: &model, own: own.to_vec() }).collect()
        };
        let (members, others, attackers) = (dealt(0), dealt(1), dealt(2));
        let test = &order[3 * CLIENTS * ROWS..];
        let mut train = |kind: &str, clients: &[Holder<'_>]| -> Fallible<Network> {
            let weights = match kind {
                "private" => plan.simulate(clients, first.clone(), &mut source)?,
                "long" => long(clients, &model)?,
                "twin" => averaged(clients, first.clone())?,
                _ => overfitted(clients, &model)?,
            };
            let mut trained = model.clone();
            trained.trainable_mut().copy_from_slice(&weights);
            Ok(trained)
        };
        for (kind, found) in &mut found {
            let (mut target, mut reference) = (train(kind, &members)?, train(kind, &attackers)?);
            let area = area(&mut target, &rows, test)?;
            let (inside, outside) = (losses(&mut target, &members)?, losses(&mut target, &others)?);
            let (easy_in, easy_out) = (losses(&mut reference, &members)?, losses(&mut reference, &others)?);
            let less = |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| a - b).collect() };
            let (by_loss, calibrated) =
                (attack(&inside, &outside), attack(&less(&inside, &easy_in), &less(&outside, &easy_out)));
            println!(
                "run {seed}, {kind}: AUC {:.2} %, attack by loss {}, calibrated {}",
                100.0 * area,
                by_loss.percent(),
                calibrated.percent()
            );
            found.areas.push(area);
            found.by_loss.add(by_loss);
            found.calibrated.add(calibrated);
        }
    }
    for (kind, Found { areas, by_loss, calibrated }) in &found {
        let mean = areas.iter().sum::<f64>() / areas.len() as f64;
        let squares: f64 = areas.iter().map(|area| (area - mean).powi(2)).sum();
        let deviation = (squares / (areas.len() as f64 - 1.0).max(1.0)).sqrt();
        println!(
            "{kind}: AUC {:.2} ± {:.2} %, attack by loss {}, calibrated {}, {} runs",
            100.0 * mean,
            100.0 * deviation,
            by_loss.percent(),
            calibrated.percent(),
            areas.len()
        );
    }
    Ok(())
}

/// Federated averaging of all clients without privacy.
fn averaged(clients: &[Holder<'_>], mut global: Vec<f32>) -> Fallible<Vec<f32>> {
    for _ in 0..ROUNDS {
        let mut sum = vec![0.0f32; global.len()];
        for client in clients {
            let update = client.improve(&global)?;
            sum.iter_mut().zip(&update).for_each(|(sum, x)| *sum += x);
        }
        global.iter_mut().zip(&sum).for_each(|(weight, sum)| *weight += sum / clients.len() as f32);
    }
    Ok(global)
}

/// Rounds in which every client takes one step; so the mean of all updates is one step on the mean of all gradients.
fn overfitted(clients: &[Holder<'_>], model: &Network) -> Fallible<Vec<f32>> {
    let (rounds, rate, momentum) = OVERFITTED;
    let mut model = model.clone();
    let batches: Vec<Batch> = clients
        .chunks(64)
        .map(|clients| {
            let own: Vec<u32> = clients.iter().flat_map(|client| client.own.iter().copied()).collect();
            let rows = clients[0].rows;
            let offsets = (0..=clients.len()).map(|client| client * ROWS).collect();
            Batch { inputs: rows.inputs(&own), targets: rows.targets(&own), offsets }
        })
        .collect();
    let method = Method::Sgd { momentum };
    let schedule = Schedule { method, learning_rate: rate, warmup_steps: 0, cosine: true, average: None };
    let mut optimizer = Optimizer::new(schedule, rounds.into(), model.trainable())?;
    for round in 0..u64::from(rounds) {
        let mut sum = vec![0.0f32; model.trainable().len()];
        for batch in &batches {
            model.add_gradients(batch, &mut sum)?;
        }
        optimizer.update(round, 0, model.trainable_mut(), sum.iter().map(|g| g / clients.len() as f32));
    }
    Ok(model.trainable().to_vec())
}

/// As many steps on all clients, as a private run of the trainer with a client for a unit.
fn long(clients: &[Holder<'_>], model: &Network) -> Fallible<Vec<f32>> {
    let (clip, noise_multiplier, rate) = LONG;
    let (steps, _, momentum) = OVERFITTED;
    let place = tempfile::tempdir()?;
    let (mut table, mut columns) = (String::new(), 0);
    for (client, holder) in clients.iter().enumerate() {
        let (Inputs::Numbers { values, width }, Targets::Classes(classes)) =
            (holder.rows.inputs(&holder.own), holder.rows.targets(&holder.own))
        else {
            return Err("the rows have no numbers and classes".into());
        };
        columns = width;
        for (row, class) in values.chunks(width).zip(classes) {
            let numbers: String = row.iter().map(|number| format!("{number},")).collect();
            writeln!(table, "{client},{numbers}{class}")?;
        }
    }
    let names: String = (0..columns).map(|column| format!("x{column},")).collect();
    std::fs::write(place.path().join("table.csv"), format!("client,{names}y\n{table}"))?;
    std::fs::write(place.path().join("first.safetensors"), model.export()?)?;
    let features: String =
        (0..columns).map(|column| format!(r#"{{ column = "x{column}", lower = -1, upper = 1 }},"#)).collect();
    let mut job = Job::parse(&format!(
        r#"
        ledger = {{ file = "ledger.db", scope = "clients", epsilon = 10, delta = 1e-4 }}
        unit = {{ column = "client", rows = {ROWS}, count = {CLIENTS} }}
        privacy = {{ noise_multiplier = {noise_multiplier}, delta = {DELTA} }}
        sample = {{ rate = 1.0 }}
        training = {{ steps = {steps} }}
        clipping = {{ kind = "flat", bound = {clip} }}
        optimizer = {{ kind = "sgd", momentum = {momentum}, learning_rate = {rate}, cosine = true }}
        model = {{ kind = "linear" }}
        output = {{ folder = "model" }}
        [data]
        kind = "table"
        file = "table.csv"
        features = [{features}]
        label = {{ column = "y", classes = ["0", "1"] }}
        "#
    ))?;
    let network = model.description().clone();
    job.model = ModelPart::Network { network, weights: Some("first.safetensors".into()), sha256: None };
    let mut session = TrainingSession::new(job, place.path(), None)?;
    println!("long: ε {} at δ {DELTA:e}", rounded_up(session.plan().price()?.best));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(session.train(false, false, &mut |_| true))?;
    Ok(session.model().trainable().to_vec())
}

/// The rows of a client as one sample.
fn batch(rows: &Rows, own: &[u32]) -> Batch {
    Batch { inputs: rows.inputs(own), targets: rows.targets(own), offsets: vec![0, own.len()] }
}

/// The mean loss of every client.
fn losses(model: &mut Network, clients: &[Holder<'_>]) -> Fallible<Vec<f64>> {
    let mut unused = vec![0.0; model.trainable().len()];
    let mut loss = |client: &Holder<'_>| -> Fallible<f64> {
        let seen = model.add_gradients(&batch(client.rows, &client.own), &mut unused)?;
        Ok(f64::from(seen.losses.first().copied().unwrap_or(f32::NAN)))
    };
    clients.iter().map(&mut loss).collect()
}

/// Says that a client with a small value took part.
fn attack(inside: &[f64], outside: &[f64]) -> Score {
    let half = |values: &[f64], of: usize| -> Vec<f64> { values.iter().skip(of).step_by(2).copied().collect() };
    let right = |threshold: f64, inside: &[f64], outside: &[f64]| {
        let caught = inside.iter().filter(|value| **value <= threshold).count();
        caught + outside.iter().filter(|value| **value > threshold).count()
    };
    let mut score = Score::default();
    for tuned in 0..2 {
        let (tuned_in, tuned_out) = (half(inside, tuned), half(outside, tuned));
        let (judged_in, judged_out) = (half(inside, 1 - tuned), half(outside, 1 - tuned));
        let thresholds = tuned_in.iter().chain(&tuned_out).copied();
        let best = thresholds.max_by_key(|threshold| right(*threshold, &tuned_in, &tuned_out)).unwrap_or(0.0);
        let asked = judged_in.len() + judged_out.len();
        score.add(Score { right: right(best, &judged_in, &judged_out), asked });
    }
    score
}

/// The probability that a row of the second class has a larger score than one of the first.
fn area(model: &mut Network, rows: &Rows, test: &[u32]) -> Fallible<f64> {
    let Targets::Classes(classes) = rows.targets(test) else { return Err("the labels are no classes".into()) };
    let scores = model.predict(&rows.inputs(test))?;
    let mut scored: Vec<(f32, u32)> = scores.chunks(2).map(|pair| pair[1] - pair[0]).zip(classes).collect();
    scored.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut below, mut pairs) = (0u64, 0u64);
    for (_, class) in &scored {
        match class {
            0 => below += 1,
            _ => pairs += below,
        }
    }
    Ok(pairs as f64 / (below as f64 * (scored.len() as u64 - below) as f64))
}

/// The numbers of all rows in an order that follows from a seed (SplitMix64).
fn shuffled(count: usize, seed: u64) -> Vec<u32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = state;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    };
    let mut order: Vec<u32> = (0..count as u32).collect();
    for i in (1..count).rev() {
        order.swap(i, (next() % (i as u64 + 1)) as usize);
    }
    order
}
