//! How often trained models are right on rows that count as public, whatever their weights are made of.
//!
//! ```sh
//! cargo run --release -p dither-learn --example evaluate -- job.toml model small
//! ```
//!
//! The rows are those of `[evaluation]` in the job, compared with the predictions directly: without a charge and without
//! noise. The folders are those of `dither train` and `dither model quantize`.

use std::error::Error;
use std::path::{Path, PathBuf};

use dither_learn::model::Targets;
use dither_learn::train::folder::TrainedModel;
use dither_learn::train::job::{Job, ModelPart};
use dither_learn::train::load::Source;

/// How many rows are predicted at once.
const PREDICTED: usize = 1000;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut paths = std::env::args().skip(1).map(PathBuf::from);
    let path = paths.next().ok_or("evaluate job.toml FOLDER …")?;
    let job = Job::load(&path)?;
    let data = job.evaluation.ok_or("the job has no [evaluation], so no rows")?.data;
    let beside = path.parent().unwrap_or(Path::new(""));
    let rows = Source::open(&data, beside, None)?.public_rows()?;
    // Adapters stand beside the public weights that the job names.
    let base = match job.model {
        ModelPart::Network { weights, .. } => weights.map(|weights| beside.join(weights)),
        _ => None,
    };
    let numbers: Vec<u32> = (0..rows.count() as u32).collect();
    for folder in paths {
        let mut model = TrainedModel::open_beside(&folder, base.as_deref())?;
        let mut right = 0;
        for chunk in numbers.chunks(PREDICTED) {
            let scores = model.model().predict(&rows.inputs(chunk))?;
            let Targets::Classes(classes) = rows.targets(chunk) else { return Err("the label is no class".into()) };
            let outputs = scores.len() / classes.len();
            for (scores, class) in scores.chunks(outputs).zip(classes) {
                let best = (0..outputs).max_by(|a, b| scores[*a].total_cmp(&scores[*b]));
                right += usize::from(best == Some(class as usize));
            }
        }
        println!("{}: right in {right} of {} rows", folder.display(), rows.count());
    }
    Ok(())
}
