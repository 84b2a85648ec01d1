//! How good a private model is: a job trained several times, each time from a fresh ledger, beside its twin without privacy.
//!
//! ```sh
//! cargo run --release -p dither-learn --example utility -- examples/training/adult.toml --runs 5 --set privacy.epsilon=1
//! ```
//!
//! The test rows are those of `[evaluation]`. They count as public here: they are compared with the predictions directly,
//! without a charge and without noise. `--set key=value` changes a field of the job. The twin has the same model, the
//! same samples on average and the same steps, and neither clips nor adds noise; its learning rate is `--twin-rate`, since
//! a clipped gradient has another length. Noise has no seed by design, so runs of a job differ; twins are seeded by number.
//! With `--keep FOLDER` the models of private runs stay, as `FOLDER/1/model` and so on, for `dither model quantize`; the
//! same command again resumes a run that was cut off, and gives the others again.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use dither_learn::model::Batch;
use dither_learn::train::data::Rows;
use dither_learn::train::evaluation::accuracy_on;
use dither_learn::train::job::Job;
use dither_learn::train::load::Source;
use dither_learn::train::optimizer::Optimizer;
use dither_learn::train::session::TrainingSession;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// How many rows of a twin are handed to the model at once.
const PHYSICAL: usize = 64;

struct Options {
    job: PathBuf,
    runs: u32,
    twins: u64,
    twin_rate: Option<f64>,
    keep: Option<PathBuf>,
    set: Vec<(String, String)>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Fallible<()> {
    let options = options()?;
    let temporary = tempfile::tempdir()?;
    let folder = match &options.keep {
        Some(folder) => std::path::absolute(folder)?,
        None => temporary.path().to_owned(),
    };
    let base = options.job.parent().unwrap_or(Path::new("")).to_owned();
    let whole = written(&options)?;
    let test_data = &whole.evaluation.as_ref().ok_or("the job has no [evaluation], so no test rows")?.data;
    let test = Source::open(test_data, &base, None)?.public_rows()?;

    let mut shares = Vec::new();
    for run in 1..=options.runs {
        let place = folder.join(run.to_string());
        let mut job = whole.clone();
        job.evaluation = None;
        job.run = format!("utility {run}");
        (job.ledger.file, job.output.folder) = (place.join("ledger.db"), place.join("model"));
        let begun = has_key(&place);
        let mut session = TrainingSession::new(job, &base, None)?;
        if run == 1 {
            print!("{}", session.summary()?);
        }
        let start = Instant::now();
        session.train(begun, false, &mut |_| true).await?;
        let share = accuracy_on(session.model(), &test)?;
        println!("private {run}: {:.2} % right, {:.0} s", 100.0 * share, start.elapsed().as_secs_f64());
        shares.push(share);
    }
    summary("private", &shares);

    let mut shares = Vec::new();
    if options.twins > 0 {
        let rows = Source::open(&whole.data, &base, whole.unit.column.as_deref())?.public_rows()?;
        for seed in 1..=options.twins {
            let start = Instant::now();
            let share = twin(&whole, &base, &rows, &test, seed, options.twin_rate)?;
            println!("twin {seed}: {:.2} % right, {:.0} s", 100.0 * share, start.elapsed().as_secs_f64());
            shares.push(share);
        }
    }
    summary("twin", &shares);
    Ok(())
}

/// Whether a run was begun there: without a key nothing was charged.
fn has_key(place: &Path) -> bool {
    let is_key = |name: std::ffi::OsString| Path::new(&name).extension().is_some_and(|kind| kind == "json");
    std::fs::read_dir(place.join("ledger.db.jobs")).is_ok_and(|files| files.flatten().any(|f| is_key(f.file_name())))
}

/// Trains without privacy. Each row is a sample of its own.
fn twin(job: &Job, base: &Path, rows: &Rows, test: &Rows, seed: u64, rate: Option<f64>) -> Fallible<f64> {
    // First weights follow from the name of a run. Sampling and steps are those of the plan; its noise is not used.
    let mut job = job.clone();
    job.run = format!("twin {seed}");
    let mut session = TrainingSession::new(job.clone(), base, None)?;
    let plan = session.plan().clone();
    let model = session.model();
    let mut schedule = job.schedule();
    schedule.learning_rate = rate.unwrap_or(schedule.learning_rate);
    let mut optimizer = Optimizer::new(schedule, plan.steps(), model.trainable())?;
    let mut coins = Coins(seed);
    for step in 0..plan.steps() {
        let sample: Vec<u32> = (0..rows.count() as u32).filter(|_| coins.next() < plan.rate().as_f64()).collect();
        let mut sum = vec![0.0; model.trainable().len()];
        for chunk in sample.chunks(PHYSICAL) {
            let (inputs, targets) = (rows.inputs(chunk), rows.targets(chunk));
            model.add_gradients(&Batch { inputs, targets, offsets: (0..=chunk.len()).collect() }, &mut sum)?;
        }
        let divisor = plan.divisor() as f32;
        optimizer.update(step, 0, model.trainable_mut(), sum.iter().map(|g| g / divisor));
    }
    let weights = optimizer.result(model.trainable()).to_vec();
    model.trainable_mut().copy_from_slice(&weights);
    Ok(accuracy_on(model, test)?)
}

/// Mean and deviation (over n − 1) in per cent.
fn summary(name: &str, shares: &[f64]) {
    if shares.is_empty() {
        return;
    }
    let count = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / count;
    let squares: f64 = shares.iter().map(|share| (share - mean).powi(2)).sum();
    let deviation = (squares / (count - 1.0).max(1.0)).sqrt();
    println!("{name}: {:.2} ± {:.2} % right, {count} runs", 100.0 * mean, 100.0 * deviation);
}

/// The job with its fields set.
fn written(options: &Options) -> Fallible<Job> {
    let text = std::fs::read_to_string(&options.job).map_err(|error| format!("{}: {error}", options.job.display()))?;
    let mut table: toml::Table = text.parse()?;
    for (path, value) in &options.set {
        let value = format!("value = {value}").parse::<toml::Table>().ok().and_then(|mut table| table.remove("value"));
        let value = value.ok_or_else(|| format!("--set {path}: write a value as in TOML"))?;
        let mut part = &mut table;
        let mut names = path.split('.').peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                part.insert(name.into(), value);
                break;
            }
            part =
                part.get_mut(name).and_then(|part| part.as_table_mut()).ok_or_else(|| format!("no table in {path}"))?;
        }
    }
    Ok(Job::parse(&toml::to_string(&table)?)?)
}

fn options() -> Fallible<Options> {
    const USAGE: &str = "utility JOB [--runs N] [--twins N] [--twin-rate RATE] [--keep FOLDER] [--set key=value]…";
    let mut words = std::env::args().skip(1);
    let job = words.next().filter(|word| !word.starts_with("--")).ok_or(USAGE)?.into();
    let mut options = Options { job, runs: 3, twins: 3, twin_rate: None, keep: None, set: Vec::new() };
    while let Some(word) = words.next() {
        let value = words.next().ok_or(USAGE)?;
        match word.as_str() {
            "--runs" => options.runs = value.parse()?,
            "--twins" => options.twins = value.parse()?,
            "--twin-rate" => options.twin_rate = Some(value.parse()?),
            "--keep" => options.keep = Some(value.into()),
            "--set" => options.set.push(value.split_once('=').map(|(k, v)| (k.into(), v.into())).ok_or(USAGE)?),
            _ => return Err(USAGE.into()),
        }
    }
    Ok(options)
}

/// Uniform numbers in [0, 1) from a seed (SplitMix64): for twins, which nothing protects.
struct Coins(u64);

impl Coins {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) as f64 / 2f64.powi(64)
    }
}
