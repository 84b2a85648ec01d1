//! What a run would be charged, leave, need and last: all of it before the charge.

use std::fmt::{Display, Formatter, Write};

use dither_accounting::{Cost, Filter, Remaining, Spent};
use dither_core::Delta;
use dither_ledger::{Ledger, ScopePath};
use serde::Serialize;
use serde_json::{Value, json};

use crate::train::error::TrainError;
use crate::train::evaluation;
use crate::train::key::JobFile;
use crate::train::memory::{Memory, shown};
use crate::train::session::TrainingSession;
use crate::train::trainer::{Finished, request, unused};

/// What a run would be charged, leave, need and last.
///
/// # Privacy
/// It follows from the job, the ledger and the machine. No row is read, and nothing is charged.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forecast {
    /// Guarantee and plan, as the card will have them.
    pub plan: Value,
    /// ε of the evaluation, which is charged besides; its δ is zero.
    pub evaluation_epsilon: Option<f64>,
    /// The limit of the scope, and what is left of it.
    pub budget: BudgetForecast,
    /// About how much memory it takes.
    pub memory: Memory,
    /// About how long it takes.
    pub time: TimeForecast,
    /// What somebody should look at.
    pub warnings: Vec<String>,
}

/// What is left of a budget.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BudgetForecast {
    /// What is left now, in the tightest scope.
    pub left_now: Amounts,
    /// What is left after the run and its evaluation; nothing if they do not fit and would be refused.
    pub left_then: Option<Amounts>,
    /// Whether the run was charged before, so that it would be resumed for free.
    pub run_charged_before: bool,
    /// Whether the evaluation was, too.
    pub evaluation_charged_before: bool,
}

/// ε and δ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Amounts {
    /// ε.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
}

/// About how long a run takes, in seconds, from made-up rows of the longest length on this machine, as busy as it was.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TimeForecast {
    /// The clipped gradient of a unit, on one thread.
    pub unit: f64,
    /// Sampling, noise and the step of the optimiser.
    pub noise: f64,
    /// A whole step.
    pub step: f64,
    /// All steps.
    pub run: f64,
}

impl From<Remaining> for Amounts {
    fn from(left: Remaining) -> Self {
        Self { epsilon: left.epsilon_nanos as f64 / 1e9, delta: left.delta_attos as f64 / 1e18 }
    }
}

impl Display for Amounts {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        // Never more than there is; what is left of a decimal is one but for its last bits.
        write!(f, "ε {:.4}", (self.epsilon * 1e4 + 1e-6).floor() / 1e4)?;
        if self.delta == 0.0 { Ok(()) } else { write!(f, ", δ {:e}", self.delta) }
    }
}

impl TrainingSession {
    /// What the run would be charged, leave, need and last. It takes seconds: gradients of made-up rows and noise are timed.
    ///
    /// # Errors
    /// A ledger that cannot be read, and a folder with the checkpoint of another run.
    pub async fn forecast(&mut self) -> Result<Forecast, TrainError> {
        let budget = self.budget().await?;
        let time = self.time().await?;
        let price = self.plan().price()?;
        let epsilon = |nanos: Option<u64>| nanos.map(|nanos| nanos as f64 / 1e9);
        let plan: Value = serde_json::from_str(&self.plan().json()).unwrap_or_default();
        Ok(Forecast {
            plan: json!({
                "epsilon": price.best as f64 / 1e9,
                "epsilon_pld": epsilon(price.basic),
                "epsilon_rdp": epsilon(price.rdp),
                "steps": self.plan().steps(),
                "noise_to_signal": self.plan().noise_to_signal(),
                "plan": plan,
            }),
            evaluation_epsilon: self.job().evaluation.as_ref().map(|part| part.epsilon.as_f64()),
            budget,
            memory: *self.memory(),
            time,
            warnings: self.plan().warnings().iter().map(ToString::to_string).collect(),
        })
    }

    async fn time(&mut self) -> Result<TimeForecast, TrainError> {
        let (unit, noise) = self.timed().await?;
        let (plan, memory) = (self.plan(), self.memory());
        let expected = plan.expected_units();
        let batches = (expected / memory.physical as f64).ceil().max(f64::from(plan.parts()));
        let step = noise + unit * expected / (memory.threads as f64).min(batches);
        Ok(TimeForecast { unit, noise, step, run: step * plan.steps() as f64 })
    }

    /// What is left in all scopes that the run is charged in.
    async fn budget(&self) -> Result<BudgetForecast, TrainError> {
        let path = self.ledger_path();
        let (mut known, mut run, mut evaluated) = (Vec::new(), false, false);
        if path.exists() {
            let ledger = Ledger::open_existing(&path).await?;
            let found = async { Ok((ledger.scopes().await?, self.charged(&ledger).await?)) }.await;
            ledger.close().await;
            let found: Result<_, TrainError> = found;
            (known, (run, evaluated)) = found?;
        }
        let mut costs = Vec::new();
        if !run {
            unused(&self.checkpoint())?;
            costs.push(Cost::of(self.plan().event(), self.plan().delta())?);
        }
        if let (Some(part), false) = (&self.job().evaluation, evaluated) {
            let (rows, distance) = (self.plan().rows_per_unit(), self.plan().neighbors().distance());
            costs.push(Cost::of(&evaluation::noise(part, rows, distance)?.event(), Delta::ZERO)?);
        }
        let limits = self.job().limits();
        let lineage: Vec<ScopePath> = self.job().ledger.scope.lineage().collect();
        let (mut now, mut then): (Option<Remaining>, Option<Option<Remaining>>) = (None, None);
        for path in lineage {
            let status = known.iter().find(|status| status.limit.path == path);
            // What the job says of its own scope is declared with the charge, if it is no more than the ledger has.
            let own = limits.iter().find(|limit| limit.path == path);
            let limit = own.or(status.map(|status| &status.limit));
            let spent = status.map_or_else(Spent::default, |status| status.spent);
            let Some(limit) = limit else {
                then = Some(None);
                continue;
            };
            let raised = status.is_some_and(|status| {
                let (here, wanted) = (status.limit.budget, limit.budget);
                wanted.epsilon > here.epsilon || wanted.delta > here.delta
            });
            let filter = Filter { budget: limit.budget, composition: limit.composition };
            let here = filter.remaining(&spent);
            let after = costs.iter().try_fold(spent, |spent, cost| filter.admit(&spent, cost));
            let after = after.ok().filter(|_| !raised).map(|spent| filter.remaining(&spent));
            now = Some(now.map_or(here, |other| least(other, here)));
            then = Some(then.map_or(after, |other| Some(least(other?, after?))));
        }
        let zero = Remaining { epsilon_nanos: 0, delta_attos: 0 };
        Ok(BudgetForecast {
            left_now: now.unwrap_or(zero).into(),
            left_then: then.flatten().map(Amounts::from),
            run_charged_before: run,
            evaluation_charged_before: evaluated,
        })
    }

    /// Whether run and evaluation were charged before.
    async fn charged(&self, ledger: &Ledger) -> Result<(bool, bool), TrainError> {
        let (path, name) = (self.ledger_path(), self.job().name());
        if !JobFile::exists(&path, &name) {
            return Ok((false, false));
        }
        let key = JobFile::look(&path, &name)?;
        let (scope, physical) = (&self.job().ledger.scope, self.memory().physical);
        let run = request(scope, self.plan(), &self.job().schedule(), &self.description()?, physical, &key)?;
        if ledger.charge_of(run).await?.is_none() {
            return Ok((false, false));
        }
        let finished = ledger.answer::<Finished>(run).await?;
        let (Some(finished), Some(part)) = (finished, &self.job().evaluation) else { return Ok((true, false)) };
        let (measured, _) = evaluation::request(part, scope, &finished.value().weights, &key)?;
        Ok((true, ledger.charge_of(measured).await?.is_some()))
    }
}

impl Forecast {
    /// In words, what the summary of the plan does not say.
    pub fn words(&self) -> String {
        let mut text = String::new();
        let BudgetForecast { left_now, left_then, run_charged_before, evaluation_charged_before } = &self.budget;
        let _ = writeln!(text, "left now   {left_now}");
        let free = match (run_charged_before, self.evaluation_epsilon.is_some() && !evaluation_charged_before) {
            (false, _) => "",
            (true, true) => ", after the evaluation; the run was charged before, and --resume goes on for free",
            (true, false) => ": this was charged before, and --resume goes on for free",
        };
        let _ = match left_then {
            Some(then) => writeln!(text, "left then  {then}{free}"),
            None => writeln!(text, "left then  it does not fit and would be refused"),
        };
        let Memory { always, batch, physical, threads, .. } = self.memory;
        let _ = writeln!(
            text,
            "memory     about {}, from shapes, without the rows: {} for weights, optimiser and sums, {} for {physical} \
             units at once on {}",
            shown(self.memory.whole()),
            shown(always),
            shown(batch),
            if threads == 1 { "one thread".to_owned() } else { format!("each of {threads} threads") },
        );
        let TimeForecast { step, run, .. } = self.time;
        let _ = writeln!(
            text,
            "time       about {}, {} a step, from made-up rows of full length, while the machine is as busy as now",
            duration(run),
            duration(step)
        );
        text
    }
}

/// Seconds in words.
fn duration(seconds: f64) -> String {
    match seconds {
        _ if seconds < 1.0 => format!("{:.0} ms", (1000.0 * seconds).max(1.0)),
        _ if seconds < 100.0 => format!("{seconds:.1} s"),
        _ if seconds < 6000.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} hours", seconds / 3600.0),
    }
}

fn least(a: Remaining, b: Remaining) -> Remaining {
    Remaining { epsilon_nanos: a.epsilon_nanos.min(b.epsilon_nanos), delta_attos: a.delta_attos.min(b.delta_attos) }
}
