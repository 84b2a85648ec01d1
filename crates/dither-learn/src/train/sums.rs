//! The exact sum of a step: clipped gradients, part by part, on several threads.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use dither_core::GateError;

use crate::model::{Clipping, Model, Observed};
use crate::nn::{Buffer, add_to, squared};
use crate::train::adaptive::counted;
use crate::train::data::Table;
use crate::train::noise::{CHUNK, Lattice};
use crate::train::plan::DpPlan;

/// What adding up a sample takes.
pub(crate) struct Adder<'a, M: ?Sized> {
    pub model: &'a M,
    pub table: &'a Table,
    pub plan: &'a DpPlan,
    /// The clipping norm of the step.
    pub bound: f64,
    /// How many units are handed to the model at once, at most.
    pub physical: usize,
    /// How many threads work, at most.
    pub threads: usize,
}

/// Some units of a part.
struct Chunk<'a> {
    units: &'a [u32],
    /// How many units the whole part has.
    part: usize,
    first: bool,
    last: bool,
}

/// The lattice sum of a step.
///
/// Its last part is rounded where somebody asks for coordinates, so that a step with one part needs no integers for all
/// weights at once.
pub(crate) struct Sum {
    lattice: Lattice,
    bound: f64,
    /// The integers of all parts but the last; none where there are no others.
    integers: Vec<i64>,
    last: Part,
}

/// The sum of the clipped gradients of a part.
#[derive(Default)]
struct Part {
    /// None of a part that was not begun.
    floats: Buffer,
    units: usize,
}

/// What threads share.
struct Turn {
    /// The chunk that is taken next.
    taken: usize,
    /// The chunk that is added next.
    added: usize,
    sum: Sum,
    observed: Observed,
    /// What units counted, of adaptive clipping.
    counted: u64,
    failure: Option<String>,
}

impl<M: Model + ?Sized> Adder<'_, M> {
    /// The sum of all parts together, and what units count together, if the model tells norms.
    ///
    /// A part is cut into even chunks of at most `physical` units, but not outside of [`CHUNK`], which the allowance for
    /// floats asks for. Each is computed by one thread, from zero, and chunks are added in their order. So no bit depends on
    /// the number of threads or on who was faster: a step that is executed again is the same step.
    ///
    /// # Errors
    /// What the model says, and a sum that clipped gradients cannot have; norms that are not told, where they are needed.
    pub fn add(&self, parts: &[Vec<u32>]) -> Result<(Sum, Observed, u64), String> {
        let chunks: Vec<Chunk<'_>> = parts.iter().flat_map(|units| self.chunks(units)).collect();
        let (lattice, bound) = (self.plan.lattice(), self.bound);
        let sum = Sum { lattice, bound, integers: Vec::new(), last: Part::default() };
        let turn = Turn { taken: 0, added: 0, sum, observed: Observed::default(), counted: 0, failure: None };
        let shared = (Mutex::new(turn), Condvar::new());
        let others = self.threads.min(chunks.len()).saturating_sub(1);
        std::thread::scope(|scope| {
            for _ in 0..others {
                // Where the system has no more threads, the others do all the work.
                drop(std::thread::Builder::new().spawn_scoped(scope, || self.work(&chunks, &shared)));
            }
            self.work(&chunks, &shared);
        });
        let turn = shared.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        turn.failure.map_or(Ok((turn.sum, turn.observed, turn.counted)), Err)
    }

    fn chunks<'u>(&self, units: &'u [u32]) -> impl Iterator<Item = Chunk<'u>> {
        let count = units.len().div_ceil(self.physical.clamp(*CHUNK.start(), *CHUNK.end()));
        let end = move |index: usize| index * units.len() / count;
        (0..count).map(move |index| Chunk {
            units: &units[end(index)..end(index + 1)],
            part: units.len(),
            first: index == 0,
            last: index + 1 == count,
        })
    }

    /// Takes chunks until there are none.
    fn work(&self, chunks: &[Chunk<'_>], shared: &(Mutex<Turn>, Condvar)) {
        let _abandoned = Abandoned(shared);
        let clipping = self.plan.clipping_to(self.bound);
        loop {
            let mut turn = lock(shared);
            let index = turn.taken;
            let Some(chunk) = chunks.get(index).filter(|_| turn.failure.is_none()) else { return };
            turn.taken += 1;
            drop(turn);
            let mut sum = Buffer::zeros(self.plan.weights());
            let seen = self.clipped(chunk, &clipping, &mut sum);
            let waiting = |turn: &mut Turn| turn.added < index && turn.failure.is_none();
            let mut turn = shared.1.wait_while(lock(shared), waiting).unwrap_or_else(PoisonError::into_inner);
            match seen.and_then(|seen| self.merge(chunk, seen, sum, &mut turn)) {
                Ok(()) => turn.added += 1,
                Err(error) => turn.failure = Some(turn.failure.take().unwrap_or(error)),
            }
            shared.1.notify_all();
        }
    }

    /// Adds the clipped gradients of a chunk to a sum, in batches that the model takes.
    fn clipped(&self, chunk: &Chunk<'_>, clipping: &Clipping, sum: &mut [f32]) -> Result<Observed, String> {
        let mut all = Observed::default();
        for units in chunk.units.chunks(self.physical.max(1)) {
            let batch = self.table.batch(units);
            let seen = self.model.add_clipped(&batch, clipping, sum).map_err(|error| error.to_string())?;
            if self.plan.adaptive().is_some() && seen.norms.len() != units.len() {
                return Err("the model does not tell the norms that adaptive clipping counts".into());
            }
            all.append(seen);
        }
        Ok(all)
    }

    /// Adds the sum of a chunk to that of the step, and checks its part when it is whole.
    fn merge(&self, chunk: &Chunk<'_>, seen: Observed, floats: Buffer, turn: &mut Turn) -> Result<(), String> {
        turn.counted += seen.norms.iter().map(|norm| counted(*norm, self.bound)).sum::<u64>();
        turn.observed.append(seen);
        match chunk.first {
            true => turn.sum.begin(Part { floats, units: chunk.part }),
            false => add_to(&mut turn.sum.last.floats, &floats),
        }
        if chunk.last {
            let squared = squared(&turn.sum.last.floats);
            let checked = self.plan.lattice().check(squared, (chunk.part, self.bound));
            checked.map_err(|_: GateError| "the model gave a sum that clipped gradients cannot have")?;
        }
        Ok(())
    }
}

impl Sum {
    /// Overwrites integers with coordinates of the sum from a place on.
    pub fn copy(&self, from: usize, out: &mut [i64]) {
        let range = from..from + out.len();
        let Some(part) = self.last.floats.get(range.clone()) else { return out.fill(0) };
        if let Some(integers) = self.integers.get(range) {
            out.copy_from_slice(integers);
        }
        self.lattice.add(part, (self.last.units, self.bound), out, self.integers.is_empty());
    }

    /// Begins another part. The one before is whole: its integers are added to those of the others.
    fn begin(&mut self, part: Part) {
        let Part { floats, units } = std::mem::replace(&mut self.last, part);
        if !floats.is_empty() {
            self.integers.resize(floats.len(), 0);
            self.lattice.add(&floats, (units, self.bound), &mut self.integers, false);
        }
    }
}

/// Ends the work of all others if this thread panics, so that none waits for it.
struct Abandoned<'a>(&'a (Mutex<Turn>, Condvar));

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(self.0).failure = Some("a thread panicked".into());
            self.0.1.notify_all();
        }
    }
}

fn lock(shared: &(Mutex<Turn>, Condvar)) -> MutexGuard<'_, Turn> {
    shared.0.lock().unwrap_or_else(PoisonError::into_inner)
}
