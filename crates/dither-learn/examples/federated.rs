//! Federated averaging over many clients that each hold few images of two digits only, with client-level privacy, beside
//! its twin without clipping and noise.
//!
//! ```sh
//! cargo run --release -p dither-learn --example federated -- examples/training/data 3
//! ```
//!
//! The arguments are the folder with the four files of MNIST, how often to train, and the learning rates of clients and of
//! those of the twin. 60,000 images go to 10,000 clients
//! with six each: sorted by digit, cut into shards of three images, two shards for each client. A server is trusted, asks
//! each client with probability 0.05 in each of 100 rounds, and adds the noise. A client improves a softmax model in three
//! steps on its own images.

use std::error::Error;
use std::path::{Path, PathBuf};

use dither_federated::{Client, Plan, Settings, Trust};
use dither_learn::model::{Batch, Model, Targets};
use dither_learn::nn::{Description, Network};
use dither_learn::train::data::Rows;
use dither_learn::train::load::{Data, Source};
use dither_noise::{BitSource, NoiseSource};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

const PIXELS: usize = 784;
const CLASSES: usize = 10;
const CLIENTS: usize = 10_000;
/// Images of one digit that stay together.
const SHARD: usize = 3;
const ROUNDS: u32 = 100;
const RATE: f64 = 0.05;
const DELTA: f64 = 1e-5;
const NOISE_MULTIPLIER: f64 = 1.4;
const CLIP: f64 = 0.3;
/// Steps of a client on all its images.
const LOCAL_STEPS: u32 = 3;

/// A client with its images.
struct Holder<'a> {
    rows: &'a Rows,
    /// What the model looks like; its weights are those of the round.
    model: &'a Network,
    own: Vec<u32>,
    /// The learning rate of its steps.
    rate: f32,
}

impl Client for Holder<'_> {
    fn update(&self, global: &[f32], _round: u32) -> Vec<f32> {
        // What fails is no update, and counts as zeros.
        self.improve(global).unwrap_or_default()
    }
}

impl Holder<'_> {
    fn improve(&self, global: &[f32]) -> Fallible<Vec<f32>> {
        let mut model = self.model.clone();
        model.trainable_mut().copy_from_slice(global);
        let (inputs, targets) = (self.rows.inputs(&self.own), self.rows.targets(&self.own));
        // One sample: the gradient is that of the mean loss.
        let batch = Batch { inputs, targets, offsets: vec![0, self.own.len()] };
        for _ in 0..LOCAL_STEPS {
            let mut gradient = vec![0.0; global.len()];
            model.add_gradients(&batch, &mut gradient)?;
            model.trainable_mut().iter_mut().zip(&gradient).for_each(|(weight, g)| *weight -= self.rate * g);
        }
        Ok(model.trainable().iter().zip(global).map(|(new, old)| new - old).collect())
    }
}

fn main() -> Fallible<()> {
    let mut words = std::env::args().skip(1);
    let folder = PathBuf::from(words.next().ok_or("federated FOLDER [RUNS [RATE [RATE OF THE TWIN]]]")?);
    let runs: u32 = words.next().map_or(Ok(3), |word| word.parse())?;
    // Clipping holds back large updates, so the twin has a learning rate of its own: each has the best of those tried.
    let mut rate = |usual: f32| words.next().map_or(Ok(usual), |word| word.parse());
    let (private_rate, twin_rate) = (rate(0.01)?, rate(0.01)?);
    let (train, test) = (read(&folder, "train")?, read(&folder, "t10k")?);
    let model = Network::new(&Description::softmax(PIXELS, CLASSES), 0)?;
    let clients_at = |rate| clients(&train, &model, rate);
    let (clients, twins) = (clients_at(private_rate), clients_at(twin_rate));
    let settings = Settings {
        dimension: (CLASSES * (PIXELS + 1)) as u32,
        rounds: ROUNDS,
        clip: CLIP,
        noise_multiplier: NOISE_MULTIPLIER,
        divisor: RATE * CLIENTS as f64,
        trust: Trust::Server { rate: RATE },
    };
    let plan = Plan::new(settings)?;
    println!("{CLIENTS} clients, {ROUNDS} rounds, ε {:.4} at δ {DELTA:e}", plan.guarantee().epsilon(DELTA)?);
    let start = vec![0.0; CLASSES * (PIXELS + 1)];
    let mut source = NoiseSource::from_os()?;
    for run in 1..=runs {
        let private = right(&plan.simulate(&clients, start.clone(), &mut source)?, &test)?;
        let plain = right(&twin(&twins, start.clone(), &mut source)?, &test)?;
        println!("run {run}: {:.2} % right, twin without privacy {:.2} %", 100.0 * private, 100.0 * plain);
    }
    Ok(())
}

/// The same rounds with neither clipping nor noise, and the mean over the true cohort.
fn twin(clients: &[Holder<'_>], mut global: Vec<f32>, source: &mut NoiseSource) -> Fallible<Vec<f32>> {
    for _ in 0..ROUNDS {
        let mut sum = vec![0.0f32; global.len()];
        let mut asked = 0;
        for client in clients {
            let mut coin = [0; 4];
            source.fill(&mut coin)?;
            if f64::from(u32::from_le_bytes(coin)) < RATE * 2f64.powi(32) {
                let update = client.improve(&global)?;
                sum.iter_mut().zip(&update).for_each(|(sum, x)| *sum += x);
                asked += 1;
            }
        }
        global.iter_mut().zip(&sum).for_each(|(weight, sum)| *weight += sum / asked.max(1) as f32);
    }
    Ok(global)
}

/// Images sorted by digit, cut into shards; each client has two shards that lie far apart in a fixed order.
fn clients<'a>(rows: &'a Rows, model: &'a Network, rate: f32) -> Vec<Holder<'a>> {
    let all: Vec<u32> = (0..rows.count() as u32).collect();
    let mut sorted = all.clone();
    if let Targets::Classes(digits) = rows.targets(&all) {
        sorted.sort_by_key(|row| digits[*row as usize]);
    }
    let shards: Vec<&[u32]> = sorted.chunks_exact(SHARD).collect();
    // 7919 is prime and does not divide the number of shards, so every shard is dealt once.
    let dealt = |place: usize| shards[place * 7919 % shards.len()];
    let count = CLIENTS.min(shards.len() / 2);
    (0..count)
        .map(|client| Holder { rows, model, own: [dealt(2 * client), dealt(2 * client + 1)].concat(), rate })
        .collect()
}

fn read(folder: &Path, part: &str) -> Fallible<Rows> {
    let file = |kind: &str| format!("{part}-{kind}-ubyte").into();
    let (images, labels) = (file("images-idx3"), file("labels-idx1"));
    let data = Data::Images { images, labels, classes: CLASSES as u32, pixels: PIXELS };
    Ok(Source::open(&data, folder, None)?.public_rows()?)
}

/// The share of images that a model classifies rightly.
fn right(weights: &[f32], test: &Rows) -> Fallible<f64> {
    let mut model = Network::new(&Description::softmax(PIXELS, CLASSES), 0)?;
    model.trainable_mut().copy_from_slice(weights);
    let all: Vec<u32> = (0..test.count() as u32).collect();
    let Targets::Classes(digits) = test.targets(&all) else { return Err("the labels are no classes".into()) };
    let scores = model.predict(&test.inputs(&all))?;
    let best = |scores: &[f32]| (0..CLASSES).max_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    let hits = scores.chunks(CLASSES).zip(digits).filter(|(scores, digit)| best(scores) == Some(*digit as usize));
    Ok(hits.count() as f64 / test.count().max(1) as f64)
}
