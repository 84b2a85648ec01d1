//! One side of the benchmark: a training step of this system, on request, in a process of its own.
//!
//! It speaks as `learn_peers.py` does: one JSON line that says how many examples a step has, then for each line with
//! seconds one line with the times of the steps that it took in that long, the processor time of all of them, and the
//! peak of memory.

use std::fmt::Write as _;
use std::io::{BufRead, Write};
use std::num::NonZero;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use dither_learn::model::{Batch, Clipping, Inputs, Model, Targets};
use dither_learn::nn::{Activation, Description, Encoder, Lora, Network, Objective, Train};
use dither_learn::train::session::TrainingSession;
use dither_learn::train::trainer::Progress;

/// What is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Case {
    /// 784-512-256-10, 256 rows.
    Mlp,
    /// Two convolutions on 28 × 28 images, 256 of them.
    Cnn,
    /// A transformer of 6 layers of 256, 32 texts of 64 tokens.
    Encoder,
    /// Adapters of rank 8 on 6 layers of 384, 32 texts of 128 tokens.
    Lora,
}

/// How a step is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum How {
    /// Gradients of the whole batch, and SGD.
    Plain,
    /// The same with every sample clipped, without noise.
    Clipped,
    /// Steps of a real run: sample, parts, clipping, lattice, noise, SGD.
    Private,
}

impl How {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        ["plain", "clipped", "private"][self as usize]
    }
}

impl Case {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Mlp, Self::Cnn, Self::Encoder, Self::Lora];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        ["mlp", "cnn", "encoder", "lora"][self as usize]
    }

    /// Its name in tables.
    pub fn title(self) -> &'static str {
        [
            "MLP 784-512-256-10, batch of 256",
            "CNN of 26,010 weights, batch of 256",
            "encoder, 6 layers of 256, 64 tokens, batch of 32",
            "LoRA of rank 8, 6 layers of 384, 128 tokens, batch of 32",
        ][self as usize]
    }

    fn description(self) -> Description {
        let encoder = |vocabulary, width, heads, positions, train| {
            let (hidden, objective) = (4 * width, Objective::Classes);
            Description::Encoder(Encoder {
                vocabulary,
                positions,
                width,
                blocks: 6,
                heads,
                hidden,
                outputs: 2,
                objective,
                train,
            })
        };
        match self {
            Self::Mlp => Description::mlp(784, &[512, 256], 10, Activation::Relu, Objective::Classes),
            Self::Cnn => Description::small_cnn(10),
            Self::Encoder => encoder(8000, 256, 8, 64, Train::All),
            Self::Lora => encoder(30522, 384, 6, 128, Train::Lora(Lora::new(8))),
        }
    }

    /// Examples of a batch.
    fn examples(self) -> usize {
        if self.length().is_none() { 256 } else { 32 }
    }

    /// Tokens of a text and how many there are.
    fn length(self) -> Option<(usize, usize)> {
        match self {
            Self::Mlp | Self::Cnn => None,
            Self::Encoder => Some((64, 8000)),
            Self::Lora => Some((128, 30522)),
        }
    }

    fn batch(self) -> Batch {
        let rows = self.examples();
        let inputs = match self.length() {
            None => {
                let values = (0..rows * 784).map(|i| ((i * 7919) % 1000) as f32 / 500.0 - 1.0).collect();
                Inputs::Numbers { values, width: 784 }
            }
            Some((length, tokens)) => {
                let ids = (0..rows * length).map(|i| ((i * 7919 + i / 3) % tokens) as u32).collect();
                Inputs::Tokens { ids, length, lengths: vec![length; rows] }
            }
        };
        let classes = if self.length().is_none() { 10 } else { 2 };
        let targets = Targets::Classes((0..rows).map(|row| (row % classes) as u32).collect());
        Batch { inputs, targets, offsets: (0..=rows).collect() }
    }

    /// A table of one batch, and the job that trains on it: with a rate of one, every step has all of it.
    fn job(self, folder: &Path) -> Result<String> {
        let rows = self.examples();
        let data = match self.length() {
            None => {
                let header = |numbers: &[u32]| numbers.iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<u8>>();
                let mut images = header(&[2051, rows as u32, 28, 28]);
                images.extend((0..rows * 784).map(|i| ((i * 7919) % 251) as u8));
                let mut labels = header(&[2049, rows as u32]);
                labels.extend((0..rows).map(|row| (row % 10) as u8));
                std::fs::write(folder.join("images"), images)?;
                std::fs::write(folder.join("labels"), labels)?;
                "kind = \"images\"\nimages = \"images\"\nlabels = \"labels\"\nclasses = 10\npixels = 784".to_owned()
            }
            Some((length, tokens)) => {
                let mut table = "text,label\n".to_owned();
                for row in 0..rows {
                    let words = (0..length).map(|i| format!("w{}", (row * length + i) * 7919 % 99_991));
                    writeln!(table, "{},{}", words.collect::<Vec<_>>().join(" "), ["a", "b"][row % 2])?;
                }
                std::fs::write(folder.join("texts.csv"), table)?;
                format!(
                    "kind = \"text\"\nfile = \"texts.csv\"\ntext = \"text\"\nlength = {length}\n\
                     tokens = {{ words = {{ buckets = {} }} }}\nlabel = {{ column = \"label\", classes = [\"a\", \"b\"] }}",
                    tokens - 1
                )
            }
        };
        // Half a batch at once, so that two threads have one each; of images of the CNN that is a whole part.
        let physical = if self.length().is_none() { 128 } else { 16 };
        let mut network = toml::Table::new();
        network.insert("network".into(), toml::Value::try_from(self.description())?);
        network.insert("kind".into(), "network".into());
        let mut model = toml::Table::new();
        model.insert("model".into(), network.into());
        Ok(format!(
            "run = \"bench\"\n[ledger]\nfile = \"ledger.db\"\nscope = \"bench\"\nepsilon = 1000\ndelta = 1e-5\n\
             [data]\n{data}\n[unit]\nrows = 1\ncount = {rows}\n[privacy]\nnoise_multiplier = 60\ndelta = 1e-6\n\
             [sample]\nrate = 1.0\n[training]\nsteps = 20000\nphysical = {physical}\ncheckpoint_every = 1000000\n\
             [clipping]\nkind = \"flat\"\nbound = 1.0\n[optimizer]\nkind = \"sgd\"\nlearning_rate = 0.01\n\
             [output]\nfolder = \"model\"\n{model}"
        ))
    }
}

/// A side: what is trained, how, and with how many threads.
#[derive(Clone, Copy, Debug)]
pub struct One(pub Case, pub How, pub usize);

impl std::str::FromStr for One {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let parts: Vec<&str> = text.split(',').collect();
        let &[case, how, threads] = parts.as_slice() else { return Err("case,how,threads".into()) };
        let threads = threads.parse().map_err(|_| "no number of threads".to_owned())?;
        Ok(Self(Case::from_str(case, true)?, How::from_str(how, true)?, threads))
    }
}

/// Takes steps until there is no more input.
pub async fn serve(One(case, how, threads): One) -> Result<()> {
    match how {
        How::Plain | How::Clipped => {
            let (mut network, batch) = (Network::new(&case.description(), 1)?, case.batch());
            let parts = divided(&batch, threads);
            let mut sums = vec![vec![0.0f32; network.trainable().len()]; parts.len()];
            let mut requests = Requests::new(case);
            loop {
                if !requests.go_on()? {
                    return Ok(());
                }
                step(&mut network, &parts, how == How::Clipped, &mut sums)?;
            }
        }
        How::Private => {
            let folder = tempfile::tempdir()?;
            let job = folder.path().join("job.toml");
            std::fs::write(&job, case.job(folder.path())?)?;
            let mut session = TrainingSession::open(&job)?;
            session.limit_threads(NonZero::new(threads).context("no thread")?);
            let mut requests = Requests::new(case);
            let mut failure = None;
            let mut watch = |_: Progress<'_>| {
                let more = requests.go_on();
                let go_on = matches!(more, Ok(true));
                failure = more.err();
                go_on
            };
            let ended = session.train(false, false, &mut watch).await;
            // A run that is not asked for more steps ends here, with an error of its own.
            match (failure, ended) {
                (Some(error), _) => Err(error),
                (None, Ok(_)) => bail!("the run has no steps left"),
                (None, Err(_)) if requests.ended => Ok(()),
                (None, Err(error)) => Err(error.into()),
            }
        }
    }
}

/// A batch in even parts.
fn divided(batch: &Batch, threads: usize) -> Vec<Batch> {
    let rows = batch.offsets.len() - 1;
    let Targets::Classes(classes) = &batch.targets else { return vec![batch.clone()] };
    let range = |part: usize| part * rows / threads..(part + 1) * rows / threads;
    let of = |part: usize| {
        let rows = range(part);
        let inputs = match &batch.inputs {
            Inputs::Numbers { values, width } => {
                Inputs::Numbers { values: values[rows.start * width..rows.end * width].to_vec(), width: *width }
            }
            Inputs::Tokens { ids, length, lengths } => Inputs::Tokens {
                ids: ids[rows.start * length..rows.end * length].to_vec(),
                length: *length,
                lengths: lengths[rows.clone()].to_vec(),
            },
        };
        Batch { inputs, targets: Targets::Classes(classes[rows.clone()].to_vec()), offsets: (0..=rows.len()).collect() }
    };
    (0..threads).map(of).collect()
}

/// The gradient of a batch, with a thread for each part, and a step of SGD.
fn step(network: &mut Network, parts: &[Batch], clipped: bool, sums: &mut [Vec<f32>]) -> Result<()> {
    let add = |network: &Network, batch: &Batch, sum: &mut Vec<f32>| {
        sum.fill(0.0);
        let observed = match clipped {
            true => network.add_clipped(batch, &Clipping::Flat { bound: 1.0 }, sum),
            false => network.add_gradients(batch, sum),
        };
        observed.map(drop).map_err(|error| anyhow::anyhow!("{error}"))
    };
    let (first, rest) = sums.split_first_mut().context("no thread")?;
    let shared = &*network;
    std::thread::scope(|scope| {
        let others: Vec<_> =
            rest.iter_mut().zip(&parts[1..]).map(|(sum, part)| scope.spawn(move || add(shared, part, sum))).collect();
        let mine = add(shared, &parts[0], first);
        others
            .into_iter()
            .map(|other| other.join().unwrap_or_else(|_| bail!("a thread panicked")))
            .fold(mine, Result::and)
    })?;
    for other in rest {
        first.iter_mut().zip(other).for_each(|(sum, other)| *sum += *other);
    }
    let rate = 0.01 / parts.iter().map(|part| part.offsets.len() - 1).sum::<usize>() as f32;
    network.trainable_mut().iter_mut().zip(first).for_each(|(weight, g)| *weight -= rate * *g);
    Ok(())
}

/// Requests on the standard input, each for steps of so many seconds.
struct Requests {
    examples: usize,
    steps: u64,
    /// When the block began, how long it is, and its processor time at the beginning.
    block: Option<(Instant, f64, f64)>,
    step: Instant,
    times: Vec<f64>,
    ended: bool,
}

/// How many steps are taken before the first request.
const WARM: u64 = 2;

impl Requests {
    fn new(case: Case) -> Self {
        Self { examples: case.examples(), steps: 0, block: None, step: Instant::now(), times: Vec::new(), ended: false }
    }

    /// Called before every step: whether one more is wanted.
    fn go_on(&mut self) -> Result<bool> {
        let now = Instant::now();
        self.steps += 1;
        if self.steps <= WARM {
            return Ok(true);
        }
        match self.block {
            None => say(&serde_json::json!({ "examples": self.examples }))?,
            Some((begin, seconds, cpu)) => {
                self.times.push((now - self.step).as_secs_f64());
                if (now - begin).as_secs_f64() < seconds {
                    self.step = Instant::now();
                    return Ok(true);
                }
                let (times, cpu) = (std::mem::take(&mut self.times), processor_time()? - cpu);
                say(&serde_json::json!({ "seconds": times, "cpu": cpu, "peak": peak_memory()? }))?;
            }
        }
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line)? == 0 {
            self.ended = true;
            return Ok(false);
        }
        let seconds = line.trim().parse()?;
        self.block = Some((Instant::now(), seconds, processor_time()?));
        self.step = Instant::now();
        Ok(true)
    }
}

fn say(line: &serde_json::Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Seconds that all threads of this process have run.
fn processor_time() -> Result<f64> {
    let line = std::fs::read_to_string("/proc/self/stat")?;
    // The name of the program, in brackets, may have blanks.
    let fields: Vec<&str> = line.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok());
    let (user, system) = ticks(11).zip(ticks(12)).context("the system tells no processor time")?;
    // Linux counts them in hundredths of a second.
    Ok((user + system) / 100.0)
}

/// The peak of the memory of this process, in bytes.
fn peak_memory() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("the system names no VmHWM")?;
    Ok(1024.0 * line.split_whitespace().next().context("VmHWM has a number")?.parse::<f64>()?)
}
