//! How good a model is at which ε, found out on rows about nobody.

use std::path::Path;

use dither_accounting::Composition;
use dither_core::Epsilon;
use serde::Serialize;

use crate::train::card::rounded_up;
use crate::train::data::Rows;
use crate::train::error::TrainError;
use crate::train::evaluation::accuracy_on;
use crate::train::job::Job;
use crate::train::load::Source;
use crate::train::reader::Reader;
use crate::train::session::TrainingSession;

/// No more points than somebody would wait for.
const MOST: usize = 32;

/// Noise of so many clipping norms hardly matters.
const HARDLY: f64 = 0.1;

/// One run of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// The goal; where the noise was given, what follows from it.
    pub epsilon: f64,
    /// What the run would have been charged, rounded up.
    pub price: String,
    /// σ, in clipping norms.
    pub noise_multiplier: f64,
    /// The share of the rows of `[evaluation]` that the model classifies rightly, without noise.
    pub accuracy: f64,
}

/// Trains a job once at each ε, in rising order, and measures every model on the rows of `[evaluation]`.
///
/// Everything is as in a run of the job, but that each run has a ledger of its own, which is thrown away with its model.
///
/// # Privacy
/// None, and nothing is charged to anybody: choosing an ε, or anything else, by what comes out on people would be a
/// release. So the job must say `public = true`, by which its steward declares that nobody is in its tables.
///
/// # Errors
/// A job that does not say so, has no `[evaluation]` with classes, or cannot be trained; no ε, or one twice.
pub async fn sweep(
    job: &Job,
    folder: &Path,
    epsilons: &[Epsilon],
    reader: Option<Reader>,
    done: &mut dyn FnMut(&Point),
) -> Result<Vec<Point>, TrainError> {
    let public = Public::of(job, folder, reader)?;
    let mut epsilons = epsilons.to_vec();
    epsilons.sort();
    if epsilons.is_empty() || epsilons.len() > MOST || epsilons.windows(2).any(|pair| pair[0] == pair[1]) {
        let problem = format!("{} values, or one of them twice", epsilons.len());
        return Err(TrainError::field("sweep", problem, format!("name 1 to {MOST} different ones")));
    }
    let mut points = Vec::new();
    for epsilon in epsilons {
        let point = public.at(epsilon).await?;
        done(&point);
        points.push(point);
    }
    Ok(points)
}

/// What an ε costs in accuracy on a table about nobody: the model of a run at that ε, and of one with hardly any noise.
///
/// # Privacy
/// As [`sweep`].
///
/// # Errors
/// As [`sweep`].
pub async fn proxy(
    job: &Job,
    folder: &Path,
    epsilon: Epsilon,
    reader: Option<Reader>,
) -> Result<[Point; 2], TrainError> {
    let public = Public::of(job, folder, reader)?;
    Ok([public.at(epsilon).await?, public.nearly_without_noise().await?])
}

/// A job about nobody, and the rows that its models are measured on.
struct Public<'a> {
    job: Job,
    rows: Rows,
    folder: &'a Path,
    reader: Option<Reader>,
}

impl<'a> Public<'a> {
    fn of(job: &Job, folder: &'a Path, reader: Option<Reader>) -> Result<Self, TrainError> {
        if !job.public {
            let problem =
                "training without a charge needs a table about nobody, and the job does not say that its is one";
            return Err(TrainError::field("public", problem, "write `public = true` if it is, or train and pay once"));
        }
        let mut job = job.clone();
        let Some(evaluation) = job.evaluation.take() else {
            let hint = "add `[evaluation]` with public test rows";
            return Err(TrainError::field("evaluation", "there is nothing to measure a model on", hint));
        };
        let unit = job.unit.column.as_deref();
        let rows = Source::open_with(&evaluation.data, folder, unit, reader)?.public_rows()?;
        Ok(Self { job, rows, folder, reader })
    }

    async fn at(&self, epsilon: Epsilon) -> Result<Point, TrainError> {
        let mut job = self.job.clone();
        (job.privacy.epsilon, job.privacy.noise_multiplier) = (Some(epsilon), None);
        job.ledger.epsilon = epsilon;
        self.point(job).await
    }

    async fn nearly_without_noise(&self) -> Result<Point, TrainError> {
        let mut job = self.job.clone();
        (job.privacy.epsilon, job.privacy.noise_multiplier) = (None, Some(HARDLY));
        job.ledger.epsilon = Epsilon::MAX;
        self.point(job).await
    }

    /// Trains once.
    async fn point(&self, mut job: Job) -> Result<Point, TrainError> {
        let temporary =
            |error: std::io::Error| TrainError::File { path: std::env::temp_dir(), problem: error.to_string() };
        let place = tempfile::tempdir().map_err(temporary)?;
        // The ledger must hold one run, whatever the real one allows and however it adds up.
        job.ledger.file = place.path().join("ledger.db");
        job.ledger.delta = job.privacy.delta;
        job.ledger.composition = Composition::Basic;
        job.output.folder = place.path().join("model");
        let wanted = job.privacy.epsilon;
        let mut session = TrainingSession::new(job, self.folder, self.reader)?;
        session.train(false, false, &mut |_| true).await?;
        let price = session.plan().price()?.best;
        Ok(Point {
            epsilon: wanted.map_or(price as f64 / 1e9, |epsilon| epsilon.as_f64()),
            price: rounded_up(price),
            noise_multiplier: session.plan().noise_multiplier(),
            accuracy: accuracy_on(session.model(), &self.rows)?,
        })
    }
}
