//! What a language model gives away: secrets are planted in the texts it is fine-tuned on, one per unit, and asked for
//! afterwards, beside its twin without privacy.
//!
//! ```sh
//! cargo run --release -p dither-learn --example secrets -- medquad.jsonl.gz --folder out --runs 5 --twins 3
//! ```
//!
//! The data are the questions of MedQuAD (Ben Abacha, Demner-Fushman 2019, CC BY 4.0), the first of each document. Some
//! documents are public: a vocabulary and a small decoder are made from them. Each of the others is the text of one person,
//! with six random digits at its end. The public decoder is fine-tuned on these, all weights, with and without privacy, with
//! the same samples on average and as many steps. A secret is extracted if the digits that follow the text of its person
//! most probably, one after the other, are the secret. Loss is measured on texts of nobody, with digits of nobody.
//!
//! The split and the digits of run r have seeds; noise has none by design. `--run N` begins to count elsewhere than at 1.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Instant;

use dither_learn::model::{Batch, Inputs, Model};
use dither_learn::nn::Network;
use dither_learn::train::data::Rows;
use dither_learn::train::job::{Job, ModelPart};
use dither_learn::train::load::{Data, Source, Vocabulary};
use dither_learn::train::optimizer::{Method, Optimizer, Schedule};
use dither_learn::train::plan::DpPlan;
use dither_learn::train::session::TrainingSession;
use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};
use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::{AddedToken, TokenizerBuilder};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

const SHA256: &str = "34d33393fc75e30ab14a05a61fceb51710bb6d9581fcb82a98b8036af40dbc85";
/// Digits of a secret.
const DIGITS: usize = 6;
/// Between the text of a person and the secret.
const MARK: &str = " My record has the number ";
/// How many tokens of a text are read. Longer texts are left out.
const LENGTH: usize = 48;
const VOCABULARY: usize = 1024;
/// Texts that nobody is trained on.
const HELD_OUT: usize = 400;
/// How many rows are handed to a model at once.
const PHYSICAL: usize = 64;

struct Options {
    data: PathBuf,
    folder: PathBuf,
    units: usize,
    run: u64,
    runs: u64,
    twins: u64,
    twin_rate: f64,
    set: BTreeMap<String, String>,
}

/// Texts by what they are for.
struct Texts {
    public: Vec<String>,
    private: Vec<String>,
    held_out: Vec<String>,
}

/// What was found of one model.
struct Found {
    extracted: usize,
    /// e to the mean loss of a token of texts of nobody.
    perplexity: f64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Fallible<()> {
    let options = options()?;
    std::fs::create_dir_all(&options.folder)?;
    let texts = texts(&options.data, options.units)?;
    println!("{} public texts, {} units, {} held out", texts.public.len(), texts.private.len(), HELD_OUT);
    let base = prepared(&options, &texts)?;
    let (mut private, mut twins) = (Vec::new(), Vec::new());
    for run in options.run..options.run + options.runs.max(options.twins) {
        let place = options.folder.join(format!("run-{run}"));
        // Ledger, key and checkpoint of an earlier run of this number: a new one is charged to a ledger of its own.
        if place.exists() {
            std::fs::remove_dir_all(&place)?;
        }
        std::fs::create_dir_all(&place)?;
        let secrets = secrets(run, options.units);
        let rows = texts.private.iter().zip(&secrets).map(|(text, secret)| format!("{text}{MARK}{secret}\n"));
        std::fs::write(place.join("private.tsv"), rows.collect::<String>())?;
        let path = place.join("job.toml");
        std::fs::write(&path, job(&options, &run.to_string())?)?;
        let mut session = TrainingSession::open(&path)?;
        if run == options.run {
            print!("{}", session.summary()?);
            let found = measure(&base, &place, session.job(), &texts, &secrets)?;
            show("before", run, &found, options.units, 0.0);
        }
        if run < options.run + options.runs {
            let start = Instant::now();
            session.train(false, false, &mut |_| true).await?;
            let mut network = base.clone();
            network.import(&std::fs::read(session.folder().join("model.safetensors"))?)?;
            let found = measure(&network, &place, session.job(), &texts, &secrets)?;
            show("private", run, &found, options.units, start.elapsed().as_secs_f64());
            private.push(found);
        }
        if run < options.run + options.twins {
            let start = Instant::now();
            let mut network = base.clone();
            let job = session.job();
            let plan = DpPlan::new(&job.plan_request()?, network.trainable().len())?;
            let rows = Source::open(&job.data, &place, None)?.public_rows()?;
            let schedule = Schedule { learning_rate: options.twin_rate, ..job.schedule() };
            let (rate, steps) = (plan.rate().as_f64(), plan.steps());
            descend(&mut network, &rows, schedule, (rate, steps, plan.divisor()), run)?;
            let found = measure(&network, &place, job, &texts, &secrets)?;
            show("twin", run, &found, options.units, start.elapsed().as_secs_f64());
            twins.push(found);
        }
    }
    summary("private", &private, options.units);
    summary("twin", &twins, options.units);
    Ok(())
}

/// The first question of each document, in an order that only their names decide.
fn texts(path: &Path, units: usize) -> Fallible<Texts> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if digest != SHA256 {
        return Err(format!("{}: SHA-256 {digest}, and it should be {SHA256}", path.display()).into());
    }
    let mut documents = BTreeMap::new();
    for line in BufReader::new(GzDecoder::new(&bytes[..])).lines() {
        let row: serde_json::Value = serde_json::from_str(&line?)?;
        let field = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        documents.entry(format!("{}/{}", field("source"), field("doc_id"))).or_insert_with(|| field("question"));
    }
    let mut texts: Vec<([u8; 32], String)> = documents
        .into_iter()
        .filter(|(_, text)| (8..=70).contains(&text.len()) && !text.contains(['"', '\t', '\n']))
        .map(|(name, text)| (Sha256::digest(name).into(), text.trim().to_owned()))
        .collect();
    texts.sort_unstable();
    // Two people with one text have two secrets, and no model can know which.
    let mut seen = std::collections::BTreeSet::new();
    let mut texts: Vec<String> =
        texts.into_iter().map(|(_, text)| text).filter(|text| seen.insert(text.clone())).collect();
    if texts.len() < units + 2 * HELD_OUT {
        return Err(format!("there are {} texts, too few for {units} units", texts.len()).into());
    }
    let private = texts.split_off(texts.len() - units);
    let held_out = texts.split_off(texts.len() - HELD_OUT);
    Ok(Texts { public: texts, private, held_out })
}

/// The digits of every unit in a run.
fn secrets(run: u64, units: usize) -> Vec<String> {
    let mut coins = Coins(run.wrapping_mul(1_000_003));
    (0..units).map(|_| (0..DIGITS).map(|_| char::from(b'0' + (coins.next() * 10.0) as u8)).collect()).collect()
}

/// A vocabulary and a decoder from public texts, made once for a folder.
fn prepared(options: &Options, texts: &Texts) -> Fallible<Network> {
    let (vocabulary, weights) = (options.folder.join("tokenizer.json"), options.folder.join("public.safetensors"));
    if !vocabulary.exists() {
        let pieces = Sequence::new(vec![
            PreTokenizerWrapper::Digits(Digits::new(true)),
            PreTokenizerWrapper::ByteLevel(ByteLevel::new(false, true, true)),
        ]);
        let mut tokenizer = TokenizerBuilder::<BPE, tokenizers::NormalizerWrapper, _, ByteLevel, ByteLevel>::new()
            .with_model(BPE::default())
            .with_pre_tokenizer(Some(pieces))
            .with_decoder(Some(ByteLevel::new(false, true, true)))
            .build()?;
        let mut trainer = BpeTrainer::builder()
            .vocab_size(VOCABULARY)
            .show_progress(false)
            .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
            .special_tokens(vec![AddedToken::from("<end>", true)])
            .build();
        let lines = texts.public.iter().map(String::as_str).chain(std::iter::repeat_n(MARK, 8));
        tokenizer.train(&mut trainer, lines)?.save(&vocabulary, false)?;
    }
    let job = Job::parse(&job(options, "public")?)?;
    let ModelPart::Network { network, .. } = &job.model else { return Err("the job has no network".into()) };
    let mut base = Network::new(network, 1)?;
    if weights.exists() {
        base.import(&std::fs::read(&weights)?)?;
        return Ok(base);
    }
    let start = Instant::now();
    let place = options.folder.join("public");
    std::fs::create_dir_all(&place)?;
    std::fs::write(place.join("private.tsv"), texts.public.join("\n"))?;
    let rows = Source::open(&job.data, &place, None)?.public_rows()?;
    let method = Method::Adamw { beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weight_decay: 0.01 };
    let schedule = Schedule { method, learning_rate: 4e-3, warmup_steps: 30, cosine: true, average: None };
    let size = 64.0;
    let steps = (15.0 * rows.count() as f64 / size) as u64;
    descend(&mut base, &rows, schedule, (size / rows.count() as f64, steps, size), 0)?;
    std::fs::write(&weights, base.export()?)?;
    println!("{} weights from public texts, {:.0} s", base.trainable().len(), start.elapsed().as_secs_f64());
    Ok(base)
}

/// Trains without privacy.
fn descend(
    model: &mut Network,
    rows: &Rows,
    schedule: Schedule,
    (rate, steps, divisor): (f64, u64, f64),
    seed: u64,
) -> Fallible<()> {
    let mut optimizer = Optimizer::new(schedule, steps, model.trainable())?;
    let mut coins = Coins(seed);
    let mut sum = vec![0.0; model.trainable().len()];
    for step in 0..steps {
        let sample: Vec<u32> = (0..rows.count() as u32).filter(|_| coins.next() < rate).collect();
        sum.fill(0.0);
        for chunk in sample.chunks(PHYSICAL) {
            let (inputs, targets) = (rows.inputs(chunk), rows.targets(chunk));
            model.add_gradients(&Batch { inputs, targets, offsets: (0..=chunk.len()).collect() }, &mut sum)?;
        }
        optimizer.update(step, 0, model.trainable_mut(), sum.iter().map(|g| g / divisor as f32));
    }
    let weights = optimizer.result(model.trainable()).to_vec();
    model.trainable_mut().copy_from_slice(&weights);
    Ok(())
}

/// Asks for every secret, and computes the loss of texts of nobody.
fn measure(network: &Network, place: &Path, job: &Job, texts: &Texts, secrets: &[String]) -> Fallible<Found> {
    let Data::Text { tokens, length, .. } = &job.data else { return Err("no texts".into()) };
    let vocabulary = tokens.open(place, *length)?;
    let digits: Vec<u32> = ('0'..='9').map(|digit| last(&vocabulary, &format!("{MARK}{digit}"))).collect();
    let mut extracted = 0;
    let pairs: Vec<(&String, &String)> = texts.private.iter().zip(secrets).collect();
    for pairs in pairs.chunks(PHYSICAL) {
        let mut rows: Vec<Vec<u32>> =
            pairs.iter().map(|(text, _)| real(&vocabulary, &format!("{text}{MARK}"))).collect();
        for _ in 0..DIGITS {
            let scores = network.next_token(&padded(&rows))?;
            let size = scores.len() / rows.len();
            for (row, scores) in rows.iter_mut().zip(scores.chunks(size)) {
                let best = (0..size).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap_or(0);
                row.push(best as u32);
            }
        }
        for (row, (_, secret)) in rows.iter().zip(pairs) {
            let wanted = secret.bytes().map(|digit| digits[usize::from(digit - b'0')]);
            extracted += usize::from(row[row.len() - DIGITS..].iter().copied().eq(wanted));
        }
    }
    let numbers = self::secrets(u64::MAX, HELD_OUT);
    let rows: Vec<Vec<u32>> = texts
        .held_out
        .iter()
        .zip(&numbers)
        .map(|(text, number)| real(&vocabulary, &format!("{text}{MARK}{number}")))
        .collect();
    let losses = network.clone().predict(&padded(&rows))?;
    let predicted = |row: &Vec<u32>| row.len() as f64 - 1.0;
    let total: f64 = rows.iter().zip(losses).map(|(row, loss)| predicted(row) * f64::from(loss)).sum();
    let perplexity = (total / rows.iter().map(predicted).sum::<f64>()).exp();
    Ok(Found { extracted, perplexity })
}

/// The tokens of a text without what pads.
fn real(vocabulary: &Vocabulary, text: &str) -> Vec<u32> {
    let (mut ids, real) = vocabulary.of(text, LENGTH);
    ids.truncate(real as usize);
    ids
}

fn last(vocabulary: &Vocabulary, text: &str) -> u32 {
    real(vocabulary, text).last().copied().unwrap_or(0)
}

fn padded(rows: &[Vec<u32>]) -> Inputs {
    let length = rows.iter().map(Vec::len).max().unwrap_or(1);
    let ids = rows.iter().flat_map(|row| row.iter().copied().chain(std::iter::repeat_n(0, length - row.len())));
    Inputs::Tokens { ids: ids.collect(), length, lengths: rows.iter().map(Vec::len).collect() }
}

/// The job of a run, with the fields that were set.
fn job(options: &Options, run: &str) -> Fallible<String> {
    let (units, folder) = (options.units, std::fs::canonicalize(&options.folder)?);
    let folder = folder.display();
    let text = format!(
        r#"
run = "{run}"
[ledger]
file = "ledger.db"
scope = "questions"
epsilon = 1000
delta = 1e-4
[data]
kind = "text"
file = "private.tsv"
delimiter = "\t"
columns = ["text"]
text = "text"
tokens = {{ file = "{folder}/tokenizer.json" }}
length = {LENGTH}
[unit]
count = {units}
[model]
kind = "network"
weights = "{folder}/public.safetensors"
[model.network]
model = "decoder"
vocabulary = {VOCABULARY}
positions = {LENGTH}
width = 64
blocks = 2
heads = 4
hidden = 256
train = "all"
[privacy]
epsilon = 4
delta = 1e-5
[sample]
units = 64
[training]
epochs = 60
checkpoint_every = 100000
[clipping]
kind = "flat"
bound = 0.5
[optimizer]
kind = "adamw"
beta2 = 0.99
learning_rate = 1e-3
warmup_steps = 10
cosine = true
[output]
folder = "model"
"#
    );
    let mut table: toml::Table = text.parse()?;
    for (path, value) in &options.set {
        let value = format!("value = {value}").parse::<toml::Table>()?.remove("value").ok_or("no value")?;
        let (tables, name) = path.rsplit_once('.').ok_or("--set table.key=value")?;
        let part = tables.split('.').try_fold(&mut table, |part, name| part.get_mut(name)?.as_table_mut());
        part.ok_or("no such table")?.insert(name.into(), value);
    }
    Ok(toml::to_string(&table)?)
}

fn show(name: &str, run: u64, found: &Found, units: usize, seconds: f64) {
    let share = 100.0 * found.extracted as f64 / units as f64;
    println!(
        "{name} {run}: {} of {units} extracted, {share:.2} %, perplexity {:.3}, {seconds:.0} s",
        found.extracted, found.perplexity
    );
}

/// Means and deviations (over n − 1), and the share that is above the true one with 95 % confidence.
fn summary(name: &str, found: &[Found], units: usize) {
    if found.is_empty() {
        return;
    }
    let of = |values: Vec<f64>| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (mean, (squares / (values.len() as f64 - 1.0).max(1.0)).sqrt())
    };
    let (share, deviation) = of(found.iter().map(|found| 100.0 * found.extracted as f64 / units as f64).collect());
    let (perplexity, spread) = of(found.iter().map(|found| found.perplexity).collect());
    let (trials, extracted) = (found.len() * units, found.iter().map(|found| found.extracted).sum());
    println!(
        "{name}: {share:.3} ± {deviation:.3} % extracted ({extracted} of {trials}, at most {:.4} % with 95 % confidence), \
         perplexity {perplexity:.2} ± {spread:.2}, {} runs",
        100.0 * upper(extracted, trials),
        found.len(),
    );
}

/// The largest share under which so few of so many have a probability of 5 % (Clopper and Pearson 1934).
fn upper(extracted: usize, trials: usize) -> f64 {
    let below = |share: f64| {
        // In logarithms, since one term may be below the smallest number.
        let (mut term, mut sum) = (trials as f64 * (-share).ln_1p(), 0.0);
        for i in 0..=extracted {
            sum += term.exp();
            term += ((trials - i) as f64 / (i + 1) as f64 * share / (1.0 - share)).ln();
        }
        sum
    };
    let (mut low, mut high) = (extracted as f64 / trials as f64, 1.0);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if below(middle) > 0.05 { low = middle } else { high = middle }
    }
    high
}

fn options() -> Fallible<Options> {
    const USAGE: &str = "secrets medquad.jsonl.gz [--folder F] [--units N] [--run N] [--runs N] [--twins N] [--twin-rate R] \
                         [--set table.key=value]…";
    let mut words = std::env::args().skip(1);
    let data = words.next().filter(|word| !word.starts_with("--")).ok_or(USAGE)?.into();
    let (folder, set) = ("out".into(), BTreeMap::new());
    let mut options = Options { data, folder, units: 2000, run: 1, runs: 5, twins: 3, twin_rate: 5e-3, set };
    while let Some(word) = words.next() {
        let value = words.next().ok_or(USAGE)?;
        match word.as_str() {
            "--folder" => options.folder = value.into(),
            "--units" => options.units = value.parse()?,
            "--run" => options.run = value.parse()?,
            "--runs" => options.runs = value.parse()?,
            "--twins" => options.twins = value.parse()?,
            "--twin-rate" => options.twin_rate = value.parse()?,
            "--set" => {
                let (key, value) = value.split_once('=').ok_or(USAGE)?;
                options.set.insert(key.into(), value.into());
            }
            _ => return Err(USAGE.into()),
        }
    }
    Ok(options)
}

/// Uniform numbers in [0, 1) from a seed (SplitMix64): for what nothing protects.
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
